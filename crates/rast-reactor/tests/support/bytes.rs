//! An allocator that counts the bytes that are allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, as the global one of a test.
pub(crate) struct Bytes;

static LIVE: AtomicUsize = AtomicUsize::new(0);

impl Bytes {
    /// How many bytes are allocated, of all threads.
    pub(crate) fn live() -> usize {
        // Relaxed: a count.
        LIVE.load(Ordering::Relaxed)
    }
}

// SAFETY: the memory is the system allocator's, handed through unchanged.
unsafe impl GlobalAlloc for Bytes {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed: a count.
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's obligations are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // Relaxed: a count.
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's obligations are the same.
        unsafe { System.dealloc(block, layout) }
    }
}
