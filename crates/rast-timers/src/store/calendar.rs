//! A cancellable deadline store with constant costs: a radix calendar.
//!
//! Source: the timer trackers of RAST's reactor; the radix heap (Ahuja,
//! Mehlhorn, Orlin and Tarjan, 1990), in which a value waits in the list of the
//! highest digit where its deadline differs from the time reached. What is
//! changed: a list is taken apart a few entries at a time and ahead of its
//! time, so that no call works long; short lists are never taken apart; lists
//! that are in order already move once.
//!
//! ```text
//!              64 lists per digit of six bits              in order
//!  level 10  │░░░░░░░░░░░░░░░░│ 36 years each         lane ▶ e ─ e ─ e ─ e
//!     ...    │                │                             ▲ those in order
//!  level 5   │    ▓▓▓ ▓  ▓   ▓│ 1.07 s each ── X ── drain ──┤
//!  level 4   │ ▓ ▓▓▓▓▓▓▓▓ ▓   │ 17 ms                       ▼ the others
//!     ...    │                │                        lower levels of X
//!  level 0   │  ▓▓ ▓  ▓       │ 1 ns, exact
//!            cursor ──▶ time    late: a heap for what is before the cursor
//! ```
//!
//! | field | meaning |
//! | --- | --- |
//! | `cursor` | no value in the lists of the levels is due before it |
//! | `drain` | the list X that is being taken apart, `NONE` if there is none |
//! | `span` | the width of X in time, 0 without one: `at ^ cursor < span` tells that `at` lies in X |
//! | `lane_last` | the greatest deadline that was appended to the lane |
//! | `late_last` | the greatest deadline in `late` since that was empty |
//! | `bar` | an insert before it goes to `late`; `cursor`, unless the cursor has gone back |
//! | `moved` | what `late` had before it is in the lists; `cursor`, as `bar` |
//! | `wake` | before it no step has anything to do |
//!
//! 1. A value at `at ≥ cursor` waits in level l, list s: l is the highest digit
//!    in which `at` and `cursor` differ, s that digit of `at`. Lower levels
//!    are earlier, and so are lower lists of one level.
//! 2. The cursor moves only to the start of the earliest list, or to a time
//!    before it; so rule 1 holds without anything being moved.
//! 3. While X is taken apart the cursor is at its start, the levels below
//!    X's hold nothing but what came out of X, and what is inserted in X's
//!    range queues at the end of X. So those of one deadline stay in order.
//! 4. The lane is sorted. What is in the lane came before what waits under the
//!    same deadline elsewhere.
//! 5. Every value in `late` is before `bar`.
//! 6. A slot leaves for good when its generation is used up.
//! 7. The cursor goes back where a step's `now` is more than `BACK` before it:
//!    the lists whose digit no longer differs first are joined. What `late` has
//!    at or after the cursor then moves to the lists in its order, a value a
//!    step; until that is done no list is looked at, and `cursor <= moved <= bar`.
//!    Values from `moved` to `bar` queue in `late` meanwhile, so that those of one
//!    deadline stay in order.

mod back;
mod check;
mod expire;
mod lists;
mod slot;

use self::back::BACK;
use self::lists::{Index, Lists};
use self::slot::Slot;
use super::{DeadlineStore, Expired, Handle, HeapStore, Step, Swept, drop_all};
use crate::Instant;
use core::fmt;

/// Bits of a digit, and the lists of a level.
const DIGIT: u32 = 6;
const FAN: u32 = 1 << DIGIT;
const LEVELS: usize = 64_usize.div_ceil(DIGIT as usize);

/// Heads beyond those of the levels.
const LANE: Index = LEVELS as Index * FAN;
const NEVER: Index = LANE + 1;
const HEADS: u32 = NEVER + 1;

/// No list, no slot.
const NONE: Index = Index::MAX;

/// In `prev` of an entry that waits in `late`, with its handle there in `at`.
const LATE: Index = Index::MAX;

/// A list of at most so many entries is searched and not taken apart.
const SHORT: usize = 16;

/// Entries that one step takes out of a list.
const MOVES: usize = 8;

/// How many slots ahead of a run of cancels memory is asked for: 128 KiB where
/// a value is a word. To cancel the oldest of a million and arm one took 25 ns
/// without, 13 ns at 128 to 512, 10.6 ns at 2048, 9.3 ns here
/// (`docs/performance.md`, 2026-11-21).
const AHEAD: u32 = 4096;

