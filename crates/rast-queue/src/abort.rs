//! Aborts the process where it must not unwind: when a count would overflow, and when the allocator
//! panics as memory is freed.

use core::fmt;
use core::ptr::NonNull;

use crate::alloc::{Allocator, Layout};

/// Prints `message` and aborts, by a panic within a panic, since `no_std` has no `abort`.
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

/// Frees memory with `alloc`; aborts the process if the allocator panics.
///
/// A push or a pop frees memory before it is complete. The item of the push is then in the queue,
/// but no waiter has been woken for it. The item of the pop is moved out, but not returned. If a
/// panic unwound from here, the wake-up or the item would be lost, or a batch would push an item
/// twice.
///
/// # Safety
///
/// 1. The memory is from `alloc` with this layout, and is not used again.
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
