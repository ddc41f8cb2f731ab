//! Sources of time.
//!
//! All code in the workspace reads the time through a [`Clock`], so that a test can control it.

mod coarse;
#[cfg(feature = "std")]
mod contained;
#[cfg(feature = "std")]
mod monotonic;
#[cfg(all(feature = "std", any(target_os = "linux", target_os = "android")))]
mod system;

pub use coarse::CoarseClock;
#[cfg(feature = "std")]
pub use coarse::Ticker;
#[cfg(feature = "std")]
pub use contained::ContainedClock;
#[cfg(feature = "std")]
pub use monotonic::MonotonicClock;
#[cfg(all(feature = "std", any(target_os = "linux", target_os = "android")))]
pub use system::{BootClock, ThreadClock};

use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::{AtomicU64, Ordering};
use crate::{Instant, Nanos};
use core::fmt;

/// A source of time that never runs backwards as seen by one thread.
///
/// Threads may read it concurrently; a reading orders no other memory.
pub trait Clock {
    /// Returns the time now.
    fn now(&self) -> Instant;
}

impl<C: Clock + ?Sized> Clock for &C {
    #[inline]
    fn now(&self) -> Instant {
        (**self).now()
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    #[inline]
    fn now(&self) -> Instant {
        (**self).now()
    }
}

/// A clock that advances only when a caller moves it, for tests and simulations.
///
/// Clones share one time. Any thread can move it, but only forwards. Reading and moving are
/// lock-free: each is one atomic operation if there is no contention.
///
/// ```
/// use rast_timers::{Clock, Instant, ManualClock, Nanos};
/// let clock = ManualClock::new();
/// let same = clock.clone();
/// clock.advance(Nanos::from_micros(5));
/// assert_eq!(same.now(), Instant::from_nanos(5_000));
/// clock.set(Instant::from_nanos(3)); // the past: has no effect
/// assert_eq!(same.now(), Instant::from_nanos(5_000));
/// ```
#[derive(Clone)]
pub struct ManualClock {
    nanos: Arc<AtomicU64>,
}

impl ManualClock {
    /// Makes a clock that shows its origin, zero.
    #[must_use]
    pub fn new() -> Self {
        Self::at(Instant::ORIGIN)
    }

    /// Makes a clock that shows `start`.
    #[must_use]
    pub fn at(start: Instant) -> Self {
        Self {
            nanos: Arc::new(AtomicU64::new(start.as_nanos())),
        }
    }

    /// Moves the clock `span` forwards, at most to [`Instant::MAX`].
    ///
    /// Advances of several threads add up.
    pub fn advance(&self, span: Nanos) {
        let later = |nanos: u64| Some(nanos.saturating_add(span.as_nanos()));
        // Relaxed: a clock reading publishes no other memory. [CK1]
        let _ = self
            .nanos
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    /// Moves the clock forwards to `to`; does nothing if the clock is already at or past `to`.
    pub fn set(&self, to: Instant) {
        // Relaxed: as CK1; `fetch_max` keeps the greatest value set. [CK3]
        self.nanos.fetch_max(to.as_nanos(), Ordering::Relaxed);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> Instant {
        // Relaxed: as CK1; coherence of the one word keeps each thread's
        // readings from going back. [CK4]
        Instant::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.now()).finish()
    }
}
