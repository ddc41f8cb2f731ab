//! The start-finish timer: the total duration of pairs of calls, with few clock readings.
//!
//! Source: the original RAST design, 2.7. The original has a periodic timer at `start` and another
//! at `finish`, and subtracts the sum of the first one's answers from that of the second. It has
//! two faults. All durations except the last cancel out of the difference. Each answer may also be
//! wrong by a whole batch (the calls between two clock readings). Here the clock is read at both
//! ends of one pair per batch. For each other pair the running mean of the measured pairs is added,
//! and the possible error is summed separately.
//!
//! Pairs of one timer do not overlap. So between two readings T1 < T2, the pairs that ended without
//! a reading took between 0 and T2 − T1 together. Their estimate is limited to T2 − T1. So it is
//! wrong by at most its distance to 0 or to T2 − T1, whichever is greater. The error bound is the
//! sum of these distances, for every pattern of calls. A measured pair adds nothing to it.
//!
//! The measured pair of a batch is chosen at random. If it were always the same pair of a batch, a
//! periodic load could always have the same kind of pair there. The pair at a change of the tick
//! would be a biased choice too, because it often follows a long pair. So the clock is read at that
//! change, but the pair is estimated like the others.

use crate::primitive::Random;
use crate::{Clock, Guard, Instant, Nanos, TimerConfig};

/// Fraction bits of a predicted duration in nanoseconds, so that pairs of a few nanoseconds do not
/// lose their fraction ten thousand times.
const FRACTION_BITS: u32 = 8;

/// Weight of each new duration in the running mean: 1 / 2^3.
const MEAN_SHIFT: u32 = 3;

/// State of the timer between `start` and `finish`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pair {
    /// No pair is open.
    Closed,
    /// Started without a reading.
    Guessed,
    /// Started at `read_at`.
    Read,
}

/// Sums the time between `start` and `finish` with few clock readings.
///
/// [`sum`](Self::sum) is an estimate. It contains the exact time of each measured pair, and for
/// each other pair the running mean of the measured ones. The estimate is unbiased if the pairs of
/// a batch have the same distribution. [`error`](Self::error) bounds its error for every load: the
/// true sum of all finished pairs lies within `sum ± error`. From one reading to the next, the
/// error grows by at most the time between them. It does not grow while every pair is measured
/// (with a greatest skip of 0, or if pairs are so long that none is skipped). The time of a
/// measured pair includes about one clock reading.
///
/// A timer belongs to one call site, called by one thread at a time. A call is wait-free: one
/// relaxed load and a few integer operations, and a clock reading if its pair is measured.
///
/// ```
/// use rast_timers::{Clock, ManualClock, Nanos, StartFinishTimer, Tick, TimerConfig};
/// let clock = ManualClock::new();
/// let tick = Tick::new();
/// let mut timer = StartFinishTimer::new(clock.clone(), TimerConfig::new());
/// timer.start(&tick);
/// clock.advance(Nanos::from_micros(30));
/// timer.finish(&tick);
/// assert_eq!(timer.count(), 1);
/// assert_eq!(timer.sum(), Nanos::from_micros(30));
/// assert_eq!(timer.error(), Nanos::ZERO);
/// ```
#[derive(Clone, Debug)]
// In this order, because a pair without a reading, and `sum`, access the fields up to `settled`.
#[repr(C)]
pub struct StartFinishTimer<C> {
    /// Tick word loaded before the last reading; for a measured pair, before the reading of its
    /// start.
    word: u64,
    /// Number of pairs that may still start without a reading.
    countdown: u32,
    pair: Pair,
    /// Estimated duration of a pair without a reading, in 2^-8 ns.
    step: u64,
    /// Total that such pairs may still count until the next reading, in 2^-8 ns.
    cap: u64,
    /// Value of `cap` right after a reading: P.
    cap_full: u64,
    /// Number of finished pairs.
    count: u64,
    /// Sum up to the last reading.
    settled: Nanos,
    /// Number of pairs that the current batch allows without a reading.
    granted: u32,
    /// Value of `countdown` when the first estimated pair after the last reading started;
    /// `countdown` is lower if a pair has started since.
    countdown_read: u32,
    /// Size of the batch that `granted` was drawn from.
    batch: u32,
    /// The last clock reading.
    read_at: Instant,
    /// Start of the last measured pair, `None` before the first.
    batch_at: Option<Instant>,
    /// Mean time from start to start in the last batch.
    cycle: u64,
    /// Running mean of the measured durations, in 2^-8 ns; `None` before the first.
    mean: Option<u64>,
    /// Excess of `settled` over the time that passed; subtracted from the next measured pairs.
    excess: Nanos,
    /// Error bound up to the last reading.
    error: Nanos,
    /// State of the generator that draws which pair to measure.
    random: Random,
    config: TimerConfig,
    clock: C,
}

