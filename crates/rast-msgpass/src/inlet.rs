//! The receiving half of an edge, as one instance of its receiver owns it.
//!
//! It knows the types of the sender and of the message, so that one dynamic
//! call delivers a whole batch and each message is a direct call of the
//! handler.
//! A batch frees its slots at its end, so a slow handler sees small batches
//! first: the scheduler doubles them from one.

use core::marker::PhantomData;

use crate::cx::{Core, Cx};
use crate::egress::holds_enough_to_gate;
use crate::graph::Graph;
use crate::ingress::Door;
use crate::panics::contain;
use crate::primitive::sync::Arc;
use crate::process::Receive;
use crate::queue::spsc::Consumer;
use crate::sharder::ShardId;

/// An inlet of processor `P` whose sender and message are not known.
pub(crate) trait Inlet<G: Graph, P>: Send {
    /// Returns how many rings there are: one per instance of the sender.
    fn rings(&self) -> usize;
    /// Tells whether something is in a ring.
    fn has_any(&self, ring: usize) -> bool;
    /// Returns the outlet of the requests that this inlet has the answers to.
    fn answering(&self) -> Option<usize>;
    /// Has up to `max` messages of a ring handled, and returns how many were
    /// taken out.
    fn deliver(&mut self, ring: usize, max: usize, processor: &mut P, core: &mut Core) -> usize;
    /// Takes out all there is and gives it up.
    fn give_up(&mut self, core: &mut Core) -> usize;
    /// Calls `wake` with each sender that may stand gated since messages were
    /// taken out; the caller has fenced.
    fn freed(&mut self, wake: &mut dyn FnMut(ShardId));
    /// Tells whether messages were taken out since the last `freed`.
    fn took(&self) -> bool;
}

/// Where an inlet takes its messages from.
pub(crate) enum Source<M> {
    Rings(Vec<Consumer<M>>),
    /// `None` gives back the credit of a request that got no answer.
    Replies(Vec<Consumer<Option<M>>>),
    Door(Arc<Door<M>>),
}

/// The receiving half of one edge.
pub(crate) struct In<G, F, M> {
    edge: usize,
    /// The index among the inlets of the processor.
    index: usize,
    source: Source<M>,
    /// The outlet of the answers, if this edge carries requests.
    requests: Option<usize>,
    /// The outlet of the requests, if this edge carries answers.
    answering: Option<usize>,
    /// Per ring: taken out since the last `freed`.
    taken: Vec<usize>,
    took: bool,
    /// The first shard of the sender.
    first: usize,
    burst: usize,
    types: PhantomData<fn(G, F)>,
}

/// Where an inlet stands in its graph.
pub(crate) struct Place {
    pub(crate) edge: usize,
    pub(crate) index: usize,
    pub(crate) requests: Option<usize>,
    pub(crate) answering: Option<usize>,
    pub(crate) first: usize,
    pub(crate) burst: usize,
}

impl<G: Graph, F, M: Send + 'static> In<G, F, M> {
    pub(crate) fn new(place: Place, source: Source<M>) -> Self {
        let rings = match &source {
            Source::Rings(rings) => rings.len(),
            Source::Replies(rings) => rings.len(),
            Source::Door(_) => 1,
        };
        Self {
            edge: place.edge,
            index: place.index,
            source,
            requests: place.requests,
            answering: place.answering,
            taken: vec![0; rings],
            took: false,
            first: place.first,
            burst: place.burst,
            types: PhantomData,
        }
    }
}

/// Which handler is to run: what [`handle`] needs beside the message.
#[derive(Clone, Copy)]
struct Call {
    edge: usize,
    sender: usize,
    requests: Option<usize>,
}

/// Has one message handled, and contains its panic.
#[inline]
fn handle<G: Graph, F, M, P>(call: Call, message: M, processor: &mut P, core: &mut Core)
where
    P: Receive<G, F, M>,
    M: Send + 'static,
{
    if core.retired {
        // The processor was retired in this very batch.
        give_up_one(call, message, core);
        return;
    }
    let owed = call.requests.map(|out| {
        core.outs[out].owe(call.sender);
        (out, core.outs[out].owed(call.sender))
    });
    core.invocation += 1;
    core.sender = call.sender;
    let result = contain(|| processor.receive(message, &mut Cx::new(core)));
    if let Err(payload) = result {
        core.panicked(Some(call.edge), payload);
        core.shared.count_undelivered(call.edge, 1);
        if let Some((out, owed)) = owed
            && core.outs[out].owed(call.sender) >= owed
        {
            // It did not get to answering: nobody else will.
            core.outs[out].waive(call.sender);
        }
    }
}

/// Handles the messages that it is extended by, until one of the handlers has
/// used more room than it was admitted for; the others stay in their ring.
struct Batch<'a, G, F, P> {
    call: Call,
    processor: &'a mut P,
    core: &'a mut Core,
    types: PhantomData<fn(G, F)>,
}

