//! Sockets of the Unix domain.

use core::fmt;
use core::time::Duration;
use std::io;
use std::os::unix::net;
use std::path::Path;

use rast_executor::io as executor;
use rast_executor::sleep;

use super::backend::Io;
use super::listener::{Listener, family};
use super::stream::{Stream, stream};
#[cfg(target_os = "linux")]
use super::uring;

/// A socket of the Unix domain that accepts connections.
///
/// ```
/// use rast_reactor::{Reactors, io::{UnixListener, UnixStream}};
///
/// let path = std::env::temp_dir().join(format!("rast-reactor-doc-{}", std::process::id()));
/// let theirs = path.clone();
/// let reactors = Reactors::builder().number(1).build().unwrap();
/// let task = reactors.reactor(0).unwrap().spawn(move || async move {
///     let listener = UnixListener::bind(&theirs).unwrap();
///     let client = UnixStream::connect(&theirs).await.unwrap();
///     let server = listener.accept().await.unwrap();
///     client.write_all("hello").await.0.unwrap();
///     server.read_exact(vec![0; 5]).await.1
/// });
/// assert_eq!(rast_reactor::executor::block_on(task).unwrap(), b"hello");
/// std::fs::remove_file(path).unwrap();
/// ```
pub struct UnixListener(Listener<executor::UnixListener>);

impl UnixListener {
    /// Binds to a path, which must not exist, and listens.
    ///
    /// # Errors
    ///
    /// The system's error.
    ///
    /// # Panics
    ///
    /// Outside of a reactor.
    #[track_caller]
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_std(net::UnixListener::bind(path)?)
    }
}

/// A connection of the Unix domain. See [`UnixListener`] for an example.
pub struct UnixStream(Stream<executor::UnixStream>);

impl UnixStream {
    /// Connects to the socket at a path. Waits while the queue of its listener is full.
    ///
    /// # Errors
    ///
    /// The system's error.
    ///
    /// # Panics
    ///
    /// Outside of a reactor.
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        let io = Io::current();
        #[cfg(target_os = "linux")]
        if let Some(ring) = &io.ring {
            let address = socket2::SockAddr::unix(path)?;
            let stream = uring::connect(ring, address).await?;
            return Ok(Self(Stream::Ring(stream)));
        }
        // The poll does not report that a queue has room again.
        let mut pause = Duration::from_millis(1);
        let stream = loop {
            match executor::UnixStream::connect(&path) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(pause).await,
                connected => break connected?,
            }
            pause = (pause * 2).min(Duration::from_millis(64));
        };
        Ok(Self(Stream::ready(&io, stream)))
    }

    /// Makes two ends that are connected.
    ///
    /// # Errors
    ///
    /// The system's error.
    ///
    /// # Panics
    ///
    /// Outside of a reactor.
    #[track_caller]
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = net::UnixStream::pair()?;
        Ok((Self::from_std(one)?, Self::from_std(other)?))
    }
}

stream!(UnixStream);
family!(UnixListener, UnixIncoming, UnixStream);
