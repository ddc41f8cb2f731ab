//! Poison: what stands in a free block behind its link, so that a write to it is seen when the block is next given out.
//!
//! Of each block of a class the first [`BYTES`] bytes, but for the link, are written when it is freed, and looked at when
//! it is reused: one line of the processor's, which the link touches anyway.
//! A write further behind is not seen; nor is one to a span without a class, whose poison only helps whoever reads it in
//! a debugger.

use core::ptr;

use crate::arena::SPANS;

/// As much of a block is poisoned, at most.
pub(crate) const BYTES: usize = 64;
/// The pattern: no address, no character, and odd.
const WORD: u64 = 0xdfdf_dfdf_dfdf_dfdf;

/// The smallest class, of 16 bytes in a hardened build, and those of 32 and of 48 bytes.
const PAIRS: [usize; 3] = [1, 2, 3];

/// Poisons two words of a block.
#[inline(always)]
fn pair(block: *mut u8, index: usize) {
    let place = block.cast::<[u64; 2]>().wrapping_add(index);
    // SAFETY: callers count within a block that they alone have.
    unsafe { ptr::write(place, [WORD; 2]) };
}

/// Poisons a free block, which the caller alone has, behind its link.
#[inline(always)]
pub(crate) fn write(block: *mut u8, slot: usize) {
    debug_assert!(slot <= SPANS);
    let first = block.cast::<u64>().wrapping_add(1);
    // SAFETY: a block has 16 bytes at least, and the caller alone has it.
    unsafe { first.write(WORD) };
    if slot > PAIRS[0] {
        pair(block, 1);
        if slot > PAIRS[1] {
            pair(block, 2);
            if slot > PAIRS[2] {
                pair(block, 3);
            }
        }
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

#[inline(always)]
fn is_pair(block: *mut u8, index: usize) -> bool {
    let place = block.cast::<[u64; 2]>().wrapping_add(index);
    // SAFETY: callers count within a block that they alone have, and that was poisoned.
    let [first, second] = unsafe { ptr::read(place) };
    (first ^ WORD) | (second ^ WORD) == 0
}

/// Whether the poison of a block of a class is as it was written.
#[inline(always)]
pub(crate) fn is_intact(block: *mut u8, class: usize) -> bool {
    let first = block.cast::<u64>().wrapping_add(1);
    // SAFETY: a block has 16 bytes at least; it was poisoned, and the caller alone has it.
    let is_first = unsafe { first.read() } == WORD;
    is_first
        && (class <= PAIRS[0]
            || is_pair(block, 1)
                && (class <= PAIRS[1]
                    || is_pair(block, 2) && (class <= PAIRS[2] || is_pair(block, 3))))
}
