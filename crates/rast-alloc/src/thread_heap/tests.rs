//! The heap of a thread by itself: what it looks at, tells, and puts away.

use super::*;
use crate::arena::looks;
use crate::registry;
use std::vec::Vec;

/// Who read the clock before another thread looked leaves the heap as it is, too; but not for ever
/// if the clock was set back.
#[test]
fn a_heap_is_not_due_for_who_read_the_clock_before_the_last_look() {
    let heap = ThreadHeap::adopt().unwrap();
    heap.age(5000, &mut Pace::step());
    for (now_ms, is_due) in [
        (3999, true),
        (4001, false),
        (4996, false),
        (5000, false),
        (5999, false),
        (6000, true),
    ] {
        assert_eq!(heap.is_due(now_ms, 1000), is_due, "at {now_ms} ms");
    }
    assert!(heap.is_due(5000, 0));
    heap.abandon();
}

/// A slow path takes in a few of the blocks that arrived, and no block is new while there are more.
#[test]
fn what_arrived_is_taken_in_as_it_is_wanted() {
    const BLOCKS: usize = 4096;
    let layout = Layout::from_size_align(64, 8).unwrap();
    let (owner, other) = (ThreadHeap::adopt().unwrap(), ThreadHeap::adopt().unwrap());
    let take = || NonNull::new(owner.allocate(layout)).unwrap();
    let mut blocks: Vec<_> = (0..BLOCKS).map(|_| take()).collect();
    while owner.arena.has_first(Level::of(layout).slot()) {
        blocks.push(take());
    }
    for &block in &blocks {
        // SAFETY: taken above, and given back once.
        unsafe { other.deallocate(block, layout) };
    }
    other.idle();
    let first = take();
    assert!(!owner.arrived.get().is_null(), "all was put away at once");
    let mut again: Vec<_> = (1..blocks.len()).map(|_| take()).collect();
    again.push(first);
    blocks.sort_unstable();
    again.sort_unstable();
    assert_eq!(again, blocks);
    for block in again {
        // SAFETY: taken above, and given back once.
        unsafe { owner.deallocate(block, layout) };
    }
    owner.abandon();
    other.abandon();
}

/// A heap that was left has told all that is in use; its thread's next call that its lists serve,
/// and the fast paths after that, free no more than was told.
#[test]
fn what_was_told_holds_after_a_heap_is_taken_up() {
    let layout = Layout::from_size_align(64, 8).unwrap();
    let class = Level::of(layout).slot();
    let heap = ThreadHeap::adopt().unwrap();
    let take = || NonNull::new(heap.allocate(layout)).unwrap();
    let mut blocks: Vec<_> = (0..4096).map(|_| take()).collect();
    for block in blocks.split_off(4000) {
        // SAFETY: taken above, and given back once.
        unsafe { heap.deallocate(block, layout) };
    }
    heap.hold.park();
    // Nothing else tends it meanwhile, as no thread delivers to it.
    heap.leave();
    assert_eq!(heap.arena.untold(), 0);
    assert!(heap.come_back());
    assert!(heap.arena.has_first(class), "its list serves the next call");
    blocks.push(take());
    while let Some(&block) = blocks.last()
        // SAFETY: taken above; it is forgotten if it was given back.
        && unsafe { heap.arena.try_push(class, block.as_ptr(), 64) }
    {
        blocks.pop();
    }
    let untold = heap.arena.untold();
    assert!(untold >= 0, "{} bytes too many were told", -untold);
    for block in blocks {
        // SAFETY: as above.
        unsafe { heap.deallocate(block, layout) };
    }
    heap.abandon();
}

/// What a thread that begins and a block at a new peak cost does not depend on how many heaps there
/// are.
#[test]
fn no_call_looks_at_the_other_heaps() {
    const HEAPS_HELD: usize = 300;
    let held: Vec<_> = (0..HEAPS_HELD)
        .map(|_| ThreadHeap::adopt().unwrap())
        .collect();
    let steps = registry::steps::of(|| {
        let heap = ThreadHeap::adopt().unwrap();
        let layout = Layout::from_size_align(1 << 20, 8).unwrap();
        let blocks: Vec<_> = (0..64).map(|_| heap.allocate(layout)).collect();
        for block in blocks {
            let block = NonNull::new(block).unwrap();
            // SAFETY: taken above.
            unsafe { heap.deallocate(block, layout) };
        }
        heap.abandon();
    });
    assert!(steps < HEAPS_HELD, "looked at {steps} heaps");
    // The heap that was left last is adopted next, if no other test is quicker; in any case no new
    // ones are made.
    for heap in held {
        heap.abandon();
    }
    let count = || {
        let mut count = 0;
        HEAPS.find(|_| {
            count += 1;
            None::<()>
        });
        count
    };
    let before: usize = count();
    let again: Vec<_> = (0..HEAPS_HELD / 2)
        .map(|_| ThreadHeap::adopt().unwrap())
        .collect();
    // Other tests of this process may have taken some.
    assert!(count() < before + HEAPS_HELD / 4);
    for heap in again {
        heap.abandon();
    }
}

