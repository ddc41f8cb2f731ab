//! The memory allocator of RAST, for whole programs and for single containers.
//!
//! - [`RastAlloc`]: the allocator of a whole program, with one heap per thread.
//! - [`Heap`]: a separate heap for one thread at a time. [`SharedHeap`]: the same for many threads.
//! - The `Allocator` trait, through which the RAST crates above this one allocate.
//! - [`Padded`]: the global allocator with blocks on cache lines of their own.
//!
//! # When to use it
//!
//! Use [`RastAlloc`] as the global allocator of a program whose threads pass memory to each other.
//! A thread allocates and frees its own blocks without synchronisation. The blocks of other threads
//! that it frees return to their heaps in batches.
//!
//! Use a [`Heap`] to limit the memory of a container, or to free all of it at once. Use a
//! [`SharedHeap`] if several threads share such a container or limit.
//!
//! The trait and the containers of `allocator-api2` are re-exported in the version that
//! `rast-queue` uses.
//!
//! # When not
//!
//! - If misuse must be detected at no cost. Without the feature `hardened` a double free is
//!   undefined behaviour, as in any allocator, and a wrong layout is detected only in debug builds.
//! - If a signal handler must allocate: calls of one thread must not be nested.
//! - In a program in which no library may start a thread. Such a program must disable the
//!   background thread by [`RastAlloc::set_purge_delay`]`(None)`.
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
//! - Allocating and freeing a thread's own blocks needs no lock, no atomic read-modify-write and no
//!   fence.
//! - Whenever no call is in progress, all statistics except the peak are exact, even if threads
//!   free each other's blocks.
//! - The allocator takes no lock, does not allocate through std, does not panic, and has no
//!   thread-local with a destructor. So it works before `main`, in destructors of threads, in
//!   `atexit` handlers, and in the child of a `fork`.
//! - On Linux unused memory returns to the OS also while all threads sleep.
//! - The next thread that starts adopts the heap of a thread that ended. Until then, a thread that
//!   frees a block of that heap also returns the block to the heap.
//!
//! `docs/algorithms/alloc.md` in the repository describes the levels and the bounds.
//!
//! # Features
//!
//! - `std` (default): [`RastAlloc`], [`Heap`], [`SharedHeap`] and [`Stats`]; depends on `libc` on
//!   unix. Without `std`: the trait, [`Global`], [`Padded`], [`boxed`] and [`vec`](mod@vec).
//! - `hardened`: ends the process with a message when it detects misuse. It detects a double free,
//!   a pointer that is no block or belongs to another heap, a layout of another class, and a write
//!   to the first 16 bytes of a free block. Links of free blocks are encoded. Guard pages are at
//!   both ends of a segment's spans and behind each large block. A double free by another thread
//!   may be detected only when the block arrives at its owner. It is not detected if the block was
//!   allocated again before that. Cost: marks take a sixteenth of the memory, the smallest block
//!   has 16 bytes instead of 8, and calls take longer; see `docs/algorithms/alloc.md`.
//!
//! # Platforms
//!
//! Linux is the main platform. Other unix systems use the same system calls. On all other systems,
//! segments come from the system's allocator, only whole segments return to it, and a hardened
//! build has no guard pages. Without `std` the crate runs wherever `alloc` does.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "std")]
extern crate std;

// Levels, lowest first. Models compile only the protocols.
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod arena;
#[cfg(feature = "std")]
mod block;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod geometry;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod hardened;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod large;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod level;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod low_water;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod mapping_cache;
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
mod budget;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod delay;
#[cfg(feature = "std")]
mod mailbox;
#[cfg(feature = "std")]
mod ownership;
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
mod padded;
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
    mailbox::Mailbox,
    ownership::{Action, Found, Ownership, Request, Requests},
    ranges::Ranges,
    registry::{Entered, Entry, Registry},
    stripes::Stripes,
};

// Under this private cfg every program that links this crate allocates through it, so the tests of
// the layers above run on it (`cargo xtask verify --only global`).
#[cfg(all(rast_global_alloc, feature = "std"))]
#[global_allocator]
static EVERYWHERE: RastAlloc = RastAlloc;

pub use padded::Padded;

pub use allocator_api2::alloc::{AllocError, Allocator, Global, Layout};
pub use allocator_api2::{boxed, vec};

// The layer beneath: signatures here name its types, and all layers use one version of it.
#[doc(no_inline)]
pub use rast_primitive as primitive;
