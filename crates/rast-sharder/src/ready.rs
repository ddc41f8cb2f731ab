//! The ready shards of one worker, and those that wait for a deadline.
//!
//! Only its worker uses these queues, so a push needs no atomic operation. An idle shard costs
//! nothing.
//!
//! 1. A shard is in the queues at most once; a flag per shard shows whether it is. If a ready shard
//!    is woken again, it gets the note (the number that the waker passes), but no second turn.
//! 2. A queue is first in, first out: a ready shard waits for one turn of each shard before it in
//!    the queue. Shards that another worker woke have a second queue, and pops alternate between
//!    the two queues. So a woken shard does not wait for all busy shards. It delays each of them by
//!    one turn.
//! 3. When a shard leaves the worker, its flag is cleared, but its entry stays in the queue as an
//!    *old entry*. A pop skips old entries. They are purged once they are more than half of all
//!    entries. `entries = shards with a flag + old entries`.

use std::collections::VecDeque;
use std::vec::Vec;

use crate::ids::ShardId;
use crate::timers::{DeadlineStore, Handle, HeapStore, Instant};

/// Initial capacity of a queue.
const QUEUE: usize = 1_024;

/// Minimum number of old entries for a purge.
const OLD: usize = 64;

/// A shard's deadline at its worker. Stored with the shard's state, so that a turn needs no table
/// lookup.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    /// When the shard wants a turn.
    at: Option<Instant>,
    /// Its entry in the store. The entry may expire before `at` and is then checked again, so a
    /// deadline that is put off in every turn costs a comparison.
    armed: Option<(Instant, Handle)>,
}

impl Alarm {
    /// Clears the deadline of a shard that gets a turn.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.at = None;
    }
}

/// The ready shards and the deadlines of one worker.
#[derive(Debug)]
pub(crate) struct Ready {
    queue: VecDeque<ShardId>,
    /// Shards that other workers woke.
    woken: VecDeque<ShardId>,
    /// Whether pushes go to `woken`.
    prefers: bool,
    /// Whether the next pop tries `woken` first.
    woken_first: bool,
    /// Whether a shard is in a queue, by shard.
    queued: Vec<bool>,
    /// Number of entries of shards that left.
    old: usize,
    alarms: HeapStore<ShardId>,
}

