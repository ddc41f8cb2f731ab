//! The heap of one thread: what it reports, scans and handles.

use super::*;
use crate::arena::recomputes;
use crate::registry;
use std::vec::Vec;

/// A pass is not due for a thread that read the clock before another thread's pass; but it is if
/// the clock was set back.
#[test]
fn a_pass_is_not_due_if_the_clock_was_read_before_the_last_pass() {
    let heap = ThreadHeap::adopt().unwrap();
    heap.age(5000, &mut StepLimit::step());
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

/// A slow path handles a few of the arrived blocks, and no block is carved while there are more.
#[test]
fn arrived_blocks_are_handled_as_needed() {
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

/// A released heap has reported all that is in use. After its thread's next call, which its lists
/// serve, the fast paths free no more than was reported.
#[test]
fn what_was_reported_holds_after_a_heap_is_reacquired() {
    let layout = Layout::from_size_align(64, 8).unwrap();
    let class = Level::of(layout).slot();
    let heap = ThreadHeap::adopt().unwrap();
    let take = || NonNull::new(heap.allocate(layout)).unwrap();
    let mut blocks: Vec<_> = (0..4096).map(|_| take()).collect();
    for block in blocks.split_off(4000) {
        // SAFETY: taken above, and given back once.
        unsafe { heap.deallocate(block, layout) };
    }
    heap.ownership.park();
    // Nothing else services it meanwhile, as no thread delivers to it.
    heap.leave();
    assert_eq!(heap.arena.unreported(), 0);
    assert!(heap.reacquire());
    assert!(heap.arena.has_first(class), "its list serves the next call");
    blocks.push(take());
    while let Some(&block) = blocks.last()
        // SAFETY: taken above; it is forgotten if it was given back.
        && unsafe { heap.arena.try_push(class, block.as_ptr(), 64) }
    {
        blocks.pop();
    }
    let unreported = heap.arena.unreported();
    assert!(unreported >= 0, "{} bytes too many were told", -unreported);
    for block in blocks {
        // SAFETY: as above.
        unsafe { heap.deallocate(block, layout) };
    }
    heap.abandon();
}

/// The cost of a starting thread, and of a block at a new peak, does not depend on the number of
/// heaps.
#[test]
fn no_call_visits_the_other_heaps() {
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

/// A parked heap with 16 MiB that are not in use; the caller holds its mailbox.
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
    heap.ownership.park();
    assert!(heap.arena.surplus() > 15 << 20, "{}", heap.arena.surplus());
    heap
}

/// Claims a parked heap's mailbox, asserts that the heap was purged, and abandons it to other
/// tests.
fn assert_purged(heap: &ThreadHeap) {
    while !heap.mailbox.claim() {
        std::thread::yield_now();
    }
    let surplus = heap.arena.surplus();
    heap.ownership.abandon_parked();
    heap.leave();
    assert!(surplus < 1 << 20, "{surplus} bytes are still there");
}

/// A purge waits for a thread that services a heap.
#[test]
fn a_purge_waits_for_the_thread_that_services_a_heap() {
    const LONG_MS: u64 = 600_000;
    let heap = parked_heap();
    let purger = std::thread::spawn(move || {
        ThreadHeap::purge_where(|other| ptr::eq(other, heap), LONG_MS);
        // Both are over: the other thread has released the heap, and it was purged.
        assert_purged(heap);
    });
    while !heap.ownership.is_purge_requested() {
        assert!(!purger.is_finished(), "it passed the heap over");
        std::thread::yield_now();
    }
    heap.leave();
    purger.join().unwrap();
}

/// A purge that does not wait leaves its request to the servicing thread.
#[test]
fn a_purge_that_does_not_wait_leaves_its_request() {
    let heap = parked_heap();
    let purger =
        std::thread::spawn(move || ThreadHeap::purge_where(|other| ptr::eq(other, heap), 0));
    assert_eq!(purger.join().unwrap(), 0);
    heap.leave();
    assert_purged(heap);
}

/// Another thread requests the heap between a purge's request and its check: the purge requests
/// again.
#[test]
fn a_purge_reaches_a_heap_that_another_thread_requests() {
    const LONG_MS: u64 = 600_000;
    let heap = parked_heap();
    heap.enter_claimed();
    heap.ownership.exit();
    let asked_for = |other: &ThreadHeap| {
        ptr::eq(other, heap) && {
            heap.ownership.request(REQUESTS.next(Action::Decay));
            true
        }
    };
    let purged = ThreadHeap::purge_where(asked_for, LONG_MS);
    assert!(purged > 15 << 20, "{purged} bytes went back");
    assert_purged(heap);
}

/// A thread in a call sees a purge request when it parks the heap, or when it returns first; it
/// then purges the heap.
#[test]
fn a_request_that_a_thread_did_not_see_is_done_when_it_parks_or_returns() {
    for is_parking in [true, false] {
        let heap = parked_heap();
        if is_parking {
            let _ = heap.ownership.enter_claimed();
        }
        heap.ownership.request(REQUESTS.next(Action::Purge));
        if is_parking {
            heap.park();
        } else {
            heap.enter_claimed();
            let surplus = heap.arena.surplus();
            assert!(surplus < 1 << 20, "{surplus} bytes are still there");
            heap.ownership.park();
            heap.leave();
        }
        assert_purged(heap);
    }
}

/// Blocks above the slab classes that are replaced, or grow in place, are reported without a scan
/// of all lists every few calls.
#[test]
fn long_blocks_are_reported_without_a_scan_of_the_lists() {
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
    let replaced = recomputes::of(|| replace(100));
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
    let grown = recomputes::of(grow);
    heap.abandon();
    std::println!("seed {SEED:#x}: {replaced} and {grown} recomputations");
    assert!(
        replaced < CALLS / 100,
        "{replaced} recomputations, seed {SEED:#x}"
    );
    assert!(grown < CALLS / 100, "{grown} recomputations");
}
