//! The loop of a worker.
//!
//! One turn: look at stop and epoch, release and take shards, a turn of each
//! held shard, promise or decide when it is time, and park when nothing
//! happened. The order is that of `protocol/member.rs`; this file adds user
//! code, time and counters.

use core::time::Duration;
use std::vec::Vec;

use crate::alloc::RastAlloc;
use crate::controller::{Controller, PanicPayload, PanicPolicy, Progress};
use crate::core_state::{Core, CoreClock};
use crate::cx::WorkerCx;
use crate::ids::ShardId;
use crate::lead::{Desk, Lead, Slice, publish};
use crate::panics::{Hook, contain, discard, message};
use crate::primitive::cell::UnsafeCell;
use crate::primitive::sync::Arc;
use crate::primitive::{Backoff, Parker, WaitStrategy};
use crate::protocol::{Member, Promise};
use crate::slots::Slots;
use crate::timers::{Clock, Instant, Nanos, Tick, TimerConfig, WaitingTimer};

/// At most so many turns share a reading of the clock.
const TURNS_PER_READING: u32 = 16;

/// Turns shorter than this share readings.
const TURN_WORTH_READING: Nanos = Nanos::from_micros(20);

/// A worker that sleeps longer lets others have the memory that it needs no more.
///
/// So those that work do not pay for it, and one that rests wakes once more for it.
const LONG: Duration = Duration::from_millis(10);

/// How a sharder runs, apart from its controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Zero: reshard on request only.
    pub(crate) period: Nanos,
    pub(crate) wait: WaitStrategy,
    pub(crate) idle_limit: Nanos,
}

/// What the workers of one sharder share.
pub(crate) struct Shared<C: Controller> {
    pub(crate) controller: C,
    pub(crate) slots: Slots<C::Shard, C::Load>,
    pub(crate) core: Arc<Core>,
    pub(crate) desk: UnsafeCell<Desk>,
    pub(crate) settings: Settings,
}

// SAFETY: the desk is reached only by the worker that leads, of which there is
// one at a time; the Release of its publication and the Acquire of the next
// leader's promise hand it on. The desk's parts are Send. The other fields are
// Sync by themselves.
unsafe impl<C: Controller> Sync for Shared<C> {}

/// Runs one worker to its end. A panic of this crate's own code stops all.
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
    member: Member,
    tick: Tick,
    now: Instant,
    turns_since_reading: u32,
    turns_per_reading: u32,
    window: WaitingTimer<CoreClock>,
    /// Whether anything happened in this window: a worker on which nothing
    /// did does not ask for a resharding, so idle machines sleep.
    is_used: bool,
    lead: Option<Lead>,
    calls_before_turn: bool,
    backoff: Backoff,
    /// The earliest turn that an idle shard asked for, in this turn.
    next_at: Option<Instant>,
    /// Whether a sleep was a long one, and nothing has happened since.
    is_rested: bool,
}

impl<'s, C: Controller> Worker<'s, C> {
    fn new(shared: &'s Shared<C>, member: Member) -> Self {
        let clock = CoreClock(shared.core.clone());
        let now = clock.now();
        let period = match shared.settings.period.is_zero() {
            true => Nanos::MAX,
            false => shared.settings.period,
        };
        let tick = Tick::new();
        tick.publish(now);
        Self {
            shared,
            member,
            tick,
            now,
            turns_since_reading: 0,
            turns_per_reading: 1,
            window: WaitingTimer::new(clock, period, TimerConfig::new()),
            is_used: false,
            lead: None,
            calls_before_turn: true,
            backoff: Backoff::new(),
            next_at: None,
            is_rested: false,
        }
    }

    fn run(mut self) {
        while !self.member.is_stopping() {
            let progressed = self.turn();
            let tally = &self.shared.core.tallies[self.member.worker().index()];
            tally.turns.bump();
            if progressed {
                tally.busy_turns.bump();
                self.backoff.reset();
                self.is_rested = false;
            } else {
                self.rest();
            }
        }
        self.leave();
    }

    /// Takes one turn; returns whether anything happened in it.
    fn turn(&mut self) -> bool {
        self.read_clock_when_due();
        if self.member.look() {
            self.switch();
        }
        let mut progressed = self.acquire();
        progressed |= self.before_turn();
        self.next_at = None;
        for at in 0..self.member.held().len() {
            if self.member.is_stopping() {
                break;
            }
            let shard = self.member.held()[at];
            match self.process(shard) {
                Progress::Again => progressed = true,
                Progress::Idle => {}
                Progress::At(at) if at <= self.now => progressed = true,
                Progress::At(at) => {
                    self.next_at = Some(self.next_at.map_or(at, |next| next.min(at)));
                }
            }
        }
        self.is_used |= progressed;
        self.promise_when_due();
        progressed | self.decide()
    }

