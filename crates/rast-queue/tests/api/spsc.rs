//! The ring: edges, panics, closing, kinds of items, threads.

use crate::support::{Counting, Ledger, drop_halves};
use rast_queue::spsc::{Consumer, Producer, ring, ring_at, ring_in, try_ring_in};
use rast_queue::{Full, alloc::Global};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::rc::Rc;
use std::thread;

fn assert_send<T: Send>() {}
fn assert_unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}

#[test]
fn a_producer_counts_what_is_queued() {
    for capacity in [1, 2, 8] {
        let (mut producer, mut consumer) = ring(capacity);
        assert!(producer.is_empty());
        assert_eq!(producer.push_batch(0..100), capacity);
        assert_eq!((producer.len(), producer.is_empty()), (capacity, false));
        consumer.pop();
        assert_eq!(producer.len(), capacity - 1);
        // What is given away and does not fit is dropped; what is lent is kept.
        let mut items = vec![7, 8].into_iter();
        assert_eq!(producer.push_batch(&mut items), 1);
        assert_eq!(items.next(), Some(8));
    }
}

#[test]
fn halves_are_send_and_unwind_safe() {
    assert_send::<Producer<u8>>();
    assert_send::<Consumer<u8, Counting>>();
    // A cell is Send and not Sync: items are moved, never shared.
    assert_send::<Producer<std::cell::Cell<u8>>>();
    assert_unwind_safe::<Producer<u8>>();
    assert_unwind_safe::<Consumer<u8>>();
}

#[test]
fn capacity_is_rounded_up() {
    for (asked, given) in [(0, 1), (1, 1), (2, 2), (3, 4), (1000, 1024)] {
        let (producer, consumer) = ring::<u8>(asked);
        assert_eq!((producer.capacity(), consumer.capacity()), (given, given));
    }
}

#[test]
#[should_panic(expected = "capacity overflows")]
fn capacity_past_usize_panics() {
    let _ = ring::<u8>(usize::MAX);
}

#[test]
#[should_panic(expected = "overflows isize")]
fn size_past_isize_panics() {
    let _ = ring::<u64>(1 << (usize::BITS - 2));
}

#[test]
fn full_gives_the_item_back() {
    let (mut producer, mut consumer) = ring(2);
    assert_eq!(producer.push("a"), Ok(()));
    assert_eq!(producer.push("b"), Ok(()));
    assert!(producer.is_full());
    assert_eq!(producer.push("c"), Err(Full("c")));
    assert_eq!(consumer.pop(), Some("a"));
    assert_eq!(producer.push("c"), Ok(()));
    assert_eq!(consumer.pop(), Some("b"));
    assert_eq!(consumer.pop(), Some("c"));
    assert_eq!(consumer.pop(), None);
}

#[test]
fn room_and_len_agree_over_the_wrap() {
    for start in [0, 5, usize::MAX - 3, usize::MAX - 1, usize::MAX] {
        let (mut producer, mut consumer) = ring_at(4, start);
        let mut expected = VecDeque::new();
        for n in 0..40u32 {
            let _ = producer.push(n).map(|()| expected.push_back(n));
            if n % 3 != 0 {
                assert_eq!(consumer.peek(), expected.front());
                assert_eq!(consumer.pop(), expected.pop_front());
            }
            assert_eq!(consumer.len(), expected.len());
            assert_eq!(consumer.is_empty(), expected.is_empty());
            assert_eq!(producer.room(), 4 - expected.len());
            for count in 0..6 {
                assert_eq!(producer.has_room(count), 4 - expected.len() >= count);
            }
        }
    }
}

#[test]
fn push_batch_takes_what_fits_and_no_more() {
    let (mut producer, mut consumer) = ring_at(4, usize::MAX);
    let mut numbers = 0..10;
    assert_eq!(producer.push_batch(&mut numbers), 4);
    assert_eq!(producer.push_batch(&mut numbers), 0);
    assert_eq!(numbers, 4..10);
    assert_eq!(consumer.pop(), Some(0));
    assert_eq!(producer.push_batch(&mut numbers), 1);
    assert_eq!(numbers, 5..10);
    assert_eq!(producer.push_batch(&mut std::iter::empty()), 0);
    assert_eq!(consumer.pop_batch(10, |_| {}), 4);
    // A hint that says nothing, through a trait object.
    let mut odd = (0..9).filter(|n| n % 2 == 1);
    let odd: &mut dyn Iterator<Item = i32> = &mut odd;
    assert_eq!(producer.push_batch(odd), 4);
}

