//! The list of tasks that are not complete, so that a runtime that ends can cancel all of them.
//!
//! A task enters the list of the worker that spawned it. That list has four parts, each with a
//! lock; the task's address determines the part. So a spawning thread and the workers that end its
//! tasks seldom contend.
//!
//! Rules:
//!
//! 1. A task in the list is not complete, and the list has one of its references.
//! 2. A closed list accepts no task.

use core::ptr::NonNull;
use std_alloc::vec::Vec;

use crate::primitive::CachePadded;
use crate::primitive::sync::Mutex;
use crate::task::{Header, Task, TaskRef};

#[derive(Debug, Default)]
struct List {
    head: Option<NonNull<Header>>,
    len: usize,
    is_closed: bool,
}

// SAFETY: it owns references to tasks, which may be sent.
unsafe impl Send for List {}

/// The list.
#[derive(Debug, Default)]
pub(crate) struct Owned([CachePadded<Mutex<List>>; PARTS]);

/// Number of parts of the list.
const PARTS: usize = 4;

/// Writes one of the two links of a task in the list.
macro_rules! link {
    ($task:expr, $field:ident, $to:expr) => {{
        let to = $to;
        // SAFETY: the task is in the list or enters it, so it is alive.
        let header: &Header = unsafe { $task.as_ref() };
        header.$field.with_mut(|link| {
            // SAFETY: the links are touched under the lock of the list alone.
            unsafe { core::mem::replace(&mut *link, to) }
        })
    }};
}

impl Owned {
    /// The part for a task.
    fn part(&self, task: NonNull<Header>) -> &Mutex<List> {
        let address = task.as_ptr().addr();
        &self.0[((address >> 5) ^ (address >> 7)) % PARTS]
    }

    /// Adds a task to the list; returns the reference if the list is closed.
    pub(crate) fn adopt(&self, task: TaskRef) -> Result<(), TaskRef> {
        let raw = NonNull::from(task.header());
        let mut list = self.part(raw).lock();
        if list.is_closed {
            return Err(task);
        }
        let raw = task.into_raw();
        if let Some(head) = list.head {
            link!(head, owned_prev, Some(raw));
        }
        link!(raw, owned_next, list.head);
        list.head = Some(raw);
        list.len += 1;
        Ok(())
    }

    /// Removes a task, if it is in the list; the list's reference then belongs to the caller.
    ///
    /// # Safety
    ///
    /// The task is in no other list.
    pub(crate) unsafe fn forget(&self, task: &Task) {
        let raw = NonNull::from(task.header());
        let mut list = self.part(raw).lock();
        let prev = link!(raw, owned_prev, None);
        if prev.is_none() && list.head != Some(raw) {
            // The list was closed when the task came.
            return;
        }
        let next = link!(raw, owned_next, None);
        if let Some(next) = next {
            link!(next, owned_prev, prev);
        }
        match prev {
            Some(prev) => {
                link!(prev, owned_next, next);
            }
            None => list.head = next,
        }
        list.len -= 1;
    }

    /// Rejects tasks from now on.
    pub(crate) fn close(&self) {
        for part in &self.0 {
            part.lock().is_closed = true;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|part| part.lock().len).sum()
    }

    /// Returns references to all tasks in the list.
    pub(crate) fn all(&self) -> Vec<TaskRef> {
        let mut all = Vec::new();
        for part in &self.0 {
            let list = part.lock();
            all.reserve(list.len);
            let mut at = list.head;
            while let Some(raw) = at {
                // SAFETY: by rule 1 the task is alive under the lock.
                all.push(unsafe { TaskRef::of(raw) });
                // SAFETY: as above.
                let header = unsafe { raw.as_ref() };
                at = header.owned_next.with(|next| {
                    // SAFETY: under the lock.
                    unsafe { *next }
                });
            }
        }
        all
    }
}
