//! Shards over workers.

#[doc(hidden)]
pub use rast_timers::{self as timers, alloc, primitive, queue};
