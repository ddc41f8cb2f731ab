//! The double-word layout, for `WideTaggedPtr`, and for `TaggedPtr` in the cases that `mod.rs`
//! lists. The count is one half of the word.
//!
//! ```text
//!   127 (63)             64 (32) 63 (31)                           0
//!  +----------------------------+----------------------------------+
//!  |           count            |             address              |
//!  +----------------------------+----------------------------------+
//! ```
//!
//! The word has 128 bits with 64-bit pointers and 64 bits with shorter ones; portable-atomic
//! implements it. An operation is lock-free if the processor has the double-word instruction, which
//! x86-64 builds check at run time. Otherwise the operation takes a lock. The word is an integer,
//! so the provenance of a pointer is exposed when it is stored and picked up when it is loaded.

// Reason: the layouts have one interface, and the low-bits one depends on the type.
#![expect(clippy::extra_unused_type_parameters)]

use core::ptr::with_exposed_provenance_mut;

use crate::sync::atomic::Ordering;

#[cfg(rast_shuttle)]
pub(super) use crate::scheduled::AtomicU128 as AtomicWord;
#[cfg(not(target_pointer_width = "64"))]
pub(super) use portable_atomic::AtomicU64 as AtomicWord;
#[cfg(all(target_pointer_width = "64", not(rast_shuttle)))]
pub(super) use portable_atomic::AtomicU128 as AtomicWord;

#[cfg(target_pointer_width = "64")]
pub(super) type Word = u128;
#[cfg(not(target_pointer_width = "64"))]
pub(super) type Word = u64;

const SHIFT: u32 = Word::BITS / 2;

pub(super) const NULL: Word = 0;

#[allow(dead_code, reason = "named by `TaggedPtr` alone")]
pub(super) const NAME: &str = "double-word";
#[allow(dead_code, reason = "named by `TaggedPtr` alone")]
pub(super) const RULE: &str = "every address fits";

pub(super) const fn count_bits<T>() -> u32 {
    SHIFT
}

/// x86-64 builds check the processor at run time.
pub(super) fn is_lock_free() -> bool {
    AtomicWord::is_lock_free()
}

pub(super) fn fits<T>(_address: usize) -> bool {
    true
}

#[allow(dead_code, reason = "named by `TaggedPtr` alone")]
pub(super) const fn null_with_count<T>(count: u64) -> Word {
    (count as Word) << SHIFT
}

#[inline]
pub(super) fn pack<T>(pointer: *mut T, count: u64) -> Word {
    pointer.expose_provenance() as Word | Word::from(count) << SHIFT
}

#[inline]
pub(super) fn pointer<T>(word: Word) -> *mut T {
    with_exposed_provenance_mut(word as usize)
}

#[inline]
pub(super) fn count<T>(word: Word) -> u64 {
    (word >> SHIFT) as u64
}

#[inline]
pub(super) fn fetch_add<T>(word: &AtomicWord, n: u64, order: Ordering) -> Word {
    word.fetch_add(Word::from(n) << SHIFT, order)
}
