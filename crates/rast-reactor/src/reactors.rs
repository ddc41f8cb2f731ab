//! The reactors of a program: started together, stopped together.

use core::cell::OnceCell;
use core::fmt;
use core::time::Duration;
use std_alloc::format;
use std_alloc::rc::Rc;
use std_alloc::string::String;
use std_alloc::vec::Vec;

use rast_executor::queue::Queue;
use rast_executor::timers::{Clock, MonotonicClock};
use rast_executor::{LocalExecutor, RemoteSpawner, SharedClock, shared_clock, trusted_clock};

use crate::error::BuildError;
use crate::here::{BriefSpin, Here, Idle, TurnDriver, here_of};
use crate::pool::{Pool, PoolBuilder};
use crate::primitive::WaitStrategy;
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::Ordering;
use crate::primitive::thread::{self, JoinHandle};
use crate::quiet::Quiet;
use crate::reactor::Reactor;
use crate::registry::{Plan, Resources};
use crate::shared::{Phase, Shared};
use crate::watch::{Report, SlowPoll, Unfinished, Watch};

/// The most reactors of a set: there is a word for each ordered pair.
const REACTORS_MAX: usize = 1024;

/// A poll that takes longer is reported.
const SLOW: Duration = Duration::from_millis(1);

/// How long one poll may continue after the deadline before its reactor counts as blocked: a poll
/// takes microseconds, but the system may suspend its thread for milliseconds.
const PATIENCE: Duration = Duration::from_millis(10);
/// The same after a drop of [`Reactors`], which has no deadline. Also how long the drop of one task
/// may take.
const PATIENCE_OF_DROP: Duration = Duration::from_secs(1);

/// A thread that has begun.
struct Begun {
    remote: RemoteSpawner,
    #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
    chosen: crate::io::Chosen,
}

/// Reactors, each a thread with a [`LocalExecutor`], and a background [`Pool`].
///
/// Dropping it stops them without a grace period.
///
/// # Examples
///
/// ```
/// use rast_reactor::{Reactors, reactor_task, spawn_local};
/// use std::{cell::Cell, rc::Rc, time::Duration};
///
/// let reactors = Reactors::builder().number(2).build().unwrap();
/// let task = reactors.reactor(0).unwrap().spawn(|| async {
///     // What stays on this thread needs no lock.
///     let seen = Rc::new(Cell::new(0));
///     let theirs = Rc::clone(&seen);
///     spawn_local(async move { theirs.set(1) }).await.unwrap();
///     // What another reactor owns is asked for.
///     let other = reactor_task(1, || async { 41 }).await.unwrap();
///     seen.get() + other
/// });
/// assert_eq!(rast_reactor::executor::block_on(task).unwrap(), 42);
/// assert!(reactors.stop(Duration::from_secs(60)).is_clean());
/// ```
pub struct Reactors {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
    chosen: Vec<crate::io::Chosen>,
}

/// The result of a stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "it says what did not end"]
#[non_exhaustive]
pub struct Stopped {
    /// Tasks that did not end by themselves. Those of a reactor that returned are dropped.
    pub unfinished: Vec<Unfinished>,
    /// Reactors that did not return from a poll, or from a destructor of a task. Each ends when
    /// that poll or destructor returns.
    pub blocked: Vec<usize>,
    /// Threads of the pool that still run a task. Each ends after it.
    pub background: usize,
}

impl Stopped {
    /// Returns `true` if all tasks ended by themselves, and all threads returned.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.unfinished.is_empty() && self.blocked.is_empty() && self.background == 0
    }
}

impl Reactors {
    /// Sets up reactors.
    pub fn builder() -> Builder {
        Builder {
            number: None,
            cores: Vec::new(),
            name: "rast-reactor".into(),
            clock: None,
            slow: SLOW,
            report: None,
            pool: Pool::builder(),
            resources: Resources::new(),
            idle: Idle::Sleeps,
            #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
            io: crate::io::IoBuilder::default(),
        }
    }

    /// Returns which driver serves the sockets and files of a reactor, and why; `None` if there is
    /// no such reactor.
    ///
    /// ```
    /// let reactors = rast_reactor::Reactors::builder().number(1).build().unwrap();
    /// println!("{}", reactors.backend(0).unwrap());
    /// ```
    #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
    #[cfg_attr(docsrs, doc(cfg(feature = "io")))]
    #[must_use]
    pub fn backend(&self, reactor: usize) -> Option<&crate::io::Chosen> {
        self.chosen.get(reactor)
    }

