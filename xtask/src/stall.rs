//! `cargo xtask stall`: a thread of the queue is stopped at each of its steps while others go on.
//!
//! The steps are in the code under a cfg of their own, hence a target directory of its own.

use crate::cmd::Cmd;
use crate::metadata::Workspace;
use crate::{Result, tree};

/// The command.
pub(crate) fn command(args: &[String]) -> Result<bool> {
    crate::no_more(args)?;
    run().map(|()| true)
}

/// Runs `tests/stall.rs` of rast-queue; it prints each step and how many tries it took to come
/// there.
pub(crate) fn run() -> Result {
    let workspace = Workspace::load(tree::root())?;
    Cmd::cargo()
        .args(["test", "-p", "rast-queue", "--test", "stall"])
        .rustflags("--cfg rast_stall")
        .env("CARGO_TARGET_DIR", workspace.target_dir.join("stall"))
        .args(["--", "--show-output"])
        .run()
}
