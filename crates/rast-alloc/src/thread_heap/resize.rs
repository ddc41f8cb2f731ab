//! Changes of a block's size, for blocks of any heap.

use core::ptr::{self, NonNull};

use super::ThreadHeap;
use crate::Layout;
use crate::arena::check_in_place;
use crate::level::Level;
use crate::size_class::SLAB_CLASSES;
use crate::span::bytes_for;

/// Returns `true` if a block of any heap may stay in place with another layout: its class, or the
/// length of its span, does not change.
#[inline]
fn may_stay_in_place(old: Layout, new: Layout) -> bool {
    match (Level::of(old), Level::of(new)) {
        (Level::Class(from), Level::Class(to)) => from == to,
        (Level::Span, Level::Span) => bytes_for(old.size()) == bytes_for(new.size()),
        _ => false,
    }
}

impl ThreadHeap {
    /// Changes the size of a block of any heap. Returns null, and changes nothing, if the system
    /// has no memory. Only the holder calls it.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of a thread's heap with the layout `old`, `new` has the same
    ///    alignment, and the caller gives the block up if the call succeeds.
    pub(crate) unsafe fn reallocate(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> *mut u8 {
        // SAFETY: obligation 1.
        let is_own = unsafe { self.has(block, old) };
        if !is_own && may_stay_in_place(old, new) {
            // SAFETY: obligation 1: the block lies in a mapped segment.
            unsafe { check_in_place(block, old) };
            // The size is counted in this heap, as frees of other heaps' blocks are.
            self.arena.count_resize(old.size(), new.size());
            self.report_resized(old, new);
            return block.as_ptr();
        }
        let resize = || {
            if !is_own {
                return ptr::null_mut();
            }
            // SAFETY: obligation 1, and the block is this heap's, or large.
            unsafe { self.arena.resize(block, old, new) }
        };
        let mut resized = resize();
        if resized.is_null() {
            let mut moved = self.allocate_once(new);
            if moved.is_null() {
                // With more memory it may grow in place.
                self.retry(new, || {
                    resized = resize();
                    if resized.is_null() {
                        moved = self.allocate_once(new);
                    }
                    !(resized.is_null() && moved.is_null())
                });
            }
            if !moved.is_null() {
                // SAFETY: obligation 1, and the other block is new, of the new layout.
                unsafe { self.replace(block, old, moved, new) };
                return moved;
            }
        }
        if !resized.is_null() {
            self.report_resized(old, new);
        }
        resized
    }

    /// Reports a block that changed its size in place, if the bytes in use changed by much.
    #[inline]
    fn report_resized(&self, old: Layout, new: Layout) {
        let is_of_slab = matches!(Level::of(old), Level::Class(class) if class < SLAB_CLASSES);
        if !is_of_slab && new.size() > old.size() {
            self.arena.slow_allocated(new.size() - old.size());
        }
        self.arena.report();
    }

    /// Copies a block's contents to a new block that replaces it, and frees it.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of a thread's heap with the layout `old`, and the caller gives it up.
    /// 2. `moved` is a new block with the layout `new`.
    #[inline]
    unsafe fn replace(&self, block: NonNull<u8>, old: Layout, moved: *mut u8, new: Layout) {
        self.arena.count_move();
        // SAFETY: both blocks are at least as long as the shorter layout, and different.
        unsafe { moved.copy_from_nonoverlapping(block.as_ptr(), old.size().min(new.size())) };
        // SAFETY: obligation 1.
        unsafe { self.deallocate(block, old) };
    }
}
