//! Setting a sharder up.

use core::fmt;
use core::time::Duration;
use std::boxed::Box;
use std::string::{String, ToString};
use std::vec::Vec;

use crate::assignment::{Assignment, MAX_WORKERS};
use crate::balance::{Balancer, Greedy};
use crate::controller::Controller;
use crate::core_state::Core;
use crate::ids::{ShardId, WorkerId};
use crate::lead::Desk;
use crate::primitive::cell::UnsafeCell;
use crate::primitive::sync::Arc;
use crate::primitive::{WaitStrategy, thread};
use crate::protocol::{Baton, MAX_SHARDS, Park, ThreadPark};
use crate::sharder::Sharder;
use crate::slots::Slots;
use crate::timers::{Clock, MonotonicClock};
use crate::worker::{OnWorkerStart, Shared};

/// The default of [`Builder::period`].
const PERIOD: Duration = Duration::from_millis(100);

/// Builds a [`Sharder`]; returned by [`Sharder::builder`].
///
/// ```
/// use std::time::Duration;
/// use rast_sharder::{BuildError, Controller, Greedy, Progress, ShardId, Sharder, WorkerCx};
/// use rast_sharder::primitive::WaitStrategy;
///
/// struct Nothing;
///
/// impl Controller for Nothing {
///     type Shard = String;
///     type Load = ();
///     fn process(
///         &self,
///         _: &mut WorkerCx<'_>,
///         _: ShardId,
///         _: &mut String,
///         _: Option<&mut ()>,
///     ) -> Progress {
///         Progress::Idle
///     }
///     fn new_load(&self, _: ShardId) {}
/// }
///
/// let sharder = Sharder::builder(Nothing)
///     .shards(vec!["a".to_string(), "b".to_string()])
///     .workers(8)
///     .period(Duration::from_millis(50))
///     .balancer(Greedy::new().margin(0.1))
///     .wait(WaitStrategy::Park)
///     .build()?;
/// assert_eq!(sharder.workers(), 2, "no more workers than shards");
///
/// let refused = Sharder::builder(Nothing).build();
/// assert_eq!(refused.unwrap_err(), BuildError::NoShards);
/// # Ok::<(), BuildError>(())
/// ```
pub struct Builder<C: Controller> {
    controller: C,
    shards: Vec<C::Shard>,
    workers: Option<usize>,
    period: Duration,
    balancer: Box<dyn Balancer>,
    wait: WaitStrategy,
    park: Box<dyn FnMut(WorkerId) -> Box<dyn Park> + Send>,
    polls: bool,
    clock: Box<dyn Clock + Send + Sync>,
    thread_clock: Option<Box<dyn Clock + Send + Sync>>,
    assignment: Option<Assignment>,
    pins: Vec<(ShardId, WorkerId)>,
    dedicated: Vec<WorkerId>,
    on_worker_start: Option<OnWorkerStart>,
    name: String,
    #[cfg(feature = "affinity")]
    pins_threads: bool,
}

impl<C: Controller> Sharder<C> {
    /// Returns a builder for a sharder.
    pub fn builder(controller: C) -> Builder<C> {
        Builder {
            controller,
            shards: Vec::new(),
            workers: None,
            period: PERIOD,
            balancer: Box::new(Greedy::new()),
            wait: WaitStrategy::default(),
            park: Box::new(|_| Box::new(ThreadPark::new())),
            polls: false,
            clock: Box::new(MonotonicClock::new()),
            thread_clock: thread_clock(),
            assignment: None,
            pins: Vec::new(),
            dedicated: Vec::new(),
            on_worker_start: None,
            name: "rast-worker".to_string(),
            #[cfg(feature = "affinity")]
            pins_threads: false,
        }
    }
}

impl<C: Controller> Builder<C> {
    /// Sets the shards: the state of each, by number.
    #[must_use]
    pub fn shards(mut self, shards: Vec<C::Shard>) -> Self {
        self.shards = shards;
        self
    }

