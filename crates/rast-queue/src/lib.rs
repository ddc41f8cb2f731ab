//! Lock-free queues.
#![no_std]

#[doc(hidden)]
pub use rast_alloc::{self as alloc, primitive};
