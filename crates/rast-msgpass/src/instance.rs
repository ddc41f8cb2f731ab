//! One instance of a processor: a shard of the sharder, and its turns.
//!
//! ```text
//!   on_wake ─► ready: inputs that may have messages, first in, first out
//!                │
//!   turn:  gated? check again ─► ping if due ─► each ready input once:
//!            │                                   chunks of 1, 2, 4, ... messages
//!            ▼                                   │
//!          Idle: the receiver that               ▼ after each chunk
//!          makes room wakes the shard        publish what was sent, wake receivers
//! ```
//!
//! 1. A handler is called only if each bounded edge that it sends on has room for its burst at each
//!    target; otherwise it is *gated*. If the edge of its message has no attribute `sends`, the
//!    handler may send on all edges that leave its processor.
//! 2. A wake-up may contain the number of an input, as a *note*. A turn accesses only the inputs of
//!    such notes, and the outlets to which its handlers sent. It checks all inputs and outlets only
//!    after the shard has moved, or after a wake-up without a note.
//! 3. The number of messages between two publications at most doubles each time. So a message waits
//!    for its publication at most about twice as long as the previous chunk took. If all receivers
//!    are on this worker, no other thread waits for the messages, and the turn publishes once, at
//!    its end. If handlers are slow, it publishes after each message. If handlers may block, it
//!    publishes after each call of a handler, even if the call sent nothing.
//! 4. The inputs of an edge share one batch per turn. Inputs that got no part of it come first in
//!    the next turn.

mod life;
mod rank;
mod turn;

use std::any::Any;

use crate::batch::{Batch, Watch};
use crate::cx::Cx;
use crate::graph::Graph;
use crate::inbox::RING;
use crate::inlet::Inlet;
use crate::instance_core::{Answering, Core};
use crate::load::Load;
use crate::outlet::ROOM;
use crate::own::{OwnSlice, own_slice};
use crate::policy::{Factory, Life};
use crate::primitive::panics::contain;
use crate::process::{Next, Process};
use crate::report::Handler;
use crate::sharder::{Progress, WorkerCx};
use crate::stack::Stack;
use crate::states::State;
use crate::supervision::Panic;
use crate::timers::{Instant, Nanos};

/// A message that takes this long is published at once; a publication costs some tens of
/// nanoseconds.
const SLOW: Nanos = Nanos::from_micros(5);

/// An instance without its processor type.
pub(crate) trait AnyInstance: Send {
    /// Records the note of a wake-up.
    fn on_wake(&mut self, note: Option<u32>);
    /// Runs one turn of the instance.
    fn turn(&mut self, cx: &mut WorkerCx<'_>, load: Option<&mut Load>) -> Progress;
    /// Calls `on_stop`, because the graph has ended.
    fn stop(&mut self);
    /// Gives up all waiting messages.
    fn finish(&mut self);
    /// Removes the processor, if there is one.
    fn take_state(&mut self) -> Option<State>;
    /// Returns the part that a test may change.
    #[cfg(feature = "testing")]
    fn core(&mut self) -> &mut Core;
    /// Returns the processor; `None` while it waits for its restart.
    #[cfg(feature = "testing")]
    fn processor(&self) -> Option<&dyn Any>;
    /// Returns the time of the processor's restart, if it waits for one.
    #[cfg(feature = "testing")]
    fn restarts_at(&self) -> Option<Instant>;
    /// Sets the maximum number of messages of an edge that the next turn handles.
    #[cfg(feature = "testing")]
    fn limit_batch(&mut self, messages: u32);
}

/// An input of an instance.
#[derive(Clone, Copy, Debug)]
struct Input {
    inlet: u32,
    /// Its index in the inlet.
    at: u32,
    /// Whether it is in the list of inputs that may have messages.
    is_ready: bool,
    /// Whether it goes before inputs that are not `high`.
    is_high: bool,
}

/// The state of an input after its part of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Empty, as far as is known.
    Nothing,
    /// It had a share, and may have more.
    Served,
    /// It had no share: there was no room, or its inlet's share was used up.
    Skipped,
}

