//! The output of `graph!`: traits for the types, and tables for the numbers.
//!
//! The original RAST design numbers processors and edges by a chain of base classes, one per edge,
//! and finds an edge by overload resolution along the chain. Here each edge is one
//! `impl Edge<Graph, From, To> for Message`. The compiler finds it by its types, the message is
//! `Self` so that an error names it, and nothing recurses. The numbers are constants, so the tables
//! are static data.

use core::fmt;

use crate::sharder::ShardId;

/// One end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Outside threads send, through an [`IngressSender`](crate::IngressSender).
    Ingress,
    /// The processor with this index in [`Graph::PROCESSORS`].
    Processor(usize),
    /// Outside threads receive, through an [`EgressReceiver`](crate::EgressReceiver).
    Egress,
}

impl End {
    /// Returns the index of the processor, if the end is one.
    #[must_use]
    pub const fn processor(self) -> Option<usize> {
        match self {
            Self::Processor(index) => Some(index),
            Self::Ingress | Self::Egress => None,
        }
    }
}

/// The rule that bounds an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EdgeKind {
    /// Its sender runs only while there is room for the declared burst.
    Bounded,
    /// Its sender runs even if there is no room. Messages for which the queue has no room are kept
    /// at the sender, in order, up to the [`ceiling`](EdgeInfo::ceiling).
    Unbounded,
    /// It carries answers to the edge with index `request`; the request reserves their room.
    Reply {
        /// The index of the edge of requests in [`Graph::EDGES`].
        request: usize,
    },
    /// Its sender never waits for room. If there is no room for a message,
    /// [`Port::try_send`](crate::Port::try_send) returns the message to the handler. `send` has no
    /// way to return a message, so a handler that calls `send` on such an edge does not compile:
    ///
    /// ```compile_fail
    /// # use rast_msgpass::{Cx, Ingress, Process, Receive, graph};
    /// # struct Split;
    /// # struct Count;
    /// # graph! {
    /// #     graph App {
    /// #         processors { split: Split, count: Count }
    /// #         edges {
    /// #             ingress -> split: u64;
    /// split -> count: u64 [reject];
    /// #         }
    /// #     }
    /// # }
    /// # impl Process<App> for Split {}
    /// # impl Process<App> for Count {}
    /// # impl Receive<App, Split, u64> for Count {
    /// #     fn receive(&mut self, _: u64, _: &mut Cx<'_, App, Self>) {}
    /// # }
    /// # impl Receive<App, Ingress, u64> for Split {
    /// #     fn receive(&mut self, number: u64, cx: &mut Cx<'_, App, Self>) {
    /// cx.to::<Count>().send(number);
    /// #     }
    /// # }
    /// # App::builder(Split, Count).start().unwrap();
    /// ```
    Reject,
    /// Its sender never waits for room. If there is no room for a message, it is dropped and
    /// counted.
    DropNewest,
    /// Its sender never waits for room. If there is no room for a message, the oldest message
    /// with the same sender and receiver is dropped and counted instead.
    DropOldest,
    /// Its sender never waits for room. The edge stores one message per pair of sender and
    /// receiver, and the next message replaces it.
    Latest,
}

impl EdgeKind {
    /// Returns `true` if messages without room are returned or dropped.
    pub(crate) const fn is_lossy(self) -> bool {
        matches!(
            self,
            Self::Reject | Self::DropNewest | Self::DropOldest | Self::Latest
        )
    }
}

/// A processor of a graph, as declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ProcessorInfo {
    /// The name in `graph!`.
    pub name: &'static str,
    /// The type, as written in `graph!`.
    pub type_name: &'static str,
    /// Number of instances; the minimum, where the builder gets the number.
    pub replicas: usize,
    /// Maximum number of instances: `usize::MAX` if it was declared as `[Type; _]`, and equal to
    /// [`replicas`](Self::replicas) unless it was declared so or by a range.
    pub replicas_max: usize,
    /// Whether it was declared as `[Type; N]`, `[Type; N..=M]` or `[Type; _]`.
    pub replicated: bool,
    /// Whether it starts without input: `[source]`.
    pub source: bool,
}

