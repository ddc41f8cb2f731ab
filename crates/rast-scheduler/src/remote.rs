//! The handle of a scheduler for any thread. What it posts is in `post.rs`.

use core::fmt;

use rast_timers::Instant;
use rast_timers::primitive::sync::Arc;

use crate::shared::Shared;

/// A handle of a scheduler, for any thread. It posts tasks; a thread that calls its `work` runs
/// tasks.
///
/// It is cloneable, and does not keep the scheduler alive: after the scheduler was dropped, a post
/// returns [`Closed`] with the task. A [`Scheduler`](crate::Scheduler) has all methods of `Remote`
/// too.
///
/// A post costs two atomic operations, and is lock-free unless it wakes a sleeping worker. Then it
/// takes that worker's parking lock for some instructions and makes a system call. A post of a
/// [`Task`](crate::Task) allocates nothing; a spawn allocates its task.
///
/// [`Closed`]: crate::queue::Closed
///
/// Tasks that are posted while the scheduler is stopped are kept, and run when it is started.
#[derive(Clone)]
pub struct Remote(pub(crate) Arc<Shared>);

impl Remote {
    /// Reads the scheduler's clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.0.now())
    }

    /// Returns the number of the scheduler's own threads.
    #[must_use]
    pub fn worker_threads(&self) -> usize {
        self.0.config.workers
    }

    /// Makes a worker that sleeps until a deadline read the clock again, for a clock that was moved
    /// manually.
    pub fn look(&self) {
        self.0.idle().hasten();
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("name", &self.0.config.name)
            .finish_non_exhaustive()
    }
}