/// How many handles of several are looked at before the first is cancelled.
const BATCH: usize = 16;

/// The longest time ahead at which a list begins to be taken apart.
const LEAD_MAX: u64 = 1 << 24;

/// How long before its start a list of each level begins to be taken apart: a
/// sixteenth of its width, and `LEAD_MAX` at most.
const LEADS: [u64; LEVELS] = {
    let mut leads = [LEAD_MAX; LEVELS];
    let mut level = 0;
    while level < LEVELS {
        let lead = (1_u64 << (level as u32 * DIGIT)) >> 4;
        if lead < LEAD_MAX {
            leads[level] = lead;
        }
        level += 1;
    }
    leads
};

/// The earliest list of the levels.
#[derive(Clone, Copy)]
struct Bucket {
    head: Index,
    level: u32,
    start: u64,
}

impl Bucket {
    /// When to begin to take the list apart.
    fn ahead(&self) -> u64 {
        // The digit of a list above level 0 is more than the cursor's.
        self.start - LEADS[self.level as usize]
    }

    /// The last of the list's times.
    fn last(&self) -> u64 {
        self.start | ((1 << (self.level * DIGIT)) - 1)
    }
}

/// A [`DeadlineStore`] with cancellation at constant cost: insert, cancel and
/// reschedule touch a few entries whatever the population, and so does each
/// step of expiring, however the deadlines cluster; exact to the nanosecond.
///
/// | call | entries touched at most |
/// | --- | --- |
/// | `insert`, `cancel`, `reschedule` | [`TOUCHES`](Self::TOUCHES); 3 for a deadline that is not before what a step has seen |
/// | `clear` | all |
/// | one [`step`](DeadlineStore::step), so one unit of the budget of `expire` and `expire_unordered` | [`TOUCHES`](Self::TOUCHES) |
/// | `next_deadline` | 17 |
///
/// A value moves at most 11 times before it is due, usually up to 4 times, and
/// once if values of one timeout are inserted one after the other. The memory
/// doubles where it ends, as that of a `Vec`, which copies all of it at once:
/// [`with_capacity`](Self::with_capacity) or [`reserve`](Self::reserve) avoid
/// it. It holds up to 2^32 − 1000 values and keeps the memory of its fullest
/// time.
///
/// [`next_deadline`](DeadlineStore::next_deadline) is a lower bound here: exact
/// where at most sixteen values wait in the earliest list, otherwise the time at
/// which the store should be looked at next.
///
/// [`expire_unordered`](DeadlineStore::expire_unordered) is for timers that do
/// not depend on each other: of a cluster in no order it takes a thirteenth of
/// the time of [`expire`](DeadlineStore::expire), which sorts it to the
/// nanosecond. It begins with a list when the list's time has come and not
/// ahead of it.
///
/// A `now` far in the future does no lasting harm. The next call whose `now` is
/// more than 33 ms before it puts the store in order again: its first step may
/// touch more than [`TOUCHES`](Self::TOUCHES) entries, four for each list in use
/// and 2,600 at most, and one more step is [`Busy`](Step::Busy) for each value that
/// was inserted in between.
///
/// A value of `T` lies beside its deadline, and each of the 706 lists has a
/// place of that size too: box what is large.
///
/// ```
/// use rast_timers::{CalendarStore, DeadlineStore, Instant};
/// let mut store = CalendarStore::new();
/// let at = Instant::from_nanos;
/// let late = store.insert(at(20), "late");
/// store.insert(at(10), "early");
/// assert_eq!(store.next_deadline(), Some(at(10)));
/// assert_eq!(store.pop_due(at(15)).map(|due| due.value), Some("early"));
/// assert_eq!(store.pop_due(at(15)), None);
/// assert_eq!(store.cancel(late), Some("late"));
/// assert_eq!(store.cancel(late), None);
/// ```
pub struct CalendarStore<T> {
    lists: Lists<T, HEADS>,
    /// The lists in use, a word per level, and the levels in use.
    occupied: [u64; LEVELS],
    levels: u32,
    free: Index,
    /// The slot that was cancelled last.
    cancelled: Index,
    cursor: u64,
    span: u64,
    drain: Index,
    lane_last: u64,
    bar: u64,
    wake: u64,
    late: HeapStore<Index>,
    late_last: u64,
    moved: u64,
    len: usize,
    /// Entries touched, counted where debug assertions are on.
    touched: u64,
}

