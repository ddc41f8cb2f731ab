//! A deadline store for values that fire and are hardly ever cancelled: a 4-ary heap whose keys are
//! stored apart from the values.
//!
//! Source: the binary heaps of RAST's reactor for timers that cannot be cancelled. Changes: four
//! children per node, and cancellation. A cancelled value's key stays in the heap and is removed
//! later, together with many others.
//!
//! ```text
//!  keys   │ at, seq │ at, seq │ at, seq │ ...   16 bytes each: four children
//!  slots  │ slot    │ slot    │ slot    │ ...   are a cache line of keys
//!              │
//!  slab   │ generation, value │ ...             no links back to the heap
//! ```
//!
//! 1. A key is not later than its four children, by (at, seq).
//! 2. `slots[i]` is the index of the value of `keys[i]` in the slab. A cancelled value keeps its
//!    key and its slot until its deadline or the next purge.
//! 3. A cancel that leaves more cancelled keys than the number of values plus `SPARE` purges the
//!    heap.
//! 4. A slot is retired when its generations are used up.
//!
//! Since the slab has no links to the heap, moving a key does not write to the slab.

use super::{DeadlineStore, Expired, Handle, Step, drop_all};
use crate::Instant;
use core::fmt;
use std_alloc::vec::Vec;

/// Children per node.
const ARITY: usize = 4;

/// Number of cancelled keys that are kept even if there are few values.
const SPARE: usize = 64;

/// The end of the list of free slots.
const NONE: u32 = u32::MAX;

struct Slot<T> {
    /// The value; `None` if the slot is free or cancelled.
    value: Option<T>,
    generation: u32,
    /// Index of the next free slot.
    next: u32,
}

/// Combines deadline and sequence number in one number.
fn key(at: u64, seq: u64) -> u128 {
    u128::from(at) << 64 | u128::from(seq)
}

fn deadline(key: u128) -> u64 {
    (key >> 64) as u64
}

/// A [`DeadlineStore`] for values that mostly fire: insert and fire in O(log n) over dense keys,
/// without links for a cancel.
///
/// A cancelled value leaves at once; its key and slot, some 30 bytes, stay until its deadline, or
/// until a cancel leaves more than the number of values plus 64 of them. That cancel removes all of
/// them, in O(n). So values that are mostly cancelled, or cancelled long before their deadlines,
/// belong in a [`CalendarStore`](super::CalendarStore).
///
/// [`next_deadline`](DeadlineStore::next_deadline) is exact while no cancelled key is in the heap,
/// otherwise a lower bound. `reschedule` returns a new handle. The store holds up to 2^32 − 1
/// values.
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
    keys: Vec<u128>,
    slots: Vec<u32>,
    slab: Vec<Slot<T>>,
    free: u32,
    seq: u64,
    len: usize,
}