impl<C: Clock> StartFinishTimer<C> {
    /// Makes a timer that has measured nothing.
    #[must_use]
    pub const fn new(clock: C, config: TimerConfig) -> Self {
        Self {
            word: 0,
            countdown: 0,
            pair: Pair::Closed,
            step: 0,
            cap: fraction(config.period),
            cap_full: fraction(config.period),
            count: 0,
            granted: 0,
            countdown_read: 0,
            batch: 1,
            read_at: Instant::ORIGIN,
            batch_at: None,
            cycle: 0,
            mean: None,
            settled: Nanos::ZERO,
            excess: Nanos::ZERO,
            error: Nanos::ZERO,
            random: Random::new(0),
            config,
            clock,
        }
    }

    /// Opens a pair; a pair that is already open is discarded.
    #[inline]
    pub fn start(&mut self, guard: &(impl Guard + ?Sized)) {
        let word = guard.word();
        if self.countdown == 0 || word != self.word {
            return self.start_slow(word, guard);
        }
        self.countdown -= 1;
        self.pair = Pair::Guessed;
    }

    /// Closes the open pair and counts it; does nothing if none is open.
    ///
    /// Returns the duration of the pair if it was measured at both ends: one pair per batch, drawn
    /// at random.
    #[inline]
    pub fn finish(&mut self, guard: &(impl Guard + ?Sized)) -> Option<Nanos> {
        let word = guard.word();
        if self.pair != Pair::Guessed || word != self.word {
            return self.finish_slow(word);
        }
        let counted = self.step.min(self.cap);
        self.cap -= counted;
        self.count += 1;
        self.pair = Pair::Closed;
        None
    }

    /// Reads the clock at a start, because the tick changed or the pair is to be measured.
    #[cold]
    fn start_slow(&mut self, word: u64, guard: &(impl Guard + ?Sized)) {
        let now = self.clock.now();
        // First, because the guard may panic. If it does not vouch for the word, every pair is
        // measured.
        let vouched = guard.vouches(word, now);
        self.settle(now, Nanos::ZERO);
        self.shrink(now);
        self.word = word;
        if self.countdown > 0 && vouched {
            // Do not measure the pair that meets a new tick: it follows a long pair more often than
            // its share.
            self.countdown_read = self.countdown;
            self.countdown -= 1;
            self.read_at = now;
            self.pair = Pair::Guessed;
            return;
        }
        if let Some(batch_at) = self.batch_at {
            let pairs = self.granted - self.countdown + 1;
            self.cycle = now.saturating_since(batch_at).as_nanos() / u64::from(pairs);
            self.batch = self.config.next_batch(self.batch, self.cycle);
        }
        if !vouched || self.mean.is_none() {
            self.batch = 1;
        }
        self.batch_at = Some(now);
        self.granted = self.draw(self.batch - 1);
        self.countdown = self.granted;
        self.countdown_read = self.granted;
        self.read_at = now;
        self.pair = Pair::Read;
    }

