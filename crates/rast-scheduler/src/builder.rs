//! What a scheduler is told before it starts.

use core::fmt;
use std::boxed::Box;
use std::io;
use std::string::String;

use rast_timers::primitive::thread;
use rast_timers::{Clock, MonotonicClock, Nanos};

use crate::idle::MAX_WORKERS;
use crate::scheduler::Scheduler;
use crate::shared::{Config, Shared};

/// Sets up a [`Scheduler`].
///
/// ```
/// use rast_scheduler::{Scheduler, timers::Nanos};
/// let scheduler = Scheduler::builder()
///     .workers(2)
///     .guests(1)
///     .name("game")
///     .batch(32)
///     .batch_time(Nanos::from_micros(20))
///     .start()?;
/// assert_eq!(scheduler.stats().workers.len(), 3);
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "a builder does nothing before `build` or `start`"]
pub struct Builder {
    workers: Option<usize>,
    guests: usize,
    name: String,
    batch: usize,
    batch_time: Nanos,
    clock: Box<dyn Clock + Send + Sync>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            workers: None,
            guests: 0,
            name: String::from("rast-scheduler"),
            batch: 64,
            batch_time: Nanos::from_micros(50),
            clock: Box::new(MonotonicClock::new()),
        }
    }

    /// Sets the number of threads that the scheduler starts; as many as the machine runs at once if
    /// it is not set.
    ///
    /// With none, the scheduler runs on threads of the user alone: see [`guests`](Self::guests).
    /// With those, at most [`MAX_WORKERS`]; more count as that.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets how many threads of the user may [`work`](crate::Remote::work) at once; none if it is
    /// not set.
    pub fn guests(mut self, guests: usize) -> Self {
        self.guests = guests;
        self
    }

    /// Sets the name of the threads, to which their number is added.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets after how many steps at most a worker looks at deadlines and at what was posted; 64 if
    /// it is not set, and 1 at least.
    pub fn batch(mut self, steps: usize) -> Self {
        self.batch = steps.max(1);
        self
    }

    /// Sets how long a batch of steps should last, at the pace of the last one; 50 µs if it is not
    /// set.
    pub fn batch_time(mut self, span: Nanos) -> Self {
        self.batch_time = span;
        self
    }

    /// Sets the clock of deadlines; [`MonotonicClock`] if it is not set.
    ///
    /// A worker sleeps until a deadline by the system's time. With a clock that does not follow it,
    /// call [`Remote::look`](crate::Remote::look) after the clock was moved.
    ///
    /// A worker on which the clock panics goes on with its last reading, so deadlines are late
    /// until the clock answers again; [`Stats::clock_panics`](crate::Stats::clock_panics)
    /// counts it. A time from 2^64 - 2 ns on counts as the one before: a task without a
    /// deadline is never due.
    pub fn clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// Makes the scheduler without starting it.
    #[must_use]
    pub fn build(self) -> Scheduler {
        let workers = self.workers.unwrap_or_else(thread::available_parallelism);
        let guests = self.guests.min(MAX_WORKERS);
        let workers = workers.min(MAX_WORKERS - guests);
        let config = Config {
            name: self.name,
            workers,
            seats: workers + guests,
            batch: self.batch,
            batch_time: self.batch_time,
        };
        Scheduler::from_shared(Shared::new(config, self.clock))
    }

    /// Makes the scheduler and starts it.
    ///
    /// # Errors
    ///
    /// As [`Scheduler::start`].
    pub fn start(self) -> io::Result<Scheduler> {
        let scheduler = self.build();
        scheduler.start()?;
        Ok(scheduler)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("workers", &self.workers)
            .field("guests", &self.guests)
            .field("name", &self.name)
            .field("batch", &self.batch)
            .field("batch_time", &self.batch_time)
            .finish_non_exhaustive()
    }
}
