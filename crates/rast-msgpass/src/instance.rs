//! One instance of a processor: a shard of the sharder, and how it is run.
//!
//! ```text
//!   turn:  refill spills ─► gated? ─► ping if due ─► each inlet, each ring:
//!                             │                        chunks of 1, 2, 4, ...
//!                             ▼                        up to the batch
//!                         Idle: the receiver that          │
//!                         makes room notifies              ▼ after each chunk
//!                                                  announce to receivers,
//!                                                  wake senders that may be gated
//! ```
//!
//! 1. A handler is called only when each bounded edge that leaves has room for
//!    its burst at each target.
//! 2. Between two announcements the number of messages at most doubles, so a
//!    message waits at most about as long as the chunk before it took, and a
//!    long batch costs few fences.
//! 3. The inlet and the ring after those that used the batch up come first in
//!    the next turn: none starves.
//! 4. Only turns that do work are timed: an idle processor that is looked at
//!    often must not seem heavy to the balancer.

use crate::cx::{Answering, Core, Cx};
use crate::egress::{fence_after_taking, fence_before_last_look};
use crate::graph::Graph;
use crate::inlet::Inlet;
use crate::panics::contain;
use crate::process::{Next, Process};
use crate::sharder::{Progress, ShardId, WorkerCx};
use crate::timers::{Instant, MonotonicClock, Nanos, StartFinishTimer, TimerConfig};

/// How instances are run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The most messages of one edge in one turn.
    pub(crate) batch: usize,
}

/// The figures of one instance in one window, for the balancer.
#[derive(Debug)]
pub(crate) struct Load {
    timer: StartFinishTimer<MonotonicClock>,
    /// Per ring of all inlets: messages taken out.
    received: Vec<u64>,
}

impl Load {
    pub(crate) fn new(rings: usize) -> Self {
        Self {
            timer: StartFinishTimer::new(MonotonicClock::new(), TimerConfig::new()),
            received: vec![0; rings],
        }
    }

    pub(crate) fn restart(&mut self) {
        self.timer.reset();
        self.received.fill(0);
    }

    pub(crate) fn busy(&self) -> Nanos {
        self.timer.sum()
    }

    pub(crate) fn received(&self) -> &[u64] {
        &self.received
    }
}

/// An instance whose processor type is not known.
pub(crate) trait AnyInstance: Send {
    /// Takes note of what a waker said.
    fn on_wake(&mut self, note: Option<u32>);
    /// Runs the instance once.
    fn turn(&mut self, cx: &mut WorkerCx<'_>, load: Option<&mut Load>) -> Progress;
    /// Gives up everything that still waits.
    fn finish(&mut self);
}

/// An instance of processor `P`.
pub(crate) struct Instance<G, P> {
    processor: P,
    ins: Vec<Box<dyn Inlet<G, P>>>,
    core: Core,
    settings: Settings,
    next: Next,
    last_ping: Option<Instant>,
    /// Woken without a note since the last ping.
    is_called: bool,
    /// The inlet that comes first, and per inlet the ring that does.
    first: usize,
    first_rings: Vec<usize>,
    /// Whom to wake after a chunk: kept for its memory, which holds all of them.
    wakes: Vec<ShardId>,
}

/// What a turn has found so far.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    worked: bool,
    gated: bool,
    more: bool,
}

impl<G: Graph, P: Process<G>> Instance<G, P> {
    pub(crate) fn new(
        processor: P,
        ins: Vec<Box<dyn Inlet<G, P>>>,
        core: Core,
        settings: Settings,
    ) -> Self {
        // Each receiver once, and each sender.
        let receivers: usize = core.outs.iter().map(|out| out.targets()).sum();
        let senders: usize = ins.iter().map(|inlet| inlet.rings()).sum();
        Self {
            processor,
            first_rings: vec![0; ins.len()],
            ins,
            core,
            settings,
            next: Next::Again,
            last_ping: None,
            is_called: false,
            first: 0,
            wakes: Vec::with_capacity(receivers + senders),
        }
    }

