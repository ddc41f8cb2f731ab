//! A deadline store for uniform timeouts: monotone lanes.
//!
//! Source: the original RAST design's linked lists for timers whose deadlines only increase.
//! Changes: a ring instead of a list, and cancellation. There are several lanes, chosen by the
//! deadline alone, so the caller passes no duration. Values that fit no lane go to a heap, so every
//! deadline is accepted and kept.
//!
//! ```text
//!  lane 0  front ▶ │ at │ at │ ·· │ at │ at │ ◀ last   30 s timeouts
//!  lane 1  front ▶ │ at │ at │ at │ ◀ last              5 s timeouts
//!                          ▲ cancelled: its value is removed, its entry remains
//!  overflow  a heap: values before the last of every lane, or 292 years ahead
//! ```
//!
//! 1. Each lane is sorted; `last` is the greatest deadline inserted since the lane was opened.
//! 2. `last` strictly decreases from lane to lane. A value goes to the first lane whose `last` is
//!    not after its deadline. If each deadline is the current time plus one of k durations, at most
//!    k lanes are needed.
//! 3. Values with the same deadline may be in several lanes. Then those in the lane with the lowest
//!    index were inserted first, because every `last` only grows: a later value with this deadline
//!    goes to the same lane or to a lane with a higher index. Values in `overflow` were inserted
//!    after those with the same deadline in lanes.
//! 4. A lane is closed only if it is empty, all lanes after it are closed, and the overflow has no
//!    value that a lane could accept. So rules 2 and 3 still hold afterwards.
//! 5. The values of a lane are numbered as they are inserted, in steps of 16. A number is never
//!    reused; a handle is this number with the index of the lane in the lower bits.
//! 6. The first lane is always open. When it is empty, it may start again with another `last`.

mod places;

use super::{DeadlineStore, Expired, Handle, HeapStore, Step, Swept};
use crate::Instant;
use crate::primitive::panics::drop_each;
use core::fmt;
use core::mem::needs_drop;
use places::{FAR, Places, Row, STEP};

/// Maximum number of lanes.
const LANES: usize = 8;

/// Number of bits of a handle below the number: the lane, or `OVERFLOW`.
const LOW: u32 = STEP.ilog2();
const OVERFLOW: u64 = LANES as u64;

/// Maximum number of overflow slots that a handle can express.
const OVERFLOW_SLOTS: u32 = 1 << (u32::BITS - LOW);

/// Returns the handle of a value in a lane.
#[inline(always)]
const fn handle(lane: usize, number: u64) -> Handle {
    Handle::from_word(number + lane as u64)
}

/// Returns the handle of an overflow entry, from its handle in the heap.
const fn overflow_handle(inner: Handle) -> Handle {
    Handle::new(inner.slot() << LOW | OVERFLOW as u32, inner.generation())
}

/// The lane with the earliest front entry.
struct First {
    at: u64,
    lane: usize,
    has_value: bool,
    /// Latest deadline up to which this lane precedes all others.
    until: u64,
}

/// A [`DeadlineStore`] for timeouts that have few different durations. Timeouts of one duration
/// arrive in the order of their deadlines, so each duration has a lane, which costs as much as a
/// ring buffer.
///
/// Up to eight lanes open automatically. A value that fits none of them goes to a [`HeapStore`],
/// and costs as much as in that store. A cancelled value leaves at once. Its entry stays until it
/// is at the front of the lane. Then a step of `expire` or a later insert removes it. So a lane
/// keeps all entries since its oldest waiting value, and some older entries for a while. Its memory
/// is allocated in chunks of 64 entries and not freed before the drop; when a lane grows, only a
/// directory of the chunks is copied.
///
/// [`next_deadline`](DeadlineStore::next_deadline) is a lower bound here: it may be the deadline of
/// a cancelled value. `reschedule` returns a new handle.
///
/// ```
/// use rast_timers::{DeadlineStore, Instant, LaneStore};
/// let at = Instant::from_nanos;
/// let mut store = LaneStore::new();
/// let first = store.insert(at(30), "first");
/// store.insert(at(31), "second");
/// assert_eq!(store.cancel(first), Some("first"));
/// assert_eq!(store.pop_due(at(40)).map(|due| due.value), Some("second"));
/// ```
pub struct LaneStore<T> {
    lanes: [Places<T>; LANES],
    /// Number of open lanes.
    used: usize,
    overflow: HeapStore<T>,
}

