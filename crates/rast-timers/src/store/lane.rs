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
//!  strays  a heap: what is before the last of every lane
//! ```
//!
//! 1. Each lane is sorted; `last` is the greatest deadline it ever had.
//! 2. The lanes' `last` fall strictly from lane to lane, so a value goes to the
//!    first lane whose `last` is not after it. Values of k timeouts, armed as
//!    time goes on, need at most k lanes.
//! 3. Of values with one deadline those in lower lanes came first, and those
//!    in lanes before those in `strays`. For the first lane whose `last` is not
//!    after a deadline only ever moves down as time goes on.
//! 4. A lane leaves, and with it its `last`, only if it is empty and behind all
//!    others and nothing is astray; so rules 2 and 3 hold across it.
//! 5. The values of a lane are numbered as they come; a number is never used
//!    again, and is the handle.

use super::{DeadlineStore, Expired, Handle, HeapStore, Step};
use crate::Instant;
use core::fmt;
use std_alloc::collections::VecDeque;

/// The most lanes.
const LANES: usize = 8;

/// Bits of a slot that carry the number in the lane; above it the lane, and
/// above that whether the value is astray.
const LOW: u32 = 28;
const ASTRAY: u32 = 1 << 31;

/// Cancelled places that a cancel clears away at a front, and those that a
/// step does.
const TRIM: usize = 2;
const MOVES: usize = 8;

struct Place<T> {
    at: u64,
    /// `None` once it is cancelled.
    value: Option<T>,
}

struct Lane<T> {
    ring: VecDeque<Place<T>>,
    /// The number of the front.
    base: u64,
}

impl<T> Lane<T> {
    const fn new() -> Self {
        Self {
            ring: VecDeque::new(),
            base: 0,
        }
    }

    /// Clears away up to `most` cancelled places at the front.
    #[inline(always)]
    fn trim(&mut self, most: usize) {
        for _ in 0..most {
            match self.ring.front() {
                Some(Place { value: None, .. }) => {
                    self.ring.pop_front();
                    self.base += 1;
                }
                _ => break,
            }
        }
    }
}

/// A [`DeadlineStore`] for timeouts of a few durations: values that come in
/// the order of their deadlines, lane by lane, for the price of a ring buffer.
///
/// Up to eight lanes form by themselves, one for each duration in use; what
/// fits none of them waits in a [`HeapStore`] and costs what that costs. A
/// cancelled value leaves at once, its place when the front of its lane comes
/// by: a lane keeps the places of at most what came since its first value that
/// is still waiting. The memory of a lane doubles where it ends, as that of a
/// `VecDeque`.
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
    /// Lanes in use.
    used: usize,
    last: [u64; LANES],
    lanes: [Lane<T>; LANES],
    strays: HeapStore<T>,
    len: usize,
}

impl<T> LaneStore<T> {
    /// Makes an empty store without memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            used: 0,
            last: [0; LANES],
            lanes: [const { Lane::new() }; LANES],
            strays: HeapStore::new(),
            len: 0,
        }
    }

    /// Makes an empty store whose first lane has memory for `capacity` values.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut store = Self::new();
        store.lanes[0].ring = VecDeque::with_capacity(capacity);
        store
    }

    /// Returns the number of lanes in use.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.used
    }

    /// Returns the number of values that fit no lane.
    #[must_use]
    pub fn strays(&self) -> usize {
        self.strays.len()
    }

    /// Opens a lane for a deadline before the last of every lane, `None` if
    /// there are enough.
    #[cold]
    fn open(&mut self, at: u64) -> Option<usize> {
        if at == u64::MAX || !self.strays.is_empty() {
            return None;
        }
        // Rule 4.
        while self.used > 0 && self.lanes[self.used - 1].ring.is_empty() {
            self.used -= 1;
        }
        let lane = self.used;
        if lane == LANES {
            return None;
        }
        self.used += 1;
        Some(lane)
    }

    #[cold]
    fn stray(&mut self, at: u64, value: T) -> Handle {
        let handle = self.strays.insert(Instant::from_nanos(at), value);
        assert!(
            handle.slot() < ASTRAY - 1,
            "a LaneStore holds at most 2^31 - 1 values that fit no lane"
        );
        Handle::new(handle.slot() | ASTRAY, handle.generation())
    }

    /// The place that a handle names.
    #[inline(always)]
    fn place(&mut self, handle: Handle) -> Option<(usize, &mut Place<T>)> {
        let index = (handle.slot() >> LOW) as usize;
        let low = handle.slot() & ((1 << LOW) - 1);
        let number = u64::from(handle.generation()) << LOW | u64::from(low);
        let lane = self.lanes.get_mut(index)?;
        let offset = usize::try_from(number.checked_sub(lane.base)?).ok()?;
        Some((index, lane.ring.get_mut(offset)?))
    }

    /// The earliest front of the lanes; of equals the lowest lane's.
    #[inline(always)]
    fn front(&self) -> Option<(u64, usize)> {
        let mut least = None;
        for (index, lane) in self.lanes[..self.used].iter().enumerate() {
            if let Some(place) = lane.ring.front()
                && least.is_none_or(|(at, _)| place.at < at)
            {
                least = Some((place.at, index));
            }
        }
        least
    }

    fn step_stray(&mut self, now: Instant) -> Step<T> {
        let step = self.strays.step(now);
        if let Step::Due(mut expired) = step {
            self.len -= 1;
            let Handle { slot, generation } = expired.handle;
            expired.handle = Handle::new(slot | ASTRAY, generation);
            return Step::Due(expired);
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
        self.strays.check_invariants();
        let mut count = self.strays.len();
        for (index, lane) in self.lanes.iter().enumerate() {
            assert!(index < self.used || lane.ring.is_empty());
            let times = || lane.ring.iter().map(|place| place.at);
            assert!(times().is_sorted(), "rule 1: sorted");
            assert!(times().all(|at| at <= self.last[index]), "rule 1: last");
            count += lane
                .ring
                .iter()
                .filter(|place| place.value.is_some())
                .count();
        }
        let last = &self.last[..self.used];
        assert!(last.is_sorted_by(|a, b| a > b), "rule 2: falling");
        assert_eq!(count, self.len, "each value is counted");
    }
}

