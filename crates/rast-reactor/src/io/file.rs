//! Files: operations of the ring, or tasks of the background pool.

use core::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std_alloc::rc::Rc;
use std_alloc::sync::Arc;

use super::backend::Io;
use super::buffer::{Buffer, BufferMut};
use super::faults::{Attempt, Fault};
use super::options::OpenOptions;
use super::stream::write_all;
#[cfg(target_os = "linux")]
use super::uring;
use crate::calls::background_task;
use crate::error::CallError;
use crate::pool::Policy;
use crate::primitive::sync::Mutex;

impl OpenOptions {
    /// Opens the file.
    ///
    /// # Errors
    ///
    /// The system's error.
    ///
    /// # Panics
    ///
    /// Outside of a reactor.
    pub async fn open(self, path: impl AsRef<Path>) -> io::Result<File> {
        let io = Io::current();
        #[cfg(target_os = "linux")]
        if let Some(ring) = &io.ring {
            let file = uring::File::open(ring, path.as_ref(), &self).await?;
            return Ok(File(Kind::Ring(file)));
        }
        let path = PathBuf::from(path.as_ref());
        let file = in_background(move || self.std().open(path)).await??;
        let file = Arc::new(file);
        Ok(File(Kind::Pool { file, io }))
    }
}

/// A file of either backend.
enum Kind {
    Pool {
        file: Arc<std::fs::File>,
        io: Rc<Io>,
    },
    #[cfg(target_os = "linux")]
    Ring(uring::File),
}

/// A file, read and written at offsets in bytes.
///
/// With the readiness driver its operations are tasks of the background pool with
/// [`Policy::High`](crate::Policy::High). If the pool is full or has ended, they fail.
///
/// ```
/// use rast_reactor::{Reactors, io::OpenOptions};
///
/// let path = std::env::temp_dir().join(format!("rast-reactor-file-{}", std::process::id()));
/// let theirs = path.clone();
/// let reactors = Reactors::builder().number(1).build().unwrap();
/// let task = reactors.reactor(0).unwrap().spawn(move || async move {
///     let file = OpenOptions::new().create().truncate().open(&theirs).await.unwrap();
///     file.write_all_at(Vec::from("hello"), 0).await.0.unwrap();
///     let (read, bytes) = file.read_at(Vec::with_capacity(16), 1).await;
///     assert_eq!(read.unwrap(), 4);
///     bytes
/// });
/// assert_eq!(rast_reactor::executor::block_on(task).unwrap(), b"ello");
/// std::fs::remove_file(path).unwrap();
/// ```
pub struct File(Kind);

impl File {
    /// Converts a file of std.
    ///
    /// # Panics
    ///
    /// Outside of a reactor.
    #[must_use]
    #[track_caller]
    pub fn from_std(file: std::fs::File) -> Self {
        let io = Io::current();
        #[cfg(target_os = "linux")]
        if let Some(ring) = &io.ring {
            let file = uring::File::new(ring, file.into());
            return Self(Kind::Ring(file));
        }
        let file = Arc::new(file);
        Self(Kind::Pool { file, io })
    }

    /// Reads into `buffer` from the offset on; 0 means the end of the file. The length of a vector
    /// is then the number of bytes read.
    ///
    /// # Errors
    ///
    /// The system's error; the buffer is returned too.
    pub async fn read_at<B: BufferMut + Send>(&self, buffer: B, at: u64) -> (io::Result<usize>, B) {
        if let Err(error) = check(at, 0) {
            return (Err(error), buffer);
        }
        match &self.0 {
            #[cfg(target_os = "linux")]
            Kind::Ring(file) => file.read_at(buffer, at).await,
            Kind::Pool { file, io } => {
                let len = buffer.capacity();
                let read = move |file: &std::fs::File, buffer: &mut B, len: usize| {
                    // std's methods read only into initialised memory.
                    let begin = buffer.as_mut_ptr();
                    // SAFETY: the buffer has so many bytes.
                    unsafe { begin.write_bytes(0, len) };
                    // SAFETY: they were initialised above, and are not used otherwise here.
                    let memory = unsafe { core::slice::from_raw_parts_mut(begin, len) };
                    let count = read_at(file, memory, at)?;
                    // SAFETY: so many bytes are initialised.
                    unsafe { buffer.set_len(count) };
                    Ok(count)
                };
                on_pool(file, io, Attempt::Read, buffer, len, read).await
            }
        }
    }

    /// Writes bytes of `buffer` from the offset on, and returns how many.
    ///
    /// # Errors
    ///
    /// The system's error; the buffer is returned too.
    pub async fn write_at<B: Buffer + Send>(&self, buffer: B, at: u64) -> (io::Result<usize>, B) {
        self.write_from(buffer, 0, at).await
    }

