//! A ring of io_uring. It collects entries during a turn, submits them at the end of the turn, and
//! handles their completions.
//!
//! Rules:
//!
//! 1. The memory of an operation lives until its last completion. Its future owns the memory. After
//!    the future is dropped, the slot of the operation owns the memory. Closing the ring cancels
//!    operations in flight and waits for them; an operation that does not end in time is leaked
//!    with its memory.
//! 2. A slot keeps its descriptor open until the last completion, so no other file can get the
//!    number that the entry names.
//! 3. No user code runs while the ring is borrowed. Wakers are cloned before the borrow. After the
//!    borrow, wakers are called and values are dropped, and the panics of both are contained.

use core::any::Any;
use core::cell::{Cell, RefCell};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std_alloc::boxed::Box;
use std_alloc::collections::VecDeque;
use std_alloc::format;
use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};

use super::provided::{GROUP, Provided};
use super::slots::{Done, Key, Kind, Slots};

use crate::io::chunk::{Chunks, Free};
use crate::io::faults::{Attempt, Fault, Faults};
use crate::primitive::panics::quietly;
use crate::waker_list::wake_all;

/// Entries of the submission queue.
const ENTRIES: u32 = 1024;

/// The completion of a cancellation, which nothing waits for.
const CANCEL: u64 = u64::MAX;
/// The completion of the read of the bell's event.
const BELL: u64 = u64::MAX - 1;

/// Maximum number of kept results of one operation. An operation with more is cancelled, and begun
/// again when the results were taken.
const RESULTS: usize = 64;

/// How long the end of a ring waits for operations that were cancelled.
const END: Duration = Duration::from_millis(200);