/// An edge of a graph, as declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct EdgeInfo {
    /// The sending end.
    pub from: End,
    /// The receiving end.
    pub to: End,
    /// The type of the sending end, as written.
    pub from_type: &'static str,
    /// The type of the receiving end, as written.
    pub to_type: &'static str,
    /// The type of the message, as written.
    pub message: &'static str,
    /// Minimum capacity of each queue of the edge: a ring, an inbox, or a door. Rings and inboxes
    /// are rounded up to a power of two, and an inbox has four more places. Without `cap` it is
    /// 256, or two bursts of each sender of an inbox if that is more. If the builder gets the
    /// number of replicas, this is the capacity for the minimum number.
    pub capacity: usize,
    /// Whether `cap` was declared.
    pub(crate) has_cap: bool,
    /// Whether `rings` was declared.
    pub(crate) has_rings: bool,
    /// Whether each pair of instances has a ring of its own: with `rings`, to egress, or if there
    /// are at most [`PAIRS_MAX`] pairs. Otherwise each receiver has an inbox, which its senders
    /// share. If the builder gets the number of replicas, this is for the minimum number.
    pub by_pair: bool,
    /// Maximum number of messages that one invocation of the sender may `send`.
    pub burst: usize,
    /// Number of receivers outside; one except on edges to `egress`.
    pub lanes: usize,
    /// The rule that bounds it.
    pub kind: EdgeKind,
    /// On an unbounded edge: the maximum number of messages without room that one sender keeps; one
    /// more stops the graph. From ingress: the capacity of each door. `usize::MAX` on other edges.
    pub ceiling: usize,
    /// The edges on which the handlers of its messages `send`.
    pub sends: Sends,
    /// Whether it needs room only at one receiver, and each message goes to one that has room:
    /// `route = any`.
    pub any: bool,
    /// Whether its receiver handles its messages before those of other edges: `high`.
    pub high: bool,
    /// Number of bytes in the queue of a pair of instances from which on a further message lacks
    /// room: `bytes`. `usize::MAX` on other edges.
    pub bytes: usize,
    /// Whether each message is cloned before its handler, for
    /// [`Builder::on_failure`](crate::Builder::on_failure): `keep`.
    pub keep: bool,
}

/// The edges on which the handlers of an edge's messages `send`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sends {
    /// Nothing was declared: every edge that leaves the receiver. But the handler of a request
    /// sends no requests that may lead back to its client.
    Undeclared,
    /// The list in `sends = (..)`.
    Listed(&'static [SendsTo]),
}

/// An entry of `sends = (..)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "made by graph!, in a constant")]
pub struct SendsTo {
    /// The receiving end; `None` for every edge with this message that leaves the processor.
    pub to: Option<End>,
    /// The type of the message, as written.
    pub message: &'static str,
}

impl SendsTo {
    /// Returns `true` if the entry means `edge`, which leaves the processor.
    pub(crate) const fn names(&self, edge: &EdgeInfo) -> bool {
        let is_end = match self.to {
            None => true,
            Some(end) => same_end(end, edge.to),
        };
        is_end && same(self.message, edge.message)
    }
}

/// Maximum number of pairs of instances for which an edge without `rings` has a ring each. An edge
/// to egress always has rings, since its lanes are few.
pub const PAIRS_MAX: usize = 256;

impl EdgeInfo {
    /// Returns `true` if each pair has a queue under a lock.
    pub(crate) const fn is_buffered(&self) -> bool {
        is_buffered(self.kind, self.bytes)
    }
}

/// As [`EdgeInfo::is_buffered`].
pub(crate) const fn is_buffered(kind: EdgeKind, bytes: usize) -> bool {
    bytes != usize::MAX || matches!(kind, EdgeKind::DropOldest | EdgeKind::Latest)
}

impl fmt::Display for EdgeInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} -> {}: {}",
            self.from_type, self.to_type, self.message
        )
    }
}

/// Maximum number of processors, and of edges, of one graph.
pub(crate) const MOST: usize = 4096;

/// Returns the ends of an edge that can gate its sender within the graph.
pub(crate) const fn gating(edge: &EdgeInfo) -> Option<(usize, usize)> {
    match (edge.kind, edge.from, edge.to) {
        (EdgeKind::Bounded, End::Processor(from), End::Processor(to)) => Some((from, to)),
        _ => None,
    }
}

pub(crate) const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut index = 0;
    while index < a.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    true
}

pub(crate) const fn same_end(a: End, b: End) -> bool {
    match (a, b) {
        (End::Ingress, End::Ingress) | (End::Egress, End::Egress) => true,
        (End::Processor(a), End::Processor(b)) => a == b,
        _ => false,
    }
}

/// The sending end of an edge from outside threads: `ingress` in `graph!`.
///
/// `impl Receive<App, Ingress, Command> for Reader` handles its messages.
#[derive(Debug)]
pub enum Ingress {}

/// The receiving end of an edge to outside threads: `egress` in `graph!`.
///
/// `cx.to::<Egress>().send(report)` sends to it.
#[derive(Debug)]
pub enum Egress {}

/// A graph of processors; only [`graph!`](crate::graph) implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a graph",
    note = "declare it:  graph! {{ graph {Self} {{ processors {{ .. }} edges {{ .. }} }} }}"
)]
pub trait Graph: Sized + 'static {
    /// The name in `graph!`.
    const NAME: &'static str;
    /// The processors, in the order of the declaration.
    const PROCESSORS: &'static [ProcessorInfo];
    /// The edges, in the order of the declaration.
    const EDGES: &'static [EdgeInfo];
}

/// The constants of a [`Graph`], for code that is compiled once and not per graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub(crate) name: &'static str,
    pub(crate) processors: &'static [ProcessorInfo],
    pub(crate) edges: &'static [EdgeInfo],
}

impl Tables {
    pub(crate) const fn of<G: Graph>() -> Self {
        Self {
            name: G::NAME,
            processors: G::PROCESSORS,
            edges: G::EDGES,
        }
    }
}

