//! The receiving half of an edge, as one instance of its receiver owns it.
//!
//! It knows the types of the sender and of the message. So one dynamic call delivers a whole chunk
//! of a turn's batch, and the handler of each message is called directly.
//!
//! A message is taken out before its handler runs. Slots are released after each quarter of the
//! capacity and at the end of the chunk: see [`Pace`]. If handlers may block, each slot is released
//! at once. If a handler panics, its message is lost. If the processor continues after the panic,
//! the chunk continues with the next message. A measured message is the last of its chunk, so its
//! measurement ends when the chunk ends.

use core::any::Any;
use core::marker::PhantomData;

use crate::buffer::Buffer;
use crate::cx::Cx;
use crate::door::Door;
use crate::graph::{Edge, Graph, Node};
use crate::inbox::Receiver;
use crate::instance_core::Core;
use crate::load::{self, Load};
use crate::outlet::ROOM;
use crate::own::OwnVec;
use crate::primitive::panics::contain;
use crate::primitive::sync::Arc;
use crate::process::Receive;
use crate::queue::spsc::Consumer;
use crate::report::Handler;
use crate::sampling::{self, Arrivals, MARKED, Marks, UNMEASURED};
use crate::sends::{OfEdge, OfEnd};
use crate::sharder::{ShardId, WorkerCx};
use crate::supervision::Panic;
use crate::waiting::{Pace, Waiting};

/// An inlet of processor `P` whose sender and message are not known.
pub(crate) trait Inlet<G: Graph, P>: Send {
    /// Returns how many inputs there are: one per instance of the sender, if
    /// each has a ring.
    fn inputs(&self) -> usize;
    /// Looks whether something is in an input.
    fn has_any(&self, input: usize) -> bool;
    /// Has its inbox look into its ring, because a wake-up had the bit
    /// [`RING`](crate::inbox::RING).
    fn ask(&self);
    /// Returns whether its messages go before those of other inlets.
    fn is_high(&self) -> bool;
    /// Returns the outlet of the requests that this inlet has the answers to.
    fn answering(&self) -> Option<usize>;
    /// Handles up to `max` messages of an input.
    fn deliver(
        &mut self,
        input: usize,
        max: u32,
        processor: &mut P,
        core: &mut Core,
        cx: &mut WorkerCx<'_>,
        load: Option<&mut Load>,
    ) -> Delivered;
    /// Takes out all there is and gives it up, without a worker at the end.
    fn give_up(&mut self, core: &mut Core, cx: Option<&mut WorkerCx<'_>>) -> Delivered;
}

/// The result of a batch. It fits in two registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivered {
    /// Messages and waivers taken out, in the lower half. In the upper half those of them that were
    /// waivers: the others were handled, given up, or lost to a panic.
    counts: u64,
    /// The input is empty: the sender of the next message wakes the instance when it has published
    /// it.
    pub(crate) is_empty: bool,
}

impl Delivered {
    /// Counts a message or a waiver.
    #[inline]
    fn take(&mut self) {
        self.counts += 1;
    }

    /// Counts the one that was taken last as a waiver.
    #[inline]
    fn waive(&mut self) {
        self.counts += 1 << u32::BITS;
    }

    /// Returns the number of messages and waivers.
    #[inline]
    pub(crate) fn taken(self) -> u32 {
        self.counts as u32
    }

    /// Returns the number of messages.
    #[inline]
    pub(crate) fn handled(self) -> u64 {
        u64::from(self.taken()) - (self.counts >> u32::BITS)
    }
}

/// Where an inlet takes its messages from.
pub(crate) enum Source<M> {
    Rings(OwnVec<Ring<M>>),
    Inbox(Receiver<M>),
    /// `None` gives back the credit of a request that got no answer.
    AnswerRings(OwnVec<Consumer<Option<M>>>),
    AnswerInbox(Receiver<Option<M>>),
    Door(Arc<Door<M>>, Pace),
    /// Of an edge that drops the oldest, or with a bound in bytes.
    Buffers(Vec<Arc<Buffer<M>>>),
}

/// How an inlet learns which messages are measured. Those of doors and buffers say it themselves.
#[derive(Default)]
pub(crate) struct Measured {
    /// Per ring.
    pub(crate) arrivals: Vec<Arrivals>,
    /// The marks of every inbox of the edge, and the number of this one.
    pub(crate) marks: Option<(Arc<Box<[Marks]>>, usize)>,
}

/// A message that is measured.
#[derive(Clone, Copy, Debug)]
struct Timing {
    sent: u64,
    /// When its handler was called.
    called: u64,
}

