//! What begins at each 16 bytes of a segment: nothing, a block in use and of which slot, a free
//! one, one on its way.
//!
//! | mark | meaning | written by |
//! | --- | --- | --- |
//! | 0 | no block began here yet | |
//! | slot | a block in use; no slot 0 is in use here | the owner |
//! | slot + [`POSTED`] | another thread freed it, what no slab serves: on its way to its owner | that thread |
//! | [`FREED`] | free, in a list of its owner or beneath | the owner |
//! | [`GONE`] | free, and its slab was given up | the owner |
//!
//! The owner alone writes the marks of slabs' blocks, and hardly anybody else reads them.
//!
//! Marks of blocks that a span is no more divided into are left as they are: they are never "in
//! use".

use crate::block::Block;
use crate::geometry::{self, HARDENED, SEGMENT};
use crate::level::SLOTS;
use crate::primitive::sync::atomic::{AtomicU8, Ordering};
use crate::size_class::size_of_class;

/// Blocks start at multiples of this in a hardened build.
pub(crate) const PLACE: usize = 16;
const MARKS: usize = if HARDENED { SEGMENT / PLACE } else { 0 };

/// Free.
pub(crate) const FREED: u8 = 0xff;
/// Free, as its whole slab was.
pub(crate) const GONE: u8 = 0xfd;
/// The bit of a span on its way to the owner, beside its slot.
const POSTED: u8 = 0x80;

/// The marks of a segment; all zeroes are a value.
#[repr(transparent)]
pub(crate) struct Marks([AtomicU8; MARKS]);

/// The mark of a block in use.
#[inline(always)]
pub(crate) const fn live(slot: usize) -> u8 {
    debug_assert!(slot > 0);
    slot as u8
}

/// The mark of a block on its way to the owner.
#[inline(always)]
pub(crate) const fn posted(slot: usize) -> u8 {
    live(slot) | POSTED
}

/// The slot of a block on its way to the owner; of every other mark, at least [`SLOTS`].
#[inline(always)]
pub(crate) const fn slot_posted(mark: u8) -> usize {
    (mark ^ POSTED) as usize
}

// No slot in use looks like one posted, and none posted like a free one.
const _: () = assert!(SLOTS <= (GONE ^ POSTED) as usize && GONE < FREED);

/// Whether a block may start here at all.
#[inline(always)]
pub(crate) fn is_place<T>(block: *mut T) -> bool {
    block.addr().is_multiple_of(PLACE)
}

/// Where the marks of the segment at an address begin.
pub(crate) const fn start(segment: usize) -> usize {
    segment.wrapping_add(geometry::MARKS)
}

/// Where the mark of a place is, if that lies in a segment.
// By the address alone, not by a reference to all marks: so a load and a store share what is
// computed.
#[inline(always)]
fn address_of<T>(block: *mut T) -> *mut u8 {
    let place = block.addr() % SEGMENT / PLACE;
    let segment = block.map_addr(|address| address & !(SEGMENT - 1));
    segment.wrapping_byte_add(geometry::MARKS + place).cast()
}

/// A mark of a mapped segment.
#[derive(Clone, Copy)]
pub(crate) struct Mark<'a>(&'a AtomicU8);

impl<'a> Mark<'a> {
    /// The mark of a place in a mapped segment.
    #[inline(always)]
    pub(crate) fn of<T>(block: *mut T) -> Self {
        // SAFETY: callers ask for places in segments, whose headers are mapped, and this is one of
        // its marks.
        unsafe { Self::at(address_of(block)) }
    }

    /// The mark that is at an address.
    ///
    /// # Safety
    ///
    /// 1. One of the marks of a segment is there, which stays mapped for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn at(mark: *mut u8) -> Self {
        // SAFETY: obligation 1; marks are atomic.
        Self(unsafe { &*mark.cast::<AtomicU8>() })
    }

    #[inline(always)]
    pub(crate) fn read(self) -> u8 {
        // Relaxed: what brought the block brought its mark; misuse is seen by the word's own order.
        // [AH3]
        self.0.load(Ordering::Relaxed)
    }

    /// Changes the mark of a block that the caller has as its owner.
    #[inline(always)]
    pub(crate) fn write(self, mark: u8) {
        // Relaxed: as for [AH3]. [AH4]
        self.0.store(mark, Ordering::Relaxed);
    }

    /// Changes the mark of a block that another owner has; returns what it was.
    #[inline]
    pub(crate) fn exchange(self, mark: u8) -> u8 {
        // Relaxed: of two that exchange one comes first in the word's own order. [AH5]
        self.0.swap(mark, Ordering::Relaxed)
    }

    /// Whether a block of this slot is in use there.
    #[inline(always)]
    pub(crate) fn is_live(self, slot: usize) -> bool {
        self.read() == live(slot)
    }
}

/// A block that was never in use, or not as this one, is about to be in a list.
#[inline]
pub(crate) fn prepare(block: *mut Block) {
    Mark::of(block).write(FREED);
}

/// A slab is given up, whose blocks, so many of a class from `start` on, are free.
pub(crate) fn give_up(start: *mut u8, class: usize, count: usize) {
    for index in 0..count {
        let mark = Mark::of(start.wrapping_add(index * size_of_class(class)));
        debug_assert_eq!(mark.read(), FREED, "what is in its lists is free");
        mark.write(GONE);
    }
}
