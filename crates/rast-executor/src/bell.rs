//! Wakes a thread that sleeps in its parker or in a poll of the system.
//!
//! ```text
//!              ring: AWAKE ─► RUNG      no system call
//!   AWAKE ──sleep──► PARKED ──ring──► RUNG, and the parker is unparked
//!   AWAKE ──sleep──► POLLING ──ring──► RUNG, and the poll is interrupted
//!   any ──the sleep ends──► AWAKE
//! ```
//!
//! Rules:
//!
//! 1. All changes are atomic operations on one word. If the bell rings before a sleep begins, the
//!    thread finds RUNG when it begins to sleep, and does not sleep. If the bell rings later, the
//!    word says where the thread sleeps, and the ring ends that sleep.
//! 2. A ring that ends a sleep leaves a token in the parker or in the poll. So a ring after the
//!    change to PARKED or POLLING, but before the call that sleeps, is not lost.
//! 3. What a thread wrote before it rings is visible to the woken thread, because the end of the
//!    sleep reads the word that the ring wrote.

use core::fmt;
use core::task::Waker;
use std_alloc::sync::Arc;
use std_alloc::task::Wake;

use crate::primitive::Unparker;
use crate::primitive::sync::atomic::{AtomicU8, Ordering};

const AWAKE: u8 = 0;
const PARKED: u8 = 1;
const POLLING: u8 = 2;
const RUNG: u8 = 3;

/// Wakes the thread of a [`Driver`](crate::Driver) that sleeps in a
/// [`Parker`](crate::primitive::Parker) while no request to the system is pending, and in a poll of
/// the system otherwise.
///
/// A ring costs one exchange, and a system call only if the thread sleeps.
/// [`PollDriver`](crate::io::PollDriver) is an example of its use.
pub struct Bell<I> {
    word: AtomicU8,
    unparker: Unparker,
    /// Ends the thread's wait in the poll or, if it does not wait there now, its next one.
    interrupt: I,
}

impl<I: Fn() + Send + Sync + 'static> Bell<I> {
    /// Makes a bell for the thread of the parker. `interrupt` must end the thread's wait in the
    /// poll or, if it does not wait there now, its next one.
    pub fn new(unparker: Unparker, interrupt: I) -> Arc<Self> {
        Arc::new(Self {
            word: AtomicU8::new(AWAKE),
            unparker,
            interrupt,
        })
    }

    /// Calls `park`, which sleeps in the parker. If the bell has rung since the last sleep, returns
    /// `false` without a sleep. For the thread of the parker alone.
    pub fn park(&self, park: impl FnOnce()) -> bool {
        self.sleep(PARKED, park)
    }

    /// As [`park`](Self::park), for `poll`, which sleeps in the poll.
    pub fn poll(&self, poll: impl FnOnce()) -> bool {
        self.sleep(POLLING, poll)
    }

    #[inline]
    fn sleep(&self, place: u8, sleep: impl FnOnce()) -> bool {
        // Relaxed: it publishes nothing, and what a ring published is read by DB2. [DB1]
        let may = self
            .word
            .compare_exchange(AWAKE, place, Ordering::Relaxed, Ordering::Relaxed);
        if may.is_ok() {
            sleep();
        }
        // Acquire: pairs with DB3; what was written before a ring is visible from here on. [DB2]
        self.word.swap(AWAKE, Ordering::Acquire);
        may.is_ok()
    }

    /// Ends the sleep of the thread or, if it is awake, its next sleep. From any thread; lock-free.
    pub fn ring(&self) {
        // Release: pairs with DB2; publishes what this thread wrote. A later ring continues its
        // release sequence. [DB3]
        match self.word.swap(RUNG, Ordering::Release) {
            PARKED => self.unparker.unpark(),
            POLLING => (self.interrupt)(),
            _ => {}
        }
    }

    /// Returns a waker that rings.
    pub fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }
}

impl<I: Fn() + Send + Sync + 'static> Wake for Bell<I> {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

impl<I> fmt::Debug for Bell<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bell").finish_non_exhaustive()
    }
}
