//! The test of the original RAST design: a fixed number of push calls and of pop calls.
//!
//! Pops do not wait, and a call that finds no item is far cheaper than one that pops an item. So a
//! queue that is often empty looks faster. The result is the time per call; compare it together
//! with the share of pops that got an item, which is shown beside it.

use super::LAYER;
use super::contenders::{Handle, Mpmc, Work, listed, nearest, ours};
use crate::harness::Scenario;
use crate::workers::{Job, Sample, together};

/// As many producers as consumers.
struct Calls<const PAIRS: u64>;

impl<const PAIRS: u64> Work for Calls<PAIRS> {
    type Item = u64;

    fn run<Q: Mpmc<Item = u64>>(ops: u64) -> Sample {
        let each = ops / PAIRS / 2;
        let queue = &Q::new(1024);
        let mut hits = vec![0_u64; PAIRS as usize];
        let mut jobs: Vec<Job<'_>> = Vec::new();
        for hits in &mut hits {
            jobs.push(Box::new(move || {
                let mut handle = queue.handle();
                for number in 0..each {
                    handle.push_patiently(number);
                }
                each
            }));
            jobs.push(Box::new(move || {
                let mut handle = queue.handle();
                for _ in 0..each {
                    *hits += u64::from(handle.pop().is_some());
                }
                each
            }));
        }
        let sample = together(jobs);
        let hits: u64 = hits.iter().sum();
        let share = hits as f64 / (each * PAIRS) as f64;
        sample.with("share of pops that hit", share)
    }
}

/// The scenarios: ten million calls on each thread.
pub(super) fn scenarios() -> Vec<Scenario> {
    const EACH: u64 = 10_000_000;
    const ROUNDS: usize = 3;
    let one = Scenario::new(LAYER, "source's test, 1P1C", 2 * EACH, 4000).at_most(ROUNDS);
    let two = Scenario::new(LAYER, "source's test, 2P2C", 4 * EACH, 4000).at_most(ROUNDS);
    vec![
        nearest::<Calls<1>>(listed::<Calls<1>>(ours::<Calls<1>>(one))),
        nearest::<Calls<2>>(listed::<Calls<2>>(ours::<Calls<2>>(two))),
    ]
}
