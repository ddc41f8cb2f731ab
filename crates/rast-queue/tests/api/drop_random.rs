//! Items of which some panic when they are dropped, some with payloads whose drop panics again. Of
//! random numbers of items, some are popped before. Each is dropped once, and all memory is freed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rast_queue::list::ListQueue;
use rast_queue::mpsc::{Link, intrusive};
use rast_queue::primitive::Random;
use rast_queue::{Queue, mpsc, spmc, spsc};

use super::support::{Counting, drop_halves};

/// More than the items of a case.
const CAPACITY: usize = 128;

/// Counts its drops in the table of its case.
struct Item {
    at: usize,
    panics: bool,
    drops: Arc<[AtomicU32]>,
}

/// The payload of an item.
struct Quiet;

/// A payload whose drop panics.
struct Loud;

impl Drop for Loud {
    fn drop(&mut self) {
        resume_unwind(Box::new(Quiet));
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.drops[self.at].fetch_add(1, Ordering::Relaxed);
        match self.at % 5 {
            _ if !self.panics => {}
            0 => resume_unwind(Box::new(Loud)),
            _ => resume_unwind(Box::new(Quiet)),
        }
    }
}

struct Task(Link, #[expect(dead_code, reason = "it is dropped")] Item);
rast_queue::impl_node!(Task { 0 });

/// Runs `f`, and contains the panic of an item.
fn contain(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        if !payload.is::<Quiet>() && !payload.is::<Loud>() {
            resume_unwind(payload);
        }
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    }
}

/// The random choices of a case, and the number of its items.
struct Case {
    random: Random,
    count: usize,
}

impl Case {
    fn coin(&mut self) -> bool {
        self.random.below(2) == 0
    }

    /// Pops some of the items, and drops each.
    fn pop_some<T>(&mut self, mut pop: impl FnMut() -> T) {
        for _ in 0..self.random.below(self.count + 1) {
            let item = pop();
            contain(|| drop(item));
        }
    }

    /// Takes a few items of an iterator, and drops each. The rest is dropped with it.
    fn take_few<T>(&mut self, mut items: impl Iterator<Item = T>) {
        for _ in 0..self.random.below(5) {
            let item = items.next();
            contain(|| drop(item));
        }
        contain(|| drop(items));
    }
}

/// Makes items for `run`, and checks that each was dropped once at its end.
fn each_once(name: &str, seed: u64, run: impl FnOnce(&mut Case, &mut dyn Iterator<Item = Item>)) {
    let mut random = Random::new(seed);
    let count = random.below(70);
    let share = random.below(4);
    let drops: Arc<[_]> = (0..count).map(|_| AtomicU32::new(0)).collect();
    let panics: Vec<_> = (0..count).map(|_| random.below(4) < share).collect();
    let mut items = (0..count).map(|at| Item {
        at,
        panics: panics[at],
        drops: Arc::clone(&drops),
    });
    contain(|| run(&mut Case { random, count }, &mut items));
    for (at, drops) in drops.iter().enumerate() {
        let drops = drops.load(Ordering::Relaxed);
        assert_eq!(drops, 1, "{name}, seed {seed}: item {at} of {count}");
    }
}

const SEEDS: u64 = 200;

#[test]
fn each_item_of_a_queue_with_one_producer_is_dropped_once() {
    let alloc = Counting::default();
    for seed in 0..SEEDS {
        each_once("spsc::ring", seed, |case, items| {
            let (mut producer, mut consumer) = spsc::ring_in(CAPACITY, alloc.clone());
            assert_eq!(producer.push_batch(items), case.count);
            case.pop_some(|| consumer.pop());
            if case.coin() {
                let some = case.random.below(consumer.len() + 1);
                contain(|| consumer.read_chunk(CAPACITY).commit(some));
            } else {
                contain(|| _ = consumer.pop_batch(case.count, drop));
            }
            drop_halves(producer, consumer, case.coin());
        });
        each_once("spsc::ring, chunks", seed, |case, items| {
            let (mut producer, mut consumer) = spsc::ring_at(CAPACITY, case.random.below(CAPACITY));
            let keeps = case.random.below(case.count + 1);
            contain(|| {
                let chunk = producer.write_chunk(case.count);
                chunk.filled_with(|| items.next().unwrap()).commit(keeps);
            });
            case.take_few(consumer.read_chunk(CAPACITY).into_iter());
            drop_halves(producer, consumer, case.coin());
        });
        each_once("spsc::segmented", seed, |case, items| {
            let slots = 1 + case.random.below(8);
            let (mut producer, mut consumer) = spsc::segmented::queue_in(slots, alloc.clone());
            items.for_each(|item| producer.push(item).ok().unwrap());
            case.pop_some(|| consumer.pop());
            if case.coin() {
                contain(|| _ = consumer.pop_batch(case.count, drop));
            }
            drop_halves(producer, consumer, case.coin());
        });
        each_once("spmc", seed, |case, items| {
            let (mut producer, mut consumer) = spmc::queue_in(alloc.clone());
            producer.push_batch(items);
            let mut other = consumer.clone();
            case.pop_some(|| other.pop());
            drop(other);
            if case.coin() {
                contain(|| _ = consumer.pop_batch(case.count, drop));
            }
            drop_halves(producer, consumer, case.coin());
        });
        assert_eq!(alloc.blocks(), 0, "seed {seed}");
    }
}

