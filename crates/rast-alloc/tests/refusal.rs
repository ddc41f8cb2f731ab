//! Lack of memory: by a bound, and by requests that no system grants; what was there before stays,
//! and all goes on.
#![cfg(all(feature = "std", not(rast_loom)))]

mod support;

use rast_alloc::{Allocator, Heap, Layout, RastAlloc};
use std::alloc::GlobalAlloc;
use std::ptr::NonNull;
use support::GlobalFace;

/// A size of each level: a list's, a slab's, a span's with and without a class, a mapping's.
const LEVELS: [usize; 5] = [48, 6000, 20_000, 200_000, 3 << 20];

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

/// A block that knows its contents.
struct Block<A: Allocator> {
    alloc: A,
    memory: NonNull<u8>,
    size: usize,
    mark: usize,
}

// SAFETY: the tests send blocks of allocators alone that free on any thread.
unsafe impl Send for Block<RastAlloc> {}

impl<A: Allocator> Block<A> {
    fn new(alloc: A, size: usize, mark: usize) -> Option<Self> {
        let memory = alloc.allocate(layout(size)).ok()?.cast();
        // SAFETY: the block is new and this long.
        unsafe { support::write(memory, mark, 0, size) };
        Some(Self {
            alloc,
            memory,
            size,
            mark,
        })
    }

    fn check(&self) {
        // SAFETY: the block is in use and written over its whole length.
        assert!(unsafe { support::has(self.memory, self.mark, self.size) });
    }

    /// Changes the size; returns whether that was granted. The contents are checked in either case.
    fn resize(&mut self, size: usize, zeroed: bool) -> bool {
        let (old, new) = (layout(self.size), layout(size));
        let memory = if size < self.size {
            // SAFETY: the block is the allocator's, of the old layout; the new one is smaller.
            unsafe { self.alloc.shrink(self.memory, old, new) }
        } else if zeroed {
            // SAFETY: likewise; the new one is larger.
            unsafe { self.alloc.grow_zeroed(self.memory, old, new) }
        } else {
            // SAFETY: likewise.
            unsafe { self.alloc.grow(self.memory, old, new) }
        };
        let Ok(memory) = memory else {
            self.check();
            return false;
        };
        self.memory = memory.cast();
        let kept = size.min(self.size);
        self.size = kept;
        self.check();
        self.size = size;
        // SAFETY: the block is in use and this long.
        unsafe { support::write(self.memory, self.mark, kept, size) };
        true
    }
}

impl<A: Allocator> Drop for Block<A> {
    fn drop(&mut self) {
        self.check();
        // SAFETY: the block is the allocator's, of this layout, and not used again.
        unsafe { self.alloc.deallocate(self.memory, layout(self.size)) };
    }
}

#[test]
fn past_its_bound_a_heap_refuses_and_goes_on() {
    for size in LEVELS {
        let heap = Heap::bounded(20 * size + size / 2);
        for round in 0..3 {
            let mut blocks: Vec<_> = (0..)
                .map_while(|mark| Block::new(&heap, size, mark))
                .collect();
            assert_eq!(blocks.len(), 20, "round {round} of {size} bytes");
            let full = heap.stats();
            assert_eq!(full.bytes_current, 20 * size);
            assert!((&heap).allocate_zeroed(layout(size)).is_err());
            assert!(!blocks[7].resize(2 * size, false));
            assert!(!blocks[7].resize(2 * size, true));
            assert_eq!(heap.stats(), full, "refusals change no figure");
            // What stays within the bound is granted.
            assert!(blocks[7].resize(size + size / 2, false));
            assert!(blocks[7].resize(size, false));
            drop(blocks.swap_remove(3));
            blocks.push(Block::new(&heap, size, 99).expect("one went back, one more is had"));
            drop(blocks);
            assert_eq!(heap.stats().bytes_current, 0);
            if round == 1 {
                heap.purge();
            }
        }
    }
}

#[test]
fn containers_are_told_of_the_bound() {
    let heap = Heap::bounded(64 * 1024);
    let mut numbers = rast_alloc::vec::Vec::new_in(&heap);
    while numbers.try_reserve(1).is_ok() {
        numbers.push(numbers.len());
    }
    assert!(numbers.len() >= 2048, "{}", numbers.len());
    assert!(numbers.iter().enumerate().all(|(at, number)| at == *number));
    numbers.truncate(100);
    numbers.shrink_to_fit();
    let mut map = hashbrown::HashMap::<usize, usize, _, _>::with_hasher_in(
        hashbrown::DefaultHashBuilder::default(),
        &heap,
    );
    while map.try_reserve(1).is_ok() {
        map.insert(map.len(), map.len());
    }
    assert!(map.len() >= 500, "{}", map.len());
    assert!((0..map.len()).all(|key| map[&key] == key));
    assert_eq!(numbers.iter().sum::<usize>(), 4950);
}

/// More than any system maps, and more than the address space has.
const IMPOSSIBLE: [usize; 3] = [1 << 48, 1 << 60, isize::MAX as usize - 4096];

#[test]
fn a_realloc_that_is_refused_keeps_the_block() {
    for size in LEVELS {
        // Of this thread, and of one that has ended: the second is another heap's, or of an adopted
        // one.
        let own = Block::new(RastAlloc, size, 5).unwrap();
        let other = std::thread::spawn(move || Block::new(RastAlloc, size, 6).unwrap());
        for mut block in [own, other.join().unwrap()] {
            for impossible in IMPOSSIBLE {
                assert!(!block.resize(impossible, false));
                assert!(!block.resize(impossible, true));
                let start = block.memory.as_ptr();
                // SAFETY: the block is the allocator's, of this layout, and the size is no more
                // than `isize::MAX`.
                let moved = unsafe { RastAlloc.realloc(start, layout(size), impossible) };
                assert!(moved.is_null());
                block.check();
            }
            assert!(block.resize(size + 100, false));
        }
        let heap = Heap::new();
        let mut block = Block::new(&heap, size, 7).unwrap();
        let before = heap.stats();
        for impossible in IMPOSSIBLE {
            assert!(!block.resize(impossible, false));
        }
        assert_eq!(heap.stats(), before, "refusals change no figure");
    }
}

#[test]
fn what_no_system_grants_is_refused() {
    fn check(alloc: impl Allocator + Copy) {
        for impossible in IMPOSSIBLE {
            for align in [1, 4096, 1 << 20, 1 << 30] {
                let Ok(layout) = Layout::from_size_align(impossible, align) else {
                    continue;
                };
                assert!(alloc.allocate(layout).is_err());
                assert!(alloc.allocate_zeroed(layout).is_err());
            }
            Block::new(alloc, 100, impossible % 97).expect("all goes on");
        }
        // An alignment that no mapping has.
        let layout = Layout::from_size_align(1, 1 << 60).unwrap();
        assert!(alloc.allocate(layout).is_err());
    }
    check(RastAlloc);
    check(GlobalFace);
    check(&Heap::new());
}