impl<T> Drop for LaneStore<T> {
    fn drop(&mut self) {
        // Here, because a panic in the drops of two fields would abort the process.
        if needs_drop::<T>() {
            self.clear();
        }
    }
}

impl<T> LaneStore<T> {
    /// Makes an empty store without memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            lanes: [const { Places::new() }; LANES],
            used: 1,
            overflow: HeapStore::new(),
        }
    }

    /// Makes an empty store whose first lane has memory for `capacity` entries, including those
    /// that it still keeps of cancelled values. Because of the chunks, it may reserve up to twice
    /// that and 128 more.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut store = Self::new();
        store.lanes[0] = Places::with_capacity(capacity);
        store
    }

    /// Returns the number of open lanes, at least one.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.used
    }

    /// Returns the number of values that fit no lane.
    #[must_use]
    pub fn overflow(&self) -> usize {
        self.overflow.len()
    }

    /// Stores a value that the first lane does not accept.
    #[inline(never)]
    fn insert_beyond(&mut self, at: u64, mut value: T) -> Handle {
        // No call if the chunk has room, so that no register is saved.
        if let Some(lane) = self.taker_beyond(at)
            && self.lanes[lane].has_room()
        {
            match self.lanes[lane].push(at, value) {
                Ok(number) => return handle(lane, number),
                Err(back) => value = back,
            }
        }
        self.insert_beyond_slow(at, value)
    }

    /// As `insert_beyond`, but opens a lane or a chunk if needed.
    #[inline(never)]
    fn insert_beyond_slow(&mut self, at: u64, mut value: T) -> Handle {
        if let Some(lane) = self.lane_beyond(at) {
            match self.lanes[lane].push(at, value) {
                Ok(number) => return handle(lane, number),
                Err(back) => value = back,
            }
        }
        self.insert_overflow(at, value)
    }

    /// Stores a run of values that the first lane does not accept. Inlined, so that the caller's
    /// iterator and closure can stay in registers.
    #[inline(always)]
    fn insert_row_beyond(
        &mut self,
        (at, value): (u64, T),
        more: &mut impl Iterator<Item = (u64, T)>,
        mut each: impl FnMut(Handle),
    ) -> Row<T> {
        let Some(lane) = self.lane_beyond(at) else {
            each(self.insert_overflow(at, value));
            let next = more.next();
            return Row { count: 1, next };
        };
        // Rule 2: a value at or after the `last` of the lane above belongs to another lane.
        let before = match lane.checked_sub(1) {
            Some(above) => self.lanes[above].last(),
            None => FAR,
        };
        let each = |number| each(handle(lane, number));
        self.lanes[lane].push_row((at, value), before, more, each)
    }

    /// Returns the lane that accepts a deadline that the first one does not; opens it if needed.
    #[inline]
    fn lane_beyond(&mut self, at: u64) -> Option<usize> {
        if at >= FAR {
            return None;
        }
        self.taker_beyond(at).or_else(|| self.open())
    }

    /// Returns the open lane, other than the first, that accepts a deadline.
    #[inline(always)]
    fn taker_beyond(&self, at: u64) -> Option<usize> {
        let lanes = self.lanes[..self.used].iter().enumerate().skip(1);
        let mut takers = lanes.filter(|(_, places)| places.takes(at));
        takers.next().map(|(lane, _)| lane)
    }

    #[inline(never)]
    fn insert_overflow(&mut self, at: u64, value: T) -> Handle {
        // Check before the insert, so that no stored value is lost.
        assert!(
            self.overflow.slots() <= OVERFLOW_SLOTS as usize,
            "a LaneStore holds at most 2^28 values that fit no lane"
        );
        overflow_handle(self.overflow.insert(Instant::from_nanos(at), value))
    }

    /// Opens a lane for a deadline before the `last` of every lane; `None` if all lanes are open,
    /// or the overflow has a value before `FAR`.
    #[cold]
    fn open(&mut self) -> Option<usize> {
        let overflow = self.overflow.next_deadline();
        if overflow.is_some_and(|first| first.as_nanos() < FAR) {
            return None;
        }
        // Rule 4.
        while self.used > 0 && self.lanes[self.used - 1].is_bare() {
            self.used -= 1;
        }
        let lane = self.used;
        if lane == LANES {
            return None;
        }
        self.used += 1;
        self.lanes[lane].restart();
        Some(lane)
    }

    /// Returns the lane whose front is the earliest; of equal fronts the one in the lowest lane.
    #[inline(always)]
    fn first(&self) -> Option<First> {
        let mut first: Option<First> = None;
        for (lane, places) in self.lanes[..self.used].iter().enumerate() {
            let Some((at, has_value)) = places.first() else {
                continue;
            };
            // By rule 3, equal deadlines in a higher lane come later.
            let until = match &mut first {
                Some(first) if first.at <= at => {
                    first.until = first.until.min(at);
                    continue;
                }
                Some(first) => first.until.min(first.at - 1),
                None => FAR - 1,
            };
            first = Some(First {
                at,
                lane,
                has_value,
                until,
            });
        }
        first
    }

    /// Removes a value that is not in the first lane. Not inlined, because the compiler would merge
    /// it with the code for the first lane.
    #[inline(never)]
    fn cancel_beyond(&mut self, handle: Handle) -> Option<T> {
        let word = handle.to_word();
        match self.lanes.get_mut((word % STEP) as usize) {
            Some(lane) => lane.take(word),
            None => self.cancel_overflow(handle),
        }
    }

    /// Removes a run of values that are not in the first lane.
    #[inline(always)]
    fn cancel_row_beyond(&mut self, handles: &[Handle], each: impl FnMut(Handle, T)) -> usize {
        let lane = handles.first().map_or(0, |handle| handle.to_word() % STEP);
        match self.lanes.get_mut(lane as usize) {
            Some(places) => places.take_row(lane, handles, each),
            None => 0,
        }
    }

    #[inline(never)]
    fn cancel_overflow(&mut self, handle: Handle) -> Option<T> {
        if handle.to_word() % STEP != OVERFLOW {
            return None;
        }
        let slot = handle.slot() >> LOW;
        self.overflow.cancel(Handle::new(slot, handle.generation()))
    }

    fn step_overflow(&mut self, now: Instant) -> Step<T> {
        let mut step = self.overflow.step(now);
        if let Step::Due(expired) = &mut step {
            expired.handle = overflow_handle(expired.handle);
        }
        step
    }

    /// Checks the rules at the head of this file.
    ///
    /// # Panics
    ///
    /// If one is broken. In O(n); for tests.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.overflow.check_invariants();
        for (index, lane) in self.lanes.iter().enumerate() {
            assert!(index < self.used || lane.is_bare());
            // Rule 1.
            lane.check_invariants();
        }
        assert!(self.used > 0, "rule 6");
        let lasts = self.lanes[..self.used].iter().map(Places::last);
        assert!(lasts.is_sorted_by(|a, b| a > b), "rule 2: falling");
    }
}

