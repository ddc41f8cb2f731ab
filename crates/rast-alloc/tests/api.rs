//! What the allocator promises, case by case.
#![cfg(all(feature = "std", not(rast_loom)))]

use rast_alloc::boxed::Box;
use rast_alloc::vec::Vec;
use rast_alloc::{AllocError, Allocator, Global, Layout, RastAlloc, Stats};
use std::alloc::GlobalAlloc;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The figures are the process's: every test that moves them runs alone.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was added between two readings: bytes in use, allocations, frees, reallocations.
fn change(before: Stats, after: Stats) -> (isize, u64, u64, u64) {
    (
        after
            .bytes_current
            .wrapping_sub(before.bytes_current)
            .cast_signed(),
        after.allocations - before.allocations,
        after.frees - before.frees,
        after.reallocations - before.reallocations,
    )
}

#[test]
fn types_have_no_size_and_cross_threads() {
    fn check<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}
    check::<RastAlloc>();
    check::<Stats>();
    assert_eq!(size_of::<RastAlloc>(), 0);
    assert_eq!(size_of::<Box<u8, RastAlloc>>(), size_of::<usize>());
    const ALLOC: RastAlloc = RastAlloc;
    let _ = (ALLOC, Global);
}

#[test]
fn each_call_is_counted() {
    let _alone = alone();
    let start = RastAlloc::stats();
    let layout = Layout::from_size_align(100, 16).unwrap();
    // SAFETY: the layout has a size.
    let block = unsafe { RastAlloc.alloc(layout) };
    assert!(!block.is_null());
    assert_eq!(change(start, RastAlloc::stats()), (100, 1, 0, 0));
    // SAFETY: the block is the allocator's, of this layout, and the new size is not zero.
    let block = unsafe { RastAlloc.realloc(block, layout, 5000) };
    assert_eq!(change(start, RastAlloc::stats()), (5000, 1, 0, 1));
    let grown = Layout::from_size_align(5000, 16).unwrap();
    // SAFETY: as above.
    let block = unsafe { RastAlloc.realloc(block, grown, 60) };
    assert_eq!(change(start, RastAlloc::stats()), (60, 1, 0, 2));
    let shrunk = Layout::from_size_align(60, 16).unwrap();
    // SAFETY: the block is the allocator's and has this layout now.
    unsafe { RastAlloc.dealloc(block, shrunk) };
    let end = RastAlloc::stats();
    assert_eq!(change(start, end), (0, 1, 1, 2));
    assert!(end.bytes_peak >= start.bytes_current + 5000);
    assert_eq!(end.live(), start.live());
}

#[test]
fn the_allocator_face_is_counted_too() {
    let _alone = alone();
    let start = RastAlloc::stats();
    let mut vec = Vec::with_capacity_in(10, RastAlloc);
    vec.extend(0..10u64);
    assert_eq!(change(start, RastAlloc::stats()), (80, 1, 0, 0));
    vec.reserve_exact(90);
    assert_eq!(change(start, RastAlloc::stats()), (800, 1, 0, 1));
    vec.shrink_to_fit();
    assert_eq!(change(start, RastAlloc::stats()), (80, 1, 0, 2));
    assert_eq!(vec.iter().sum::<u64>(), 45);
    vec.clear();
    vec.shrink_to_fit();
    assert_eq!(change(start, RastAlloc::stats()), (0, 1, 1, 2));
    drop(vec);
    assert_eq!(change(start, RastAlloc::stats()), (0, 1, 1, 2));
}

#[test]
fn nothing_costs_nothing() {
    let _alone = alone();
    let start = RastAlloc::stats();
    let none = Layout::from_size_align(0, 64).unwrap();
    let block = RastAlloc.allocate(none).unwrap();
    assert_eq!(block.len(), 0);
    assert_eq!(block.cast::<u8>().addr().get() % 64, 0);
    // SAFETY: the block is the allocator's, of this layout.
    unsafe { RastAlloc.deallocate(block.cast(), none) };
    drop(Box::new_in((), RastAlloc));
    assert_eq!(change(start, RastAlloc::stats()), (0, 0, 0, 0));
}

#[test]
fn memory_is_cleared_when_asked() {
    let _alone = alone();
    let layout = Layout::from_size_align(1 << 20, 4096).unwrap();
    let block = RastAlloc.allocate_zeroed(layout).unwrap();
    // SAFETY: the block is new, ours, initialised with zeroes, and as long as the slice says.
    assert!(unsafe { block.as_ref() }.iter().all(|byte| *byte == 0));
    let double = Layout::from_size_align(2 << 20, 4096).unwrap();
    // SAFETY: the block is the allocator's, of this layout, and the new one is larger.
    let block = unsafe { RastAlloc.grow_zeroed(block.cast(), layout, double) }.unwrap();
    // SAFETY: as above.
    assert!(unsafe { block.as_ref() }.iter().all(|byte| *byte == 0));
    // SAFETY: the block is the allocator's and has this layout now.
    unsafe { RastAlloc.deallocate(block.cast(), double) };
}

