//! Queues for one producer and one consumer: a bounded ring in this module, and an unbounded queue
//! in [`segmented`].
//!
//! The ring is wait-free and uses one allocation. Items are pushed and popped one by one, in
//! batches, or in place as slices of the ring's memory: [`Producer::write_chunk`],
//! [`Consumer::read_chunk`].
//!
//! The ring is Lamport's, with the two refinements that were fastest in measurements. First, each
//! half caches the index that the other half publishes, and reloads it only when the cached value
//! says "full" or "empty". Second, a batch publishes the index of its half only once. Indices use
//! all values of `usize` and wrap; the low bits of an index select its slot, so capacities are
//! powers of two. A half executes no read-modify-write except when it is dropped.
//!
//! ```text
//!            one allocation from A
//!   ┌──────────────┬──────────────┬──────────────────────────┬───────┬───────┬─────┬───────┐
//!   │ tail         │ head         │ gone, A                  │ slot 0│ slot 1│  …  │ slot  │
//!   │ own line     │ own line     │ own line                 │       │       │     │ mask  │
//!   └──────▲───────┴──────▲───────┴──────▲───────────────────┴───────┴───────┴─────┴───────┘
//!          │ stores       │ stores       │ each sets its bit once, in drop
//!   Producer { tail, limit }             Consumer { head, cached tail, pace, wait }
//! ```
//!
//! | field | written by | read by | when |
//! | --- | --- | --- | --- |
//! | header `tail` | producer | consumer | after the slots before it are written |
//! | header `head` | consumer | producer | after the slots before it are moved out |
//! | header `gone` | each half, once | both | as the last act of a half |
//! | `Producer::tail`, `Consumer::head` | its half | its half | the true index; it is ahead of the published one inside a batch or chunk |
//! | `Producer::limit`, `Consumer::tail` | its half | its half | a past value of the index that the other half publishes; `limit` is that value plus the capacity |
//! | `Consumer::pause_due`, `pace` | consumer | consumer | when a `pop` finds the ring empty |
//! | `Consumer::wait_due`, `wait` | consumer | consumer | when a batch must load the header's `tail` |
//! | slot `i & mask` | producer while `i - head < capacity` and `i >= tail`; consumer while `head <= i < tail` | | |
//!
//! Rules:
//!
//! 1. `tail - head <= capacity`, in wrapping arithmetic, for the true, the published and the cached
//!    values alike.
//! 2. The slots of `head..tail` hold items; the others hold nothing.
//! 3. Only the producer moves `tail`, only the consumer moves `head`, and a published index only
//!    moves forward.
//! 4. A batch counts an item that it has written or moved out before user code runs again. It
//!    updates and publishes the index of its half when it ends, even by a panic.
//! 5. The half that is dropped second drops the queued items and frees the block.
//!
//! The argument for each rule, and what each ordering is for, is in
//! `docs/algorithms/queue-spsc.md`.
//!
//! ```
//! use rast_queue::spsc;
//!
//! let (mut producer, mut consumer) = spsc::ring(1024);
//! let sender = std::thread::spawn(move || {
//!     for n in 0..10_000u64 {
//!         while producer.push(n).is_err() {
//!             if producer.is_closed() {
//!                 return; // the consumer was dropped, so no room will come
//!             }
//!             std::thread::yield_now();
//!         }
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
mod pace;
mod producer;
mod raw;
mod read_chunk;
pub mod segmented;
mod side;
mod wait;
mod write_chunk;

pub use consumer::Consumer;
pub use producer::Producer;
pub use read_chunk::{ReadChunk, ReadChunkIter};
pub use write_chunk::{FilledChunk, WriteChunk};

use crate::alloc::{AllocError, Allocator, Global, Layout};
use raw::Block;

/// Makes a ring for at least `capacity` items in the global allocator.
///
/// The capacity is rounded up to a power of two, at least one.
///
/// # Panics
///
/// If the capacity, rounded up, or its size in bytes overflows. Aborts on lack of memory.
#[must_use]
pub fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    ring_in(capacity, Global)
}

/// Makes a ring for at least `capacity` items. All of its memory is one block from `alloc`.
///
/// ```
/// use rast_queue::alloc::Global;
/// use rast_queue::spsc;
///
/// let (producer, _consumer) = spsc::ring_in::<u8, _>(100, Global);
/// assert_eq!(producer.capacity(), 128);
/// ```
///
/// # Panics
///
/// If the capacity, rounded up, or its size in bytes overflows.
/// Calls `handle_alloc_error` on lack of memory.
pub fn ring_in<T, A: Allocator>(capacity: usize, alloc: A) -> (Producer<T, A>, Consumer<T, A>) {
    let capacity = rounded(capacity);
    match Block::new(capacity, 0, alloc) {
        Ok(block) => halves(block, 0),
        Err(_) => std_alloc::alloc::handle_alloc_error(layout_of::<T, A>(capacity)),
    }
}

/// Makes a ring as [`ring_in`] does, but returns an error on lack of memory.
///
/// # Panics
///
/// If the capacity, rounded up, or its size in bytes overflows.
///
/// # Errors
///
/// [`AllocError`] if `alloc` has no room for the block.
#[expect(
    clippy::type_complexity,
    reason = "the pair of halves is the plainest type there is"
)]
pub fn try_ring_in<T, A: Allocator>(
    capacity: usize,
    alloc: A,
) -> Result<(Producer<T, A>, Consumer<T, A>), AllocError> {
    Ok(halves(Block::new(rounded(capacity), 0, alloc)?, 0))
}

/// Makes a ring whose indices begin at `start`. Tests use a value just below the wrap of `usize`.
#[doc(hidden)]
#[must_use]
pub fn ring_at<T>(capacity: usize, start: usize) -> (Producer<T>, Consumer<T>) {
    match Block::new(rounded(capacity), start, Global) {
        Ok(block) => halves(block, start),
        Err(_) => std_alloc::alloc::handle_alloc_error(layout_of::<T, Global>(rounded(capacity))),
    }
}

fn halves<T, A: Allocator>(block: Block<T, A>, start: usize) -> (Producer<T, A>, Consumer<T, A>) {
    // SAFETY: (1) the block is new, so this is the only producer over it; (2) both of its indices
    // are `start`.
    let producer = unsafe { Producer::new(block.duplicate(), start) };
    // SAFETY: (1) likewise the only consumer; (2) as above.
    let consumer = unsafe { Consumer::new(block, start) };
    (producer, consumer)
}

fn rounded(capacity: usize) -> usize {
    capacity
        .max(1)
        .checked_next_power_of_two()
        .expect("spsc: the capacity overflows usize")
}

fn layout_of<T, A>(capacity: usize) -> Layout {
    Block::<T, A>::layout(capacity).0
}
