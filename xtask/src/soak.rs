//! `cargo xtask soak`: tests that need minutes on a quiet machine.
//!
//! `cargo xtask verify` runs the same tests for a fraction of a second each.

use crate::Result;
use crate::cmd::Cmd;

/// The command.
pub(crate) fn command(args: &[String]) -> Result<bool> {
    crate::no_more(args)?;
    // One after the other, because other threads would disturb the measurement.
    Cmd::cargo()
        .args(["test", "--release", "-p", "rast-timers", "--test", "soak"])
        .env("RAST_FULL", "1")
        .args(["--", "--test-threads=1", "--nocapture"])
        .run()
        .map(|()| true)
}
