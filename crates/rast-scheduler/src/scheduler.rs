//! The owner's handle of a scheduler: start, stop, wait.

use core::fmt;
use core::mem;
use core::ops::Deref;
use core::time::Duration;
use std::io;
use std::time::Instant;
use std::vec::Vec;

use rast_timers::primitive::sync::atomic::Ordering;
use rast_timers::primitive::sync::{Arc, Mutex};
use rast_timers::primitive::thread::{self, JoinHandle};
use rast_timers::primitive::{WaitStrategy, thread::ThreadId};

use crate::remote::Remote;
use crate::shared::Shared;
use crate::task::Task;
use crate::worker;

/// Runs tasks on worker threads. See the [crate's documentation](crate).
///
/// Dropping it stops the workers and ends all tasks; calls through their handles then return
/// [`Finished`](crate::Finished).
pub struct Scheduler {
    remote: Remote,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Error: the call would wait for the calling thread, which is a worker of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnWorker;

impl fmt::Display for OnWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("called by a worker of the scheduler, which it would wait for")
    }
}

impl core::error::Error for OnWorker {}

/// Statistics of the workers, by [`Scheduler::stats`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// By worker, the scheduler's own first.
    pub workers: Vec<WorkerStats>,
    /// Steps that panicked; each ended its task.
    pub panics: u64,
    /// Clock readings that panicked on a worker, which then used its previous reading.
    pub clock_panics: u64,
}

/// Statistics of one worker. They may be a batch old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Steps.
    pub steps: u64,
    /// Rounds in which it moved tasks from the front queue and the wait store.
    pub rounds: u64,
    /// Sleeps.
    pub sleeps: u64,
    /// Times that it took tasks from another worker.
    pub steals: u64,
}

