//! The private half of the protocol: the state of one worker, and the operations that only this
//! worker may do.
//!
//! A [`Member`] is made together with the shared words, and then moves to its worker's thread. The
//! caller calls the methods of `Member`, and runs user code between these calls. The order of a
//! round is
//!
//! ```text
//! is_stopping ─ yes → leave, release each
//!      │ no
//! look ─ new epoch → for each of leaving(): on_release, release_next
//!      │             open a window
//! take → on_acquire for each taken
//!      │
//! a turn of each ready shard
//!      │
//! may_promise and it is due → promise ─ Lead → decide, publish
//!      │
//! nothing done → park
//! ```

use core::fmt;
use std::boxed::Box;
use std::vec::Vec;

use super::baton::{Baton, Seat};
use super::inbox::{Mark, Outbox};
use super::page::Change;
use super::park::{Park, ThreadPark};
use super::word::{FREE, ONE_PROMISE, Word, held_by};
use crate::assignment::Assignment;
use crate::ids::{ShardId, WorkerId};
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::{Ordering, fence};

/// Result of a promise.
#[derive(Debug)]
#[must_use]
pub enum Promise {
    /// Other workers have not promised yet.
    Counted,
    /// All have promised: the caller leads and must publish.
    Lead(Leader),
}

/// The right to read all figures and to publish the next epoch.
///
/// There is one at a time: the last promise of an epoch makes it, and [`Member::publish`] consumes
/// it. If it is dropped instead, as after a stop, no further epoch opens.
#[derive(Debug)]
#[must_use]
pub struct Leader {
    /// Number of requests made before this decision, which it answers.
    served: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Figures may be updated.
    Open,
    /// Figures are frozen until the next epoch.
    Promised,
    /// As `Promised`, and this member has the [`Leader`].
    Leading,
}

/// The protocol state of one worker.
pub struct Member {
    baton: Arc<Baton>,
    worker: WorkerId,
    epoch: u32,
    phase: Phase,
    /// `Page::served` of the epoch; the requests noted so far if it is dedicated.
    served: u32,
    /// Whether it keeps its first shards and takes part in no epoch.
    is_dedicated: bool,
    /// Whether another worker had promised at the last check.
    promised_seen: bool,
    /// `Baton::notices` as of the last check before a sleep.
    notices_seen: u32,
    /// Whether this worker holds the shard, by shard.
    local: Vec<bool>,
    held: Vec<ShardId>,
    /// Shards that the page assigns to this worker and that it does not hold yet.
    wanted: Vec<ShardId>,
    /// Shards that this worker holds and the page assigns to another.
    leaving: Vec<ShardId>,
    /// Number of marks taken, by sending worker.
    heads: Box<[u32]>,
    /// The sending worker whose ring is checked next.
    next_ring: usize,
    /// Outboxes by target, up to the highest target that was marked.
    outboxes: Vec<Outbox>,
    /// Targets that were marked since the last flush.
    marked: Vec<WorkerId>,
    /// Targets with marks that did not fit their ring.
    keeping: Vec<WorkerId>,
}

impl Baton {
    /// Makes the shared words for `first`, and a [`Member`] for each worker, which sleeps on a
    /// condition variable.
    pub fn new(first: Assignment) -> (Arc<Self>, Vec<Member>) {
        Self::new_with_dedicated(first, &[])
    }

    /// As [`new`](Self::new), with workers that are dedicated: see
    /// [`with_dedicated`](Self::with_dedicated).
    pub fn new_with_dedicated(
        first: Assignment,
        dedicated: &[WorkerId],
    ) -> (Arc<Self>, Vec<Member>) {
        Self::with_dedicated(first, dedicated, true, |_| Box::new(ThreadPark::new()))
    }

    /// Makes the shared words for `first`, and a [`Member`] for each worker. A worker sleeps in the
    /// [`Park`] that `park` returns for it; if `sleeps` is `false`, it never sleeps. All shards are
    /// free at first; each worker takes its own in its first round.
    ///
    /// Workers that are dedicated keep their shards of `first`, promise in no epoch, and never
    /// lead. No epoch waits for them.
    pub fn with_dedicated(
        first: Assignment,
        dedicated: &[WorkerId],
        sleeps: bool,
        park: impl FnMut(WorkerId) -> Box<dyn Park>,
    ) -> (Arc<Self>, Vec<Member>) {
        let baton = Arc::new(Self::with_seats(&first, dedicated, sleeps, park));
        let members = (0..first.workers())
            .map(|at| Member::new(baton.clone(), WorkerId::from_index(at), &first))
            .collect();
        (baton, members)
    }
}

