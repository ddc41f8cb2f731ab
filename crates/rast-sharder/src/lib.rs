//! Runs shards on workers, and moves shards between workers by measured load.
//!
//! A [`Sharder`] runs the code of a [`Controller`] for each of a fixed number of shards (units of
//! work, each with its own state) on a fixed number of threads. Each shard belongs to one worker at
//! a time, so its state is plain `&mut`. An epoch is the time in which one assignment of shards to
//! workers is valid. At the end of an epoch the measured loads decide which worker gets which
//! shard; most shards stay where they are.
//!
//! # When to use
//!
//! For work that splits into more parts than threads. Each part has its own state and needs many
//! short turns (calls of your code), and the loads of the parts differ and change. A turn costs no
//! atomic read-modify-write and no lock. A shard that has nothing to do costs nothing until it is
//! woken.
//!
//! # When not
//!
//! - One-off tasks: use a work-stealing pool.
//! - Turns that block: they delay the other shards of their worker, and resharding. On a
//!   [dedicated](Builder::dedicate) worker they do not delay resharding.
//! - Fewer parts than threads.
//!
//! For typed messages between the parts use the graph of `rast-msgpass`, which is a controller of
//! this crate.
//!
//! # Example
//!
//! ```
//! use rast_sharder::{Controller, LoadReport, Progress, ShardId, Sharder, WorkerCx};
//! use rast_sharder::timers::{Clock, Nanos};
//!
//! /// Every shard adds up the numbers below its own bound.
//! struct Sums;
//!
//! struct Sum {
//!     next: u64,
//!     bound: u64,
//!     total: u64,
//! }
//!
//! impl Controller for Sums {
//!     type Shard = Sum;
//!     type Load = Nanos;
//!
//!     fn process(
//!         &self,
//!         cx: &mut WorkerCx<'_>,
//!         _: ShardId,
//!         sum: &mut Sum,
//!         load: Option<&mut Nanos>,
//!     ) -> Progress {
//!         if sum.next == sum.bound {
//!             return Progress::Idle;
//!         }
//!         let start = cx.clock().now();
//!         let end = sum.bound.min(sum.next + 1_000);
//!         sum.total += (sum.next..end).sum::<u64>();
//!         sum.next = end;
//!         if let Some(busy) = load {
//!             *busy = busy.saturating_add(cx.clock().now().saturating_since(start));
//!         }
//!         if sum.next == sum.bound && sum.bound == 1_000_000 {
//!             cx.stop(); // the longest one is done
//!         }
//!         Progress::Again
//!     }
//!
//!     fn new_load(&self, _: ShardId) -> Nanos {
//!         Nanos::ZERO
//!     }
//!
//!     fn report(&self, _: ShardId, busy: &Nanos, out: &mut LoadReport<'_>) {
//!         out.busy(*busy);
//!     }
//! }
//!
//! let sum = |bound| Sum { next: 0, bound, total: 0 };
//! let outcome = Sharder::builder(Sums)
//!     .shards(vec![sum(1_000_000), sum(10), sum(20)])
//!     .workers(2)
//!     .build()?
//!     .run()?;
//! assert_eq!(outcome.shards[0].state.total, 499_999_500_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! - A shard is run by one worker at a time. Each call for a shard sees what earlier calls for it
//!   wrote.
//! - No thread waits for another inside the protocol: a long call delays only the shards of its own
//!   worker and the next epoch. A long call on a [dedicated](Builder::dedicate) worker delays no
//!   epoch.
//! - [`Handle::stop`] ends [`Sharder::run`] from any thread in any state, as soon as the running
//!   calls return.
//! - Panics of user code are contained and recorded, and a policy decides what follows. If a
//!   balancer panics or returns an invalid assignment, the current assignment stays. In a build
//!   with `panic = "abort"` the first panic ends the process.
//! - `run` gives the controller and every shard's state back.
//! - Progress: [`WorkerCx`] and [`Handle`] never wait for a running call. A call that wakes a
//!   sleeping worker takes that worker's parking lock for some instructions and makes a system
//!   call. Everything else is lock-free.
//! - No wake-up is lost: see `docs/algorithms/sharder.md` and the loom models.
//!
//! # Features
//!
//! `affinity`: `Builder::pin_threads`, which puts each worker's thread on a core; brings
//! `core_affinity`.
//!
//! # Platforms
//!
//! All platforms of std that have threads. If a platform has no 64-bit atomics, `rast-primitive`
//! replaces them.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate std;

mod assignment;
mod balance;
mod builder;
mod controller;
mod core_state;
mod cx;
mod handle;
mod ids;
mod lead;
mod load;
mod meter;
mod panics;
mod ready;
mod sharder;
mod slots;
mod stats;
mod windows;
mod worker;

/// The protocol without threads and time: for the models, not for use.
#[doc(hidden)]
pub mod protocol;

pub use assignment::{Assignment, AssignmentError, MAX_WORKERS, Move};
pub use balance::{Balancer, Decision, Greedy, Static};
pub use builder::{BuildError, Builder};
pub use controller::{Controller, PanicPayload, PanicPolicy, Progress};
pub use core_state::Published;
pub use cx::WorkerCx;
pub use handle::Handle;
pub use ids::{ShardId, WorkerId};
pub use load::{LoadReport, LoadView, ShardLoad, Traffic};
pub use panics::{Hook, PanicRecord};
pub use protocol::Park;
pub use sharder::{Outcome, RunCause, RunError, ShardExit, Sharder};
pub use stats::{Report, Stats, WorkerStats};
pub use worker::Stepper;

// The layers beneath: signatures here name their types, and one version serves all.
#[doc(no_inline)]
pub use rast_timers::{self as timers, alloc, primitive, queue};
