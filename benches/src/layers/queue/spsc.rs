//! One producer and one consumer: the bounded ring, and the unbounded queue in segments.
//!
//! Each contender moves batches by the calls that its documentation calls fast: iterators into and
//! out of a chunk if the items are made and used one by one, slices if they are copied.

use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::mpsc;

use rast::queue::spsc::{self, segmented};

use super::LAYER;
use super::contenders::Payload;
use super::latency::{BURST, Schedule};
use super::mpmc::sum_below;
use crate::harness::Scenario;
use crate::histogram::Histogram;
use crate::workers::{Patience, Sample, alone, together};

const CAPACITY: usize = 1024;

/// The operations of a contender.
trait Ring {
    type Item: Payload;
    type Producer: Send + 'static;
    type Consumer: Send + 'static;

    fn ring(capacity: usize) -> (Self::Producer, Self::Consumer);
    /// False when the ring is full.
    fn push(producer: &mut Self::Producer, item: Self::Item) -> bool;
    fn pop(consumer: &mut Self::Consumer) -> Option<Self::Item>;

    /// Pushes as many of `from..from + count` as there is room for; returns their number. A queue
    /// without a call for batches is never full and makes single calls.
    #[inline]
    fn push_batch(producer: &mut Self::Producer, from: u64, count: usize) -> usize {
        items(from, count).for_each(|item| {
            Self::push(producer, item);
        });
        count
    }

    /// Takes up to `max` items into `sum`; returns how many.
    #[inline]
    fn pop_batch(consumer: &mut Self::Consumer, max: usize, sum: &mut u64) -> usize {
        let mut count = 0;
        while count < max {
            let Some(item) = Self::pop(consumer) else {
                break;
            };
            *sum = sum.wrapping_add(item.number());
            count += 1;
        }
        count
    }
}

/// A ring that copies slices.
trait SliceRing: Ring {
    /// Copies as much of `items` as there is room for; returns how many.
    fn push_slice(producer: &mut Self::Producer, items: &[Self::Item]) -> usize;
    /// Copies what is there to the front of `out`; returns how many.
    fn pop_slice(consumer: &mut Self::Consumer, out: &mut [Self::Item]) -> usize;
}

/// The items of a batch.
#[inline]
fn items<T: Payload>(from: u64, count: usize) -> impl Iterator<Item = T> {
    (from..from + count as u64).map(T::of)
}

/// Ours.
struct Rast<T>(PhantomData<T>);

impl<T: Payload> Ring for Rast<T> {
    type Item = T;
    type Producer = spsc::Producer<T>;
    type Consumer = spsc::Consumer<T>;

    fn ring(capacity: usize) -> (Self::Producer, Self::Consumer) {
        spsc::ring(capacity)
    }

    #[inline]
    fn push(producer: &mut Self::Producer, item: T) -> bool {
        producer.push(item).is_ok()
    }

    #[inline]
    fn pop(consumer: &mut Self::Consumer) -> Option<T> {
        consumer.pop()
    }

    #[inline]
    fn push_batch(producer: &mut Self::Producer, from: u64, count: usize) -> usize {
        producer.write_chunk(count).fill(items(from, count))
    }

    #[inline]
    fn pop_batch(consumer: &mut Self::Consumer, max: usize, sum: &mut u64) -> usize {
        consumer.pop_batch(max, |item| *sum = sum.wrapping_add(item.number()))
    }
}

impl<T: Payload> SliceRing for Rast<T> {
    #[inline]
    fn push_slice(producer: &mut Self::Producer, items: &[T]) -> usize {
        producer.push_slice(items)
    }

    #[inline]
    fn pop_slice(consumer: &mut Self::Consumer, out: &mut [T]) -> usize {
        consumer.pop_slice(out)
    }
}

/// Our unbounded queue, behind the same trait as the ring; it is never full.
struct Segmented<T>(PhantomData<T>);

impl<T: Payload> Ring for Segmented<T> {
    type Item = T;
    type Producer = segmented::Producer<T>;
    type Consumer = segmented::Consumer<T>;

    fn ring(_capacity: usize) -> (Self::Producer, Self::Consumer) {
        segmented::queue()
    }

