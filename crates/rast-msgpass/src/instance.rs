//! One instance of a processor: a shard of the sharder, and how it is run.
//!
//! ```text
//!   on_wake ─► ready: inputs that may hold something, first come first served
//!                │
//!   turn:  gated? look again ─► ping if due ─► each ready input once:
//!            │                                   chunks of 1, 2, 4, ... messages
//!            ▼                                   │
//!          Idle: the receiver that               ▼ after each chunk
//!          makes room wakes the shard        publish what was sent, wake receivers
//! ```
//!
//! 1. A handler is called only when no bounded edge that it sends on gates: each
//!    has room for its burst at each target. Without `sends` these are all that leave.
//! 2. A turn touches the inputs that got a note, and the outlets that were
//!    written. It looks at all of them only when the shard has changed hands,
//!    or was woken by a thread that is no worker.
//! 3. Between two announcements the number of messages at most doubles, so a
//!    message waits at most about as long as the chunk before it took. Where all
//!    receivers are on this worker, nobody waits: there is one announcement, at
//!    the end of the turn. Where handlers are slow, there is one per message.
//! 4. The inputs of an edge share one batch of a turn. Those that got nothing of it
//!    stay ahead of those that did, and come first in the next turn.
//! 5. Only turns that do work are timed: an idle processor that is looked at
//!    often must not seem heavy to the balancer.

use std::collections::VecDeque;

use crate::cx::{Answering, Core, Cx};
use crate::graph::Graph;
use crate::inlet::{Delivered, Inlet};
use crate::load::Load;
use crate::outlet::ROOM;
use crate::panics::contain;
use crate::process::{Next, Process};
use crate::sharder::{Progress, WorkerCx};
use crate::timers::{Instant, Nanos};

/// How instances are run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The most messages of one edge in one turn.
    pub(crate) batch: usize,
}

/// A message that takes this long is announced at once: that costs some tens
/// of nanoseconds.
const SLOW: Nanos = Nanos::from_micros(5);

/// An instance whose processor type is not known.
pub(crate) trait AnyInstance: Send {
    /// Takes note of what a waker said.
    fn on_wake(&mut self, note: Option<u32>);
    /// Runs the instance once.
    fn turn(&mut self, cx: &mut WorkerCx<'_>, load: Option<&mut Load>) -> Progress;
    /// Gives up everything that still waits.
    fn finish(&mut self);
}

/// An input of an instance.
#[derive(Clone, Copy, Debug)]
struct Input {
    inlet: u32,
    /// Its number in the inlet.
    at: u32,
    /// It is in the list of those that may hold something.
    is_ready: bool,
}

/// What a turn left of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Nothing, as far as was seen.
    Nothing,
    /// It had a share, and may hold more.
    Served,
    /// It had no share: there was no room, or its inlet had none left.
    Skipped,
}

/// The state of an inlet in the turn.
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    /// Taken in this turn.
    taken: usize,
    /// Handled and not counted yet.
    uncounted: u64,
}

/// How often what was sent is announced within a turn.
#[derive(Clone, Copy, Debug)]
struct Rhythm {
    /// Messages until the next announcement.
    left: usize,
    /// Messages of a chunk.
    chunk: usize,
    /// The last announcement told no other worker.
    is_local: bool,
    is_slow: bool,
    /// The worker's time at an earlier turn, and the messages since.
    since: Instant,
    messages: u64,
}

impl Rhythm {
    /// Begins a turn.
    #[inline]
    fn begin(&mut self, now: Instant) {
        if now != self.since {
            let spent = now.saturating_since(self.since);
            self.is_slow = spent.as_nanos() > SLOW.as_nanos() * self.messages.max(1);
            self.since = now;
            self.messages = 0;
        }
        self.chunk = match self.is_local && !self.is_slow {
            true => usize::MAX,
            false => 1,
        };
        self.left = self.chunk;
    }

