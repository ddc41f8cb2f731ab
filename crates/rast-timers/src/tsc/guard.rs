//! The upper bits of the counter as the word that the amortised timers look
//! at.

use super::TscClock;
use crate::primitive::sync::atomic::{AtomicU64, Ordering};
use crate::{Clock, Counter, Guard, Instant, MonotonicClock, Nanos, Tsc};
use core::fmt;

/// A [`Guard`] that needs no publisher: the counter without its lower bits.
///
/// Two equal words lie less than τ apart, and δ is the tens of nanoseconds by
/// which the processor may read the counter out of order. The bound holds
/// without any other thread, and also if no thread reads the guard's clock.
///
/// | call | when | cost | what it tests |
/// | --- | --- | --- | --- |
/// | `word` | each call of a timer | a reading of the counter, some 10 ns, and a store | that the count is another one than at the last call |
/// | `vouches` | each time a timer reads its own clock | a reading of the reference between two of the counter, some 70 ns | the counter against the reference, as [`TscClock::check`] does; never waits |
///
/// So the bound assumes that the counter goes at its pace, and is tested:
///
/// 1. A counter that stands still is found at the second call after it stopped.
///    The word is another one at each call from then on, so the timers read their
///    clock each time. The first call after it stopped may lag by the time since
///    the call before.
/// 2. A counter that goes on too slowly is found when a timer reads its clock,
///    which it does when the word moves or its batch of calls is over: by less
///    than seven eighths of the pace it promised where no thread reads the guard's
///    clock, and by anything outside of the interval where one does. Until then τ
///    is as much longer as the counter is slower.
/// 3. Once the clock has left the counter, the guard vouches for nothing, and the
///    timers read their clock at every call, until the counter is taken up again.
///
/// Any thread may use it, but each call writes a word of it: give each thread a
/// clone.
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
    /// The count of the last call.
    last: AtomicU64,
}

/// How often the counter is read to see whether it moves.
const LOOKS: u32 = 1_000;

impl<K: Counter, C: Clock> TscGuard<K, C> {
    pub(super) fn new(clock: TscClock<K, C>, tau: Nanos) -> Self {
        let pace = u128::from(clock.counter().pace());
        let counts = u128::from(tau.as_nanos()) * pace / 1_000_000_000;
        let counts = u64::try_from(counts).unwrap_or(u64::MAX).max(1);
        Self {
            shift: counts.ilog2(),
            last: AtomicU64::new(u64::MAX),
            clock,
        }
    }

    /// A count for the second time: within a step of the counter, or because it
    /// stands.
    #[cold]
    fn word_slow(&self, count: u64) -> u64 {
        let reference = self.clock.reference();
        if !self.clock.is_left() {
            let counter = self.clock.counter();
            let begun = reference.now();
            for _ in 0..LOOKS {
                let next = counter.count();
                if next != count {
                    // Relaxed: as CK21. [CK23]
                    self.last.store(next, Ordering::Relaxed);
                    return next >> self.shift;
                }
            }
            if reference.now().saturating_since(begun) > self.steps() {
                self.clock.found_stuck();
            }
        }
        // Another one for each nanosecond, and none of the counter's.
        !reference.now().as_nanos()
    }

    /// In this time a sound counter moves.
    fn steps(&self) -> Nanos {
        let counter = self.clock.counter();
        let step = u128::from(counter.step()) * 4_000_000_000;
        let nanos = step / u128::from(counter.pace().max(1));
        Nanos::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
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
        let count = self.clock.counter().count();
        // Relaxed: a word for this thread; what another one stores between the
        // two costs a second look. [CK21]
        if self.last.load(Ordering::Relaxed) == count {
            return self.word_slow(count);
        }
        // Relaxed: as CK21. [CK22]
        self.last.store(count, Ordering::Relaxed);
        count >> self.shift
    }

    /// Compares the counter with the clock's reference, as
    /// [`TscClock::check`] does.
    #[inline]
    fn vouches(&self, _word: u64, _now: Instant) -> bool {
        self.clock.vouch()
    }
}

impl<K, C> Clone for TscGuard<K, C> {
    fn clone(&self) -> Self {
        Self {
            clock: self.clock.clone(),
            shift: self.shift,
            last: AtomicU64::new(u64::MAX),
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
