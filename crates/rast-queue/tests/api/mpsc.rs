//! The stack of many producers and one consumer: order, failed pushes, panics, memory, kinds of
//! items, threads.

use crate::support::{Counting, Ledger};
use rast_queue::TryPushError;
use rast_queue::mpsc::intrusive::{Batch, PushError, Queue};
use rast_queue::mpsc::{Consumer, Link, Producer, queue, queue_in, try_queue_in};
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

fn assert_send<T: Send>() {}
fn assert_sync<T: Sync>() {}
fn assert_unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}

struct Task {
    value: u64,
    link: Link,
}

rast_queue::impl_node!(Task { link });

fn task(value: u64) -> Box<Task> {
    let link = Link::new();
    Box::new(Task { value, link })
}

#[test]
fn types_are_as_thread_safe_as_they_should() {
    assert_send::<Producer<u8>>();
    assert_sync::<Producer<std::cell::Cell<u8>>>();
    assert_send::<Consumer<std::cell::Cell<u8>, Counting>>();
    assert_send::<Queue<Box<Task>>>();
    assert_sync::<Queue<Pin<Arc<Task>>>>();
    assert_sync::<Queue<&'static Task>>();
    assert_send::<rast_queue::mpsc::intrusive::Consumer<'static, Box<Task>>>();
    assert_send::<Batch<Box<Task>>>();
    assert_unwind_safe::<Producer<u8>>();
    assert_unwind_safe::<Consumer<u8>>();
    assert_unwind_safe::<Queue<Box<Task>>>();
}

