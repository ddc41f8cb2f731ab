//! The loop of a worker: steps, rounds of the role, stealing, sleep.

use core::time::Duration;
use rast_timers::primitive::sync::atomic::Ordering;
use rast_timers::primitive::sync::{Arc, MutexGuard};
use rast_timers::primitive::thread;

use crate::cell::Ran;
use crate::cx::Cx;
use crate::idle::{Idle, STOP};
use crate::next::Next;
use crate::owned::{NEVER, NOW, Owned, nanos};
use crate::plan::Plan;
use crate::seat::Seat;
use crate::shared::{Counts, Shared};
use crate::status::{ABORTED, SIGNALED, WOKEN};

/// Number of failed searches before a worker sleeps; it yields between them.
const SEARCHES: u32 = 4;

/// Number of steps after which a worker compares its ready queues with another worker's, even if
/// the time of a batch has not passed.
const LEVEL_STEPS: usize = 1024;

/// A worker at work.
pub(crate) struct Worker<'a> {
    shared: &'a Arc<Shared>,
    seat: Seat,
    /// Maximum number of steps of the next batch.
    limit: usize,
    /// The last clock reading.
    now: u64,
    /// Number of steps since the ready queues were last compared with another worker's, and the
    /// time of that.
    unlevelled: usize,
    levelled_at: u64,
    counts: &'a Counts,
}

/// What a worker that is about to sleep finds.
enum Work<'a> {
    /// No work, or only work that another worker is handling.
    None { is_role_taken: bool },
    /// Work that is found without the role.
    Elsewhere,
    /// The role is free, and has tasks to move.
    Role(MutexGuard<'a, Plan>),
}

/// Works on `seat` until the scheduler stops, and returns the seat.
pub(crate) fn work(shared: &Arc<Shared>, seat: Seat) {
    let mut worker = Worker {
        shared,
        limit: 1,
        now: 0,
        unlevelled: 0,
        levelled_at: 0,
        counts: &shared.counts[seat.worker],
        seat,
    };
    worker.run();
    Shared::leave(shared, worker.seat);
}

impl<'a> Worker<'a> {
    fn run(&mut self) {
        let mut vain = 0;
        self.now = self.shared.now_or(0);
        while !self.shared.idle().is_stopping() {
            let ran = self.batch();
            let then = self.now;
            self.now = self.shared.now_or(then);
            self.pace(ran, self.now.saturating_sub(then));
            let moved = self.round();
            if ran > 0 || moved {
                vain = 0;
                self.level(ran);
            } else if let Some(task) = self.seat.steal() {
                vain = 0;
                self.counts.stolen.add(1);
                self.run_stolen(task);
            } else if vain < SEARCHES {
                vain += 1;
                thread::yield_now();
            } else {
                vain = 0;
                self.sleep();
            }
        }
    }

    /// Runs at most `limit` steps; returns their number.
    #[inline]
    fn batch(&mut self) -> usize {
        let mut ran = 0;
        while ran < self.limit {
            // After the last push of this worker, before the next step: see `Idle`, rule 2.
            let asleep = self.shared.idle().look();
            if asleep & STOP != 0 {
                break;
            }
            let Some(task) = self.seat.pop() else { break };
            if asleep != 0 {
                self.share();
            }
            self.step(task);
            ran += 1;
        }
        self.counts.steps.add(ran as u64);
        ran
    }

    /// Runs a step of a stolen task.
    fn run_stolen(&mut self, task: Owned) {
        let asleep = self.shared.idle().look();
        if asleep & STOP != 0 {
            return self.seat.push(task);
        }
        if asleep != 0 {
            self.share();
        }
        self.step(task);
        self.counts.steps.add(1);
    }

    /// Sizes the next batch so that it takes the target time at the rate of this one.
    fn pace(&mut self, ran: usize, took: u64) {
        if ran == 0 {
            return;
        }
        let config = &self.shared.config;
        let fitting = (ran as u64).saturating_mul(config.batch_time.as_nanos()) / took.max(1);
        let most = config.batch.min(self.limit.saturating_mul(2)) as u64;
        self.limit = fitting.clamp(1, most) as usize;
    }

    /// Compares the ready queues with those of another worker, once per batch time or per
    /// `LEVEL_STEPS`: the comparison costs a cache miss for each queue.
    #[inline]
    fn level(&mut self, ran: usize) {
        self.unlevelled += ran;
        let past = self.now.saturating_sub(self.levelled_at);
        if past >= self.shared.config.batch_time.as_nanos() || self.unlevelled >= LEVEL_STEPS {
            (self.unlevelled, self.levelled_at) = (0, self.now);
            self.counts.stolen.add(u64::from(self.seat.balance()));
        }
    }