    /// Reads the clock at a finish, for a measured pair or because the tick changed during the
    /// pair.
    #[cold]
    fn finish_slow(&mut self, word: u64) -> Option<Nanos> {
        let read = match core::mem::replace(&mut self.pair, Pair::Closed) {
            Pair::Closed => return None,
            Pair::Read => {
                let now = self.clock.now();
                let duration = now.saturating_since(self.read_at);
                let repaid = duration.min(self.excess);
                self.excess = self.excess.saturating_sub(repaid);
                self.settled = self.settled.saturating_add(duration.saturating_sub(repaid));
                self.learn(duration);
                self.read_at = now;
                Some(duration)
            }
            Pair::Guessed => {
                // The start is estimated from the position of the pair after the last reading. It
                // is exact if that reading was at this start.
                let now = self.clock.now();
                let before = u64::from(self.countdown_read - self.countdown - 1);
                let start = self
                    .read_at
                    .saturating_add(Nanos::from_nanos(self.cycle).saturating_mul(before));
                self.settle(now, now.saturating_since(start));
                self.shrink(now);
                self.word = word;
                self.countdown_read = self.countdown;
                self.read_at = now;
                None
            }
        };
        self.count += 1;
        read
    }

    /// Ends the window since the last reading; `last` is the estimate for a pair that ends with it.
    fn settle(&mut self, now: Instant, last: Nanos) {
        if self.countdown == self.countdown_read {
            return;
        }
        let window = now.saturating_since(self.read_at);
        let counted = self.pending();
        let sum = counted.saturating_add(last).min(window.max(counted));
        let cut = sum.min(window);
        self.settled = self.settled.saturating_add(sum);
        self.excess = self.excess.saturating_add(sum.saturating_sub(cut));
        self.error = self
            .error
            .saturating_add(cut.max(window.saturating_sub(cut)));
        self.cap = self.cap_full;
    }

    /// Shortens the rest of the batch if the pairs since the last reading came
    /// more slowly than the batch was made for.
    fn shrink(&mut self, now: Instant) {
        let pairs = self.countdown_read - self.countdown + 1;
        let window = now.saturating_since(self.read_at).as_nanos();
        let most = self.config.next_batch(u32::MAX, window / u64::from(pairs)) - 1;
        let cut = self.countdown.saturating_sub(most);
        self.countdown -= cut;
        self.granted -= cut;
        self.countdown_read -= cut;
    }

    /// Includes a measured duration in the running mean.
    fn learn(&mut self, duration: Nanos) {
        let new = fraction(duration);
        let mean = match self.mean {
            None => new,
            Some(old) => old - (old >> MEAN_SHIFT) + (new >> MEAN_SHIFT),
        };
        self.mean = Some(mean);
        self.step = mean.max(fraction(self.config.least_value));
    }

    /// Draws how many of `most` pairs to allow, uniformly from the upper half.
    fn draw(&mut self, most: u32) -> u32 {
        most - self.random.below(most as usize / 2 + 1) as u32
    }

    /// Returns the estimate counted for the pairs since the last reading.
    fn pending(&self) -> Nanos {
        Nanos::from_nanos((self.cap_full - self.cap) >> FRACTION_BITS)
    }

    /// Returns the number of finished pairs.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of the durations of all finished pairs, an estimate.
    ///
    /// It never decreases, except by [`reset`](Self::reset).
    #[must_use]
    pub fn sum(&self) -> Nanos {
        self.settled.saturating_add(self.pending())
    }

    /// Returns the error bound: the true sum lies within this distance of [`sum`](Self::sum). Reads
    /// the clock.
    #[must_use]
    pub fn error(&self) -> Nanos {
        let mut error = self.error.saturating_add(self.excess);
        if self.countdown != self.countdown_read {
            let window = self.clock.now().saturating_since(self.read_at);
            let counted = self.pending();
            error = error.saturating_add(counted.max(window.saturating_sub(counted)));
        }
        error
    }

    /// Discards all pairs, including an open one, and the running mean. A `finish` that follows
    /// counts nothing.
    pub fn reset(&mut self) {
        self.countdown = 0;
        self.countdown_read = 0;
        self.granted = 0;
        self.batch = 1;
        self.pair = Pair::Closed;
        self.batch_at = None;
        self.mean = None;
        self.step = 0;
        self.cap = self.cap_full;
        self.count = 0;
        self.settled = Nanos::ZERO;
        self.excess = Nanos::ZERO;
        self.error = Nanos::ZERO;
    }

    /// Returns the clock.
    pub const fn clock(&self) -> &C {
        &self.clock
    }
}

/// A span in units of 2^-8 ns, saturating.
const fn fraction(span: Nanos) -> u64 {
    span.as_nanos().saturating_mul(1 << FRACTION_BITS)
}
