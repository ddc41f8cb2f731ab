//! One thread per core: reactors that call each other, with I/O, locks and limits for services.
//!
//! # What is here
//!
//! - [`Reactors`]: threads, one per core, each with a [`LocalExecutor`](executor::LocalExecutor).
//!   [`Reactor::spawn`] spawns a task from any thread, and [`spawn_local`] spawns one on the
//!   current reactor. [`current`] returns that reactor.
//! - [`reactor_task`], [`reactors_task`], [`try_reactor_task`]: calls between reactors, with a
//!   limit on calls that have not begun.
//! - [`Pool`] and [`background_task`]: threads for slow work of three urgencies ([`Policy`]),
//!   beside the reactors.
//! - [`io`]: sockets and files, by io_uring or by readiness. Each operation owns its buffer.
//! - [`Lock`]: a lock for the tasks of one thread, shared or exclusive. [`LockScope`] finds
//!   deadlocks, and [`retry`] runs a closure once more if a wait was refused because of a deadlock.
//! - [`registry`]: resources that one reactor changes and all reactors read, without a fence.
//! - [`Lane`]: timeouts of one length. [`fire_at`]: callbacks at an instant. For other sleeps use
//!   [`executor`].
//! - [`Gate`]: limits how many tasks run at once. [`Limiter`]: limits how many begin per second.
//!   [`Breaker`]: stops calls to a service that fails.
//! - [`all_results`]: several futures at once in one task.
//!
//! # When to use it, and when not
//!
//! Use it where each piece of state is written by one thread, and tasks on other threads call that
//! thread. State that stays on a thread needs no lock. If any thread may run a task, use
//! `rast-executor`, whose workers steal tasks from each other.
//!
//! # Example
//!
//! ```
//! use rast_reactor::{Policy, Reactors, background_task, reactor_task};
//! use std::time::Duration;
//!
//! let reactors = Reactors::builder().number(2).build().unwrap();
//! let answer = reactors.reactor(0).unwrap().spawn(|| async {
//!     let owned_there = reactor_task(1, || async { 40 }).await.unwrap();
//!     let slow = background_task(Policy::Low, || 2).unwrap_or_else(|_| panic!("it is full"));
//!     owned_there + slow.await.unwrap()
//! });
//! assert_eq!(rast_reactor::executor::block_on(answer).unwrap(), 42);
//! assert!(reactors.stop(Duration::from_secs(60)).is_clean());
//! ```
//!
//! # Guarantees
//!
//! - A closure that was sent to a reactor is called or dropped there, once. If that reactor has
//!   stopped, the sender drops the closure, and the call returns [`CallError::Stopped`].
//! - From one reactor to another at most 1,024 calls are sent but not begun. A further call waits
//!   and delays only its caller, and calls nested in each other cannot deadlock.
//! - A panic of a task or call is caught, and the caller gets the payload.
//! - Dropping the future of a call is always sound: a call that has not begun is dropped, and a
//!   running call ends at its next await.
//! - At most 65,536 tasks of a policy are queued in the pool, unless its builder sets another
//!   capacity. A task that has waited for a second is taken before more urgent ones, so no task
//!   waits forever behind others.
//! - A wait for a lock is refused if, and only if, it would be part of a deadlock.
//! - A read transaction of the registry sees all of a commit that was applied before the
//!   transaction began, and nothing of a later one. What a transaction sees is not destroyed while
//!   it is open.
//!
//! Progress: a call takes locks, each of which is held only for some instructions.
//!
//! # Features and platforms
//!
//! - `io` (default): [`io`]; brings `mio`, `socket2`, and on Linux `io-uring` and `libc`.
//! - `futures-io`, `tokio`, `hyper`: as in [`executor`].
//!
//! Runs where std has threads. Threads are bound to cores on the systems that the crate
//! `core_affinity` supports. `docs/algorithms/reactor.md` of the repository describes how the crate
//! works.
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc as std_alloc;

mod error;
mod line;
mod nodes;
mod origin;
mod quiet;
mod spawned;
mod waker_list;

mod credit;
mod pool;

mod epoch;
pub mod registry;

mod watch;

mod shared;
mod trackers;
mod watched;

mod here;
mod reactor;
mod timer;

mod all;
mod calls;
mod reactors;

#[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
#[cfg_attr(docsrs, doc(cfg(feature = "io")))]
pub mod io;

mod breaker;
mod gate;
mod limiter;
mod lock;
mod random;
mod retry;
mod wait_graph;

#[doc(hidden)]
pub mod parts;

pub use all::{AllResults, all_results};
pub use breaker::{Admission, Breaker, BreakerBuilder, Open};
pub use calls::{background_task, reactor_task, reactors_task, try_reactor_task};
pub use error::{BuildError, CallError};
pub use gate::{EnterError, Gate, GateClosed, Pass};
pub use here::{spawn_local, spawn_local_named};
pub use limiter::{InvalidRate, Limited, Limiter, TooLarge};
pub use lock::{ExclusiveGuard, Lock, SharedGuard};
pub use pool::{Policy, Pool, PoolBuilder, PoolThread};
pub use reactor::{Reactor, current};
pub use reactors::{Builder, Reactors, Stopped};
pub use retry::{Retry, retry};
pub use spawned::{Call, Spawned};
pub use timer::{Lane, LaneSleep, fire_at};
pub use wait_graph::{Deadlock, LockScope};
pub use watch::{SlowPoll, Unfinished};

// The crates whose types are in signatures here, so that a program uses the same versions.
#[doc(no_inline)]
pub use rast_executor::{self as executor, alloc, primitive, queue, timers};
