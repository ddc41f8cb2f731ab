//! The calls of user code: turns, hooks, and what becomes of their panics.

use super::{Worker, pause};
use crate::controller::{Controller, PanicPayload, PanicPolicy, Progress};
use crate::cx::WorkerCx;
use crate::ids::ShardId;
use crate::panics::{Hook, message};
use crate::primitive::panics::{contain, discard};

impl<C: Controller> Worker<'_, C> {
    pub(super) fn before_turn(&mut self) {
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
    #[inline]
    pub(super) fn process(&mut self, shard: ShardId) {
        let shared = self.shared;
        let is_open = self.local.member.is_open();
        let cells = shared.slots.cells(shard);
        if is_open {
            self.enter(shard, cells);
        }
        // SAFETY: `shard` is held, as are all shards in the queue whose flag is set. No other
        // borrow of its slot is live, because user code cannot reach slots.
        let slot = unsafe { cells.slot() };
        if slot.retired.is_some() {
            slot.ready_since = None;
            return;
        }
        self.is_used |= !core::mem::take(&mut slot.is_fresh);
        slot.alarm.clear();
        let load = match is_open {
            true => {
                // SAFETY: `shard` is held and this worker has not promised; no
                // other borrow of the measure is live.
                let measure = unsafe { cells.measure() };
                Some(&mut measure.load)
            }
            false => None,
        };
        let state = &mut slot.state;
        let mut cx = self.cx();
        match contain(|| shared.controller.process(&mut cx, shard, state, load)) {
            Ok(progress) => {
                slot.panics_in_row = 0;
                match progress {
                    Progress::Again => {
                        self.is_used = true;
                        // The shards that this turn woke have their turns before its next one, so
                        // their messages do not wait for a second batch.
                        self.hand_over();
                        self.ready.push(shard);
                        return;
                    }
                    Progress::At(at) if at <= self.local.now => self.ready.push(shard),
                    Progress::Idle | Progress::At(_) => {
                        // Most turns begin and end between two readings of the clock.
                        if let Some(since) = slot.ready_since.take()
                            && since < self.local.now
                            && is_open
                        {
                            // SAFETY: as above; the borrow of the call has ended.
                            let measure = unsafe { cells.measure() };
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
    pub(super) fn hook(
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
    pub(super) fn panicked(&mut self, shard: ShardId, hook: Hook, payload: PanicPayload) {
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
}
