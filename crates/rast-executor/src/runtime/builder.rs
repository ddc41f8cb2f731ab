//! Setting up a runtime.

use core::fmt;
use core::time::Duration;
use std::io;
use std_alloc::format;
use std_alloc::string::String;
use std_alloc::vec::Vec;

use rast_timers::{Clock, MonotonicClock};

use super::lane::Shared;
use super::{Handle, Runtime, Worker};
use crate::blocking::{Pool, PoolSetup};
use crate::budget;
use crate::deadlines::{SharedClock, Timers};
use crate::driver::Driver;
use crate::idle::WORKERS_MAX;
use crate::local::shared_clock;
use crate::primitive::sync::Arc;
use crate::primitive::{Parker, thread};

/// Sets up a [`Runtime`].
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

/// How often a sleeping worker looks for a task behind one that blocks.
const WATCH: Duration = Duration::from_millis(250);

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

    /// Sets the number of worker threads; by default one for each processor.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Names the threads: workers are `NAME-0` and so on. By default `rast`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the stack of each worker, in bytes; by default that of std's threads.
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = Some(bytes);
        self
    }

    /// Sets how many operations of this crate may be ready in one poll of a task; 128 by default,
    /// from 1 to a billion.
    ///
    /// A poll that goes on after 65,536 operations were refused gets them again: it would not
    /// return otherwise.
    pub fn budget(mut self, operations: u32) -> Self {
        self.budget = operations;
        self
    }

    /// Sets the clock that sleeps go by; the system's monotonic one by default.
    ///
    /// For one that is moved by hand, call [`Handle::clock_moved`] after each move.
    pub fn clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Self {
        self.clock = Some(shared_clock(clock));
        self
    }

    /// Sets how often a sleeping worker looks for a task that cannot run because the worker that is
    /// to run it next blocks; 250 ms by default, `None` for never.
    ///
    /// Such a task is one that was woken last by the poll that blocks; all others are found at
    /// once. It is taken over within two of these periods, if a worker sleeps; a worker that is
    /// always busy looks by itself.
    pub fn watch(mut self, period: Option<Duration>) -> Self {
        self.watch = period;
        self
    }

    /// Sets how many threads for blocking calls there may be; 512 by default.
    pub fn blocking_threads(mut self, threads: usize) -> Self {
        self.blocking_threads = threads;
        self
    }

    /// Sets after which time without a call such a thread ends; ten seconds by default.
    pub fn keep_alive(mut self, time: Duration) -> Self {
        self.keep_alive = time;
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if there are no workers, more than 4095, no threads for blocking calls, a
    /// watch with a period of zero, or a zero byte in the name; and what the system says if it
    /// refuses a thread.
    pub fn build(self) -> io::Result<Runtime> {
        let refuse = |what| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if self.workers == 0 || self.workers > WORKERS_MAX {
            return refuse("a runtime has from 1 to 4095 workers");
        }
        if self.blocking_threads == 0 {
            return refuse("a runtime has at least one thread for blocking calls");
        }
        if self.watch == Some(Duration::ZERO) {
            return refuse("the period of the watch is not zero: idle workers would spin");
        }
        if self.name.contains('\0') {
            return refuse("the name of a thread contains no zero byte");
        }
        let clock = self
            .clock
            .unwrap_or_else(|| shared_clock(MonotonicClock::new()));
        let parkers: Vec<Parker> = (0..self.workers).map(|_| Parker::new()).collect();
        #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
        let driver = Driver::with_reactor(&parkers, crate::io::Reactor::new()?);
        #[cfg(not(all(feature = "io", not(any(rast_loom, rast_shuttle)))))]
        let driver = Driver::new(&parkers);
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
