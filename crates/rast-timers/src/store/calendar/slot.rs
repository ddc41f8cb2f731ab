//! A slot for a value, with the words by which the store finds and orders it.
//!
//! It has separate fields instead of an `Option`, whose discriminant would make a slot with a
//! one-word value larger than half a cache line.
#![allow(
    unsafe_code,
    reason = "a value that may be absent, without a word for it; a hint"
)]

use core::mem::{MaybeUninit, needs_drop};

/// A value that may be absent, with a deadline and two neighbours whose meaning the owner defines.
///
/// The value is initialised if and only if `full`; both fields are private to this file.
pub(super) struct Slot<T> {
    pub(super) at: u64,
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(super) generation: u32,
    full: bool,
    value: MaybeUninit<T>,
}

const _: () = assert!(size_of::<Slot<u64>>() == 32, "two slots to a cache line");

impl<T> Slot<T> {
    /// Makes an empty slot whose two links are `index`.
    pub(super) const fn new(index: u32) -> Self {
        Self {
            at: u64::MAX,
            prev: index,
            next: index,
            generation: 0,
            full: false,
            value: MaybeUninit::uninit(),
        }
    }

    /// Returns `true` if the slot has a value.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Returns the value.
    pub(super) fn get(&self) -> Option<&T> {
        // SAFETY: the value is initialised, because `full` is set.
        self.full.then(|| unsafe { self.value.assume_init_ref() })
    }

    /// Stores a value in the slot, which must be empty.
    #[inline(always)]
    pub(super) fn put(&mut self, value: T) {
        // An old value would be leaked, not dropped.
        debug_assert!(!self.full, "a slot holds one value");
        self.value.write(value);
        self.full = true;
    }

    /// Removes the value.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<T> {
        if !self.full {
            return None;
        }
        self.full = false;
        // SAFETY: the value was initialised, because `full` was set; `full` is false now, so the
        // value is not read a second time.
        Some(unsafe { self.value.assume_init_read() })
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        if needs_drop::<T>() {
            drop(self.take());
        }
    }
}

/// Prefetches the line of an element, or of where it would be, into the second-level cache; does
/// nothing on processors other than x86-64.
#[inline(always)]
pub(super) fn prefetch<T>(of: &[T], index: usize) {
    let element = of.as_ptr().wrapping_add(index);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch reads and writes no memory and does not trap, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(element.cast::<i8>()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = element;
}

#[cfg(test)]
mod tests {
    use super::Slot;
    use std_alloc::rc::Rc;

    #[test]
    fn a_value_is_dropped_once() {
        let value = Rc::new(());
        let mut slot = Slot::new(0);
        assert!(slot.take().is_none() && slot.get().is_none());
        slot.put(Rc::clone(&value));
        assert!(slot.is_full() && slot.get().is_some());
        assert_eq!(Rc::strong_count(&value), 2);
        drop(slot.take());
        assert!(!slot.is_full());
        assert_eq!(Rc::strong_count(&value), 1);
        slot.put(Rc::clone(&value));
        drop(slot);
        assert_eq!(Rc::strong_count(&value), 1);
        drop(Slot::<Rc<()>>::new(0));
    }
}
