//! Queues whose producers and consumers are different values: `mpsc` and `spmc`.
//!
//! Each thread has its own producer or consumer. The work is the same for both kinds: `mpsc` has
//! one consumer, `spmc` one producer. `SegQueue` takes part although it allows many of both,
//! because a program that has no queue for its case uses `SegQueue`.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;

use rast::queue::mpsc::intrusive;
use rast::queue::{Queue, mpsc, spmc};

use super::LAYER;
use super::latency::{BURST, BURST_OPS, Schedule};
use super::mpmc::{Tally, sum_below};
use crate::harness::Scenario;
use crate::workers::{Job, Sample, alone, together};

/// A queue by its halves.
trait Halves: 'static {
    type Producer: Send + 'static;
    type Consumer: Send + 'static;
    /// What a consumer's thread holds while it consumes.
    type Taker<'a>;

    /// As many of each; a kind that a queue allows one of is asked for once.
    fn new(producers: u64, consumers: u64) -> (Vec<Self::Producer>, Vec<Self::Consumer>);
    fn taker(consumer: &mut Self::Consumer) -> Self::Taker<'_>;
    fn push(producer: &mut Self::Producer, item: u64);
    fn pop(taker: &mut Self::Taker<'_>) -> Option<u64>;

    /// Pushes the numbers of a range, by one call if there is such a call.
    #[inline]
    fn push_batch(producer: &mut Self::Producer, items: std::ops::Range<u64>) {
        for item in items {
            Self::push(producer, item);
        }
    }

    /// Adds up to `max` items to `sum`, by one call if there is such a call; returns how many.
    #[inline]
    fn pop_batch(taker: &mut Self::Taker<'_>, max: usize, sum: &mut u64) -> u64 {
        let mut count = 0;
        while count < max as u64 {
            let Some(item) = Self::pop(taker) else { break };
            *sum = sum.wrapping_add(item);
            count += 1;
        }
        count
    }
}

/// So many clones of a half.
fn clones<H: Clone>(half: H, count: u64) -> Vec<H> {
    vec![half; count as usize]
}

/// The halves of a queue that is called by reference.
macro_rules! by_reference {
    ($name:ident, $queue:ty, $new:expr, |$push:ident, $item:ident| $pushing:expr, |$pop:ident| $popping:expr) => {
        impl Halves for $name {
            type Producer = Arc<$queue>;
            type Consumer = Arc<$queue>;
            type Taker<'a> = &'a $queue;

            fn new(producers: u64, consumers: u64) -> (Vec<Self::Producer>, Vec<Self::Consumer>) {
                let queue = Arc::new($new);
                (
                    clones(Arc::clone(&queue), producers),
                    clones(queue, consumers),
                )
            }

            fn taker(consumer: &mut Self::Consumer) -> &$queue {
                consumer
            }

            #[inline]
            fn push($push: &mut Self::Producer, $item: u64) {
                $pushing
            }

            #[inline]
            fn pop($pop: &mut &$queue) -> Option<u64> {
                $popping
            }
        }
    };
}

/// Our queue with many producers and consumers, to show what the narrower kinds gain.
struct Many;
by_reference!(
    Many,
    Queue<u64>,
    Queue::new(),
    |queue, item| assert!(Queue::push(queue, item).is_ok(), "no thread closes it"),
    |queue| queue.pop()
);

/// Our queue with nodes of its own.
struct Boxed;

impl Halves for Boxed {
    type Producer = mpsc::Producer<u64>;
    type Consumer = mpsc::Consumer<u64>;
    type Taker<'a> = &'a mut mpsc::Consumer<u64>;

    fn new(producers: u64, _one: u64) -> (Vec<Self::Producer>, Vec<Self::Consumer>) {
        let (producer, consumer) = mpsc::queue();
        (clones(producer, producers), vec![consumer])
    }

