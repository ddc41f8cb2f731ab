//! The lengths that the levels share, and where the parts of a segment's header lie.
//!
//! ```text
//!   segment   4 MiB, 1 MiB where addresses have 32 bits    what is taken from the system
//!   slot      64 KiB                                       what a slab takes
//!   grain     1 KiB                                        what lengths of spans are multiples of
//! ```
//!
//! Who has an address of a block finds the parts of its header without the type of the header
//! ([`crate::segment`]), whose layout is checked against the offsets here.

use crate::primitive::CachePadded;

/// Whether this build is hardened.
pub(crate) const HARDENED: bool = cfg!(feature = "hardened");

/// The length of a segment, and what its start is a multiple of.
pub(crate) const SEGMENT: usize = if cfg!(target_pointer_width = "64") {
    4 << 20
} else {
    1 << 20
};
/// The length of a slot: what a slab takes, and what its start is a multiple of.
pub(crate) const SLOT: usize = 64 * 1024;
/// Slots of a segment; those of the header serve no slab.
pub(crate) const SLOTS: usize = SEGMENT / SLOT;
/// Lengths and starts of spans are multiples of this.
pub(crate) const GRAIN: usize = 1024;
/// Grains of a segment.
pub(crate) const GRAINS: usize = SEGMENT / GRAIN;

const WORD: usize = size_of::<usize>();
/// The words of a slab: four, and ten bytes.
const SLAB: usize = (4 * WORD + 10).next_multiple_of(WORD);
/// What is before the slabs: what other threads read, and three words.
const BEFORE: usize = size_of::<CachePadded<(usize, [u8; SLOTS * HARDENED as usize])>>() + 3 * WORD;

/// Where the tags of the spans are in a header.
pub(crate) const TAGS: usize = (BEFORE + SLOTS * SLAB).next_multiple_of(8);
/// Where the marks are in a header: behind eight bytes for each grain and one more, and two words
/// for each grain.
pub(crate) const MARKS: usize = TAGS + (GRAINS + 1) * 8 + GRAINS * 2 * WORD;
