//! The count beside the pointer in `head` and `tail`: an index, and in `tail` two flags in the bits
//! above the index.
//!
//! ```text
//!   bit   15      14        13 … 0
//!       ┌────────┬─────────┬───────────────────────────────┐
//!       │ CLOSED │ WAITING │ index: tickets claimed so far │
//!       └────────┴─────────┴───────────────────────────────┘
//! ```
//!
//! A claim adds one. If the index before the addition is below the number of slots, the claim is a
//! ticket for that slot; otherwise it is a pin. Under `cfg(rast_tagged_low)` the whole count, with
//! the flags, has 14 bits. The flags are higher bits than any index. So the one comparison
//! `count < slots` checks that there is a slot, that the queue is open, and that no thread waits.

use super::segment::Segment;
use crate::primitive::sync::atomic::Ordering;
use crate::primitive::{AtomicTaggedPtr, TaggedPtr};

/// A segment and a count.
pub(super) type Word<T> = TaggedPtr<Segment<T>>;

const BITS: u32 = if cfg!(rast_tagged_low) { 14 } else { 16 };

/// Set when the queue is closed, so that no push succeeds.
pub(super) const CLOSED: u64 = 1 << (BITS - 1);
/// Set when a thread sleeps or is about to; a push that finds it wakes a waiter.
pub(super) const WAITING: u64 = 1 << (BITS - 2);
const INDEX: u64 = WAITING - 1;

/// Maximum number of slots in a segment.
pub(super) const MOST_SLOTS: usize = (INDEX as usize).div_ceil(4);

/// Maximum number of pins that a word counts, so that the index stays below the flags. A thread
/// that finds so many pins waits before it takes one.
///
/// In one use of a segment, a thread has at most one pin in the count of `tail`, because a failed
/// push subtracts its pin again [QU74]. In the count of `head` a thread has at most two pins:
///
/// 1. A consumer that is suspended between its check and its claim may, when it resumes, pin a
///    later use of the same segment. If `tail` is still in that use, the consumer cannot move
///    `head`. It releases the pin in `control`, but the index of `head` keeps counting it.
/// 2. The consumer takes its next pin in this use only after `tail` has left the segment. With this
///    pin it moves `head`, so there is no third one.
pub(super) const MOST_PINS: usize = INDEX as usize - MOST_SLOTS;

#[inline]
pub(super) fn index<T>(word: Word<T>) -> usize {
    (word.count() & INDEX) as usize
}

/// Returns the word with its index advanced by `tickets`.
#[inline]
pub(super) fn advanced<T>(word: Word<T>, tickets: usize) -> Word<T> {
    const { assert!(Word::<T>::COUNT_BITS >= BITS) };
    word.with_count(word.count() + tickets as u64)
}

/// Loads `word` as the expected value of a compare-exchange, which then acquires what the caller
/// relies on.
#[inline]
pub(super) fn guess<T>(word: &AtomicTaggedPtr<Segment<T>>) -> Word<T> {
    // loom remembers one access of each kind per atomic. A load just before a compare-exchange
    // hides the loads of other threads from it, and so the interleavings in which those are first.
    // Adding zero hides none.
    if cfg!(rast_loom) {
        // Relaxed: see above. [QU13]
        word.fetch_add_count(0, Ordering::Relaxed)
    } else {
        // Relaxed: an expected value. [QU16]
        word.load(Ordering::Relaxed)
    }
}

#[inline]
pub(super) fn same_segment<T>(one: Word<T>, other: Word<T>) -> bool {
    core::ptr::eq(one.ptr(), other.ptr())
}

/// Returns whether the word can count no further pin. If so, yields to the threads that have pins.
#[cold]
#[inline(never)]
pub(super) fn waits_for_pins(index: usize, slots: usize) -> bool {
    let is_full = index - slots >= MOST_PINS;
    if is_full {
        #[cfg(feature = "std")]
        crate::primitive::thread::yield_now();
        #[cfg(not(feature = "std"))]
        crate::primitive::hint::spin_loop();
    }
    is_full
}
