//! A byte stream of either backend.

use std::io;
use std_alloc::rc::Rc;

use socket2::SockRef;

use super::backend::Io;
use super::buffer::{Buffer, BufferMut};
use super::chunk::Chunk;
use super::ready::{self, Ready};
#[cfg(target_os = "linux")]
use super::uring;

/// The socket of a stream.
pub(crate) enum Stream<R> {
    Ready {
        stream: R,
        io: Rc<Io>,
    },
    #[cfg(target_os = "linux")]
    Ring(uring::Stream),
}

impl<R: Ready> Stream<R> {
    pub(crate) fn ready(io: &Rc<Io>, stream: R) -> Self {
        let io = Rc::clone(io);
        Self::Ready { stream, io }
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn on_ring(ring: &Rc<uring::Ring>, fd: std::os::fd::OwnedFd) -> Self {
        Self::Ring(uring::Stream::new(ring, Rc::new(fd)))
    }

    pub(crate) fn socket(&self) -> SockRef<'_> {
        match self {
            Self::Ready { stream, .. } => stream.socket(),
            #[cfg(target_os = "linux")]
            Self::Ring(stream) => SockRef::from(stream.fd()),
        }
    }

    pub(crate) async fn read<B: BufferMut>(&self, buffer: B) -> (io::Result<usize>, B) {
        match self {
            Self::Ready { stream, io } => ready::read(stream, io, buffer).await,
            #[cfg(target_os = "linux")]
            Self::Ring(stream) => stream.read(buffer).await,
        }
    }

    pub(crate) async fn write_from<B: Buffer>(
        &self,
        buffer: B,
        begin: usize,
    ) -> (io::Result<usize>, B) {
        match self {
            Self::Ready { stream, io } => ready::write(stream, io, buffer, begin).await,
            #[cfg(target_os = "linux")]
            Self::Ring(stream) => stream.write(buffer, begin).await,
        }
    }

    pub(crate) async fn read_exact<B: BufferMut>(&self, mut buffer: B) -> (io::Result<()>, B) {
        let len = buffer.len();
        let mut begin = 0;
        while begin < len {
            let (result, part) = self.read(buffer.slice(begin..len)).await;
            buffer = part.into_inner();
            let count = match result {
                Ok(0) => return (Err(io::ErrorKind::UnexpectedEof.into()), buffer),
                Ok(count) => count,
                Err(error) => return (Err(error), buffer),
            };
            begin += count;
            // SAFETY: so many bytes were initialised when this began, and a read makes none less.
            unsafe { buffer.set_len(len) };
        }
        (Ok(()), buffer)
    }

    pub(crate) async fn write_all<B: Buffer>(&self, buffer: B) -> (io::Result<()>, B) {
        write_all(buffer, async |buffer, begin| {
            self.write_from(buffer, begin).await
        })
        .await
    }

    pub(crate) async fn chunk(&self) -> io::Result<Option<Chunk>> {
        match self {
            Self::Ready { stream, io } => ready::chunk(stream, io).await,
            #[cfg(target_os = "linux")]
            Self::Ring(stream) => stream.chunk().await,
        }
    }
}

/// Writes all of the buffer by writes that begin somewhere in it.
pub(crate) async fn write_all<B: Buffer>(
    mut buffer: B,
    mut write: impl AsyncFnMut(B, usize) -> (io::Result<usize>, B),
) -> (io::Result<()>, B) {
    let mut begin = 0;
    while begin < buffer.len() {
        let (result, whole) = write(buffer, begin).await;
        buffer = whole;
        match result {
            Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), buffer),
            Ok(count) => begin += count,
            Err(error) => return (Err(error), buffer),
        }
    }
    (Ok(()), buffer)
}

/// The methods of a stream.
macro_rules! stream {
    ($stream:ty) => {
        impl $stream {
            /// Waits for at least one byte, reads into `buffer` from its start, and returns the
            /// number of bytes. 0 means that the other end has closed, or that the buffer has no
            /// room. The length of a vector is set to the number of bytes read.
            ///
            /// Dropping the future loses no bytes: the next read returns those that the dropped
            /// read has received.
            ///
            /// # Errors
            ///
            /// The system's error; the buffer is returned too.
            pub async fn read<B: $crate::io::BufferMut>(
                &self,
                buffer: B,
            ) -> (std::io::Result<usize>, B) {
                self.0.read(buffer).await
            }

            /// Fills the initialised bytes of `buffer`. A dropped future may have read a part.
            ///
            /// # Errors
            ///
            /// `UnexpectedEof` if the other end closes first; otherwise the system's error.
            pub async fn read_exact<B: $crate::io::BufferMut>(
                &self,
                buffer: B,
            ) -> (std::io::Result<()>, B) {
                self.0.read_exact(buffer).await
            }

            /// The next bytes, in memory of the reactor; `None` if the other end has closed.
            ///
            /// A connection that waits for data holds no memory for chunks. With io_uring one
            /// operation receives all chunks after the first call. Dropping the future loses no
            /// bytes.
            ///
            /// # Errors
            ///
            /// The system's error.
            pub async fn chunk(&self) -> std::io::Result<Option<$crate::io::Chunk>> {
                self.0.chunk().await
            }

            /// Writes at least one byte of `buffer`, unless it is empty, and returns how many. A
            /// dropped future may have written a part.
            ///
            /// # Errors
            ///
            /// The system's error; the buffer is returned too.
            pub async fn write<B: $crate::io::Buffer>(
                &self,
                buffer: B,
            ) -> (std::io::Result<usize>, B) {
                self.0.write_from(buffer, 0).await
            }

            /// Writes all of `buffer`. A dropped future may have written a part.
            ///
            /// # Errors
            ///
            /// `WriteZero` if the system accepts no byte; otherwise the system's error.
            pub async fn write_all<B: $crate::io::Buffer>(
                &self,
                buffer: B,
            ) -> (std::io::Result<()>, B) {
                self.0.write_all(buffer).await
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

        impl core::fmt::Debug for $stream {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_tuple(stringify!($stream))
                    .field(&*self.0.socket())
                    .finish()
            }
        }
    };
}
pub(super) use stream;
