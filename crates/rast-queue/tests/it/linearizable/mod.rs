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
