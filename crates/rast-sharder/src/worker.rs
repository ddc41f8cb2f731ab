//! The loop of a worker.
//!
//! One round of a worker:
//!
//! 1. Check for a stop and for a new epoch; release and take shards.
//! 2. Collect wake-ups, and run ready shards.
//! 3. Promise or work on the decision if that is due. If nothing happened, wait.
//!
//! The order is that of `protocol/member.rs`. This file adds user code, time and counters.
//!
//! A round has at most [`TURNS`] turns, and fewer if turns are long, so that it takes about
//! [`ROUND`] or one turn. So the fixed cost of a round is small per turn, and its checks are at
//! most that far apart.

mod step;

pub use step::Stepper;

use core::time::Duration;
use std::boxed::Box;
use std::vec::Vec;

use crate::alloc::RastAlloc;
use crate::controller::{Controller, PanicPayload, PanicPolicy, Progress};
use crate::core_state::Core;
use crate::cx::{Local, WorkerCx};
use crate::ids::{ShardId, WorkerId};
use crate::lead::{Desk, Lead, Slice, publish};
use crate::meter::Meter;
use crate::panics::{Hook, message};
use crate::primitive::cell::UnsafeCell;
use crate::primitive::panics::{contain, discard};
use crate::primitive::sync::Arc;
use crate::primitive::{Parker, WaitStrategy, hint};
use crate::protocol::{Member, Promise};
use crate::ready::Ready;
use crate::settings::Settings;
use crate::slots::Slots;
use crate::stats::Tally;
use crate::timers::{Clock, Instant, MonotonicClock, Nanos, Tick};

/// Maximum number of turns of a round. The clock is read once per that many turns.
const TURNS: u32 = 16;

/// Minimum time between two publications of the tick. Each publication makes every timer that uses
/// the tick read the clock once.
const TICK: Nanos = Nanos::from_micros(10);

/// Maximum number of deadline entries that a round checks.
const ENTRIES: u32 = 256;

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

/// Time after which a sleeping worker releases its cached memory (`RastAlloc::on_idle`).
///
/// So a busy worker does not pay for that, and an idle one wakes up once more for it.
const LONG: Duration = Duration::from_millis(10);

/// How long `Adaptive` checks for work before it sleeps: about the cost of a wake-up by the OS.
const WATCH: Nanos = Nanos::from_micros(40);

/// Number of checks per clock reading.
const LOOKS: u32 = 8;

/// Returns the pause after this many doublings.
fn pause(doublings: u32) -> Nanos {
    Nanos::from_nanos(PAUSE.as_nanos() << doublings.min(PAUSE_DOUBLINGS))
}

/// Records a shard that the worker's `Park` made ready.
fn note_news(notes: &mut Vec<(ShardId, Option<u32>)>, shard: ShardId, shards: usize) {
    assert!(
        shard.index() < shards,
        "there is no {shard}, which a poller made ready"
    );
    notes.push((shard, None));
}

/// State shared by the workers of one sharder.
pub(crate) struct Shared<C: Controller> {
    pub(crate) controller: C,
    pub(crate) slots: Slots<C::Shard, C::Load>,
    pub(crate) core: Arc<Core>,
    pub(crate) desk: UnsafeCell<Desk>,
    pub(crate) settings: Settings,
    pub(crate) on_worker_start: Box<dyn Fn(WorkerId) + Send + Sync>,
    #[cfg(feature = "affinity")]
    pub(crate) pins_threads: bool,
}

// SAFETY: only the worker that leads accesses the desk, and there is one at a time. The Release of
// its publication and the Acquire of the next leader's promise order their accesses. The desk's
// parts are Send. The other fields are Sync by themselves.
unsafe impl<C: Controller> Sync for Shared<C> {}