    fn taker(consumer: &mut Self::Consumer) -> Self::Taker<'_> {
        consumer
    }

    #[inline]
    fn push(producer: &mut Self::Producer, item: u64) {
        assert!(producer.push(item).is_ok(), "no thread closes it");
    }

    #[inline]
    fn pop(taker: &mut Self::Taker<'_>) -> Option<u64> {
        taker.pop()
    }

    #[inline]
    fn push_batch(producer: &mut Self::Producer, items: std::ops::Range<u64>) {
        assert!(producer.push_batch(items).is_ok(), "no thread closes it");
    }

    #[inline]
    fn pop_batch(taker: &mut Self::Taker<'_>, _max: usize, sum: &mut u64) -> u64 {
        let mut count = 0;
        for item in taker.take_all() {
            *sum = sum.wrapping_add(item);
            count += 1;
        }
        count
    }
}

/// Our queue with nodes of the user; each item allocates and frees a box.
struct Intrusive;

struct Task {
    link: mpsc::Link,
    number: u64,
}

rast::queue::impl_node!(Task { link });

impl Halves for Intrusive {
    type Producer = Arc<intrusive::Queue<Box<Task>>>;
    type Consumer = Arc<intrusive::Queue<Box<Task>>>;
    type Taker<'a> = intrusive::Consumer<'a, Box<Task>>;

    fn new(producers: u64, _one: u64) -> (Vec<Self::Producer>, Vec<Self::Consumer>) {
        let queue = Arc::new(intrusive::Queue::new());
        (clones(Arc::clone(&queue), producers), vec![queue])
    }

    fn taker(consumer: &mut Self::Consumer) -> Self::Taker<'_> {
        consumer.consumer().expect("one consumer")
    }

    #[inline]
    fn push(producer: &mut Self::Producer, number: u64) {
        let link = mpsc::Link::new();
        let pushed = producer.push(Box::new(Task { link, number }));
        assert!(pushed.is_ok(), "no thread closes it");
    }

    #[inline]
    fn pop(taker: &mut Self::Taker<'_>) -> Option<u64> {
        taker.pop().map(|task| task.number)
    }
}

/// Ours, for one producer.
struct Blocks;

impl Halves for Blocks {
    type Producer = spmc::Producer<u64>;
    type Consumer = spmc::Consumer<u64>;
    type Taker<'a> = (&'a mut spmc::Consumer<u64>, Vec<u64>);

    fn new(_one: u64, consumers: u64) -> (Vec<Self::Producer>, Vec<Self::Consumer>) {
        let (producer, consumer) = spmc::queue();
        (vec![producer], clones(consumer, consumers))
    }

    fn taker(consumer: &mut Self::Consumer) -> Self::Taker<'_> {
        (consumer, Vec::new())
    }

    #[inline]
    fn push(producer: &mut Self::Producer, item: u64) {
        producer.push(item);
    }

    #[inline]
    fn pop(taker: &mut Self::Taker<'_>) -> Option<u64> {
        taker.0.pop()
    }

    #[inline]
    fn push_batch(producer: &mut Self::Producer, items: std::ops::Range<u64>) {
        producer.push_batch(items);
    }

    #[inline]
    fn pop_batch(taker: &mut Self::Taker<'_>, max: usize, sum: &mut u64) -> u64 {
        let (consumer, items) = taker;
        let count = consumer.pop_into(items, max);
        for item in items.drain(..) {
            *sum = sum.wrapping_add(item);
        }
        count as u64
    }
}

/// A channel whose producers are clones of a sender, for one consumer.
macro_rules! channel {
    ($name:ident, $sender:ty, $receiver:ty, $new:expr) => {
        impl Halves for $name {
            type Producer = $sender;
            type Consumer = $receiver;
            type Taker<'a> = &'a mut $receiver;

            fn new(producers: u64, _one: u64) -> (Vec<Self::Producer>, Vec<Self::Consumer>) {
                let (producer, consumer) = $new;
                (clones(producer, producers), vec![consumer])
            }

            fn taker(consumer: &mut Self::Consumer) -> Self::Taker<'_> {
                consumer
            }

            #[inline]
            fn push(producer: &mut Self::Producer, item: u64) {
                producer.send(item).expect("the consumer lives");
            }

            #[inline]
            fn pop(taker: &mut Self::Taker<'_>) -> Option<u64> {
                taker.try_recv().ok()
            }
        }
    };
}

