//! RAST is a tower of small crates for programs that pass many messages between many cores with
//! low, steady latency: databases, ad servers, trading systems, game back ends.
//!
//! The top crate, `msgpass`, runs a typed graph of message processors on worker threads. While the
//! graph runs, processors move between workers, so that the load is even and processors that
//! exchange many messages share a core. Each crate below is useful alone. This crate re-exports
//! them all, and contains no code.
//!
//! # The tower
//!
//! ```text
//!   rast                  this facade: one feature per crate
//!     │
//!   msgpass    5          typed graph: edges, ingress, egress, drain
//!     │
//!   sharder    4          shards that move between workers while running
//!     │
//!   timers     3          amortised clocks, measuring timers, deadline stores
//!     │
//!   queue      2          queues for one or many producers and consumers
//!     │
//!   alloc      1          global allocator and allocator trait
//!     │
//!   primitive  0          atomics, cells, parking: std, loom or shuttle
//! ```
//!
//! Three crates beside the tower depend on `timers`: `scheduler` (tasks with deadlines, wake-ups
//! and signals), `conflate` (only the newest value per key) and `executor` (an async runtime).
//! `reactor` (a thread per core) depends on `executor`.
//!
//! Each crate depends on the crate directly beneath it and re-exports all crates below. So
//! `rast_sharder::queue::Queue` and `rast::queue::Queue` are the same type.
//!
//! # Pick a crate
//!
//! | you want | take | begin at |
//! | --- | --- | --- |
//! | a graph of typed processors over threads, balanced by measured load | `rast-msgpass` | [`msgpass::graph!`] |
//! | your own units of work, moved between threads while they run | `rast-sharder` | [`sharder::Sharder`] |
//! | to time every message without a clock reading for each, with a known error | `rast-timers` | [`timers::PeriodicTimer`], [`timers::StartFinishTimer`] |
//! | deadlines that can be cancelled, from other threads too | `rast-timers` | [`timers::DeadlineStore`], [`timers::remote`] |
//! | many small tasks that wait for deadlines, wake-ups and signals | `rast-scheduler` | [`scheduler::Scheduler`] |
//! | only the newest of many fast updates per key | `rast-conflate` | [`conflate::Conflator`] |
//! | a thread per core, calls between them, a background pool, locks and guards | `rast-reactor` | [`reactor::Reactors`] |
//! | a bounded ring between two threads | `rast-queue` | [`queue::spsc`] |
//! | an unbounded queue between many threads | `rast-queue` | [`queue::Queue`] |
//! | an unbounded queue with a single producer, a single consumer, or both | `rast-queue` | [`queue::mpsc`], [`queue::spmc`], [`queue::spsc::segmented`] |
//! | allocation statistics that stay correct when another thread frees the memory | `rast-alloc` | [`alloc::RastAlloc`] |
//! | parking, event counts and tagged pointers that loom can check | `rast-primitive` | [`primitive::Parker`], [`primitive::EventCount`], [`primitive::TaggedPtr`] |
//! | several of these under one name | `rast` | the [features](#features) below |
//!
//! # When not to use it
//!
//! Do not use the graph if:
//!
//! - The work is a plain data-parallel loop: a fork-join pool is simpler.
//! - The program waits for thousands of mostly idle peers: take an async runtime, such as
//!   [`executor`] with its feature `io`.
//! - Processors are created and connected while the program runs: the graph is fixed at compile
//!   time, so that the compiler can reject a send for which no edge is declared.
//!
//! # Example
//!
//! Lines of text enter the graph. Four replicas of a processor count the words, without shared
//! memory. The counts leave the graph.
//!
//! ```
#![doc = include_str!("../examples/hello.rs")]
//! ```
//!
//! # Guarantees
//!
//! - Misuse in safe code does not compile, or returns an error that contains the item.
//! - No accepted item is lost silently: the report of `drain` counts the messages that were not
//!   handled.
//! - Everything is bounded, except types and options whose name or docs call them unbounded.
//! - No lock and no allocation on a hot path, unless an item's docs say otherwise.
//! - A comment beside every atomic ordering stronger than `Relaxed` says why it is needed. A row in
//!   `docs/verification.md` names the loom model that fails when the ordering is weakened, or says
//!   why no model can fail.
//!
//! # Features
//!
//! The features of this table are on by default; `default-features = false` turns them off.
//!
//! | feature | gives | costs |
//! | --- | --- | --- |
//! | `std` | threads, parking, locks, the system's clock; needed by `conflate`, `scheduler`, `executor`, `reactor`, `sharder` and `msgpass` | `parking_lot`, `crossbeam-epoch` |
//! | `alloc` | [`alloc`] | `allocator-api2` |
//! | `queue` | [`queue`] | no other crate |
//! | `timers` | [`timers`] | no other crate |
//! | `scheduler` | [`scheduler`] | no other crate |
//! | `conflate` | [`conflate`] | no other crate |
//! | `sharder` | [`sharder`] | no other crate |
//! | `msgpass` | [`msgpass`] | no other crate |
//! | `executor` | [`executor`]: an async runtime on `timers` | `hashbrown` |
//! | `reactor` | [`reactor`]: a thread per core, on `executor` | `core_affinity`, `hashbrown` |
//!
//! The features of this table are off by default:
//!
//! | feature | gives | costs |
//! | --- | --- | --- |
//! | `io` | sockets of `executor`; sockets and files of `reactor` | `mio`, `socket2`; on Linux with `reactor` also `io-uring`, `libc` |
//! | `futures-io`, `tokio`, `hyper` | the traits of these crates for the sockets of `executor` and `reactor`; hyper's executor and timer | the crate |
//! | `async` | items of a `Queue`, values of a `Conflator` and messages of a graph as streams, and a sink into a graph, on any runtime, such as tokio | `futures-core`; with `msgpass` also `futures-sink` |
//! | `affinity` | each worker thread bound to its own core | `core_affinity` |
//! | `histogram` | a histogram of latencies in `timers` | `hdrhistogram` |
//! | `metrics` | counts and histograms of a graph for the recorder of the crate `metrics` | `metrics` |
//! | `tracing` | a span for each instance of a graph and events for the subscriber of the crate `tracing` | `tracing`; a branch per turn |
//! | `testing` | a graph, or one of its processors, on the thread of a test | a comparison per message |
//! | `hardened` | an allocator that detects misuse | no other crate |
//!
//! [`primitive`] is always included and brings `portable-atomic`. Each crate includes the crates
//! below it, even if their features are off.
//!
//! # Platforms
//!
//! Linux on x86-64 is tested; the public CI file also has jobs for aarch64, macOS and Windows.
//! Without `std` the features `alloc`, `queue` and `timers` need only an allocator (tested by
//! `tests/no-std`). The minimum supported Rust version is 1.91; only a minor release raises it.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

