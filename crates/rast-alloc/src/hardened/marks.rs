//! Marks: the state of the block that starts at each 16 bytes of a segment.
//!
//! | mark | meaning | written by |
//! | --- | --- | --- |
//! | 0 | no block has started here yet | |
//! | slot | a block in use; the slot ([`crate::level`]) is the number of its size class, or one number for all spans without a class; never 0 in a hardened build | the owner |
//! | slot + [`POSTED`] | a span that another thread freed, in transit to its owner | that thread |
//! | [`FREED`] | free, in a list of its owner or in a lower level | the owner |
//! | [`GONE`] | free, and its slab was closed | the owner |
//!
//! Only the owner writes the marks of slabs' blocks, and other threads rarely read them.
//!
//! If a span is divided in another way, the marks of its former blocks stay as they are; none of
//! them is "in use".

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
/// Free, in a slab that was closed.
pub(crate) const GONE: u8 = 0xfd;
/// The bit of a span in transit to its owner, in addition to its slot.
const POSTED: u8 = 0x80;

/// The marks of a segment; all zeroes are a valid value.
#[repr(transparent)]
pub(crate) struct Marks([AtomicU8; MARKS]);

/// The mark of a block in use.
#[inline(always)]
pub(crate) const fn live(slot: usize) -> u8 {
    debug_assert!(slot > 0);
    slot as u8
}

/// The mark of a block in transit.
#[inline(always)]
pub(crate) const fn posted(slot: usize) -> u8 {
    live(slot) | POSTED
}

/// The slot of a block in transit; for all other marks, at least [`SLOTS`].
#[inline(always)]
pub(crate) const fn slot_posted(mark: u8) -> usize {
    (mark ^ POSTED) as usize
}

// No slot in use has the value of a posted one, and no posted one that of a free block.
const _: () = assert!(SLOTS <= (GONE ^ POSTED) as usize && GONE < FREED);

/// Returns `true` if the address is one at which a block may start.
#[inline(always)]
pub(crate) fn is_place<T>(block: *mut T) -> bool {
    block.addr().is_multiple_of(PLACE)
}

/// The address of the marks of the segment at an address.
pub(crate) const fn start(segment: usize) -> usize {
    segment.wrapping_add(geometry::MARKS)
}

/// The address of the mark of a place, if the place lies in a segment.
// Computed from the address, not from a reference to all marks, so that a load and a store share
// the computation.
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
        // SAFETY: callers pass addresses in segments, whose headers are mapped, and this is one of
        // the marks.
        unsafe { Self::at(address_of(block)) }
    }

    /// The mark at an address.
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
        // Relaxed: whatever published the block published its mark; misuse is detected by the
        // modification order of the byte. [AH3]
        self.0.load(Ordering::Relaxed)
    }

    /// Changes the mark of a block of the caller's own heap.
    #[inline(always)]
    pub(crate) fn write(self, mark: u8) {
        // Relaxed: as for [AH3]. [AH4]
        self.0.store(mark, Ordering::Relaxed);
    }

    /// Changes the mark of a block of another owner; returns the previous value.
    #[inline]
    pub(crate) fn exchange(self, mark: u8) -> u8 {
        // Relaxed: of two exchanges one is first in the modification order. [AH5]
        self.0.swap(mark, Ordering::Relaxed)
    }

    /// Returns `true` if the mark is that of a block in use with this slot.
    #[inline(always)]
    pub(crate) fn is_live(self, slot: usize) -> bool {
        self.read() == live(slot)
    }
}

/// Records that a new block, or a block of a new size, will be in a list.
#[inline]
pub(crate) fn prepare(block: *mut Block) {
    Mark::of(block).write(FREED);
}

/// Records that a slab is closed whose blocks, `count` of a class from `start` on, are free.
pub(crate) fn give_up(start: *mut u8, class: usize, count: usize) {
    for index in 0..count {
        let mark = Mark::of(start.wrapping_add(index * size_of_class(class)));
        debug_assert_eq!(mark.read(), FREED, "what is in its lists is free");
        mark.write(GONE);
    }
}
