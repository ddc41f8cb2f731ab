//! `Queue`, with segments of two slots, so that they are replaced and reused.

use rast_queue::alloc::{AllocError, Allocator, Global, Layout};
use rast_queue::primitive::cell::UnsafeCell;
use rast_queue::primitive::model::model;
use rast_queue::primitive::sync::Arc;
use rast_queue::primitive::thread;
use rast_queue::primitive::{Backoff, WaitStrategy};
use rast_queue::{Queue, TryPushError};
use std::ptr::NonNull;
use std::sync::Arc as Owned;
use std::sync::atomic::{AtomicIsize, Ordering};

fn queue<T>() -> Arc<Queue<T>> {
    Arc::new(Queue::with_segment_slots(2))
}

/// A queue whose next push needs a new segment: two items are queued.
fn full() -> Arc<Queue<u32>> {
    let queue = queue();
    queue.push(1).unwrap();
    queue.push(2).unwrap();
    queue
}

/// Two producers lose nothing to each other, from the first segment on.
#[test]
fn queue_push_push() {
    model(|| {
        let queue = queue();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.push(1).unwrap());
        queue.push(2).unwrap();
        other.join().unwrap();
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.drain().sum::<u32>(), 3);
    });
}

/// Two producers at the border of a segment: one links, both get in.
#[test]
fn queue_push_push_border() {
    model(|| {
        let queue = full();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.push(3).unwrap());
        queue.push(4).unwrap();
        other.join().unwrap();
        let mut seen: Vec<u32> = queue.drain().collect();
        assert_eq!(seen[..2], [1, 2]);
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3, 4]);
    });
}

/// A consumer beside a producer: order, and nothing twice; a ticket is abandoned on the way.
#[test]
fn queue_push_pop() {
    model(|| {
        let queue = queue();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || {
            theirs.push(Box::new(1)).unwrap();
            theirs.push(Box::new(2)).unwrap();
        });
        let mut seen = Vec::new();
        seen.extend(queue.pop());
        seen.extend(queue.pop());
        other.join().unwrap();
        seen.extend(queue.drain());
        assert_eq!(seen, [Box::new(1), Box::new(2)]);
    });
}

/// Two consumers share out the items, over the border of a segment.
#[test]
fn queue_pop_pop() {
    model(|| {
        let queue = full();
        queue.push(3).unwrap();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || (theirs.pop(), theirs.pop()));
        let mine = queue
            .pop()
            .expect("three items, at most two popped by the other");
        let (first, second) = other.join().unwrap();
        let mut all: Vec<u32> = [Some(mine), first, second].into_iter().flatten().collect();
        assert!(first < second);
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
    });
}

/// Pushes and pops until the first segment comes again; at least one item is queued all the time.
fn cycle(queue: &Queue<u32>, pop: fn(&Queue<u32>) -> usize) {
    for n in 3..=5 {
        queue.push(n).unwrap();
        if n < 5 {
            assert_eq!(pop(queue), 1, "at least one item is queued");
        }
    }
}

fn pop_one(queue: &Queue<u32>) -> usize {
    usize::from(queue.pop().is_some())
}

fn pop_batch_of_one(queue: &Queue<u32>) -> usize {
    queue.pop_batch(1, drop)
}

/// One item is queued, in the second slot of the first segment.
fn nearly_used() -> Arc<Queue<u32>> {
    let queue = queue();
    queue.push(1).unwrap();
    assert_eq!(queue.pop(), Some(1));
    queue.push(2).unwrap();
    queue
}

/// An address that comes again does not make a queue look empty in which an item is always queued.
#[test]
fn queue_is_never_falsely_empty() {
    model(|| {
        let queue = nearly_used();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || cycle(&theirs, pop_one));
        assert!(!queue.is_empty(), "at least one item is queued");
        other.join().unwrap();
    });
}

/// Nor does it to a pop.
#[test]
fn queue_pops_never_falsely_empty() {
    model(|| {
        let queue = full();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || cycle(&theirs, pop_one));
        assert!(queue.pop().is_some(), "at least one item is queued");
        other.join().unwrap();
    });
}

/// Nor to a pop that is about to look while the address comes again.
#[test]
fn queue_looks_never_falsely_empty() {
    model(|| {
        let queue = nearly_used();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || {
            theirs.push(3).unwrap();
            theirs.push(4).unwrap();
            assert!(theirs.pop().is_some() && theirs.pop().is_some());
            theirs.push(5).unwrap();
        });
        assert!(queue.pop().is_some(), "at least one item is queued");
        other.join().unwrap();
    });
}

