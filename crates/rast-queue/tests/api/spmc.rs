//! The queue for many consumers: edges, panics, closing, kinds of items, memory, threads.

use crate::support::{Counting, Ledger, Payload, drop_halves};
use rast_queue::spmc::{
    Consumer, Producer, default_block_slots, queue, queue_in, try_with_block_slots_in,
    with_block_slots, with_block_slots_in,
};
use rast_queue::{TryPushError, alloc::Global};
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

fn assert_send<T: Send>() {}
fn assert_sync<T: Sync>() {}
fn assert_unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}

#[test]
fn halves_are_send_and_unwind_safe() {
    assert_send::<Producer<u8>>();
    assert_send::<Consumer<u8, Counting>>();
    // A cell is Send and not Sync: items are moved, never shared.
    assert_send::<Producer<std::cell::Cell<u8>>>();
    assert_send::<Consumer<std::cell::Cell<u8>>>();
    assert_sync::<Consumer<std::cell::Cell<u8>>>();
    assert_unwind_safe::<Producer<u8>>();
    assert_unwind_safe::<Consumer<u8>>();
}

#[test]
fn blocks_are_of_a_sensible_size() {
    assert_eq!(default_block_slots::<u64>(), 1024);
    assert_eq!(default_block_slots::<[u64; 8]>(), 512);
    assert_eq!(default_block_slots::<[u64; 1000]>(), 32);
    assert_eq!(default_block_slots::<()>(), 1024);
    let (producer, consumer) = with_block_slots::<u8>(7);
    assert_eq!((producer.block_slots(), consumer.block_slots()), (7, 7));
}

#[test]
#[should_panic(expected = "0 slots per block")]
fn no_slots_panic() {
    let _ = with_block_slots::<u8>(0);
}

#[test]
#[should_panic(expected = "slots per block")]
fn too_many_slots_panic() {
    let _ = with_block_slots::<u8>((1 << 20) + 1);
}

#[test]
fn items_come_in_order_over_blocks() {
    for slots in [1, 2, 3, 64] {
        let (mut producer, mut consumer) = with_block_slots(slots);
        let (mut next, mut expected) = (0, 0);
        for round in 0..50 {
            for _ in 0..round % 7 {
                producer.push(next);
                next += 1;
            }
            while expected + 3 < next {
                assert_eq!(consumer.pop(), Some(expected));
                expected += 1;
            }
            assert_eq!(consumer.len(), next - expected);
            assert_eq!(producer.len(), next - expected);
        }
        while let Some(n) = consumer.pop() {
            assert_eq!(n, expected);
            expected += 1;
        }
        assert_eq!(expected, next);
        assert!(consumer.is_empty() && producer.is_empty());
    }
}

#[test]
fn pending_items_are_seen_at_once_or_not_at_all() {
    for slots in [1, 2, 3, 5, 8] {
        let (mut producer, mut consumer) = with_block_slots(slots);
        assert!(!producer.publish(), "nothing is pending");
        for n in 0..8 {
            producer.push_pending(n);
            assert_eq!(consumer.pop(), None);
            assert_eq!((consumer.len(), producer.len()), (0, 0));
            assert_eq!(producer.pending(), n + 1);
        }
        assert!(producer.publish(), "it was empty");
        assert_eq!((consumer.len(), producer.pending()), (8, 0));
        producer.push_pending(8);
        assert!(!producer.publish(), "older items stand");
        producer.push_pending(9);
        producer.push(10);
        assert_eq!(producer.pending(), 0, "a push publishes all");
        let mut seen = Vec::new();
        assert_eq!(consumer.pop_into(&mut seen, usize::MAX), 11);
        assert_eq!(seen, (0..11).collect::<Vec<_>>());
        producer.push_pending(11);
        assert!(producer.publish(), "all older ones are taken");
    }
}

/// What was pushed without a publication of its own has told no thread, so the next publication
/// tells of it too.
#[test]
fn a_publication_tells_of_the_pushes_before_it() {
    let (mut producer, mut consumer) = with_block_slots(2);
    assert_eq!(consumer.pop(), None, "and it sleeps");
    producer.push(0);
    producer.push_pending(1);
    assert!(producer.publish(), "nobody was told of the first");
    producer.push(2);
    assert!(!producer.publish(), "older items stand, of which it told");
    assert_eq!(consumer.pop_batch(3, drop), 3);
    assert!(!producer.publish(), "nothing is new");
    producer.push_batch([3, 4]);
    assert!(producer.publish(), "it became non-empty by the batch");
}

