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
//! | `wake` | before it no step has anything to do |
//!
//! 1. A value at `at ≥ cursor` waits in level l, list s: l is the highest digit
//!    in which `at` and `cursor` differ, s that digit of `at`. Lower levels
//!    are earlier, and so are lower lists of one level.
//! 2. The cursor moves only to the start of the earliest list, or to a time
//!    before it; so rule 1 holds without anything being moved.
//! 3. While X is taken apart the cursor stands at its start, the levels below
//!    X's hold nothing but what came out of X, and what is inserted in X's
//!    range queues at the end of X. So those of one deadline stay in order.
//! 4. The lane is sorted. What is in the lane came before what waits under the
//!    same deadline elsewhere.
//! 5. Every value in `late` is before the cursor.
//! 6. A slot leaves for good when its generation is used up.

mod lists;

use self::lists::{Index, Lists};
use super::{DeadlineStore, Expired, Handle, HeapStore, Step, Swept};
use crate::Instant;
use core::fmt;
use std_alloc::vec::Vec;

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

/// In `prev` of an entry that waits in `late`.
const LATE: Index = Index::MAX;

/// A list of at most so many entries is searched and not taken apart.
const SHORT: usize = 8;

/// Entries that one step takes out of a list.
const MOVES: usize = 8;

/// The longest time ahead at which a list begins to be taken apart.
const LEAD_MAX: u64 = 1 << 24;

/// What one place of the store holds beside its node.
struct Cell<T> {
    value: Option<T>,
    generation: u32,
    /// The slot in `late`, whose generation is then in the node's `next`.
    late: u32,
}

/// The earliest list of the levels.
#[derive(Clone, Copy)]
struct Bucket {
    head: Index,
    level: u32,
    start: u64,
}

impl Bucket {
    /// When to begin to take the list apart: a sixteenth of its width before
    /// its first time, and not earlier than `LEAD_MAX` before.
    fn ahead(&self) -> u64 {
        let lead = (1_u64 << (self.level * DIGIT)) >> 4;
        self.start.saturating_sub(lead.min(LEAD_MAX))
    }
}

