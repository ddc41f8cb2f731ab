//! Sockets of the Unix domain.

use std::io;
use std::os::unix::net::SocketAddr;
use std::path::Path;

use super::Source;
use super::datagram::datagram;
use super::readiness::Direction::{Reading, Writing};
use super::stream::{handle, stream};

/// A socket of the Unix domain that accepts connections.
#[derive(Debug)]
pub struct UnixListener(Source<mio::net::UnixListener>);

impl UnixListener {
    /// Binds to a path, which must not exist, and listens.
    ///
    /// # Errors
    ///
    /// The system's error.
    ///
    /// # Panics
    ///
    /// Outside of an executor with sockets.
    #[track_caller]
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Source::new(mio::net::UnixListener::bind(path)?).map(Self)
    }

    /// Waits for a connection. Any number of tasks may wait; dropping the future loses no
    /// connection.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        let accept = |socket: &mio::net::UnixListener| socket.accept();
        let (socket, _) = self.0.run(Reading, accept).await?;
        Ok(UnixStream(self.0.beside(socket)?))
    }
}

handle!(UnixListener, std::os::unix::net::UnixListener);

/// A connection of the Unix domain.
///
/// ```
/// use rast_executor::{Runtime, io::UnixStream};
///
/// let runtime = Runtime::new().unwrap();
/// runtime.block_on(async {
///     let (a, b) = UnixStream::pair().unwrap();
///     a.write_all(b"hello").await.unwrap();
///     let mut bytes = [0; 5];
///     b.read_exact(&mut bytes).await.unwrap();
///     assert_eq!(&bytes, b"hello");
/// });
/// ```
#[derive(Debug)]
pub struct UnixStream(pub(super) Source<mio::net::UnixStream>);

impl UnixStream {
    /// Connects to the socket at a path.
    ///
    /// # Errors
    ///
    /// The system's error.
    ///
    /// # Panics
    ///
    /// Outside of an executor with sockets.
    #[track_caller]
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        Source::new(mio::net::UnixStream::connect(path)?).map(Self)
    }

    /// Makes two ends that are connected.
    ///
    /// # Errors
    ///
    /// The system's error.
    ///
    /// # Panics
    ///
    /// Outside of an executor with sockets.
    #[track_caller]
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = mio::net::UnixStream::pair()?;
        Ok((Self(Source::new(one)?), Self(Source::new(other)?)))
    }
}

stream!(UnixStream, std::os::unix::net::UnixStream);

/// A socket for datagrams of the Unix domain.
///
/// ```
/// use rast_executor::{Runtime, io::UnixDatagram};
///
/// let runtime = Runtime::new().unwrap();
/// runtime.block_on(async {
///     let (a, b) = UnixDatagram::pair().unwrap();
///     a.send(b"hello").await.unwrap();
///     let mut bytes = [0; 16];
///     let count = b.recv(&mut bytes).await.unwrap();
///     assert_eq!(&bytes[..count], b"hello");
/// });
/// ```
#[derive(Debug)]
pub struct UnixDatagram(Source<mio::net::UnixDatagram>);

impl UnixDatagram {
    /// Binds to a path, which must not exist.
    ///
    /// # Errors
    ///
    /// The system's error.
    ///
    /// # Panics
    ///
    /// Outside of an executor with sockets.
    #[track_caller]
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Source::new(mio::net::UnixDatagram::bind(path)?).map(Self)
    }

    /// Makes a socket without a path: it sends, and nothing can be sent to it.
    ///
    /// # Errors
    ///
    /// The system's error.
    ///
    /// # Panics
    ///
    /// Outside of an executor with sockets.
    #[track_caller]
    pub fn unbound() -> io::Result<Self> {
        Source::new(mio::net::UnixDatagram::unbound()?).map(Self)
    }

    /// Makes two sockets that are connected.
    ///
    /// # Errors
    ///
    /// The system's error.
    ///
    /// # Panics
    ///
    /// Outside of an executor with sockets.
    #[track_caller]
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = mio::net::UnixDatagram::pair()?;
        Ok((Self(Source::new(one)?), Self(Source::new(other)?)))
    }

    /// Sets the other end: [`send`](Self::send) goes there, and datagrams of others are dropped.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.0.socket().connect(path)
    }

    /// Sends a datagram to the socket at `path`; returns its length. A dropped future has sent
    /// nothing.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub async fn send_to(&self, bytes: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        let path = path.as_ref();
        self.0
            .run(Writing, |socket| socket.send_to(bytes, path))
            .await
    }
}

datagram!(UnixDatagram, SocketAddr);
