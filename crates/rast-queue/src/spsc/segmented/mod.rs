//! An unbounded, wait-free queue for one producer and one consumer, in segments; one emptied
//! segment is kept for reuse.
//!
//! Segments have a fixed number of slots and are linked in the order of filling. The producer
//! publishes the number of items that it pushed, as in the [ring](super::ring). That store also
//! publishes the links, which are plain words. A consumer that has emptied a segment stores it in
//! the `spare` word, from which the producer gets its next segment. If `spare` is occupied, the
//! consumer frees the segment. So while the consumer keeps up, nothing is allocated. If it has
//! fallen behind, it frees segments while it catches up.
//!
//! ```text
//!    one allocation from the allocator A             each segment: one allocation from A
//!   ┌──────────┬──────────┬──────────┬─────────────┐
//!   │ tail     │ head     │ spare ─┐ │ gone, left, │
//!   │ own line │ own line │ own l. │ │ A, own line │
//!   └────▲─────┴────▲─────┴────────┼─┴─────────────┘
//!        │ stores   │ stores       ▼
//!     Producer   Consumer        ┌──────┬─────────┐
//!                                │ next │ · · · · │
//!                                └──────┴─────────┘
//!          ┌──────┬─────────┐    ┌──────┬─────────┐    ┌──────┬─────────┐
//!          │ next │ · · a b ├───►│ next │ c d e f ├───►│ none │ g h · · │
//!          └──────┴─────▲───┘    └──────┴─────────┘    └──────┴─────▲───┘
//!                   Consumer's place                         Producer's place
//! ```
//!
//! | field | written by | read by | when |
//! | --- | --- | --- | --- |
//! | header `tail` | producer | consumer | after the slots before it are written and their segments linked |
//! | header `head` | consumer | producer, only for `len` | after items are moved out |
//! | header `spare` | consumer if it is null, producer if it is not | both | once per segment |
//! | header `gone` | each half, once | both | as the last act of a half |
//! | header `left`: the consumer's place when it was dropped | consumer, before it sets its bit in `gone` | producer, after it loaded that bit | at the end |
//! | segment `next` | producer | consumer | written before an item past the segment is published, read after that |
//! | slot | producer, past the tail | consumer, before the tail | |
//!
//! Rules:
//!
//! 1. The *place* of a half is its current segment and the index of its next slot there. The items
//!    `head..tail` are in the slots from the consumer's place to the producer's, in order.
//! 2. A segment is in the chain, or it is the spare, or exactly one half has its address.
//! 3. The producer links a segment only when it has an item to write, and the consumer leaves a
//!    segment only for an item in the next one. So between two calls an empty queue has at most two
//!    segments: the one that both halves use, and the spare.
//! 4. A half adds each item to its own count before user code runs again. At the end of each
//!    segment, a batch stores the half's place and publishes the half's count. It does so again
//!    when it ends, even by a panic. `push_batch` also publishes the first item of a new segment.
//!
//! The argument for each rule, and what each ordering is for, is in
//! `docs/algorithms/queue-spsc.md`.
//!
//! ```
//! use rast_queue::spsc::segmented;
//!
//! let (mut producer, mut consumer) = segmented::queue();
//! let sender = std::thread::spawn(move || {
//!     for n in 0..10_000u64 {
//!         producer.push(n).unwrap(); // never full
//!     }
//! });
//! let mut expected = 0;
//! while !consumer.is_finished() {
//!     consumer.pop_batch(256, |n| {
//!         assert_eq!(n, expected);
//!         expected += 1;
//!     });
//! }
//! assert_eq!(expected, 10_000);
//! sender.join().unwrap();
//! ```

mod consumer;
mod producer;
mod raw;

pub use consumer::Consumer;
pub use producer::Producer;

use crate::alloc::{AllocError, Allocator, Global};
use raw::Shared;

/// Number of items in a segment by default.
pub const DEFAULT_SEGMENT_SLOTS: usize = 256;

/// Maximum number of items in a segment.
pub const MAX_SEGMENT_SLOTS: usize = 1 << 16;

/// Makes a queue with segments of [`DEFAULT_SEGMENT_SLOTS`] in the global allocator.
///
/// Allocates the first segment at once.
///
/// # Panics
///
/// If the size of a segment overflows. Aborts on lack of memory.
#[must_use]
pub fn queue<T>() -> (Producer<T>, Consumer<T>) {
    queue_in(DEFAULT_SEGMENT_SLOTS, Global)
}

/// Makes a queue with segments of `segment_slots` items, with all of its memory from `alloc`.
///
/// Small segments suit a program with many small queues. A segment costs one allocation, and 128
/// bytes besides its items.
///
/// ```
/// use rast_queue::alloc::Global;
/// use rast_queue::spsc::segmented;
///
/// let (mut producer, consumer) = segmented::queue_in::<u8, _>(16, Global);
/// producer.push_slice(&[7; 100]);
/// assert_eq!(consumer.len(), 100);
/// ```
///
/// # Panics
///
/// If `segment_slots` is zero or over [`MAX_SEGMENT_SLOTS`], or the size of a segment overflows.
/// Calls `handle_alloc_error` on lack of memory.
#[must_use]
pub fn queue_in<T, A: Allocator>(
    segment_slots: usize,
    alloc: A,
) -> (Producer<T, A>, Consumer<T, A>) {
    match try_queue_in(segment_slots, alloc) {
        Ok(halves) => halves,
        Err(_) => Shared::<T, A>::no_memory(segment_slots),
    }
}

/// Makes a queue as [`queue_in`] does, but returns an error on lack of memory.
///
/// # Panics
///
/// If `segment_slots` is zero or over [`MAX_SEGMENT_SLOTS`], or the size of a segment overflows.
///
/// # Errors
///
/// [`AllocError`] if `alloc` has no room for the header and the first segment.
#[expect(
    clippy::type_complexity,
    reason = "the pair of halves is the plainest type there is"
)]
pub fn try_queue_in<T, A: Allocator>(
    segment_slots: usize,
    alloc: A,
) -> Result<(Producer<T, A>, Consumer<T, A>), AllocError> {
    halves(segment_slots, 0, alloc)
}

/// Makes a queue whose counts begin at `start`. Tests use a value just below the wrap of `usize`.
#[doc(hidden)]
#[must_use]
pub fn queue_at<T>(segment_slots: usize, start: usize) -> (Producer<T>, Consumer<T>) {
    match halves(segment_slots, start, Global) {
        Ok(halves) => halves,
        Err(_) => Shared::<T, Global>::no_memory(segment_slots),
    }
}

#[expect(
    clippy::type_complexity,
    reason = "the pair of halves is the plainest type there is"
)]
fn halves<T, A: Allocator>(
    segment_slots: usize,
    start: usize,
    alloc: A,
) -> Result<(Producer<T, A>, Consumer<T, A>), AllocError> {
    assert!(
        (1..=MAX_SEGMENT_SLOTS).contains(&segment_slots),
        "spsc: a segment has 1..={MAX_SEGMENT_SLOTS} slots"
    );
    let (shared, place) = Shared::new(segment_slots, start, alloc)?;
    // SAFETY: (1) it is new, and this is its only producer; (2) both are from `new`.
    let producer = unsafe { Producer::new(shared.duplicate(), place, start) };
    // SAFETY: (1) likewise its only consumer; (2) both are from `new`.
    let consumer = unsafe { Consumer::new(shared, place, start) };
    Ok((producer, consumer))
}