impl Timing {
    /// Begins to measure a message whose handler is called next, if it is to be measured.
    #[inline]
    fn begin(sent: u64, core: &Core) -> Option<Self> {
        (sent != UNMEASURED).then(|| Self {
            sent,
            called: sampling::now(&core.shared.clock),
        })
    }

    /// The handler has returned, or panicked.
    #[cold]
    fn end(self, index: usize, core: &Core) {
        if let Some(times) = &core.stats.times {
            let now = sampling::now(&core.shared.clock);
            times.waiting[index].record(self.called.saturating_sub(self.sent));
            times.handling.record(now.saturating_sub(self.called));
        }
    }
}

/// The receiver's end of one ring, on one cache line.
#[repr(align(64))]
pub(crate) struct Ring<M> {
    pub(crate) ring: Consumer<M>,
    pub(crate) pace: Pace,
}

const _: () = assert!(size_of::<Ring<u64>>() == 64);

impl<M> Ring<M> {
    /// Counts a taken message. Returns `true` if its slot and the held ones were released and the
    /// sender must be woken.
    #[inline]
    fn has_taken(&mut self) -> bool {
        self.pace.take() && self.release()
    }

    /// Returns the held slots to the sender, at the end of a batch; returns `true` if it must be
    /// woken.
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

/// The part of the receiving half of an edge that depends only on the message's type. It is
/// compiled once for all edges with that message. Most batches access only the first cache line.
#[repr(C)]
pub(crate) struct Intake<M> {
    source: Source<M>,
    /// The number of its first input among those of the instance.
    first_input: u32,
    /// Whether `measured` has anything.
    is_measured: bool,
    /// Of the message in hand, if it is measured.
    timing: Option<Timing>,
    place: Place,
    /// On an edge that is marked `keep`: a clone of the message in hand.
    kept: Option<M>,
    measured: Measured,
}

#[cfg(not(rast_loom))]
const _: () = assert!(
    core::mem::offset_of!(Intake<u64>, timing) < 64,
    "most batches access one line of the inlet"
);

/// The receiving half of one edge, on cache lines of its own.
#[repr(align(128))]
pub(crate) struct In<G, F, M> {
    intake: Intake<M>,
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
    /// The number of its first input among those of the instance.
    pub(crate) first_input: usize,
}

impl Place {
    /// Wakes the senders that wait here, and misses none.
    #[inline]
    fn wake_senders(&self, cx: Option<&mut WorkerCx<'_>>) {
        self.wake_some(|| usize::MAX, cx);
    }

    /// Wakes senders that wait here, if any do: the first ones, at most `most`.
    #[inline]
    fn wake_some(&self, most: impl FnOnce() -> usize, cx: Option<&mut WorkerCx<'_>>) {
        if let Some(cx) = cx
            && self.waiting.has_any(self.receiver, true)
        {
            self.wake(most(), cx);
        }
    }

    /// As `wake_senders`, if only one sender may wait. If that sender is on this worker, no fence
    /// is needed.
    #[inline(never)]
    fn wake_sender(&self, sender: usize, cx: &mut WorkerCx<'_>) {
        let is_local = cx.is_local(ShardId::from_index(self.first + sender));
        if self.waiting.has_any(self.receiver, !is_local) {
            self.wake(usize::MAX, cx);
        }
    }

    #[cold]
    fn wake(&self, most: usize, cx: &mut WorkerCx<'_>) {
        self.waiting.wake(self.receiver, most, |sender| {
            let shard = ShardId::from_index(self.first + sender);
            cx.wake(shard, ROOM | self.outlet as u32);
        });
    }
}

impl<M: Send + 'static> Intake<M> {
    pub(crate) fn new(place: Place, source: Source<M>, measured: Measured) -> Self {
        Self {
            source,
            first_input: u32::try_from(place.first_input).expect("a processor has fewer inputs"),
            is_measured: !measured.arrivals.is_empty() || measured.marks.is_some(),
            timing: None,
            place,
            kept: None,
            measured,
        }
    }

    /// Returns `true` if the senders share an inbox.
    #[inline]
    fn is_shared(&self) -> bool {
        matches!(self.source, Source::Inbox(_) | Source::AnswerInbox(_))
    }

    /// Limits a batch of a ring to the messages before the next one that is measured. If that one
    /// is the next, it is the batch, and its measurement begins.
    #[inline]
    fn limit(&mut self, input: usize, max: &mut u32, core: &Core) {
        if self.is_measured && !self.measured.arrivals.is_empty() {
            self.limit_measured(input, max, core);
        }
    }

