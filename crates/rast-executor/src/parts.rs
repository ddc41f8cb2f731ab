//! Parts of the protocols, for the models only; not part of the interface.

use core::cell::Cell;
use core::task::Waker;
use core::time::Duration;
use std_alloc::vec::Vec;

use rast_timers::{Instant, ManualClock, Nanos};

use crate::deadlines::{Timers, trusted_clock};
use crate::primitive::Parker;
use crate::primitive::sync::Arc;
use crate::sleepers::Sleepers;
use crate::task::{Setup, make};

use crate::JoinHandle;
pub use crate::idle::{Epoch, Idle, Notified};
pub use crate::injector::Injector;
pub use crate::run_queue::RunQueue;
pub use crate::task::{Schedule, Task};

/// Makes a task that is about to run, and its handle.
///
/// Its scheduler has no list of tasks: `forget` does nothing.
pub fn spawn<F, S>(future: F, scheduler: &Arc<S>) -> (Task, JoinHandle<F::Output>)
where
    F: Future + Send + 'static,
    F::Output: Send,
    S: Schedule,
{
    // SAFETY: nothing is borrowed, and the future is `Send`.
    let (task, owned, handle) = unsafe { make(future, Arc::clone(scheduler), Setup::default()) };
    // The completion drops this reference.
    let _ = owned.into_raw();
    (task, handle)
}

/// Runs a task once; returns it if it must run again.
pub fn run(task: Task) -> Option<Task> {
    task.run(&Cell::new(false))
}

/// Steals tasks from a queue.
pub fn steal(queue: &RunQueue) -> Vec<Task> {
    let mut stolen = queue.steal();
    core::iter::from_fn(|| stolen.pop()).collect()
}

/// The deadlines of one worker, and the sleep for them.
#[derive(Debug)]
pub struct Deadlines {
    timers: Timers,
    clock: ManualClock,
    driver: Arc<Sleepers>,
}

impl Deadlines {
    /// Makes an empty store for the worker with this parker.
    #[must_use]
    pub fn new(parker: &Parker) -> Self {
        let driver = Arc::new(Sleepers::new(core::slice::from_ref(parker)));
        let clock = ManualClock::new();
        Self {
            timers: Timers::new(trusted_clock(clock.clone()), 1, Arc::clone(&driver)),
            clock,
            driver,
        }
    }

    /// Parks, unless a deadline is due, without a timeout: another thread must unpark the caller.
    pub fn sleep(&self, parker: &Parker) {
        assert!(self.driver.try_hold(0), "one worker");
        if self.timers.begin_sleep() != Some(Duration::ZERO) {
            self.driver.sleep(parker, None, &mut Vec::new());
        }
        self.timers.end_sleep();
        self.driver.release();
    }

    /// Arms a deadline `at_ns` nanoseconds after the clock's origin.
    pub fn arm(&self, at_ns: u64) {
        let at = Instant::from_nanos(at_ns);
        let armed = self.timers.arm(0, at, Waker::noop().clone());
        assert!(armed.is_some(), "nothing closes the store");
    }

    /// Advances the clock by a nanosecond, and announces it.
    pub fn move_clock(&self) {
        self.clock.advance(Nanos::from_nanos(1));
        self.timers.clock_moved();
    }

    /// Fires the due deadlines; returns `true` if there were any.
    #[must_use]
    pub fn fire(&self) -> bool {
        self.timers.fire()
    }
}
