//! What is done where the system refuses memory: what the process holds and does not need goes
//! back, and it is asked again.

use super::{HEAPS, ThreadHeap};
use crate::Layout;
use crate::os;

impl ThreadHeap {
    /// Asks for memory again that the system refused: after this heap gave back what it does not
    /// need, and, unless that was enough, as `ask` says, after the others did. Only the holder
    /// calls it.
    ///
    /// Cost: linear in what is unused, and in the heaps; there is no third attempt.
    #[cold]
    #[inline(never)]
    pub(super) fn again(&self, layout: Layout, mut ask: impl FnMut() -> bool) {
        if layout.size() > os::ADDRESSES {
            return;
        }
        self.purge();
        if !ask() {
            // No wait: this thread is inside of its heap, which others may wait for.
            Self::purge_others(self, 0);
            ask();
        }
    }

    /// Gives back the memory of the heaps that no thread holds.
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
