//! Spin hints.

#[cfg(not(rast_loom))]
pub use core::hint::spin_loop;
#[cfg(rast_loom)]
pub use loom::hint::spin_loop;
