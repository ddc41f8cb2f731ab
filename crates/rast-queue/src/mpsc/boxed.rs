//! The queue for items of any type, in nodes that the queue allocates.
//!
//! The producers and the consumer share one allocation with the stack, the spare blocks and their
//! count; the last one dropped frees it.

use core::fmt;
use core::marker::PhantomData;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;

use super::block::Spares;
use super::stack::Stack;
use crate::abort::{abort, deallocate};
use crate::alloc::{AllocError, Allocator, Layout};
use crate::primitive::CachePadded;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of halves of one queue; a clone beyond it aborts.
const HALVES_MAX: usize = isize::MAX as usize;

/// What the halves share.
pub(super) struct Inside<T, A> {
    pub(super) stack: CachePadded<Stack>,
    pub(super) spares: CachePadded<Spares<T>>,
    /// Producers, and one for the consumer.
    halves: AtomicUsize,
    pub(super) alloc: A,
}

/// A counted handle on what the halves share.
pub(super) struct Shared<T, A: Allocator> {
    inside: NonNull<Inside<T, A>>,
    /// Owns items, and accepts them by shared reference, so it is invariant as a cell is.
    owns: PhantomData<core::cell::Cell<T>>,
}

impl<T, A: Allocator> Shared<T, A> {
    pub(super) const LAYOUT: Layout = Layout::new::<Inside<T, A>>();

    /// Makes the shared part, and returns the handles of a producer and of the consumer.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if `alloc` has no memory.
    pub(super) fn pair(alloc: A) -> Result<(Self, Self), AllocError> {
        let inside = alloc.allocate(Self::LAYOUT)?.cast();
        let value = Inside {
            stack: CachePadded::new(Stack::new()),
            spares: CachePadded::new(Spares::new()),
            halves: AtomicUsize::new(2),
            alloc,
        };
        // SAFETY: the memory is ours, of that layout.
        unsafe { inside.write(value) };
        let handle = || Self {
            inside,
            owns: PhantomData,
        };
        Ok((handle(), handle()))
    }

    #[inline(always)]
    pub(super) fn inside(&self) -> &Inside<T, A> {
        // SAFETY: the memory lives until the last handle is dropped.
        unsafe { self.inside.as_ref() }
    }

    /// Returns whether this is the only handle. If so, the accesses of the other handles happen
    /// before the return.
    pub(super) fn is_alone(&self) -> bool {
        // Acquire: pairs with the release half in drop; the next load of the top returns the last
        // push of the others. [MQ16]
        self.inside().halves.load(Ordering::Acquire) == 1
    }
}

impl<T, A: Allocator> Clone for Shared<T, A> {
    fn clone(&self) -> Self {
        // Relaxed: a new handle comes from one that is counted. [MQ17]
        let halves = self.inside().halves.fetch_add(1, Ordering::Relaxed);
        // Leaked halves could make their count wrap, and the memory would be freed while in use. As
        // in `Arc`, half of the range is left, so that no other thread can wrap the count before
        // this thread aborts the process.
        if halves > HALVES_MAX {
            abort(format_args!("mpsc: the count of the halves overflows"));
        }
        Self {
            inside: self.inside,
            owns: PhantomData,
        }
    }
}

impl<T, A: Allocator> Drop for Shared<T, A> {
    fn drop(&mut self) {
        // AcqRel: pairs with itself in the other halves; all their accesses happen before the last
        // half frees the memory. The release half also pairs with the Acquire in is_alone. [MQ18]
        if self.inside().halves.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let mut spares = self.inside().spares.take();
        // SAFETY: this is the last half, so the spares are its alone.
        while let Some(block) = unsafe { spares.pop() } {
            // SAFETY: by rule 4 of the blocks the items are moved out; blocks come from this
            // allocator.
            unsafe { block.deallocate(&self.inside().alloc) };
        }
        // SAFETY: initialised by `pair`; this is the last handle, and it ends here.
        let inside = unsafe { self.inside.read() };
        let alloc = inside.alloc;
        // SAFETY: the memory came from this allocator with this layout.
        unsafe { deallocate(&alloc, self.inside.cast(), Self::LAYOUT) };
    }
}

// SAFETY: through a handle, items of type T move from thread to thread, and the allocator is used
// by several, and dropped by the last.
unsafe impl<T: Send, A: Allocator + Send + Sync> Send for Shared<T, A> {}
// SAFETY: a shared handle gives what several handles give.
unsafe impl<T: Send, A: Allocator + Send + Sync> Sync for Shared<T, A> {}

// No user code runs while an invariant is broken.
impl<T, A: Allocator> UnwindSafe for Shared<T, A> {}
impl<T, A: Allocator> RefUnwindSafe for Shared<T, A> {}

impl<T, A: Allocator> fmt::Debug for Shared<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("is_closed", &self.inside().stack.is_closed())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "std", not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;
    use crate::mpsc::queue;
    use std::env;
    use std::process::Command;

    /// Forgets as many halves as the count has room for, in a program of its own.
    #[cfg_attr(miri, expect(dead_code, reason = "needs a process"))]
    #[cfg_attr(not(miri), test)]
    fn one_half_too_many_aborts() {
        const CHILD: &str = "RAST_QUEUE_ONE_HALF_TOO_MANY";
        if env::var_os(CHILD).is_some() {
            let (producer, _consumer) = queue::<u8>();
            let halves = &producer.shared.inside().halves;
            halves.store(HALVES_MAX, Ordering::Relaxed);
            core::mem::forget(producer.clone());
            // What a panic would be caught by.
            let _ = std::panic::catch_unwind(|| drop(producer.clone()));
            return;
        }
        let child = Command::new(env::current_exe().expect("this program has a path"))
            .args(["one_half_too_many_aborts", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .expect("it starts again");
        let text = std_alloc::string::String::from_utf8_lossy(&child.stderr);
        assert!(text.contains("the count of the halves overflows"), "{text}");
        assert_eq!(child.status.code(), None, "a signal ended it");
    }
}
