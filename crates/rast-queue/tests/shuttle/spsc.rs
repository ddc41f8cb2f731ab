//! The bounded ring.

use crate::Drops;
use crate::history::{Clock, Fewer, assert_sound};
use rast_queue::primitive::model::{draw, model};
use rast_queue::primitive::{Random, thread};
use rast_queue::spsc;

/// Single operations and batches on both sides, over the wrap of the indices; a history has no
/// place for a full ring, so a push without room leaves no trace.
#[test]
fn spsc_programs() {
    model(|| {
        let seed = draw();
        let mut random = Random::new(seed);
        let capacity = 1 + random.below(5);
        let start = usize::MAX - random.below(8);
        let (mut producer, mut consumer) = spsc::ring_at(capacity, start);
        let clock = Clock::default();
        let mut theirs = clock.log(0);
        let mut choices = random.clone();
        let pushing = thread::spawn(move || {
            let mut next = 0;
            for _ in 0..20 {
                match choices.below(3) {
                    0 => {
                        let mut items = next..next + 1 + choices.draw() % 4;
                        let values: Vec<u64> = items.clone().collect();
                        let fits = |taken: usize| &values[..taken];
                        let taken = theirs.offer_batch(|| fits(producer.push_batch(&mut items)));
                        next += taken as u64;
                    }
                    _ if theirs.offer(next, || producer.push(next).is_ok()) => next += 1,
                    _ => thread::yield_now(),
                }
            }
            (theirs.into_events(), producer, next)
        });
        let mut mine = clock.log(1);
        random.draw();
        for _ in 0..20 {
            if random.below(3) == 0 {
                let max = 1 + random.below(5);
                mine.pop_batch(max, Fewer::SayEmpty, |each| {
                    consumer.pop_batch(max, each);
                });
            } else {
                mine.pop(|| consumer.pop());
            }
        }
        let (theirs, producer, pushed) = pushing.join().unwrap();
        drop(producer);
        while mine.pop(|| consumer.pop()).is_some() {}
        assert!(consumer.is_finished());
        let mine = mine.into_events();
        assert!(theirs.len() as u64 == pushed);
        assert_sound(&format!("program {seed}"), &vec![theirs, mine]);
    });
}

/// A consumer that waits until the producer is gone gets all.
#[test]
fn spsc_end_comes_last() {
    model(|| {
        let (mut producer, mut consumer) = spsc::ring(2);
        let pushing = thread::spawn(move || {
            for n in 0..12_u64 {
                let mut item = Err(n);
                while let Err(n) = item {
                    item = producer.push(n).map_err(|full| {
                        thread::yield_now();
                        full.into_inner()
                    });
                }
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
        assert_eq!(next, 12);
        pushing.join().unwrap();
    });
}

/// Whichever half leaves first, each item is dropped once.
#[test]
fn spsc_drops_each_item_once() {
    model(|| {
        let drops = Drops::default();
        let (mut producer, mut consumer) = spsc::ring(4);
        let (pushes, pops) = (draw() % 10, draw() % 10);
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