    async fn write_from<B: Buffer + Send>(
        &self,
        buffer: B,
        begin: usize,
        at: u64,
    ) -> (io::Result<usize>, B) {
        if let Err(error) = check(at, begin) {
            return (Err(error), buffer);
        }
        let at = at + begin as u64;
        match &self.0 {
            #[cfg(target_os = "linux")]
            Kind::Ring(file) => file.write_at(buffer, begin, at).await,
            Kind::Pool { file, io } => {
                let len = buffer.len().saturating_sub(begin);
                let write = move |file: &std::fs::File, buffer: &mut B, len: usize| {
                    // SAFETY: the bytes up to the length are initialised, and are not changed here.
                    let bytes = unsafe {
                        core::slice::from_raw_parts(buffer.as_ptr().wrapping_add(begin), len)
                    };
                    write_at(file, bytes, at)
                };
                on_pool(file, io, Attempt::Write, buffer, len, write).await
            }
        }
    }

    /// Writes all of `buffer` from the offset on.
    ///
    /// # Errors
    ///
    /// `WriteZero` if the system accepts no byte; otherwise the system's error.
    pub async fn write_all_at<B: Buffer + Send>(&self, buffer: B, at: u64) -> (io::Result<()>, B) {
        let write = async |buffer, begin| self.write_from(buffer, begin, at).await;
        write_all(buffer, write).await
    }

    /// Makes the system write its cached part of the file to the disk, with the file's size and
    /// times.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub async fn sync_all(&self) -> io::Result<()> {
        self.sync(false).await
    }

    /// As [`sync_all`](Self::sync_all), without times that reading does not need.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub async fn sync_data(&self) -> io::Result<()> {
        self.sync(true).await
    }

    async fn sync(&self, data_only: bool) -> io::Result<()> {
        match &self.0 {
            #[cfg(target_os = "linux")]
            Kind::Ring(file) => file.sync(data_only).await,
            Kind::Pool { file, .. } => {
                let file = Arc::clone(file);
                let sync = move || {
                    if data_only {
                        file.sync_data()
                    } else {
                        file.sync_all()
                    }
                };
                in_background(sync).await?
            }
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").finish_non_exhaustive()
    }
}

/// Rejects an offset that the system cannot represent; the greatest number has another meaning.
fn check(at: u64, begin: usize) -> io::Result<()> {
    match at.checked_add(begin as u64) {
        Some(at) if i64::try_from(at).is_ok() => Ok(()),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Runs an operation on a file in the pool, which owns the buffer meanwhile.
async fn on_pool<B: Buffer + Send>(
    file: &Arc<std::fs::File>,
    io: &Io,
    attempt: Attempt,
    buffer: B,
    mut len: usize,
    operation: impl FnOnce(&std::fs::File, &mut B, usize) -> io::Result<usize> + Send + 'static,
) -> (io::Result<usize>, B) {
    let struck = loop {
        match io.strike(attempt, &mut len) {
            Some(Fault::Interrupted) => {}
            struck => break struck,
        }
    };
    if struck.is_some() {
        return (Err(io::ErrorKind::ConnectionReset.into()), buffer);
    }
    // Shared, so that the buffer is returned even if the task never begins.
    let shared = Arc::new(Mutex::new(Some(buffer)));
    let (theirs, file) = (Arc::clone(&shared), Arc::clone(file));
    let task = move || {
        let Some(mut buffer) = theirs.lock().take() else {
            unreachable!("file: the task takes the buffer once")
        };
        let result = operation(&file, &mut buffer, len);
        *theirs.lock() = Some(buffer);
        result
    };
    let result = in_background(task).await.flatten();
    let Some(buffer) = shared.lock().take() else {
        unreachable!("file: a task that ended has put the buffer back")
    };
    (result, buffer)
}

/// Runs a call of the system in the pool.
async fn in_background<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    match background_task(Policy::High, call) {
        Ok(call) => match call.await {
            Ok(result) => Ok(result),
            Err(CallError::Panicked(payload)) => std::panic::resume_unwind(payload),
            Err(_) => Err(io::Error::other("the background pool has ended")),
        },
        Err(_) => Err(io::Error::other("the background pool is full")),
    }
}

#[cfg(unix)]
fn read_at(file: &std::fs::File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, at)
}

#[cfg(unix)]
fn write_at(file: &std::fs::File, bytes: &[u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, at)
}

#[cfg(windows)]
fn read_at(file: &std::fs::File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, at)
}

#[cfg(windows)]
fn write_at(file: &std::fs::File, bytes: &[u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, at)
}
