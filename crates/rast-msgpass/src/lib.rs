//! A typed graph of message processors that spreads itself over threads.
//!
//! [`graph!`] declares processors and the messages that go between them; the
//! declaration is the only way for a message to go, and a send that it does not
//! allow does not compile. A running graph moves processors between threads by
//! measured load and traffic: each is a shard of rast-sharder.
//!
//! # When to use
//!
//! Programs made of parts that run for as long as the program and pass many
//! small messages: the partitions of a store, the stages of a pipeline, the
//! books of an exchange. Handlers get `&mut self`, without locks; queues are
//! bounded, and a slow part slows its senders instead of filling the memory.
//!
//! # When not
//!
//! Parts that come and go by the thousand (use an async runtime or an actor
//! library); handlers that block (they delay everything on their thread); a
//! request that wants its answer in the next line.
//!
//! # Example
//!
//! ```
//! use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, graph};
//!
//! struct Parser;
//! struct Counter { words: u64 }
//!
//! graph! {
//!     pub graph App {
//!         processors { parser: Parser, counter: [Counter; 4] }
//!         edges {
//!             ingress -> parser: String;
//!             parser -> counter: Word [cap = 512, burst = 8];
//!             counter -> egress: u64;
//!         }
//!     }
//! }
//! struct Word(String);
//!
//! impl Process<App> for Parser {}
//! impl Receive<App, Ingress, String> for Parser {
//!     fn receive(&mut self, line: String, cx: &mut Cx<'_, App, Self>) {
//!         for word in line.split(' ').take(8) {
//!             cx.to::<Counter>().key(word.len() as u64).send(Word(word.to_owned()));
//!         }
//!     }
//! }
//! impl Process<App> for Counter {}
//! impl Receive<App, Parser, Word> for Counter {
//!     fn receive(&mut self, word: Word, cx: &mut Cx<'_, App, Self>) {
//!         self.words += 1;
//!         cx.to::<Egress>().send(word.0.len() as u64);
//!     }
//! }
//!
//! let counters = (0..4).map(|_| Counter { words: 0 });
//! let app = App::builder(Parser, counters).workers(2).start()?;
//! let mut lengths = app.egress::<Counter, u64>(0);
//! app.ingress::<Parser, String>().send("two by two".to_owned()).unwrap();
//! let mut seen: Vec<u64> = (0..3).map(|_| lengths.recv().unwrap()).collect();
//! seen.sort();
//! assert_eq!(seen, [2, 3, 3]);
//! let report = app.drain(std::time::Duration::from_secs(10))?;
//! assert_eq!(report.undelivered_total(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Sending and room
//!
//! - A handler runs only while every bounded edge that it sends on has room for
//!   the edge's burst at each receiver, so [`Port::send`] never waits and never
//!   fails within the burst (1 unless declared). Past it `send` panics and says
//!   what to declare; [`Port::try_send`] goes on while there is room and then
//!   gives the message back.
//! - A handler sends on all edges that leave its processor, unless the edge that
//!   it handles declares `sends = (Job, Line)`: the others may be full then, and
//!   with `sends = ()` it never waits. `send` on an edge that is not listed
//!   panics, and `try_send` takes the room that there is.
//! - An edge with `route = any` needs room at one receiver, and
//!   [`any`](Port::any) finds one with room.
//! - A cycle of bounded edges, each sent on by the handlers of the one before,
//!   could fill up and block for ever, so it does not compile. One edge of it is
//!   `unbounded`, or a `reply`: its room is reserved by the request. Or a handler
//!   of it declares that it sends on no other.
//! - An `unbounded` edge has a `ceiling`, 1,048,576 messages without room at one
//!   sender unless declared. One more stops the graph, and the report names the
//!   edge.
//! - The handler of a request answers it by [`Port::send`], or takes its
//!   [`ReplyTo`] by [`Cx::reply_to`], to be kept in the processor's state and
//!   answered later. One that does neither, and a token that is dropped, gives
//!   the client its credit back without an answer.
//! - [`IngressSender`] is the way in for any thread, [`EgressReceiver`] the way
//!   out. Both are bounded, and both can wait.
//!
//! # Time
//!
//! - [`Cx::after`] and [`Cx::every`] send a message to the instance itself at a
//!   time, which arrives from [`Timer`]; [`Cx::wake_at`] asks for a ping. Never
//!   early. A drain or a stop cancels them and counts them.
//! - [`Builder::clock`] sets the one clock for all of it.
//!
//! # Guarantees
//!
//! - Per pair of instances and edge, messages arrive in the order of sending,
//!   each once. What is accepted is handled, or counted in the [`Report`] and
//!   offered to [`Builder::on_undelivered`].
//! - Handlers of one instance run one after the other, each seeing what the
//!   earlier ones wrote, whatever threads they are on.
//! - After [`Builder::start`] a message allocates nothing, except in unbounded
//!   edges and at ingress. Edges of up to [`PAIRS_MAX`] pairs of instances are
//!   single-producer rings owned by their ends: no lock and no atomic
//!   read-modify-write. Others have one inbox per receiver: one read-modify-write
//!   for each chunk of a pair.
//! - What a message costs does not depend on the size of the graph.
//! - A message does not wait for a timeout: a sender wakes the receiver,
//!   and a receiver that makes room wakes the sender. The arguments are in
//!   `docs/algorithms/msgpass.md` of the repository, the models in
//!   `tests/loom.rs`.
//! - A panic in a handler costs the message in hand and is reported. [`OnPanic`] says for each
//!   processor what follows, or [`Restart`] with a factory. With `panic = "abort"` a panic ends
//!   the process.
//! - [`Handle::drain`] handles everything that was accepted and has processors
//!   [flush](Process::flush), upstream first, or says what it could not;
//!   [`Handle::stop`] ends a graph between two messages. Both give the processors'
//!   states back: [`Report::take_states`].
//!
//! # Features
//!
//! `std` (default): everything; without it the crate is empty except for the
//! re-exports of the layers beneath.
//! `affinity`: `Builder::pin_threads`.
//! `testing`: the module `testing`, for a graph or one processor on the thread of a test. Enable it
//! under `[dev-dependencies]`: it costs a comparison per message in graphs on threads too.
//!
//! # Platforms
//!
//! Wherever std has threads; tested on Linux x86-64. This crate has one unsafe
//! operation, the cast of an outlet to the type that is beside it.
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

