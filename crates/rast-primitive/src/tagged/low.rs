//! The low-bits layout, under `cfg(rast_tagged_low)`: the count in the bits that the alignment of
//! `T` leaves zero.
//!
//! ```text
//!   63                                        k k-1               0
//!  +-------------------------------------------+-------------------+
//!  |          address, a multiple of 2^k       |       count       |
//!  +-------------------------------------------+-------------------+
//!                                                k = log2(align_of::<T>())
//! ```
//!
//! Any aligned address fits, so use this layout if addresses have all 64 bits. An addition to the
//! count must not carry into the address, so it is a loop of compare-exchanges of both parts.

use crate::sync::atomic::Ordering::{self, Relaxed};

pub(super) use super::word::{AtomicWord, NULL, Word};

pub(super) const NAME: &str = "low-bits";
pub(super) const RULE: &str = "it must be aligned for its type";

const fn mask<T>() -> usize {
    align_of::<T>() - 1
}

pub(super) const fn is_lock_free() -> bool {
    true
}

pub(super) const fn count_bits<T>() -> u32 {
    align_of::<T>().trailing_zeros()
}

pub(super) fn fits<T>(address: usize) -> bool {
    address & mask::<T>() == 0
}

pub(super) const fn null_with_count<T>(count: u64) -> Word {
    core::ptr::without_provenance_mut(count as usize & mask::<T>())
}

#[inline]
pub(super) fn pack<T>(pointer: *mut T, count: u64) -> Word {
    pointer
        .map_addr(|address| address | (count as usize & mask::<T>()))
        .cast()
}

#[inline]
pub(super) fn pointer<T>(word: Word) -> *mut T {
    word.map_addr(|bits| bits & !mask::<T>()).cast()
}

#[inline]
pub(super) fn count<T>(word: Word) -> u64 {
    (word.addr() & mask::<T>()) as u64
}

#[inline]
pub(super) fn fetch_add<T>(word: &AtomicWord, n: u64, order: Ordering) -> Word {
    // Relaxed: a first guess; the exchange below reads again with the caller's ordering. [TP1]
    let mut seen = word.load(Relaxed);
    loop {
        let next = pack(pointer::<T>(seen), count::<T>(seen).wrapping_add(n));
        // Relaxed: on failure only the value is used, as the next guess; the caller's ordering is
        // that of the success. [TP2]
        match word.compare_exchange_weak(seen, next, order, Relaxed) {
            Ok(previous) => return previous,
            Err(current) => seen = current,
        }
    }
}
