//! The loop of a worker.
//!
//! One round: look at stop and epoch, release and take shards, take wake-ups, give turns
//! to ready shards, promise or decide when it is time, and wait when nothing happened.
//! The order is that of `protocol/member.rs`; this file adds user code, time and
//! counters.
//!
//! A round has at most [`TURNS`] turns, and fewer where turns are long, so that it takes about
//! [`ROUND`] or one turn. What is done once a round costs a turn next to nothing, and waits no
//! longer than that.

use core::time::Duration;
use std::vec::Vec;

use crate::alloc::RastAlloc;
use crate::controller::{Controller, PanicPayload, PanicPolicy, Progress};
use crate::core_state::{Core, CoreClock};
use crate::cx::{Local, WorkerCx};
use crate::ids::ShardId;
use crate::lead::{Desk, Lead, Slice, publish};
use crate::panics::{Hook, contain, discard, message};
use crate::primitive::cell::UnsafeCell;
use crate::primitive::sync::Arc;
use crate::primitive::{Backoff, WaitStrategy};
use crate::protocol::{Member, Promise};
use crate::ready::Ready;
use crate::slots::Slots;
use crate::stats::Tally;
use crate::timers::{Clock, Nanos, Tick, TimerConfig, WaitingTimer};

/// The most turns of a round. The clock is read once in so many.
const TURNS: u32 = 16;

/// Rounds that take longer get fewer turns.
const ROUND: Nanos = Nanos::from_micros(20);

/// The pause after a turn that panicked, when the one before did too. It doubles.
const PAUSE: Nanos = Nanos::from_micros(10);

/// The most doublings of [`PAUSE`].
const PAUSE_DOUBLINGS: u32 = 13;

/// The most rings that are looked at between two turns; all are before each round.
const RINGS: usize = 8;

