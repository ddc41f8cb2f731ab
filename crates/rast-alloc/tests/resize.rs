//! Blocks of other threads that change their size: where they may stay they do, and the figures
//! stay exact. The allocator serves nothing else in this process.
#![cfg(all(feature = "std", not(any(rast_loom, rast_shuttle, rast_global_alloc))))]

use rast_alloc::{Allocator, Layout, RastAlloc, Stats};
use std::alloc::GlobalAlloc;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};
use std::thread;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

/// Calls `f` in a thread with a block that another thread took and that lives still, and frees it
/// there.
fn with_block_of_another(size: usize, f: impl FnOnce(*mut u8) -> (*mut u8, usize) + Send) {
    // The figures are the process's.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the layout has a size.
    let block = unsafe { RastAlloc.alloc(layout(size)) }.expose_provenance();
    thread::scope(|scope| {
        scope.spawn(move || {
            let block = std::ptr::with_exposed_provenance_mut::<u8>(block);
            // The thread has a heap of its own, which owns no block.
            // SAFETY: the block is this long and in use.
            unsafe { block.write_bytes(7, size) };
            let (block, size) = f(block);
            // SAFETY: the block is this long and in use.
            let bytes = unsafe { std::slice::from_raw_parts(block, size) };
            assert!(bytes.iter().all(|byte| *byte == 7));
            // SAFETY: `f` gave the block with its size.
            unsafe { RastAlloc.dealloc(block, layout(size)) };
        });
    });
    let stats = RastAlloc::stats();
    assert_eq!((stats.live(), stats.bytes_current), (0, 0));
}

/// What a change of size adds to the figures, if the block stays.
fn expected(before: Stats, old: usize, new: usize) -> Stats {
    let mut stats = before;
    stats.bytes_current = before.bytes_current + new - old;
    stats.bytes_peak = stats.bytes_current.max(before.bytes_peak);
    stats.reallocations += 1;
    stats
}

#[test]
fn a_block_of_another_thread_stays_within_its_class() {
    // Of a short class, a slab's longest, one of spans, and spans without a class within a grain.
    for (size, others) in [
        (100, vec![97, 112, 104]),
        (8000, vec![7681, 8192, 7700]),
        (20_000, vec![18_433, 20_480, 19_000]),
        (200_000, vec![196_609, 200_001]),
        (300_000, vec![299_009, 300_032, 299_500]),
    ] {
        with_block_of_another(size, |block| {
            let mut old = size;
            for new in others {
                let before = RastAlloc::stats();
                // SAFETY: the block is in use, with this layout.
                let resized = unsafe { RastAlloc.realloc(block, layout(old), new) };
                assert_eq!(resized, block, "from {old} to {new}");
                let mut after = RastAlloc::stats();
                // Another thread may take or give back pages meanwhile.
                after.bytes_reserved = before.bytes_reserved;
                after.bytes_committed = before.bytes_committed;
                assert_eq!(after, expected(before, old, new));
                // SAFETY: the block is this long now.
                unsafe { block.write_bytes(7, new) };
                old = new;
            }
            (block, old)
        });
    }
}

#[test]
fn a_block_of_another_thread_moves_to_another_class() {
    for (old, new) in [(100, 200), (200, 100), (20_000, 30_000), (300_000, 290_000)] {
        with_block_of_another(old, |block| {
            let before = RastAlloc::stats();
            // SAFETY: the block is in use, with this layout.
            let moved = unsafe { RastAlloc.realloc(block, layout(old), new) };
            assert_ne!(moved, block, "from {old} to {new}");
            let after = RastAlloc::stats();
            assert_eq!(after.bytes_current, before.bytes_current + new - old);
            assert_eq!(after.live(), before.live());
            assert_eq!(after.reallocations, before.reallocations + 1);
            // SAFETY: the block is this long.
            unsafe { moved.write_bytes(7, new) };
            (moved, new)
        });
    }
}

/// The same by the other front end, with another alignment too.
#[test]
fn both_front_ends_leave_a_block_where_it_is() {
    with_block_of_another(100, |block| {
        let start = NonNull::new(block).unwrap();
        // SAFETY: the block is in use, with this layout; the new one is longer.
        let grown = unsafe { RastAlloc.grow(start, layout(100), layout(110)) };
        assert_eq!(grown.unwrap().cast(), start);
        // SAFETY: the block is this long.
        unsafe { block.write_bytes(7, 110) };
        (block, 110)
    });
}
