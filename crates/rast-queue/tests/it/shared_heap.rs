//! `Queue` in a heap that many threads share: its segments and its items come from one
//! `SharedHeap`.
#![cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]

use rast_queue::Queue;
use rast_queue::alloc::boxed::Box;
use rast_queue::alloc::{Allocator, Layout, SharedHeap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const ITEMS: usize = if cfg!(miri) { 300 } else { 40_000 };

/// Two producers and two consumers, which make and drop their items in the heap that the segments
/// are of.
#[test]
fn segments_and_items_share_a_heap() {
    const PAIRS: usize = 2;
    let heap = SharedHeap::new();
    let queue = Queue::<Box<usize, &SharedHeap>, &SharedHeap>::with_segment_slots_in(64, &heap);
    let (taken, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..PAIRS {
            scope.spawn(|| {
                for number in 1..=ITEMS {
                    queue.push(Box::new_in(number, &heap)).unwrap();
                }
            });
            scope.spawn(|| {
                while taken.load(Ordering::Relaxed) < PAIRS * ITEMS {
                    match queue.pop() {
                        Some(number) => {
                            sum.fetch_add(*number, Ordering::Relaxed);
                            taken.fetch_add(1, Ordering::Relaxed);
                        }
                        None => thread::yield_now(),
                    }
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), PAIRS * ITEMS * (ITEMS + 1) / 2);
    // A pop that finds the queue empty frees one segment of those that were still in use when they
    // were retired.
    while heap.stats().live() > 2 {
        let before = heap.stats().live();
        assert!(queue.pop().is_none());
        let stats = heap.stats();
        assert!(stats.live() < before, "two segments at most stay: {stats}");
    }
    // Items that are dropped with the queue go back before the heap does.
    for number in 0..1000 {
        queue.push(Box::new_in(number, &heap)).unwrap();
    }
    drop(queue);
    assert_eq!((heap.stats().live(), heap.stats().bytes_current), (0, 0));
}

/// A bound on the heap bounds the queue: what does not fit is given back, and once items were taken
/// there is room again.
#[test]
fn a_bounded_heap_bounds_the_queue() {
    const BOUND: usize = 64 << 10;
    let heap = SharedHeap::bounded(BOUND);
    let queue = Queue::<usize, &SharedHeap>::with_segment_slots_in(64, &heap);
    let mut first = 0;
    for round in 0..4 {
        let mut pushed = 0;
        let refused = loop {
            match queue.try_push(first + pushed) {
                Ok(()) => pushed += 1,
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused.into_inner(), first + pushed, "the item comes back");
        assert!(pushed > 1000, "round {round}: {pushed} items fit");
        assert!(heap.stats().bytes_peak <= BOUND);
        assert!((first..first + pushed).all(|number| queue.pop() == Some(number)));
        assert_eq!(queue.pop(), None);
        first += pushed;
    }
    drop(queue);
    // The whole of the bound is there again.
    let all = Layout::from_size_align(BOUND, 8).unwrap();
    assert!((&heap).allocate(all).is_ok());
}

/// Producers that meet the bound keep their items and try again: nothing is lost, and the bound
/// holds at every moment.
#[test]
fn producers_wait_for_room_in_a_bounded_heap() {
    const PRODUCERS: usize = 3;
    const BOUND: usize = 4 << 10;
    let heap = SharedHeap::bounded(BOUND);
    let queue = Queue::<usize, &SharedHeap>::with_segment_slots_in(32, &heap);
    let refused = AtomicUsize::new(0);
    let sum: usize = thread::scope(|scope| {
        for _ in 0..PRODUCERS {
            scope.spawn(|| {
                for mut number in 1..=ITEMS {
                    while let Err(back) = queue.try_push(number) {
                        number = back.into_inner();
                        refused.fetch_add(1, Ordering::Relaxed);
                        thread::yield_now();
                    }
                }
            });
        }
        let consumer = scope.spawn(|| {
            // The bound is met before anything is taken: more is pushed than fits.
            while refused.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            let (mut taken, mut sum) = (0, 0);
            while taken < PRODUCERS * ITEMS {
                match queue.pop() {
                    Some(number) => (taken, sum) = (taken + 1, sum + number),
                    None => thread::yield_now(),
                }
            }
            sum
        });
        consumer.join().unwrap()
    });
    assert_eq!(sum, PRODUCERS * ITEMS * (ITEMS + 1) / 2);
    assert!(heap.stats().bytes_peak <= BOUND);
    drop(queue);
    assert_eq!(heap.stats().live(), 0);
}
