//! The ring's chunks: parts, panics, chunks that are dropped or leaked.

use crate::support::{Counting, Ledger, Payload, drop_halves};
use rast_queue::spsc::{
    Consumer, FilledChunk, Producer, ReadChunk, ReadChunkIter, WriteChunk, ring, ring_at,
};
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

fn assert_send<T: Send>() {}

#[test]
fn chunks_are_send() {
    assert_send::<WriteChunk<'_, std::cell::Cell<u8>>>();
    assert_send::<FilledChunk<'_, u8, Counting>>();
    assert_send::<ReadChunk<'_, std::cell::Cell<u8>>>();
    assert_send::<ReadChunkIter<'_, u8, Counting>>();
}

/// A ring of four whose next chunk of more than two wraps.
fn wrapping<T: Default>() -> (Producer<T>, Consumer<T>) {
    let (mut producer, mut consumer) = ring_at(4, usize::MAX - 1);
    assert_eq!(
        producer.write_chunk(2).fill([T::default(), T::default()]),
        2
    );
    assert_eq!(consumer.pop_batch(2, drop), 2);
    producer.write_chunk(2).filled().commit_all();
    consumer.read_chunk(2).commit_all();
    (producer, consumer)
}

#[test]
fn a_chunk_is_as_long_as_asked_or_as_fits() {
    let (mut producer, mut consumer) = ring(4);
    assert_eq!(producer.write_chunk(0).len(), 0);
    assert!(producer.write_chunk(0).is_empty());
    assert_eq!(producer.write_chunk(3).len(), 3);
    assert_eq!(producer.write_chunk(usize::MAX).len(), 4);
    assert!(producer.write_chunk_exact(5).is_none());
    assert!(consumer.read_chunk(9).is_empty());
    assert_eq!(producer.write_chunk_exact(3).unwrap().fill(0..), 3);
    assert_eq!(producer.write_chunk(3).len(), 1);
    assert!(consumer.read_chunk_exact(4).is_none());
    assert_eq!(consumer.read_chunk_exact(2).unwrap().len(), 2);
    assert_eq!(consumer.read_chunk(usize::MAX).len(), 3);
    assert_eq!(consumer.len(), 3, "looking pops nothing");
}

#[test]
fn slices_wrap() {
    for start in [0, 1, 2, 3, usize::MAX - 2, usize::MAX] {
        let (mut producer, mut consumer) = ring_at::<u32>(4, start);
        let mut chunk = producer.write_chunk(4);
        let (first, second) = chunk.as_mut_slices();
        assert_eq!(first.len(), 4 - start % 4);
        assert_eq!(first.len() + second.len(), 4);
        for (slot, n) in first.iter_mut().chain(second).zip(0..3) {
            slot.write(n);
        }
        // SAFETY: the first three slots were written.
        unsafe { chunk.commit(3) };
        let mut chunk = consumer.read_chunk(8);
        let (first, second) = chunk.as_mut_slices();
        assert_eq!(first.len(), 3.min(4 - start % 4));
        first.iter_mut().chain(second).for_each(|n| *n += 10);
        let (first, second) = chunk.as_slices();
        assert_eq!([first, second].concat(), [10, 11, 12]);
        chunk.commit(1);
        let chunk = consumer.read_chunk(8);
        let (first, second) = chunk.as_slices();
        assert_eq!([first, second].concat(), [11, 12]);
        chunk.commit_all();
        assert!(consumer.is_empty());
        assert_eq!(producer.room(), 4);
    }
}

#[test]
fn copies_and_defaults_wrap() {
    let (mut producer, mut consumer) = ring_at::<u8>(4, usize::MAX);
    assert_eq!(producer.write_chunk(3).copy_from_slice(&[1, 2, 3, 4]), 3);
    assert_eq!(producer.write_chunk(3).copy_from_slice(&[5, 6]), 1);
    let mut out = [0; 6];
    assert_eq!(consumer.pop_slice(&mut out), 4);
    assert_eq!(out, [1, 2, 3, 5, 0, 0]);

    let mut chunk = producer.write_chunk(4).filled_with(|| 7);
    assert_eq!((chunk.len(), chunk.is_empty()), (4, false));
    let (first, second) = chunk.as_mut_slices();
    assert_eq!((first.len(), second.len()), (1, 3));
    second[0] = 8;
    chunk.commit(3);
    assert_eq!(
        consumer.read_chunk(4).into_iter().collect::<Vec<_>>(),
        [7, 8, 7]
    );
    // SAFETY: there is no slot, so all hold values.
    unsafe { producer.write_chunk(0).commit_all() };
    assert!(consumer.is_empty());
}

