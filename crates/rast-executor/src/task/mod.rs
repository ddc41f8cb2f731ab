//! Tasks: a future with its state, its queue link and its output in one allocation.
//!
//! Source: the `Task` of Q. Fu, "Build an Async Runtime for Rust from Scratch": a vtable in front
//! of the future, behind a thin pointer. Changes: the word of flags and references also counts the
//! wake-ups. The task stores the output and the join waker. Every panic is caught.

mod cell;
mod header;
mod join;
mod state;
mod waker;

pub(crate) use cell::{FUTURE_MAX, Made, Setup, make, unmake};
pub(crate) use header::{Header, TaskRef};
pub(crate) use waker::task_of;

pub use cell::Schedule;
pub use header::Task;
pub use join::{AbortHandle, JoinError, JoinHandle};

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
pub(crate) mod testing;