    /// Counts messages; returns whether an announcement is due.
    #[inline]
    fn count(&mut self, messages: usize) -> bool {
        self.messages += messages as u64;
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
}

/// An instance of processor `P`.
pub(crate) struct Instance<G, P> {
    core: Core,
    processor: P,
    ins: Box<[Box<dyn Inlet<G, P>>]>,
    inputs: Box<[Input]>,
    /// Inputs that may hold something; it has room for all.
    ready: VecDeque<u32>,
    /// Inputs that had a share of the turn under way; it has room for all.
    served: Vec<u32>,
    budgets: Box<[Budget]>,
    /// The inlets of the turn; it has room for all.
    touched: Vec<u32>,
    rhythm: Rhythm,
    next: Next,
    settings: Settings,
    /// Look at everything.
    is_new: bool,
    /// What asked for [`Next::Woken`] is to be pinged.
    is_called: bool,
}

impl<G: Graph, P: Process<G>> Instance<G, P> {
    pub(crate) fn new(
        processor: P,
        ins: Vec<Box<dyn Inlet<G, P>>>,
        core: Core,
        settings: Settings,
    ) -> Self {
        let inputs: Box<[Input]> = ins
            .iter()
            .enumerate()
            .flat_map(|(inlet, ins)| (0..ins.inputs()).map(move |at| (inlet, at)))
            .map(|(inlet, at)| Input {
                inlet: inlet as u32,
                at: at as u32,
                is_ready: false,
            })
            .collect();
        Self {
            core,
            processor,
            ready: VecDeque::with_capacity(inputs.len()),
            served: Vec::with_capacity(inputs.len()),
            inputs,
            budgets: vec![Budget::default(); ins.len()].into(),
            touched: Vec::with_capacity(ins.len()),
            ins: ins.into(),
            rhythm: Rhythm {
                left: 1,
                chunk: 1,
                is_local: false,
                is_slow: false,
                since: Instant::ORIGIN,
                messages: 0,
            },
            next: Next::Again,
            settings,
            is_new: true,
            is_called: false,
        }
    }

    #[inline]
    fn make_ready(&mut self, input: u32) {
        let entry = &mut self.inputs[input as usize];
        if !entry.is_ready {
            entry.is_ready = true;
            self.ready.push_back(input);
        }
    }

    /// Looks at all inputs and outlets.
    #[cold]
    fn look_at_all(&mut self) {
        self.is_new = false;
        // A token that was dropped wakes the shard without a note.
        self.core.waive_dropped();
        for input in 0..self.inputs.len() as u32 {
            let Input { inlet, at, .. } = self.inputs[input as usize];
            if self.ins[inlet as usize].has_any(at as usize) {
                self.make_ready(input);
            }
        }
    }

    /// Returns whether a ping is due; not while the graph drains.
    #[inline]
    fn is_ping_due(&self, now: Instant) -> bool {
        let is_due = match self.next {
            Next::Again => true,
            Next::Idle | Next::Woken(_) => false,
            Next::At(at) => at <= now,
        };
        is_due && !self.core.shared.calm.is_asked()
    }

    fn ping(&mut self) {
        self.core.invocation += 1;
        self.core.sender = 0;
        self.core.stats().pings.add(1);
        self.is_called = false;
        let (processor, core) = (&mut self.processor, &mut self.core);
        match contain(|| processor.ping(&mut Cx::new(core))) {
            Ok(next) => self.next = next,
            Err(payload) => {
                self.next = Next::Idle;
                self.core.panicked(None, payload);
                self.core.note_all();
            }
        }
    }

    fn ping_and_look(&mut self, cx: &mut WorkerCx<'_>) {
        self.ping();
        if self.core.is_gated {
            self.flush(cx);
            self.core.look();
        }
    }

    /// Publishes what was sent, and then counts what was handled for it.
    #[inline]
    fn flush(&mut self, cx: &mut WorkerCx<'_>) {
        if !self.core.written.is_empty() {
            self.rhythm.is_local = !self.core.flush(cx);
        }
        let stats = &self.core.shared.stats[self.core.shard];
        for &inlet in &self.touched {
            let budget = &mut self.budgets[inlet as usize];
            if budget.uncounted > 0 {
                stats.received[inlet as usize].add_after(budget.uncounted);
                budget.uncounted = 0;
            }
        }
    }