#[test]
fn fill_takes_no_more_than_fits() {
    let (mut producer, mut consumer) = wrapping::<u32>();
    let mut numbers = 0..9;
    assert_eq!(producer.write_chunk(3).fill(&mut numbers), 3);
    assert_eq!(producer.write_chunk(3).fill(&mut numbers), 1);
    assert_eq!(numbers, 4..9);
    assert_eq!(producer.write_chunk(3).fill(&mut numbers), 0);
    assert_eq!(numbers, 4..9);
    let all: Vec<_> = consumer.read_chunk(9).into_iter().collect();
    assert_eq!(all, [0, 1, 2, 3]);
}

#[test]
fn fill_is_the_same_by_value_and_by_reference() {
    for start in (0..16).chain([usize::MAX - 5]) {
        for items in 0..20_u64 {
            let (mut producer, mut consumer) = ring_at(16, start);
            let fits = items.min(16) as usize;
            assert_eq!(producer.write_chunk(20).fill(0..items), fits);
            assert!(consumer.read_chunk(20).into_iter().eq(0..fits as u64));
            let mut numbers = 0..items;
            assert_eq!(producer.write_chunk(20).fill(&mut numbers), fits);
            assert_eq!(numbers, fits as u64..items);
            assert!(consumer.read_chunk(20).into_iter().eq(0..fits as u64));
        }
    }
}

#[test]
fn a_panic_in_a_mapped_range_pushes_what_came_before() {
    for start in 0..4 {
        for last in 0..4 {
            let (mut producer, mut consumer) = ring_at(4, start);
            let numbers = (0..9).map(|n| {
                assert!(n < last, "the iterator's own panic");
                Box::new(n)
            });
            catch_unwind(AssertUnwindSafe(|| producer.write_chunk(4).fill(numbers))).unwrap_err();
            let mut out = Vec::new();
            assert_eq!(consumer.pop_into(&mut out, 9), last);
            assert!(out.into_iter().map(|n| *n).eq(0..last));
            assert_eq!(producer.write_chunk(9).fill((0..9).map(Box::new)), 4);
        }
    }
}

/// Gives what it holds, each `None` of it as an end after which it goes on, and a hint that has
/// nothing to do with that.
struct Odd {
    items: std::vec::IntoIter<Option<u32>>,
    hint: (usize, Option<usize>),
}

impl Iterator for Odd {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.items.next().flatten()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.hint
    }
}

#[test]
fn an_odd_iterator_is_asked_to_its_first_end() {
    let hints = [
        (0, None),
        (0, Some(0)),
        (9, Some(1)),
        (usize::MAX, Some(usize::MAX)),
    ];
    for start in 0..4 {
        for hint in hints {
            for end in 0..6 {
                let (mut producer, mut consumer) = ring_at(4, start);
                let mut items: Vec<_> = (0..9).map(Some).collect();
                items.insert(end, None);
                let mut odd = Odd {
                    items: items.into_iter(),
                    hint,
                };
                let fits = end.min(4);
                assert_eq!(producer.write_chunk(9).fill(&mut odd), fits);
                let mut out = Vec::new();
                assert_eq!(consumer.pop_into(&mut out, 9), fits);
                assert!(out.into_iter().eq(0..fits as u32));
                // Its end was taken only if there was a slot for what was not to come.
                let left = 10 - fits - usize::from(end < 4);
                assert_eq!(odd.items.len(), left);
            }
        }
    }
}

/// Pops an item for each that it gives, and tells when it is dropped.
struct Reaches<'a> {
    consumer: &'a std::cell::RefCell<Option<Consumer<u32>>>,
    popped: &'a std::cell::RefCell<Vec<u32>>,
    next: std::ops::Range<u32>,
}

