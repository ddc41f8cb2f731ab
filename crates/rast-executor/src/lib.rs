//! An async runtime: tasks on worker threads or on one thread, timers, sockets (feature `io`), and
//! tests whose scheduling a seed reproduces.
//!
//! # What is here
//!
//! - [`Runtime`]: workers that steal tasks from each other and sleep when there are none; its
//!   [`Handle`] spawns from any thread.
//! - [`JoinHandle`]: awaits the output or the panic of a task, or aborts it.
//! - [`LocalExecutor`]: tasks that stay on one thread, which sleeps in a [`Driver`]; other threads
//!   spawn there by a [`RemoteSpawner`].
//! - [`Job`]: a function that a thread of the program calls, and whose result is awaited like a
//!   task's.
//! - [`Deterministic`]: one thread, a simulated clock, and an order that a seed determines.
//! - [`sleep`], [`timeout`], [`interval`] on the deadline stores of `rast-timers`.
//! - [`spawn_blocking`], [`Handle::scope`], [`Priority`], [`consume_budget`], [`yield_now`].
//! - `io` (feature `io`): TCP, UDP and Unix sockets.
//!
//! # When to use it, and when not
//!
//! Use it for many tasks that mostly wait, where the time from a wake-up to the poll matters.
//! For a typed graph of message processors use `rast-msgpass`. Code that needs another runtime's
//! sockets or timers needs that runtime.
//!
//! # Example
//!
//! ```
//! use rast_executor::{Runtime, sleep, spawn, timeout};
//! use std::time::Duration;
//!
//! let runtime = Runtime::builder().workers(2).build().unwrap();
//! let answer = runtime.block_on(async {
//!     let task = spawn(async {
//!         sleep(Duration::from_millis(1)).await;
//!         6 * 7
//!     });
//!     timeout(Duration::from_secs(60), task).await
//! });
//! assert_eq!(answer.unwrap().unwrap(), 42);
//! assert!(runtime.shutdown(Duration::from_secs(1)).is_clean());
//! ```
//!
//! # Guarantees
//!
//! - A task is polled by one thread at a time. After a wake-up it is polled again, until it is
//!   complete. Its future is dropped once, before its handle is ready.
//! - Wakers and handles stay valid as long as they exist, on any thread, also after their task is
//!   complete and their runtime has ended.
//! - Panics of polls and of destructors stay in their task: the handle returns them.
//! - No task starves if no poll blocks its worker. The queue of a worker has a list for each
//!   priority, and one for normal tasks from other threads. A turn of a worker is one poll. A turn
//!   takes a task from the queue, or the task that the worker woke last. After three turns in a row
//!   that took the latter, the next 32 take from the queue. The following bounds count only turns
//!   that take from the queue. A normal task from another thread, with k tasks ahead of it in its
//!   list, is taken within 2 (k + 1) turns. A task in the normal list is taken within 1032 (k + 1)
//!   turns, and a task in the low list within 8256 (k + 1).
//! - If a worker blocks, the other workers run the tasks in its queue. An idle worker takes them at
//!   once; a busy worker checks one other worker every 256 of its turns. The task that the blocked
//!   worker woke last is taken by a busy worker in the same way, and by a sleeping worker within
//!   two periods of the watch ([`Builder::watch`]).
//! - A sleep never ends early. No thread spins while there is no task.
//! - Misuse is reported: `block_on` inside an executor panics with a message. A spawn after the
//!   shutdown returns the future or an error.
//!
//! Progress: a wake-up from another thread is lock-free; a wake-up on a worker takes the lock of
//! that worker's queue. A spawn takes that lock and the lock of a list of tasks. A poll takes no
//! lock. Queues have no bound: a program that spawns faster than it runs uses more memory.
//!
//! Tasks are allocated by `RastAlloc`, whatever the program's allocator is.
//!
//! How it works, with the argument for each protocol: `docs/algorithms/executor.md` of the
//! repository.
//!
//! # Features and platforms
//!
//! - `io`: sockets, on a [`Runtime`] or by a `PollDriver` on a [`LocalExecutor`]; brings `mio` and
//!   `socket2`.
//! - `futures-io`, `tokio`: the sockets implement the byte-stream traits of these crates.
//! - `hyper`: the sockets are hyper's byte streams, a [`Handle`] is its executor and its timer.
//!
//! The crate runs where std has threads. The sockets need a platform that `mio` supports.
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc as std_alloc;

mod priority;
mod task;

mod chain;
mod injector;
mod lists;
mod owned;
mod run_queue;

mod deadlines;
mod idle;
mod sleepers;
mod wakers;

mod budget;
mod context;
mod latency;
mod metrics;

mod bell;
mod block_on;
mod blocking;
mod deterministic;
mod driver;
mod job;
mod local;
mod local_executor;
mod remote;
mod runtime;
mod scope;

mod sleep;
mod yield_now;

#[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
#[cfg_attr(docsrs, doc(cfg(feature = "io")))]
pub mod io;

#[cfg(all(feature = "hyper", not(any(rast_loom, rast_shuttle))))]
#[cfg_attr(docsrs, doc(cfg(feature = "hyper")))]
pub mod hyper;

// Tables of sockets and of resources, and clocks behind a pointer, shared with rast-reactor; not
// part of the interface.
#[doc(hidden)]
pub mod ids;
#[doc(hidden)]
pub mod places;
#[doc(hidden)]
pub use deadlines::{SharedClock, shared_clock, trusted_clock};

#[doc(hidden)]
pub mod parts;

pub use bell::Bell;
pub use block_on::block_on;
pub use budget::consume_budget;
pub use deterministic::Deterministic;
pub use driver::{Driver, ParkerDriver};
pub use job::Job;
pub use latency::ScheduleLatency;
pub use local_executor::{LocalExecutor, spawn_local};
pub use metrics::{Metrics, WorkerMetrics};
pub use priority::Priority;
pub use remote::{RemoteBatch, RemoteSpawner};
pub use runtime::{
    Builder, Handle, Runtime, Shutdown, SpawnError, TaskBuilder, Unfinished, spawn, spawn_blocking,
};
pub use scope::Scope;
pub use sleep::{
    Elapsed, Interval, MissedTicks, Sleep, Timeout, interval, now, sleep, sleep_until, timeout,
};
pub use task::{AbortHandle, JoinError, JoinHandle};
pub use yield_now::{YieldNow, yield_now};

// The crates whose types are in signatures here, so that a program uses the same versions.
#[doc(no_inline)]
pub use rast_timers::{self as timers, alloc, primitive, queue};
