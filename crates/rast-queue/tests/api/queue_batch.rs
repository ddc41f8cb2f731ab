//! `Queue` in batches: sizes, order, a close in between, iterators with a wrong length, items of
//! every kind.

use crate::support::{Counting, Ledger};
use rast_queue::{Closed, Queue};
use std::iter;
use std::thread;

const SEGMENTS: [usize; 4] = [2, 4, 64, 4096];

/// An iterator that says a length of its own choosing.
struct Lying<I>(I, usize);

impl<I: Iterator> Iterator for Lying<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.1, Some(self.1))
    }
}

impl<I: Iterator> ExactSizeIterator for Lying<I> {}

#[test]
fn batches_of_every_size_in_segments_of_every_size() {
    for slots in SEGMENTS {
        let queue = Queue::with_segment_slots(slots);
        let mut next = 0;
        for size in (0..=70).chain([slots - 1, slots, slots + 1, 3 * slots + 1]) {
            let batch: Vec<_> = (next..next + size).collect();
            assert_eq!(queue.push_batch(batch.clone()).unwrap(), size);
            queue.push_slice(&batch).unwrap();
            assert_eq!(queue.len(), 2 * size);
            let mut popped = Vec::new();
            assert_eq!(queue.pop_into(&mut popped, usize::MAX), 2 * size);
            assert_eq!(popped, [batch.clone(), batch].concat());
            assert_eq!((queue.len(), queue.is_empty()), (0, true));
            next += size;
        }
    }
}

#[test]
fn an_iterator_that_has_ended_is_asked_no_more() {
    fn items<T>(make: fn(u8) -> T) -> impl ExactSizeIterator<Item = T> {
        let mut asked = 0;
        let items = iter::from_fn(move || {
            asked += 1;
            assert!(asked <= 4, "asked after its end");
            (asked < 4).then(|| make(asked))
        });
        Lying(items, 3)
    }
    let small = Queue::new();
    assert_eq!(small.push_batch(items(|n| n)).unwrap(), 3);
    let large = Queue::new();
    assert_eq!(large.push_batch(items(|n| [n; 256])).unwrap(), 3);
    small.close();
    let rest = small.push_batch(items(|n| n)).unwrap_err().into_inner();
    assert_eq!(rest.chain([9]).collect::<Vec<_>>(), [1, 2, 3, 9]);
    let mut rest = small.push_batch(items(|n| n)).unwrap_err().into_inner();
    assert_eq!((rest.by_ref().count(), rest.next()), (3, None));
}

#[test]
fn an_empty_batch_is_nothing() {
    let alloc = Counting::default();
    let queue: Queue<u8, _> = Queue::new_in(alloc.clone());
    assert_eq!(queue.push_batch([]).unwrap(), 0);
    queue.push_slice(&[]).unwrap();
    assert_eq!(queue.pop_batch(0, |_| panic!("none was asked for")), 0);
    assert_eq!(queue.pop_batch(usize::MAX, |_| panic!("none is there")), 0);
    queue.push(1).unwrap();
    assert_eq!(queue.pop_batch(0, |_| panic!("none was asked for")), 0);
    assert_eq!(queue.pop_into(&mut Vec::new(), 0), 0);
    assert_eq!((queue.len(), queue.pop()), (1, Some(1)));
    assert_eq!(alloc.allocations(), 1);
}

#[test]
fn a_batch_takes_at_most_what_was_asked_for() {
    for slots in SEGMENTS {
        for max in [1, 2, 3, 31, 32, 33, 100] {
            let queue = Queue::with_segment_slots(slots);
            queue.push_batch(0..90).unwrap();
            let mut popped = Vec::new();
            while queue.pop_into(&mut popped, max) > 0 {
                assert!(popped.len().is_multiple_of(max) || popped.len() == 90);
                assert_eq!(queue.len(), 90 - popped.len());
            }
            assert_eq!(popped, (0..90).collect::<Vec<_>>());
        }
    }
}

#[test]
fn one_batch_takes_all_that_stands_at_rest() {
    for slots in SEGMENTS {
        for count in [1, 15, 16, 17, 32, 33, 64, 65, 1000, 10_000] {
            if cfg!(miri) && count > 65 {
                continue;
            }
            let queue = Queue::with_segment_slots(slots);
            queue.push_batch(0..count).unwrap();
            // Some have gone one by one before, so the hint of the last look is a stale one.
            for n in 0..count / 3 {
                assert_eq!(queue.pop(), Some(n));
            }
            let mut next = count / 3;
            let popped = queue.pop_batch(usize::MAX, |n| {
                assert_eq!(n, next);
                next += 1;
            });
            assert_eq!((popped, next), (count - count / 3, count));
        }
    }
}

