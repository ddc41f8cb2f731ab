//! The periodic timer: the time since the last call, with few clock readings.
//!
//! Source: the original RAST design, 2.6. A *batch* is the calls from one clock reading to the
//! next. The design computes the mean time per call of the last batch, and returns this mean at
//! each call until a counter reaches zero. The counter counts calls and not time, so the error of
//! the answers has no bound. Here a batch also ends when the tick changes, and has at most twice as
//! many calls as the batch before. The call that reads the clock corrects the sum. The sum may be
//! ahead of the clock by at most P, the configured period.
//!
//! Let S be the start of the series plus the sum of all answers, and T the last clock reading.
//! `elapsed` keeps these rules:
//!
//! 1. An answer is never negative, so S never decreases.
//! 2. After a reading T, T ≤ S ≤ T + P.
//! 3. A call without a reading raises S to at most T + P.
//! 4. A call may skip the reading only if the tick word still equals the word that was loaded
//!    before T was read.
//!
//! By rules 2 and 3, S ≤ T + P ≤ now + P always. By the promise of [`Tick`](crate::Tick), the word
//! is at most τ + δ behind the clock. With rules 1, 2 and 4 this gives
//! now ≤ word + τ + δ ≤ T + τ + δ ≤ S + τ + δ. So
//!
//! **−P ≤ now − S ≤ τ + δ** at every call, for every pattern of calls.

use crate::{Clock, Guard, Instant, Nanos, TimerConfig};

/// Measures the time between its calls with few clock readings.
///
/// At every call, the sum of the returned times is the time since the first call, except for a
/// bounded error. The sum exceeds that time by at most P, the configured period, and falls short of
/// it by at most τ + δ, which [`Tick`](crate::Tick) defines. A single returned time is an estimate.
///
/// A timer belongs to one call site, called by one thread at a time. From one call to the next it
/// may move to another thread, or to another tick of the same clock. A call is wait-free: one
/// relaxed load and a few integer operations, or, if it reads the clock, a clock reading and two
/// divisions.
///
/// ```
/// use rast_timers::{Clock, ManualClock, Nanos, PeriodicTimer, Tick, TimerConfig};
/// let clock = ManualClock::new();
/// let tick = Tick::new();
/// let mut timer = PeriodicTimer::new(clock.clone(), TimerConfig::new());
/// assert_eq!(timer.elapsed(&tick), Nanos::ZERO); // starts the series
/// clock.advance(Nanos::from_millis(2));
/// tick.publish(clock.now());
/// assert_eq!(timer.elapsed(&tick), Nanos::from_millis(2));
/// ```
#[derive(Clone, Debug)]
pub struct PeriodicTimer<C> {
    /// Tick word loaded before the last reading.
    word: u64,
    /// Number of calls that may still go without a reading.
    countdown: u32,
    /// Number of calls from the last reading up to and including the next.
    batch: u32,
    /// Answer of a call without a reading, while `cap` allows it.
    step: u64,
    /// Total that may still be returned before S reaches `limit`.
    cap: u64,
    /// T + P; S is `limit - cap`.
    limit: u64,
    /// T, the last reading.
    read_at: Instant,
    /// The first reading, `None` before the first call.
    started_at: Option<Instant>,
    config: TimerConfig,
    clock: C,
}

impl<C: Clock> PeriodicTimer<C> {
    /// Makes a timer whose series starts at its first call.
    #[must_use]
    pub const fn new(clock: C, config: TimerConfig) -> Self {
        Self {
            word: 0,
            countdown: 0,
            batch: 1,
            step: 0,
            cap: 0,
            limit: 0,
            read_at: Instant::ORIGIN,
            started_at: None,
            config,
            clock,
        }
    }

    /// Returns the time since the last call, zero at the first.
    #[inline]
    pub fn elapsed(&mut self, guard: &(impl Guard + ?Sized)) -> Nanos {
        let word = guard.word();
        if self.countdown == 0 || word != self.word {
            return self.elapsed_slow(word, guard);
        }
        self.countdown -= 1;
        let answer = self.step.min(self.cap);
        self.cap -= answer;
        Nanos::from_nanos(answer)
    }

    /// Reads the clock, corrects the sum and plans the next batch.
    #[cold]
    fn elapsed_slow(&mut self, word: u64, guard: &(impl Guard + ?Sized)) -> Nanos {
        let now = self.clock.now();
        // If the guard does not vouch for the word, every call reads the clock.
        let vouched = guard.vouches(word, now);
        let sum = self.position();
        let answer = match self.started_at {
            None => {
                self.started_at = Some(now);
                self.settle(now, now, word, 1);
                return Nanos::ZERO;
            }
            Some(_) => {
                let lag = now.saturating_since(sum);
                let room = now.saturating_add(self.config.period).saturating_since(sum);
                lag.max(self.config.least_value.min(room))
            }
        };
        let calls = self.batch - self.countdown;
        let mean = now.saturating_since(self.read_at).as_nanos() / u64::from(calls);
        let batch = if vouched {
            self.config.next_batch(self.batch, mean)
        } else {
            1
        };
        self.step = mean.max(self.config.least_value.as_nanos());
        self.settle(now, sum.saturating_add(answer), word, batch);
        answer
    }

    /// Sets the last reading to `now`, S to `sum`, and the next reading to the call `batch` calls
    /// from here.
    fn settle(&mut self, now: Instant, sum: Instant, word: u64, batch: u32) {
        let limit = now.saturating_add(self.config.period).max(sum);
        self.read_at = now;
        self.limit = limit.as_nanos();
        self.cap = limit.saturating_since(sum).as_nanos();
        self.word = word;
        self.batch = batch;
        self.countdown = batch - 1;
    }

    /// S: the start of the series plus all answers.
    fn position(&self) -> Instant {
        Instant::from_nanos(self.limit - self.cap)
    }

    /// Returns the sum of all answers since the series started.
    #[must_use]
    pub fn sum(&self) -> Nanos {
        match self.started_at {
            Some(start) => self.position().saturating_since(start),
            None => Nanos::ZERO,
        }
    }

    /// Ends the series; the next call starts a new one and returns zero.
    pub fn reset(&mut self) {
        self.started_at = None;
        self.countdown = 0;
    }

    /// Returns the clock.
    pub const fn clock(&self) -> &C {
        &self.clock
    }
}