#[test]
fn pending_items_are_published_by_the_end_of_the_producer() {
    let (mut producer, mut consumer) = with_block_slots(2);
    for n in 0..5 {
        producer.push_pending(n);
    }
    drop(producer);
    assert!(consumer.is_closed() && !consumer.is_finished());
    assert_eq!(consumer.pop_batch(9, |_| {}), 5);
    assert!(consumer.is_finished());
}

#[test]
fn batches_go_in_and_out() {
    let (mut producer, mut consumer) = with_block_slots(4);
    assert_eq!(producer.push_batch(0..0), 0);
    assert_eq!(producer.push_batch(0..10), 10);
    producer.push_slice(&[10, 11, 12]);
    producer.push_slice(&[]);
    producer.extend([13]);
    let mut out = [0; 3];
    assert_eq!(consumer.pop_slice(&mut out), 3);
    assert_eq!(out, [0, 1, 2]);
    let mut rest = vec![99];
    assert_eq!(consumer.pop_into(&mut rest, 0), 0);
    assert_eq!(consumer.pop_into(&mut rest, 2), 2);
    assert_eq!(
        consumer.pop_batch(0, |_| panic!("nothing was asked for")),
        0
    );
    assert_eq!(consumer.pop_batch(2, |n| rest.push(n)), 2);
    assert_eq!(consumer.pop_into(&mut rest, usize::MAX), 7);
    assert_eq!(rest, [99, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
    assert_eq!(consumer.pop_slice(&mut out), 0);
    assert_eq!(consumer.pop_into(&mut rest, 5), 0);
}

#[test]
fn a_batch_pops_no_more_than_stood_at_its_start() {
    let (mut producer, mut consumer) = with_block_slots(4);
    producer.push_batch(0..3);
    let count = consumer.pop_batch(usize::MAX, |n| producer.push(n + 3));
    assert_eq!(count, 3);
    assert_eq!(consumer.len(), 3);
}

#[test]
fn a_panicking_iterator_loses_nothing() {
    let ledger = Ledger::default();
    let (mut producer, mut consumer) = with_block_slots(2);
    let items = (0..8).map(|n| {
        assert!(n != 5, "no more");
        ledger.payload(n)
    });
    assert!(catch_unwind(AssertUnwindSafe(|| producer.push_batch(items))).is_err());
    assert_eq!(consumer.len(), 5, "what came before the panic is published");
    producer.push(ledger.payload(5));
    let mut values = Vec::new();
    consumer.pop_batch(8, |payload| values.push(payload.value));
    assert_eq!(values, [0, 1, 2, 3, 4, 5]);
    ledger.assert_settled();
}

#[test]
fn a_panicking_closure_loses_nothing() {
    let ledger = Ledger::default();
    let (mut producer, mut first) = with_block_slots(2);
    let mut second = first.clone();
    producer.push_batch((0..5).map(|n| ledger.payload(n)));
    let mut values = Vec::new();
    let result = catch_unwind(AssertUnwindSafe(|| {
        first.pop_batch(8, |payload| {
            assert!(payload.value != 2, "not this one");
            values.push(payload.value);
        })
    }));
    assert!(result.is_err());
    drop(first);
    assert_eq!(ledger.dropped(), 3);
    second.pop_batch(8, |payload| values.push(payload.value));
    assert_eq!(values, [0, 1, 3, 4], "the rest is anybody's");
    ledger.assert_settled();
}

#[test]
fn a_panicking_drop_drops_the_rest_and_frees() {
    for producer_first in [true, false] {
        let (ledger, alloc) = (Ledger::default(), Counting::default());
        let (mut producer, mut consumer) = with_block_slots_in(2, alloc.clone());
        for n in 0..3 {
            producer.push(ledger.payload(n));
        }
        producer.push(ledger.bomb(3));
        for n in 4..8 {
            producer.push(ledger.payload(n));
        }
        producer.reserve(10);
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
fn each_side_learns_that_the_other_is_gone() {
    let (mut producer, first) = queue();
    let second = producer.consumer();
    assert_eq!(producer.consumers(), 2);
    assert!(!producer.is_closed() && !first.is_closed());
    drop(first);
    assert!(!producer.is_closed());
    drop(second);
    assert!(producer.is_closed());
    producer.push(1);
    let mut third = producer.consumer();
    assert!(!producer.is_closed(), "a new consumer opens it again");
    assert_eq!(third.pop(), Some(1));
    drop(producer);
    assert!(third.is_finished());
    assert_eq!(third.pop(), None);
    assert!(third.clone().is_finished());
}

#[test]
fn lack_of_memory_gives_the_item_back() {
    let alloc = Counting::default();
    let (mut producer, mut consumer) = with_block_slots_in(2, alloc.clone());
    alloc.set_refuses(true);
    assert_eq!(producer.try_push(0), Ok(()));
    assert_eq!(producer.try_push_pending(1), Ok(()));
    assert_eq!(producer.try_push(2), Err(TryPushError::NoMemory(2)));
    assert_eq!(producer.try_push_pending(2).unwrap_err().into_inner(), 2);
    assert_eq!(
        producer.pending(),
        1,
        "a push that was refused publishes nothing"
    );
    assert!(producer.try_reserve(1).is_err());
    assert!(producer.try_reserve(0).is_ok());
    alloc.set_refuses(false);
    assert!(producer.try_reserve(5).is_ok());
    alloc.set_refuses(true);
    for n in 2..7 {
        assert_eq!(producer.try_push(n), Ok(()));
    }
    assert_eq!(consumer.pop_batch(9, |_| {}), 7);
    // The consumer has left blocks behind; one is kept, and no allocator is asked.
    for n in 0..3 {
        assert_eq!(producer.try_push(n), Ok(()));
    }
    assert!(try_with_block_slots_in::<u8, _>(8, alloc.clone()).is_err());
    drop((producer, consumer));
    assert_eq!(alloc.blocks(), 0);
    alloc.set_refuses(false);
    assert!(try_with_block_slots_in::<u8, _>(8, alloc).is_ok());
    assert!(try_with_block_slots_in::<u8, _>(8, Global).is_ok());
    let refused = TryPushError::NoMemory(Rc::new(1));
    assert_eq!(
        format!("{refused:?} {refused}"),
        "NoMemory(..) no memory for the item"
    );
}

/// The words, and the blocks of slots.
const WORDS: usize = 1;

#[test]
fn blocks_are_used_again_and_given_back() {
    let alloc = Counting::default();
    let (mut producer, mut consumer) = with_block_slots_in(8, alloc.clone());
    assert_eq!(alloc.blocks(), WORDS + 1);
    for n in 0..10_000 {
        producer.push(n);
        assert_eq!(consumer.pop(), Some(n));
    }
    assert!(alloc.allocations() <= WORDS + 3, "{}", alloc.allocations());
    producer.push_batch(0..10_000);
    assert!(alloc.blocks() >= 10_000 / 8);
    let mut idle = producer.consumer();
    assert_eq!(idle.pop(), Some(0));
    assert_eq!(consumer.pop_batch(usize::MAX, |_| {}), 9999);
    assert!(consumer.pop().is_none());
    assert_eq!(
        alloc.blocks(),
        WORDS + 3,
        "the last, the one kept, and the one that an idle consumer holds"
    );
    assert_eq!(idle.pop_into(&mut Vec::new(), 9), 0);
    assert_eq!(
        alloc.blocks(),
        WORDS + 2,
        "one that finds nothing holds nothing"
    );
    for _ in 0..100_000 {
        assert_eq!(consumer.pop(), None);
        assert_eq!(consumer.clone().pop(), None);
    }
    assert_eq!(alloc.blocks(), WORDS + 2);
    drop((consumer, idle, producer));
    assert_eq!((alloc.blocks(), alloc.bytes()), (0, 0));
}

#[test]
fn a_consumer_may_come_and_go_without_end() {
    let (mut producer, consumer) = with_block_slots(100);
    producer.push_batch(0..90);
    for _ in 0..200_000 {
        // More than the count of the front can hold, were it not taken back.
        let mut other = consumer.clone();
        if let Some(n) = other.pop() {
            assert!(n < 90);
        }
    }
    assert_eq!(producer.consumers(), 1);
}

#[test]
#[should_panic(expected = "the most there can be")]
fn too_many_consumers_panic() {
    let (producer, _first) = queue::<u8>();
    let _all: Vec<_> = (0..70_000).map(|_| producer.consumer()).collect();
}

#[test]
fn reserve_takes_what_is_needed_and_no_more() {
    let alloc = Counting::default();
    let (mut producer, consumer) = with_block_slots_in(10, alloc.clone());
    producer.reserve(10);
    assert_eq!(alloc.blocks(), WORDS + 1);
    producer.push_batch(0..5);
    producer.reserve(15);
    assert_eq!(alloc.blocks(), WORDS + 2);
    producer.reserve(16);
    producer.reserve(16);
    assert_eq!(alloc.blocks(), WORDS + 3);
    producer.push_batch(0..25);
    assert_eq!(alloc.allocations(), WORDS + 3);
    producer.push(1);
    assert_eq!(alloc.allocations(), WORDS + 4);
    producer.reserve(100);
    drop(consumer);
    drop(producer);
    assert_eq!(alloc.blocks(), 0);
}

#[test]
fn items_of_no_size() {
    let (mut producer, mut consumer) = with_block_slots(1 << 20);
    assert_eq!(producer.push_batch(std::iter::repeat_n((), 3000)), 3000);
    let mut out = Vec::new();
    assert_eq!(consumer.pop_into(&mut out, 1000), 1000);
    assert_eq!(consumer.pop_batch(usize::MAX, |()| {}), 2000);
    assert!(consumer.pop().is_none());
}

#[test]
fn items_of_great_alignment() {
    #[repr(align(512))]
    struct Wide(u8);
    let (mut producer, mut consumer) = with_block_slots(3);
    for n in 0..10 {
        producer.push(Wide(n));
    }
    let mut out = Vec::new();
    assert_eq!(consumer.pop_into(&mut out, 5), 5);
    consumer.pop_batch(9, |wide| out.push(wide));
    for (n, wide) in out.iter().enumerate() {
        assert_eq!(wide.0 as usize, n);
        assert_eq!(std::ptr::from_ref(wide).addr() % 512, 0);
    }
    assert_eq!(out.len(), 10);
}

#[test]
fn items_that_stay_on_their_thread() {
    let (mut producer, mut consumer) = queue();
    let item = Rc::new(1);
    producer.push(Rc::clone(&item));
    producer.push(Rc::clone(&item));
    drop(consumer.pop());
    drop((producer, consumer));
    assert_eq!(Rc::strong_count(&item), 1);
}

#[test]
fn debug_asks_nothing_of_the_item() {
    struct Plain;
    let (mut producer, consumer) = queue();
    producer.push(Plain);
    producer.push_pending(Plain);
    assert_eq!(
        format!("{producer:?} {consumer:?}"),
        "Producer { len: 1, pending: 1, consumers: 1 } Consumer { len: 1, is_closed: false }"
    );
    let _ = (producer.allocator(), consumer.allocator());
}

/// How a consumer of `stream` takes items.
#[derive(Clone, Copy, Debug)]
enum Taking {
    Single,
    Batch,
    Into,
}

/// Sends `count` payloads to `consumers` threads, and checks each one's order, and that none is
/// lost or seen twice.
fn stream(slots: usize, count: u64, batch: u64, consumers: usize, taking: Taking) {
    let (ledger, alloc) = (Ledger::default(), Counting::default());
    let (mut producer, first) = with_block_slots_in(slots, alloc.clone());
    let workers: Vec<_> = (0..consumers)
        .map(|_| {
            let mut consumer = first.clone();
            thread::spawn(move || {
                let (mut seen, mut out) = (Vec::new(), Vec::new());
                while !consumer.is_finished() {
                    let got = match taking {
                        Taking::Single => consumer
                            .pop()
                            .map(|p: Payload| seen.push(p.value))
                            .is_some(),
                        Taking::Batch => consumer.pop_batch(5, |p| seen.push(p.value)) > 0,
                        Taking::Into => {
                            let got = consumer.pop_into(&mut out, 5) > 0;
                            seen.extend(out.drain(..).map(|p| p.value));
                            got
                        }
                    };
                    if !got {
                        thread::yield_now();
                    }
                }
                assert!(seen.is_sorted(), "a consumer sees the order of the pushes");
                seen
            })
        })
        .collect();
    drop(first);
    let mut next = 0;
    while next < count {
        let end = (next + batch).min(count);
        if batch == 1 {
            producer.push(ledger.payload(next));
        } else {
            producer.push_batch((next..end).map(|n| ledger.payload(n)));
        }
        next = end;
    }
    drop(producer);
    let mut all: Vec<_> = workers
        .into_iter()
        .flat_map(|worker| worker.join().unwrap())
        .collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..count), "each item is seen once");
    ledger.assert_settled();
    assert_eq!(alloc.blocks(), 0);
}

#[test]
fn threads_lose_nothing_and_keep_the_order() {
    let count = if cfg!(miri) { 100 } else { 30_000 };
    for (slots, batch, consumers) in [(1, 1, 2), (2, 1, 1), (3, 7, 3), (64, 1, 4), (64, 100, 2)] {
        for taking in [Taking::Single, Taking::Batch, Taking::Into] {
            stream(slots, count, batch, consumers, taking);
        }
    }
}

#[test]
fn consumers_come_and_go_under_load() {
    let count = if cfg!(miri) { 200 } else { 50_000 };
    let alloc = Counting::default();
    let (mut producer, first) = with_block_slots_in(4, alloc.clone());
    let sum = AtomicU64::new(0);
    let taken = AtomicU64::new(0);
    thread::scope(|scope| {
        for stay in [1, 3, 10] {
            let (first, sum, taken) = (&first, &sum, &taken);
            scope.spawn(move || {
                while !first.is_finished() {
                    let mut consumer = first.clone();
                    for _ in 0..stay {
                        if let Some(n) = consumer.pop() {
                            sum.fetch_add(n, Ordering::Relaxed);
                            taken.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        scope.spawn(move || {
            for n in 0..count {
                producer.push(n);
            }
        });
    });
    assert_eq!(taken.into_inner(), count);
    assert_eq!(sum.into_inner(), count * (count - 1) / 2);
    drop(first);
    assert_eq!(alloc.blocks(), 0);
}

#[test]
fn a_stopped_consumer_holds_one_block_and_delays_nobody() {
    let alloc = Counting::default();
    let (mut producer, mut first) = with_block_slots_in(16, alloc.clone());
    producer.push_batch(0..100_000);
    let mut stopped: Vec<_> = (0..3).map(|_| producer.consumer()).collect();
    for consumer in &mut stopped {
        assert!(consumer.pop().is_some());
        first.pop_batch(1000, |_| {});
    }
    let (done, barrier) = (AtomicBool::new(false), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            barrier.wait();
            while first.pop().is_some() {}
            done.store(true, Ordering::Release);
        });
        barrier.wait();
    });
    assert!(done.into_inner());
    assert_eq!(alloc.blocks(), WORDS + 2 + stopped.len());
    stopped.clear();
    assert_eq!(alloc.blocks(), WORDS + 2);
    drop(queue_in::<u8, _>(alloc));
}

/// A wake-up upon `publish` alone: a consumer that found nothing is told of what comes next.
#[test]
fn a_publication_that_wakes_nobody_was_seen() {
    let rounds = if cfg!(miri) { 50 } else { 20_000 };
    let (mut producer, mut consumer) = with_block_slots(8);
    let wakes = AtomicU64::new(0);
    thread::scope(|scope| {
        let (wakes, taker) = (&wakes, thread::current());
        scope.spawn(move || {
            for n in 0..rounds {
                producer.push_pending(n);
                if producer.publish() {
                    wakes.fetch_add(1, Ordering::Relaxed);
                    taker.unpark();
                }
            }
        });
        for expected in 0..rounds {
            let n = loop {
                match consumer.pop() {
                    Some(n) => break n,
                    None => thread::park(),
                }
            };
            assert_eq!(n, expected);
        }
    });
    assert!(wakes.into_inner() > 0);
}