    /// Returns how many messages of an input may be handled while an outlet gates.
    #[cold]
    fn admitted(&self, input: u32) -> usize {
        let Input { inlet, at, .. } = self.inputs[input as usize];
        let answering = self.ins[inlet as usize].answering();
        let target = at as usize;
        let answering = answering.map(|out| Answering { out, target });
        self.core.admits(inlet as usize, answering)
    }

    /// Has messages of one input handled.
    fn run_input(
        &mut self,
        input: u32,
        cx: &mut WorkerCx<'_>,
        load: &mut Option<&mut Load>,
    ) -> Left {
        let Input { inlet, at, .. } = self.inputs[input as usize];
        let (inlet, at) = (inlet as usize, at as usize);
        let mut left = Left::Skipped;
        loop {
            let mut max = self.settings.batch - self.budgets[inlet].taken;
            if max == 0 {
                return left;
            }
            max = max.min(self.rhythm.left);
            let was_gated = self.core.is_gated;
            if was_gated {
                let admitted = self.admitted(input);
                if admitted == 0 {
                    return left;
                }
                max = max.min(admitted);
                self.core.is_gated = false;
            }
            let load = load.as_mut().map(|load| &mut load.inputs[input as usize]);
            let Delivered { taken, handled } =
                self.ins[inlet].deliver(at, max, &mut self.processor, &mut self.core, cx, load);
            let budget = &mut self.budgets[inlet];
            if budget.taken == 0 && taken > 0 {
                self.touched.push(inlet as u32);
            }
            budget.taken += taken;
            budget.uncounted += handled as u64;
            if self.rhythm.count(taken) || self.core.retired {
                self.flush(cx);
            }
            left = Left::Served;
            if self.core.retired {
                return left;
            }
            if was_gated {
                // What gated may gate still.
                self.core.is_gated |= self.core.outs_gate();
            }
            if self.core.is_gated {
                self.core.look();
            }
            // Its sender wakes the instance when it has published what it claimed.
            if taken == 0 || !self.ins[inlet].has_any(at) {
                return Left::Nothing;
            }
        }
    }

    /// Gives each input that may hold something its share of the turn, as far as
    /// the shares reach. Inputs that had none stay ahead of those that had one.
    /// Returns whether anything was done.
    fn run_inputs(&mut self, cx: &mut WorkerCx<'_>, load: &mut Option<&mut Load>) -> bool {
        for _ in 0..self.ready.len() {
            let Some(input) = self.ready.pop_front() else {
                break;
            };
            match self.run_input(input, cx, load) {
                Left::Nothing => self.inputs[input as usize].is_ready = false,
                Left::Served => self.served.push(input),
                Left::Skipped => self.ready.push_back(input),
            }
            if self.core.retired {
                break;
            }
        }
        self.ready.extend(self.served.drain(..));
        !self.touched.is_empty()
    }

    /// Ends a turn.
    #[inline]
    fn end(&mut self, cx: &mut WorkerCx<'_>) {
        self.flush(cx);
        while let Some(inlet) = self.touched.pop() {
            self.budgets[inlet as usize] = Budget::default();
        }
    }

    /// Pings if asked to, handles what waits, and measures it. Returns whether
    /// anything was done.
    fn run(&mut self, cx: &mut WorkerCx<'_>, mut load: Option<&mut Load>) -> bool {
        let before = load.as_ref().map(|load| load.timer.sum());
        if let Some(load) = &mut load {
            load.timer.start(cx.tick());
        }
        let pings = !self.core.is_gated && self.is_ping_due(cx.now());
        if pings {
            self.ping_and_look(cx);
        }
        let mut worked = self.run_inputs(cx, &mut load);
        if let Next::Woken(at) = self.next
            && !self.core.retired
            && !self.core.shared.calm.is_asked()
        {
            // While there is no room it waits.
            self.is_called |= worked || at <= cx.now();
            if self.is_called && !self.core.is_gated {
                self.ping_and_look(cx);
                worked = true;
            }
        }
        worked |= pings;
        self.end(cx);
        if let (Some(load), Some(before)) = (load, before) {
            load.timer.finish(cx.tick());
            if worked {
                let busy = load.timer.sum().saturating_sub(before);
                self.core.stats().busy_ns.add(busy.as_nanos());
            }
        }
        worked
    }