/// The state of an inlet in a turn of several batches.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// Number of messages taken in this turn.
    taken: u32,
    /// Number of messages that were handled and not counted yet.
    uncounted: u64,
}

/// When a turn publishes what was sent.
#[derive(Clone, Copy, Debug)]
struct Rhythm {
    /// Messages until the next publication.
    left: u32,
    /// Messages of the current chunk.
    chunk: u32,
    /// Whether the last publication woke no other worker.
    is_local: bool,
    is_slow: bool,
    /// Whether each message is published at once: a handler may block.
    is_prompt: bool,
    /// Messages of the turn.
    messages: u32,
}

impl Rhythm {
    /// Returns `true` if one chunk is to be the whole turn.
    #[inline]
    fn is_whole(&self) -> bool {
        self.is_local && !self.is_slow
    }

    /// Starts a turn, of one chunk if it is [whole](Self::is_whole).
    #[inline]
    fn begin(&mut self, is_whole: bool) {
        self.messages = 0;
        self.chunk = match is_whole {
            true => u32::MAX,
            false => 1,
        };
        self.left = self.chunk;
    }

    /// Requests a publication after the next message.
    fn slow_down(&mut self) {
        (self.chunk, self.left) = (1, 1);
    }

    /// Counts messages; returns `true` if a publication is due.
    #[inline]
    fn count(&mut self, messages: u32) -> bool {
        self.messages = self.messages.saturating_add(messages);
        self.left = self.left.saturating_sub(messages);
        if self.left > 0 {
            return false;
        }
        if !self.is_slow {
            self.chunk = self.chunk.saturating_mul(2);
        }
        self.left = self.chunk;
        true
    }

    /// Records the duration of the turn.
    fn measured(&mut self, turn: Nanos) {
        let is_slow = turn.as_nanos() > SLOW.as_nanos() * u64::from(self.messages.max(1));
        self.is_slow = self.is_prompt || is_slow;
    }
}

/// Makes the inputs of inlets, given the number of inputs of each and whether it is `high`, and
/// lists the `high` ones.
fn inputs_of(inlets: &[(usize, bool)]) -> (OwnSlice<Input>, Box<[u32]>) {
    let (mut inputs, mut high) = (Vec::new(), Vec::new());
    for (inlet, &(count, is_high)) in inlets.iter().enumerate() {
        for at in 0..count {
            if is_high {
                high.push(inputs.len() as u32);
            }
            inputs.push(Input {
                inlet: inlet as u32,
                at: at as u32,
                is_ready: false,
                is_high,
            });
        }
    }
    (own_slice(inputs), high.into())
}

/// An instance of processor `P`, on cache lines of its own. [`turn_of_one`](Self::turn_of_one)
/// accesses only the fields up to the first ones of `core`, and the processor.
#[repr(C, align(128))]
pub(crate) struct Instance<G, P> {
    /// Inputs that may have messages; it has room for all.
    ready: Stack,
    inputs: OwnSlice<Input>,
    ins: OwnSlice<Box<dyn Inlet<G, P>>>,
    rhythm: Rhythm,
    /// Whether the last turn left nothing to do except the messages that its notes name: see
    /// [`turn_of_one`](Self::turn_of_one).
    is_calm: bool,
    /// As `is_calm`, except that the processor wants a ping in each turn: see
    /// [`turn_of_ping`](Self::turn_of_ping).
    is_pinging: bool,
    /// Whether the next turn must check everything.
    is_new: bool,
    /// Whether a turn is in progress. The next turn finds it set only if a panic outside a handler
    /// ended the last one.
    is_in_turn: bool,
    /// Whether a processor that returned [`Next::Woken`] is to be pinged.
    is_called: bool,
    /// Whether a receiver may have woken it for room.
    may_have_room: bool,
    /// Whether `on_start` was called and `on_stop` was not.
    has_begun: bool,
    batch: Batch,
    core: Core,
    next: Next,
    /// Per inlet.
    shares: OwnSlice<Share>,
    /// The inputs of `high` edges.
    high: Box<[u32]>,
    /// Inputs that had a share of the current turn; it has room for all.
    served: Stack,
    /// The inlets of the turn; it has room for all.
    touched: Stack,
    watch: Watch,
    /// The number of flushes requested, and done.
    flushes: (u64, u64),
    /// Makes the replacement of the processor.
    factory: Option<Factory<P>>,
    /// `None` while it waits for its restart.
    processor: Option<P>,
}