#[cfg(feature = "std")]
mod batch;
#[cfg(feature = "std")]
mod builder;
#[cfg(feature = "std")]
mod calm;
#[cfg(feature = "std")]
mod check;
#[cfg(feature = "std")]
mod counter;
#[cfg(feature = "std")]
mod credit;
#[cfg(feature = "std")]
mod cx;
#[cfg(feature = "std")]
mod deaths;
#[cfg(feature = "std")]
mod drain;
#[cfg(feature = "std")]
mod egress;
#[cfg(feature = "std")]
mod ending;
#[cfg(feature = "std")]
#[expect(unsafe_code, reason = "one cast, checked by the type")]
mod erased;
#[cfg(feature = "std")]
mod graph;
#[cfg(feature = "std")]
mod handle;
#[cfg(feature = "std")]
mod ingress;
#[cfg(feature = "std")]
mod inlet;
#[cfg(feature = "std")]
mod instance;
#[cfg(feature = "std")]
mod load;
#[cfg(feature = "std")]
mod macros;
#[cfg(feature = "std")]
mod outbox;
#[cfg(feature = "std")]
mod outlet;
#[cfg(feature = "std")]
mod panics;
#[cfg(feature = "std")]
mod picture;
#[cfg(feature = "std")]
mod policy;
#[cfg(feature = "std")]
mod process;
#[cfg(feature = "std")]
mod reply;
#[cfg(feature = "std")]
mod report;
#[cfg(feature = "std")]
mod rings;
#[cfg(feature = "std")]
mod runtime;
#[cfg(feature = "std")]
mod sends;
#[cfg(feature = "std")]
mod shared;
#[cfg(feature = "std")]
mod stack;
#[cfg(feature = "std")]
mod stages;
#[cfg(feature = "std")]
mod states;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "std")]
mod timer;
#[cfg(all(feature = "std", not(feature = "testing")))]
mod untested;
#[cfg(feature = "std")]
mod wait_any;
#[cfg(feature = "std")]
mod waiting;
#[cfg(feature = "std")]
mod wiring;

#[cfg(feature = "std")]
pub use batch::Batch;
#[cfg(feature = "std")]
pub use builder::{BuildError, Builder};
#[cfg(feature = "std")]
pub use credit::replica_of;
#[cfg(feature = "std")]
pub use cx::{All, Chosen, Cx, Port};
#[cfg(feature = "std")]
pub use deaths::Retired;
#[cfg(feature = "std")]
pub use drain::{Blocked, DrainCause, DrainError};
#[cfg(feature = "std")]
pub use egress::{EgressReceiver, RecvError, RecvTimeoutError, TryRecvError};
#[cfg(feature = "std")]
pub use ending::EndedBy;
#[cfg(feature = "std")]
pub use graph::{
    Edge, EdgeInfo, EdgeKind, Egress, End, Graph, Ingress, Node, PAIRS_MAX, ProcessorInfo,
    Replicated, Single, shard_of,
};
#[cfg(feature = "std")]
pub use handle::{Handle, Stopper};
#[cfg(feature = "std")]
pub use ingress::{Closed, IngressPort, IngressSender, TrySendError};
#[cfg(feature = "std")]
pub use policy::{Failure, OnPanic, Restart, Stopped, Then};
#[cfg(feature = "std")]
pub use process::{Next, Process, Receive};
#[cfg(feature = "std")]
pub use queue::Full;
#[cfg(feature = "std")]
pub use reply::ReplyTo;
#[cfg(feature = "std")]
pub use report::{
    EdgeMetrics, Handler, InstanceMetrics, Metrics, PanicRecord, Report, Undelivered,
};
#[cfg(feature = "std")]
pub use sends::{Sends, SendsTo};
#[cfg(feature = "std")]
pub use sharder::WorkerStats;
#[cfg(feature = "std")]
pub use timer::{Timer, TimerId};
#[cfg(feature = "std")]
pub use wait_any::{WaitAny, Waitable};

// The layers beneath: signatures here name their types, and one version serves all.
#[doc(no_inline)]
pub use rast_sharder::{self as sharder, alloc, primitive, queue, timers};

/// What `graph!` and the models call; not for use.
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod __private {
    pub use std::string::String;

    pub use crate::calm::Calm;
    pub use crate::check::{Key, Spec, check, edge_info, find, processor_info};
    pub use crate::counter::Counter;
    pub use crate::egress::{EgressReceiver, Lane, Wake};
    pub use crate::graph::{At, connecting, incoming, outgoing};
    pub use crate::ingress::Door;
    pub use crate::picture::{dot, mermaid};
    pub use crate::sends::SendsTo;
    pub use crate::waiting::{Pace, Waiting};
    pub use crate::wiring::{Given, Wiring};
}
