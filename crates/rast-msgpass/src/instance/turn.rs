//! The turns of an instance.
//!
//! ```text
//!   turn ─┬─ calm, one ready input ──► turn_of_one: a batch of it, publish ──► over
//!         ├─ pinging, none ready ────► turn_of_ping: a ping, publish ────────► over
//!         │                                   │ either, if more is to be done
//!         └─ else ────────────────────► turn_of_many
//! ```
//!
//! An instance is *calm* if its last turn ended normally and only messages are left to be handled.
//! That is: its processor is in the state `Life::Running`, no outlet gates it, it has requested no
//! ping, and it has no timer. It also has no `high` input, and its batches have no time limit. A
//! turn of a calm instance checks none of these conditions before its batch. During the turn only
//! its own handlers can change them, and one comparison of all flags after the batch detects a
//! change.
//!
//! Two kinds of wake-ups end the calm. After a wake-up without a note, the next turn must check
//! everything. After a wake-up for room, it must use the room or pass the wake-up on.
//!
//! An instance is *pinging* if it would be calm, but its last ping returned `Next::Again`.

use super::Instance;
use crate::graph::Graph;
use crate::inlet::Delivered;
use crate::instance_core::Core;
use crate::load::Load;
use crate::policy::Life;
use crate::process::{Next, Process};
use crate::sharder::{Progress, WorkerCx};
use crate::timers::Nanos;

/// Ends the measurement of a turn; returns its time if it was measured. Then it publishes the busy
/// time; in other turns that would access one more cache line.
#[inline]
fn measure(load: &mut Load, core: &Core, cx: &WorkerCx<'_>) -> Option<Nanos> {
    let turn = load.timer.finish(cx.tick())?;
    core.stats.busy_ns.set(load.busy_in_all().as_nanos());
    Some(turn)
}

/// What a short turn did before [`turn_of_many`](Instance::turn_of_many) continues it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    Nothing,
    /// A batch of the ready input.
    Batch,
    /// A ping, whose messages were published.
    Ping,
}

impl<G: Graph, P: Process<G>> Instance<G, P> {
    /// Runs a turn. Returns when the next one is needed.
    #[inline]
    pub(super) fn run_turn(
        &mut self,
        cx: &mut WorkerCx<'_>,
        mut load: Option<&mut Load>,
    ) -> Progress {
        // If code outside of handlers panics, the next turn finds it cleared.
        let has_begun = core::mem::take(&mut self.is_calm) && self.ready.len() == 1;
        if has_begun && let Some(progress) = self.turn_of_one(cx, &mut load) {
            return progress;
        }
        let is_pinging = core::mem::take(&mut self.is_pinging) && self.ready.is_empty();
        let begun = match has_begun {
            true => Begun::Batch,
            false if is_pinging && self.may_ping() => {
                if let Some(progress) = self.turn_of_ping(cx, &mut load) {
                    return progress;
                }
                Begun::Ping
            }
            false => Begun::Nothing,
        };
        self.turn_of_many(begun, cx, load)
    }

    /// Begins a turn that pings, and in which no input has messages. Returns as
    /// [`turn_of_one`](Self::turn_of_one).
    #[inline]
    fn turn_of_ping(
        &mut self,
        cx: &mut WorkerCx<'_>,
        load: &mut Option<&mut Load>,
    ) -> Option<Progress> {
        self.is_in_turn = true;
        if let Some(load) = load {
            load.timer.start(cx.tick());
        }
        self.ping(cx.now());
        let core = &mut self.core;
        if !core.written.is_empty() {
            self.rhythm.is_local = !core.flush(cx);
        }
        if self.next != Next::Again || core.leaves_work() {
            self.rhythm.begin(self.rhythm.is_whole());
            return None;
        }
        if let Some(load) = load
            && let Some(turn) = measure(load, core, cx)
        {
            self.rhythm.messages = 0;
            self.rhythm.measured(turn);
        }
        core.stats.turns.add(1);
        (self.is_pinging, self.is_in_turn) = (true, false);
        Some(Progress::Again)
    }

