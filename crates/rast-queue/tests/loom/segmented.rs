//! The segmented queue between one producer and one consumer.

use rast_queue::primitive::model::model;
use rast_queue::primitive::thread;
use rast_queue::spsc::segmented;
use std::sync::atomic::{AtomicUsize as StdUsize, Ordering};

/// Just below the wrap of the counts.
const NEAR_WRAP: usize = usize::MAX;

/// What is popped was pushed, in order, over segments that are linked meanwhile.
#[test]
fn segmented_push_pop() {
    model(|| {
        let (mut producer, mut consumer) = segmented::queue_at(1, NEAR_WRAP);
        let other = thread::spawn(move || {
            for n in 1..=2 {
                producer.push(n).ok();
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

/// A segment is written again only once the items in it were moved out.
#[test]
fn segmented_recycles() {
    model(|| {
        let (mut producer, mut consumer) = segmented::queue_at(1, NEAR_WRAP);
        producer.push(0).unwrap();
        producer.push(1).unwrap();
        let other = thread::spawn(move || {
            producer.push(2).unwrap();
            producer.push(3).unwrap();
            producer
        });
        for n in 0..2 {
            assert_eq!(consumer.pop(), Some(n));
        }
        drop(other.join().unwrap());
        for n in 2..4 {
            assert_eq!(consumer.pop(), Some(n));
        }
        assert!(consumer.is_finished());
    });
}

/// Batches on both sides, over segments, lose nothing and keep the order.
#[test]
fn segmented_batch() {
    model(|| {
        let (mut producer, mut consumer) = segmented::queue_at(2, NEAR_WRAP);
        producer.push(0).unwrap();
        let other = thread::spawn(move || {
            assert_eq!(producer.push_batch(&mut (1..4)), 3);
        });
        let mut expected = 0;
        let mut check = |n| {
            assert_eq!(n, expected);
            expected += 1;
        };
        consumer.pop_batch(3, &mut check);
        consumer.pop_batch(3, &mut check);
        other.join().unwrap();
        consumer.pop_batch(4, &mut check);
        assert_eq!(expected, 4);
    });
}

/// What one half counts holds: at least so many for the consumer, at most so many for the producer.
#[test]
fn segmented_len_holds() {
    model(|| {
        let (mut producer, mut consumer) = segmented::queue_at(2, NEAR_WRAP);
        producer.push(0).unwrap();
        let other = thread::spawn(move || {
            assert!(producer.len() <= 1);
            producer.push(1).unwrap();
            assert!(producer.len() <= 2);
            producer
        });
        for _ in 0..consumer.len() {
            consumer.pop().unwrap();
        }
        let producer = other.join().unwrap();
        assert_eq!(producer.len(), consumer.len());
    });
}

/// A consumer that sees the producer gone finds all that was pushed.
#[test]
fn segmented_close_producer() {
    model(|| {
        let (mut producer, mut consumer) = segmented::queue_at(1, NEAR_WRAP);
        // The checker runs this thread first, and so meets the consumer's look at every point of
        // it.
        let other = thread::spawn(move || {
            if consumer.is_closed() {
                assert_eq!(consumer.pop(), Some(1));
                assert_eq!(consumer.pop(), Some(2));
                assert!(consumer.is_finished());
            }
            consumer
        });
        producer.push(1).unwrap();
        producer.push(2).unwrap();
        drop(producer);
        drop(other.join().unwrap());
    });
}

/// A payload whose drops are counted; it holds no memory, so a second drop is a wrong count and no
/// more.
struct Token(&'static StdUsize);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whichever half leaves second, each item is dropped once, in every segment; a refused one is
/// handed back.
#[test]
fn segmented_drop_with_items() {
    static DROPS: StdUsize = StdUsize::new(0);
    model(|| {
        DROPS.store(0, Ordering::Relaxed);
        let (mut producer, mut consumer) = segmented::queue_at(1, NEAR_WRAP);
        producer.push(Token(&DROPS)).ok().unwrap();
        producer.push(Token(&DROPS)).ok().unwrap();
        let other = thread::spawn(move || {
            drop(producer.push(Token(&DROPS)));
            drop(producer);
        });
        drop(consumer.pop());
        drop(consumer);
        other.join().unwrap();
        assert_eq!(DROPS.load(Ordering::Relaxed), 3);
    });
}