    /// Sets the number of workers, including the thread that calls [`run`](Sharder::run). At most
    /// as many workers run as there are shards. Default: the number of threads that the machine
    /// runs at once.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets how long a worker that has work measures before it requests a new assignment. If it is
    /// zero, no worker requests one by itself. Default: 100 ms.
    ///
    /// [`Greedy`] ignores windows shorter than its
    /// [`least_window`](Greedy::least_window), 1 ms by default.
    #[must_use]
    pub fn period(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Sets the balancer. Default: [`Greedy`].
    #[must_use]
    pub fn balancer(mut self, balancer: impl Balancer) -> Self {
        self.balancer = Box::new(balancer);
        self
    }

    /// Sets what a worker does without work.
    ///
    /// `Spin` checks for work repeatedly, without a system call; it is for workers that have cores
    /// of their own. `Park` sleeps at once. `Adaptive`, the default, checks for as long as a
    /// wake-up takes, about 40 µs, and then sleeps. If there are more workers than cores, it sleeps
    /// at once.
    #[must_use]
    pub fn wait(mut self, wait: WaitStrategy) -> Self {
        self.wait = wait;
        self
    }

    /// Sets what each worker sleeps in; [`build`](Self::build) calls `park` for each. Default: a
    /// condition variable.
    #[must_use]
    pub fn park<P: Park>(mut self, mut park: impl FnMut(WorkerId) -> P + Send + 'static) -> Self {
        self.park = Box::new(move |worker| Box::new(park(worker)));
        self.polls = true;
        self
    }

    /// Pins `shard` to `worker` for the whole run, for a shard that uses something of a thread,
    /// such as its poller. A balancer's assignment that moves the shard is rejected. If a shard is
    /// pinned twice, the later call counts.
    #[must_use]
    pub fn pin(mut self, shard: ShardId, worker: WorkerId) -> Self {
        self.pins.retain(|&(pinned, _)| pinned != shard);
        self.pins.push((shard, worker));
        self
    }

    /// Dedicates `worker` to the shards that it has at the start. Their turns may block on a file,
    /// a lock or a channel. The worker keeps these shards, gets no others, and takes part in no
    /// resharding, so no resharding waits for its turns. If a balancer's assignment moves a shard
    /// from or to this worker, the sharder refuses the assignment; [`Greedy`] makes no such
    /// assignment.
    ///
    /// A wake-up by one of its turns is sent at once, not at the end of the round. So a turn may
    /// [wake](crate::WorkerCx::wake) shards of other workers, and block until they have run.
    /// Meanwhile the other shards of this worker have no turns. Each wake-up costs a fence. While
    /// 64 wake-ups of this worker wait for the receiving worker, further ones arrive without their
    /// note (the number that the waker passes).
    ///
    /// The worker gets its shards by [`assignment`](Self::assignment) or [`pin`](Self::pin). These
    /// shards are not in the [`LoadView`](crate::LoadView), and
    /// [`WorkerCx::epoch`](crate::WorkerCx::epoch) is always 0 on this worker. If all workers are
    /// dedicated, requests for a resharding have no effect.
    ///
    /// ```
    /// # use rast_sharder::{Controller, Progress, ShardId, WorkerCx};
    /// # struct Nothing;
    /// # impl Controller for Nothing {
    /// #     type Shard = ();
    /// #     type Load = ();
    /// #     fn process(
    /// #         &self,
    /// #         _: &mut WorkerCx<'_>,
    /// #         _: ShardId,
    /// #         _: &mut (),
    /// #         _: Option<&mut ()>,
    /// #     ) -> Progress {
    /// #         Progress::Idle
    /// #     }
    /// #     fn new_load(&self, _: ShardId) {}
    /// # }
    /// use rast_sharder::{Assignment, Sharder, WorkerId};
    ///
    /// // Shards 0 and 1 may move between workers 0 and 1, and shard 2 stays at worker 2.
    /// let owners = [0, 1, 2].map(WorkerId::from_index).to_vec();
    /// let sharder = Sharder::builder(Nothing)
    ///     .shards(vec![(); 3])
    ///     .workers(3)
    ///     .assignment(Assignment::new(owners, 3)?)
    ///     .dedicate(WorkerId::from_index(2))
    ///     .build()?;
    /// assert_eq!(sharder.workers(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn dedicate(mut self, worker: WorkerId) -> Self {
        self.dedicated.push(worker);
        self
    }

