//! What to tell the processor, or the scheduler of a model, while spinning.

/// Tells the processor that this loop spins; in a model lets the others run.
#[cfg(rast_shuttle)]
pub use crate::scheduled::yield_now as spin_loop;
/// Tells the processor that this loop spins; in a model lets the others run.
#[cfg(not(any(rast_loom, rast_shuttle)))]
pub use core::hint::spin_loop;
/// Tells the processor that this loop spins; in a model lets the others run.
#[cfg(rast_loom)]
pub use loom::hint::spin_loop;
