//! The settings of a scheduler.

use core::fmt;
use std::boxed::Box;
use std::io;
use std::string::String;

use rast_timers::primitive::thread;
use rast_timers::{Clock, MonotonicClock, Nanos};

use crate::idle::MAX_WORKERS;
use crate::scheduler::Scheduler;
use crate::shared::{Config, Shared};

/// Configures a [`Scheduler`].
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

impl Scheduler {
    /// Returns a builder.
    pub fn builder() -> Builder {
        Builder {
            workers: None,
            guests: 0,
            name: String::from("rast-scheduler"),
            batch: 64,
            batch_time: Nanos::from_micros(50),
            clock: Box::new(MonotonicClock::new()),
        }
    }
}

impl Builder {
    /// Sets the number of threads that the scheduler starts; by default the available parallelism.
    ///
    /// With 0 the scheduler runs only on threads of the user: see [`guests`](Self::guests). Workers
    /// and guests together are limited to [`MAX_WORKERS`].
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets how many threads of the user may [`work`](crate::Remote::work) at once; 0 by default.
    pub fn guests(mut self, guests: usize) -> Self {
        self.guests = guests;
        self
    }

    /// Sets the prefix of the thread names, to which their number is appended.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the maximum number of steps between two checks of the deadlines and posted tasks of a
    /// worker; 64 by default, minimum 1.
    pub fn batch(mut self, steps: usize) -> Self {
        self.batch = steps.max(1);
        self
    }

    /// Sets the target duration of a batch of steps, at the rate of the last one; 50 µs by default.
    pub fn batch_time(mut self, span: Nanos) -> Self {
        self.batch_time = span;
        self
    }

    /// Sets the clock of deadlines; [`MonotonicClock`] by default.
    ///
    /// A worker sleeps until a deadline by the system's time. If your clock does not follow the
    /// system's time, call [`Remote::look`](crate::Remote::look) each time that you have moved the
    /// clock.
    ///
    /// If the clock panics on a worker, the worker uses the last reading, so deadlines are late
    /// until the clock works again; [`Stats::clock_panics`](crate::Stats::clock_panics) counts the
    /// panics. If a sleep of an [`AsyncCx`](crate::AsyncCx) is polled while the clock panics, the
    /// sleep ends only if it was due before the last step of its task began. If a step reads the
    /// clock by [`Cx::now`](crate::Cx::now) or [`AsyncCx::now`](crate::AsyncCx::now), the panic
    /// counts as a panic of the step.
    ///
    /// Times of 2^64 - 2 ns and more count as 2^64 - 3 ns, because greater values mean "no
    /// deadline".
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