    #[inline]
    fn push(producer: &mut Self::Producer, item: T) -> bool {
        // A consumer that is through with its run leaves nothing to be pushed.
        producer.push(item).is_ok()
    }

    #[inline]
    fn pop(consumer: &mut Self::Consumer) -> Option<T> {
        consumer.pop()
    }

    #[inline]
    fn push_batch(producer: &mut Self::Producer, from: u64, count: usize) -> usize {
        producer.push_batch(&mut items(from, count))
    }

    #[inline]
    fn pop_batch(consumer: &mut Self::Consumer, max: usize, sum: &mut u64) -> usize {
        consumer.pop_batch(max, |item| *sum = sum.wrapping_add(item.number()))
    }
}

/// std's channel, with one sender.
struct StdMpsc<T>(PhantomData<T>);

impl<T: Payload> Ring for StdMpsc<T> {
    type Item = T;
    type Producer = mpsc::Sender<T>;
    type Consumer = mpsc::Receiver<T>;

    fn ring(_capacity: usize) -> (Self::Producer, Self::Consumer) {
        mpsc::channel()
    }

    #[inline]
    fn push(producer: &mut Self::Producer, item: T) -> bool {
        producer.send(item).expect("the receiver stays to the end");
        true
    }

    #[inline]
    fn pop(consumer: &mut Self::Consumer) -> Option<T> {
        consumer.try_recv().ok()
    }
}

#[cfg(all(rast_rivals, feature = "rivals"))]
mod rivals {
    use super::{Payload, PhantomData, Ring, SliceRing, items};
    use crossbeam_queue::SegQueue;
    use rtrb::chunks::ChunkError;
    use std::sync::Arc;

    /// `rtrb`, by its chunks and its slices.
    pub(super) struct Rtrb<T>(PhantomData<T>);

    impl<T: Payload> Ring for Rtrb<T> {
        type Item = T;
        type Producer = rtrb::Producer<T>;
        type Consumer = rtrb::Consumer<T>;

        fn ring(capacity: usize) -> (Self::Producer, Self::Consumer) {
            rtrb::RingBuffer::new(capacity)
        }

        #[inline]
        fn push(producer: &mut Self::Producer, item: T) -> bool {
            producer.push(item).is_ok()
        }

        #[inline]
        fn pop(consumer: &mut Self::Consumer) -> Option<T> {
            consumer.pop().ok()
        }

        #[inline]
        fn push_batch(producer: &mut Self::Producer, from: u64, count: usize) -> usize {
            // A whole chunk or what is left of the room: the same promise as ours.
            let chunk = match producer.write_chunk_uninit(count) {
                Ok(chunk) => chunk,
                Err(ChunkError::TooFewSlots(room)) => producer
                    .write_chunk_uninit(room)
                    .expect("the room does not shrink"),
            };
            chunk.fill_from_iter(items(from, count))
        }

        #[inline]
        fn pop_batch(consumer: &mut Self::Consumer, max: usize, sum: &mut u64) -> usize {
            let chunk = match consumer.read_chunk(max) {
                Ok(chunk) => chunk,
                Err(ChunkError::TooFewSlots(standing)) => consumer
                    .read_chunk(standing)
                    .expect("what stands does not shrink"),
            };
            // By the slices, which are faster than its iterator.
            let (first, second) = chunk.as_slices();
            let count = first.len() + second.len();
            for item in first.iter().chain(second) {
                *sum = sum.wrapping_add(item.number());
            }
            chunk.commit_all();
            count
        }
    }

    impl<T: Payload> SliceRing for Rtrb<T> {
        #[inline]
        fn push_slice(producer: &mut Self::Producer, items: &[T]) -> usize {
            producer.push_partial_slice(items).0.len()
        }

        #[inline]
        fn pop_slice(consumer: &mut Self::Consumer, out: &mut [T]) -> usize {
            consumer.pop_partial_slice(out).0.len()
        }
    }

    /// `ringbuf`, by its cached halves.
    pub(super) struct Ringbuf<T>(PhantomData<T>);

