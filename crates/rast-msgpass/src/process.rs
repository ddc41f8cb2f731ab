//! What the user writes: processors that are pinged and that receive.
//!
//! The source asks a processor for `Ping(sender)` and one `Receive` overload
//! per edge. So does this, as traits; a ping also says when it wants the next,
//! so that an idle graph sleeps instead of polling.

use crate::cx::Cx;
use crate::deaths::Retired;
use crate::graph::{Egress, Graph};
use crate::policy::Stopped;
use crate::timers::Instant;

/// When a processor wants to be pinged next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    /// As soon as the other processors of the worker have had their turn.
    Again,
    /// Not any more.
    #[default]
    Idle,
    /// At this instant.
    At(Instant),
    /// Once it is woken, or at this instant at the latest: for a processor that works on
    /// what several messages brought, or on what its worker's poller sees.
    ///
    /// It is woken by messages, whose handlers run before the ping, and by what its worker
    /// sleeps in ([`Builder::park`](crate::Builder::park)).
    Woken(Instant),
}

/// A processor of graph `G`.
///
/// One thread at a time runs a processor, and it may move to another thread
/// between two invocations: it is `Send` and need not be `Sync`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is listed as a processor of graph `{G}` and does not implement `Process<{G}>`",
    label = "not a processor yet",
    note = "write `impl Process<{G}> for {Self} {{}}`, with a `ping` where it works without input"
)]
pub trait Process<G: Graph>: Sized + Send + 'static {
    /// Begins: called once before any other handler, for the processor that was given to the
    /// builder and for each that a [restart](crate::Builder::restart) made.
    ///
    /// It may send what an invocation may. It is called also where there is no room: what it
    /// sends waits beside the instance then. Requests are sent by `try_send`, because those of the
    /// processor before may have used up the credit.
    ///
    /// Timers outlive a restart: what arms one here looks at [`Cx::restarts`](crate::Cx::restarts).
    fn on_start(&mut self, cx: &mut Cx<'_, G, Self>) {
        let _ = cx;
    }

    /// Ends: called once after the last handler, if [`on_start`](Self::on_start) was called.
    /// After a panic the processor may be half changed. Nothing can be sent any more; a panic is
    /// recorded, and changes nothing else.
    fn on_stop(&mut self, why: Stopped) {
        let _ = why;
    }

    /// Learns that an instance of a processor that it [watches](crate::Cx::watch) is retired.
    ///
    /// Like a ping, it is not called while there is no room in the edges that leave the processor,
    /// and not any more once the graph drains.
    fn on_retired(&mut self, who: Retired, cx: &mut Cx<'_, G, Self>) {
        let _ = (who, cx);
    }

    /// Works without input: reads a source, looks at the time.
    ///
    /// Called when the graph starts, then when the returned [`Next`] asks for it, or
    /// [`Cx::wake_at`](crate::Cx::wake_at); not while there is no room in the edges that leave the
    /// processor, and not any more once the graph drains. It should return soon: everything else on
    /// the worker waits.
    fn ping(&mut self, cx: &mut Cx<'_, G, Self>) -> Next {
        let _ = cx;
        Next::Idle
    }

    /// Sends what it has kept back: [`Handle::drain`](crate::Handle::drain) calls this once all
    /// messages to it have been handled and all processors upstream have flushed. In a cycle of
    /// edges it is called again until all of the cycle have sent nothing.
    ///
    /// It may send what an invocation may. It is called also where there is no room: what it
    /// sends waits beside the instance then.
    fn flush(&mut self, cx: &mut Cx<'_, G, Self>) {
        let _ = cx;
    }
}

/// Takes the messages of type `M` that `From` sends, in graph `G`.
///
/// `impl<F> Receive<App, F, M> for P` takes them from anyone.
#[diagnostic::on_unimplemented(
    message = "processor `{Self}` of graph `{G}` does not receive `{M}` from `{From}`",
    label = "declared as an edge, but there is no `Receive` impl",
    note = "write `impl Receive<{G}, {From}, {M}> for {Self}`"
)]
pub trait Receive<G: Graph, From, M>: Sized {
    /// Handles one message. It must not block: everything else on the worker waits.
    fn receive(&mut self, message: M, cx: &mut Cx<'_, G, Self>);
}

/// What leaves by egress is received outside of the graph.
impl<G: Graph, From, M> Receive<G, From, M> for Egress {
    fn receive(&mut self, _: M, _: &mut Cx<'_, G, Self>) {
        match *self {}
    }
}