impl Iterator for Reaches<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let item = self.next.next()?;
        let mut consumer = self.consumer.borrow_mut();
        if let Some(consumer) = &mut *consumer {
            assert_eq!(
                consumer.len() + self.popped.borrow().len(),
                3,
                "nothing is pushed yet"
            );
            self.popped.borrow_mut().extend(consumer.pop());
        }
        if item == 101 {
            *consumer = None;
        }
        Some(item)
    }
}

impl Drop for Reaches<'_> {
    fn drop(&mut self) {
        if let Some(consumer) = &*self.consumer.borrow() {
            let pushed = self.next.start - 100;
            assert_eq!(
                consumer.len() + self.popped.borrow().len(),
                3 + pushed as usize,
                "the push comes first"
            );
        }
    }
}

#[test]
fn an_iterator_may_reach_the_ring_that_it_fills() {
    for start in 0..8 {
        for (count, pushed) in [(1, 1), (2, 2), (9, 5)] {
            let (mut producer, consumer) = ring_at(8, start);
            assert_eq!(producer.push_slice(&[1, 2, 3]), 3);
            assert_eq!(consumer.peek(), Some(&1));
            let (consumer, popped) = (Some(consumer).into(), Vec::new().into());
            let items = Reaches {
                consumer: &consumer,
                popped: &popped,
                next: 100..100 + count,
            };
            assert_eq!(producer.write_chunk(9).fill(items), pushed);
            assert_eq!(producer.is_closed(), count > 1);
            assert!(popped.into_inner().into_iter().eq(1..3.min(count + 1)));
        }
    }
}

#[test]
fn an_iterator_whose_drop_panics_has_pushed() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the iterator's own panic");
        }
    }
    for start in 0..4 {
        let (mut producer, mut consumer) = ring_at(4, start);
        let bomb = Bomb;
        let items = (0..9).inspect(move |_| {
            let _ = &bomb;
        });
        catch_unwind(AssertUnwindSafe(|| producer.write_chunk(4).fill(items))).unwrap_err();
        assert!(consumer.read_chunk(4).into_iter().eq(0..4));
        assert_eq!(producer.room(), 4);
    }
}

#[test]
fn fill_has_slots_of_no_size_and_of_great_alignment() {
    #[derive(Clone, Copy)]
    #[repr(align(256))]
    struct Wide(u8);
    for start in 0..4 {
        let (mut producer, mut consumer) = ring_at::<Wide>(4, start);
        assert_eq!(producer.write_chunk(4).fill([1, 2, 3, 4, 5].map(Wide)), 4);
        let mut sum = 0;
        consumer.pop_batch(4, |wide| {
            assert_eq!((&raw const wide).addr() % 256, 0);
            sum = sum * 10 + u32::from(wide.0);
        });
        assert_eq!(sum, 1234);
        let (mut producer, mut consumer) = ring_at::<()>(4, start);
        assert_eq!(producer.write_chunk(9).fill([(); 9]), 4);
        assert_eq!(consumer.pop_batch(9, drop), 4);
    }
    // As long a stretch as there can be, in no memory.
    let slots = 1 << (usize::BITS - 1);
    let (mut producer, consumer) = ring::<()>(slots);
    assert_eq!(
        producer.write_chunk(usize::MAX).as_mut_slices().0.len(),
        slots
    );
    assert_eq!(producer.write_chunk(usize::MAX).fill([(); 3]), 3);
    assert_eq!(consumer.len(), 3);
}

#[test]
fn a_chunk_that_is_let_go_changes_nothing() {
    let ledger = Ledger::default();
    let (mut producer, mut consumer) = ring_at(4, usize::MAX - 1);
    let _ = producer.write_chunk(3);
    let mut values = 0..;
    drop(
        producer
            .write_chunk(3)
            .filled_with(|| ledger.payload(values.next().unwrap())),
    );
    assert_eq!(ledger.dropped(), 3);
    assert!(consumer.is_empty());
    assert_eq!(
        producer
            .write_chunk(4)
            .fill((0..4).map(|n| ledger.payload(n))),
        4
    );
    let _ = consumer.read_chunk(3);
    forget(consumer.read_chunk(0).into_iter());
    assert_eq!(consumer.len(), 4);
    let values: Vec<_> = consumer
        .read_chunk(4)
        .into_iter()
        .map(|p| p.value)
        .collect();
    assert_eq!(values, [0, 1, 2, 3]);
    drop((producer, consumer));
    ledger.assert_settled();
}

