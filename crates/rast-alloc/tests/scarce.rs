//! Little address space left: the allocator uses what it holds before it refuses, and the rest to
//! the last segment.
//!
//! Each test runs in a process of its own, whose address space is limited.
#![cfg(all(
    feature = "std",
    target_os = "linux",
    not(any(rast_loom, rast_shuttle, miri))
))]
#![cfg(not(rast_system_segments))]

use rast_alloc::primitive::Random;
use rast_alloc::{Allocator, Heap, Layout, RastAlloc, SharedHeap};
use std::alloc::GlobalAlloc;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::thread;

const MIB: usize = 1 << 20;
/// The variable that marks this program as a child.
const CHILD: &str = "RAST_ALLOC_SCARCE";

// The system's allocator serves the harness, so that each figure below is the test's own.

/// Runs `body` in a process of its own, by running this test there alone.
fn apart(test: &str, body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        // Nothing of the system's own allocator may want more than it has.
        // SAFETY: sets an option of the allocator of the C library.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
        body();
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", output.status);
}

/// Lets the process have so many bytes of address space beyond what it has.
fn limit(more: usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    let limit = libc::rlimit {
        rlim_cur: (kib.unwrap() * 1024 + more) as u64,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the limit is readable; it is this process's own.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(result, 0);
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

/// Allocates a block, writes its ends and frees it; returns whether it was granted.
fn is_had(alloc: impl Allocator, size: usize) -> bool {
    let Ok(block) = alloc.allocate(layout(size)) else {
        return false;
    };
    let block = block.cast::<u8>();
    // SAFETY: the block is new and this long.
    unsafe { block.write(1) };
    // SAFETY: as above.
    let last = unsafe { block.add(size - 1) };
    // SAFETY: as above.
    unsafe { last.write(1) };
    // SAFETY: taken above, and not used again.
    unsafe { alloc.deallocate(block, layout(size)) };
    true
}

/// Takes and gives back so much in spans and short blocks that segments of that many bytes stay
/// with the heap.
fn leave_segments(alloc: impl Allocator + Copy, bytes: usize) {
    let blocks: Vec<NonNull<u8>> = (0..bytes / MIB)
        .map(|_| alloc.allocate(layout(MIB)).unwrap().cast())
        .collect();
    for block in blocks {
        // SAFETY: taken above, and given back once.
        unsafe { alloc.deallocate(block, layout(MIB)) };
    }
}

#[test]
fn a_first_block_needs_no_more_than_a_segment() {
    apart("a_first_block_needs_no_more_than_a_segment", || {
        limit(6 * MIB);
        assert!(is_had(RastAlloc, 64));
    });
}

#[test]
fn a_first_block_of_a_heap_needs_no_more_than_a_segment() {
    apart(
        "a_first_block_of_a_heap_needs_no_more_than_a_segment",
        || {
            limit(6 * MIB);
            {
                let heap = Heap::new();
                assert!(is_had(&heap, 64));
            }
            assert!(is_had(&SharedHeap::new(), 64));
        },
    );
}

#[test]
fn kept_ranges_are_used_before_a_refusal() {
    apart("kept_ranges_are_used_before_a_refusal", || {
        assert!(is_had(RastAlloc, 20 * MIB));
        limit(10 * MIB);
        assert!(is_had(RastAlloc, 24 * MIB));
        // The same by the other front end, as zeroes, and by growth.
        assert!(is_had(RastAlloc, 20 * MIB));
        // SAFETY: the layout has a size.
        let block = unsafe { RastAlloc.alloc_zeroed(layout(24 * MIB)) };
        assert!(!block.is_null());
        // SAFETY: taken above, and given back once.
        unsafe { RastAlloc.dealloc(block, layout(24 * MIB)) };
    });
}

#[test]
fn a_growing_block_uses_kept_ranges_before_a_refusal() {
    apart("a_growing_block_uses_kept_ranges_before_a_refusal", || {
        // SAFETY: the layouts have a size.
        let [long, kept] = [40, 20].map(|mib| unsafe { RastAlloc.alloc(layout(mib * MIB)) });
        // SAFETY: the block is this long.
        unsafe { long.write_bytes(7, 40 * MIB) };
        // SAFETY: taken above, and given back once.
        unsafe { RastAlloc.dealloc(kept, layout(20 * MIB)) };
        limit(10 * MIB);
        // SAFETY: taken above, with this layout.
        let grown = unsafe { RastAlloc.realloc(long, layout(40 * MIB), 64 * MIB) };
        assert!(!grown.is_null());
        // SAFETY: the block is longer than this, and was written to.
        let bytes = unsafe { core::slice::from_raw_parts(grown, 40 * MIB) };
        assert!(bytes.iter().step_by(4096).all(|byte| *byte == 7));
        // What no memory is left for keeps its contents.
        // SAFETY: as above.
        let refused = unsafe { RastAlloc.realloc(grown, layout(64 * MIB), 96 * MIB) };
        assert!(refused.is_null());
        assert!(bytes.iter().step_by(4096).all(|byte| *byte == 7));
    });
}

#[test]
fn heaps_without_a_thread_are_used_before_a_refusal() {
    apart("heaps_without_a_thread_are_used_before_a_refusal", || {
        assert!(is_had(RastAlloc, 64));
        // Both live at once, so that each has a heap, and one is left over.
        let turn = Mutex::new(());
        let held = turn.lock().unwrap();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    leave_segments(RastAlloc, 24 * MIB);
                    drop(turn.lock());
                });
            }
            drop(held);
        });
        limit(10 * MIB);
        assert!(is_had(RastAlloc, 40 * MIB));
    });
}

