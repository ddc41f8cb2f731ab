//! The tick word: a recent reading of the clock that anybody may look at for
//! the price of a load.
//!
//! A loop that turns anyway (a worker, a reactor, a ticker thread) reads the
//! clock now and then and publishes the reading here.
//! The amortised timers never take the word for the time; they only compare
//! it with the word they saw at their last reading of the clock. As long as
//! it stands still, little time has passed.

use crate::Instant;
use crate::primitive::sync::atomic::{AtomicU64, Ordering};
use core::fmt;

/// A published reading of a clock.
///
/// The publisher owes the timers two things, and their bound speaks of both:
///
/// 1. the word is never ahead of the clock that the timers read;
/// 2. at any moment the word is at most τ + δ behind that clock, where τ is
///    the period at which the loop publishes and δ how late it may be.
///
/// The loop keeps τ; no thread can promise δ on a machine that may suspend the
/// loop's thread, so measure it where it matters.
/// Any thread may publish and any thread may look; every operation is
/// lock-free, `load` is one relaxed load. A tick that threads share belongs
/// on a cache line of its own ([`CachePadded`](rast_queue::primitive::CachePadded)).
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

    /// Publishes a reading; one older than the word's is dropped, so that the
    /// word never goes back.
    #[inline]
    pub fn publish(&self, now: Instant) {
        // Relaxed: saves the write below when nothing is new; it decides
        // nothing else. [TK1]
        if now.as_nanos() <= self.word.load(Ordering::Relaxed) {
            return;
        }
        // Relaxed: the word carries itself alone; the maximum keeps it
        // monotone among several publishers. [TK2]
        self.word.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }

    /// Returns the word: nanoseconds of the last reading published.
    #[inline(always)]
    #[must_use]
    pub fn load(&self) -> u64 {
        // Relaxed: a stale word is a late tick, which δ counts in; nothing
        // else is read on the strength of it. [TK3]
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