impl Scheduler {
    /// Starts a scheduler with `workers` threads.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn new(workers: usize) -> io::Result<Self> {
        Self::builder().workers(workers).start()
    }

    pub(crate) fn from_shared(shared: Arc<Shared>) -> Self {
        Self {
            remote: Remote(shared),
            threads: Mutex::new(Vec::new()),
        }
    }

    /// Returns a handle for other threads, which does not keep the scheduler alive.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Starts the threads; does nothing if the scheduler is running. Blocks while another thread
    /// starts or stops it.
    ///
    /// # Errors
    ///
    /// The system's error if it cannot start a thread; the scheduler is then stopped and keeps its
    /// tasks. [`io::ErrorKind::InvalidInput`] if the name has a zero byte.
    /// [`io::ErrorKind::Deadlock`] if a step of this scheduler calls `start` while another thread
    /// stops the scheduler.
    pub fn start(&self) -> io::Result<()> {
        if self.remote.0.config.name.contains('\0') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if self.is_worker() {
            let is_running = self.remote.0.crew.lock().is_running;
            return is_running
                .then_some(())
                .ok_or(io::ErrorKind::Deadlock.into());
        }
        let mut threads = self.threads.lock();
        let shared = &self.remote.0;
        let mut crew = shared.crew.lock();
        if crew.is_running {
            return Ok(());
        }
        shared.idle().go();
        crew.is_running = true;
        drop(crew);
        for worker in 0..shared.config.workers {
            let name = std::format!("{}-{worker}", shared.config.name);
            let theirs = Arc::clone(shared);
            shared.enter(worker);
            let spawned = thread::spawn_named(name, move || {
                // Make deadlines as exact as the system allows; the default slack adds 50 µs.
                thread::set_timer_slack(1);
                let seat = {
                    let mut crew = theirs.crew.lock();
                    crew.threads[worker] = Some(thread::current_id());
                    crew.seats[worker].take()
                };
                if let Some(seat) = seat {
                    worker::work(&theirs, seat);
                }
            });
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    shared.exit(worker);
                    self.halt(&mut threads);
                    // A thread may have begun to wait while this worker counted as a member.
                    shared.calm.notify_all();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Stops the workers after the running steps, and returns all tasks: the ready ones, then the
    /// waiting ones by deadline.
    ///
    /// Each task keeps its deadline, so posting it again, here or on another scheduler, continues
    /// its wait. Tasks of [`spawn`](Remote::spawn) are included. Dropping a task ends it, and its
    /// [`JoinHandle`](crate::JoinHandle) returns an error. The scheduler may be started again. A
    /// task that another thread is waking may be missing: that thread posts it, and it runs after
    /// the next start.
    ///
    /// Blocks until the running steps end and the threads of the user have left
    /// [`work`](Remote::work). If the scheduler is stopped already, the call returns only the tasks
    /// that were posted since the last stop.
    ///
    /// # Errors
    ///
    /// [`OnWorker`] if a step of this scheduler calls it.
    ///
    /// ```
    /// use rast_scheduler::{Next, Scheduler, Task, timers::Nanos};
    /// let scheduler = Scheduler::new(1)?;
    /// let task = Task::new(|_| Next::Exit);
    /// let handle = task.handle();
    /// scheduler.post_after(task, Nanos::from_secs(3600))?;
    /// let tasks = scheduler.stop()?;
    /// assert_eq!(tasks.len(), 1);
    /// assert!(!handle.is_finished());
    /// scheduler.start()?;
    /// scheduler.post_many(tasks)?; // it waits on
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "tasks that are dropped end"]
    pub fn stop(&self) -> Result<Vec<Task>, OnWorker> {
        if self.is_worker() {
            return Err(OnWorker);
        }
        let mut threads = self.threads.lock();
        self.halt(&mut threads);
        let tasks = Shared::empty(&self.remote.0, false);
        self.remote.0.calm.notify_all();
        Ok(tasks.into_iter().map(Task).collect())
    }

    /// Waits for at most `timeout` until no task is ready, running, posted or waiting for a
    /// deadline; returns whether that state was reached. Blocking, without polling.
    ///
    /// Tasks that only wait to be woken do not count. Do not call it in a step of this scheduler:
    /// the step would wait for itself until the timeout.
    pub fn wait_idle(&self, timeout: Duration) -> bool {
        let shared = &self.remote.0;
        let is_idle = || shared.is_idle();
        // A timeout beyond the clock's range means no limit.
        match Instant::now().checked_add(timeout) {
            Some(deadline) => {
                let calm = &shared.calm;
                calm.wait_until_deadline(WaitStrategy::Park, deadline, is_idle)
            }
            None => {
                shared.calm.wait_until(WaitStrategy::Park, is_idle);
                true
            }
        }
    }

    /// Waits as [`wait_idle`](Self::wait_idle) for at most `timeout`, then stops as
    /// [`stop`](Self::stop), and returns the remaining tasks.
    ///
    /// # Errors
    ///
    /// As [`stop`](Self::stop).
    #[must_use = "tasks that are dropped end"]
    pub fn drain(&self, timeout: Duration) -> Result<Vec<Task>, OnWorker> {
        if self.is_worker() {
            return Err(OnWorker);
        }
        self.wait_idle(timeout);
        self.stop()
    }

    /// Returns statistics of the workers. Wait-free.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let shared = &self.remote.0;
        let workers = shared.counts.iter().map(|counts| WorkerStats {
            steps: counts.steps.get(),
            rounds: counts.rounds.get(),
            sleeps: counts.sleeps.get(),
            steals: counts.stolen.get(),
        });
        Stats {
            workers: workers.collect(),
            // Relaxed: a count. [SW14]
            panics: shared.panics.load(Ordering::Relaxed),
            // Relaxed: a count. [SW15]
            clock_panics: shared.clock_panics.load(Ordering::Relaxed),
        }
    }

    /// Returns whether the calling thread is a worker of this scheduler.
    fn is_worker(&self) -> bool {
        let me: ThreadId = thread::current_id();
        self.remote.0.crew.lock().threads.contains(&Some(me))
    }

    /// Makes all workers leave, and waits for them.
    fn halt(&self, threads: &mut Vec<JoinHandle<()>>) {
        let shared = &self.remote.0;
        let mut crew = shared.crew.lock();
        crew.is_running = false;
        // Under the lock: after a step that sees the scheduler stopping, no other step runs.
        shared.idle().stop();
        drop(crew);
        for thread in mem::take(threads) {
            let ended = thread.join();
            assert!(ended.is_ok(), "a worker contains the panics of its tasks");
        }
        let mut crew = shared.crew.lock();
        while !crew.is_gone() {
            shared.left.wait(&mut crew);
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if !self.is_worker() {
            let threads = mem::take(&mut *self.threads.lock());
            self.halt(&mut { threads });
            Shared::close(&self.remote.0);
            return;
        }
        // A step dropped the scheduler: the last worker to leave ends the other tasks.
        let shared = &self.remote.0;
        let mut crew = shared.crew.lock();
        crew.is_running = false;
        crew.is_orphaned = true;
        drop(crew);
        shared.idle().stop();
    }
}

impl Deref for Scheduler {
    type Target = Remote;

    fn deref(&self) -> &Remote {
        &self.remote
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("name", &self.remote.0.config.name)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
