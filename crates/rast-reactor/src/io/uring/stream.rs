//! Streams on a ring.
//!
//! A read whose future is dropped may have taken bytes before its cancellation. The stream keeps
//! that read; the next read waits for its end and returns its bytes first. So dropping a read loses
//! nothing, as with the readiness driver.
//!
//! Users define the types of buffers, and the methods of these types may use the stream and may
//! panic. So no such method is called while a list of the stream is borrowed. After the future of a
//! read was dropped, only the destructor of its buffer is called. The address of the buffer's
//! memory is kept beside it, so that no other method is needed.
//!
//! A stream that receives chunks has one operation in flight for all of them. This operation
//! completes once for each chunk, until it is cancelled or finds no buffer. After the first call of
//! `chunk`, every read takes its bytes from such chunks.

use core::any::Any;
use core::cell::{Cell, RefCell};
use core::ptr::{null, null_mut};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std_alloc::boxed::Box;
use std_alloc::collections::VecDeque;
use std_alloc::rc::Rc;
use std_alloc::vec;

use io_uring::types::Fd;
use io_uring::{cqueue, opcode, squeue};

use super::held::{Held, fill};
use super::op::{MOST, Target, descriptor, wait};
use super::poll::readable;
use super::provided::GROUP;
use super::ring::Ring;
use super::slots::{Done, Key, Kind};
use crate::io::buffer::{Buffer, BufferMut};
use crate::io::chunk::Chunk;
use crate::io::faults::{Attempt, Fault};
use crate::quiet::Quiet;

/// A read that was given up.
struct Late {
    key: Key,
    /// Where the kernel writes.
    begin: *const u8,
    memory: Box<dyn Any>,
}

/// Bytes that were received and not read yet.
enum Left {
    Chunk(Chunk),
    /// Of a read that was given up: the bytes that the kernel has written there, at least one.
    Late {
        begin: *const u8,
        count: usize,
        /// The buffer that owns them.
        _memory: Box<dyn Any>,
    },
}

impl Left {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Chunk(chunk) => chunk,
            Self::Late { begin, count, .. } => {
                // SAFETY: the kernel has written so many bytes there, and is done. The memory is
                // that of the buffer beside it, which is not used otherwise (rules 1 and 2 of
                // `BufferMut`).
                unsafe { core::slice::from_raw_parts(*begin, *count) }
            }
        }
    }

    /// Removes the first bytes, at most as many as there are.
    fn advance(&mut self, taken: usize) {
        match self {
            Self::Chunk(chunk) => chunk.advance(taken),
            Self::Late { begin, count, .. } => {
                *begin = begin.wrapping_add(taken);
                *count -= taken;
            }
        }
    }
}

/// The first bytes of a stream while a buffer, whose methods are user code, takes some of them. The
/// rest returns to the stream, also if the buffer panics.
struct First<'a> {
    stream: &'a Stream,
    /// `None` only after the return.
    left: Option<Left>,
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        // If no bytes are left, the value stays in the field. So its buffer is dropped after the
        // list was released.
        if let Some(left) = self.left.take_if(|left| !left.bytes().is_empty()) {
            self.stream.left.borrow_mut().push_front(left);
        }
    }
}

/// A connected socket on a ring.
pub(crate) struct Stream {
    ring: Rc<Ring>,
    fd: Rc<OwnedFd>,
    late: RefCell<VecDeque<Late>>,
    /// More than one only if several reads were in flight at once; these have no order.
    left: RefCell<VecDeque<Left>>,
    /// A read that was given up has found the end. Bytes of other reads may be left.
    has_ended: Cell<bool>,
    /// The operation that receives chunks.
    receive: Cell<Option<Key>>,
}

