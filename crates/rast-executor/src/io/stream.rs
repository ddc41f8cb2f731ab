//! Reading and writing of byte streams, the same for each kind of socket.

#[cfg(any(feature = "tokio", feature = "hyper"))]
use core::mem::MaybeUninit;
use core::task::{Context, Poll};
use std::io::{self, Read, Write};

use super::Source;
use super::readiness::Direction::{self, Reading, Writing};
use super::readiness::Ticket;

/// `true` if the poll reports an edge even if no operation has failed since the last one. It does
/// not where mio emulates edges.
const EDGES: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Maximum number of slices of one system call on Linux and Android.
#[cfg(any(feature = "futures-io", feature = "tokio", feature = "hyper"))]
const SLICES_MAX: usize = 1024;

impl<S: mio::event::Source + TryIo> Source<S>
where
    for<'a> &'a S: Read + Write,
{
    /// Reads into `bytes`, or waits for bytes, by a ticket if there is one.
    pub(super) fn poll_read(
        &self,
        ticket: Option<&mut Ticket>,
        cx: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Polled {
        let len = bytes.len();
        self.poll_part(Reading, cx, ticket, len, |mut socket| socket.read(bytes))
    }

    /// As [`poll_read`](Self::poll_read), into uninitialised memory. As many bytes as it returns
    /// are then initialised.
    #[cfg(any(feature = "tokio", feature = "hyper"))]
    pub(super) fn poll_read_uninit(
        &self,
        cx: &mut Context<'_>,
        bytes: &mut [MaybeUninit<u8>],
    ) -> Polled
    where
        for<'a> socket2::SockRef<'a>: From<&'a S>,
    {
        let len = bytes.len();
        self.poll_part(Reading, cx, None, len, |socket| {
            socket.try_io(|| socket2::SockRef::from(socket).recv(bytes))
        })
    }

    /// Writes a part of `bytes`, or waits for space, by a ticket if there is one.
    pub(super) fn poll_write(
        &self,
        ticket: Option<&mut Ticket>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Polled {
        let write = |mut socket: &S| socket.write(bytes);
        self.poll_part(Writing, cx, ticket, bytes.len(), write)
    }

    /// As [`poll_write`](Self::poll_write), from several buffers.
    #[cfg(any(feature = "futures-io", feature = "tokio", feature = "hyper"))]
    pub(super) fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Polled {
        // What one call may write: std passes on no more slices.
        let first = slices.iter().take(SLICES_MAX);
        let len = first.map(|slice| slice.len()).sum();
        self.poll_part(Writing, cx, None, len, |mut socket| {
            socket.write_vectored(slices)
        })
    }

    /// If an operation transferred some bytes, but fewer than `len`, it has emptied or filled the
    /// system's buffer. If [`EDGES`] is `true`, the next operation then waits for an edge, without
    /// a call that would fail. The exception is a read of a socket that has [`TryIo::BOUNDS`].
    fn poll_part(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        ticket: Option<&mut Ticket>,
        len: usize,
        operation: impl FnMut(&S) -> io::Result<usize>,
    ) -> Polled {
        let is_last = EDGES && !(direction == Reading && S::BOUNDS);
        self.poll(direction, cx, ticket, operation, |&count| {
            is_last && count > 0 && count < len
        })
    }

    pub(super) async fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.wait(Reading, |cx, ticket| {
            self.poll_read(Some(ticket), cx, bytes)
        })
        .await
    }

    pub(super) async fn read_exact(&self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self.read(bytes).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes = &mut bytes[count..];
        }
        Ok(())
    }

    /// Awaits an operation on the socket that takes at most `len` bytes.
    pub(super) async fn part_with(
        &self,
        direction: Direction,
        len: usize,
        mut operation: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.wait(direction, |cx, ticket| {
            self.poll_part(direction, cx, Some(ticket), len, |socket| {
                socket.try_io(&mut operation)
            })
        })
        .await
    }

    pub(super) async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.wait(Writing, |cx, ticket| {
            self.poll_write(Some(ticket), cx, bytes)
        })
        .await
    }

    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self.write(bytes).await?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[count..];
        }
        Ok(())
    }
}

/// Sockets with mio's `try_io`, which arms the poll again where mio emulates edges.
pub(crate) trait TryIo {
    /// `true` if a read may end before the queued bytes do, and the poll does not report that. A
    /// Unix stream ends a read behind bytes that were sent with descriptors, and between the bytes
    /// of different senders if it reports their credentials.
    const BOUNDS: bool;

