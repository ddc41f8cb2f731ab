//! Graphs on the thread of a test.
#![cfg(all(feature = "testing", not(rast_loom)))]

#[path = "testing/alone.rs"]
mod alone;
#[path = "testing/attack.rs"]
mod attack;
#[path = "testing/faults.rs"]
mod faults;
#[path = "testing/invariant.rs"]
mod invariant;
#[path = "testing/steps.rs"]
mod steps;
