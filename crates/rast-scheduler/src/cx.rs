//! The view that a step has of its task and its scheduler.

use core::fmt;
use core::mem::ManuallyDrop;

use rast_timers::primitive::sync::Arc;
use rast_timers::{Instant, Nanos};

use crate::next::Next;
use crate::owned::{Owned, Reference, instant};
use crate::remote::Remote;
use crate::shared::Shared;
use crate::task_handle::TaskHandle;

/// The view that a step has of its task and its scheduler. Calls are wait-free, unless documented
/// otherwise.
pub struct Cx<'a> {
    task: &'a Owned,
    shared: &'a Arc<Shared>,
    worker: usize,
    /// The worker's last clock reading.
    reading: u64,
}

impl<'a> Cx<'a> {
    pub(crate) fn new(
        task: &'a Owned,
        shared: &'a Arc<Shared>,
        worker: usize,
        reading: u64,
    ) -> Self {
        Self {
            task,
            shared,
            worker,
            reading,
        }
    }

    /// Reads the scheduler's clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.shared.now())
    }

    /// Returns `true` if this step runs because the deadline of the task has passed, or because the
    /// task did not wait. `false` means that the task was woken or signalled before its deadline.
    ///
    /// A task may be both expired and signalled.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.task.is_expired()
    }

    /// Returns the deadline that the task waited for, `None` if it waited to be woken.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        instant(self.task.due())
    }

    /// Returns whether there is a signal that the task has not received.
    #[must_use]
    pub fn is_signaled(&self) -> bool {
        self.task.header().status().has(crate::status::SIGNALED)
    }

    /// Receives the signal; returns whether there was one. After `true`, what the sender did before
    /// the signal is visible.
    ///
    /// A task with an unreceived signal does not wait, even if its step asks to: the next step
    /// follows.
    pub fn take_signal(&mut self) -> bool {
        self.task.header().status().take_signal()
    }

    /// Returns a handle of the task. One read-modify-write.
    #[must_use]
    pub fn handle(&self) -> TaskHandle {
        TaskHandle(self.task.reference())
    }

    /// Returns the scheduler that runs this step. One read-modify-write, on a word that all workers
    /// share.
    #[must_use]
    pub fn scheduler(&self) -> Remote {
        Remote(Arc::clone(self.shared))
    }

    /// Returns the index of the worker that runs this step.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Returns the `Next` that runs the task again after `span`. Reads the clock.
    pub fn after(&self, span: Nanos) -> Next {
        Next::At(self.now().saturating_add(span))
    }

    /// Returns the latest time that this step knows: the last clock reading of its worker, or the
    /// deadline of the task if another worker has read that it passed.
    pub(crate) fn reading(&self) -> u64 {
        let due = if self.is_expired() {
            self.task.due()
        } else {
            0
        };
        self.reading.max(due)
    }

    /// Returns whether `scheduler` runs this step.
    pub(crate) fn is_on(&self, scheduler: &Remote) -> bool {
        Arc::ptr_eq(self.shared, &scheduler.0)
    }

    pub(crate) fn reference(&self) -> ManuallyDrop<Reference> {
        self.task.lend()
    }
}

impl fmt::Debug for Cx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx")
            .field("worker", &self.worker)
            .field("deadline", &self.deadline())
            .field("is_expired", &self.is_expired())
            .finish_non_exhaustive()
    }
}
