//! A list of tasks that wait for the same thing: for room in a door, or for a message of a lane.
//!
//! ```text
//!   enter ──► [ 3 | 4 | 7 ] ──► wake: the first ones leave the list, and their wakers are called
//!               numbers ascend
//! ```
//!
//! 1. A task enters the list, looks once more at what it waits for, and then returns `Pending`. So
//!    a wake-up that came before the task entered is not missed: the look finds the room or the
//!    message that caused the wake-up.
//! 2. A wake-up takes a task out of the list. The task has to look, or to pass the wake-up on: a
//!    future that is dropped wakes the next task.
//! 3. A stream or a sink may exist without being polled, for example after `select!` chose another
//!    branch. Then it neither looks nor passes the wake-up on. So a wake-up of a stream or a sink
//!    also wakes the next task.
//!
//! Wakers are cloned, called and dropped outside of the lock, because they are user code. A panic
//! of a waker concerns only its task, so it is contained.

use core::task::Waker;
use std::collections::VecDeque;

use crate::primitive::panics::{discard, quietly};
use crate::primitive::sync::Mutex;

/// What a task waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A future, which is polled or dropped soon after its wake-up.
    Future,
    /// A stream or a sink, which may be neither.
    Stays,
}

struct Entry {
    number: u64,
    waker: Waker,
    waiter: Waiter,
}

#[derive(Default)]
struct List {
    next: u64,
    waiting: VecDeque<Entry>,
}

impl List {
    fn find(&self, number: u64) -> Option<usize> {
        self.waiting
            .binary_search_by_key(&number, |entry| entry.number)
            .ok()
    }
}

/// The list. Each task keeps its own number, `None` while it has not entered.
pub(crate) struct Tasks {
    list: Mutex<List>,
}

impl Tasks {
    pub(crate) fn new() -> Self {
        Self {
            list: Mutex::new(List::default()),
        }
    }

    /// Enters the list, or replaces the waker there. Calls `mark` under the lock: the list holds
    /// a task.
    pub(crate) fn enter(
        &self,
        task: &mut Option<u64>,
        waker: &Waker,
        waiter: Waiter,
        mark: impl FnOnce(),
    ) {
        let waker = waker.clone();
        let mut list = self.list.lock();
        let before = match task.and_then(|own| list.find(own)) {
            Some(at) => Some(core::mem::replace(&mut list.waiting[at].waker, waker)),
            None => {
                let number = list.next;
                list.next += 1;
                *task = Some(number);
                list.waiting.push_back(Entry {
                    number,
                    waker,
                    waiter,
                });
                None
            }
        };
        mark();
        drop(list);
        discard(before);
    }

    /// Returns `true` if the task is in the list: it has entered and was not woken since.
    pub(crate) fn holds(&self, task: Option<u64>) -> bool {
        task.is_some_and(|own| self.list.lock().find(own).is_some())
    }

    /// Leaves the list. Returns `true` if a wake-up had taken the task out of it; the caller must
    /// then pass the wake-up on.
    pub(crate) fn leave(&self, task: &mut Option<u64>) -> bool {
        let Some(own) = task.take() else {
            return false;
        };
        let mut list = self.list.lock();
        let entry = list.find(own).and_then(|at| list.waiting.remove(at));
        drop(list);
        let was_woken = entry.is_none();
        discard(entry);
        was_woken
    }

    /// Wakes up to `most` tasks, in the order in which they entered; streams and sinks do not
    /// count. Calls `unmark` under the lock if the list is empty then.
    #[cold]
    pub(crate) fn wake(&self, most: usize, mut unmark: impl FnMut()) {
        let mut left = most;
        let mut end = None;
        while left > 0 {
            let mut list = self.list.lock();
            // A task that enters again meanwhile has looked, and is not woken again.
            let end = *end.get_or_insert(list.next);
            let first = match list.waiting.front() {
                Some(entry) if entry.number < end => list.waiting.pop_front(),
                _ => None,
            };
            if list.waiting.is_empty() {
                unmark();
            }
            drop(list);
            let Some(entry) = first else {
                return;
            };
            left -= usize::from(entry.waiter == Waiter::Future);
            quietly(|| entry.waker.wake());
        }
    }
}
