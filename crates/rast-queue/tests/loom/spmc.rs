//! The queue for many consumers, in blocks of one or two slots.

use rast_queue::primitive::model::model;
use rast_queue::primitive::thread;
use rast_queue::spmc::{self, Consumer};
use std::sync::atomic::{AtomicUsize as StdUsize, Ordering};
use std::vec::Vec;

/// Pops `times` times and returns what came.
fn pops(consumer: &mut Consumer<u32>, times: usize) -> Vec<u32> {
    (0..times).filter_map(|_| consumer.pop()).collect()
}

/// Asserts that `first` and `second` are in order each, and together 0, 1, .. `count`.
fn assert_all(first: &[u32], second: &[u32], count: u32) {
    assert!(first.is_sorted() && second.is_sorted(), "order");
    let mut all = [first, second].concat();
    all.sort_unstable();
    assert!(all.iter().copied().eq(0..count), "{first:?} {second:?}");
}

/// What is popped was pushed, in order; each slot is seen written, over the end of a block.
#[test]
fn spmc_push_pop() {
    model(|| {
        let (mut producer, mut consumer) = spmc::with_block_slots(1);
        let other = thread::spawn(move || {
            for n in 0..2 {
                producer.push(n);
            }
        });
        let mut seen = pops(&mut consumer, 3);
        other.join().unwrap();
        seen.extend(pops(&mut consumer, 3));
        assert_eq!(seen, [0, 1]);
    });
}

/// Two consumers share the items, each sees them in order, over the end of a block.
#[test]
fn spmc_pop_pop() {
    model(|| {
        let (mut producer, mut first) = spmc::with_block_slots(2);
        let mut second = first.clone();
        producer.push_batch(0..3);
        let other = thread::spawn(move || pops(&mut second, 2));
        let mut mine = pops(&mut first, 2);
        let theirs = other.join().unwrap();
        mine.extend(pops(&mut first, 2));
        assert_all(&mine, &theirs, 3);
    });
}

/// A producer and two consumers at once.
#[test]
fn spmc_push_pop_pop() {
    model(|| {
        let (mut producer, mut first) = spmc::with_block_slots(1);
        let mut second = first.clone();
        producer.push(0);
        let other = thread::spawn(move || pops(&mut second, 1));
        let pusher = thread::spawn(move || producer.push(1));
        let mut mine = pops(&mut first, 2);
        let theirs = other.join().unwrap();
        pusher.join().unwrap();
        mine.extend(pops(&mut first, 2));
        assert_all(&mine, &theirs, 2);
    });
}

/// Batches on both sides, over the end of a block, lose nothing and keep the order.
#[test]
fn spmc_batch() {
    model(|| {
        let (mut producer, mut first) = spmc::with_block_slots(2);
        let mut second = first.clone();
        producer.push(0);
        let other = thread::spawn(move || {
            let mut out = Vec::new();
            second.pop_into(&mut out, 2);
            out
        });
        producer.push_batch(1..3);
        let mut mine = [9; 2];
        let count = first.pop_slice(&mut mine);
        let mut mine = mine[..count].to_vec();
        let theirs = other.join().unwrap();
        first.pop_batch(3, |n| mine.push(n));
        assert_all(&mine, &theirs, 3);
    });
}

/// Of a pending batch over two blocks all is seen or nothing.
#[test]
fn spmc_publish_is_one_store() {
    model(|| {
        let (mut producer, consumer) = spmc::with_block_slots::<u32>(1);
        let other = thread::spawn(move || {
            producer.push_pending(0);
            producer.push_pending(1);
            producer.publish();
            producer
        });
        let seen = consumer.len();
        assert!(seen == 0 || seen == 2, "{seen}");
        drop(other.join().unwrap());
    });
}

/// Either the producer is told that it found the queue drained, or the consumer sees the
/// publication.
#[test]
fn spmc_publish_wakes() {
    model(|| {
        let (mut producer, mut consumer) = spmc::with_block_slots(2);
        producer.push_pending(0);
        assert!(producer.publish());
        let other = thread::spawn(move || {
            assert_eq!(consumer.pop(), Some(0));
            consumer.pop().is_some()
        });
        producer.push_pending(1);
        let wakes = producer.publish();
        let seen = other.join().unwrap();
        assert!(wakes || seen, "the consumer sleeps for ever");
    });
}

/// As `spmc_publish_wakes`, for a batch, and for a consumer that did not take the older item
/// itself.
#[test]
fn spmc_publish_wakes_the_other() {
    model(|| {
        let (mut producer, mut first) = spmc::with_block_slots(2);
        let mut second = first.clone();
        producer.push_pending(0);
        assert!(producer.publish());
        let other = thread::spawn(move || first.pop().is_some());
        let third = thread::spawn(move || second.pop_batch(1, |_| {}) > 0);
        producer.push_pending(1);
        let wakes = producer.publish();
        let seen = (other.join().unwrap(), third.join().unwrap());
        // Both have popped, or one found nothing while this was not yet published.
        assert!(wakes || seen == (true, true), "a consumer sleeps for ever");
    });
}

