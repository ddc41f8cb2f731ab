//! An unbounded queue for one producer and many consumers, in blocks: a scheduler's ready queue.
//!
//! One thread hands out work, in batches, and many take it. The producer writes items into the
//! slots of a block and publishes them by one store of its index; consumers claim them by one
//! exchange on theirs, each from a block that it is attached to, so that neither side knows a state
//! per slot, a lock or a wait. Blocks that are used up are found by counting, at once, and go back
//! to the producer or to the allocator.
//!
//! The source, the task scheduler's multi-consumer queue, guards its list of blocks by a mutex,
//! taken by every consumer at the end of each block, and keeps its blocks for ever; here the front
//! of the list is a counted pointer, by the multi-counters of RAST 2.3, and nothing waits.
//!
//! When not: for one consumer, [`spsc`](crate::spsc) is quicker; for many producers there is
//! [`Queue`](crate::Queue). `docs/algorithms/queue-spmc.md` has the picture, the rules and the
//! argument.

mod consumer;
mod producer;
mod raw;

pub use consumer::Consumer;
pub use producer::Producer;

use raw::{Block, Handle};
use std_alloc::alloc::handle_alloc_error;

use crate::alloc::{AllocError, Allocator, Global};

/// The least and the most slots per block.
const SLOTS: core::ops::RangeInclusive<usize> = 1..=1 << 20;

/// The number of slots per block that [`queue`] takes for items of type `T`: 1024, and fewer for
/// large items, so that a block is about 32 KiB at most, but 32 at least.
#[must_use]
pub const fn default_block_slots<T>() -> usize {
    let size = size_of::<T>();
    if size <= 32 {
        1024
    } else if size >= 1024 {
        32
    } else {
        32 * 1024 / size
    }
}

/// Makes a queue in the global allocator.
///
/// Lack of memory aborts, as in std.
///
/// ```
/// let (mut producer, mut first) = rast_queue::spmc::queue();
/// let mut second = first.clone();
/// producer.push_batch(["a", "b"]);
/// assert_eq!(first.pop(), Some("a"));
/// assert_eq!(second.pop(), Some("b"));
/// drop(producer);
/// assert!(first.is_finished());
/// ```
#[must_use]
pub fn queue<T>() -> (Producer<T>, Consumer<T>) {
    queue_in(Global)
}

/// Makes a queue that takes all its memory from `alloc`.
///
/// Lack of memory aborts, as in std. Consumers give blocks back to `alloc` from their threads, so
/// halves are `Send` if it is `Send` and `Sync`.
///
/// Where the platform hands out addresses wider than a pointer and a count have room for in one
/// word, taking a block panics and names the layout; see
/// [`TaggedPtr`](crate::primitive::TaggedPtr).
#[must_use]
pub fn queue_in<T, A: Allocator>(alloc: A) -> (Producer<T, A>, Consumer<T, A>) {
    with_block_slots_in(default_block_slots::<T>(), alloc)
}

/// Makes a queue with `slots` slots per block.
///
/// Small blocks suit many small queues; large ones let consumers meet less often at the ends of
/// blocks.
///
/// # Panics
///
/// When `slots` is 0 or above 2^20, or a block would be larger than `isize::MAX` bytes.
#[must_use]
pub fn with_block_slots<T>(slots: usize) -> (Producer<T>, Consumer<T>) {
    with_block_slots_in(slots, Global)
}

/// Makes a queue with `slots` slots per block, which takes all its memory from `alloc`.
///
/// Lack of memory aborts, as in std.
///
/// # Panics
///
/// As for [`with_block_slots`].
#[must_use]
pub fn with_block_slots_in<T, A: Allocator>(
    slots: usize,
    alloc: A,
) -> (Producer<T, A>, Consumer<T, A>) {
    match try_with_block_slots_in(slots, alloc) {
        Ok(halves) => halves,
        Err(AllocError) => handle_alloc_error(Block::<T>::layout(slots)),
    }
}

/// Makes a queue with `slots` slots per block, which takes all its memory from `alloc`.
///
/// # Errors
///
/// [`AllocError`] if the allocator refuses.
///
/// # Panics
///
/// As for [`with_block_slots`].
#[expect(
    clippy::type_complexity,
    reason = "the pair of halves is the plainest type there is"
)]
pub fn try_with_block_slots_in<T, A: Allocator>(
    slots: usize,
    alloc: A,
) -> Result<(Producer<T, A>, Consumer<T, A>), AllocError> {
    assert!(
        SLOTS.contains(&slots),
        "spmc: {slots} slots per block; there are 1 to 2^20"
    );
    let (handle, block) = Handle::new(slots, alloc)?;
    // SAFETY: `new` has counted one consumer, and this is it.
    let consumer = unsafe { Consumer::new(handle.duplicate()) };
    // SAFETY: both come from `new`, and this is the only producer.
    let producer = unsafe { Producer::new(handle, block) };
    Ok((producer, consumer))
}