/// Room for notes before the vector grows.
const NOTES: usize = 256;

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
    local: Local,
    ready: Ready,
    /// Turns, or rounds without one, since the clock was read.
    since_reading: u32,
    /// Turns of a round.
    turns: u32,
    window: WaitingTimer<CoreClock>,
    /// Whether a shard worked in this window. A worker without work does not ask for a
    /// resharding, so idle machines sleep.
    is_used: bool,
    lead: Option<Lead>,
    calls_before_turn: bool,
    /// Kept for its memory.
    came: Vec<ShardId>,
    backoff: Backoff,
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
            local: Local {
                member,
                core: shared.core.clone(),
                tick,
                now,
                notes: Vec::with_capacity(NOTES),
            },
            ready: Ready::new(shared.slots.len()),
            since_reading: 0,
            turns: TURNS,
            window: WaitingTimer::new(clock, period, TimerConfig::new()),
            is_used: false,
            lead: None,
            calls_before_turn: true,
            came: Vec::new(),
            backoff: Backoff::new(),
            is_rested: false,
        }
    }

    fn run(mut self) {
        while !self.local.member.is_stopping() {
            let progressed = self.round();
            self.tally().rounds.bump();
            if progressed {
                self.backoff.reset();
                self.is_rested = false;
            } else {
                self.rest();
            }
        }
        self.leave();
    }

    /// Works for one round; returns whether anything happened in it.
    fn round(&mut self) -> bool {
        self.read_clock_when_due();
        if self.local.member.look() {
            self.switch();
        }
        let mut progressed = self.acquire();
        self.before_turn();
        self.local.member.receive_bits(&mut self.local.notes);
        self.local.member.receive(usize::MAX, &mut self.local.notes);
        self.hand_over();
        self.ring_alarms();
        if !self.ready.is_empty() {
            self.poll();
        }
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
        self.tally().turns.increase(u64::from(turns));
        progressed |= turns > 0;
        self.promise_when_due();
        progressed | self.decide()
    }

    /// Reads the clock once in some turns.
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
        self.local.tick.publish(self.local.now);
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

    /// Hands over the notes of a call, or those that came.
    #[inline]
    fn hand_over(&mut self) {
        if !self.local.notes.is_empty() {
            self.hand_over_each();
        }
    }

    fn hand_over_each(&mut self) {
        let mut notes = core::mem::take(&mut self.local.notes);
        for (shard, note) in notes.drain(..) {
            debug_assert!(
                self.local.member.is_local(shard),
                "a note is handed over before its shard can leave"
            );
            self.ready.push(shard);
            let shared = self.shared;
            // SAFETY: `shard` is held, because nothing was released since the note was
            // written, and no other borrow of its slot is live.
            let slot = unsafe { shared.slots.slot(shard) };
            if slot.retired.is_none() {
                let state = &mut slot.state;
                let told = contain(|| shared.controller.on_wake(shard, state, note));
                if let Err(payload) = told {
                    self.panicked(shard, Hook::OnWake, payload);
                }
            }
        }
        self.local.notes = notes;
    }

    /// Makes shards ready whose time has come.
    fn ring_alarms(&mut self) {
        for _ in 0..TURNS {
            let Some(shard) = self.ready.pop_alarm(self.local.now) else {
                break;
            };
            // SAFETY: the alarms are those of held shards, and no other borrow of the slot is
            // live.
            let slot = unsafe { self.shared.slots.slot(shard) };
            self.ready.ring(shard, &mut slot.alarm, self.local.now);
        }
    }

    /// Enters a new epoch: releases what leaves, opens windows for the rest.
    #[cold]
    fn switch(&mut self) {
        self.read_clock();
        self.release_leaving();
        self.window.reset();
        self.is_used = false;
        for at in 0..self.local.member.held().len() {
            self.restart_load(self.local.member.held()[at]);
        }
    }

    /// Takes the shards that have come free; returns whether there were any.
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
            self.local.member.release_next();
        }
        self.count_shards();
    }

    fn count_shards(&self) {
        self.tally()
            .shards
            .set(self.local.member.held().len() as u64);
    }

    /// Leaves for good.
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

    /// Gives a shard a turn.
    fn process(&mut self, shard: ShardId) {
        let shared = self.shared;
        // SAFETY: `shard` is held, as all in the queue whose flag is set, and no other borrow
        // of its slot is live: user code has no way here.
        let slot = unsafe { shared.slots.slot(shard) };
        if slot.retired.is_some() {
            return;
        }
        self.is_used |= !core::mem::take(&mut slot.is_fresh);
        slot.alarm.clear();
        let load = match self.local.member.is_open() {
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
                    Progress::Idle => {}
                    Progress::At(at) if at <= self.local.now => self.ready.push(shard),
                    Progress::At(at) => self.ready.set_alarm(shard, &mut slot.alarm, at),
                }
            }
            Err(payload) => self.turn_panicked(shard, payload),
        }
        self.hand_over();
    }

    /// Gives a shard whose turn panicked another one: at once, or after a pause if the one
    /// before panicked as well.
    #[cold]
    fn turn_panicked(&mut self, shard: ShardId, payload: PanicPayload) {
        self.panicked(shard, Hook::Process, payload);
        // SAFETY: as in `process`, whose borrow has ended.
        let slot = unsafe { self.shared.slots.slot(shard) };
        match slot.panics_in_row.checked_sub(1) {
            None => self.ready.push(shard),
            Some(doublings) => {
                let pause = PAUSE.as_nanos() << doublings.min(PAUSE_DOUBLINGS);
                let at = self.local.now.saturating_add(Nanos::from_nanos(pause));
                self.ready.set_alarm(shard, &mut slot.alarm, at);
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

    /// Records a panic of a shard's code and does what the policy says.
    #[cold]
    fn panicked(&mut self, shard: ShardId, hook: Hook, payload: PanicPayload) {
        let shared = self.shared;
        let worker = self.local.member.worker();
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
    fn cx(&mut self) -> WorkerCx<'_> {
        WorkerCx {
            local: &mut self.local,
        }
    }

    /// Promises when the rules allow it and somebody wants a new epoch.
    fn promise_when_due(&mut self) {
        if !self.local.member.may_promise() {
            return;
        }
        let is_due =
            self.local.member.is_wanted() || (self.is_used && self.window.check(&self.local.tick));
        if is_due {
            self.promise();
        }
    }

    #[cold]
    fn promise(&mut self) {
        self.read_clock();
        for &shard in self.local.member.held() {
            // SAFETY: `shard` is held and the promise is still to come; no other
            // borrow of the measure is live.
            let measure = unsafe { self.shared.slots.measure(shard) };
            measure.close(self.local.now);
        }
        if let Promise::Lead(leader) = self.local.member.promise() {
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
        let limit = self.sleep_limit();
        if limit == Some(Duration::ZERO) {
            return;
        }
        let member = &mut self.local.member;
        let parks = &self.shared.core.tallies[member.worker().index()].parks;
        let is_rested = self.is_rested;
        let came = &mut self.came;
        let slept = member.park(|park| {
            parks.bump();
            if is_rested {
                RastAlloc::on_idle();
            }
            let limit = match is_rested {
                true => limit,
                false => Some(limit.map_or(LONG, |limit| limit.min(LONG))),
            };
            park.park(limit, &mut |shard| came.push(shard));
            limit
        });
        self.take_what_came();
        // A sleep of `LONG` that nothing ended.
        if let Some((Some(limit), false)) = slept {
            self.is_rested |= limit >= LONG;
        }
        self.backoff.reset();
        self.read_clock();
    }

    /// Looks at what the worker sleeps in.
    fn poll(&mut self) {
        let came = &mut self.came;
        let park = self.local.member.seat_park();
        park.poll(&mut |shard| came.push(shard));
        self.take_what_came();
    }

    /// Makes the shards ready for which something came to what the worker sleeps in.
    fn take_what_came(&mut self) {
        let Local { member, notes, .. } = &mut self.local;
        for shard in self.came.drain(..) {
            match member.is_local(shard) {
                true => notes.push((shard, None)),
                false => self.shared.core.baton.wake(shard),
            }
        }
        self.hand_over();
    }

    /// How long to sleep at most; `None` is no limit.
    fn sleep_limit(&self) -> Option<Duration> {
        let now = self.local.now;
        let mut until = self.ready.next_alarm();
        if self.is_used && self.local.member.may_promise() && !self.shared.settings.period.is_zero()
        {
            let window = self.window.deadline();
            until = Some(until.map_or(window, |until| until.min(window)));
        }
        until.map(|until| until.saturating_since(now).into())
    }
}
