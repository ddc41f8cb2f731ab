//! Random operation lists against a map of what is in use: no overlap, alignment, zeroing, contents
//! kept, refusals exact.
#![cfg(all(feature = "std", not(rast_loom)))]

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use rast_alloc::{Allocator, Heap, Layout, RastAlloc, SharedHeap, Stats};
use std::ptr::NonNull;
use support::{BORDERS, GlobalFace, Map};

#[derive(Clone, Debug)]
enum Op {
    Allocate {
        size: usize,
        align_bits: u32,
        zeroed: bool,
    },
    /// Grows or shrinks, sometimes to another alignment.
    Resize {
        which: usize,
        size: usize,
        align_bits: Option<u32>,
        zeroed: bool,
    },
    Free {
        which: usize,
    },
}

/// Sizes of every level; the borders between levels and classes more often than chance would have
/// them.
fn size() -> impl Strategy<Value = usize> {
    let longest = if cfg!(miri) { 20_000 } else { 9_000_000 };
    prop_oneof![
        8 => 0..64usize,
        8 => 0..5000usize,
        6 => 0..40_000usize,
        4 => 0..300_000usize,
        2 => 0..longest,
        4 => (0..BORDERS.len(), 0..3usize)
            .prop_map(move |(border, more)| (BORDERS[border] - 1 + more).min(longest)),
    ]
}

/// Alignments up to a segment's; those past a page are rarer.
fn align_bits() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..7u32, 3 => 0..14u32, 1 => 0..23u32]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (size(), align_bits(), any::<bool>())
            .prop_map(|(size, align_bits, zeroed)| Op::Allocate { size, align_bits, zeroed }),
        4 => (any::<usize>(), size(), proptest::option::weighted(0.2, align_bits()), any::<bool>())
            .prop_map(|(which, size, align_bits, zeroed)| Op::Resize { which, size, align_bits, zeroed }),
        2 => any::<usize>().prop_map(|which| Op::Free { which }),
    ]
}

/// A block in use, with the contents of its mark.
struct Block {
    memory: NonNull<u8>,
    layout: Layout,
    mark: usize,
}

/// What the allocator has to do, kept beside what it does.
struct Shadow<A: Allocator> {
    alloc: A,
    /// Bytes that may be asked for at once.
    bound: usize,
    requested: usize,
    map: Map,
    used: Vec<Block>,
}

type Checked<T = ()> = Result<T, TestCaseError>;

impl<A: Allocator> Shadow<A> {
    fn new(alloc: A, bound: usize) -> Self {
        Self {
            alloc,
            bound,
            requested: 0,
            map: Map::default(),
            used: Vec::new(),
        }
    }

    /// A block that the allocator gave, with room for all of it.
    fn check_place(&mut self, block: &Block) -> Checked {
        prop_assert_eq!(
            block.memory.addr().get() % block.layout.align(),
            0,
            "alignment"
        );
        if block.layout.size() > 0 {
            let noted = self.map.insert(block.memory, block.layout.size());
            prop_assert!(noted.is_ok(), "{}", noted.unwrap_err());
        }
        Ok(())
    }

    fn check_contents(block: &Block) -> Checked {
        // SAFETY: the block is in use and written over its whole length.
        let kept = unsafe { support::has(block.memory, block.mark, block.layout.size()) };
        prop_assert!(kept, "contents of {:?}", block.layout);
        Ok(())
    }

    fn allocate(&mut self, layout: Layout, zeroed: bool, mark: usize) -> Checked {
        let fits = self.requested + layout.size() <= self.bound;
        let memory = if zeroed {
            self.alloc.allocate_zeroed(layout)
        } else {
            self.alloc.allocate(layout)
        };
        prop_assert_eq!(memory.is_ok(), fits || layout.size() == 0, "refusal");
        let Ok(memory) = memory else { return Ok(()) };
        prop_assert!(memory.len() >= layout.size());
        let block = Block {
            memory: memory.cast(),
            layout,
            mark,
        };
        self.requested += layout.size();
        self.check_place(&block)?;
        if zeroed {
            // SAFETY: the block is new, and initialised, as is to be seen.
            let cleared = unsafe { support::is_zero(block.memory, 0, layout.size()) };
            prop_assert!(cleared, "zeroes");
        }
        // SAFETY: the block is new and this long.
        unsafe { support::write(block.memory, mark, 0, layout.size()) };
        self.used.push(block);
        Ok(())
    }

    fn resize(&mut self, which: usize, new: Layout, zeroed: bool) -> Checked {
        let mut block = self.used.swap_remove(which);
        let (old, size) = (block.layout, new.size());
        if old.size() > 0 {
            self.map.remove(block.memory);
        }
        let memory = if size < old.size() {
            // SAFETY: the block is the allocator's, of the old layout; the new one is smaller.
            unsafe { self.alloc.shrink(block.memory, old, new) }
        } else if zeroed {
            // SAFETY: likewise; the new one is not smaller.
            unsafe { self.alloc.grow_zeroed(block.memory, old, new) }
        } else {
            // SAFETY: likewise.
            unsafe { self.alloc.grow(block.memory, old, new) }
        };
        match memory {
            Ok(memory) => {
                block.memory = memory.cast();
                block.layout = new;
                self.requested = self.requested - old.size() + size;
                prop_assert!(self.requested <= self.bound, "the bound is kept");
            }
            // What is moved counts once: the result alone has to fit.
            Err(_) => {
                prop_assert!(self.requested - old.size() + size > self.bound, "refusal");
            }
        }
        self.check_place(&block)?;
        let kept = block.layout.size().min(old.size());
        // SAFETY: the block is in use, and so much of it was written before.
        let is_kept = unsafe { support::has(block.memory, block.mark, kept) };
        prop_assert!(is_kept, "contents of {:?} to {:?}", old, new);
        if zeroed && memory.is_ok() && size > kept {
            // SAFETY: the block is in use and initialised, as is to be seen.
            let cleared = unsafe { support::is_zero(block.memory, kept, size) };
            prop_assert!(cleared, "zeroes from {:?} to {:?}", old, new);
        }
        // SAFETY: the block is in use and this long.
        unsafe { support::write(block.memory, block.mark, kept, block.layout.size()) };
        self.used.push(block);
        Ok(())
    }

