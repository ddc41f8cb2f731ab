//! Tests of the internals: stale bounds, given-up tickets, pins.

use super::*;
use crate::alloc::Layout;
use core::ptr::NonNull;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std_alloc::vec::Vec;

use segment::Slot;
use word::Word;

/// A consumer that was stopped in its look leaves a bound that may be of an earlier use of the
/// segment.
#[test]
fn a_stale_bound_leaves_nothing_behind() {
    let queues: [Queue<u32>; 8] = core::array::from_fn(|_| Queue::new());
    for queue in &queues {
        queue.push_slice(&[1, 2, 3]).unwrap();
        for _ in 0..40 {
            let head = queue.head.load(Ordering::Relaxed);
            queue.set_bound(head, 1000);
            let mut taken = 0;
            queue.pop_batch(usize::MAX, |_| taken += 1);
            queue.set_bound(queue.head.load(Ordering::Relaxed), 1000);
            assert_eq!(queue.pop(), None);
            assert_eq!((queue.len(), queue.is_empty()), (0, true));
            queue.push_slice(&[4, 5]).unwrap();
            assert_eq!(queue.len(), 2);
        }
    }
}

/// As a single pop gives up one ticket, a batch gives up one share of a stale bound, not all that
/// it promises.
#[test]
fn a_batch_forgets_a_bound_that_was_stale() {
    let queue = Queue::new();
    queue.push(1).unwrap();
    assert_eq!(queue.pop(), Some(1));
    queue.set_bound(queue.head.load(Ordering::Relaxed), 1000);
    assert_eq!(queue.pop_batch(usize::MAX, |_: u32| ()), 0);
    let head = index(queue.head.load(Ordering::Relaxed));
    assert_eq!(head, 1 + pause::MOST_BY_HINT, "tickets that are lost");
}

/// Another thread leaves bounds of an earlier use of the segment all the time.
#[test]
fn items_come_once_and_in_order_whatever_the_bound_says() {
    const ITEMS: u64 = if cfg!(miri) { 100 } else { 20_000 };
    for slots in [2, 8, 64, 1024] {
        let queue = &Queue::with_segment_slots(slots);
        let popped = &AtomicUsize::new(0);
        let is_done = || popped.load(Ordering::Relaxed) == 2 * ITEMS as usize;
        let takes = thread::scope(|scope| {
            for id in 0..2 {
                scope.spawn(move || {
                    for first in (0..ITEMS).step_by(4) {
                        let items = [1, 2, 3, 4].map(|n| id << 32 | (first + n));
                        if first % 8 == 0 {
                            queue.push_slice(&items).unwrap();
                        } else {
                            items.into_iter().for_each(|item| queue.push(item).unwrap());
                        }
                    }
                });
            }
            scope.spawn(move || {
                while !is_done() {
                    queue.set_bound(queue.head.load(Ordering::Relaxed), slots);
                    thread::yield_now();
                }
            });
            let takers: [_; 2] = core::array::from_fn(|n| {
                scope.spawn(move || {
                    let mut items = Vec::new();
                    while !is_done() {
                        let before = items.len();
                        if n == 0 {
                            queue.pop_batch(100, |item| items.push(item));
                        } else {
                            items.extend(queue.pop());
                        }
                        popped.fetch_add(items.len() - before, Ordering::Relaxed);
                    }
                    items
                })
            });
            takers.map(|taker| taker.join().unwrap())
        });
        for items in &takes {
            let mut last = [0; 2];
            for &item in items {
                let last = &mut last[(item >> 32) as usize];
                assert!(*last < item, "{item:#x} after {last:#x}");
                *last = item;
            }
        }
        let mut all: Vec<u64> = takes.concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2 * ITEMS as usize);
        assert_eq!((queue.pop(), queue.len()), (None, 0));
    }
}

/// What comes back is behind what the closure pushed, although the bound was stale, as it does
/// otherwise.
#[test]
fn a_batch_comes_back_in_order_although_its_bound_was_stale() {
    for claimed in 3..=20 {
        let queue = Queue::new();
        queue.push_slice(&[1, 2, 3]).unwrap();
        assert_eq!(queue.pop(), Some(1));
        queue.set_bound(queue.head.load(Ordering::Relaxed), claimed);
        let stopped = catch_unwind(AssertUnwindSafe(|| {
            queue.pop_batch(usize::MAX, |item| {
                assert_eq!(item, 2);
                queue.push_slice(&[4, 5]).unwrap();
                panic!("after the first");
            })
        }));
        assert!(stopped.is_err());
        let back: Vec<_> = queue.drain().collect();
        assert_eq!(back, [4, 5, 3], "{claimed} tickets");
    }
}

/// What a closure pushes is for others to pop, although the bound of its batch was stale.
#[test]
fn a_batch_keeps_no_later_item_from_others() {
    let queue = Queue::new();
    queue.push_slice(&[1, 2, 3]).unwrap();
    assert_eq!(queue.pop(), Some(1));
    queue.set_bound(queue.head.load(Ordering::Relaxed), 20);
    let mut seen = Vec::new();
    queue.pop_batch(2, |item| seen.push(item));
    queue.push_slice(&[4, 5]).unwrap();
    queue.set_bound(queue.head.load(Ordering::Relaxed), 20);
    let mut others = Vec::new();
    queue.pop_batch(usize::MAX, |item| {
        if item == 4 {
            queue.push(6).unwrap();
            others.extend(queue.pop());
        }
        seen.push(item);
    });
    assert_eq!((seen, others), ([2, 3, 4, 5].into(), [6].into()));
}

