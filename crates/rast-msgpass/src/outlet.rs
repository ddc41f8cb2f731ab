//! The sending half of an edge, as one instance of its sender owns it.
//!
//! ```text
//!   Core.outs ─► [ Out<Line> | Out<Job> | Out<Ack> | ... ]   one per edge that leaves
//!                     │
//!                     ├─ target 0: Producer ═ring═► instance 0 of the receiver
//!                     ├─ target 1: Producer ═ring═► instance 1
//!                     └─ slack: so many messages find room at any target
//! ```
//!
//! Rules:
//! 1. `slack` is a lower bound of the room of every target. Only the sender
//!    fills the rings, so it sinks by one per message and is measured anew only
//!    when it is short of the burst.
//! 2. On a bounded edge `send` counts against the burst of the invocation, and
//!    an invocation starts only with `slack >= burst`: it finds room.
//! 3. On an unbounded edge, what finds no room waits in `spill`, in order; the
//!    ring is refilled from it at the start of each turn of the sender.
//! 4. A request is sent only within the credit of its reply edge, and reserves
//!    a slot there until the answer, or its waiver, has been taken out.
//! 5. An answer is pushed only against a debt, so it finds the slot reserved.
//! 6. The handling of an answer may go beyond the credit, up to what the ring of
//!    answers holds: twice the credit. Near that only the answers of the target
//!    itself are handled, so that one request per answer always fits.

use std::any::Any;
use std::collections::VecDeque;

use crate::egress::Lane;
use crate::graph::{EdgeInfo, EdgeKind};
use crate::primitive::sync::Arc;
use crate::queue::{Full, spsc::Producer};
use crate::sharder::ShardId;
use crate::shared::Shared;

/// An outlet whose message type is not known.
pub(crate) trait Outlet: Any + Send {
    /// Returns the number of receivers.
    fn targets(&self) -> usize;
    /// Returns how many invocations are sure to find room for their burst.
    fn allow(&mut self) -> usize;
    /// As `allow`, for the handling of answers: within what the rings of answers
    /// hold rather than within the credit, and for the spared targets not even
    /// that.
    fn allow_answering(&self, spare: Spare) -> usize;
    /// Tells whether a target owes so many answers that asking it once more has
    /// to wait until one has come.
    fn is_at_limit(&self, index: usize) -> bool;
    /// Tells whether the sender may not run, by a fresh look.
    fn is_gated(&self) -> bool;
    /// Moves what was spilled into the rings.
    fn refill(&mut self);
    /// Tells whether `refill` would move something, by a fresh look.
    fn can_refill(&self) -> bool;
    /// Tells whether messages may wait in a spill.
    fn has_spilled(&self) -> bool;
    /// Calls `wake` for each receiver that got messages since the last call,
    /// and announces those that went out by egress.
    fn announce(&mut self, wake: &mut dyn FnMut(ShardId));
    /// An answer from target `index` has been taken out.
    fn answered(&mut self, index: usize);
    /// A request of target `index` has been taken in.
    fn owe(&mut self, index: usize);
    /// Returns the debt to target `index`.
    fn owed(&self, index: usize) -> usize;
    /// Gives back the credit of one request of target `index`.
    fn waive(&mut self, index: usize);
    /// Gives back the credit of all requests that were not answered; returns
    /// whether there were any.
    fn waive_all(&mut self) -> bool;
    /// Gives up what was spilled, at the end.
    fn abandon(&mut self);
}

/// Which targets may be asked beyond what is kept for the handling of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spare {
    None,
    /// This one, whose own answer is in hand.
    One(usize),
    All,
}

/// Who takes messages out at the other end.
pub(crate) enum Receiver {
    Shard(ShardId),
    Lane { lane: Arc<Lane>, slot: usize },
}

enum Ring<M> {
    Plain(Producer<M>),
    /// `None` gives back the credit of a request that got no answer.
    Reply(Producer<Option<M>>),
}

pub(crate) struct Target<M> {
    ring: Ring<M>,
    receiver: Receiver,
    spill: VecDeque<M>,
    /// On an edge of requests: sent and not answered. On a reply edge: owed.
    debt: usize,
    dirty: bool,
}

