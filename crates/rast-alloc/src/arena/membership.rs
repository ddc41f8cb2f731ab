//! Hardening: whether a block is this arena's, and whether an arrived block is in transit.

use core::ptr;

use super::Arena;
use crate::Layout;
use crate::block::Block;
use crate::hardened;
use crate::hardened::link;
use crate::hardened::marks::{FREED, Mark, slot_posted};
use crate::hardened::page_map::{self, BlockSegment};
use crate::level::{Level, SLOTS};
use crate::segment::Segment;
use crate::size_class::SLAB_CLASSES;

impl Arena {
    /// Ends the process unless `block` may be a block of this arena with this layout.
    pub(crate) fn check_own(&self, block: *mut u8, layout: Layout) {
        let level = Level::of(layout);
        if level == Level::Large {
            return;
        }
        if !self.is_of(block, layout) {
            hardened::end(block, level.slot(), layout.size());
        }
    }

    /// Returns `true` if `block` may be a block of this arena, which tracks its large blocks, with
    /// this layout.
    pub(crate) fn is_of(&self, block: *mut u8, layout: Layout) -> bool {
        if Level::of(layout) == Level::Large {
            return self.knows_large(block, layout);
        }
        self.is_in(block)
    }

    /// Returns `true` if a block of this arena may start at `block`.
    #[inline]
    fn is_in(&self, block: *mut u8) -> bool {
        // SAFETY: if the page map has a segment there, its header is mapped.
        let is_named = || ptr::eq(unsafe { Segment::owner_of(block) }, self.owner());
        self.is_known(block) || page_map::at(block.addr()) != page_map::NONE && is_named()
    }

    /// Ends the process unless a block of this arena may start at the address that arrived.
    #[inline]
    fn check_address(&self, block: *mut Block) {
        if !self.is_in(block.cast()) {
            hardened::not_a_block(block);
        }
    }

    /// Ends the process unless the block that arrived is this arena's and may be in transit;
    /// returns its slot.
    #[inline]
    pub(crate) fn check_arrived(&self, block: *mut Block) -> usize {
        self.check_address(block);
        let slot = slot_arrived(Mark::of(block).read());
        if slot >= SLOTS {
            hardened::arrived(block);
        }
        slot
    }

    /// As [`check_arrived`](Self::check_arrived), for a message of a shared heap: ends the process
    /// also if its seal is damaged.
    ///
    /// # Safety
    ///
    /// 1. If `block` lies where one of this arena may start, its first two words may be read.
    pub(crate) unsafe fn check_sealed(&self, block: *mut Block) {
        self.check_arrived(block);
        // SAFETY: obligation 1.
        if !unsafe { link::is_sealed(block) } {
            hardened::not_a_block(block);
        }
    }

    /// Makes an arrived block a free one; returns its slot. Ends the process unless it is this
    /// arena's and may be in transit.
    ///
    /// # Safety
    ///
    /// 1. `segment` is of a block that this arena has meanwhile; or of none, and `block` lies in a
    ///    segment.
    #[inline(always)]
    pub(crate) unsafe fn free_arrived(&self, segment: BlockSegment, block: *mut Block) -> usize {
        // SAFETY: obligation 1.
        let mark = unsafe { segment.mark_of(block) }.unwrap_or_else(|| self.find(block));
        let mut slot = usize::from(mark.read());
        if !(1..SLAB_CLASSES).contains(&slot) {
            slot = accept_posted(block, mark);
        }
        mark.write(FREED);
        slot
    }

    /// The mark of an arrived block; ends the process unless a block of this arena may start there.
    #[inline]
    fn find(&self, block: *mut Block) -> Mark<'_> {
        if self.has_own(block.cast()) {
            // SAFETY: the block is known to be this arena's.
            return unsafe { self.own_mark(block.cast()) };
        }
        self.check_address(block);
        Mark::of(block)
    }
}

/// The slot of an arrived block, by its mark: a slab's block in use, or a posted span. For other
/// marks at least [`SLOTS`].
#[inline]
fn slot_arrived(mark: u8) -> usize {
    match usize::from(mark) {
        class @ 1..SLAB_CLASSES => class,
        _ => slot_posted(mark),
    }
}

/// The slot of an arrived block whose mark is not that of a slab's block in use; ends the process
/// unless it is posted.
#[inline(never)]
fn accept_posted(block: *mut Block, mark: Mark) -> usize {
    let slot = slot_arrived(mark.read());
    if slot >= SLOTS {
        hardened::arrived(block);
    }
    slot
}