impl<T> DeadlineStore<T> for LaneStore<T> {
    /// O(1) if a lane accepts the deadline, otherwise O(log n). May allocate.
    ///
    /// # Panics
    ///
    /// If 2^28 values fit no lane, or the 2^60 numbers of a lane are used up: at one per
    /// nanosecond, in 36 years.
    #[inline]
    fn insert(&mut self, at: Instant, value: T) -> Handle {
        let at = at.as_nanos();
        match self.lanes[0].push(at, value) {
            Ok(number) => handle(0, number),
            Err(value) => self.insert_beyond(at, value),
        }
    }

    /// As repeated inserts; the lane is searched once for each run of values that it accepts.
    fn insert_all(
        &mut self,
        values: impl IntoIterator<Item = (Instant, T)>,
        mut each: impl FnMut(Handle),
    ) -> usize {
        let mut values = values.into_iter().map(|(at, value)| (at.as_nanos(), value));
        let mut next = values.next();
        let mut count = 0;
        while let Some((at, value)) = next {
            // The first lane separately, as in `cancel`.
            if self.lanes[0].takes(at) {
                let each = |number| each(handle(0, number));
                let row = self.lanes[0].push_row((at, value), FAR, &mut values, each);
                count += row.count;
                next = row.next;
            } else {
                let row = self.insert_row_beyond((at, value), &mut values, &mut each);
                count += row.count;
                next = row.next;
            }
        }
        count
    }

    /// O(1); O(log n) for an overflow entry.
    #[inline]
    fn cancel(&mut self, handle: Handle) -> Option<T> {
        let word = handle.to_word();
        // The first lane separately: the offsets of its fields are constants.
        match word % STEP {
            0 => self.lanes[0].take(word),
            _ => self.cancel_beyond(handle),
        }
    }

