//! Files on a ring.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std_alloc::rc::Rc;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue};

use super::op::{MOST, Target, descriptor};
use super::ring::Ring;
use super::slots::Kind;
use crate::io::buffer::{Buffer, BufferMut};
use crate::io::faults::Attempt;
use crate::io::options::OpenOptions;

/// A file on a ring.
pub(crate) struct File {
    ring: Rc<Ring>,
    fd: Rc<OwnedFd>,
}

impl File {
    pub(crate) async fn open(
        ring: &Rc<Ring>,
        path: &Path,
        options: &OpenOptions,
    ) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
        let flags = options.flags()? | libc::O_CLOEXEC;
        let target = Target {
            ring,
            fd: None,
            kind: Kind::Descriptor,
            attempt: Attempt::Other,
        };
        let entry = |path: &mut CString, _: usize| -> squeue::Entry {
            let open = opcode::OpenAt::new(Fd(libc::AT_FDCWD), path.as_ptr());
            open.flags(flags).mode(0o666).build()
        };
        // SAFETY: the path is on the heap, and keeps its address.
        let (opened, _) = unsafe { target.run(path, 0, entry) }.await;
        let fd = descriptor(opened? as i32);
        Ok(Self::new(ring, fd))
    }

    pub(crate) fn new(ring: &Rc<Ring>, fd: OwnedFd) -> Self {
        Self {
            ring: Rc::clone(ring),
            fd: Rc::new(fd),
        }
    }

    fn target(&self, attempt: Attempt) -> Target<'_> {
        Target::plain(&self.ring, &self.fd, attempt)
    }

    pub(crate) async fn read_at<B: BufferMut>(&self, buffer: B, at: u64) -> (io::Result<usize>, B) {
        let fd = Fd(self.fd.as_raw_fd());
        let len = buffer.capacity().min(MOST);
        let entry = |buffer: &mut B, len: usize| -> squeue::Entry {
            opcode::Read::new(fd, buffer.as_mut_ptr(), len as u32)
                .offset(at)
                .build()
        };
        // SAFETY: the memory is the buffer's, which keeps its address.
        let run = unsafe { self.target(Attempt::Read).run(buffer, len, entry) };
        let (result, mut buffer) = run.await;
        if let Ok(count) = result {
            // SAFETY: the kernel has written so many bytes, within the capacity.
            unsafe { buffer.set_len(count) };
        }
        (result, buffer)
    }

    pub(crate) async fn write_at<B: Buffer>(
        &self,
        buffer: B,
        begin: usize,
        at: u64,
    ) -> (io::Result<usize>, B) {
        let fd = Fd(self.fd.as_raw_fd());
        let len = buffer.len().saturating_sub(begin).min(MOST);
        let entry = |buffer: &mut B, len: usize| -> squeue::Entry {
            let begin = buffer.as_ptr().wrapping_add(begin);
            opcode::Write::new(fd, begin, len as u32).offset(at).build()
        };
        // SAFETY: the memory is the buffer's, which keeps its address.
        unsafe { self.target(Attempt::Write).run(buffer, len, entry) }.await
    }

    pub(crate) async fn sync(&self, data_only: bool) -> io::Result<()> {
        let fd = Fd(self.fd.as_raw_fd());
        let flags = if data_only {
            FsyncFlags::DATASYNC
        } else {
            FsyncFlags::empty()
        };
        let entry = |(): &mut (), _: usize| opcode::Fsync::new(fd).flags(flags).build();
        // SAFETY: it has no memory.
        let (synced, ()) = unsafe { self.target(Attempt::Other).run((), 0, entry) }.await;
        synced.map(drop)
    }
}
