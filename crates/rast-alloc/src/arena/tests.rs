//! Random calls on one arena, against a map of what is in use, with checks of every level's rules.

use super::*;
use crate::Layout;
use crate::level::SPAN_MAX;
use crate::primitive;
use std::boxed::Box;
use std::vec::Vec;

/// Whether all bytes are zero.
///
/// # Safety
///
/// 1. The `bytes` at `start` are initialised, and nothing else uses them.
pub(crate) unsafe fn is_zero(start: NonNull<u8>, bytes: usize) -> bool {
    const ZEROES: [u8; 4096] = [0; 4096];
    // SAFETY: obligation 1.
    let bytes = unsafe { core::slice::from_raw_parts(start.as_ptr(), bytes) };
    bytes
        .chunks(ZEROES.len())
        .all(|chunk| chunk == &ZEROES[..chunk.len()])
}

/// The same sequence in each run.
struct Random(primitive::Random);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    /// Sizes of every level, small ones more often.
    fn size(&mut self) -> usize {
        let bits = self.below(22) + 1;
        1 + self.below(1 << bits)
    }

    fn layout(&mut self) -> Layout {
        let align = match self.below(4) {
            0 => 1 << self.below(18),
            _ => 1 << self.below(5),
        };
        Layout::from_size_align(self.size(), align).unwrap()
    }
}

struct Used {
    block: NonNull<u8>,
    layout: Layout,
    fill: u8,
}

impl Used {
    /// Writes the fill to the ends and to some bytes between.
    fn fill(&self) {
        for at in self.samples() {
            // SAFETY: the block is in use and that long.
            let byte = unsafe { self.block.add(at) };
            // SAFETY: as above.
            unsafe { byte.write(self.fill) };
        }
    }

    fn samples(&self) -> impl Iterator<Item = usize> {
        let last = self.layout.size() - 1;
        (0..last.min(40))
            .chain((0..last).step_by(1021))
            .chain([last])
    }

    fn check(&self, size: usize) {
        for at in self.samples().filter(|at| *at < size) {
            // SAFETY: the block is in use and that long.
            let byte = unsafe { self.block.add(at) };
            // SAFETY: as above, and written.
            assert_eq!(unsafe { byte.read() }, self.fill, "contents are kept");
        }
    }
}

fn check_apart(used: &[Used]) {
    let mut ends: Vec<_> = used
        .iter()
        .map(|one| (one.block.addr().get(), one.layout.size()))
        .collect();
    ends.sort_unstable();
    for pair in ends.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "blocks overlap");
    }
}

pub(super) fn arena(larges: LargeBlocks) -> Box<Arena> {
    let arena = Box::new(Arena::new(larges));
    arena.set_owner(ptr::from_ref(&*arena).cast());
    arena
}

fn churn(seed: u64, larges: LargeBlocks, is_freed: bool) {
    let arena = arena(larges);
    let mut random = Random(primitive::Random::new(seed));
    let mut used: Vec<Used> = Vec::new();
    let mut requested = 0;
    for turn in 0..6000 {
        let fill = (turn % 251) as u8 + 1;
        match random.below(8) {
            0..=3 if used.len() < 400 => {
                let layout = random.layout();
                let zeroed = random.below(2) == 0;
                let block = if zeroed {
                    arena.allocate_zeroed(layout)
                } else {
                    arena.allocate(layout)
                };
                let block = NonNull::new(block).unwrap();
                assert_eq!(block.addr().get() % layout.align(), 0);
                if zeroed {
                    // SAFETY: the block is new, initialised, and that long.
                    assert!(unsafe { is_zero(block, layout.size()) });
                }
                requested += layout.size();
                let one = Used {
                    block,
                    layout,
                    fill,
                };
                one.fill();
                used.push(one);
            }
            4 | 5 if !used.is_empty() => {
                let which = random.below(used.len());
                let one = &mut used[which];
                let size = random.size();
                let new = Layout::from_size_align(size, one.layout.align()).unwrap();
                // SAFETY: the block is this arena's and has this layout.
                let moved = unsafe { arena.reallocate(one.block, one.layout, new) };
                requested = requested - one.layout.size() + size;
                one.block = NonNull::new(moved).unwrap();
                assert_eq!(one.block.addr().get() % new.align(), 0);
                let kept = one.layout.size().min(size);
                one.layout = new;
                // Samples of the old and of the new length differ: only those of both are known.
                if kept < 40 {
                    one.check(kept.saturating_sub(1));
                } else {
                    one.check(39);
                }
                one.fill = fill;
                one.fill();
            }
            _ if !used.is_empty() => {
                let which = random.below(used.len());
                let one = used.swap_remove(which);
                one.check(one.layout.size());
                requested -= one.layout.size();
                // SAFETY: the block is this arena's, has this layout, and is not used any more.
                unsafe { arena.deallocate(one.block, one.layout) };
            }
            _ => {}
        }
        if turn % 500 == 0 {
            check_apart(&used);
            arena.check();
            assert_eq!(arena.requested(), requested as u64);
        }
        if turn % 2000 == 1999 {
            arena.purge();
            arena.check();
        }
    }
    for one in &used {
        one.check(one.layout.size());
    }
    if is_freed {
        for one in used {
            // SAFETY: as above.
            unsafe { arena.deallocate(one.block, one.layout) };
        }
        arena.purge();
        assert_eq!(
            arena.segments(),
            0,
            "nothing is left of what was given back"
        );
        assert_eq!(arena.reserved.get(), 0);
        assert_eq!(arena.requested(), 0);
        let sum = |of: fn(&Slot) -> u64| arena.slots().iter().map(of).sum::<u64>();
        assert_eq!(sum(|slot| slot.taken.get()), sum(|slot| slot.given.get()));
    }
}

