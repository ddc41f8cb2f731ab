//! Blocks of the global allocator on cache lines of their own.
//!
//! Small blocks lie side by side, so two threads that write to their own blocks may write to one
//! cache line. Then each write of one thread costs the other one a miss. A type that is aligned as
//! [`CachePadded`] prevents that for a value, and [`Padded`] prevents it for the elements of a
//! vector or a slice.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator, Global};

use crate::primitive::CachePadded;

/// The global allocator with blocks that share no cache lines with other blocks.
///
/// The address and the size of a block are multiples of the alignment of [`CachePadded`], 128
/// bytes. So a block of 8 bytes takes 128, or more if the global allocator needs more for the
/// alignment. Growing a block copies it.
///
/// ```
/// use rast_alloc::{Padded, vec::Vec};
///
/// let mut counts = Vec::with_capacity_in(3, Padded);
/// counts.extend([1_u64, 2, 3]);
/// assert_eq!(counts.as_ptr().addr() % 128, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Padded;

impl Padded {
    /// Returns the layout of the whole lines of a block.
    fn lines(layout: Layout) -> Result<Layout, AllocError> {
        let aligned = layout.align_to(align_of::<CachePadded<u8>>());
        aligned
            .map(|layout| layout.pad_to_align())
            .map_err(|_| AllocError)
    }
}

// SAFETY: a block is one of `Global`, whose blocks stay valid until they are deallocated, and the
// type has no state, so each value of it can deallocate the blocks of another. The size of a layout
// that fits a block is between the requested size and the returned size. All sizes in this range
// round up to the same number of whole cache lines, so `Global` gets the layout with which it made
// the block.
unsafe impl Allocator for Padded {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Global.allocate(Self::lines(layout)?)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // It is `Ok`, as it was when the block was made.
        if let Ok(lines) = Self::lines(layout) {
            // SAFETY: the caller gives up a block of this allocator, which is one of `Global` with
            // this layout.
            unsafe { Global.deallocate(block, lines) };
        }
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;
    use crate::vec::Vec;

    #[test]
    fn blocks_share_no_lines() {
        let mut blocks = Vec::new();
        for len in [1, 127, 128, 129, 300] {
            let mut block: Vec<u8, Padded> = Vec::new_in(Padded);
            block.resize(len, 7);
            // Grown, so that the block of another size is freed.
            block.extend_from_slice(&[7; 100]);
            block.shrink_to_fit();
            assert!(block.iter().all(|&byte| byte == 7));
            blocks.push(block);
        }
        let lines = |block: &Vec<u8, Padded>| {
            let first = block.as_ptr().addr();
            assert_eq!(first % 128, 0);
            first / 128..(first + block.len()).div_ceil(128)
        };
        for (index, block) in blocks.iter().enumerate() {
            for other in &blocks[..index] {
                let (one, other) = (lines(block), lines(other));
                assert!(one.end <= other.start || other.end <= one.start);
            }
        }
    }

    #[test]
    fn a_block_without_bytes_and_one_that_is_too_large() {
        let none: Vec<(), Padded> = Vec::with_capacity_in(5, Padded);
        assert!(none.is_empty());
        let most = isize::MAX as usize;
        let layout = Layout::from_size_align(most - 7, 8).expect("within the bounds");
        assert!(Padded.allocate(layout).is_err());
    }
}
