//! The waiting timer: whether a period is over, with few clock readings.
//!
//! Source: the original RAST design, 2.8. The original sums the answers of a periodic timer and
//! fires when the sum exceeds the period. So it drifts, and how early or late it fires has no
//! bound. Here the deadline is a time of the clock. A call either reads the clock and compares, or
//! returns `false`, so the timer never fires early. By the promise of [`Tick`](crate::Tick), a call
//! without a reading happens at most τ + δ after a reading that found the deadline in the future.
//! So the timer is at most τ + δ late.

use crate::{Clock, Guard, Instant, Nanos, TimerConfig};

/// How a [`WaitingTimer`] treats periods that passed without a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Missed {
    /// Fires once per call for every missed period, then returns to its schedule.
    Burst,
    /// Fires once and continues with the next period end in the future: the schedule stays at start
    /// + n × period.
    #[default]
    Skip,
    /// Fires once and starts the next period at this clock reading: the schedule shifts.
    Delay,
}

/// Returns `true` from [`check`](Self::check) when a period is over, with few clock readings.
///
/// The timer never fires early: it fires only in a call that read the clock. A call τ + δ or more
/// after the deadline always fires (τ and δ are those of the [`Tick`](crate::Tick)). With
/// [`Missed::Burst`] and [`Missed::Skip`] it does not drift.
///
/// A period that ends past [`Instant::MAX`] never ends. A period of zero is over at every call, and
/// each call then reads the clock.
///
/// A call is wait-free: one relaxed load, a comparison and a decrement, or, if it reads the clock,
/// a clock reading and two divisions.
///
/// ```
/// use rast_timers::{Clock, ManualClock, Nanos, Tick, TimerConfig, WaitingTimer};
/// let clock = ManualClock::new();
/// let tick = Tick::new();
/// let mut beat = WaitingTimer::new(clock.clone(), Nanos::from_millis(10), TimerConfig::new());
/// assert!(!beat.check(&tick));
/// clock.advance(Nanos::from_millis(11));
/// tick.publish(clock.now());
/// assert!(beat.check(&tick));
/// assert!(!beat.check(&tick)); // the next beat is due at 20 ms
/// ```
#[derive(Clone, Debug)]
pub struct WaitingTimer<C> {
    /// Tick word loaded before the last reading.
    word: u64,
    /// Number of calls that may still go without a reading.
    countdown: u32,
    /// Number of calls from the last reading up to and including the next.
    batch: u32,
    deadline: Instant,
    read_at: Instant,
    period: Nanos,
    missed: Missed,
    config: TimerConfig,
    clock: C,
}

impl<C: Clock> WaitingTimer<C> {
    /// Makes a timer whose first period starts now, with [`Missed::Skip`].
    ///
    /// The minimum value of `config` is ignored.
    #[must_use]
    pub fn new(clock: C, period: Nanos, config: TimerConfig) -> Self {
        let now = clock.now();
        Self {
            word: 0,
            countdown: 0,
            batch: 1,
            deadline: now.saturating_add(period),
            read_at: now,
            period,
            missed: Missed::default(),
            config,
            clock,
        }
    }

    /// Sets what happens to missed periods.
    #[must_use]
    pub fn missed(mut self, policy: Missed) -> Self {
        self.missed = policy;
        self
    }

    /// Returns whether the period is over, and starts the next one if so.
    #[inline]
    pub fn check(&mut self, guard: &(impl Guard + ?Sized)) -> bool {
        let word = guard.word();
        if self.countdown == 0 || word != self.word {
            return self.check_slow(word, guard);
        }
        self.countdown -= 1;
        false
    }

    /// Reads the clock, decides, and plans the next batch.
    #[cold]
    fn check_slow(&mut self, word: u64, guard: &(impl Guard + ?Sized)) -> bool {
        let now = self.clock.now();
        // First, because the guard may panic.
        let vouched = guard.vouches(word, now);
        let fires = now >= self.deadline && self.deadline != Instant::MAX;
        if fires {
            self.deadline = self.next_deadline(now);
        }
        let calls = self.batch - self.countdown;
        let mean = now.saturating_since(self.read_at).as_nanos() / u64::from(calls);
        self.batch = self.config.next_batch(self.batch, mean);
        // A steady caller gets its next reading no later than the deadline.
        let left = self.deadline.saturating_since(now).as_nanos();
        if let Some(fits) = left.checked_div(mean) {
            self.batch = u32::try_from(fits).unwrap_or(u32::MAX).clamp(1, self.batch);
        } else if left == 0 {
            self.batch = 1;
        }
        // If the guard does not vouch for the word, every call reads the clock.
        if !vouched {
            self.batch = 1;
        }
        self.read_at = now;
        self.word = word;
        self.countdown = self.batch - 1;
        fires
    }

    /// Returns the end of the next period after a period that was found over at `now`.
    fn next_deadline(&self, now: Instant) -> Instant {
        match self.missed {
            Missed::Burst => self.deadline.saturating_add(self.period),
            Missed::Delay => now.saturating_add(self.period),
            Missed::Skip => {
                let late = now.saturating_since(self.deadline).as_nanos();
                match late.checked_div(self.period.as_nanos()) {
                    Some(whole) => self
                        .deadline
                        .saturating_add(self.period.saturating_mul(whole))
                        .saturating_add(self.period),
                    None => now,
                }
            }
        }
    }

    /// Returns when the current period ends.
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the period.
    #[must_use]
    pub const fn period(&self) -> Nanos {
        self.period
    }

    /// Starts a new period now; reads the clock.
    pub fn reset(&mut self) {
        let now = self.clock.now();
        self.deadline = now.saturating_add(self.period);
        self.countdown = 0;
        self.batch = 1;
        self.read_at = now;
    }

    /// Returns the clock.
    pub const fn clock(&self) -> &C {
        &self.clock
    }
}
