//! A task before it is posted.

use core::fmt;

use rast_timers::Instant;

use crate::cell::Body;
use crate::cx::Cx;
use crate::next::Next;
use crate::owned::{NEVER, NOW, Owned, instant, nanos};
use crate::priority::Priority;
use crate::status::{SIGNALED, WOKEN};
use crate::task_handle::TaskHandle;

/// A body of steps: the callbacks of the original RAST design.
struct Steps<F>(F);

// The closure is called through `&mut`, so it need not be pinned.
impl<F> Unpin for Steps<F> {}

impl<F> Body for Steps<F>
where
    F: FnMut(&mut Cx<'_>) -> Next + Send + 'static,
{
    type Joint = ();

    #[inline]
    fn step(mut self: core::pin::Pin<&mut Self>, (): &(), cx: &mut Cx<'_>) -> Next {
        (self.0)(cx)
    }
}

/// A task that is not posted. Its owner may change, post or drop it; the drop ends the task.
///
/// A task is a small state machine: each step is one call, which returns by [`Next`] what to do
/// next. The task is allocated once, when it is made; posting, waiting and waking allocate nothing
/// for it.
///
/// ```
/// use rast_scheduler::{Next, Scheduler, Task};
/// use std::sync::mpsc;
///
/// let scheduler = Scheduler::new(1)?;
/// let (sender, receiver) = mpsc::channel();
/// let mut step = 0;
/// let task = Task::new(move |_| {
///     step += 1;
///     sender.send(step).unwrap();
///     if step < 3 { Next::Again } else { Next::Exit }
/// });
/// scheduler.post(task)?;
/// assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Posting a task moves it, so it cannot be posted twice:
///
/// ```compile_fail,E0382
/// # use rast_scheduler::{Next, Scheduler, Task};
/// # let scheduler = Scheduler::new(1).unwrap();
/// let task = Task::new(|_| Next::Exit);
/// scheduler.post(task);
/// scheduler.post(task);
/// ```
///
/// The data of a task moves between threads, so it must be `Send`:
///
/// ```compile_fail,E0277
/// # use rast_scheduler::{Next, Task};
/// let local = std::rc::Rc::new(1);
/// Task::new(move |_| { let _ = &local; Next::Exit });
/// ```
#[must_use = "a task that is dropped ends without a step"]
pub struct Task(pub(crate) Owned);

impl Task {
    /// Makes a task of steps. Allocates once.
    ///
    /// One thread at a time calls the steps, and each step happens-before the next. A step that
    /// panics ends the task; the panic is counted in the [`Stats`](crate::Stats).
    pub fn new(step: impl FnMut(&mut Cx<'_>) -> Next + Send + 'static) -> Self {
        Self(Owned::new(Steps(step), ()))
    }

    /// Sets the priority, [`Normal`](Priority::Normal) if none was set.
    pub fn with_priority(mut self, priority: Priority) -> Self {
        self.0.set_class(priority);
        self
    }

    /// Returns the priority.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.0.class()
    }

    /// Returns a handle for any thread.
    #[must_use]
    pub fn handle(&self) -> TaskHandle {
        TaskHandle(self.0.reference())
    }

    /// Returns the deadline for which [`Remote::post`](crate::Remote::post) posts the task, `None`
    /// if it waits to be woken.
    ///
    /// Until it is set, it is [`Instant::ORIGIN`], which means at once. A task that
    /// [`stop`](crate::Scheduler::stop) returned has the deadline that it waited for.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        instant(self.0.due())
    }

    /// Sets the deadline for which the task will be posted.
    pub fn set_deadline(&mut self, at: Instant) {
        self.0.set_due(nanos(at));
    }

    /// Makes the task wait to be woken when it is posted.
    pub fn set_wait(&mut self) {
        self.0.set_due(NEVER);
    }

    /// Makes the deadline `at` if that is earlier; it never moves later.
    pub fn adjust_deadline(&mut self, at: Instant) {
        let at = nanos(at).min(self.0.due());
        self.0.set_due(at);
    }

    /// Makes the task run at once when it is posted.
    pub fn clear_deadline(&mut self) {
        self.0.set_due(NOW);
    }

    /// Wakes the task: when it is posted, it runs at once. Lock-free.
    pub fn wake(&self) {
        self.0.header().status().raise(WOKEN);
    }

    /// Signals the task; the signal takes effect when the task is posted. Lock-free.
    pub fn signal(&self) {
        self.0.header().status().raise(SIGNALED);
    }

    /// Returns whether there is a signal that was not received. Wait-free.
    #[must_use]
    pub fn is_signaled(&self) -> bool {
        self.0.header().status().has(SIGNALED)
    }

    /// Receives the signal; returns whether there was one. Wait-free.
    pub fn take_signal(&mut self) -> bool {
        self.0.header().status().take_signal()
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("priority", &self.priority())
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}
