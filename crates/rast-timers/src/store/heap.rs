//! A cancellable deadline store: an indexed 4-ary min-heap over a slab.
//!
//! ```text
//! heap (order)                          slab (storage)
//! ┌────┬─────┬──────┐                   ┌────────────┬──────────┬───────┐
//! │ at │ seq │ slot │ 0  earliest   ┌──▶│ generation │ link = 0 │ value │ 2
//! ├────┼─────┼──────┤               │   ├────────────┼──────────┼───────┤
//! │    │     │  2 ──┼───────────────┘   │ generation │ link = 5 │   -   │ 3 free
//! ├────┼─────┼──────┤                   └────────────┴──────────┴───────┘
//! │    │     │      │ 1..=4 children of 0       Handle = slot, generation
//! └────┴─────┴──────┘
//! ```
//!
//! | field | full slot | free slot |
//! | --- | --- | --- |
//! | generation | that of its one handle | that of its next handle |
//! | link | index in the heap | next free slot |
//! | value | some | none |
//!
//! 1. `heap[slab[s].link].slot == s` for every full slot.
//! 2. A node is not later than its four children, by (at, seq).
//! 3. A slot is retired when its generations are used up, so no handle ever names a second value.
//!
//! With four children instead of two, the tree is half as deep, and a node's children are adjacent
//! in memory.

use super::{DeadlineStore, Expired, Handle, Step, drop_all};
use crate::Instant;
use core::fmt;
use std_alloc::vec::Vec;

/// Children per node.
const ARITY: usize = 4;

/// The end of the list of free slots.
const NONE: u32 = u32::MAX;

/// A waiting value, ordered by deadline.
#[derive(Clone, Copy)]
struct Node {
    at: Instant,
    /// Sequence number of the insertion or rescheduling that gave it its deadline.
    seq: u64,
    slot: u32,
}

impl Node {
    fn key(&self) -> (Instant, u64) {
        (self.at, self.seq)
    }
}

struct Slot<T> {
    generation: u32,
    link: u32,
    value: Option<T>,
}

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
    heap: Vec<Node>,
    slab: Vec<Slot<T>>,
    /// The first free slot.
    free: u32,
    /// The sequence number of the next insertion or rescheduling.
    seq: u64,
}

impl<T> HeapStore<T> {
    /// Makes an empty store without memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            heap: Vec::new(),
            slab: Vec::new(),
            free: NONE,
            seq: 0,
        }
    }

    /// Makes an empty store with memory for `capacity` values.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            heap: Vec::with_capacity(capacity),
            slab: Vec::with_capacity(capacity),
            free: NONE,
            seq: 0,
        }
    }

    /// Returns how many values fit without new memory.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.heap.capacity().min(self.slab.capacity())
    }

    /// Returns the deadline of a value, `None` if it has left.
    #[must_use]
    pub fn deadline(&self, handle: Handle) -> Option<Instant> {
        self.find(handle).map(|index| self.heap[index].at)
    }

    /// Returns a stored value, `None` if it has left.
    #[must_use]
    pub fn get(&self, handle: Handle) -> Option<&T> {
        let slot = self.slab.get(handle.slot() as usize)?;
        if slot.generation != handle.generation() {
            return None;
        }
        slot.value.as_ref()
    }

    /// Returns the first value in order and its deadline, even if it is never due.
    #[must_use]
    pub fn first(&self) -> Option<(Instant, &T)> {
        let node = self.heap.first()?;
        let value = self.slab[node.slot as usize].value.as_ref()?;
        Some((node.at, value))
    }

    /// Returns the maximum number of slots after one more insertion.
    pub(super) fn slots(&self) -> usize {
        self.slab.len() + usize::from(self.free == NONE)
    }

    /// Returns the index in the heap of the value that `handle` names.
    fn find(&self, handle: Handle) -> Option<usize> {
        self.get(handle)?;
        Some(self.slab[handle.slot() as usize].link as usize)
    }

    fn next_seq(&mut self) -> u64 {
        let seq = self.seq;
        self.seq += 1;
        seq
    }

    /// Puts `node` at `index` and updates the link of its slot.
    fn place(&mut self, index: usize, node: Node) {
        self.heap[index] = node;
        self.slab[node.slot as usize].link = index as u32;
    }

    /// Moves the node at `index` up until its parent is not later.
    fn sift_up(&mut self, mut index: usize) {
        let node = self.heap[index];
        while index > 0 {
            let parent = (index - 1) / ARITY;
            if self.heap[parent].key() <= node.key() {
                break;
            }
            self.place(index, self.heap[parent]);
            index = parent;
        }
        self.place(index, node);
    }

    /// Moves the node at `index` down until no child is earlier.
    fn sift_down(&mut self, mut index: usize) {
        let node = self.heap[index];
        loop {
            let first = index * ARITY + 1;
            let last = (first + ARITY).min(self.heap.len());
            let Some(least) = (first..last).min_by_key(|&child| self.heap[child].key()) else {
                break;
            };
            if node.key() <= self.heap[least].key() {
                break;
            }
            self.place(index, self.heap[least]);
            index = least;
        }
        self.place(index, node);
    }

    /// Restores the heap order around `index`, whose key has changed.
    fn sift(&mut self, index: usize) {
        if index > 0 && self.heap[index].key() < self.heap[(index - 1) / ARITY].key() {
            self.sift_up(index);
        } else {
            self.sift_down(index);
        }
    }

    /// Removes the node at `index` from the heap and frees its slot.
    fn remove(&mut self, index: usize) -> Option<Expired<T>> {
        let node = self.heap.swap_remove(index);
        if index < self.heap.len() {
            self.sift(index);
        }
        let slot = &mut self.slab[node.slot as usize];
        let handle = Handle::new(node.slot, slot.generation);
        let value = slot.value.take();
        // Rule 3: a slot whose last generation was used is not reused.
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next;
            slot.link = self.free;
            self.free = node.slot;
        }
        debug_assert!(value.is_some(), "rule 1: a slot in the heap is full");
        value.map(|value| Expired {
            at: node.at,
            handle,
            value,
        })
    }

    /// Checks the rules at the head of this file.
    ///
    /// # Panics
    ///
    /// If one is broken. In O(n); for tests.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        for (index, node) in self.heap.iter().enumerate() {
            let slot = &self.slab[node.slot as usize];
            assert!(slot.value.is_some(), "rule 1: the slot of a node is full");
            assert_eq!(slot.link as usize, index, "rule 1: slot and node agree");
            if index > 0 {
                let parent = &self.heap[(index - 1) / ARITY];
                assert!(parent.key() < node.key(), "rule 2: parents come first");
            }
        }
        let full = self.slab.iter().filter(|slot| slot.value.is_some()).count();
        assert_eq!(full, self.heap.len(), "rule 1: each full slot has a node");
    }
}