impl Member {
    fn new(baton: Arc<Baton>, worker: WorkerId, first: &Assignment) -> Self {
        let (shards, workers) = (first.shards(), first.workers());
        let wanted: Vec<_> = first.shards_of(worker).collect();
        Self {
            is_dedicated: baton.seats[worker.index()].is_dedicated,
            baton,
            worker,
            epoch: 0,
            phase: Phase::Open,
            served: 0,
            promised_seen: false,
            notices_seen: 0,
            local: std::vec![false; shards],
            held: Vec::with_capacity(wanted.len()),
            wanted,
            leaving: Vec::new(),
            heads: std::vec![0; workers].into(),
            next_ring: 0,
            outboxes: Vec::new(),
            marked: Vec::with_capacity(8),
            keeping: Vec::with_capacity(8),
        }
    }

    /// Returns `true` if this worker is dedicated: it takes part in no epoch.
    #[inline]
    pub fn is_dedicated(&self) -> bool {
        self.is_dedicated
    }

    /// Returns the id of this worker.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Returns the epoch that the worker has seen; the first one if it is dedicated.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns the shards that the worker holds. Between `look` and the last `release_next` it
    /// leaves out those that leave.
    pub fn held(&self) -> &[ShardId] {
        &self.held
    }

    /// Returns `true` if this worker holds `shard`.
    #[inline]
    pub fn is_local(&self, shard: ShardId) -> bool {
        self.local[shard.index()]
    }

    /// Returns the shared words.
    pub fn baton(&self) -> &Arc<Baton> {
        &self.baton
    }

    /// Makes a shard of another worker ready there, with the waker's `note`. A sleeping worker is
    /// certain to be woken only after [`flush`](Self::flush), except by a dedicated worker. Its
    /// turn may block, so it keeps no mark, and wakes the other worker at once.
    #[inline]
    pub fn wake(&mut self, shard: ShardId, note: u32) {
        if let Some(worker) = self.baton.target(shard) {
            self.mark(worker, (shard, note));
        }
    }

    /// Puts a mark into the ring to `to`. If the ring is full, keeps the mark, or sets a bit if
    /// this worker is dedicated.
    fn mark(&mut self, to: WorkerId, mark: Mark) {
        if self.outboxes.len() <= to.index() {
            self.outboxes.resize_with(to.index() + 1, Outbox::new);
        }
        let ring = self.baton.inboxes[to.index()].ring(self.worker);
        let outbox = &mut self.outboxes[to.index()];
        if !outbox.kept.is_empty() || !outbox.put(ring, mark) {
            self.keep(to, mark);
        }
        if !self.baton.sleeps {
            return;
        }
        let outbox = &mut self.outboxes[to.index()];
        if !outbox.is_marked {
            outbox.is_marked = true;
            self.marked.push(to);
        }
        match self.is_dedicated {
            true => self.rouse_marked(),
            // A hint without a fence, which wakes nearly all sleepers at once.
            false => self.baton.rouse(to),
        }
    }

    #[cold]
    fn keep(&mut self, to: WorkerId, mark: Mark) {
        let outbox = &mut self.outboxes[to.index()];
        if outbox.kept.is_empty() {
            self.keeping.push(to);
        }
        if outbox.keep(mark) || self.is_dedicated {
            self.give_up_rings();
        }
    }

    /// Wakes the workers that sleep on marks, and puts kept marks into rings that have room.
    ///
    /// Called at the end of each round, and so before this worker sleeps.
    #[inline]
    pub fn flush(&mut self) {
        if !self.keeping.is_empty() {
            self.put_kept();
        }
        if !self.marked.is_empty() {
            self.rouse_marked();
        }
    }

    #[cold]
    fn put_kept(&mut self) {
        let Self {
            baton,
            worker,
            outboxes,
            marked,
            keeping,
            ..
        } = self;
        keeping.retain(|&to| {
            let outbox = &mut outboxes[to.index()];
            let is_done = outbox.put_kept(baton.inboxes[to.index()].ring(*worker));
            if baton.sleeps && !outbox.is_marked {
                outbox.is_marked = true;
                marked.push(to);
            }
            !is_done
        });
    }

