//! The retry after the system refused memory: unused memory of the process returns to the system
//! first. By then the refused call into the arena has returned, so every structure is consistent
//! during the purge.

use core::ptr::NonNull;

use super::{HEAPS, ThreadHeap};
use crate::Layout;
use crate::os;

impl ThreadHeap {
    /// Retries a refused request. Before the first retry this heap is purged; before the second,
    /// all other heaps. `allocate` returns `true` if it succeeded. Only the holder calls it.
    ///
    /// Cost: linear in the unused memory and in the number of heaps.
    #[cold]
    #[inline(never)]
    pub(super) fn retry(&self, layout: Layout, mut allocate: impl FnMut() -> bool) {
        if layout.size() > os::ADDRESSES {
            return;
        }
        self.purge();
        if !allocate() {
            // No wait: this thread is inside its heap, which other threads may wait for.
            Self::purge_others(self, 0);
            allocate();
        }
    }

    /// Calls `request`, which a separate heap serves. If it returns `None`, purges that heap by
    /// `purge`, and the heaps that no thread holds, and calls it again.
    #[inline]
    pub(crate) fn with_retry(
        layout: Layout,
        purge: impl FnOnce() -> usize,
        request: impl Fn() -> Option<NonNull<u8>>,
    ) -> Option<NonNull<u8>> {
        let block = request();
        if block.is_some() || layout.size() > os::ADDRESSES {
            return block;
        }
        purge();
        Self::purge_unheld();
        request()
    }

    /// Purges the heaps that no thread holds.
    #[cold]
    pub(crate) fn purge_unheld() {
        HEAPS.find(|heap| {
            if heap.mailbox.claim() {
                heap.purge();
                heap.leave();
            }
            None::<()>
        });
    }
}
