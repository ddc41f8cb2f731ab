//! A cancellable deadline store: an indexed 4-ary min-heap over a slab.
//!
//! ```text
//! heap (order)                     slab (storage)
//! ┌─────────┬──────┐               ┌───────┬────────────┬──────────┐
//! │ at, seq │ slot │ 0  earliest ┌▶│ value │ generation │ link = 0 │ 2
//! ├─────────┼──────┤             │ ├───────┼────────────┼──────────┤
//! │         │  2 ──┼─────────────┘ │   -   │ generation │ link = 5 │ 3 free
//! ├─────────┼──────┤               └───────┴────────────┴──────────┘
//! │         │      │ 1..=4 children of 0       Handle = slot, generation
//! └─────────┴──────┘
//! ```
//!
//! Rule: the link of a full slot is the index of its key in the heap. The other rules are those of
//! `keys.rs` and `slab.rs`.

use super::keys::Keys;
use super::slab::Slab;
use super::{DeadlineStore, Expired, Handle, Step};
use crate::Instant;
use crate::primitive::panics::drop_each;

/// A [`DeadlineStore`] with cancellation: insert, cancel and reschedule in
/// O(log n), the next deadline in O(1), exact to the nanosecond.
///
/// The store holds up to 2^32 − 1 values and does not shrink. One thread at a time uses it; other
/// threads reach it through [`remote`](crate::remote).
///
/// ```
/// use rast_timers::{DeadlineStore, HeapStore, Instant};
/// let mut store = HeapStore::new();
/// let at = Instant::from_nanos;
/// let late = store.insert(at(20), "late");
/// store.insert(at(10), "early");
/// assert_eq!(store.next_deadline(), Some(at(10)));
/// assert_eq!(store.pop_due(at(15)).map(|due| due.value), Some("early"));
/// assert_eq!(store.pop_due(at(15)), None);
/// assert_eq!(store.cancel(late), Some("late"));
/// assert_eq!(store.cancel(late), None);
/// ```
pub struct HeapStore<T> {
    keys: Keys,
    slab: Slab<T>,
}

impl<T> HeapStore<T> {
    /// Makes an empty store without memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            keys: Keys::new(),
            slab: Slab::new(),
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

    /// Returns how many values fit without new memory.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.keys.capacity().min(self.slab.slots.capacity())
    }

    /// Returns the deadline of a value, `None` if it has left.
    #[must_use]
    pub fn deadline(&self, handle: Handle) -> Option<Instant> {
        Some(self.keys.get(self.find(handle)?)?.0)
    }

    /// Returns a stored value, `None` if it has left.
    #[must_use]
    pub fn get(&self, handle: Handle) -> Option<&T> {
        let slot = self.slab.slots.get(handle.slot() as usize)?;
        let is_named = slot.generation == handle.generation();
        slot.value.as_ref().filter(|_| is_named)
    }

    /// Returns the first value in order and its deadline, even if it is never due.
    #[must_use]
    pub fn first(&self) -> Option<(Instant, &T)> {
        let (at, slot) = self.keys.get(0)?;
        Some((at, self.slab.slots[slot as usize].value.as_ref()?))
    }

    /// Returns the maximum number of slots after one more insertion.
    pub(super) fn slots(&self) -> usize {
        self.slab.slots()
    }

    /// Returns the index in the heap of the value that `handle` names.
    fn find(&self, handle: Handle) -> Option<usize> {
        self.get(handle)?;
        Some(self.slab.slots[handle.slot() as usize].link as usize)
    }

    /// Removes the key at `index` and frees its slot.
    fn remove(&mut self, index: usize) -> Option<Expired<T>> {
        let (at, slot) = self.keys.remove(index, links(&mut self.slab))?;
        let (handle, value) = self.slab.release(slot);
        debug_assert!(value.is_some(), "the slot of a key is full");
        value.map(|value| Expired { at, handle, value })
    }

    /// Removes any value, at the cost of the cheapest one.
    pub(super) fn pop(&mut self) -> Option<T> {
        // From the end, where no other key has to move.
        let last = self.keys.len().checked_sub(1)?;
        self.remove(last).map(|expired| expired.value)
    }

    /// Checks the rules at the head of this file.
    ///
    /// # Panics
    ///
    /// If one is broken. In O(n); for tests.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        for (index, &slot) in self.keys.check().iter().enumerate() {
            let slot = &self.slab.slots[slot as usize];
            assert!(slot.value.is_some(), "the slot of a key is full");
            assert_eq!(slot.link as usize, index, "slot and key agree");
        }
        assert_eq!(self.slab.count(), self.keys.len(), "each value has a key");
    }
}

/// Stores the index of each moved key in the link of its slot.
#[inline(always)]
fn links<T>(slab: &mut Slab<T>) -> impl FnMut(u32, usize) {
    |slot, index| slab.slots[slot as usize].link = index as u32
}

impl<T> DeadlineStore<T> for HeapStore<T> {
    /// O(log n); O(1) if no later deadline is on the path to the root. May allocate.
    ///
    /// # Panics
    ///
    /// If 2^32 − 1 slots are in use.
    fn insert(&mut self, at: Instant, value: T) -> Handle {
        // Allocate first: if that fails, nothing has changed.
        self.keys.reserve(1);
        let handle = self.slab.insert(value);
        self.keys.push(at, handle.slot(), links(&mut self.slab));
        handle
    }

    /// O(log n).
    fn cancel(&mut self, handle: Handle) -> Option<T> {
        let index = self.find(handle)?;
        self.remove(index).map(|expired| expired.value)
    }

    /// O(log n); the handle stays the same.
    fn reschedule(&mut self, handle: Handle, at: Instant) -> Option<Handle> {
        let index = self.find(handle)?;
        self.keys.set(index, at, links(&mut self.slab));
        Some(handle)
    }

    /// O(n).
    fn clear(&mut self) {
        drop_each(|| self.pop());
    }

    /// O(1), exact.
    fn next_deadline(&self) -> Option<Instant> {
        self.keys.next_deadline()
    }

    /// O(log n), O(1) if nothing is due; never [`Step::Busy`].
    fn step(&mut self, now: Instant) -> Step<T> {
        match self.next_deadline() {
            Some(at) if at <= now => self.remove(0).map_or(Step::Idle, Step::Due),
            _ => Step::Idle,
        }
    }

    fn len(&self) -> usize {
        self.keys.len()
    }
}

default_and_debug!(HeapStore);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_rests_when_its_generations_are_used_up() {
        let mut store = HeapStore::new();
        let at = Instant::from_nanos;
        let first = store.insert(at(1), 1);
        assert_eq!(store.cancel(first), Some(1));
        store.slab.slots[0].generation = u32::MAX;
        let last = store.insert(at(1), 2);
        assert_eq!((last.slot(), last.generation()), (0, u32::MAX));
        assert_eq!(store.cancel(last), Some(2));
        let next = store.insert(at(1), 3);
        assert_eq!(next.slot(), 1);
        assert_eq!(store.cancel(last), None);
        assert_eq!(store.reschedule(last, at(9)), None);
        store.check_invariants();
    }
}
