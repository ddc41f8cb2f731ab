//! The segmented queue: edges, panics, closing, memory, kinds of items, threads.

use crate::support::{Counting, Ledger, drop_halves};
use rast_queue::spsc::segmented::{
    Consumer, DEFAULT_SEGMENT_SLOTS, MAX_SEGMENT_SLOTS, Producer, queue, queue_at, queue_in,
    try_queue_in,
};
use rast_queue::{Closed, TryPushError, alloc::Global};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::rc::Rc;
use std::thread;

fn assert_send<T: Send>() {}
fn assert_unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}

#[test]
fn halves_are_send_and_unwind_safe() {
    assert_send::<Producer<u8>>();
    assert_send::<Consumer<u8, Counting>>();
    assert_send::<Producer<std::cell::Cell<u8>>>();
    assert_unwind_safe::<Producer<u8>>();
    assert_unwind_safe::<Consumer<u8>>();
}

#[test]
fn segments_are_as_asked() {
    let (producer, consumer) = queue::<u8>();
    assert_eq!(producer.segment_slots(), DEFAULT_SEGMENT_SLOTS);
    assert_eq!(consumer.segment_slots(), DEFAULT_SEGMENT_SLOTS);
    assert!(try_queue_in::<u8, _>(MAX_SEGMENT_SLOTS, Global).is_ok());
    for bad in [0, MAX_SEGMENT_SLOTS + 1] {
        assert!(catch_unwind(|| queue_in::<u8, _>(bad, Global)).is_err());
    }
    assert!(catch_unwind(|| queue_in::<[u8; 1 << 10], _>(1 << 54, Global)).is_err());
}

#[test]
fn order_and_len_over_segments_and_the_wrap() {
    for slots in 1..5 {
        let (mut producer, mut consumer) = queue_at(slots, usize::MAX - 10);
        let mut oracle = VecDeque::new();
        for n in 0..100u32 {
            producer.push(n).unwrap();
            oracle.push_back(n);
            if n % 3 != 0 {
                assert_eq!(consumer.peek(), oracle.front());
                assert_eq!(consumer.pop(), oracle.pop_front());
            }
            assert_eq!(consumer.len(), oracle.len());
            assert_eq!(producer.len(), oracle.len());
            assert_eq!(consumer.is_empty(), oracle.is_empty());
            assert_eq!(producer.is_empty(), oracle.is_empty());
        }
        while let Some(n) = consumer.pop() {
            assert_eq!(Some(n), oracle.pop_front());
        }
        assert!(oracle.is_empty());
        assert_eq!(consumer.peek(), None);
    }
}

#[test]
fn batches_cross_segments() {
    let (mut producer, mut consumer) = queue_at(4, usize::MAX - 2);
    assert_eq!(producer.push_slice(&[0, 1, 2, 3, 4, 5]), 6);
    assert_eq!(producer.push_batch(&mut (6..17)), 11);
    assert_eq!(producer.push_slice(&[]), 0);
    assert_eq!(producer.push_batch(&mut std::iter::empty()), 0);
    let mut seen = Vec::new();
    assert_eq!(
        consumer.pop_batch(0, |_| panic!("nothing was asked for")),
        0
    );
    assert_eq!(consumer.pop_batch(7, |n| seen.push(n)), 7);
    assert_eq!(consumer.pop_into(&mut seen, 2), 2);
    let mut out = [0; 3];
    assert_eq!(consumer.pop_slice(&mut out), 3);
    assert_eq!(out, [9, 10, 11]);
    assert_eq!(consumer.pop_into(&mut seen, usize::MAX), 5);
    assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 14, 15, 16]);
    assert_eq!(consumer.pop_slice(&mut out), 0);
}

/// Gives what it holds, each `None` of it as an end after which it goes on, and a hint that is too
/// much.
struct Odd(std::vec::IntoIter<Option<u32>>);

