//! Bounded rings with one producer and one consumer.

use std::hint::black_box;

use rast::queue::spsc;

use crate::harness::Scenario;
use crate::workers::{Patience, Sample, alone, together};

const LAYER: &str = "queue";
const CAPACITY: usize = 1024;

/// What a contender does: the same five things under its own names.
trait Ring {
    type Producer: Send + 'static;
    type Consumer: Send + 'static;

    fn ring(capacity: usize) -> (Self::Producer, Self::Consumer);
    /// False when the ring is full.
    fn push(producer: &mut Self::Producer, value: u64) -> bool;
    fn pop(consumer: &mut Self::Consumer) -> Option<u64>;
    /// Pushes `from..from + count` as far as there is room; returns how many.
    fn push_batch(producer: &mut Self::Producer, from: u64, count: usize) -> usize;
    /// Takes up to `max` values into `sum`; returns how many.
    fn pop_batch(consumer: &mut Self::Consumer, max: usize, sum: &mut u64) -> usize;
}

/// Ours.
struct Rast;

impl Ring for Rast {
    type Producer = spsc::Producer<u64>;
    type Consumer = spsc::Consumer<u64>;

    fn ring(capacity: usize) -> (Self::Producer, Self::Consumer) {
        spsc::ring(capacity)
    }

    #[inline]
    fn push(producer: &mut Self::Producer, value: u64) -> bool {
        producer.push(value).is_ok()
    }

    #[inline]
    fn pop(consumer: &mut Self::Consumer) -> Option<u64> {
        consumer.pop()
    }

    #[inline]
    fn push_batch(producer: &mut Self::Producer, from: u64, count: usize) -> usize {
        producer.push_iter(&mut (from..from + count as u64))
    }

    #[inline]
    fn pop_batch(consumer: &mut Self::Consumer, max: usize, sum: &mut u64) -> usize {
        consumer.pop_batch(max, |value| *sum = sum.wrapping_add(value))
    }
}

/// `rtrb`, by its chunks.
#[cfg(all(rast_rivals, feature = "rivals"))]
struct Rtrb;

#[cfg(all(rast_rivals, feature = "rivals"))]
impl Ring for Rtrb {
    type Producer = rtrb::Producer<u64>;
    type Consumer = rtrb::Consumer<u64>;

    fn ring(capacity: usize) -> (Self::Producer, Self::Consumer) {
        rtrb::RingBuffer::new(capacity)
    }

    #[inline]
    fn push(producer: &mut Self::Producer, value: u64) -> bool {
        producer.push(value).is_ok()
    }

    #[inline]
    fn pop(consumer: &mut Self::Consumer) -> Option<u64> {
        consumer.pop().ok()
    }

    #[inline]
    fn push_batch(producer: &mut Self::Producer, from: u64, count: usize) -> usize {
        // A whole chunk or what is left of the room: the same promise as ours.
        let chunk = match producer.write_chunk_uninit(count) {
            Ok(chunk) => chunk,
            Err(rtrb::chunks::ChunkError::TooFewSlots(room)) => producer
                .write_chunk_uninit(room)
                .expect("the room does not shrink"),
        };
        chunk.fill_from_iter(from..from + count as u64)
    }

    #[inline]
    fn pop_batch(consumer: &mut Self::Consumer, max: usize, sum: &mut u64) -> usize {
        let chunk = match consumer.read_chunk(max) {
            Ok(chunk) => chunk,
            Err(rtrb::chunks::ChunkError::TooFewSlots(standing)) => consumer
                .read_chunk(standing)
                .expect("what stands does not shrink"),
        };
        let count = chunk.len();
        for value in chunk {
            *sum = sum.wrapping_add(value);
        }
        count
    }
}

/// `ringbuf`, by its cached halves.
#[cfg(all(rast_rivals, feature = "rivals"))]
struct Ringbuf;

#[cfg(all(rast_rivals, feature = "rivals"))]
impl Ring for Ringbuf {
    type Producer = ringbuf::HeapProd<u64>;
    type Consumer = ringbuf::HeapCons<u64>;

    fn ring(capacity: usize) -> (Self::Producer, Self::Consumer) {
        use ringbuf::traits::Split as _;
        ringbuf::HeapRb::new(capacity).split()
    }

    #[inline]
    fn push(producer: &mut Self::Producer, value: u64) -> bool {
        use ringbuf::traits::Producer as _;
        producer.try_push(value).is_ok()
    }

    #[inline]
    fn pop(consumer: &mut Self::Consumer) -> Option<u64> {
        use ringbuf::traits::Consumer as _;
        consumer.try_pop()
    }

    #[inline]
    fn push_batch(producer: &mut Self::Producer, from: u64, count: usize) -> usize {
        use ringbuf::traits::Producer as _;
        producer.push_iter(from..from + count as u64)
    }

