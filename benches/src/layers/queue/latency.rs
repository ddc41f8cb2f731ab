//! How long an item takes from one thread to another at a rate far below what the queue could do.
//!
//! The producer sends by a schedule, each item carries the time at which its push began, and the
//! consumer spins and never yields, so that what is measured is the queue and not the system's
//! scheduler.
//! A run is judged by its median; the higher percentiles stand beside it and contain the machine's
//! own pauses.

use std::time::{Duration, Instant};

use super::LAYER;
use super::contenders::{Handle, Mpmc, Work, nearest, others, ours};
use crate::harness::Scenario;
use crate::histogram::Histogram;
use crate::workers::{Sample, together};

/// `BURST` items every `PERIOD_US` microseconds.
struct Paced<const BURST: u64, const PERIOD_US: u64>;

impl<const BURST: u64, const PERIOD_US: u64> Work for Paced<BURST, PERIOD_US> {
    type Item = u64;

    fn run<Q: Mpmc<Item = u64>>(ops: u64) -> Sample {
        let bursts = (ops / BURST).max(1);
        let queue = &Q::new(1024);
        let zero = Instant::now();
        let now = move || zero.elapsed().as_nanos() as u64;
        let mut histogram = Histogram::new();
        let seen = &mut histogram;
        let sample = together(vec![
            Box::new(move || {
                let mut handle = queue.handle();
                let period = Duration::from_micros(PERIOD_US).as_nanos() as u64;
                let mut due = now();
                for _ in 0..bursts {
                    due += period;
                    while now() < due {
                        std::hint::spin_loop();
                    }
                    for _ in 0..BURST {
                        handle.push_patiently(now());
                    }
                }
                0
            }),
            Box::new(move || {
                let mut handle = queue.handle();
                let mut taken = 0;
                while taken < bursts * BURST {
                    match handle.pop() {
                        Some(sent) => {
                            seen.record(now().saturating_sub(sent));
                            taken += 1;
                        }
                        None => std::hint::spin_loop(),
                    }
                }
                taken
            }),
        ]);
        percentiles(sample.judged_by(histogram.quantile(0.5)), &histogram)
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

fn all<W: Work>(name: &'static str, ops: u64, smoke_ops: u64) -> Scenario {
    others::<W>(nearest::<W>(ours::<W>(Scenario::new(
        LAYER, name, ops, smoke_ops,
    ))))
}

/// The scenarios.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        all::<Paced<1, 10>>("hand-over p50, one item per 10 us", 4000, 100),
        all::<Paced<32, 100>>("hand-over p50, 32 items per 100 us", 12_800, 128),
    ]
}
