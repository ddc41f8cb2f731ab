//! An unbounded queue between one producer and one consumer: wait-free, in segments, one of which
//! is recycled.
//!
//! Items are in segments of a fixed number of slots, linked in the order of filling. The producer
//! publishes how many items it pushed, as the [ring](super::ring) does; that one count carries the
//! links too, which are plain words. When the consumer is through with a segment it leaves it in a
//! place for one spare, where the producer finds it when it needs the next; if one lies there
//! already, the segment is freed. So a queue that keeps up allocates nothing, and one that falls
//! behind gives its memory back as it catches up.
//!
//! ```text
//!    one allocation from A                           one allocation from A each
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
//! | header `head` | consumer | producer | after items are moved out; for `len` alone |
//! | header `spare` | consumer if it is null, producer if it is not | both | once a segment |
//! | header `gone` | each half, once | both | as the last act of a half |
//! | header `left` | consumer, before it is gone | producer, after it saw that | at the end |
//! | segment `next` | producer | consumer | before an item past the segment is published; after |
//! | slot | producer, past the tail | consumer, before it | |
//!
//! Rules:
//!
//! 1. The items `head..tail` stand, in order, from the consumer's place to the producer's.
//! 2. A segment is in the chain, the spare, or the hands of one half.
//! 3. The producer takes a new segment only for an item that is there to be written, the consumer
//!    leaves a segment only for an item in the next: an idle queue holds three segments at most,
//!    the consumer's, the producer's and the spare.
//! 4. A half moves its own place and count before user code runs again; a batch publishes once a
//!    segment and when it ends, by a panic too.
//! 5. The half that leaves second drops the queued items and frees everything.
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

/// How many items a segment holds unless it is said otherwise.
pub const DEFAULT_SEGMENT_SLOTS: usize = 256;

/// The most items that a segment can hold.
pub const MAX_SEGMENT_SLOTS: usize = 1 << 16;

/// Makes a queue with segments of [`DEFAULT_SEGMENT_SLOTS`] in the global allocator.
///
/// The first segment is taken at once.
///
/// # Panics
///
/// If the size of a segment overflows.
/// Aborts on lack of memory, as std's collections do.
#[must_use]
pub fn queue<T>() -> (Producer<T>, Consumer<T>) {
    queue_in(DEFAULT_SEGMENT_SLOTS, Global)
}

/// Makes a queue with segments of `segment_slots` items, with all of its memory from `alloc`.
///
/// Small segments suit many small queues; a segment costs one allocation and 128 bytes beside its
/// items.
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
/// If `segment_slots` is none or over [`MAX_SEGMENT_SLOTS`], or the size of a segment overflows.
/// Calls `handle_alloc_error` on lack of memory.
#[must_use]
pub fn queue_in<T, A: Allocator>(
    segment_slots: usize,
    alloc: A,
) -> (Producer<T, A>, Consumer<T, A>) {
    match try_queue_in(segment_slots, alloc) {
        Ok(halves) => halves,
        Err(_) => no_memory::<T, A>(segment_slots),
    }
}

/// Makes a queue as [`queue_in`] does, and gives an error on lack of memory.
///
/// # Panics
///
/// If `segment_slots` is none or over [`MAX_SEGMENT_SLOTS`], or the size of a segment overflows.
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

/// A queue whose counts begin at `start`: tests put it just below the wrap of `usize`.
#[doc(hidden)]
#[must_use]
pub fn queue_at<T>(segment_slots: usize, start: usize) -> (Producer<T>, Consumer<T>) {
    match halves(segment_slots, start, Global) {
        Ok(halves) => halves,
        Err(_) => no_memory::<T, Global>(segment_slots),
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
    // SAFETY: (1) it is new, and this is the only producer over it; (2) as `new` gave them.
    let producer = unsafe { Producer::new(shared.duplicate(), place, start) };
    // SAFETY: (1) likewise the only consumer; (2) as `new` gave them.
    let consumer = unsafe { Consumer::new(shared, place, start) };
    Ok((producer, consumer))
}

/// Tells the program that there is no memory for a segment.
#[cold]
fn no_memory<T, A>(segment_slots: usize) -> ! {
    std_alloc::alloc::handle_alloc_error(Shared::<T, A>::layout(segment_slots).0)
}
