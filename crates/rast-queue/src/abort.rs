//! The end of the program, where nothing may unwind and go on: counts that would run over, and
//! memory that is freed.

use core::fmt;
use core::ptr::NonNull;

use crate::alloc::{Allocator, Layout};

/// Prints `message` and aborts, by a panic within a panic: without `std` there is no other way.
#[cold]
#[inline(never)]
pub(crate) fn abort(message: fmt::Arguments<'_>) -> ! {
    struct Abort;
    impl Drop for Abort {
        fn drop(&mut self) {
            panic!("queue: a second panic aborts");
        }
    }
    let _abort = Abort;
    panic!("{message}");
}

/// Gives memory back to `alloc`; aborts if that panics.
///
/// Memory is freed in the middle of an operation: the item of a push is in the queue already, and
/// its waiter is not woken; the item of a pop is out of it, and not returned. A panic that went up
/// from here would lose the wake-up or the item, and a batch would push an item again that the
/// queue has.
///
/// # Safety
///
/// 1. The memory is from `alloc`, was taken with this layout, and is not used again.
pub(crate) unsafe fn deallocate<A: Allocator>(alloc: &A, memory: NonNull<u8>, layout: Layout) {
    struct Unwinding;
    impl Drop for Unwinding {
        fn drop(&mut self) {
            panic!("queue: the allocator's deallocate panicked");
        }
    }
    let unwinding = Unwinding;
    // SAFETY: by (1).
    unsafe { alloc.deallocate(memory, layout) };
    core::mem::forget(unwinding);
}