impl<T> CalendarStore<T> {
    /// The number of entries that one call of `insert`, `cancel` or
    /// `reschedule`, or one step, touches at most: what a heap of 2^32 values
    /// with four children to a node needs in the worst case, which only
    /// deadlines before the time that was reached already meet.
    pub const TOUCHES: u64 = 96;

    /// Makes an empty store without memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            lists: Lists::new(),
            occupied: [0; LEVELS],
            levels: 0,
            free: NONE,
            cancelled: 0,
            cursor: 0,
            span: 0,
            drain: NONE,
            lane_last: 0,
            bar: 0,
            wake: u64::MAX,
            late: HeapStore::new(),
            late_last: 0,
            moved: 0,
            len: 0,
            touched: 0,
        }
    }

    /// Makes an empty store with memory for `capacity` values.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut store = Self::new();
        store.reserve(capacity);
        store
    }

    /// Makes room for `additional` values more.
    pub fn reserve(&mut self, additional: usize) {
        let wanted = (self.len + additional).saturating_sub(self.lists.len());
        self.lists.reserve(wanted);
    }

    /// Returns how many values fit without new memory, those in `late`
    /// excepted.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.lists.capacity()
    }

    /// Returns a stored value, `None` if it has left.
    #[must_use]
    pub fn get(&self, handle: Handle) -> Option<&T> {
        let slot = self.lists.entry(handle.slot())?;
        if slot.generation != handle.generation() {
            return None;
        }
        slot.get()
    }

    /// Returns the deadline of a value, `None` if it has left.
    #[must_use]
    pub fn deadline(&self, handle: Handle) -> Option<Instant> {
        self.get(handle)?;
        let slot = self.lists.slot(handle.slot());
        if slot.prev == LATE {
            return self.late.deadline(Handle::from_word(slot.at));
        }
        Some(Instant::from_nanos(slot.at))
    }

    /// Entries touched so far, where debug assertions are on; for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn touched(&self) -> u64 {
        self.touched
    }

    #[inline(always)]
    fn touch(&mut self, entries: u64) {
        if cfg!(debug_assertions) {
            self.touched += entries;
        }
    }

    /// What an operation of `late` touches at most: five nodes a level, and
    /// the entry.
    fn touch_late(&mut self) {
        if cfg!(debug_assertions) {
            let levels = u64::from(self.late.len().max(1).ilog2()) / 2 + 1;
            self.touched += 5 * levels + 1;
        }
    }

    /// The deadline of a value that waits in a list.
    #[inline(always)]
    fn at(&self, slot: Index) -> u64 {
        self.lists.slot(slot).at
    }

    /// A free slot, new memory if there is none.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Index {
        assert!(
            self.lists.len() < (NONE - 1 - HEADS) as usize,
            "a CalendarStore holds at most 2^32 - 1000 values"
        );
        // Memory first: nothing has changed if it cannot be had.
        self.lists.reserve(1);
        self.lists.grow()
    }

    /// Puts a slot that is nowhere where rule 1 wants it.
    #[inline(always)]
    fn place(&mut self, slot: Index, at: u64) {
        self.touch(2);
        if at < self.bar && self.is_late(at) {
            return self.place_late(slot, at);
        }
        if at == u64::MAX {
            return self.lists.push_back(NEVER, slot, at);
        }
        let differing = at ^ self.cursor;
        if differing < self.span {
            self.wake = self.wake.min(at);
            return self.lists.push_back(self.drain, slot, at);
        }
        let level = (63 - (differing | 1).leading_zeros()) / DIGIT;
        let shift = level * DIGIT;
        let digits = at >> shift;
        let list = digits as u32 % FAN;
        self.levels |= 1 << level;
        self.occupied[level as usize] |= 1 << list;
        // As `Bucket::ahead` says of this list.
        let ahead = (digits << shift) - LEADS[level as usize];
        self.wake = self.wake.min(ahead);
        self.lists.push_back(level * FAN + list, slot, at);
    }

    #[cold]
    fn place_late(&mut self, slot: Index, at: u64) {
        self.late_last = self.late_last.max(at);
        self.wake = self.wake.min(at);
        if self.cursor.saturating_sub(at) > BACK {
            // The next step sees whether the clock has gone back.
            self.wake = 0;
        }
        let handle = self.late.insert(Instant::from_nanos(at), slot);
        let slot = self.lists.slot_mut(slot);
        (slot.prev, slot.at) = (LATE, handle.to_word());
        self.touch_late();
    }

    /// Takes a slot out of where it waits and returns its deadline.
    #[inline(always)]
    fn displace(&mut self, slot: Index) -> u64 {
        self.touch(3);
        let Slot { at, prev, .. } = *self.lists.slot(slot);
        if prev == LATE {
            return self.displace_late(Handle::from_word(at));
        }
        if let Some(head) = self.lists.unlink(slot) {
            self.vacate(head);
        }
        at
    }

    #[cold]
    fn displace_late(&mut self, handle: Handle) -> u64 {
        self.touch_late();
        let at = self.late.deadline(handle);
        let left = self.late.cancel(handle);
        debug_assert!(left.is_some(), "a late value knows its place");
        if self.late.is_empty() {
            self.late_last = 0;
        }
        at.map_or(0, Instant::as_nanos)
    }

    /// Notes that a list is empty.
    fn vacate(&mut self, head: Index) {
        let level = (head / FAN) as usize;
        if level < LEVELS {
            self.occupied[level] &= !(1 << (head % FAN));
            if self.occupied[level] == 0 {
                self.levels &= !(1 << level);
            }
        }
    }

    /// Frees a slot, whose value is out and which waits nowhere.
    #[inline(always)]
    fn release(&mut self, index: Index) {
        self.len -= 1;
        let free = self.free;
        let slot = self.lists.slot_mut(index);
        // Rule 6: the last generation is never given out, the slot rests.
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next;
            slot.next = free;
            self.free = index;
        }
    }

    /// Takes a waiting slot out of the store.
    #[inline(always)]
    fn take(&mut self, index: Index) -> Step<T> {
        let at = Instant::from_nanos(self.displace(index));
        let slot = self.lists.slot_mut(index);
        let handle = Handle::new(index, slot.generation);
        let value = slot.take();
        self.release(index);
        debug_assert!(value.is_some(), "what waits has a value");
        value.map_or(Step::Busy, |value| Step::Due(Expired { at, handle, value }))
    }

    /// The earliest of the lane and of `late`; of equals the lane's.
    #[inline(always)]
    fn front(&self) -> Option<(u64, Index)> {
        let lane = self.lists.first(LANE);
        let lane = lane.map(|slot| (self.at(slot), slot));
        let late = self.late.first().map(|(at, &slot)| (at.as_nanos(), slot));
        match (lane, late) {
            (Some(lane), Some(late)) if late.0 < lane.0 => Some(late),
            (None, late) => late,
            (lane, _) => lane,
        }
    }

    /// The earliest list of the levels.
    #[inline(always)]
    fn earliest(&self) -> Option<Bucket> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros();
        let list = self.occupied[level as usize].trailing_zeros();
        let shift = level * DIGIT;
        // The digits above the level are the cursor's, by rule 1.
        let above = u64::MAX.checked_shl(shift + DIGIT).unwrap_or(0);
        Some(Bucket {
            head: level * FAN + list,
            level,
            start: self.cursor & above | u64::from(list) << shift,
        })
    }

    /// The first of the least deadlines of a short list, `None` for a long one.
    fn search(&self, head: Index) -> Option<(u64, Index)> {
        let (mut least, mut count) = ((u64::MAX, NONE), 0);
        for (slot, at) in self.lists.iter(head) {
            count += 1;
            if count > SHORT {
                return None;
            }
            if at < least.0 {
                least = (at, slot);
            }
        }
        Some(least)
    }

    /// Begins to take a list apart.
    fn open(&mut self, bucket: Bucket) {
        debug_assert!(bucket.level > 0, "one time is not taken apart");
        self.vacate(bucket.head);
        self.move_cursor(bucket.start);
        self.span = 1 << (bucket.level * DIGIT);
        self.drain = bucket.head;
        if self.lists.first(LANE).is_none() {
            // Rule 4: no value in X's range waits in a level now.
            self.lane_last = 0;
        }
    }

    /// Moves the cursor while every value in `late` is before it.
    #[inline(always)]
    fn move_cursor(&mut self, to: u64) {
        (self.cursor, self.bar, self.moved) = (to, to, to);
    }

    /// Takes a few entries out of the list that is being taken apart.
    fn advance(&mut self) {
        let mut moves = MOVES;
        while moves > 0 {
            let run = self.advance_in_order(moves);
            moves -= run;
            if run == 0 {
                let Some(first) = self.lists.first(self.drain) else {
                    break;
                };
                self.descend(first);
                moves -= 1;
            }
        }
        self.close();
    }

    /// Moves a run in order from the front of the list that is being taken
    /// apart to the lane as it stands; returns its length, `most` at most.
    #[inline(always)]
    fn advance_in_order(&mut self, most: usize) -> usize {
        let (mut run, mut last) = (0, NONE);
        let Some(first) = self.lists.first(self.drain) else {
            return 0;
        };
        let mut entry = first;
        while run < most && entry != self.drain {
            let slot = self.lists.slot(entry);
            if slot.at < self.lane_last {
                break;
            }
            self.lane_last = slot.at;
            last = entry;
            entry = slot.next;
            run += 1;
        }
        self.touch(run as u64);
        if run > 0 {
            self.touch(4);
            self.lists.splice(self.drain, first, last, LANE);
        }
        run
    }

    /// Moves an entry of the list that is being taken apart to a level below.
    #[inline(always)]
    fn descend(&mut self, slot: Index) {
        self.touch(4);
        let at = self.at(slot);
        self.lists.unlink(slot);
        let span = core::mem::take(&mut self.span);
        self.place(slot, at);
        self.span = span;
    }

    /// Ends the taking apart of a list if nothing is left of it.
    #[inline(always)]
    fn close(&mut self) {
        if self.lists.first(self.drain).is_none() {
            (self.drain, self.span) = (NONE, 0);
        }
    }

    #[inline(never)]
    fn work(&mut self, now: u64) -> Step<T> {
        let front = self.front();
        let front_at = front.map_or(u64::MAX, |front| front.0);
        self.touch(2);
        if self.drain != NONE {
            return match front {
                Some((at, slot)) if at <= self.cursor && at <= now => self.take(slot),
                _ => {
                    self.advance();
                    Step::Busy
                }
            };
        }
        if let Some(step) = self.come_back(now) {
            return step;
        }
        let earliest = self.earliest();
        let start = earliest.map_or(u64::MAX, |bucket| bucket.start);
        if let Some((at, slot)) = front
            && at <= now
            && at <= start
        {
            return self.take(slot);
        }
        self.wake = front_at;
        if let Some(bucket) = earliest {
            let ahead = bucket.ahead();
            self.wake = front_at.min(ahead);
            if ahead <= now {
                if bucket.level == 0 {
                    let first = self.lists.first(bucket.head);
                    return first.map_or(Step::Busy, |slot| self.take(slot));
                }
                self.touch(SHORT as u64 + 1);
                let Some((at, slot)) = self.search(bucket.head) else {
                    self.open(bucket);
                    self.advance();
                    return Step::Busy;
                };
                // Of equals the front's, by rules 4 and 5.
                let (at, slot) = front.filter(|front| front.0 <= at).unwrap_or((at, slot));
                self.wake = at;
                if at <= now {
                    return self.take(slot);
                }
            }
        }
        if start > now && now > self.cursor {
            // Rule 2: the earliest list begins after it.
            self.move_cursor(now);
        }
        Step::Idle
    }
}

