//! The settings of a runtime.

use core::fmt;
use core::time::Duration;
use std::io;
use std_alloc::format;
use std_alloc::string::String;
use std_alloc::vec::Vec;

use rast_timers::{Clock, MonotonicClock};

use super::lane::Shared;
use super::worker::Worker;
use super::{Handle, Runtime};
use crate::blocking::{Pool, PoolSetup};
use crate::budget;
use crate::deadlines::{SharedClock, Timers, shared_clock, trusted_clock};
use crate::idle::WORKERS_MAX;
use crate::primitive::sync::Arc;
use crate::primitive::{Parker, thread};
use crate::sleepers::Sleepers;

/// Configures a [`Runtime`].
///
/// ```
/// use rast_executor::Runtime;
///
/// let runtime = Runtime::builder()
///     .workers(2)
///     .name("web")
///     .budget(64)
///     .blocking_threads(8)
///     .build()
///     .unwrap();
/// assert_eq!(runtime.metrics().workers.len(), 2);
/// ```
#[must_use = "nothing starts before `build`"]
pub struct Builder {
    workers: usize,
    name: String,
    budget: u32,
    stack_bytes: Option<usize>,
    clock: Option<SharedClock>,
    watch: Option<Duration>,
    blocking_threads: usize,
    keep_alive: Duration,
}

/// How often a sleeping worker checks for a task that a blocked worker should run next.
const WATCH: Duration = Duration::from_millis(250);

impl Runtime {
    /// Starts a runtime with one worker per processor.
    ///
    /// # Errors
    ///
    /// The system's error if a thread cannot be started, as [`Builder::build`].
    pub fn new() -> io::Result<Self> {
        Builder::new().build()
    }

    /// Returns a builder.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            workers: thread::available_parallelism(),
            name: "rast".into(),
            budget: budget::DEFAULT,
            stack_bytes: None,
            clock: None,
            watch: Some(WATCH),
            blocking_threads: 512,
            keep_alive: Duration::from_secs(10),
        }
    }

    /// Sets the number of worker threads; one per processor by default.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Sets the prefix of the thread names: workers are `NAME-0` and so on. `rast` by default.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the stack size of each worker, in bytes; that of std's threads by default.
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = Some(bytes);
        self
    }

    /// Sets how many operations of this crate may succeed in one poll of a task; 128 by default.
    /// Values outside 1 to 2^30 − 1 are clamped.
    ///
    /// After 65,536 refused operations in one poll, further ones succeed: the poll is probably a
    /// loop that would never return.
    pub fn budget(mut self, operations: u32) -> Self {
        self.budget = operations;
        self
    }

    /// Sets the clock of sleeps; the system's monotonic one by default.
    ///
    /// If the clock is moved manually, call [`Handle::clock_moved`] after each move.
    ///
    /// Panics of the clock are caught, as by [`ContainedClock`](rast_timers::ContainedClock): a
    /// reading that panics returns an earlier time. The runtime reads the clock where a panic would
    /// lose a task or end a worker.
    pub fn clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Self {
        self.clock = Some(shared_clock(clock));
        self
    }

    /// Sets how often a sleeping worker checks for a task that cannot run because its worker is
    /// blocked; 250 ms by default, `None` for never.
    ///
    /// This concerns only the task that the blocked poll woke last: a sleeping worker takes it
    /// within two of these periods. Other tasks of a blocked worker are taken by an idle worker at
    /// once. A busy worker checks one other worker every 256 turns, whatever the period.
    pub fn watch(mut self, period: Option<Duration>) -> Self {
        self.watch = period;
        self
    }

    /// Sets the maximum number of threads for blocking calls; 512 by default.
    pub fn blocking_threads(mut self, threads: usize) -> Self {
        self.blocking_threads = threads;
        self
    }

    /// Sets how long such a thread waits for a call before it ends; ten seconds by default.
    pub fn keep_alive(mut self, time: Duration) -> Self {
        self.keep_alive = time;
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the number of workers is 0 or above 4095, the number of threads for
    /// blocking calls is 0, the watch period is zero, or the name contains a zero byte. The
    /// system's error if a thread cannot be started or, with the feature `io`, the poller cannot be
    /// created.
    pub fn build(self) -> io::Result<Runtime> {
        let refuse = |what| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if self.workers == 0 || self.workers > WORKERS_MAX {
            return refuse("the number of workers must be from 1 to 4095");
        }
        if self.blocking_threads == 0 {
            return refuse("the number of threads for blocking calls must not be zero");
        }
        if self.watch == Some(Duration::ZERO) {
            return refuse("the watch period must not be zero: idle workers would spin");
        }
        if self.name.contains('\0') {
            return refuse("the thread name must not contain a zero byte");
        }
        let clock = self
            .clock
            .unwrap_or_else(|| trusted_clock(MonotonicClock::new()));
        let parkers: Vec<Parker> = (0..self.workers).map(|_| Parker::new()).collect();
        #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
        let driver = Sleepers::with_reactor(&parkers, crate::io::Reactor::new()?);
        #[cfg(not(all(feature = "io", not(any(rast_loom, rast_shuttle)))))]
        let driver = Sleepers::new(&parkers);
        let driver = Arc::new(driver);
        let timers = Timers::new(clock, self.workers + 1, Arc::clone(&driver));
        let pool = Pool::new(PoolSetup {
            threads_max: self.blocking_threads,
            keep_alive: self.keep_alive,
            name: self.name.clone(),
        });
        let shared = Arc::new(Shared::new(
            self.workers,
            Arc::new(timers),
            driver,
            pool,
            self.budget.clamp(1, budget::MAX - 1),
            self.watch,
        ));
        let mut lanes = Shared::open(&shared);
        let outside = lanes.pop();
        let mut error = None;
        for (index, (lane, parker)) in lanes.into_iter().zip(parkers).enumerate() {
            let work = move || Worker::new(index, lane, parker).run();
            let name = format!("{}-{index}", self.name);
            let started = match error {
                None => thread::spawn_sized(name, self.stack_bytes, work).map(drop),
                Some(_) => Err(io::ErrorKind::Other.into()),
            };
            if let Err(refused) = started {
                error.get_or_insert(refused);
                shared.stop();
                shared.leave();
            }
        }
        match (error, outside) {
            (None, Some(lane)) => Ok(Runtime {
                handle: Handle { lane },
            }),
            (error, _) => Err(error.unwrap_or_else(|| io::ErrorKind::Other.into())),
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("workers", &self.workers)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
