//! The queues of a runtime's tasks, and the lists of owned tasks.
//!
//! Each worker has a lane, and all other threads share one. A task refers to the lane of the worker
//! that spawned it. So a spawn writes the reference count of this lane, which is on a cache line of
//! that worker.

use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::vec::Vec;

use crate::blocking::Pool;
use crate::deadlines::Timers;
use crate::idle::{Idle, Notified};
use crate::injector::Injector;
use crate::metrics::Counters;
use crate::owned::Owned;
use crate::primitive::CachePadded;
use crate::primitive::sync::atomic::{AtomicBool, Ordering};
use crate::primitive::sync::{Arc, Condvar, Mutex};
use crate::run_queue::RunQueue;
use crate::sleepers::Sleepers;
use crate::task::{Task, TaskRef};

/// How long a worker that is not in a poll may take to return: more than it needs.
const RETURN: Duration = Duration::from_secs(1);

/// State that the workers of a runtime share.
pub(crate) struct Shared {
    pub(crate) queues: Box<[CachePadded<RunQueue>]>,
    pub(crate) injector: CachePadded<Injector>,
    pub(crate) idle: Idle,
    pub(crate) timers: Arc<Timers>,
    pub(crate) driver: Arc<Sleepers>,
    pub(crate) counters: Box<[CachePadded<Counters>]>,
    pub(crate) pool: Pool,
    pub(crate) budget: u32,
    pub(crate) watch: Option<Duration>,
    /// Set when the workers must return.
    stopping: AtomicBool,
    /// Set when lists reject tasks; a list that becomes empty then notifies `ended`.
    closing: AtomicBool,
    /// All lanes, until no worker runs.
    lanes: Mutex<Vec<Arc<Lane>>>,
    /// Number of workers that have not returned.
    running: Mutex<usize>,
    ended: Condvar,
}

impl Shared {
    pub(crate) fn new(
        workers: usize,
        timers: Arc<Timers>,
        driver: Arc<Sleepers>,
        pool: Pool,
        budget: u32,
        watch: Option<Duration>,
    ) -> Self {
        Self {
            queues: (0..workers).map(|_| CachePadded::default()).collect(),
            injector: CachePadded::default(),
            idle: Idle::new(workers),
            timers,
            driver,
            counters: (0..workers).map(|_| CachePadded::default()).collect(),
            pool,
            budget,
            watch,
            stopping: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            lanes: Mutex::new(Vec::new()),
            running: Mutex::new(workers),
            ended: Condvar::new(),
        }
    }

    /// Makes the lanes: one for each worker, and the last one for other threads.
    pub(crate) fn open(this: &Arc<Self>) -> Vec<Arc<Lane>> {
        let lane = |_| {
            Arc::new(Lane {
                shared: Arc::clone(this),
                owned: Owned::default(),
            })
        };
        let lanes: Vec<_> = (0..=this.queues.len()).map(lane).collect();
        this.lanes.lock().clone_from(&lanes);
        lanes
    }

    /// Queues a task from a thread that is not a worker.
    pub(crate) fn inject(&self, task: Task) {
        let now = || self.timers.now().as_nanos();
        if let Some(at) = self.injector.sampler.draw(now) {
            task.note_queued(at);
        }
        if self.injector.push(task) {
            self.notify();
        }
    }

    /// Wakes a worker for a queued task, if needed.
    #[inline]
    pub(crate) fn notify(&self) {
        match self.idle.notify() {
            Notified::Seen => {}
            Notified::Wake(worker) => self.driver.wake(worker),
            Notified::Ended => self.cancel_queued(),
        }
    }

    /// Returns whether a task is queued anywhere except in the slots.
    pub(crate) fn has_work(&self) -> bool {
        !self.injector.is_empty() || self.queues.iter().any(|queue| !queue.is_empty())
    }

    pub(crate) fn is_stopping(&self) -> bool {
        // Relaxed: a flag; a wake-up or the worker's exit orders everything else. [XR1]
        self.stopping.load(Ordering::Relaxed)
    }

