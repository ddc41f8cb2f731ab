//! Tests that need no process of their own, a file for each subject.
#![cfg(not(any(rast_loom, rast_shuttle)))]

mod ahead;
mod clocks;
mod disturbed;
mod latency;
mod source;
mod stores;
mod tsc;
