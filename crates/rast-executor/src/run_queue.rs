//! The queue of a worker: a list per priority and one for tasks from other threads, all under a
//! lock, and a slot for the newest task.
//!
//! ```text
//!   newest ──► task          taken by the worker, at most 3 times in a row
//!   high   ──► t ─ t
//!   normal ──► t ─ t ─ t     taken from the front; a thief takes half
//!   low    ──► t
//! ```
//!
//! A thief takes the newest task only if the worker is still in the poll in which it put the task
//! into the slot.
//!
//! As in Fu's runtime ("Build an Async Runtime for Rust from Scratch") the lists are under a lock,
//! because they then need no bound and no overflow queue. An entry is linked through the task's
//! header, so a push allocates nothing. When a task yields, its worker locks the queue once to
//! append the task and to take the next one. We added the slot, the theft of half a list, and a
//! length that is loaded without the lock. The rows `lists` of the bench measure Fu's form, which
//! has none of these.

use core::ptr::{self, NonNull};

use crate::chain::Chain;
use crate::lists::Lists;
use crate::primitive::sync::Mutex;
use crate::primitive::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::task::{Header, Task};

/// Maximum number of tasks that a thief takes at once: it walks over them under the victim's lock.
const STEAL_MAX: usize = 256;

/// The queue.
#[derive(Debug, Default)]
pub struct RunQueue {
    newest: AtomicPtr<Header>,
    /// Number of tasks in the lists: written under the lock, loaded without.
    len: AtomicUsize,
    lists: Mutex<Lists>,
}

impl RunQueue {
    /// Runs `f` under the lock, and publishes the length after it.
    fn with<R>(&self, f: impl FnOnce(&mut Lists) -> R) -> R {
        let mut lists = self.lists.lock();
        let result = f(&mut lists);
        // Relaxed: a hint for thieves; the fences of `Idle` order it where it matters. [XQ1]
        self.len.store(lists.len(), Ordering::Relaxed);
        result
    }

    /// Appends a task to the list of its priority.
    pub fn push(&self, task: Task) {
        self.with(|lists| lists.push(task));
    }

    /// Appends tasks to the lists of their priorities.
    pub(crate) fn push_chain(&self, mut chain: Chain) {
        self.with(|lists| {
            while let Some(task) = chain.pop() {
                lists.push(task);
            }
        });
    }

    /// Appends tasks from other threads to their list.
    pub(crate) fn push_outside(&self, mut chain: Chain) {
        self.with(|lists| {
            while let Some(task) = chain.pop() {
                lists.push_outside(task);
            }
        });
    }

    /// Pops the next task of the lists, after appending `again` to its own list.
    pub fn pop(&self, again: Option<Task>) -> Option<Task> {
        if again.is_none() && self.is_empty() {
            return None;
        }
        self.with(|lists| {
            if let Some(task) = again {
                lists.push(task);
            }
            lists.pop()
        })
    }

    /// Puts a task into the slot; returns the previous one.
    pub fn replace_newest(&self, task: Task) -> Option<Task> {
        let raw = task.into_raw().as_ptr();
        // AcqRel: release, pairs with XQ3: a thief sees the task; acquire, pairs with the release
        // half here: the worker sees the older task that it gets back. [XQ2]
        let old = NonNull::new(self.newest.swap(raw, Ordering::AcqRel));
        // SAFETY: the right was given to the slot by a call before, and leaves it here.
        old.map(|raw| unsafe { Task::from_raw(raw) })
    }

    /// Takes the task from the slot. One load if there is none.
    #[inline]
    pub fn take_newest(&self) -> Option<Task> {
        if !self.has_newest() {
            return None;
        }
        // Acquire: pairs with XQ2; the task is visible. [XQ3]
        let raw = NonNull::new(self.newest.swap(ptr::null_mut(), Ordering::Acquire))?;
        // SAFETY: the right was given to the slot, and leaves it here.
        Some(unsafe { Task::from_raw(raw) })
    }

    #[inline]
    pub(crate) fn has_newest(&self) -> bool {
        // Relaxed: only a check; XQ3 takes the task. [XQ4]
        !self.newest.load(Ordering::Relaxed).is_null()
    }

    /// Takes half of each list, rounded up, limited so that the lock is held only briefly.
    pub(crate) fn steal(&self) -> Chain {
        if self.is_empty() {
            return Chain::default();
        }
        self.with(|lists| {
            let mut stolen = Chain::default();
            for list in lists.each() {
                let count = list.len().div_ceil(2).min(STEAL_MAX);
                stolen.append(&mut list.split(count));
            }
            stolen
        })
    }

    /// Returns how many tasks the lists contain. Wait-free; a hint while others push and pop.
    pub(crate) fn len(&self) -> usize {
        // Relaxed: as XQ1. [XQ5]
        self.len.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for RunQueue {
    fn drop(&mut self) {
        drop(self.take_newest());
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;
    use crate::priority::Priority;
    use crate::task::testing::{Count, task};
    use std::vec::Vec;

    #[test]
    fn lists_are_first_in_first_out_and_thieves_take_half() {
        let count = Count::new();
        let queue = RunQueue::default();
        let mut order = Vec::new();
        for _ in 0..7 {
            let task = task(&count, Priority::Normal);
            order.push(task.address());
            queue.push(task);
        }
        let mut stolen = queue.steal();
        let first: Vec<_> = core::iter::from_fn(|| stolen.pop())
            .map(|task| task.address())
            .collect();
        assert_eq!(first, order[..4]);
        let rest: Vec<_> = core::iter::from_fn(|| queue.pop(None))
            .map(|task| task.address())
            .collect();
        assert_eq!(rest, order[4..]);
        assert_eq!(count.cancelled(), 7);
    }
}
