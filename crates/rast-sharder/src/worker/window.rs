//! The epochs of a worker: the worker opens a window, the used shards enter it, and the worker
//! promises and leads.
//!
//! No step goes through all shards; see `windows.rs` for the rules.

use super::Worker;
use crate::controller::Controller;
use crate::ids::ShardId;
use crate::lead::{Lead, Slice, publish};
use crate::panics::Hook;
use crate::primitive::panics::contain;
use crate::protocol::Promise;
use crate::slots::Cells;
use crate::timers::Instant;

impl<C: Controller> Worker<'_, C> {
    /// Enters a new epoch: releases the leaving shards, and opens a window for the others.
    #[cold]
    pub(super) fn switch(&mut self) {
        // Often the round before ended with the promise, which read the clock.
        if self.since_reading > 0 {
            self.read_clock();
        }
        self.release_leaving();
        self.meter
            .restart(self.local.now, self.shared.core.thread_time());
        self.is_used = false;
        self.open_window();
    }

    /// Opens the next window.
    pub(super) fn open_window(&mut self) {
        let now = self.local.now;
        self.window = (self.window.0 + 1, now);
        let period = self.shared.period;
        self.window_end = match period.is_zero() {
            true => Instant::MAX,
            false => now.saturating_add(period),
        };
        // SAFETY: it is this worker's window, and the worker has not promised in its epoch: the
        // epoch has just begun for it, or the worker is dedicated and never promises. No other
        // borrow of the window is live.
        let window = unsafe { self.shared.slots.window(self.local.member.worker()) };
        window.open(self.window.0, now);
    }

    /// Adds a held shard to the window, if it is not in it. Only before the promise. `cells` are
    /// those of the shard.
    #[inline]
    pub(super) fn enter(&mut self, shard: ShardId, cells: &Cells<C::Shard, C::Load>) {
        debug_assert!(self.local.member.is_open() && self.local.member.is_local(shard));
        // SAFETY: the shard is held, and this worker has not promised; the borrow ends here.
        let measure = unsafe { cells.measure() };
        if measure.number != self.window.0 {
            self.enter_slow(shard, cells, self.window.1);
        }
    }

    /// Has a held shard enter the window, in which it takes part from `since` on; a retired shard
    /// does not. Only before the promise. `cells` are those of the shard.
    #[cold]
    pub(super) fn enter_slow(
        &mut self,
        shard: ShardId,
        cells: &Cells<C::Shard, C::Load>,
        since: Instant,
    ) {
        let shared = self.shared;
        let is_retired = || {
            // SAFETY: the shard is held, and no other borrow of its slot is live; this one ends
            // here.
            unsafe { cells.slot() }.retired.is_some()
        };
        if is_retired() {
            return;
        }
        // SAFETY: the shard is held, and this worker has not promised; no other borrow of the
        // measure is live.
        let measure = unsafe { cells.measure() };
        measure.enter(self.window.0, since);
        let load = &mut measure.load;
        if let Err(payload) = contain(|| shared.controller.restart_load(shard, load)) {
            measure.is_stale = true;
            self.panicked(shard, Hook::RestartLoad, payload);
            if is_retired() {
                return;
            }
        }
        // SAFETY: it is this worker's window, and the worker has not promised; no other borrow of
        // the window is live.
        let window = unsafe { shared.slots.window(self.local.member.worker()) };
        window.used.push(shard);
    }

    /// Promises if the rules allow it and a new epoch is wanted. A dedicated worker opens a window
    /// of its own then.
    pub(super) fn promise_when_due(&mut self) {
        let is_dedicated = self.local.member.is_dedicated();
        if !self.local.member.may_promise() && !is_dedicated {
            return;
        }
        let is_due =
            self.local.member.is_wanted() || (self.is_used && self.local.now >= self.window_end);
        match is_due {
            true if is_dedicated => self.restart_window(),
            true => self.promise(),
            false => {}
        }
    }

    /// Opens the next window of a dedicated worker, so that its figures are emptied. No thread
    /// reads them.
    #[cold]
    fn restart_window(&mut self) {
        self.local.member.note_requests();
        self.is_used = false;
        self.open_window();
    }

    #[cold]
    fn promise(&mut self) {
        self.read_clock();
        let now = self.local.now;
        let core = &self.shared.core;
        let spent = self.meter.spent(now, || core.thread_time());
        for at in 0..self.ready.entries() {
            if let Some(shard) = self.ready.entry(at) {
                self.count_ready(shard);
            }
        }
        // SAFETY: it is this worker's window, and the promise is still to come; no other borrow of
        // the window is live.
        let window = unsafe { self.shared.slots.window(self.local.member.worker()) };
        window.close(now, spent);
        if let Promise::Lead(leader) = self.local.member.promise() {
            self.lead = Some(Lead::new(leader, &self.shared.core));
        }
    }

    /// Counts the time for which a shard in the ready queue has waited, up to the promise. Called
    /// again for the same shard, it adds nothing.
    fn count_ready(&mut self, shard: ShardId) {
        let cells = self.shared.slots.cells(shard);
        self.enter(shard, cells);
        // SAFETY: the shard is held, as are all shards in the queue, and the promise is still to
        // come; no other borrow of the measure is live.
        let measure = unsafe { cells.measure() };
        if measure.number != self.window.0 {
            // It is retired.
            return;
        }
        let now = self.local.now;
        // SAFETY: the shard is held, and no other borrow of its slot is live.
        let slot = unsafe { cells.slot() };
        if let Some(since) = slot.ready_since.replace(now) {
            measure.add_ready(since, now);
        }
    }

    /// Works on the decision if this worker leads; returns whether it does.
    pub(super) fn decide(&mut self) -> bool {
        let Some(lead) = self.lead.take() else {
            return false;
        };
        let shared = self.shared;
        let slice = shared.desk.with_mut(|desk| {
            // SAFETY: this worker leads, so no other thread accesses the desk.
            let desk = unsafe { &mut *desk };
            // SAFETY: 1. this worker's member made the leader, and desk and slots
            // are its sharder's; 2. no borrow of a measure or a window is live.
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
}
