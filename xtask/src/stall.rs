//! `cargo xtask stall`: suspends a thread at each step of a queue operation, while other threads
//! continue.
//!
//! The steps are in the code of the queue, under a private cfg.

use crate::count::Tests;
use crate::{Result, programs, variant};

/// The command.
pub(crate) fn command(args: &[String]) -> Result<bool> {
    crate::no_more(args)?;
    run().map(|_| true)
}

/// Runs `tests/stall.rs` of rast-queue. It prints each step, and how many tries it took until a
/// thread reached it.
pub(crate) fn run() -> Result<Tests> {
    let command = variant::cargo("rast_stall", "test --no-run -p rast-queue --test stall")?;
    programs::test([command], &[], &["--show-output"])
}
