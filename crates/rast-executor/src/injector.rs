//! The queue for tasks from threads that are not workers of the runtime: a stack whose tasks are
//! all taken at once.
//!
//! Each worker checks the stack before each poll, with one load, and moves its tasks to its own
//! queue. Normal tasks go to a list that precedes the other lists, at most 128 times in a row. So a
//! task from outside usually waits for the running poll and at most one more. This wait determines
//! the tail latency.
//!
//! A pushing thread that finds the stack empty wakes a worker. Other pushing threads rely on this
//! wake-up.

use core::ptr::NonNull;

use crate::chain::{Chain, next, set_next};
use crate::latency::Sampler;
use crate::primitive::LinkStack;
use crate::task::{Header, Task};

/// The stack; any thread pushes, and any thread takes all tasks. Lock-free.
#[derive(Debug, Default)]
pub struct Injector {
    tasks: LinkStack<Header>,
    /// Chooses which wake-ups from outside are measured.
    pub(crate) sampler: Sampler,
}

impl Injector {
    /// Pushes a task; returns whether the stack was empty.
    pub fn push(&self, task: Task) -> bool {
        let raw = task.into_raw();
        // SAFETY: 1, 2. A chain of one task; the stack has its right to run, and so a reference.
        unsafe { self.tasks.push(raw, raw) }
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
        // SAFETY: 1, 2. The tasks were linked above; the stack has their rights to run, and so a
        // reference of each.
        unsafe { self.tasks.push(newest, oldest) }
    }

    /// Takes all tasks, oldest first. One load if there are none.
    #[inline]
    pub(crate) fn take(&self) -> Option<Chain> {
        (!self.is_empty()).then(|| self.take_slow())
    }

    #[cold]
    fn take_slow(&self) -> Chain {
        let mut at = NonNull::new(self.tasks.take());
        let mut chain = Chain::default();
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
        // A hint; the fences of `Idle` order it where it matters.
        self.tasks.is_empty()
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        drop(self.take());
    }
}