    #[inline(never)]
    fn limit_measured(&mut self, input: usize, max: &mut u32, core: &Core) {
        let arrivals = &mut self.measured.arrivals[input];
        let mut most = *max as usize;
        let sent = match &self.source {
            Source::Rings(rings) => arrivals.next(&rings[input].ring, &mut most),
            Source::AnswerRings(rings) => arrivals.next(&rings[input], &mut most),
            _ => None,
        };
        *max = most as u32;
        self.timing = Timing::begin(sent.unwrap_or(UNMEASURED), core);
    }

    /// Ends the measurement of the message in hand, if it is measured.
    #[inline]
    fn end_timing(&mut self, core: &Core) {
        if let Some(timing) = self.timing {
            self.timing = None;
            timing.end(self.place.index, core);
        }
    }

    /// Returns the sender of a message by its tag in an inbox, and begins its measurement if it is
    /// marked.
    #[inline]
    fn read_tag(measured: &Measured, timing: &mut Option<Timing>, tag: u32, core: &Core) -> usize {
        if tag & MARKED == 0 {
            return tag as usize;
        }
        let sender = tag & !MARKED;
        if let Some((marks, inbox)) = &measured.marks {
            *timing = Timing::begin(marks[*inbox].take(sender), core);
        }
        sender as usize
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
            Source::Inbox(inbox) => {
                let (tag, message, wakes) = inbox.take()?;
                core.sender = Self::read_tag(&self.measured, &mut self.timing, tag, core);
                if wakes {
                    place.wake_some(|| inbox.to_wake(), cx);
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
            Source::AnswerInbox(inbox) => {
                let (tag, answer, wakes) = inbox.take()?;
                let sender = Self::read_tag(&self.measured, &mut self.timing, tag, core);
                core.sender = sender;
                if wakes {
                    place.wake_senders(cx);
                }
                Some(core.answered(place.answering, sender, answer))
            }
            Source::Door(door, pace) => {
                let (message, sent) = door.take()?;
                self.timing = Timing::begin(sent, core);
                core.stats.entered[place.index].add(1);
                core.sender = 0;
                if pace.take() {
                    door.release(pace.give());
                }
                Some(Some(message))
            }
            Source::Buffers(buffers) => {
                let (message, sent, wakes) = buffers[input].take()?;
                self.timing = Timing::begin(sent, core);
                core.sender = input;
                if wakes {
                    place.wake_senders(cx);
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
            Source::Inbox(inbox) => {
                if inbox.settle() {
                    place.wake_some(|| inbox.to_wake(), cx);
                }
            }
            Source::AnswerInbox(inbox) => {
                if inbox.settle() {
                    place.wake_senders(cx);
                }
            }
            Source::AnswerRings(_) | Source::Buffers(_) => {}
            Source::Door(door, pace) => {
                if pace.holds() {
                    door.release(pace.give());
                }
            }
        }
    }

    /// A handler panicked: its message is lost, and no thread waits for the answer.
    #[cold]
    fn panicked(&mut self, payload: Box<dyn Any + Send>, core: &mut Core) {
        self.end_timing(core);
        let edge = self.place.edge;
        let message = self.kept.take().map(|message| Box::new(message) as _);
        core.shared.count_in_hand(edge);
        core.panicked(Panic {
            handler: Handler::Message,
            payload,
            edge: Some(edge),
            message,
        });
        if let Some(out) = self.place.requests {
            core.end_request(out);
        }
    }

    /// Returns how many inputs there are.
    fn len(&self) -> usize {
        match &self.source {
            Source::Rings(rings) => rings.len(),
            Source::AnswerRings(rings) => rings.len(),
            Source::Buffers(buffers) => buffers.len(),
            Source::Inbox(..) | Source::AnswerInbox(..) | Source::Door(..) => 1,
        }
    }

    /// Has an inbox look into its ring.
    fn ask(&self) {
        match &self.source {
            Source::Inbox(inbox) => inbox.ask(),
            Source::AnswerInbox(inbox) => inbox.ask(),
            _ => {}
        }
    }

    /// Returns whether something is in an input, except messages of an inbox whose senders will
    /// wake the instance.
    fn holds_any(&self, input: usize) -> bool {
        match &self.source {
            Source::Rings(rings) => !rings[input].ring.is_empty(),
            Source::AnswerRings(rings) => !rings[input].is_empty(),
            Source::Inbox(inbox) => !inbox.is_empty(),
            Source::AnswerInbox(inbox) => !inbox.is_empty(),
            Source::Door(door, _) => !door.is_empty(),
            Source::Buffers(buffers) => !buffers[input].is_empty(),
        }
    }

    /// Takes all there is and gives it up, without a worker at the end.
    fn give_up(&mut self, core: &mut Core, mut cx: Option<&mut WorkerCx<'_>>) -> Delivered {
        let mut all = Delivered::default();
        self.ask();
        for input in 0..self.len() {
            while let Some(message) = self.take(input, core, cx.as_deref_mut()) {
                self.timing = None;
                all.take();
                if let Some(message) = message {
                    self.give_up_one(message, core);
                } else {
                    all.waive();
                }
            }
            self.settle(input, cx.as_deref_mut());
        }
        all
    }

    #[cold]
    fn give_up_one(&self, message: M, core: &mut Core) {
        core.shared.give_up(self.place.edge, message);
        if let Some(out) = self.place.requests {
            core.waive(out);
        }
    }
}

impl<G: Graph, F, M: Send + 'static> In<G, F, M> {
    pub(crate) fn new(intake: Intake<M>) -> Self {
        Self {
            intake,
            types: PhantomData,
        }
    }

    /// Calls the handler of a message. Without optimisation it is compiled once per edge, not once
    /// per loop that calls it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn handle<P: Receive<G, F, M>>(
        message: M,
        kept: &mut Option<M>,
        place: &Place,
        processor: &mut P,
        core: &mut Core,
        cx: &WorkerCx<'_>,
    ) where
        G: Node<F> + Node<P>,
        M: Edge<G, F, P>,
    {
        core.invocation += 1;
        if const { OfEdge::<G, F, P, M>::IS_REQUEST } {
            core.begin_request(place.edge, cx.now());
        }
        if let Some(copy) = const { <M as Edge<G, F, P>>::COPY } {
            *kept = Some(copy(&message));
        }
        core.delivering(Some(place.edge), &message);
        processor.receive(message, &mut Cx::new(core));
        if const { <M as Edge<G, F, P>>::COPY.is_some() } {
            drop_kept(kept, core);
        }
        if const { OfEdge::<G, F, P, M>::IS_REQUEST }
            && let Some(out) = place.requests
        {
            core.end_request(out);
        }
    }

    /// Handles messages that come by another way than rings.
    #[expect(clippy::too_many_arguments, reason = "those of `deliver`")]
    fn deliver_otherwise<P: Receive<G, F, M>>(
        &mut self,
        input: usize,
        mut max: u32,
        processor: &mut P,
        core: &mut Core,
        cx: &mut WorkerCx<'_>,
        mut load: Option<&mut Load>,
        all: &mut Delivered,
    ) where
        G: Node<F> + Node<P>,
        M: Edge<G, F, P>,
    {
        let intake = &mut self.intake;
        if !intake.is_shared() {
            load = None;
        }
        loop {
            let taken = match &mut intake.source {
                // Most often, so without a call.
                Source::Inbox(inbox) if !intake.is_measured => {
                    inbox.take().map(|(sender, message, wakes)| {
                        core.sender = sender as usize;
                        if wakes {
                            intake.place.wake_some(|| inbox.to_wake(), Some(cx));
                        }
                        Some(message)
                    })
                }
                _ => intake.take(input, core, Some(cx)),
            };
            let Some(message) = taken else {
                all.is_empty = true;
                break;
            };
            all.take();
            if let Some(load) = &mut load
                && load::is_counted(core.invocation)
            {
                load.inputs[intake.first_input as usize].add_from(core.sender as u32);
            }
            if intake.timing.is_some() {
                max = all.taken();
            }
            match message {
                None => {
                    all.waive();
                    intake.timing = None;
                }
                Some(message) => {
                    let kept = &mut intake.kept;
                    Self::handle(message, kept, &intake.place, processor, core, cx);
                }
            }
            if all.taken() >= max || core.is_paused() {
                all.is_empty = !intake.holds_any(input);
                break;
            }
        }
        intake.settle(input, Some(cx));
        if let Source::AnswerRings(rings) = &intake.source {
            cx.expect_at(rings[input].next_writes());
        }
    }
}

/// Drops the clone of a message whose handler has returned.
fn drop_kept<M>(kept: &mut Option<M>, core: &Core) {
    let kept = kept.take();
    let shared = &core.shared;
    shared.contained("the destructor of a kept message", || drop(kept));
}

/// An inlet without its message type, for a test that receives in place of a processor.
#[cfg(feature = "testing")]
pub(crate) trait Tap: Send {
    /// Returns the number of its edge.
    fn edge(&self) -> usize;
    /// Returns the outlet of the answers, if the inlet has requests.
    fn requests(&self) -> Option<usize>;
    /// Returns the number of inputs.
    fn inputs(&self) -> usize;
    /// Takes the next message of an input; `Some(None)` is a waiver.
    fn take(&mut self, input: usize, core: &mut Core, cx: &mut WorkerCx<'_>) -> Option<Tapped>;
    /// Returns the slots of what was taken.
    fn settle(&mut self, input: usize, cx: &mut WorkerCx<'_>);
    /// As [`Inbound::give_up`], at the end.
    fn give_up(&mut self, core: &mut Core) -> Delivered;
}

/// A message, or a waiver.
#[cfg(feature = "testing")]
pub(crate) type Tapped = Option<Box<dyn Any + Send>>;

#[cfg(feature = "testing")]
impl<M: Send + 'static> Tap for Intake<M> {
    fn edge(&self) -> usize {
        self.place.edge
    }

    fn requests(&self) -> Option<usize> {
        self.place.requests
    }

    fn inputs(&self) -> usize {
        self.len()
    }

    fn take(&mut self, input: usize, core: &mut Core, cx: &mut WorkerCx<'_>) -> Option<Tapped> {
        self.ask();
        let message = Intake::take(self, input, core, Some(cx))?;
        self.timing = None;
        Some(message.map(|message| Box::new(message) as Box<dyn Any + Send>))
    }

    fn settle(&mut self, input: usize, cx: &mut WorkerCx<'_>) {
        Intake::settle(self, input, Some(cx));
    }

    fn give_up(&mut self, core: &mut Core) -> Delivered {
        Intake::give_up(self, core, None)
    }
}

/// A message, a waiver, or nothing.
type Taken<M> = Option<Option<M>>;

impl<G, F, M, P> Inlet<G, P> for In<G, F, M>
where
    G: Node<F> + Node<P>,
    M: Edge<G, F, P>,
    P: Receive<G, F, M>,
{
    fn inputs(&self) -> usize {
        self.intake.len()
    }

    fn has_any(&self, input: usize) -> bool {
        self.intake.ask();
        self.intake.holds_any(input)
    }

    fn ask(&self) {
        self.intake.ask();
    }

    fn is_high(&self) -> bool {
        const { M::INFO.high }
    }

    fn answering(&self) -> Option<usize> {
        self.intake.place.answering
    }

    fn deliver(
        &mut self,
        input: usize,
        mut max: u32,
        processor: &mut P,
        core: &mut Core,
        cx: &mut WorkerCx<'_>,
        mut load: Option<&mut Load>,
    ) -> Delivered {
        self.intake.limit(input, &mut max, core);
        let mut all = Delivered::default();
        if max == 0 || core.is_paused() {
            all.is_empty = !self.intake.holds_any(input);
            return all;
        }
        if const { OfEnd::<G, P>::IS_RESTRICTED } {
            core.handling = Some((self.intake.place.index, self.intake.place.edge));
        }
        while let Err(payload) = contain(|| match &mut self.intake.source {
            Source::Rings(rings) => {
                let place = &self.intake.place;
                let ring = &mut rings[input];
                core.sender = input;
                // Once per batch, so that the sender keeps the line of its index while it sends
                // more. A message that this load does not show is published later, and its sender
                // wakes the instance after that.
                ring.ring.len();
                loop {
                    let Some(message) = ring.ring.take() else {
                        all.is_empty = true;
                        break;
                    };
                    all.take();
                    if ring.has_taken() {
                        place.wake_sender(input, cx);
                    }
                    let kept = &mut self.intake.kept;
                    Self::handle(message, kept, place, processor, core, cx);
                    // An empty ring is most often the reason to end.
                    all.is_empty = !ring.ring.has_seen_item();
                    if all.is_empty || all.taken() >= max || core.is_paused() {
                        break;
                    }
                }
                if ring.settle() {
                    place.wake_sender(input, cx);
                }
                cx.expect_at(ring.ring.next_writes());
            }
            _ => {
                let load = load.as_deref_mut();
                self.deliver_otherwise(input, max, processor, core, cx, load, &mut all);
            }
        }) {
            self.intake.panicked(payload, core);
            if all.taken() >= max || core.is_paused() {
                self.intake.settle(input, Some(cx));
                all.is_empty = !self.intake.holds_any(input);
                break;
            }
        }
        self.intake.end_timing(core);
        if const { OfEnd::<G, P>::IS_RESTRICTED } {
            core.handling = None;
        }
        if let Some(load) = load
            && !self.intake.is_shared()
        {
            let number = self.intake.first_input as usize + input;
            load.inputs[number].add(u64::from(all.taken()));
        }
        all
    }

    fn give_up(&mut self, core: &mut Core, cx: Option<&mut WorkerCx<'_>>) -> Delivered {
        self.intake.give_up(core, cx)
    }
}
