//! The loop of a worker.
//!
//! One round of a worker:
//!
//! 1. Check for a stop and for a new epoch; release and take shards.
//! 2. Collect wake-ups, and run ready shards.
//! 3. If a new epoch is due, promise to update no load figure until it begins. The last worker to
//!    promise leads: in this and the next rounds it decides which shards move, a part of the work
//!    per round.
//! 4. If nothing happened in this round, wait.
//!
//! The order of these steps is that of `protocol/member.rs`. This file and the files in `worker/`
//! add calls of user code (`turn.rs`), wake-ups and deadlines (`wakes.rs`), windows (`window.rs`),
//! and waiting (`rest.rs`).
//!
//! A round has at most [`TURNS`] turns. If turns are long it has fewer, so that a round takes at
//! most about [`ROUND`], or one turn if that is longer. The fixed cost of a round is thus shared by
//! many short turns, and step 1 is repeated about every [`ROUND`], or after each long turn.

mod rest;
mod step;
mod turn;
mod wakes;
mod window;

pub use step::Stepper;

use std::boxed::Box;
use std::vec::Vec;

use crate::controller::Controller;
use crate::core_state::Core;
use crate::cx::{Local, WorkerCx};
use crate::ids::WorkerId;
use crate::lead::{Desk, Lead};
use crate::meter::Meter;
use crate::panics::{Hook, message};
use crate::primitive::cell::UnsafeCell;
use crate::primitive::panics::{contain, discard};
use crate::primitive::sync::Arc;
use crate::primitive::{Processors, WaitStrategy};
use crate::protocol::Member;
use crate::ready::Ready;
use crate::slots::Slots;
use crate::stats::Tally;
use crate::timers::{Instant, Nanos, Tick};
use crate::windows::Number;

/// Maximum number of turns of a round. The clock is read once per that many turns.
const TURNS: u32 = 16;

/// Minimum time between two publications of the tick. Each publication makes every timer that uses
/// the tick read the clock once.
const TICK: Nanos = Nanos::from_micros(10);

/// Target duration of a round; a round that takes longer halves the turns of the next one.
const ROUND: Nanos = Nanos::from_micros(20);

/// Pause after the second panic in a row of a shard's turn. It doubles with each further panic.
const PAUSE: Nanos = Nanos::from_micros(10);

/// Maximum number of doublings of [`PAUSE`].
const PAUSE_DOUBLINGS: u32 = 13;

/// Maximum number of rings that are checked between two turns; a round begins with all of them.
const RINGS: usize = 8;

/// Initial capacity of the vector of notes.
const NOTES: usize = 256;

/// Returns the pause after this many doublings.
fn pause(doublings: u32) -> Nanos {
    Nanos::from_nanos(PAUSE.as_nanos() << doublings.min(PAUSE_DOUBLINGS))
}

/// The user's hook for the start of a worker.
pub(crate) type OnWorkerStart = Box<dyn Fn(WorkerId) + Send + Sync>;

/// State shared by the workers of one sharder.
pub(crate) struct Shared<C: Controller> {
    pub(crate) controller: C,
    pub(crate) slots: Slots<C::Shard, C::Load>,
    pub(crate) core: Arc<Core>,
    pub(crate) desk: UnsafeCell<Desk>,
    /// Zero: reshard on request only.
    pub(crate) period: Nanos,
    pub(crate) wait: WaitStrategy,
    /// Whether the program has supplied the `Park` of the workers, which is then polled for I/O.
    pub(crate) polls: bool,
    pub(crate) on_worker_start: Option<OnWorkerStart>,
    #[cfg(feature = "affinity")]
    pub(crate) pins_threads: bool,
}

// SAFETY: only the worker that leads accesses the desk, and there is one at a time. The Release of
// its publication and the Acquire of the next leader's promise order their accesses. The desk's
// parts are Send. The other fields are Sync by themselves.
unsafe impl<C: Controller> Sync for Shared<C> {}

