//! The allocator of zero size: the system's memory with true figures.
//!
//! Simple for now: every call is forwarded to the system's allocator, then counted.
//! `realloc` and `alloc_zeroed` are forwarded as such, so a block that can grow where it stands does, and fresh pages
//! that the system hands out cleared are not cleared again.
//! A call is counted once it has succeeded, a free before it is forwarded, so that the bytes in use are never above what
//! was asked for.

use core::ptr::NonNull;
use std::alloc::{GlobalAlloc, System};

use crate::stats::{Counters, Stats};
use crate::{AllocError, Allocator, Layout};

// Under loom an atomic belongs to one run of a model and cannot be static: there, nothing is counted.
#[cfg(not(rast_loom))]
static COUNTERS: Counters = Counters::new();

#[inline]
fn count(event: impl FnOnce(&Counters)) {
    #[cfg(not(rast_loom))]
    event(&COUNTERS);
    #[cfg(rast_loom)]
    drop(event);
}

/// The allocator: a value of no size that stands for one allocator of the whole process.
///
/// It serves as the global allocator and, by value, as the `Allocator` of single containers; all of these share one
/// memory and one set of figures, and a block may be freed through any of them, on any thread.
///
/// Progress: that of the system's allocator; the figures add two wait-free atomic additions per call.
/// A request of no size touches neither the system nor the figures.
///
/// ```
/// use rast_alloc::RastAlloc;
/// use rast_alloc::vec::Vec;
///
/// let mut squares = Vec::new_in(RastAlloc);
/// squares.extend((0..100u64).map(|n| n * n));
/// assert_eq!(squares[9], 81);
/// assert!(RastAlloc::stats().bytes_current >= 800);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RastAlloc;

impl RastAlloc {
    /// Returns the figures of the process, from any thread; wait-free.
    pub fn stats() -> Stats {
        #[cfg(not(rast_loom))]
        return COUNTERS.read();
        #[cfg(rast_loom)]
        Stats::default()
    }
}

// SAFETY: every call goes to the system's allocator with the caller's own arguments, under the same contract; counting
// neither panics, nor allocates, nor touches the block.
unsafe impl GlobalAlloc for RastAlloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's obligations are the system's.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            count(|counters| counters.count_allocation(layout.size()));
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(|counters| counters.count_free(layout.size()));
        // SAFETY: the caller's obligations are the system's.
        unsafe { System.dealloc(block, layout) };
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's obligations are the system's.
        let block = unsafe { System.alloc_zeroed(layout) };
        if !block.is_null() {
            count(|counters| counters.count_allocation(layout.size()));
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's obligations are the system's.
        let moved = unsafe { System.realloc(block, layout, size) };
        if !moved.is_null() {
            count(|counters| counters.count_reallocation(layout.size(), size));
        }
        moved
    }
}

/// Counts a change of a block's size, of which either may be none.
#[inline]
fn count_change(old: usize, new: usize) {
    count(|counters| match (old, new) {
        (0, 0) => {}
        (0, new) => counters.count_allocation(new),
        (old, 0) => counters.count_free(old),
        (old, new) => counters.count_reallocation(old, new),
    });
}

// SAFETY: every call goes to the system's `Allocator`, which keeps the trait's contract; all values of this type are the
// same allocator, so a block of one may be freed by another, and moving a value moves nothing.
unsafe impl Allocator for RastAlloc {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = Allocator::allocate(&System, layout)?;
        count_change(0, layout.size());
        Ok(block)
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = Allocator::allocate_zeroed(&System, layout)?;
        count_change(0, layout.size());
        Ok(block)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        count_change(layout.size(), 0);
        // SAFETY: the caller's obligations are the system's.
        unsafe { System.deallocate(block, layout) };
    }

    #[inline]
    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's obligations are the system's.
        let moved = unsafe { System.grow(block, old, new) }?;
        count_change(old.size(), new.size());
        Ok(moved)
    }

    #[inline]
    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's obligations are the system's.
        let moved = unsafe { System.grow_zeroed(block, old, new) }?;
        count_change(old.size(), new.size());
        Ok(moved)
    }

    #[inline]
    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's obligations are the system's.
        let moved = unsafe { System.shrink(block, old, new) }?;
        count_change(old.size(), new.size());
        Ok(moved)
    }
}
