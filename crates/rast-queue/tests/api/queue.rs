//! `Queue`: edges, closing, memory, panics, threads.

use crate::support::{Counting, Ledger};
use rast_queue::alloc::{AllocError, Allocator, Global, Layout};
use rast_queue::{Closed, Queue, TryPushError};
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

#[test]
fn is_shared_and_unwind_safe() {
    fn check<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}
    check::<Queue<u8>>();
    check::<Queue<std::cell::Cell<u8>, Counting>>();
}

#[test]
fn const_in_a_static() {
    static QUEUE: Queue<&'static str> = Queue::new();
    QUEUE.push("a").unwrap();
    assert_eq!(QUEUE.pop(), Some("a"));
    assert!(QUEUE.is_empty());
}

#[test]
fn first_in_first_out_over_segments() {
    let queue = Queue::new();
    for n in 0..1000 {
        queue.push(n).unwrap();
        assert_eq!(queue.len(), n + 1);
    }
    for n in 0..1000 {
        assert_eq!(queue.pop(), Some(n));
    }
    assert_eq!(queue.pop(), None);
    assert_eq!((queue.len(), queue.is_empty()), (0, true));
}

#[test]
fn close_refuses_pushes_and_keeps_what_stands() {
    let queue = Queue::new();
    queue.push(1).unwrap();
    queue.push(2).unwrap();
    assert!(!queue.is_closed());
    assert!(queue.close());
    assert!(!queue.close());
    assert!(queue.is_closed());
    assert_eq!(queue.push(3), Err(Closed(3)));
    assert_eq!(queue.try_push(4), Err(TryPushError::Closed(4)));
    assert_eq!(queue.pop(), Some(1));
    assert_eq!(queue.drain().collect::<Vec<_>>(), [2]);
    assert_eq!(queue.pop(), None);
}

#[test]
fn drain_ends_at_the_first_empty_moment() {
    let queue: Queue<_> = (0..3).collect();
    let mut drain = queue.drain();
    assert_eq!(drain.next(), Some(0));
    queue.push(3).unwrap();
    assert_eq!(drain.by_ref().collect::<Vec<_>>(), [1, 2, 3]);
    queue.push(4).unwrap();
    assert_eq!(drain.next(), None, "it has ended");
    let mut early = queue.drain();
    queue.push(5).unwrap();
    assert_eq!(early.next(), Some(4));
    assert_eq!(queue.len(), 1, "what it did not yield stays queued");
}

