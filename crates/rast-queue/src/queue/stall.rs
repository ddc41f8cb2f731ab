//! Points at which a test may suspend a thread for ever: there is a `step!("name")` between every
//! two accesses that other threads can observe.
//!
//! Without `--cfg rast_stall` the macro compiles to nothing. With it, the macro calls a function
//! that the program defines; `tests/stall.rs` is that program, and suspends one thread at one step
//! while others continue.

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
