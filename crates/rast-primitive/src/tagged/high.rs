//! The high-bits layout: the count in the upper 16 bits of a pointer.
//!
//! ```text
//!   63          48 47                                             0
//!  +--------------+------------------------------------------------+
//!  |    count     |                    address                     |
//!  +--------------+------------------------------------------------+
//! ```
//!
//! If the count overflows, its carry is lost and never changes the address. User space addresses
//! have 47 bits on x86-64 and 48 on AArch64, unless a program requests longer ones or tags its
//! pointers itself.

// Reason: the layouts have one interface, and the low-bits one depends on the type.
#![expect(clippy::extra_unused_type_parameters)]

pub(super) use super::word::{AtomicWord, NULL, Word};

const SHIFT: u32 = 48;
const ADDRESS: usize = (1 << SHIFT) - 1;

pub(super) const NAME: &str = "high-bits";
pub(super) const RULE: &str = "its upper 16 bits must be zero";

pub(super) const fn is_lock_free() -> bool {
    true
}

pub(super) const fn count_bits<T>() -> u32 {
    usize::BITS - SHIFT
}

pub(super) fn fits<T>(address: usize) -> bool {
    address & !ADDRESS == 0
}

pub(super) const fn null_with_count<T>(count: u64) -> Word {
    core::ptr::without_provenance_mut((count as usize) << SHIFT)
}

#[inline]
pub(super) fn pack<T>(pointer: *mut T, count: u64) -> Word {
    pointer
        .map_addr(|address| address | (count as usize) << SHIFT)
        .cast()
}

#[inline]
pub(super) fn pointer<T>(word: Word) -> *mut T {
    word.map_addr(|bits| bits & ADDRESS).cast()
}

#[inline]
pub(super) fn count<T>(word: Word) -> u64 {
    (word.addr() >> SHIFT) as u64
}

#[inline]
pub(super) fn fetch_add<T>(
    word: &AtomicWord,
    n: u64,
    order: crate::sync::atomic::Ordering,
) -> Word {
    word.fetch_byte_add((n as usize) << SHIFT, order)
}
