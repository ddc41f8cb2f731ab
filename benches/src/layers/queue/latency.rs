//! How long an item takes from one thread to another at a rate far below the maximum of the queue.
//!
//! The producer sends by a schedule, and each item carries the time at which its push began. The
//! consumer spins and never yields, so the scheduler of the system has no part in the result. A run
//! is judged by its median. The higher percentiles are also shown; they include pauses of the
//! machine.

use std::time::Instant;

use super::contenders::{Handle, Mpmc, Work, all};
use crate::harness::Scenario;
use crate::histogram::Histogram;
use crate::workers::{Sample, together};

/// A schedule of bursts, and the clock that stamps their items.
pub(super) struct Schedule {
    bursts: u64,
    burst: u64,
    period_ns: u64,
    zero: Instant,
}

impl Schedule {
    /// About `ops` items, `burst` of them every `period_us` microseconds.
    pub(super) fn new(ops: u64, burst: u64, period_us: u64) -> Self {
        Self {
            bursts: (ops / burst).max(1),
            burst,
            period_ns: period_us * 1000,
            zero: Instant::now(),
        }
    }

    /// Runs a producer and a consumer by the schedule; the run is judged by its median.
    pub(super) fn run(
        &self,
        send: impl FnOnce(&Self) -> u64 + Send,
        receive: impl FnOnce(&Self, &mut Histogram) -> u64 + Send,
    ) -> Sample {
        let mut histogram = Histogram::new();
        let seen = &mut histogram;
        let sample = together(vec![
            Box::new(move || send(self)),
            Box::new(move || receive(self, seen)),
        ]);
        percentiles(sample.judged_by(histogram.quantile(0.5)), &histogram)
    }

    fn now(&self) -> u64 {
        self.zero.elapsed().as_nanos() as u64
    }

    /// The producer's work: spins until each burst is due, then pushes stamped items.
    pub(super) fn send(&self, mut push: impl FnMut(u64)) -> u64 {
        let mut due = self.now();
        for _ in 0..self.bursts {
            due += self.period_ns;
            while self.now() < due {
                std::hint::spin_loop();
            }
            for _ in 0..self.burst {
                push(self.now());
            }
        }
        0
    }

    /// The consumer's work: takes every item and records the time since its stamp.
    pub(super) fn receive(
        &self,
        into: &mut Histogram,
        mut pop: impl FnMut() -> Option<u64>,
    ) -> u64 {
        let mut taken = 0;
        while taken < self.bursts * self.burst {
            match pop() {
                Some(sent) => {
                    into.record(self.now().saturating_sub(sent));
                    taken += 1;
                }
                None => std::hint::spin_loop(),
            }
        }
        taken
    }

    /// As [`receive`](Self::receive), by batches: `pop` adds the stamps of the items that it took,
    /// and returns their number. Each item of a batch counts with the mean of the batch.
    pub(super) fn receive_batches(
        &self,
        into: &mut Histogram,
        mut pop: impl FnMut(&mut u64) -> usize,
    ) -> u64 {
        let mut taken = 0;
        while taken < self.bursts * self.burst {
            let mut sent = 0;
            let count = pop(&mut sent) as u64;
            if count == 0 {
                std::hint::spin_loop();
                continue;
            }
            let mean = (self.now() * count).saturating_sub(sent) / count;
            (0..count).for_each(|_| into.record(mean));
            taken += count;
        }
        taken
    }
}

/// The schedule of a program whose producer is woken by a timer: items and microseconds.
pub(super) const BURST: (u64, u64) = (32, 100);
/// Items of a run, and of a smoke run.
pub(super) const BURST_OPS: (u64, u64) = (12_800, 128);

/// `BURST` items every `PERIOD_US` microseconds.
struct Paced<const BURST: u64, const PERIOD_US: u64>;

impl<const BURST: u64, const PERIOD_US: u64> Work for Paced<BURST, PERIOD_US> {
    type Item = u64;

    fn run<Q: Mpmc<Item = u64>>(ops: u64) -> Sample {
        let queue = &Q::new(1024);
        Schedule::new(ops, BURST, PERIOD_US).run(
            |schedule| {
                let mut handle = queue.handle();
                schedule.send(|item| handle.push_patiently(item))
            },
            |schedule, seen| {
                let mut handle = queue.handle();
                schedule.receive(seen, || handle.pop())
            },
        )
    }
}

/// Keeps four percentiles beside the run's figure.
pub(super) fn percentiles(sample: Sample, of: &Histogram) -> Sample {
    sample
        .with("p50 ns", of.quantile(0.5))
        .with("p90 ns", of.quantile(0.9))
        .with("p99 ns", of.quantile(0.99))
        .with("p99.9 ns", of.quantile(0.999))
}

/// The scenarios.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        all::<Paced<1, 10>>("hand-over p50, one item per 10 us", 4000, 100),
        all::<Paced<{ BURST.0 }, { BURST.1 }>>(
            "hand-over p50, 32 items per 100 us",
            BURST_OPS.0,
            BURST_OPS.1,
        ),
    ]
}
