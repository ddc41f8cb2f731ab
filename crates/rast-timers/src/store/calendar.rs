//! A cancellable deadline store with constant costs: a radix calendar.
//!
//! Source: the timer trackers of the original RAST design, and the radix heap (Ahuja, Mehlhorn,
//! Orlin and Tarjan, 1990). The cursor is the time that the store has reached. Times are numbers
//! with digits of six bits. Each digit has 64 lists, which are a level. A value is in the level of
//! the highest digit in which its deadline differs from the cursor. When the cursor comes near a
//! list, the list is split: its entries move to the lane (the sorted list of the next values) or to
//! lists of lower levels.
//!
//! Changes: a list is split a few entries at a time, before the cursor reaches it, so that no call
//! takes long. Short lists are never split. Values that were inserted in order move only once.
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
//! | `drain` | the list X that is being split, `NONE` if there is none |
//! | `span` | the width of X in time, 0 without X; a deadline `at` lies in X if `at ^ cursor < span` |
//! | `lane_last` | the greatest deadline that was appended to the lane |
//! | `late_last` | the greatest deadline in `late` since it was last empty |
//! | `bar` | every value in `late` is before this time; equals `cursor`, unless the cursor has gone back |
//! | `moved` | the values of `late` from `cursor` to this time have moved to the lists; equals `cursor`, unless the cursor has gone back |
//! | `wake` | no step has work to do before this time |
//!
//! 1. A value whose deadline `at` is not before `cursor` is in list s of level l. l is the highest
//!    digit in which `at` and `cursor` differ, and s is that digit of `at`. Rules 3, 4, 7 and 8
//!    have the exceptions. The deadlines in a level are before those in higher levels. The
//!    deadlines in a list are before those in the later lists of its level.
//! 2. The cursor advances only to the start of the earliest list, or to a time before it. So rule 1
//!    still holds, although no value moves.
//! 3. While X is being split, the cursor is at the start of X. The levels below the level of X
//!    contain only values that were moved from X. A value inserted in the range of X is appended to
//!    X. So values with the same deadline stay in order.
//! 4. The lane is sorted. A value in the lane was inserted before the values elsewhere that have
//!    the same deadline.
//! 5. Every value in `late` is before `bar`.
//! 6. A slot has a generation, which grows with each reuse. At its maximum the slot is not reused.
//! 7. If a step's `now` is more than `BACK` before the cursor, the cursor goes back to `now`. Let l
//!    be the highest digit in which the old and the new cursor differ. First all lists of the
//!    levels below l are joined to one list of level l. The index of this list is digit l of the
//!    old cursor. Then the values of `late` that are not before the new cursor move to the lists in
//!    order, one value per step. Until all have moved, `cursor <= moved <= bar` holds, and no list
//!    is read. In this time the cursor goes back again if any `now` is before the cursor. A new
//!    value with a deadline from `moved` to `bar` is inserted in `late`, so that values with the
//!    same deadline stay in order.
//! 8. A value with the deadline `u64::MAX` is in a list of its own, and is never due.

mod back;
mod check;
mod expire;
mod lists;
mod slot;

use self::lists::{Index, Lists};
use self::slot::Slot;
use super::{DeadlineStore, Expired, Handle, HeapStore, Step, Swept};
use crate::Instant;
use crate::primitive::panics::drop_each;

/// Bits of a digit, and number of lists of a level.
const DIGIT: u32 = 6;
const FAN: u32 = 1 << DIGIT;
const LEVELS: usize = 64_usize.div_ceil(DIGIT as usize);

/// Index of the heads after those of the levels.
const LANE: Index = LEVELS as Index * FAN;
const NEVER: Index = LANE + 1;
const HEADS: u32 = NEVER + 1;

/// No list and no slot.
const NONE: Index = Index::MAX;

/// Value of `prev` in an entry that is in `late`; its `at` is then its handle there.
const LATE: Index = Index::MAX;

/// Maximum length of a list that is searched instead of split.
const SHORT: usize = 16;

/// Number of entries that one step moves out of a list.
const MOVES: usize = 8;

/// Distance in slots at which a run of cancels prefetches: 128 KiB if a value is a word. To cancel
/// the oldest of a million values and arm one took 25 ns without, 13 ns at 128 to 512, 10.6 ns at
/// 2048, 9.3 ns here (`docs/performance.md`, 2026-11-21).
const AHEAD: u32 = 4096;

/// Number of handles whose slots `cancel_all` prefetches before it cancels the first.
const BATCH: usize = 16;

/// Maximum time before its start at which the splitting of a list begins.
const LEAD_MAX: u64 = 1 << 24;

/// Distance before the cursor from which a `now` means that the clock has gone back. Splitting a
/// list ahead of its time moves the cursor at most half as far ahead.
const BACK: u64 = 2 * LEAD_MAX;

