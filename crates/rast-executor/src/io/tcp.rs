//! TCP.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use super::Source;
use super::readiness::Direction::{Reading, Writing};
use super::stream::{handle, stream};

/// Tries each address in turn. Resolving a name may block, so pass addresses inside tasks.
pub(super) fn each<T>(
    addresses: impl ToSocketAddrs,
    mut attempt: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut error = io::Error::new(io::ErrorKind::InvalidInput, "no address");
    for address in addresses.to_socket_addrs()? {
        match attempt(address) {
            Ok(value) => return Ok(value),
            Err(other) => error = other,
        }
    }
    Err(error)
}

/// A socket that accepts connections.
///
/// ```
/// use rast_executor::{Runtime, io::{TcpListener, TcpStream}, spawn};
///
/// let runtime = Runtime::new().unwrap();
/// runtime.block_on(async {
///     let listener = TcpListener::bind("127.0.0.1:0").unwrap();
///     let address = listener.local_addr().unwrap();
///     let server = spawn(async move {
///         let (stream, _) = listener.accept().await.unwrap();
///         let mut bytes = [0; 5];
///         stream.read_exact(&mut bytes).await.unwrap();
///         stream.write_all(&bytes).await.unwrap();
///     });
///     let stream = TcpStream::connect(address).await.unwrap();
///     stream.write_all(b"hello").await.unwrap();
///     let mut bytes = [0; 5];
///     stream.read_exact(&mut bytes).await.unwrap();
///     assert_eq!(&bytes, b"hello");
///     server.await.unwrap();
/// });
/// ```
#[derive(Debug)]
pub struct TcpListener(Source<mio::net::TcpListener>);

impl TcpListener {
    /// Binds to the first address that the system gives, and listens.
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
        let socket = each(address, mio::net::TcpListener::bind)?;
        Source::new(socket).map(Self)
    }

    /// Waits for a connection. Any number of tasks may wait; dropping the future loses no
    /// connection.
    ///
    /// # Errors
    ///
    /// The system's error. After an error of one connection the listener still works.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let accept = |socket: &mio::net::TcpListener| socket.accept();
        let (socket, address) = self.0.run(Reading, accept).await?;
        Ok((TcpStream(self.0.beside(socket)?), address))
    }

    /// Returns the local address.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.socket().local_addr()
    }
}

handle!(TcpListener, std::net::TcpListener);

/// A connection.
///
/// Reading and writing use a shared reference, so one task may read while another one writes. See
/// [`TcpListener`] for an example.
///
/// A read skips an urgent byte (`MSG_OOB`) of the peer. To receive such bytes, set `SO_OOBINLINE`
/// through the descriptor; then they are read like the others.
#[derive(Debug)]
pub struct TcpStream(pub(super) Source<mio::net::TcpStream>);

impl TcpStream {
    /// Connects to `address`.
    ///
    /// # Errors
    ///
    /// The system's error.
    ///
    /// # Panics
    ///
    /// Outside of an executor with sockets.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let source = Source::new(mio::net::TcpStream::connect(address)?)?;
        source
            .run(Writing, |socket| {
                if let Some(error) = socket.take_error()? {
                    return Err(error);
                }
                match socket.peer_addr() {
                    Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                        Err(io::ErrorKind::WouldBlock.into())
                    }
                    result => result,
                }
            })
            .await?;
        Ok(Self(source))
    }

    /// If `at_once`, sends written bytes immediately, without waiting for further ones.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn set_nodelay(&self, at_once: bool) -> io::Result<()> {
        self.0.socket().set_nodelay(at_once)
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.socket().local_addr()
    }

    /// Returns the address of the other end.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.socket().peer_addr()
    }
}

stream!(TcpStream, std::net::TcpStream);
