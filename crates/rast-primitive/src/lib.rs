//! Atomics, cells, fences and parking, chosen between std and loom.
#![no_std]

extern crate alloc as std_alloc;
#[cfg(any(feature = "std", rast_loom))]
extern crate std;

pub mod cell;
pub mod hint;
pub mod sync;
#[cfg(feature = "std")]
pub mod thread;

mod backoff;
mod cache_padded;
#[cfg(feature = "std")]
mod deadline;
#[cfg(feature = "std")]
mod event_count;
#[cfg(feature = "std")]
mod lock;
#[cfg(feature = "std")]
pub mod model;
#[cfg(feature = "std")]
mod parker;
#[cfg(feature = "std")]
mod signal;
#[cfg(feature = "std")]
mod snapshot;
mod tagged;
mod wait_strategy;

pub use backoff::Backoff;
pub use cache_padded::CachePadded;
#[cfg(feature = "std")]
pub use event_count::{EventCount, Key};
#[cfg(feature = "std")]
pub use parker::{Parker, Unparker};
#[cfg(feature = "std")]
pub use signal::Signal;
#[cfg(feature = "std")]
pub use snapshot::{Snapshot, SnapshotGuard};
pub use tagged::{AddressTooWide, AtomicTaggedPtr, TaggedPtr};
#[cfg(feature = "std")]
pub use thread::thread_local;
pub use wait_strategy::WaitStrategy;
