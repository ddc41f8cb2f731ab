//! Tests that need no process of their own, a file for each subject.
#![cfg(not(any(rast_loom, rast_shuttle)))]

mod hostile;
mod stress;