/// Nor beside batches.
#[test]
fn queue_pops_never_falsely_empty_by_batches() {
    model(|| {
        let queue = full();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || cycle(&theirs, pop_batch_of_one));
        assert!(queue.pop().is_some(), "at least one item is queued");
        other.join().unwrap();
    });
}

/// A slot is used again only once its item was moved out: another thread takes the last item of a
/// segment that this one retires, and soon fills again.
#[test]
fn queue_recycles() {
    model(|| {
        let queue = queue();
        for n in 0..4 {
            queue.push(Box::new(n)).unwrap();
        }
        assert_eq!(queue.pop(), Some(Box::new(0)));
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.pop().unwrap());
        let mine = queue.pop().unwrap();
        // Both segments are full: the first of these links the one that comes again.
        for n in 4..6 {
            queue.push(Box::new(n)).unwrap();
        }
        let their = other.join().unwrap();
        assert_eq!(*mine + *their, 3);
        assert_eq!(queue.drain().count(), 3);
    });
}

/// The same after a ticket was abandoned: its producer is done with the slot before the next use.
#[test]
fn queue_recycles_abandoned() {
    model(|| {
        let queue = queue();
        queue.push(Box::new(0)).unwrap();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || {
            let mut popped = usize::from(theirs.pop().is_some());
            theirs.push(Box::new(2)).unwrap();
            popped += usize::from(theirs.pop().is_some());
            for n in 3..6 {
                theirs.push(Box::new(n)).unwrap();
            }
            popped
        });
        queue.push(Box::new(1)).unwrap();
        let popped = other.join().unwrap();
        assert_eq!(popped + queue.drain().count(), 6);
    });
}

/// A consumer under way keeps its segment in limbo, from where another frees it.
#[test]
fn queue_limbo() {
    model(|| {
        let queue = full();
        queue.push(3).unwrap();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.pop());
        let mut all = vec![queue.pop(), queue.pop()];
        // The look of this one frees what is in limbo by then.
        all.push(queue.pop());
        all.push(other.join().unwrap());
        all.sort_unstable();
        assert_eq!(all, [None, Some(1), Some(2), Some(3)]);
        assert_eq!(queue.pop(), None);
    });
}

/// A push beside a close is refused, or is in what is queued.
#[test]
fn queue_push_close() {
    model(|| {
        let queue = queue();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.push(1).is_ok());
        assert!(queue.close());
        let drained = queue.drain().count();
        let pushed = other.join().unwrap();
        assert_eq!(drained, usize::from(pushed), "after close nothing is added");
        assert!(!queue.close());
        assert!(queue.push(2).is_err());
    });
}

/// The same where a push would need a new segment.
#[test]
fn queue_push_close_border() {
    model(|| {
        let queue = full();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.push(3).is_ok());
        assert!(queue.close());
        let drained = queue.drain().count();
        let pushed = other.join().unwrap();
        assert_eq!(
            drained,
            2 + usize::from(pushed),
            "after close nothing is added"
        );
        assert!(queue.is_closed() && queue.push(4).is_err());
    });
}

/// Of two closes one did it; both see it closed.
#[test]
fn queue_close_close() {
    model(|| {
        let queue = full();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || {
            let did = theirs.close();
            assert!(theirs.is_closed());
            did
        });
        let did = queue.close();
        assert!(queue.is_closed());
        assert!(did ^ other.join().unwrap());
    });
}

/// A plain number: a data race on it fails the model.
struct Plain(UnsafeCell<u32>);

// SAFETY: the scenarios below order the two accesses, which is what they check.
unsafe impl Sync for Plain {}

impl Plain {
    fn set(&self) {
        // SAFETY: the other thread reads only after it learnt of this.
        self.0.with_mut(|cell| unsafe { *cell = 7 });
    }

    fn check(&self) {
        // SAFETY: the writer is done once the caller learnt of it.
        assert_eq!(self.0.with(|cell| unsafe { *cell }), 7);
    }
}

/// Who sees the queue closed, or is refused, sees what the closer did before.
#[test]
fn queue_close_is_seen() {
    model(|| {
        let shared = Arc::new((
            Queue::<u8>::with_segment_slots(2),
            Plain(UnsafeCell::new(0)),
        ));
        shared.0.push(0).unwrap();
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || {
            theirs.1.set();
            theirs.0.close();
        });
        if shared.0.is_closed() {
            shared.1.check();
        }
        other.join().unwrap();
    });
}