#[test]
fn each_item_of_a_queue_with_many_producers_is_dropped_once() {
    let alloc = Counting::default();
    for seed in 0..SEEDS {
        each_once("mpsc", seed, |case, items| {
            let (mut producer, mut consumer) = mpsc::queue_in(alloc.clone());
            let mut second = producer.clone();
            for item in items {
                let producer = if case.coin() {
                    &mut producer
                } else {
                    &mut second
                };
                producer.push(item).map(drop).ok().unwrap();
            }
            case.pop_some(|| consumer.pop());
            match case.random.below(3) {
                0 => case.take_few(consumer.take_all()),
                1 => contain(|| _ = consumer.pop_batch(case.count, drop)),
                _ => _ = consumer.close(),
            }
            drop(second);
            drop_halves(producer, consumer, case.coin());
        });
        each_once("mpsc::bounded", seed, |case, items| {
            let (producer, mut consumer) = mpsc::bounded::queue(CAPACITY);
            let second = producer.clone();
            for item in items {
                let producer = if case.coin() { &producer } else { &second };
                producer.push(0, item).ok().unwrap();
            }
            case.pop_some(|| consumer.take());
            drop(second);
            drop_halves(producer, consumer, case.coin());
        });
        each_once("mpsc::intrusive", seed, |case, items| {
            let queue = intrusive::Queue::<Box<Task>>::new();
            for item in items {
                let task = Box::new(Task(Link::new(), item));
                queue.push(task).map(drop).ok().unwrap();
            }
            let mut consumer = queue.consumer().unwrap();
            case.pop_some(|| consumer.pop());
            if case.coin() {
                case.take_few(consumer.take_all());
            }
        });
        assert_eq!(alloc.blocks(), 0, "seed {seed}");
    }
}

#[test]
fn each_item_of_a_queue_with_many_consumers_is_dropped_once() {
    let alloc = Counting::default();
    for seed in 0..SEEDS {
        each_once("mpmc", seed, |case, items| {
            let (producer, consumer) = Queue::new_in(alloc.clone()).split();
            items.for_each(|item| producer.push(item).ok().unwrap());
            let other = consumer.clone();
            case.pop_some(|| other.pop());
            drop(other);
            match case.random.below(3) {
                0 => contain(|| _ = consumer.pop_batch(case.count, drop)),
                1 => _ = consumer.close(),
                _ => {}
            }
            drop_halves(producer, consumer, case.coin());
        });
        each_once("Queue", seed, |case, items| {
            let queue = Queue::new_in(alloc.clone());
            queue.push_batch(items).ok().unwrap();
            case.pop_some(|| queue.pop());
            match case.random.below(4) {
                0 => drop(queue.close()),
                1 => case.take_few(queue.into_iter()),
                2 => contain(|| _ = queue.pop_batch(case.count, drop)),
                _ => {}
            }
        });
        each_once("ListQueue", seed, |case, items| {
            let queue = ListQueue::new_in(alloc.clone());
            items.for_each(|item| queue.push(item).ok().unwrap());
            case.pop_some(|| queue.pop());
            match case.random.below(3) {
                0 => drop(queue.close()),
                1 => case.take_few(queue.into_iter()),
                _ => {}
            }
        });
        assert_eq!(alloc.blocks(), 0, "seed {seed}");
    }
}

/// A commit pops as many items as it drops, and the ring goes on.
#[test]
fn a_ring_goes_on_after_panics_in_a_commit() {
    for seed in 0..SEEDS {
        each_once("spsc::ring, commits", seed, |case, items| {
            let (mut producer, mut consumer) = spsc::ring_at(16, case.random.below(16));
            let (mut pushed, mut popped) = (0, 0);
            while popped < case.count {
                let some = case.random.below(17).min(producer.room());
                pushed += producer.push_batch(items.take(some));
                assert_eq!(consumer.len(), pushed - popped);
                let some = case.random.below(consumer.len() + 1);
                contain(|| consumer.read_chunk(16).commit(some));
                popped += some;
                assert_eq!(consumer.len(), pushed - popped);
            }
        });
    }
}