impl Stream {
    pub(crate) fn new(ring: &Rc<Ring>, fd: Rc<OwnedFd>) -> Self {
        Self {
            ring: Rc::clone(ring),
            fd,
            late: RefCell::new(VecDeque::new()),
            left: RefCell::new(VecDeque::new()),
            has_ended: Cell::new(false),
            receive: Cell::new(None),
        }
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    fn target(&self, attempt: Attempt) -> Target<'_> {
        Target::plain(&self.ring, &self.fd, attempt)
    }

    fn number(&self) -> Fd {
        Fd(self.fd.as_raw_fd())
    }

    /// Copies bytes that were received before into the buffer.
    fn fill(&self, buffer: &mut impl BufferMut) -> Option<usize> {
        let left = self.left.borrow_mut().pop_front();
        let mut first = First { stream: self, left };
        let left = first.left.as_mut()?;
        let count = fill(buffer, left.bytes());
        left.advance(count);
        Some(count)
    }

    /// Waits for reads that were given up, until one of them has bytes. Returns the error of a read
    /// that failed.
    async fn settle(&self) -> io::Result<()> {
        loop {
            let key = match self.late.borrow().front() {
                Some(late) if self.left.borrow().is_empty() => late.key,
                _ => return Ok(()),
            };
            let done = wait(&self.ring, Some(key)).await;
            // Another task may have been here first.
            let is_first = self
                .late
                .borrow()
                .front()
                .is_some_and(|late| late.key == key);
            let late = if is_first {
                self.late.borrow_mut().pop_front()
            } else {
                None
            };
            let (Some(late), Some(Done { result, .. })) = (late, done) else {
                continue;
            };
            match result {
                0 => self.has_ended.set(true),
                count if count > 0 => {
                    let left = Left::Late {
                        begin: late.begin,
                        count: count as usize,
                        _memory: late.memory,
                    };
                    self.left.borrow_mut().push_back(left);
                }
                error if matches!(-error, libc::ECANCELED | libc::EINTR | libc::EAGAIN) => {}
                error => return Err(io::Error::from_raw_os_error(-error)),
            }
        }
    }

    pub(crate) async fn read<B: BufferMut>(&self, mut buffer: B) -> (io::Result<usize>, B) {
        if buffer.capacity() == 0 {
            return (Ok(0), buffer);
        }
        if !self.late.borrow().is_empty()
            && let Err(error) = self.settle().await
        {
            return (Err(error), buffer);
        }
        if let Some(count) = self.fill(&mut buffer) {
            return (Ok(count), buffer);
        }
        if self.receive.get().is_some() {
            return match self.chunk().await {
                Ok(None) => (Ok(0), buffer),
                Ok(Some(chunk)) => {
                    self.left.borrow_mut().push_front(Left::Chunk(chunk));
                    let count = self.fill(&mut buffer).unwrap_or(0);
                    (Ok(count), buffer)
                }
                Err(error) => (Err(error), buffer),
            };
        }
        if self.has_ended.get() {
            return (Ok(0), buffer);
        }
        let fd = self.number();
        let address = Cell::new(null());
        let entry = |buffer: &mut B, len: usize| -> squeue::Entry {
            let begin = buffer.as_mut_ptr();
            address.set(begin.cast_const());
            opcode::Recv::new(fd, begin, len as u32).build()
        };
        let keep = |key, held: Held<B>| {
            // The future of the read was dropped, so a panic of the buffer's destructor would reach
            // another task.
            let memory = Box::new(Quiet::new(held));
            let begin = address.get();
            let late = Late { key, begin, memory };
            self.late.borrow_mut().push_back(late);
        };
        let len = buffer.capacity().min(MOST);
        // SAFETY: the memory is the buffer's, which keeps its address by rule 2 of `Buffer`, also
        // in a box; a stream that is dropped abandons what it has kept.
        let run = unsafe { self.target(Attempt::Read).run_or(buffer, len, entry, keep) };
        let (result, mut buffer) = run.await;
        if let Ok(count) = result {
            // SAFETY: the kernel has written so many bytes, within the capacity.
            unsafe { buffer.set_len(count) };
        }
        (result, buffer)
    }

