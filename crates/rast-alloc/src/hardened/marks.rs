//! What begins at each 16 bytes of a segment: nothing, a block in use and of which slot, a free one, one on its way.
//!
//! | mark | meaning | written by |
//! | --- | --- | --- |
//! | 0 | no block began here yet | |
//! | slot + 1 | a block in use | the owner |
//! | [`POSTED`] | another thread freed it | that thread |
//! | [`FREED`] | free, in a list of its owner or beneath | the owner |
//! | [`GONE`] | free, and its slab was given up | the owner |
//!
//! Marks of blocks that a span is no more divided into are left as they are: they are never "in use".

use core::mem::offset_of;

use super::HARDENED;
use crate::primitive::hint::prefetch_write;
use crate::primitive::sync::atomic::{AtomicU8, Ordering};
use crate::segment::{SEGMENT, Segment};

/// Blocks start at multiples of this in a hardened build.
pub(crate) const PLACE: usize = 16;
const MARKS: usize = if HARDENED { SEGMENT / PLACE } else { 0 };

/// Free.
pub(crate) const FREED: u8 = 0xff;
/// Free, as its whole slab was.
pub(crate) const GONE: u8 = 0xfd;
/// On its way to the owner.
pub(crate) const POSTED: u8 = 0xfe;
/// The marks of a segment; all zeroes are a value.
#[repr(transparent)]
pub(crate) struct Marks([AtomicU8; MARKS]);

/// The mark of a block in use.
#[inline(always)]
pub(crate) const fn live(slot: usize) -> u8 {
    slot as u8 + 1
}

/// Whether a block may start here at all.
#[inline(always)]
pub(crate) fn is_place<T>(block: *mut T) -> bool {
    block.addr().is_multiple_of(PLACE)
}

/// The mark of a place in a mapped segment.
#[inline(always)]
fn at<'a>(block: *mut u8) -> &'a AtomicU8 {
    let segment = Segment::of(block);
    // SAFETY: callers ask for places in segments, whose headers are mapped; the marks are atomic.
    let marks = unsafe { &(*segment).marks };
    &marks.0[block.addr() % SEGMENT / PLACE]
}

/// Has the mark of what may be a block fetched, to be written to.
#[inline(always)]
pub(crate) fn fetch(block: *mut u8) {
    let place = block.addr() % SEGMENT / PLACE;
    let marks = Segment::of(block).wrapping_byte_add(offset_of!(Segment, marks) + place);
    prefetch_write(marks.cast::<u8>());
}

/// The mark at a place in a mapped segment.
#[inline(always)]
pub(crate) fn read(block: *mut u8) -> u8 {
    // Relaxed: what brought the block brought its mark; misuse is seen by the word's own order. [AH3]
    at(block).load(Ordering::Relaxed)
}

/// Changes the mark of a block that the caller frees, or has as its owner.
#[inline(always)]
pub(crate) fn write(block: *mut u8, mark: u8) {
    // Relaxed: as for [AH3]. [AH4]
    at(block).store(mark, Ordering::Relaxed);
}

/// Changes the mark of a block that another owner has; returns what it was.
#[inline]
pub(crate) fn exchange(block: *mut u8, mark: u8) -> u8 {
    // Relaxed: of two that exchange one comes first in the word's own order. [AH5]
    at(block).swap(mark, Ordering::Relaxed)
}
