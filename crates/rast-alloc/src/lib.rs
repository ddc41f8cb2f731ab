//! The allocator layer: [`RastAlloc`], an allocator for the whole program with a heap for each
//! thread; [`Heap`], a heap of one's own, and [`SharedHeap`], one for many threads; and the
//! `Allocator` trait that the layers above take their memory through.
//!
//! # When to use it
//!
//! As the program's global allocator where many threads pass memory to each other: a thread's own
//! blocks cost no synchronisation, and what it frees of others travels in batches. As a [`Heap`]
//! where a container's memory is to be bounded, or given back at once; as a [`SharedHeap`] where
//! threads share such a container or budget. The trait and the containers of `allocator-api2` are
//! re-exported, so that the version is the one that the queues of `rast-queue` take.
//!
//! # When not
//!
//! If blocks are to be guarded against misuse and the feature `hardened` costs too much: without it
//! a double free is undefined, as in any allocator, and a wrong layout is seen in debug builds
//! alone. If a signal handler allocates: calls of one thread must not be nested. If the program
//! must not have a thread that it did not start: then set the delay of the background thread to
//! none ([`RastAlloc::set_purge_delay`]).
//!
//! # Example
//!
//! ```
//! use rast_alloc::RastAlloc;
//!
//! #[global_allocator]
//! static ALLOC: RastAlloc = RastAlloc;
//!
//! let before = RastAlloc::stats();
//! let buffer = vec![0u8; 10_000];
//! let after = RastAlloc::stats();
//! assert!(after.bytes_current >= before.bytes_current + 10_000);
//! assert!(after.bytes_peak >= after.bytes_current);
//! drop(buffer);
//! println!("{}", RastAlloc::stats());
//! ```
//!
//! # Guarantees
//!
//! - On the path of a thread's own blocks stand no lock, no atomic read-modify-write and no fence.
//! - The figures are true when threads free each other's memory.
//! - Nothing inside takes a lock, allocates through std, panics, or has a thread-local with a
//!   destructor; it serves before `main`, in the destructors of threads, in `atexit`, and in the
//!   child after `fork`.
//! - On Linux memory that is not needed goes back by itself, also while all threads sleep.
//! - What a thread leaves when it ends is adopted by the next one, and freed meanwhile by the
//!   thread that frees it.
//!
//! How it works, drawn level by level, is in `docs/algorithms/alloc.md` of the repository.
//!
//! # Features
//!
//! - `std` (default): [`RastAlloc`], [`Heap`], [`SharedHeap`] and [`Stats`]; brings `libc` on unix.
//!   Without it: the trait, [`Global`], [`boxed`] and [`vec`](mod@vec).
//! - `hardened`: misuse ends the process with a message that names it: a double free, a pointer
//!   that is no block's or is another heap's, a layout of another class, a free block that was
//!   written to in its first 16 bytes. Links of free blocks are encoded; pages without access are
//!   at both ends of a segment's spans and behind each large block. What a thread frees of another
//!   one's heap a second time may be named only when it arrives there, which is late if the block
//!   was given out again meanwhile. It costs a sixteenth of the memory for marks, 16 bytes for the
//!   smallest blocks, and time: see `docs/algorithms/alloc.md`.
//!
//! # Platforms
//!
//! Linux first; other unix by the same calls; elsewhere the segments come from the system's
//! allocator, memory goes back in whole segments, and a hardened build has no pages without access.
//! Without `std`, wherever `alloc` is.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "std")]
extern crate std;

// The levels, lowest first; the models run the two protocols alone.
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod arena;
#[cfg(feature = "std")]
mod block;
#[cfg(feature = "std")]
mod constructor;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod geometry;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod hardened;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod kept;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod large;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod least;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod level;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod misuse;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod os;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod pool;
#[cfg(feature = "std")]
mod ranges;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod segment;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod size_class;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod slab;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod span;
#[cfg(all(
    feature = "std",
    unix,
    not(any(rast_loom, rast_shuttle, rast_system_segments))
))]
mod stranded;

// Threads.
#[cfg(feature = "std")]
mod adoption;
#[cfg(feature = "std")]
#[cfg(feature = "std")]
mod budget;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod delay;
#[cfg(feature = "std")]
mod hold;
#[cfg(feature = "std")]
mod mailbox;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod peak;
#[cfg(all(
    feature = "std",
    any(target_os = "linux", target_os = "android"),
    not(any(rast_loom, rast_shuttle, miri, rast_system_segments))
))]
mod purge_thread;
#[cfg(all(
    feature = "std",
    not(any(rast_loom, rast_shuttle)),
    any(
        not(any(target_os = "linux", target_os = "android")),
        miri,
        rast_system_segments
    )
))]
#[path = "purge_thread_none.rs"]
mod purge_thread;
#[cfg(feature = "std")]
mod registry;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod remote_batch;
#[cfg(feature = "std")]
mod stripes;
#[cfg(all(
    feature = "std",
    any(target_os = "linux", target_os = "android"),
    not(any(rast_loom, rast_shuttle, miri, rast_system_segments))
))]
mod surplus;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod thread;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod thread_heap;

// Front ends.
#[cfg(feature = "std")]
mod front_end;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod heap;
#[cfg(feature = "std")]
mod rast_alloc;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod shared_heap;
#[cfg(feature = "std")]
mod stats;

#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
pub use heap::Heap;
#[cfg(feature = "std")]
pub use rast_alloc::RastAlloc;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
pub use shared_heap::SharedHeap;
#[cfg(feature = "std")]
pub use stats::{ClassStats, Stats};
#[cfg(feature = "std")]
#[doc(hidden)]
pub use {
    adoption::{Offered, Place, Stack},
    block::Block,
    budget::Budget,
    hold::{Ask, Asks, Found, Hold, Wish},
    mailbox::Mailbox,
    ranges::Ranges,
    registry::{Entered, Entry, Registry},
    stripes::Stripes,
};

// Under this private cfg the allocator serves every program that this crate is linked into: so the
// tests of the layers above run on it (`cargo xtask verify --only global`).
#[cfg(all(rast_global_alloc, feature = "std"))]
#[global_allocator]
static EVERYWHERE: RastAlloc = RastAlloc;

pub use allocator_api2::alloc::{AllocError, Allocator, Global, Layout};
pub use allocator_api2::{boxed, vec};

// The layers beneath: signatures here name their types, and one version serves all.
#[doc(no_inline)]
pub use rast_primitive as primitive;
