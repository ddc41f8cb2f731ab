//! A typed graph of message processors, run by worker threads.
//!
//! [`graph!`] declares processors and the messages that go between them. A send
//! that the declaration does not allow does not compile. Each processor is a shard
//! of rast-sharder, so a running graph moves processors between threads by
//! measured load and traffic.
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
//! - Parts that come and go by the thousand: use an async runtime or an actor library.
//! - Handlers that block, unless they run on workers of their own.
//! - A handler that needs the answer to a request before it continues.
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
//! - The *burst* of an edge is the number of messages that one call of a handler may send on it (1
//!   unless declared). A handler runs only while each receiver of every bounded edge that it sends
//!   on has room for the burst. So within the burst [`Port::send`] never waits and never fails. A
//!   `send` past the burst panics and says what to declare; [`Port::try_send`] sends while there is
//!   room, and otherwise returns the message.
//! - A handler may send on all edges that leave its processor, unless the edge of its message
//!   declares `sends = (Job, Line)`. Then only the listed edges must have room, and with
//!   `sends = ()` the handler never waits for room. `send` on an edge that is not listed panics,
//!   and `try_send` sends if there is room.
//! - An edge with `route = any` needs room at one receiver, and [`any`](Port::any) finds one with
//!   room.
//! - A cycle of bounded edges, in which the handlers of each edge send on the next, could fill up
//!   and block for ever, so it does not compile. One of its edges must be `unbounded`, or a `reply`
//!   (whose room the request reserves), or must leave the next edge out of its `sends`.
//! - An edge with `reject`, `drop_newest`, `drop_oldest` or `latest` never keeps its sender from
//!   running: a message without room is returned, or dropped and counted. Nothing is dropped on
//!   other edges.
//! - On an edge with `bytes` the total [`Weight`] of the messages is bounded too.
//! - The messages of `high` edges are handled first, and the others keep a share of each turn.
//! - An `unbounded` edge has a `ceiling`: the number of messages without room that one sender may
//!   keep (1,048,576 unless declared). One more message stops the graph, and the report names the
//!   edge.
//! - The handler of a request answers it by [`Port::send`]. Or it takes the request's token, a
//!   [`ReplyTo`], by [`Cx::reply_to`], keeps it in the processor's state, and answers later. If it
//!   does neither, or the token is dropped, the request ends without an answer, and its sender may
//!   send another request.
//! - Any thread sends by an [`IngressSender`] and receives by an [`EgressReceiver`]. Both have
//!   bounded queues, and threads and tasks can wait on both. A [`SharedReceiver`] lets many threads
//!   and tasks receive from one lane (one of the parallel queues of the egress).
//! - Processors whose handlers may [block](Builder::blocking) run on workers of their own.
//! - A thread outside the graph sends a request by [`IngressSender::ask`]; the message, an [`Ask`],
//!   contains the slot for the answer.
//! - A [`Viewer`] reads counts, histograms, report and assignment, and draws the graph, from any
//!   thread.
//!
//! # Time
//!
//! - [`Cx::after`] and [`Cx::every`] send a message to the instance itself at a later time; its
//!   handler is `Receive` from [`Timer`]. [`Cx::wake_at`] requests a ping, a call without a
//!   message. Messages and pings are never early. A drain or a stop cancels timers and counts them.
//! - [`Builder::clock`] sets the clock of the timers, the load measurement and the sharder.
//!
//! # Guarantees
//!
//! - Per pair of instances and edge, messages arrive in the order of sending, each once. An
//!   accepted message is handled, or counted in the [`Report`] and offered to
//!   [`Builder::on_undelivered`]. The order has one exception. If a message of an edge with `route
//!   = any` waits for room at a replica that retires, it may move to another replica and arrive
//!   there after later messages.
//! - Handlers of one instance run one after the other. Each sees what the earlier ones wrote, even
//!   if they ran on another thread.
//! - An edge between processors has one of three kinds of queues. With `drop_oldest`, `latest` or
//!   `bytes` it has a locked queue for each pair of instances, and the lock is held while one
//!   message is moved. Any other edge with up to [`PAIRS_MAX`] pairs has a single-producer ring for
//!   each pair, which needs no lock and no atomic read-modify-write. An edge with more pairs has
//!   one inbox per receiver, unless it declares `rings`. An inbox takes at most one
//!   read-modify-write for all messages of a pair that are published together. An inbox also has
//!   four places for messages from senders on the receiver's own worker, which are used while the
//!   ring is empty. A message in a place needs no read-modify-write. Measured messages, and edges
//!   with `route = any`, `reject` or `drop_newest`, do not use the places.
//! - After [`Builder::start`] messages allocate only in four cases: at ingress, on an unbounded
//!   edge, on an edge with inboxes, and on an edge with locked queues. With inboxes, a sender's
//!   list of collected messages grows if one turn sends to more than 64 receivers, or if more
//!   messages find no room than ever before. With locked queues, the first message of a pair
//!   allocates the queue's `cap` slots.
//! - What a message costs does not depend on the size of the graph.
//! - No message waits for a timeout, because a sender wakes the receiver, and a receiver that makes
//!   room wakes the sender. The arguments are in `docs/algorithms/msgpass.md` of the repository,
//!   and the models are in `tests/loom.rs`.
//! - If a handler panics, its message is lost, and the panic is reported. For each processor,
//!   [`OnPanic`], or [`Restart`] with a factory, determines what follows. With `panic = "abort"` a
//!   panic ends the process.
//! - [`Handle::drain`] handles everything that was accepted and lets processors
//!   [flush](Process::flush), upstream first, or returns an error that says what is left.
//!   [`Handle::stop`] ends a graph between two messages. Both give the processors' states back:
//!   [`Report::take_states`].
//!
//! # Features
//!
//! - `affinity`: `Builder::pin_threads`.
//! - `async`: [`EgressReceiver`] and [`SharedReceiver`] implement the `Stream` of futures-core, and
//!   `IngressSender::sink` makes a `Sink` of futures-sink. The feature depends on these two crates.
//!   The futures of [`IngressSender::send_async`], [`IngressSender::ask_async`] and
//!   [`EgressReceiver::recv_async`] need no feature. All of these work on any runtime, such as
//!   tokio. A task calls [`Handle::drain`] on a thread that may block, for example by tokio's
//!   `spawn_blocking`.
//! - `metrics`: each call of an `Exporter` passes counts and histograms on to the recorder of the
//!   crate `metrics`. It costs workers nothing.
//! - `tracing`: a span of the crate `tracing` for each instance, entered for each turn, and events
//!   for panics, restarts, moves and the end. Without a subscriber that costs a branch per turn.
//! - `testing`: the module `testing`, for a graph or one processor on the thread of a test. Enable
//!   it under `[dev-dependencies]`, because it also adds a comparison per message to graphs that
//!   run on threads.
//!
//! # Platforms
//!
//! Wherever std has threads; tested on Linux x86-64. This crate has unsafe code in two places. One
//! casts an outlet (the sending half of an edge) to its type, which is stored beside it. The other
//! accesses the four places of an inbox.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