    /// How many there are.
    #[must_use]
    pub fn number(&self) -> usize {
        self.shared.seats.len()
    }

    /// A reactor by its number; `None` if there is none.
    #[must_use]
    pub fn reactor(&self, index: usize) -> Option<Reactor> {
        (index < self.number()).then(|| Reactor {
            shared: Arc::clone(&self.shared),
            index,
        })
    }

    /// The background pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.shared.pool
    }

    /// How many polls of a reactor took longer than the limit.
    ///
    /// Measured are the polls of tasks that this crate spawned. `None` if there is no such reactor.
    #[must_use]
    pub fn slow_polls(&self, reactor: usize) -> Option<u64> {
        let seat = self.shared.seats.get(reactor)?;
        Some(seat.slow_polls.get())
    }

    /// How many read transactions of a reactor were open for longer than the limit. `None` if there
    /// is no such reactor. See [`Resources::long_read`].
    #[must_use]
    pub fn long_reads(&self, reactor: usize) -> Option<u64> {
        Some(self.shared.resources.long_reads.get(reactor)?.get())
    }

    /// How many tasks of a reactor are not complete. A call from another reactor does not count
    /// here, because its calling task counts there. `None` if there is no such reactor.
    #[must_use]
    pub fn tasks(&self, reactor: usize) -> Option<usize> {
        let seat = self.shared.seats.get(reactor)?;
        Some(seat.tasks.count().0)
    }

    /// Stops the reactors. Rejects tasks from threads outside of the reactors, waits up to `grace`
    /// for the existing tasks to end, and drops the remaining ones on their threads. Blocks until
    /// all this is done, and returns the tasks that did not end by themselves.
    ///
    /// Tasks may spawn and call each other during the grace period. A reactor counts as blocked if
    /// one of its polls still runs ten milliseconds after the grace period. `stop` does not wait
    /// for a blocked reactor. A reactor that drops its tasks counts as blocked if it drops none for
    /// a second. Tasks that wait in the queue of the background pool are cancelled. If a thread of
    /// one of these reactors calls `stop`, there is no grace period, and that reactor counts as
    /// blocked.
    ///
    /// ```
    /// use rast_reactor::Reactors;
    /// use std::time::Duration;
    ///
    /// let reactors = Reactors::builder().number(1).build().unwrap();
    /// let reactor = reactors.reactor(0).unwrap();
    /// let task = reactor.spawn_named("forever", || std::future::pending::<()>());
    /// let stopped = reactors.stop(Duration::ZERO);
    /// assert_eq!(stopped.unfinished[0].name.as_deref(), Some("forever"));
    /// assert!(rast_reactor::executor::block_on(task).is_err());
    /// ```
    pub fn stop(mut self, grace: Duration) -> Stopped {
        self.end(grace, PATIENCE)
    }

    fn end(&mut self, grace: Duration, patience: Duration) -> Stopped {
        let shared = &*self.shared;
        let inside = here_of(&self.shared).map(|here| here.index);
        let grace = if inside.is_some() {
            Duration::ZERO
        } else {
            grace
        };
        let begin = std::time::Instant::now();
        // Relaxed: the locks of the lists order it with what enters and leaves them.
        shared.is_closing.store(true, Ordering::Relaxed);
        {
            let mut phases = shared.phases.lock();
            while !shared.is_quiet() {
                let left = grace.saturating_sub(begin.elapsed());
                if left.is_zero() {
                    break;
                }
                shared.changed.wait_timeout(&mut phases, left);
            }
        }
        let unfinished = shared.unfinished();
        for reactor in 0..shared.seats.len() {
            shared.end(reactor);
        }
        let blocked: Vec<usize> = {
            let last = begin.elapsed().max(grace).saturating_add(patience);
            let mut patience = Patience::until(last);
            let mut phases = shared.phases.lock();
            loop {
                let numbered = phases.iter().enumerate();
                let others = numbered.filter(|&(at, _)| Some(at) != inside);
                if others.clone().all(|(_, &phase)| phase == Phase::Returned) {
                    break;
                }
                let ends = others.filter(|&(_, &phase)| phase == Phase::Ends);
                let tasks = ends.map(|(at, _)| shared.seats[at].tasks.count().0);
                let left = patience.left(begin.elapsed(), tasks.reduce(|sum, n| sum + n));
                if left.is_zero() {
                    break;
                }
                shared.changed.wait_timeout(&mut phases, left);
            }
            let numbered = phases.iter().enumerate();
            let others = numbered.filter(|&(_, &phase)| phase != Phase::Returned);
            others.map(|(at, _)| at).collect()
        };
        let left = grace.saturating_sub(begin.elapsed()).max(patience);
        let background = shared.pool.end(left);
        for (at, thread) in self.threads.drain(..).enumerate() {
            if !blocked.contains(&at) {
                // The thread has reported its return. Its panic is a fault of this crate, and was
                // reported by the hook.
                let _ = thread.join();
            }
        }
        Stopped {
            unfinished,
            blocked,
            background,
        }
    }
}

