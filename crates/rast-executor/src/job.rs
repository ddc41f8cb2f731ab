//! Calls for threads of the program, awaited as tasks are.

use core::cell::Cell;

use crate::primitive::sync::Arc;
use crate::task::{JoinHandle, Schedule, Setup, Task, make};

/// A call that any thread may run, once. Its handle is a [`JoinHandle`], like the handle of a task.
///
/// For programs with a thread pool of their own: the pool queues jobs, and its threads run them.
/// The handle returns the result or the panic. If the handle aborts the job before the call begins,
/// the thread that would have run the call drops it instead. A later abort does nothing. Dropping a
/// job cancels it.
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

/// The scheduler of jobs; it is never called, because a call is complete after its only run.
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
        let future = async move { call() };
        // SAFETY: nothing is borrowed, and the future is `Send`.
        let (task, owned, handle) = unsafe { make(future, Arc::new(Never), Setup::default()) };
        // The completion drops this reference.
        let _ = owned.into_raw();
        (Self(task), handle)
    }

    /// Runs the call; if its handle was aborted, drops it instead. The handle returns a panic.
    pub fn run(self) {
        self.0.run(&Cell::new(false));
    }
}