/// A [`DeadlineStore`] with cancellation at constant cost: insert, cancel and
/// reschedule touch a few entries whatever the population, and so does each
/// step of expiring, however the deadlines cluster; exact to the nanosecond.
///
/// | call | entries touched at most |
/// | --- | --- |
/// | `insert`, `cancel`, `reschedule` | [`TOUCHES`](Self::TOUCHES); 3 for a deadline that is not before what a step has seen |
/// | one [`step`](DeadlineStore::step), so one unit of the budget of `expire` | [`TOUCHES`](Self::TOUCHES) |
/// | `next_deadline` | 9 |
///
/// A value moves at most 11 times before it is due, usually up to 4 times, and
/// once if values of one timeout are inserted one after the other. The memory
/// doubles where it ends, as that of a `Vec`, which copies all of it at once:
/// [`with_capacity`](Self::with_capacity) or [`reserve`](Self::reserve) avoid
/// it. It holds up to 2^32 − 1000 values and keeps the memory of its fullest
/// time.
///
/// [`next_deadline`](DeadlineStore::next_deadline) is a lower bound here: exact
/// where at most eight values wait in the earliest list, otherwise the time at
/// which the store should be looked at next.
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
    lists: Lists<HEADS>,
    cells: Vec<Cell<T>>,
    /// The lists in use, a word per level, and the levels in use.
    occupied: [u64; LEVELS],
    levels: u32,
    free: Index,
    cursor: u64,
    span: u64,
    drain: Index,
    lane_last: u64,
    wake: u64,
    late: HeapStore<Index>,
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
            cells: Vec::new(),
            occupied: [0; LEVELS],
            levels: 0,
            free: NONE,
            cursor: 0,
            span: 0,
            drain: NONE,
            lane_last: 0,
            wake: u64::MAX,
            late: HeapStore::new(),
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
        let wanted = (self.len + additional).saturating_sub(self.cells.len());
        self.lists.reserve(wanted);
        self.cells.reserve(wanted);
    }

    /// Returns how many values fit without new memory, those in `late`
    /// excepted.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.lists.capacity().min(self.cells.capacity())
    }

    /// Returns a stored value, `None` if it has left.
    #[must_use]
    pub fn get(&self, handle: Handle) -> Option<&T> {
        let index = handle.slot().wrapping_sub(HEADS);
        let cell = self.cells.get(index as usize)?;
        if cell.generation != handle.generation() {
            return None;
        }
        cell.value.as_ref()
    }

    /// Returns the deadline of a value, `None` if it has left.
    #[must_use]
    pub fn deadline(&self, handle: Handle) -> Option<Instant> {
        self.get(handle)?;
        Some(Instant::from_nanos(self.lists.node(handle.slot()).at))
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

    fn cell(&mut self, slot: Index) -> &mut Cell<T> {
        &mut self.cells[(slot - HEADS) as usize]
    }

    /// A free slot, new memory if there is none.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Index {
        assert!(
            self.cells.len() < (NONE - 1 - HEADS) as usize,
            "a CalendarStore holds at most 2^32 - 1000 values"
        );
        // Memory first: nothing has changed if it cannot be had.
        self.lists.reserve(1);
        self.cells.reserve(1);
        self.cells.push(Cell {
            value: None,
            generation: 0,
            late: 0,
        });
        self.lists.grow()
    }

    /// Puts a slot that is nowhere where rule 1 wants it.
    #[inline(always)]
    fn place(&mut self, slot: Index, at: u64) {
        self.touch(2);
        if at < self.cursor {
            return self.place_late(slot, at);
        }
        if at == u64::MAX {
            return self.lists.push_back(NEVER, slot, at);
        }
        let differing = at ^ self.cursor;
        if differing < self.span {
            return self.lists.push_back(self.drain, slot, at);
        }
        let level = (63 - (differing | 1).leading_zeros()) / DIGIT;
        let list = (at >> (level * DIGIT)) as u32 % FAN;
        self.levels |= 1 << level;
        self.occupied[level as usize] |= 1 << list;
        self.lists.push_back(level * FAN + list, slot, at);
    }

    #[cold]
    fn place_late(&mut self, slot: Index, at: u64) {
        let handle = self.late.insert(Instant::from_nanos(at), slot);
        let node = self.lists.node_mut(slot);
        node.prev = LATE;
        node.next = handle.generation();
        node.at = at;
        self.cell(slot).late = handle.slot();
        self.touch_late();
    }

    /// Takes a slot out of where it waits.
    #[inline(always)]
    fn displace(&mut self, slot: Index) {
        self.touch(3);
        if self.lists.node(slot).prev == LATE {
            return self.displace_late(slot);
        }
        if let Some(head) = self.lists.unlink(slot) {
            self.vacate(head);
        }
    }

    #[cold]
    fn displace_late(&mut self, slot: Index) {
        let generation = self.lists.node(slot).next;
        let handle = Handle::new(self.cell(slot).late, generation);
        self.touch_late();
        let left = self.late.cancel(handle);
        debug_assert_eq!(left, Some(slot), "a late entry knows its place");
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
    fn release(&mut self, slot: Index) {
        self.len -= 1;
        let free = self.free;
        let cell = self.cell(slot);
        // Rule 6: the last generation is never given out, the slot rests.
        if let Some(next) = cell.generation.checked_add(1) {
            cell.generation = next;
            self.lists.node_mut(slot).next = free;
            self.free = slot;
        }
    }

    /// Takes a waiting slot out of the store.
    #[inline(always)]
    fn take(&mut self, slot: Index) -> Step<T> {
        self.displace(slot);
        let at = Instant::from_nanos(self.lists.node(slot).at);
        let cell = self.cell(slot);
        let handle = Handle::new(slot, cell.generation);
        let value = cell.value.take();
        self.release(slot);
        debug_assert!(value.is_some(), "what waits has a value");
        value.map_or(Step::Busy, |value| Step::Due(Expired { at, handle, value }))
    }

    /// The earliest of the lane and of `late`; of equals the lane's.
    #[inline(always)]
    fn front(&self) -> Option<(u64, Index)> {
        let lane = self.lists.first(LANE);
        let lane = lane.map(|slot| (self.lists.node(slot).at, slot));
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
        self.cursor = bucket.start;
        self.span = 1 << (bucket.level * DIGIT);
        self.drain = bucket.head;
        if self.lists.first(LANE).is_none() {
            // Rule 4: no value in X's range waits in a level now.
            self.lane_last = 0;
        }
    }

    /// Takes a few entries out of the list that is being taken apart.
    fn advance(&mut self) {
        let span = core::mem::take(&mut self.span);
        let mut moves = MOVES;
        while moves > 0 {
            let Some(first) = self.lists.first(self.drain) else {
                self.drain = NONE;
                return;
            };
            // A run in order goes to the lane as it stands.
            let (mut entry, mut last) = (first, NONE);
            while moves > 0 && entry != self.drain {
                let node = self.lists.node(entry);
                if node.at < self.lane_last {
                    break;
                }
                self.lane_last = node.at;
                last = entry;
                entry = node.next;
                self.touch(1);
                moves -= 1;
            }
            if last != NONE {
                self.touch(4);
                self.lists.splice(self.drain, first, last, LANE);
            } else {
                let at = self.lists.node(first).at;
                self.touch(4);
                self.lists.unlink(first);
                self.place(first, at);
                moves -= 1;
            }
        }
        self.span = span;
    }

    /// The entries of a short list by deadline, then by place, with their
    /// number; `None` for a long list.
    #[inline(always)]
    fn sorted(&self, head: Index) -> Option<([(u64, Index); SHORT], usize)> {
        let (mut sorted, mut count) = ([(u64::MAX, NONE); SHORT], 0);
        for (slot, at) in self.lists.iter(head) {
            if count == SHORT {
                return None;
            }
            let mut place = count;
            while place > 0 && sorted[place - 1].0 > at {
                sorted[place] = sorted[place - 1];
                place -= 1;
            }
            sorted[place] = (at, slot);
            count += 1;
        }
        Some((sorted, count))
    }

    /// Hands out what is first in line without looking anew before each value:
    /// the due part of the lane, then that of a short list.
    #[inline(always)]
    fn burst(&mut self, now: u64, budget: usize, each: &mut impl FnMut(Expired<T>)) -> usize {
        let mut fired = 0;
        let mut hand = |store: &mut Self, slot| {
            if let Step::Due(expired) = store.take(slot) {
                fired += 1;
                each(expired);
            }
        };
        let late = self
            .late
            .first()
            .map_or(u64::MAX, |first| first.0.as_nanos());
        let (begin, bucket) = if self.drain == NONE {
            let earliest = self.earliest();
            (earliest.map_or(u64::MAX, |bucket| bucket.start), earliest)
        } else {
            (self.cursor, None)
        };
        // Of equals the lane's, by rule 4.
        let limit = now.min(begin).min(late);
        let mut left = budget;
        let mut front = late;
        while let Some(slot) = self.lists.first(LANE) {
            let at = self.lists.node(slot).at;
            if left == 0 || at > limit {
                front = front.min(at);
                break;
            }
            left -= 1;
            hand(self, slot);
        }
        let Some(bucket) = bucket.filter(|bucket| bucket.start <= now) else {
            return fired;
        };
        self.touch(SHORT as u64 + 1);
        if let Some((sorted, count)) = self.sorted(bucket.head) {
            for &(at, slot) in sorted[..count].iter().take(left) {
                if at > now || at >= front {
                    break;
                }
                hand(self, slot);
            }
        }
        fired
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
            self.cursor = now;
        }
        Step::Idle
    }

    /// Checks the rules at the head of this file.
    ///
    /// # Panics
    ///
    /// If one is broken. In O(n); for tests.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.late.check_invariants();
        let mut count = self.late.len();
        if self.cells.is_empty() {
            return;
        }
        for head in 0..HEADS {
            count += self.lists.check(head);
            let level = (head / FAN) as usize;
            let filled = self.lists.first(head).is_some();
            if level < LEVELS && head != self.drain {
                let noted = self.occupied[level] >> (head % FAN) & 1 == 1;
                assert_eq!(noted, filled, "the words tell which lists are in use");
                for (_, at) in self.lists.iter(head) {
                    assert!(at >= self.cursor, "rule 1: not before the cursor");
                    let digit = (63 - (at ^ self.cursor | 1).leading_zeros()) / DIGIT;
                    let list = (at >> (digit * DIGIT)) as u32 % FAN;
                    assert_eq!(digit * FAN + list, head, "rule 1: its own list");
                    assert!(at >= self.wake, "no deadline before the wake");
                }
            }
        }
        for (level, &word) in self.occupied.iter().enumerate() {
            assert_eq!(self.levels >> level & 1 == 1, word != 0);
        }
        if self.drain != NONE {
            for (_, at) in self.lists.iter(self.drain) {
                assert!(at ^ self.cursor < self.span, "rule 3: X's range");
            }
        }
        let mut last = 0;
        for (_, at) in self.lists.iter(LANE) {
            assert!(last <= at && at <= self.lane_last, "rule 4: sorted");
            last = at;
        }
        let late = self.late.first().map(|first| first.0.as_nanos());
        assert!(late.is_none_or(|at| at < self.cursor), "rule 5");
        let full = self.cells.iter().filter(|cell| cell.value.is_some());
        assert_eq!(full.count(), self.len, "each value is counted");
        assert_eq!(count, self.len, "each value waits somewhere, once");
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
        let slot = if self.free == NONE {
            self.grow()
        } else {
            let slot = self.free;
            self.free = self.lists.node(slot).next;
            slot
        };
        self.len += 1;
        self.wake = self.wake.min(at);
        let cell = self.cell(slot);
        cell.value = Some(value);
        let handle = Handle::new(slot, cell.generation);
        self.place(slot, at);
        handle
    }

    /// O(1); O(log n) for a value whose deadline was past when it came.
    #[inline]
    fn cancel(&mut self, handle: Handle) -> Option<T> {
        let slot = handle.slot();
        let cell = self.cells.get_mut(slot.wrapping_sub(HEADS) as usize)?;
        if cell.generation != handle.generation() {
            return None;
        }
        let value = cell.value.take()?;
        self.displace(slot);
        self.release(slot);
        Some(value)
    }

    /// O(1), as a cancel and an insert; the handle stays the same.
    #[inline]
    fn reschedule(&mut self, handle: Handle, at: Instant) -> Option<Handle> {
        self.get(handle)?;
        let at = at.as_nanos();
        self.displace(handle.slot());
        self.wake = self.wake.min(at);
        self.place(handle.slot(), at);
        Some(handle)
    }

    /// O(1): a lower bound; exact where few values wait in the earliest list.
    fn next_deadline(&self) -> Option<Instant> {
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
    fn expire(&mut self, now: Instant, budget: usize, mut each: impl FnMut(Expired<T>)) -> Swept {
        let mut fired = 0;
        let mut left = budget;
        while left > 0 {
            if now.as_nanos() < self.wake {
                return Swept { fired, more: false };
            }
            let burst = self.burst(now.as_nanos(), left, &mut each);
            if burst > 0 {
                fired += burst;
                left -= burst;
                continue;
            }
            left -= 1;
            match self.work(now.as_nanos()) {
                Step::Due(expired) => {
                    fired += 1;
                    each(expired);
                }
                Step::Busy => {}
                Step::Idle => return Swept { fired, more: false },
            }
        }
        Swept { fired, more: true }
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
        store.cells[0].generation = u32::MAX;
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