/// A block is written again only once all consumers are done with it, those that left before the
/// front did, and after.
#[test]
fn spmc_recycle() {
    model(|| {
        let (mut producer, mut first) = spmc::with_block_slots(2);
        let mut second = first.clone();
        producer.push_batch(0..3);
        let other = thread::spawn(move || {
            // Not so often that one finds nothing: the fence on that way would order more than is
            // meant.
            let mut seen = pops(&mut first, 2);
            // The second of these goes to the first block, if that was left by all.
            producer.push_batch(3..5);
            seen.extend(pops(&mut first, 5));
            (first, seen)
        });
        let mut mine = pops(&mut second, 1);
        drop(second);
        let (mut first, theirs) = other.join().unwrap();
        // What was claimed here is older than what is left.
        mine.extend(pops(&mut first, 5));
        assert_all(&mine, &theirs, 5);
    });
}

/// As `spmc_recycle`, with the producer on a thread of its own.
#[test]
fn spmc_recycle_apart() {
    model(|| {
        let (mut producer, mut first) = spmc::with_block_slots(2);
        let mut second = first.clone();
        producer.push_batch(0..3);
        let other = thread::spawn(move || pops(&mut first, 2));
        let third = thread::spawn(move || {
            producer.push_batch(3..5);
            producer.consumer()
        });
        let mut mine = pops(&mut second, 1);
        drop(second);
        let theirs = other.join().unwrap();
        mine.extend(pops(&mut third.join().unwrap(), 5));
        assert_all(&mine, &theirs, 5);
    });
}

/// As `spmc_recycle`, with a consumer on one thread and the producer on another, by the spare block
/// alone.
#[test]
fn spmc_recycle_across() {
    model(|| {
        let (mut producer, mut consumer) = spmc::with_block_slots(1);
        producer.push_batch(0..2);
        let other = thread::spawn(move || {
            let seen = pops(&mut consumer, 2);
            (consumer, seen)
        });
        producer.push(2);
        producer.push(3);
        let (mut consumer, mut seen) = other.join().unwrap();
        seen.extend(pops(&mut consumer, 4));
        assert_eq!(seen, [0, 1, 2, 3]);
    });
}

/// A new consumer attaches to a block that another has just made the front.
#[test]
fn spmc_attach() {
    model(|| {
        let (mut producer, mut first) = spmc::with_block_slots(1);
        let mut second = first.clone();
        producer.push(0);
        let other = thread::spawn(move || {
            producer.push(1);
            let seen = pops(&mut second, 2);
            (producer, second, seen)
        });
        let mut mine = pops(&mut first, 1);
        let (_producer, mut second, mut theirs) = other.join().unwrap();
        theirs.extend(pops(&mut second, 2));
        mine.extend(pops(&mut first, 1));
        assert_all(&mine, &theirs, 2);
    });
}

/// Consumers come and go while another moves the front.
#[test]
fn spmc_clone_and_drop() {
    model(|| {
        let (mut producer, mut first) = spmc::with_block_slots(1);
        producer.push_batch(0..2);
        let second = first.clone();
        let other = thread::spawn(move || {
            let mut third = second.clone();
            drop(second);
            pops(&mut third, 1)
        });
        let mut mine = pops(&mut first, 1);
        let theirs = other.join().unwrap();
        mine.extend(pops(&mut first, 2));
        assert_all(&mine, &theirs, 2);
        assert_eq!(producer.consumers(), 1);
    });
}

/// What one consumer has seen stand stays until it takes it, when it is alone.
#[test]
fn spmc_len_holds() {
    model(|| {
        let (mut producer, mut consumer) = spmc::with_block_slots(1);
        producer.push(0);
        let other = thread::spawn(move || producer.push(1));
        for n in 0..consumer.len() {
            assert_eq!(consumer.pop(), Some(n));
        }
        other.join().unwrap();
    });
}

/// A consumer that sees the producer gone finds all that was pushed, pending items too.
#[test]
fn spmc_close_producer() {
    model(|| {
        let (mut producer, mut consumer) = spmc::with_block_slots(2);
        let other = thread::spawn(move || {
            producer.push_pending(1);
            drop(producer);
        });
        if consumer.is_closed() {
            assert_eq!(consumer.len(), 1);
            assert!(!consumer.is_finished());
            assert_eq!(consumer.pop(), Some(1));
            assert!(consumer.is_finished());
        }
        other.join().unwrap();
    });
}

/// A producer learns that the last consumer is gone.
#[test]
fn spmc_close_consumers() {
    model(|| {
        let (mut producer, first) = spmc::with_block_slots(1);
        let second = first.clone();
        let other = thread::spawn(move || drop(second));
        producer.push(0);
        drop(first);
        other.join().unwrap();
        assert!(producer.is_closed());
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

/// Whichever handle leaves last, each item is dropped once, and each block is freed.
#[test]
fn spmc_drop_with_items() {
    model(|| {
        DROPS.store(0, Ordering::Relaxed);
        let (mut producer, mut first) = spmc::with_block_slots(1);
        producer.push(Token);
        producer.push(Token);
        let second = first.clone();
        let other = thread::spawn(move || {
            drop(first.pop());
            drop(first);
        });
        producer.push(Token);
        drop(producer);
        drop(second);
        other.join().unwrap();
        assert_eq!(DROPS.load(Ordering::Relaxed), 3);
    });
}