impl<T> DeadlineStore<T> for CalendarStore<T> {
    /// O(1); O(log n) for a deadline before the time reached. May grow.
    ///
    /// # Panics
    ///
    /// If 2^32 − 1000 slots are in use.
    #[inline]
    fn insert(&mut self, at: Instant, value: T) -> Handle {
        let at = at.as_nanos();
        let index = if self.free == NONE {
            self.grow()
        } else {
            let index = self.free;
            self.free = self.lists.slot(index).next;
            index
        };
        self.len += 1;
        let slot = self.lists.slot_mut(index);
        slot.put(value);
        let handle = Handle::new(index, slot.generation);
        self.place(index, at);
        handle
    }

    /// O(1); O(log n) for a value whose deadline was past when it came.
    #[inline]
    fn cancel(&mut self, handle: Handle) -> Option<T> {
        let index = handle.slot();
        let slot = self.lists.entry_mut(index)?;
        if slot.generation != handle.generation() {
            return None;
        }
        let value = slot.take()?;
        // Who cancels in the order of arming meets slot after slot. Their
        // neighbours, met in between, hide that from the processor.
        let stride = index.wrapping_sub(self.cancelled);
        self.cancelled = index;
        let ahead = index.wrapping_add(stride.wrapping_mul(AHEAD));
        self.lists.prefetch(ahead);
        self.displace(index);
        self.release(index);
        Some(value)
    }