#[test]
fn a_closed_queue_refuses_a_batch_whole() {
    let queue = Queue::new();
    queue.push(0).unwrap();
    queue.close();
    let rest = queue.push_batch(1..101).unwrap_err().into_inner();
    assert_eq!(rest.len(), 100);
    assert_eq!(rest.collect::<Vec<_>>(), (1..=100).collect::<Vec<_>>());
    assert_eq!(queue.push_slice(&[1, 2]), Err(Closed(&[1, 2][..])));
    let refused = queue.push_batch([]).unwrap_err();
    assert_eq!(
        format!("{refused:?} {:?}", refused.0),
        "Closed(..) Rest { refused: 0, .. }"
    );
    assert_eq!((queue.len(), queue.pop(), queue.pop()), (1, Some(0), None));
}

#[test]
fn closed_midway_what_was_not_pushed_comes_back_in_order() {
    for slots in [2, 4, 64] {
        for close_at in 0..80 {
            let ledger = Ledger::default();
            let queue = Queue::with_segment_slots(slots);
            let items = (0..80u32).map(|n| {
                if u64::from(n) == close_at {
                    assert!(queue.close());
                }
                ledger.payload(n.into())
            });
            let rest = queue.push_batch(items).unwrap_err().into_inner();
            let refused = rest.len();
            let rest: Vec<_> = rest.map(|payload| payload.value).collect();
            assert_eq!(rest.len(), refused);
            let mut all: Vec<_> = queue.drain().map(|payload| payload.value).collect();
            assert!(all.len() as u64 <= close_at);
            all.extend(rest);
            assert_eq!(all, (0..80).collect::<Vec<_>>());
            ledger.assert_settled();
        }
    }
}

#[test]
fn closed_by_another_thread_nothing_is_lost() {
    let rounds = if cfg!(miri) { 3 } else { 300 };
    for round in 0..rounds {
        let ledger = Ledger::default();
        let queue = Queue::with_segment_slots([2, 4, 64][round % 3]);
        let mut all: Vec<u64> = thread::scope(|scope| {
            let pusher = scope.spawn(|| {
                let payloads: Vec<_> = (0..500).map(|n| ledger.payload(n)).collect();
                match queue.push_batch(payloads) {
                    Ok(pushed) => {
                        assert_eq!(pushed, 500);
                        Vec::new()
                    }
                    Err(Closed(rest)) => rest.map(|payload| payload.value).collect(),
                }
            });
            let popper = scope.spawn(|| {
                let mut values = Vec::new();
                while values.len() < round {
                    queue.pop_batch(7, |payload| values.push(payload.value));
                }
                queue.close();
                values
            });
            let mut all = popper.join().unwrap();
            let rest = pusher.join().unwrap();
            queue.pop_batch(usize::MAX, |payload| all.push(payload.value));
            all.extend(rest);
            all
        });
        assert_eq!(all, (0..500).collect::<Vec<_>>());
        all.clear();
        ledger.assert_settled();
    }
}

#[test]
fn a_length_that_lies_harms_nothing() {
    for said in [0, 1, 40, 1000, usize::MAX] {
        let queue = Queue::with_segment_slots(4);
        assert_eq!(queue.push_batch(Lying(0..40, said)).unwrap(), 40);
        assert_eq!(queue.len(), 40);
        let mut once = false;
        let items = (40..80).inspect(|_| {
            if !once {
                once = true;
                queue.close();
            }
        });
        let rest = queue.push_batch(Lying(items, said)).unwrap_err().0;
        assert!(rest.size_hint().0 >= said);
        // Not by `collect`, which believes what it is told.
        assert!(rest.eq(40..80));
        assert_eq!(queue.into_iter().count(), 40);
    }
}

/// Pushes and pops 200 items in every way.
fn round_trip<T>(make: impl Fn(u8) -> T, check: impl Fn(u8, &T)) {
    for slots in [2, 64] {
        let alloc = Counting::default();
        let queue = Queue::with_segment_slots_in(slots, alloc.clone());
        queue
            .push_batch((0..150).map(&make).collect::<Vec<_>>())
            .ok()
            .unwrap();
        for n in 150..200 {
            queue.push(make(n)).ok().unwrap();
        }
        assert_eq!(queue.len(), 200);
        let mut next = 0;
        while next < 60 {
            check(next, &queue.pop().unwrap());
            next += 1;
        }
        let popped = queue.pop_batch(70, |item| {
            check(next, &item);
            next += 1;
        });
        assert_eq!(popped, 70);
        for item in queue.drain().take(20) {
            check(next, &item);
            next += 1;
        }
        drop(queue);
        assert_eq!((next, alloc.blocks(), alloc.bytes()), (150, 0, 0));
    }
}

