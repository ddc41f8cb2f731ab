//! Unbounded queues with many producers and many consumers.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rast::queue::Queue;

use crate::harness::Scenario;
use crate::workers::{Job, Patience, Sample, alone, together};

const LAYER: &str = "queue";

/// What a contender does.
trait Mpmc: Send + Sync + 'static {
    fn new() -> Self;
    fn push(&self, value: u64);
    fn pop(&self) -> Option<u64>;
}

impl Mpmc for Queue<u64> {
    fn new() -> Self {
        Self::new()
    }

    #[inline]
    fn push(&self, value: u64) {
        if Queue::push(self, value).is_err() {
            unreachable!("nobody closes it");
        }
    }

    #[inline]
    fn pop(&self) -> Option<u64> {
        Queue::pop(self)
    }
}

impl Mpmc for Mutex<VecDeque<u64>> {
    fn new() -> Self {
        Self::default()
    }

    #[inline]
    fn push(&self, value: u64) {
        self.lock().expect("no panic inside").push_back(value);
    }

    #[inline]
    fn pop(&self) -> Option<u64> {
        self.lock().expect("no panic inside").pop_front()
    }
}

#[cfg(all(rast_rivals, feature = "rivals"))]
impl Mpmc for crossbeam_queue::SegQueue<u64> {
    fn new() -> Self {
        Self::new()
    }

    #[inline]
    fn push(&self, value: u64) {
        self.push(value);
    }

    #[inline]
    fn pop(&self) -> Option<u64> {
        self.pop()
    }
}

/// One thread pushes one and pops one.
fn one_thread<Q: Mpmc>(ops: u64) -> Sample {
    let queue = Q::new();
    alone(|| {
        let mut sum = 0_u64;
        for value in 0..ops {
            queue.push(black_box(value));
            sum = sum.wrapping_add(queue.pop().expect("one stands"));
        }
        assert_eq!(sum, (0..ops).fold(0, u64::wrapping_add));
        ops
    })
}

/// As many producers as consumers; only items that arrived count.
fn pairs<Q: Mpmc, const PAIRS: u64>(ops: u64) -> Sample {
    let each = ops / PAIRS;
    let total = each * PAIRS;
    let queue = Arc::new(Q::new());
    let taken = Arc::new(AtomicU64::new(0));
    let sum = Arc::new(AtomicU64::new(0));
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for pair in 0..PAIRS {
        let source = Arc::clone(&queue);
        jobs.push(Box::new(move || {
            for value in pair * each..(pair + 1) * each {
                source.push(value);
            }
            0
        }));
        let (queue, taken, sum) = (Arc::clone(&queue), Arc::clone(&taken), Arc::clone(&sum));
        jobs.push(Box::new(move || {
            let mut patience = Patience::new();
            let mut own_sum = 0_u64;
            let mut own = 0;
            let mut unreported = 0;
            loop {
                match queue.pop() {
                    Some(value) => {
                        own_sum = own_sum.wrapping_add(value);
                        own += 1;
                        unreported += 1;
                        patience.reset();
                    }
                    None => {
                        // The shared count is written only by a consumer that has taken
                        // something since and now finds nothing.
                        let all = match std::mem::take(&mut unreported) {
                            0 => taken.load(Ordering::Relaxed),
                            some => taken.fetch_add(some, Ordering::Relaxed) + some,
                        };
                        if all == total {
                            sum.fetch_add(own_sum, Ordering::Relaxed);
                            return own;
                        }
                        patience.wait();
                    }
                }
            }
        }));
    }
    let sample = together(jobs);
    assert_eq!(sample.done, total);
    let sum = sum.load(Ordering::Relaxed);
    assert_eq!(sum, (0..total).fold(0, u64::wrapping_add));
    sample
}

macro_rules! scenario {
    ($name:literal, $ops:literal, $smoke:literal, $run:ident $(, $pairs:literal)?) => {{
        let scenario = Scenario::new(LAYER, $name, $ops, $smoke)
            .ours("rast Queue", $run::<Queue<u64> $(, $pairs)?>)
            .rival("std Mutex<VecDeque>", $run::<Mutex<VecDeque<u64>> $(, $pairs)?>);
        #[cfg(all(rast_rivals, feature = "rivals"))]
        let scenario = scenario.rival(
            "crossbeam SegQueue",
            $run::<crossbeam_queue::SegQueue<u64> $(, $pairs)?>,
        );
        scenario
    }};
}

/// The scenarios of the queues.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!("mpmc, one thread", 10_000_000, 1000, one_thread),
        scenario!(
            "mpmc, one producer, one consumer",
            4_000_000,
            2000,
            pairs,
            1
        ),
        scenario!(
            "mpmc, two producers, two consumers",
            4_000_000,
            2000,
            pairs,
            2
        ),
    ]
}
