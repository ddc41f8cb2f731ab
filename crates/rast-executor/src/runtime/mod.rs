//! The multi-threaded runtime.
//!
//! ```text
//!  threads outside ──► injector ─┐ looked at before each poll
//!                                ▼
//!  worker 0: newest, lists ──► poll        worker 1: newest, lists ──► poll      ...
//!                │ half, when another has nothing ▲
//!                └────────────────────────────────┘
//!  sleepers: one in the timers, the others in their parkers
//! ```

mod builder;
pub(crate) mod lane;
mod schedule;
mod shutdown;
mod turns;
pub(crate) mod worker;

pub use builder::Builder;
pub use shutdown::{Shutdown, Unfinished};

use core::fmt;
#[cfg(all(feature = "hyper", not(any(rast_loom, rast_shuttle))))]
use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::vec::Vec;

use crate::block_on::wait;
use crate::context::{self, OUTSIDE, Place, refuse_nested};
use crate::latency::ScheduleLatency;
use crate::metrics::Metrics;
use crate::primitive::sync::Arc;
use crate::priority::Priority;
use crate::runtime::lane::Lane;
use crate::task::{FUTURE_MAX, JoinHandle, Made, Setup, make, unmake};

/// A runtime: worker threads that run tasks, steal them from each other, and sleep when there are
/// none.
///
/// Dropping it does a [`shutdown`](Self::shutdown) without a grace period. This shutdown waits up
/// to a second for running polls. A [`Handle`] spawns from any thread.
///
/// # Examples
///
/// ```
/// use rast_executor::{Runtime, spawn};
///
/// let runtime = Runtime::builder().workers(2).build().unwrap();
/// let sum = runtime.block_on(async {
///     let parts: Vec<_> = (0..10).map(|n| spawn(async move { n * n })).collect();
///     let mut sum = 0;
///     for part in parts {
///         sum += part.await.unwrap();
///     }
///     sum
/// });
/// assert_eq!(sum, 285);
/// ```
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
}

/// Spawns on a [`Runtime`] from any thread; clones are cheap, and stay valid after the runtime has
/// ended.
#[derive(Clone)]
pub struct Handle {
    /// The lane of threads that are not workers.
    lane: Arc<Lane>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

/// The future that a runtime rejected because it was shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpawnError<F>(pub F);

impl<F> fmt::Display for SpawnError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime is shut down")
    }
}

impl<F: fmt::Debug> core::error::Error for SpawnError<F> {}

impl Runtime {
    /// Returns a handle, for other threads.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// As [`Handle::spawn`].
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// As [`Handle::task`].
    pub fn task(&self) -> TaskBuilder {
        self.handle.task()
    }

    /// As [`Handle::spawn_blocking`].
    pub fn spawn_blocking<T, F>(&self, call: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.handle.spawn_blocking(call)
    }

    /// As [`Handle::block_on`].
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }

    /// Returns a snapshot of the statistics. Reads some 160 words per worker, and takes the locks
    /// of the lists of tasks.
    ///
    /// ```
    /// use rast_executor::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// assert!(runtime.metrics().workers.iter().any(|worker| worker.polls > 0));
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let shared = &*self.handle.lane.shared;
        let mut workers = Vec::new();
        let mut schedule_latency = ScheduleLatency::default();
        for (queue, counters) in shared.queues.iter().zip(&shared.counters) {
            workers.push(counters.figures(queue.len() + usize::from(queue.has_newest())));
            schedule_latency.add(&counters.latencies);
        }
        let (active, searching) = shared.idle.counts();
        Metrics {
            workers,
            schedule_latency,
            active,
            searching,
            tasks: shared.tasks(),
            blocking_calls: shared.pool.calls(),
            blocking_threads: shared.pool.threads(),
        }
    }
}