impl<T> FiringStore<T> {
    /// Makes an empty store without memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            keys: Vec::new(),
            slots: Vec::new(),
            slab: Vec::new(),
            free: NONE,
            seq: 0,
            len: 0,
        }
    }

    /// Makes an empty store with memory for `capacity` values.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut store = Self::new();
        store.keys.reserve(capacity);
        store.slots.reserve(capacity);
        store.slab.reserve(capacity);
        store
    }

    /// Inserts a key at its position on the path up from `index`.
    #[inline(always)]
    fn sift_up(&mut self, mut index: usize, key: u128, slot: u32) {
        while index > 0 {
            let parent = (index - 1) / ARITY;
            if self.keys[parent] <= key {
                break;
            }
            self.keys[index] = self.keys[parent];
            self.slots[index] = self.slots[parent];
            index = parent;
        }
        self.keys[index] = key;
        self.slots[index] = slot;
    }

    /// Returns the index of the least of the four keys from `first`, comparing in pairs.
    #[inline(always)]
    fn least(&self, first: usize) -> usize {
        let last = self.keys.len().min(first + ARITY);
        let keys = &self.keys[first..last];
        if let [a, b, c, d] = *keys {
            let left = usize::from(b < a);
            let right = 2 + usize::from(d < c);
            let which = if keys[right] < keys[left] {
                right
            } else {
                left
            };
            return first + which;
        }
        let mut least = 0;
        for (index, key) in keys.iter().enumerate() {
            if *key < keys[least] {
                least = index;
            }
        }
        first + least
    }

    /// Removes the root from the heap; the caller releases its slot.
    fn pop(&mut self) -> Option<(u128, u32)> {
        let root = (*self.keys.first()?, *self.slots.first()?);
        let (key, slot) = (self.keys.pop()?, self.slots.pop()?);
        if !self.keys.is_empty() {
            // Move the least children up along the path to the bottom, then move the last key up
            // from there: it mostly belongs near the bottom.
            let mut index = 0;
            loop {
                let first = index * ARITY + 1;
                if first >= self.keys.len() {
                    break;
                }
                let least = self.least(first);
                self.keys[index] = self.keys[least];
                self.slots[index] = self.slots[least];
                index = least;
            }
            self.sift_up(index, key, slot);
        }
        Some(root)
    }

    /// Frees a slot whose key has left the heap.
    #[inline(always)]
    fn release(&mut self, slot: u32) {
        let place = &mut self.slab[slot as usize];
        // Rule 4: a slot whose last generation was used is not reused.
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            place.next = self.free;
            self.free = slot;
        }
    }

    /// Removes all cancelled keys.
    #[cold]
    fn purge(&mut self) {
        let mut kept = 0;
        for index in 0..self.keys.len() {
            let (key, slot) = (self.keys[index], self.slots[index]);
            if self.slab[slot as usize].value.is_some() {
                self.keys[kept] = key;
                self.slots[kept] = slot;
                kept += 1;
            } else {
                self.release(slot);
            }
        }
        self.keys.truncate(kept);
        self.slots.truncate(kept);
        // Restores rule 1, from the last parent to the root.
        for index in (0..kept.div_ceil(ARITY)).rev() {
            self.sift_down(index);
        }
    }

    /// Moves the key at `index` down to its position.
    fn sift_down(&mut self, mut index: usize) {
        let (key, slot) = (self.keys[index], self.slots[index]);
        loop {
            let first = index * ARITY + 1;
            if first >= self.keys.len() {
                break;
            }
            let least = self.least(first);
            if key <= self.keys[least] {
                break;
            }
            self.keys[index] = self.keys[least];
            self.slots[index] = self.slots[least];
            index = least;
        }
        self.keys[index] = key;
        self.slots[index] = slot;
    }

    /// Checks the rules at the head of this file.
    ///
    /// # Panics
    ///
    /// If one is broken. In O(n); for tests.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        assert_eq!(self.keys.len(), self.slots.len());
        for index in 1..self.keys.len() {
            assert!(self.keys[(index - 1) / ARITY] < self.keys[index], "rule 1");
        }
        let full = self.slab.iter().filter(|slot| slot.value.is_some()).count();
        let named = self.slots.iter().map(|&slot| &self.slab[slot as usize]);
        let live = named.filter(|slot| slot.value.is_some()).count();
        assert_eq!((full, live), (self.len, self.len), "rule 2");
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
        self.slots.reserve(1);
        let slot = if self.free == NONE {
            assert!(
                self.slab.len() < NONE as usize,
                "a FiringStore holds at most 2^32 - 1 values"
            );
            self.slab.push(Slot {
                value: Some(value),
                generation: 0,
                next: NONE,
            });
            (self.slab.len() - 1) as u32
        } else {
            let slot = self.free;
            let free = &mut self.slab[slot as usize];
            self.free = free.next;
            free.value = Some(value);
            slot
        };
        let key = key(at.as_nanos(), self.seq);
        self.seq += 1;
        self.len += 1;
        self.keys.push(key);
        self.slots.push(slot);
        self.sift_up(self.keys.len() - 1, key, slot);
        Handle::new(slot, self.slab[slot as usize].generation)
    }

    /// O(1) amortised over all cancels; O(n) for a cancel that purges.
    fn cancel(&mut self, handle: Handle) -> Option<T> {
        let slot = self.slab.get_mut(handle.slot() as usize)?;
        if slot.generation != handle.generation() {
            return None;
        }
        let value = slot.value.take()?;
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
        drop_all(|| {
            // From the end, where no other key has to move.
            let (_, slot) = (self.keys.pop()?, self.slots.pop()?);
            let value = self.slab[slot as usize].value.take();
            self.release(slot);
            self.len -= usize::from(value.is_some());
            Some(value)
        });
    }

    /// O(1): a lower bound, exact if no cancelled key is in the heap.
    #[inline]
    fn next_deadline(&self) -> Option<Instant> {
        let first = deadline(*self.keys.first()?);
        (first != u64::MAX).then(|| Instant::from_nanos(first))
    }

    /// O(log n), O(1) if no value is due; [`Step::Busy`] for a cancelled key.
    #[inline]
    fn step(&mut self, now: Instant) -> Step<T> {
        if self.next_deadline().is_none_or(|next| next > now) {
            return Step::Idle;
        }
        let Some((key, slot)) = self.pop() else {
            return Step::Idle;
        };
        let place = &mut self.slab[slot as usize];
        let handle = Handle::new(slot, place.generation);
        let value = place.value.take();
        self.release(slot);
        let Some(value) = value else {
            return Step::Busy;
        };
        self.len -= 1;
        Step::Due(Expired {
            at: Instant::from_nanos(deadline(key)),
            handle,
            value,
        })
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl<T> Default for FiringStore<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for FiringStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FiringStore")
            .field("len", &self.len)
            .field("next_deadline", &self.next_deadline())
            .finish_non_exhaustive()
    }
}

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
            assert!(store.keys.len() <= 2 * store.len() + SPARE, "rule 3");
        }
        assert!(store.slab.len() <= 2 * stay.len() + SPARE + 1);
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
