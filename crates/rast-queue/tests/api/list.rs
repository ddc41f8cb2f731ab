//! `list::ListQueue`: edges, closing, memory, panics, threads.

use crate::support::{Counting, Ledger};
use rast_queue::alloc::{AllocError, Allocator, Global, Layout};
use rast_queue::list::{Drain, IntoIter, ListQueue};
use rast_queue::{Closed, TryPushError};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

#[test]
fn auto_traits() {
    fn shares<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}
    shares::<ListQueue<u8>>();
    shares::<ListQueue<Cell<u8>, Counting>>();
    shares::<Drain<'static, Cell<u8>>>();
    fn sends<T: Send>() {}
    sends::<IntoIter<Cell<u8>>>();
}

/// Asks whether a type is Send or Sync, where it may be not: an associated const that is hidden if
/// it is.
macro_rules! is {
    ($type:ty: $bound:path) => {{
        #[allow(dead_code, reason = "hidden where the bound holds")]
        trait No {
            const IS: bool = false;
        }
        impl<T: ?Sized> No for T {}
        struct Ask<T: ?Sized>(std::marker::PhantomData<T>);
        #[allow(dead_code, reason = "not there where the bound does not hold")]
        impl<T: ?Sized + $bound> Ask<T> {
            const IS: bool = true;
        }
        <Ask<$type>>::IS
    }};
}

#[test]
fn auto_traits_ask_the_item_and_the_allocator() {
    assert!(is!(ListQueue<u8>: Send) && is!(ListQueue<u8>: Sync));
    assert!(!is!(ListQueue<Rc<u8>>: Send) && !is!(ListQueue<Rc<u8>>: Sync));
    assert!(!is!(IntoIter<Rc<u8>>: Send));

    struct OnOneThread(#[expect(dead_code, reason = "makes it stay")] Rc<u8>);
    // SAFETY: the memory is the global allocator's, handed through unchanged.
    unsafe impl Allocator for OnOneThread {
        fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            Global.allocate(layout)
        }
        unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
            // SAFETY: the caller's obligations are the global allocator's.
            unsafe { Global.deallocate(block, layout) };
        }
    }
    assert!(!is!(ListQueue<u8, OnOneThread>: Send) && !is!(ListQueue<u8, OnOneThread>: Sync));
}

#[test]
fn const_in_a_static() {
    static QUEUE: ListQueue<&'static str> = ListQueue::new();
    QUEUE.push("a").unwrap();
    assert_eq!(QUEUE.pop(), Some("a"));
    assert!(QUEUE.is_empty());
    assert!(ListQueue::<u8>::is_lock_free() || !cfg!(target_arch = "x86_64"));
}

#[test]
fn first_in_first_out() {
    let queue = ListQueue::new();
    for n in 0..1000 {
        queue.push(n).unwrap();
    }
    for n in 0..1000 {
        assert_eq!(queue.pop(), Some(n));
    }
    assert_eq!(queue.pop(), None);
    assert!(queue.is_empty());
}