    /// Wakes a sleeping worker if more than one step is ready.
    #[cold]
    fn share(&self) {
        let shared = self.shared;
        if self.seat.has_ready() || shared.has_posted() || shared.lacks_keeper() {
            shared.idle().notify_slow();
        }
    }

    /// Runs one step of a task, and then queues the task as the step returned.
    #[inline]
    fn step(&mut self, mut task: Owned) {
        if !task.header().status().begin() {
            // Aborted: the drop ends it.
            return;
        }
        let mut cx = Cx::new(&task, self.shared, self.seat.worker, self.now);
        // SAFETY: this thread has the task, and one that ended is not kept.
        match unsafe { task.run(&mut cx) } {
            Ran::On(Next::Again | Next::Exit) => self.again(task),
            Ran::On(Next::At(at)) => self.wait(task, nanos(at)),
            Ran::On(Next::Wait) => self.wait(task, NEVER),
            Ran::On(Next::Hop(other)) => {
                task.set_due(NOW);
                if let Err(task) = other.0.post(task) {
                    self.again(task);
                }
            }
            Ran::Ended { panicked } => {
                if panicked {
                    // Relaxed: a count. [SW13]
                    self.shared.panics.fetch_add(1, Ordering::Relaxed);
                }
                task.end();
            }
        }
    }

    #[inline]
    fn again(&mut self, mut task: Owned) {
        task.set_due(NOW);
        task.set_expired(true);
        self.seat.push(task);
    }

    /// Passes a task to the role to wait, or to the ready queue if it is already woken or
    /// signalled.
    #[inline]
    fn wait(&mut self, mut task: Owned, due: u64) {
        if due == NOW {
            return self.again(task);
        }
        task.set_due(due);
        if task.header().status().has(WOKEN | SIGNALED | ABORTED) {
            task.set_expired(false);
            return self.seat.push(task);
        }
        // This worker checks the front queue before it sleeps, and wakes another before it runs a
        // step. A scheduler is closed only after its workers have left, so it accepts the task.
        let _ = self.shared.push(task);
    }

    /// Acquires the role for a round if there are tasks to move; returns whether any were moved.
    fn round(&mut self) -> bool {
        if !self.shared.has_posted() && self.now < self.shared.next_due() {
            return false;
        }
        let role = self.shared.try_role();
        role.is_some_and(|role| self.round_by(role))
    }

    /// Runs a round of the role, which this worker has.
    fn round_by(&mut self, role: MutexGuard<'a, Plan>) -> bool {
        let seat = &mut self.seat;
        let round = Shared::round(self.shared, role, self.now, |task| seat.push(task));
        self.counts.rounds.add(1);
        round.moved || round.more
    }

    /// Sleeps, unless there is work.
    #[cold]
    fn sleep(&mut self) {
        let (shared, worker) = (self.shared, self.seat.worker);
        let idle = shared.idle();
        let is_sure = idle.announce(worker);
        match self.look() {
            Work::Elsewhere => idle.rise(worker),
            Work::Role(role) => {
                idle.rise(worker);
                self.round_by(role);
            }
            Work::None { is_role_taken } => {
                self.counts.sleeps.add(1);
                shared.calm.notify_all();
                // If another worker has the role, keep no deadline: one that is due would end the
                // sleep at once, repeatedly, until the role is released.
                let keeps = !is_role_taken && shared.next_due() != u64::MAX && idle.keep(worker);
                // Loaded after the keeper is stored: see `Idle::hasten`.
                let limit = keeps.then(|| {
                    let due = shared.next_due();
                    self.now = shared.now_or(self.now);
                    Duration::from_nanos(due.saturating_sub(self.now))
                });
                if limit != Some(Duration::ZERO) {
                    Idle::sleep(&self.seat.parker, limit, is_sure);
                }
                idle.rise(worker);
            }
        }
    }

    /// Checks for a reason to stay awake, after the announcement.
    ///
    /// If the role is free, the worker takes it and keeps it. If workers only tested the lock, two
    /// of them could repeatedly find it taken by each other's test. If the role is taken, its
    /// holder checks the queues after it releases the role, and sees the announcement.
    fn look(&mut self) -> Work<'a> {
        let shared = self.shared;
        if shared.idle().is_stopping() || self.seat.others_have_ready() {
            return Work::Elsewhere;
        }
        self.now = shared.now_or(self.now);
        if !shared.has_posted() && self.now < shared.next_due() {
            return Work::None {
                is_role_taken: false,
            };
        }
        match shared.try_role() {
            Some(role) => Work::Role(role),
            None => Work::None {
                is_role_taken: true,
            },
        }
    }
}
