//! The system clock that also counts while the machine is suspended.

use super::Clock;
use crate::Instant;
use crate::raw::boot_nanos;

/// The system's monotonic clock including suspended time: CLOCK_BOOTTIME.
///
/// The type exists only on Linux and Android. The clock counts from the boot of the machine, so its
/// instants mean the same in every process, and must not be compared with those of
/// [`MonotonicClock`](crate::MonotonicClock). A reading costs as much as one of the monotonic
/// clock, a call into the vDSO, and is wait-free.
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
    /// Only `new` makes the value, after a successful system call.
    asked: (),
}

impl BootClock {
    /// Makes a handle of the clock; `None` if the kernel has no such clock or a system call filter
    /// forbids it.
    #[must_use]
    pub fn new() -> Option<Self> {
        boot_nanos().map(|_| Self { asked: () })
    }
}

impl Clock for BootClock {
    /// # Panics
    ///
    /// If the system call succeeded in `new` and fails now, which no kernel does.
    #[inline]
    fn now(&self) -> Instant {
        Instant::from_nanos(boot_nanos().expect("a clock that was there stays"))
    }
}
