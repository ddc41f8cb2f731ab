//! State protected by the role: the wait store, and the right to pop from the front queues.
//!
//! The role is a lock for which no worker waits. One worker at a time has it, for one bounded
//! round. A worker that finds it taken continues without it, because the holder checks the queues
//! again after it has released the role.

use core::fmt;
use core::mem;
use std::vec::Vec;

use rast_timers::primitive::sync::Arc;
use rast_timers::queue::mpsc::intrusive::Queue;
use rast_timers::{CalendarStore, DeadlineStore, Instant};

use crate::owned::{Address, NEVER, NOW, Owned};
use crate::priority::Priority;

/// Maximum number of tasks that one round moves: due ones, and posted ones of each priority.
pub(crate) const ROUND: usize = 256;

/// Number of references to the scheduler that are acquired at once, for waiting tasks.
const CREDIT: usize = 256;

/// Why the role finds no other consumer of a front queue.
const CONSUMER: &str = "the right to consume belongs to the role";

/// A front queue.
pub(crate) type Front = Queue<Owned>;

/// The wait store and its data.
///
/// `S` below is the `Shared` of its scheduler, always the same.
pub(crate) struct Plan {
    store: CalendarStore<Address>,
    /// Number of entries with a deadline.
    timed: usize,
    /// By priority: `true` if the last round left tasks that it popped from that front queue.
    is_left: [bool; Priority::COUNT],
    /// Spare references to the scheduler for tasks that will wait. Each entry of the store has one,
    /// which passes to the thread that claims the task.
    credit: usize,
}

/// Result of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Tasks were popped from a front queue or became due.
    pub(crate) moved: bool,
    /// More tasks are left to move.
    pub(crate) more: bool,
    /// Time before which no entry is due.
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

    /// Moves a bounded number of due and posted tasks; passes those that a worker may run to
    /// `ready`.
    pub(crate) fn round<S>(
        &mut self,
        shared: &Arc<S>,
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
            // SAFETY: as above. A task that another thread claimed arrives at the front queue.
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
            let mut posted = front.consumer().expect(CONSUMER);
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

    /// Returns the time before which no entry is due.
    fn next(&self) -> u64 {
        if self.timed == 0 {
            return u64::MAX;
        }
        self.store
            .next_deadline()
            .map_or(u64::MAX, Instant::as_nanos)
    }

    /// Returns a posted task if a worker may run it; otherwise the task waits from here on.
    #[inline]
    fn admit<S>(&mut self, mut task: Owned, shared: &Arc<S>, now: u64) -> Option<Owned> {
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

    /// Removes the entry of a woken task from the store.
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

    /// Makes a task wait; returns it if it was woken before.
    #[inline]
    fn wait<S>(&mut self, task: Owned, due: u64, shared: &Arc<S>) -> Option<Owned> {
        let address = task.address();
        if self.credit == 0 {
            for _ in 0..CREDIT {
                mem::forget(Arc::clone(shared));
            }
            self.credit = CREDIT;
        }
        // SAFETY: only `Shared` calls the plan, so `S` is `Shared`. The credit is references to it,
        // and one of them goes with the task. The caller has the role.
        if let Some(task) = unsafe { task.wait(Arc::as_ptr(shared).cast()) } {
            return Some(task);
        }
        // The task may already be woken; then it is in a front queue of this role, and stays alive
        // there.
        self.credit -= 1;
        self.timed += usize::from(due != NEVER);
        let entry = self.store.insert(Instant::from_nanos(due), address);
        // SAFETY: the address is in the store of this role.
        unsafe { address.header() }.set_entry(Some(entry));
        None
    }

    /// Removes all tasks: those of the front queues into `ready`, the waiting ones into `waiting`,
    /// by deadline.
    ///
    /// Closes the front queues if `close` is `true`, and releases the references to the scheduler.
    pub(crate) fn empty<S>(
        &mut self,
        shared: &Arc<S>,
        fronts: &[Front; Priority::COUNT],
        close: bool,
        ready: &mut Vec<Owned>,
        waiting: &mut Vec<Owned>,
    ) {
        self.take_posted(fronts, false, ready, waiting);
        while let Some(due) = self.store.pop_due(Instant::from_nanos(NEVER)) {
            // SAFETY: the address was in the store of this role.
            unsafe { due.value.header() }.set_entry(None);
            // SAFETY: as above. A task that another thread claimed arrives at the front queue, or
            // is rejected there.
            if let Some(task) = unsafe { due.value.claim() } {
                self.credit += 1;
                waiting.push(task);
            }
        }
        if close {
            // After the store is emptied, because a rejected task ends.
            self.take_posted(fronts, true, ready, waiting);
        }
        self.timed = 0;
        self.is_left = [false; Priority::COUNT];
        for _ in 0..mem::take(&mut self.credit) {
            // SAFETY: a reference that `wait` acquired and no task has.
            drop(unsafe { Arc::from_raw(Arc::as_ptr(shared)) });
        }
    }

    /// Pops the posted tasks; closes the front queues first if `close`.
    fn take_posted(
        &mut self,
        fronts: &[Front; Priority::COUNT],
        close: bool,
        ready: &mut Vec<Owned>,
        waiting: &mut Vec<Owned>,
    ) {
        for front in fronts {
            let mut posted = front.consumer().expect(CONSUMER);
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