/// Claims tickets as a producer does that is then stopped for ever.
fn claim_and_stop<T>(queue: &Queue<T>, tickets: usize) -> Word<T> {
    let claimed = queue.tail.load(Ordering::Relaxed);
    let after = claimed.with_count(claimed.count() + tickets as u64);
    queue.tail.store(after, Ordering::Relaxed);
    claimed
}

/// One thread stopped in a `push_slice` of a whole segment, and another one behind it, occupy
/// nothing outside of their queue.
#[test]
fn stopped_producers_of_many_tickets_delay_no_other_queue() {
    const SLOTS: usize = Queue::<u32>::MOST_SEGMENT_SLOTS;
    for stopped in [10, 400, SLOTS - 1] {
        let queues: [Queue<u32>; 3] = core::array::from_fn(|_| Queue::with_segment_slots(SLOTS));
        for queue in &queues {
            queue.push(0).unwrap();
            claim_and_stop(queue, stopped);
            queue.push(1).unwrap();
            assert_eq!(queue.pop(), Some(0));
            assert_eq!(queue.pop(), Some(1), "behind {stopped} stopped tickets");
            assert_eq!(queue.pop(), None);
        }
    }
}

/// A producer that goes on after its ticket was given up pushes its item once, behind what came
/// meanwhile.
#[test]
fn a_producer_finds_that_its_ticket_was_given_up() {
    let queue = Queue::new();
    queue.push(1).unwrap();
    let claimed = claim_and_stop(&queue, 1);
    queue.push(2).unwrap();
    assert_eq!((queue.pop(), queue.pop()), (Some(1), Some(2)));
    let late = 3;
    // SAFETY: the segment has tickets that are not DONE, so it is live; the ticket is below its
    // slots.
    let slot = unsafe { Segment::slot(claimed.ptr(), index(claimed)) };
    // SAFETY: this test claimed the ticket as its producer; the item is valid and `Copy`.
    assert!(!unsafe { Slot::fill(slot, &raw const late) });
    assert_eq!(queue.pop(), None);
}

/// What a closure pushes never comes to its own batch, wherever `tail` is.
#[test]
fn a_batch_far_beyond_tail_keeps_no_later_item() {
    for ahead in [1, 2, 30, 64] {
        let queue = Queue::new();
        queue.push_slice(&[1, 2, 3]).unwrap();
        assert_eq!(queue.pop(), Some(1));
        // Consumers that were stopped with tickets that no producer has.
        let head = queue.head.load(Ordering::Relaxed);
        queue
            .head
            .store(head.with_count(head.count() + 2 + ahead), Ordering::Relaxed);
        queue.set_bound(queue.head.load(Ordering::Relaxed), 1000);
        let mut seen = Vec::new();
        let mut others = Vec::new();
        queue.pop_batch(8, |item: u32| seen.push(item));
        assert_eq!(seen, [], "no ticket of the batch has a producer");
        queue.set_bound(queue.head.load(Ordering::Relaxed), 1000);
        queue.pop_batch(8, |item| {
            queue.push(item).unwrap();
            others.extend(queue.pop());
        });
        // The stopped consumers have the first items that are pushed now; all others are there for
        // any thread.
        for item in 0..100 + ahead as u32 {
            queue.push(item).unwrap();
        }
        let left: Vec<_> = queue.drain().collect();
        assert_eq!(left.len(), 100, "{left:?}");
        assert_eq!(others, []);
    }
}

/// Threads for which a word has no room for a pin wait, and go on when one of the others has.
#[test]
fn a_full_word_makes_threads_wait() {
    let queue = &Queue::with_segment_slots(2);
    queue.push_slice(&[1, 2]).unwrap();
    assert_eq!(queue.pop(), Some(1));
    let tail = queue.tail.load(Ordering::Relaxed);
    assert_eq!(index(tail), 2);
    let full = tail.with_count((2 + MOST_PINS) as u64);
    queue.tail.store(full, Ordering::Relaxed);
    assert!(queue.pin_tail(full).is_none(), "no room for one more");
    thread::scope(|scope| {
        let pusher = scope.spawn(|| queue.push(3));
        let closer = scope.spawn(|| queue.pop());
        assert_eq!(closer.join().unwrap(), Some(2), "the other word has room");
        // One of those that have pins gives it back.
        queue.tail.store(full.with_count(2), Ordering::Relaxed);
        pusher.join().unwrap().unwrap();
    });
    assert_eq!(queue.pop(), Some(3));
}

/// Gives out some blocks, then panics.
struct Panics {
    blocks: AtomicUsize,
}

// SAFETY: all blocks come from `Global` and go back to it.
unsafe impl Allocator for Panics {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let left = self.blocks.load(Ordering::Relaxed);
        assert_ne!(left, 0, "no block left");
        self.blocks.store(left - 1, Ordering::Relaxed);
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's obligation.
        unsafe { Global.deallocate(block, layout) };
    }
}

/// Where the allocator panics in a batch, the panic goes up, and each item is in the queue or
/// dropped.
#[test]
fn a_batch_survives_the_panic_of_the_allocator() {
    const ITEMS: usize = 50;
    for blocks in 0..4 {
        let alloc = Panics {
            blocks: AtomicUsize::new(blocks),
        };
        let queue = Queue::with_segment_slots_in(16, alloc);
        let items: [_; ITEMS] = core::array::from_fn(Arc::new);
        let stopped = catch_unwind(AssertUnwindSafe(|| queue.push_batch(items.clone()).is_ok()));
        assert!(
            stopped.is_err(),
            "{blocks} blocks hold {} items",
            queue.len()
        );
        let queued: Vec<_> = queue.drain().map(|item| *item).collect();
        assert_eq!(queued, Vec::from_iter(0..16 * blocks));
        let leaked = items.iter().filter(|item| Arc::strong_count(item) > 1);
        assert_eq!(leaked.count(), 0, "the others are dropped");
    }
}
