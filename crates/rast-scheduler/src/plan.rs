//! What the role protects: the wait store, and the right to take from the front queues.
//!
//! One worker at a time has the role, for one bounded round, by a lock that is only ever tried.
//! Another worker that needs it and finds it taken goes on without it: the holder looks at the
//! queues after it let the role go.

use core::fmt;
use core::mem;
use std::vec::Vec;

use rast_timers::primitive::sync::Arc;
use rast_timers::{CalendarStore, DeadlineStore, Instant};

use crate::next::Priority;
use crate::owned::{Address, NEVER, NOW, Owned};
use crate::shared::{Front, Shared};

/// Tasks that one round moves at most: due ones, and posted ones of each priority.
pub(crate) const ROUND: usize = 256;

/// Counts of the scheduler that are taken at once, for tasks that wait.
const CREDIT: usize = 256;

/// The wait store and its bookkeeping.
pub(crate) struct Plan {
    store: CalendarStore<Address>,
    /// Entries that have a deadline.
    timed: usize,
    /// By priority: the last round took tasks from that front queue and did not move all of them.
    is_left: [bool; Priority::COUNT],
    /// Counts of the scheduler for tasks that will wait. Each entry of the store has one, which
    /// passes to the thread that takes the task out of waiting.
    credit: usize,
}

/// What a round came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Tasks were taken from the front or became due.
    pub(crate) moved: bool,
    /// More is left.
    pub(crate) more: bool,
    /// No entry is due before.
    pub(crate) next: u64,
    pub(crate) timed: usize,
}

impl Plan {
    pub(crate) fn new() -> Self {
        Self {
            store: CalendarStore::new(),
            timed: 0,
            is_left: [false; Priority::COUNT],
            credit: 0,
        }
    }

    /// Moves what is due at `now` and what was posted, a bounded number; `ready` is handed what a
    /// worker may run.
    pub(crate) fn round(
        &mut self,
        shared: &Arc<Shared>,
        fronts: &[Front; Priority::COUNT],
        now: u64,
        mut ready: impl FnMut(Owned),
    ) -> Round {
        let (mut fired, mut claimed) = (0, 0);
        let swept = self.store.expire(Instant::from_nanos(now), ROUND, |due| {
            fired += 1;
            // SAFETY: the address was in the store of this role.
            let header = unsafe { due.value.header() };
            header.set_entry(None);
            // SAFETY: as above. A task that another thread took arrives at the front queue.
            if let Some(mut task) = unsafe { due.value.claim() } {
                claimed += 1;
                task.set_expired(true);
                ready(task);
            }
        });
        self.timed -= fired;
        self.credit += claimed;
        let (mut moved, mut more) = (fired > 0, swept.more);
        for (class, front) in fronts.iter().enumerate() {
            if front.is_empty() && !self.is_left[class] {
                continue;
            }
            let Some(mut posted) = front.consumer() else {
                // The queue has one consumer, and it is the role's.
                unreachable!("the right to consume belongs to the role");
            };
            for _ in 0..ROUND {
                let Some(task) = posted.pop() else { break };
                moved = true;
                if let Some(task) = self.admit(task, shared, now) {
                    ready(task);
                }
            }
            self.is_left[class] = !posted.is_empty();
            more |= self.is_left[class];
        }
        Round {
            moved,
            more,
            next: self.next(),
            timed: self.timed,
        }
    }

    /// The time before which no entry is due.
    fn next(&self) -> u64 {
        if self.timed == 0 {
            return u64::MAX;
        }
        self.store
            .next_deadline()
            .map_or(u64::MAX, Instant::as_nanos)
    }

    /// Gives a posted task back if a worker may run it; otherwise it waits from here on.
    #[inline]
    fn admit(&mut self, mut task: Owned, shared: &Arc<Shared>, now: u64) -> Option<Owned> {
        let due = task.due();
        if due == NOW {
            task.set_expired(true);
            return Some(task);
        }
        if task.header().entry().is_some() {
            self.forget(&task);
            task.set_expired(due <= now);
            return Some(task);
        }
        if due <= now {
            task.set_expired(true);
            return Some(task);
        }
        task.set_expired(false);
        self.wait(task, due, shared)
    }

    /// Takes the entry of a task that was woken out of the store.
    #[inline]
    fn forget(&mut self, task: &Owned) {
        if let Some(entry) = task.header().entry() {
            let address = self.store.cancel(entry);
            debug_assert!(
                address.is_some(),
                "an entry stays until the role takes it out"
            );
            self.timed -= usize::from(task.due() != NEVER);
            task.header().set_entry(None);
        }
    }

    /// Puts a task to wait; gives it back if it was woken before.
    #[inline]
    fn wait(&mut self, task: Owned, due: u64, shared: &Arc<Shared>) -> Option<Owned> {
        let address = task.address();
        if self.credit == 0 {
            for _ in 0..CREDIT {
                mem::forget(Arc::clone(shared));
            }
            self.credit = CREDIT;
        }
        if let Some(task) = task.wait(Arc::as_ptr(shared)) {
            return Some(task);
        }
        // The task may be woken already; it then waits in a front queue for this role, and is
        // there.
        self.credit -= 1;
        self.timed += usize::from(due != NEVER);
        let entry = self.store.insert(Instant::from_nanos(due), address);
        // SAFETY: the address is in the store of this role.
        unsafe { address.header() }.set_entry(Some(entry));
        None
    }

    /// Takes all tasks out: those of the front queues into `ready`, those that wait into `waiting`,
    /// by deadline.
    ///
    /// Closes the front queues if `close`, and gives up the counts of the scheduler.
    pub(crate) fn empty(
        &mut self,
        shared: &Arc<Shared>,
        fronts: &[Front; Priority::COUNT],
        close: bool,
        ready: &mut Vec<Owned>,
        waiting: &mut Vec<Owned>,
    ) {
        self.take_posted(fronts, false, ready, waiting);
        while let Some(due) = self.store.pop_due(Instant::from_nanos(NEVER)) {
            // SAFETY: the address was in the store of this role.
            unsafe { due.value.header() }.set_entry(None);
            // SAFETY: as above. One that another thread took arrives at the front queue, or is
            // refused there.
            if let Some(task) = unsafe { due.value.claim() } {
                self.credit += 1;
                waiting.push(task);
            }
        }
        if close {
            // After the store: a task that is refused ends, so the store must not have its address
            // then.
            self.take_posted(fronts, true, ready, waiting);
        }
        self.timed = 0;
        self.is_left = [false; Priority::COUNT];
        for _ in 0..mem::take(&mut self.credit) {
            // SAFETY: one of the counts that `wait` took and no task has.
            drop(unsafe { Arc::from_raw(Arc::as_ptr(shared)) });
        }
    }

    /// Takes out what was posted, and closes the front queues before if `close`.
    fn take_posted(
        &mut self,
        fronts: &[Front; Priority::COUNT],
        close: bool,
        ready: &mut Vec<Owned>,
        waiting: &mut Vec<Owned>,
    ) {
        for front in fronts {
            let Some(mut posted) = front.consumer() else {
                unreachable!("the right to consume belongs to the role");
            };
            if close {
                posted.close();
            }
            for task in posted.take_all() {
                let is_woken = task.header().entry().is_some();
                self.forget(&task);
                if task.due() == NOW || is_woken {
                    ready.push(task);
                } else {
                    waiting.push(task);
                }
            }
        }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("waiting", &self.store.len())
            .field("timed", &self.timed)
            .finish_non_exhaustive()
    }
}
