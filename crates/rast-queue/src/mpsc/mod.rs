//! Queues for many producers and one consumer, such as the front queue of a task scheduler.
//!
//! A push is one compare-exchange. The consumer takes all queued items by one swap, in the order of
//! the pushes. A push returns whether it is the first since the last take, so exactly one producer
//! wakes the consumer. A suspended producer delays no other thread; a suspended consumer delays no
//! producer.
//!
//! Two types use the same protocol:
//!
//! | type | nodes | producers | consumer |
//! | --- | --- | --- | --- |
//! | [`queue`] | the queue's own, in recycled blocks | one clone of [`Producer`] per thread | one [`Consumer`] |
//! | [`intrusive::Queue`] | yours, with a [`Link`] inside | any thread, by shared reference | [`intrusive::Consumer`], which one thread has at a time |
//!
//! [`bounded`] is a different queue: a ring of slots. Its producers have no memory of their own.
//!
//! No operation waits. To sleep, use a [`Parker`](crate::primitive::Parker) beside the queue.
//! Unpark the consumer when a push returns `true`, and after the last producer was dropped:
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use rast_queue::mpsc;
//! use rast_queue::primitive::{Parker, thread};
//!
//! let (mut producer, mut consumer) = mpsc::queue();
//! let parker = Parker::new();
//! let waker = parker.unparker();
//! let sender = thread::spawn(move || {
//!     for n in 1..=1000u32 {
//!         if producer.push(n).unwrap() {
//!             waker.unpark();
//!         }
//!     }
//!     drop(producer);
//!     waker.unpark();
//! });
//! let mut sum = 0;
//! while !consumer.is_finished() {
//!     match consumer.pop() {
//!         Some(n) => sum += n,
//!         None => parker.park(),
//!     }
//! }
//! assert_eq!(sum, 500_500);
//! sender.join().unwrap();
//! # }
//! ```
//!
//! The correctness argument is in `docs/algorithms/queue-mpsc.md`.

mod block;
pub mod bounded;
mod boxed;
mod consumer;
pub mod intrusive;
mod node;
mod producer;
mod stack;

pub use consumer::{Batch, Consumer};
pub use node::{Link, Node, Pointer, UniquePointer};
pub use producer::Producer;

use crate::alloc::{AllocError, Allocator, Global};
use boxed::Shared;

/// Makes a queue that uses the global allocator. Clone the producer for each further producer.
///
/// ```
/// let (mut producer, mut consumer) = rast_queue::mpsc::queue();
/// let mut second = producer.clone();
/// assert!(producer.push(1).unwrap()); // the first since the last take: wake the consumer
/// assert!(!second.push_batch([2, 3]).unwrap());
/// assert_eq!(consumer.pop(), Some(1));
/// assert_eq!(consumer.take_all().collect::<Vec<_>>(), [2, 3]);
/// ```
///
/// # Panics
///
/// Calls `handle_alloc_error` on lack of memory.
#[must_use]
pub fn queue<T>() -> (Producer<T>, Consumer<T>) {
    queue_in(Global)
}

/// Makes a queue whose memory comes from `alloc`.
///
/// # Panics
///
/// Calls `handle_alloc_error` on lack of memory.
pub fn queue_in<T, A: Allocator>(alloc: A) -> (Producer<T, A>, Consumer<T, A>) {
    match try_queue_in(alloc) {
        Ok(halves) => halves,
        Err(_) => std_alloc::alloc::handle_alloc_error(Shared::<T, A>::LAYOUT),
    }
}

/// Makes a queue as [`queue_in`] does, but returns an error on lack of memory.
///
/// # Errors
///
/// [`AllocError`] if `alloc` has no room for the part that the halves share.
#[expect(
    clippy::type_complexity,
    reason = "the pair of halves is the plainest type there is"
)]
pub fn try_queue_in<T, A: Allocator>(
    alloc: A,
) -> Result<(Producer<T, A>, Consumer<T, A>), AllocError> {
    let (shared, second) = Shared::pair(alloc)?;
    // SAFETY: this is the one consumer, and its handle is counted.
    let consumer = unsafe { Consumer::new(second) };
    Ok((Producer::new(shared), consumer))
}