impl<M> Target<M> {
    pub(crate) fn plain(ring: Producer<M>, receiver: Receiver) -> Self {
        Self::new(Ring::Plain(ring), receiver)
    }

    pub(crate) fn reply(ring: Producer<Option<M>>, receiver: Receiver) -> Self {
        Self::new(Ring::Reply(ring), receiver)
    }

    fn new(ring: Ring<M>, receiver: Receiver) -> Self {
        Self {
            ring,
            receiver,
            spill: VecDeque::new(),
            debt: 0,
            dirty: false,
        }
    }

    /// Room in the ring itself, by a fresh look.
    fn room(&self) -> usize {
        match &self.ring {
            Ring::Plain(ring) => match self.receiver {
                // The receiver outside has gone: what is sent is given up, and gates nobody.
                Receiver::Lane { .. } if ring.is_closed() => usize::MAX,
                _ => ring.room(),
            },
            Ring::Reply(ring) => ring.room(),
        }
    }
}

/// The sending half of one edge.
pub(crate) struct Out<M> {
    info: &'static EdgeInfo,
    edge: usize,
    /// The index among the outlets of the processor.
    index: usize,
    shard: usize,
    shared: Arc<Shared>,
    targets: Vec<Target<M>>,
    /// The most unanswered requests per target, if answers are expected.
    credit: Option<usize>,
    slack: usize,
    invocation: u64,
    used: usize,
    cursor: usize,
    dirty: bool,
    /// Something may be in a spill.
    spilled: bool,
}