    /// Reads the clock once per turn, or once in some short turns.
    fn read_clock_when_due(&mut self) {
        self.turns_since_reading += 1;
        if self.turns_since_reading < self.turns_per_reading {
            return;
        }
        let before = self.now;
        self.read_clock();
        self.turns_per_reading = match self.now.saturating_since(before) < TURN_WORTH_READING {
            true => (self.turns_per_reading * 2).min(TURNS_PER_READING),
            false => (self.turns_per_reading / 2).max(1),
        };
    }

    fn read_clock(&mut self) {
        self.now = self.shared.core.clock.now();
        self.tick.publish(self.now);
        self.turns_since_reading = 0;
    }

    /// Enters a new epoch: releases what leaves, opens windows for the rest.
    #[cold]
    fn switch(&mut self) {
        self.read_clock();
        self.release_leaving();
        self.window.reset();
        self.is_used = false;
        for at in 0..self.member.held().len() {
            self.restart_load(self.member.held()[at]);
        }
    }

    /// Takes the shards that have come free; returns whether there were any.
    fn acquire(&mut self) -> bool {
        let taken = self.member.take();
        if taken == 0 {
            return false;
        }
        self.acquire_slow(taken);
        true
    }

    #[cold]
    fn acquire_slow(&mut self, taken: usize) {
        self.read_clock();
        let first = self.member.held().len() - taken;
        for at in first..self.member.held().len() {
            let shard = self.member.held()[at];
            self.restart_load(shard);
            self.hook(shard, Hook::OnAcquire, |controller, cx, state| {
                controller.on_acquire(cx, shard, state);
            });
        }
        self.count_shards();
    }

    fn release_leaving(&mut self) {
        while let Some(&shard) = self.member.leaving().last() {
            self.hook(shard, Hook::OnRelease, |controller, cx, state| {
                controller.on_release(cx, shard, state);
            });
            self.member.release_next();
        }
        self.count_shards();
    }

    fn count_shards(&self) {
        let tally = &self.shared.core.tallies[self.member.worker().index()];
        tally.shards.set(self.member.held().len() as u64);
    }

    /// Leaves for good.
    fn leave(&mut self) {
        self.read_clock();
        self.lead = None;
        self.member.leave();
        self.release_leaving();
    }

    /// Opens a shard's window.
    fn restart_load(&mut self, shard: ShardId) {
        let now = self.now;
        let shared = self.shared;
        // SAFETY: this worker holds the shard and, being at the start of the
        // epoch or about to promise only after this, has not promised in it;
        // the borrow ends below, before any other of this measure.
        let measure = unsafe { shared.slots.measure(shard) };
        measure.open(now);
        // SAFETY: the shard is held, and no other borrow of its slot is live.
        let slot = unsafe { shared.slots.slot(shard) };
        if slot.retired.is_some() {
            measure.mute();
            return;
        }
        let load = &mut measure.load;
        if let Err(payload) = contain(|| shared.controller.restart_load(shard, load)) {
            self.panicked(shard, Hook::RestartLoad, payload);
        }
    }

    fn before_turn(&mut self) -> bool {
        if !self.calls_before_turn {
            return false;
        }
        let shared = self.shared;
        let mut cx = self.cx();
        let called = contain(|| shared.controller.before_turn(&mut cx));
        let again = cx.again;
        if let Err(payload) = called {
            self.calls_before_turn = false;
            let text = message(&*payload);
            discard(payload);
            let worker = self.member.worker();
            shared.core.panicked(worker, None, Hook::BeforeTurn, text);
        }
        again
    }