impl<C: Controller> Shared<C> {
    /// Returns the processors on which this many workers begin, one on each in turn; `None` if the
    /// system chooses.
    ///
    /// If there are more processors than workers, the system chooses better: it finds idle ones,
    /// while the first in order may be busy with other threads.
    pub(crate) fn places(&self, workers: usize) -> Option<Processors> {
        #[cfg(feature = "affinity")]
        if self.pins_threads {
            return None;
        }
        let allowed = Processors::of_this_thread()?;
        (2..=workers).contains(&allowed.count()).then_some(allowed)
    }
}

/// Runs one worker to its end. A panic of this crate's own code stops all workers.
pub(crate) fn run_worker<C: Controller>(shared: Arc<Shared<C>>, member: Member) {
    let worker = member.worker();
    let core = shared.core.clone();
    let result = contain(move || {
        let shared = shared;
        Worker::new(&shared, member).run();
    });
    if let Err(payload) = result {
        core.failed(worker, message(&*payload));
        discard(payload);
    }
}

struct Worker<'s, C: Controller> {
    shared: &'s Shared<C>,
    local: Local,
    ready: Ready,
    /// Number of turns, or of rounds without a turn, since the last clock reading.
    since_reading: u32,
    /// Maximum number of turns of a round.
    turns: u32,
    /// Number of the window, and its start.
    window: (Number, Instant),
    /// When to ask for a new epoch.
    window_end: Instant,
    /// Whether a shard worked in this window. A worker without work does not ask for an epoch, so
    /// that idle workers sleep.
    is_used: bool,
    /// Measures how the worker spends the window.
    meter: Meter,
    lead: Option<Lead>,
    calls_before_turn: bool,
    /// Number of checks since there was last work.
    looks: u32,
    /// Time of the first of these checks.
    watching: Instant,
    /// Set after a sleep of [`LONG`] without a wake-up, until there is work.
    is_rested: bool,
    /// Whether to poll the worker's `Park`.
    polls: bool,
    /// Number of sleeps in a row that ended by a panic.
    parks_failed: u32,
}

impl<'s, C: Controller> Worker<'s, C> {
    fn new(shared: &'s Shared<C>, member: Member) -> Self {
        let now = shared.core.clock.now();
        let tick = Tick::new();
        tick.publish(now);
        let mut worker = Self {
            shared,
            local: Local {
                member,
                core: shared.core.clone(),
                tick,
                now,
                notes: Vec::with_capacity(NOTES),
                lines: [0; 2],
            },
            ready: Ready::new(shared.slots.len()),
            since_reading: 0,
            turns: TURNS,
            window: (0, now),
            window_end: Instant::MAX,
            is_used: false,
            meter: Meter::new(now, shared.core.thread_time()),
            lead: None,
            calls_before_turn: true,
            looks: 0,
            watching: Instant::ORIGIN,
            is_rested: false,
            polls: shared.polls,
            parks_failed: 0,
        };
        worker.open_window();
        worker
    }

    fn run(mut self) {
        self.start();
        self.place();
        while !self.local.member.is_stopping() {
            let progressed = self.round();
            self.tally().rounds.add(1);
            if progressed {
                self.meter.work(self.local.now);
                self.looks = 0;
                self.is_rested = false;
            } else {
                self.meter.rest(self.local.now);
                self.rest();
            }
        }
        self.leave();
    }

    /// Prepares the thread: its core, and the user's start hook.
    fn start(&mut self) {
        let shared = self.shared;
        let worker = self.local.member.worker();
        #[cfg(feature = "affinity")]
        if shared.pins_threads
            && let Some(cores) = core_affinity::get_core_ids()
            && let Some(&core) = cores.get(worker.index() % cores.len().max(1))
        {
            core_affinity::set_for_current(core);
        }
        if let Some(hook) = &shared.on_worker_start
            && let Err(payload) = contain(|| hook(worker))
        {
            let text = message(&*payload);
            discard(payload);
            shared.core.panicked(worker, None, Hook::WorkerStart, text);
        }
    }

    /// Places the thread again if the start hook may have slept.
    fn place(&self) {
        let (shared, member) = (self.shared, &self.local.member);
        if shared.on_worker_start.is_some()
            && let Some(places) = shared.places(shared.core.tallies.len())
        {
            places.move_to(member.worker().index());
        }
    }

