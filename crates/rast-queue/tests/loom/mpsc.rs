//! The stack of many producers and one consumer, in both types.
//!
//! The consumer runs in a thread of its own and the main thread pushes. loom remembers one access
//! per object, so the load before a producer's compare-exchange would hide the loads of a consumer
//! that ran before it.

use rast_queue::mpsc::intrusive::{PushError, Queue};
use rast_queue::mpsc::{self, Link};
use rast_queue::primitive::cell::UnsafeCell;
use rast_queue::primitive::model::model;
use rast_queue::primitive::sync::Arc;
use rast_queue::primitive::sync::atomic::AtomicU32;
use rast_queue::primitive::thread;
use std::sync::atomic::{AtomicUsize as StdUsize, Ordering};

/// Two producers lose nothing to each other, and exactly one of them found the queue empty.
#[test]
fn mpsc_push_push() {
    model(|| {
        let (mut producer, mut consumer) = mpsc::queue();
        let mut theirs = producer.clone();
        let other = thread::spawn(move || theirs.push(1).unwrap());
        let mine = producer.push(2).unwrap();
        assert!(mine ^ other.join().unwrap(), "one push found it empty");
        assert_eq!(consumer.take_all().sum::<i32>(), 3);
    });
}

/// A consumer beside a producer, over the border of a block, which comes back: order, and every
/// item seen written.
#[test]
fn mpsc_push_pop() {
    model(|| {
        let (mut producer, mut consumer) = mpsc::queue();
        let other = thread::spawn(move || {
            let mut seen = Vec::new();
            for _ in 0..2 {
                seen.extend(consumer.pop());
            }
            (consumer, seen)
        });
        for n in 1..=3 {
            producer.push(n).unwrap();
        }
        let (mut consumer, mut seen) = other.join().unwrap();
        seen.extend(consumer.take_all());
        assert_eq!(seen, [1, 2, 3]);
    });
}

/// Two producers and the consumer at once: the order of each producer.
#[test]
fn mpsc_push_push_pop() {
    model(|| {
        let (mut producer, mut consumer) = mpsc::queue();
        let mut second = producer.clone();
        let consumes = thread::spawn(move || {
            let mut seen: Vec<i32> = Vec::new();
            seen.extend(consumer.pop());
            seen.extend(consumer.take_all());
            (consumer, seen)
        });
        let pushes = thread::spawn(move || second.push(10).unwrap());
        producer.push(1).unwrap();
        producer.push(2).unwrap();
        pushes.join().unwrap();
        let (mut consumer, mut seen) = consumes.join().unwrap();
        seen.extend(consumer.take_all());
        assert_eq!(seen.len(), 3);
        let ours: Vec<_> = seen.iter().filter(|&&n| n < 10).collect();
        assert_eq!(ours, [&1, &2]);
    });
}

/// A chain is queued whole or not at all, and in its order.
#[test]
fn mpsc_push_batch() {
    model(|| {
        let (mut producer, mut consumer) = mpsc::queue();
        let mut second = producer.clone();
        let consumes = thread::spawn(move || {
            let seen: Vec<i32> = consumer.take_all().collect();
            (consumer, seen)
        });
        let pushes = thread::spawn(move || second.push(10).unwrap());
        producer.push_batch(1..=3).unwrap();
        pushes.join().unwrap();
        let (mut consumer, mut seen) = consumes.join().unwrap();
        let chained = seen.iter().filter(|&&n| n < 10).count();
        assert!(chained == 0 || chained == 3, "a part of a chain");
        seen.extend(consumer.take_all());
        let chained: Vec<_> = seen.into_iter().filter(|&n| n < 10).collect();
        assert_eq!(chained, [1, 2, 3]);
    });
}

