//! Atomics, fences, `Arc` and the locks of cold paths, from std, loom or shuttle.
//!
//! All other crates take these names from here, so one switch, `--cfg rast_loom` or
//! `--cfg rast_shuttle`, runs all of them under a model checker. loom's constructors are not
//! `const`, so a `static` of one of these types must be left out of loom builds.

/// Atomic integers, pointers and fences.
///
/// # Examples
///
/// ```
/// use rast_primitive::sync::atomic::{AtomicU64, Ordering};
///
/// let count = AtomicU64::new(1);
/// assert_eq!(count.fetch_add(2, Ordering::Relaxed), 1);
/// assert_eq!(count.load(Ordering::Relaxed), 3);
/// ```
pub mod atomic {
    #[cfg(rast_shuttle)]
    pub use crate::scheduled::{
        AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    };
    #[cfg(not(any(rast_loom, rast_shuttle)))]
    pub use core::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicUsize,
    };
    #[cfg(all(not(any(rast_loom, rast_shuttle)), target_has_atomic = "64"))]
    pub use core::sync::atomic::{AtomicI64, AtomicU64};
    #[cfg(not(rast_loom))]
    pub use core::sync::atomic::{Ordering, fence};
    #[cfg(rast_loom)]
    pub use loom::sync::atomic::{
        AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
        Ordering, fence,
    };
    #[cfg(all(not(any(rast_loom, rast_shuttle)), not(target_has_atomic = "64")))]
    pub use portable_atomic::{AtomicI64, AtomicU64};
}

#[cfg(rast_loom)]
pub use loom::sync::Arc;
#[cfg(not(rast_loom))]
pub use std_alloc::sync::Arc;

/// std's `Arc`, from which [`unsized_arc!`](crate::unsized_arc) makes loom's.
#[cfg(rast_loom)]
#[doc(hidden)]
pub use std_alloc::sync::Arc as StdArc;

/// Makes an [`Arc`] of a value, which the caller may coerce to one of a trait object.
#[cfg(not(rast_loom))]
#[doc(hidden)]
#[macro_export]
macro_rules! unsized_arc {
    ($value:expr) => {
        $crate::sync::Arc::new($value)
    };
}

/// Makes an [`Arc`] of a trait object; loom's `Arc` cannot be coerced to one.
#[cfg(rast_loom)]
#[doc(hidden)]
#[macro_export]
macro_rules! unsized_arc {
    ($value:expr) => {
        $crate::sync::Arc::from_std($crate::sync::StdArc::new($value))
    };
}

/// Defines a constructor that is `const`, except under loom, whose atomics no constant can have.
#[doc(hidden)]
#[macro_export]
macro_rules! constructor {
    ($(#[$meta:meta])* $vis:vis fn $($rest:tt)*) => {
        #[cfg(not(rast_loom))]
        $(#[$meta])*
        $vis const fn $($rest)*

        #[cfg(rast_loom)]
        $(#[$meta])*
        $vis fn $($rest)*
    };
}

#[cfg(feature = "std")]
pub use crate::lock::{Condvar, Mutex, MutexGuard};
/// std's cell that is written once, for values of the whole process.
///
/// It is std's own in models too, because a model's values end with each execution; so it must not
/// be part of a protocol. Reading is wait-free; the first write blocks other threads that need the
/// value.
#[cfg(feature = "std")]
pub use std::sync::OnceLock;