// The layers, from the lowest. A file imports files of its own layer and of those above it here.
//
// 1. The declaration of a graph, its tables, and their checks at compile time.
mod check;
mod emit;
mod graph;
mod macros;
mod picture;
mod sends;
mod stages;
mod weight;

// 2. Counts, clocks, samples and ends.
mod batch;
mod calm;
mod clock;
mod counter;
mod ending;
mod load;
mod own;
mod panics;
mod sampling;
mod stack;
mod states;
mod tasks;
mod times;
mod timings;
mod trace;
mod waiting;

// 3. The carriers of messages, and the ends of a graph for outside threads.
mod ask;
mod buffer;
mod credit;
mod door;
mod egress;
#[expect(
    unsafe_code,
    reason = "accesses on one worker, by the rules of the file"
)]
mod inbox;
mod ingress;
mod messages;
mod outbox;
mod rings;
mod shared_receiver;
#[cfg(feature = "async")]
mod sink;
mod wait_any;

// 4. What all threads of a graph share, and what they report.
mod deaths;
mod drain;
mod drawing;
#[cfg(feature = "metrics")]
mod export;
mod policy;
mod report;
mod shared;
mod ticket;
mod view;

// 5. The state of an instance, and what its handlers see of it.
mod consistent;
mod cx;
#[expect(unsafe_code, reason = "one cast, checked by the type")]
mod erased;
mod instance_core;
mod outlet;
mod process;
mod reply;
mod supervision;
mod timer;
mod timer_store;
#[cfg(feature = "testing")]
mod trial;
mod watch;

