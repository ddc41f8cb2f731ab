//! The end of a runtime.
//!
//! 1. The lists of tasks are closed: no task can be spawned any more.
//! 2. Until the deadline, tasks may end by themselves.
//! 3. At the deadline the workers are told to return. A worker that stays in one poll after that is
//!    reported, and the shutdown does not wait for it.
//! 4. The last worker that returns cancels all remaining tasks. If a worker does not return, the
//!    caller cancels the tasks that no worker polls, and ends the waits for sockets and deadlines.

use core::mem::ManuallyDrop;
use core::time::Duration;
use std_alloc::string::String;
use std_alloc::vec::Vec;

use super::Runtime;
use super::lane::Lane;
use crate::context;

/// How long one poll may continue after the deadline before its worker counts as blocked. The
/// system may preempt the worker for some milliseconds.
const PATIENCE: Duration = Duration::from_millis(10);
/// The same for dropping a runtime, which has no deadline.
const PATIENCE_OF_DROP: Duration = Duration::from_secs(1);

/// A task that did not end by itself before its runtime was shut down.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// Its name, if it has one.
    pub name: Option<String>,
}

/// Result of a shutdown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "it says what did not end"]
#[non_exhaustive]
pub struct Shutdown {
    /// Tasks that were cancelled, or that a blocked worker is still polling.
    pub unfinished: Vec<Unfinished>,
    /// Number of workers that did not return from a poll. Each ends when its poll does.
    pub workers_blocked: usize,
    /// Number of blocking calls that are still running. Their threads end when the calls do.
    pub blocking_calls: usize,
}

impl Shutdown {
    /// Returns `true` if all tasks ended by themselves, and all threads returned.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.unfinished.is_empty() && self.workers_blocked == 0 && self.blocking_calls == 0
    }
}

impl Runtime {
    /// Ends the runtime. Rejects new tasks, waits up to `grace` for the existing ones to end, and
    /// cancels the remaining ones. Blocking. Returns the tasks that did not end by themselves.
    ///
    /// A worker that stays in one poll for ten milliseconds after the grace period counts as
    /// blocked, and is reported. Destructors of cancelled tasks run before this returns, unless a
    /// worker is blocked.
    ///
    /// Handles and wakers stay valid: a later spawn is rejected, a wake-up does nothing, a socket
    /// returns an error, and a sleep that another thread awaits panics with a message. If a task of
    /// this runtime calls `shutdown`, the call does not wait.
    ///
    /// ```
    /// use rast_executor::Runtime;
    /// use std::time::Duration;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let task = runtime.task().name("forever").spawn(std::future::pending::<()>());
    /// let ended = runtime.shutdown(Duration::from_millis(1));
    /// assert_eq!(ended.unfinished[0].name.as_deref(), Some("forever"));
    /// assert!(rast_executor::block_on(task).unwrap_err().is_cancelled());
    /// ```
    pub fn shutdown(self, grace: Duration) -> Shutdown {
        let ended = self.end(grace, PATIENCE);
        // The drop of `self` would end the runtime again.
        let this = ManuallyDrop::new(self);
        // SAFETY: the handle is read once, and `this` is neither used nor dropped after that.
        drop(unsafe { core::ptr::read(&this.handle) });
        ended
    }

    /// Ends the runtime, as it is dropped.
    pub(super) fn end_now(&self) {
        let _ = self.end(Duration::ZERO, PATIENCE_OF_DROP);
    }

    fn end(&self, grace: Duration, patience: Duration) -> Shutdown {
        let shared = &*self.handle.lane.shared;
        let is_inside = context::with(|context| self.handle.lane.worker(context).is_some());
        let grace = if is_inside { Duration::ZERO } else { grace };
        let start = std::time::Instant::now();
        shared.close();
        shared.wait(grace, |_| shared.tasks() == 0);
        let left = grace.saturating_sub(start.elapsed());
        let unfinished = shared.all();
        shared.stop();
        // Destructors run here; they must not wait for other tasks.
        let outside = Lane::outside(&self.handle.lane);
        context::enter(&outside, || shared.pool.close());
        let all_returned = !is_inside && shared.wait_for_workers(left, patience);
        if !all_returned {
            context::enter(&outside, || shared.cancel_all());
            shared.close_waits();
        }
        let unfinished = unfinished
            .iter()
            .map(|task| Unfinished {
                name: task.name().map(String::from),
            })
            .collect();
        Shutdown {
            unfinished,
            workers_blocked: shared.running(),
            blocking_calls: shared.pool.calls(),
        }
    }
}