    #[inline]
    fn pop_batch(consumer: &mut Self::Consumer, max: usize, sum: &mut u64) -> usize {
        use ringbuf::traits::Consumer as _;
        let mut count = 0;
        for value in consumer.pop_iter().take(max) {
            *sum = sum.wrapping_add(value);
            count += 1;
        }
        count
    }
}

/// The sum of `0..ops`, which every run must come to.
fn expected(ops: u64) -> u64 {
    (0..ops).fold(0, u64::wrapping_add)
}

/// One thread pushes one and pops one.
fn same_thread<R: Ring>(ops: u64) -> Sample {
    let (mut producer, mut consumer) = R::ring(CAPACITY);
    alone(|| {
        let mut sum = 0_u64;
        for value in 0..ops {
            assert!(R::push(&mut producer, black_box(value)));
            sum = sum.wrapping_add(R::pop(&mut consumer).expect("one stands"));
        }
        assert_eq!(sum, expected(ops));
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
        assert_eq!(sum, expected(ops));
        ops
    })
}

/// A producer thread and a consumer thread, one item at a time.
fn cross_thread<R: Ring>(ops: u64) -> Sample {
    let (mut producer, mut consumer) = R::ring(CAPACITY);
    together(vec![
        Box::new(move || {
            let mut patience = Patience::new();
            for value in 0..ops {
                while !R::push(&mut producer, value) {
                    patience.wait();
                }
                patience.reset();
            }
            0
        }),
        Box::new(move || {
            let mut patience = Patience::new();
            let mut sum = 0_u64;
            let mut taken = 0;
            while taken < ops {
                match R::pop(&mut consumer) {
                    Some(value) => {
                        sum = sum.wrapping_add(value);
                        taken += 1;
                        patience.reset();
                    }
                    None => patience.wait(),
                }
            }
            assert_eq!(sum, expected(ops));
            taken
        }),
    ])
}

/// A producer thread and a consumer thread, 64 items at a time.
fn cross_thread_batch<R: Ring>(ops: u64) -> Sample {
    const BATCH: u64 = 64;
    let (mut producer, mut consumer) = R::ring(CAPACITY);
    together(vec![
        Box::new(move || {
            let mut patience = Patience::new();
            let mut next = 0;
            while next < ops {
                let count = BATCH.min(ops - next) as usize;
                match R::push_batch(&mut producer, next, count) {
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
                match R::pop_batch(&mut consumer, BATCH as usize, &mut sum) {
                    0 => patience.wait(),
                    popped => {
                        taken += popped as u64;
                        patience.reset();
                    }
                }
            }
            assert_eq!(sum, expected(ops));
            taken
        }),
    ])
}

/// Two threads, two rings: a value goes there and comes back before the next one leaves.
fn ping_pong<R: Ring>(ops: u64) -> Sample {
    let (mut there, mut far) = R::ring(1);
    let (mut back, mut near) = R::ring(1);
    together(vec![
        Box::new(move || {
            for value in 0..ops {
                assert!(R::push(&mut there, value));
                let answer = wait_for::<R>(&mut near);
                assert_eq!(answer, value);
            }
            ops
        }),
        Box::new(move || {
            for _ in 0..ops {
                let value = wait_for::<R>(&mut far);
                assert!(R::push(&mut back, value));
            }
            0
        }),
    ])
}

fn wait_for<R: Ring>(consumer: &mut R::Consumer) -> u64 {
    let mut patience = Patience::new();
    loop {
        if let Some(value) = R::pop(consumer) {
            return value;
        }
        patience.wait();
    }
}

/// A scenario with every ring, by the name of a generic function.
macro_rules! scenario {
    ($name:literal, $ops:literal, $smoke:literal, $run:ident $(, $batch:literal)?) => {{
        let scenario = Scenario::new(LAYER, $name, $ops, $smoke)
            .ours("rast spsc::ring", $run::<Rast $(, $batch)?>);
        #[cfg(all(rast_rivals, feature = "rivals"))]
        let scenario = scenario
            .rival("rtrb", $run::<Rtrb $(, $batch)?>)
            .rival("ringbuf", $run::<Ringbuf $(, $batch)?>);
        scenario
    }};
}

/// The scenarios of the rings.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(
            "spsc, one thread, one by one",
            20_000_000,
            1000,
            same_thread
        ),
        scenario!(
            "spsc, one thread, batches of 8",
            40_000_000,
            1024,
            same_thread_batch,
            8
        ),
        scenario!(
            "spsc, one thread, batches of 64",
            80_000_000,
            1024,
            same_thread_batch,
            64
        ),
        scenario!(
            "spsc, two threads, one by one",
            10_000_000,
            5000,
            cross_thread
        ),
        scenario!(
            "spsc, two threads, batches of 64",
            40_000_000,
            5000,
            cross_thread_batch
        ),
        scenario!("spsc, two threads, round trip", 300_000, 500, ping_pong),
    ]
}
