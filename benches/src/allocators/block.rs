//! Blocks of a size that is known at run time.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::hint::black_box;
use std::ptr::NonNull;

/// A block of the global allocator, given back on drop.
pub(super) struct Block {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: a block is bytes that only its holder touches.
unsafe impl Send for Block {}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a size of a bench")
}

impl Block {
    /// Takes a block of `size` bytes and writes to the first one.
    #[inline]
    pub(super) fn new(size: usize) -> Self {
        assert!(size > 0);
        // SAFETY: the layout has a size, asserted above.
        let start = unsafe { alloc(layout(size)) };
        let Some(start) = NonNull::new(black_box(start)) else {
            handle_alloc_error(layout(size));
        };
        // SAFETY: the block is one byte long at least.
        unsafe { start.write(1) };
        Self { start, size }
    }

    /// Writes to the last byte as well.
    #[inline]
    pub(super) fn touched(self) -> Self {
        // SAFETY: the block is this long.
        let last = unsafe { self.start.add(self.size - 1) };
        // SAFETY: as above.
        unsafe { last.write(2) };
        self
    }

    /// Writes to each byte, `times` times over.
    #[inline(never)]
    pub(super) fn write_all(&mut self, times: usize) {
        for round in 0..times {
            for index in 0..self.size {
                // SAFETY: the block is this long.
                let byte = unsafe { self.start.add(index) };
                // SAFETY: as above; only the holder of `self` touches it.
                unsafe { byte.write_volatile(round as u8) };
            }
        }
    }

    /// Writes to each page.
    #[inline]
    pub(super) fn write_pages(&mut self) {
        for index in (0..self.size).step_by(4096) {
            // SAFETY: the block is this long.
            let byte = unsafe { self.start.add(index) };
            // SAFETY: as above; only the holder of `self` touches it.
            unsafe { byte.write_volatile(3) };
        }
    }

    /// Turns the block into a word, for slots that hold one word. The first word of the block keeps
    /// its size.
    pub(super) fn into_word(self) -> *mut u8 {
        assert!(self.size >= size_of::<usize>());
        // SAFETY: the block is a word long at least, and aligned to it.
        unsafe { self.start.cast::<usize>().write(self.size) };
        let start = self.start.as_ptr();
        std::mem::forget(self);
        start
    }

    /// Turns a word back into its block.
    ///
    /// # Safety
    ///
    /// 1. `word` is null or came from [`Block::into_word`], and is passed to this function once.
    pub(super) unsafe fn from_word(word: *mut u8) -> Option<Self> {
        let start = NonNull::new(word)?;
        // SAFETY: obligation 1: the first word is the size.
        let size = unsafe { start.cast::<usize>().read() };
        Some(Self { start, size })
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the block came from the global allocator with this layout, and only this drop
        // gives it back.
        unsafe { dealloc(self.start.as_ptr(), layout(self.size)) };
    }
}
