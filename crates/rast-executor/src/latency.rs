//! The time that tasks wait from their wake-up to their poll, always measured.
//!
//! Two clock readings per wake-up would cost more than the wake-up. So one wake-up of 64 on average
//! is measured: the thread that queues the task reads the runtime's clock and stores the time in
//! the task, and the worker that polls the task reads the clock again. The choice is random, so
//! that no load can stay in step with it.
//!
//! A histogram has four buckets for each doubling, from a nanosecond to 18 minutes, so a percentile
//! is at most a quarter too high. Each worker has its own histogram, which only it writes.

use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::vec;

use crate::primitive::{Counter, Random};

/// Minimum number of wake-ups from one that is measured to the next.
const SKIP_MIN: u64 = 32;
const SKIP_SPAN: u64 = 64;

/// Buckets per doubling, as a power of two.
const PART_BITS: u32 = 2;
const PARTS: u64 = 1 << PART_BITS;
/// Maximum wait; longer ones count as this.
const LONGEST_NS: u64 = (1 << 40) - 1;
const BUCKETS: usize = bucket(LONGEST_NS) + 1;

/// Returns the bucket of a wait.
const fn bucket(ns: u64) -> usize {
    let ns = if ns < LONGEST_NS { ns } else { LONGEST_NS };
    if ns < PARTS {
        return ns as usize;
    }
    let shift = ns.ilog2() - PART_BITS;
    ((shift as u64 + 1) * PARTS + (ns >> shift) % PARTS) as usize
}

/// Returns the longest wait of a bucket.
const fn longest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let shift = bucket / PARTS - 1;
    ((PARTS + bucket % PARTS + 1) << shift) - 1
}

/// Chooses the wake-ups that are measured. Threads that share it may lose each other's counts,
/// which only shifts the next choice.
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
#[derive(Debug)]
pub(crate) struct Latencies([Counter; BUCKETS]);

impl Default for Latencies {
    fn default() -> Self {
        Self(core::array::from_fn(|_| Counter::new()))
    }
}

impl Latencies {
    #[cold]
    pub(crate) fn record(&self, ns: u64) {
        self.0[bucket(ns)].add(1);
    }
}

/// How long tasks waited from their wake-up, or their spawn, to their poll: a random sample of one
/// in 64 on average. A task that yields is not measured.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleLatency(Box<[u64]>);

impl Default for ScheduleLatency {
    fn default() -> Self {
        Self(vec![0; BUCKETS].into())
    }
}

impl ScheduleLatency {
    pub(crate) fn add(&mut self, worker: &Latencies) {
        for (sum, count) in self.0.iter_mut().zip(&worker.0) {
            *sum += count.get();
        }
    }

    /// Returns how many wake-ups were measured.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the time that `percentile` percent of the waits did not exceed, at most a quarter
    /// too high; zero before the first measurement. Waits of more than 18 minutes count as 18
    /// minutes.
    ///
    /// ```
    /// let none = rast_executor::ScheduleLatency::default();
    /// assert!(none.percentile(99.0).is_zero());
    /// ```
    #[must_use]
    pub fn percentile(&self, percentile: f64) -> Duration {
        let share = (percentile / 100.0).clamp(0.0, 1.0);
        let wanted = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let at = self.0.iter().position(|&count| {
            seen += count;
            seen >= wanted
        });
        at.map_or(Duration::ZERO, |at| Duration::from_nanos(longest(at)))
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_counted_where_it_belongs() {
        let mut last = None;
        for at in 0..BUCKETS {
            // Each part begins where the one before it ends.
            let first = last.map_or(0, |last: u64| last + 1);
            assert_eq!((bucket(first), bucket(longest(at))), (at, at));
            assert!(longest(at) - first <= first / PARTS, "at most a quarter");
            last = Some(longest(at));
        }
        assert_eq!(last, Some(LONGEST_NS));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

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
