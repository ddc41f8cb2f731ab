//! TCP.

use core::fmt;
use std::io;
use std::net::{self, SocketAddr, ToSocketAddrs};

use rast_executor::io as executor;

use super::backend::Io;
use super::listener::{Listener, family};
use super::stream::{Stream, stream};
#[cfg(target_os = "linux")]
use super::uring;

/// A socket that accepts connections.
///
/// ```
/// use rast_reactor::{Reactors, io::{TcpListener, TcpStream}, spawn_local};
///
/// let reactors = Reactors::builder().number(1).build().unwrap();
/// let task = reactors.reactor(0).unwrap().spawn(|| async {
///     let listener = TcpListener::bind("127.0.0.1:0").unwrap();
///     let address = listener.local_addr().unwrap();
///     let server = spawn_local(async move {
///         let stream = listener.accept().await.unwrap();
///         while let Some(chunk) = stream.chunk().await.unwrap() {
///             stream.write_all(chunk).await.0.unwrap();
///         }
///     });
///     let stream = TcpStream::connect(address).await.unwrap();
///     stream.write_all("hello").await.0.unwrap();
///     let (read, bytes) = stream.read_exact(vec![0; 5]).await;
///     read.unwrap();
///     drop(stream);
///     server.await.unwrap();
///     bytes
/// });
/// assert_eq!(rast_reactor::executor::block_on(task).unwrap(), b"hello");
/// ```
pub struct TcpListener(Listener<executor::TcpListener>);

impl TcpListener {
    /// Binds to the first address that the system gives, and listens.
    ///
    /// # Errors
    ///
    /// The system's error for the last address.
    ///
    /// # Panics
    ///
    /// Outside of a reactor.
    #[track_caller]
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::from_std(net::TcpListener::bind(address)?)
    }

    /// Returns the address that it listens on.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        address(self.0.socket().local_addr())
    }
}

/// A connection.
///
/// Reading and writing take it by shared reference, so two tasks may do one each. See
/// [`TcpListener`] for an example.
pub struct TcpStream(Stream<executor::TcpStream>);

impl TcpStream {
    /// Connects to `address`.
    ///
    /// # Errors
    ///
    /// The system's error.
    ///
    /// # Panics
    ///
    /// Outside of a reactor.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let io = Io::current();
        #[cfg(target_os = "linux")]
        if let Some(ring) = &io.ring {
            let stream = uring::connect(ring, address.into()).await?;
            return Ok(Self(Stream::Ring(stream)));
        }
        let stream = executor::TcpStream::connect(address).await?;
        Ok(Self(Stream::ready(&io, stream)))
    }

    /// Sends what is written at once, and does not wait for more.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn set_nodelay(&self, at_once: bool) -> io::Result<()> {
        self.0.socket().set_tcp_nodelay(at_once)
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        address(self.0.socket().local_addr())
    }

    /// Returns the address of the other end.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        address(self.0.socket().peer_addr())
    }
}

stream!(TcpStream);
family!(TcpListener, Incoming, TcpStream);

fn address(address: io::Result<socket2::SockAddr>) -> io::Result<SocketAddr> {
    let other = || io::Error::other("an address of another family");
    address?.as_socket().ok_or_else(other)
}
