//! Sockets of the Unix domain.

use std::io::{self, Read, Write};
use std::path::Path;

use super::Source;
use super::reactor::Direction::{Reading, Writing};
use super::tcp::stream;

/// A socket of the Unix domain that accepts connections.
#[derive(Debug)]
pub struct UnixListener(Source<mio::net::UnixListener>);

impl UnixListener {
    /// Binds to a path, which must not exist, and listens.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// Outside of a [`Runtime`](crate::Runtime).
    #[track_caller]
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Source::new(mio::net::UnixListener::bind(path)?).map(Self)
    }

    /// Waits for a connection. Any number of tasks may; dropping the future loses none.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        let accept = |socket: &mio::net::UnixListener| socket.accept();
        let (socket, _) = self.0.run(Reading, accept).await?;
        Ok(UnixStream(self.0.beside(socket)?))
    }
}

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
    /// What the system says.
    ///
    /// # Panics
    ///
    /// Outside of a [`Runtime`](crate::Runtime).
    #[track_caller]
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        Source::new(mio::net::UnixStream::connect(path)?).map(Self)
    }

    /// Makes two ends that are connected.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// Outside of a [`Runtime`](crate::Runtime).
    #[track_caller]
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = mio::net::UnixStream::pair()?;
        Ok((Self(Source::new(one)?), Self(Source::new(other)?)))
    }

    /// Closes one direction, or both.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn shutdown(&self, how: std::net::Shutdown) -> io::Result<()> {
        self.0.socket().shutdown(how)
    }
}

stream!(UnixStream);
