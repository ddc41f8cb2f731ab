//! `Queue` and panics of iterators, closures and drops. No item is lost or dropped twice, and the
//! queue stays usable.

use crate::support::{Counting, Ledger, Payload};
use rast_queue::Queue;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// Whether `run` panicked.
fn panics<R>(run: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(run)).is_err()
}

fn values(queue: &Queue<Payload, Counting>) -> Vec<u64> {
    queue.drain().map(|payload| payload.value).collect()
}

/// A queue that counts everything.
fn counted(slots: usize) -> (Ledger, Counting, Queue<Payload, Counting>) {
    let alloc = Counting::default();
    let queue = Queue::with_segment_slots_in(slots, alloc.clone());
    (Ledger::default(), alloc, queue)
}

fn finish(ledger: &Ledger, alloc: &Counting, queue: Queue<Payload, Counting>) {
    drop(queue);
    ledger.assert_settled();
    assert_eq!((alloc.blocks(), alloc.bytes()), (0, 0));
}

#[test]
fn what_an_iterator_gave_before_it_panicked_is_pushed() {
    for slots in [2, 8, 64] {
        for at in 0..70 {
            let (ledger, alloc, queue) = counted(slots);
            let items = (0..70u32).map(|n| {
                assert_ne!(u64::from(n), at, "as planned");
                ledger.payload(n.into())
            });
            assert!(panics(|| queue.push_batch(items)));
            assert_eq!(queue.len() as u64, at);
            queue.push(ledger.payload(100)).ok().unwrap();
            let expected: Vec<_> = (0..at).chain([100]).collect();
            assert_eq!(values(&queue), expected);
            finish(&ledger, &alloc, queue);
        }
    }
}

#[test]
fn what_a_closed_queue_refused_is_dropped_with_the_iterators_panic() {
    // Within the first part of the batch, after which it would stop without asking for more.
    for at in 1..32 {
        let (ledger, alloc, queue) = counted(4);
        let items = (0..40u32).map(|n| {
            assert_ne!(u64::from(n), at, "as planned");
            if u64::from(n) == at / 2 {
                queue.close();
            }
            ledger.payload(n.into())
        });
        assert!(panics(|| drop(queue.push_batch(items))));
        let stand = values(&queue);
        assert_eq!(stand, (0..stand.len() as u64).collect::<Vec<_>>());
        assert!(stand.len() as u64 <= at / 2);
        finish(&ledger, &alloc, queue);
    }
}

/// A closure panics at item `at` of `count`, the queue being open or closed.
fn closure_panics(slots: usize, count: u64, at: u64, is_closed: bool) {
    let (ledger, alloc, queue) = counted(slots);
    for n in 0..count {
        queue.push(ledger.payload(n)).ok().unwrap();
    }
    if is_closed {
        queue.close();
    }
    let mut seen = Vec::new();
    assert!(panics(|| queue.pop_batch(usize::MAX, |payload| {
        seen.push(payload.value);
        assert_ne!(payload.value, at, "as planned");
    })));
    assert_eq!(seen, (0..=at).collect::<Vec<_>>());
    assert_eq!(ledger.dropped() as u64, at + 1);
    assert_eq!(queue.len() as u64, count - at - 1);
    assert_eq!(queue.push(ledger.payload(count)).is_err(), is_closed);
    // The rest of the batch is at the back, in order; what had not been claimed is before it.
    let rest = values(&queue);
    let turns = rest.windows(2).filter(|pair| pair[0] > pair[1]).count();
    let mut sorted = rest.clone();
    sorted.sort_unstable();
    let expected: Vec<_> = (at + 1..count + u64::from(!is_closed)).collect();
    assert_eq!(sorted, expected);
    assert!(turns <= 2, "two runs and the late one: {rest:?}");
    finish(&ledger, &alloc, queue);
}

#[test]
fn a_closure_that_panics_loses_nothing() {
    for is_closed in [false, true] {
        for slots in [2, 8, 64] {
            // Segments that are just not full, full, and followed by another.
            for count in [1_u64, 2, 7, 8, 9, 16, 63, 64, 65] {
                for at in 0..count {
                    if !cfg!(miri) || (at + count).is_multiple_of(5) {
                        closure_panics(slots, count, at, is_closed);
                    }
                }
            }
        }
    }
}