// A module with a glob, not `pub use rast_queue as queue`: for the latter the compiler's messages
// name `rast::rast_queue::Queue`, a path that does not exist.

pub mod primitive {
    //! Atomics, cells, parking, for std, loom or shuttle: the crate [`rast_primitive`].
    #[doc(inline)]
    pub use rast_primitive::*;
}

#[cfg(feature = "alloc")]
pub mod alloc {
    //! The global allocator, heaps and the allocator trait: the crate [`rast_alloc`].
    #[doc(inline)]
    pub use rast_alloc::*;
}

#[cfg(feature = "queue")]
pub mod queue {
    //! Queues for one or many producers and consumers: the crate [`rast_queue`].
    #[doc(inline)]
    pub use rast_queue::*;
}

#[cfg(feature = "timers")]
pub mod timers {
    //! Clocks, timers that measure, and stores of deadlines: the crate [`rast_timers`].
    #[doc(inline)]
    pub use rast_timers::*;
}

#[cfg(feature = "scheduler")]
pub mod scheduler {
    //! Tasks with deadlines, wake-ups and signals: the crate [`rast_scheduler`].
    #[doc(inline)]
    pub use rast_scheduler::*;
}

#[cfg(feature = "conflate")]
pub mod conflate {
    //! Only the newest value per key: the crate [`rast_conflate`].
    #[doc(inline)]
    pub use rast_conflate::*;
}

#[cfg(feature = "sharder")]
pub mod sharder {
    //! Shards that move between workers while they run: the crate [`rast_sharder`].
    #[doc(inline)]
    pub use rast_sharder::*;
}

#[cfg(feature = "msgpass")]
pub mod msgpass {
    //! A typed graph of message processors: the crate [`rast_msgpass`].
    #[doc(inline)]
    pub use rast_msgpass::*;
}

#[cfg(feature = "executor")]
pub mod executor {
    //! An async runtime: the crate [`rast_executor`].
    #[doc(inline)]
    pub use rast_executor::*;
}

#[cfg(feature = "reactor")]
pub mod reactor {
    //! A thread per core: the crate [`rast_reactor`].
    #[doc(inline)]
    pub use rast_reactor::*;
}