#[test]
fn an_iterator_pops_what_it_gave() {
    let ledger = Ledger::default();
    let (mut producer, mut consumer) = ring_at(4, usize::MAX - 1);
    producer
        .write_chunk(4)
        .fill((0..4).map(|n| ledger.payload(n)));
    let mut items = consumer.read_chunk(3).into_iter();
    assert_eq!(items.len(), 3);
    assert_eq!(items.next().unwrap().value, 0);
    assert_eq!(producer.room(), 0, "published once, at the end");
    drop(items);
    assert_eq!((producer.room(), consumer.len()), (1, 3));
    drop(consumer.read_chunk(3).into_iter());
    assert_eq!((producer.room(), consumer.len()), (1, 3));
    let mut items = consumer.read_chunk(9).into_iter();
    assert_eq!(items.next().unwrap().value, 1);
    assert_eq!(items.fold(0, |sum, p| sum + p.value), 2 + 3);
    assert!(consumer.is_empty());
    ledger.assert_settled();
}

#[test]
fn a_forgotten_iterator_leaks_and_repeats_nothing() {
    // The thread that leaves second finds the head past all that the iterator held.
    for (producer_first, more) in [(true, true), (true, false), (false, true), (false, false)] {
        let ledger = Ledger::default();
        let (mut producer, mut consumer) = ring_at(4, usize::MAX - 1);
        producer
            .write_chunk(3)
            .fill((0..3).map(|n| ledger.payload(n)));
        let mut items = consumer.read_chunk(2).into_iter();
        drop(items.next());
        forget(items);
        assert_eq!(consumer.len(), 1);
        if more {
            assert_eq!(consumer.pop().unwrap().value, 2);
            assert_eq!(producer.room(), 4);
        }
        drop_halves(producer, consumer, producer_first);
        assert_eq!(ledger.dropped(), 2, "one was leaked");
    }
}

#[test]
fn a_forgotten_iterator_over_a_full_ring_leaves_it_full() {
    let (mut producer, mut consumer) = ring_at(4, usize::MAX - 1);
    assert_eq!(producer.write_chunk(4).fill(0..4), 4);
    forget(consumer.read_chunk(4).into_iter());
    assert_eq!(consumer.pop(), None);
    assert_eq!(producer.room(), 0);
    drop(consumer);
    assert!(producer.is_closed());
    assert_eq!(producer.room(), 4);
}

#[test]
fn panics_lose_nothing() {
    let ledger = Ledger::default();
    let (mut producer, mut consumer) = ring_at(8, usize::MAX - 1);
    let bad = |n: u64| {
        assert!(n != 2, "not this one");
        ledger.payload(n)
    };
    // An iterator: what came before is pushed.
    let result = catch_unwind(AssertUnwindSafe(|| {
        producer.write_chunk(8).fill((0..8).map(bad))
    }));
    assert!(result.is_err());
    assert_eq!(consumer.len(), 2);
    // A maker: what came before is dropped.
    let mut n = 0;
    let made = ledger.made();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _ = producer.write_chunk(6).filled_with(|| {
            n += 1;
            bad(n - 1)
        });
    }));
    assert!(result.is_err());
    assert_eq!(ledger.made() - made, 2);
    assert_eq!(ledger.dropped(), 2);
    assert_eq!(consumer.len(), 2);
    // A fold: what it was given is popped.
    let result = catch_unwind(AssertUnwindSafe(|| {
        consumer
            .read_chunk(2)
            .into_iter()
            .for_each(|p: Payload| assert!(p.value > 0, "not the first"));
    }));
    assert!(result.is_err());
    assert_eq!((consumer.len(), producer.room()), (1, 7));
    consumer.read_chunk(1).commit_all();
    ledger.assert_settled();
}