/// Who found the queue empty wakes a consumer that sleeps once it found it empty; that is enough.
#[test]
fn mpsc_was_empty_wakes() {
    model(|| {
        let (mut producer, mut consumer) = mpsc::queue();
        let parker = rast_queue::primitive::Parker::new();
        let waker = parker.unparker();
        let other = thread::spawn(move || {
            let mut seen = Vec::new();
            while seen.len() < 2 {
                match consumer.pop() {
                    Some(n) => seen.push(n),
                    None => parker.park(),
                }
            }
            assert_eq!(seen, [0, 1]);
        });
        for n in 0..2 {
            if producer.push(n).unwrap() {
                waker.unpark();
            }
        }
        other.join().unwrap();
    });
}

/// A push beside a close is refused with its item, or is in what is queued.
#[test]
fn mpsc_push_close() {
    model(|| {
        let (mut producer, mut consumer) = mpsc::queue();
        let mut second = producer.clone();
        let other = thread::spawn(move || {
            assert!(consumer.close());
            let taken = consumer.take_all().count();
            assert_eq!(second.push(2).unwrap_err().into_inner(), 2);
            assert!(!consumer.close());
            assert!(consumer.is_finished());
            taken
        });
        let pushed = match producer.push(1) {
            Ok(_) => 1,
            Err(refused) => {
                assert_eq!(refused.into_inner(), 1);
                0
            }
        };
        assert_eq!(
            other.join().unwrap(),
            pushed,
            "after close nothing is added"
        );
    });
}

/// A chain beside a close is refused whole, with all of its items, or queued whole.
#[test]
fn mpsc_push_batch_close() {
    model(|| {
        let (mut producer, mut consumer) = mpsc::queue();
        let other = thread::spawn(move || {
            consumer.close();
            consumer.take_all().count()
        });
        let pushed = match producer.push_batch(1..=3) {
            Ok(_) => 3,
            Err(refused) => {
                assert_eq!(refused.into_inner(), [1, 2, 3]);
                0
            }
        };
        assert_eq!(other.join().unwrap(), pushed);
    });
}

/// A plain number: a data race on it fails the model.
struct Plain(UnsafeCell<u32>);

// SAFETY: the scenario below orders the two accesses by the close, which is what it checks.
unsafe impl Sync for Plain {}
// SAFETY: likewise.
unsafe impl Send for Plain {}

/// Who sees the queue closed sees what the closer did before.
#[test]
fn mpsc_close_is_seen() {
    model(|| {
        let (producer, mut consumer) = mpsc::queue::<u8>();
        let plain = Arc::new(Plain(UnsafeCell::new(0)));
        let theirs = Arc::clone(&plain);
        let other = thread::spawn(move || {
            // SAFETY: the other thread reads the cell only after it saw the close below.
            theirs.0.with_mut(|cell| unsafe { *cell = 7 });
            consumer.close();
            consumer
        });
        if producer.is_closed() {
            // SAFETY: the writer is done once the close is seen.
            assert_eq!(plain.0.with(|cell| unsafe { *cell }), 7);
        }
        drop(other.join().unwrap());
    });
}

/// A consumer that sees the producers gone finds all that they pushed.
#[test]
fn mpsc_finished() {
    model(|| {
        let (mut producer, mut consumer) = mpsc::queue();
        let other = thread::spawn(move || {
            assert!(
                !consumer.is_finished(),
                "an item is queued until it is popped"
            );
            let first = consumer.pop();
            if consumer.is_finished() {
                assert_eq!(first, Some(1));
            }
            (consumer, first)
        });
        producer.push(1).unwrap();
        drop(producer);
        let (mut consumer, first) = other.join().unwrap();
        assert_eq!(first.or_else(|| consumer.pop()), Some(1));
        assert!(consumer.is_finished());
    });
}

