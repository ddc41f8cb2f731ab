//! The protocols of the ring and of `Queue` in a few operations, one property per test.
//!
//! Under `--cfg rast_loom` each runs in every interleaving; otherwise it runs as a stress on real threads.
//! `docs/verification.md` says which one catches what.
#![cfg(feature = "std")]

use rast_queue::primitive::cell::UnsafeCell;
use rast_queue::primitive::model::model;
use rast_queue::primitive::sync::Arc;
use rast_queue::primitive::thread;
use rast_queue::{Queue, spsc};
use std::sync::atomic::{AtomicUsize as StdUsize, Ordering};

/// Just below the wrap of the indices.
const NEAR_WRAP: usize = usize::MAX;

// --- the ring ---

/// What is popped was pushed, in order; each slot is seen written.
#[test]
fn spsc_push_pop() {
    model(|| {
        let (mut producer, mut consumer) = spsc::ring(2);
        let other = thread::spawn(move || {
            for n in 1..=2 {
                producer.push(n).unwrap();
            }
        });
        let mut expected = 1;
        for _ in 0..3 {
            if let Some(n) = consumer.pop() {
                assert_eq!(n, expected);
                expected += 1;
            }
        }
        other.join().unwrap();
        while let Some(n) = consumer.pop() {
            assert_eq!(n, expected);
            expected += 1;
        }
        assert_eq!(expected, 3);
    });
}

/// A slot is written again only once the item in it was moved out; the indices wrap on the way.
#[test]
fn spsc_wrap() {
    model(|| {
        let (mut producer, mut consumer) = spsc::ring_at(1, NEAR_WRAP);
        producer.push(0).unwrap();
        let other = thread::spawn(move || {
            let mut next = 1;
            for _ in 0..2 {
                if producer.push(next).is_ok() {
                    next += 1;
                }
            }
            next
        });
        let mut expected = 0;
        for _ in 0..2 {
            if let Some(n) = consumer.pop() {
                assert_eq!(n, expected);
                expected += 1;
            }
        }
        let pushed = other.join().unwrap();
        while let Some(n) = consumer.pop() {
            assert_eq!(n, expected);
            expected += 1;
        }
        assert_eq!(expected, pushed);
    });
}

/// Batches on both sides, over the wrap, lose nothing and keep the order.
#[test]
fn spsc_batch() {
    model(|| {
        let (mut producer, mut consumer) = spsc::ring_at(2, NEAR_WRAP);
        producer.push(0).unwrap();
        let other = thread::spawn(move || {
            let mut numbers = 1..4;
            producer.push_iter(&mut numbers);
            producer.push_iter(&mut numbers);
            numbers.start
        });
        let mut expected = 0;
        let mut check = |n| {
            assert_eq!(n, expected);
            expected += 1;
        };
        consumer.pop_batch(2, &mut check);
        consumer.pop_batch(2, &mut check);
        let pushed = other.join().unwrap();
        consumer.pop_batch(2, &mut check);
        assert_eq!(expected, pushed);
    });
}

/// Room and length that one side has seen stay true until that side uses them.
#[test]
fn spsc_room_and_len_hold() {
    model(|| {
        let (mut producer, mut consumer) = spsc::ring(2);
        producer.push(0).unwrap();
        let other = thread::spawn(move || {
            for _ in 0..producer.room() {
                producer.push(1).unwrap();
            }
        });
        for _ in 0..consumer.len() {
            consumer.pop().unwrap();
        }
        other.join().unwrap();
    });
}

/// A consumer that sees the producer gone finds all that was pushed.
#[test]
fn spsc_close_producer() {
    model(|| {
        let (mut producer, mut consumer) = spsc::ring(2);
        let other = thread::spawn(move || {
            producer.push(1).unwrap();
            drop(producer);
        });
        if consumer.is_closed() {
            assert_eq!(consumer.pop(), Some(1));
            assert!(consumer.is_finished());
        }
        other.join().unwrap();
    });
}

/// A payload whose drops are counted; it holds no memory, so a second drop is a wrong count and no more.
struct Token;

static DROPS: StdUsize = StdUsize::new(0);

impl Drop for Token {
    fn drop(&mut self) {
        DROPS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whichever half leaves second, each item is dropped once.
#[test]
fn spsc_drop_with_items() {
    model(|| {
        DROPS.store(0, Ordering::Relaxed);
        let (mut producer, mut consumer) = spsc::ring(2);
        producer.push(Token).ok().unwrap();
        let other = thread::spawn(move || {
            let pushed = producer.push(Token).is_ok();
            drop(producer);
            pushed
        });
        drop(consumer.pop());
        drop(consumer);
        assert!(other.join().unwrap());
        assert_eq!(DROPS.load(Ordering::Relaxed), 2);
    });
}

// --- Queue ---

/// Two producers lose nothing to each other.
#[test]
fn queue_push_push() {
    model(|| {
        let queue = Arc::new(Queue::new());
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.push(1).unwrap());
        queue.push(2).unwrap();
        other.join().unwrap();
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.drain().sum::<i32>(), 3);
    });
}

/// A consumer beside a producer: order, and nothing twice.
#[test]
fn queue_push_pop() {
    model(|| {
        let queue = Arc::new(Queue::new());
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || {
            theirs.push(1).unwrap();
            theirs.push(2).unwrap();
        });
        let mut seen = Vec::new();
        seen.extend(queue.pop());
        seen.extend(queue.pop());
        other.join().unwrap();
        seen.extend(queue.drain());
        assert_eq!(seen, [1, 2]);
    });
}

/// Two consumers share out the items, over the border of a segment.
#[test]
fn queue_pop_pop() {
    model(|| {
        let queue: Arc<Queue<_>> = Arc::new((0..3).collect());
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || (theirs.pop(), theirs.pop()));
        let mine = queue
            .pop()
            .expect("three items, at most two popped by the other");
        let (first, second) = other.join().unwrap();
        let mut all: Vec<i32> = [Some(mine), first, second].into_iter().flatten().collect();
        assert!(first < second);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    });
}

/// A push beside a close is refused, or is in what stands.
#[test]
fn queue_push_close() {
    model(|| {
        let queue = Arc::new(Queue::new());
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.push(1).is_ok());
        assert!(queue.close());
        let drained = queue.drain().count();
        let pushed = other.join().unwrap();
        assert_eq!(drained, usize::from(pushed), "after close nothing is added");
        assert!(!queue.close());
    });
}

/// A plain number: a data race on it fails the model.
struct Plain(UnsafeCell<u32>);

// SAFETY: the scenario below orders the two accesses by the close, which is what it checks.
unsafe impl Sync for Plain {}

/// Who sees the queue closed sees what the closer did before.
#[test]
fn queue_close_is_seen() {
    model(|| {
        let shared = Arc::new((Queue::<u8>::new(), Plain(UnsafeCell::new(0))));
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || {
            // SAFETY: the other thread reads the cell only after it saw the close below.
            theirs.1.0.with_mut(|cell| unsafe { *cell = 7 });
            theirs.0.close();
        });
        if shared.0.is_closed() {
            // SAFETY: the writer is done once the close is seen.
            assert_eq!(shared.1.0.with(|cell| unsafe { *cell }), 7);
        }
        other.join().unwrap();
    });
}