/// A value that a completion frees. By rule 3 it is dropped while the ring is not borrowed.
enum Dropped {
    Descriptor(#[expect(dead_code, reason = "it is dropped")] Rc<OwnedFd>),
    Kept(#[expect(dead_code, reason = "it is dropped")] Box<dyn Any>),
}

/// The part of the ring that is changed through `&mut`.
struct Inner {
    /// The first field, so that the ring is closed before the memory that the kernel may use is
    /// freed.
    uring: IoUring,
    slots: Slots,
    /// Entries that found the queue full, in their order.
    backlog: VecDeque<squeue::Entry>,
    /// To be woken, after the borrow.
    wakers: Vec<Waker>,
    /// To be dropped, after the borrow.
    dropped: Vec<Dropped>,
    is_closed: bool,
}

/// A ring.
pub(crate) struct Ring {
    inner: RefCell<Inner>,
    chunks: RefCell<Option<Rc<Chunks>>>,
    chunks_of: (u16, usize),
    pub(crate) faults: Option<Faults>,
    /// The event that ends a sleep, and where the kernel writes its count.
    event: Rc<OwnedFd>,
    count: Rc<Cell<u64>>,
    is_bell_armed: Cell<bool>,
    overflows: Cell<u64>,
    enters: Cell<u64>,
}

impl Ring {
    /// Makes a ring and runs an empty operation through it, which shows that the system permits
    /// io_uring.
    ///
    /// # Errors
    ///
    /// Why the kernel does not serve this driver.
    pub(crate) fn new(chunks_of: (u16, usize), faults: Option<Faults>) -> io::Result<Self> {
        let entries = faults.as_ref().and_then(|faults| faults.entries);
        let mut uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize(entries.map_or(4 * ENTRIES, |entries| 2 * entries))
            .dontfork()
            .build(entries.unwrap_or(ENTRIES))
            .map_err(refused)?;
        let params = uring.params();
        if !params.is_feature_nodrop() || !params.is_feature_ext_arg() {
            return Err(lacks(
                "completions that are never dropped, and waits with a limit",
            ));
        }
        let mut probe = Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        let needed = [
            opcode::Accept::CODE,
            opcode::AsyncCancel::CODE,
            opcode::Connect::CODE,
            opcode::Fsync::CODE,
            opcode::OpenAt::CODE,
            opcode::PollAdd::CODE,
            opcode::Read::CODE,
            opcode::Recv::CODE,
            opcode::Send::CODE,
            opcode::Write::CODE,
        ];
        if let Some(code) = needed.into_iter().find(|&code| !probe.is_supported(code)) {
            return Err(lacks(&format!("its operation {code}")));
        }
        // SAFETY: an entry without memory.
        let pushed = unsafe { uring.submission().push(&opcode::Nop::new().build()) };
        pushed.map_err(io::Error::other)?;
        uring.submit_and_wait(1)?;
        let done = uring.completion().next();
        match done.map(|entry: cqueue::Entry| entry.result()) {
            Some(0) => {}
            other => {
                return Err(io::Error::other(format!(
                    "a first operation gave {other:?}"
                )));
            }
        }
        Ok(Self {
            inner: RefCell::new(Inner {
                uring,
                slots: Slots::default(),
                backlog: VecDeque::new(),
                wakers: Vec::new(),
                dropped: Vec::new(),
                is_closed: false,
            }),
            chunks: RefCell::new(None),
            chunks_of,
            faults,
            event: Rc::new(event()?),
            count: Rc::new(Cell::new(0)),
            is_bell_armed: Cell::new(false),
            overflows: Cell::new(0),
            enters: Cell::new(0),
        })
    }

    /// The event whose writes end a wait, as a file.
    pub(crate) fn event(&self) -> io::Result<File> {
        self.event.try_clone().map(File::from)
    }

    /// How often completions overflowed their queue, and how many calls of the system there were.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.overflows.get(), self.enters.get())
    }

    /// A fault that is injected into an attempt.
    pub(crate) fn strike(&self, attempt: Attempt, len: &mut usize) -> Option<Fault> {
        self.faults.as_ref()?.strike(attempt, len)
    }

    /// The buffers of receives, made at their first use.
    pub(crate) fn chunks(&self) -> io::Result<Rc<Chunks>> {
        if let Some(chunks) = &*self.chunks.borrow() {
            return Ok(Rc::clone(chunks));
        }
        let inner = self.inner.borrow();
        if inner.is_closed {
            return Err(closed());
        }
        let (number, bytes) = self.chunks_of;
        let ring = Provided::register(&inner.uring, number)?;
        let chunks = Chunks::new(number, bytes, |chunks| {
            for id in 0..number {
                ring.give_back(id, chunks.address(id), bytes);
            }
            Free::Ring(ring)
        });
        Ok(Rc::clone(self.chunks.borrow_mut().insert(chunks)))
    }

    /// Begins an operation. Its entry is submitted at the end of the turn.
    ///
    /// # Safety
    ///
    /// 1. The memory that the entry names lives until the last completion of the operation.
    /// 2. `fd` is the descriptor that the entry names, if it names one.
    ///
    /// # Errors
    ///
    /// If the ring is closed.
    pub(crate) unsafe fn start(
        &self,
        entry: squeue::Entry,
        kind: Kind,
        fd: Option<&Rc<OwnedFd>>,
        attempt: Attempt,
    ) -> io::Result<Key> {
        let mut inner = self.inner.borrow_mut();
        if inner.is_closed {
            return Err(closed());
        }
        let key = inner.slots.start(kind, fd);
        self.push(&mut inner, entry.user_data(key.word()));
        if let Some(faults) = &self.faults
            && faults.cancels(attempt)
        {
            self.push_cancel(&mut inner, key);
        }
        Ok(key)
    }

    /// The next result of an operation; `Ready(None)` if the operation is over. Otherwise the waker
    /// of the future is stored in the list of the operation, at `entry`.
    pub(crate) fn poll(
        &self,
        key: Key,
        entry: &mut Option<u64>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Done>> {
        // By rule 3 cloned and dropped outside of the borrow.
        let mut clone = None;
        loop {
            {
                let inner = &mut *self.inner.borrow_mut();
                let Some(slot) = inner.slots.get(key) else {
                    return Poll::Ready(None);
                };
                if let Some(done) = slot.results.pop_front() {
                    if !slot.is_in_flight && slot.results.is_empty() {
                        inner.slots.free(key, &mut inner.wakers);
                    }
                    return Poll::Ready(Some(done));
                }
                if slot.waiting.wait(entry, cx.waker(), &mut clone) {
                    return Poll::Pending;
                }
            }
            clone = Some(cx.waker().clone());
        }
    }

    /// Removes the waker of a future that no longer waits for an operation.
    pub(crate) fn leave(&self, key: Key, entry: &mut Option<u64>) {
        let left = {
            let mut inner = self.inner.borrow_mut();
            let slot = inner.slots.get(key);
            slot.and_then(|slot| slot.waiting.remove(entry))
        };
        // Its panic must not keep the caller from giving up its operation.
        quietly(|| drop(left));
    }

    /// Requests the cancellation of an operation. The operation completes in any case.
    pub(crate) fn cancel(&self, key: Key) {
        let mut inner = self.inner.borrow_mut();
        self.push_cancel(&mut inner, key);
    }

    /// Gives an operation up: it is cancelled, its memory is kept until its last completion, and
    /// its results are cleaned up.
    pub(crate) fn abandon(&self, key: Key, keep: Option<Box<dyn Any>>) {
        let mut keep = keep;
        {
            let mut inner = self.inner.borrow_mut();
            let inner = &mut *inner;
            let Some(slot) = inner.slots.get(key) else {
                return;
            };
            slot.is_abandoned = true;
            let kind = slot.kind;
            while let Some(done) = slot.results.pop_front() {
                self.clean_up(kind, done);
            }
            if slot.is_in_flight {
                slot.keep = keep.take();
                inner.wakers.extend(slot.waiting.drain());
                self.push_cancel(inner, key);
            } else {
                inner.slots.free(key, &mut inner.wakers);
            }
        }
        // Code of the user, so outside of the borrow. Its panic must not keep the caller from
        // giving up its other operations.
        quietly(|| drop(keep));
    }

    /// Cleans up the result of a completion that no future takes.
    fn clean_up(&self, kind: Kind, done: Done) {
        match kind {
            Kind::Descriptor if done.result >= 0 => {
                // SAFETY: the kernel made it for this operation, and nothing else has it.
                drop(unsafe { OwnedFd::from_raw_fd(done.result) });
            }
            Kind::Chunks => {
                let id = cqueue::buffer_select(done.flags);
                if let (Some(id), Some(chunks)) = (id, &*self.chunks.borrow()) {
                    chunks.give_back(id);
                }
            }
            Kind::Plain | Kind::Descriptor => {}
        }
    }

    fn push_cancel(&self, inner: &mut Inner, key: Key) {
        let Some(slot) = inner.slots.get(key) else {
            return;
        };
        if slot.is_in_flight && !core::mem::replace(&mut slot.is_cancelled, true) {
            let entry = opcode::AsyncCancel::new(key.word()).build();
            self.push(inner, entry.user_data(CANCEL));
        }
    }

    /// Adds an entry to the turn. If the queue is full, what is in it is submitted.
    fn push(&self, inner: &mut Inner, entry: squeue::Entry) {
        inner.backlog.push_back(entry);
        if !push_backlog(inner) {
            self.enter(inner, None);
            push_backlog(inner);
        }
    }

    /// Submits the entries of the turn and makes the kernel complete what it can, without waiting.
    pub(crate) fn submit(&self) {
        {
            let mut inner = self.inner.borrow_mut();
            let (entries, flags) = {
                let queue = inner.uring.submission();
                (queue.len(), queue.taskrun() || queue.cq_overflow())
            };
            if entries != 0 || flags || !inner.backlog.is_empty() {
                self.enter(&mut inner, None);
            }
        }
        self.reap();
    }

    /// Submits the turn, and waits for a completion or for the time.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        {
            let mut inner = self.inner.borrow_mut();
            if !self.is_bell_armed.replace(true) {
                let fd = Fd(self.event.as_raw_fd());
                let count = self.count.as_ptr().cast();
                let entry = opcode::Read::new(fd, count, 8).build();
                self.push(&mut inner, entry.user_data(BELL));
            }
            let may_sleep = push_backlog(&mut inner) && inner.wakers.is_empty();
            let timeout = if may_sleep {
                timeout
            } else {
                Some(Duration::ZERO)
            };
            self.enter(&mut inner, Some(timeout));
        }
        self.reap();
    }