impl<G: Graph, P: Process<G>> Instance<G, P> {
    /// `inlets`: each is a `Box<dyn Inlet<G, P>>`.
    pub(crate) fn new(
        processor: P,
        inlets: Vec<Box<dyn Any + Send>>,
        core: Core,
        batch: Batch,
        factory: Option<Factory<P>>,
    ) -> Self {
        // Compiled once per processor, so it is short.
        let mut ins = Vec::with_capacity(inlets.len());
        let mut shapes = Vec::with_capacity(inlets.len());
        for inlet in inlets {
            let Ok(inlet) = inlet.downcast::<Box<dyn Inlet<G, P>>>() else {
                unreachable!("an inlet is made for its processor");
            };
            shapes.push((inlet.inputs(), inlet.is_high()));
            ins.push(*inlet);
        }
        let (inputs, high) = inputs_of(&shapes);
        let is_prompt = core.shared.blocking[core.node];
        Self {
            core,
            processor: Some(processor),
            ready: Stack::new(inputs.len()),
            served: Stack::new(inputs.len()),
            inputs,
            high,
            touched: Stack::new(ins.len()),
            shares: own_slice(ins.iter().map(|_| Share::default())),
            ins: own_slice(ins),
            rhythm: Rhythm {
                left: 1,
                chunk: 1,
                is_local: true,
                is_slow: is_prompt,
                is_prompt,
                messages: 0,
            },
            next: Next::Again,
            batch,
            watch: Watch::default(),
            flushes: (0, 0),
            is_calm: false,
            is_pinging: false,
            is_new: true,
            is_in_turn: false,
            is_called: false,
            may_have_room: false,
            has_begun: false,
            factory,
        }
    }

    #[inline]
    fn make_ready(&mut self, input: u32) {
        let entry = &mut self.inputs[input as usize];
        if !entry.is_ready {
            entry.is_ready = true;
            self.ready.push(input);
        }
    }

    /// Makes an input ready whose inbox got something in its ring.
    #[inline(never)]
    fn make_ready_by_ring(&mut self, input: u32) {
        let inlet = self.inputs[input as usize].inlet;
        self.ins[inlet as usize].ask();
        self.make_ready(input);
    }

    /// Clears the lists of a turn.
    #[cold]
    fn forget_turn(&mut self) {
        (self.is_calm, self.is_pinging) = (false, false);
        for list in [&mut self.ready, &mut self.served, &mut self.touched] {
            list.truncate(0);
        }
        self.inputs
            .iter_mut()
            .for_each(|input| input.is_ready = false);
        self.shares.iter_mut().for_each(|share| share.taken = 0);
        self.is_new = true;
    }

    /// Checks all inputs and outlets.
    #[cold]
    fn look_at_all(&mut self) {
        self.is_new = false;
        self.flushes.0 = self.core.stats.flushes_asked.get_after();
        // A dropped token wakes the shard without a note.
        self.core.waive_dropped();
        self.core.look_for_deaths();
        for input in 0..self.inputs.len() as u32 {
            if self.holds_any(input) {
                self.make_ready(input);
            }
        }
    }

