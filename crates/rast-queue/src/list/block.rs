//! One value in memory of the queue's allocator.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::abort::deallocate;
use crate::alloc::{Allocator, Layout};

/// A `V` in memory of `A`, owned until it is leaked to the other threads.
///
/// It calls the allocator even for size zero, so every block that is freed was allocated.
pub(super) struct Block<'a, V, A: Allocator> {
    at: NonNull<V>,
    alloc: &'a A,
    owns: PhantomData<V>,
}

impl<'a, V, A: Allocator> Block<'a, V, A> {
    pub(super) const LAYOUT: Layout = Layout::new::<V>();

    /// Moves `value` into new memory.
    ///
    /// # Errors
    ///
    /// The value, if there is no memory.
    pub(super) fn new(value: V, alloc: &'a A) -> Result<Self, V> {
        let Ok(memory) = alloc.allocate(Self::LAYOUT) else {
            return Err(value);
        };
        let at = memory.cast::<V>();
        // SAFETY: the memory is new, ours alone, and has the layout of a `V`.
        unsafe { at.write(value) };
        Ok(Self {
            at,
            alloc,
            owns: PhantomData,
        })
    }

    /// Takes ownership of a leaked block again.
    ///
    /// # Safety
    ///
    /// 1. `at` came from `leak`, of a block of this very allocator.
    /// 2. No other thread uses the block, and it is taken back once.
    pub(super) unsafe fn from_leaked(at: NonNull<V>, alloc: &'a A) -> Self {
        Self {
            at,
            alloc,
            owns: PhantomData,
        }
    }

    /// The address of the value.
    pub(super) fn as_non_null(&self) -> NonNull<V> {
        self.at
    }

    /// Leaks the block, to be taken back by `from_leaked`.
    pub(super) fn leak(self) -> NonNull<V> {
        ManuallyDrop::new(self).at
    }

    /// Moves the value out and frees the memory.
    pub(super) fn into_inner(self) -> V {
        let this = ManuallyDrop::new(self);
        // SAFETY: the block owns the value, which is not touched again: the block is not dropped.
        let value = unsafe { this.at.read() };
        // SAFETY: `new` took the memory from this allocator with this layout, and the value was
        // moved out.
        unsafe { deallocate(this.alloc, this.at.cast(), Self::LAYOUT) };
        value
    }
}

impl<V, A: Allocator> Deref for Block<'_, V, A> {
    type Target = V;

    fn deref(&self) -> &V {
        // SAFETY: the block owns the value, which was written by `new`.
        unsafe { self.at.as_ref() }
    }
}

impl<V, A: Allocator> Drop for Block<'_, V, A> {
    fn drop(&mut self) {
        // SAFETY: the block owns the value, which is not touched again.
        let value = unsafe { self.at.read() };
        // SAFETY: `new` took the memory from this allocator with this layout, and the value was
        // moved out.
        unsafe { deallocate(self.alloc, self.at.cast(), Self::LAYOUT) };
        // Last, because the drop of an item may panic.
        drop(value);
    }
}