#[test]
fn the_first_push_after_a_take_tells() {
    let (mut producer, mut consumer) = queue();
    let mut second = producer.clone();
    for _ in 0..3 {
        assert_eq!(producer.push(1), Ok(true));
        assert_eq!(second.push(2), Ok(false));
        assert_eq!(consumer.pop(), Some(1));
        // The consumer took both.
        assert_eq!(producer.push_batch([3, 4]), Ok(true));
        assert_eq!(second.push_batch([]), Ok(false));
        assert_eq!(consumer.take_all().collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(consumer.pop(), None);
        assert!(consumer.is_empty() && producer.is_empty());
    }
}

#[test]
fn order_is_kept_over_many_blocks() {
    let (mut producer, mut consumer) = queue();
    let mut second = producer.clone();
    let mut next = 0;
    for round in 0..50 {
        for n in 0..20 * round {
            let producer = if n % 3 == 0 {
                &mut second
            } else {
                &mut producer
            };
            producer.push(next + n).unwrap();
        }
        next += 20 * round;
        producer.push_batch(next..next + 300).unwrap();
        next += 300;
    }
    for n in 0..next / 2 {
        assert_eq!(consumer.pop(), Some(n));
    }
    assert!(consumer.take_all().eq(next / 2..next));
}

#[test]
fn memory_goes_round_and_back() {
    let alloc = Counting::default();
    let (mut producer, mut consumer) = queue_in(alloc.clone());
    let mut second = producer.clone();
    assert_eq!(
        alloc.blocks(),
        1,
        "a producer takes memory at its first push"
    );
    for n in 0..100_000u64 {
        producer.push(n).unwrap();
        second.push(n).unwrap();
        assert_eq!(consumer.pop(), Some(n));
        assert_eq!(consumer.pop(), Some(n));
    }
    assert!(alloc.allocations() <= 5, "blocks are used again");
    // A burst is given back except for a bounded rest.
    producer.push_batch(0..1_000_000).unwrap();
    assert_eq!(consumer.take_all().count(), 1_000_000);
    assert!(alloc.bytes() < (1 << 20) + 5 * 4096);
    drop((producer, second));
    assert!(consumer.is_finished());
    drop(consumer);
    assert_eq!((alloc.blocks(), alloc.bytes()), (0, 0));
}

#[test]
fn a_producer_leaves_its_block_to_the_next() {
    let alloc = Counting::default();
    let (producer, mut consumer) = queue_in(alloc.clone());
    for n in 0..10_000 {
        let mut short = producer.clone();
        short.push(n).unwrap();
        if n % 3 == 0 {
            drop(consumer.take_all());
        }
    }
    assert!(alloc.allocations() <= 3, "{}", alloc.allocations());
    // Many at once leave many blocks, which the next ones use up.
    let mut many: Vec<_> = (0..20).map(|_| producer.clone()).collect();
    assert!(many.iter_mut().all(|half| half.push(1).is_ok()));
    drop(many);
    let allocations = alloc.allocations();
    let mut many: Vec<_> = (0..20).map(|_| producer.clone()).collect();
    assert!(many.iter_mut().all(|half| half.push(1).is_ok()));
    assert_eq!(alloc.allocations(), allocations);
}

#[test]
fn what_is_refused_is_handed_back() {
    let alloc = Counting::default();
    let (mut producer, mut consumer) = queue_in::<String, _>(alloc.clone());
    alloc.set_refuses(true);
    let refused = producer.try_push("a".into());
    assert_eq!(refused, Err(TryPushError::NoMemory("a".into())));
    assert!(try_queue_in::<u8, _>(alloc.clone()).is_err());
    alloc.set_refuses(false);
    assert_eq!(producer.try_push("b".into()), Ok(true));
    assert!(consumer.close());
    assert!(!consumer.close());
    assert!(producer.is_closed() && consumer.is_closed() && !consumer.is_finished());
    let refused = producer.try_push("c".into());
    assert_eq!(refused, Err(TryPushError::Closed("c".into())));
    let refused = producer.push_batch(["d".into(), "e".into()]).unwrap_err();
    assert_eq!(refused.into_inner(), ["d", "e"]);
    assert_eq!(
        producer.clone().push("f".into()).unwrap_err().into_inner(),
        "f"
    );
    assert_eq!(consumer.pop().as_deref(), Some("b"));
    assert!(consumer.is_finished());
    assert_eq!(consumer.pop(), None);
}

/// Closes the queue in the middle of a chain, over several blocks: all items come back, and all
/// memory.
#[test]
fn a_chain_that_meets_the_close_comes_back() {
    for before in [0, 1, 200, 255, 256, 300] {
        let (ledger, alloc) = (Ledger::default(), Counting::default());
        let (mut producer, mut consumer) = queue_in(alloc.clone());
        for n in 0..before {
            producer.push(ledger.payload(n)).unwrap();
        }
        let items = (0..1000).map(|n| {
            if n == 700 {
                consumer.close();
            }
            ledger.payload(n)
        });
        let refused = producer.push_batch(items).unwrap_err().into_inner();
        assert!(refused.iter().map(|item| item.value).eq(0..1000));
        assert!(producer.push(ledger.payload(0)).is_err());
        drop(refused);
        drop(producer);
        assert!(consumer.take_all().map(|item| item.value).eq(0..before));
        drop(consumer);
        ledger.assert_settled();
        assert_eq!(alloc.blocks(), 0);
    }
}

#[test]
fn a_panic_of_the_iterator_pushes_nothing() {
    let (ledger, alloc) = (Ledger::default(), Counting::default());
    let (mut producer, mut consumer) = queue_in(alloc.clone());
    producer.push(ledger.payload(0)).unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        producer.push_batch((0..1000).map(|n| {
            assert!(n < 800, "enough");
            ledger.payload(n)
        }))
    }));
    assert!(outcome.is_err());
    assert_eq!(ledger.made() - ledger.dropped(), 1);
    producer
        .push_batch((1..500).map(|n| ledger.payload(n)))
        .unwrap();
    assert!(consumer.take_all().map(|item| item.value).eq(0..500));
    drop((producer, consumer));
    ledger.assert_settled();
    assert_eq!(alloc.blocks(), 0);
}

#[test]
fn a_producer_keeps_one_block_of_a_batch_that_was_not_pushed() {
    const ITEMS: u64 = if cfg!(miri) { 10_000 } else { 200_000 };
    let alloc = Counting::default();
    let (mut producer, mut consumer) = queue_in::<u64, _>(alloc.clone());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        producer.push_batch((0..=ITEMS).inspect(|&n| assert!(n < ITEMS, "enough")))
    }));
    assert!(panicked.is_err());
    // The spares hold 1 MiB at most; beside them, the producer's block and what the halves share.
    let bytes = alloc.bytes();
    assert!(bytes <= (1 << 20) + 8192, "{bytes} bytes are kept");
    // What is kept is there for other producers.
    let before = alloc.allocations();
    producer.clone().push_batch(0..2000).unwrap();
    assert_eq!(alloc.allocations(), before);
    consumer.close();
    assert!(producer.push_batch(0..ITEMS).is_err());
    let bytes = alloc.bytes();
    assert!(bytes <= (1 << 20) + 8192, "{bytes} bytes are kept");
}

