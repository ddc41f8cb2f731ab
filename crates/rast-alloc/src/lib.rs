//! The allocator layer: the `Allocator` trait that the layers above take their memory through, and [`RastAlloc`].
//!
//! # When to use it
//!
//! As the program's global allocator, or as the allocator of single containers, to know how many bytes are asked for,
//! now and at most, and how often, over all threads.
//! The trait and the containers of `allocator-api2` are re-exported, so that the version is the one that the queues of
//! `rast-queue` take.
//!
//! # When not
//!
//! If you want speed beyond the system's allocator today: [`RastAlloc`] forwards to it, for now, and adds two atomic
//! additions per call.
//! The per-thread engine that this layer is for comes later, behind the same names.
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
//! - The figures are true when threads free each other's memory: there is one set of them, not one per thread.
//! - Nothing in the allocator takes a lock, allocates, panics or touches a thread-local, beyond what the system's does.
//!
//! # Features
//!
//! - `std` (default): [`RastAlloc`] and [`Stats`]. Without it: the trait, [`Global`], [`boxed`] and [`vec`](mod@vec).
//!
//! # Platforms
//!
//! Wherever std runs and has 64-bit atomics; without `std`, wherever `alloc` is.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "std")]
mod rast_alloc;
#[cfg(feature = "std")]
mod stats;

#[cfg(feature = "std")]
pub use rast_alloc::RastAlloc;
#[cfg(feature = "std")]
#[doc(hidden)]
pub use stats::Counters;
#[cfg(feature = "std")]
pub use stats::Stats;

pub use allocator_api2::alloc::{AllocError, Allocator, Global, Layout};
pub use allocator_api2::{boxed, vec};

// The layers beneath: signatures here name their types, and one version serves all.
#[doc(no_inline)]
pub use rast_primitive as primitive;
