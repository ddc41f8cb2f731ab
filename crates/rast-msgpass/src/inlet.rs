//! The receiving half of an edge, as one instance of its receiver owns it.
//!
//! It knows the types of the sender and of the message, so that one dynamic
//! call delivers a whole batch and each message is a direct call of the
//! handler.
//! A message is taken out before its handler runs, and its slot returns with a
//! quarter of the others or when the batch ends: see [`Pace`].
//! Panics are caught once for the whole batch. What was in hand then is lost,
//! and the batch goes on behind it.

use core::any::Any;
use core::marker::PhantomData;

use crate::cx::{Core, Cx};
use crate::graph::{Edge, Graph};
use crate::ingress::Door;
use crate::load::Input;
use crate::outlet::ROOM;
use crate::panics::contain;
use crate::primitive::sync::Arc;
use crate::process::Receive;
use crate::queue::mpsc::bounded;
use crate::queue::spsc::Consumer;
use crate::report::Handler;
use crate::sends::is_restricted;
use crate::sharder::{ShardId, WorkerCx};
#[cfg(feature = "testing")]
use crate::testing::{self, Tap};
use crate::waiting::{Pace, Waiting};

/// An inlet of processor `P` whose sender and message are not known.
pub(crate) trait Inlet<G: Graph, P>: Send {
    /// Returns how many inputs there are: one per instance of the sender, if
    /// each has a ring.
    fn inputs(&self) -> usize;
    /// Returns whether something is in an input.
    fn has_any(&self, input: usize) -> bool;
    /// Returns the outlet of the requests that this inlet has the answers to.
    fn answering(&self) -> Option<usize>;
    /// Has up to `max` messages of an input handled.
    fn deliver(
        &mut self,
        input: usize,
        max: u32,
        processor: &mut P,
        core: &mut Core,
        cx: &mut WorkerCx<'_>,
        load: Option<&mut Input>,
    ) -> Delivered;
    /// Takes out all there is and gives it up, without a worker at the end.
    fn give_up(&mut self, core: &mut Core, cx: Option<&mut WorkerCx<'_>>) -> Delivered;
}

/// What came of a batch. It fits two registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivered {
    /// Messages and waivers taken out.
    pub(crate) taken: u32,
    /// Those of them that were waivers. The others were handled, given up, or lost
    /// to a panic.
    pub(crate) waived: u32,
    /// Nothing more was there: the sender of what comes wakes the instance when it
    /// has published it.
    pub(crate) is_empty: bool,
}

impl Delivered {
    /// Returns the number of messages.
    #[inline]
    pub(crate) fn handled(self) -> u64 {
        u64::from(self.taken - self.waived)
    }
}

/// Where an inlet takes its messages from.
pub(crate) enum Source<M> {
    Rings(Vec<Ring<M>>),
    Inbox(bounded::Consumer<M>, Pace),
    /// `None` gives back the credit of a request that got no answer.
    AnswerRings(Vec<Consumer<Option<M>>>),
    AnswerInbox(bounded::Consumer<Option<M>>, Pace),
    Door(Arc<Door<M>>, Pace),
}

/// The receiver's end of one ring.
pub(crate) struct Ring<M> {
    pub(crate) ring: Consumer<M>,
    pub(crate) pace: Pace,
}

impl<M> Ring<M> {
    /// A message was taken. Returns whether its slot, and those that were held, went back and
    /// the sender is to be told.
    #[inline]
    fn has_taken(&mut self) -> bool {
        self.pace.take() && self.release()
    }

    /// Returns the slots that are held, at the end of a batch, and whether the sender is to be
    /// told.
    #[inline]
    fn settle(&mut self) -> bool {
        self.pace.holds() && self.release()
    }

    #[inline]
    fn release(&mut self) -> bool {
        self.ring.release();
        self.pace.release()
    }
}

/// The receiving half of one edge.
pub(crate) struct In<G, F, M> {
    source: Source<M>,
    place: Place,
    /// On an edge that is marked `keep`: a clone of the message in hand.
    kept: Option<M>,
    types: PhantomData<fn(G, F, M)>,
}

