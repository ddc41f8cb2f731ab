//! Bounded and unbounded queues between threads, for one or many producers and consumers.
//!
//! # Which one
//!
//! | you have | use | progress |
//! | --- | --- | --- |
//! | one producer, one consumer, a known bound | [`spsc::ring`] | wait-free |
//! | one producer, one consumer, no bound | [`spsc::segmented::queue`] | wait-free except for the allocator |
//! | one producer, many consumers, no bound | [`spmc::queue`] | push wait-free except for the allocator, pop lock-free |
//! | many producers, one consumer, no bound | [`mpsc::queue`]; [`mpsc::intrusive::Queue`] for nodes of your own | lock-free except for the allocator |
//! | many producers, one consumer, a known bound | [`mpsc::bounded::queue`] | push lock-free, take wait-free; while a producer is suspended in a push, `take` returns no item behind the slot of that push |
//! | any number of producers and consumers, no bound | [`Queue`] | lock-free except for the allocator |
//! | the same, closed when the last producer or the last consumer is dropped | [`Queue::split`], [`mpmc`] | as [`Queue`] |
//! | any number of producers and consumers, no bound, and the memory of each popped item must be freed at once; also a baseline for comparison | [`list::ListQueue`] | as [`Queue`] |
//!
//! If one thread both pushes and pops, `VecDeque` is cheaper. Only [`Queue`] has operations that
//! wait for an item. To wait on a queue of another type, use a [`primitive::EventCount`] or another
//! parking type beside it.
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
//! Each name means the same in every type:
//!
//! | call | argument | returns |
//! | --- | --- | --- |
//! | `push` | one item | on failure the item, in an error such as [`Full`] or [`Closed`]; on success, in [`mpsc::queue`] and [`mpsc::intrusive`], whether the queue was empty. Aborts on lack of memory |
//! | `try_push` | one item | on failure the item, in [`TryPushError`]; never aborts. A ring has none, because its `push` never allocates |
//! | `push_batch` | an iterator | how many were pushed; in [`mpsc::queue`] and [`mpsc::intrusive`] what `push` returns. A batch costs a few stores or compare-exchanges, not one per item |
//! | `push_slice` | a slice of `Copy` items | as `push_batch`; no number is returned if success means that all items were pushed |
//! | `pop` | | one item, or `None` |
//! | `pop_batch(max, each)` | a closure | how many items were popped |
//! | `pop_into(out, max)` | a collection | how many were added |
//! | `pop_slice(out)` | a slice of `Copy` items | how many were written |
//! | `len`, `is_empty` | | how many items are queued; whether none is |
//! | `is_closed` | | `true` if the other side was dropped, or the queue was closed |
//! | `is_finished` | | `true` if the queue is closed and empty, so that no later pop returns an item |
//!
//! A push that fails returns its items. If a ring or a segmented queue pushes only a part of a
//! batch, the rest stays in the iterator, so pass the iterator by `&mut`.
//!
//! # Guarantees
//!
//! - A pushed item is not lost, whichever side closes first and whichever user code panics. A
//!   failed push returns its item. The exceptions are under "Panics" at each method.
//! - All queues are first in, first out; `Queue` and `ListQueue` are linearizable. As with any
//!   atomics, two queues have no common order. Suppose that one thread pushes to A and then checks
//!   whether B is empty, while another pushes to B and checks A. Both may find the other queue
//!   empty, unless each has a `fence(SeqCst)` between its push and its check.
//! - A queue that is dropped drops every item, even if destructors panic. The panics are caught,
//!   and after the last item the first panic is resumed. Without `std` panics cannot be caught, so
//!   a second panic aborts the process. If the thread is already unwinding, any such panic aborts
//!   the process.
//! - A panic of `A::deallocate` aborts the process. If it unwound, the operation that frees the
//!   memory would lose its item or its wake-up.
//! - The memory for items comes from the allocator `A`. A ring allocates once, at construction. No
//!   `pop` allocates. The wait list of a [`Queue`], and the lists in which rejected batches are
//!   returned, use the global allocator.
//! - Every atomic ordering stronger than `Relaxed` has a row in `docs/verification.md`, which names
//!   the loom model that fails without it, or says why none can. The arguments are in
//!   `docs/algorithms/queue.md` and the pages that it lists.
//!
//! # Features
//!
//! - `std` (default): back-off yields to the OS scheduler instead of only spinning, threads can
//!   wait on a [`Queue`], and panics of destructors are caught. Without it the crate needs only
//!   `alloc`.
//! - `async`: items of a [`Queue`] as futures and streams for any runtime; depends on
//!   `futures-core`.
//!
//! # Platforms
//!
//! Every platform with `alloc` and compare-exchange on pointer-sized atomics.
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

// The lower layers: signatures here use their types, and a re-export keeps one version.
#[doc(no_inline)]
pub use rast_alloc::{self as alloc, primitive};