impl<C: Controller> Shared<C> {
    /// Returns how long the calling thread has run, if the system can tell.
    fn ran(&self) -> Option<Instant> {
        self.core.thread_clock.as_ref().map(|clock| clock.now())
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
        Self {
            shared,
            local: Local {
                member,
                core: shared.core.clone(),
                tick,
                now,
                notes: Vec::with_capacity(NOTES),
                is_prompt: false,
            },
            ready: Ready::new(shared.slots.len()),
            since_reading: 0,
            turns: TURNS,
            window_end: shared.settings.window_end(now),
            is_used: false,
            meter: Meter::new(now, shared.ran()),
            lead: None,
            calls_before_turn: true,
            looks: 0,
            watching: Instant::ORIGIN,
            is_rested: false,
            polls: shared.settings.polls,
            parks_failed: 0,
        }
    }

    fn run(mut self) {
        self.start();
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
        if let Err(payload) = contain(|| (shared.on_worker_start)(worker)) {
            let text = message(&*payload);
            discard(payload);
            shared.core.panicked(worker, None, Hook::WorkerStart, text);
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
            self.receive();
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
        self.local.member.receive(usize::MAX, &mut self.local.notes);
        self.hand_over();
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

    /// Makes shards ready that other workers woke.
    #[inline]
    fn receive(&mut self) {
        self.local.member.receive(RINGS, &mut self.local.notes);
        if !self.local.notes.is_empty() {
            self.ready.prefer(true);
            self.hand_over_each();
            self.ready.prefer(false);
        }
    }

    /// Delivers the notes that a call left, or that arrived.
    #[inline]
    fn hand_over(&mut self) {
        if !self.local.notes.is_empty() {
            self.hand_over_each();
        }
    }

    fn hand_over_each(&mut self) {
        let mut done = 0;
        while done < self.local.notes.len() {
            if let Err(payload) = contain(|| self.hand_over_from(&mut done)) {
                let (shard, _) = self.local.notes[done - 1];
                self.panicked(shard, Hook::OnWake, payload);
            }
        }
        self.local.notes.clear();
    }

    /// Delivers the notes after the first `done`, and increments `done` for each.
    #[inline]
    fn hand_over_from(&mut self, done: &mut usize) {
        let shared = self.shared;
        while let Some(&(shard, note)) = self.local.notes.get(*done) {
            *done += 1;
            debug_assert!(
                self.local.member.is_local(shard),
                "a note is handed over before its shard can leave"
            );
            self.ready.push(shard);
            // SAFETY: `shard` is held, because nothing was released since the note was
            // written, and no other borrow of its slot is live.
            let slot = unsafe { shared.slots.slot(shard) };
            slot.ready_since.get_or_insert(self.local.now);
            if slot.retired.is_none() {
                shared.controller.on_wake(shard, &mut slot.state, note);
            }
        }
    }

    /// Makes shards ready whose deadline has passed.
    ///
    /// An entry whose deadline was put off does not count against [`TURNS`], only against
    /// [`ENTRIES`].
    fn ring_alarms(&mut self) {
        let mut rung = 0;
        for _ in 0..ENTRIES {
            if rung == TURNS {
                break;
            }
            let Some(shard) = self.ready.pop_alarm(self.local.now) else {
                break;
            };
            // SAFETY: the alarms are those of held shards, and no other borrow of the slot is
            // live.
            let slot = unsafe { self.shared.slots.slot(shard) };
            let is_due = self.ready.ring(shard, &mut slot.alarm, self.local.now);
            if is_due {
                slot.ready_since.get_or_insert(self.local.now);
                rung += 1;
            }
        }
    }

    /// Enters a new epoch: releases the leaving shards, and opens windows for the others.
    #[cold]
    fn switch(&mut self) {
        self.read_clock();
        self.release_leaving();
        self.window_end = self.shared.settings.window_end(self.local.now);
        self.meter.restart(self.local.now, self.shared.ran());
        self.is_used = false;
        for at in 0..self.local.member.held().len() {
            self.restart_load(self.local.member.held()[at]);
        }
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
            self.restart_load(shard);
            self.hook(shard, Hook::OnAcquire, |controller, cx, state| {
                controller.on_acquire(cx, shard, state);
            });
            // SAFETY: the shard is held, and no other borrow of its slot is live.
            let slot = unsafe { self.shared.slots.slot(shard) };
            slot.is_fresh = true;
            slot.ready_since = Some(self.local.now);
            self.ready.push(shard);
        }
        self.count_shards();
    }

    fn release_leaving(&mut self) {
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

    /// Opens a shard's window.
    fn restart_load(&mut self, shard: ShardId) {
        let now = self.local.now;
        let shared = self.shared;
        // SAFETY: this worker holds the shard and has not promised in this epoch: the epoch has
        // just begun, or the shard was just taken, which precedes the promise. The borrow ends
        // before any other borrow of this measure.
        let measure = unsafe { shared.slots.measure(shard) };
        measure.open(now);
        // SAFETY: the shard is held, and no other borrow of its slot is live.
        let slot = unsafe { shared.slots.slot(shard) };
        if slot.retired.is_some() {
            measure.mute();
            return;
        }
        slot.ready_since = slot.ready_since.map(|_| now);
        let load = &mut measure.load;
        if let Err(payload) = contain(|| shared.controller.restart_load(shard, load)) {
            self.panicked(shard, Hook::RestartLoad, payload);
        }
    }

    fn before_turn(&mut self) {
        if !self.calls_before_turn {
            return;
        }
        let shared = self.shared;
        let mut cx = self.cx();
        let called = contain(|| shared.controller.before_turn(&mut cx));
        self.hand_over();
        if let Err(payload) = called {
            self.calls_before_turn = false;
            let text = message(&*payload);
            discard(payload);
            let worker = self.local.member.worker();
            shared.core.panicked(worker, None, Hook::BeforeTurn, text);
        }
    }

    /// Runs one turn of a shard.
    fn process(&mut self, shard: ShardId) {
        let shared = self.shared;
        // SAFETY: `shard` is held, as are all shards in the queue whose flag is set. No other
        // borrow of its slot is live, because user code cannot reach slots.
        let slot = unsafe { shared.slots.slot(shard) };
        if slot.retired.is_some() {
            slot.ready_since = None;
            return;
        }
        self.is_used |= !core::mem::take(&mut slot.is_fresh);
        slot.alarm.clear();
        let is_open = self.local.member.is_open();
        let load = match is_open {
            true => {
                // SAFETY: `shard` is held and this worker has not promised; no
                // other borrow of the measure is live.
                let measure = unsafe { shared.slots.measure(shard) };
                Some(&mut measure.load)
            }
            false => None,
        };
        let state = &mut slot.state;
        let mut cx = self.cx();
        let called = contain(|| shared.controller.process(&mut cx, shard, state, load));
        match called {
            Ok(progress) => {
                slot.panics_in_row = 0;
                match progress {
                    Progress::Again => {
                        self.is_used = true;
                        self.ready.push(shard);
                    }
                    Progress::At(at) if at <= self.local.now => self.ready.push(shard),
                    Progress::Idle | Progress::At(_) => {
                        if let Some(since) = slot.ready_since.take()
                            && is_open
                        {
                            // SAFETY: as above; the borrow of the call has ended.
                            let measure = unsafe { shared.slots.measure(shard) };
                            measure.add_ready(since, self.local.now);
                        }
                        if let Progress::At(at) = progress {
                            self.ready.set_alarm(shard, &mut slot.alarm, at);
                        }
                    }
                }
            }
            Err(payload) => self.turn_panicked(shard, payload),
        }
        self.hand_over();
    }

    /// Schedules the next turn of a shard whose turn panicked: at once, or after a pause if the
    /// turn before panicked too.
    #[cold]
    fn turn_panicked(&mut self, shard: ShardId, payload: PanicPayload) {
        self.panicked(shard, Hook::Process, payload);
        // SAFETY: as in `process`, whose borrow has ended.
        let slot = unsafe { self.shared.slots.slot(shard) };
        match slot.panics_in_row.checked_sub(1) {
            None => self.ready.push(shard),
            Some(doublings) => {
                let at = self.local.now.saturating_add(pause(doublings));
                self.ready.set_alarm(shard, &mut slot.alarm, at);
                slot.ready_since = None;
            }
        }
        slot.panics_in_row = slot.panics_in_row.saturating_add(1);
    }

    /// Calls a hook of a held shard, unless it is retired.
    fn hook(
        &mut self,
        shard: ShardId,
        hook: Hook,
        call: impl FnOnce(&C, &mut WorkerCx<'_>, &mut C::Shard),
    ) {
        let shared = self.shared;
        // SAFETY: `shard` is held (or leaving, which is held until
        // `release_next`), and no other borrow of its slot is live.
        let slot = unsafe { shared.slots.slot(shard) };
        if slot.retired.is_some() {
            return;
        }
        let state = &mut slot.state;
        let mut cx = self.cx();
        let called = contain(|| call(&shared.controller, &mut cx, state));
        self.hand_over();
        if let Err(payload) = called {
            self.panicked(shard, hook, payload);
        }
    }

    /// Records a panic of a shard's code and applies the policy.
    #[cold]
    fn panicked(&mut self, shard: ShardId, hook: Hook, payload: PanicPayload) {
        let shared = self.shared;
        let worker = self.local.member.worker();
        let text = message(&*payload);
        let record = shared.core.panicked(worker, Some(shard), hook, text);
        // SAFETY: as in `hook`; the unwinding has ended the borrow of the call that panicked.
        let slot = unsafe { shared.slots.slot(shard) };
        let state = &mut slot.state;
        let policy = match contain(|| shared.controller.on_panic(shard, state, payload)) {
            Ok(policy) => policy,
            Err(second) => {
                let text = message(&*second);
                discard(second);
                let shard = Some(shard);
                shared.core.panicked(worker, shard, Hook::OnPanic, text);
                PanicPolicy::Retire
            }
        };
        match policy {
            PanicPolicy::Continue => {}
            PanicPolicy::Retire => slot.retired = Some(record),
            PanicPolicy::Stop => {
                slot.retired = Some(record);
                shared.core.baton.stop();
            }
        }
    }

    /// Returns the context for a call of user code.
    #[inline]
    fn cx(&mut self) -> WorkerCx<'_> {
        WorkerCx {
            local: &mut self.local,
        }
    }

    /// Promises if the rules allow it and a new epoch is wanted.
    fn promise_when_due(&mut self) {
        if !self.local.member.may_promise() {
            return;
        }
        let is_due =
            self.local.member.is_wanted() || (self.is_used && self.local.now >= self.window_end);
        if is_due {
            self.promise();
        }
    }

    #[cold]
    fn promise(&mut self) {
        self.read_clock();
        let now = self.local.now;
        let spent = self.meter.spent(now, self.shared.ran());
        for &shard in self.local.member.held() {
            // SAFETY: `shard` is held and the promise is still to come; no other
            // borrow of the measure is live.
            let measure = unsafe { self.shared.slots.measure(shard) };
            // SAFETY: `shard` is held, and no other borrow of its slot is live.
            let slot = unsafe { self.shared.slots.slot(shard) };
            if let Some(since) = slot.ready_since {
                measure.add_ready(since, now);
            }
            measure.close(now, spent);
        }
        if let Promise::Lead(leader) = self.local.member.promise() {
            self.lead = Some(Lead::new(leader, &self.shared.core));
        }
    }

    /// Works on the decision if this worker leads; returns whether it does.
    fn decide(&mut self) -> bool {
        let Some(lead) = self.lead.take() else {
            return false;
        };
        let shared = self.shared;
        let slice = shared.desk.with_mut(|desk| {
            // SAFETY: this worker leads, so no other thread accesses the desk.
            let desk = unsafe { &mut *desk };
            // SAFETY: 1. this worker's member made the leader, and desk and slots
            // are its sharder's; 2. no borrow of a measure is live.
            unsafe {
                lead.slice(
                    desk,
                    &self.local.member,
                    &shared.core,
                    &shared.controller,
                    &shared.slots,
                    &self.local.tick,
                )
            }
        });
        match slice {
            Slice::More(lead) => self.lead = Some(lead),
            Slice::Decided(leader, next) => {
                publish(&mut self.local.member, &shared.core, leader, next);
            }
        }
        true
    }

    /// Waits for a moment, or sleeps, as the strategy says.
    fn rest(&mut self) {
        match self.shared.settings.wait {
            WaitStrategy::Spin => hint::spin_loop(),
            WaitStrategy::Park => self.park(),
            WaitStrategy::Adaptive => match self.watches() {
                true => hint::spin_loop(),
                false => self.park(),
            },
        }
    }

    /// Returns `true` until there has been no work for [`WATCH`], by the system's clock.
    fn watches(&mut self) -> bool {
        let looks = self.looks;
        self.looks = looks.wrapping_add(1);
        if !looks.is_multiple_of(LOOKS) {
            return true;
        }
        let now = MonotonicClock::new().now();
        if looks == 0 {
            self.watching = now;
        }
        now.saturating_since(self.watching) < WATCH
    }

    /// Polls the worker's `Park` for events.
    fn poll(&mut self) {
        let shards = self.shared.slots.len();
        let Local { member, notes, .. } = &mut self.local;
        let polled = contain(|| member.poll(&mut |shard| note_news(notes, shard, shards)));
        self.hand_over_news();
        if let Err(payload) = polled {
            self.polls = false;
            self.park_panicked(payload);
        }
    }

    /// Makes the shards ready that the `Park` named, and wakes those of other workers.
    #[inline]
    fn hand_over_news(&mut self) {
        let Local {
            member,
            core,
            notes,
            ..
        } = &mut self.local;
        notes.retain(|&(shard, _)| {
            let is_local = member.is_local(shard);
            if !is_local {
                core.baton.wake(shard);
            }
            is_local
        });
        self.hand_over();
    }

    /// Records a panic of the worker's `Park`.
    #[cold]
    fn park_panicked(&self, payload: PanicPayload) {
        let text = message(&*payload);
        discard(payload);
        let worker = self.local.member.worker();
        self.shared.core.panicked(worker, None, Hook::Park, text);
    }

    #[cold]
    fn park(&mut self) {
        self.read_clock();
        let limit = self.sleep_limit();
        if limit == Some(Duration::ZERO) {
            return;
        }
        let shards = self.shared.slots.len();
        let parks = &self.tally().parks;
        let is_rested = self.is_rested;
        let Local { member, notes, .. } = &mut self.local;
        let slept = member.park(|park| {
            parks.add(1);
            if is_rested {
                RastAlloc::on_idle();
            }
            let limit = match is_rested {
                true => limit,
                false => Some(limit.map_or(LONG, |limit| limit.min(LONG))),
            };
            let parked = contain(|| {
                park.park(limit, &mut |shard| note_news(notes, shard, shards));
            });
            (limit, parked)
        });
        self.read_clock();
        self.hand_over_news();
        match slept {
            None => {}
            Some(((limit, Ok(())), is_woken)) => {
                self.parks_failed = 0;
                // A sleep of `LONG` without a wake-up.
                self.is_rested |= !is_woken && limit.is_some_and(|limit| limit >= LONG);
            }
            Some(((_, Err(payload)), _)) => self.failed_to_park(payload),
        }
        self.looks = 0;
    }

    /// Records a panic of a sleep; pauses if the sleep before it panicked too.
    #[cold]
    fn failed_to_park(&mut self, payload: PanicPayload) {
        self.park_panicked(payload);
        if let Some(doublings) = self.parks_failed.checked_sub(1) {
            Parker::new().park_timeout(pause(doublings).into());
            self.read_clock();
        }
        self.parks_failed = self.parks_failed.saturating_add(1);
    }

    /// Returns the maximum time to sleep; `None` means without limit.
    fn sleep_limit(&self) -> Option<Duration> {
        let now = self.local.now;
        let mut until = self.ready.next_alarm();
        if self.is_used && self.local.member.may_promise() && self.window_end < Instant::MAX {
            until = Some(until.map_or(self.window_end, |until| until.min(self.window_end)));
        }
        until.map(|until| until.saturating_since(now).into())
    }
}