#[test]
fn a_refusal_is_an_error_and_changes_no_figure() {
    let _alone = alone();
    let start = RastAlloc::stats();
    let huge = Layout::from_size_align(isize::MAX as usize - 4096, 1).unwrap();
    assert!(matches!(RastAlloc.allocate(huge), Err(AllocError)));
    // SAFETY: the layout has a size.
    assert!(unsafe { RastAlloc.alloc(huge) }.is_null());
    // SAFETY: the layout has a size.
    assert!(unsafe { RastAlloc.alloc_zeroed(huge) }.is_null());
    let small = Layout::from_size_align(8, 8).unwrap();
    let block = RastAlloc.allocate(small).unwrap().cast::<u8>();
    // SAFETY: the block is the allocator's, of this layout, and the new one is larger.
    assert!(unsafe { RastAlloc.grow(block, small, huge) }.is_err());
    // SAFETY: the refused growth left the block as it was.
    unsafe { RastAlloc.deallocate(block, small) };
    assert_eq!(change(start, RastAlloc::stats()), (0, 1, 1, 0));
}

#[test]
fn a_map_lives_in_it() {
    let _alone = alone();
    let start = RastAlloc::stats();
    let mut map = hashbrown::HashMap::<u64, Box<u64, RastAlloc>, _, _>::with_hasher_in(
        hashbrown::DefaultHashBuilder::default(),
        RastAlloc,
    );
    for n in 0..1000 {
        map.insert(n, Box::new_in(n * n, RastAlloc));
    }
    assert!((0..1000).all(|n| *map[&n] == n * n));
    assert!(change(start, RastAlloc::stats()).0 >= 1000 * (8 + 16));
    drop(map);
    let (bytes, allocations, frees, _) = change(start, RastAlloc::stats());
    assert_eq!((bytes, allocations), (0, frees));
}

#[test]
fn blocks_of_one_face_are_freed_by_the_other() {
    let _alone = alone();
    let layout = Layout::new::<[u64; 9]>();
    let block = RastAlloc.allocate(layout).unwrap();
    // SAFETY: both front ends are one allocator, and the block has this layout.
    unsafe { RastAlloc.dealloc(block.cast::<u8>().as_ptr(), layout) };
    // SAFETY: the layout has a size.
    let block = NonNull::new(unsafe { RastAlloc.alloc(layout) }).unwrap();
    // SAFETY: as above.
    unsafe { RastAlloc.deallocate(block, layout) };
}

#[test]
fn all_of_a_block_may_be_used() {
    let _alone = alone();
    for size in (1..3000).chain((3000..3_000_000).step_by(7001)) {
        let layout = Layout::from_size_align(size, 8).unwrap();
        let usable = RastAlloc::usable_size(layout);
        assert!(usable >= size);
        let blocks: [_; 2] =
            core::array::from_fn(|_| RastAlloc.allocate(layout).unwrap().cast::<u8>());
        for (fill, block) in (1..).zip(blocks) {
            // SAFETY: the block is in use, and this long as the allocator says.
            unsafe { block.write_bytes(fill, usable) };
        }
        for (fill, block) in (1..).zip(blocks) {
            // SAFETY: the block is in use, this long, and written.
            let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), usable) };
            assert_eq!((bytes[0], bytes[usable - 1]), (fill, fill), "{size}");
        }
        for block in blocks {
            // SAFETY: the block is the allocator's, of this layout.
            unsafe { RastAlloc.deallocate(block, layout) };
        }
    }
}

#[test]
fn figures_of_each_class() {
    let _alone = alone();
    let live = |size: usize| {
        let class = RastAlloc::class_stats().find(|class| class.block_bytes >= size);
        class
            .map(|class| (class.block_bytes, class.live()))
            .unwrap()
    };
    let (bytes, before) = live(100);
    assert_eq!(bytes, 112);
    let block = Box::new_in([0_u8; 100], RastAlloc);
    assert_eq!(live(100), (112, before + 1));
    // Freed elsewhere, it counts all the same.
    std::thread::spawn(move || drop(block)).join().unwrap();
    assert_eq!(live(100), (112, before));
    let sum = |of: fn(rast_alloc::ClassStats) -> u64| RastAlloc::class_stats().map(of).sum::<u64>();
    assert_eq!(sum(|class| class.live()), RastAlloc::stats().live());
    let stats = RastAlloc::stats();
    assert!(
        stats
            .fields()
            .contains(&("bytes_peak", stats.bytes_peak as u64))
    );
}

#[test]
fn figures_as_text() {
    let text = Stats::default().to_string();
    assert_eq!(
        text,
        "0 bytes in 0 blocks, peak 0 bytes, 0 allocations, 0 frees, 0 reallocations, 0 bytes reserved, 0 committed"
    );
}