    /// Sends the bytes from `begin` on.
    pub(crate) async fn write<B: Buffer>(&self, buffer: B, begin: usize) -> (io::Result<usize>, B) {
        let fd = self.number();
        let len = buffer.len().saturating_sub(begin).min(MOST);
        let entry = |buffer: &mut B, len: usize| -> squeue::Entry {
            let begin = buffer.as_ptr().wrapping_add(begin);
            opcode::Send::new(fd, begin, len as u32)
                .flags(libc::MSG_NOSIGNAL)
                .build()
        };
        // SAFETY: the memory is the buffer's, which keeps its address.
        unsafe { self.target(Attempt::Write).run(buffer, len, entry) }.await
    }

    /// The next bytes, in memory of the reactor.
    pub(crate) async fn chunk(&self) -> io::Result<Option<Chunk>> {
        let chunks = self.ring.chunks()?;
        loop {
            self.settle().await?;
            let left = self.left.borrow_mut().pop_front();
            match left {
                Some(Left::Chunk(chunk)) => return Ok(Some(chunk)),
                Some(left) => {
                    let bytes = left.bytes();
                    return Ok(Some(Chunk::own(bytes.into(), bytes.len())));
                }
                None => {}
            }
            let key = match self.receive.get() {
                Some(key) => key,
                None if self.has_ended.get() => return Ok(None),
                None => match self.ring.strike(Attempt::Chunks, &mut 0) {
                    Some(Fault::NoBuffers) => match self.chunk_of_its_own(chunks.bytes()).await? {
                        Some(chunk) => return Ok(Some(chunk).filter(|chunk| !chunk.is_empty())),
                        None => continue,
                    },
                    Some(_) => continue,
                    None => self.start_receive()?,
                },
            };
            let Some(Done { result, flags }) = wait(&self.ring, Some(key)).await else {
                self.forget_receive(key);
                continue;
            };
            if !cqueue::more(flags) {
                self.forget_receive(key);
            }
            if result > 0 {
                let Some(id) = cqueue::buffer_select(flags) else {
                    return Err(io::Error::other("a receive without a buffer"));
                };
                let chunk = Chunk::taken(&chunks, id, result as usize);
                let mut left = self.left.borrow_mut();
                if left.is_empty() {
                    return Ok(Some(chunk));
                }
                // Another task has left a part of an earlier chunk since.
                left.push_back(Left::Chunk(chunk));
                continue;
            }
            if let Some(id) = cqueue::buffer_select(flags) {
                chunks.give_back(id);
            }
            match -result {
                0 => return Ok(None),
                libc::EINTR | libc::EAGAIN | libc::ECANCELED => {}
                libc::ENOBUFS => {
                    if let Some(chunk) = self.chunk_of_its_own(chunks.bytes()).await? {
                        return Ok(Some(chunk).filter(|chunk| !chunk.is_empty()));
                    }
                }
                error => return Err(io::Error::from_raw_os_error(error)),
            }
        }
    }

    fn start_receive(&self) -> io::Result<Key> {
        let entry = opcode::RecvMulti::new(self.number(), GROUP).build();
        // SAFETY: 1. its memory is the ring's buffers. 2. The descriptor is the stream's.
        let key = unsafe {
            self.ring
                .start(entry, Kind::Chunks, Some(&self.fd), Attempt::Chunks)
        }?;
        self.receive.set(Some(key));
        Ok(key)
    }

    /// The operation that receives is over, unless another task has begun the next one.
    fn forget_receive(&self, key: Key) {
        if self.receive.get() == Some(key) {
            self.receive.set(None);
        }
    }