#[test]
fn slices_go_in_and_out() {
    let (mut producer, mut consumer) = ring_at(8, usize::MAX - 2);
    assert_eq!(producer.push_slice(&[1, 2, 3, 4, 5]), 5);
    let mut out = [0; 3];
    assert_eq!(consumer.pop_slice(&mut out), 3);
    assert_eq!(out, [1, 2, 3]);
    assert_eq!(producer.push_slice(&[6, 7, 8, 9, 10, 11, 12]), 6);
    assert_eq!(producer.push_slice(&[99]), 0);
    let mut rest = vec![0];
    assert_eq!(consumer.pop_into(&mut rest, usize::MAX), 8);
    assert_eq!(rest, [0, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(consumer.pop_slice(&mut out), 0);
    assert_eq!(consumer.pop_into(&mut rest, 5), 0);
}

#[test]
fn pop_batch_is_bounded() {
    let (mut producer, mut consumer) = ring(8);
    producer.push_slice(&[1, 2, 3, 4]);
    assert_eq!(
        consumer.pop_batch(0, |_| panic!("nothing was asked for")),
        0
    );
    let mut seen = Vec::new();
    assert_eq!(consumer.pop_batch(3, |n| seen.push(n)), 3);
    assert_eq!(consumer.pop_batch(3, |n| seen.push(n)), 1);
    assert_eq!(seen, [1, 2, 3, 4]);
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
    let (mut producer, mut consumer) = ring(8);
    producer.push_slice(&[1, 2, 3]);
    let mut two = TakesTwo(Vec::new());
    assert_eq!(consumer.pop_into(&mut two, 8), 2);
    assert_eq!(two.0, [1, 2]);
    assert_eq!(producer.room(), 7);
    assert_eq!(consumer.pop(), Some(3));
}

#[test]
fn a_panicking_iterator_loses_nothing() {
    let ledger = Ledger::default();
    let (mut producer, mut consumer) = ring(8);
    let made = ledger.clone();
    let mut items = (0..8).map(move |n| {
        if n == 3 {
            panic!("no more")
        } else {
            made.payload(n)
        }
    });
    let result = catch_unwind(AssertUnwindSafe(|| producer.push_batch(&mut items)));
    assert!(result.is_err());
    assert_eq!(consumer.len(), 3, "what came before the panic is published");
    assert_eq!(producer.push(ledger.payload(3)).ok(), Some(()));
    let mut values = Vec::new();
    consumer.pop_batch(8, |payload| values.push(payload.value));
    assert_eq!(values, [0, 1, 2, 3]);
    ledger.assert_settled();
}

#[test]
fn a_panicking_closure_loses_nothing() {
    let ledger = Ledger::default();
    let (mut producer, mut consumer) = ring(8);
    let _ = producer.push_batch(&mut (0..5).map(|n| ledger.payload(n)));
    let mut values = Vec::new();
    let result = catch_unwind(AssertUnwindSafe(|| {
        consumer.pop_batch(8, |payload| {
            assert!(payload.value != 2, "not this one");
            values.push(payload.value);
        })
    }));
    assert!(result.is_err());
    assert_eq!(ledger.dropped(), 3);
    assert_eq!(producer.room(), 6, "what was given out is published");
    consumer.pop_batch(8, |payload| values.push(payload.value));
    assert_eq!(values, [0, 1, 3, 4]);
    ledger.assert_settled();
}

#[test]
fn a_panicking_drop_drops_the_rest_and_frees() {
    for producer_first in [true, false] {
        let (ledger, alloc) = (Ledger::default(), Counting::default());
        let (mut producer, mut consumer) = ring_in(4, alloc.clone());
        producer.push(ledger.payload(0)).ok().unwrap();
        producer.push(ledger.bomb(1)).ok().unwrap();
        producer.push(ledger.payload(2)).ok().unwrap();
        drop(consumer.pop());
        let result = catch_unwind(AssertUnwindSafe(|| {
            drop_halves(producer, consumer, producer_first);
        }));
        assert!(result.is_err());
        ledger.assert_settled();
        assert_eq!((alloc.bytes(), alloc.blocks()), (0, 0));
    }
}

#[test]
fn nothing_is_lost_on_close() {
    let (mut producer, mut consumer) = ring(4);
    assert!(!producer.is_closed() && !consumer.is_closed());
    producer.push_slice(&[1, 2]);
    drop(producer);
    assert!(consumer.is_closed() && !consumer.is_finished());
    assert_eq!(consumer.pop(), Some(1));
    assert_eq!(consumer.pop(), Some(2));
    assert!(consumer.is_finished());

    let ledger = Ledger::default();
    let (mut producer, consumer) = ring(2);
    drop(consumer);
    assert!(producer.is_closed());
    assert!(producer.push(ledger.payload(1)).is_ok());
    assert!(producer.push(ledger.payload(2)).is_ok());
    let back = producer.push(ledger.payload(3)).unwrap_err();
    assert_eq!(back.into_inner().value, 3);
    drop(producer);
    ledger.assert_settled();
}

#[test]
fn all_memory_is_one_block_of_the_allocator() {
    let alloc = Counting::default();
    let (mut producer, mut consumer) = ring_in(100, alloc.clone());
    assert!(alloc.bytes() >= 128 * size_of::<String>());
    for round in 0..1000 {
        let _ = producer.push_batch(&mut (0..round % 128).map(|n| n.to_string()));
        consumer.pop_batch(usize::MAX, drop);
    }
    assert_eq!((alloc.blocks(), alloc.allocations()), (1, 1));
    drop((producer, consumer));
    assert_eq!(alloc.bytes(), 0);

    alloc.set_refuses(true);
    assert!(try_ring_in::<u8, _>(8, alloc.clone()).is_err());
    alloc.set_refuses(false);
    assert!(try_ring_in::<u8, _>(8, alloc).is_ok());
    assert!(try_ring_in::<u8, _>(8, Global).is_ok());
}

#[test]
fn items_of_no_size() {
    let (mut producer, mut consumer) = ring::<()>(1 << (usize::BITS - 1));
    assert_eq!(
        producer.push_batch(&mut std::iter::repeat_n((), 1000)),
        1000
    );
    assert_eq!(consumer.pop_batch(usize::MAX, |()| {}), 1000);
    assert!(consumer.pop().is_none());
    assert_eq!(producer.room(), 1 << (usize::BITS - 1));
}

#[test]
fn items_of_great_alignment() {
    #[repr(align(512))]
    struct Wide(u8);
    let (mut producer, mut consumer) = ring(4);
    for n in 0..4 {
        producer.push(Wide(n)).ok().unwrap();
    }
    for n in 0..4 {
        let wide = consumer.peek().unwrap();
        assert_eq!(std::ptr::from_ref(wide).addr() % 512, 0);
        assert_eq!(consumer.pop().unwrap().0, n);
    }
}

#[test]
fn items_that_stay_on_their_thread() {
    let (mut producer, mut consumer) = ring(4);
    let item = Rc::new(1);
    producer.push(Rc::clone(&item)).unwrap();
    producer.push(Rc::clone(&item)).unwrap();
    drop(consumer.pop());
    drop((producer, consumer));
    assert_eq!(Rc::strong_count(&item), 1);
}

#[test]
fn debug_asks_nothing_of_the_item() {
    struct Plain;
    let (mut producer, consumer) = ring(2);
    producer.push(Plain).unwrap();
    let text = format!("{producer:?} {consumer:?}");
    assert_eq!(
        text,
        "Producer { capacity: 2, room: 1, is_closed: false } Consumer { capacity: 2, len: 1, is_closed: false }"
    );
    assert_eq!(
        format!("{:?} {}", Full(Plain), Full(Plain)),
        "Full(..) there is no room for the item"
    );
}

/// Sends `count` numbers through a ring, singly and in batches, and checks their order.
fn stream(capacity: usize, count: u64, batch: usize) {
    let (mut producer, mut consumer) = ring_at(capacity, usize::MAX - 10);
    let sender = thread::spawn(move || {
        let mut numbers = 0..count;
        while !numbers.is_empty() {
            let sent = if batch == 1 {
                let fits = producer.has_room(1);
                if fits {
                    producer.push(numbers.next().unwrap()).unwrap();
                }
                usize::from(fits)
            } else {
                producer.push_batch(&mut numbers.by_ref().take(batch))
            };
            if sent == 0 {
                thread::yield_now();
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
}

#[test]
fn threads_keep_the_order() {
    // By laps, not by items: a small ring changes threads at every lap, which takes a busy machine
    // a moment.
    let laps = if cfg!(miri) { 20 } else { 3000 };
    for (capacity, batch) in [(1, 1), (2, 1), (64, 1), (64, 16), (4, 7)] {
        stream(capacity, laps * capacity as u64, batch);
    }
}

#[test]
fn halves_move_between_threads() {
    let (mut producer, mut consumer) = ring(4);
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