/// `std::sync::mpsc`.
struct StdChannel;
channel!(
    StdChannel,
    std_mpsc::Sender<u64>,
    std_mpsc::Receiver<u64>,
    std_mpsc::channel()
);

#[cfg(all(rast_rivals, feature = "rivals"))]
mod rivals {
    use super::{Arc, Halves, clones};
    use crossbeam_deque::{Injector, Steal};
    use crossbeam_queue::SegQueue;
    use tokio::sync::mpsc as tokio_mpsc;

    pub(super) struct Seg;
    by_reference!(
        Seg,
        SegQueue<u64>,
        SegQueue::new(),
        |queue, item| SegQueue::push(queue, item),
        |queue| queue.pop()
    );

    /// `Injector`; if a steal returns `Retry`, it is repeated at once.
    pub(super) struct Injected;
    by_reference!(
        Injected,
        Injector<u64>,
        Injector::new(),
        |queue, item| Injector::push(queue, item),
        |queue| loop {
            match queue.steal() {
                Steal::Success(item) => break Some(item),
                Steal::Empty => break None,
                Steal::Retry => {}
            }
        }
    );

    pub(super) struct Crossbeam;
    channel!(
        Crossbeam,
        crossbeam_channel::Sender<u64>,
        crossbeam_channel::Receiver<u64>,
        crossbeam_channel::unbounded()
    );

    pub(super) struct Tokio;
    channel!(
        Tokio,
        tokio_mpsc::UnboundedSender<u64>,
        tokio_mpsc::UnboundedReceiver<u64>,
        tokio_mpsc::unbounded_channel()
    );
}

/// One thread pushes one and pops one.
fn one_thread<H: Halves>(ops: u64) -> Sample {
    let (mut producers, mut consumers) = H::new(1, 1);
    let mut taker = H::taker(&mut consumers[0]);
    alone(|| {
        let mut sum = 0_u64;
        for number in 0..ops {
            H::push(&mut producers[0], black_box(number));
            sum = sum.wrapping_add(H::pop(&mut taker).expect("one stands"));
        }
        assert_eq!(sum, sum_below(ops));
        ops
    })
}

/// Producers and consumers on threads of their own, in batches of `BATCH`.
fn crossing<H: Halves, const PRODUCERS: u64, const CONSUMERS: u64, const BATCH: u64>(
    ops: u64,
) -> Sample {
    let each = ops / PRODUCERS;
    let tally = Tally::new(each * PRODUCERS);
    let (producers, consumers) = H::new(PRODUCERS, CONSUMERS);
    // The halves live until all threads have ended, so no contender gains because an end was
    // dropped.
    let (mut producers, mut consumers) = (producers, consumers);
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for (producer, index) in producers.iter_mut().zip(0..) {
        jobs.push(Box::new(move || {
            let (mut next, end) = (index * each, (index + 1) * each);
            while next < end {
                let until = (next + BATCH).min(end);
                if BATCH == 1 {
                    H::push(producer, next);
                } else {
                    H::push_batch(producer, next..until);
                }
                next = until;
            }
            0
        }));
    }
    for consumer in &mut consumers {
        jobs.push(Box::new(|| {
            let mut taker = H::taker(consumer);
            tally.consume(|sum| match BATCH {
                1 => H::pop(&mut taker).map_or(0, |item| {
                    *sum = sum.wrapping_add(item);
                    1
                }),
                _ => H::pop_batch(&mut taker, BATCH as usize, sum),
            })
        }));
    }
    let sample = together(jobs);
    tally.check(&sample);
    sample
}

