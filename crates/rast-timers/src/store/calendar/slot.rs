//! A place for a value, with what its owner needs to find and to order it.
//!
//! Field by field instead of an `Option`, whose own word would make a slot
//! with a word in it half a cache line and more.
#![allow(
    unsafe_code,
    reason = "a value that may be absent, without a word for it; a hint"
)]

use core::mem::{MaybeUninit, needs_drop};

/// A value that may be absent, beside an order and two neighbours whose meaning
/// is the owner's.
///
/// The value is there if and only if `full`; nothing else can write either.
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
    /// Makes an empty slot with itself on both sides.
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

    /// Tells whether a value is there.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// The value.
    pub(super) fn get(&self) -> Option<&T> {
        // SAFETY: the value is there, as `full` says.
        self.full.then(|| unsafe { self.value.assume_init_ref() })
    }

    /// Puts a value into the slot, which is empty.
    #[inline(always)]
    pub(super) fn put(&mut self, value: T) {
        // One that were there would be forgotten, not dropped.
        debug_assert!(!self.full, "a slot holds one value");
        self.value.write(value);
        self.full = true;
    }

    /// Takes the value out.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<T> {
        if !self.full {
            return None;
        }
        self.full = false;
        // SAFETY: the value was there, as `full` said; as that is false now,
        // no thread reads it a second time.
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

/// Asks for the line in which an element lies, or would lie, to be in the
/// second cache when it is wanted; does nothing on other processors than
/// x86-64.
#[inline(always)]
pub(super) fn prefetch<T>(of: &[T], index: usize) {
    let element = of.as_ptr().wrapping_add(index);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint that reads and writes no memory and traps nowhere,
        // whatever the address.
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
