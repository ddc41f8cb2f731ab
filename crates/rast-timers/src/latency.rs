//! Percentiles of the duration of pairs of calls, cheap enough to leave on in production.
//!
//! The clock is read only at both ends of one randomly drawn pair per batch. The histogram records
//! the duration of that pair as many times as the batch has pairs.

use crate::{Clock, Guard, Nanos, StartFinishTimer, TimerConfig};
use hdrhistogram::Histogram;

/// A histogram of the time between `start` and `finish`, at the cost of a [`StartFinishTimer`].
///
/// A batch is a run of consecutive pairs. One pair per batch, drawn at random, is measured exactly.
/// Its duration is recorded for this pair and for all pairs since the previous measured one. So
/// each percentile is that of a random sample, which is unbiased if the pairs of a batch have the
/// same distribution. A rare long pair is recorded only if it is drawn, and then it counts as many
/// pairs. With a [`greatest_skip`](TimerConfig::greatest_skip) of zero every pair is measured.
///
/// Values have a precision of three decimal digits, from 1 ns to an hour. Longer ones count as an
/// hour. [`new`](Self::new) allocates all memory, some 200 KiB. A call is wait-free.
///
/// ```
/// use rast_timers::{LatencyHistogram, ManualClock, Nanos, Tick, TimerConfig};
/// let clock = ManualClock::new();
/// let tick = Tick::new();
/// let config = TimerConfig::new().greatest_skip(0);
/// let mut latency = LatencyHistogram::new(clock.clone(), config);
/// for micros in 1..=100 {
///     latency.start(&tick);
///     clock.advance(Nanos::from_micros(micros));
///     latency.finish(&tick);
/// }
/// let p99 = latency.percentile(99.0).as_nanos();
/// assert!(p99.abs_diff(99_000) < 100, "{p99}");
/// ```
#[cfg_attr(docsrs, doc(cfg(feature = "histogram")))]
#[derive(Clone, Debug)]
pub struct LatencyHistogram<C> {
    timer: StartFinishTimer<C>,
    histogram: Histogram<u64>,
    /// Number of pairs that the histogram represents.
    covered: u64,
}

/// Longest span recorded as such: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

impl<C: Clock> LatencyHistogram<C> {
    /// Makes an empty histogram.
    #[must_use]
    pub fn new(clock: C, config: TimerConfig) -> Self {
        Self {
            timer: StartFinishTimer::new(clock, config),
            histogram: Histogram::new_with_bounds(1, LONGEST_NS, 3)
                .expect("these bounds are in the range of the histogram"),
            covered: 0,
        }
    }

    /// Opens a pair; a pair that is already open is discarded.
    #[inline]
    pub fn start(&mut self, guard: &(impl Guard + ?Sized)) {
        self.timer.start(guard);
    }

    /// Closes the open pair; does nothing if none is open.
    #[inline]
    pub fn finish(&mut self, guard: &(impl Guard + ?Sized)) {
        if let Some(span) = self.timer.finish(guard) {
            self.record(span);
        }
    }

    #[cold]
    fn record(&mut self, span: Nanos) {
        let pairs = self.timer.count() - self.covered;
        self.covered += pairs;
        self.histogram
            .saturating_record_n(span.as_nanos().max(1), pairs);
    }

    /// Returns the duration that `percentile` percent of the pairs did not exceed; zero before the
    /// first measurement.
    #[must_use]
    pub fn percentile(&self, percentile: f64) -> Nanos {
        Nanos::from_nanos(self.histogram.value_at_percentile(percentile))
    }

    /// Returns the histogram, in ns.
    #[must_use]
    pub const fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// Returns the timer: count, sum and the error bar of the sum.
    #[must_use]
    pub const fn timer(&self) -> &StartFinishTimer<C> {
        &self.timer
    }

    /// Discards all pairs, including an open one.
    pub fn reset(&mut self) {
        self.timer.reset();
        self.histogram.reset();
        self.covered = 0;
    }
}
