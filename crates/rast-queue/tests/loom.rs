//! The protocols of the queues in a few operations, one property per test, one file per structure.
//!
//! Under `--cfg rast_loom` each runs in every interleaving; otherwise it runs as a stress test on
//! real threads. `docs/verification.md` lists the orderings that each one checks.
#![cfg(feature = "std")]

#[path = "support/history/mod.rs"]
mod history;
#[path = "loom/list.rs"]
mod list;
#[path = "loom/mpmc.rs"]
mod mpmc;
#[path = "loom/mpsc.rs"]
mod mpsc;
#[path = "loom/mpsc_bounded.rs"]
mod mpsc_bounded;
#[path = "loom/queue.rs"]
mod queue;
#[path = "loom/segmented.rs"]
mod segmented;
#[path = "loom/source_list.rs"]
mod source_list;
#[path = "loom/spmc.rs"]
mod spmc;
#[path = "loom/spsc.rs"]
mod spsc;
#[path = "loom/wait_list.rs"]
mod wait_list;