    /// Returns `true` if there is an operation that a sleep has to wait for.
    pub(crate) fn is_busy(&self) -> bool {
        let mut inner = self.inner.borrow_mut();
        inner.slots.in_flight() != 0
            || !inner.wakers.is_empty()
            || !inner.backlog.is_empty()
            || !inner.uring.submission().is_empty()
    }

    /// One call of the system; `wait` has how long to wait for one completion.
    fn enter(&self, inner: &mut Inner, wait: Option<Option<Duration>>) {
        push_backlog(inner);
        self.enters.set(self.enters.get() + 1);
        let has_completions = !inner.uring.completion().is_empty();
        let submitter = inner.uring.submitter();
        let entered = match wait {
            Some(None) if !has_completions => submitter.submit_and_wait(1),
            Some(Some(timeout)) if !has_completions && !timeout.is_zero() => {
                let span = Timespec::from(timeout);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&span))
            }
            _ => submitter.submit(),
        };
        if let Err(error) = entered {
            match error.raw_os_error() {
                // The time is up, a signal came, or the kernel has no room: a later turn submits
                // what it did not take.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN | libc::ENOMEM) => {}
                _ => panic!("io_uring_enter: {error}; the ring is used by its thread alone"),
            }
        }
    }

    /// Takes completions, and wakes what waits for them.
    pub(crate) fn reap(&self) {
        let (mut wakers, mut dropped) = {
            let mut inner = self.inner.borrow_mut();
            let inner = &mut *inner;
            loop {
                loop {
                    let next = inner.uring.completion().next();
                    let Some(entry) = next else { break };
                    self.complete(inner, &entry);
                }
                if !inner.uring.submission().cq_overflow() {
                    break;
                }
                // The kernel keeps overflowed completions of operations in flight, of which there
                // is a limited number. So this loop ends.
                self.overflows.set(self.overflows.get() + 1);
                self.enter(inner, None);
                if inner.uring.completion().is_empty() {
                    break;
                }
            }
            (
                core::mem::take(&mut inner.wakers),
                core::mem::take(&mut inner.dropped),
            )
        };
        for value in dropped.drain(..) {
            quietly(|| drop(value));
        }
        wake_all(wakers.drain(..));
        // The emptied lists are used again, with their memory.
        let mut inner = self.inner.borrow_mut();
        if inner.wakers.is_empty() {
            core::mem::swap(&mut inner.wakers, &mut wakers);
        }
        if inner.dropped.is_empty() {
            core::mem::swap(&mut inner.dropped, &mut dropped);
        }
    }

    fn complete(&self, inner: &mut Inner, entry: &cqueue::Entry) {
        let done = Done {
            result: entry.result(),
            flags: entry.flags(),
        };
        match entry.user_data() {
            CANCEL => return,
            BELL => {
                self.is_bell_armed.set(false);
                return;
            }
            _ => {}
        }
        let key = Key::from_word(entry.user_data());
        let is_last = !cqueue::more(done.flags);
        let Some(slot) = inner.slots.get(key) else {
            debug_assert!(false, "a completion of an operation that is over");
            return;
        };
        if is_last {
            // The drop of the last reference closes the descriptor, which may block.
            inner
                .dropped
                .extend(slot.fd.take().map(Dropped::Descriptor));
        }
        if slot.is_abandoned {
            let kind = slot.kind;
            if is_last {
                inner.dropped.extend(slot.keep.take().map(Dropped::Kept));
                inner.slots.land(key);
                inner.slots.free(key, &mut inner.wakers);
            }
            self.clean_up(kind, done);
            return;
        }
        slot.results.push_back(done);
        inner.wakers.extend(slot.waiting.drain());
        let is_full = slot.results.len() >= RESULTS;
        if is_last {
            inner.slots.land(key);
        } else if is_full {
            self.push_cancel(inner, key);
        }
    }

    /// Cancels all operations in flight and waits for their end. The memory of an operation that
    /// does not end in time is leaked.
    pub(crate) fn close(&self) {
        {
            let mut inner = self.inner.borrow_mut();
            if core::mem::replace(&mut inner.is_closed, true) {
                return;
            }
            let all = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
            self.push(&mut inner, all.user_data(CANCEL));
        }
        let begin = std::time::Instant::now();
        let is_over = loop {
            {
                let mut inner = self.inner.borrow_mut();
                let is_over = inner.slots.in_flight() == 0
                    && inner.backlog.is_empty()
                    && !self.is_bell_armed.get();
                if is_over || begin.elapsed() > END {
                    break is_over;
                }
                self.enter(&mut inner, Some(Some(Duration::from_millis(5))));
            }
            self.reap();
        };
        let mut inner = self.inner.borrow_mut();
        if is_over {
            if self.chunks.borrow().is_some() {
                // It fails if the kernel has no buffers, which is harmless.
                let _ = inner.uring.submitter().unregister_buf_ring(GROUP);
            }
        } else {
            // The kernel may still write there.
            core::mem::forget(inner.slots.take_kept());
            core::mem::forget(self.chunks.borrow().clone());
            core::mem::forget(Rc::clone(&self.count));
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.close();
        // The memory of operations that were abandoned after the close and are still in flight.
        core::mem::forget(self.inner.get_mut().slots.take_kept());
    }
}

