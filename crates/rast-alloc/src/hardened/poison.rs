//! Poison: what stands in a free block behind its link, so that a write to it is seen when the block is next given out.
//!
//! Of each block the word behind the link is written when its owner puts it away, and looked at when it is reused: the
//! line of the processor's that the link is on anyway, so that no other is touched.
//! A write further behind is not seen; nor is one to a block that is on its way to its owner, or to a span without a
//! class, whose poison only helps whoever reads it in a debugger.

/// The pattern: no address, no character, and odd.
const WORD: u64 = 0xdfdf_dfdf_dfdf_dfdf;

/// The poisoned word; a block has 16 bytes at least in a hardened build.
#[inline(always)]
fn word(block: *mut u8) -> *mut u64 {
    block.cast::<u64>().wrapping_add(1)
}

/// Poisons a free block, which the caller alone has, behind its link.
#[inline(always)]
pub(crate) fn write(block: *mut u8) {
    // SAFETY: the word is the block's, and the caller alone has it.
    unsafe { word(block).write(WORD) };
}

/// Whether the poison of a free block is as it was written.
#[inline(always)]
pub(crate) fn is_intact(block: *mut u8) -> bool {
    // SAFETY: the word is the block's; it was poisoned, and the caller alone has it.
    unsafe { word(block).read() == WORD }
}