    fn try_io<T>(&self, operation: impl FnOnce() -> io::Result<T>) -> io::Result<T>;
}

macro_rules! try_io {
    ($socket:ty, $bounds:literal) => {
        impl TryIo for $socket {
            const BOUNDS: bool = $bounds;

            fn try_io<T>(&self, operation: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
                <$socket>::try_io(self, operation)
            }
        }
    };
}

try_io!(mio::net::TcpStream, false);
#[cfg(unix)]
try_io!(mio::net::UnixStream, true);

/// How many bytes an operation took.
type Polled = Poll<io::Result<usize>>;

/// The methods of a stream.
macro_rules! stream {
    ($stream:ident, $std:ty) => {
        $crate::io::stream::handle!($stream, $std);

        impl $stream {
            /// Reads at least one byte; 0 means that the other end has closed. If the future is
            /// dropped, it has read nothing.
            ///
            /// # Errors
            ///
            /// The system's error.
            pub async fn read(&self, bytes: &mut [u8]) -> std::io::Result<usize> {
                self.0.read(bytes).await
            }

            /// Fills `bytes`. If the future is dropped, it may have read a part.
            ///
            /// # Errors
            ///
            /// `UnexpectedEof` if the other end closes first; otherwise the system's error.
            pub async fn read_exact(&self, bytes: &mut [u8]) -> std::io::Result<()> {
                self.0.read_exact(bytes).await
            }

            /// Writes at least one byte, and returns the number. If the future is dropped, it has
            /// written nothing.
            ///
            /// # Errors
            ///
            /// The system's error.
            pub async fn write(&self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.write(bytes).await
            }

            /// Writes all of `bytes`. If the future is dropped, it may have written a part.
            ///
            /// # Errors
            ///
            /// `WriteZero` if the system accepts no byte; otherwise the system's error.
            pub async fn write_all(&self, bytes: &[u8]) -> std::io::Result<()> {
                self.0.write_all(bytes).await
            }

            /// Calls `operation`, a system call that reads at most `len` bytes from this socket. If
            /// it would block, waits until the socket is ready and calls it again. A dropped future
            /// has read nothing.
            ///
            /// If `operation` returns at least one byte but fewer than `len`, the system's buffer
            /// counts as empty. On Linux and Android the next read of a TCP socket then waits until
            /// more bytes arrive, before it makes a system call.
            ///
            /// # Errors
            ///
            /// What `operation` returns, except `WouldBlock` and `Interrupted`.
            pub async fn read_with(
                &self,
                len: usize,
                operation: impl FnMut() -> std::io::Result<usize>,
            ) -> std::io::Result<usize> {
                self.0.part_with(Reading, len, operation).await
            }

            /// As [`read_with`](Self::read_with), for an operation that writes. On Linux and
            /// Android the next write of any socket waits if this one wrote fewer bytes than `len`.
            /// So `len` must not count slices beyond the first 1,024, which is the maximum of a
            /// system call.
            ///
            /// # Errors
            ///
            /// What `operation` returns, except `WouldBlock` and `Interrupted`.
            pub async fn write_with(
                &self,
                len: usize,
                operation: impl FnMut() -> std::io::Result<usize>,
            ) -> std::io::Result<usize> {
                self.0.part_with(Writing, len, operation).await
            }

            /// Closes one direction, or both.
            ///
            /// # Errors
            ///
            /// The system's error.
            pub fn shutdown(&self, how: std::net::Shutdown) -> std::io::Result<()> {
                self.0.socket().shutdown(how)
            }
        }
    };
}
pub(super) use stream;

/// The conversion of a socket of std, and the system's handle of the socket, for options that have
/// no method here. The socket must stay non-blocking.
macro_rules! handle {
    ($socket:ident, $std:ty) => {
        impl $socket {
            /// Converts a socket of std.
            ///
            /// # Errors
            ///
            /// The system's error.
            ///
            /// # Panics
            ///
            /// Outside of an executor with sockets.
            #[track_caller]
            pub fn from_std(socket: $std) -> std::io::Result<Self> {
                socket.set_nonblocking(true)?;
                Source::new(mio::net::$socket::from_std(socket)).map(Self)
            }
        }

        #[cfg(unix)]
        impl std::os::fd::AsFd for $socket {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.0.socket().as_fd()
            }
        }

        #[cfg(windows)]
        impl std::os::windows::io::AsSocket for $socket {
            fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
                self.0.socket().as_socket()
            }
        }
    };
}
pub(super) use handle;