/// How long a stop waits for reactors that were told to return.
struct Patience {
    last: Duration,
    /// When the wait last timed out: how many tasks the reactors that drop their tasks still had.
    tasks: usize,
}

impl Patience {
    fn until(last: Duration) -> Self {
        Self {
            last,
            tasks: usize::MAX,
        }
    }

    /// How long to wait from `now` on. `tasks` is the number of tasks of the reactors that are
    /// dropping their tasks, or `None`; the wait continues while this number falls.
    fn left(&mut self, now: Duration, tasks: Option<usize>) -> Duration {
        if now >= self.last
            && let Some(tasks) = tasks
            && tasks < self.tasks
        {
            self.tasks = tasks;
            self.last = now.saturating_add(PATIENCE_OF_DROP);
        }
        self.last.saturating_sub(now)
    }
}

impl Drop for Reactors {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            let _ = self.end(Duration::ZERO, PATIENCE_OF_DROP);
        }
    }
}

impl fmt::Debug for Reactors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactors")
            .field("number", &self.number())
            .finish_non_exhaustive()
    }
}

/// Sets up [`Reactors`].
///
/// ```
/// use rast_reactor::{Pool, Reactors};
///
/// let reactors = Reactors::builder()
///     .number(2)
///     .name("ads")
///     .pool(Pool::builder().threads([1, 1, 1]))
///     .on_slow_poll(|slow| println!("{slow:?}"))
///     .build()
///     .unwrap();
/// assert_eq!(reactors.number(), 2);
/// ```
#[must_use = "nothing starts before `build`"]
pub struct Builder {
    number: Option<usize>,
    cores: Vec<usize>,
    name: String,
    clock: Option<SharedClock>,
    slow: Duration,
    report: Option<Report>,
    pool: PoolBuilder,
    resources: Resources,
    idle: Idle,
    #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
    io: crate::io::IoBuilder,
}

impl Builder {
    /// How many reactors; by default as many as cores are given, or as the machine has.
    pub fn number(mut self, number: usize) -> Self {
        self.number = Some(number);
        self
    }

    /// The core of each reactor, by the system's numbers; by default the system chooses.
    pub fn cores(mut self, cores: impl IntoIterator<Item = usize>) -> Self {
        self.cores = cores.into_iter().collect();
        self
    }

    /// The start of the threads' names, before their numbers; `rast-reactor` by default.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The clock of sleeps, of slow polls and of the pool; the system's monotonic one by default.
    ///
    /// A sleeping reactor does not notice that the program has moved a clock.
    pub fn clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Self {
        self.clock = Some(shared_clock(clock));
        self
    }

    /// A poll that takes longer is reported: 1 ms by default.
    pub fn slow_poll(mut self, limit: Duration) -> Self {
        self.slow = limit;
        self
    }

    /// Makes the reactors spin: a reactor without a ready task checks its driver repeatedly, and
    /// never sleeps.
    ///
    /// This saves the system call that sleeps, and the time until the system runs the thread again.
    /// With a single connection, these two make up most of the time of a request. The cost is a
    /// whole core for each reactor, even while there is no request. So give each reactor its own
    /// core by [`cores`](Self::cores). Two reactors that spin on one core take turns in time slices
    /// of milliseconds.
    ///
    /// ```
    /// use rast_reactor::{Reactors, reactor_task};
    ///
    /// let reactors = Reactors::builder().number(2).spin().build().unwrap();
    /// let task = reactors.reactor(0).unwrap().spawn(|| reactor_task(1, || async { 7 }));
    /// assert_eq!(rast_reactor::executor::block_on(task).unwrap().unwrap(), 7);
    /// ```
    pub fn spin(mut self) -> Self {
        self.idle = Idle::Spins;
        self
    }