    /// O(1) for each handle, O(log n) for an overflow entry. Values at the front of a lane, in the
    /// order of the handles, are removed as a run.
    fn cancel_all(&mut self, handles: &[Handle], mut each: impl FnMut(Handle, T)) -> usize {
        let (mut rest, mut count) = (handles, 0);
        while let Some((&handle, others)) = rest.split_first() {
            let row = match handle.to_word() % STEP {
                0 => self.lanes[0].take_row(0, rest, &mut each),
                _ => self.cancel_row_beyond(rest, &mut each),
            };
            if row > 0 {
                count += row;
                rest = &rest[row..];
                continue;
            }
            if let Some(value) = self.cancel(handle) {
                count += 1;
                each(handle, value);
            }
            rest = others;
        }
        count
    }

    /// As a cancel and an insert; the handle is new.
    fn reschedule(&mut self, handle: Handle, at: Instant) -> Option<Handle> {
        let value = self.cancel(handle)?;
        Some(self.insert(at, value))
    }

    /// O(n), including the entries of cancelled values.
    fn clear(&mut self) {
        drop_each(|| {
            let mut lanes = self.lanes[..self.used].iter_mut();
            let value = self.overflow.pop().or_else(|| lanes.find_map(Places::pop));
            if value.is_none() {
                // Rule 4.
                self.used = 1;
                self.lanes[0].restart();
            }
            value
        });
    }

    /// O(1), checks each lane: a lower bound.
    #[inline]
    fn next_deadline(&self) -> Option<Instant> {
        let lane = self.first().map(|first| Instant::from_nanos(first.at));
        match (lane, self.overflow.next_deadline()) {
            (Some(lane), Some(overflow)) => Some(lane.min(overflow)),
            (lane, overflow) => lane.or(overflow),
        }
    }

    /// O(1), checks each lane; O(log n) for an overflow entry. If the first entry was cancelled,
    /// removes up to 64 cancelled entries and returns [`Step::Busy`].
    #[inline]
    fn step(&mut self, now: Instant) -> Step<T> {
        let Some(first) = self.first() else {
            return self.step_overflow(now);
        };
        if let Some(overflow) = self.overflow.next_deadline()
            && overflow.as_nanos() < first.at
        {
            return self.step_overflow(now);
        }
        if first.at > now.as_nanos() {
            return Step::Idle;
        }
        let places = &mut self.lanes[first.lane];
        if !first.has_value {
            places.trim();
            return Step::Busy;
        }
        let mut step = Step::Busy;
        places.drain(first.at, 1, |number, at, value| {
            step = Step::Due(Expired {
                at: Instant::from_nanos(at),
                handle: handle(first.lane, number),
                value,
            });
        });
        step
    }

    /// As repeated steps, but a run of due values in one lane checks the others once. Cancelled
    /// entries cost no budget if a value is removed with them; at most 64 entries are passed for
    /// each unit of budget.
    #[inline]
    fn expire(&mut self, now: Instant, budget: usize, mut each: impl FnMut(Expired<T>)) -> Swept {
        let mut fired = 0;
        let mut left = budget;
        while left > 0 {
            let overflow = self.overflow.next_deadline().map_or(FAR, Instant::as_nanos);
            let mut count = 0;
            match self.first() {
                Some(first) if first.at <= overflow => {
                    if first.at > now.as_nanos() {
                        return Swept { fired, more: false };
                    }
                    let until = first.until.min(now.as_nanos()).min(overflow);
                    let places = &mut self.lanes[first.lane];
                    count = places.drain(until, left as u64, |number, at, value| {
                        each(Expired {
                            at: Instant::from_nanos(at),
                            handle: handle(first.lane, number),
                            value,
                        });
                    });
                }
                _ => match self.step_overflow(now) {
                    Step::Due(expired) => {
                        each(expired);
                        count = 1;
                    }
                    Step::Busy => {}
                    Step::Idle => return Swept { fired, more: false },
                },
            }
            fired += count;
            left -= count.max(1);
        }
        Swept { fired, more: true }
    }

    fn len(&self) -> usize {
        let lanes = self.lanes[..self.used].iter();
        lanes.map(Places::len).sum::<usize>() + self.overflow.len()
    }
}

impl<T> Default for LaneStore<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for LaneStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneStore")
            .field("len", &self.len())
            .field("lanes", &self.used)
            .field("next_deadline", &self.next_deadline())
            .finish_non_exhaustive()
    }
}
