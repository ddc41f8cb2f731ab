//! Per-thread multi-level allocator.
#![no_std]

#[doc(hidden)]
pub use rast_primitive as primitive;