#[test]
fn neighbours_of_whole_ways_begin_at_other_sets() {
    let arena = arena(LargeBlocks::untracked());
    let layout = Layout::from_size_align(16 * 1024, 8).unwrap();
    let mut seen = [false; 4];
    let blocks: Vec<_> = (0..8)
        .map(|_| NonNull::new(arena.allocate(layout)).unwrap())
        .collect();
    for block in &blocks {
        seen[block.addr().get() % 4096 / 1024] = true;
    }
    assert_eq!(seen, [true; 4]);
    for block in blocks {
        // SAFETY: the block was taken above, and is given up.
        unsafe { arena.deallocate(block, layout) };
    }
}

#[test]
fn random_calls_keep_blocks_apart_and_leave_nothing() {
    for seed in 1..=4 {
        churn(seed * 0x9e37_79b9, LargeBlocks::untracked(), true);
    }
}

#[test]
fn an_arena_is_freed_whole_with_blocks_in_use() {
    for seed in 1..=2 {
        churn(seed * 0x51_7cc1, LargeBlocks::tracked(), false);
        churn(seed * 0x51_7cc1, LargeBlocks::tracked(), true);
    }
}

#[test]
fn every_size_and_alignment() {
    let arena = arena(LargeBlocks::untracked());
    for bits in 0..=22 {
        for size in [
            1,
            7,
            63,
            64,
            1000,
            4096,
            70_000,
            SPAN_MAX,
            SPAN_MAX + 1,
            SEGMENT,
        ] {
            let layout = Layout::from_size_align(size, 1 << bits).unwrap();
            let block = NonNull::new(arena.allocate_zeroed(layout)).unwrap();
            assert_eq!(block.addr().get() % layout.align(), 0);
            // SAFETY: the block is new and this long.
            unsafe { block.write_bytes(1, size) };
            // SAFETY: the block is this arena's and has this layout.
            unsafe { arena.deallocate(block, layout) };
        }
    }
    arena.check();
    arena.purge();
    assert_eq!(arena.segments(), 0);
}

#[test]
fn lists_know_their_length() {
    let arena = arena(LargeBlocks::untracked());
    let layout = Layout::from_size_align(100, 4).unwrap();
    let class = 7;
    let mut blocks: Vec<_> = (0..3000).map(|_| arena.allocate(layout)).collect();
    let slot = arena.slot(class);
    let count = |head: *mut Block| {
        let mut count = 0;
        let mut next = head;
        while !next.is_null() {
            count += 1;
            // SAFETY: blocks of a list are free and this arena's.
            next = unsafe { Block::next(next) };
        }
        count
    };
    while let Some(block) = blocks.pop() {
        // SAFETY: the block is this arena's and has this layout.
        unsafe { arena.deallocate(NonNull::new(block).unwrap(), layout) };
        assert_eq!(slot.len(class), count(slot.head.get()));
        assert!(slot.len(class) <= list_limit(class).max(3000));
        if blocks.len() % 7 == 0 && blocks.len() > 100 {
            blocks.push(arena.allocate(layout));
            blocks.swap(3, 50);
            let again = blocks.pop().unwrap();
            // SAFETY: as above.
            unsafe { arena.deallocate(NonNull::new(again).unwrap(), layout) };
        }
    }
    arena.empty_lists();
    assert_eq!(slot.len(class), 0);
    arena.check();
}

