//! The tick word: a recent clock reading that any thread can read with one load.
//!
//! A loop that runs continuously (a worker, a reactor, a ticker thread) reads the clock now and
//! then and publishes the reading here. The amortised timers never use the word as the time. They
//! only compare it with the word that they loaded at their last clock reading: if it is unchanged,
//! little time has passed.

use crate::Instant;
use crate::primitive::sync::atomic::{AtomicU64, Ordering};
use core::fmt;

/// A published reading of a clock.
///
/// The publisher must keep two promises, on which the bounds of the timers rest:
///
/// 1. the word is never ahead of the clock that the timers read;
/// 2. at any moment the word is at most τ + δ behind that clock, where τ is the period at which the
///    loop publishes and δ is how late a publication may be.
///
/// The loop determines τ. No thread can guarantee δ on a machine that may suspend the loop's
/// thread, so measure δ where it matters. Any thread may publish or load. Every operation is
/// lock-free; `load` is one relaxed load. If several threads use a tick, place it in a cache line
/// of its own ([`CachePadded`](rast_queue::primitive::CachePadded)).
///
/// ```
/// use rast_timers::{Clock, ManualClock, Nanos, Tick};
/// let clock = ManualClock::new();
/// let tick = Tick::new();
/// clock.advance(Nanos::from_millis(1));
/// tick.publish(clock.now());
/// assert_eq!(tick.now(), clock.now());
/// ```
pub struct Tick {
    word: AtomicU64,
}

impl Tick {
    /// Makes a tick that shows the origin of the clock.
    #[cfg(not(rast_loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
        }
    }

    /// Makes a tick that shows the origin of the clock.
    #[cfg(rast_loom)]
    #[must_use]
    pub fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
        }
    }

    /// Publishes a reading; ignores a reading that is older than the word, so that the word never
    /// decreases.
    #[inline]
    pub fn publish(&self, now: Instant) {
        // Relaxed: only skips the write below when the reading is not newer. [TK1]
        if now.as_nanos() <= self.word.load(Ordering::Relaxed) {
            return;
        }
        // Relaxed: the word publishes no other memory; `fetch_max` keeps it monotonic with several
        // publishers. [TK2]
        self.word.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }

    /// Returns the word: nanoseconds of the last reading published.
    #[inline(always)]
    #[must_use]
    pub fn load(&self) -> u64 {
        // Relaxed: a stale word counts as a late tick, which δ includes; no other memory is read
        // because of it. [TK3]
        self.word.load(Ordering::Relaxed)
    }

    /// Returns the last reading published, as an instant of its clock.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.load())
    }
}

impl Default for Tick {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tick").field(&self.now()).finish()
    }
}