    /// O(1) for each handle. Values armed long ago and at random lie far from
    /// each other and from their neighbours: the lines of sixteen at a time are
    /// asked for before the first is taken out.
    fn cancel_all(&mut self, handles: &[Handle], mut each: impl FnMut(Handle, T)) -> usize {
        let mut count = 0;
        for some in handles.chunks(BATCH) {
            for handle in some {
                if let Some(slot) = self.lists.entry(handle.slot()) {
                    self.lists.prefetch(slot.prev);
                    self.lists.prefetch(slot.next);
                }
            }
            for &handle in some {
                if let Some(value) = self.cancel(handle) {
                    count += 1;
                    each(handle, value);
                }
            }
        }
        count
    }

    /// O(1), as a cancel and an insert; the handle stays the same.
    #[inline]
    fn reschedule(&mut self, handle: Handle, at: Instant) -> Option<Handle> {
        self.get(handle)?;
        let at = at.as_nanos();
        self.displace(handle.slot());
        self.place(handle.slot(), at);
        Some(handle)
    }

    /// O(n).
    fn clear(&mut self) {
        (self.drain, self.span, self.lane_last) = (NONE, 0, 0);
        self.wake = u64::MAX;
        self.move_cursor(self.cursor);
        let mut head = 0;
        drop_all(|| {
            if let Some((_, &slot)) = self.late.first() {
                return Some(self.take(slot));
            }
            while head < HEADS {
                if let Some(slot) = self.lists.first(head) {
                    return Some(self.take(slot));
                }
                head += 1;
            }
            None
        });
    }

