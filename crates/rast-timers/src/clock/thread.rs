//! The processor time of a thread.

use super::Clock;
use crate::Instant;
use crate::raw::thread_nanos;

/// The processor time of the calling thread: CLOCK_THREAD_CPUTIME_ID.
///
/// It does not advance while the thread sleeps or is preempted. Each thread reads its own time, so
/// readings of two threads must not be compared. The type exists only on Linux and Android. A
/// reading is a system call, and wait-free.
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
    /// Only `new` makes the value, after a successful system call.
    asked: (),
}

impl ThreadClock {
    /// Makes a handle of the clock; `None` if the kernel has no such clock or a system call filter
    /// forbids it.
    #[must_use]
    pub fn new() -> Option<Self> {
        thread_nanos().map(|_| Self { asked: () })
    }
}

impl Clock for ThreadClock {
    /// # Panics
    ///
    /// If the system call succeeded in `new` and fails now, which no kernel does.
    #[inline]
    fn now(&self) -> Instant {
        Instant::from_nanos(thread_nanos().expect("a clock that was there stays"))
    }
}