#[test]
fn a_closure_panics_at_a_segment_closed_while_full() {
    // The mark that none follows is in the full segment; what comes back needs one that follows.
    for slots in [2, 4, 16] {
        for at in 0..slots as u64 {
            closure_panics(slots, slots as u64, at, true);
        }
    }
    // And again and again: each time less comes back.
    let (ledger, alloc, queue) = counted(4);
    for n in 0..32 {
        queue.push(ledger.payload(n)).ok().unwrap();
    }
    queue.close();
    let mut left = 32;
    while left > 0 {
        assert!(panics(
            || queue.pop_batch(usize::MAX, |_| panic!("as planned"))
        ));
        left -= 1;
        assert_eq!(queue.len(), left);
        assert!(queue.push(ledger.payload(99)).is_err());
    }
    assert!(queue.pop().is_none() && !queue.close());
    finish(&ledger, &alloc, queue);
}

#[test]
fn closures_that_panic_among_threads_lose_nothing() {
    let count: u64 = if cfg!(miri) { 60 } else { 6_000 };
    for slots in [2, 64] {
        let (ledger, alloc, queue) = counted(slots);
        let mut all: Vec<u64> = thread::scope(|scope| {
            let producer = scope.spawn(|| {
                for n in 0..count {
                    queue.push(ledger.payload(n)).ok().unwrap();
                }
            });
            let consumers: Vec<_> = (0..2)
                .map(|_| {
                    let queue = &queue;
                    scope.spawn(move || {
                        let mut seen = Vec::new();
                        while !queue.is_closed() {
                            let mut calls = 0;
                            let _ = catch_unwind(AssertUnwindSafe(|| {
                                queue.pop_batch(40, |payload| {
                                    seen.push(payload.value);
                                    calls += 1;
                                    if calls == 17 {
                                        // Says nothing on standard error, unlike `panic!`.
                                        std::panic::resume_unwind(Box::new(()));
                                    }
                                })
                            }));
                        }
                        seen
                    })
                })
                .collect();
            producer.join().unwrap();
            queue.close();
            consumers
                .into_iter()
                .flat_map(|c| c.join().unwrap())
                .collect()
        });
        all.extend(values(&queue));
        all.sort_unstable();
        assert_eq!(all, (0..count).collect::<Vec<_>>());
        finish(&ledger, &alloc, queue);
    }
}

#[test]
fn a_drop_that_panics_in_a_batch_keeps_the_others() {
    for at in 0..20 {
        let (ledger, alloc, queue) = counted(8);
        for n in 0..20 {
            let payload = if n == at {
                ledger.bomb(n)
            } else {
                ledger.payload(n)
            };
            queue.push(payload).ok().unwrap();
        }
        assert!(panics(|| queue.pop_batch(usize::MAX, drop)));
        assert_eq!(ledger.dropped() as u64, at + 1);
        let mut rest = values(&queue);
        rest.sort_unstable();
        assert_eq!(rest, (at + 1..20).collect::<Vec<_>>());
        finish(&ledger, &alloc, queue);
    }
}

#[test]
fn a_drop_that_panics_in_a_drain_or_an_iterator_keeps_the_others() {
    let (ledger, alloc, queue) = counted(8);
    for n in 0..20 {
        queue.push(ledger.bomb(n)).ok().unwrap();
    }
    assert!(panics(|| queue.drain().for_each(drop)));
    assert_eq!(queue.len(), 19);
    assert!(panics(|| {
        let items = queue.into_iter();
        assert_eq!(items.take(3).map(std::mem::forget).count(), 3);
    }));
    // Three were forgotten as planned.
    assert_eq!((ledger.made(), ledger.dropped()), (20, 17));
    assert_eq!((alloc.blocks(), alloc.bytes()), (0, 0));
}

#[test]
fn a_refused_item_whose_drop_panics_harms_nothing() {
    let (ledger, alloc, queue) = counted(2);
    queue.close();
    assert!(panics(|| drop(queue.push(ledger.bomb(0)))));
    assert!(panics(|| drop(
        queue.push_batch([ledger.bomb(1), ledger.payload(2)])
    )));
    assert_eq!((queue.len(), queue.pop().is_none()), (0, true));
    finish(&ledger, &alloc, queue);
}