/// As above, by a push that is refused.
#[test]
fn queue_refusal_sees_the_close() {
    model(|| {
        let shared = Arc::new((
            Queue::<u8>::with_segment_slots(2),
            Plain(UnsafeCell::new(0)),
        ));
        shared.0.push(0).unwrap();
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || {
            theirs.1.set();
            theirs.0.close();
        });
        if shared.0.push(1).is_err() {
            shared.1.check();
        }
        other.join().unwrap();
    });
}

/// As above, where the close marks the end of a full segment, and by a close that comes second.
#[test]
fn queue_second_close_sees_the_first() {
    model(|| {
        let shared = Arc::new((
            Queue::<u8>::with_segment_slots(2),
            Plain(UnsafeCell::new(0)),
        ));
        shared.0.push(0).unwrap();
        shared.0.push(1).unwrap();
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || {
            theirs.1.set();
            theirs.0.close();
        });
        // Only the other one is sure to have done it before; if this one came first, it has seen
        // nothing.
        if shared.0.is_closed() {
            shared.1.check();
        }
        other.join().unwrap();
    });
}

/// A close that finds another's mark has that closer's acts before it.
#[test]
fn queue_mark_is_seen() {
    model(|| {
        let shared = Arc::new((
            Queue::<u8>::with_segment_slots(2),
            Plain(UnsafeCell::new(0)),
        ));
        shared.0.push(0).unwrap();
        shared.0.push(1).unwrap();
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || {
            theirs.1.set();
            theirs.0.close()
        });
        let mine = shared.0.close();
        if !mine {
            shared.1.check();
        }
        assert!(mine ^ other.join().unwrap());
    });
}

/// A batch claims from a segment that another thread has just linked.
#[test]
fn queue_batch_push() {
    model(|| {
        let queue = queue();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.push(1).unwrap());
        queue.push_slice(&[2, 3]).unwrap();
        other.join().unwrap();
        let seen: Vec<u32> = queue.drain().collect();
        assert_eq!(seen.iter().sum::<u32>(), 6);
        let of_the_batch: Vec<u32> = seen.into_iter().filter(|n| *n > 1).collect();
        assert_eq!(of_the_batch, [2, 3]);
    });
}

/// Batches on both sides, over the border: order, and nothing twice.
#[test]
fn queue_batches() {
    model(|| {
        let queue = queue();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.push_slice(&[1, 2, 3]).unwrap());
        let mut seen = Vec::new();
        queue.pop_into(&mut seen, 2);
        queue.pop_into(&mut seen, 3);
        other.join().unwrap();
        while queue.pop_into(&mut seen, 3) > 0 {}
        assert_eq!(seen, [1, 2, 3]);
    });
}

/// Two batches of consumers share out what is queued.
#[test]
fn queue_batches_pop() {
    model(|| {
        let queue = full();
        queue.push(3).unwrap();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || {
            let mut seen = Vec::new();
            theirs.pop_into(&mut seen, 2);
            seen
        });
        let mut seen = Vec::new();
        queue.pop_into(&mut seen, 2);
        seen.extend(other.join().unwrap());
        while queue.pop_into(&mut seen, 2) > 0 {}
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3]);
    });
}

/// A sleeper is woken by the push that comes beside it.
#[test]
fn queue_wait() {
    model(|| {
        let queue = queue();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.push(Box::new(1)).unwrap());
        assert_eq!(queue.pop_wait(WaitStrategy::Park), Some(Box::new(1)));
        other.join().unwrap();
    });
}

/// As above, where the push links a segment.
#[test]
fn queue_wait_border() {
    model(|| {
        let queue = full();
        queue.drain().for_each(drop);
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.push(3).unwrap());
        assert_eq!(queue.pop_wait(WaitStrategy::Park), Some(3));
        other.join().unwrap();
    });
}

/// A sleeper is woken by a close, and then sees the end.
#[test]
fn queue_wait_close() {
    model(|| {
        let queue = queue::<u32>();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.close());
        assert_eq!(queue.pop_wait(WaitStrategy::Park), None);
        assert!(other.join().unwrap());
    });
}

/// A waiter whose time runs out hands its wake-up on: the other one wakes.
#[test]
fn queue_wait_timeout() {
    model(|| {
        let queue = queue();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.push(1).unwrap());
        let theirs = Arc::clone(&queue);
        let timed = thread::spawn(move || {
            theirs
                .pop_deadline(WaitStrategy::Park, std::time::Instant::now())
                .is_ok()
        });
        if timed.join().unwrap() {
            other.join().unwrap();
            assert!(queue.is_empty());
        } else {
            assert_eq!(queue.pop_wait(WaitStrategy::Park), Some(1));
            other.join().unwrap();
        }
    });
}