    /// Gives up what waits, and the answers it owes: it is retired and must hold
    /// nobody up.
    #[cold]
    fn run_retired(&mut self, cx: &mut WorkerCx<'_>) -> Progress {
        self.ready.clear();
        self.inputs
            .iter_mut()
            .for_each(|input| input.is_ready = false);
        self.core.look();
        for inlet in 0..self.ins.len() {
            let given_up = self.ins[inlet].give_up(&mut self.core, Some(cx));
            self.budgets[inlet].uncounted += given_up.handled as u64;
            self.touched.push(inlet as u32);
        }
        for out in 0..self.core.outs.len() {
            while let Some(client) = self.core.outs[out].any_owed() {
                let news = self.core.outs[out].waive(client);
                self.core.note(out, news);
            }
            let news = self.core.outs[out].waive_kept();
            self.core.note(out, news);
        }
        self.end(cx);
        self.wait(cx)
    }

    /// Says when the next turn is wanted.
    fn progress(&mut self, cx: &mut WorkerCx<'_>) -> Progress {
        if self.core.retired {
            return Progress::Again;
        }
        if self.core.is_gated || self.core.keeps {
            return self.wait(cx);
        }
        if !self.ready.is_empty() {
            return Progress::Again;
        }
        match self.next {
            _ if self.core.shared.calm.is_asked() => Progress::Idle,
            Next::Again => Progress::Again,
            Next::Idle => Progress::Idle,
            Next::Woken(_) if self.is_called => Progress::Again,
            Next::At(at) | Next::Woken(at) => Progress::At(at),
        }
    }

    /// Has the instance woken when there is room, and looks once more.
    #[cold]
    fn wait(&mut self, cx: &mut WorkerCx<'_>) -> Progress {
        if self.may_run() {
            // It looks in its next turn.
            return Progress::Again;
        }
        self.core.wait(cx);
        self.core.look();
        self.flush(cx);
        if self.core.waits_elsewhere() {
            // There was room at the target waited at, and its receiver may wake no sender for it.
            return Progress::Again;
        }
        if self.core.retired {
            return Progress::Idle;
        }
        if !self.core.is_gated {
            let pings = !self.core.shared.calm.is_asked();
            return match self.next {
                _ if !self.ready.is_empty() => Progress::Again,
                Next::Again if pings => Progress::Again,
                Next::Woken(_) if pings && self.is_called => Progress::Again,
                Next::At(at) | Next::Woken(at) if pings => Progress::At(at),
                _ => Progress::Idle,
            };
        }
        match self.may_run() {
            true => Progress::Again,
            false => Progress::Idle,
        }
    }

    /// Returns whether an input that is ready does not wait for what gates. It had its turn,
    /// unless that was used up.
    fn may_run(&self) -> bool {
        self.ready.iter().any(|&input| self.admitted(input) > 0)
    }
}

impl<G: Graph, P: Process<G>> AnyInstance for Instance<G, P> {
    #[inline]
    fn on_wake(&mut self, note: Option<u32>) {
        match note {
            // Whoever is gated looks at its room in any case.
            Some(note) if note & ROOM != 0 => {}
            Some(input) => self.make_ready(input),
            None => (self.is_new, self.is_called) = (true, true),
        }
    }

    fn turn(&mut self, cx: &mut WorkerCx<'_>, load: Option<&mut Load>) -> Progress {
        if self.core.retired {
            return self.run_retired(cx);
        }
        if self.is_new {
            self.look_at_all();
        }
        self.rhythm.begin(cx.now());
        if self.core.is_gated || self.core.keeps {
            self.core.look();
        }
        if self.run(cx, load) {
            self.core.stats().turns.add(1);
        }
        if self.core.is_gated {
            self.core.stats().gated.add(1);
        }
        if core::mem::take(&mut self.core.stop) {
            cx.stop();
        }
        self.progress(cx)
    }

    fn finish(&mut self) {
        for (inlet, ins) in self.ins.iter_mut().enumerate() {
            let given_up = ins.give_up(&mut self.core, None);
            let stats = &self.core.shared.stats[self.core.shard];
            stats.received[inlet].add_after(given_up.handled as u64);
        }
        for out in &mut self.core.outs {
            out.abandon();
        }
    }
}