    /// Returns when the next ping is due; `None` while the graph drains.
    fn ping_due(&self) -> Option<Instant> {
        if self.core.shared.calm.is_asked() {
            return None;
        }
        let Some(last) = self.last_ping else {
            return Some(Instant::from_nanos(0));
        };
        match self.next {
            Next::Again => Some(last),
            Next::Idle => None,
            Next::Woken(_) if self.is_called => Some(last),
            Next::At(at) | Next::Woken(at) => Some(at),
        }
    }

    fn has_input(&self) -> bool {
        self.ins
            .iter()
            .any(|inlet| (0..inlet.rings()).any(|ring| inlet.has_any(ring)))
    }

    fn ping(&mut self, now: Instant) {
        self.core.invocation += 1;
        self.core.sender = 0;
        self.core.stats().pings.add(1);
        self.last_ping = Some(now);
        self.is_called = false;
        let (processor, core) = (&mut self.processor, &mut self.core);
        match contain(|| processor.ping(&mut Cx::new(core))) {
            Ok(next) => self.next = next,
            Err(payload) => {
                self.next = Next::Idle;
                self.core.panicked(None, payload);
            }
        }
    }

    /// Announces what was sent, and wakes senders that may stand gated.
    /// Returns whether something was sent within the graph.
    fn wake(&mut self, cx: &mut WorkerCx<'_>) -> bool {
        let mut sent = false;
        let wakes = &mut self.wakes;
        wakes.clear();
        for out in &mut self.core.outs {
            let announced = contain(|| {
                out.announce(&mut |shard| {
                    sent = true;
                    wakes.push(shard);
                });
            });
            if let Err(payload) = announced {
                // A waker of a lane. The other receivers are told all the same.
                self.core.shared.record_fault("a waker", payload);
            }
        }
        if self.ins.iter().any(|inlet| inlet.took()) {
            fence_after_taking();
            for inlet in &mut self.ins {
                inlet.freed(&mut |shard| wakes.push(shard));
            }
        }
        for shard in wakes.drain(..) {
            cx.wake(shard, 0);
        }
        sent
    }

    /// Handles what waits at one inlet, up to the batch.
    fn drain_inlet(
        &mut self,
        at: usize,
        base: usize,
        cx: &mut WorkerCx<'_>,
        load: &mut Option<&mut Load>,
        found: &mut Found,
    ) {
        let rings = self.ins[at].rings();
        let first = self.first_rings[at];
        let mut left = self.settings.batch;
        for step in 0..rings {
            let ring = (first + step) % rings;
            let mut chunk = 1;
            while self.ins[at].has_any(ring) {
                if left == 0 {
                    found.more = true;
                    self.first_rings[at] = (ring + 1) % rings;
                    return;
                }
                let inlet = &mut self.ins[at];
                let out = inlet.answering();
                let allow = self
                    .core
                    .allow(out.map(|out| Answering { out, target: ring }));
                if allow == 0 {
                    found.gated = true;
                    break;
                }
                let max = chunk.min(allow).min(left);
                let taken = inlet.deliver(ring, max, &mut self.processor, &mut self.core);
                if let Some(load) = load {
                    load.received[base + ring] += taken as u64;
                }
                left -= taken;
                // Messages that come one by one make many rounds: the chunk must not overflow.
                chunk = chunk.saturating_mul(2);
                found.worked = true;
                self.wake(cx);
                if self.core.retired || taken == 0 {
                    return;
                }
            }
        }
    }

    fn drain_inlets(
        &mut self,
        cx: &mut WorkerCx<'_>,
        load: &mut Option<&mut Load>,
        found: &mut Found,
    ) {
        let count = self.ins.len();
        for step in 0..count {
            if self.core.retired {
                return;
            }
            let at = (self.first + step) % count;
            let base = self.ins[..at].iter().map(|inlet| inlet.rings()).sum();
            self.drain_inlet(at, base, cx, load, found);
        }
        if count > 0 {
            self.first = (self.first + 1) % count;
        }
    }