impl Iterator for Odd {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.0.next().flatten()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

#[test]
fn an_odd_iterator_is_asked_to_its_first_end() {
    for end in 0..=9 {
        let (mut producer, mut consumer) = queue_at(4, usize::MAX);
        let mut items: Vec<_> = (0..9).map(Some).collect();
        items.insert(end, None);
        let mut odd = Odd(items.into_iter());
        assert_eq!(producer.push_batch(&mut odd), end);
        assert_eq!(odd.0.len(), 9 - end);
        let mut out = Vec::new();
        assert_eq!(consumer.pop_into(&mut out, 99), end);
        assert!(out.into_iter().eq(0..end as u32));
    }
}

#[test]
fn an_iterator_may_reach_the_queue_that_it_is_pushed_to() {
    for slots in 1..4 {
        for ahead in [0, 1, 5] {
            let alloc = Counting::default();
            let (mut producer, mut consumer) = queue_in(slots, alloc.clone());
            let made = |n: i32| Box::new(n);
            assert_eq!(
                producer.push_batch(&mut (0..ahead).map(made)),
                ahead as usize
            );
            // Segments are left, kept as the spare and freed while the producer fills another.
            let mut popped = Vec::new();
            let mut items = (ahead..ahead + 20).map(|n| {
                popped.extend(consumer.pop());
                made(n)
            });
            assert_eq!(producer.push_batch(&mut items), 20);
            consumer.pop_into(&mut popped, usize::MAX);
            assert!(popped.into_iter().map(|n| *n).eq(0..ahead + 20));
            drop((producer, consumer));
            assert_eq!(alloc.blocks(), 0);
        }
    }
}

/// An `Extend` that takes two and stops.
struct TakesTwo(Vec<u32>);

impl Extend<u32> for TakesTwo {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, items: I) {
        self.0.extend(items.into_iter().take(2));
    }
}

#[test]
fn pop_into_leaves_what_is_not_taken() {
    let (mut producer, mut consumer) = queue_at(2, 0);
    producer.push_slice(&[1, 2, 3]);
    let mut two = TakesTwo(Vec::new());
    assert_eq!(consumer.pop_into(&mut two, 8), 2);
    assert_eq!(two.0, [1, 2]);
    assert_eq!(consumer.pop(), Some(3));
}

#[test]
fn memory_is_recycled_and_given_back() {
    let alloc = Counting::default();
    let (mut producer, mut consumer) = queue_in(8, alloc.clone());
    assert_eq!(alloc.blocks(), 2, "the header and a segment");
    for n in 0..10_000 {
        producer.push(n.to_string()).unwrap();
        assert_eq!(consumer.pop().unwrap(), n.to_string());
    }
    assert!(alloc.blocks() <= 4);
    let before = alloc.allocations();
    for n in 0..10_000 {
        producer.push(n.to_string()).unwrap();
        assert_eq!(consumer.pop().unwrap(), n.to_string());
    }
    assert_eq!(
        alloc.allocations(),
        before,
        "who keeps up allocates nothing"
    );

    producer.push_batch(&mut (0..800).map(|n| n.to_string()));
    assert!((100..=104).contains(&alloc.blocks()));
    consumer.pop_batch(usize::MAX, drop);
    assert!(
        alloc.blocks() <= 4,
        "what fell behind gives back as it catches up"
    );
    producer.push_batch(&mut (0..80).map(|n| n.to_string()));
    drop((producer, consumer));
    assert_eq!((alloc.bytes(), alloc.blocks()), (0, 0));
}

#[test]
fn a_batch_takes_no_segment_in_advance() {
    let alloc = Counting::default();
    let (mut producer, _consumer) = queue_in(4, alloc.clone());
    producer.push_batch(&mut (0..4));
    producer.push_batch(&mut std::iter::empty());
    assert_eq!(alloc.blocks(), 2);
    producer.push_slice(&[4]);
    assert_eq!(alloc.blocks(), 3);
}

/// The program ends with the size of a segment, not with that of an item; in a process of its own.
#[test]
fn lack_of_memory_tells_how_much() {
    const CHILD: &str = "RAST_TEST_LACK_OF_MEMORY";
    if std::env::var_os(CHILD).is_some() {
        let alloc = Counting::default();
        alloc.set_refuses(true);
        let _ = queue_in::<u64, _>(1000, alloc);
        unreachable!("there is no memory");
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "segmented::lack_of_memory_tells_how_much"])
        .arg("--nocapture")
        .env(CHILD, "1")
        .output()
        .unwrap();
    let told = String::from_utf8(child.stderr).unwrap();
    let bytes: usize = told
        .split_whitespace()
        .find_map(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("no number in {told:?}"));
    assert!(bytes >= 8000, "{told}");
}

