//! The upper bits of the counter as the guard word of the amortised timers.

use super::TscClock;
use crate::primitive::sync::atomic::{AtomicU64, Ordering};
use crate::{Clock, Counter, Guard, Instant, MonotonicClock, Nanos, Tsc};
use core::fmt;

/// A [`Guard`] that needs no publisher: the counter without its lower bits.
///
/// The word changes once per τ ([`period`](Self::period)). The processor may read the counter out
/// of order, and δ is the time by which such a reading may be off: some tens of nanoseconds. So two
/// calls that return equal words are at most τ + δ apart, as [`Guard`] requires.
///
/// | call | when | cost | what it checks |
/// | --- | --- | --- | --- |
/// | `word` | each call of a timer | a reading of the counter, some 10 ns, and a store | that the count differs from that of the last call |
/// | `vouches` | each time a timer reads its own clock | a reading of the reference between two of the counter, some 70 ns | the counter against the reference, as [`TscClock::check`] does; never waits |
///
/// The bound τ + δ assumes that the counter runs at its promised rate ([`Counter::pace`]), which
/// the guard checks. In the following, *the timer's clock* is the one that a timer reads, and the
/// *[`TscClock`]* is the one that made the guard.
///
/// 1. If the counter stops, the next call may return the same word as the call before it, although
///    more than τ has passed between the two. The call after that finds the same count again, and
///    so detects the stop. From then on each call returns a different word, so the timers read
///    their clock each time.
/// 2. If the counter becomes too slow, the next call of `vouches` detects it. A timer calls
///    `vouches` when it reads its clock, that is, when the word changes or its batch of calls is
///    over. Until then τ is longer, in proportion to the slower rate. How small a change is
///    detected depends on the `TscClock`. If threads read the `TscClock`, it has measured the
///    counter's rate. From this rate follows an [interval](TscClock::interval) for the reference,
///    and `vouches` returns `false` if the reference is outside of it. If no thread reads the
///    `TscClock`, `vouches` detects only a rate below seven eighths of the promised rate.
/// 3. Once the `TscClock` has left the counter, `vouches` returns `false`, and the timers read
///    their clock at every call, until the counter is used again.
///
/// Any thread may use a guard, but each call writes to the guard: give each thread a clone.
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
    /// Count at the last call.
    last: AtomicU64,
}

impl<K: Counter, C: Clock> TscClock<K, C> {
    /// Makes a guard for the amortised timers that needs no publisher: the upper bits of the
    /// counter, which change at least every `tau`.
    #[must_use]
    pub fn guard(&self, tau: Nanos) -> TscGuard<K, C> {
        TscGuard::new(self.clone(), tau)
    }
}

/// Number of readings by which the counter is checked for movement.
const LOOKS: u32 = 1_000;

impl<K: Counter, C: Clock> TscGuard<K, C> {
    fn new(clock: TscClock<K, C>, tau: Nanos) -> Self {
        let pace = u128::from(clock.counter().pace());
        let counts = u128::from(tau.as_nanos()) * pace / 1_000_000_000;
        let counts = u64::try_from(counts).unwrap_or(u64::MAX).max(1);
        Self {
            shift: counts.ilog2(),
            last: AtomicU64::new(u64::MAX),
            clock,
        }
    }

    /// Handles a repeated count: the counter has not advanced a step yet, or has stopped.
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
        // Differs for each nanosecond, and from all words of the counter.
        !reference.now().as_nanos()
    }

    /// Returns a time in which a sound counter advances.
    fn steps(&self) -> Nanos {
        let counter = self.clock.counter();
        let step = u128::from(counter.step()) * 4_000_000_000;
        let nanos = step / u128::from(counter.pace().max(1));
        Nanos::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns τ: the greatest power of two of counts that fits into the requested period, at least
    /// one count.
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
        // Relaxed: only this thread uses the word; if another thread stores in between, the cost is
        // a second check. [CK21]
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
