//! The queue for tasks from threads that are not workers of the runtime: a stack whose tasks are
//! all taken at once.
//!
//! Each worker checks it before each poll, with one load. It moves the tasks to a list of its own
//! queue, which has precedence over the other lists at most 128 times in a row. So a task from
//! outside usually waits for the running poll and at most one more. This wait determines the tail
//! latency.
//!
//! A pushing thread that finds the stack empty wakes a worker; other pushing threads rely on that
//! one.

use core::ptr::{self, NonNull};

use crate::chain::{Chain, next, set_next};
use crate::latency::Sampler;
use crate::primitive::sync::atomic::{AtomicPtr, Ordering};
use crate::task::{Header, Task};

/// The stack; any thread pushes, and any thread takes all tasks. Lock-free.
#[derive(Debug)]
pub struct Injector {
    top: AtomicPtr<Header>,
    /// Chooses which wake-ups from outside are measured.
    pub(crate) sampler: Sampler,
}

impl Default for Injector {
    fn default() -> Self {
        Self::new()
    }
}

impl Injector {
    /// Makes an empty stack.
    #[must_use]
    pub fn new() -> Self {
        Self {
            top: AtomicPtr::new(ptr::null_mut()),
            sampler: Sampler::default(),
        }
    }

    /// Pushes a task; returns whether the stack was empty.
    pub fn push(&self, task: Task) -> bool {
        let raw = task.into_raw();
        self.link(raw, raw)
    }

    /// Pushes all tasks of a chain by one compare-exchange; returns whether the stack was empty;
    /// `false` if the chain is empty.
    pub(crate) fn push_all(&self, mut chain: Chain) -> bool {
        let Some(oldest) = chain.pop() else {
            return false;
        };
        let oldest = oldest.into_raw();
        let mut newest = oldest;
        while let Some(task) = chain.pop() {
            let raw = task.into_raw();
            // SAFETY: the right to run the task is this call's until it is linked below.
            unsafe { set_next(raw, Some(newest)) };
            newest = raw;
        }
        self.link(newest, oldest)
    }

    /// Pushes linked tasks, whose rights belong to the caller.
    fn link(&self, newest: NonNull<Header>, oldest: NonNull<Header>) -> bool {
        // Relaxed: the compare-exchange below checks it, and no thread dereferences it. [XI1]
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            // SAFETY: the right to run belongs to this call until the compare-exchange succeeds.
            unsafe { set_next(oldest, NonNull::new(top)) };
            // Release: pairs with XI3; publishes the links. [XI2]
            match self.top.compare_exchange_weak(
                top,
                newest.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return top.is_null(),
                Err(now) => top = now,
            }
        }
    }

    /// Takes all tasks, oldest first. One load if there are none.
    #[inline]
    pub(crate) fn take(&self) -> Option<Chain> {
        (!self.is_empty()).then(|| self.take_slow())
    }

    #[cold]
    fn take_slow(&self) -> Chain {
        // Acquire: pairs with XI2; the links and the tasks are visible. [XI3]
        let mut at = NonNull::new(self.top.swap(ptr::null_mut(), Ordering::Acquire));
        let mut chain = Chain::new();
        while let Some(raw) = at {
            // SAFETY: the taken tasks belong to the caller alone.
            at = unsafe { next(raw) };
            // SAFETY: the push passed the right to the stack.
            chain.push_front(unsafe { Task::from_raw(raw) });
        }
        chain
    }

    /// Takes the tasks one by one, oldest first.
    #[doc(hidden)]
    pub fn drain(&self, each: impl FnMut(Task)) {
        let mut chain = self.take_slow();
        core::iter::from_fn(|| chain.pop()).for_each(each);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: a hint; XI3 takes, and the fences of `Idle` order it where it matters. [XI4]
        self.top.load(Ordering::Relaxed).is_null()
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        drop(self.take());
    }
}