    /// Waits for bytes without a buffer, and reads them into memory of their own. An empty chunk
    /// is the end; `None` if the bytes were gone.
    async fn chunk_of_its_own(&self, bytes: usize) -> io::Result<Option<Chunk>> {
        readable(&self.ring, &self.fd).await?;
        let mut memory = vec![0_u8; bytes].into_boxed_slice();
        let flags = libc::MSG_DONTWAIT;
        let begin = memory.as_mut_ptr().cast();
        // SAFETY: the descriptor is open, and the memory has so many bytes.
        let count = unsafe { libc::recv(self.fd.as_raw_fd(), begin, bytes, flags) };
        if let Ok(count) = usize::try_from(count) {
            return Ok(Some(Chunk::own(memory, count)));
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(key) = self.receive.take() {
            self.ring.abandon(key, None);
        }
        for late in self.late.get_mut().drain(..) {
            self.ring.abandon(late.key, Some(late.memory));
        }
    }
}

/// A listening socket on a ring.
pub(crate) struct Listener {
    ring: Rc<Ring>,
    fd: Rc<OwnedFd>,
    /// The operation that accepts many.
    incoming: Cell<Option<Key>>,
}

impl Listener {
    pub(crate) fn new(ring: &Rc<Ring>, fd: OwnedFd) -> Self {
        Self {
            ring: Rc::clone(ring),
            fd: Rc::new(fd),
            incoming: Cell::new(None),
        }
    }

    pub(crate) fn ring(&self) -> &Rc<Ring> {
        &self.ring
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// A connection that the operation for many has accepted; `None` if there is no such operation.
    async fn next(&self) -> io::Result<Option<OwnedFd>> {
        while let Some(key) = self.incoming.get() {
            let done = wait(&self.ring, Some(key)).await;
            let is_last = done.is_none_or(|done| !cqueue::more(done.flags));
            if is_last && self.incoming.get() == Some(key) {
                self.incoming.set(None);
            }
            match done.map(|done| done.result) {
                Some(fd) if fd >= 0 => return Ok(Some(descriptor(fd))),
                None => {}
                Some(error) if matches!(-error, libc::EINTR | libc::EAGAIN | libc::ECANCELED) => {}
                Some(error) => return Err(io::Error::from_raw_os_error(-error)),
            }
        }
        Ok(None)
    }

    pub(crate) async fn accept(&self) -> io::Result<OwnedFd> {
        if let Some(fd) = self.next().await? {
            return Ok(fd);
        }
        let number = Fd(self.fd.as_raw_fd());
        let target = Target {
            ring: &self.ring,
            fd: Some(&self.fd),
            kind: Kind::Descriptor,
            attempt: Attempt::Accept,
        };
        let entry = |(): &mut (), _: usize| {
            opcode::Accept::new(number, null_mut(), null_mut())
                .flags(libc::SOCK_CLOEXEC)
                .build()
        };
        // SAFETY: it has no memory.
        let (accepted, ()) = unsafe { target.run((), 0, entry) }.await;
        accepted.map(|fd| descriptor(fd as i32))
    }

    /// As [`accept`](Self::accept), by one operation for many connections.
    pub(crate) async fn accept_many(&self) -> io::Result<OwnedFd> {
        loop {
            if self.incoming.get().is_none() {
                let number = Fd(self.fd.as_raw_fd());
                let entry = opcode::AcceptMulti::new(number)
                    .flags(libc::SOCK_CLOEXEC)
                    .build();
                let (kind, attempt) = (Kind::Descriptor, Attempt::Accept);
                // SAFETY: 1. it has no memory. 2. The descriptor is the listener's.
                let key = unsafe { self.ring.start(entry, kind, Some(&self.fd), attempt) }?;
                self.incoming.set(Some(key));
            }
            if let Some(fd) = self.next().await? {
                return Ok(fd);
            }
        }
    }

    /// Accepts no more. The next accepts return the connections that were accepted already.
    pub(crate) fn pause(&self) {
        if let Some(key) = self.incoming.get() {
            self.ring.cancel(key);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(key) = self.incoming.take() {
            self.ring.abandon(key, None);
        }
    }
}
