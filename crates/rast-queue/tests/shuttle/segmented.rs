//! The unbounded queue between two threads, in small segments.

use crate::Drops;
use crate::history::{Clock, Fewer, assert_sound};
use rast_queue::primitive::model::{draw, model};
use rast_queue::primitive::{Random, thread};
use rast_queue::spsc::segmented;

/// Single operations and batches on both sides, over the borders of segments and the wrap of the
/// counts.
#[test]
fn segmented_programs() {
    model(|| {
        let seed = draw();
        let mut random = Random::new(seed);
        let slots = 1 + random.below(3);
        let start = usize::MAX - random.below(8);
        let (mut producer, mut consumer) = segmented::queue_at(slots, start);
        let clock = Clock::default();
        let mut theirs = clock.log(0);
        let mut choices = Random::new(random.draw());
        let pushing = thread::spawn(move || {
            let mut next = 0;
            for _ in 0..12 {
                let values: Vec<u64> = (next..=next + choices.draw() % 5).collect();
                next += values.len() as u64;
                theirs.push_batch(&values, || match values.len() {
                    1 => usize::from(producer.push(values[0]).is_ok()),
                    2 | 3 => producer.push_slice(&values),
                    _ => producer.push_batch(&mut values.iter().copied()),
                });
            }
            (theirs.into_events(), producer)
        });
        let mut mine = clock.log(1);
        for _ in 0..12 {
            let max = 1 + random.below(5);
            match random.below(4) {
                0 => {
                    mine.pop_batch(max, Fewer::SayEmpty, |each| {
                        consumer.pop_batch(max, each);
                    });
                }
                1 => {
                    mine.pop_batch(max, Fewer::SayEmpty, |each| {
                        let mut out = Vec::new();
                        consumer.pop_into(&mut out, max);
                        out.into_iter().for_each(each);
                    });
                }
                _ => {
                    mine.pop(|| consumer.pop());
                }
            }
        }
        let (theirs, producer) = pushing.join().unwrap();
        drop(producer);
        while mine.pop(|| consumer.pop()).is_some() {}
        assert!(consumer.is_finished());
        assert_sound(
            &format!("program {seed}"),
            &vec![theirs, mine.into_events()],
        );
    });
}

/// A consumer that waits until the producer is gone gets all.
#[test]
fn segmented_end_comes_last() {
    const ITEMS: u64 = 12;
    model(|| {
        let (mut producer, mut consumer) = segmented::queue_at(2, 0);
        let pushing = thread::spawn(move || {
            for n in 0..ITEMS {
                producer.push(n).unwrap();
            }
        });
        let mut next = 0;
        while !consumer.is_finished() {
            match consumer.pop() {
                Some(n) => {
                    assert_eq!(n, next);
                    next += 1;
                }
                None => thread::yield_now(),
            }
        }
        assert_eq!(next, ITEMS);
        pushing.join().unwrap();
    });
}

/// Whichever half leaves first, each item is dropped once: popped, left over, or refused.
#[test]
fn segmented_drops_each_item_once() {
    model(|| {
        let drops = Drops::default();
        let (mut producer, mut consumer) = segmented::queue_at(3, 0);
        let (pushes, pops) = (draw() % 12, draw() % 12);
        let theirs = drops.clone();
        let pushing = thread::spawn(move || {
            for _ in 0..pushes {
                drop(producer.push(theirs.item()));
            }
        });
        for _ in 0..pops {
            drop(consumer.pop());
        }
        drop(consumer);
        pushing.join().unwrap();
        drops.assert(pushes as usize);
    });
}
