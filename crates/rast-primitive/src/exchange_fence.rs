//! The full fence between a read-modify-write and the load that follows it.
//!
//! On x86-64 every read-modify-write is a locked instruction, which is a full fence; only the
//! compiler must not move the load up. Elsewhere, under a model checker and under Miri it is
//! `fence(SeqCst)`.

#[cfg(any(rast_loom, miri, not(target_arch = "x86_64")))]
use crate::sync::atomic::{Ordering, fence};

/// A full fence, for a thread whose last atomic operation was a read-modify-write (a swap, an
/// addition, a compare-exchange that succeeded).
///
/// Suppose that each of two threads does a read-modify-write on its own word, calls this function,
/// and then loads the other's word. Then at least one of them sees what the other wrote. If the
/// last operation was a plain load or store, use `fence(SeqCst)`: this function does not order it
/// on x86-64.
///
/// Wait-free; no instruction on x86-64.
///
/// ```
/// use rast_primitive::fence_after_exchange;
/// use rast_primitive::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// let (value, mark) = (AtomicU64::new(0), AtomicU64::new(0));
/// value.swap(7, Relaxed);
/// fence_after_exchange();
/// // Another thread clears the mark, fences, then takes the value. It takes 7, or this load
/// // sees the cleared mark.
/// let must_mark = mark.load(Relaxed) == 0;
/// # assert!(must_mark);
/// ```
#[inline(always)]
pub fn fence_after_exchange() {
    #[cfg(any(rast_loom, miri, not(target_arch = "x86_64")))]
    // SeqCst: of two threads that exchange, fence and load, the one whose fence is second sees the
    // other's word. [XF1]
    fence(Ordering::SeqCst);
    #[cfg(not(any(rast_loom, miri, not(target_arch = "x86_64"))))]
    // SeqCst: the compiler does not move a later load above this; for the processor, the locked
    // instruction before it is the fence. [XF2]
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}