/// Where an inlet is in its graph.
pub(crate) struct Place {
    pub(crate) edge: usize,
    /// The index among the inlets of the processor.
    pub(crate) index: usize,
    /// The outlet of the answers, if this edge carries requests.
    pub(crate) requests: Option<usize>,
    /// The outlet of the requests, if this edge carries answers.
    pub(crate) answering: Option<usize>,
    /// The senders that wait for room.
    pub(crate) waiting: Arc<Waiting>,
    /// The list in which senders wait for this receiver: its number among those of the edge, 0
    /// where room at any of them is enough.
    pub(crate) receiver: usize,
    /// The first shard of the sender.
    pub(crate) first: usize,
    /// The outlet of the edge at its senders.
    pub(crate) outlet: usize,
}

impl Place {
    /// Wakes the senders that wait here, and misses none.
    #[inline]
    fn wake_senders(&self, cx: Option<&mut WorkerCx<'_>>) {
        if let Some(cx) = cx {
            self.look(true, cx);
        }
    }

    /// As `wake_senders`, where one sender may wait: on this worker it needs no
    /// fence.
    #[inline]
    fn wake_sender(&self, sender: usize, cx: &mut WorkerCx<'_>) {
        let is_local = cx.is_local(ShardId::from_index(self.first + sender));
        self.look(!is_local, cx);
    }

    #[inline]
    fn look(&self, fenced: bool, cx: &mut WorkerCx<'_>) {
        self.waiting.look(self.receiver, fenced, |sender| {
            let shard = ShardId::from_index(self.first + sender);
            cx.wake(shard, ROOM | self.outlet as u32);
        });
    }
}

