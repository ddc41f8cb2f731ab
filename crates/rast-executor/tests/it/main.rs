//! Tests that need no process of their own, a file for each subject.
#![cfg(not(any(rast_loom, rast_shuttle)))]

mod clocks;
mod combinators;
mod fairness;
mod histories;
mod hostile;
mod io;
mod remote;
mod wake_one;
mod wakes;

#[path = "../support/history.rs"]
mod history;
#[path = "../support/program.rs"]
mod program;
#[path = "../support/subjects.rs"]
mod subjects;
