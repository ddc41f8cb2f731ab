//! Throughput of unbounded queues with many producers and many consumers.
//!
//! Bounded rivals also take part. They show what a bound gains; ours is not compared with them.

use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use super::LAYER;
use super::contenders::{Handle, Mpmc, Payload, Work, all, listed, nearest, others, ours};
use crate::harness::Scenario;
use crate::workers::{Job, Patience, Sample, alone, together};

/// The capacity of a bounded rival.
const ROOM: usize = 1024;

/// How many items there are, how many were taken, and what they sum to.
pub(super) struct Tally {
    total: u64,
    taken: AtomicU64,
    sum: AtomicU64,
}

impl Tally {
    /// Nothing taken yet of the numbers `0..total`.
    pub(super) fn new(total: u64) -> Self {
        Self {
            total,
            taken: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    /// The work of one consumer, until all consumers together have taken everything. `pop` adds the
    /// items that it took to the sum, and returns their number.
    #[inline]
    pub(super) fn consume(&self, mut pop: impl FnMut(&mut u64) -> u64) -> u64 {
        let mut patience = Patience::new();
        let (mut own_sum, mut own, mut unreported) = (0_u64, 0, 0);
        loop {
            match pop(&mut own_sum) {
                0 => {
                    // A consumer adds to the shared count only if it has taken items since its last
                    // addition and now finds none.
                    let all = match std::mem::take(&mut unreported) {
                        0 => self.taken.load(Ordering::Relaxed),
                        some => self.taken.fetch_add(some, Ordering::Relaxed) + some,
                    };
                    if all == self.total {
                        self.sum.fetch_add(own_sum, Ordering::Relaxed);
                        return own;
                    }
                    patience.wait();
                }
                some => {
                    own += some;
                    unreported += some;
                    patience.reset();
                }
            }
        }
    }

    /// Checks that each number arrived once.
    pub(super) fn check(self, sample: &Sample) {
        assert_eq!(sample.done, self.total);
        assert_eq!(self.sum.into_inner(), sum_below(self.total));
    }
}

/// The sum of `0..total`.
pub(super) fn sum_below(total: u64) -> u64 {
    (0..total).fold(0, u64::wrapping_add)
}

/// Pops one item and adds it: what [`Tally::consume`] needs for a queue without batches.
#[inline]
fn pop_one<T: Payload>(handle: &mut impl Handle<T>, sum: &mut u64) -> u64 {
    match handle.pop() {
        Some(item) => {
            *sum = sum.wrapping_add(item.number());
            1
        }
        None => 0,
    }
}

/// One thread pushes one and pops one.
struct OneThread<T>(PhantomData<T>);

impl<T: Payload> Work for OneThread<T> {
    type Item = T;

    fn run<Q: Mpmc<Item = T>>(ops: u64) -> Sample {
        let queue = Q::new(ROOM);
        let mut handle = queue.handle();
        alone(|| {
            let mut sum = 0_u64;
            for number in 0..ops {
                let refused = handle.push(T::of(black_box(number))).is_err();
                assert!(!refused, "there is room for one");
                sum = sum.wrapping_add(handle.pop().expect("one stands").number());
            }
            assert_eq!(sum, sum_below(ops));
            ops
        })
    }
}

/// Producers on some threads, consumers on others; only items that arrived count.
struct Crossing<T, const PRODUCERS: u64, const CONSUMERS: u64>(PhantomData<T>);

impl<T: Payload, const PRODUCERS: u64, const CONSUMERS: u64> Work
    for Crossing<T, PRODUCERS, CONSUMERS>
{
    type Item = T;

    fn run<Q: Mpmc<Item = T>>(ops: u64) -> Sample {
        let each = ops / PRODUCERS;
        let queue = &Q::new(ROOM);
        let tally = Tally::new(each * PRODUCERS);
        let mut jobs: Vec<Job<'_>> = Vec::new();
        // Producers and consumers are spawned in turn, so that no kind always starts last.
        for index in 0..PRODUCERS.max(CONSUMERS) {
            if index < PRODUCERS {
                jobs.push(Box::new(move || {
                    let mut handle = queue.handle();
                    for number in index * each..(index + 1) * each {
                        handle.push_patiently(T::of(number));
                    }
                    0
                }));
            }
            if index < CONSUMERS {
                jobs.push(Box::new(|| {
                    let mut handle = queue.handle();
                    tally.consume(|sum| pop_one(&mut handle, sum))
                }));
            }
        }
        let sample = together(jobs);
        tally.check(&sample);
        sample
    }
}

/// Two consumers empty a queue that was filled before the clock starts.
struct Drain<T>(PhantomData<T>);

impl<T: Payload> Work for Drain<T> {
    type Item = T;

    fn run<Q: Mpmc<Item = T>>(ops: u64) -> Sample {
        let queue = &Q::new(usize::try_from(ops).expect("it fits the memory"));
        let mut handle = queue.handle();
        for number in 0..ops {
            handle.push_patiently(T::of(number));
        }
        let tally = Tally::new(ops);
        let consumer = || -> Job<'_> {
            Box::new(|| {
                let mut handle = queue.handle();
                tally.consume(|sum| pop_one(&mut handle, sum))
            })
        };
        let sample = together(vec![consumer(), consumer()]);
        tally.check(&sample);
        sample
    }
}

/// Two threads. Each pushes a thousand items and then pops as many, of either thread.
struct Bursts<T>(PhantomData<T>);

impl<T: Payload> Work for Bursts<T> {
    type Item = T;