impl<G: Graph, F, M: Send + 'static> In<G, F, M> {
    pub(crate) fn new(place: Place, source: Source<M>) -> Self {
        Self {
            source,
            place,
            kept: None,
            types: PhantomData,
        }
    }

    /// Takes the next message out of an input; `Some(None)` is a waiver.
    fn take(&mut self, input: usize, core: &mut Core, cx: Option<&mut WorkerCx<'_>>) -> Taken<M> {
        let place = &self.place;
        match &mut self.source {
            Source::Rings(rings) => {
                let ring = &mut rings[input];
                let message = ring.ring.take()?;
                core.sender = input;
                if ring.has_taken() {
                    place.wake_senders(cx);
                }
                Some(Some(message))
            }
            Source::Inbox(inbox, pace) => {
                let (sender, message) = inbox.take()?;
                core.sender = sender as usize;
                if pace.take() {
                    inbox.release();
                    if pace.release() {
                        place.wake_senders(cx);
                    }
                }
                Some(Some(message))
            }
            Source::AnswerRings(rings) => {
                // Its slot is free before its credit is used again.
                let ring = &mut rings[input];
                let answer = ring.take()?;
                ring.release();
                core.sender = input;
                Some(core.answered(place.answering, input, answer))
            }
            Source::AnswerInbox(inbox, pace) => {
                let (sender, answer) = inbox.take()?;
                core.sender = sender as usize;
                if pace.take() {
                    inbox.release();
                    if pace.release() {
                        place.wake_senders(cx);
                    }
                }
                Some(core.answered(place.answering, sender as usize, answer))
            }
            Source::Door(door, pace) => {
                let message = door.pop()?;
                core.stats.entered[place.index].add(1);
                core.sender = 0;
                if pace.take() {
                    door.release(pace.give());
                }
                Some(Some(message))
            }
        }
    }

    /// Returns the slots that are held, at the end of a batch.
    #[inline]
    fn settle(&mut self, input: usize, cx: Option<&mut WorkerCx<'_>>) {
        let place = &self.place;
        match &mut self.source {
            Source::Rings(rings) => {
                if rings[input].settle() {
                    match cx {
                        Some(cx) => place.wake_sender(input, cx),
                        None => place.wake_senders(None),
                    }
                }
            }
            Source::Inbox(inbox, pace) => {
                if pace.holds() {
                    inbox.release();
                    if pace.release() {
                        place.wake_senders(cx);
                    }
                }
            }
            Source::AnswerInbox(inbox, pace) => {
                if pace.holds() {
                    inbox.release();
                    if pace.release() {
                        place.wake_senders(cx);
                    }
                }
            }
            Source::AnswerRings(_) => {}
            Source::Door(door, pace) => {
                if pace.holds() {
                    door.release(pace.give());
                }
            }
        }
    }

    /// Has messages handled that come by another way than rings.
    #[expect(clippy::too_many_arguments, reason = "those of `deliver`")]
    fn deliver_otherwise<P: Receive<G, F, M>>(
        &mut self,
        input: usize,
        max: u32,
        processor: &mut P,
        core: &mut Core,
        cx: &mut WorkerCx<'_>,
        mut load: Option<&mut Input>,
        all: &mut Delivered,
    ) where
        M: Edge<G, F, P>,
    {
        loop {
            let Some(message) = self.take(input, core, Some(cx)) else {
                all.is_empty = true;
                break;
            };
            all.taken += 1;
            if let Some(load) = &mut load {
                load.add_from(core.sender as u32);
            }
            match message {
                None => all.waived += 1,
                Some(message) => {
                    core.invocation += 1;
                    if self.place.requests.is_some() {
                        core.begin_request(self.place.edge, cx.now());
                    }
                    if let Some(copy) = const { <M as Edge<G, F, P>>::COPY } {
                        self.kept = Some(copy(&message));
                    }
                    core.delivering(Some(self.place.edge), &message);
                    processor.receive(message, &mut Cx::new(core));
                    if const { <M as Edge<G, F, P>>::COPY.is_some() } {
                        drop_kept(&mut self.kept, core);
                    }
                    if let Some(out) = self.place.requests {
                        core.end_request(out);
                    }
                }
            }
            if all.taken >= max || core.is_paused() {
                all.is_empty = !self.holds_any(input);
                break;
            }
        }
        self.settle(input, Some(cx));
    }

    /// A handler panicked: its message is lost, and no thread waits for the answer.
    #[cold]
    fn panicked(&mut self, payload: Box<dyn Any + Send>, core: &mut Core) {
        let edge = self.place.edge;
        let message = self.kept.take().map(|message| Box::new(message) as _);
        core.shared.count_in_hand(edge);
        core.panicked(Handler::Message, Some(edge), payload, message);
        if let Some(out) = self.place.requests {
            core.end_request(out);
        }
    }

    /// Returns how many inputs there are.
    fn len(&self) -> usize {
        match &self.source {
            Source::Rings(rings) => rings.len(),
            Source::AnswerRings(rings) => rings.len(),
            Source::Inbox(..) | Source::AnswerInbox(..) | Source::Door(..) => 1,
        }
    }

    /// Returns whether something is in an input.
    fn holds_any(&self, input: usize) -> bool {
        match &self.source {
            Source::Rings(rings) => !rings[input].ring.is_empty(),
            Source::AnswerRings(rings) => !rings[input].is_empty(),
            Source::Inbox(inbox, _) => !inbox.is_empty(),
            Source::AnswerInbox(inbox, _) => !inbox.is_empty(),
            Source::Door(door, _) => !door.is_empty(),
        }
    }

    #[cold]
    fn give_up_one(&self, message: M, core: &mut Core) {
        core.shared.give_up(self.place.edge, message);
        if let Some(out) = self.place.requests {
            core.waive(out);
        }
    }
}

/// Drops the clone of a message whose handler has returned.
fn drop_kept<M>(kept: &mut Option<M>, core: &Core) {
    let kept = kept.take();
    if let Err(payload) = contain(|| drop(kept)) {
        let shared = &core.shared;
        shared.record_fault("the destructor of a kept message", payload);
    }
}