/// Time before its start at which the splitting of a list begins, for each level: a sixteenth of
/// the list's width, at most `LEAD_MAX`.
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
    /// Returns the time at which to begin to split the list.
    fn ahead(&self) -> u64 {
        // Above level 0 the digit of the list is greater than the cursor's, so this does not wrap.
        self.start - LEADS[self.level as usize]
    }

    /// Returns the last time that the list covers.
    fn last(&self) -> u64 {
        self.start | ((1 << (self.level * DIGIT)) - 1)
    }
}

/// A [`DeadlineStore`] with cancellation at constant cost, exact to the nanosecond. Values wait in
/// lists, each for a range of deadlines. Insert, cancel, reschedule and each expiry step access a
/// few entries, whatever the number of values and the distribution of their deadlines.
///
/// | call | maximum number of entries accessed |
/// | --- | --- |
/// | `insert`, `cancel`, `reschedule` | [`TOUCHES`](Self::TOUCHES); 3 if the deadline is not before the time already reached |
/// | `clear` | all |
/// | one [`step`](DeadlineStore::step), which is one unit of the budget of `expire` and `expire_unordered` | [`TOUCHES`](Self::TOUCHES) |
/// | `next_deadline` | 17 |
///
/// A value moves to another list at most 11 times before it is due, and usually up to 4 times. It
/// moves once if values with the same timeout are inserted one after the other. When the memory is
/// full, it is doubled as in a `Vec`, and all of it is copied at once.
/// [`with_capacity`](Self::with_capacity) or [`reserve`](Self::reserve) avoid that. The store holds
/// up to 2^32 − 1000 values and does not shrink.
///
/// [`next_deadline`](DeadlineStore::next_deadline) is a lower bound here. It is exact if at most
/// sixteen values are in the earliest list; otherwise it is the time at which to call the store
/// next.
///
/// [`expire_unordered`](DeadlineStore::expire_unordered) is for timers that do not depend on each
/// other. For a cluster in random order it takes a thirteenth of the time of
/// [`expire`](DeadlineStore::expire), which sorts the cluster to the nanosecond.
///
/// After a call with a `now` far in the future, inserting a value that is due before that time
/// costs O(log n). This lasts until a call has a `now` that is more than 33 ms earlier. That call
/// moves the store back to this earlier time. The first step of that call may access more than
/// [`TOUCHES`](Self::TOUCHES) entries: four for each list in use, at most 2,600. Each value that
/// was inserted between the two calls costs one more [`Busy`](Step::Busy) step.
///
/// A value of `T` is stored next to its deadline, and each of the 706 list heads has space for a
/// `T`, too: box large values.
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
    /// Bit set of the lists in use, a word per level.
    occupied: [u64; LEVELS],
    levels: u32,
    free: Index,
    /// The last cancelled slot.
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
    /// Number of entries accessed, counted with debug assertions.
    touched: u64,
}

impl<T> CalendarStore<T> {
    /// Maximum number of entries that one step, or one call of `insert`, `cancel` or `reschedule`,
    /// accesses. It is the worst case of a 4-ary heap of 2^32 values, which only deadlines before
    /// the time already reached incur.
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

    /// Reserves memory for `additional` more values.
    pub fn reserve(&mut self, additional: usize) {
        let wanted = (self.len + additional).saturating_sub(self.lists.len());
        self.lists.reserve(wanted);
    }

    /// Returns how many values fit without new memory, except those in `late`.
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

    /// Returns the number of entries accessed so far, with debug assertions; for tests.
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

    /// Counts the maximum that an operation of `late` accesses: five nodes per level, and the
    /// entry.
    fn touch_late(&mut self) {
        if cfg!(debug_assertions) {
            let levels = u64::from(self.late.len().max(1).ilog2()) / 2 + 1;
            self.touched += 5 * levels + 1;
        }
    }

    /// Returns the deadline of a value that is in a list.
    #[inline(always)]
    fn at(&self, slot: Index) -> u64 {
        self.lists.slot(slot).at
    }

