//! Handles of tasks.

use core::fmt;

use rast_timers::primitive::sync::Arc;

use crate::owned::{Owned, Reference};
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

/// A handle of a task: wakes, signals and aborts it, from any thread, at any time.
///
/// A handle keeps only the task's memory alive. It does not keep the task from ending, or the
/// task's body from being dropped. Once the task is finished, or its scheduler was dropped, `wake`,
/// `signal` and `abort` return [`Finished`].
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
    /// Wakes the task: it runs at least one step after this call, without waiting for its deadline.
    ///
    /// What the caller did before is visible to that step. A task that is not posted yet runs once
    /// it is posted. Lock-free; one compare-exchange, and a push if the task waits.
    ///
    /// # Errors
    ///
    /// [`Finished`] if the task is finished.
    #[inline]
    pub fn wake(&self) -> Result<(), Finished> {
        self.raise(WOKEN)
    }

    /// Wakes the task, and sets a signal that it receives by
    /// [`Cx::take_signal`](crate::Cx::take_signal).
    ///
    /// Several signals may be received as one. A task with an unreceived signal does not wait,
    /// whatever deadline it returns. The next step of an `async` body receives the signal, and
    /// keeps it for [`AsyncCx::signal`](crate::AsyncCx::signal). Lock-free; one compare-exchange,
    /// and a push if the task waits.
    ///
    /// # Errors
    ///
    /// [`Finished`] if the task is finished.
    #[inline]
    pub fn signal(&self) -> Result<(), Finished> {
        self.raise(SIGNALED)
    }

    /// Ends the task before its next step: its body is dropped by the worker that would have run
    /// it. If the scheduler closes meanwhile, this call drops the body.
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
    // to move it. The home is a `Shared`: `Owned::wait` requires it.
    let home = unsafe { Arc::<Shared>::from_raw(home.cast()) };
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