    /// Begins a turn in which one input has messages, and nothing else is to be done. Returns when
    /// the next turn is needed, or `None` if [`turn_of_many`](Self::turn_of_many) has to continue
    /// this one.
    ///
    /// This is most turns of most instances, so it reads nothing that only other turns need.
    #[inline]
    fn turn_of_one(
        &mut self,
        cx: &mut WorkerCx<'_>,
        load: &mut Option<&mut Load>,
    ) -> Option<Progress> {
        self.is_in_turn = true;
        let input = self.ready.at(0);
        let entry = &mut self.inputs[input as usize];
        let (inlet, at) = (entry.inlet as usize, entry.at as usize);
        let processor = self.processor.as_mut()?;
        if let Some(load) = load {
            load.timer.start(cx.tick());
        }
        let is_whole = self.rhythm.is_whole();
        let max = match is_whole {
            true => self.batch.messages,
            false => 1,
        };
        let core = &mut self.core;
        let inbound = &mut *self.ins[inlet];
        let all = inbound.deliver(at, max, processor, core, cx, load.as_deref_mut());
        if !core.written.is_empty() {
            self.rhythm.is_local = !core.flush(cx);
        }
        // After the messages that the handlers sent. Nothing in between can panic.
        core.stats.received[inlet].add_after(all.handled());
        let is_over = all.is_empty || (is_whole && all.taken() == max);
        if !is_over || all.taken() == 0 || core.leaves_work() {
            self.continues(inlet, is_whole, all);
            return None;
        }
        if all.is_empty {
            entry.is_ready = false;
            self.ready.truncate(0);
        }
        if let Some(load) = load
            && let Some(turn) = measure(load, core, cx)
        {
            self.rhythm.messages = all.taken();
            self.rhythm.measured(turn);
        }
        core.stats.turns.add(1);
        (self.is_calm, self.is_in_turn) = (true, false);
        Some(match all.is_empty {
            true => Progress::Idle,
            false => Progress::Again,
        })
    }

    /// Records the first batch of a turn that is not over.
    #[inline(never)]
    fn continues(&mut self, inlet: usize, is_whole: bool, all: Delivered) {
        let taken = all.taken();
        self.shares[inlet].taken = taken;
        if taken > 0 {
            self.touched.push(inlet as u32);
        }
        self.rhythm.begin(is_whole);
        self.rhythm.count(taken);
    }

    /// Runs a turn, or the rest of one that was begun.
    #[inline(never)]
    fn turn_of_many(
        &mut self,
        begun: Begun,
        cx: &mut WorkerCx<'_>,
        load: Option<&mut Load>,
    ) -> Progress {
        if begun == Begun::Nothing {
            if core::mem::replace(&mut self.is_in_turn, true) {
                self.forget_turn();
            }
            if core::mem::take(&mut self.may_have_room) {
                self.core.use_wake_ups(cx);
            }
            if !self.core.is_running()
                && let Some(progress) = self.revive(cx)
            {
                self.has_run(cx);
                return progress;
            }
            if self.is_new {
                self.look_at_all();
                if self.rhythm.is_prompt {
                    self.flush(cx);
                }
            }
            self.rhythm.begin(self.rhythm.is_whole());
        }
        if self.core.is_gated || self.core.keeps {
            self.look(cx);
        }
        if self.run(begun, cx, load) {
            self.core.stats.turns.add(1);
        }
        if self.core.is_gated {
            self.core.stats.gated.add(1);
        }
        let progress = self.progress(cx);
        self.has_run(cx);
        let is_undemanding = self.is_undemanding();
        self.is_calm = is_undemanding && self.next == Next::Idle;
        self.is_pinging = is_undemanding && self.next == Next::Again;
        progress
    }

    /// Returns `true` if the next turn has only messages to handle, and a ping if `next` wants one,
    /// unless a wake-up without a note comes before.
    fn is_undemanding(&self) -> bool {
        !self.core.leaves_work()
            && !self.is_new
            && self.flushes.0 == self.flushes.1
            && self.high.is_empty()
            && self.batch.time == Nanos::MAX
    }

