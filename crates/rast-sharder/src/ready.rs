//! The ready shards of one worker, and those that wait for a deadline.
//!
//! Only its worker uses these queues, so a push needs no atomic operation. An idle shard costs
//! nothing.
//!
//! 1. A shard is in the queues at most once; a flag shows whether it is. A second wake-up before
//!    its turn adds its note but no second turn.
//! 2. A queue is first in, first out: a ready shard runs within one pass over those that were ready
//!    before it. Shards that another worker woke have a second queue, and pops alternate between
//!    the two. So a shard that answers a message does not wait for all busy shards, and delays each
//!    of them by one turn.
//! 3. The flag of a shard that leaves the worker is cleared. Its old entry is skipped, or purged
//!    once more than half of the entries are old. `entries = shards with a flag + old entries`.
//! 4. If [`FEW`] shards are queued, a wake-up accesses the shard's [`Place`] only. Its note waits
//!    there until the turn begins, so the lines of the shard are loaded once per turn, not also
//!    once per wake-up. A place keeps one note. If another note comes, the first one is delivered
//!    at once. If fewer shards are queued, their lines stay in the cache, and the note is delivered
//!    at once. Then the turn does not wait for the note to come through the place.

use std::collections::VecDeque;
use std::vec::Vec;

use crate::ids::ShardId;
use crate::timers::{DeadlineStore, Handle, HeapStore, Instant};

/// Initial capacity of a queue.
const QUEUE: usize = 1_024;

/// Number of queued shards from which on notes wait for the turns. A turn accesses about 20 cache
/// lines, so those of 16 shards take about 20 KiB.
const FEW: usize = 16;

/// Minimum number of old entries for a purge.
const OLD: usize = 64;

/// A shard's deadline at its worker. Stored with the shard's state, so that a turn needs no table
/// lookup.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Alarm {
    /// When the shard wants a turn; [`Instant::MAX`] if it waits for none.
    at: Instant,
    /// Its entry in the store. The entry may expire before `at` and is then checked again, so a
    /// deadline that is put off in every turn costs a comparison.
    armed: Option<(Instant, Handle)>,
}

impl Alarm {
    pub(crate) const fn new() -> Self {
        Self {
            at: Instant::MAX,
            armed: None,
        }
    }

    /// Clears the deadline of a shard that gets a turn.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.at = Instant::MAX;
    }
}

/// The shard is in a queue.
const QUEUED: u64 = 1;
/// A wake-up is to be delivered when the turn begins.
const WOKEN: u64 = 4;
/// That wake-up has a note, in the upper half.
const NOTED: u64 = 8;
const NOTE_SHIFT: u32 = 32;
/// Wake-ups are delivered at once, for a stepper.
const EAGER: u64 = 16;

/// The bits of a place that are not of its wake-up.
const OTHERS: u64 = QUEUED | EAGER;

/// A wake-up that is to be delivered when the turn begins, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wake(u64);

impl Wake {
    pub(crate) const NONE: Self = Self(0);

    #[inline]
    fn new(note: Option<u32>) -> Self {
        Self(match note {
            Some(note) => WOKEN | NOTED | u64::from(note) << NOTE_SHIFT,
            None => WOKEN,
        })
    }

    /// Returns the note to deliver; `None` if there is no wake-up.
    #[inline]
    pub(crate) fn note(self) -> Option<Option<u32>> {
        let note = (self.0 & NOTED != 0).then_some((self.0 >> NOTE_SHIFT) as u32);
        (self.0 & WOKEN != 0).then_some(note)
    }
}

/// What a worker keeps of a shard outside of the shard's own lines: 16 bytes, so that the places of
/// a thousand shards fit the first-level cache.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Since when the shard is ready or in its turn; [`Instant::MAX`] if it is neither.
    since: Instant,
    /// Bits and a note: see above.
    word: u64,
}

const _: () = assert!(size_of::<Place>() == 16);

impl Place {
    const NEW: Self = Self {
        since: Instant::MAX,
        word: 0,
    };

