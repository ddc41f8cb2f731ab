//! A deadline store for uniform timeouts: monotone lanes.
//!
//! Source: the linked lists of RAST's reactor for timers whose expiration only
//! grows. What is changed: a ring in place of a list; several lanes, chosen by
//! the deadline alone, so that the caller names no duration; cancellation; and
//! a heap for what fits no lane, so that no deadline is refused or bent.
//!
//! ```text
//!  lane 0  front ▶ │ at │ at │ ·· │ at │ at │ ◀ last   30 s timeouts
//!  lane 1  front ▶ │ at │ at │ at │ ◀ last              5 s timeouts
//!                          ▲ cancelled: its value is out, its place remains
//!  overflow  a heap: what is before the last of every lane, or 292 years ahead
//! ```
//!
//! 1. Each lane is sorted; `last` is the greatest deadline it had since it was
//!    opened.
//! 2. The lanes' `last` fall strictly from lane to lane, so a value goes to the
//!    first lane whose `last` is not after it. Values of k timeouts, armed as
//!    time goes on, need at most k lanes.
//! 3. Of values with one deadline those in lower lanes came first, and those
//!    in lanes before those in `overflow`. For the first lane whose `last` is not
//!    after a deadline only ever moves down as time goes on.
//! 4. A lane leaves, and with it its `last`, only if it is empty and behind all
//!    others and nothing is in the overflow that a lane could take; so rules 2 and 3 hold
//!    across it.
//! 5. The values of a lane are numbered as they come, in steps of 16; a number is
//!    never used again, and with the lane in its lower bits it is the handle.
//! 6. The first lane is in use always, though it may be opened anew.

mod places;

use super::{DeadlineStore, Expired, Handle, HeapStore, Step, Swept, drop_all};
use crate::Instant;
use core::fmt;
use places::{FAR, Places, Row, STEP};

/// The most lanes.
const LANES: usize = 8;

/// Bits of a handle below the number: the lane, or `OVERFLOW`.
const LOW: u32 = STEP.ilog2();
const OVERFLOW: u64 = LANES as u64;

/// Entries of the overflow that can be told apart.
const OVERFLOW_SLOTS: u32 = 1 << (u32::BITS - LOW);

/// The handle of a value in a lane.
#[inline(always)]
const fn handle(lane: usize, number: u64) -> Handle {
    Handle::from_word(number + lane as u64)
}

/// The handle of an entry of the overflow, from the one in the heap.
const fn overflow_handle(inner: Handle) -> Handle {
    Handle::new(inner.slot() << LOW | OVERFLOW as u32, inner.generation())
}

/// Which lane has something to do first.
struct First {
    at: u64,
    lane: usize,
    has_value: bool,
    /// Up to this deadline the lane comes before all others.
    until: u64,
}

