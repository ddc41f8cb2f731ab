//! The traits that users implement: processors, and handlers of messages.
//!
//! The original RAST design requires `Ping(sender)` and one `Receive` overload per edge. Here they
//! are traits. In addition, a ping returns when it needs the next one, so that an idle graph sleeps
//! instead of polling.

use crate::cx::Cx;
use crate::deaths::Retired;
use crate::graph::{Egress, Graph};
use crate::policy::Stopped;
use crate::timers::Instant;

/// When a processor needs the next ping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    /// After the other processors of the worker have had their turn.
    Again,
    /// Never.
    #[default]
    Idle,
    /// At this instant.
    At(Instant),
    /// After a wake-up, or at this instant at the latest: for a processor that combines several
    /// messages, or handles events of its worker's poller.
    ///
    /// Wake-ups come from messages, whose handlers run before the ping, and from what its worker
    /// sleeps in ([`Builder::park`](crate::Builder::park)).
    Woken(Instant),
}

/// A processor of graph `G`.
///
/// One thread at a time runs a processor, and it may move to another thread between two
/// invocations. So it is `Send` and need not be `Sync`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is listed as a processor of graph `{G}` and does not implement `Process<{G}>`",
    label = "not a processor yet",
    note = "write `impl Process<{G}> for {Self} {{}}`, with a `ping` where it works without input"
)]
pub trait Process<G: Graph>: Sized + Send + 'static {
    /// Starts the processor: called once before any other handler, for the processor that was given
    /// to the builder and for each that a [restart](crate::Builder::restart) made.
    ///
    /// It may send as other handlers do. Unlike them it is called even if the edges that leave the
    /// processor have no room: then its messages wait in the processor's outlets. Send requests by
    /// `try_send`, because the processor that panicked may have used up the credit.
    ///
    /// Timers outlive a restart, so check [`Cx::restarts`](crate::Cx::restarts) before arming one
    /// here.
    fn on_start(&mut self, cx: &mut Cx<'_, G, Self>) {
        let _ = cx;
    }

    /// Ends the processor: called once after the last handler, if [`on_start`](Self::on_start) was
    /// called. After a panic the state may be inconsistent. Nothing can be sent any more. A panic
    /// here is recorded, and has no other effect.
    fn on_stop(&mut self, why: Stopped) {
        let _ = why;
    }

    /// Called when an instance of a processor that this one [watches](crate::Cx::watch) has
    /// retired.
    ///
    /// Like a ping, it is not called while there is no room in the edges that leave the processor,
    /// nor once the graph drains.
    fn on_retired(&mut self, who: Retired, cx: &mut Cx<'_, G, Self>) {
        let _ = (who, cx);
    }

    /// Works without input, for example reads a source or checks the time.
    ///
    /// Called when the graph starts, and then when the returned [`Next`], or
    /// [`Cx::wake_at`](crate::Cx::wake_at), requests it. It is not called while an edge that leaves
    /// the processor has no room, nor after the graph has begun to drain or stop. It should return
    /// soon, because everything else on the worker waits.
    ///
    /// If a ping panics and the processor [continues](crate::OnPanic::Continue), that counts as
    /// [`Next::Idle`].
    fn ping(&mut self, cx: &mut Cx<'_, G, Self>) -> Next {
        let _ = cx;
        Next::Idle
    }

    /// Sends what the processor has held back. [`Handle::drain`](crate::Handle::drain) calls this
    /// once all messages to the processor have been handled and all processors upstream have
    /// flushed. In a cycle of edges it is called again until no processor of the cycle has sent
    /// anything.
    ///
    /// It may send as other handlers do. It is also called if there is no room: its messages then
    /// wait at the instance.
    fn flush(&mut self, cx: &mut Cx<'_, G, Self>) {
        let _ = cx;
    }
}

/// Handles the messages of type `M` from `From`, in graph `G`.
///
/// `impl<F> Receive<App, F, M> for P` handles them from every sender.
#[diagnostic::on_unimplemented(
    message = "processor `{Self}` of graph `{G}` does not receive `{M}` from `{From}`",
    label = "no `Receive` impl handles this message",
    note = "write `impl Receive<{G}, {From}, {M}> for {Self}`",
    note = "`Ingress` and `Timer` are imported from the module of `graph!`"
)]
pub trait Receive<G: Graph, From, M>: Sized {
    /// Handles one message. It must not block: everything else on the worker waits.
    fn receive(&mut self, message: M, cx: &mut Cx<'_, G, Self>);
}

/// Messages to egress are received outside of the graph.
impl<G: Graph, From, M> Receive<G, From, M> for Egress {
    fn receive(&mut self, _: M, _: &mut Cx<'_, G, Self>) {
        match *self {}
    }
}
