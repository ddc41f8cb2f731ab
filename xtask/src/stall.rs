//! `cargo xtask stall`: a thread of the queue is stopped at each of its steps while others go on.
//!
//! The steps are in the code under a cfg of their own.

use crate::count::Tests;
use crate::{Result, programs, variant};

/// The command.
pub(crate) fn command(args: &[String]) -> Result<bool> {
    crate::no_more(args)?;
    run().map(|_| true)
}

/// Runs `tests/stall.rs` of rast-queue; it prints each step and how many tries it took to come
/// there.
pub(crate) fn run() -> Result<Tests> {
    let command = variant::cargo("rast_stall", "test --no-run -p rast-queue --test stall")?;
    programs::test([command], &[], &["--show-output"])
}