/// A [`DeadlineStore`] for timeouts of a few durations: values that come in
/// the order of their deadlines, lane by lane, for the price of a ring buffer.
///
/// Up to eight lanes form by themselves, one for each duration in use; what
/// fits none of them waits in a [`HeapStore`] and costs what that costs. A
/// cancelled value leaves at once, its place when the front of its lane comes
/// by, in `expire` or as more is armed: a lane keeps the places of what came
/// since its first value that is still waiting, and for a while those before it.
/// Its memory comes in chunks of 64 places and stays; where it grows nothing is
/// moved but a list of the chunks.
///
/// [`next_deadline`](DeadlineStore::next_deadline) is a lower bound here: it
/// may be that of a cancelled value. A value gets another handle by
/// `reschedule`.
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
    /// Lanes in use.
    used: usize,
    overflow: HeapStore<T>,
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

    /// Makes an empty store whose first lane has memory for `capacity` places, so
    /// that it asks for none as long as there are no more, those of cancelled
    /// values that it still keeps among them; in chunks, it may have up to twice
    /// that and 128 more.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut store = Self::new();
        store.lanes[0] = Places::with_capacity(capacity);
        store
    }

    /// Returns the number of lanes in use, one at least.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.used
    }

    /// Returns the number of values that fit no lane.
    #[must_use]
    pub fn overflow(&self) -> usize {
        self.overflow.len()
    }

    /// Stores what the first lane does not take.
    #[inline(never)]
    fn insert_beyond(&mut self, at: u64, mut value: T) -> Handle {
        // Without a call where the chunk has room, so that no register is saved.
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

    /// The same, if need be in a lane or a chunk that is opened for it.
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

    /// Stores in a row what the first lane does not take. Inlined, since the
    /// caller's iterator and closure would else have to lie in memory.
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
        // Rule 2: what is there already, or later, is for another lane.
        let before = match lane.checked_sub(1) {
            Some(above) => self.lanes[above].last(),
            None => FAR,
        };
        let each = |number| each(handle(lane, number));
        self.lanes[lane].push_row((at, value), before, more, each)
    }

    /// The lane that takes a deadline that the first one does not, opened if need
    /// be.
    #[inline]
    fn lane_beyond(&mut self, at: u64) -> Option<usize> {
        if at >= FAR {
            return None;
        }
        self.taker_beyond(at).or_else(|| self.open())
    }

    /// The lane in use, but the first, that takes a deadline.
    #[inline(always)]
    fn taker_beyond(&self, at: u64) -> Option<usize> {
        let lanes = self.lanes[..self.used].iter().enumerate().skip(1);
        let mut takers = lanes.filter(|(_, places)| places.takes(at));
        takers.next().map(|(lane, _)| lane)
    }

    #[inline(never)]
    fn insert_overflow(&mut self, at: u64, value: T) -> Handle {
        // Before it is taken: what has been taken is never lost.
        assert!(
            self.overflow.slots() <= OVERFLOW_SLOTS as usize,
            "a LaneStore holds at most 2^28 values that fit no lane"
        );
        overflow_handle(self.overflow.insert(Instant::from_nanos(at), value))
    }

    /// Opens a lane for a deadline before the last of every lane, `None` if
    /// there are enough.
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

    /// The lane whose front is the earliest; of equals the lowest.
    #[inline(always)]
    fn first(&self) -> Option<First> {
        let mut first: Option<First> = None;
        for (lane, places) in self.lanes[..self.used].iter().enumerate() {
            let Some((at, has_value)) = places.first() else {
                continue;
            };
            // By rule 3 equals of a higher lane come later.
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

    /// Takes out what is not in the first lane. Inlined, it would be joined with
    /// what takes out of that.
    #[inline(never)]
    fn cancel_beyond(&mut self, handle: Handle) -> Option<T> {
        let word = handle.to_word();
        match self.lanes.get_mut((word % STEP) as usize) {
            Some(lane) => lane.take(word),
            None => self.cancel_overflow(handle),
        }
    }

    /// Takes out in a row what is not in the first lane.
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
    /// O(1) where a lane takes it, otherwise O(log n). May grow.
    ///
    /// # Panics
    ///
    /// If 2^28 values fit no lane, or a lane's 2^60 numbers are used up: at one
    /// each nanosecond, in 36 years.
    #[inline]
    fn insert(&mut self, at: Instant, value: T) -> Handle {
        let at = at.as_nanos();
        match self.lanes[0].push(at, value) {
            Ok(number) => handle(0, number),
            Err(value) => self.insert_beyond(at, value),
        }
    }

    /// As one insert after the other; what goes into one lane in a row costs one
    /// look for it.
    fn insert_all(
        &mut self,
        values: impl IntoIterator<Item = (Instant, T)>,
        mut each: impl FnMut(Handle),
    ) -> usize {
        let mut values = values.into_iter().map(|(at, value)| (at.as_nanos(), value));
        let mut next = values.next();
        let mut count = 0;
        while let Some((at, value)) = next {
            // Apart, as in `cancel`.
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

    /// O(1), of an entry of the overflow O(log n).
    #[inline]
    fn cancel(&mut self, handle: Handle) -> Option<T> {
        let word = handle.to_word();
        // The first lane apart: where its fields lie is known beforehand.
        match word % STEP {
            0 => self.lanes[0].take(word),
            _ => self.cancel_beyond(handle),
        }
    }

    /// O(1) for each handle, O(log n) for an entry of the overflow. Values that lie at the front
    /// of a lane, in the order of the handles, are taken out in a row.
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

    /// As a cancel and an insert; the handle is another one.
    fn reschedule(&mut self, handle: Handle, at: Instant) -> Option<Handle> {
        let value = self.cancel(handle)?;
        Some(self.insert(at, value))
    }

    /// O(n), with the places of cancelled values.
    fn clear(&mut self) {
        drop_all(|| {
            if !self.overflow.is_empty() {
                self.overflow.clear();
                return Some(());
            }
            let lanes = &mut self.lanes[..self.used];
            if let Some(lane) = lanes.iter_mut().find(|lane| !lane.is_bare()) {
                lane.drain(FAR - 1, u64::MAX, |_, _, value| drop(value));
                return Some(());
            }
            // Rule 4.
            self.used = 1;
            self.lanes[0].restart();
            None
        });
    }

    /// O(1), a look at each lane: a lower bound.
    #[inline]
    fn next_deadline(&self) -> Option<Instant> {
        let lane = self.first().map(|first| Instant::from_nanos(first.at));
        match (lane, self.overflow.next_deadline()) {
            (Some(lane), Some(overflow)) => Some(lane.min(overflow)),
            (lane, overflow) => lane.or(overflow),
        }
    }

    /// O(1), a look at each lane; O(log n) for an entry of the overflow. [`Step::Busy`] for up to
    /// 64 places that were cancelled.
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

    /// As the steps, but what is due in a row in one lane costs one look at the
    /// others. Cancelled places cost nothing of the budget where a value comes out
    /// with them; still no more than 64 places are passed for each unit of it.
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
