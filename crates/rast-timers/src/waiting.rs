//! The waiting timer: is it time again, mostly without asking the clock.
//!
//! Source: RAST 2.8. The source sums the answers of a periodic timer and
//! fires when they pass the period, so it fires early and late without bound
//! and loses the overshoot. Here the deadline is kept in the clock's own
//! time; a call either reads the clock and compares, or answers no. So
//! nothing fires early, and by the promise of [`Tick`](crate::Tick) a call
//! that goes without a reading lies at most τ + δ after one that found the
//! deadline in the future.

use crate::{Clock, Guard, Instant, Nanos, TimerConfig};

/// What a [`WaitingTimer`] does about periods that passed while no thread
/// called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Missed {
    /// Fires once for every period missed, one per call, then is on its beat
    /// again.
    Burst,
    /// Fires once and goes on with the next beat that lies in the future: the
    /// beats stay at start + n × period.
    #[default]
    Skip,
    /// Fires once and counts the next period from this very reading: the
    /// beats shift.
    Delay,
}

/// Tells when a period is over and reads the clock seldom.
///
/// It never fires early: it fires only in a call that read the clock. A call
/// at τ + δ past the deadline or later always fires (τ and δ are those of the
/// [`Tick`](crate::Tick)). With [`Missed::Burst`] and [`Missed::Skip`] it does not drift.
///
/// A period that ends past [`Instant::MAX`] never ends. A period of zero ends
/// at every call, which then reads the clock.
///
/// A call is wait-free: one relaxed load, a comparison and a decrement, or a
/// clock reading and two divisions.
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
    /// The tick word loaded before the last reading.
    word: u64,
    /// Calls that may still go without a reading.
    countdown: u32,
    /// Calls from the last reading up to and with the next.
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
    /// The least value of `config` has no meaning here and is ignored.
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
        // A word that means nothing: then every call reads the clock.
        if !guard.vouches(word, now) {
            self.batch = 1;
        }
        self.read_at = now;
        self.word = word;
        self.countdown = self.batch - 1;
        fires
    }

    /// Where the next period ends after one that was found over at `now`.
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

    /// Starts a period anew, now; reads the clock.
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