#[test]
fn items_of_every_kind() {
    // Large: batches of these go one by one.
    for_size::<255>();
    for_size::<256>();
    for_size::<257>();
    for_size::<4096>();
    round_trip(|_| (), |_, ()| ());
    round_trip(|n| n, |n, item| assert_eq!(n, *item));
    round_trip(|n| vec![n; 3], |n, item| assert_eq!(*item, [n; 3]));

    #[repr(align(4096))]
    struct Wide(u8);
    round_trip(Wide, |n, item| {
        assert_eq!(n, item.0);
        assert!((&raw const *item).addr().is_multiple_of(4096));
    });
    #[repr(align(512))]
    struct Aligned;
    round_trip(|_| Aligned, |_, _| ());
}

fn for_size<const N: usize>() {
    round_trip(|n| [n; N], |n, item| assert_eq!(*item, [n; N]));
}

#[test]
fn items_of_no_size_are_dropped_once() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Nothing;
    impl Drop for Nothing {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::Relaxed);
        }
    }
    let queue: Queue<_> = (0..1000).map(|_| Nothing).collect();
    queue.pop_batch(300, drop);
    assert_eq!(DROPS.load(Ordering::Relaxed), 300);
    queue.close();
    drop(queue.push(Nothing));
    assert_eq!(DROPS.load(Ordering::Relaxed), 301);
    drop(queue);
    assert_eq!(DROPS.load(Ordering::Relaxed), 1001);
}

#[test]
fn batches_between_threads_lose_nothing_and_keep_order() {
    const PRODUCERS: u64 = 2;
    let count: u64 = if cfg!(miri) { 60 } else { 30_000 };
    for slots in [2, 64, 1024] {
        let queue = Queue::with_segment_slots(slots);
        let sum = thread::scope(|scope| {
            let producers: Vec<_> = (0..PRODUCERS)
                .map(|id| {
                    let queue = &queue;
                    scope.spawn(move || {
                        let mut next = 0;
                        while next < count {
                            let size = (1 + next % 67).min(count - next);
                            let batch: Vec<_> = (next..next + size).map(|n| (id, n)).collect();
                            match next % 3 {
                                0 => queue.push_slice(&batch).unwrap(),
                                _ => assert_eq!(queue.push_batch(batch).unwrap() as u64, size),
                            }
                            next += size;
                        }
                    })
                })
                .collect();
            let consumers: Vec<_> = [1, 5, 64]
                .into_iter()
                .map(|max| {
                    let queue = &queue;
                    scope.spawn(move || {
                        let mut next = [0; PRODUCERS as usize];
                        let mut sum = 0;
                        loop {
                            let end = queue.is_closed();
                            let popped = queue.pop_batch(max, |(id, n): (u64, u64)| {
                                assert!(n >= next[id as usize], "each producer's order");
                                next[id as usize] = n + 1;
                                sum += n + 1;
                            });
                            if popped == 0 && end {
                                break sum;
                            }
                        }
                    })
                })
                .collect();
            for producer in producers {
                producer.join().unwrap();
            }
            queue.close();
            consumers
                .into_iter()
                .map(|c| c.join().unwrap())
                .sum::<u64>()
        });
        assert_eq!(sum, PRODUCERS * count * (count + 1) / 2);
        assert_eq!((queue.len(), queue.is_empty()), (0, true));
    }
}

#[test]
fn the_length_is_exact_at_rest_whatever_was_abandoned() {
    let rounds = if cfg!(miri) { 3 } else { 200 };
    for round in 0..rounds {
        let queue = Queue::with_segment_slots([2, 8, 64][round % 3]);
        // More polls than pushes: consumers run into tickets whose producers are late, or do not
        // exist.
        let popped: usize = thread::scope(|scope| {
            scope.spawn(|| (0..200).for_each(|n| queue.push(n).unwrap()));
            let poppers: Vec<_> = (0..2)
                .map(|_| scope.spawn(|| (0..150).filter(|_| queue.pop().is_some()).count()))
                .collect();
            poppers.into_iter().map(|p| p.join().unwrap()).sum()
        });
        for left in (0..200 - popped).rev() {
            assert_eq!(queue.len(), left + 1);
            assert!(!queue.is_empty() && queue.pop().is_some());
        }
        assert_eq!(
            (queue.len(), queue.is_empty(), queue.pop()),
            (0, true, None)
        );
    }
}

#[test]
fn segments_of_other_sizes_are_refused() {
    let most = Queue::<u8>::MOST_SEGMENT_SLOTS;
    assert!(most.is_power_of_two() && most >= 4096);
    for slots in [0, 1, 3, 6, 63, 65, most - 1, most + 1, 2 * most, usize::MAX] {
        let made = std::panic::catch_unwind(|| Queue::<u8>::with_segment_slots(slots));
        assert!(made.is_err(), "{slots}");
    }
    let queue = Queue::with_segment_slots(most);
    queue.push_batch(vec![1; most + 1]).unwrap();
    assert_eq!(queue.pop_batch(usize::MAX, |_| ()), most + 1);
}
