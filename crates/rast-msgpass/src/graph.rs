//! What `graph!` declares: the traits that carry the types, and the tables
//! that carry the numbers.
//!
//! The source numbers processors and edges by a chain of base classes, one per
//! edge, and finds an edge by overload resolution along the chain.
//! Here each edge is one `impl Edge<Graph, From, To> for Message`: the compiler
//! looks it up by types, the message is `Self` so that an error names it, and
//! nothing recurses.
//! The numbers are constants, so the tables are data in the program's image.

use core::fmt;

use crate::sends::Sends;
use crate::sharder::ShardId;
use crate::wiring::Wiring;

/// One side of an edge.
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

/// Which rule bounds an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EdgeKind {
    /// Its sender runs only while there is room for the declared burst.
    Bounded,
    /// It never gates its sender: what finds no room in the queue is kept, in
    /// order, beside the sender, up to the [`ceiling`](EdgeInfo::ceiling).
    Unbounded,
    /// It carries answers to the edge with index `request`, and finds room
    /// reserved by the request.
    Reply {
        /// The index of the edge of requests in [`Graph::EDGES`].
        request: usize,
    },
}

/// A processor of a graph, as declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ProcessorInfo {
    /// The name in `graph!`.
    pub name: &'static str,
    /// The type, as written in `graph!`.
    pub type_name: &'static str,
    /// How many instances run; one unless it was declared as `[Type; N]`.
    pub replicas: usize,
    /// Whether it was declared as `[Type; N]`.
    pub replicated: bool,
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
    /// Messages that each queue of the edge holds at least: a ring, an inbox, or
    /// a door. Rings and inboxes are rounded up to a power of two.
    pub capacity: usize,
    /// Whether each pair of instances has a ring of its own, as where there are
    /// at most [`PAIRS_MAX`] pairs. Otherwise each receiver has an inbox, which
    /// its senders share.
    pub by_pair: bool,
    /// Messages that one invocation of the sender may `send`.
    pub burst: usize,
    /// Receivers outside; one except on edges to `egress`.
    pub lanes: usize,
    /// Which rule bounds it.
    pub kind: EdgeKind,
    /// On an unbounded edge: the most messages without room that one sender keeps; one more stops
    /// the graph. From ingress: the capacity of each door. `usize::MAX` on other edges.
    pub ceiling: usize,
    /// What the handlers of its messages `send`.
    pub sends: Sends,
    /// Whether it needs room at one receiver, not at each, and each message goes to one with
    /// room: `route = any`.
    pub any: bool,
    /// Whether each message is cloned before its handler, for
    /// [`Builder::on_failure`](crate::Builder::on_failure): `keep`.
    pub keep: bool,
}

/// The most pairs of instances of an edge that have a ring each. An edge to
/// egress always has rings, since its lanes are few.
pub const PAIRS_MAX: usize = 256;

impl fmt::Display for EdgeInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} -> {}: {}",
            self.from_type, self.to_type, self.message
        )
    }
}

/// The end of an edge that is outside threads, sending: `ingress` in `graph!`.
///
/// `impl Receive<App, Ingress, Command> for Reader` takes what comes in.
#[derive(Debug)]
pub enum Ingress {}

/// The end of an edge that is outside threads, receiving: `egress` in `graph!`.
///
/// `cx.to::<Egress>().send(report)` sends out.
#[derive(Debug)]
pub enum Egress {}

/// A graph of processors; implemented by [`graph!`](crate::graph) alone.
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

    /// Calls `wiring` for each edge with its types.
    #[doc(hidden)]
    fn wire(wiring: &mut Wiring);
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

/// States that `P` is an end in the graph; implemented by
/// [`graph!`](crate::graph) alone.
#[diagnostic::on_unimplemented(
    message = "`{P}` is not a processor of graph `{Self}`",
    label = "unknown processor",
    note = "list it under `processors` in `graph!`"
)]
pub trait Node<P>: Graph {
    /// Which end it is.
    const END: End;
    /// The index in [`Graph::PROCESSORS`]; `usize::MAX` for the doors.
    const ID: usize;
    /// The type, as written in `graph!`.
    const TYPE_NAME: &'static str;
}

/// Returns the shard that a replica of `P` is: replicas are numbered in the order of the
/// declaration.
///
/// # Panics
///
/// When there is no such replica.
#[must_use]
pub fn shard_of<G: Node<P>, P>(replica: usize) -> ShardId {
    let before = &G::PROCESSORS[..G::ID];
    let replicas = G::PROCESSORS[G::ID].replicas;
    assert!(
        replica < replicas,
        "graph `{}` has {replicas} of `{}`, so there is no replica {replica}",
        G::NAME,
        G::TYPE_NAME
    );
    ShardId::from_index(before.iter().map(|info| info.replicas).sum::<usize>() + replica)
}

/// States which type the end number `N` in `graph!` is.
#[doc(hidden)]
pub trait At<const N: usize> {
    /// The type.
    type End;
}

/// States that `P` has one instance in the graph; implemented by
/// [`graph!`](crate::graph) alone.
#[diagnostic::on_unimplemented(
    message = "graph `{Self}` has no single `{P}`: say which replica receives",
    label = "choose a replica",
    note = "write `.key(k)`, `.any()`, `.all()` or `.at(i)` before the call"
)]
pub trait Single<P>: Node<P> {}

/// States that `P` has replicas in the graph; implemented by
/// [`graph!`](crate::graph) alone.
#[diagnostic::on_unimplemented(
    message = "graph `{Self}` has no replicas of `{P}` to choose from",
    label = "`{P}` is not replicated",
    note = "send to it directly, or declare it as `[{P}; N]` in `graph!`"
)]
pub trait Replicated<P>: Node<P> {}

/// States that the message `Self` may go from `From` to `To` in graph `G`;
/// implemented by [`graph!`](crate::graph) alone, once per edge.
#[diagnostic::on_unimplemented(
    message = "graph `{G}` has no edge `{From}` -> `{To}` for message `{Self}`",
    label = "not an edge of `{G}`",
    note = "declare it in `graph!`:  {From} -> {To}: {Self};"
)]
pub trait Edge<G: Graph, From, To>: Sized + Send + 'static {
    /// The index in [`Graph::EDGES`].
    const ID: usize;
    /// The entry in [`Graph::EDGES`].
    const INFO: &'static EdgeInfo = &G::EDGES[Self::ID];
    /// The index among the edges that leave the sending processor.
    const OUT: usize = crate::check::outgoing_before(G::EDGES, Self::ID);
    /// Clones a message, on an edge that is marked `keep`.
    #[doc(hidden)]
    const COPY: Option<fn(&Self) -> Self>;

    /// Makes the rings or the door of the edge.
    #[doc(hidden)]
    fn wire(wiring: &mut Wiring);
}