/// A block that one producer leaves half used goes on with the next, beside a consumer that empties
/// it.
#[test]
fn mpsc_block_changes_hands() {
    model(|| {
        let (mut producer, mut consumer) = mpsc::queue();
        let mut second = producer.clone();
        let consumes = thread::spawn(move || {
            let seen: Vec<i32> = consumer.take_all().collect();
            (consumer, seen)
        });
        let leaves = thread::spawn(move || {
            second.push(10).unwrap();
            drop(second);
        });
        for n in 1..=3 {
            producer.push(n).unwrap();
        }
        leaves.join().unwrap();
        let (mut consumer, mut seen) = consumes.join().unwrap();
        seen.extend(consumer.take_all());
        assert_eq!(seen.iter().sum::<i32>(), 1 + 2 + 3 + 10);
    });
}

/// A block that the consumer emptied is used again by a producer.
#[test]
fn mpsc_block_recycled() {
    model(|| {
        let (mut producer, mut consumer) = mpsc::queue();
        producer.push_batch([1, 2]).unwrap();
        let other = thread::spawn(move || {
            let taken: Vec<i32> = consumer.take_all().collect();
            (consumer, taken)
        });
        producer.push_batch([3, 4, 5]).unwrap();
        let (mut consumer, mut seen) = other.join().unwrap();
        seen.extend(consumer.take_all());
        assert_eq!(seen, [1, 2, 3, 4, 5]);
    });
}

/// Blocks that a producer leaves go on with others, one of which takes all and gives the rest back.
#[test]
fn mpsc_spares() {
    model(|| {
        let (producer, mut consumer) = mpsc::queue();
        let mut second = producer.clone();
        let mut leaving = [producer.clone(), producer.clone()];
        let leaves = thread::spawn(move || {
            for producer in &mut leaving {
                producer.push(1).unwrap();
            }
        });
        let other = thread::spawn(move || second.push(10).unwrap());
        let mut first = producer;
        first.push(20).unwrap();
        leaves.join().unwrap();
        other.join().unwrap();
        assert_eq!(consumer.take_all().sum::<i32>(), 32);
    });
}

/// A payload whose drops are counted; it holds no memory, so a second drop is a wrong count and no
/// more.
struct Token;

static DROPS: StdUsize = StdUsize::new(0);

impl Drop for Token {
    fn drop(&mut self) {
        DROPS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whichever half leaves last, each item is dropped once, and the memory is freed.
#[test]
fn mpsc_drop_with_items() {
    model(|| {
        DROPS.store(0, Ordering::Relaxed);
        let (mut producer, consumer) = mpsc::queue();
        producer.push(Token).unwrap();
        let mut second = producer.clone();
        let other = thread::spawn(move || {
            drop(producer.push(Token));
            drop(producer);
        });
        drop(consumer);
        drop(second.push(Token));
        drop(second);
        other.join().unwrap();
        assert_eq!(DROPS.load(Ordering::Relaxed), 3);
    });
}

#[derive(Debug)]
struct Task {
    link: Link,
    value: u32,
}

rast_queue::impl_node!(Task { link });

fn task(value: u32) -> Box<Task> {
    let link = Link::new();
    Box::new(Task { link, value })
}

/// Nodes of one's own: order, and each seen written.
#[test]
fn mpsc_intrusive_push_pop() {
    model(|| {
        let queue = Arc::new(Queue::<Box<Task>>::new());
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || {
            let mut seen = Vec::new();
            let mut consumer = theirs.consumer().unwrap();
            seen.extend(consumer.pop().map(|task| task.value));
            seen.extend(consumer.take_all().map(|task| task.value));
            seen
        });
        queue.push(task(1)).unwrap();
        queue.push_batch([task(2), task(3)]).unwrap();
        let mut seen = other.join().unwrap();
        let mut consumer = queue.consumer().unwrap();
        seen.extend(consumer.take_all().map(|task| task.value));
        assert_eq!(seen, [1, 2, 3]);
    });
}

/// The right to consume goes from thread to thread, and what was taken goes with it, in order.
#[test]
fn mpsc_intrusive_consumer_changes() {
    model(|| {
        let queue = Arc::new(Queue::new());
        queue.push_batch((1..=3).map(task)).unwrap();
        let theirs = Arc::clone(&queue);
        let pop = |queue: &Queue<Box<Task>>| {
            let task = queue.consumer()?.pop();
            task.map(|task| task.value)
        };
        let other = thread::spawn(move || pop(&theirs));
        let mine = pop(&queue);
        let theirs = other.join().unwrap();
        assert!(mine.is_some() || theirs.is_some(), "one of two gets in");
        let mut seen: Vec<_> = mine.into_iter().chain(theirs).collect();
        seen.sort_unstable();
        seen.extend(std::iter::from_fn(|| pop(&queue)));
        assert_eq!(seen, [1, 2, 3]);
    });
}

/// A shared node is in one queue at a time, no matter which thread pushes it, and can be pushed
/// again once it was popped.
#[test]
fn mpsc_intrusive_shared_node() {
    model(|| {
        let queue = Arc::new(Queue::new());
        let node = Arc::new(Task {
            link: Link::new(),
            value: 1,
        });
        queue.push(Arc::clone(&node)).unwrap();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.consumer().unwrap().take_all().count());
        let again = match queue.push(node) {
            Ok(_) => 1,
            Err(PushError::Queued(_)) => 0,
            Err(PushError::Closed(_)) => unreachable!("open"),
        };
        let popped = other.join().unwrap();
        let rest = queue.consumer().unwrap().take_all().count();
        assert_eq!(popped + rest, 1 + again);
    });
}