    fn rouse_marked(&mut self) {
        // SeqCst: pairs with the fence in park; either its check of the rings sees the marks, or
        // the loads of the seats below see it asleep. [SO4]
        fence(Ordering::SeqCst);
        for to in self.marked.drain(..) {
            self.outboxes[to.index()].is_marked = false;
            self.baton.rouse(to);
        }
    }

    /// Sets bits for all kept marks.
    #[cold]
    fn give_up_rings(&mut self) {
        for to in self.keeping.drain(..) {
            for (shard, _) in self.outboxes[to.index()].kept.drain(..) {
                self.baton.set_bit(to, shard);
            }
        }
    }

    /// Returns `true` if there may be a wake-up for this worker. A hint.
    #[inline]
    pub fn has_wakes(&self) -> bool {
        self.baton.inboxes[self.worker.index()].may_have_any(&self.heads)
    }

    /// Takes marks from the rings of at most `rings` other workers, and adds those of held shards
    /// to `notes`. Marks of other shards are forwarded.
    #[inline]
    pub fn receive(&mut self, rings: usize, notes: &mut Vec<(ShardId, Option<u32>)>) {
        let workers = self.heads.len();
        for _ in 0..rings.min(workers - 1) {
            self.next_ring = next_of(self.next_ring, workers);
            if self.next_ring == self.worker.index() {
                self.next_ring = next_of(self.next_ring, workers);
            }
            let inbox = &self.baton.inboxes[self.worker.index()];
            if inbox.has_mark(self.next_ring, self.heads[self.next_ring]) {
                self.receive_from(self.next_ring, notes);
            }
        }
    }

    fn receive_from(&mut self, from: usize, notes: &mut Vec<(ShardId, Option<u32>)>) {
        let mut astray = Vec::new();
        let (local, head) = (&self.local, &mut self.heads[from]);
        let inbox = &self.baton.inboxes[self.worker.index()];
        inbox.take_marks(from, head, |(shard, note)| match local[shard.index()] {
            true => notes.push((shard, Some(note))),
            false => astray.push((shard, note)),
        });
        for mark in astray {
            if let Some(worker) = self.baton.settle(mark.0) {
                self.mark(worker, mark);
            }
        }
    }

    /// Does the same as [`receive`](Self::receive) for wake-ups without a note.
    #[inline]
    pub fn receive_bits(&mut self, notes: &mut Vec<(ShardId, Option<u32>)>) {
        let (baton, local) = (&self.baton, &self.local);
        baton.inboxes[self.worker.index()].take_bits(|shard| {
            if local[shard.index()] {
                notes.push((shard, None));
            } else if let Some(worker) = baton.settle(shard) {
                baton.set_bit(worker, shard);
            }
        });
    }