    fn run<Q: Mpmc<Item = T>>(ops: u64) -> Sample {
        const THREADS: u64 = 2;
        const BURST: u64 = 1000;
        let bursts = (ops / THREADS / BURST).max(1);
        let total = bursts * BURST * THREADS;
        let queue = &Q::new((THREADS * BURST) as usize);
        let sum = &AtomicU64::new(0);
        let jobs = (0..THREADS).map(|index| {
            Box::new(move || {
                let mut handle = queue.handle();
                let mut own_sum = 0_u64;
                let mut next = index * bursts * BURST;
                for _ in 0..bursts {
                    for number in next..next + BURST {
                        handle.push_patiently(T::of(number));
                    }
                    next += BURST;
                    for _ in 0..BURST {
                        own_sum = own_sum.wrapping_add(handle.pop_patiently().number());
                    }
                }
                sum.fetch_add(own_sum, Ordering::Relaxed);
                bursts * BURST
            }) as Job<'_>
        });
        let sample = together(jobs.collect());
        assert_eq!(sum.load(Ordering::Relaxed), sum_below(total));
        sample
    }
}

/// Threads that poll an empty queue. Here a poll that finds no item counts.
struct Polls<const THREADS: u64>;

impl<const THREADS: u64> Work for Polls<THREADS> {
    type Item = u64;

    fn run<Q: Mpmc<Item = u64>>(ops: u64) -> Sample {
        let queue = &Q::new(ROOM);
        // The queue has been used, because a poll of a queue without memory would be faster.
        let mut handle = queue.handle();
        for number in 0..100 {
            handle.push_patiently(number);
        }
        for number in 0..100 {
            assert_eq!(handle.pop_patiently(), number);
        }
        let each = ops / THREADS;
        let jobs = (0..THREADS).map(|_| {
            Box::new(move || {
                let mut handle = queue.handle();
                for _ in 0..each {
                    assert!(black_box(handle.pop()).is_none(), "nothing stands");
                }
                each
            }) as Job<'_>
        });
        together(jobs.collect())
    }
}

/// A scenario with every contender and the list queue.
fn all_and_list<W: Work>(name: &'static str, ops: u64, smoke_ops: u64) -> Scenario {
    others::<W>(nearest::<W>(listed::<W>(ours::<W>(Scenario::new(
        LAYER, name, ops, smoke_ops,
    )))))
}

/// The scenarios.
pub(super) fn scenarios() -> Vec<Scenario> {
    type Wide = [u64; 8];
    const OPS: u64 = 1_000_000;
    const SMOKE: u64 = 4000;
    vec![
        all_and_list::<OneThread<u64>>("mpmc, one thread", 2 * OPS, SMOKE),
        all::<OneThread<Wide>>("mpmc, one thread, 64 bytes", OPS, SMOKE),
        all_and_list::<Crossing<u64, 1, 1>>("mpmc, 1P1C", 2 * OPS, SMOKE),
        all_and_list::<Crossing<u64, 2, 2>>("mpmc, 2P2C", 2 * OPS, SMOKE),
        all::<Crossing<u64, 4, 4>>("mpmc, 4P4C", 4 * OPS, SMOKE),
        all::<Crossing<u64, 1, 4>>("mpmc, 1P4C", OPS, SMOKE),
        all::<Crossing<u64, 4, 1>>("mpmc, 4P1C", OPS, SMOKE),
        all::<Crossing<Wide, 1, 1>>("mpmc, 1P1C, 64 bytes", OPS, SMOKE),
        all::<Crossing<Wide, 2, 2>>("mpmc, 2P2C, 64 bytes", OPS, SMOKE),
        all::<Drain<u64>>("mpmc, two consumers drain", OPS, SMOKE),
        all::<Bursts<u64>>("mpmc, bursts of 1000", OPS, SMOKE),
        all::<Polls<1>>("mpmc, polls of an empty queue", 4 * OPS, SMOKE),
        all::<Polls<2>>(
            "mpmc, polls of an empty queue by two threads",
            2 * OPS,
            SMOKE,
        ),
    ]
}
