//! An unbounded queue for one producer and many consumers, for instance a scheduler's ready queue.
//! Items are stored in blocks.
//!
//! The producer writes items into the slots of a block, and publishes one or many of them by one
//! store of its index. A consumer claims items by a compare-exchange on the consumers' index, and
//! moves them out of the block that it is attached to. There is no state per slot, no lock and no
//! wait. Blocks have reference counts: as soon as no consumer needs a block any more, it is freed
//! or kept for the producer.
//!
//! The design is that of the multi-consumer queue in Shpilevoy's "Task scheduling". There every
//! consumer locks a mutex at the end of each block, and blocks are never freed. Here no thread
//! waits. The word that points to the oldest block with unclaimed items also counts the consumers
//! attached to this block, like the multi-counters of the original RAST design (2.3).
//!
//! For one consumer [`spsc`](crate::spsc) is faster; for many producers use
//! [`Queue`](crate::Queue). `docs/algorithms/queue-spmc.md` has the picture, the rules and the
//! argument for correctness.

mod consumer;
mod producer;
mod raw;

pub use consumer::Consumer;
pub use producer::Producer;

use raw::{Block, Handle};
use std_alloc::alloc::handle_alloc_error;

use crate::alloc::{AllocError, Allocator, Global};

/// Minimum and maximum number of slots per block.
const SLOTS: core::ops::RangeInclusive<usize> = 1..=1 << 20;

/// Number of slots per block in [`queue`] for items of type `T`: 1024, or fewer for large items, so
/// that a block is at most about 32 KiB. The number is at least 32.
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
/// Aborts on lack of memory. Consumers free blocks on their threads, so the halves are `Send` only
/// if `alloc` is `Send` and `Sync`.
///
/// If the address of a block does not fit beside a count in one word, the call that allocates the
/// block panics. The message names the layout; see [`TaggedPtr`](crate::primitive::TaggedPtr).
#[must_use]
pub fn queue_in<T, A: Allocator>(alloc: A) -> (Producer<T, A>, Consumer<T, A>) {
    with_block_slots_in(default_block_slots::<T>(), alloc)
}

/// Makes a queue with `slots` slots per block.
///
/// Small blocks suit a program with many small queues; with large blocks consumers contend less
/// often at the ends of blocks.
///
/// # Panics
///
/// If `slots` is 0 or above 2^20, or a block would be larger than `isize::MAX` bytes.
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
/// [`AllocError`] if the allocator fails.
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