    /// Returns `true` if all workers must leave.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.baton.is_stopping()
    }

    /// Returns `true` while figures may be updated.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Loads the word. On a new epoch it goes through the changes, for the held shards that leave
    /// and for those that are wanted. Returns whether the epoch is new; `false` for a dedicated
    /// worker.
    pub fn look(&mut self) -> bool {
        if self.is_dedicated {
            return false;
        }
        // Acquire: pairs with the Release in publish; the reads of the page, and the restart of
        // figures after the leader's reads, come after it. [SH1]
        let word = Word::from_bits(self.baton.word.load(Ordering::Acquire));
        self.promised_seen = word.promised() > 0;
        if word.epoch() == self.epoch {
            return false;
        }
        assert!(
            self.phase != Phase::Open && self.wanted.is_empty() && self.leaving.is_empty(),
            "an epoch ends only after each worker held its shards and promised"
        );
        self.epoch = word.epoch();
        self.phase = Phase::Open;
        let Self {
            baton,
            worker,
            held,
            wanted,
            leaving,
            served,
            local,
            ..
        } = self;
        let baton: &Baton = baton;
        baton.pages[page_of(word.epoch())].with(|page| {
            // SAFETY: this member is in the epoch of the page, seen by the load above, and has not
            // promised in it. The leader writes this page only after that promise and a further
            // epoch (rule 4).
            let page = unsafe { &*page };
            *served = page.served;
            for change in &page.changes {
                if change.from == *worker {
                    assert!(
                        local[change.shard.index()],
                        "a worker that left has no epoch"
                    );
                    drop_held(baton, held, change.shard);
                    leaving.push(change.shard);
                } else if change.to == *worker {
                    wanted.push(change.shard);
                }
            }
        });
        self.check_invariants();
        true
    }

    /// Asserts, in debug builds, that each shard is in at most one list and that the flags agree
    /// with the lists.
    fn check_invariants(&self) {
        if cfg!(debug_assertions) {
            let in_hand = self.held.iter().chain(&self.leaving);
            let count = self.local.iter().filter(|&&local| local).count();
            assert_eq!(
                in_hand.clone().count(),
                count,
                "a shard in hand is in one list"
            );
            assert!(
                in_hand.clone().all(|&shard| self.is_local(shard))
                    && !self.wanted.iter().any(|&shard| self.is_local(shard)),
                "what is in hand is flagged, what is wanted is not"
            );
        }
    }

    /// Returns the shards to release; the last one is released first.
    pub fn leaving(&self) -> &[ShardId] {
        &self.leaving
    }

    /// Frees the last shard of [`leaving`](Self::leaving) and wakes its new owner.
    pub fn release_next(&mut self) {
        let Some(shard) = self.leaving.pop() else {
            return;
        };
        self.local[shard.index()] = false;
        let holder = &self.baton.holders[shard.index()].word;
        // Release: pairs with the AcqRel in take; publishes the shard's state. A swap, so that all
        // writes to the word but the first are read-modify-writes, in one order. [HO3]
        holder.swap(FREE, Ordering::Release);
        // SeqCst: pairs with the fence in park; either the new owner's check sees the shard free,
        // or the load of its seat sees it asleep. [SO7]
        fence(Ordering::SeqCst);
        if self.is_dedicated {
            // It leaves for good. No page names another owner, and it may read none (rule 7).
            return;
        }
        let owner = self.with_assignment(|assignment| assignment.owner(shard));
        if owner != self.worker {
            self.baton.rouse(owner);
        }
    }

    /// Prepares to leave for good: all held shards become leaving.
    pub fn leave(&mut self) {
        self.wanted.clear();
        self.leaving.append(&mut self.held);
    }

    /// Takes the wanted shards that are free, and returns their number. They are the last ones of
    /// [`held`](Self::held). Never waits.
    pub fn take(&mut self) -> usize {
        let mut taken = 0;
        let mut at = 0;
        while at < self.wanted.len() {
            let shard = self.wanted[at];
            let holder = &self.baton.holders[shard.index()];
            // Relaxed: the swap below acquires. [HO4]
            if holder.word.load(Ordering::Relaxed) == FREE {
                // The word is free, and no other worker takes the shard now. In this epoch the page
                // names one owner. The owner in the epoch before took the shard before this epoch
                // was published (rule 3).
                //
                // AcqRel: Acquire pairs with the Release in release_next, for the shard's state.
                // The swap also pairs with the read-modify-write in settle: either settle returns
                // this worker, or this swap sees what the waker wrote before. [HO5]
                holder.word.swap(held_by(self.worker), Ordering::AcqRel);
                // SAFETY: this worker holds the shard since the swap.
                unsafe { holder.set_place(self.held.len()) };
                self.local[shard.index()] = true;
                self.held.push(shard);
                self.wanted.swap_remove(at);
                taken += 1;
            } else {
                at += 1;
            }
        }
        taken
    }

    /// Returns `true` if the rules allow a promise: all shards are held, none was made in this
    /// epoch, and the worker is not dedicated.
    #[inline]
    pub fn may_promise(&self) -> bool {
        self.phase == Phase::Open && self.wanted.is_empty() && !self.is_dedicated
    }

    /// Returns `true` if a new epoch is wanted: another worker has promised, or there is an
    /// unanswered request. On a dedicated worker, whether there is a request that it has not
    /// [noted](Self::note_requests).
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.promised_seen || self.is_requested()
    }

    fn is_requested(&self) -> bool {
        self.requests() != self.served
    }

    fn requests(&self) -> u32 {
        // Relaxed: the count carries no data. [SO8]
        self.baton.requests.load(Ordering::Relaxed)
    }

    /// Notes the requests so far. Only on a dedicated worker, which reads no page that says how
    /// many were answered.
    pub fn note_requests(&mut self) {
        debug_assert!(self.is_dedicated, "the page says it to the others");
        self.served = self.requests();
    }

    /// Promises not to update figures until the next epoch.
    ///
    /// The first promise of an epoch wakes the others, so that sleeping workers promise too.
    ///
    /// # Panics
    ///
    /// If the rules do not [allow](Self::may_promise) it.
    pub fn promise(&mut self) -> Promise {
        assert!(
            self.may_promise(),
            "a worker that is not dedicated promises once per epoch and holds all its shards"
        );
        self.check_invariants();
        // AcqRel: Release publishes this worker's figures to the leader. Acquire lets the leader,
        // which promises last, see the figures of all others, and that they have left the other
        // page. [SH2]
        let old = self.baton.word.fetch_add(ONE_PROMISE, Ordering::AcqRel);
        let old = Word::from_bits(old);
        debug_assert_eq!(
            old.epoch(),
            self.epoch,
            "no epoch ends without this promise"
        );
        debug_assert!(old.promised() < old.members(), "each member promises once");
        self.phase = Phase::Promised;
        if old.promised() + 1 == old.members() {
            self.phase = Phase::Leading;
            // Relaxed: a thread that promised because of a request saw the request before its
            // promise, so this load sees it too. [SO9]
            let served = self.baton.requests.load(Ordering::Relaxed);
            return Promise::Lead(Leader { served });
        }
        if old.promised() == 0 {
            self.baton.wake_members(Some(self.worker));
        }
        Promise::Counted
    }

    /// Calls `f` with the assignment of this member's epoch.
    ///
    /// # Panics
    ///
    /// If the worker is dedicated.
    pub fn with_assignment<R>(&self, f: impl FnOnce(&Assignment) -> R) -> R {
        assert!(!self.is_dedicated, "a dedicated worker reads no page");
        self.baton.pages[page_of(self.epoch)].with(|page| {
            // SAFETY: this member is in the epoch of the page. A thread writes this page only after
            // this member has promised in the next epoch. By then it has left the epoch of this
            // page.
            let page = unsafe { &*page };
            f(&page.owners)
        })
    }

    /// Publishes the next epoch, with `next` or the current assignment, and wakes all workers. The
    /// cost grows with the number of shards; see [`publish_changes`](Self::publish_changes).
    ///
    /// # Panics
    ///
    /// If this member does not lead, or `next` has another shape. The caller checks what a balancer
    /// returns.
    pub fn publish(&mut self, leader: Leader, next: Option<&Assignment>) {
        let changes = self.with_assignment(|current| {
            let next = next.unwrap_or(current);
            assert!(next.fits(current), "an epoch keeps shards and workers");
            let owners = current.owners().iter().zip(next.owners()).enumerate();
            let changed = owners.filter(|(_, (from, to))| from != to);
            let change = |(at, (&from, &to)): (usize, (&WorkerId, &WorkerId))| Change {
                shard: ShardId::from_index(at),
                from,
                to,
            };
            changed.map(change).collect::<Vec<_>>()
        });
        self.publish_changes(leader, &changes);
    }

    /// Publishes the next epoch, with these changes of the current assignment, and wakes all
    /// workers. The cost grows with the number of changes and workers.
    ///
    /// # Panics
    ///
    /// If this member does not lead, or if a change names a shard or worker that does not exist, a
    /// wrong owner, a dedicated worker, or a shard that another change names. The caller checks
    /// what a balancer returns.
    pub fn publish_changes(&mut self, leader: Leader, changes: &[Change]) {
        assert!(self.phase == Phase::Leading, "the leader publishes");
        let is_dedicated = |worker: WorkerId| {
            let seat = self.baton.seats.get(worker.index());
            seat.is_some_and(|seat| seat.is_dedicated)
        };
        assert!(
            !changes
                .iter()
                .any(|change| is_dedicated(change.from) || is_dedicated(change.to)),
            "a dedicated worker keeps its shards"
        );
        let members = self.baton.members;
        let word = Word::new(self.epoch, members, members).next();
        self.baton.pages[page_of(self.epoch)].with(|current| {
            // SAFETY: as in with_assignment.
            let current = unsafe { &*current };
            self.baton.pages[page_of(word.epoch())].with_mut(|page| {
                // SAFETY: all members have promised in this epoch, and the Acquire of the last
                // promise saw that. So all have left the other page, and none reads it again before
                // the store below. There is one leader at a time.
                let page = unsafe { &mut *page };
                page.follow(current, changes, leader.served);
            });
        });
        self.phase = Phase::Promised;
        // A store is enough: all members have promised, so no other thread writes the word.
        //
        // Release: pairs with the Acquire in look; publishes the page, and that the leader no
        // longer reads figures. [SH3]
        self.baton.word.store(word.bits(), Ordering::Release);
        self.baton.wake_members(Some(self.worker));
    }

    fn seat(&self) -> &Seat {
        &self.baton.seats[self.worker.index()]
    }

    /// Polls this worker's `Park` for events.
    pub fn poll(&self, ready: &mut dyn FnMut(ShardId)) {
        self.seat().park.poll(ready);
    }

    /// Calls `sleep`, unless there is something to do. Returns the result of `sleep` and whether a
    /// waker ended the sleep, or `None` if `sleep` was not called.
    ///
    /// Blocking: the only place where a worker blocks.
    pub fn park<R>(&mut self, sleep: impl FnOnce(&dyn Park) -> R) -> Option<(R, bool)> {
        debug_assert!(self.phase != Phase::Leading, "a leader does not sleep");
        debug_assert!(self.marked.is_empty(), "a flush comes before a sleep");
        self.give_up_rings();
        // Relaxed: the fence below orders it. A swap, in one order with those of wakers. [SO10]
        self.seat().sleeping.swap(1, Ordering::Relaxed);
        // SeqCst: pairs with those in rouse_marked, set_bit, wake_each and release_next. If this
        // fence is first, the other side's load of the seat sees this worker asleep. Otherwise the
        // check below sees what was written before the other fence. [SO11]
        fence(Ordering::SeqCst);
        let slept = match self.has_news() {
            true => None,
            false => Some(sleep(&*self.seat().park)),
        };
        // Acquire: pairs with the Release in rouse_slow; the next check of the inbox sees what the
        // waker wrote. [SO12]
        let is_woken = self.seat().sleeping.swap(0, Ordering::Acquire) == 0;
        slept.map(|slept| (slept, is_woken))
    }

    /// Returns whether the protocol has work for this worker.
    fn has_news(&mut self) -> bool {
        // Acquire: pairs with the Release in notify_all. The fence in park orders it too: either
        // this load sees the notification, or the notifier sees the worker asleep. [SO20]
        let notices = self.baton.notices.load(Ordering::Acquire);
        if core::mem::replace(&mut self.notices_seen, notices) != notices {
            return true;
        }
        // Relaxed: ordered by the fence in park; the next round loads it again with Acquire. [SO13]
        if self.baton.stop.load(Ordering::Relaxed) != 0 {
            return true;
        }
        // Relaxed: as above. [SH4]
        let word = Word::from_bits(self.baton.word.load(Ordering::Relaxed));
        if word.epoch() != self.epoch && !self.is_dedicated {
            return true;
        }
        if self.may_promise() && (word.promised() > 0 || self.is_requested()) {
            return true;
        }
        if !self.baton.inboxes[self.worker.index()].is_empty(&self.heads) {
            return true;
        }
        self.wanted.iter().any(|shard| {
            // Relaxed: as above. [HO6]
            self.baton.holders[shard.index()]
                .word
                .load(Ordering::Relaxed)
                == FREE
        })
    }
}