#[test]
fn a_panic_of_a_drop_drops_the_others() {
    let (ledger, alloc) = (Ledger::default(), Counting::default());
    let (mut producer, mut consumer) = queue_in(alloc.clone());
    let fill = |producer: &mut Producer<_, _>| {
        let items = (0..300).map(|n| match n {
            7 => ledger.bomb(n),
            _ => ledger.payload(n),
        });
        producer.push_batch(items).unwrap()
    };
    fill(&mut producer);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(consumer.take_all()))).is_err());
    ledger.assert_settled();
    fill(&mut producer);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(consumer))).is_err());
    ledger.assert_settled();
    drop(producer);
    assert_eq!(alloc.blocks(), 0);
}

#[test]
fn a_batch_that_is_dropped_or_forgotten_leaves_the_queue_whole() {
    let (mut producer, mut consumer) = queue();
    producer.push_batch(0..5).unwrap();
    assert_eq!(consumer.take_all().next(), Some(0));
    assert!(consumer.is_empty());
    producer.push_batch(5..10).unwrap();
    std::mem::forget(consumer.take_all());
    producer.push(10).unwrap();
    assert_eq!(consumer.take_all().collect::<Vec<_>>(), [5, 6, 7, 8, 9, 10]);
}

#[test]
fn batches_of_pops_take_what_is_queued() {
    let ledger = Ledger::default();
    let (mut producer, mut consumer) = queue();
    assert_eq!(consumer.pop_batch(9, drop), 0);
    let payloads = |from: u64, to: u64| (from..to).map(|n| ledger.payload(n));
    producer.push_batch(payloads(0, 5)).unwrap();
    assert_eq!(consumer.pop().map(|item| item.value), Some(0));
    producer.push_batch(payloads(5, 700)).unwrap();
    // What was taken before comes first, and the taken and the new items count.
    assert_eq!(consumer.len(), 699);
    let mut seen = Vec::new();
    assert_eq!(consumer.pop_batch(2, |item| seen.push(item.value)), 2);
    assert_eq!(consumer.pop_batch(0, |item| seen.push(item.value)), 0);
    assert_eq!(seen, [1, 2]);
    // A closure that panics keeps its item, and the others stay.
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        consumer.pop_batch(9, |item| assert_eq!(item.value, 3, "enough"))
    }));
    assert!(panicked.is_err());
    assert_eq!(consumer.len(), 695);
    let mut out = std::collections::VecDeque::new();
    assert_eq!(consumer.pop_into(&mut out, 600), 600);
    assert!(out.iter().map(|item| item.value).eq(5..605));
    let batch = consumer.take_all();
    assert_eq!(batch.len(), 95);
    drop(batch);
    assert_eq!(consumer.pop_into(&mut out, usize::MAX), 0);
    assert_eq!(consumer.len(), 0);
    drop(out);
    ledger.assert_settled();
}

/// Takes one item and panics at the next.
struct Stops(Vec<u64>);

impl Extend<u64> for Stops {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, items: I) {
        let mut items = items.into_iter();
        self.0.extend(items.next());
        assert!(self.0.len() < 2, "full");
    }
}

#[test]
fn a_collection_that_stops_leaves_the_rest() {
    let (mut producer, mut consumer) = queue();
    assert_eq!(producer.push_slice(&[1, 2, 3, 4, 5]), Ok(true));
    let mut out = Stops(Vec::new());
    assert_eq!(consumer.pop_into(&mut out, 4), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| consumer.pop_into(&mut out, 4))).is_err());
    assert_eq!(out.0, [1, 2]);
    let mut two = [0; 2];
    assert_eq!(consumer.pop_slice(&mut two), 2);
    assert_eq!((two, consumer.len()), ([3, 4], 1));
    assert_eq!(consumer.pop_slice(&mut two), 1);
    assert_eq!(two, [5, 4]);
    consumer.close();
    let refused = producer.push_slice(&[6, 7]).unwrap_err();
    assert_eq!(refused.into_inner(), [6, 7]);
    assert!(consumer.is_finished());
}

