//! Both types of `mpsc`.

use crate::Drops;
use crate::history::{Clock, Event, Fewer, assert_sound};
use rast_queue::mpsc::{self, Link, intrusive};
use rast_queue::primitive::model::{draw, model};
use rast_queue::primitive::sync::Arc;
use rast_queue::primitive::{Parker, Random, thread};

/// Single pushes and many on two or three producers, one of which is cloned on the way and one of
/// which may find the queue closed; pops and takes of all on the consumer.
#[test]
fn mpsc_programs() {
    model(|| {
        let seed = draw();
        let mut random = Random::new(seed);
        let (producer, mut consumer) = mpsc::queue();
        let clock = Clock::default();
        let threads: Vec<_> = (0..2 + random.draw() % 2)
            .map(|number| {
                let (mut producer, mut log) = (producer.clone(), clock.log(number as usize));
                let mut choices = Random::new(random.draw());
                thread::spawn(move || -> Vec<Event> {
                    let mut next = (number + 1) << 32;
                    for _ in 0..8 {
                        match choices.below(4) {
                            0 => {
                                let values = [next, next + 1, next + 2];
                                next += 3;
                                log.push_batch(&values, || {
                                    let pushed = producer.push_batch(values);
                                    if pushed.is_ok() { values.len() } else { 0 }
                                });
                            }
                            1 => {
                                log.is_closed(|| producer.is_closed());
                                producer = producer.clone();
                            }
                            _ => {
                                log.push(next, || producer.push(next).is_ok());
                                next += 1;
                            }
                        }
                    }
                    log.into_events()
                })
            })
            .collect();
        drop(producer);
        let mut log = clock.log(threads.len());
        for _ in 0..10 {
            match random.below(12) {
                0..3 => {
                    log.pop_batch(usize::MAX, Fewer::SayEmpty, |each| {
                        consumer.take_all().for_each(each)
                    });
                }
                3 => {
                    log.close(|| consumer.close());
                }
                _ => {
                    log.pop(|| consumer.pop());
                }
            }
        }
        let mut history: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        while log.pop(|| consumer.pop()).is_some() {}
        assert!(consumer.is_finished());
        history.push(log.into_events());
        assert_sound(&format!("program {seed}"), &history);
    });
}

/// A consumer that sleeps whenever it finds nothing, woken by those pushes alone that say so, gets
/// all; a wake-up that is missing is a deadlock.
#[test]
fn mpsc_wakes_its_consumer() {
    const EACH: usize = 8;
    model(|| {
        let (producer, mut consumer) = mpsc::queue();
        let parker = Parker::new();
        let producers = [0, 1, 2].map(|number| {
            let (mut producer, waker) = (producer.clone(), parker.unparker());
            thread::spawn(move || {
                for n in 0..EACH {
                    if producer.push((number, n)).unwrap() {
                        waker.unpark();
                    }
                }
            })
        });
        drop(producer);
        let mut next = [0; 3];
        while next.iter().sum::<usize>() < 3 * EACH {
            match consumer.pop() {
                Some((number, n)) => {
                    assert_eq!(n, next[number], "the order of one producer");
                    next[number] += 1;
                }
                None => parker.park(),
            }
        }
        for producer in producers {
            producer.join().unwrap();
        }
    });
}

struct Task {
    link: Link,
    number: u64,
}

rast_queue::impl_node!(Task { link });

/// The right to consume goes from thread to thread, and nothing is lost or turned round between.
#[test]
fn mpsc_intrusive_consumers_take_turns() {
    const EACH: u64 = 6;
    model(|| {
        let queue = Arc::new(intrusive::Queue::new());
        let clock = Clock::default();
        let threads: Vec<_> = (0..3_usize)
            .map(|thread| {
                let (queue, mut log) = (Arc::clone(&queue), clock.log(thread));
                thread::spawn(move || {
                    for n in 0..EACH {
                        let number = (thread as u64 + 1) << 32 | n;
                        let link = Link::new();
                        log.push(number, || {
                            queue.push(Box::new(Task { link, number })).is_ok()
                        });
                        let Some(mut consumer) = queue.consumer() else {
                            continue;
                        };
                        if n % 2 == 0 {
                            log.pop(|| consumer.pop().map(|task| task.number));
                        } else {
                            log.pop_batch(usize::MAX, Fewer::SayEmpty, |each| {
                                consumer.take_all().for_each(|task| each(task.number));
                            });
                        }
                    }
                    log.into_events()
                })
            })
            .collect();
        let mut history: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        let mut log = clock.log(3);
        let mut consumer = queue.consumer().expect("all others are gone");
        while log.pop(|| consumer.pop().map(|task| task.number)).is_some() {}
        history.push(log.into_events());
        assert_sound("turns", &history);
    });
}

/// Popped, refused, left in a batch or in the queue: each item is dropped once.
#[test]
fn mpsc_drops_each_item_once() {
    const EACH: usize = 9;
    model(|| {
        let drops = Drops::default();
        let (producer, mut consumer) = mpsc::queue();
        let producers = [producer.clone(), producer].map(|mut producer| {
            let drops = drops.clone();
            thread::spawn(move || {
                for _ in 0..EACH / 3 {
                    drop(producer.push(drops.item()));
                    drop(producer.push_batch([drops.item(), drops.item()]));
                }
            })
        });
        for n in 0..draw() % 8 {
            if n % 3 == 0 {
                drop(consumer.take_all().next());
            } else {
                drop(consumer.pop());
            }
        }
        drop(consumer);
        for producer in producers {
            producer.join().unwrap();
        }
        drops.assert(2 * EACH);
    });
}