    /// Adds a free slot; allocates if needed.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Index {
        assert!(
            self.lists.len() < (NONE - 1 - HEADS) as usize,
            "a CalendarStore holds at most 2^32 - 1000 values"
        );
        // Allocate first: if that fails, nothing has changed.
        self.lists.reserve(1);
        self.lists.grow()
    }

    /// Puts a slot that is in no list into the list of rule 1.
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
        // As `Bucket::ahead` computes for this list.
        let ahead = (digits << shift) - LEADS[level as usize];
        self.wake = self.wake.min(ahead);
        self.lists.push_back(level * FAN + list, slot, at);
    }

    #[cold]
    fn place_late(&mut self, slot: Index, at: u64) {
        self.late_last = self.late_last.max(at);
        self.wake = self.wake.min(at);
        if self.cursor.saturating_sub(at) > BACK {
            // The next step checks whether the clock has gone back.
            self.wake = 0;
        }
        let handle = self.late.insert(Instant::from_nanos(at), slot);
        let slot = self.lists.slot_mut(slot);
        (slot.prev, slot.at) = (LATE, handle.to_word());
        self.touch_late();
    }

    /// Removes a slot from its list or from `late` and returns its deadline.
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

    /// Records that a list is empty.
    fn vacate(&mut self, head: Index) {
        let level = (head / FAN) as usize;
        if level < LEVELS {
            self.occupied[level] &= !(1 << (head % FAN));
            if self.occupied[level] == 0 {
                self.levels &= !(1 << level);
            }
        }
    }

    /// Frees a slot without a value that is in no list.
    #[inline(always)]
    fn release(&mut self, index: Index) {
        self.len -= 1;
        let free = self.free;
        let slot = self.lists.slot_mut(index);
        // Rule 6: a slot whose last generation was used is not reused.
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next;
            slot.next = free;
            self.free = index;
        }
    }

    /// Removes a waiting slot from the store.
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

    /// Returns the earlier of the first of the lane and the first of `late`; the lane's if they are
    /// equal.
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

    /// Returns the earliest list of the levels.
    #[inline(always)]
    fn earliest(&self) -> Option<Bucket> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros();
        let list = self.occupied[level as usize].trailing_zeros();
        let shift = level * DIGIT;
        // By rule 1 the digits above the level are the cursor's.
        let above = u64::MAX.checked_shl(shift + DIGIT).unwrap_or(0);
        Some(Bucket {
            head: level * FAN + list,
            level,
            start: self.cursor & above | u64::from(list) << shift,
        })
    }

    /// Returns the first entry with the earliest deadline of a short list, `None` for a long list.
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

    /// Begins to split a list.
    fn open(&mut self, bucket: Bucket) {
        debug_assert!(bucket.level > 0, "one time is not taken apart");
        self.vacate(bucket.head);
        self.move_cursor(bucket.start);
        self.span = 1 << (bucket.level * DIGIT);
        self.drain = bucket.head;
        if self.lists.first(LANE).is_none() {
            // Rule 4: no value in X's range is in a level now.
            self.lane_last = 0;
        }
    }

    /// Moves the cursor; every value in `late` must be before `to`.
    #[inline(always)]
    fn move_cursor(&mut self, to: u64) {
        (self.cursor, self.bar, self.moved) = (to, to, to);
    }

    /// Moves a few entries out of the list that is being split.
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

    /// Moves the sorted run at the front of the list that is being split to the lane, as one
    /// splice; returns its length, at most `most`.
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

    /// Moves an entry of the list that is being split to a lower level.
    #[inline(always)]
    fn descend(&mut self, slot: Index) {
        self.touch(4);
        let at = self.at(slot);
        self.lists.unlink(slot);
        let span = core::mem::take(&mut self.span);
        self.place(slot, at);
        self.span = span;
    }

    /// Ends the splitting if the list is empty.
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
                // For equal deadlines the front is first, by rules 4 and 5.
                let (at, slot) = front.filter(|front| front.0 <= at).unwrap_or((at, slot));
                self.wake = at;
                if at <= now {
                    return self.take(slot);
                }
            }
        }
        if start > now && now > self.cursor {
            // Rule 2: the earliest list starts after it.
            self.move_cursor(now);
        }
        Step::Idle
    }
}

impl<T> DeadlineStore<T> for CalendarStore<T> {
    /// O(1); O(log n) for a deadline before the time reached. May allocate.
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

    /// O(1); O(log n) for a value whose deadline was past when it was inserted.
    #[inline]
    fn cancel(&mut self, handle: Handle) -> Option<T> {
        let index = handle.slot();
        let slot = self.lists.entry_mut(index)?;
        if slot.generation != handle.generation() {
            return None;
        }
        let value = slot.take()?;
        // Cancelling in the order of arming accesses slots in sequence. The accesses to their
        // neighbours in between hide that pattern from the processor, so prefetch explicitly.
        let stride = index.wrapping_sub(self.cancelled);
        self.cancelled = index;
        let ahead = index.wrapping_add(stride.wrapping_mul(AHEAD));
        self.lists.prefetch(ahead);
        self.displace(index);
        self.release(index);
        Some(value)
    }

    /// O(1) for each handle. Values armed long ago in random order lie far from each other and from
    /// their neighbours, so the cache lines of sixteen are prefetched before the first is removed.
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
        drop_each(|| {
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

    /// O(1): a lower bound; exact if few values are in the earliest list.
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
        // Both are lower bounds, and no step has work before `wake`.
        Some(Instant::from_nanos(next.max(self.wake)))
    }

    /// O(1): returns one value, or moves up to eight towards being due.
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

    /// O(1) for each unit of the budget, as [`step`](Self::step). A value moves at most once for
    /// each list that still contains `now`. No list of more than 16 values is sorted.
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

default_and_debug!(CalendarStore);

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