    impl<T: Payload> Ring for Ringbuf<T> {
        type Item = T;
        type Producer = ringbuf::HeapProd<T>;
        type Consumer = ringbuf::HeapCons<T>;

        fn ring(capacity: usize) -> (Self::Producer, Self::Consumer) {
            use ringbuf::traits::Split as _;
            ringbuf::HeapRb::new(capacity).split()
        }

        #[inline]
        fn push(producer: &mut Self::Producer, item: T) -> bool {
            use ringbuf::traits::Producer as _;
            producer.try_push(item).is_ok()
        }

        #[inline]
        fn pop(consumer: &mut Self::Consumer) -> Option<T> {
            use ringbuf::traits::Consumer as _;
            consumer.try_pop()
        }

        #[inline]
        fn push_batch(producer: &mut Self::Producer, from: u64, count: usize) -> usize {
            use ringbuf::traits::Producer as _;
            producer.push_iter(items(from, count))
        }

        #[inline]
        fn pop_batch(consumer: &mut Self::Consumer, max: usize, sum: &mut u64) -> usize {
            use ringbuf::traits::Consumer as _;
            let mut count = 0;
            for item in consumer.pop_iter().take(max) {
                *sum = sum.wrapping_add(item.number());
                count += 1;
            }
            count
        }
    }

    impl<T: Payload> SliceRing for Ringbuf<T> {
        #[inline]
        fn push_slice(producer: &mut Self::Producer, items: &[T]) -> usize {
            use ringbuf::traits::Producer as _;
            producer.push_slice(items)
        }

        #[inline]
        fn pop_slice(consumer: &mut Self::Consumer, out: &mut [T]) -> usize {
            use ringbuf::traits::Consumer as _;
            consumer.pop_slice(out)
        }
    }

    /// crossbeam's `SegQueue`, with one thread at each end.
    pub(super) struct Seg<T>(PhantomData<T>);

    impl<T: Payload> Ring for Seg<T> {
        type Item = T;
        type Producer = Arc<SegQueue<T>>;
        type Consumer = Arc<SegQueue<T>>;

        fn ring(_capacity: usize) -> (Self::Producer, Self::Consumer) {
            let queue = Arc::new(SegQueue::new());
            (Arc::clone(&queue), queue)
        }

        #[inline]
        fn push(producer: &mut Self::Producer, item: T) -> bool {
            producer.push(item);
            true
        }

        #[inline]
        fn pop(consumer: &mut Self::Consumer) -> Option<T> {
            consumer.pop()
        }
    }
}

/// One thread pushes one and pops one.
fn same_thread<R: Ring>(ops: u64) -> Sample {
    let (mut producer, mut consumer) = R::ring(CAPACITY);
    alone(|| {
        let mut sum = 0_u64;
        for number in 0..ops {
            assert!(R::push(&mut producer, R::Item::of(black_box(number))));
            let item = R::pop(&mut consumer).expect("one stands");
            sum = sum.wrapping_add(item.number());
        }
        assert_eq!(sum, sum_below(ops));
        ops
    })
}

/// One thread pushes a batch and pops a batch.
fn same_thread_batch<R: Ring, const BATCH: usize>(ops: u64) -> Sample {
    let (mut producer, mut consumer) = R::ring(CAPACITY);
    let ops = ops - ops % BATCH as u64;
    alone(|| {
        let mut sum = 0_u64;
        let mut next = 0;
        while next < ops {
            let pushed = R::push_batch(&mut producer, black_box(next), BATCH);
            assert_eq!(pushed, BATCH);
            assert_eq!(R::pop_batch(&mut consumer, BATCH, &mut sum), BATCH);
            next += BATCH as u64;
        }
        assert_eq!(sum, sum_below(ops));
        ops
    })
}

