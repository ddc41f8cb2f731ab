//! What sockets for datagrams have in common.

/// Implements the operations that do not depend on how an address is passed.
macro_rules! datagram {
    ($socket:ident, $address:ty) => {
        impl $socket {
            /// Receives a datagram; what does not fit is cut off. A dropped future has received
            /// nothing.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub async fn recv_from(&self, bytes: &mut [u8]) -> io::Result<(usize, $address)> {
                self.0.run(Reading, |socket| socket.recv_from(bytes)).await
            }

            /// As [`send_to`](Self::send_to), to the other end.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
                self.0.run(Writing, |socket| socket.send(bytes)).await
            }

            /// As [`recv_from`](Self::recv_from), from the other end.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub async fn recv(&self, bytes: &mut [u8]) -> io::Result<usize> {
                self.0.run(Reading, |socket| socket.recv(bytes)).await
            }
        }
    };
}
pub(super) use datagram;
