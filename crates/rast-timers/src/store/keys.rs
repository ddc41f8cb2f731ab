//! The 4-ary min-heap of [`HeapStore`](super::HeapStore) and [`FiringStore`](super::FiringStore).
//!
//! ```text
//!  keys   │ at, seq │ at, seq │ at, seq │ ...   16 bytes each
//!  slots  │ slot    │ slot    │ slot    │ ...
//! ```
//!
//! 1. A key is not later than its four children, by (at, seq). The keys of the four children are as
//!    long as a cache line.
//! 2. `slots[i]` is the slab's slot for the value of `keys[i]`.
//!
//! With four children instead of two, the tree is half as deep. A method that moves keys reports
//! the slot and the new index of each moved key to its caller, which may store the index.

use crate::Instant;
use std_alloc::vec::Vec;

/// Children per key.
const ARITY: usize = 4;

/// Combines deadline and sequence number in one number.
fn key(at: Instant, seq: u64) -> u128 {
    u128::from(at.as_nanos()) << 64 | u128::from(seq)
}

fn deadline(key: u128) -> Instant {
    Instant::from_nanos((key >> 64) as u64)
}

/// Deadlines in order, each with the slot of its value.
pub(super) struct Keys {
    keys: Vec<u128>,
    slots: Vec<u32>,
    /// The sequence number of the next key.
    seq: u64,
}

impl Keys {
    pub(super) const fn new() -> Self {
        Self {
            keys: Vec::new(),
            slots: Vec::new(),
            seq: 0,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.keys.capacity().min(self.slots.capacity())
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Allocates memory for `more` keys, so that that many calls of `push` cannot fail.
    #[inline]
    pub(super) fn reserve(&mut self, more: usize) {
        self.keys.reserve(more);
        self.slots.reserve(more);
    }

    /// Returns the deadline at `index` and its slot.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<(Instant, u32)> {
        Some((deadline(*self.keys.get(index)?), *self.slots.get(index)?))
    }

    /// Returns the first deadline; `None` if it is never due.
    #[inline]
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let first = deadline(*self.keys.first()?);
        (first != Instant::MAX).then_some(first)
    }

    fn next_key(&mut self, at: Instant) -> u128 {
        let key = key(at, self.seq);
        self.seq += 1;
        key
    }

    #[inline]
    pub(super) fn push(&mut self, at: Instant, slot: u32, moved: impl FnMut(u32, usize)) {
        let key = self.next_key(at);
        self.keys.push(key);
        self.slots.push(slot);
        self.sift_up(self.keys.len() - 1, key, slot, moved);
    }

    /// Gives the key at `index` another deadline.
    pub(super) fn set(&mut self, index: usize, at: Instant, moved: impl FnMut(u32, usize)) {
        let (key, slot) = (self.next_key(at), self.slots[index]);
        if index > 0 && key < self.keys[(index - 1) / ARITY] {
            self.sift_up(index, key, slot, moved);
        } else {
            self.sift_down(index, key, slot, moved);
        }
    }

    /// Removes the key at `index`; returns its deadline and its slot.
    #[inline]
    pub(super) fn remove(
        &mut self,
        index: usize,
        mut moved: impl FnMut(u32, usize),
    ) -> Option<(Instant, u32)> {
        let removed = self.get(index)?;
        let (key, slot) = (self.keys.pop()?, self.slots.pop()?);
        if index < self.keys.len() {
            // Move the least children up along the path to the bottom, then move the last key up
            // from there: it mostly belongs near the bottom.
            let mut hole = index;
            while let Some(least) = self.least(hole * ARITY + 1) {
                self.put(hole, self.keys[least], self.slots[least], &mut moved);
                hole = least;
            }
            self.sift_up(hole, key, slot, moved);
        }
        Some(removed)
    }

    /// Removes the keys for whose slots `keeps` returns `false`, without a report of moved slots.
    #[cold]
    pub(super) fn retain(&mut self, mut keeps: impl FnMut(u32) -> bool) {
        let mut kept = 0;
        for index in 0..self.keys.len() {
            let (key, slot) = (self.keys[index], self.slots[index]);
            if keeps(slot) {
                self.keys[kept] = key;
                self.slots[kept] = slot;
                kept += 1;
            }
        }
        self.keys.truncate(kept);
        self.slots.truncate(kept);
        // Restores rule 1, from the last parent to the root.
        for index in (0..kept.div_ceil(ARITY)).rev() {
            self.sift_down(index, self.keys[index], self.slots[index], |_, _| {});
        }
    }

    #[inline(always)]
    fn put(&mut self, index: usize, key: u128, slot: u32, moved: &mut impl FnMut(u32, usize)) {
        self.keys[index] = key;
        self.slots[index] = slot;
        moved(slot, index);
    }

    /// Stores a key at its position on the path up from `index`.
    #[inline(always)]
    fn sift_up(
        &mut self,
        mut index: usize,
        key: u128,
        slot: u32,
        mut moved: impl FnMut(u32, usize),
    ) {
        while index > 0 {
            let parent = (index - 1) / ARITY;
            if self.keys[parent] <= key {
                break;
            }
            self.put(index, self.keys[parent], self.slots[parent], &mut moved);
            index = parent;
        }
        self.put(index, key, slot, &mut moved);
    }

    /// Stores a key at its position on the path down from `index`.
    fn sift_down(
        &mut self,
        mut index: usize,
        key: u128,
        slot: u32,
        mut moved: impl FnMut(u32, usize),
    ) {
        while let Some(least) = self.least(index * ARITY + 1) {
            if key <= self.keys[least] {
                break;
            }
            self.put(index, self.keys[least], self.slots[least], &mut moved);
            index = least;
        }
        self.put(index, key, slot, &mut moved);
    }

    /// Returns the index of the least of the four keys from `first`, comparing in pairs; `None` if
    /// there are none.
    #[inline(always)]
    fn least(&self, first: usize) -> Option<usize> {
        let last = self.keys.len().min(first + ARITY);
        let keys = self.keys.get(first..last)?;
        if let [a, b, c, d] = *keys {
            let left = usize::from(b < a);
            let right = 2 + usize::from(d < c);
            let which = if keys[right] < keys[left] {
                right
            } else {
                left
            };
            return Some(first + which);
        }
        (first..last).min_by_key(|&index| self.keys[index])
    }

    /// Checks rule 1, and returns the slots in the order of the heap.
    pub(super) fn check(&self) -> &[u32] {
        assert_eq!(self.keys.len(), self.slots.len());
        for index in 1..self.keys.len() {
            assert!(self.keys[(index - 1) / ARITY] < self.keys[index], "rule 1");
        }
        &self.slots
    }
}