impl<M: Send + 'static> Out<M> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        edge: usize,
        index: usize,
        shard: usize,
        targets: Vec<Target<M>>,
        credit: Option<usize>,
    ) -> Self {
        Self {
            info: &shared.edges[edge],
            edge,
            index,
            shard,
            shared,
            targets,
            credit,
            slack: 0,
            invocation: 0,
            used: 0,
            cursor: 0,
            dirty: false,
            spilled: false,
        }
    }

    /// Picks the next target in turn, preferring one with room.
    pub(crate) fn any(&mut self) -> usize {
        let count = self.targets.len();
        let start = self.cursor;
        let found = (0..count)
            .map(|step| (start + step) % count)
            .find(|&index| self.targets[index].spill.is_empty() && self.targets[index].room() > 0)
            .unwrap_or(start);
        self.cursor = (found + 1) % count;
        found
    }

    /// Returns how many messages `try_send` would take for a target now.
    pub(crate) fn room(&self, index: usize, invocation: u64) -> usize {
        let target = &self.targets[index];
        match self.info.kind {
            EdgeKind::Unbounded => usize::MAX,
            EdgeKind::Reply { .. } => target.debt,
            EdgeKind::Bounded => self.room_in_credit(target).max(self.unused(invocation)),
        }
    }

    fn room_in_credit(&self, target: &Target<M>) -> usize {
        match self.credit {
            Some(credit) => target.room().min(credit.saturating_sub(target.debt)),
            None => target.room(),
        }
    }

    fn unused(&self, invocation: u64) -> usize {
        if self.invocation == invocation {
            self.info.burst.saturating_sub(self.used)
        } else {
            self.info.burst
        }
    }

    /// Tells whether the invocation went past its burst.
    pub(crate) fn is_overdrawn(&self) -> bool {
        matches!(self.info.kind, EdgeKind::Bounded) && self.used > self.info.burst
    }

    /// Counts one message against the burst; returns false when that is used up.
    fn count_burst(&mut self, invocation: u64) -> bool {
        if self.invocation != invocation {
            self.invocation = invocation;
            self.used = 0;
        }
        self.used += 1;
        self.used <= self.info.burst
    }

    /// The most answers that a target may owe before only its own answers are
    /// handled. What is left up to [`answers_held`] is for those.
    fn limit(&self) -> usize {
        let Some(credit) = self.credit else {
            return usize::MAX;
        };
        let held = answers_held(credit);
        let kept = self.targets.len().saturating_mul(self.info.burst);
        match held.saturating_sub(kept) {
            limit if limit >= credit + self.info.burst => limit,
            _ => held,
        }
    }

    #[inline]
    pub(crate) fn send(&mut self, index: usize, message: M, invocation: u64) {
        if matches!(self.info.kind, EdgeKind::Bounded) && !self.count_burst(invocation) {
            self.burst_fault();
        }
        self.put(index, message);
    }

    pub(crate) fn send_all(&mut self, message: M, invocation: u64)
    where
        M: Clone,
    {
        if matches!(self.info.kind, EdgeKind::Bounded) && !self.count_burst(invocation) {
            self.burst_fault();
        }
        let last = self.targets.len() - 1;
        for index in 0..last {
            self.put(index, message.clone());
        }
        self.put(last, message);
    }

    pub(crate) fn try_send(
        &mut self,
        index: usize,
        message: M,
        invocation: u64,
    ) -> Result<(), Full<M>> {
        if self.room(index, invocation) == 0 {
            return Err(Full(message));
        }
        if matches!(self.info.kind, EdgeKind::Bounded) {
            self.count_burst(invocation);
        }
        self.put(index, message);
        Ok(())
    }

    #[inline]
    fn put(&mut self, index: usize, message: M) {
        let sent = &self.shared.stats[self.shard].sent[self.index];
        let target = &mut self.targets[index];
        match &mut target.ring {
            Ring::Plain(ring) => {
                if matches!(target.receiver, Receiver::Lane { .. }) && ring.is_closed() {
                    sent.add(1);
                    self.shared.give_up(self.edge, message);
                    return;
                }
                if matches!(self.info.kind, EdgeKind::Unbounded) {
                    sent.add(1);
                    if !target.spill.is_empty() {
                        target.spill.push_back(message);
                        self.spilled = true;
                        return;
                    }
                    if let Err(Full(message)) = ring.push(message) {
                        target.spill.push_back(message);
                        self.spilled = true;
                        return;
                    }
                } else {
                    if let Some(credit) = self.credit {
                        if target.debt >= answers_held(credit) {
                            self.amplification_fault();
                        }
                        target.debt += 1;
                    }
                    self.slack = self.slack.saturating_sub(1);
                    sent.add(1);
                    if ring.push(message).is_err() {
                        unreachable!("an invocation finds room for its burst");
                    }
                }
            }
            Ring::Reply(ring) => {
                if target.debt == 0 {
                    self.debt_fault();
                }
                target.debt -= 1;
                sent.add(1);
                if ring.push(Some(message)).is_err() {
                    unreachable!("an answer finds the slot that its request reserved");
                }
            }
        }
        target.dirty = true;
        self.dirty = true;
    }

    #[cold]
    fn burst_fault(&self) -> ! {
        panic!(
            "graph `{}`, edge {}: an invocation sent more than its burst of {}; \
             declare [burst = {}] or more on the edge, or use `try_send`",
            self.shared.graph,
            self.info,
            self.info.burst,
            self.info.burst + 1,
        )
    }

    #[cold]
    fn debt_fault(&self) -> ! {
        panic!(
            "graph `{}`, edge {}: an answer without a request that waits for one; \
             each request is answered, or waived, once",
            self.shared.graph, self.info,
        )
    }

    #[cold]
    fn amplification_fault(&self) -> ! {
        panic!(
            "graph `{}`, edge {}: the handling of answers sends more requests than it takes answers, \
             which outgrows any bound; look at `room` first, or use `try_send`",
            self.shared.graph, self.info,
        )
    }
}

/// The slots of a ring of answers: as many again as there are credits, so that
/// the handling of an answer may ask again before others come back.
pub(crate) const fn answers_held(credit: usize) -> usize {
    credit.saturating_mul(2)
}

