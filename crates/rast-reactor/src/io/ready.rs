//! Streams by readiness: the thread itself reads and writes, so a dropped future leaves nothing
//! behind.

use std::io::{self, Read};
use std_alloc::vec;

use rast_executor::io::TcpStream;
#[cfg(unix)]
use rast_executor::io::UnixStream;
use socket2::SockRef;

use super::backend::Io;
use super::buffer::{Buffer, BufferMut};
use super::chunk::Chunk;
use super::faults::{Attempt, Fault};

/// A stream of the executor.
pub(crate) trait Ready {
    fn socket(&self) -> SockRef<'_>;

    async fn read_with(
        &self,
        len: usize,
        operation: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize>;

    async fn write_with(
        &self,
        len: usize,
        operation: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize>;
}

macro_rules! ready {
    ($stream:ty) => {
        impl Ready for $stream {
            fn socket(&self) -> SockRef<'_> {
                SockRef::from(self)
            }

            async fn read_with(
                &self,
                len: usize,
                operation: impl FnMut() -> io::Result<usize>,
            ) -> io::Result<usize> {
                <$stream>::read_with(self, len, operation).await
            }

            async fn write_with(
                &self,
                len: usize,
                operation: impl FnMut() -> io::Result<usize>,
            ) -> io::Result<usize> {
                <$stream>::write_with(self, len, operation).await
            }
        }
    };
}

ready!(TcpStream);
#[cfg(unix)]
ready!(UnixStream);

impl Io {
    pub(crate) fn strike(&self, attempt: Attempt, len: &mut usize) -> Option<Fault> {
        self.faults.as_ref()?.strike(attempt, len)
    }
}

/// Fails an attempt at random, if such faults are configured.
fn fail(io: &Io, attempt: Attempt) -> io::Result<()> {
    match io.strike(attempt, &mut 0) {
        None | Some(Fault::NoBuffers) => Ok(()),
        Some(Fault::Interrupted) => Err(io::ErrorKind::Interrupted.into()),
        Some(Fault::Reset) => Err(io::ErrorKind::ConnectionReset.into()),
    }
}

/// Makes an attempt shorter at random, if such faults are configured.
fn shorten(io: &Io, attempt: Attempt, len: usize) -> usize {
    let mut short = len;
    io.strike(attempt, &mut short);
    short
}

pub(crate) async fn read<R: Ready, B: BufferMut>(
    stream: &R,
    io: &Io,
    mut buffer: B,
) -> (io::Result<usize>, B) {
    let len = shorten(io, Attempt::Read, buffer.capacity());
    if len == 0 {
        return (Ok(0), buffer);
    }
    let begin = buffer.as_mut_ptr();
    let read = stream.read_with(len, || {
        fail(io, Attempt::Read)?;
        // SAFETY: the buffer has so many bytes, and is not touched while this runs.
        let memory = unsafe { core::slice::from_raw_parts_mut(begin.cast(), len) };
        stream.socket().recv(memory)
    });
    let result = read.await;
    if let Ok(count) = result {
        // SAFETY: the system has written so many bytes, within the capacity.
        unsafe { buffer.set_len(count) };
    }
    (result, buffer)
}

pub(crate) async fn write<R: Ready, B: Buffer>(
    stream: &R,
    io: &Io,
    buffer: B,
    begin: usize,
) -> (io::Result<usize>, B) {
    // SAFETY: the first `len` bytes are initialised, and the buffer is not changed while this runs.
    let bytes = unsafe { core::slice::from_raw_parts(buffer.as_ptr(), buffer.len()) };
    let bytes = bytes.get(begin..).unwrap_or_default();
    let len = shorten(io, Attempt::Write, bytes.len());
    let write = stream.write_with(len, || {
        fail(io, Attempt::Write)?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let flags = 0x4000; // MSG_NOSIGNAL
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let flags = 0;
        stream.socket().send_with_flags(&bytes[..len], flags)
    });
    let result = write.await;
    (result, buffer)
}

pub(crate) async fn chunk<R: Ready>(stream: &R, io: &Io) -> io::Result<Option<Chunk>> {
    let chunks = io.chunks();
    let len = chunks.bytes();
    let mut chunk = None;
    // A buffer is taken only when the socket is ready, so that a waiting read holds none.
    let read = stream.read_with(len, || {
        let is_without = io.strike(Attempt::Chunks, &mut 0) == Some(Fault::NoBuffers);
        fail(io, Attempt::Read)?;
        let free = if is_without { None } else { chunks.take() };
        let Some(id) = free else {
            let mut memory = vec![0_u8; len].into_boxed_slice();
            let count = (&*stream.socket()).read(&mut memory)?;
            chunk = Some(Chunk::own(memory, count));
            return Ok(count);
        };
        // Given back if the read fails.
        let whole = Chunk::taken(&chunks, id, 0);
        let begin = chunks.address(id).as_ptr().cast();
        // SAFETY: the buffer was taken, and has so many bytes.
        let memory = unsafe { core::slice::from_raw_parts_mut(begin, len) };
        let count = stream.socket().recv(memory)?;
        chunk = Some(whole.filled(count));
        Ok(count)
    });
    let count = read.await?;
    Ok(chunk.filter(|_| count > 0))
}