    /// Sets a function that is called on the thread of each worker before its first turn, for
    /// example to set the thread's priority. A panic in it is recorded, and the worker continues.
    ///
    /// After the call the worker is placed once more, as [`run`](Sharder::run) says, because a
    /// thread that sleeps in the hook may wake up on another processor. If the hook has limited the
    /// thread to some processors, the thread is placed among these. If only one is left, or more
    /// than there are workers, the system chooses.
    #[must_use]
    pub fn on_worker_start(mut self, hook: impl Fn(WorkerId) + Send + Sync + 'static) -> Self {
        self.on_worker_start = Some(Box::new(hook));
        self
    }

    /// Sets the name of the threads that are started: `name-1`, `name-2` and so on. Default:
    /// `rast-worker`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Pins each worker's thread to one core: worker `n` to the `n`-th core that the process may
    /// use, beginning again if there are fewer. This includes the thread that calls
    /// [`run`](Sharder::run), which stays pinned. If the system refuses, a thread is not pinned.
    #[cfg(feature = "affinity")]
    #[must_use]
    pub fn pin_threads(mut self) -> Self {
        self.pins_threads = true;
        self
    }

    /// Sets the clock. Sleeps are in real time, whatever the clock shows: with a clock that does
    /// not advance, a worker wakes and finds no deadline due. Default: [`MonotonicClock`].
    ///
    /// The system's [`thread_clock`](Self::thread_clock) does not match another clock. So it is not
    /// used after this call, unless it is set again.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Self {
        self.clock = Box::new(clock);
        self.thread_clock = None;
        self
    }

    /// Sets the clock that tells how long the calling thread has run, at the pace of
    /// [`clock`](Self::clock). It is read twice in a window, so that time in which the system ran
    /// another thread does not count as load. It is not read after a decision that [needed no
    /// figures](crate::Balancer::needs_figures). Default: `ThreadClock` of
    /// [`timers`](crate::timers), where the system has it.
    #[must_use]
    pub fn thread_clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Self {
        self.thread_clock = Some(Box::new(clock));
        self
    }

    /// Sets the first assignment. Default: shards are assigned to workers in turn, by number.
    #[must_use]
    pub fn assignment(mut self, assignment: Assignment) -> Self {
        self.assignment = Some(assignment);
        self
    }

    /// Makes the sharder. No thread is started yet. Calls
    /// [`new_load`](Controller::new_load) for each shard.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); the shards are dropped then.
    pub fn build(self) -> Result<Sharder<C>, BuildError> {
        self.check()?;
        let shards = self.shards.len();
        let workers = self.worker_count();
        let mut assignment = self
            .assignment
            .unwrap_or_else(|| Assignment::round_robin(shards, workers));
        for &(shard, worker) in &self.pins {
            assignment.set_owner(shard, worker);
        }
        let slots = Slots::new(&self.controller, self.shards, workers);
        let sleeps = self.wait != WaitStrategy::Spin;
        let (baton, members) =
            Baton::with_dedicated(assignment.clone(), &self.dedicated, sleeps, self.park);
        let core = Arc::new(Core::new(baton, self.clock, self.thread_clock, assignment));
        let dedicated = &self.dedicated;
        let desk = Desk::new(
            self.balancer,
            workers,
            shards,
            self.pins,
            dedicated,
            core.clone(),
        );
        Ok(Sharder {
            shared: Shared {
                controller: self.controller,
                slots,
                core,
                desk: UnsafeCell::new(desk),
                period: self.period.into(),
                wait: match self.wait {
                    WaitStrategy::Adaptive if workers > thread::available_parallelism() => {
                        WaitStrategy::Park
                    }
                    wait => wait,
                },
                polls: self.polls,
                on_worker_start: self.on_worker_start,
                #[cfg(feature = "affinity")]
                pins_threads: self.pins_threads,
            },
            members,
            name: self.name,
        })
    }

    /// Checks whether [`build`](Self::build) would make a sharder, so that no shards are lost
    /// because of a wrong number.
    ///
    /// # Errors
    ///
    /// [`BuildError`], which names the fault.
    pub fn check(&self) -> Result<(), BuildError> {
        let shards = self.shards.len();
        if shards == 0 {
            return Err(BuildError::NoShards);
        }
        if shards > MAX_SHARDS {
            return Err(BuildError::TooManyShards(shards));
        }
        let workers = self.worker_count();
        if workers == 0 {
            return Err(BuildError::NoWorkers);
        }
        if workers > MAX_WORKERS {
            return Err(BuildError::TooManyWorkers(workers));
        }
        let is_off =
            |pin: &&(ShardId, WorkerId)| pin.0.index() >= shards || pin.1.index() >= workers;
        if let Some(&(shard, worker)) = self.pins.iter().find(is_off) {
            return Err(BuildError::Pin { shard, worker });
        }
        let mut dedicated = self.dedicated.iter();
        if let Some(&worker) = dedicated.find(|worker| worker.index() >= workers) {
            return Err(BuildError::Dedicated(worker));
        }
        match &self.assignment {
            Some(first) if first.shards() != shards || first.workers() != workers => {
                Err(BuildError::Assignment {
                    shards: (first.shards(), shards),
                    workers: (first.workers(), workers),
                })
            }
            _ => Ok(()),
        }
    }

    /// Returns how many workers there will be.
    fn worker_count(&self) -> usize {
        self.workers
            .unwrap_or_else(thread::available_parallelism)
            .min(self.shards.len())
    }
}

