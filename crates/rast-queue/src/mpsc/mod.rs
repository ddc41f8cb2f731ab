//! Many producers, one consumer: the front queue of a task scheduler.
//!
//! A push is one exchange, and tells whether it found the queue empty, so that exactly one producer
//! wakes the consumer; the consumer takes all queued items by one exchange, in the order of the
//! pushes. A thread that is stopped anywhere delays no other thread.
//!
//! There are two faces over one protocol:
//!
//! | face | nodes | producers | consumer |
//! | --- | --- | --- | --- |
//! | [`queue`] | the queue's own, in blocks, recycled | one [`Producer`] per thread, cloned | one [`Consumer`] half |
//! | [`intrusive::Queue`] | yours, with a [`Link`] inside | anybody, by shared reference | a guard that one thread has at a time |
//!
//! [`bounded`] is another queue: a ring of slots, for as many producers as there are, which hold
//! nothing each.
//!
//! The queue does not sleep: put a [`Signal`](crate::primitive::Signal) or an
//! [`EventCount`](crate::primitive::EventCount) beside it, and send when a push says `true`.
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
