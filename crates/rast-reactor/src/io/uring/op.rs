//! Operations as futures.

use core::future::poll_fn;
use core::task::{Context, Poll};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;

use io_uring::squeue;

use super::held::Held;
use super::ring::Ring;
use super::slots::{Done, Key, Kind};
use crate::io::faults::{Attempt, Fault};

/// The most bytes of one operation; the kernel counts them in 31 bits.
pub(super) const MOST: usize = 1 << 30;

/// A descriptor that the kernel made for an operation.
pub(super) fn descriptor(fd: i32) -> OwnedFd {
    // SAFETY: the result of an operation is taken once, and nothing else has the descriptor.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Where an operation goes.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) ring: &'a Rc<Ring>,
    pub(crate) fd: Option<&'a Rc<OwnedFd>>,
    pub(crate) kind: Kind,
    pub(crate) attempt: Attempt,
}

/// An operation in flight, with its memory. If this is dropped, the operation is given up.
struct Flight<'a, T: 'static, G: FnMut(Key, Held<T>)> {
    key: Option<Key>,
    held: Option<Held<T>>,
    ring: &'a Rc<Ring>,
    /// What is done with an operation that is given up.
    give_up: G,
}

impl<T, G: FnMut(Key, Held<T>)> Drop for Flight<'_, T, G> {
    fn drop(&mut self) {
        if let (Some(key), Some(held)) = (self.key.take(), self.held.take()) {
            self.ring.cancel(key);
            (self.give_up)(key, held);
        }
    }
}

impl<'a> Target<'a> {
    /// An operation on a descriptor that brings nothing to clean up.
    pub(crate) fn plain(ring: &'a Rc<Ring>, fd: &'a Rc<OwnedFd>, attempt: Attempt) -> Self {
        Self {
            ring,
            fd: Some(fd),
            kind: Kind::Plain,
            attempt,
        }
    }

    /// Runs an operation on memory that `value` owns; if the future is dropped, the ring keeps
    /// the memory.
    ///
    /// # Safety
    ///
    /// What `entry` names is owned by the value and keeps its address while the value is moved or
    /// forgotten; its descriptor is the target's.
    pub(crate) async unsafe fn run<T: 'static>(
        self,
        value: T,
        len: usize,
        entry: impl FnMut(&mut T, usize) -> squeue::Entry,
    ) -> (io::Result<usize>, T) {
        let ring = self.ring;
        let keep = |key, held| ring.abandon(key, Some(Box::new(held)));
        // SAFETY: by the caller; `keep` gives the memory to the ring.
        unsafe { self.run_or(value, len, entry, keep) }.await
    }

    /// As [`run`](Self::run); if the future is dropped, `give_up` gets the operation, which is
    /// being cancelled, and its memory.
    ///
    /// # Safety
    ///
    /// As [`run`](Self::run). `give_up` keeps the memory until the operation's last completion, by
    /// [`Ring::abandon`] at the latest.
    pub(crate) async unsafe fn run_or<T: 'static>(
        self,
        value: T,
        len: usize,
        mut entry: impl FnMut(&mut T, usize) -> squeue::Entry,
        give_up: impl FnMut(Key, Held<T>),
    ) -> (io::Result<usize>, T) {
        let Self {
            ring,
            fd,
            kind,
            attempt,
        } = self;
        let mut flight = Flight {
            key: None,
            held: Some(Held::new(value)),
            ring,
            give_up,
        };
        let result = loop {
            let mut len = len;
            match ring.strike(attempt, &mut len) {
                Some(Fault::Interrupted) => continue,
                Some(fault) => break Err(error_of(fault)),
                None => {}
            }
            let Some(held) = &mut flight.held else {
                unreachable!("op: the memory is there until the end")
            };
            let entry = entry(held.get(), len);
            // SAFETY: 1. the flight has the memory, and gives it to `give_up`. 2. By the caller.
            match unsafe { ring.start(entry, kind, fd, attempt) } {
                Ok(key) => flight.key = Some(key),
                Err(error) => break Err(error),
            }
            let done = wait(ring, flight.key).await;
            flight.key = None;
            match done {
                Some(Done { result, .. }) if result >= 0 => break Ok(result as usize),
                // The future still exists, so it has not cancelled the operation. The operation
                // begins again, unless the ring has ended, which `start` finds.
                Some(Done { result, .. })
                    if matches!(-result, libc::EINTR | libc::ECANCELED)
                        || (-result == libc::EAGAIN && attempt != Attempt::Other) => {}
                Some(Done { result, .. }) => break Err(io::Error::from_raw_os_error(-result)),
                None => break Err(io::Error::other("the operation is over")),
            }
        };
        match flight.held.take() {
            Some(held) => (result, held.into_inner()),
            None => unreachable!("op: the memory is there until the end"),
        }
    }
}

/// Waits for the next result of an operation; `None` if the operation is over.
pub(crate) async fn wait(ring: &Ring, key: Option<Key>) -> Option<Done> {
    let key = key?;
    let mut waits = Waits {
        ring,
        key,
        entry: None,
    };
    poll_fn(|cx| waits.poll(cx)).await
}

/// A future that waits for a result. Dropping it removes its waker, so that the operation keeps no
/// abandoned task alive.
struct Waits<'a> {
    ring: &'a Ring,
    key: Key,
    /// In the list of the operation, unless a result has used it.
    entry: Option<u64>,
}

impl Waits<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Done>> {
        let polled = self.ring.poll(self.key, &mut self.entry, cx);
        if polled.is_ready() {
            // Each result takes all wakers.
            self.entry = None;
        }
        polled
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if self.entry.is_some() {
            self.ring.leave(self.key, &mut self.entry);
        }
    }
}

pub(crate) fn error_of(fault: Fault) -> io::Error {
    io::Error::from_raw_os_error(match fault {
        Fault::Interrupted => libc::EINTR,
        Fault::Reset => libc::ECONNRESET,
        Fault::NoBuffers => libc::ENOBUFS,
    })
}