/// Returns the system's clock of the calling thread, where it has one.
fn thread_clock() -> Option<Box<dyn Clock + Send + Sync>> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(clock) = crate::timers::ThreadClock::new() {
        return Some(Box::new(clock));
    }
    None
}

impl<C: Controller> fmt::Debug for Builder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("shards", &self.shards.len())
            .field("workers", &self.workers)
            .field("period", &self.period)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

/// Why a sharder cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// No shards were given.
    NoShards,
    /// More than 2³¹ shards.
    TooManyShards(usize),
    /// Zero workers were requested.
    NoWorkers,
    /// More workers than [`MAX_WORKERS`].
    TooManyWorkers(usize),
    /// A pin names a shard or a worker that does not exist.
    Pin {
        /// The shard.
        shard: ShardId,
        /// The worker.
        worker: WorkerId,
    },
    /// A worker that does not exist is dedicated.
    Dedicated(WorkerId),
    /// The first assignment has another number of shards or workers.
    Assignment {
        /// Its shards, and those given.
        shards: (usize, usize),
        /// Its workers, and those there will be.
        workers: (usize, usize),
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoShards => f.write_str("a sharder needs at least one shard"),
            Self::TooManyShards(n) => write!(f, "{n} shards are more than the most, {MAX_SHARDS}"),
            Self::NoWorkers => f.write_str("a sharder needs at least one worker"),
            Self::TooManyWorkers(n) => {
                write!(f, "{n} workers are more than the most, {MAX_WORKERS}")
            }
            Self::Pin { shard, worker } => {
                write!(
                    f,
                    "{shard} is pinned to {worker}; one of them does not exist"
                )
            }
            Self::Dedicated(worker) => write!(f, "{worker} is dedicated and does not exist"),
            Self::Assignment { shards, workers } => write!(
                f,
                "the first assignment is for {} shards and {} workers; there are {} and {}",
                shards.0, workers.0, shards.1, workers.1
            ),
        }
    }
}

impl core::error::Error for BuildError {}
