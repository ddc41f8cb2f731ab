//! Atomics, fences and `Arc`, from `core` or from loom.

/// Atomic integers, pointers and fences.
pub mod atomic {
    #[cfg(not(rast_loom))]
    pub use core::sync::atomic::{
        AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
        Ordering, fence,
    };
    #[cfg(rast_loom)]
    pub use loom::sync::atomic::{
        AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
        Ordering, fence,
    };
}

#[cfg(rast_loom)]
pub use loom::sync::Arc;
#[cfg(not(rast_loom))]
pub use std_alloc::sync::Arc;