#[test]
fn an_intrusive_queue_is_finished_when_closed_and_drained() {
    let queue = Queue::new();
    queue.push_batch((0..3).map(task)).ok().unwrap();
    let mut consumer = queue.consumer().unwrap();
    assert_eq!(consumer.pop().unwrap().value, 0);
    assert!(!consumer.is_finished());
    consumer.close();
    assert!(!consumer.is_finished());
    let batch = consumer.take_all();
    assert_eq!(batch.len(), 2);
    drop(batch);
    assert!(consumer.is_finished());
}

#[test]
fn items_of_any_size_and_alignment() {
    fn check<T: Clone + PartialEq + std::fmt::Debug>(item: T) {
        let (mut producer, mut consumer) = queue();
        for _ in 0..3 {
            for _ in 0..600 {
                producer.push(item.clone()).unwrap();
            }
            assert_eq!(consumer.pop().as_ref(), Some(&item));
            assert!(consumer.take_all().all(|taken| taken == item));
        }
        producer.push(item.clone()).unwrap();
    }
    #[repr(align(256))]
    #[derive(Clone, PartialEq, Debug)]
    struct Aligned(u8);
    check(());
    check(7u8);
    check([3u64; 5]);
    check([1u8; 10_000]);
    check(Aligned(1));
    check(String::from("text"));
}

/// Each producer's items come in its order, none is lost, and those who found the queue empty wake
/// enough.
#[test]
fn order_per_producer_under_stress() {
    let count = if cfg!(miri) { 200 } else { 50_000 };
    let (producer, mut consumer) = queue();
    let threads: Vec<_> = (0..4u64)
        .map(|id| {
            let (mut producer, receiver) = (producer.clone(), thread::current());
            thread::spawn(move || {
                let mut n = 0;
                while n < count {
                    let was_empty = if n % 7 == 0 {
                        n += 3;
                        producer.push_batch((n - 3..n).map(|n| (id, n))).unwrap()
                    } else {
                        n += 1;
                        producer.push((id, n - 1)).unwrap()
                    };
                    if was_empty {
                        receiver.unpark();
                    }
                    if n % 1000 < 3 {
                        producer = producer.clone();
                    }
                }
                drop(producer);
                receiver.unpark();
                n
            })
        })
        .collect();
    drop(producer);
    let mut next = [0; 4];
    let mut see = |(id, n): (u64, u64)| {
        let next = &mut next[id as usize];
        assert_eq!(n, *next);
        *next += 1;
    };
    while !consumer.is_finished() {
        (0..5).map_while(|_| consumer.pop()).for_each(&mut see);
        for item in consumer.take_all() {
            see(item);
        }
        if consumer.is_empty() && !consumer.is_finished() {
            thread::park();
        }
    }
    for (thread, next) in threads.into_iter().zip(next) {
        assert_eq!(thread.join().unwrap(), next);
    }
}

#[test]
fn nodes_of_every_pointer() {
    static NODE: Task = Task {
        value: 1,
        link: Link::new(),
    };
    let queue = Queue::new();
    assert!(queue.push(&NODE).unwrap());
    assert!(matches!(queue.push(&NODE), Err(PushError::Queued(node)) if node.value == 1));
    assert_eq!(queue.consumer().unwrap().pop().unwrap().value, 1);
    assert!(queue.push(&NODE).unwrap());
    drop(queue);
    let queue = Queue::new();
    assert!(queue.push(Pin::new(&NODE).get_ref()).unwrap(), "free again");

    let queue = Queue::new();
    queue.push(Pin::new(task(2))).unwrap();
    assert_eq!(queue.consumer().unwrap().pop().unwrap().value, 2);

    let (queue, other) = (Queue::new(), Queue::new());
    let node: Arc<Task> = Arc::from(task(3));
    queue.push(Arc::clone(&node)).unwrap();
    assert!(matches!(
        other.push(Arc::clone(&node)),
        Err(PushError::Queued(_))
    ));
    assert_eq!(Arc::strong_count(&node), 2);
    drop(queue);
    assert_eq!(Arc::strong_count(&node), 1);
    other.push(Arc::clone(&node)).unwrap();
    other.consumer().unwrap().close();
    assert_eq!(other.consumer().unwrap().take_all().count(), 1);
    assert!(matches!(
        other.push(Arc::clone(&node)),
        Err(PushError::Closed(_))
    ));
    assert!(
        matches!(other.push(node), Err(PushError::Closed(_))),
        "refused, so not marked"
    );

    let queue = Queue::new();
    queue.push(Arc::pin(*task(4))).unwrap();
    assert_eq!(
        queue.consumer().unwrap().take_all().next().unwrap().value,
        4
    );
}