    /// O(1): a lower bound; exact where few values wait in the earliest list.
    fn next_deadline(&self) -> Option<Instant> {
        if self.is_moving() {
            return Some(Instant::from_nanos(self.wake));
        }
        let front = self.front().map(|front| front.0);
        let bucket = if self.drain != NONE {
            Some(self.wake)
        } else {
            self.earliest()
                .map(|bucket| match self.search(bucket.head) {
                    Some((at, _)) => at,
                    None => bucket.ahead(),
                })
        };
        let next = match (front, bucket) {
            (Some(front), Some(bucket)) => front.min(bucket),
            (front, bucket) => front.or(bucket)?,
        };
        // Both are lower bounds, and no step does anything before `wake`.
        Some(Instant::from_nanos(next.max(self.wake)))
    }

    /// O(1): takes out one value, or moves up to eight nearer to their time.
    #[inline]
    fn step(&mut self, now: Instant) -> Step<T> {
        let now = now.as_nanos();
        if now < self.wake {
            return Step::Idle;
        }
        self.work(now)
    }

    /// O(1) for each unit of the budget, as [`step`](Self::step).
    fn expire(&mut self, now: Instant, budget: usize, each: impl FnMut(Expired<T>)) -> Swept {
        self.expire_in_order(now.as_nanos(), budget, each)
    }

    /// O(1) for each unit of the budget, as [`step`](Self::step): a value is
    /// moved at most once for each list that is still open at `now`, and never
    /// sorted.
    fn expire_unordered(
        &mut self,
        now: Instant,
        budget: usize,
        each: impl FnMut(Expired<T>),
    ) -> Swept {
        self.expire_in_no_order(now.as_nanos(), budget, each)
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl<T> Default for CalendarStore<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for CalendarStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CalendarStore")
            .field("len", &self.len)
            .field("next_deadline", &self.next_deadline())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_rests_when_its_generations_are_used_up() {
        let mut store = CalendarStore::new();
        let at = Instant::from_nanos;
        let first = store.insert(at(1), 1);
        assert_eq!(store.cancel(first), Some(1));
        store.lists.slot_mut(first.slot()).generation = u32::MAX;
        let last = store.insert(at(1), 2);
        assert_eq!((last.slot(), last.generation()), (first.slot(), u32::MAX));
        assert_eq!(store.cancel(last), Some(2));
        let next = store.insert(at(1), 3);
        assert_eq!(next.slot(), first.slot() + 1);
        assert_eq!(store.cancel(last), None);
        assert_eq!(store.reschedule(last, at(9)), None);
        store.check_invariants();
    }
}