impl<T> DeadlineStore<T> for LaneStore<T> {
    /// O(1) where a lane takes it, otherwise O(log n). May grow.
    ///
    /// # Panics
    ///
    /// If 2^31 − 1 values fit no lane.
    #[inline]
    fn insert(&mut self, at: Instant, value: T) -> Handle {
        let at = at.as_nanos();
        let lanes = &self.last[..self.used];
        let fits = lanes.iter().position(|&last| last <= at && at != u64::MAX);
        self.len += 1;
        let Some(index) = fits.or_else(|| self.open(at)) else {
            return self.stray(at, value);
        };
        self.last[index] = at;
        let lane = &mut self.lanes[index];
        let number = lane.base + lane.ring.len() as u64;
        let low = number as u32 & ((1 << LOW) - 1);
        lane.ring.push_back(Place {
            at,
            value: Some(value),
        });
        Handle::new((index as u32) << LOW | low, (number >> LOW) as u32)
    }

    /// O(1), of a stray O(log n).
    #[inline]
    fn cancel(&mut self, handle: Handle) -> Option<T> {
        if handle.slot() & ASTRAY != 0 {
            let inner = Handle::new(handle.slot() & !ASTRAY, handle.generation());
            let value = self.strays.cancel(inner)?;
            self.len -= 1;
            return Some(value);
        }
        let (index, place) = self.place(handle)?;
        let value = place.value.take()?;
        self.len -= 1;
        self.lanes[index].trim(TRIM);
        Some(value)
    }

    /// As a cancel and an insert; the handle is another one.
    fn reschedule(&mut self, handle: Handle, at: Instant) -> Option<Handle> {
        let value = self.cancel(handle)?;
        Some(self.insert(at, value))
    }

    /// O(1), a look at each lane: a lower bound.
    #[inline]
    fn next_deadline(&self) -> Option<Instant> {
        let lanes = self.front().map(|front| Instant::from_nanos(front.0));
        match (lanes, self.strays.next_deadline()) {
            (Some(lane), Some(stray)) => Some(lane.min(stray)),
            (lane, stray) => lane.or(stray),
        }
    }

    /// O(1), a look at each lane; O(log n) for a stray.
    #[inline]
    fn step(&mut self, now: Instant) -> Step<T> {
        let Some((at, index)) = self.front() else {
            return self.step_stray(now);
        };
        if let Some(stray) = self.strays.next_deadline()
            && stray.as_nanos() < at
        {
            return self.step_stray(now);
        }
        if at > now.as_nanos() {
            return Step::Idle;
        }
        let lane = &mut self.lanes[index];
        let Some(place) = lane.ring.pop_front() else {
            return Step::Idle;
        };
        let number = lane.base;
        lane.base += 1;
        let Some(value) = place.value else {
            lane.trim(MOVES - 1);
            return Step::Busy;
        };
        self.len -= 1;
        let low = number as u32 & ((1 << LOW) - 1);
        Step::Due(Expired {
            at: Instant::from_nanos(at),
            handle: Handle::new((index as u32) << LOW | low, (number >> LOW) as u32),
            value,
        })
    }

    fn len(&self) -> usize {
        self.len
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
            .field("len", &self.len)
            .field("lanes", &self.used)
            .field("next_deadline", &self.next_deadline())
            .finish_non_exhaustive()
    }
}
