//! The bounded ring of many producers.
//!
//! The consumer runs in a thread of its own, as in `mpsc.rs`.

use rast_queue::mpsc::bounded;
use rast_queue::primitive::model::model;
use rast_queue::primitive::thread;

/// Just below the wrap of the indices.
const NEAR_WRAP: usize = usize::MAX;

/// Takes until `count` items came, and checks the order of each tag.
fn take_all(mut consumer: bounded::Consumer<Box<u32>>, count: u32, releases: bool) {
    let mut next = [0; 2];
    let mut taken = 0;
    while taken < count {
        let Some((tag, item)) = consumer.take() else {
            thread::yield_now();
            continue;
        };
        assert_eq!(*item, next[tag as usize], "in the order of its producer");
        next[tag as usize] += 1;
        taken += 1;
        if releases {
            consumer.release();
        }
    }
    assert!(consumer.take().is_none());
}

/// Two producers lose nothing to each other; each item is seen written, and each producer's order
/// is kept.
#[test]
fn mpsc_bounded_push_take() {
    model(|| {
        let (producer, consumer) = bounded::queue_at(4, NEAR_WRAP);
        let second = producer.clone();
        let consumer = thread::spawn(move || take_all(consumer, 3, false));
        let other = thread::spawn(move || {
            second.push(1, Box::new(0)).unwrap();
        });
        let mut items = [Box::new(0), Box::new(1)].into_iter();
        assert_eq!(producer.push_batch(0, &mut items), 2);
        other.join().unwrap();
        consumer.join().unwrap();
    });
}

/// A slot is written again only once its item was moved out.
#[test]
fn mpsc_bounded_wrap() {
    model(|| {
        let (producer, consumer) = bounded::queue_at(1, NEAR_WRAP);
        producer.push(0, Box::new(0)).unwrap();
        let consumer = thread::spawn(move || take_all(consumer, 2, true));
        let mut item = Box::new(1);
        while let Err(full) = producer.push(0, item) {
            item = full.into_inner();
            thread::yield_now();
        }
        consumer.join().unwrap();
    });
}

/// A producer that goes by the limit which another one looked up has that one's sight of the
/// consumer.
#[test]
fn mpsc_bounded_limit_is_handed_on() {
    model(|| {
        let (producer, mut consumer) = bounded::queue::<Box<u32>>(2);
        producer.push(0, Box::new(0)).unwrap();
        producer.push(0, Box::new(1)).unwrap();
        let second = producer.clone();
        let consumer = thread::spawn(move || {
            drop((consumer.take(), consumer.take()));
            consumer.release();
            consumer
        });
        // It finds the ring full, and looks.
        let other = thread::spawn(move || second.push(1, Box::new(2)).is_ok());
        // It goes by what the other has found out, if that is in time.
        let here = producer.push(0, Box::new(2)).is_ok();
        let there = other.join().unwrap();
        let mut consumer = consumer.join().unwrap();
        let mut left = 0;
        while consumer.take().is_some() {
            left += 1;
        }
        assert_eq!(left, usize::from(here) + usize::from(there));
    });
}