    /// Pings if asked to, handles what waits, and measures it.
    fn run(
        &mut self,
        pings: bool,
        now: Instant,
        cx: &mut WorkerCx<'_>,
        load: &mut Option<&mut Load>,
        found: &mut Found,
    ) {
        let before = load.as_ref().map(|load| load.timer.sum());
        if let Some(load) = load {
            load.timer.start(cx.tick());
        }
        let comes_first = pings && !matches!(self.next, Next::Woken(_));
        if comes_first {
            self.ping(now);
            // What it sent to a processor of this worker wants a turn soon.
            found.worked = self.wake(cx) || self.next == Next::Again;
        }
        self.drain_inlets(cx, load, found);
        if matches!(self.next, Next::Woken(_))
            && (found.worked || self.is_called || (pings && !comes_first))
            && !self.core.retired
            && !self.core.shared.calm.is_asked()
        {
            if self.core.allow(None) > 0 {
                self.ping(now);
                self.wake(cx);
            } else {
                // There is a ping once there is room.
                self.is_called = true;
                found.gated = true;
            }
        }
        if let (Some(load), Some(before)) = (load, before) {
            load.timer.finish(cx.tick());
            let busy = load.timer.sum().saturating_sub(before);
            self.core.stats().busy_ns.add(busy.as_nanos());
        }
        self.core.stats().turns.add(1);
    }

    /// Tells whether answers wait that may be handled though the processor has
    /// no credit left: handling them is what brings it back.
    fn has_answer_to_handle(&self) -> bool {
        self.ins.iter().any(|inlet| {
            inlet.answering().is_some_and(|out| {
                (0..inlet.rings()).any(|target| {
                    let answering = Some(Answering { out, target });
                    inlet.has_any(target) && !self.core.is_gated(answering)
                })
            })
        })
    }

    /// Gives up what waits, and the answers it owes: it is retired and must hold
    /// nobody up. Returns whether there was anything.
    fn give_up(&mut self, cx: &mut WorkerCx<'_>) -> bool {
        let mut any = false;
        for inlet in &mut self.ins {
            any |= inlet.give_up(&mut self.core) > 0;
        }
        for out in &mut self.core.outs {
            any |= out.waive_all();
        }
        self.wake(cx);
        any
    }

    /// Says when the next turn is wanted.
    fn progress(&self, found: Found) -> Progress {
        if found.worked || found.more || self.core.retired {
            return Progress::Again;
        }
        if found.gated || self.core.outs.iter().any(|out| out.has_spilled()) {
            // A receiver that makes room wakes this shard, if it sees that the shard may wait.
            fence_before_last_look();
            let gets_on = self.core.outs.iter().any(|out| out.can_refill())
                || (found.gated && (!self.core.is_gated(None) || self.has_answer_to_handle()));
            if gets_on {
                return Progress::Again;
            }
            if found.gated {
                return Progress::Idle;
            }
        }
        match self.ping_due() {
            Some(due) => Progress::At(due),
            None => Progress::Idle,
        }
    }
}

impl<G: Graph, P: Process<G>> AnyInstance for Instance<G, P> {
    fn on_wake(&mut self, note: Option<u32>) {
        self.is_called |= note.is_none();
    }

    fn turn(&mut self, cx: &mut WorkerCx<'_>, mut load: Option<&mut Load>) -> Progress {
        for out in &mut self.core.outs {
            out.refill();
        }
        if self.core.retired {
            return match self.give_up(cx) {
                true => Progress::Again,
                false => Progress::Idle,
            };
        }
        let now = cx.now();
        let mut found = Found::default();
        let pings = self.ping_due().is_some_and(|due| due <= now);
        if pings || self.has_input() {
            found.gated = self.core.allow(None) == 0;
            if !found.gated || self.has_answer_to_handle() {
                self.run(pings && !found.gated, now, cx, &mut load, &mut found);
            }
            if found.gated {
                self.core.stats().gated.add(1);
            }
        }
        // What was refilled above is announced too.
        found.worked |= self.wake(cx);
        if core::mem::take(&mut self.core.stop) {
            cx.stop();
        }
        self.progress(found)
    }

    fn finish(&mut self) {
        for inlet in &mut self.ins {
            inlet.give_up(&mut self.core);
        }
        for out in &mut self.core.outs {
            out.abandon();
        }
    }
}