#[test]
fn a_block_grows_into_what_stands_behind_it() {
    let arena = arena(LargeBlocks::untracked());
    let mut layout = Layout::from_size_align(9000, 8).unwrap();
    let block = NonNull::new(arena.allocate(layout)).unwrap();
    while layout.size() < SPAN_MAX / 2 {
        let new = Layout::from_size_align(layout.size() * 2, 8).unwrap();
        // SAFETY: the block is this arena's and has this layout.
        let grown = unsafe { arena.reallocate(block, layout, new) };
        assert_eq!(grown, block.as_ptr(), "it grows in place");
        layout = new;
    }
    // SAFETY: as above.
    unsafe { arena.deallocate(block, layout) };
    arena.purge();
    assert_eq!(arena.segments(), 0);
}

/// A large block that the system does not extend is copied, and unchanged until then.
#[cfg(all(target_os = "linux", not(rast_system_segments)))]
#[test]
fn a_large_block_that_is_not_remapped_is_copied() {
    use crate::os::{self, GUARD, refusal};
    for larges in [LargeBlocks::untracked(), LargeBlocks::tracked()] {
        let arena = arena(larges);
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        let (old, new) = (layout(5 << 20), layout(6 << 20));
        let block = NonNull::new(arena.allocate(old)).unwrap();
        let other = NonNull::new(arena.allocate(old)).unwrap();
        let one = Used {
            block,
            layout: old,
            fill: 3,
        };
        one.fill();
        refusal::plan(refusal::Call::Remap, 0);
        // SAFETY: the block is in use.
        assert!(unsafe { arena.resize(block, old, new) }.is_null());
        assert!(refusal::is_over());
        one.check(old.size());
        let behind = block.as_ptr().wrapping_add(old.size());
        assert!(GUARD == 0 || !os::is_readable(behind), "its guard is kept");
        refusal::plan(refusal::Call::Remap, 0);
        // SAFETY: as above.
        let moved = NonNull::new(unsafe { arena.reallocate(block, old, new) }).unwrap();
        assert!(refusal::is_over());
        assert_ne!(moved, block);
        // SAFETY: the block is in use, and its first byte was written to.
        assert_eq!(unsafe { moved.read() }, one.fill);
        for (block, layout) in [(other, old), (moved, new)] {
            // SAFETY: in use until now.
            unsafe { arena.deallocate(block, layout) };
        }
        arena.purge();
        assert_eq!((arena.requested(), arena.reserved.get()), (0, 0));
    }
}

#[test]
fn unused_memory_returns_to_the_system() {
    let arena = arena(LargeBlocks::untracked());
    let layout = Layout::from_size_align(1000, 8).unwrap();
    let blocks: Vec<_> = (0..20_000).map(|_| arena.allocate(layout)).collect();
    let peak = arena.reserved.get();
    for (index, block) in blocks.iter().enumerate() {
        if index % 1000 != 0 {
            // SAFETY: the block is this arena's and has this layout.
            unsafe { arena.deallocate(NonNull::new(*block).unwrap(), layout) };
        }
    }
    arena.purge();
    arena.check();
    let committed = arena.reserved.get() - arena.spans.clean.get();
    // The header of a segment counts as touched, and is three times as long with marks.
    let least = if HARDENED { 5 } else { 8 };
    // Where the system takes no pages, whole segments go back, and here each has a block.
    if !cfg!(rast_system_segments) {
        assert!(committed * least < peak, "{committed} of {peak}");
    }
}

/// A pipeline of large blocks maps only some of them anew.
#[cfg(all(target_os = "linux", not(rast_system_segments)))]
#[test]
fn what_another_thread_freed_is_used_again() {
    const BLOCKS: usize = 400;
    if HARDENED {
        return;
    }
    let (producer, consumer) = (
        arena(LargeBlocks::untracked()),
        arena(LargeBlocks::untracked()),
    );
    let layout = Layout::from_size_align(2 << 20, 8).unwrap();
    let mut ring = Vec::new();
    for _ in 0..BLOCKS {
        ring.push(NonNull::new(producer.allocate(layout)).unwrap());
        if ring.len() > 4 {
            // SAFETY: taken above; any thread may free a large block.
            unsafe { consumer.deallocate(ring.remove(0), layout) };
        }
    }
    let mapped = producer.reserved.get() as usize / layout.size();
    assert!(mapped < BLOCKS / 4, "{mapped} of {BLOCKS} were mapped");
    for block in ring {
        // SAFETY: as above.
        unsafe { producer.deallocate(block, layout) };
    }
    producer.purge();
    consumer.purge();
}