    fn free(&mut self, which: usize) -> Checked {
        let block = self.used.swap_remove(which);
        Self::check_contents(&block)?;
        self.forget(&block);
        Ok(())
    }

    fn forget(&mut self, block: &Block) {
        if block.layout.size() > 0 {
            self.map.remove(block.memory);
        }
        self.requested -= block.layout.size();
        // SAFETY: the block is the allocator's, of this layout, and not used again.
        unsafe { self.alloc.deallocate(block.memory, block.layout) };
    }

    fn run(&mut self, ops: &[Op]) -> Checked {
        for (mark, op) in ops.iter().enumerate() {
            match *op {
                Op::Allocate {
                    size,
                    align_bits,
                    zeroed,
                } => {
                    let layout = Layout::from_size_align(size, 1 << align_bits).unwrap();
                    self.allocate(layout, zeroed, mark)?;
                }
                Op::Resize {
                    which,
                    size,
                    align_bits,
                    zeroed,
                } if !self.used.is_empty() => {
                    let which = which % self.used.len();
                    let old = self.used[which].layout;
                    let align = align_bits.map_or(old.align(), |bits| 1 << bits);
                    let new = Layout::from_size_align(size, align).unwrap();
                    self.resize(which, new, zeroed)?;
                }
                Op::Free { which } if !self.used.is_empty() => {
                    self.free(which % self.used.len())?;
                }
                Op::Resize { .. } | Op::Free { .. } => {}
            }
        }
        self.used.iter().try_for_each(Self::check_contents)
    }
}

impl<A: Allocator> Drop for Shadow<A> {
    fn drop(&mut self) {
        for block in std::mem::take(&mut self.used) {
            self.forget(&block);
        }
    }
}

fn cases(count: u32) -> ProptestConfig {
    ProptestConfig::with_cases(if cfg!(miri) { 4 } else { count })
}

fn refuses_exactly(
    heap: impl Allocator + Copy,
    stats: impl Fn() -> Stats,
    ops: &[Op],
    bound: usize,
) -> Checked {
    let mut shadow = Shadow::new(heap, bound);
    shadow.run(ops)?;
    prop_assert_eq!(stats().bytes_current, shadow.requested);
    prop_assert!(stats().bytes_peak <= bound);
    drop(shadow);
    // After all refusals the whole of the bound is there again, at once.
    let all = Layout::from_size_align(bound, 8).unwrap();
    let block = heap.allocate(all).unwrap();
    // SAFETY: the block is the heap's, of this layout, and not used again.
    unsafe { heap.deallocate(block.cast(), all) };
    prop_assert_eq!(stats().bytes_current, 0);
    Ok(())
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn blocks_are_apart_aligned_and_keep_their_contents(ops in vec(op(), 0..80)) {
        Shadow::new(RastAlloc, usize::MAX).run(&ops)?;
    }

    #[test]
    fn so_they_are_by_the_calls_of_a_global_allocator(ops in vec(op(), 0..80)) {
        Shadow::new(GlobalFace, usize::MAX).run(&ops)?;
    }

    #[test]
    fn so_they_are_in_a_heap_and_all_goes_back(ops in vec(op(), 0..80)) {
        let heap = Heap::new();
        let mut shadow = Shadow::new(&heap, usize::MAX);
        shadow.run(&ops)?;
        prop_assert_eq!(heap.stats().bytes_current, shadow.requested);
        drop(shadow);
        prop_assert_eq!(heap.stats().bytes_current, 0);
        prop_assert_eq!(heap.stats().live(), 0);
        heap.purge();
        prop_assert_eq!(heap.stats().bytes_reserved, 0);
    }

    #[test]
    fn so_they_are_in_a_shared_heap(ops in vec(op(), 0..80)) {
        let heap = SharedHeap::new();
        let mut shadow = Shadow::new(&heap, usize::MAX);
        shadow.run(&ops)?;
        prop_assert_eq!(heap.stats().bytes_current, shadow.requested);
        drop(shadow);
        prop_assert_eq!(heap.stats().bytes_current, 0);
        prop_assert_eq!(heap.stats().live(), 0);
    }

    #[test]
    fn a_bounded_heap_refuses_exactly_what_is_past_its_bound(
        ops in vec(op(), 0..80),
        bound in prop_oneof![0..10_000usize, 0..2_000_000usize],
    ) {
        let heap = Heap::bounded(bound);
        refuses_exactly(&heap, || heap.stats(), &ops, bound)?;
    }

    #[test]
    fn a_bounded_shared_heap_refuses_exactly_what_is_past_its_bound(
        ops in vec(op(), 0..80),
        bound in prop_oneof![0..10_000usize, 0..2_000_000usize],
    ) {
        let heap = SharedHeap::bounded(bound);
        refuses_exactly(&heap, || heap.stats(), &ops, bound)?;
    }
}
