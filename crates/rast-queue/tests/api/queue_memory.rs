//! How much memory `Queue` keeps, with its words at each position in segments of each size.
//! `tests/it/memory.rs` does this with many operations.

use crate::support::Counting;
use rast_queue::{Closed, Queue, TryPushError};
use std::sync::Barrier;
use std::thread;

/// How many items go through the queue in a test.
const ITEMS: u64 = if cfg!(miri) { 1_000 } else { 300_000 };

/// The default size, and small ones, which come again often.
const SEGMENTS: [usize; 3] = [2, 64, Queue::<u64>::DEFAULT_SEGMENT_SLOTS];

fn at_rest_two_segments_stay(queue: &Queue<u64, Counting>) {
    assert_eq!((queue.len(), queue.pop()), (0, None));
    let blocks = queue.allocator().blocks();
    assert!(blocks <= 2, "{blocks} segments stay");
}

#[test]
fn all_pushed_then_all_popped() {
    for slots in SEGMENTS {
        let alloc = Counting::default();
        let queue = Queue::with_segment_slots_in(slots, alloc.clone());
        // What is queued at once is bounded by the memory of the machine, not by the queue.
        let items = ITEMS.min(20_000 * slots as u64);
        for n in 0..items {
            queue.push(n).unwrap();
        }
        assert_eq!(alloc.blocks() as u64, items.div_ceil(slots as u64));
        for n in 0..items {
            assert_eq!(queue.pop(), Some(n));
        }
        at_rest_two_segments_stay(&queue);
        drop(queue);
        assert_eq!((alloc.blocks(), alloc.bytes()), (0, 0));
    }
}

#[test]
fn a_window_that_moves_on() {
    for slots in SEGMENTS {
        for window in [1, slots as u64 - 1, slots as u64, 3 * slots as u64] {
            let alloc = Counting::default();
            let queue = Queue::with_segment_slots_in(slots, alloc.clone());
            for n in 0..window {
                queue.push(n).unwrap();
            }
            for n in window..ITEMS / 4 {
                queue.push(n).unwrap();
                assert_eq!(queue.pop(), Some(n - window));
            }
            let needed = window as usize / slots + 2;
            assert!(alloc.blocks() <= needed + 1);
            assert!(alloc.allocations() <= needed + 2, "segments come again");
            queue.drain().for_each(drop);
            at_rest_two_segments_stay(&queue);
        }
    }
}

#[test]
fn threads_leave_two_segments_once_at_rest() {
    for slots in SEGMENTS {
        let rounds = if cfg!(miri) { 2 } else { 10 };
        for round in 0..rounds {
            let queue = Queue::with_segment_slots_in(slots, Counting::default());
            let items = ITEMS / 40;
            thread::scope(|scope| {
                let producers = [0, 1].map(|_| {
                    let queue = &queue;
                    scope.spawn(move || {
                        for n in (0..items).step_by(8) {
                            match n % (round + 1) {
                                0 => queue.push_slice(&[n; 8]).unwrap(),
                                _ => (0..8).for_each(|_| queue.push(n).unwrap()),
                            }
                        }
                    })
                });
                for _ in 0..2 {
                    scope.spawn(|| {
                        let mut is_closed = false;
                        while !is_closed {
                            is_closed = queue.is_closed();
                            while queue.pop().is_some() {}
                            queue.pop_batch(9, |_| ());
                        }
                    });
                }
                for producer in producers {
                    producer.join().unwrap();
                }
                queue.close();
            });
            // One more pop, which looks into limbo.
            assert_eq!(queue.pop(), None);
            at_rest_two_segments_stay(&queue);
        }
    }
}

/// `head` and `tail` move by claims, and a segment's slots bound the claims in it. So if a poll
/// moved an index, as many polls as slots would use a segment up, and the pushes after them would
/// need another.
#[test]
fn polls_of_an_empty_queue_change_nothing() {
    let polls = ITEMS;
    for slots in SEGMENTS {
        // With no segment, and at each kind of place in one: the begin, the middle, the last slot,
        // the border.
        for before in [None, Some(1), Some(slots / 2), Some(slots - 1), Some(slots)] {
            let alloc = Counting::default();
            let queue = Queue::with_segment_slots_in(slots, alloc.clone());
            for n in 0..before.unwrap_or(0) {
                queue.push(n).unwrap();
                assert_eq!(queue.pop(), Some(n));
            }
            let allocations = alloc.allocations();
            assert_eq!(allocations, usize::from(before.is_some_and(|n| n > 0)));
            for _ in 0..polls / 15 {
                assert_eq!(queue.pop(), None);
                assert!(queue.is_empty() && queue.drain().next().is_none());
                assert_eq!(queue.len(), 0);
                assert_eq!(queue.pop_batch(usize::MAX, |_| ()), 0);
            }
            assert_eq!(alloc.allocations(), allocations);
            // The slots that are left are still there.
            let left = match before {
                None => 0,
                Some(before) => slots - before,
            };
            for n in 0..left {
                queue.push(n).unwrap();
            }
            assert_eq!((queue.len(), alloc.allocations()), (left, allocations));
            queue.push(left).unwrap();
            assert_eq!(
                alloc.allocations(),
                allocations + 1,
                "and no more than that"
            );
            assert!(queue.into_iter().eq(0..=left));
        }
    }
}

#[test]
fn polls_of_threads_change_nothing() {
    let alloc = Counting::default();
    let queue = Queue::with_segment_slots_in(8, alloc.clone());
    for n in 0..12 {
        queue.push(n).unwrap();
        queue.pop().unwrap();
    }
    let (polls, ready) = (ITEMS / 20, Barrier::new(3));
    let allocations = alloc.allocations();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                ready.wait();
                for _ in 0..polls {
                    assert_eq!(queue.pop(), None);
                }
            });
        }
    });
    // Four slots are left in this segment.
    (0..4).for_each(|n| queue.push(n).unwrap());
    assert_eq!(alloc.allocations(), allocations);
    queue.push(4).unwrap();
    assert!(queue.into_iter().eq(0..5));
}

#[test]
fn pushes_that_a_closed_queue_refuses_change_nothing() {
    for slots in SEGMENTS {
        for stand in [0, 1, slots / 2, slots - 1, slots, slots + 1] {
            let alloc = Counting::default();
            let queue = Queue::with_segment_slots_in(slots, alloc.clone());
            for n in 0..stand {
                queue.push(n).unwrap();
            }
            queue.close();
            let allocations = alloc.allocations();
            for _ in 0..ITEMS / 100 {
                assert_eq!(queue.push(7), Err(Closed(7)));
                assert_eq!(queue.try_push(8), Err(TryPushError::Closed(8)));
                assert_eq!(queue.push_slice(&[9; 3]), Err(Closed(&[9; 3][..])));
                assert_eq!(queue.push_batch([1, 2]).unwrap_err().0.len(), 2);
            }
            assert_eq!((queue.len(), alloc.allocations()), (stand, allocations));
            assert!(queue.drain().eq(0..stand));
            assert!(alloc.blocks() <= 2);
        }
    }
}
