//! Where a test may stop a thread for good: `step!("name")` is between every two accesses that
//! others can see.
//!
//! Without `--cfg rast_stall` it is no code at all. With it, the program that links this crate
//! gives the function that is called; `tests/stall.rs` is that program, and stops one thread at one
//! step while others go on.

#[cfg(rast_stall)]
// SAFETY: `tests/stall.rs` defines it with this signature; nothing else is built under this cfg.
unsafe extern "Rust" {
    /// Called by each thread at each step.
    pub(super) safe fn rast_stall_step(name: &'static str);
}

macro_rules! step {
    ($name:literal) => {
        #[cfg(rast_stall)]
        $crate::queue::stall::rast_stall_step($name);
    };
}
