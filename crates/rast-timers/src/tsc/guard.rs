//! The upper bits of the counter as the word that the amortised timers look
//! at.

use super::TscClock;
use crate::{Clock, Counter, Guard, Instant, MonotonicClock, Nanos, Tsc};
use core::fmt;

/// A [`Guard`] that needs no publisher: the counter without its lower bits.
///
/// Two equal words lie less than τ apart, and δ is the tens of nanoseconds by
/// which the processor may read the counter out of order. A call of a timer
/// costs a reading of the counter, so some 10 ns and not two; the bound holds
/// without any other thread. Once its clock has left the counter it vouches for
/// nothing, and the timers read their clock at every call.
///
/// ```
/// use rast_timers::{MonotonicClock, Nanos, PeriodicTimer, TimerConfig, TscClock};
/// if let Ok(clock) = TscClock::new() {
///     let guard = clock.guard(Nanos::from_micros(100));
///     assert!(guard.period() <= Nanos::from_micros(100));
///     let mut timer = PeriodicTimer::new(MonotonicClock::new(), TimerConfig::new());
///     assert_eq!(timer.elapsed(&guard), Nanos::ZERO);
/// }
/// ```
pub struct TscGuard<K = Tsc, C = MonotonicClock> {
    clock: TscClock<K, C>,
    shift: u32,
}

impl<K: Counter, C: Clock> TscGuard<K, C> {
    pub(super) fn new(clock: TscClock<K, C>, tau: Nanos) -> Self {
        let pace = u128::from(clock.counter().pace());
        let counts = u128::from(tau.as_nanos()) * pace / 1_000_000_000;
        let counts = u64::try_from(counts).unwrap_or(u64::MAX).max(1);
        Self {
            shift: counts.ilog2(),
            clock,
        }
    }

    /// Returns τ: the greatest power of two of counts that fits into the one
    /// asked for, at least one count.
    #[must_use]
    pub fn period(&self) -> Nanos {
        let pace = u128::from(self.clock.counter().pace().max(1));
        let nanos = ((1_000_000_000_u128) << self.shift).div_ceil(pace);
        Nanos::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl<K: Counter, C: Clock> Guard for TscGuard<K, C> {
    #[inline(always)]
    fn word(&self) -> u64 {
        self.clock.counter().count() >> self.shift
    }

    #[inline]
    fn vouches(&self, _word: u64, _now: Instant) -> bool {
        !self.clock.is_left()
    }
}

impl<K, C> Clone for TscGuard<K, C> {
    fn clone(&self) -> Self {
        Self {
            clock: self.clock.clone(),
            shift: self.shift,
        }
    }
}

impl<K: Counter, C: Clock> fmt::Debug for TscGuard<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TscGuard")
            .field("period", &self.period())
            .finish_non_exhaustive()
    }
}