#[test]
fn a_parked_heap_is_used_before_a_new_thread_is_refused() {
    apart(
        "a_parked_heap_is_used_before_a_new_thread_is_refused",
        || {
            leave_segments(RastAlloc, 24 * MIB);
            RastAlloc::on_idle();
            thread::scope(|scope| {
                let late = scope.spawn(|| {
                    limit(0);
                    is_had(RastAlloc, 64)
                });
                assert!(late.join().unwrap());
            });
        },
    );
}

#[test]
fn heaps_of_ones_own_use_what_they_hold_before_a_refusal() {
    apart(
        "heaps_of_ones_own_use_what_they_hold_before_a_refusal",
        || {
            let heap = Heap::new();
            leave_segments(&heap, 24 * MIB);
            limit(10 * MIB);
            assert!(is_had(&heap, 24 * MIB));
            drop(heap);
            limit(64 * MIB);
            let shared = SharedHeap::new();
            leave_segments(&shared, 24 * MIB);
            limit(10 * MIB);
            assert!(is_had(&shared, 24 * MIB));
        },
    );
}

/// A refused call costs what is held, and nothing hangs or changes, however often it comes.
#[test]
fn refusals_end() {
    apart("refusals_end", || {
        let heap = Heap::new();
        let shared = SharedHeap::new();
        for size in [64, 20_000, MIB] {
            assert!(is_had(RastAlloc, size) && is_had(&heap, size) && is_had(&shared, size));
        }
        limit(10 * MIB);
        for _ in 0..100 {
            assert!(!is_had(RastAlloc, 60 * MIB));
            assert!(!is_had(&heap, 60 * MIB));
            assert!(!is_had(&shared, 60 * MIB));
            assert!(is_had(RastAlloc, 64) && is_had(&heap, 64) && is_had(&shared, 64));
        }
    });
}

/// Mappings of this process, as the system lists them.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .count()
}

/// Takes as many mappings as the system lets a process have; `None` if its limit is too high for a
/// test.
fn fill_mappings() -> Option<(*mut libc::c_void, usize)> {
    const PAGE: usize = 4096;
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let most: usize = text.trim().parse().unwrap();
    if most > 1 << 20 {
        return None;
    }
    let bytes = 2 * most * PAGE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address that the system chooses.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    for index in 0..most {
        let page = start.wrapping_byte_add((2 * index + 1) * PAGE);
        // SAFETY: a page of the mapping above, which nothing uses.
        if unsafe { libc::mprotect(page, PAGE, libc::PROT_READ) } != 0 {
            return Some((start, bytes));
        }
    }
    panic!("the system has no such limit");
}