#[test]
fn generic_and_tuple_nodes() {
    struct Job<F>(F, Link);
    rast_queue::impl_node!(<F> Job<F> { 1 });

    let sum = AtomicU64::new(0);
    let queue = Queue::new();
    queue
        .push_batch((1..=3).map(|n| {
            let sum = &sum;
            Box::new(Job(
                move || sum.fetch_add(n, Ordering::Relaxed),
                Link::new(),
            ))
        }))
        .unwrap();
    for job in queue.consumer().unwrap().take_all() {
        (job.0)();
    }
    assert_eq!(sum.load(Ordering::Relaxed), 6);
}

#[test]
fn one_consumes_at_a_time_and_leaves_the_rest_in_order() {
    let queue = Queue::new();
    queue.push_batch((0..5).map(task)).unwrap();
    let mut consumer = queue.consumer().unwrap();
    assert!(queue.consumer().is_none());
    assert_eq!(consumer.pop().unwrap().value, 0);
    queue.push(task(5)).unwrap();
    drop(consumer);
    let mut consumer = queue.consumer().unwrap();
    assert_eq!(consumer.pop().unwrap().value, 1);
    assert!(consumer.take_all().map(|task| task.value).eq(2..6));
    assert!(consumer.is_empty());
    // One that is forgotten keeps the right, and what it took.
    queue.push(task(6)).unwrap();
    std::mem::forget(consumer);
    assert!(queue.consumer().is_none());
}

struct Noted {
    link: Link,
    note: crate::support::Payload,
}

rast_queue::impl_node!(Noted { link });

#[test]
fn nodes_are_dropped_once() {
    let ledger = Ledger::default();
    let node = |n, bomb| {
        Box::new(Noted {
            link: Link::new(),
            note: if bomb {
                ledger.bomb(n)
            } else {
                ledger.payload(n)
            },
        })
    };
    let queue = Queue::new();
    queue.push_batch((0..10).map(|n| node(n, n == 3))).unwrap();
    let mut batch = queue.consumer().unwrap().take_all();
    assert_eq!(batch.next().unwrap().note.value, 0);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(batch))).is_err());
    ledger.assert_settled();

    let outcome = catch_unwind(AssertUnwindSafe(|| {
        queue.push_batch((0..10).map(|n| {
            assert!(n < 5, "enough");
            node(n, false)
        }))
    }));
    assert!(outcome.is_err() && queue.is_empty());
    ledger.assert_settled();

    queue.push(node(0, false)).unwrap();
    drop(queue.consumer().unwrap().pop());
    queue.push_batch((0..3).map(|n| node(n, false))).unwrap();
    drop(queue.consumer().unwrap().pop());
    queue.push(node(9, true)).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(queue))).is_err());
    ledger.assert_settled();
}

#[test]
fn intrusive_chain_is_refused_whole() {
    let queue = Queue::new();
    queue.push_batch([task(1), task(2)]).unwrap();
    queue.consumer().unwrap().close();
    assert!(queue.is_closed() && queue.is_empty());
    let refused = queue.push_batch((3..6).map(task)).unwrap_err().into_inner();
    assert!(refused.map(|task| task.value).eq(3..6));
    assert_eq!(queue.push(task(6)).unwrap_err().into_inner().value, 6);
    assert_eq!(queue.consumer().unwrap().take_all().count(), 2);
}

/// Nodes made by many threads go through one queue and the hands of changing consumers.
#[test]
fn intrusive_stress_with_changing_consumers() {
    let count = if cfg!(miri) { 100 } else { 20_000 };
    let (queue, popped) = (Queue::new(), AtomicU64::new(0));
    let last = [const { AtomicU64::new(0) }; 3];
    thread::scope(|scope| {
        for id in 0..3 {
            let queue = &queue;
            scope.spawn(move || {
                for n in 1..=count {
                    queue.push(task(n << 2 | id)).unwrap();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while popped.load(Ordering::Relaxed) < 3 * count {
                    let Some(mut consumer) = queue.consumer() else {
                        thread::yield_now();
                        continue;
                    };
                    for _ in 0..50 {
                        let Some(task) = consumer.pop() else { break };
                        let (id, n) = ((task.value & 3) as usize, task.value >> 2);
                        assert_eq!(last[id].swap(n, Ordering::Relaxed) + 1, n);
                        popped.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(queue.is_empty());
}
