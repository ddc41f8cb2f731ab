//! What a step sees of its task and its scheduler.

use core::fmt;
use core::mem::ManuallyDrop;

use rast_timers::primitive::sync::Arc;
use rast_timers::{Instant, Nanos};

use crate::next::Next;
use crate::owned::{Owned, Reference, instant};
use crate::shared::Shared;
use crate::{Remote, TaskHandle};

/// What a step sees of its task and its scheduler. All calls are wait-free, except where they say
/// otherwise.
pub struct Cx<'a> {
    task: &'a Owned,
    shared: &'a Arc<Shared>,
    worker: usize,
}

impl<'a> Cx<'a> {
    pub(crate) fn new(task: &'a Owned, shared: &'a Arc<Shared>, worker: usize) -> Self {
        Self {
            task,
            shared,
            worker,
        }
    }

    /// Reads the scheduler's clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.shared.now())
    }

    /// Returns whether this step runs because its time had come: its deadline was past when it was
    /// scheduled, or it had none. Otherwise the task was woken or signalled before.
    ///
    /// A task may be expired and signalled at once.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.task.is_expired()
    }

    /// Returns the deadline that the task waited for, `None` if it waited to be woken.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        instant(self.task.due())
    }

    /// Returns whether there is a signal that was not received.
    #[must_use]
    pub fn is_signaled(&self) -> bool {
        self.task.header().status().has(crate::status::SIGNALED)
    }

    /// Receives the signal; returns whether there was one. What its sender did before is visible
    /// then.
    ///
    /// Until it is received, the task does not wait: whatever a step answers, the next one follows.
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

    /// Returns the number of the worker that runs this step, below the number of workers.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The answer of a step that runs again after `span`. Reads the clock.
    pub fn after(&self, span: Nanos) -> Next {
        Next::At(self.now().saturating_add(span))
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
