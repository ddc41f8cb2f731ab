//! The state of an instance besides its processor and its inlets (incoming halves of edges): its
//! outlets (outgoing halves), the current invocation, and what it waits for.
//!
//! Nothing here knows the type of a processor. `cx.rs` lends a [`Core`] to handlers,
//! `supervision.rs` follows the policy of its processor, and `watch.rs` finds the instances that it
//! watches.

use crate::ending::{EndedBy, Ending};
use crate::erased::Erased;
use crate::graph::{EdgeInfo, EdgeKind, Sends};
use crate::outlet::{FIRST, GATES, KEEPS, News, Out, REMOTE};
use crate::own::{OwnSlice, own_slice};
use crate::policy::{Life, Restarts};
use crate::primitive::sync::Arc;
use crate::sends::Waits;
use crate::sharder::WorkerCx;
use crate::shared::{Shared, Stats};
use crate::stack::Stack;
use crate::timer_store::Timers;
use crate::timers::Instant;

#[cfg(feature = "testing")]
mod tested;
#[cfg(not(feature = "testing"))]
mod untested;

/// The answer that is being handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answering {
    /// The outlet of the requests.
    pub(crate) out: usize,
    /// The target that answered.
    pub(crate) target: usize,
}

/// The parts of an instance besides the processor and its inlets. Most turns access only the fields
/// up to the first one of `timers`.
#[repr(C)]
pub(crate) struct Core {
    pub(crate) outs: OwnSlice<Erased>,
    /// The outlets written since the last flush.
    pub(crate) written: Stack,
    /// The same as in `shared`, closer: it is loaded for each message.
    pub(crate) ending: Arc<Ending>,
    pub(crate) stats: Arc<Stats>,
    /// The number of the current invocation; bursts are counted per invocation.
    pub(crate) invocation: u64,
    /// The replica that sent the current message.
    pub(crate) sender: usize,
    /// The instant of a ping that was requested by `Cx::wake_at`.
    pub(crate) wake_at: Option<Instant>,
    /// Whether an outlet gated the instance at the last check.
    pub(crate) is_gated: bool,
    /// Whether an outlet keeps messages for which there was no room.
    pub(crate) keeps: bool,
    pub(crate) stop: bool,
    pub(crate) life: Life,
    /// Whether an instance may have retired that this one watches.
    pub(crate) has_deaths: bool,
    pub(crate) timers: Timers,
    pub(crate) replica: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) node: usize,
    /// Per inlet: the outlets for whose room it waits.
    pub(crate) waits: Box<[Waits]>,
    /// The inlet whose message is being handled, and its edge, if some inlet does not wait for all
    /// outlets.
    pub(crate) handling: Option<(usize, usize)>,
    /// The invocation that handles a request that is not answered yet, and its edge.
    pub(crate) request: (u64, usize),
    /// The worker's time when the batch of requests started.
    pub(crate) now: Instant,
    pub(crate) restarts: Restarts,
    /// The processors that this one watches, and for each the part of the log that was read.
    pub(crate) watched: Vec<(usize, usize)>,
    /// Restrictions set by a test.
    #[cfg(feature = "testing")]
    pub(crate) trial: Option<Box<crate::trial::Trial>>,
}

impl Core {
    /// Makes the core of an instance that is not wired yet.
    pub(crate) fn new(shared: &Arc<Shared>, shard: usize) -> Self {
        let (node, replica) = shared.instance(shard);
        Self {
            shared: Arc::clone(shared),
            stats: Arc::clone(&shared.stats[shard]),
            ending: Arc::clone(&shared.ending),
            node,
            replica,
            outs: own_slice([]),
            written: Stack::new(0),
            invocation: 0,
            sender: 0,
            is_gated: false,
            keeps: false,
            waits: Box::default(),
            handling: None,
            request: (0, 0),
            now: Instant::ORIGIN,
            stop: false,
            life: Life::New,
            restarts: Restarts::new(),
            watched: Vec::new(),
            has_deaths: false,
            timers: Timers::default(),
            wake_at: None,
            #[cfg(feature = "testing")]
            trial: None,
        }
    }

    /// Takes the outlets of an instance, and what its inlets wait for.
    pub(crate) fn fit(&mut self, outs: Vec<Erased>, waits: Vec<Waits>) {
        // Twice: after a panic all are in it, and each may be reported once more.
        self.written = Stack::new(2 * outs.len());
        self.outs = own_slice(outs);
        self.waits = waits.into();
    }

