//! An async runtime: tasks over worker threads or on one thread, timers, and runs that repeat.
#![cfg(feature = "std")]
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
mod driver;
mod idle;

mod budget;
mod context;
mod metrics;

mod block_on;
mod blocking;
mod deterministic;
mod local;
mod runtime;
mod scope;

mod sleep;
mod yield_now;

#[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
#[cfg_attr(docsrs, doc(cfg(feature = "io")))]
pub mod io;

#[doc(hidden)]
pub mod parts;

pub use block_on::block_on;
pub use budget::consume_budget;
pub use deterministic::Deterministic;
pub use local::{LocalExecutor, spawn_local};
pub use metrics::{Metrics, WorkerMetrics};
pub use priority::Priority;
pub use runtime::{
    Builder, Handle, Runtime, Shutdown, SpawnError, TaskBuilder, Unfinished, spawn, spawn_blocking,
};
pub use scope::Scope;
pub use sleep::{
    Elapsed, Interval, MissedTicks, Sleep, Timeout, interval, now, sleep, sleep_until, timeout,
};
pub use task::{AbortHandle, JoinError, JoinHandle};
pub use yield_now::{YieldNow, yield_now};

// The layers beneath: signatures here name their types, and one version serves all.
#[doc(no_inline)]
pub use rast_timers::{self as timers, alloc, primitive, queue};
