//! The system's monotonic clock, counted from one origin per process.

use super::Clock;
use crate::primitive::sync::OnceLock;
use crate::{Instant, Nanos};
use std::time::Instant as SystemInstant;

/// Origin of every `MonotonicClock` of the process: the first use.
static ORIGIN: OnceLock<SystemInstant> = OnceLock::new();

fn origin() -> SystemInstant {
    *ORIGIN.get_or_init(SystemInstant::now)
}

/// The system's monotonic clock.
///
/// All instances, on all threads, give times since the same origin: the first use in the process. A
/// reading costs as much as `std::time::Instant::now` (on Linux a call into the vDSO) plus the
/// loads of the origin. It is wait-free wherever that function is, except that the first use may
/// block other threads.
///
/// ```
/// use rast_timers::{Clock, MonotonicClock};
/// let clock = MonotonicClock::new();
/// let before = clock.now();
/// let system = std::time::Instant::now();
/// let after = MonotonicClock::new().now();
/// assert!(before <= clock.instant_of(system) && clock.instant_of(system) <= after);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonotonicClock;

impl MonotonicClock {
    /// Makes a handle of the clock and fixes the origin if this is the first.
    #[must_use]
    pub fn new() -> Self {
        let _ = origin();
        Self
    }

    /// Converts an instant of the standard library to this clock's; an instant before the origin
    /// becomes the origin.
    #[must_use]
    pub fn instant_of(&self, instant: SystemInstant) -> Instant {
        let since = instant.saturating_duration_since(origin());
        Instant::ORIGIN.saturating_add(Nanos::from(since))
    }

    /// Converts an instant of this clock to the standard library's; `None` if that cannot represent
    /// it.
    #[must_use]
    pub fn system_of(&self, instant: Instant) -> Option<SystemInstant> {
        let since = instant.saturating_since(Instant::ORIGIN);
        origin().checked_add(since.into())
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Instant {
        let since = SystemInstant::now().saturating_duration_since(origin());
        // The low 64 bits suffice for the first 584 years of uptime.
        Instant::from_nanos(since.as_nanos() as u64)
    }
}