impl<M: Send + 'static> Outlet for Out<M> {
    fn targets(&self) -> usize {
        self.targets.len()
    }

    fn allow(&mut self) -> usize {
        if !matches!(self.info.kind, EdgeKind::Bounded) {
            return usize::MAX;
        }
        let burst = self.info.burst;
        if self.slack < burst {
            let room = |target| self.room_in_credit(target);
            self.slack = self.targets.iter().map(room).min().unwrap_or(usize::MAX);
        }
        self.slack / burst
    }

    fn allow_answering(&self, spare: Spare) -> usize {
        if !matches!(self.info.kind, EdgeKind::Bounded) {
            return usize::MAX;
        }
        let limit = self.limit();
        let room = |(index, target): (usize, &Target<M>)| {
            if spare == Spare::All || spare == Spare::One(index) {
                target.room()
            } else {
                target.room().min(limit.saturating_sub(target.debt))
            }
        };
        let least = self.targets.iter().enumerate().map(room).min();
        least.unwrap_or(usize::MAX) / self.info.burst
    }

    fn is_at_limit(&self, index: usize) -> bool {
        self.limit().saturating_sub(self.targets[index].debt) < self.info.burst
    }

    fn is_gated(&self) -> bool {
        matches!(self.info.kind, EdgeKind::Bounded)
            && self.slack < self.info.burst
            && self
                .targets
                .iter()
                .any(|target| self.room_in_credit(target) < self.info.burst)
    }

    fn refill(&mut self) {
        if !core::mem::take(&mut self.spilled) {
            return;
        }
        for target in &mut self.targets {
            let Ring::Plain(ring) = &mut target.ring else {
                continue;
            };
            if matches!(target.receiver, Receiver::Lane { .. }) && ring.is_closed() {
                for message in target.spill.drain(..) {
                    self.shared.give_up(self.edge, message);
                }
            }
            while let Some(message) = target.spill.pop_front() {
                if let Err(Full(message)) = ring.push(message) {
                    target.spill.push_front(message);
                    self.spilled = true;
                    break;
                }
                target.dirty = true;
                self.dirty = true;
            }
        }
    }

    fn can_refill(&self) -> bool {
        let ready = |target: &Target<M>| !target.spill.is_empty() && target.room() > 0;
        self.spilled && self.targets.iter().any(ready)
    }

    fn has_spilled(&self) -> bool {
        self.spilled
    }

    fn announce(&mut self, wake: &mut dyn FnMut(ShardId)) {
        if !core::mem::take(&mut self.dirty) {
            return;
        }
        for target in &mut self.targets {
            if core::mem::take(&mut target.dirty) {
                match &target.receiver {
                    Receiver::Shard(shard) => wake(*shard),
                    Receiver::Lane { lane, slot } => lane.announce(*slot),
                }
            }
        }
    }

    fn answered(&mut self, index: usize) {
        let debt = &mut self.targets[index].debt;
        assert!(*debt > 0, "an answer belongs to a request that was sent");
        *debt -= 1;
    }

    fn owe(&mut self, index: usize) {
        self.targets[index].debt += 1;
    }

    fn owed(&self, index: usize) -> usize {
        self.targets[index].debt
    }

    fn waive(&mut self, index: usize) {
        let target = &mut self.targets[index];
        let Ring::Reply(ring) = &mut target.ring else {
            panic!(
                "graph `{}`, edge {}: only an edge declared with `reply` has requests to waive",
                self.shared.graph, self.info
            );
        };
        if target.debt == 0 {
            self.debt_fault();
        }
        target.debt -= 1;
        if ring.push(None).is_err() {
            unreachable!("a waiver finds the slot that its request reserved");
        }
        target.dirty = true;
        self.dirty = true;
    }

    fn waive_all(&mut self) -> bool {
        if !matches!(self.info.kind, EdgeKind::Reply { .. }) {
            return false;
        }
        let mut any = false;
        for index in 0..self.targets.len() {
            while self.targets[index].debt > 0 {
                self.waive(index);
                any = true;
            }
        }
        any
    }

    fn abandon(&mut self) {
        for target in &mut self.targets {
            for message in target.spill.drain(..) {
                self.shared.give_up(self.edge, message);
            }
            // What its receiver left there is dropped with the ring.
            if let (Ring::Plain(ring), Receiver::Lane { .. }) = (&target.ring, &target.receiver)
                && ring.is_closed()
            {
                let left = ring.capacity() - ring.room();
                self.shared.count_undelivered(self.edge, left as u64);
            }
        }
    }
}
