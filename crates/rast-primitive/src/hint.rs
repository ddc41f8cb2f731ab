//! What to tell the processor, or loom, while spinning.

/// Tells the processor that this loop spins; in a model lets the others run.
#[cfg(not(rast_loom))]
pub use core::hint::spin_loop;
/// Tells the processor that this loop spins; in a model lets the others run.
#[cfg(rast_loom)]
pub use loom::hint::spin_loop;