    /// Returns `true` if the processor may be pinged: the graph neither drains nor stops.
    #[inline]
    fn may_ping(&self) -> bool {
        !self.core.shared.calm.is_asked() && !self.core.ending.is_stopping()
    }

    /// Returns `true` if a ping is due; `false` while the graph drains or stops.
    #[inline]
    fn is_ping_due(&self, now: Instant) -> bool {
        let is_due = match self.next {
            Next::Again => true,
            Next::Idle | Next::Woken(_) => false,
            Next::At(at) => at <= now,
        };
        let is_due = is_due || self.core.wake_at.is_some_and(|at| at <= now);
        is_due && self.may_ping()
    }

    /// Calls the processor's ping. That answers a request of `Cx::wake_at` for `now` or earlier.
    fn ping(&mut self, now: Instant) {
        self.core.invocation += 1;
        self.core.sender = 0;
        self.core.stats.pings.add(1);
        self.is_called = false;
        self.core.wake_at.take_if(|at| *at <= now);
        let (Some(processor), core) = (&mut self.processor, &mut self.core) else {
            return;
        };
        match contain(|| processor.ping(&mut Cx::new(core))) {
            Ok(next) => self.next = next,
            Err(payload) => {
                self.next = Next::Idle;
                self.core.panicked(Panic::of(Handler::Ping, payload));
            }
        }
    }

    /// Handles the messages of due timers, within one batch. Returns `true` if there were any.
    #[cold]
    fn fire(&mut self, cx: &mut WorkerCx<'_>) -> bool {
        let mut fired = 0;
        while fired < self.batch.messages && !self.core.is_paused() && !self.watch.is_over {
            let (Some(processor), core) = (&mut self.processor, &mut self.core) else {
                break;
            };
            match contain(|| core.fire(processor, cx.now())) {
                Ok(false) => break,
                Ok(true) => {}
                Err(payload) => self.core.panicked(Panic::of(Handler::Timer, payload)),
            }
            fired += 1;
            if self.rhythm.count(1) || self.core.is_gated {
                self.flush(cx);
                if self.batch.time < Nanos::MAX {
                    self.look_at_time(cx);
                }
            }
            if self.must_look() {
                self.look(cx);
            }
        }
        fired > 0
    }

    /// Cancels the timers: their messages are dropped and counted.
    #[cold]
    fn cancel_timers(&mut self) {
        let count = self.core.timers.len();
        self.core.shared.count_cancelled(count);
        loop {
            match contain(|| self.core.timers.drop_one()) {
                Ok(true) => {}
                Ok(false) => break,
                Err(payload) => (self.core.shared).record_fault("a timer's destructor", payload),
            }
        }
    }

    /// When the instance needs a turn without input; none while the graph drains.
    fn next_alarm(&self) -> Option<Instant> {
        match (self.core.timers.next(), self.core.wake_at) {
            (Some(timer), Some(at)) => Some(timer.min(at)),
            (one, other) => one.or(other),
        }
    }

    /// Combines the first timer with the request of the last ping.
    #[inline]
    fn or_alarm(&self, progress: Progress) -> Progress {
        match (progress, self.next_alarm()) {
            (Progress::Idle, Some(at)) => Progress::At(at),
            (Progress::At(other), Some(at)) => Progress::At(at.min(other)),
            (progress, _) => progress,
        }
    }

    fn ping_and_look(&mut self, cx: &mut WorkerCx<'_>) {
        self.ping(cx.now());
        self.publish_early(cx);
    }

    /// Returns `true` if the outlets must be checked for room before the next handler, because one
    /// of them gates, or because the handler may block and one of them keeps messages.
    #[inline]
    fn must_look(&self) -> bool {
        self.core.is_gated || (self.core.keeps && self.rhythm.is_prompt)
    }