impl Ready {
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            queue: VecDeque::with_capacity(shards.min(QUEUE)),
            woken: VecDeque::with_capacity(shards.min(QUEUE)),
            prefers: false,
            woken_first: true,
            queued: std::vec![false; shards],
            old: 0,
            alarms: HeapStore::new(),
        }
    }

    /// Queues a held shard, if it is not queued.
    #[inline]
    pub(crate) fn push(&mut self, shard: ShardId) {
        let queued = &mut self.queued[shard.index()];
        if !*queued {
            *queued = true;
            match self.prefers {
                true => self.push_woken(shard),
                false => self.queue.push_back(shard),
            }
        }
    }

    /// Reserves the place of a held shard, until [`push_held`](Self::push_held) queues it: no push
    /// queues it earlier. The shard is not queued.
    #[inline]
    pub(crate) fn hold(&mut self, shard: ShardId) {
        self.queued[shard.index()] = true;
    }

    /// Queues a shard that was [held back](Self::hold).
    #[inline]
    pub(crate) fn push_held(&mut self, shard: ShardId) {
        debug_assert!(self.queued[shard.index()], "it was held back");
        self.queue.push_back(shard);
    }

    #[inline(never)]
    fn push_woken(&mut self, shard: ShardId) {
        self.woken.push_back(shard);
    }

    /// Sets whether the shards pushed from now on were woken by other workers. If no shard is
    /// queued, both queues give the same order, and the first is faster.
    #[inline]
    pub(crate) fn prefer(&mut self, prefers: bool) {
        self.prefers = prefers && !(self.queue.is_empty() && self.woken.is_empty());
    }

    /// Pops a shard, alternating between the queues.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<ShardId> {
        if self.woken.is_empty() {
            // Most often, so it comes before anything else is loaded.
            self.woken_first = true;
            let shard = self.queue.pop_front()?;
            if core::mem::take(&mut self.queued[shard.index()]) {
                return Some(shard);
            }
            self.old -= 1;
        }
        self.pop_slow()
    }

    #[inline(never)]
    fn pop_slow(&mut self) -> Option<ShardId> {
        loop {
            let shard = match self.woken_first && !self.woken.is_empty() {
                true => {
                    self.woken_first = false;
                    self.woken.pop_front()
                }
                false => {
                    self.woken_first = true;
                    self.queue.pop_front().or_else(|| self.woken.pop_front())
                }
            };
            let shard = shard?;
            let queued = &mut self.queued[shard.index()];
            if core::mem::take(queued) {
                return Some(shard);
            }
            self.old -= 1;
        }
    }

    /// Sets the deadline of `shard`.
    pub(crate) fn set_alarm(&mut self, shard: ShardId, alarm: &mut Alarm, at: Instant) {
        alarm.at = Some(at);
        match alarm.armed {
            Some((armed, _)) if armed <= at => return,
            Some((_, handle)) => {
                self.alarms.cancel(handle);
            }
            None => {}
        }
        alarm.armed = Some((at, self.alarms.insert(at, shard)));
    }

    /// Returns the queued shards, by number. Goes through all shards.
    pub(crate) fn queued(&self) -> impl Iterator<Item = ShardId> {
        let queued = self.queued.iter().enumerate();
        let queued = queued.filter(|&(_, &is_queued)| is_queued);
        queued.map(|(at, _)| ShardId::from_index(at))
    }

    /// Returns the number of entries, old ones included.
    pub(crate) fn entries(&self) -> usize {
        self.queue.len() + self.woken.len()
    }

    /// Returns the queued shard of an entry, or `None` if the entry is old. A shard may have an old
    /// entry beside its own and is returned for both.
    pub(crate) fn entry(&self, at: usize) -> Option<ShardId> {
        let woken = || self.woken.get(at - self.queue.len());
        let &shard = self.queue.get(at).or_else(woken)?;
        self.queued[shard.index()].then_some(shard)
    }

    /// Removes a shard out of order; returns whether it was queued.
    pub(crate) fn take(&mut self, shard: ShardId) -> bool {
        let was_queued = core::mem::take(&mut self.queued[shard.index()]);
        if was_queued {
            self.old += 1;
            if self.old >= OLD && self.old > self.entries() / 2 {
                self.purge();
            }
        }
        was_queued
    }

    /// Removes a shard that leaves.
    pub(crate) fn remove(&mut self, shard: ShardId, alarm: &mut Alarm) {
        self.take(shard);
        alarm.at = None;
        if let Some((_, handle)) = alarm.armed.take() {
            self.alarms.cancel(handle);
        }
    }

    /// Removes old entries.
    #[cold]
    fn purge(&mut self) {
        let Self {
            queue,
            woken,
            queued,
            ..
        } = self;
        // A shard that returned has a second entry behind its old one; the first one stays.
        queue.retain(|shard| core::mem::take(&mut queued[shard.index()]));
        woken.retain(|shard| core::mem::take(&mut queued[shard.index()]));
        for shard in queue.iter().chain(&*woken) {
            queued[shard.index()] = true;
        }
        self.old = 0;
    }

    /// Pops a shard whose entry has expired.
    pub(crate) fn pop_alarm(&mut self, now: Instant) -> Option<ShardId> {
        Some(self.alarms.pop_due(now)?.value)
    }

    /// Makes a shard with an expired entry ready if its deadline has passed too; returns whether it
    /// has.
    pub(crate) fn ring(&mut self, shard: ShardId, alarm: &mut Alarm, now: Instant) -> bool {
        alarm.armed = None;
        match alarm.at {
            Some(at) if at <= now => {
                self.push(shard);
                return true;
            }
            Some(at) => self.set_alarm(shard, alarm, at),
            None => {}
        }
        false
    }

    /// Returns when to check the deadlines next.
    pub(crate) fn next_alarm(&self) -> Option<Instant> {
        self.alarms.next_deadline()
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;

    const SHARD: ShardId = ShardId(1);

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn a_shard_is_queued_once_and_in_order() {
        let mut ready = Ready::new(3);
        for shard in [2, 0, 2, 1, 0] {
            ready.push(ShardId(shard));
        }
        let order = core::iter::from_fn(|| ready.pop()).map(|shard| shard.0);
        assert_eq!(order.collect::<Vec<_>>(), [2, 0, 1]);
    }

    #[test]
    fn a_woken_shard_is_behind_one_other() {
        let mut ready = Ready::new(9);
        for shard in 0..4 {
            ready.push(ShardId(shard));
        }
        ready.prefer(true);
        for shard in [2, 7, 8] {
            ready.push(ShardId(shard));
        }
        ready.prefer(false);
        let order = core::iter::from_fn(|| ready.pop()).map(|shard| shard.0);
        assert_eq!(order.collect::<Vec<_>>(), [7, 0, 8, 1, 2, 3]);
    }

    #[test]
    fn a_shard_that_left_and_came_back_has_one_turn() {
        let mut ready = Ready::new(3);
        let mut alarm = Alarm::default();
        ready.push(SHARD);
        ready.set_alarm(SHARD, &mut alarm, at(5));
        ready.remove(SHARD, &mut alarm);
        assert_eq!((ready.pop(), ready.next_alarm()), (None, None));
        ready.push(SHARD);
        ready.remove(SHARD, &mut alarm);
        ready.push(SHARD);
        // An old entry, and the one that counts.
        let entries: Vec<_> = (0..ready.entries()).map(|at| ready.entry(at)).collect();
        assert_eq!(entries, [Some(SHARD); 2]);
        assert_eq!((ready.pop(), ready.entry(0)), (Some(SHARD), None));
        assert_eq!(ready.pop(), None);
    }

    #[test]
    fn the_latest_deadline_counts() {
        let mut ready = Ready::new(3);
        let mut alarm = Alarm::default();
        // Put off: the early entry finds the later deadline.
        ready.set_alarm(SHARD, &mut alarm, at(5));
        ready.set_alarm(SHARD, &mut alarm, at(9));
        assert_eq!(ready.pop_alarm(at(4)), None);
        assert_eq!(ready.pop_alarm(at(5)), Some(SHARD));
        ready.ring(SHARD, &mut alarm, at(5));
        assert_eq!((ready.pop(), ready.next_alarm()), (None, Some(at(9))));
        // Brought forward.
        ready.set_alarm(SHARD, &mut alarm, at(7));
        assert_eq!(ready.pop_alarm(at(7)), Some(SHARD));
        ready.ring(SHARD, &mut alarm, at(7));
        assert_eq!((ready.pop(), ready.next_alarm()), (Some(SHARD), None));
        // Cleared.
        ready.set_alarm(SHARD, &mut alarm, at(8));
        alarm.clear();
        assert_eq!(ready.pop_alarm(at(8)), Some(SHARD));
        ready.ring(SHARD, &mut alarm, at(8));
        assert_eq!((ready.pop(), ready.next_alarm()), (None, None));
    }

    #[test]
    fn shards_that_come_and_go_leave_few_entries() {
        const SHARDS: usize = 100;
        let mut ready = Ready::new(SHARDS + 1);
        let mut alarms: Vec<Alarm> = (0..SHARDS).map(|_| Alarm::default()).collect();
        let stays = ShardId::from_index(SHARDS);
        for round in 0..1_000 {
            // Acquired, a round of one long turn, released.
            ready.prefer(round % 2 == 0);
            ready.push(stays);
            (0..SHARDS).for_each(|at| ready.push(ShardId::from_index(at)));
            assert!(ready.pop().is_some());
            for (at, alarm) in alarms.iter_mut().enumerate() {
                ready.remove(ShardId::from_index(at), alarm);
            }
            let entries = ready.queue.len() + ready.woken.len();
            assert!(entries <= 2 * SHARDS, "{entries} entries");
        }
        ready.push(stays);
        ready.push(ShardId::from_index(3));
        let mut left: Vec<_> = core::iter::from_fn(|| ready.pop()).collect();
        left.sort_unstable();
        assert_eq!(left, [ShardId::from_index(3), stays]);
        assert_eq!(ready.old, 0);
    }
}