/// A producer thread and a consumer thread. `push` gets the next number, and how many numbers are
/// left.
fn across<R: Ring>(
    ops: u64,
    mut push: impl FnMut(&mut R::Producer, u64, u64) -> usize + Send + 'static,
    mut pop: impl FnMut(&mut R::Consumer, &mut u64) -> usize + Send + 'static,
) -> Sample {
    let (mut producer, mut consumer) = R::ring(CAPACITY);
    together(vec![
        Box::new(move || {
            let mut patience = Patience::new();
            let mut next = 0;
            while next < ops {
                match push(&mut producer, next, ops - next) {
                    0 => patience.wait(),
                    pushed => {
                        next += pushed as u64;
                        patience.reset();
                    }
                }
            }
            0
        }),
        Box::new(move || {
            let mut patience = Patience::new();
            let mut sum = 0_u64;
            let mut taken = 0;
            while taken < ops {
                match pop(&mut consumer, &mut sum) {
                    0 => patience.wait(),
                    popped => {
                        taken += popped as u64;
                        patience.reset();
                    }
                }
            }
            assert_eq!(sum, sum_below(ops));
            taken
        }),
    ])
}

/// A producer thread and a consumer thread, one item at a time.
fn cross_thread<R: Ring>(ops: u64) -> Sample {
    across::<R>(
        ops,
        |producer, next, _| usize::from(R::push(producer, R::Item::of(next))),
        |consumer, sum| {
            R::pop(consumer).map_or(0, |item| {
                *sum = sum.wrapping_add(item.number());
                1
            })
        },
    )
}

/// A producer thread and a consumer thread, a batch at a time.
fn cross_thread_batch<R: Ring, const BATCH: usize>(ops: u64) -> Sample {
    across::<R>(
        ops,
        |producer, next, left| R::push_batch(producer, next, left.min(BATCH as u64) as usize),
        |consumer, sum| R::pop_batch(consumer, BATCH, sum),
    )
}

/// A producer thread and a consumer thread that copy slices. The slices are made before the
/// measured time and summed after it.
fn cross_thread_slices<R: SliceRing, const BATCH: usize>(ops: u64) -> Sample {
    across::<R>(
        ops,
        |producer, next, left| {
            let made: [R::Item; BATCH] = std::array::from_fn(|n| R::Item::of(next + n as u64));
            R::push_slice(producer, &made[..left.min(BATCH as u64) as usize])
        },
        |consumer, sum| {
            let mut out = [R::Item::of(0); BATCH];
            let count = R::pop_slice(consumer, &mut out);
            for item in &out[..count] {
                *sum = sum.wrapping_add(item.number());
            }
            count
        },
    )
}

/// Two threads and two rings: a value goes to the other thread and back before the next one is
/// sent.
fn ping_pong<R: Ring>(ops: u64) -> Sample {
    let (mut there, mut far) = R::ring(1);
    let (mut back, mut near) = R::ring(1);
    together(vec![
        Box::new(move || {
            for number in 0..ops {
                assert!(R::push(&mut there, R::Item::of(number)));
                assert_eq!(wait_for::<R>(&mut near).number(), number);
            }
            ops
        }),
        Box::new(move || {
            for _ in 0..ops {
                let item = wait_for::<R>(&mut far);
                assert!(R::push(&mut back, item));
            }
            0
        }),
    ])
}

fn wait_for<R: Ring>(consumer: &mut R::Consumer) -> R::Item {
    let mut patience = Patience::new();
    loop {
        if let Some(item) = R::pop(consumer) {
            return item;
        }
        patience.wait();
    }
}

/// A producer that pushes 32 items each 100 us, and a consumer that spins.
fn hand_over<R: Ring<Item = u64>>(ops: u64) -> Sample {
    paced::<R>(ops, |schedule, consumer, seen| {
        schedule.receive(seen, || R::pop(consumer))
    })
}

/// As [`hand_over`], with a consumer that takes batches.
fn hand_over_batches<R: Ring<Item = u64>, const BATCH: usize>(ops: u64) -> Sample {
    paced::<R>(ops, |schedule, consumer, seen| {
        schedule.receive_batches(seen, |sum| R::pop_batch(consumer, BATCH, sum))
    })
}

fn paced<R: Ring<Item = u64>>(
    ops: u64,
    receive: impl FnOnce(&Schedule, &mut R::Consumer, &mut Histogram) -> u64 + Send,
) -> Sample {
    let (mut producer, mut consumer) = R::ring(CAPACITY);
    Schedule::new(ops, BURST.0, BURST.1).run(
        move |schedule| {
            schedule.send(|item| {
                while !R::push(&mut producer, item) {
                    std::hint::spin_loop();
                }
            })
        },
        move |schedule, seen| receive(schedule, &mut consumer, seen),
    )
}