/// Adds entries that found the queue full; returns `true` if there are none left.
fn push_backlog(inner: &mut Inner) -> bool {
    let mut queue = inner.uring.submission();
    while let Some(entry) = inner.backlog.front() {
        // SAFETY: what started the operation keeps its memory, by rule 1 of this module; an
        // entry without memory has nothing to keep.
        if unsafe { queue.push(entry) }.is_err() {
            return false;
        }
        inner.backlog.pop_front();
    }
    true
}

/// An event whose writes add up until they are read.
fn event() -> io::Result<OwnedFd> {
    // SAFETY: a call without memory.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is new, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn closed() -> io::Error {
    io::Error::other("the reactor of the socket has ended")
}

fn lacks(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!("the kernel's io_uring lacks {what}"),
    )
}

/// Why the kernel gives no ring.
fn refused(error: io::Error) -> io::Error {
    let why = match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel has no io_uring, or a filter of system calls hides it",
        Some(libc::EPERM | libc::EACCES) => {
            "the system forbids io_uring (kernel.io_uring_disabled, or a filter of system calls)"
        }
        Some(libc::EINVAL) => "the kernel's io_uring is older than Linux 6.1",
        Some(libc::ENOMEM) => "the memory that may be locked does not suffice for a ring",
        _ => "the kernel refused io_uring",
    };
    io::Error::new(error.kind(), format!("{why}: {error}"))
}
