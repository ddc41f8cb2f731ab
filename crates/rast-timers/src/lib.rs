//! Clocks, timers, deadline stores.
#![no_std]

#[doc(hidden)]
pub use rast_queue::{self as queue, alloc, primitive};
