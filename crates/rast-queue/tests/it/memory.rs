//! How much memory `Queue` keeps: at most two segments once it is empty, and no more after polls.
//!
//! The full counts (ten million items, a hundred million polls) run without debug assertions, or
//! with `RAST_FULL` set. With debug assertions a small part runs, which still crosses hundreds of
//! segments.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use crate::support::Counting;
use rast_queue::Queue;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// So many of `full` as this build has time for.
fn part_of(full: usize) -> usize {
    if cfg!(miri) {
        full / 10_000
    } else if cfg!(debug_assertions) && std::env::var_os("RAST_FULL").is_none() {
        full / 20
    } else {
        full
    }
}

const ITEMS: usize = 10_000_000;
const POLLS: usize = 100_000_000;

fn queue(memory: &Counting) -> Queue<usize, Counting> {
    Queue::new_in(memory.clone())
}

#[test]
fn a_queue_that_was_long_keeps_two_segments() {
    let memory = Counting::default();
    let queue = queue(&memory);
    let items = part_of(ITEMS);
    for item in 0..items {
        queue.push(item).unwrap();
    }
    assert!(memory.blocks() > 2, "so many items need many segments");
    for item in 0..items {
        assert_eq!(queue.pop(), Some(item));
    }
    assert_eq!(queue.pop(), None);
    assert!(memory.blocks() <= 2, "{} segments stay", memory.blocks());
    drop(queue);
    assert_eq!((memory.blocks(), memory.bytes()), (0, 0));
}

#[test]
fn a_queue_between_threads_keeps_two_segments() {
    const PAIRS: usize = 2;
    let memory = Counting::default();
    let queue = queue(&memory);
    let each = part_of(ITEMS) / PAIRS;
    let taken = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..PAIRS {
            scope.spawn(|| (0..each).for_each(|item| queue.push(item).unwrap()));
            scope.spawn(|| {
                while taken.load(Ordering::Relaxed) < each * PAIRS {
                    match queue.pop() {
                        Some(_) => _ = taken.fetch_add(1, Ordering::Relaxed),
                        None => thread::yield_now(),
                    }
                }
            });
        }
    });
    assert_eq!(queue.pop(), None);
    assert!(memory.blocks() <= 2, "{} segments stay", memory.blocks());
}

#[test]
fn polls_of_an_empty_queue_allocate_nothing() {
    let memory = Counting::default();
    let queue = queue(&memory);
    for item in 0..100 {
        queue.push(item).unwrap();
        assert_eq!(queue.pop(), Some(item));
    }
    let before = memory.allocations();
    let each = part_of(POLLS) / 2;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..each).for_each(|_| assert_eq!(queue.pop(), None)));
        }
    });
    assert_eq!(memory.allocations(), before);
    // No ticket has run away meanwhile.
    for item in 0..10_000 {
        queue.push(item).unwrap();
    }
    for item in 0..10_000 {
        assert_eq!(queue.pop(), Some(item));
    }
}

#[test]
fn polls_of_a_queue_that_was_never_used_allocate_nothing() {
    let memory = Counting::default();
    let queue = queue(&memory);
    for _ in 0..part_of(ITEMS) {
        assert_eq!(queue.pop(), None);
    }
    assert_eq!(memory.allocations(), 0);
}

#[test]
fn pushes_that_are_refused_allocate_nothing() {
    let memory = Counting::default();
    let queue = queue(&memory);
    for item in 0..100 {
        queue.push(item).unwrap();
    }
    queue.close();
    let before = memory.allocations();
    for item in 0..part_of(ITEMS) {
        assert!(queue.push(item).is_err());
    }
    assert_eq!(memory.allocations(), before);
    for item in 0..100 {
        assert_eq!(queue.pop(), Some(item));
    }
    assert_eq!(queue.pop(), None);
    assert!(memory.blocks() <= 2, "{} segments stay", memory.blocks());
}

#[test]
fn a_consumer_that_stands_in_a_batch_pins_one_segment() {
    let memory = Counting::default();
    let queue = queue(&memory);
    queue.push(0).unwrap();
    let mut stood = false;
    queue.pop_batch(1, |_| {
        // While this consumer is here, the others go on.
        for item in 0..part_of(ITEMS) {
            queue.push(item).unwrap();
            assert_eq!(queue.pop(), Some(item));
        }
        assert!(memory.blocks() <= 3, "{} segments", memory.blocks());
        stood = true;
    });
    assert!(stood);
    assert_eq!(queue.pop(), None);
}
