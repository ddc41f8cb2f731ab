//! The system's clock that goes on while the machine sleeps.

use super::Clock;
use crate::Instant;
use crate::raw::boot_nanos;

/// The system's monotonic clock that counts the time of suspension too:
/// CLOCK_BOOTTIME.
///
/// It is there on Linux and Android alone; elsewhere the name is absent.
/// It counts from the boot of the machine, so its instants have nothing to do
/// with those of [`MonotonicClock`](crate::MonotonicClock), and mean the same
/// in every process.
/// All instances agree. A reading costs what one of the monotonic clock does, a
/// call into the vDSO, and is wait-free.
///
/// ```
/// use rast_timers::{BootClock, Clock};
/// let clock = BootClock::new().expect("Linux has it since 2.6.39");
/// assert!(clock.now() <= clock.now());
/// ```
#[cfg_attr(
    docsrs,
    doc(cfg(all(feature = "std", any(target_os = "linux", target_os = "android"))))
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootClock {
    /// Made by `new` alone, which has asked the kernel.
    asked: (),
}

impl BootClock {
    /// Makes a handle of the clock, `None` where the kernel has no such clock
    /// or a filter of system calls forbids it.
    #[must_use]
    pub fn new() -> Option<Self> {
        boot_nanos().map(|_| Self { asked: () })
    }
}

impl Clock for BootClock {
    /// # Panics
    ///
    /// If the kernel answered `new` and refuses now, which none does.
    #[inline]
    fn now(&self) -> Instant {
        Instant::from_nanos(boot_nanos().expect("a clock that was there stays"))
    }
}
