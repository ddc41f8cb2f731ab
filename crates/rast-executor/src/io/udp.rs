//! UDP.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use super::Source;
use super::datagram::datagram;
use super::readiness::Direction::{Reading, Writing};
use super::tcp::each;

/// A socket for datagrams.
///
/// ```
/// use rast_executor::{Runtime, io::UdpSocket};
///
/// let runtime = Runtime::new().unwrap();
/// runtime.block_on(async {
///     let a = UdpSocket::bind("127.0.0.1:0").unwrap();
///     let b = UdpSocket::bind("127.0.0.1:0").unwrap();
///     a.send_to(b"hello", b.local_addr().unwrap()).await.unwrap();
///     let mut bytes = [0; 16];
///     let (count, from) = b.recv_from(&mut bytes).await.unwrap();
///     assert_eq!((&bytes[..count], from), (&b"hello"[..], a.local_addr().unwrap()));
/// });
/// ```
#[derive(Debug)]
pub struct UdpSocket(Source<mio::net::UdpSocket>);

impl UdpSocket {
    /// Binds to the first address that the system gives.
    ///
    /// # Errors
    ///
    /// The system's error for the last address.
    ///
    /// # Panics
    ///
    /// Outside of an executor with sockets.
    #[track_caller]
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        Source::new(each(address, mio::net::UdpSocket::bind)?).map(Self)
    }

    /// Sets the other end: [`send`](Self::send) goes there, and datagrams of others are dropped.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn connect(&self, address: SocketAddr) -> io::Result<()> {
        self.0.socket().connect(address)
    }

    /// Sends a datagram to `address`; returns its length. A dropped future has sent nothing.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub async fn send_to(&self, bytes: &[u8], address: SocketAddr) -> io::Result<usize> {
        self.0
            .run(Writing, |socket| socket.send_to(bytes, address))
            .await
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.socket().local_addr()
    }
}

datagram!(UdpSocket, SocketAddr);