    /// Checks the outlets for room, and moves the messages that wait. If handlers may block, these
    /// messages are published before the next handler.
    ///
    /// An answer that waits has room then. Its client returned a slot before the credit, and the
    /// fence of [`Waiting::enter`](crate::waiting::Waiting::enter) makes the slot visible to this
    /// thread.
    fn look(&mut self, cx: &mut WorkerCx<'_>) {
        if self.rhythm.is_prompt {
            self.core.wait(cx);
        }
        self.core.look();
        if self.rhythm.is_prompt {
            self.flush(cx);
        }
    }

    /// Publishes what was sent, and then counts what was handled.
    #[inline]
    fn flush(&mut self, cx: &mut WorkerCx<'_>) {
        if !self.core.written.is_empty() {
            self.rhythm.is_local = !self.core.flush(cx);
        }
        for &inlet in &*self.touched {
            let uncounted = core::mem::take(&mut self.shares[inlet as usize].uncounted);
            self.core.stats.received[inlet as usize].add_after(uncounted);
        }
    }

    /// Returns how many messages of an input may be handled while an outlet gates.
    #[cold]
    fn admitted(&self, input: u32) -> u32 {
        let Input { inlet, at, .. } = self.inputs[input as usize];
        let answering = self.ins[inlet as usize].answering();
        let target = at as usize;
        let answering = answering.map(|out| Answering { out, target });
        self.core.admits(inlet as usize, answering)
    }

    /// Handles messages of one input, at most `limit`.
    fn run_input(
        &mut self,
        input: u32,
        mut limit: u32,
        cx: &mut WorkerCx<'_>,
        load: &mut Option<&mut Load>,
    ) -> Left {
        let Input { inlet, at, .. } = self.inputs[input as usize];
        let (inlet, at) = (inlet as usize, at as usize);
        let mut left = Left::Skipped;
        loop {
            let mut max = self.batch.messages - self.shares[inlet].taken;
            if max == 0 {
                return left;
            }
            max = max.min(self.rhythm.left).min(limit);
            let was_gated = self.core.is_gated;
            if was_gated {
                let admitted = self.admitted(input);
                if admitted == 0 {
                    return left;
                }
                max = max.min(admitted);
                self.core.is_gated = false;
            }
            let load = load.as_deref_mut();
            let inbound = &mut *self.ins[inlet];
            let Some(processor) = &mut self.processor else {
                return left;
            };
            let all = inbound.deliver(at, max, processor, &mut self.core, cx, load);
            let taken = all.taken();
            let share = &mut self.shares[inlet];
            if share.taken == 0 && taken > 0 {
                self.touched.push(inlet as u32);
            }
            share.taken += taken;
            limit -= taken;
            share.uncounted += all.handled();
            if self.rhythm.count(taken) || !self.core.is_running() {
                self.flush(cx);
                if self.batch.time < Nanos::MAX {
                    self.look_at_time(cx);
                }
            }
            left = Left::Served;
            if was_gated {
                // An outlet that gated may still gate.
                self.core.is_gated |= self.core.outs_gate();
            }
            if !self.core.is_running() || self.watch.is_over {
                return left;
            }
            if self.must_look() {
                self.look(cx);
            }
            if all.is_empty {
                return Left::Nothing;
            }
            if taken == 0 || limit == 0 {
                // The graph stops, or other inputs have their turn.
                return left;
            }
        }
    }

    /// Handles the share of each ready input, as far as the shares reach. Inputs that had none stay
    /// ahead of those that had one.
    fn run_inputs(&mut self, cx: &mut WorkerCx<'_>, load: &mut Option<&mut Load>) {
        if !self.high.is_empty() {
            self.run_by_rank(cx, load);
            return;
        }
        let mut skipped = 0;
        let mut is_over = false;
        for at in 0..self.ready.len() {
            let input = self.ready.at(at);
            let left = match is_over {
                true => Left::Skipped,
                false => self.run_input(input, u32::MAX, cx, load),
            };
            is_over = self.watch.is_over;
            skipped = self.put_back(input, left, skipped);
            if !self.core.is_running() {
                // The next turn checks the remaining ones.
                break;
            }
        }
        self.ready.truncate(skipped);
        self.ready.append(&mut self.served);
    }

