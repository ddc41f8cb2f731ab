//! `spmc`, in small blocks.

use crate::Drops;
use crate::history::{Clock, Event, Fewer, Log, assert_sound};
use rast_queue::primitive::model::{draw, model};
use rast_queue::primitive::{Parker, Random, thread};
use rast_queue::spmc;

/// One consumer's part of a program: it may leave and enter again on the way.
fn consume(mut consumer: spmc::Consumer<u64>, mut log: Log, mut choices: Random) -> Vec<Event> {
    for _ in 0..8 {
        let max = 1 + choices.below(4);
        match choices.below(8) {
            0 => {
                log.pop_batch(max, Fewer::SayEmptyIfNone, |each| {
                    consumer.pop_batch(max, each);
                });
            }
            1 => {
                log.pop_batch(max, Fewer::SayEmptyIfNone, |each| {
                    let mut out = Vec::new();
                    consumer.pop_into(&mut out, max);
                    out.into_iter().for_each(each);
                });
            }
            2 => {
                let mut out = [0; 4];
                log.pop_batch(max, Fewer::SayEmpty, |each| {
                    let count = consumer.pop_slice(&mut out[..max]);
                    out[..count].iter().copied().for_each(each);
                });
            }
            3 => consumer = consumer.clone(),
            _ => {
                log.pop(|| consumer.pop());
            }
        }
    }
    log.into_events()
}

/// Single pushes and batches, published at once or later; two or three consumers; blocks of one to
/// three slots.
#[test]
fn spmc_programs() {
    model(|| {
        let seed = draw();
        let mut random = Random::new(seed);
        let (mut producer, mut last) = spmc::with_block_slots(1 + random.below(3));
        let clock = Clock::default();
        let threads: Vec<_> = (0..2 + random.below(2))
            .map(|number| {
                let (consumer, log) = (last.clone(), clock.log(number));
                let choices = Random::new(random.draw());
                thread::spawn(move || consume(consumer, log, choices))
            })
            .collect();
        let mut log = clock.log(threads.len());
        let mut next = 1;
        for _ in 0..8 {
            let values: Vec<u64> = (next..=next + random.draw() % 4).collect();
            next += values.len() as u64;
            log.push_batch(&values, || {
                match values.len() {
                    1 => producer.push(values[0]),
                    2 => producer.push_slice(&values),
                    3 => drop(producer.push_batch(values.iter().copied())),
                    _ => {
                        values
                            .iter()
                            .for_each(|value| producer.push_pending(*value));
                        producer.publish();
                    }
                }
                values.len()
            });
        }
        drop(producer);
        let mut history: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        while log.pop(|| last.pop()).is_some() {}
        assert!(last.is_finished());
        history.push(log.into_events());
        assert_sound(&format!("program {seed}"), &history);
    });
}

/// Consumers that sleep when they find nothing: those publications alone that say so wake one, who
/// wakes the next while there is more. A wake-up that is missing is a deadlock.
#[test]
fn spmc_wakes_a_consumer() {
    const ITEMS: usize = 12;
    model(|| {
        let (mut producer, mut consumer) = spmc::with_block_slots(2);
        let parker = Parker::new();
        let waker = parker.unparker();
        let pushing = thread::spawn(move || {
            for n in 0..ITEMS {
                producer.push_pending(n);
                if n % 3 == 2 && producer.publish() {
                    waker.unpark();
                }
            }
        });
        let mut next = 0;
        while next < ITEMS {
            match consumer.pop() {
                Some(n) => {
                    assert_eq!(n, next);
                    next += 1;
                }
                None => parker.park(),
            }
        }
        pushing.join().unwrap();
    });
}

/// Whichever half leaves first, each item is dropped once.
#[test]
fn spmc_drops_each_item_once() {
    const ITEMS: usize = 14;
    model(|| {
        let drops = Drops::default();
        let (mut producer, consumer) = spmc::with_block_slots(3);
        let consumers = [consumer.clone(), consumer].map(|mut consumer| {
            let pops = draw() % 10;
            thread::spawn(move || {
                for _ in 0..pops {
                    drop(consumer.pop());
                }
            })
        });
        for n in 0..ITEMS {
            producer.push_pending(drops.item());
            if n % 3 == 0 {
                producer.publish();
            }
        }
        drop(producer);
        for consumer in consumers {
            consumer.join().unwrap();
        }
        drops.assert(ITEMS);
    });
}
