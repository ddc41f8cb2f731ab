//! Items that all panic when they are dropped with their queue. All are dropped, all memory is
//! freed, and the first panic comes out; a second panic that was not caught would abort.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rast_queue::list::ListQueue;
use rast_queue::mpsc::{Link, intrusive};
use rast_queue::{Queue, mpsc, spmc, spsc};

use super::support::Counting;

const ITEMS: u64 = 20;

/// Panics when it is dropped, with its number among those that were dropped.
struct Loud(Arc<AtomicU64>);

impl Drop for Loud {
    fn drop(&mut self) {
        panic!("drop {}", self.0.fetch_add(1, Ordering::SeqCst));
    }
}

/// Makes loud items for `drop_all`, which drops them.
fn all_are_dropped(kind: &str, drop_all: impl FnOnce(&mut dyn Iterator<Item = Loud>)) {
    let drops = Arc::new(AtomicU64::new(0));
    let mut items = (0..ITEMS).map(|_| Loud(Arc::clone(&drops)));
    let payload = catch_unwind(AssertUnwindSafe(|| drop_all(&mut items)));
    let payload = payload.expect_err("a panic comes out");
    let text = payload.downcast_ref::<String>().map(String::as_str);
    assert_eq!(text, Some("drop 0"), "{kind}");
    assert_eq!(drops.load(Ordering::SeqCst), ITEMS, "{kind}");
}

#[test]
fn the_last_half_drops_every_item() {
    let alloc = Counting::default();
    for producer_first in [false, true] {
        all_are_dropped("spsc::ring", |items| {
            let (mut producer, consumer) = spsc::ring_in(32, alloc.clone());
            assert_eq!(producer.push_batch(items), ITEMS as usize);
            super::support::drop_halves(producer, consumer, producer_first);
        });
        all_are_dropped("spsc::segmented", |items| {
            let (mut producer, consumer) = spsc::segmented::queue_in(4, alloc.clone());
            items.for_each(|item| producer.push(item).ok().unwrap());
            super::support::drop_halves(producer, consumer, producer_first);
        });
        all_are_dropped("spmc", |items| {
            let (mut producer, consumer) = spmc::queue_in(alloc.clone());
            producer.push_batch(items);
            super::support::drop_halves(producer, consumer, producer_first);
        });
        all_are_dropped("mpsc::bounded", |items| {
            let (producer, consumer) = mpsc::bounded::queue(32);
            items.for_each(|item| producer.push(0, item).ok().unwrap());
            super::support::drop_halves(producer, consumer, producer_first);
        });
    }
    assert_eq!(alloc.blocks(), 0);
}

#[test]
fn the_consumer_of_many_producers_drops_every_item() {
    let alloc = Counting::default();
    all_are_dropped("mpsc", |items| {
        let (mut producer, consumer) = mpsc::queue_in(alloc.clone());
        items.for_each(|item| producer.push(item).map(drop).ok().unwrap());
        drop(producer);
        drop(consumer);
    });
    all_are_dropped("mpsc::Batch", |items| {
        let (mut producer, mut consumer) = mpsc::queue_in(alloc.clone());
        items.for_each(|item| producer.push(item).map(drop).ok().unwrap());
        drop(consumer.take_all());
    });
    all_are_dropped("mpmc", |items| {
        let (producer, consumer) = Queue::new_in(alloc.clone()).split();
        items.for_each(|item| producer.push(item).ok().unwrap());
        drop(consumer);
    });
    assert_eq!(alloc.blocks(), 0);
}

#[test]
fn a_queue_drops_every_item() {
    let alloc = Counting::default();
    all_are_dropped("Queue", |items| {
        let queue = Queue::new_in(alloc.clone());
        items.for_each(|item| queue.push(item).ok().unwrap());
    });
    all_are_dropped("ListQueue", |items| {
        let queue = ListQueue::new_in(alloc.clone());
        items.for_each(|item| queue.push(item).ok().unwrap());
    });
    assert_eq!(alloc.blocks(), 0);
}

struct Task(Link, #[expect(dead_code, reason = "it is dropped")] Loud);
rast_queue::impl_node!(Task { 0 });

#[test]
fn a_queue_of_nodes_drops_every_node() {
    all_are_dropped("mpsc::intrusive", |items| {
        let queue = intrusive::Queue::<Box<Task>>::new();
        items.for_each(|item| {
            queue
                .push(Box::new(Task(Link::new(), item)))
                .map(drop)
                .ok()
                .unwrap()
        });
    });
}

#[test]
fn a_chunk_drops_every_item() {
    all_are_dropped("ReadChunk", |items| {
        // The chunk goes over the end of the ring.
        let (mut producer, mut consumer) = spsc::ring_at(32, 25);
        assert_eq!(producer.push_batch(items), ITEMS as usize);
        let committed = catch_unwind(AssertUnwindSafe(|| consumer.read_chunk(32).commit_all()));
        assert!(consumer.is_empty() && producer.room() == 32);
        std::panic::resume_unwind(committed.expect_err("a panic comes out"));
    });
    all_are_dropped("FilledChunk", |items| {
        let (mut producer, _consumer) = spsc::ring_at(32, 25);
        drop(
            producer
                .write_chunk(ITEMS as usize)
                .filled_with(|| items.next().unwrap()),
        );
    });
}
