//! Tests of the internals: counts that wrap, and threads that stop between two steps.

use super::*;
use crate::alloc::{AllocError, Layout};
use core::cell::Cell;
use std_alloc::vec::Vec;

/// Just before the counts of both words, and of the node that both point to, come round.
fn near_wrap(queue: &ListQueue<u32>, below: u64) {
    let given = u64::MAX - below;
    for source in [&queue.head, &queue.tail] {
        let reference = queue.refer(source);
        source.preset_given_out(given);
        reference.preset_given_back(given);
    }
}

#[test]
fn counts_come_round() {
    for below in 0..8 {
        let mut queue = ListQueue::new();
        for n in 0..3 {
            // On the first node, which stays, and on those that come and go.
            near_wrap(&queue, below);
            queue.check_invariants();
            for _ in 0..6 {
                assert_eq!(queue.pop(), None);
                assert!(!queue.is_closed());
            }
            queue.check_invariants();
            queue.push(n).unwrap();
            assert_eq!(queue.pop(), Some(n));
            queue.check_invariants();
        }
        near_wrap(&queue, below);
        queue.extend([7, 8]);
        assert_eq!(queue.drain().collect::<Vec<_>>(), [7, 8]);
    }
}

/// Counts blocks in use.
#[derive(Default)]
struct Counting(Cell<usize>);

// SAFETY: the memory is the global allocator's, handed through unchanged.
unsafe impl Allocator for &Counting {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.set(self.0.get() + 1);
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        self.0.set(self.0.get() - 1);
        // SAFETY: the caller's obligations are the global allocator's.
        unsafe { Global.deallocate(block, layout) };
    }
}

type Counted<'a> = ListQueue<u32, &'a Counting>;

/// A push, step by step, that stops before step `at` until `others` are done.
fn push_that_stops(
    queue: &Counted<'_>,
    n: u32,
    at: usize,
    others: impl FnOnce(),
) -> Result<(), Closed<u32>> {
    let mut others = Some(others);
    let mut stop_before = |step| {
        if let Some(others) = others.take_if(|_| step == at) {
            others();
        }
    };
    let (Ok(item), Ok(place)) = (
        Block::new(Item(n), &queue.nodes.alloc),
        Block::new(Node::new(Node::<u32>::PASSING), &queue.nodes.alloc),
    ) else {
        panic!("no memory");
    };
    stop_before(0);
    let back = queue.refer(&queue.tail);
    stop_before(1);
    if back.put(item.as_non_null()).is_err() {
        drop((back, item, place));
        return queue.push(n);
    }
    let _ = item.leak();
    stop_before(2);
    let linked = back.link(place.as_non_null());
    let next = if linked {
        place.leak()
    } else {
        drop(place);
        back.next().unwrap()
    };
    stop_before(3);
    let moved = queue
        .tail
        .pass(back.place, back.count, Place::of_link(next));
    stop_before(4);
    if let Some(count) = moved {
        back.promise(count);
    }
    stop_before(5);
    drop(back);
    Ok(())
}

/// A pop, step by step, that stops before step `at` until `others` are done.
fn pop_that_stops(queue: &Counted<'_>, at: usize, others: impl FnOnce()) -> Option<u32> {
    let mut others = Some(others);
    let mut stop_before = |step| {
        if let Some(others) = others.take_if(|_| step == at) {
            others();
        }
    };
    stop_before(0);
    let front = queue.refer(&queue.head);
    stop_before(1);
    let next = front.next()?;
    stop_before(2);
    let moved = queue
        .head
        .pass(front.place, front.count, Place::of_link(next));
    stop_before(3);
    let Some(count) = moved else {
        drop(front);
        return queue.pop();
    };
    front.promise(count);
    stop_before(4);
    let Data::Item(item) = front.data() else {
        panic!("no item above a link");
    };
    drop(front);
    // SAFETY: as in `pop`: (1) a push leaked it, (2) this call moved the head.
    Some(
        unsafe { Block::from_leaked(item, &queue.nodes.alloc) }
            .into_inner()
            .0,
    )
}

/// Many operations of others, which complete, on a queue in which `standing` items may be queued;
/// what they leave holds a few blocks.
fn others(queue: &Counted<'_>, counting: &Counting, standing: usize) {
    for n in 0..100 {
        queue.push(1000 + n).unwrap();
        assert!(!queue.is_empty() && !queue.is_closed());
        assert!(queue.pop().is_some());
    }
    // What is queued, the last node, what the thread that stopped holds: its item, its node, and
    // one that it looks at.
    assert!(counting.0.get() <= 2 * standing + 4, "{}", counting.0.get());
}

/// Every step that a push can stop before, with nothing and with something in the queue.
fn pushes() -> impl Iterator<Item = (usize, u32)> {
    [0, 3]
        .into_iter()
        .flat_map(|before| (0..6).map(move |at| (at, before)))
}

#[test]
fn a_push_that_stops_anywhere_delays_nobody() {
    for (at, before) in pushes() {
        let counting = Counting::default();
        let mut queue = ListQueue::new_in(&counting);
        queue.extend(0..before);
        push_that_stops(&queue, 7, at, || {
            others(&queue, &counting, before as usize + 1);
        })
        .unwrap();
        queue.check_invariants();
        assert_eq!(queue.drain().count(), before as usize + 1);
        assert!(counting.0.get() <= 1);
        drop(queue);
        assert_eq!(counting.0.get(), 0);
    }
}

#[test]
fn a_pop_that_stops_anywhere_delays_nobody() {
    for at in 0..5 {
        let counting = Counting::default();
        let mut queue = ListQueue::new_in(&counting);
        queue.extend(0..3);
        let popped = pop_that_stops(&queue, at, || others(&queue, &counting, 3));
        assert!(popped.is_some());
        queue.check_invariants();
        assert_eq!(queue.drain().count(), 2);
        drop(queue);
        assert_eq!(counting.0.get(), 0);
    }
}

#[test]
fn others_help_a_push_that_stopped() {
    let counting = Counting::default();
    let queue = ListQueue::new_in(&counting);
    push_that_stops(&queue, 1, 2, || {
        assert_eq!(queue.pop(), None, "not pushed yet");
        assert!(queue.is_empty() && !queue.is_closed());
        queue.push(2).unwrap();
        assert_eq!(queue.pop(), Some(1), "helped");
        assert_eq!(queue.pop(), Some(2));
    })
    .unwrap();
    assert_eq!(queue.pop(), None);
}

#[test]
fn closes_beside_a_push_that_stopped() {
    for (at, before) in pushes() {
        let counting = Counting::default();
        let mut queue = ListQueue::new_in(&counting);
        queue.extend(0..before);
        let pushed = push_that_stops(&queue, 7, at, || {
            assert!(queue.close());
            assert!(queue.is_closed() && !queue.close());
            assert_eq!(queue.push(8), Err(Closed(8)));
            // From the second step on the item is in the list.
            let standing = before as usize + usize::from(at > 1);
            assert_eq!(queue.drain().count(), standing);
        });
        assert_eq!(pushed, if at < 2 { Err(Closed(7)) } else { Ok(()) });
        assert!(queue.is_closed() && queue.is_empty());
        queue.check_invariants();
        drop(queue);
        assert_eq!(counting.0.get(), 0);
    }
}
