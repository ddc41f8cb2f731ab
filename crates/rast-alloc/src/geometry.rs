//! The lengths that the levels share, and the offsets of the parts of a segment's header.
//!
//! ```text
//!   segment   4 MiB, 1 MiB with 32-bit addresses     what is mapped at once
//!   slot      64 KiB                                 the length of a slab
//!   grain     1 KiB                                  the unit of span lengths
//! ```
//!
//! The offsets make it possible to find a part of a header from a block's address without the type
//! of the header. [`crate::segment`] checks its layout against them.

use crate::primitive::CachePadded;

/// Whether this build is hardened.
pub(crate) const HARDENED: bool = cfg!(feature = "hardened");

/// The length and alignment of a segment.
pub(crate) const SEGMENT: usize = if cfg!(target_pointer_width = "64") {
    4 << 20
} else {
    1 << 20
};
/// The length and alignment of a slot.
pub(crate) const SLOT: usize = 64 * 1024;
/// Slots per segment; those that contain the header have no slab.
pub(crate) const SLOTS: usize = SEGMENT / SLOT;
/// Unit of the lengths and starts of spans.
pub(crate) const GRAIN: usize = 1024;
/// Grains per segment.
pub(crate) const GRAINS: usize = SEGMENT / GRAIN;

const WORD: usize = size_of::<usize>();
/// The size of a slab's fields: four words and ten bytes.
const SLAB: usize = (4 * WORD + 10).next_multiple_of(WORD);
/// The size of the header before the slabs: the public part, and three words.
const BEFORE: usize = size_of::<CachePadded<(usize, [u8; SLOTS * HARDENED as usize])>>() + 3 * WORD;

/// Offset of the spans' tags in a header.
pub(crate) const TAGS: usize = (BEFORE + SLOTS * SLAB).next_multiple_of(8);
/// Offset of the marks: after the tags, 8 bytes for each grain and one more, and two words of links
/// for each grain.
pub(crate) const MARKS: usize = TAGS + (GRAINS + 1) * 8 + GRAINS * 2 * WORD;
