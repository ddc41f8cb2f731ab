//! How long a thread ran.

use super::Clock;
use crate::Instant;
use crate::raw::thread_nanos;

/// How long the calling thread has run on a processor: CLOCK_THREAD_CPUTIME_ID.
///
/// It stands still while the thread sleeps, and while the system runs another thread in its
/// place. Each thread reads its own time, so readings of two threads have nothing to do with
/// each other.
/// It is there on Linux and Android alone; elsewhere the name is absent.
/// A reading is a system call, and wait-free.
///
/// ```
/// use rast_timers::{Clock, ThreadClock};
/// let clock = ThreadClock::new().expect("Linux has it since 2.6.12");
/// assert!(clock.now() <= clock.now());
/// ```
#[cfg_attr(
    docsrs,
    doc(cfg(all(feature = "std", any(target_os = "linux", target_os = "android"))))
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadClock {
    /// Made by `new` alone, which has asked the kernel.
    asked: (),
}

impl ThreadClock {
    /// Makes a handle of the clock, `None` where the kernel has no such clock
    /// or a filter of system calls forbids it.
    #[must_use]
    pub fn new() -> Option<Self> {
        thread_nanos().map(|_| Self { asked: () })
    }
}

impl Clock for ThreadClock {
    /// # Panics
    ///
    /// If the kernel answered `new` and refuses now, which none does.
    #[inline]
    fn now(&self) -> Instant {
        Instant::from_nanos(thread_nanos().expect("a clock that was there stays"))
    }
}