/// A scenario with every ring, by the name of a generic function.
macro_rules! rings {
    ($name:literal, $ops:literal, $smoke:literal, $run:ident, $item:ty $(, $batch:literal)?) => {{
        let scenario = Scenario::new(LAYER, $name, $ops, $smoke)
            .ours("rast spsc::ring", $run::<Rast<$item> $(, $batch)?>);
        #[cfg(all(rast_rivals, feature = "rivals"))]
        let scenario = scenario
            .rival("rtrb", $run::<rivals::Rtrb<$item> $(, $batch)?>)
            .rival("ringbuf", $run::<rivals::Ringbuf<$item> $(, $batch)?>);
        scenario
    }};
}

/// A scenario with every queue that has no bound.
macro_rules! unbounded {
    ($name:literal, $ops:literal, $smoke:literal, $run:ident, $item:ty $(, $batch:literal)?) => {{
        let scenario = Scenario::new(LAYER, $name, $ops, $smoke)
            .ours("rast spsc::segmented", $run::<Segmented<$item> $(, $batch)?>)
            .rival("std mpsc", $run::<StdMpsc<$item> $(, $batch)?>);
        #[cfg(all(rast_rivals, feature = "rivals"))]
        let scenario = scenario.rival("SegQueue", $run::<rivals::Seg<$item> $(, $batch)?>);
        scenario
    }};
}

/// 64 bytes.
type Large = [u64; 8];

/// The scenarios of the rings and of the queue in segments.
#[rustfmt::skip]
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        rings!("spsc, one thread, one by one", 20_000_000, 1000, same_thread, u64),
        rings!("spsc, one thread, batches of 8", 40_000_000, 1024, same_thread_batch, u64, 8),
        rings!("spsc, one thread, batches of 64", 80_000_000, 1024, same_thread_batch, u64, 64),
        rings!("spsc, two threads, one by one", 10_000_000, 5000, cross_thread, u64),
        rings!("spsc, two threads, batches of 8", 40_000_000, 5000, cross_thread_batch, u64, 8),
        rings!("spsc, two threads, batches of 64", 40_000_000, 5000, cross_thread_batch, u64, 64),
        rings!("spsc, two threads, slices of 64", 40_000_000, 5000, cross_thread_slices, u64, 64),
        rings!("spsc, two threads, round trip", 300_000, 500, ping_pong, u64),
        rings!("spsc, 64 bytes, one thread, one by one", 10_000_000, 1000, same_thread, Large),
        rings!("spsc, 64 bytes, one thread, batches of 8", 10_000_000, 1024, same_thread_batch, Large, 8),
        rings!("spsc, 64 bytes, one thread, batches of 64", 10_000_000, 1024, same_thread_batch, Large, 64),
        rings!("spsc, 64 bytes, two threads, one by one", 5_000_000, 5000, cross_thread, Large),
        rings!("spsc, 64 bytes, two threads, batches of 8", 5_000_000, 5000, cross_thread_batch, Large, 8),
        rings!("spsc, 64 bytes, two threads, batches of 64", 5_000_000, 5000, cross_thread_batch, Large, 64),
        rings!("hand-over p50, 32 items per 100 us, ring", 12_800, 128, hand_over, u64),
        rings!("hand-over p50, 32 items per 100 us, ring, batches of 32", 12_800, 128, hand_over_batches, u64, 32),
        unbounded!("hand-over p50, 32 items per 100 us, segmented", 12_800, 128, hand_over, u64),
        unbounded!("spsc unbounded, one thread, one by one", 10_000_000, 1000, same_thread, u64),
        unbounded!("spsc unbounded, two threads, one by one", 5_000_000, 5000, cross_thread, u64),
        unbounded!("spsc unbounded, two threads, batches of 64", 10_000_000, 5000, cross_thread_batch, u64, 64),
        unbounded!("spsc unbounded, 64 bytes, two threads, one by one", 2_000_000, 5000, cross_thread, Large),
    ]
}
