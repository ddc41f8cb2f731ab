//! `graph!`: the declaration of a graph.
//!
//! The parser is the procedural macro of `rast-msgpass-macros`. It gets the path of this crate,
//! which may be known under any name, or only through a re-export.

/// Declares a graph: its processors, its edges, and the type that names it.
///
/// ```text
/// graph! {
///     /// Documentation of the graph.
///     pub graph App {
///         processors {
///             reader: Reader,                       // one instance
///             worker: [Worker; 8],                  // eight replicas
///             clock: Clock [source],                // begins by itself
///             shard: [Shard; _],                    // as many as the builder gets
///             part: [Part; 2..=16],                 // the same, within bounds
///             second: (struct Reader2(Reader)),     // a newtype, emitted here
///         }
///         edges {
///             ingress -> reader: Command [cap = 1024];      // a door in
///             reader -> worker: Job [cap = 256, burst = 4];
///             worker -> reader: Done [reply = Job];
///             clock -> worker: Tick [latest, high];
///             worker -> egress: Report [lanes = 2];         // a door out
///         }
///     }
/// }
/// ```
///
/// Attributes of an edge, each at most once, with the default in parentheses:
///
/// - `cap = N`: room for this number of messages (256);
/// - `burst = N`: messages that one invocation of the sender may `send` (1);
/// - `ceiling = N`: messages without room that one sender of an `unbounded` edge keeps before the
///   graph stops (1,048,576);
/// - `lanes = N`: receivers of an edge to `egress` (1);
/// - `route = any`: see [`Port::any`](crate::Port::any);
/// - `rings`: a ring for each pair of instances, even if there are more than
///   [`PAIRS_MAX`](crate::PAIRS_MAX) pairs (by default such an edge has an inbox for each
///   receiver);
/// - `keep`: each message is cloned before its handler runs, for
///   [`Builder::on_failure`](crate::Builder::on_failure);
/// - `sends = (Job, egress: Report)`: the edges on which the handlers of this edge's messages may
///   send (all edges). An edge is listed by its message, with the receiver if several edges have
///   this message.
///
/// By default, handlers that send on an edge without room are not run. An edge may have at most one
/// of these attributes, each of which changes that:
///
/// | attribute | a message without room | queue, and cost of a message |
/// | --- | --- | --- |
/// | (none) | does not occur: handlers that send it are not run | ring, or inbox |
/// | `unbounded` | waits at its sender | the same, and memory for waiting messages |
/// | `reply = Request` | does not occur: the request has reserved the room | the same |
/// | `reject` | is returned by `try_send`; there is no `send` | the same |
/// | `drop_newest` | is dropped | the same |
/// | `drop_oldest` | replaces the oldest message of its pair | a lock at each side |
/// | `latest` | as `drop_oldest`, with room for one message per pair | a lock at each side |
///
/// Dropped messages are counted in [`EdgeMetrics::dropped`](crate::EdgeMetrics::dropped) and given
/// to [`Builder::on_undelivered`](crate::Builder::on_undelivered). An edge from ingress does not
/// accept `reject`, `drop_newest`, `drop_oldest` or `latest`: there the sender's call decides
/// whether it waits for room (`send`) or gets the message back (`try_send`). An edge to egress
/// accepts only `drop_newest` and `reject`.
///
/// `bytes = N` bounds the queued messages of a pair by their [`Weight`](crate::Weight), in addition
/// to `cap`. It may be combined with `reject`, `drop_newest` or `drop_oldest`, and costs a lock at
/// each side. An edge with `bytes`, `drop_oldest` or `latest` has a queue for each pair of
/// instances. With its first message a queue allocates `cap` slots, each of the size of a message
/// and two words. If that much memory is refused, the queue grows with its messages.
///
/// `rings` suits an edge on which each sender has only a few receivers, and sends many messages in
/// a row to one of them. An example is a chain of replicas. On such an edge a message costs less
/// time with a ring than with an inbox. `rings` costs memory for each pair, whether or not the pair
/// exchanges messages: `cap` slots and some cache lines. These edges do not accept `rings`:
/// requests and their answers, edges from ingress or to egress, and edges with `bytes`,
/// `drop_oldest` or `latest`.
///
/// With `high` the receiver handles the messages of this edge first. A turn begins with up to a
/// batch of each `high` edge. If no `high` edge has more messages than its batch, the turn then
/// handles a batch of each other edge, and checks the `high` edges after every 8 messages. If a
/// `high` edge has more, the turn handles only a sixteenth of a batch of all other edges together,
/// or one message if the [time](crate::Batch::time) of the turn is over. Processors without a
/// `high` edge pay nothing for it.
///
/// A processor that starts without a message, by a ping, a timer or `on_start`, is declared with
/// `[source]`. If no path of edges leads to a processor from ingress or from a source, the graph
/// does not compile.
///
/// Documentation comments may be above every entry.
///
/// The graph's type gets `PROCESSORS`, `EDGES`, `builder(..)` (one argument per
/// processor, in order; for replicas an iterator over them), `dot()`
/// and `mermaid()`. A number of replicas outside of the declared bounds is
/// [`BuildError::Replicas`](crate::BuildError::Replicas).
///
/// # Errors at compile time
///
/// Each mistake has its own error, which points at the wrong tokens and says what to write. One
/// mistake has a general error: if an edge is declared twice, with its types written in different
/// ways, the error names conflicting implementations.
///
/// An edge whose receiver has no [`Receive`](crate::Receive) does not compile, and neither does a
/// send that no edge allows; the compiler's hint shows the edge to declare.
///
/// A cycle of bounded edges, in which the handlers of each edge send on the next, does not compile:
/// see the crate docs.
#[macro_export]
macro_rules! graph {
    ($($declaration:tt)*) => {
        $crate::__private::graph! { ($crate) $($declaration)* }
    };
}
