//! Queues between threads, for one or many on each side, bounded and unbounded.
//!
//! # Which one
//!
//! | you have | take | progress |
//! | --- | --- | --- |
//! | one producer, one consumer, a known bound | [`spsc::ring`] | wait-free |
//! | one producer, one consumer, no bound | [`spsc::segmented::queue`] | wait-free except for the allocator |
//! | one producer, many consumers, no bound | [`spmc::queue`] | push wait-free except for the allocator, pop lock-free |
//! | many producers, one consumer, no bound | [`mpsc::queue`]; [`mpsc::intrusive::Queue`] for nodes of your own | lock-free, no thread delays another |
//! | any number of producers and consumers, no bound | [`Queue`] | lock-free, no thread delays another |
//! | the same, closed when the last producer or the last consumer is gone | [`Queue::split`], [`mpmc`] | as [`Queue`] |
//! | the same, and its memory back item by item, or a reference to compare with | [`list::ListQueue`] | lock-free |
//!
//! Not for you: if one thread both pushes and pops, `VecDeque` is cheaper. To wait for an item of
//! another queue than [`Queue`], put a [`primitive::EventCount`] or another parking type beside it.
//!
//! # Example
//!
//! ```
//! use rast_queue::{Queue, spsc};
//!
//! let (mut producer, mut consumer) = spsc::ring::<u32>(4);
//! producer.push(1).unwrap();
//! assert_eq!(producer.push_batch(&mut (2..10)), 3); // three more fit
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
//! # Names
//!
//! The same names mean the same in every structure:
//!
//! | call | takes | gives |
//! | --- | --- | --- |
//! | `push` | one item | the item back in [`Full`] or [`Closed`]; aborts on lack of memory |
//! | `try_push` | one item | the item back in [`TryPushError`]; never aborts. A ring has none: its `push` never allocates |
//! | `push_batch` | an iterator | all items are published by one store or exchange, or one per segment |
//! | `push_slice` | a slice of `Copy` items | as `push_batch` |
//! | `pop` | | one item, or `None` |
//! | `pop_batch(max, each)` | a closure | how many it was called for |
//! | `pop_into(out, max)` | a collection | how many were added |
//! | `pop_slice(out)` | a slice of `Copy` items | how many were written |
//! | `len`, `is_empty` | | what is queued |
//! | `is_closed` | | `true` if the other side is gone, or closed the queue |
//! | `is_finished` | | `true` if the queue is closed and drained: no pop gives an item again |
//!
//! A push that can be refused hands its items back. A batch that a ring or a segmented queue takes
//! in part leaves the rest in the iterator: lend it by `&mut`.
//!
//! # Guarantees
//!
//! - Nothing accepted is lost, whichever side closes first and whatever user code panics; what is
//!   refused is handed back.
//! - All are first in, first out; `Queue` and `ListQueue` are linearizable. A protocol over several
//!   queues in which each of two threads pushes to one and finds the other empty needs a
//!   `fence(SeqCst)` of its own, as with any atomics.
//! - A panic of `A::deallocate` ends the program, since memory is freed in the middle of an
//!   operation.
//! - The memory for items comes from the allocator `A`; a ring allocates once, at construction; no
//!   `pop` allocates. From the global allocator come the wait list of a [`Queue`], and the lists in
//!   which refused batches are handed back.
//! - Every atomic ordering has a label, and a loom model that fails without it or the reason why
//!   none can: `docs/verification.md`; the argument: `docs/algorithms/queue.md`, and the page of
//!   each structure that it names.
//!
//! # Features
//!
//! - `std` (default): back-off yields to the scheduler instead of only spinning, and [`Queue`] can
//!   be waited on. Without it the crate needs `alloc` alone.
//! - `async`: items of a [`Queue`] as futures and streams, bound to no runtime; takes
//!   `futures-core`.
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
pub mod mpmc;
pub mod mpsc;
mod popping;
mod queue;
pub mod spmc;
pub mod spsc;

pub use error::{Closed, Full, TryPushError};
#[cfg(feature = "std")]
pub use queue::PopError;
pub use queue::{Drain, IntoIter, Queue, Rest};
#[cfg(feature = "async")]
pub use queue::{Pop, Stream};
#[cfg(all(feature = "std", any(rast_loom, rast_shuttle)))]
#[doc(hidden)]
pub use queue::{Waiter, Waiters};

// The layers beneath: signatures here name their types, and one version serves all.
#[doc(no_inline)]
pub use rast_alloc::{self as alloc, primitive};
