//! The counts that are beside the pointer in `head` and `tail`: an index, and in `tail` two flags
//! above it.
//!
//! ```text
//!   bit   15      14        13 … 0
//!       ┌────────┬─────────┬───────────────────────────────┐
//!       │ CLOSED │ WAITING │ index: tickets claimed so far │      14 bits in all under cfg(rast_tagged_low)
//!       └────────┴─────────┴───────────────────────────────┘
//! ```
//!
//! A claim adds one. Below the segment's slots the index of the claim is a ticket; at or past them
//! it is a pin. Because the flags are above every index, `count < slots` says three things at once:
//! there is a slot, the queue is open, and no thread waits.

use super::segment::Segment;
use crate::primitive::sync::atomic::Ordering;
use crate::primitive::{AtomicTaggedPtr, TaggedPtr};

/// A segment and a count.
pub(super) type Word<T> = TaggedPtr<Segment<T>>;

const BITS: u32 = if cfg!(rast_tagged_low) { 14 } else { 16 };

/// No push succeeds any more.
pub(super) const CLOSED: u64 = 1 << (BITS - 1);
/// Some thread sleeps, or is about to; who pushes wakes.
pub(super) const WAITING: u64 = 1 << (BITS - 2);
const INDEX: u64 = WAITING - 1;

/// The greatest number of slots in a segment.
pub(super) const MOST_SLOTS: usize = (INDEX as usize).div_ceil(4);

/// The most pins in a word: the index stays below the flags. A thread that finds so many waits
/// instead of taking one more.
///
/// Each thread takes one pin at a time, so as many threads have to be inside one queue, at the end
/// of one segment.
pub(super) const MOST_PINS: usize = INDEX as usize - MOST_SLOTS;

/// The index in a count.
#[inline]
pub(super) fn index<T>(word: Word<T>) -> usize {
    (word.count() & INDEX) as usize
}

/// The same word, `tickets` further.
#[inline]
pub(super) fn advanced<T>(word: Word<T>, tickets: usize) -> Word<T> {
    const { assert!(Word::<T>::COUNT_BITS >= BITS) };
    word.with_count(word.count() + tickets as u64)
}

/// What `word` may hold: to be confirmed by an exchange, which acquires what is relied on.
#[inline]
pub(super) fn guess<T>(word: &AtomicTaggedPtr<Segment<T>>) -> Word<T> {
    // loom keeps one access of each kind per atomic, so that a load just before an exchange hides
    // the loads of others from it, and with them the orders in which they come first; an addition
    // of nothing hides none.
    if cfg!(rast_loom) {
        // Relaxed: see above. [QU13]
        word.fetch_add_count(0, Ordering::Relaxed)
    } else {
        // Relaxed: a guess. [QU16]
        word.load(Ordering::Relaxed)
    }
}

/// Whether both name the same segment.
#[inline]
pub(super) fn same_segment<T>(one: Word<T>, other: Word<T>) -> bool {
    core::ptr::eq(one.ptr(), other.ptr())
}

/// Whether the word has no room for another pin; if so, gives way to the threads that have the
/// pins.
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
