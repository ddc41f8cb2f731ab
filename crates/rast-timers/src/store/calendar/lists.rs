//! Many doubly linked lists over one slab of slots.
//!
//! ```text
//!  slots, 32 bytes each if the value is one word
//!  ┌──────────────────┬──────────────────┬─────┬──────────────┬─────
//!  │ head of 0        │ head of 1        │ ... │ entry        │ ...
//!  │ prev next  least │ prev next  least │     │ prev next at │
//!  │                  │                  │     │ value        │
//!  └──────────────────┴──────────────────┴─────┴──────────────┴─────
//!   0                  1                        HEADS
//! ```
//!
//! 1. A list is a ring that includes its head: `next` leads from the head to the first entry and on
//!    to the last, and `prev` leads back. In an empty list both links of the head are its own
//!    index.
//! 2. So removing an entry needs only its two neighbours, and not the list. If both neighbours are
//!    the same head, the list is now empty.
//! 3. An entry outside all lists may use `prev`, `next` and `at` for other purposes.
//! 4. In a head, `at` (`least` in the picture) is a lower bound of the deadlines in its list, and
//!    `u64::MAX` if the list is empty.
//!
//! The links, the deadline and the value of an entry are in one slot, so an insert or a cancel
//! accesses one cache line for the entry itself. A cancel also accesses the two neighbours of the
//! entry. The next cancels often access the same neighbours, which are then in the cache.

use super::slot::{Slot, prefetch};
use crate::primitive::panics::drop_each;
use core::mem::needs_drop;
use std_alloc::vec::Vec;

/// Index of a slot in the slab.
pub(super) type Index = u32;

/// The slab: `HEADS` heads, then the entries.
pub(super) struct Lists<T, const HEADS: u32> {
    slots: Vec<Slot<T>>,
}

impl<T, const HEADS: u32> Drop for Lists<T, HEADS> {
    fn drop(&mut self) {
        if needs_drop::<T>() {
            let mut slots = self.slots.iter_mut();
            drop_each(|| slots.find_map(Slot::take));
        }
    }
}

