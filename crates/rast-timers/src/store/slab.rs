//! The values of [`HeapStore`](super::HeapStore) and [`FiringStore`](super::FiringStore).
//!
//! | field | slot with a key | free slot |
//! | --- | --- | --- |
//! | value | some, or none if it was cancelled | none |
//! | generation | that of its one handle | that of its next handle |
//! | link | for the store's own use | next free slot |
//!
//! A slot is not reused after its last generation, so no handle ever names a second value.

use super::Handle;
use crate::primitive::panics::drop_each;
use core::mem::needs_drop;
use std_alloc::vec::Vec;

/// The end of the list of free slots.
const NONE: u32 = u32::MAX;

pub(super) struct Slot<T> {
    pub(super) value: Option<T>,
    pub(super) generation: u32,
    pub(super) link: u32,
}

pub(super) struct Slab<T> {
    pub(super) slots: Vec<Slot<T>>,
    /// The first free slot.
    free: u32,
}

impl<T> Drop for Slab<T> {
    fn drop(&mut self) {
        if needs_drop::<T>() {
            let mut slots = self.slots.iter_mut();
            drop_each(|| slots.find_map(|slot| slot.value.take()));
        }
    }
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
        }
    }

    /// Returns the maximum number of slots after one more insertion.
    pub(super) fn slots(&self) -> usize {
        self.slots.len() + usize::from(self.free == NONE)
    }

    /// Stores a value.
    ///
    /// # Panics
    ///
    /// If 2^32 − 1 slots are in use.
    #[inline]
    pub(super) fn insert(&mut self, value: T) -> Handle {
        let index = self.free;
        if index == NONE {
            let index = self.slots.len();
            assert!(
                index < NONE as usize,
                "a store of deadlines holds at most 2^32 - 1 values"
            );
            self.slots.push(Slot {
                value: Some(value),
                generation: 0,
                link: NONE,
            });
            return Handle::new(index as u32, 0);
        }
        let slot = &mut self.slots[index as usize];
        self.free = slot.link;
        slot.value = Some(value);
        Handle::new(index, slot.generation)
    }

    /// Returns the slot that `handle` names; its value may be cancelled.
    #[inline]
    pub(super) fn find(&mut self, handle: Handle) -> Option<&mut Slot<T>> {
        let slot = self.slots.get_mut(handle.slot() as usize)?;
        (slot.generation == handle.generation()).then_some(slot)
    }

    /// Frees a slot; returns the handle that named it, and its value if it was not cancelled.
    #[inline(always)]
    pub(super) fn release(&mut self, index: u32) -> (Handle, Option<T>) {
        let slot = &mut self.slots[index as usize];
        let handle = Handle::new(index, slot.generation);
        // A slot whose last generation was used is not reused.
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next;
            slot.link = self.free;
            self.free = index;
        }
        (handle, slot.value.take())
    }

    /// Returns the number of values.
    pub(super) fn count(&self) -> usize {
        self.slots
            .iter()
            .filter(|slot| slot.value.is_some())
            .count()
    }
}