    /// Pings if due, handles messages, and measures the time. Returns `true` if anything was done.
    fn run(&mut self, begun: Begun, cx: &mut WorkerCx<'_>, mut load: Option<&mut Load>) -> bool {
        let (mut pings, mut worked) = (begun == Begun::Ping, false);
        if begun == Begun::Nothing {
            if let Some(load) = &mut load {
                load.timer.start(cx.tick());
            }
            if self.batch.time < Nanos::MAX {
                self.watch.start(cx.clock().now());
                self.rhythm.slow_down();
            }
            pings = !self.core.is_gated && self.is_ping_due(cx.now());
            if pings {
                self.ping_and_look(cx);
            }
            worked = self.core.timers.next().is_some_and(|at| at <= cx.now())
                && !self.core.shared.calm.is_asked()
                && self.fire(cx);
        }
        if self.core.is_running() {
            self.run_inputs(cx, &mut load);
        }
        worked |= !self.touched.is_empty();
        if self.core.has_deaths && !self.core.is_paused() && !self.core.shared.calm.is_asked() {
            self.tell_deaths(cx);
            worked = true;
        }
        if let Next::Woken(at) = self.next
            && self.core.is_running()
            && self.may_ping()
        {
            // It waits while there is no room.
            self.is_called |= worked || at <= cx.now();
            if self.is_called && !self.core.is_gated {
                self.ping_and_look(cx);
                worked = true;
            }
        }
        worked |= pings;
        let flushed = self.flushes.0 != self.flushes.1
            && self.core.is_running()
            && !self.core.ending.is_stopping()
            && self.flush_processor();
        self.end(cx);
        if flushed {
            self.has_flushed();
            worked = true;
        }
        if let Some(load) = load
            && let Some(turn) = measure(load, &self.core, cx)
            && worked
        {
            self.rhythm.measured(turn);
        }
        worked
    }

    /// Returns when the next turn is needed.
    fn progress(&mut self, cx: &mut WorkerCx<'_>) -> Progress {
        if !self.core.is_running() {
            return self.revive(cx).unwrap_or(Progress::Again);
        }
        if self.core.is_gated || self.core.keeps {
            return self.wait(cx);
        }
        self.wanted()
    }

    /// Returns when the next turn is needed, if no outlet gates.
    #[inline]
    fn wanted(&self) -> Progress {
        match self.next {
            _ if !self.ready.is_empty() => Progress::Again,
            _ if self.core.shared.calm.is_asked() => Progress::Idle,
            _ if self.core.has_deaths => Progress::Again,
            Next::Again => Progress::Again,
            Next::Idle => self.or_alarm(Progress::Idle),
            Next::Woken(_) if self.is_called => Progress::Again,
            Next::At(at) | Next::Woken(at) => self.or_alarm(Progress::At(at)),
        }
    }

    /// Enters the wait lists, and checks once more.
    #[cold]
    pub(super) fn wait(&mut self, cx: &mut WorkerCx<'_>) -> Progress {
        if self.may_run() {
            // The next turn handles it.
            return Progress::Again;
        }
        self.core.wait(cx);
        self.core.look();
        self.flush(cx);
        if self.core.waits_elsewhere() {
            // There was room at the target whose list it entered, whose receiver may not wake it.
            return Progress::Again;
        }
        if self.core.life == Life::Retired {
            return Progress::Idle;
        }
        if !self.core.is_gated {
            return self.wanted();
        }
        match self.may_run() {
            true => Progress::Again,
            false => Progress::Idle,
        }
    }

    /// Records that the turn ended normally.
    #[inline]
    fn has_run(&mut self, cx: &mut WorkerCx<'_>) {
        if core::mem::take(&mut self.core.stop) {
            cx.stop();
        }
        self.is_in_turn = false;
    }

    /// Returns `true` if a ready input does not wait for an outlet that gates. Such an input had
    /// its share, unless the batch was used up.
    fn may_run(&self) -> bool {
        self.ready.iter().any(|&input| self.admitted(input) > 0)
    }
}