/// Returns the indices of the edges that enter a processor of `G`.
pub fn incoming<G: Graph>(processor: usize) -> impl Iterator<Item = usize> {
    let to = End::Processor(processor);
    (0..G::EDGES.len()).filter(move |&edge| G::EDGES[edge].to == to)
}

/// Returns the indices of the edges that leave a processor of `G`.
pub fn outgoing<G: Graph>(processor: usize) -> impl Iterator<Item = usize> {
    let from = End::Processor(processor);
    (0..G::EDGES.len()).filter(move |&edge| G::EDGES[edge].from == from)
}

/// Returns the indices of the edges between two processors of `G`, in either
/// direction.
pub fn connecting<G: Graph>(one: usize, other: usize) -> impl Iterator<Item = usize> {
    let ends = [End::Processor(one), End::Processor(other)];
    (0..G::EDGES.len()).filter(move |&edge| {
        let edge = &G::EDGES[edge];
        [edge.from, edge.to] == ends || [edge.to, edge.from] == ends
    })
}

/// Means that `P` is an end in the graph; only [`graph!`](crate::graph) implements it.
#[diagnostic::on_unimplemented(
    message = "`{P}` is not a processor of graph `{Self}`",
    label = "unknown processor",
    note = "list it under `processors` in `graph!`"
)]
pub trait Node<P>: Graph {
    /// A type with the name in `graph!`, for compiler messages.
    #[doc(hidden)]
    type Name;
    /// The end.
    const END: End;
    /// The index in [`Graph::PROCESSORS`]; `usize::MAX` for ingress and egress.
    const ID: usize;
    /// The type, as written in `graph!`.
    const TYPE_NAME: &'static str;
}

/// Returns the shard of a replica of `P`: replicas are numbered in the order of the declaration.
///
/// # Panics
///
/// If there is no such replica, or if the builder gets the number of replicas of a processor that
/// is declared before `P`. [`Handle::shard_of`](crate::Handle::shard_of) has no such limit.
#[must_use]
pub fn shard_of<G: Node<P>, P>(replica: usize) -> ShardId {
    let before = &G::PROCESSORS[..G::ID];
    let replicas = G::PROCESSORS[G::ID].replicas_max;
    assert!(
        replica < replicas,
        "graph `{}` has {replicas} of `{}`, so there is no replica {replica}",
        G::NAME,
        G::TYPE_NAME
    );
    let first = before.iter().map(|info| {
        assert!(
            info.replicas == info.replicas_max,
            "graph `{}`: the number of replicas of `{}` is given to the builder; use \
             `Handle::shard_of` for what is declared after it",
            G::NAME,
            info.name,
        );
        info.replicas
    });
    ShardId::from_index(first.sum::<usize>() + replica)
}

/// Means that `P` has one instance in the graph; only [`graph!`](crate::graph) implements it.
#[diagnostic::on_unimplemented(
    message = "graph `{Self}` has no single `{P}`: say which replica receives",
    label = "choose a replica",
    note = "write `.key(k)`, `.hashed(&k, &hasher)`, `.any()` or `.at(i)` before the call; a handler \
            also has `.all()`"
)]
pub trait Single<P>: Node<P> {}

/// Means that `P` has replicas in the graph; only [`graph!`](crate::graph) implements it.
#[diagnostic::on_unimplemented(
    message = "graph `{Self}` has no replicas of `{P}` to choose from",
    label = "`{P}` is not replicated",
    note = "`.key`, `.any`, `.at` and `.all` choose among replicas: send without them, \
            `cx.to::<..>().send(message)`",
    note = "a lane of `Egress` is chosen by `.lane(i)`, and a processor has replicas if `graph!` \
            declares it as `name: [Type; N]`"
)]
pub trait Replicated<P>: Node<P> {}

/// Means that the message `Self` may go from `From` to `To` in graph `G`; only
/// [`graph!`](crate::graph) implements it, once per edge.
///
/// The last two parameters are the names of the ends, for compiler messages; they follow from the
/// others.
#[diagnostic::on_unimplemented(
    message = "graph `{G}` has no edge `{FromName} -> {ToName}` for message `{Self}`",
    label = "not an edge of `{G}`",
    note = "declare it under `edges` in `graph!`:  {FromName} -> {ToName}: {Self};",
    note = "messages own their data: declare and send `String` in place of `&str`"
)]
pub trait Edge<
    G: Node<From> + Node<To>,
    From,
    To,
    FromName = <G as Node<From>>::Name,
    ToName = <G as Node<To>>::Name,
>: Sized + Send + 'static
{
    /// The index in [`Graph::EDGES`].
    const ID: usize;
    /// The entry in [`Graph::EDGES`].
    const INFO: &'static EdgeInfo = &G::EDGES[Self::ID];
    /// The index among the edges that leave the sending processor.
    const OUT: usize;
    /// Clones a message, on an edge that is marked `keep`.
    #[doc(hidden)]
    const COPY: Option<fn(&Self) -> Self> = None;
    /// Returns the weight of a message, on an edge with `bytes`.
    #[doc(hidden)]
    const WEIGH: Option<fn(&Self) -> usize> = None;
}
