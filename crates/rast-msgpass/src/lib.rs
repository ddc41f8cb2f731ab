//! The typed message-passing graph.

#[doc(hidden)]
pub use rast_sharder::{self as sharder, alloc, primitive, queue, timers};