impl Handle {
    /// Spawns a task, which starts at once on one of the workers.
    ///
    /// A future of at most 2 KiB is stored in its task, which is one allocation; a larger one is
    /// boxed separately. On a runtime that is shut down the future is dropped, and the handle
    /// returns an error. A spawn by a worker costs an allocation, and some ten read-modify-writes
    /// on cache lines of that worker. A spawn by another thread costs one more, on a line that all
    /// threads share.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_with(future, Setup::default())
    }

    /// As [`spawn`](Self::spawn); returns the future if the runtime is shut down.
    ///
    /// # Errors
    ///
    /// [`SpawnError`] with the future.
    ///
    /// ```
    /// use rast_executor::Runtime;
    /// use std::time::Duration;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let handle = runtime.handle().clone();
    /// assert!(handle.try_spawn(std::future::ready(1)).is_ok());
    /// runtime.shutdown(Duration::from_secs(10));
    /// let refused = handle.try_spawn(std::future::ready(2)).unwrap_err();
    /// assert_eq!(rast_executor::block_on(refused.0), 2);
    /// ```
    pub fn try_spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // SAFETY: nothing is borrowed, and the future is `Send`.
        let spawned = unsafe { self.try_spawn_unchecked(future, Setup::default()) };
        // SAFETY: they are of one task with this future, and nothing else has seen it.
        spawned.map_err(|made| SpawnError(unsafe { unmake(made) }))
    }

    fn spawn_with<F>(&self, future: F, setup: Setup) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        if size_of::<F>() > FUTURE_MAX {
            // SAFETY: nothing is borrowed, and the future is `Send`.
            return unsafe { self.spawn_unchecked(Box::pin(future), setup) };
        }
        // SAFETY: as above.
        unsafe { self.spawn_unchecked(future, setup) }
    }

    /// Makes a task on the lane of the calling thread; queues it, or returns its parts.
    ///
    /// # Safety
    ///
    /// 1. What the future and its output borrow must live until the task is complete and the handle
    ///    is dropped.
    /// 2. The future and its output must be `Send`.
    unsafe fn try_spawn_unchecked<F: Future>(
        &self,
        future: F,
        setup: Setup,
    ) -> Result<JoinHandle<F::Output>, Made<F::Output>> {
        context::with(|context| {
            let worker = self.lane.worker(context);
            let lane = worker.map_or(&self.lane, |worker| &worker.lane);
            // SAFETY: by the caller.
            let (task, owned, handle) = unsafe { make(future, Arc::clone(lane), setup) };
            if let Err(owned) = lane.owned.adopt(owned) {
                return Err((task, owned, handle));
            }
            match worker {
                Some(worker) => worker.push(task),
                None => lane.shared.inject(task),
            }
            Ok(handle)
        })
    }

    /// As `try_spawn_unchecked`; a rejected task is cancelled at once.
    ///
    /// # Safety
    ///
    /// As there.
    pub(crate) unsafe fn spawn_unchecked<F: Future>(
        &self,
        future: F,
        setup: Setup,
    ) -> JoinHandle<F::Output> {
        // SAFETY: by the caller.
        let spawned = unsafe { self.try_spawn_unchecked(future, setup) };
        spawned.unwrap_or_else(|(task, owned, handle)| {
            task.refuse(owned);
            handle
        })
    }

    /// Returns a builder for a task with a name or a priority.
    pub fn task(&self) -> TaskBuilder {
        TaskBuilder {
            handle: self.clone(),
            setup: Setup::default(),
        }
    }

    /// Runs `call` on a thread for blocking calls; the handle returns its result.
    ///
    /// Threads start as needed, up to the number set in the builder. They end after ten seconds
    /// without a call, or the time set in the builder. An abort prevents a call that has not begun,
    /// but does not stop a running one.
    ///
    /// ```
    /// use rast_executor::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let text = runtime.spawn_blocking(|| std::fs::read_to_string("Cargo.toml"));
    /// assert!(!runtime.block_on(text).unwrap().unwrap().is_empty());
    /// ```
    pub fn spawn_blocking<T, F>(&self, call: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.lane.shared.pool.spawn(call)
    }

    /// Polls `future` on the calling thread until it is ready; tasks run on the workers meanwhile.
    /// Blocking. The future need not be `Send`; it may use the free functions of this crate.
    ///
    /// # Panics
    ///
    /// If `future` panics. If it is called inside an executor, whose thread it would block.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        refuse_nested("block_on");
        context::enter(&Lane::outside(&self.lane), || wait(future))
    }

    /// Makes a sleep by the clock of this runtime, from outside it.
    #[cfg(all(feature = "hyper", not(any(rast_loom, rast_shuttle))))]
    pub(crate) fn sleep_for(&self, span: Duration) -> crate::sleep::Sleep {
        crate::sleep::Sleep::after(Arc::clone(&self.lane.shared.timers), span)
    }

    /// Makes the workers read their clock again, for a runtime whose clock is moved manually.
    pub fn clock_moved(&self) {
        self.lane.shared.timers.clock_moved();
    }
}

/// Spawns a task with a name or a priority: see [`Handle::task`].
#[must_use = "nothing is spawned before `spawn`"]
pub struct TaskBuilder {
    handle: Handle,
    setup: Setup,
}

impl fmt::Debug for TaskBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskBuilder").finish_non_exhaustive()
    }
}

impl TaskBuilder {
    /// Names the task, for reports and `Debug`. Costs two allocations.
    pub fn name(mut self, name: impl Into<Box<str>>) -> Self {
        self.setup.name = Some(name.into());
        self
    }

    /// Sets the priority of the task.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.setup.priority = priority;
        self
    }

    /// As [`Handle::spawn`].
    pub fn spawn<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn_with(future, self.setup)
    }
}

/// Spawns a task on the executor that runs the caller: see [`Handle::spawn`].
///
/// # Panics
///
/// Outside an executor.
///
/// ```
/// use rast_executor::{LocalExecutor, spawn};
///
/// assert_eq!(LocalExecutor::new().run(async { spawn(async { 1 }).await.unwrap() }), 1);
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    context::with(|context| match &context.expect(OUTSIDE).place {
        Place::Local(local) => local.spawn(future, Setup::default()),
        Place::Worker(worker) => Handle::of(&worker.lane).spawn(future),
        Place::Outside(lane) => Handle::of(lane).spawn(future),
    })
}

/// Runs a call on a thread for blocking calls: see [`Handle::spawn_blocking`].
///
/// # Panics
///
/// Outside of a [`Runtime`].
///
/// ```
/// use rast_executor::{Runtime, spawn_blocking};
///
/// let runtime = Runtime::new().unwrap();
/// assert_eq!(runtime.block_on(async { spawn_blocking(|| 1).await.unwrap() }), 1);
/// ```
#[track_caller]
pub fn spawn_blocking<T, F>(call: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    context::with(|context| match context.map(|context| &context.place) {
        Some(Place::Worker(worker)) => worker.shared.pool.spawn(call),
        Some(Place::Outside(lane)) => lane.shared.pool.spawn(call),
        _ => panic!("spawn_blocking outside of a Runtime: no pool of threads is here"),
    })
}

impl Handle {
    fn of(lane: &Arc<Lane>) -> Self {
        Self {
            lane: Arc::clone(lane),
        }
    }

    /// Returns the handle of the runtime that runs the caller; `None` outside of one.
    #[must_use]
    pub fn current() -> Option<Self> {
        context::with(|context| match context?.place {
            Place::Worker(worker) => Some(Self::of(&worker.lane)),
            Place::Outside(lane) => Some(Self::of(lane)),
            Place::Local(_) => None,
        })
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.end_now();
    }
}