    /// Gives a shard its turn.
    #[inline]
    fn process(&mut self, shard: ShardId) -> Progress {
        let shared = self.shared;
        // SAFETY: `shard` is among the held, and no other borrow of its slot is
        // live: user code has no way here.
        let slot = unsafe { shared.slots.slot(shard) };
        if slot.retired.is_some() {
            return Progress::Idle;
        }
        let load = match self.member.is_open() {
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
        let again = cx.again;
        match called {
            Ok(Progress::Again) => Progress::Again,
            Ok(_) if again => Progress::Again,
            Ok(progress) => progress,
            Err(payload) => {
                self.panicked(shard, Hook::Process, payload);
                Progress::Again
            }
        }
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
        if let Err(payload) = contain(|| call(&shared.controller, &mut cx, state)) {
            self.panicked(shard, hook, payload);
        }
    }

    /// Records a panic of a shard's code and does what the policy says.
    #[cold]
    fn panicked(&mut self, shard: ShardId, hook: Hook, payload: PanicPayload) {
        let shared = self.shared;
        let worker = self.member.worker();
        let text = message(&*payload);
        let record = shared.core.panicked(worker, Some(shard), hook, text);
        // SAFETY: as in `hook`; the borrow of the call that panicked has ended
        // with its unwinding.
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

    /// What user code sees.
    #[inline]
    fn cx(&self) -> WorkerCx<'_> {
        WorkerCx {
            member: self.member.view(),
            core: &self.shared.core,
            tick: &self.tick,
            now: self.now,
            again: false,
        }
    }

    /// Promises when the rules allow it and somebody wants a new epoch.
    fn promise_when_due(&mut self) {
        if !self.member.may_promise() {
            return;
        }
        let is_due = self.member.is_wanted() || (self.is_used && self.window.check(&self.tick));
        if is_due {
            self.promise();
        }
    }

    #[cold]
    fn promise(&mut self) {
        self.read_clock();
        for &shard in self.member.held() {
            // SAFETY: `shard` is held and the promise is still to come; no other
            // borrow of the measure is live.
            let measure = unsafe { self.shared.slots.measure(shard) };
            measure.close(self.now);
        }
        if let Promise::Lead(leader) = self.member.promise() {
            self.lead = Some(Lead::new(leader, &self.shared.core));
        }
    }

    /// Works on the decision, if this worker leads; returns whether it does.
    fn decide(&mut self) -> bool {
        let Some(lead) = self.lead.take() else {
            return false;
        };
        let shared = self.shared;
        let slice = shared.desk.with_mut(|desk| {
            // SAFETY: this worker leads, and nobody else reaches the desk.
            let desk = unsafe { &mut *desk };
            // SAFETY: 1. this worker's member made the leader, and desk and slots
            // are its sharder's; 2. no borrow of a measure is live.
            unsafe {
                lead.slice(
                    desk,
                    &self.member,
                    &shared.core,
                    &shared.controller,
                    &shared.slots,
                    &self.tick,
                )
            }
        });
        match slice {
            Slice::More(lead) => self.lead = Some(lead),
            Slice::Decided(leader, next) => {
                publish(&mut self.member, &shared.core, leader, next);
            }
        }
        true
    }

    /// Waits a little, or sleeps.
    fn rest(&mut self) {
        if self.shared.settings.wait.is_awake(&self.backoff) {
            self.backoff.snooze();
        } else {
            self.park();
        }
    }

    #[cold]
    fn park(&mut self) {
        self.read_clock();
        let Some(limit) = self.sleep_limit() else {
            return;
        };
        let mut panics: Vec<(ShardId, PanicPayload)> = Vec::new();
        let shared = self.shared;
        let member = &self.member;
        let is_rested = &mut self.is_rested;
        let sleep = |parker: &Parker| *is_rested = sleep(parker, limit, *is_rested);
        let slept = member.park(sleep, || {
            member.held().iter().any(|&shard| {
                // SAFETY: `shard` is held, and no other borrow of its slot is live.
                let slot = unsafe { shared.slots.slot(shard) };
                if slot.retired.is_some() {
                    return false;
                }
                let state = &slot.state;
                match contain(|| shared.controller.is_ready(shard, state)) {
                    Ok(is_ready) => is_ready,
                    Err(payload) => {
                        panics.push((shard, payload));
                        true
                    }
                }
            })
        });
        if slept {
            let tally = &shared.core.tallies[member.worker().index()];
            tally.parks.bump();
        }
        for (shard, payload) in panics {
            self.panicked(shard, Hook::IsReady, payload);
        }
        self.backoff.reset();
        self.read_clock();
    }

    /// How long to sleep at most; `None` when a deadline has passed.
    fn sleep_limit(&self) -> Option<Duration> {
        let mut limit = self.shared.settings.idle_limit;
        if let Some(at) = self.next_at {
            limit = limit.min(at.saturating_since(self.now));
        }
        if self.is_used && self.member.may_promise() && !self.shared.settings.period.is_zero() {
            limit = limit.min(self.window.deadline().saturating_since(self.now));
        }
        match limit.is_zero() {
            true => None,
            false => Some(limit.into()),
        }
    }
}

/// Sleeps until woken, or for `limit`; returns whether the worker is rested then.
///
/// After a while, or at once if it was rested before, it says to the allocator
/// that it is idle: others may purge its heap until it takes or gives back a
/// block. Where the program's memory is not that allocator's, that is nothing.
fn sleep(parker: &Parker, mut limit: Duration, is_rested: bool) -> bool {
    if !is_rested {
        let first = limit.min(LONG);
        if parker.park_timeout(first) || first == limit {
            return false;
        }
        limit -= first;
    }
    RastAlloc::on_idle();
    parker.park_timeout(limit);
    true
}