    /// Sets the function that is called after each poll that took longer than the limit, on its
    /// thread. Panics of the function and of its destructor are contained. By default slow polls
    /// are only counted.
    pub fn on_slow_poll(mut self, report: impl Fn(&SlowPoll<'_>) + Send + Sync + 'static) -> Self {
        let report = Quiet::new(report);
        let report = move |poll: &SlowPoll<'_>| (*report)(poll);
        self.report = Some(crate::primitive::unsized_arc!(report));
        self
    }

    /// The background pool: [`Pool::builder`] by default. Its clock is the reactors' unless it has
    /// one.
    pub fn pool(mut self, pool: PoolBuilder) -> Self {
        self.pool = pool;
        self
    }

    /// The types of resources, and which reactor owns which; none by default. See
    /// [`registry`](crate::registry).
    pub fn resources(mut self, resources: Resources) -> Self {
        self.resources = resources;
        self
    }

    /// What serves sockets and files: [`Backend::Auto`](crate::io::Backend::Auto) by default.
    #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
    #[cfg_attr(docsrs, doc(cfg(feature = "io")))]
    pub fn backend(mut self, backend: crate::io::Backend) -> Self {
        self.io.backend = backend;
        self
    }

    /// How many buffers each reactor has for receives, a power of two, and the bytes of each: 256
    /// of 4,096 by default, at most 2^30 bytes in all. Allocated at the first receive of a chunk.
    #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
    #[cfg_attr(docsrs, doc(cfg(feature = "io")))]
    pub fn chunks(mut self, number: u16, bytes: usize) -> Self {
        self.io.chunks = (number, bytes);
        self
    }

    /// Faults to inject into I/O, for tests; none by default.
    #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
    #[cfg_attr(docsrs, doc(cfg(feature = "io")))]
    pub fn faults(mut self, faults: crate::io::Faults) -> Self {
        self.io.faults = Some(faults);
        self
    }

    /// Starts the reactors and the pool; returns when all of them run.
    ///
    /// # Errors
    ///
    /// [`BuildError`]: no reactors or more than 1,024, a core that is missing, a number of cores
    /// that is not that of the reactors, a name with a NUL, settings that the pool rejects, a
    /// backend that is not available, a type of resources without an owner or with two, or a thread
    /// that cannot be started. Nothing runs then.
    pub fn build(self) -> Result<Reactors, BuildError> {
        let number = match self.number {
            Some(number) => number,
            None if self.cores.is_empty() => thread::available_parallelism(),
            None => self.cores.len(),
        };
        if number == 0 {
            return Err(BuildError::NoReactors);
        }
        if number > REACTORS_MAX {
            return Err(BuildError::TooManyReactors);
        }
        if !self.cores.is_empty() && self.cores.len() != number {
            return Err(BuildError::Cores {
                reactors: number,
                cores: self.cores.len(),
            });
        }
        if self.name.contains('\0') {
            return Err(BuildError::Name);
        }
        #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
        {
            let (number, bytes) = self.io.chunks;
            let most = (1 << 30) / usize::from(number.max(1));
            if !number.is_power_of_two() || bytes == 0 || bytes > most {
                return Err(BuildError::Chunks);
            }
        }
        let clock = self
            .clock
            .unwrap_or_else(|| trusted_clock(MonotonicClock::new()));
        let (plans, resources) = self.resources.plans(number)?;
        let pool = self.pool.clock_if_none(&clock).build()?;
        let start = Arc::new(Start::default());
        let mut threads = Vec::with_capacity(number);
        for (index, plan) in plans.into_iter().enumerate() {
            let seat = Seat {
                index,
                core: self.cores.get(index).copied(),
                plan,
                idle: self.idle,
                #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
                io: self.io.clone(),
                clock: Arc::clone(&clock),
                start: Arc::clone(&start),
            };
            let name = format!("{}-{index}", self.name);
            match thread::spawn_named(name, move || seat.serve()) {
                Ok(thread) => threads.push(thread),
                Err(error) => return Err(start.give_up(threads, BuildError::Spawn(error))),
            }
        }
        let begun = match start.wait_for(number) {
            Ok(begun) => begun,
            Err(error) => return Err(start.give_up(threads, error)),
        };
        let watch = Watch {
            clock,
            limit: self.slow,
            report: self.report,
        };
        #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
        let chosen = begun.iter().map(|begun| begun.chosen.clone()).collect();
        let remotes = begun.into_iter().map(|begun| begun.remote).collect();
        let shared = Arc::new(Shared::new(remotes, pool, watch, resources));
        for _ in 0..number {
            let pushed = start.shared.push(Arc::clone(&shared));
            debug_assert!(
                pushed.is_ok(),
                "reactors: a start that succeeds is not closed"
            );
        }
        Ok(Reactors {
            shared,
            threads,
            #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
            chosen,
        })
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("number", &self.number)
            .field("cores", &self.cores)
            .field("name", &self.name)
            .field("slow_poll", &self.slow)
            .field("idle", &self.idle)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

/// How the threads of a set begin together.
#[derive(Default)]
struct Start {
    /// The results of the threads, with their numbers.
    begun: Queue<(usize, Result<Begun, BuildError>)>,
    /// The shared state, for each thread, once all have begun; closed if one could not.
    shared: Queue<Arc<Shared>>,
}

impl Start {
    /// Waits until each thread has reported its result.
    fn wait_for(&self, number: usize) -> Result<Vec<Begun>, BuildError> {
        let results = (0..number).filter_map(|_| self.begun.pop_wait(WaitStrategy::Park));
        let mut results: Vec<_> = results.collect();
        results.sort_by_key(|&(index, _)| index);
        results.into_iter().map(|(_, begun)| begun).collect()
    }

    /// Ends the threads that were started; returns why.
    fn give_up(&self, threads: Vec<JoinHandle<()>>, error: BuildError) -> BuildError {
        self.shared.close();
        for thread in threads {
            let _ = thread.join();
        }
        error
    }
}

/// What the thread of a reactor is given.
struct Seat {
    index: usize,
    core: Option<usize>,
    plan: Plan,
    idle: Idle,
    #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
    io: crate::io::IoBuilder,
    clock: SharedClock,
    start: Arc<Start>,
}

impl Seat {
    /// What the thread of a reactor does.
    fn serve(self) {
        let Self { index, clock, .. } = self;
        let report = |begun| {
            let pushed = self.start.begun.push((index, begun));
            debug_assert!(pushed.is_ok(), "reactors: nothing closes the results");
        };
        if let Some(core) = self.core
            && !pin(core)
        {
            return report(Err(BuildError::MissingCore(core)));
        }
        #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
        let (io, sleeps, chosen) = match self.io.build() {
            Ok(built) => built,
            Err(error) => return report(Err(BuildError::Io(error))),
        };
        #[cfg(not(all(feature = "io", not(any(rast_loom, rast_shuttle)))))]
        let sleeps = crate::here::Sleeps::new();
        let cell = Rc::new(OnceCell::new());
        let driver = TurnDriver {
            sleeps,
            idle: self.idle,
            brief: BriefSpin::default(),
            here: Rc::clone(&cell),
        };
        let executor = LocalExecutor::with_driver(Arc::clone(&clock), driver);
        report(Ok(Begun {
            remote: executor.remote(),
            #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
            chosen,
        }));
        let shared = self.start.shared.pop_wait(WaitStrategy::Park);
        // Frees the memory of its queues.
        drop(self.start);
        let Some(shared) = shared else {
            return;
        };
        let here = Rc::new(Here::new(
            Arc::clone(&shared),
            index,
            self.plan.make(clock),
            #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
            io,
        ));
        let is_first = cell.set(Rc::clone(&here)).is_ok();
        debug_assert!(is_first, "a thread is one reactor");
        here.enter(|| {
            executor.run(Rc::clone(&here).main());
            here.is_running.set(false);
            shared.come_to(index, Phase::Ends);
            // Destructors of tasks may have made calls, which are sent too.
            drop(executor);
            here.trackers.close();
            here.flush();
            #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
            here.io.close();
            // Last, because the lines above drop buffers and closures, whose destructors may use
            // the replica.
            here.replica.leave();
        });
        drop((here, cell));
        shared.come_to(index, Phase::Returned);
    }
}

/// Binds the thread to a core; returns `false` if there is none of that number for the process.
fn pin(core: usize) -> bool {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let found = cores.into_iter().find(|found| found.id == core);
    found.is_some_and(core_affinity::set_for_current)
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_stop_waits_while_tasks_are_dropped() {
        let second = PATIENCE_OF_DROP;
        let nanos = Duration::from_nanos;
        let mut polls = Patience::until(nanos(10));
        assert_eq!(polls.left(nanos(4), None), nanos(6));
        assert_eq!(polls.left(nanos(10), None), Duration::ZERO);
        let mut drops = Patience::until(nanos(10));
        assert_eq!(drops.left(nanos(9), Some(100)), nanos(1));
        assert_eq!(drops.left(nanos(11), Some(100)), second);
        assert_eq!(drops.left(nanos(12), Some(99)), second - nanos(1));
        let later = second + nanos(11);
        assert_eq!(drops.left(later, Some(99)), second);
        assert_eq!(drops.left(later + second, Some(99)), Duration::ZERO);
    }
}