/// Takes messages where no processor does.
#[cfg(feature = "testing")]
impl<G: Graph, F, M: Send + 'static> Tap for In<G, F, M> {
    fn edge(&self) -> usize {
        self.place.edge
    }

    fn requests(&self) -> Option<usize> {
        self.place.requests
    }

    fn inputs(&self) -> usize {
        self.len()
    }

    fn take(
        &mut self,
        input: usize,
        core: &mut Core,
        cx: &mut WorkerCx<'_>,
    ) -> Option<testing::Taken> {
        let message = In::take(self, input, core, Some(cx))?;
        Some(message.map(|message| Box::new(message) as Box<dyn Any + Send>))
    }

    fn settle(&mut self, input: usize, cx: &mut WorkerCx<'_>) {
        In::settle(self, input, Some(cx));
    }
}

/// A message, a waiver, or nothing.
type Taken<M> = Option<Option<M>>;

impl<G, F, M, P> Inlet<G, P> for In<G, F, M>
where
    G: Graph,
    M: Edge<G, F, P>,
    P: Receive<G, F, M>,
{
    fn inputs(&self) -> usize {
        self.len()
    }

    fn has_any(&self, input: usize) -> bool {
        self.holds_any(input)
    }

    fn answering(&self) -> Option<usize> {
        self.place.answering
    }

    fn deliver(
        &mut self,
        input: usize,
        max: u32,
        processor: &mut P,
        core: &mut Core,
        cx: &mut WorkerCx<'_>,
        mut load: Option<&mut Input>,
    ) -> Delivered {
        let mut all = Delivered::default();
        let mut is_settled = false;
        if const { is_restricted(G::EDGES, M::INFO.to) } {
            core.handling = Some((self.place.index, self.place.edge));
        }
        while !is_settled && all.taken < max && !core.is_paused() {
            let load = load.as_deref_mut();
            let batch = || match &mut self.source {
                Source::Rings(rings) => {
                    let place = &self.place;
                    let ring = &mut rings[input];
                    core.sender = input;
                    loop {
                        let Some(message) = ring.ring.take() else {
                            all.is_empty = true;
                            break;
                        };
                        all.taken += 1;
                        if ring.has_taken() {
                            place.wake_sender(input, cx);
                        }
                        core.invocation += 1;
                        if place.requests.is_some() {
                            core.begin_request(place.edge, cx.now());
                        }
                        if let Some(copy) = const { M::COPY } {
                            self.kept = Some(copy(&message));
                        }
                        core.delivering(Some(place.edge), &message);
                        processor.receive(message, &mut Cx::new(core));
                        if const { M::COPY.is_some() } {
                            drop_kept(&mut self.kept, core);
                        }
                        if let Some(out) = place.requests {
                            core.end_request(out);
                        }
                        if all.taken >= max || core.is_paused() {
                            all.is_empty = ring.ring.is_empty();
                            break;
                        }
                    }
                    if ring.settle() {
                        place.wake_sender(input, cx);
                    }
                }
                _ => self.deliver_otherwise(input, max, processor, core, cx, load, &mut all),
            };
            match contain(batch) {
                Ok(()) => is_settled = true,
                Err(payload) => self.panicked(payload, core),
            }
        }
        if const { is_restricted(G::EDGES, M::INFO.to) } {
            core.handling = None;
        }
        if !is_settled {
            self.settle(input, Some(cx));
            all.is_empty = !self.holds_any(input);
        }
        if let Some(load) = load {
            load.add(u64::from(all.taken));
        }
        all
    }

    fn give_up(&mut self, core: &mut Core, mut cx: Option<&mut WorkerCx<'_>>) -> Delivered {
        let mut all = Delivered::default();
        let inputs = Inlet::<G, P>::inputs(self);
        for input in 0..inputs {
            while let Some(message) = self.take(input, core, cx.as_deref_mut()) {
                all.taken += 1;
                if let Some(message) = message {
                    self.give_up_one(message, core);
                } else {
                    all.waived += 1;
                }
            }
            self.settle(input, cx.as_deref_mut());
        }
        all
    }
}