    /// Records the state of an input after a pass over the ready ones; returns how many were
    /// skipped so far.
    #[inline]
    fn put_back(&mut self, input: u32, left: Left, skipped: usize) -> usize {
        match left {
            Left::Nothing => self.inputs[input as usize].is_ready = false,
            Left::Served => self.served.push(input),
            Left::Skipped => {
                self.ready[skipped] = input;
                return skipped + 1;
            }
        }
        skipped
    }

    /// Ends the batch if its time is over; when most of it is over, checks after each message.
    #[cold]
    fn look_at_time(&mut self, cx: &WorkerCx<'_>) {
        self.watch.look(cx.clock().now(), self.batch.time);
        if self.watch.is_near {
            self.rhythm.slow_down();
        }
    }

    /// Calls `flush` if it was requested and the input is exhausted.
    #[cold]
    fn flush_processor(&mut self) -> bool {
        if self.ready.iter().any(|&input| self.holds_any(input)) {
            return false;
        }
        self.call(Handler::Flush, |processor, cx| processor.flush(cx));
        // The replacement is asked to flush.
        self.core.life != Life::Failed
    }

    /// Records that the requested flush is done and counted.
    #[cold]
    fn has_flushed(&mut self) {
        let (asked, done) = self.flushes;
        self.core.stats.flushes.add_after(asked - done);
        self.flushes.1 = asked;
    }

    /// Ends a turn.
    #[inline]
    fn end(&mut self, cx: &mut WorkerCx<'_>) {
        self.flush(cx);
        while let Some(inlet) = self.touched.pop() {
            self.shares[inlet as usize].taken = 0;
        }
    }
}

impl<G: Graph, P: Process<G>> AnyInstance for Instance<G, P> {
    #[inline]
    fn on_wake(&mut self, note: Option<u32>) {
        match note {
            Some(note) if note & ROOM != 0 => {
                (self.is_calm, self.is_pinging) = (false, false);
                self.may_have_room = true;
            }
            Some(note) if note & RING != 0 => self.make_ready_by_ring(note & !RING),
            Some(input) => self.make_ready(input),
            None => {
                (self.is_calm, self.is_pinging) = (false, false);
                (self.is_new, self.is_called) = (true, true);
                self.may_have_room = true;
            }
        }
    }

    fn turn(&mut self, cx: &mut WorkerCx<'_>, load: Option<&mut Load>) -> Progress {
        self.run_turn(cx, load)
    }

    fn stop(&mut self) {
        self.ended();
    }

    fn finish(&mut self) {
        for (inlet, inbound) in self.ins.iter_mut().enumerate() {
            let given_up = inbound.give_up(&mut self.core, None);
            self.core.stats.received[inlet].add_after(given_up.handled());
        }
        for out in self.core.outs.iter_mut() {
            out.abandon();
        }
        self.cancel_timers();
    }

    fn take_state(&mut self) -> Option<State> {
        Some(Box::new(self.processor.take()?))
    }

    #[cfg(feature = "testing")]
    fn core(&mut self) -> &mut Core {
        (self.is_calm, self.is_pinging) = (false, false);
        &mut self.core
    }

    #[cfg(feature = "testing")]
    fn processor(&self) -> Option<&dyn Any> {
        self.processor.as_ref().map(|processor| processor as _)
    }

    #[cfg(feature = "testing")]
    fn restarts_at(&self) -> Option<Instant> {
        (self.core.life == Life::Down).then_some(self.core.restarts.at)
    }

    #[cfg(feature = "testing")]
    fn limit_batch(&mut self, messages: u32) {
        self.batch.messages = messages;
    }
}