/// A push that is refused since its node is queued comes before the pop of the node: who pops it
/// sees why it was pushed.
#[test]
fn mpsc_intrusive_refused_is_seen() {
    model(|| {
        let queue = Arc::new(Queue::new());
        let why = Arc::new(AtomicU32::new(0));
        let node = Arc::new(Task {
            link: Link::new(),
            value: 1,
        });
        queue.push(Arc::clone(&node)).unwrap();
        let (theirs, seen) = (Arc::clone(&queue), Arc::clone(&why));
        let other = thread::spawn(move || {
            // Kept to the end, since its drop has a fence.
            let mut consumer = theirs.consumer().unwrap();
            assert!(consumer.pop().is_some(), "it was pushed before");
            seen.load(Ordering::Relaxed)
        });
        why.store(1, Ordering::Relaxed);
        let refused = queue.push(node).is_err();
        let seen = other.join().unwrap();
        assert!(!refused || seen == 1, "the push is lost");
    });
}

/// Who finds the right to consume taken may go: who had it sees what was pushed, if he looks after
/// he gave it back.
#[test]
fn mpsc_intrusive_right_is_not_missed() {
    fn turn(queue: &Queue<Box<Task>>, value: u32) -> u32 {
        queue.push(task(value)).unwrap();
        let mut sum = 0;
        while !queue.is_empty() {
            let Some(mut consumer) = queue.consumer() else {
                break;
            };
            sum += consumer.take_all().map(|task| task.value).sum::<u32>();
        }
        sum
    }
    model(|| {
        let queue = Arc::new(Queue::new());
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || turn(&theirs, 1));
        let mine = turn(&queue, 2);
        assert_eq!(
            mine + other.join().unwrap(),
            3,
            "a node is queued, and no thread knows"
        );
    });
}

/// A push beside a close is refused with its node, or is in what is queued; the queue drops it
/// then.
#[test]
fn mpsc_intrusive_close() {
    model(|| {
        let queue = Arc::new(Queue::<Box<Task>>::new());
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || {
            let mut consumer = theirs.consumer().unwrap();
            consumer.close();
            consumer.take_all().map(|task| task.value).sum::<u32>()
        });
        let refused = match queue.push_batch([task(1), task(2)]) {
            Ok(_) => 0,
            Err(refused) => refused.into_inner().map(|task| task.value).sum::<u32>(),
        };
        assert_eq!(refused + other.join().unwrap(), 3);
        drop(queue);
    });
}