/// A push that finds the flag left behind clears it, as the consumer enters again to wait for the
/// next item.
#[test]
fn queue_wait_while_the_flag_is_cleared() {
    model(|| {
        let queue = Arc::new(Queue::with_segment_slots(4));
        let passed = queue.pop_deadline(WaitStrategy::Park, std::time::Instant::now());
        assert!(passed.is_err());
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || {
            theirs.push(1).unwrap();
            theirs.push(2).unwrap();
        });
        // The first wait is left out, which would make the model ten times as long.
        let next = if queue.pop().is_some() { 2 } else { 1 };
        assert_eq!(queue.pop_wait(WaitStrategy::Park), Some(next));
        other.join().unwrap();
    });
}

/// A waiter whose time runs out beside one that stays: the wake-up of one of two items may reach
/// either, and the one that stays gets an item. Too long for loom.
#[cfg(not(rast_loom))]
#[test]
fn queue_wait_beside_a_timeout() {
    model(|| {
        let queue = Arc::new(Queue::with_segment_slots(4));
        let theirs = Arc::clone(&queue);
        let timed = thread::spawn(move || {
            theirs
                .pop_deadline(WaitStrategy::Park, std::time::Instant::now())
                .is_ok()
        });
        let theirs = Arc::clone(&queue);
        let stays = thread::spawn(move || theirs.pop_wait(WaitStrategy::Park).unwrap());
        queue.push(1).unwrap();
        queue.push(2).unwrap();
        stays.join().unwrap();
        assert_eq!(timed.join().unwrap(), queue.is_empty());
    });
}

/// Length and emptiness once all is quiet, after tickets were abandoned.
#[test]
fn queue_len_at_rest() {
    model(|| {
        let queue = queue();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.push(1).unwrap());
        let popped = usize::from(queue.pop().is_some());
        let backoff = Backoff::new();
        backoff.spin();
        other.join().unwrap();
        assert_eq!(queue.len(), 1 - popped);
        assert_eq!(queue.is_empty(), popped == 1);
    });
}

/// A queue that ends with items, a spare segment and one in limbo frees all of it.
#[test]
fn queue_drop_with_items() {
    model(|| {
        let queue = full();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || {
            theirs.push(3).unwrap();
            theirs.pop()
        });
        queue.pop();
        drop(queue);
        other.join().unwrap();
    });
}

/// Gives out as many blocks as are left, and takes note of those that are out.
#[derive(Clone)]
struct Scarce(Owned<(AtomicIsize, AtomicIsize)>);

// SAFETY: the memory is the global allocator's, handed through unchanged.
unsafe impl Allocator for Scarce {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if self.0.0.fetch_sub(1, Ordering::Relaxed) <= 0 {
            return Err(AllocError);
        }
        self.0.1.fetch_add(1, Ordering::Relaxed);
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        self.0.1.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the caller's obligations are the global allocator's.
        unsafe { Global.deallocate(block, layout) };
    }
}

/// A push that is refused for want of memory, beside another at the border and a pop that goes on
/// from there: the pin of the first is counted once, so every segment is retired, and once only.
#[test]
fn queue_push_without_memory() {
    model(|| {
        let alloc = Scarce(Owned::new((2.into(), 0.into())));
        let queue = Arc::new(Queue::with_segment_slots_in(2, alloc.clone()));
        queue.push(1).unwrap();
        queue.push(2).unwrap();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || {
            let pushed = theirs.try_push(3).is_ok();
            assert_eq!(theirs.pop(), Some(1));
            assert_eq!(theirs.pop(), Some(2));
            let third = theirs.pop();
            (pushed, third)
        });
        let mine = match queue.try_push(4) {
            Ok(()) => true,
            Err(refused) => {
                assert_eq!(refused, TryPushError::NoMemory(4));
                false
            }
        };
        let (theirs, third) = other.join().unwrap();
        assert!(mine || theirs, "a block was left");
        assert_eq!(
            queue.drain().count() + usize::from(third.is_some()),
            usize::from(mine) + usize::from(theirs)
        );
        drop(queue);
        assert_eq!(alloc.0.1.load(Ordering::Relaxed), 0, "all blocks came back");
    });
}