#[test]
fn lack_of_memory_hands_the_item_back() {
    let alloc = Counting::default();
    alloc.set_refuses(true);
    assert!(try_queue_in::<u8, _>(8, alloc.clone()).is_err());
    alloc.set_refuses(false);
    let ledger = Ledger::default();
    let (mut producer, mut consumer) = queue_in(2, alloc.clone());
    alloc.set_refuses(true);
    for n in 0..2 {
        assert!(producer.try_push(ledger.payload(n)).is_ok());
    }
    for _ in 0..3 {
        match producer.try_push(ledger.payload(2)) {
            Err(TryPushError::NoMemory(payload)) => assert_eq!(payload.value, 2),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(producer.len(), 2);
    alloc.set_refuses(false);
    assert!(producer.try_push(ledger.payload(2)).is_ok());
    alloc.set_refuses(true);
    let values: Vec<_> = std::iter::from_fn(|| consumer.pop())
        .map(|p| p.value)
        .collect();
    assert_eq!(values, [0, 1, 2]);
    // The spare serves, though the allocator does not.
    assert!(producer.try_push(ledger.payload(3)).is_ok());
    assert!(producer.try_push(ledger.payload(4)).is_ok());
    drop((consumer, producer));
    ledger.assert_settled();
    assert_eq!(alloc.blocks(), 0);
}

#[test]
fn nothing_is_lost_on_close() {
    let (mut producer, mut consumer) = queue_at(2, 0);
    assert!(!producer.is_closed() && !consumer.is_closed());
    producer.push_slice(&[1, 2, 3]);
    drop(producer);
    assert!(consumer.is_closed() && !consumer.is_finished());
    for n in 1..4 {
        assert_eq!(consumer.pop(), Some(n));
    }
    assert!(consumer.is_finished());

    let ledger = Ledger::default();
    let (mut producer, consumer) = queue_at(2, 0);
    for n in 0..3 {
        producer.push(ledger.payload(n)).ok().unwrap();
    }
    drop(consumer);
    assert!(producer.is_closed());
    let Err(Closed(back)) = producer.push(ledger.payload(3)) else {
        panic!("the consumer is gone")
    };
    assert_eq!(back.value, 3);
    assert!(matches!(
        producer.try_push(back),
        Err(TryPushError::Closed(_))
    ));
    let mut items = (4..6).map(|n| ledger.payload(n));
    assert_eq!(producer.push_batch(&mut items), 0);
    assert_eq!(items.count(), 2, "none was asked for");
    drop(producer);
    ledger.assert_settled();

    let (mut producer, consumer) = queue();
    drop(consumer);
    assert_eq!(producer.push_slice(&[1]), 0);
}

#[test]
fn panics_lose_nothing() {
    let ledger = Ledger::default();
    let (mut producer, mut consumer) = queue_at(2, 0);
    let mut items = (0..8).map(|n| {
        assert!(n != 5, "no more");
        ledger.payload(n)
    });
    let result = catch_unwind(AssertUnwindSafe(|| producer.push_batch(&mut items)));
    assert!(result.is_err());
    assert_eq!(consumer.len(), 5);
    let mut values = Vec::new();
    let result = catch_unwind(AssertUnwindSafe(|| {
        consumer.pop_batch(8, |payload| {
            assert!(payload.value != 2, "not this one");
            values.push(payload.value);
        })
    }));
    assert!(result.is_err());
    assert_eq!((consumer.len(), producer.len()), (2, 2));
    consumer.pop_batch(8, |payload| values.push(payload.value));
    assert_eq!(values, [0, 1, 3, 4]);
    ledger.assert_settled();
}

#[test]
fn a_panicking_drop_drops_the_rest_and_frees() {
    for producer_first in [true, false] {
        for bomb in 1..6 {
            let (ledger, alloc) = (Ledger::default(), Counting::default());
            let (mut producer, mut consumer) = queue_in(2, alloc.clone());
            for n in 0..6 {
                let payload = if n == bomb {
                    ledger.bomb(n)
                } else {
                    ledger.payload(n)
                };
                producer.push(payload).ok().unwrap();
            }
            drop(consumer.pop());
            let result = catch_unwind(AssertUnwindSafe(|| {
                drop_halves(producer, consumer, producer_first);
            }));
            assert!(result.is_err());
            ledger.assert_settled();
            assert_eq!((alloc.bytes(), alloc.blocks()), (0, 0));
        }
    }
}

#[test]
fn items_of_no_size_and_of_great_alignment() {
    let (mut producer, mut consumer) = queue_at(4, usize::MAX);
    assert_eq!(
        producer.push_batch(&mut std::iter::repeat_n((), 1000)),
        1000
    );
    assert_eq!(consumer.pop_batch(usize::MAX, |()| {}), 1000);
    assert!(consumer.pop().is_none());

    #[repr(align(512))]
    struct Wide(u8);
    let (mut producer, mut consumer) = queue_at(2, 0);
    for n in 0..5 {
        producer.push(Wide(n)).ok().unwrap();
    }
    for n in 0..5 {
        let wide = consumer.peek().unwrap();
        assert_eq!(std::ptr::from_ref(wide).addr() % 512, 0);
        assert_eq!(consumer.pop().unwrap().0, n);
    }
}

#[test]
fn items_that_stay_on_their_thread() {
    let (mut producer, mut consumer) = queue_at(1, 0);
    let item = Rc::new(1);
    for _ in 0..3 {
        producer.push(Rc::clone(&item)).unwrap();
    }
    drop(consumer.pop());
    drop((producer, consumer));
    assert_eq!(Rc::strong_count(&item), 1);
}

#[test]
fn debug_asks_nothing_of_the_item() {
    struct Plain;
    let (mut producer, consumer) = queue();
    producer.push(Plain).unwrap();
    assert_eq!(
        format!("{producer:?} {consumer:?}"),
        "Producer { len: 1, is_closed: false } Consumer { len: 1, is_closed: false }"
    );
}

/// Sends `count` numbers through a queue, singly and in batches, and checks their order and the
/// memory at the end.
fn stream(slots: usize, count: u64, batch: usize) {
    let alloc = Counting::default();
    let (mut producer, mut consumer) = queue_in(slots, alloc.clone());
    let sender = thread::spawn(move || {
        let mut numbers = 0..count;
        while !numbers.is_empty() {
            if batch == 1 {
                producer.push(numbers.next().unwrap()).unwrap();
            } else {
                producer.push_batch(&mut numbers.by_ref().take(batch));
            }
        }
    });
    let mut expected = 0;
    while !consumer.is_finished() {
        let got = consumer.pop_batch(batch, |n| {
            assert_eq!(n, expected);
            expected += 1;
        });
        if got == 0 {
            thread::yield_now();
        }
    }
    assert_eq!(expected, count);
    sender.join().unwrap();
    drop(consumer);
    assert_eq!((alloc.bytes(), alloc.blocks()), (0, 0));
}

#[test]
fn threads_keep_the_order() {
    let count = if cfg!(miri) { 100 } else { 50_000 };
    for (slots, batch) in [(1, 1), (2, 1), (64, 1), (64, 16), (4, 7), (3, 64)] {
        stream(slots, count, batch);
    }
}

#[test]
fn halves_move_between_threads() {
    let (mut producer, mut consumer) = queue_at(3, usize::MAX - 4);
    for round in 0..20u64 {
        producer = thread::spawn(move || {
            producer.push_slice(&[2 * round, 2 * round + 1]);
            producer
        })
        .join()
        .unwrap();
        consumer = thread::spawn(move || {
            assert_eq!(consumer.pop(), Some(2 * round));
            assert_eq!(consumer.pop(), Some(2 * round + 1));
            consumer
        })
        .join()
        .unwrap();
    }
}