    /// Runs one round; returns whether anything happened in it.
    fn round(&mut self) -> bool {
        let mut progressed = self.begin_round();
        let mut turns = 0;
        while turns < self.turns && !self.local.member.is_stopping() {
            let Some(shard) = self.ready.pop() else {
                break;
            };
            self.process(shard);
            turns += 1;
            self.receive(RINGS);
        }
        self.local.member.flush();
        self.since_reading += turns.max(1);
        self.tally().turns.add(u64::from(turns));
        progressed |= turns > 0;
        self.promise_when_due();
        progressed | self.decide()
    }

    /// Collects the work of a round; returns whether shards were taken.
    fn begin_round(&mut self) -> bool {
        self.read_clock_when_due();
        if self.local.member.look() {
            self.switch();
        }
        let has_acquired = self.acquire();
        self.before_turn();
        if self.polls {
            self.poll();
        }
        self.local.member.receive_bits(&mut self.local.notes);
        self.hand_over();
        self.receive(usize::MAX);
        self.ring_alarms();
        has_acquired
    }

    /// Reads the clock if enough turns have passed since the last reading, and sizes the round.
    fn read_clock_when_due(&mut self) {
        if self.since_reading < self.turns {
            return;
        }
        let before = self.local.now;
        self.read_clock();
        self.turns = match self.local.now.saturating_since(before) < ROUND {
            true => (self.turns * 2).min(TURNS),
            false => (self.turns / 2).max(1),
        };
    }

    fn read_clock(&mut self) {
        self.local.now = self.shared.core.clock.now();
        if self.local.now.saturating_since(self.local.tick.now()) >= TICK {
            self.local.tick.publish(self.local.now);
        }
        self.since_reading = 0;
    }

    fn tally(&self) -> &'s Tally {
        &self.shared.core.tallies[self.local.member.worker().index()]
    }

    /// Takes the wanted shards that are free; returns whether there were any.
    fn acquire(&mut self) -> bool {
        let taken = self.local.member.take();
        if taken == 0 {
            return false;
        }
        self.acquire_slow(taken);
        true
    }

    #[cold]
    fn acquire_slow(&mut self, taken: usize) {
        self.read_clock();
        let first = self.local.member.held().len() - taken;
        for at in first..self.local.member.held().len() {
            let shard = self.local.member.held()[at];
            let cells = self.shared.slots.cells(shard);
            self.enter_slow(shard, cells, self.local.now);
            self.hook(shard, Hook::OnAcquire, |controller, cx, state| {
                controller.on_acquire(cx, shard, state);
            });
            // SAFETY: the shard is held, and no other borrow of its slot is live.
            let slot = unsafe { cells.slot() };
            slot.is_fresh = true;
            slot.ready_since = Some(self.local.now);
            self.ready.push(shard);
        }
        self.count_shards();
    }

    fn release_leaving(&mut self) {
        // They may be those of a shard that leaves. The next turn sets them again.
        self.local.lines = [0; 2];
        while let Some(&shard) = self.local.member.leaving().last() {
            self.hook(shard, Hook::OnRelease, |controller, cx, state| {
                controller.on_release(cx, shard, state);
            });
            // SAFETY: the shard is held until the next call, and no other borrow of its slot
            // is live.
            let slot = unsafe { self.shared.slots.slot(shard) };
            self.ready.remove(shard, &mut slot.alarm);
            slot.ready_since = None;
            self.local.member.release_next();
        }
        self.count_shards();
    }

    fn count_shards(&self) {
        self.tally()
            .shards
            .set(self.local.member.held().len() as u64);
    }

    /// Releases all shards at the end of the run.
    fn leave(&mut self) {
        self.read_clock();
        self.lead = None;
        self.local.member.leave();
        self.release_leaving();
    }

    /// Returns the context for a call of user code.
    #[inline]
    fn cx(&mut self) -> WorkerCx<'_> {
        WorkerCx {
            local: &mut self.local,
        }
    }
}