impl Drop for Member {
    /// Frees the shards that are still held, so a worker that unwinds leaves none behind.
    fn drop(&mut self) {
        // A failed model unwinds outside of its execution, where loom's atomics panic again.
        #[cfg(rast_loom)]
        if crate::primitive::thread::panicking() {
            return;
        }
        self.leave();
        while !self.leaving.is_empty() {
            self.release_next();
        }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("worker", &self.worker)
            .field("epoch", &self.epoch)
            .field("phase", &self.phase)
            .field("held", &self.held)
            .field("wanted", &self.wanted)
            .field("leaving", &self.leaving)
            .finish_non_exhaustive()
    }
}

/// Returns the number after `number` of `count`, cyclically.
#[inline]
fn next_of(number: usize, count: usize) -> usize {
    if number + 1 < count { number + 1 } else { 0 }
}

/// Removes a shard that is flagged as held from the list of the held ones; the last one takes its
/// place.
fn drop_held(baton: &Baton, held: &mut Vec<ShardId>, shard: ShardId) {
    // SAFETY: the shard is held: the caller has checked the flag.
    let place = unsafe { baton.holders[shard.index()].place() };
    let dropped = held.swap_remove(place);
    assert_eq!(dropped, shard, "the place of a held shard is its own");
    if let Some(&moved) = held.get(place) {
        // SAFETY: it is in the list of the held shards.
        unsafe { baton.holders[moved.index()].set_place(place) };
    }
}

/// Returns the index of the page that an epoch uses.
fn page_of(epoch: u32) -> usize {
    (epoch & 1) as usize
}

#[cfg(all(test, not(rast_loom)))]
mod tests;