    /// Rejects tasks from now on.
    pub(crate) fn close(&self) {
        // Relaxed: read by `forget` after it has taken a list's lock. [XR2]
        self.closing.store(true, Ordering::Relaxed);
        for lane in &*self.lanes.lock() {
            lane.owned.close();
        }
    }

    /// Makes the workers return after their current polls.
    pub(crate) fn stop(&self) {
        // Relaxed: each wake-up below leaves a token. [XR3]
        self.stopping.store(true, Ordering::Relaxed);
        for worker in 0..self.queues.len() {
            self.driver.wake(worker);
        }
    }

    /// Returns how many tasks are not complete.
    pub(crate) fn tasks(&self) -> usize {
        self.lanes.lock().iter().map(|lane| lane.owned.len()).sum()
    }

    /// Returns all tasks that are not complete.
    pub(crate) fn all(&self) -> Vec<TaskRef> {
        let lanes = self.lanes.lock().clone();
        lanes.iter().flat_map(|lane| lane.owned.all()).collect()
    }

    /// Cancels all tasks that no worker polls at this moment.
    pub(crate) fn cancel_all(&self) {
        for task in self.all() {
            if let Some(task) = task.claim() {
                task.cancel();
            }
        }
        self.cancel_queued();
    }

    fn cancel_queued(&self) {
        self.injector.drain(Task::cancel);
        for queue in &self.queues {
            while let Some(task) = queue.take_newest().or_else(|| queue.pop(None)) {
                task.cancel();
            }
        }
    }

    /// Returns how many workers have not returned.
    pub(crate) fn running(&self) -> usize {
        *self.running.lock()
    }

    /// Records that a worker returned.
    pub(crate) fn leave(&self) {
        let mut running = self.running.lock();
        if *running == 1 {
            // No task is polled any more: cancel all, outside the lock, because that runs user
            // code.
            drop(running);
            self.close();
            // Tasks that a cancelled task wakes are queued, and cancelled from the queue. After
            // `end` they would be cancelled inside that wake-up, in a deep recursion.
            self.cancel_all();
            self.idle.end();
            self.cancel_all();
            self.close_waits();
            self.lanes.lock().clear();
            running = self.running.lock();
        }
        *running -= 1;
        drop(running);
        self.ended.notify_all();
    }

    /// Records that a task is complete: if tasks are rejected, [`wait`](Self::wait) looks again.
    pub(crate) fn note_complete(&self) {
        // Relaxed: as XR2. [XR4]
        if self.closing.load(Ordering::Relaxed) {
            // Under the lock, so that it does not come between the check of `wait` and its sleep.
            let running = self.running.lock();
            self.ended.notify_all();
            drop(running);
        }
    }

    /// Ends the waits for sockets and deadlines of other threads, because nothing polls any more.
    pub(crate) fn close_waits(&self) {
        self.timers.close();
        #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
        if let Some(reactor) = self.driver.reactor() {
            reactor.close();
        }
    }

    /// Waits up to `limit` for all workers to return. After that it gives up the workers that stay
    /// in one poll for `patience`, and waits at most `RETURN` for the others.
    pub(crate) fn wait_for_workers(&self, limit: Duration, patience: Duration) -> bool {
        if self.wait(limit, |running| running == 0) {
            return true;
        }
        let steps = || self.counters.iter().map(|counters| counters.steps.get());
        let before: Vec<u64> = steps().collect();
        if self.wait(patience, |running| running == 0) {
            return true;
        }
        let is_stuck = |(now, before): &(u64, u64)| now == before && now % 2 == 1;
        let stuck = steps().zip(before).filter(is_stuck).count();
        self.wait(RETURN, |running| running <= stuck);
        self.running() == 0
    }

    /// Waits until `is_done`, which a leaving worker or a completed task may make true, for at most
    /// `limit`. Returns whether it is true.
    pub(crate) fn wait(&self, limit: Duration, is_done: impl Fn(usize) -> bool) -> bool {
        let start = std::time::Instant::now();
        let mut running = self.running.lock();
        while !is_done(*running) {
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return false;
            }
            self.ended.wait_timeout(&mut running, left);
        }
        true
    }
}

/// A lane: see the head of this file.
pub(crate) struct Lane {
    pub(crate) shared: Arc<Shared>,
    pub(crate) owned: Owned,
}