impl<T> DeadlineStore<T> for HeapStore<T> {
    /// O(log n); O(1) if no later deadline is on the path to the root. May allocate.
    ///
    /// # Panics
    ///
    /// If 2^32 − 1 slots are in use.
    fn insert(&mut self, at: Instant, value: T) -> Handle {
        // Allocate first: if that fails, nothing has changed.
        self.heap.reserve(1);
        let slot = if self.free == NONE {
            assert!(
                self.slab.len() < NONE as usize,
                "a HeapStore holds at most 2^32 - 1 values"
            );
            self.slab.push(Slot {
                generation: 0,
                link: NONE,
                value: Some(value),
            });
            (self.slab.len() - 1) as u32
        } else {
            let slot = self.free;
            let free = &mut self.slab[slot as usize];
            self.free = free.link;
            free.value = Some(value);
            slot
        };
        let generation = self.slab[slot as usize].generation;
        let seq = self.next_seq();
        self.heap.push(Node { at, seq, slot });
        self.sift_up(self.heap.len() - 1);
        Handle::new(slot, generation)
    }

    /// O(log n).
    fn cancel(&mut self, handle: Handle) -> Option<T> {
        let index = self.find(handle)?;
        self.remove(index).map(|expired| expired.value)
    }

    /// O(log n); the handle stays the same.
    fn reschedule(&mut self, handle: Handle, at: Instant) -> Option<Handle> {
        let index = self.find(handle)?;
        let seq = self.next_seq();
        let node = &mut self.heap[index];
        node.at = at;
        node.seq = seq;
        self.sift(index);
        Some(handle)
    }

    /// O(n).
    fn clear(&mut self) {
        drop_all(|| {
            // From the end, where no other node has to move.
            let last = self.heap.len().checked_sub(1)?;
            self.remove(last)
        });
    }

    /// O(1), exact.
    fn next_deadline(&self) -> Option<Instant> {
        let first = self.heap.first()?;
        (first.at != Instant::MAX).then_some(first.at)
    }

    /// O(log n), O(1) if nothing is due; never [`Step::Busy`].
    fn step(&mut self, now: Instant) -> Step<T> {
        match self.next_deadline() {
            Some(at) if at <= now => self.remove(0).map_or(Step::Idle, Step::Due),
            _ => Step::Idle,
        }
    }

    fn len(&self) -> usize {
        self.heap.len()
    }
}

impl<T> Default for HeapStore<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for HeapStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapStore")
            .field("len", &self.len())
            .field("next_deadline", &self.next_deadline())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_rests_when_its_generations_are_used_up() {
        let mut store = HeapStore::new();
        let at = Instant::from_nanos;
        let first = store.insert(at(1), 1);
        assert_eq!(store.cancel(first), Some(1));
        store.slab[0].generation = u32::MAX;
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
