//! A deadline store for values that fire and are hardly ever cancelled: a 4-ary heap whose keys are
//! stored apart from the values.
//!
//! Source: the original RAST design's binary heaps for timers that cannot be cancelled. Changes:
//! four children per node, and cancellation. A cancelled value's key stays in the heap and is
//! removed later, together with many others.
//!
//! 1. A cancelled value keeps its key and its slot until its deadline or the next purge.
//! 2. If a cancel leaves more cancelled keys than the number of values plus `SPARE`, it purges the
//!    heap.
//!
//! The other rules are those of `keys.rs` and `slab.rs`. The slab, which stores the values, has no
//! links to the heap. So moving a key does not write to the slab.

use super::keys::Keys;
use super::slab::Slab;
use super::{DeadlineStore, Expired, Handle, Step};
use crate::Instant;
use crate::primitive::panics::drop_each;

/// Number of cancelled keys that are kept even if there are few values.
const SPARE: usize = 64;

/// A [`DeadlineStore`] for values that mostly fire: insert and fire in O(log n). Its keys are
/// contiguous, and a slot does not record where its key is, so moving a key is cheap.
///
/// A cancelled value leaves at once. Its key and its empty slot (28 bytes plus the size of a value)
/// stay until its deadline or a purge. A cancel purges all cancelled keys, in O(n), if there are
/// more cancelled keys than the number of values plus 64. So values that are mostly cancelled, or
/// cancelled long before their deadlines, belong in a [`CalendarStore`](super::CalendarStore).
///
/// [`next_deadline`](DeadlineStore::next_deadline) is exact while no cancelled key is in the heap,
/// otherwise a lower bound. `reschedule` returns a new handle. The store holds up to 2^32 − 1
/// values and cancelled keys.
///
/// ```
/// use rast_timers::{DeadlineStore, FiringStore, Instant};
/// let at = Instant::from_nanos;
/// let mut store = FiringStore::new();
/// store.insert(at(20), "late");
/// store.insert(at(10), "early");
/// assert_eq!(store.pop_due(at(30)).map(|due| due.value), Some("early"));
/// assert_eq!(store.next_deadline(), Some(at(20)));
/// ```
pub struct FiringStore<T> {
    keys: Keys,
    slab: Slab<T>,
    len: usize,
}

impl<T> FiringStore<T> {
    /// Makes an empty store without memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            keys: Keys::new(),
            slab: Slab::new(),
            len: 0,
        }
    }

    /// Makes an empty store with memory for `capacity` values.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut store = Self::new();
        store.keys.reserve(capacity);
        store.slab.slots.reserve(capacity);
        store
    }

    /// Removes all cancelled keys.
    #[cold]
    fn purge(&mut self) {
        let slab = &mut self.slab;
        self.keys.retain(|slot| {
            let is_live = slab.slots[slot as usize].value.is_some();
            if !is_live {
                slab.release(slot);
            }
            is_live
        });
    }

    /// Checks the rules at the head of this file.
    ///
    /// # Panics
    ///
    /// If one is broken. In O(n); for tests.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        let slots = self.keys.check().iter();
        let live = slots.filter(|&&slot| self.slab.slots[slot as usize].value.is_some());
        assert_eq!(live.count(), self.len, "each value has a key");
        assert_eq!(self.slab.count(), self.len, "each value is counted");
    }
}

impl<T> DeadlineStore<T> for FiringStore<T> {
    /// O(log n); O(1) if no later deadline is on the path to the root. May allocate.
    ///
    /// # Panics
    ///
    /// If 2^32 − 1 slots are in use.
    #[inline]
    fn insert(&mut self, at: Instant, value: T) -> Handle {
        // Allocate first: if that fails, nothing has changed.
        self.keys.reserve(1);
        let handle = self.slab.insert(value);
        self.len += 1;
        self.keys.push(at, handle.slot(), |_, _| {});
        handle
    }

    /// O(1) amortised over all cancels; O(n) for a cancel that purges.
    fn cancel(&mut self, handle: Handle) -> Option<T> {
        let value = self.slab.find(handle)?.value.take()?;
        self.len -= 1;
        if self.keys.len() > 2 * self.len + SPARE {
            self.purge();
        }
        Some(value)
    }

    /// As a cancel and an insert; the handle is new.
    fn reschedule(&mut self, handle: Handle, at: Instant) -> Option<Handle> {
        let value = self.cancel(handle)?;
        Some(self.insert(at, value))
    }

    /// O(n), including the slots of cancelled values.
    fn clear(&mut self) {
        drop_each(|| {
            // From the end, where no other key has to move.
            let last = self.keys.len().checked_sub(1)?;
            let (_, slot) = self.keys.remove(last, |_, _| {})?;
            let (_, value) = self.slab.release(slot);
            self.len -= usize::from(value.is_some());
            Some(value)
        });
    }

    /// O(1): a lower bound, exact if no cancelled key is in the heap.
    #[inline]
    fn next_deadline(&self) -> Option<Instant> {
        self.keys.next_deadline()
    }

    /// O(log n), O(1) if no value is due; [`Step::Busy`] for a cancelled key.
    #[inline]
    fn step(&mut self, now: Instant) -> Step<T> {
        if self.next_deadline().is_none_or(|next| next > now) {
            return Step::Idle;
        }
        let Some((at, slot)) = self.keys.remove(0, |_, _| {}) else {
            return Step::Idle;
        };
        let (handle, Some(value)) = self.slab.release(slot) else {
            return Step::Busy;
        };
        self.len -= 1;
        Step::Due(Expired { at, handle, value })
    }

    fn len(&self) -> usize {
        self.len
    }
}

default_and_debug!(FiringStore);

#[cfg(test)]
mod tests {
    use super::{FiringStore, SPARE};
    use crate::{DeadlineStore, Instant};
    use std_alloc::vec::Vec;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Far deadlines that are cancelled do not pile up, and what stays keeps its
    /// order and its handle.
    #[test]
    fn cancelled_places_are_cleared_away() {
        let mut store = FiringStore::new();
        let far = 1 << 60;
        let stay: Vec<_> = (0..100)
            .map(|turn| store.insert(at(far + turn * 7919 % 1000), turn))
            .collect();
        for turn in 0..10_000 {
            let handle = store.insert(at(far + turn), turn);
            assert_eq!(store.cancel(handle), Some(turn));
            assert_eq!(store.cancel(handle), None);
            assert!(store.keys.len() <= 2 * store.len() + SPARE, "rule 2");
        }
        assert!(store.slab.slots.len() <= 2 * stay.len() + SPARE + 1);
        store.check_invariants();
        for (turn, &handle) in (0..).zip(&stay).step_by(3) {
            assert_eq!(store.cancel(handle), Some(turn));
            store.check_invariants();
        }
        let left = core::iter::from_fn(|| store.pop_due(at(u64::MAX)));
        let left: Vec<_> = left.map(|due| (due.at, due.value)).collect();
        assert!(left.is_sorted() && left.len() == 66);
    }
}