/// A heap with 16 MiB that are not in use, which is parked; the caller holds its mailbox.
fn parked_heap() -> &'static ThreadHeap {
    let layout = Layout::from_size_align(1000, 8).unwrap();
    let heap = ThreadHeap::adopt().unwrap();
    let blocks: Vec<_> = (0..16 << 10)
        .map(|_| NonNull::new(heap.allocate(layout)).unwrap())
        .collect();
    for block in blocks {
        // SAFETY: taken above, and given back once.
        unsafe { heap.deallocate(block, layout) };
    }
    heap.hold.park();
    assert!(heap.arena.surplus() > 15 << 20, "{}", heap.arena.surplus());
    heap
}

/// Claims a parked heap's mailbox, asserts that the heap was purged, and leaves it to other tests.
fn assert_purged(heap: &ThreadHeap) {
    while !heap.mailbox.claim() {
        std::thread::yield_now();
    }
    let surplus = heap.arena.surplus();
    heap.hold.abandon_parked();
    heap.leave();
    assert!(surplus < 1 << 20, "{surplus} bytes are still there");
}

/// A purge that finds a heap tended by another thread waits until that releases it.
#[test]
fn a_purge_waits_for_the_thread_that_tends_a_heap() {
    const LONG_MS: u64 = 600_000;
    let heap = parked_heap();
    let purger = std::thread::spawn(move || {
        ThreadHeap::purge_where(|other| ptr::eq(other, heap), LONG_MS);
        // Both are over: the other thread has released the heap, and it was purged.
        assert_purged(heap);
    });
    while !heap.hold.is_purge_wished() {
        assert!(!purger.is_finished(), "it passed the heap over");
        std::thread::yield_now();
    }
    heap.leave();
    purger.join().unwrap();
}

/// A purge that does not wait long enough leaves its wish to the thread that tends the heap.
#[test]
fn a_purge_that_does_not_wait_leaves_its_wish() {
    let heap = parked_heap();
    let purger =
        std::thread::spawn(move || ThreadHeap::purge_where(|other| ptr::eq(other, heap), 0));
    assert_eq!(purger.join().unwrap(), 0);
    heap.leave();
    assert_purged(heap);
}

/// Another thread asks for the heap between a purge's ask and its look: the purge asks again.
#[test]
fn a_purge_reaches_a_heap_that_another_thread_asks_for() {
    const LONG_MS: u64 = 600_000;
    let heap = parked_heap();
    heap.take_up();
    heap.hold.exit();
    let asked_for = |other: &ThreadHeap| {
        ptr::eq(other, heap) && {
            heap.hold.ask(ASKS.next(Wish::Look));
            true
        }
    };
    let purged = ThreadHeap::purge_where(asked_for, LONG_MS);
    assert!(purged > 15 << 20, "{purged} bytes went back");
    assert_purged(heap);
}

/// The thread that a wish finds in a call that parks the heap purges it, and so does one that comes
/// back first.
#[test]
fn a_wish_that_a_thread_did_not_see_is_done_as_it_parks_or_comes_back() {
    for is_parking in [true, false] {
        let heap = parked_heap();
        if is_parking {
            let _ = heap.hold.take_up();
        }
        heap.hold.ask(ASKS.next(Wish::Purge));
        if is_parking {
            heap.park();
        } else {
            heap.take_up();
            let surplus = heap.arena.surplus();
            assert!(surplus < 1 << 20, "{surplus} bytes are still there");
            heap.hold.park();
            heap.leave();
        }
        assert_purged(heap);
    }
}

/// Blocks past the classes of slabs that are replaced, from lists or not, and that grow in place,
/// are told without a look at all lists at every few calls.
#[test]
fn what_long_blocks_change_is_told_without_a_look_at_the_lists() {
    const CALLS: usize = 20_000;
    const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
    let layout = |bytes| Layout::from_size_align(bytes, 8).unwrap();
    let heap = ThreadHeap::adopt().unwrap();
    let mut numbers = primitive::Random::new(SEED);
    let mut random = |bound: usize| numbers.below(bound);
    let mut replace = |live: usize| {
        let mut blocks: Vec<(NonNull<u8>, Layout)> = Vec::new();
        for _ in 0..CALLS {
            if blocks.len() == live {
                let (block, layout) = blocks.swap_remove(random(live));
                // SAFETY: taken below, and given back once.
                unsafe { heap.deallocate(block, layout) };
            }
            let layout = layout((8 << 10) + 1 + random(192 << 10));
            blocks.push((NonNull::new(heap.allocate(layout)).unwrap(), layout));
        }
        for (block, layout) in blocks {
            // SAFETY: taken above, and given back once.
            unsafe { heap.deallocate(block, layout) };
        }
    };
    let replaced = looks::of(|| replace(100));
    let grow = || {
        for _ in 0..CALLS / 64 {
            let (mut old, new) = (layout(300_000), layout(1 << 20));
            let mut block = NonNull::new(heap.allocate(old)).unwrap();
            while old.size() < new.size() {
                let longer = layout(old.size() + (64 << 10));
                // SAFETY: the block has this layout, and is given up.
                block = NonNull::new(unsafe { heap.reallocate(block, old, longer) }).unwrap();
                old = longer;
            }
            // SAFETY: taken above, and given back once.
            unsafe { heap.deallocate(block, old) };
        }
    };
    let grown = looks::of(grow);
    heap.abandon();
    std::println!("seed {SEED:#x}: {replaced} and {grown} looks");
    assert!(replaced < CALLS / 100, "{replaced} looks, seed {SEED:#x}");
    assert!(grown < CALLS / 100, "{grown} looks");
}
