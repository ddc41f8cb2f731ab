//! What the front ends share: a change of a block's layout, possibly to another alignment or to
//! size zero.

use core::ptr::NonNull;

use crate::{AllocError, Allocator, Layout};

/// An allocator that can change the size of a block.
pub(crate) trait FrontEnd: Allocator + Copy {
    /// Changes the size and the alignment of a block, moving it if necessary.
    ///
    /// # Errors
    ///
    /// If there is no memory; then nothing has changed.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of this allocator with the layout `old`; the caller gives it up if the
    ///    call succeeds.
    /// 2. Neither layout has size zero.
    unsafe fn resize(
        self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<u8>, AllocError>;

    /// Changes a block's layout; the old or the new layout may have size zero.
    ///
    /// # Errors
    ///
    /// If there is no memory; then nothing has changed.
    ///
    /// # Safety
    ///
    /// 1. As obligation 1 of [`FrontEnd::resize`].
    #[inline]
    unsafe fn change(
        self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() > 0 && new.size() > 0 {
            // SAFETY: obligation 1, and both layouts have a size.
            let resized = unsafe { self.resize(block, old, new) }?;
            return Ok(NonNull::slice_from_raw_parts(resized, new.size()));
        }
        // SAFETY: obligation 1.
        unsafe { self.replace(block, old, new) }
    }

    /// Allocates a block with another layout, copies the common part, and frees the old block.
    ///
    /// # Errors
    ///
    /// If there is no memory; then nothing has changed.
    ///
    /// # Safety
    ///
    /// 1. As obligation 1 of [`FrontEnd::resize`].
    unsafe fn replace(
        self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let moved = self.allocate(new)?;
        let length = old.size().min(new.size());
        // SAFETY: both blocks are at least that long, and different where they have a size.
        unsafe { block.copy_to_nonoverlapping(moved.cast(), length) };
        // SAFETY: obligation 1.
        unsafe { self.deallocate(block, old) };
        Ok(moved)
    }

    /// Changes a block's layout to one that is not shorter, and clears the additional bytes.
    ///
    /// # Errors
    ///
    /// As for [`FrontEnd::change`].
    ///
    /// # Safety
    ///
    /// 1. As obligation 1 of [`FrontEnd::change`].
    /// 2. `new` is at least as long as `old`.
    unsafe fn change_zeroed(
        self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: obligation 1.
        let grown = unsafe { self.change(block, old, new) }?;
        // SAFETY: obligation 2: the new block is at least as long as the old one.
        let rest = unsafe { grown.cast::<u8>().add(old.size()) };
        // SAFETY: the block is `new.size()` bytes long, which is no less than the old size.
        unsafe { rest.write_bytes(0, new.size() - old.size()) };
        Ok(grown)
    }
}

/// Implements the methods of an `Allocator` that change a layout by its [`FrontEnd`].
macro_rules! changes_by_front_end {
    () => {
        $crate::front_end::changes_by_front_end!(grow, change);
        $crate::front_end::changes_by_front_end!(grow_zeroed, change_zeroed);
        $crate::front_end::changes_by_front_end!(shrink, change);
    };

    ($method:ident, $by:ident) => {
        #[inline]
        unsafe fn $method(
            &self,
            block: NonNull<u8>,
            old: Layout,
            new: Layout,
        ) -> Result<NonNull<[u8]>, AllocError> {
            // SAFETY: the caller's obligations.
            unsafe { self.$by(block, old, new) }
        }
    };
}

pub(crate) use changes_by_front_end;