// 6. Instances, how a graph is made of them, and how it runs.
mod blocking;
mod build_error;
mod builder;
mod handle;
mod inlet;
mod instance;
mod plan;
mod runtime;
#[cfg(feature = "testing")]
pub mod testing;
mod wiring;

pub use ask::{Answer, AnswerError, Ask, AskError, Reply};
pub use batch::Batch;
pub use build_error::BuildError;
pub use builder::Builder;
pub use credit::{consistent_replica_of, replica_of};
pub use cx::{All, Chosen, Cx, Port};
pub use deaths::Retired;
pub use door::{Closed, TrySendError};
pub use drain::{Blocked, DrainCause, DrainError};
pub use egress::{EgressReceiver, RecvError, RecvTimeoutError, TryRecvError};
pub use ending::EndedBy;
#[cfg(feature = "metrics")]
pub use export::Exporter;
pub use graph::{
    Edge, EdgeInfo, EdgeKind, Egress, End, Graph, Ingress, Node, PAIRS_MAX, ProcessorInfo,
    Replicated, Sends, SendsTo, Single, shard_of,
};
pub use handle::{Handle, Stopper};
pub use ingress::{IngressPort, IngressSender, Sending};
pub use messages::Messages;
pub use policy::{Failure, OnPanic, Restart, Stopped, Then};
pub use process::{Next, Process, Receive};
pub use queue::Full;
pub use reply::ReplyTo;
pub use report::{
    EdgeMetrics, Handler, InstanceMetrics, Metrics, PanicRecord, Report, Undelivered,
};
pub use sharder::WorkerStats;
pub use shared_receiver::{Receiving, SharedReceiver};
#[cfg(feature = "async")]
pub use sink::IngressSink;
pub use timer::{Timer, TimerId};
pub use times::Histogram;
pub use timings::{EdgeTimings, ProcessorTimings, Timings};
pub use view::Viewer;
pub use wait_any::{WaitAny, Waitable};
pub use weight::Weight;
pub use wiring::Wired;

// The layers beneath: signatures here name their types, and one version serves all.
#[doc(no_inline)]
pub use rast_sharder::{self as sharder, alloc, primitive, queue, timers};

/// What `graph!` and the models call; not for use.
#[doc(hidden)]
pub mod __private {
    pub use std::string::String;

    pub use rast_msgpass_macros::graph;

    pub use crate::calm::Calm;
    pub use crate::check::check;
    pub use crate::counter::Counter;
    pub use crate::door::{Door, Task};
    pub use crate::egress::{EgressReceiver, Lane, Wake};
    pub use crate::emit::{Spec, edge_info, exactly, processor_info};
    pub use crate::graph::{SendsTo, connecting, incoming, outgoing};
    #[cfg(any(rast_loom, rast_shuttle))]
    pub use crate::inbox::model as inbox;
    pub use crate::picture::{dot, mermaid};
    pub use crate::waiting::{Pace, Waiting};
    pub use crate::wiring::{Given, Wiring};
}
