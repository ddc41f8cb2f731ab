//! Calls for threads of the program's own, awaited as tasks are.

use core::cell::Cell;

use crate::blocking::Call;
use crate::primitive::sync::Arc;
use crate::task::{JoinHandle, Poller, Schedule, Setup, Task, make};

/// A call that any thread may run, once. Its handle is that of a task.
///
/// A thread pool of the program's own queues jobs. The handle gives the result or the panic. An
/// abort before the job begins has it dropped where it would run; later ones do nothing. A job that
/// is dropped is cancelled.
///
/// Cost: two allocations, and a few read-modify-writes.
///
/// # Examples
///
/// ```
/// use rast_executor::{Job, block_on};
///
/// let (job, handle) = Job::new(|| 6 * 7);
/// std::thread::spawn(|| job.run());
/// assert_eq!(block_on(handle).unwrap(), 42);
///
/// let (job, handle) = Job::new(|| 1);
/// drop(job);
/// assert!(block_on(handle).unwrap_err().is_cancelled());
/// ```
#[derive(Debug)]
#[must_use = "a job that is dropped is cancelled"]
pub struct Job(Task);

/// What would queue the task again: a call is complete after its one run.
struct Never;

// SAFETY: 1. There is no list. 2. `is_inside` is false. 3. The calls are `Send`.
unsafe impl Schedule for Never {
    fn schedule(&self, task: Task) {
        task.cancel();
    }

    fn is_inside(&self) -> bool {
        false
    }

    fn forget(&self, _: &Task) {}
}

impl Job {
    /// Makes a job of a call.
    pub fn new<T, F>(call: F) -> (Self, JoinHandle<T>)
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let future = Call(Some(call));
        // SAFETY: nothing is borrowed, and the future is `Send`.
        let (task, owned, handle) = unsafe { make(future, Arc::new(Never), Setup::default()) };
        // The completion drops this reference.
        let _ = owned.into_raw();
        (Self(task), handle)
    }

    /// Runs the call; if its handle was aborted, drops it instead. A panic goes to the handle.
    pub fn run(self) {
        let yielded = Cell::new(false);
        self.0.run(Poller { yielded: &yielded });
    }
}
