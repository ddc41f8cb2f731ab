//! Operations that all datagram sockets share.

/// Implements the operations that do not depend on the form of an address.
macro_rules! datagram {
    ($socket:ident, $address:ty) => {
        impl $socket {
            /// Receives a datagram; a longer one than `bytes` is truncated. If the future is
            /// dropped, it has received nothing.
            ///
            /// # Errors
            ///
            /// The system's error.
            pub async fn recv_from(&self, bytes: &mut [u8]) -> io::Result<(usize, $address)> {
                self.0.run(Reading, |socket| socket.recv_from(bytes)).await
            }

            /// As [`send_to`](Self::send_to), to the connected peer.
            ///
            /// # Errors
            ///
            /// The system's error.
            pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
                self.0.run(Writing, |socket| socket.send(bytes)).await
            }

            /// As [`recv_from`](Self::recv_from), from the connected peer.
            ///
            /// # Errors
            ///
            /// The system's error.
            pub async fn recv(&self, bytes: &mut [u8]) -> io::Result<usize> {
                self.0.run(Reading, |socket| socket.recv(bytes)).await
            }
        }
    };
}
pub(super) use datagram;