impl<T, const HEADS: u32> Lists<T, HEADS> {
    /// Makes a slab without memory; call [`reserve`](Self::reserve) before use.
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new() }
    }

    /// Reserves memory for `entries` more, and adds the heads.
    pub(super) fn reserve(&mut self, entries: usize) {
        if self.slots.is_empty() {
            self.slots.reserve_exact(HEADS as usize + entries);
            self.slots.extend((0..HEADS).map(Slot::new));
        } else {
            self.slots.reserve(entries);
        }
    }

    /// Returns how many entries fit without new memory.
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity().saturating_sub(HEADS as usize)
    }

    /// Returns the number of entries, in lists or not.
    pub(super) fn len(&self) -> usize {
        self.slots.len().saturating_sub(HEADS as usize)
    }

    /// Adds an entry outside all lists and returns its index.
    pub(super) fn grow(&mut self) -> Index {
        let index = self.slots.len() as Index;
        self.slots.push(Slot::new(index));
        index
    }

    #[inline(always)]
    pub(super) fn slot(&self, index: Index) -> &Slot<T> {
        &self.slots[index as usize]
    }

    #[inline(always)]
    pub(super) fn slot_mut(&mut self, index: Index) -> &mut Slot<T> {
        &mut self.slots[index as usize]
    }

    /// Returns an entry's slot, `None` if the index is out of range.
    #[inline(always)]
    pub(super) fn entry(&self, index: Index) -> Option<&Slot<T>> {
        // A head never has a value, so the caller need not distinguish it from an entry.
        self.slots.get(index as usize)
    }

    /// As [`entry`](Self::entry).
    #[inline(always)]
    pub(super) fn entry_mut(&mut self, index: Index) -> Option<&mut Slot<T>> {
        self.slots.get_mut(index as usize)
    }

    /// Prefetches a slot; any index is allowed.
    #[inline(always)]
    pub(super) fn prefetch(&self, index: Index) {
        // An index out of range prefetches the last slot. A prefetch of unmapped memory would walk
        // the page tables each time, and a branch would be mispredicted if values are cancelled in
        // random order.
        let last = self.slots.len().wrapping_sub(1);
        prefetch(&self.slots, last.min(index as usize));
    }

    /// Returns the first entry of a list.
    #[inline(always)]
    pub(super) fn first(&self, head: Index) -> Option<Index> {
        let first = self.slots.get(head as usize)?.next;
        (first != head).then_some(first)
    }

    /// Returns a lower bound of the deadlines in a list.
    #[inline(always)]
    pub(super) fn least(&self, head: Index) -> u64 {
        self.slot(head).at
    }

    /// Records the earliest deadline in a list, which must not be empty.
    pub(super) fn tighten(&mut self, head: Index, least: u64) {
        self.slot_mut(head).at = least;
    }

    /// Appends an entry, which must be in no list, with its deadline.
    #[inline(always)]
    pub(super) fn push_back(&mut self, head: Index, entry: Index, at: u64) {
        let slot = self.slot_mut(head);
        slot.at = at.min(slot.at);
        let last = core::mem::replace(&mut slot.prev, entry);
        self.slot_mut(last).next = entry;
        let slot = self.slot_mut(entry);
        (slot.prev, slot.next, slot.at) = (last, head, at);
    }

    /// Removes an entry from its list; returns the list's head if the list is empty now.
    #[inline(always)]
    pub(super) fn unlink(&mut self, entry: Index) -> Option<Index> {
        let Slot { prev, next, .. } = *self.slot(entry);
        self.slot_mut(prev).next = next;
        let slot = self.slot_mut(next);
        slot.prev = prev;
        if prev != next {
            return None;
        }
        // Rule 2: only a head is on both sides of the last remaining entry.
        slot.at = u64::MAX;
        Some(prev)
    }

    /// Moves the entries from `first` to `last` at the front of one list to the end of another.
    #[inline(always)]
    pub(super) fn splice(&mut self, from: Index, first: Index, last: Index, to: Index) {
        let rest = self.slot(last).next;
        let head = self.slot_mut(from);
        head.next = rest;
        if rest == from {
            head.at = u64::MAX;
        }
        self.slot_mut(rest).prev = from;
        let least = self.slot(first).at;
        let head = self.slot_mut(to);
        head.at = least.min(head.at);
        let tail = core::mem::replace(&mut head.prev, last);
        self.slot_mut(tail).next = first;
        self.slot_mut(first).prev = tail;
        self.slot_mut(last).next = to;
    }

    /// Moves all entries of one list, which must not be empty, to the end of another.
    pub(super) fn join(&mut self, from: Index, to: Index) {
        let Slot { prev, next, at, .. } = *self.slot(from);
        debug_assert!(next != from, "there is something to move");
        let head = self.slot_mut(from);
        (head.prev, head.next, head.at) = (from, from, u64::MAX);
        let head = self.slot_mut(to);
        head.at = head.at.min(at);
        let tail = core::mem::replace(&mut head.prev, prev);
        self.slot_mut(tail).next = next;
        self.slot_mut(next).prev = tail;
        self.slot_mut(prev).next = to;
    }

    /// Iterates over a list from its first entry.
    #[inline(always)]
    pub(super) fn iter(&self, head: Index) -> impl Iterator<Item = (Index, u64)> {
        let mut next = self.first(head);
        core::iter::from_fn(move || {
            let entry = next?;
            let slot = self.slot(entry);
            next = (slot.next != head).then_some(slot.next);
            Some((entry, slot.at))
        })
    }

    /// Checks a list and returns its length.
    pub(super) fn check(&self, head: Index) -> usize {
        let (mut last, mut count) = (head, 0);
        for (entry, at) in self.iter(head) {
            assert!(entry >= HEADS, "rule 1: between heads stand entries");
            assert_eq!(self.slot(entry).prev, last, "rule 1: prev undoes next");
            assert!(self.slot(entry).is_full(), "what waits has a value");
            assert!(at >= self.least(head), "rule 4: the least");
            (last, count) = (entry, count + 1);
        }
        assert_eq!(self.slot(head).prev, last, "rule 1: the ring is closed");
        assert!(!self.slot(head).is_full(), "a head has no value");
        let none = self.least(head) == u64::MAX;
        assert!(count > 0 || none, "rule 4: the least of an empty list");
        count
    }
}