#[test]
fn conversions() {
    let mut queue: Queue<u32> = Queue::default();
    queue.extend([1, 2]);
    queue.extend(Some(3));
    let items = queue.into_iter();
    assert_eq!(items.len(), 3);
    assert_eq!(items.collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
#[should_panic(expected = "needs an open queue")]
fn extend_of_a_closed_queue_panics() {
    let mut queue = Queue::new();
    queue.close();
    queue.extend([1]);
}

#[test]
fn all_memory_comes_from_the_allocator_and_returns() {
    let (ledger, alloc) = (Ledger::default(), Counting::default());
    let queue = Queue::new_in(alloc.clone());
    assert_eq!(alloc.allocations(), 0, "nothing until the first push");
    for n in 0..1000 {
        queue.push(ledger.payload(n)).ok().unwrap();
    }
    assert!(alloc.bytes() >= 1000 * size_of::<crate::support::Payload>());
    for n in 0..700 {
        assert_eq!(queue.pop().unwrap().value, n);
    }
    let blocks = alloc.blocks();
    assert!(
        blocks <= 2,
        "popped segments go back, one is kept: {blocks}"
    );
    drop(queue);
    ledger.assert_settled();
    assert_eq!((alloc.bytes(), alloc.blocks()), (0, 0));
}

#[test]
fn a_steady_queue_allocates_no_more() {
    let alloc = Counting::default();
    let queue = Queue::new_in(alloc.clone());
    for n in 0..100 {
        queue.push(n).unwrap();
    }
    queue.drain().for_each(drop);
    queue.extend_shared(0..40);
    let before = alloc.allocations();
    for n in 0..10_000 {
        queue.push(n).unwrap();
        queue.pop().unwrap();
    }
    assert!(alloc.allocations() <= before + 1);
}

/// Pushes through a shared reference.
trait ExtendShared<T> {
    fn extend_shared(&self, items: impl IntoIterator<Item = T>);
}

impl<T, A: Allocator> ExtendShared<T> for Queue<T, A> {
    fn extend_shared(&self, items: impl IntoIterator<Item = T>) {
        for item in items {
            assert!(self.push(item).is_ok());
        }
    }
}

#[test]
fn no_memory_gives_the_item_back() {
    let (ledger, alloc) = (Ledger::default(), Counting::default());
    let queue = Queue::new_in(alloc.clone());
    alloc.set_refuses(true);
    let Err(TryPushError::NoMemory(item)) = queue.try_push(ledger.payload(7)) else {
        panic!("no memory was to be had");
    };
    assert_eq!(item.value, 7);
    assert!(queue.is_empty() && queue.pop().is_none());
    alloc.set_refuses(false);
    queue.try_push(item).ok().unwrap();
    alloc.set_refuses(true);
    let mut pushed = 1;
    while queue.try_push(ledger.payload(pushed)).is_ok() {
        pushed += 1;
    }
    assert_eq!(queue.len() as u64, pushed, "a refused push changes nothing");
    assert_eq!(queue.pop().unwrap().value, 7);
    assert_eq!(
        queue.drain().map(|payload| payload.value).sum::<u64>(),
        (1..pushed).sum()
    );
    drop(queue);
    assert_eq!(alloc.blocks(), 0);
    ledger.assert_settled();
}

#[test]
fn pushes_refused_for_want_of_memory_wear_nothing_out() {
    let alloc = Counting::default();
    let queue = Queue::with_segment_slots_in(2, alloc.clone());
    queue.push(0).unwrap();
    queue.push(1).unwrap();
    alloc.set_refuses(true);
    // More often than a segment has pins.
    for n in 0..100_000 {
        assert_eq!(queue.try_push(n), Err(TryPushError::NoMemory(n)));
    }
    alloc.set_refuses(false);
    queue.push(2).unwrap();
    assert_eq!(queue.len(), 3);
    assert_eq!(queue.drain().collect::<Vec<_>>(), [0, 1, 2]);
    drop(queue);
    assert_eq!(alloc.blocks(), 0);
}

#[test]
fn pop_runs_no_drop_and_a_panicking_drop_loses_nothing() {
    let (ledger, alloc) = (Ledger::default(), Counting::default());
    let queue = Queue::new_in(alloc.clone());
    for n in 0..100 {
        let payload = if n == 50 {
            ledger.bomb(n)
        } else {
            ledger.payload(n)
        };
        queue.push(payload).ok().unwrap();
    }
    for _ in 0..40 {
        drop(queue.pop());
    }
    let result = catch_unwind(AssertUnwindSafe(|| drop(queue)));
    assert!(result.is_err());
    ledger.assert_settled();
    assert_eq!((alloc.bytes(), alloc.blocks()), (0, 0));
}

#[test]
fn items_of_no_size_and_of_great_alignment() {
    let queue: Queue<()> = std::iter::repeat_n((), 100).collect();
    assert_eq!(queue.drain().count(), 100);

    #[derive(Debug)]
    #[repr(align(256))]
    struct Wide(u8);
    let queue: Queue<Wide> = (0..100).map(Wide).collect();
    for n in 0..100 {
        let wide = queue.pop().unwrap();
        assert_eq!(wide.0, n);
    }
}

/// An allocator that uses the queue that asks it.
struct Reentrant;

static LOG: Queue<usize> = Queue::new();
static ASKING: Queue<u8, Reentrant> = Queue::new_in(Reentrant);

// SAFETY: the memory is the global allocator's, handed through unchanged.
unsafe impl Allocator for Reentrant {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        LOG.push(layout.size()).unwrap();
        // The queue has no segment yet, so this ends it for good.
        assert!(ASKING.close());
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's obligations are the global allocator's.
        unsafe { Global.deallocate(block, layout) };
    }
}

#[test]
fn the_allocator_may_use_the_queue_that_asks() {
    assert_eq!(
        ASKING.push(1),
        Err(Closed(1)),
        "the allocator closed it meanwhile"
    );
    assert_eq!(LOG.len(), 1, "what was allocated in vain is kept");
    assert_eq!((ASKING.len(), ASKING.pop()), (0, None));
}

#[test]
fn errors_ask_nothing_of_the_item() {
    struct Plain;
    let error = TryPushError::from(Closed(Plain));
    assert_eq!(
        format!("{error:?} {error}"),
        "Closed(..) closed: no item is taken any more"
    );
    assert_eq!(
        format!("{:?}", TryPushError::NoMemory(Plain)),
        "NoMemory(..)"
    );
    let _: &dyn std::error::Error = &error;
    let _: Plain = error.into_inner();
    assert_eq!(
        format!("{:?}", Queue::<u8>::new()),
        "Queue { len: 0, is_closed: false, .. }"
    );
}

#[test]
fn threads_lose_nothing_and_keep_each_producers_order() {
    const PRODUCERS: u64 = 3;
    let count: u64 = if cfg!(miri) { 50 } else { 20_000 };
    let alloc = Counting::default();
    let queue = Arc::new(Queue::new_in(alloc.clone()));
    let sum = AtomicU64::new(0);
    thread::scope(|scope| {
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|id| {
                let queue = &queue;
                scope.spawn(move || {
                    for n in 0..count {
                        queue.push((id, n)).unwrap();
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                let mut next = [0; PRODUCERS as usize];
                loop {
                    let end = queue.is_closed();
                    for (id, n) in queue.drain() {
                        assert!(n >= next[id as usize], "each producer's order");
                        next[id as usize] = n + 1;
                        sum.fetch_add(n + 1, Ordering::Relaxed);
                    }
                    if end {
                        break;
                    }
                    thread::yield_now();
                }
            });
        }
        for producer in producers {
            producer.join().unwrap();
        }
        assert!(queue.close());
    });
    assert_eq!(sum.into_inner(), PRODUCERS * count * (count + 1) / 2);
    drop(queue);
    assert_eq!(alloc.blocks(), 0);
}

#[test]
fn pushes_beside_a_close_are_refused_or_found() {
    let rounds = if cfg!(miri) { 5 } else { 300 };
    for _ in 0..rounds {
        let queue = Queue::new();
        let accepted = thread::scope(|scope| {
            let pushes = scope.spawn(|| (0..100).filter(|n| queue.push(*n).is_ok()).count());
            scope.spawn(|| assert!(queue.close()));
            pushes.join().unwrap()
        });
        assert_eq!(
            queue.into_iter().collect::<Vec<_>>(),
            (0..accepted).collect::<Vec<_>>()
        );
    }
}