    /// Returns whether handlers may be called.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.life == Life::Running
    }

    /// Returns `true` if no further message may be handled.
    #[inline]
    pub(crate) fn is_paused(&self) -> bool {
        self.is_gated || !self.is_running() || self.ending.is_stopping()
    }

    /// Returns `true` if a handler has left more to do than to handle the next messages.
    #[inline]
    pub(crate) fn leaves_work(&self) -> bool {
        let is_held_up = self.is_gated | self.keeps | !self.is_running();
        let is_called = self.wake_at.is_some() | self.timers.next().is_some();
        is_held_up | is_called | self.stop | self.has_deaths
    }

    /// Returns the index of the instance in the graph.
    pub(crate) fn shard(&self) -> usize {
        self.shared.shards_of(self.node).start + self.replica
    }

    /// Ends the graph.
    #[cold]
    pub(crate) fn end(&mut self) {
        self.ending.stop(EndedBy::Processor {
            name: self.shared.processors[self.node].name,
            replica: self.replica,
        });
        self.stop = true;
    }

    /// Records the news of an outlet.
    #[inline]
    pub(crate) fn note(&mut self, out: usize, news: News) {
        if news == 0 {
            return;
        }
        if news & FIRST != 0 {
            self.written.push(out as u32);
        }
        if news & (GATES | KEEPS) != 0 {
            self.is_gated |= news & GATES != 0;
            self.keeps |= news & KEEPS != 0;
        }
    }

    /// Marks every outlet as written, since a panic may have prevented that.
    #[cold]
    pub(crate) fn note_all(&mut self) {
        self.written.truncate(0);
        (0..self.outs.len() as u32).for_each(|out| self.written.push(out));
        self.is_gated |= self.outs_gate();
    }

    /// Publishes what was sent; returns `true` if any message goes to another worker.
    #[inline]
    pub(crate) fn flush(&mut self, cx: &mut WorkerCx<'_>) -> bool {
        let mut news = 0;
        while let Some(out) = self.written.pop() {
            news |= self.outs[out as usize].flush(cx);
        }
        if news & (GATES | KEEPS) != 0 {
            self.is_gated |= news & GATES != 0;
            self.keeps |= news & KEEPS != 0;
        }
        news & REMOTE != 0
    }

    /// Checks again the outlets that gate the instance, or keep messages.
    #[cold]
    pub(crate) fn look(&mut self) {
        self.is_gated = self.is_any_filled();
        self.keeps = false;
        for out in 0..self.outs.len() {
            if self.outs[out].lacks_room() || self.outs[out].gates() || self.outs[out].keeps() {
                let news = self.outs[out].look();
                self.note(out, news);
            }
        }
    }

    /// Returns `true` if an outlet gated the instance at the last check.
    #[inline]
    pub(crate) fn outs_gate(&self) -> bool {
        self.outs.iter().any(|out| out.gates()) || self.is_any_filled()
    }

    /// Enters the wait lists; the caller must then `look` again.
    #[cold]
    pub(crate) fn wait(&mut self, cx: &mut WorkerCx<'_>) {
        for out in self.outs.iter_mut() {
            out.wait(cx);
        }
    }

    /// Uses the room for which receivers have woken the instance, or wakes other senders for it.
    #[cold]
    pub(crate) fn use_wake_ups(&mut self, cx: &mut WorkerCx<'_>) {
        for out in 0..self.outs.len() {
            let news = self.outs[out].use_wake_up(cx);
            self.note(out, news);
        }
    }

    /// Returns `true` if an outlet lacks room at a target in whose wait list the instance is not:
    /// it must enter again.
    #[cold]
    pub(crate) fn waits_elsewhere(&self) -> bool {
        self.outs.iter().any(|out| out.waits_elsewhere())
    }

    /// Returns how many messages of an inlet may be handled although an outlet gates: none, or one
    /// before the next check.
    #[cold]
    pub(crate) fn admits(&self, inlet: usize, answering: Option<Answering>) -> u32 {
        let may_run = match &self.waits[inlet] {
            Waits::All => false,
            Waits::For(outs) => (outs.iter().map(|&out| out as usize))
                .all(|out| !self.outs[out].gates() && !self.is_filled(out)),
        };
        if may_run {
            return u32::MAX;
        }
        u32::from(answering.is_some_and(|answering| self.may_answer(inlet, answering)))
    }

    /// Returns `true` if an answer may be handled although the instance is gated. Only answers
    /// bring credit back, so they do not wait for credit, and their handlers may send requests
    /// beyond the usual credit.
    fn may_answer(&self, inlet: usize, answering: Answering) -> bool {
        let Answering { out: own, target } = answering;
        let is_at_limit = self.outs[own].is_at_limit(target);
        self.outs.iter().enumerate().all(|(index, out)| {
            let beside = (index == own).then_some(target);
            // At the limit of this target only its own answers lower its debt, whatever other
            // targets owe.
            !self.waits[inlet].has(index)
                || (!out.lacks_room()
                    && !self.is_filled(index)
                    && (is_at_limit || !out.is_other_at_limit(beside)))
        })
    }

    /// Returns `true` if the current handler was called with room for its burst in an outlet.
    pub(crate) fn is_promised(&self, out: usize) -> bool {
        let handling = self.handling;
        handling.is_none_or(|(inlet, _)| self.waits[inlet].has(out))
    }

    #[cold]
    pub(crate) fn sends_fault(&self, on: &EdgeInfo) -> ! {
        let of = self
            .handling
            .map_or(on, |(_, edge)| &self.shared.edges[edge]);
        let reason = match of.sends {
            Sends::Listed(_) => "its `sends` does not list",
            Sends::Undeclared => "may lead back to the client",
        };
        panic!(
            "graph `{}`, edge {of}: its handler sends on the edge {on}, which {reason}; \
             declare it by [sends = (.., {})], or use `try_send`",
            self.shared.graph, on.message,
        )
    }

    /// Counts an answer, or a waiver, of a target of the outlet of requests.
    #[inline]
    pub(crate) fn answered<M>(
        &mut self,
        requests: Option<usize>,
        target: usize,
        answer: Option<M>,
    ) -> Option<M> {
        if let Some(out) = requests {
            self.outs[out].answered(target);
        }
        answer
    }

    /// Sends on an edge that drops messages without room.
    pub(crate) fn send_lossy<M: Send + 'static>(
        &mut self,
        kind: EdgeKind,
        out: usize,
        target: usize,
        message: M,
    ) -> News {
        let is_filled = self.is_filled(out);
        let out = self.out::<M>(out);
        match kind {
            EdgeKind::DropOldest | EdgeKind::Latest => out.send_evicting(target, message),
            _ => out.send_or_drop(target, message, is_filled),
        }
    }

    #[inline]
    pub(crate) fn out<M: Send + 'static>(&mut self, index: usize) -> &mut Out<M> {
        self.outs[index].of()
    }

    /// Records the request of an edge that is being handled. Its handler answers it or takes its
    /// token; otherwise `end_request` waives it.
    #[inline]
    pub(crate) fn begin_request(&mut self, edge: usize, now: Instant) {
        self.request = (self.invocation, edge);
        self.now = now;
    }

    /// Takes the request of an edge and a client that is being handled, once; returns `true` if
    /// there is one.
    #[inline]
    pub(crate) fn take_request(&mut self, edge: usize, client: usize) -> bool {
        let is_in_hand = self.has_request(edge, client);
        if is_in_hand {
            self.request.0 = 0;
        }
        is_in_hand
    }

    #[inline]
    pub(crate) fn has_request(&self, edge: usize, client: usize) -> bool {
        self.request == (self.invocation, edge) && self.sender == client
    }

    /// Ends the handler of a request, after its return or panic. `out`: the outlet of answers.
    #[inline]
    pub(crate) fn end_request(&mut self, out: usize) {
        if self.request.0 == self.invocation {
            self.request.0 = 0;
            self.waive(out);
        }
    }

    /// Waives a request of the sender of the current message.
    #[cold]
    pub(crate) fn waive(&mut self, out: usize) {
        let news = self.outs[out].waive(self.sender);
        self.note(out, news);
    }

    /// Waives the requests whose tokens were dropped.
    #[cold]
    pub(crate) fn waive_dropped(&mut self) {
        for out in 0..self.outs.len() {
            let news = self.outs[out].waive_dropped();
            self.note(out, news);
        }
    }
}