#[test]
fn a_queue_may_move_while_items_stand() {
    let queue = ListQueue::new();
    queue.push(1).unwrap();
    let boxed = Box::new(queue);
    boxed.push(2).unwrap();
    assert!(boxed.close());
    let queue = *boxed;
    assert_eq!(queue.push(3), Err(Closed(3)));
    let moved = (0_u8, queue);
    assert!(moved.1.is_closed());
    assert_eq!(moved.1.drain().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn close_refuses_pushes_and_keeps_what_stands() {
    let queue = ListQueue::new();
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

    let queue = ListQueue::<u8>::new();
    assert!(queue.close(), "a queue that was never used");
    assert_eq!((queue.push(1), queue.pop()), (Err(Closed(1)), None));
}

#[test]
fn drain_ends_at_the_first_empty_moment() {
    let queue: ListQueue<_> = (0..3).collect();
    let mut drain = queue.drain();
    assert_eq!(drain.next(), Some(0));
    queue.push(3).unwrap();
    assert_eq!(drain.by_ref().collect::<Vec<_>>(), [1, 2, 3]);
    queue.push(4).unwrap();
    assert_eq!(drain.next(), None, "it has ended");
    assert_eq!(format!("{drain:?}"), "Drain { is_finished: true }");
    assert_eq!(queue.pop(), Some(4));
}

#[test]
fn conversions() {
    let mut queue: ListQueue<u32> = ListQueue::default();
    queue.extend([1, 2]);
    queue.extend(Some(3));
    let items = queue.into_iter();
    assert_eq!(format!("{items:?}"), "IntoIter { is_finished: false }");
    assert_eq!(items.collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(
        format!("{:?}", ListQueue::<u8>::new()),
        "ListQueue { is_empty: true, is_closed: false, .. }"
    );
}

#[test]
#[should_panic(expected = "needs an open queue")]
fn extend_of_a_closed_queue_panics() {
    let mut queue = ListQueue::new();
    queue.close();
    queue.extend([1]);
}

#[test]
fn each_item_takes_its_memory_along() {
    let (ledger, alloc) = (Ledger::default(), Counting::default());
    let queue = ListQueue::new_in(alloc.clone());
    assert_eq!(alloc.allocations(), 0, "nothing until the first push");
    for _ in 0..2 {
        for n in 0..100 {
            queue.push(ledger.payload(n)).ok().unwrap();
        }
        for n in 0..100 {
            assert_eq!(queue.pop().unwrap().value, n);
            assert!(alloc.blocks() as u64 <= 2 * (99 - n) + 1);
        }
    }
    assert_eq!(alloc.blocks(), 1, "the place for the next item");
    drop(queue);
    ledger.assert_settled();
    assert_eq!((alloc.bytes(), alloc.blocks()), (0, 0));
}

#[test]
fn polling_an_empty_queue_costs_nothing() {
    let alloc = Counting::default();
    let queue = ListQueue::<u8, _>::new_in(alloc.clone());
    // More often than the counts of a packed word could tell.
    let polls = if cfg!(miri) { 100 } else { 200_000 };
    for _ in 0..polls {
        assert_eq!(queue.pop(), None);
        assert!(queue.is_empty() && !queue.is_closed());
    }
    assert_eq!(alloc.allocations(), 0);
    queue.push(1).unwrap();
    assert_eq!((queue.pop(), queue.pop()), (Some(1), None));
}

#[test]
fn no_memory_gives_the_item_back() {
    let (ledger, alloc) = (Ledger::default(), Counting::default());
    let queue = ListQueue::new_in(alloc.clone());
    alloc.set_refuses(true);
    let Err(TryPushError::NoMemory(item)) = queue.try_push(ledger.payload(7)) else {
        panic!("no memory was to be had");
    };
    assert_eq!(item.value, 7);
    assert!(queue.is_empty() && queue.pop().is_none());
    alloc.set_refuses(false);
    queue.try_push(item).ok().unwrap();
    assert_eq!(queue.pop().unwrap().value, 7);
    queue.close();
    alloc.set_refuses(true);
    assert!(matches!(
        queue.try_push(ledger.payload(8)),
        Err(TryPushError::Closed(_))
    ));
    drop(queue);
    assert_eq!(alloc.blocks(), 0);
    ledger.assert_settled();
}

/// Gives memory a number of times, then refuses or panics.
struct Rationed {
    left: Cell<u32>,
    panics: bool,
    inside: Counting,
}

// SAFETY: the memory is the counting allocator's, handed through unchanged.
unsafe impl Allocator for Rationed {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let Some(left) = self.left.get().checked_sub(1) else {
            assert!(!self.panics, "the ration is used up");
            return Err(AllocError);
        };
        self.left.set(left);
        self.inside.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's obligations are the counting allocator's.
        unsafe { self.inside.deallocate(block, layout) };
    }
}

#[test]
fn memory_that_ends_between_item_and_node_changes_nothing() {
    for panics in [false, true] {
        for ration in 0..7 {
            let (ledger, counting) = (Ledger::default(), Counting::default());
            let queue = ListQueue::new_in(Rationed {
                left: Cell::new(ration),
                panics,
                inside: counting.clone(),
            });
            let pushed = (0..5).filter(|&n| {
                let push = AssertUnwindSafe(|| queue.try_push(ledger.payload(n)).is_ok());
                catch_unwind(push).unwrap_or(false)
            });
            assert_eq!(pushed.count() as u32, ration / 2, "two blocks each");
            let values: Vec<_> = queue.drain().map(|payload| payload.value).collect();
            assert_eq!(values, (0..u64::from(ration / 2)).collect::<Vec<_>>());
            drop(queue);
            ledger.assert_settled();
            assert_eq!(counting.blocks(), 0);
        }
    }
}

#[test]
fn pop_runs_no_drop_and_a_panicking_drop_loses_nothing() {
    let (ledger, alloc) = (Ledger::default(), Counting::default());
    let queue = ListQueue::new_in(alloc.clone());
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
    let alloc = Counting::default();
    let queue = ListQueue::new_in(alloc.clone());
    for _ in 0..100 {
        queue.push(()).unwrap();
    }
    assert_eq!(queue.drain().take(50).count(), 50);
    queue.close();
    assert_eq!(queue.push(()), Err(Closed(())));
    assert_eq!(queue.into_iter().count(), 50);
    assert_eq!((alloc.bytes(), alloc.blocks()), (0, 0));

    #[derive(Debug)]
    #[repr(align(256))]
    struct Wide(u8);
    let queue: ListQueue<Wide> = (0..100).map(Wide).collect();
    for n in 0..100 {
        let wide = queue.pop().unwrap();
        assert_eq!((wide.0, (&raw const wide).addr() % 256), (n, 0));
    }

    let ledger = Ledger::default();
    let items = ListQueue::new();
    items.push([(); 3].map(|()| ledger.payload(1))).ok();
    drop(items);
    ledger.assert_settled();
}

#[test]
fn threads_lose_nothing_and_keep_each_producers_order() {
    const PRODUCERS: u64 = 3;
    let count: u64 = if cfg!(miri) { 20 } else { 20_000 };
    let (ledger, alloc) = (Ledger::default(), Counting::default());
    let queue = Arc::new(ListQueue::new_in(alloc.clone()));
    let sum = AtomicU64::new(0);
    thread::scope(|scope| {
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|id| {
                let (queue, ledger) = (&queue, &ledger);
                scope.spawn(move || {
                    for n in 0..count {
                        queue.push((id, n, ledger.payload(n))).ok().unwrap();
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                let mut next = [0; PRODUCERS as usize];
                loop {
                    let end = queue.is_closed();
                    for (id, n, payload) in queue.drain() {
                        assert!(n >= next[id as usize], "each producer's order");
                        assert_eq!(payload.value, n);
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
    assert!(alloc.blocks() <= 1);
    drop(queue);
    assert_eq!(alloc.blocks(), 0);
    ledger.assert_settled();
}

/// The measure that the source's form did not pass: two of each, and no item may be missing.
#[test]
fn two_producers_and_two_consumers_end() {
    const COUNT: u64 = if cfg!(miri) { 50 } else { 100_000 };
    let queue = ListQueue::new();
    let left = AtomicU64::new(2 * COUNT);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..COUNT).for_each(|n| queue.push(n).unwrap()));
            scope.spawn(|| {
                while left.load(Ordering::Relaxed) > 0 {
                    if queue.pop().is_some() {
                        left.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(queue.is_empty());
}

#[test]
fn pushes_beside_a_close_are_refused_or_found() {
    let rounds = if cfg!(miri) { 5 } else { 300 };
    for _ in 0..rounds {
        let queue = ListQueue::new();
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

/// An allocator that uses the queue that asks it.
struct Reentrant;

static ASKING: ListQueue<u8, Reentrant> = ListQueue::new_in(Reentrant);
static ASKED: AtomicBool = AtomicBool::new(false);

// SAFETY: the memory is the global allocator's, handed through unchanged.
unsafe impl Allocator for Reentrant {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if !ASKED.swap(true, Ordering::Relaxed) {
            ASKING.push(1).unwrap();
            assert_eq!(ASKING.pop(), Some(1));
            assert!(ASKING.close());
        }
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        assert!(ASKING.pop().is_none());
        // SAFETY: the caller's obligations are the global allocator's.
        unsafe { Global.deallocate(block, layout) };
    }
}

#[test]
fn the_allocator_may_use_the_queue() {
    assert_eq!(ASKING.push(2), Err(Closed(2)), "it closed it meanwhile");
    assert!(ASKING.is_empty());
}
