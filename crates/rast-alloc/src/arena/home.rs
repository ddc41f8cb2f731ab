//! Hardening: whether a block is this arena's, and on its way to it if it arrived.

use core::ptr;

use super::Arena;
use crate::Layout;
use crate::block::Block;
use crate::hardened;
use crate::hardened::link;
use crate::hardened::marks::{FREED, Mark, slot_posted};
use crate::hardened::units::{self, Around};
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

    /// Whether `block` may be a block of this arena with this layout, whose large blocks are
    /// tracked.
    pub(crate) fn is_of(&self, block: *mut u8, layout: Layout) -> bool {
        if Level::of(layout) == Level::Large {
            return self.knows_large(block, layout);
        }
        self.is_in(block)
    }

    /// Whether `block` lies where a block of this arena may start.
    #[inline]
    fn is_in(&self, block: *mut u8) -> bool {
        // SAFETY: where the units know a segment, its header is mapped.
        let is_named = || ptr::eq(unsafe { Segment::owner_of(block) }, self.owner());
        self.is_known(block) || units::at(block.addr()) != units::NONE && is_named()
    }

    /// Ends the process unless a block that arrived lies where one of this arena may start.
    #[inline]
    fn check_home(&self, block: *mut Block) {
        if !self.is_in(block.cast()) {
            hardened::misled(block);
        }
    }

    /// Ends the process unless a block that arrived may be on its way, and is this arena's; returns
    /// its slot.
    #[inline]
    pub(crate) fn check_arrived(&self, block: *mut Block) -> usize {
        self.check_home(block);
        let slot = slot_arrived(Mark::of(block).read());
        if slot >= SLOTS {
            hardened::arrived(block);
        }
        slot
    }

    /// As [`check_arrived`](Self::check_arrived), of a message that carries nothing: ends the
    /// process unless it has its seal, too.
    ///
    /// # Safety
    ///
    /// 1. If `block` lies where one of this arena may start, its first two words may be read.
    pub(crate) unsafe fn check_sealed(&self, block: *mut Block) {
        self.check_arrived(block);
        // SAFETY: obligation 1.
        if !unsafe { link::is_sealed(block) } {
            hardened::misled(block);
        }
    }

    /// A block that arrived becomes a free one; returns its slot. Ends the process unless it may be
    /// on its way, and is this arena's.
    ///
    /// # Safety
    ///
    /// 1. `around` is of a block that this arena has meanwhile; or of none, and `block` lies in a
    ///    segment.
    #[inline(always)]
    pub(crate) unsafe fn free_arrived(&self, around: Around, block: *mut Block) -> usize {
        // SAFETY: obligation 1.
        let mark = unsafe { around.mark_of(block) }.unwrap_or_else(|| self.find(block));
        let mut slot = usize::from(mark.read());
        if !(1..SLAB_CLASSES).contains(&slot) {
            slot = accept_posted(block, mark);
        }
        mark.write(FREED);
        slot
    }

    /// The mark of a block that arrived; ends the process unless it lies where one of this arena
    /// may start.
    #[inline]
    fn find(&self, block: *mut Block) -> Mark<'_> {
        if self.has_near(block.cast()) {
            // SAFETY: the block is known to be this arena's.
            return unsafe { self.near_mark(block.cast()) };
        }
        self.check_home(block);
        Mark::of(block)
    }
}

/// The slot of a block that arrives, by its mark: that of a block in use where a slab serves it,
/// else that of a posted one. Of other marks at least [`SLOTS`].
#[inline]
fn slot_arrived(mark: u8) -> usize {
    match usize::from(mark) {
        class @ 1..SLAB_CLASSES => class,
        _ => slot_posted(mark),
    }
}

/// The slot of a block that arrived and whose mark is none of a slab's block in use; ends the
/// process unless it is posted.
#[inline(never)]
fn accept_posted(block: *mut Block, mark: Mark) -> usize {
    let slot = slot_arrived(mark.read());
    if slot >= SLOTS {
        hardened::arrived(block);
    }
    slot
}