#[test]
fn a_panicking_drop_commits_all_the_same() {
    // The bomb is in the first stretch, then in the second.
    for bomb in [0, 2] {
        let ledger = Ledger::default();
        let make = |n| {
            if n == bomb {
                ledger.bomb(n)
            } else {
                ledger.payload(n)
            }
        };
        let (mut producer, mut consumer) = ring_at(4, usize::MAX - 1);
        producer.write_chunk(4).fill((0..4).map(make));
        let result = catch_unwind(AssertUnwindSafe(|| consumer.read_chunk(4).commit(3)));
        assert!(result.is_err());
        assert_eq!(
            (ledger.dropped(), consumer.len(), producer.room()),
            (3, 1, 3)
        );
        assert_eq!(consumer.pop().unwrap().value, 3);

        let mut values = 0..;
        let chunk = producer
            .write_chunk(4)
            .filled_with(|| make(values.next().unwrap()));
        let result = catch_unwind(AssertUnwindSafe(|| chunk.commit(0)));
        assert!(result.is_err());
        assert!(consumer.is_empty());
        let mut values = 0..;
        let chunk = producer
            .write_chunk(4)
            .filled_with(|| make(values.next().unwrap()));
        assert!(catch_unwind(AssertUnwindSafe(|| drop(chunk))).is_err());
        ledger.assert_settled();
    }
}

#[test]
fn commit_past_the_end_panics() {
    let (mut producer, mut consumer) = ring::<u8>(4);
    let result = catch_unwind(AssertUnwindSafe(|| {
        producer.write_chunk(2).filled().commit(3)
    }));
    assert!(result.is_err());
    producer.push(1).unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| consumer.read_chunk(2).commit(2)));
    assert!(result.is_err());
    assert_eq!(consumer.pop(), Some(1));
    assert_eq!(consumer.pop(), None);
}

#[test]
fn items_of_no_size_come_in_chunks() {
    let (mut producer, mut consumer) = ring::<()>(8);
    assert_eq!(producer.write_chunk(5).fill(std::iter::repeat(())), 5);
    assert_eq!(consumer.read_chunk(8).as_slices().0.len(), 5);
    assert_eq!(consumer.read_chunk(3).into_iter().count(), 3);
    consumer.read_chunk(1).commit_all();
    assert_eq!(consumer.len(), 1);
}

#[test]
fn debug_tells_the_length() {
    let (mut producer, mut consumer) = ring::<u8>(4);
    assert_eq!(
        format!("{:?}", producer.write_chunk(2)),
        "WriteChunk { len: 2 }"
    );
    let filled = producer.write_chunk(2).filled();
    assert_eq!(format!("{filled:?}"), "FilledChunk { len: 2 }");
    filled.commit_all();
    let chunk = consumer.read_chunk(4);
    assert_eq!(format!("{chunk:?}"), "ReadChunk { len: 2 }");
    assert_eq!(
        format!("{:?}", chunk.into_iter()),
        "ReadChunkIter { len: 2 }"
    );
}

#[test]
fn threads_keep_the_order_by_chunks() {
    let rounds = if cfg!(miri) { 50 } else { 20_000 };
    let (mut producer, mut consumer) = ring_at::<u64>(16, usize::MAX - 7);
    let sender = thread::spawn(move || {
        let mut next = 0;
        while next < rounds {
            let mut chunk = producer.write_chunk(7).filled();
            let (first, second) = chunk.as_mut_slices();
            for (place, n) in first.iter_mut().chain(second).zip(next..) {
                *place = n;
            }
            let count = chunk.len().min((rounds - next) as usize);
            next += count as u64;
            chunk.commit(count);
            if count == 0 {
                thread::yield_now();
            }
        }
    });
    let mut expected = 0;
    while !consumer.is_finished() {
        let chunk = consumer.read_chunk(5);
        let (first, second) = chunk.as_slices();
        for n in first.iter().chain(second) {
            assert_eq!(*n, expected);
            expected += 1;
        }
        let count = chunk.len();
        chunk.commit_all();
        if count == 0 {
            thread::yield_now();
        }
    }
    assert_eq!(expected, rounds);
    sender.join().unwrap();
}
