//! `ListQueue`.

use crate::Drops;
use crate::history::assert_sound;
use crate::history::program::{Program, Size};
use rast_queue::list::ListQueue;
use rast_queue::primitive::model::{draw, model};
use rast_queue::primitive::sync::Arc;
use rast_queue::primitive::thread;

fn programs(size: Size) {
    model(move || {
        let seed = draw();
        let history = Program::random(seed, size).run(ListQueue::new());
        assert_sound(&format!("program {seed}"), &history);
    });
}

/// Three threads, each operation as likely as any other.
#[test]
fn list_short_programs() {
    programs(Size {
        threads: 3,
        steps: 6,
        batch: 3,
        closes: true,
    });
}

/// Four threads, in each other's way for longer.
#[test]
fn list_long_programs() {
    programs(Size {
        threads: 4,
        steps: 14,
        batch: 4,
        closes: true,
    });
}

/// The thread that lets go of the queue last, each item is dropped once: popped, left over, or
/// refused.
#[test]
fn list_drops_each_item_once() {
    const EACH: usize = 8;
    model(|| {
        let drops = Drops::default();
        let queue = Arc::new(ListQueue::new());
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
