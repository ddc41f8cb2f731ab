//! The bounded ring.

use rast_queue::primitive::model::model;
use rast_queue::primitive::thread;
use rast_queue::spsc;
use std::sync::atomic::{AtomicUsize as StdUsize, Ordering};

/// Just below the wrap of the indices.
const NEAR_WRAP: usize = usize::MAX;

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
            let _ = producer.push_batch(&mut numbers);
            let _ = producer.push_batch(&mut numbers);
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

/// A payload whose drops are counted; it holds no memory, so a second drop is a wrong count and no
/// more.
///
/// Each test has its own count, because tests run side by side.
struct Token(&'static StdUsize);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whichever half leaves second, each item is dropped once.
#[test]
fn spsc_drop_with_items() {
    static DROPS: StdUsize = StdUsize::new(0);
    model(|| {
        DROPS.store(0, Ordering::Relaxed);
        let (mut producer, mut consumer) = spsc::ring(2);
        producer.push(Token(&DROPS)).ok().unwrap();
        let other = thread::spawn(move || {
            let pushed = producer.push(Token(&DROPS)).is_ok();
            drop(producer);
            pushed
        });
        drop(consumer.pop());
        drop(consumer);
        assert!(other.join().unwrap());
        assert_eq!(DROPS.load(Ordering::Relaxed), 2);
    });
}

/// Chunks on both sides, in two stretches and in parts, lose nothing and keep the order.
#[test]
fn spsc_chunks() {
    model(|| {
        let (mut producer, mut consumer) = spsc::ring_at(2, NEAR_WRAP);
        let other = thread::spawn(move || {
            let mut numbers = 0..3;
            producer.write_chunk(2).fill(&mut numbers);
            let mut chunk = producer.write_chunk(1).filled();
            let (slots, _) = chunk.as_mut_slices();
            if let Some(slot) = slots.first_mut() {
                *slot = numbers.start;
                numbers.start += 1;
            }
            chunk.commit_all();
            numbers.start
        });
        let mut expected = 0;
        let chunk = consumer.read_chunk(2);
        if let Some(n) = chunk.as_slices().0.first() {
            assert_eq!(*n, expected);
            expected += 1;
            chunk.commit(1);
        }
        for n in consumer.read_chunk(2) {
            assert_eq!(n, expected);
            expected += 1;
        }
        let pushed = other.join().unwrap();
        consumer.read_chunk(2).into_iter().for_each(|n| {
            assert_eq!(n, expected);
            expected += 1;
        });
        assert_eq!(expected, pushed);
    });
}

/// What a forgotten iterator held is dropped by nothing else, whichever half leaves second.
#[test]
fn spsc_forgotten_iterator() {
    static DROPS: StdUsize = StdUsize::new(0);
    model(|| {
        DROPS.store(0, Ordering::Relaxed);
        let (mut producer, mut consumer) = spsc::ring(2);
        producer.write_chunk(2).fill([Token(&DROPS), Token(&DROPS)]);
        let other = thread::spawn(move || drop(producer));
        let mut items = consumer.read_chunk(2).into_iter();
        drop(items.next());
        std::mem::forget(items);
        drop(consumer);
        other.join().unwrap();
        assert_eq!(DROPS.load(Ordering::Relaxed), 1);
    });
}

/// What is staged is seen written once it is published, and a slot taken is written again once it
/// is released.
#[test]
fn spsc_stage_and_take() {
    model(|| {
        let (mut producer, mut consumer) = spsc::ring_at(2, NEAR_WRAP);
        let other = thread::spawn(move || {
            producer.stage(1).unwrap();
            producer.stage(2).unwrap();
            producer.publish();
            while producer.stage(3).is_err() {
                thread::yield_now();
            }
        });
        let mut expected = 1;
        while expected < 3 {
            match consumer.take() {
                Some(n) => {
                    assert_eq!(n, expected);
                    expected += 1;
                }
                None => thread::yield_now(),
            }
        }
        consumer.release();
        other.join().unwrap();
        // The half that ended published what it had staged.
        assert_eq!(consumer.take(), Some(3));
        assert_eq!(consumer.take(), None);
    });
}
