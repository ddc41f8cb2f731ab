//! A task before it is posted, and handles of tasks.

use core::fmt;

use rast_timers::Instant;
use rast_timers::primitive::sync::Arc;

use crate::cx::Cx;
use crate::next::{Next, Priority};
use crate::owned::{Body, NEVER, NOW, Owned, Reference, instant, nanos};
use crate::shared::Shared;
use crate::status::{ABORTED, FINISHED, Found, SIGNALED, WOKEN};

/// The task is finished: its body was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished;

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task is finished")
    }
}

impl core::error::Error for Finished {}

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

/// A task that is not posted: its owner may change it, post it, or drop it, which ends it.
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
/// The data of a task moves between threads:
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
    /// It is [`Instant::ORIGIN`], which means at once, unless it was set. A task that
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

/// A handle of a task: wakes, signals and aborts it, from any thread, at any time.
///
/// It does not keep the task from ending. Once the task is finished, also because its scheduler was
/// dropped, every call returns [`Finished`]. A handle keeps the task's memory, but not its body.
///
/// All calls are lock-free, except that a call that finds a sleeping worker takes that worker's
/// parking lock for some instructions and makes a system call.
///
/// ```
/// use rast_scheduler::{Finished, Next, Scheduler, Task};
///
/// let scheduler = Scheduler::new(1)?;
/// let task = Task::new(|cx| if cx.take_signal() { Next::Exit } else { Next::Wait });
/// let handle = task.handle();
/// scheduler.post_wait(task)?;
/// handle.signal()?;
/// assert!(scheduler.wait_idle(std::time::Duration::from_secs(10)));
/// assert_eq!(handle.signal(), Err(Finished));
/// drop(scheduler);
/// assert_eq!(handle.wake(), Err(Finished));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TaskHandle(pub(crate) Reference);

impl TaskHandle {
    /// Wakes the task: it runs at least once after this call, without waiting for its deadline.
    ///
    /// What the caller did before is visible to that step. A task that is not posted yet runs when
    /// it is. Lock-free; one compare-exchange, and a push if the task waits.
    ///
    /// # Errors
    ///
    /// [`Finished`] if the task is finished.
    #[inline]
    pub fn wake(&self) -> Result<(), Finished> {
        self.raise(WOKEN)
    }

    /// Wakes the task, and sets a signal that it receives by [`Cx::take_signal`].
    ///
    /// Several signals may be received as one. A task with an unreceived signal does not wait,
    /// whatever deadline it returns. Lock-free; one compare-exchange, and a push if the task waits.
    ///
    /// # Errors
    ///
    /// [`Finished`] if the task is finished.
    #[inline]
    pub fn signal(&self) -> Result<(), Finished> {
        self.raise(SIGNALED)
    }

    /// Ends the task before its next step: its body is dropped by the worker that would have run
    /// it.
    ///
    /// A step that is running ends first.
    ///
    /// # Errors
    ///
    /// [`Finished`] if the task is finished.
    pub fn abort(&self) -> Result<(), Finished> {
        self.raise(ABORTED)
    }

    /// Returns whether there is a signal that the task did not receive. Wait-free.
    #[must_use]
    pub fn is_signaled(&self) -> bool {
        let status = self.0.header().status();
        status.has(SIGNALED) && !status.has(FINISHED)
    }

    /// Returns whether the task is finished; if so, its effects are visible. Wait-free.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.header().status().is_finished()
    }

    #[inline]
    fn raise(&self, flag: usize) -> Result<(), Finished> {
        match self.0.header().status().raise(flag) {
            Found::Finished => Err(Finished),
            Found::Set => Ok(()),
            Found::Taken => {
                // SAFETY: this call has just claimed the right to move the task, and uses it only
                // here.
                let task = unsafe { self.0.owned() };
                // SAFETY: as above.
                unsafe { arrive(task) };
                Ok(())
            }
        }
    }
}

/// Posts a claimed task to the scheduler that it waited in.
///
/// # Safety
///
/// The caller's call of `raise` for this task returned `Taken`, and this is the only call for it.
#[inline]
unsafe fn arrive(task: Owned) {
    let home = task.header().home();
    // SAFETY: a waiting task has a reference to its home, which passed to the caller with the right
    // to move it.
    let home = unsafe { Arc::<Shared>::from_raw(home) };
    // A rejected post ends the task: its scheduler was dropped.
    let _ = home.post(task);
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle")
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}
