//! Poison: what stands in a free block behind its link, so that a write to it is seen when the block is next given out.
//!
//! Of each block of a class the first [`BYTES`] bytes, but for the link, are written when it is freed, and looked at when
//! it is reused: mostly one line of the processor's, which the link touches anyway.
//! A write further behind is not seen; nor is one to a span without a class, whose poison only helps whoever reads it in
//! a debugger.

use crate::arena::SPANS;

/// As much of a block is poisoned, at most, with the link before it.
pub(crate) const BYTES: usize = 32;
/// The pattern: no address, no character, and odd.
const WORD: u64 = 0xdfdf_dfdf_dfdf_dfdf;
/// The smallest class, of 16 bytes in a hardened build: a link and one word.
const LEAST: usize = 1;

/// Poisons a free block, which the caller alone has, behind its link.
#[inline(always)]
pub(crate) fn write(block: *mut u8, slot: usize) {
    debug_assert!(slot <= SPANS);
    let first = block.cast::<u64>().wrapping_add(1);
    // SAFETY: a block has 16 bytes at least, and the caller alone has it.
    unsafe { first.write(WORD) };
    if slot > LEAST {
        let pair = block.cast::<[u64; 2]>().wrapping_add(1);
        // SAFETY: a block of another class has 32 bytes at least.
        unsafe { pair.write([WORD; 2]) };
    }
}

/// Poisons the words of a block again in which addresses stood, up to this one.
pub(crate) fn restore(block: *mut u8, words: usize) {
    for index in 1..words.min(BYTES / size_of::<u64>()) {
        let word = block.cast::<u64>().wrapping_add(index);
        // SAFETY: that many words of the block were used, and the caller alone has it.
        unsafe { word.write(WORD) };
    }
}

/// Whether the poison of a block of a class is as it was written.
#[inline(always)]
pub(crate) fn is_intact(block: *mut u8, class: usize) -> bool {
    let first = block.cast::<u64>().wrapping_add(1);
    // SAFETY: a block has 16 bytes at least; it was poisoned, and the caller alone has it.
    let mut changed = unsafe { first.read() } ^ WORD;
    if class > LEAST {
        let pair = block.cast::<[u64; 2]>().wrapping_add(1);
        // SAFETY: a block of another class has 32 bytes at least, all of them poisoned.
        let [second, third] = unsafe { pair.read() };
        changed |= (second ^ WORD) | (third ^ WORD);
    }
    changed == 0
}
