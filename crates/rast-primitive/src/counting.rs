//! A counting allocator for tests: a test binary that makes it the global allocator can assert how
//! often a path allocates.

use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout, System};

use crate::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator with counts of its calls.
///
/// It must be the global allocator of the binary, otherwise its counts stay zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAlloc;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

std::thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

impl CountingAlloc {
    /// Returns how often the calling thread has allocated or freed a block.
    #[must_use]
    pub fn calls_of_thread() -> u64 {
        CALLS.with(Cell::get)
    }

    /// Returns how many blocks all threads have allocated.
    #[must_use]
    pub fn allocations() -> u64 {
        // Relaxed: a count; a test orders what it compares by other means.
        ALLOCATIONS.load(Ordering::Relaxed)
    }

    fn count() {
        // A thread that ends has no count any more.
        let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    }
}

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count();
        // Relaxed: as in `allocations`.
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's obligations are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        Self::count();
        // SAFETY: the caller's obligations are the same.
        unsafe { System.dealloc(block, layout) }
    }
}
