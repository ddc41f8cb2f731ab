//! `Queue`.

use crate::Drops;
use crate::history::program::{Program, Size};
use crate::history::{Clock, assert_sound};
use rast_queue::Queue;
use rast_queue::primitive::model::{draw, model};
use rast_queue::primitive::sync::Arc;
use rast_queue::primitive::{WaitStrategy, thread};

fn programs(segment_slots: usize, size: Size) {
    model(move || {
        let seed = draw();
        let queue = Queue::with_segment_slots(segment_slots);
        let history = Program::random(seed, size).run(queue);
        assert_sound(&format!("program {seed}"), &history);
    });
}

/// Three threads, each operation as likely as any other; a segment is used up at once.
#[test]
fn queue_short_programs() {
    programs(
        2,
        Size {
            threads: 3,
            steps: 6,
            batch: 3,
            closes: true,
        },
    );
}

/// Four threads, in each other's way for longer, over many segments.
#[test]
fn queue_long_programs() {
    programs(
        2,
        Size {
            threads: 4,
            steps: 14,
            batch: 5,
            closes: true,
        },
    );
}

/// Batches of about a segment.
#[test]
fn queue_batches() {
    programs(
        8,
        Size {
            threads: 3,
            steps: 8,
            batch: 12,
            closes: true,
        },
    );
}

/// Consumers that wait for items and for the close: all items come, and the waiting ends; else it
/// is a deadlock.
#[test]
fn queue_waiters_are_woken() {
    const EACH: u64 = 5;
    model(|| {
        let queue = Arc::new(Queue::with_segment_slots(2));
        let clock = Clock::default();
        let consumers = [0, 1].map(|number| {
            let (queue, mut log) = (Arc::clone(&queue), clock.log(number));
            thread::spawn(move || {
                while log
                    .pop_wait(|| queue.pop_wait(WaitStrategy::Park))
                    .is_some()
                {}
                log.into_events()
            })
        });
        let producers = [2, 3].map(|number| {
            let (queue, mut log) = (Arc::clone(&queue), clock.log(number));
            thread::spawn(move || {
                for n in 0..EACH {
                    let value = (number as u64) << 32 | n;
                    log.push(value, || queue.push(value).is_ok());
                }
                log.into_events()
            })
        });
        let producers = producers.map(|thread| thread.join().unwrap());
        let mut mine = clock.log(4);
        mine.close(|| queue.close());
        let consumers = consumers.map(|thread| thread.join().unwrap());
        let mut history: Vec<_> = consumers.into_iter().chain(producers).collect();
        history.push(mine.into_events());
        assert_sound("waiters", &history);
    });
}

/// The thread that lets go of the queue last, each item is dropped once: popped, left over, or
/// refused.
#[test]
fn queue_drops_each_item_once() {
    const EACH: usize = 20;
    model(|| {
        let drops = Drops::default();
        let queue = Arc::new(Queue::with_segment_slots(2));
        let producers = [(); 2].map(|()| {
            let (queue, drops) = (Arc::clone(&queue), drops.clone());
            thread::spawn(move || {
                for _ in 0..EACH {
                    drop(queue.push(drops.item()));
                }
            })
        });
        let theirs = Arc::clone(&queue);
        let consumer = thread::spawn(move || {
            for _ in 0..EACH {
                drop(theirs.pop());
            }
            theirs.close();
        });
        drop(queue);
        for producer in producers {
            producer.join().unwrap();
        }
        consumer.join().unwrap();
        drops.assert(2 * EACH);
    });
}