/// Where the system cannot split a mapping, what is given back of it loses its memory, stays
/// counted, and goes back later.
#[test]
fn the_limit_of_mappings_loses_nothing() {
    apart("the_limit_of_mappings_loses_nothing", || {
        const SIZE: usize = 3 * MIB;
        let take = || -> NonNull<u8> {
            let block = RastAlloc.allocate(layout(SIZE)).unwrap().cast();
            // SAFETY: the block is new and this long.
            unsafe { block.write_bytes(7, SIZE) };
            block
        };
        let mut blocks: Vec<_> = (0..100).map(|_| take()).collect();
        let full = RastAlloc::stats();
        let Some((start, bytes)) = fill_mappings() else {
            return;
        };
        let mut rest = Vec::new();
        for (index, block) in blocks.drain(..).enumerate() {
            if index % 2 == 0 {
                rest.push(block);
                continue;
            }
            // SAFETY: taken above, and given back once.
            unsafe { RastAlloc.deallocate(block, layout(SIZE)) };
        }
        // What is kept is purged, as far as the system allows it.
        RastAlloc::purge();
        let half = RastAlloc::stats();
        assert_eq!(half.bytes_current, rest.len() * SIZE);
        if cfg!(not(feature = "hardened")) {
            assert!(half.bytes_reserved > half.bytes_current, "{half}");
            assert!(half.bytes_reserved <= full.bytes_reserved, "{half}");
            // Of those that the system did not take back some are used again.
            let again = RastAlloc
                .allocate_zeroed(layout(SIZE))
                .unwrap()
                .cast::<u8>();
            // SAFETY: the block is this long, and in use.
            let zeroes = unsafe { core::slice::from_raw_parts(again.as_ptr(), SIZE) };
            assert!(zeroes.iter().all(|byte| *byte == 0));
            rest.push(again);
        }
        // SAFETY: the mapping was made above, and nothing uses it.
        assert_eq!(unsafe { libc::munmap(start, bytes) }, 0);
        RastAlloc::purge();
        let purged = RastAlloc::stats();
        assert!(
            purged.bytes_reserved < purged.bytes_current + 4 * MIB,
            "{purged}"
        );
        for (index, block) in rest.into_iter().enumerate() {
            if index < 50 {
                // SAFETY: the block is this long, and in use.
                let bytes = unsafe { core::slice::from_raw_parts(block.as_ptr(), SIZE) };
                assert!(bytes.iter().all(|byte| *byte == 7));
            }
            // SAFETY: taken above, and given back once.
            unsafe { RastAlloc.deallocate(block, layout(SIZE)) };
        }
        RastAlloc::purge();
        assert_eq!(RastAlloc::stats().bytes_reserved, 0);
    });
}

/// Long random runs need no more mappings than what they hold: neighbours are one mapping for the
/// system.
#[test]
fn mappings_do_not_grow_in_number() {
    apart("mappings_do_not_grow_in_number", || {
        let mut numbers = Random::new(0x2545_f491_4f6c_dd1d);
        let mut random = move |most: usize| numbers.below(most);
        let mut blocks: Vec<(NonNull<u8>, usize)> = Vec::new();
        let mut most = 0;
        for step in 0..30_000 {
            if blocks.len() < 100 && random(3) > 0 {
                let size = match random(3) {
                    0 => 1 + random(100_000),
                    1 => 1 + random(MIB),
                    _ => MIB + random(4 * MIB),
                };
                let block = RastAlloc.allocate(layout(size)).unwrap().cast();
                blocks.push((block, size));
            } else if !blocks.is_empty() {
                let (block, size) = blocks.swap_remove(random(blocks.len()));
                // SAFETY: taken above, and given back once.
                unsafe { RastAlloc.deallocate(block, layout(size)) };
            }
            if step % 1000 == 0 {
                most = most.max(mappings());
                if step % 5000 == 0 {
                    RastAlloc::purge();
                }
            }
        }
        // A hardened build has a page of its own behind each large block, and two in each segment.
        let least = if cfg!(feature = "hardened") { 600 } else { 200 };
        assert!(most < least, "{most} mappings");
    });
}
