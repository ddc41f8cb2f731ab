//! Eight threads on one queue: how many operations the slowest of them does, and how long a
//! contended pop takes.
//!
//! Each thread pushes one item and pops one, until all threads together have done the operations of
//! the run. So the queue is always short, and every operation is contended. If there are fewer
//! cores than threads, the shares also depend on the time slices of the system.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::LAYER;
use super::contenders::{Handle, Mpmc, Work, nearest, ours};
use super::latency::percentiles;
use crate::harness::Scenario;
use crate::histogram::Histogram;
use crate::workers::{Job, Sample, together};

const THREADS: usize = 8;
/// Operations of a thread between two loads of the common count.
const STRIDE: u64 = 256;
/// One pop in this many is timed. If each pop read the clock, there would be little contention.
const TIMED: u64 = 16;

struct Fairness;

impl Work for Fairness {
    type Item = u64;

    fn run<Q: Mpmc<Item = u64>>(ops: u64) -> Sample {
        let queue = &Q::new(1024);
        let all = &AtomicU64::new(0);
        let mut own: Vec<(u64, Histogram)> = vec![(0, Histogram::new()); THREADS];
        let jobs = own.iter_mut().map(|(done, pops)| {
            Box::new(move || {
                let mut handle = queue.handle();
                while all.load(Ordering::Relaxed) < ops {
                    for pair in 0..STRIDE / 2 {
                        handle.push_patiently(pair);
                        if pair % TIMED == 0 {
                            let start = Instant::now();
                            handle.pop_patiently();
                            pops.record(start.elapsed().as_nanos() as u64);
                        } else {
                            handle.pop_patiently();
                        }
                    }
                    *done += STRIDE;
                    all.fetch_add(STRIDE, Ordering::Relaxed);
                }
                *done
            }) as Job<'_>
        });
        let sample = together(jobs.collect());
        let mut pops = Histogram::new();
        for (_, own) in &own {
            pops.merge(own);
        }
        let mean = sample.done as f64 / THREADS as f64;
        let least = own.iter().map(|own| own.0).min().expect("eight") as f64;
        percentiles(sample, &pops).with("slowest over mean", least / mean)
    }
}

/// The scenario.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![nearest::<Fairness>(ours::<Fairness>(Scenario::new(
        LAYER,
        "fairness, eight threads",
        16_000_000,
        20_000,
    )))]
}
