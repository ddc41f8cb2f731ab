//! Scenarios of the queues that are too long for loom, three or four threads and tens of operations, in random
//! schedules; one file per structure.
//!
//! `cargo xtask shuttle -p rast-queue`. Histories are recorded and checked as in `tests/linearizable.rs`; here the
//! clock is unknown to the scheduler, so it orders nothing.
#![cfg(all(feature = "std", rast_shuttle))]

#[path = "support/history/mod.rs"]
mod history;

#[path = "shuttle/broken.rs"]
mod broken;
#[path = "shuttle/queue.rs"]
mod queue;
#[path = "shuttle/spsc.rs"]
mod spsc;
