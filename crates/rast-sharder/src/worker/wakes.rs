//! Wake-ups and deadlines on their way to the ready queue of a worker.

use super::{TURNS, Worker};
use crate::controller::Controller;
use crate::cx::Local;
use crate::ids::ShardId;
use crate::panics::Hook;
use crate::primitive::panics::contain;
use std::vec::Vec;

/// Maximum number of deadline entries that a round checks.
const ENTRIES: u32 = 256;

/// Records a shard that the worker's `Park` made ready.
pub(super) fn note_news(notes: &mut Vec<(ShardId, Option<u32>)>, shard: ShardId, shards: usize) {
    assert!(
        shard.index() < shards,
        "there is no {shard}, which a poller made ready"
    );
    notes.push((shard, None));
}

impl<C: Controller> Worker<'_, C> {
    /// Makes shards ready that other workers woke, by the rings of at most `rings` of them.
    #[inline]
    pub(super) fn receive(&mut self, rings: usize) {
        self.local.member.receive(rings, &mut self.local.notes);
        if !self.local.notes.is_empty() {
            self.hand_over_received();
        }
    }

    #[inline(never)]
    fn hand_over_received(&mut self) {
        self.ready.prefer(true);
        self.hand_over_each();
        self.ready.prefer(false);
    }

    /// Delivers the notes that a call left, or that arrived.
    #[inline(always)]
    pub(super) fn hand_over(&mut self) {
        if !self.local.notes.is_empty() {
            self.hand_over_each();
        }
    }

    /// It is part of each turn that sends within its worker, so it is compiled into the turn.
    #[inline(always)]
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
    pub(super) fn ring_alarms(&mut self) {
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

    /// Polls the worker's `Park` for events.
    pub(super) fn poll(&mut self) {
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
    pub(super) fn hand_over_news(&mut self) {
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
}
