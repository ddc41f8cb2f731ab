//! Batches of 32 from one producer to one consumer.
//!
//! A queue with calls for batches uses them. A queue without them makes 32 single calls, as a
//! program would.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Mutex;

use rast::queue::Queue;

use super::LAYER;
use super::contenders::{Handle, Mpmc};
use super::mpmc::Tally;
use crate::harness::Scenario;
use crate::workers::{Sample, together};

const BATCH: u64 = 32;

/// A queue as one producer and one consumer use it.
trait Batches: Sync + 'static {
    fn new() -> Self;
    fn push_batch(&self, items: Range<u64>);
    /// Adds up to `max` items to `sum` and returns how many.
    fn pop_batch(&self, max: usize, sum: &mut u64) -> u64;
}

/// The batches of ours.
impl Batches for Queue<u64> {
    fn new() -> Self {
        Self::new()
    }

    #[inline]
    fn push_batch(&self, items: Range<u64>) {
        let pushed = Queue::push_batch(self, items);
        assert!(pushed.is_ok(), "no thread closes it");
    }

    #[inline]
    fn pop_batch(&self, max: usize, sum: &mut u64) -> u64 {
        Queue::pop_batch(self, max, |item| *sum = sum.wrapping_add(item)) as u64
    }
}

/// One lock for a whole batch.
impl Batches for Mutex<VecDeque<u64>> {
    fn new() -> Self {
        Self::default()
    }

    #[inline]
    fn push_batch(&self, items: Range<u64>) {
        self.lock().expect("no panic inside").extend(items);
    }

    #[inline]
    fn pop_batch(&self, max: usize, sum: &mut u64) -> u64 {
        let mut items = self.lock().expect("no panic inside");
        let count = max.min(items.len());
        for item in items.drain(..count) {
            *sum = sum.wrapping_add(item);
        }
        count as u64
    }
}

/// Single calls of a queue.
struct Singles<Q>(Q);

impl<Q: Mpmc<Item = u64>> Batches for Singles<Q> {
    fn new() -> Self {
        Self(Q::new(1024))
    }

    #[inline]
    fn push_batch(&self, items: Range<u64>) {
        let mut handle = self.0.handle();
        for item in items {
            handle.push_patiently(item);
        }
    }

    #[inline]
    fn pop_batch(&self, max: usize, sum: &mut u64) -> u64 {
        let mut handle = self.0.handle();
        let mut count = 0;
        while count < max as u64 {
            let Some(item) = handle.pop() else { break };
            *sum = sum.wrapping_add(item);
            count += 1;
        }
        count
    }
}

#[cfg(all(rast_rivals, feature = "rivals"))]
mod rivals {
    use super::super::contenders::Shared;
    use super::super::rivals::{Flume, Kanal};
    use super::{Batches, Range, VecDeque};

    impl Batches for parking_lot::Mutex<VecDeque<u64>> {
        fn new() -> Self {
            Self::default()
        }

        #[inline]
        fn push_batch(&self, items: Range<u64>) {
            self.lock().extend(items);
        }

        #[inline]
        fn pop_batch(&self, max: usize, sum: &mut u64) -> u64 {
            let mut items = self.lock();
            let count = max.min(items.len());
            for item in items.drain(..count) {
                *sum = sum.wrapping_add(item);
            }
            count as u64
        }
    }

    /// Single sends; `drain` takes all queued items by one lock.
    impl Batches for Flume<u64> {
        fn new() -> Self {
            Shared::new(0)
        }

        #[inline]
        fn push_batch(&self, items: Range<u64>) {
            for item in items {
                self.0.send(item).expect("both ends live");
            }
        }

        #[inline]
        fn pop_batch(&self, _max: usize, sum: &mut u64) -> u64 {
            let mut count = 0;
            for item in self.1.drain() {
                *sum = sum.wrapping_add(item);
                count += 1;
            }
            count
        }
    }

    /// Single sends; `drain_into` takes all queued items by one lock.
    impl Batches for Kanal<u64> {
        fn new() -> Self {
            Shared::new(0)
        }

        #[inline]
        fn push_batch(&self, items: Range<u64>) {
            for item in items {
                self.0.send(item).expect("both ends live");
            }
        }

        #[inline]
        fn pop_batch(&self, max: usize, sum: &mut u64) -> u64 {
            let mut items = Vec::with_capacity(max);
            let count = self.1.drain_into(&mut items).expect("both ends live");
            for item in items {
                *sum = sum.wrapping_add(item);
            }
            count as u64
        }
    }
}

/// One producer and one consumer.
struct Crossing<Q>(PhantomData<Q>);

impl<Q: Batches> Crossing<Q> {
    fn run(ops: u64) -> Sample {
        let batches = (ops / BATCH).max(1);
        let queue = &Q::new();
        let tally = Tally::new(batches * BATCH);
        let consumer = || tally.consume(|sum| queue.pop_batch(BATCH as usize, sum));
        let sample = together(vec![
            Box::new(move || {
                for batch in 0..batches {
                    queue.push_batch(batch * BATCH..(batch + 1) * BATCH);
                }
                0
            }),
            Box::new(consumer),
        ]);
        tally.check(&sample);
        sample
    }
}

/// The scenario.
pub(super) fn scenarios() -> Vec<Scenario> {
    let scenario = Scenario::new(LAYER, "mpmc, 1P1C, batches of 32", 4_000_000, 4000)
        .ours("rast Queue, batches", Crossing::<Queue<u64>>::run)
        .ours(
            "rast Queue, single calls",
            Crossing::<Singles<Queue<u64>>>::run,
        )
        .rival(
            "std Mutex<VecDeque>, batches",
            Crossing::<Mutex<VecDeque<u64>>>::run,
        );
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let scenario = scenario
        .rival(
            "parking_lot Mutex<VecDeque>, batches",
            Crossing::<parking_lot::Mutex<VecDeque<u64>>>::run,
        )
        .rival(
            "crossbeam SegQueue, single calls",
            Crossing::<Singles<crossbeam_queue::SegQueue<u64>>>::run,
        )
        .rival(
            "flume, single calls and drain",
            Crossing::<super::rivals::Flume<u64>>::run,
        )
        .rival(
            "kanal, single calls and drain_into",
            Crossing::<super::rivals::Kanal<u64>>::run,
        );
    vec![scenario]
}
