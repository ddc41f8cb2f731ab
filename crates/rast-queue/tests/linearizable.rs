//! Are the queues of many producers and consumers linearizable? Random programs on real threads,
//! their histories recorded and checked; and the checkers themselves, on histories by hand and on
//! queues that are wrong.
//!
//! `docs/verification.md` says what this sees and what not.
#![cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]

#[path = "support/history/mod.rs"]
mod history;

#[path = "linearizable/broken.rs"]
mod broken;
#[path = "linearizable/checkers.rs"]
mod checkers;
#[path = "linearizable/list.rs"]
mod list;
#[path = "linearizable/queue.rs"]
mod queue;