impl<G, F, M, P> Extend<M> for Batch<'_, G, F, P>
where
    G: Graph,
    M: Send + 'static,
    P: Receive<G, F, M>,
{
    fn extend<I: IntoIterator<Item = M>>(&mut self, messages: I) {
        for message in messages {
            handle::<G, F, M, P>(self.call, message, self.processor, self.core);
            if self.core.overdrawn {
                break;
            }
        }
    }
}

impl<G, F, M, P> Inlet<G, P> for In<G, F, M>
where
    G: Graph,
    M: Send + 'static,
    P: Receive<G, F, M>,
{
    fn rings(&self) -> usize {
        self.taken.len()
    }

    fn has_any(&self, ring: usize) -> bool {
        match &self.source {
            Source::Rings(rings) => !rings[ring].is_empty(),
            Source::Replies(rings) => !rings[ring].is_empty(),
            Source::Door(door) => !door.is_empty(),
        }
    }

    fn answering(&self) -> Option<usize> {
        self.answering
    }

    fn deliver(&mut self, ring: usize, max: usize, processor: &mut P, core: &mut Core) -> usize {
        let call = Call {
            edge: self.edge,
            sender: ring,
            requests: self.requests,
        };
        let mut handled = 0;
        core.overdrawn = false;
        let taken = match &mut self.source {
            Source::Rings(rings) => {
                let mut batch = Batch::<G, F, P> {
                    call,
                    processor,
                    core,
                    types: PhantomData,
                };
                handled = rings[ring].pop_into(&mut batch, max);
                handled
            }
            Source::Replies(rings) => {
                // One by one: the slot must be free before its credit is used again.
                let mut taken = 0;
                while taken < max
                    && !core.overdrawn
                    && let Some(answer) = rings[ring].pop()
                {
                    taken += 1;
                    if let Some(out) = self.answering {
                        core.outs[out].answered(ring);
                    }
                    if let Some(message) = answer {
                        handled += 1;
                        handle::<G, F, M, P>(call, message, processor, core);
                    }
                }
                taken
            }
            Source::Door(door) => {
                while handled < max
                    && !core.overdrawn
                    && let Some(message) = door.pop()
                {
                    core.stats().entered[self.index].add(1);
                    handled += 1;
                    handle::<G, F, M, P>(call, message, processor, core);
                }
                door.release(handled);
                handled
            }
        };
        core.stats().received[self.index].add_after(handled as u64);
        self.taken[ring] += taken;
        self.took |= taken > 0;
        taken
    }

    fn give_up(&mut self, core: &mut Core) -> usize {
        let mut total = 0;
        for ring in 0..self.taken.len() {
            let call = Call {
                edge: self.edge,
                sender: ring,
                requests: self.requests,
            };
            let mut handled = 0;
            let taken = match &mut self.source {
                Source::Rings(rings) => {
                    while let Some(message) = rings[ring].pop() {
                        handled += 1;
                        give_up_one(call, message, core);
                    }
                    handled
                }
                Source::Replies(rings) => {
                    let mut taken = 0;
                    while let Some(answer) = rings[ring].pop() {
                        taken += 1;
                        if let Some(out) = self.answering {
                            core.outs[out].answered(ring);
                        }
                        if let Some(message) = answer {
                            handled += 1;
                            give_up_one(call, message, core);
                        }
                    }
                    taken
                }
                Source::Door(door) => {
                    while let Some(message) = door.pop() {
                        core.stats().entered[self.index].add(1);
                        handled += 1;
                        give_up_one(call, message, core);
                    }
                    door.release(handled);
                    handled
                }
            };
            core.stats().received[self.index].add_after(handled as u64);
            self.taken[ring] += taken;
            self.took |= taken > 0;
            total += taken;
        }
        total
    }

    fn freed(&mut self, wake: &mut dyn FnMut(ShardId)) {
        if !core::mem::take(&mut self.took) {
            return;
        }
        for (ring, taken) in self.taken.iter_mut().enumerate() {
            let taken = core::mem::take(taken);
            if taken == 0 {
                continue;
            }
            let gated = match &self.source {
                Source::Rings(rings) => holds_enough_to_gate(&rings[ring], taken, self.burst),
                // Room for answers is a matter of credit, which its owner sees come back.
                Source::Replies(_) | Source::Door(_) => false,
            };
            if gated {
                wake(ShardId::from_index(self.first + ring));
            }
        }
    }

    fn took(&self) -> bool {
        self.took
    }
}

#[cold]
fn give_up_one<M: Send + 'static>(call: Call, message: M, core: &mut Core) {
    core.shared.give_up(call.edge, message);
    if let Some(out) = call.requests {
        core.outs[out].owe(call.sender);
        core.outs[out].waive(call.sender);
    }
}
