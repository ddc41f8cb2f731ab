//! Queues between threads, for one or many on each side, bounded and unbounded.
//!
//! # Which one
//!
//! | you have | take | progress |
//! | --- | --- | --- |
//! | one producer, one consumer, a known bound | [`spsc::ring`] | wait-free |
//! | one producer, one consumer, no bound | [`spsc::segmented::queue`] | wait-free but for the allocator |
//! | one producer, many consumers, no bound | [`spmc::queue`] | push wait-free but for the allocator, pop lock-free |
//! | many producers, one consumer, no bound | [`mpsc::queue`]; [`mpsc::intrusive::Queue`] for nodes of your own | lock-free, no thread delays another |
//! | any number of producers and consumers, no bound | [`Queue`] | lock-free, no thread delays another |
//! | the same, and its memory back item by item, or a reference to compare with | [`list::ListQueue`] | lock-free |
//!
//! Not for you: if one thread both pushes and pops, `VecDeque` is cheaper. To wait for an item of another queue than
//! [`Queue`], put a [`primitive::EventCount`] or another parking type beside it.
//!
//! # Example
//!
//! ```
//! use rast_queue::{Queue, spsc};
//!
//! let (mut producer, mut consumer) = spsc::ring::<u32>(4);
//! producer.push(1).unwrap();
//! assert_eq!(producer.push_iter(&mut (2..10)), 3); // three more fit
//! let mut sum = 0;
//! assert_eq!(consumer.pop_batch(usize::MAX, |n| sum += n), 4);
//! assert_eq!(sum, 10);
//!
//! static QUEUE: Queue<&str> = Queue::new();
//! QUEUE.push("hello").unwrap();
//! assert_eq!(QUEUE.pop(), Some("hello"));
//! QUEUE.close();
//! assert_eq!(QUEUE.push("late").unwrap_err().into_inner(), "late");
//! ```
//!
//! # Guarantees
//!
//! - Nothing accepted is lost, whichever side closes first and whatever user code panics; what is refused is handed back.
//! - All are first in, first out; `Queue` and `ListQueue` are linearizable. A protocol over several queues in which each
//!   of two threads pushes to one and finds the other empty needs a `fence(SeqCst)` of its own, as with any atomics.
//! - A panic of `A::deallocate` ends the program, since memory is freed in the middle of an operation.
//! - The memory for items comes from the allocator `A`; a ring allocates once, at construction; no `pop` allocates.
//!   From the global allocator come the line of those who wait at a [`Queue`], and the lists in which refused batches are
//!   handed back.
//! - Every atomic ordering has a label, and a loom model that fails without it or the reason why none can:
//!   `docs/verification.md`; the argument: `docs/algorithms/queue.md`, and the page of each structure that it names.
//!
//! # Features
//!
//! - `std` (default): back-off yields to the scheduler instead of only spinning, and [`Queue`] can be waited on.
//!   Without it the crate needs `alloc` alone.
//! - `async`: items of a [`Queue`] as futures and streams, bound to no runtime; takes `futures-core`.
//!
//! # Platforms
//!
//! Everything with `alloc` and atomics of pointer width that can compare and exchange.
#![no_std]

extern crate alloc as std_alloc;
#[cfg(feature = "std")]
extern crate std;

mod abort;
mod error;
pub mod list;
pub mod mpsc;
mod popping;
mod queue;
pub mod spmc;
pub mod spsc;

pub use error::{Closed, Full, NoMemory, TryPushError};
#[cfg(feature = "std")]
pub use queue::PopError;
pub use queue::{Drain, IntoIter, Queue, Rest};
// For the model of this protocol alone; the table of a process is not for others to write to.
#[cfg(any(rast_loom, rast_shuttle))]
#[doc(hidden)]
pub use queue::{GivenUp, Id, TakeBack, Verdict};
#[cfg(feature = "async")]
pub use queue::{Pop, Stream};

// The layers beneath: signatures here name their types, and one version serves all.
#[doc(no_inline)]
pub use rast_alloc::{self as alloc, primitive};
