//! Many producers, one consumer: the front queue of a task scheduler.
//!
//! A push is one compare-exchange and returns whether it found the queue empty, so that exactly one
//! producer wakes the consumer. The consumer takes all queued items by one swap, in the order of
//! the pushes. A thread that is suspended anywhere delays no other thread.
//!
//! Two types use the same protocol:
//!
//! | type | nodes | producers | consumer |
//! | --- | --- | --- | --- |
//! | [`queue`] | the queue's own, in recycled blocks | one clone of [`Producer`] per thread | one [`Consumer`] |
//! | [`intrusive::Queue`] | yours, with a [`Link`] inside | any thread, by shared reference | a guard that one thread has at a time |
//!
//! [`bounded`] is a different queue: a ring of slots for any number of producers, which use no
//! memory each.
//!
//! No operation waits. To sleep, put a [`Signal`](crate::primitive::Signal) or an
//! [`EventCount`](crate::primitive::EventCount) beside the queue, and notify it when a push returns
//! `true`.
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
//! The argument is in `docs/algorithms/queue-mpsc.md`.

mod block;
pub mod bounded;
mod boxed;
mod consumer;
pub mod intrusive;
mod node;
mod producer;
mod stack;

pub use boxed::{queue, queue_in, try_queue_in};
pub use consumer::{Batch, Consumer};
pub use node::{Link, Node, Pointer, UniquePointer};
pub use producer::Producer;
