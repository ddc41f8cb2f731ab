//! Whether `Queue` and `ListQueue` are linearizable: random programs on real threads, whose
//! histories are recorded and checked. The checkers are tested on manually written histories and on
//! wrong queues.
//!
//! `docs/verification.md` describes what this finds and what it does not find.
#![cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]

mod broken;
mod checkers;
mod list;
mod queue;

use crate::history::program::{Fifo, Size, check_for};
use std::time::Duration;

/// How long each test runs programs.
const TIME: Duration = Duration::from_millis(1_500);

/// Runs small programs, which the exhaustive search takes as well.
fn check_small<Q: Fifo>(name: &str, make: impl Fn() -> Q) {
    let size = Size {
        threads: 3,
        steps: 8,
        batch: 3,
        closes: true,
    };
    check_for(TIME, name, size, make);
}

/// Runs long programs.
fn check_long<Q: Fifo>(name: &str, batch: usize, make: impl Fn() -> Q) {
    let size = Size {
        threads: 4,
        steps: 2_000,
        batch,
        closes: false,
    };
    check_for(TIME, name, size, make);
}

/// Runs programs of medium length, in which the close comes anywhere.
fn check_closing<Q: Fifo>(name: &str, batch: usize, make: impl Fn() -> Q) {
    let size = Size {
        threads: 4,
        steps: 60,
        batch,
        closes: true,
    };
    check_for(TIME, name, size, make);
}