    #[inline]
    fn start_time(&mut self, now: Instant) {
        if self.since == Instant::MAX {
            self.since = now;
        }
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
    /// By shard.
    places: Vec<Place>,
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
            places: std::vec![Place::NEW; shards],
            old: 0,
            alarms: HeapStore::new(),
        }
    }

    /// Queues a held shard, if it is not queued.
    #[inline]
    pub(crate) fn push(&mut self, shard: ShardId) {
        let place = &mut self.places[shard.index()];
        if place.word & QUEUED == 0 {
            place.word |= QUEUED;
            self.push_entry(shard);
        }
    }

    #[inline]
    fn push_entry(&mut self, shard: ShardId) {
        match self.prefers {
            true => self.push_woken(shard),
            false => self.queue.push_back(shard),
        }
    }

    /// Queues a held shard that is woken. Returns a note that is to be delivered at once: the one
    /// that was passed, or one that was kept until the turn.
    #[inline]
    #[must_use]
    pub(crate) fn wake(
        &mut self,
        shard: ShardId,
        note: Option<u32>,
        now: Instant,
    ) -> Option<Option<u32>> {
        let place = &mut self.places[shard.index()];
        if place.word != 0 || self.queue.len() >= FEW {
            return self.wake_kept(shard, Wake::new(note), now).note();
        }
        *place = Place {
            since: now,
            word: QUEUED,
        };
        self.push_entry(shard);
        Some(note)
    }

    /// As `wake`, if the wake-up is kept until the turn, unless wake-ups are delivered at once.
    #[inline(never)]
    fn wake_kept(&mut self, shard: ShardId, wake: Wake, now: Instant) -> Wake {
        self.push(shard);
        let place = &mut self.places[shard.index()];
        place.start_time(now);
        if place.word & EAGER != 0 {
            return wake;
        }
        let before = Wake(place.word & !OTHERS);
        place.word = QUEUED | wake.0;
        match before == wake {
            true => Wake::NONE,
            false => before,
        }
    }

    /// Has wake-ups delivered at once, so that the caller of a stepper finds a shard as its next
    /// turn does.
    pub(crate) fn deliver_at_once(&mut self) {
        self.places.iter_mut().for_each(|place| place.word |= EAGER);
    }

    /// Records since when a shard is ready, unless that is recorded.
    #[inline]
    pub(crate) fn start_time(&mut self, shard: ShardId, now: Instant) {
        self.places[shard.index()].start_time(now);
    }

    /// Returns since when a shard is ready or in its turn, and forgets it; [`Instant::MAX`] if it
    /// is neither.
    #[inline]
    pub(crate) fn take_time(&mut self, shard: ShardId) -> Instant {
        let place = &mut self.places[shard.index()];
        core::mem::replace(&mut place.since, Instant::MAX)
    }

    /// Returns since when a shard is ready, and records `now` instead.
    pub(crate) fn restart_time(&mut self, shard: ShardId, now: Instant) -> Instant {
        core::mem::replace(&mut self.places[shard.index()].since, now)
    }

    /// Unsets the flag of a shard, and takes the wake-up that was kept. Returns `None` if it was
    /// not queued.
    #[inline]
    fn unqueue(&mut self, shard: ShardId) -> Option<Wake> {
        let place = &mut self.places[shard.index()];
        let word = place.word;
        place.word = word & EAGER;
        (word & QUEUED != 0).then_some(Wake(word & !OTHERS))
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

    /// Pops a shard, alternating between the queues, with the wake-up to be delivered.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(ShardId, Wake)> {
        if self.woken.is_empty() {
            // Most often, so it comes before anything else is loaded.
            self.woken_first = true;
            let shard = self.queue.pop_front()?;
            if let Some(wake) = self.unqueue(shard) {
                return Some((shard, wake));
            }
            self.old -= 1;
        }
        self.pop_slow()
    }

    #[inline(never)]
    fn pop_slow(&mut self) -> Option<(ShardId, Wake)> {
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
            if let Some(wake) = self.unqueue(shard) {
                return Some((shard, wake));
            }
            self.old -= 1;
        }
    }

    /// Sets the deadline of `shard`.
    pub(crate) fn set_alarm(&mut self, shard: ShardId, alarm: &mut Alarm, at: Instant) {
        alarm.at = at;
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
        let queued = self.places.iter().enumerate();
        let queued = queued.filter(|&(_, place)| place.word & QUEUED != 0);
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
        (self.places[shard.index()].word & QUEUED != 0).then_some(shard)
    }

    /// Removes a shard out of order; returns whether it was queued.
    pub(crate) fn take(&mut self, shard: ShardId) -> bool {
        let was_queued = self.unqueue(shard).is_some();
        if was_queued {
            self.old += 1;
            if self.old >= OLD && self.old > self.entries() / 2 {
                self.purge();
            }
        }
        was_queued
    }

    /// Removes a shard that leaves. Its note is lost, as `Controller::on_wake` says.
    pub(crate) fn remove(&mut self, shard: ShardId, alarm: &mut Alarm) {
        self.take(shard);
        let place = &mut self.places[shard.index()];
        (place.since, place.word) = (Instant::MAX, place.word & EAGER);
        alarm.clear();
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
            places,
            ..
        } = self;
        // A shard that returned has a second entry behind its old one; the first one stays.
        let mut stays = |shard: &ShardId| {
            let place = &mut places[shard.index()];
            let is_queued = place.word & QUEUED != 0;
            place.word &= !QUEUED;
            is_queued
        };
        queue.retain(&mut stays);
        woken.retain(&mut stays);
        for shard in queue.iter().chain(&*woken) {
            places[shard.index()].word |= QUEUED;
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
        if alarm.at <= now {
            self.push(shard);
            self.start_time(shard, now);
            return true;
        }
        if alarm.at < Instant::MAX {
            self.set_alarm(shard, alarm, alarm.at);
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

    fn popped(ready: &mut Ready) -> Option<ShardId> {
        ready.pop().map(|(shard, _)| shard)
    }

    #[test]
    fn a_shard_is_queued_once_and_in_order() {
        let mut ready = Ready::new(3);
        for shard in [2, 0, 2, 1, 0] {
            ready.push(ShardId(shard));
        }
        let order = core::iter::from_fn(|| ready.pop()).map(|(shard, _)| shard.0);
        assert_eq!(order.collect::<Vec<_>>(), [2, 0, 1]);
    }

    #[test]
    fn a_wake_up_waits_for_the_turn_and_another_note_does_not() {
        let mut ready = Ready::new(FEW + 2);
        for shard in 2..FEW + 1 {
            ready.push(ShardId::from_index(shard));
        }
        let wake = |ready: &mut Ready, note, now| ready.wake(SHARD, note, at(now));
        // Few are queued.
        assert_eq!(ready.wake(ShardId(0), Some(7), at(1)), Some(Some(7)));
        assert_eq!(wake(&mut ready, Some(7), 1), None);
        assert_eq!(wake(&mut ready, Some(7), 2), None, "the same note");
        assert_eq!(wake(&mut ready, None, 3), Some(Some(7)));
        assert_eq!(wake(&mut ready, Some(0), 4), Some(None));
        let (shard, kept) = core::iter::from_fn(|| ready.pop()).last().unwrap();
        assert_eq!((shard, kept.note()), (SHARD, Some(Some(0))));
        assert_eq!(ready.restart_time(SHARD, at(5)), at(1));
        // It wants another turn, and is woken again.
        (2..=FEW + 1).for_each(|shard| ready.push(ShardId::from_index(shard)));
        ready.push(SHARD);
        assert_eq!(wake(&mut ready, Some(u32::MAX), 6), None);
        assert_eq!(ready.take_time(SHARD), at(5));
        assert_eq!(ready.take_time(SHARD), Instant::MAX);
        // Its note is lost with a shard that leaves.
        ready.remove(SHARD, &mut Alarm::new());
        while ready.pop().is_some() {}
        ready.push(SHARD);
        assert_eq!(ready.pop(), Some((SHARD, Wake::NONE)));
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
        let order = core::iter::from_fn(|| ready.pop()).map(|(shard, _)| shard.0);
        assert_eq!(order.collect::<Vec<_>>(), [7, 0, 8, 1, 2, 3]);
    }

    #[test]
    fn a_shard_that_left_and_came_back_has_one_turn() {
        let mut ready = Ready::new(3);
        let mut alarm = Alarm::new();
        ready.push(SHARD);
        ready.set_alarm(SHARD, &mut alarm, at(5));
        ready.remove(SHARD, &mut alarm);
        assert_eq!((popped(&mut ready), ready.next_alarm()), (None, None));
        ready.push(SHARD);
        ready.remove(SHARD, &mut alarm);
        ready.push(SHARD);
        // An old entry, and the one that counts.
        let entries: Vec<_> = (0..ready.entries()).map(|at| ready.entry(at)).collect();
        assert_eq!(entries, [Some(SHARD); 2]);
        assert_eq!((popped(&mut ready), ready.entry(0)), (Some(SHARD), None));
        assert_eq!(popped(&mut ready), None);
    }

    #[test]
    fn the_latest_deadline_counts() {
        let mut ready = Ready::new(3);
        let mut alarm = Alarm::new();
        // Put off: the early entry finds the later deadline.
        ready.set_alarm(SHARD, &mut alarm, at(5));
        ready.set_alarm(SHARD, &mut alarm, at(9));
        assert_eq!(ready.pop_alarm(at(4)), None);
        assert_eq!(ready.pop_alarm(at(5)), Some(SHARD));
        ready.ring(SHARD, &mut alarm, at(5));
        assert_eq!(
            (popped(&mut ready), ready.next_alarm()),
            (None, Some(at(9)))
        );
        // Brought forward.
        ready.set_alarm(SHARD, &mut alarm, at(7));
        assert_eq!(ready.pop_alarm(at(7)), Some(SHARD));
        ready.ring(SHARD, &mut alarm, at(7));
        assert_eq!(
            (popped(&mut ready), ready.next_alarm()),
            (Some(SHARD), None)
        );
        // Cleared.
        ready.set_alarm(SHARD, &mut alarm, at(8));
        alarm.clear();
        assert_eq!(ready.pop_alarm(at(8)), Some(SHARD));
        ready.ring(SHARD, &mut alarm, at(8));
        assert_eq!((popped(&mut ready), ready.next_alarm()), (None, None));
    }

    #[test]
    fn shards_that_come_and_go_leave_few_entries() {
        const SHARDS: usize = 100;
        let mut ready = Ready::new(SHARDS + 1);
        let mut alarms: Vec<Alarm> = (0..SHARDS).map(|_| Alarm::new()).collect();
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
        let mut left: Vec<_> = core::iter::from_fn(|| popped(&mut ready)).collect();
        left.sort_unstable();
        assert_eq!(left, [ShardId::from_index(3), stays]);
        assert_eq!(ready.old, 0);
    }
}
