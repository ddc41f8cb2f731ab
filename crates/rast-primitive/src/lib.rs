//! Atomics, cells, fences and parking, chosen between std and loom.
#![no_std]

extern crate alloc as std_alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod cell;
pub mod hint;
pub mod sync;
#[cfg(feature = "std")]
pub mod thread;

mod cache_padded;
#[cfg(feature = "std")]
mod model;

pub use cache_padded::CachePadded;
#[cfg(feature = "std")]
pub use model::model;
