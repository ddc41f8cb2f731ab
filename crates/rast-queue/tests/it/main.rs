//! Tests that need no process of their own, a file for each subject.
#![cfg(not(any(rast_loom, rast_shuttle)))]

mod linearizable;
mod memory;
mod shared_heap;

#[cfg(feature = "std")]
#[path = "../support/history/mod.rs"]
mod history;
#[path = "../support/mod.rs"]
mod support;