/// A producer that pushes 32 items each 100 us, and a consumer that spins.
fn hand_over<H: Halves>(ops: u64) -> Sample {
    let (mut producers, mut consumers) = H::new(1, 1);
    let (producer, consumer) = (&mut producers[0], &mut consumers[0]);
    Schedule::new(ops, BURST.0, BURST.1).run(
        |schedule| schedule.send(|item| H::push(producer, item)),
        |schedule, seen| {
            let mut taker = H::taker(consumer);
            schedule.receive(seen, || H::pop(&mut taker))
        },
    )
}

macro_rules! mpsc_scenario {
    ($name:literal, $ops:expr, $smoke:expr, $run:ident $(, $number:literal)*) => {{
        let scenario = Scenario::new(LAYER, $name, $ops, $smoke)
            .ours("rast mpsc", $run::<Boxed $(, $number)*>)
            .ours("rast mpsc::intrusive, boxes", $run::<Intrusive $(, $number)*>)
            .ours("rast Queue", $run::<Many $(, $number)*>)
            .rival("std mpsc", $run::<StdChannel $(, $number)*>);
        #[cfg(all(rast_rivals, feature = "rivals"))]
        let scenario = scenario
            .rival("tokio mpsc", $run::<rivals::Tokio $(, $number)*>)
            .rival("crossbeam-channel", $run::<rivals::Crossbeam $(, $number)*>)
            .rival("crossbeam SegQueue", $run::<rivals::Seg $(, $number)*>);
        scenario
    }};
}

macro_rules! spmc_scenario {
    ($name:literal, $ops:expr, $smoke:expr, $run:ident $(, $number:literal)*) => {{
        let scenario = Scenario::new(LAYER, $name, $ops, $smoke)
            .ours("rast spmc", $run::<Blocks $(, $number)*>)
            .ours("rast Queue", $run::<Many $(, $number)*>);
        #[cfg(all(rast_rivals, feature = "rivals"))]
        let scenario = scenario
            .rival("crossbeam-deque Injector", $run::<rivals::Injected $(, $number)*>)
            .rival("crossbeam SegQueue", $run::<rivals::Seg $(, $number)*>);
        scenario
    }};
}

/// The scenarios.
pub(super) fn scenarios() -> Vec<Scenario> {
    const OPS: u64 = 2_000_000;
    const SMOKE: u64 = 4000;
    const BURSTS: u64 = BURST_OPS.0;
    const BURSTS_SMOKE: u64 = BURST_OPS.1;
    let mut scenarios = table! { mpsc_scenario:
        ("mpsc, one thread", OPS, SMOKE, one_thread)
        ("mpsc, 1P1C", OPS, SMOKE, crossing, 1, 1, 1)
        ("mpsc, 2P1C", OPS, SMOKE, crossing, 2, 1, 1)
        ("mpsc, 4P1C", OPS, SMOKE, crossing, 4, 1, 1)
        ("mpsc, 2P1C, batches of 32", OPS, SMOKE, crossing, 2, 1, 32)
        ("hand-over p50, 32 items per 100 us, mpsc", BURSTS, BURSTS_SMOKE, hand_over)
    };
    scenarios.extend(table! { spmc_scenario:
        ("spmc, one thread", OPS, SMOKE, one_thread)
        ("spmc, 1P1C", OPS, SMOKE, crossing, 1, 1, 1)
        ("spmc, 1P2C", OPS, SMOKE, crossing, 1, 2, 1)
        ("spmc, 1P4C", OPS, SMOKE, crossing, 1, 4, 1)
        ("spmc, 1P2C, batches of 32", OPS, SMOKE, crossing, 1, 2, 32)
        ("hand-over p50, 32 items per 100 us, spmc", BURSTS, BURSTS_SMOKE, hand_over)
    });
    scenarios
}
