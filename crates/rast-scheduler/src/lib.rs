//! Tasks with exact deadlines, wake-ups and signals, on worker threads.
//!
//! A task is a small state machine. Each step is one call, which returns what to do next: run
//! again, wait for a deadline or a wake-up, continue on another scheduler, or end. A waiting task
//! costs only its memory, so a program may have any number of them.
//!
//! # When to use it
//!
//! For many jobs of several steps, with a wait for an outside event between two steps: a reply, a
//! timeout, the next frame. Steps may be short or long, but must not block. A handle wakes a task
//! from any thread, and may safely outlive the task.
//!
//! # When not
//!
//! - For sockets, use an async runtime.
//! - For state that stays on a core and receives messages, use `rast-sharder` or `rast-msgpass`.
//! - For loops over data, use a fork-join pool.
//!
//! # Example
//!
//! A request with a timeout: a callback of the client signals the task, or the deadline ends the
//! wait.
//!
//! ```
//! use rast_scheduler::{Next, Scheduler, Task, timers::Nanos};
//! use std::{sync::mpsc, thread};
//!
//! let scheduler = Scheduler::new(2)?;
//! let (done, result) = mpsc::channel();
//! let mut is_sent = false;
//! let task = Task::new(move |cx| {
//!     if !is_sent {
//!         is_sent = true;
//!         let task = cx.handle();
//!         thread::spawn(move || task.signal()); // the remote side answers
//!         return cx.after(Nanos::from_secs(5));
//!     }
//!     done.send(if cx.take_signal() { "answered" } else { "timed out" }).unwrap();
//!     Next::Exit
//! });
//! scheduler.post(task)?;
//! assert_eq!(result.recv()?, "answered");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A task may also have an `async` body: see [`Remote::spawn_async`].
//!
//! # Guarantees
//!
//! - A task has one owner at a time, a thread or a queue. Its steps run one after the other; each
//!   happens-before the next.
//! - After each wake-up or signal the task runs a step that sees what the waking thread did before.
//!   Several signals may be received as one.
//! - A deadline never fires early. Deadlines are not rounded; how late one fires depends on the
//!   system and on the running steps.
//! - On a finished task `wake`, `signal` and `abort` return [`Finished`], on any thread, even after
//!   the scheduler was dropped.
//! - While a task is ready, no other task of its priority in the same queue runs twice. A worker
//!   checks for due and newly posted tasks after at most [`batch`](Builder::batch) steps.
//!   [`Priority`] documents how long a task of low priority waits.
//! - Panics of steps are caught, and [`JoinHandle::join`] returns them. [`Scheduler::stop`] returns
//!   the remaining tasks.
//! - Progress: post, wake and signal are lock-free. If they find a worker asleep they wake it,
//!   which takes the worker's parking lock for some instructions. A thread that is suspended during
//!   this wake-up delays at most the worker that it wakes. A thread that is suspended at any other
//!   point of these calls delays no other task. A step that blocks delays no other task while
//!   another worker is free.
//! - Memory: a task is one allocation of 64 bytes plus its body. A waiting task takes another 32
//!   bytes in the wait store, whose capacity is doubled when it is full. A ready queue also
//!   allocates when it grows. Posting, waiting and waking allocate nothing else.
//!
//! The correctness argument is in `docs/algorithms/scheduler.md`; `tests/protocol.rs` explores all
//! states of the protocol.
//!
//! # Platforms
//!
//! Runs where std has threads. On Linux a post needs no fence instruction, and the threads of a
//! scheduler set their timer slack to 1 ns.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate std;

mod priority;
mod status;

mod idle;
mod owned;
mod plan;
mod seat;
mod shared;

mod cx;
mod next;
mod remote;
mod task_handle;

mod cell;
mod future;
mod join;
mod task;
mod worker;

mod builder;
mod post;
mod scheduler;

pub use builder::Builder;
pub use cx::Cx;
pub use future::{AsyncCx, Hop, Signaled, Sleep, YieldNow, yield_now};
pub use idle::MAX_WORKERS;
pub use join::{JoinError, JoinHandle};
pub use next::Next;
pub use post::NoSeat;
pub use priority::Priority;
pub use remote::Remote;
pub use scheduler::{OnWorker, Scheduler, Stats, WorkerStats};
pub use task::Task;
pub use task_handle::{Finished, TaskHandle};

/// The lock-free operations by themselves: for the models, not for use.
#[doc(hidden)]
pub mod protocol {
    pub use crate::idle::Idle;
    pub use crate::join::Joined;
    pub use crate::status::{ABORTED, FINISHED, Found, SIGNALED, Status, WAITING, WOKEN};
}

// The crates whose types are in signatures here, so that a program uses the same versions.
#[doc(no_inline)]
pub use rast_timers::{self as timers, alloc, primitive, queue};
