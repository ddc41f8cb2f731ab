//! The time that tasks wait from their wake-up to their poll, always measured.
//!
//! Two clock readings per wake-up would cost more than the wake-up. So one wake-up of 64 on average
//! is measured. The thread that queues the task reads the runtime's clock and stores the time in
//! the task, and the worker that polls the task reads the clock again. The choice is random, so
//! that a periodic load cannot bias it.
//!
//! Each worker has a [`LiveHistogram`] of its own, which only it writes.

use core::time::Duration;

use crate::primitive::{Counter, Histogram, LiveHistogram, Random};

/// Minimum number of wake-ups from one that is measured to the next.
const SKIP_MIN: u64 = 32;
const SKIP_SPAN: u64 = 64;

/// Base-2 logarithm of the number of buckets per doubling.
const PART_BITS: u32 = 2;

/// Chooses the wake-ups that are measured. Threads that share it may lose counts, which only shifts
/// the next choice.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    left: Counter,
}

impl Sampler {
    /// Counts a wake-up; returns the time, by `now`, if it is measured.
    #[inline]
    pub(crate) fn draw(&self, now: impl FnOnce() -> u64) -> Option<u64> {
        match self.left.get().checked_sub(1) {
            Some(left) => {
                self.left.set(left);
                None
            }
            None => Some(self.drawn(now())),
        }
    }

    #[cold]
    fn drawn(&self, now: u64) -> u64 {
        self.left
            .set(SKIP_MIN + Random::new(now).draw() % SKIP_SPAN);
        now
    }
}

/// Measurements of one worker.
#[derive(Debug, Default)]
pub(crate) struct Latencies(LiveHistogram<PART_BITS>);

impl Latencies {
    #[cold]
    pub(crate) fn record(&self, ns: u64) {
        self.0.record(ns);
    }
}

/// How long tasks waited from their wake-up or spawn to their poll, measured for a random sample of
/// 1 in 64. The wait after a yield is not measured.
///
/// ```
/// use rast_executor::Runtime;
///
/// let runtime = Runtime::new().unwrap();
/// for _ in 0..1_000 {
///     runtime.block_on(runtime.spawn(async {})).unwrap();
/// }
/// let waits = runtime.metrics().schedule_latency;
/// assert!(waits.count() > 0);
/// assert!(waits.percentile(50.0) <= waits.percentile(99.9));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleLatency(Histogram<PART_BITS>);

impl ScheduleLatency {
    pub(crate) fn add(&mut self, worker: &Latencies) {
        worker.0.add_to(&mut self.0);
    }

    /// Returns how many wake-ups were measured.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.count()
    }

    /// Returns the time that `percentile` percent of the waits did not exceed. It is at most a
    /// quarter too high, and zero before the first measurement. A result above 18 minutes is the
    /// longest wait.
    ///
    /// ```
    /// let none = rast_executor::ScheduleLatency::default();
    /// assert!(none.percentile(99.0).is_zero());
    /// ```
    #[must_use]
    pub fn percentile(&self, percentile: f64) -> Duration {
        Duration::from_nanos(self.0.quantile(percentile / 100.0))
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_what_was_recorded() {
        let worker = Latencies::default();
        (1..=1_000).for_each(|micros| worker.record(micros * 1_000));
        let mut sum = ScheduleLatency::default();
        sum.add(&worker);
        assert_eq!(sum.count(), 1_000);
        for (percentile, micros) in [(0.0, 1), (50.0, 500), (99.0, 990), (100.0, 1_000)] {
            let found = sum.percentile(percentile).as_nanos();
            assert!(
                (micros * 1_000..=micros * 1_250).contains(&found),
                "{percentile}: {found}"
            );
        }
    }

    #[test]
    fn one_wake_up_in_64_is_drawn() {
        let sampler = Sampler::default();
        let drawn = (0..64_000)
            .filter(|&now| sampler.draw(|| now).is_some())
            .count();
        assert!((900..1_100).contains(&drawn), "{drawn}");
    }
}
