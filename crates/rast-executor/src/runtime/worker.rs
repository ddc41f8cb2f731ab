//! A worker: takes tasks from its queue, from other threads and from other workers, and sleeps when
//! there are none.
//!
//! `turns.rs` says what a turn is.

use core::cell::{Cell, RefCell};
use core::task::Waker;
use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::vec::Vec;

use crate::primitive::sync::Arc;
use crate::primitive::{Parker, Random, hint};
use crate::priority::Priority;
use crate::runtime::lane::{Lane, Shared};
use crate::task::Task;
use crate::wakers::wake;

/// How often in a row the newest task goes first, and for how many turns it then does not.
const NEWEST_MAX: u32 = 3;
const NEWEST_REST: u32 = 32;
/// How often a searching worker checks all queues before it sleeps.
const ROUNDS: u32 = 4;
/// Number of spins between two of these checks.
const SPINS: u32 = 32;

/// A worker: see the head of this file.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) lane: Arc<Lane>,
    parker: Parker,
    pub(super) turn: Cell<u32>,
    /// How often in a row the newest task went first.
    streak: Cell<u32>,
    /// Turn until which the slot is not used.
    rests_until: Cell<u32>,
    pub(super) is_searching: Cell<bool>,
    random: RefCell<Random>,
    /// Wakers that the driver returned and that are not woken yet.
    pub(super) wakers: RefCell<Vec<Waker>>,
    /// Steps of the other workers when this one last checked them.
    pub(super) watched: Box<[Cell<u64>]>,
}

impl Worker {
    pub(crate) fn new(index: usize, lane: Arc<Lane>, parker: Parker) -> Self {
        let shared = Arc::clone(&lane.shared);
        Self {
            index,
            watched: shared.queues.iter().map(|_| Cell::new(0)).collect(),
            shared,
            lane,
            parker,
            turn: Cell::new(0),
            streak: Cell::new(0),
            rests_until: Cell::new(0),
            is_searching: Cell::new(false),
            wakers: RefCell::new(Vec::new()),
            random: RefCell::new(Random::new(index as u64)),
        }
    }

    pub(super) fn counters(&self) -> &crate::metrics::Counters {
        &self.shared.counters[self.index]
    }

    /// Takes the next task of this worker, after queueing `again`.
    #[inline]
    pub(super) fn next(&self, turn: u32, again: Option<Task>) -> Option<Task> {
        let queue = &*self.shared.queues[self.index];
        if self.uses_newest(turn)
            && let Some(task) = queue.take_newest()
        {
            if let Some(again) = again {
                queue.push(again);
            }
            self.streak.set(self.streak.get() + 1);
            if self.streak.get() == NEWEST_MAX {
                self.streak.set(0);
                self.rests_until.set(turn.wrapping_add(NEWEST_REST));
            }
            return Some(task);
        }
        self.streak.set(0);
        queue.pop(again)
    }

    /// Returns whether the slot is used in this turn.
    fn uses_newest(&self, turn: u32) -> bool {
        // Turns wrap; a difference longer than the pause means that the pause is over.
        self.rests_until.get().wrapping_sub(turn).wrapping_sub(1) >= NEWEST_REST
    }

    /// Queues a task from this worker's own thread.
    #[inline]
    pub(crate) fn push(&self, task: Task) {
        let now = || self.shared.timers.now().as_nanos();
        if let Some(at) = self.counters().sampler.draw(now) {
            task.note_queued(at);
        }
        let queue = &*self.shared.queues[self.index];
        let is_newest = task.header().priority == Priority::Normal
            && !self.is_searching.get()
            && self.uses_newest(self.turn.get());
        let task = if is_newest {
            match queue.replace_newest(task) {
                Some(older) => older,
                // This worker takes it after this poll, because waking another worker would cost
                // more. If the poll blocks, a worker that watches takes it.
                None => return,
            }
        } else {
            task
        };
        queue.push(task);
        self.shared.notify();
    }

    /// Ends the search.
    #[cold]
    pub(super) fn found(&self) {
        self.is_searching.set(false);
        if self.shared.idle.found() && self.shared.has_work() {
            self.shared.notify();
        }
    }

    /// Searches the other workers' queues, and sleeps if there is no task; returns a task, or
    /// `None` to begin the next turn.
    #[cold]
    pub(super) fn search(&self) -> Option<Task> {
        // The slot may have a task that was not taken because of its pause; the lists are empty.
        if let Some(task) = self.shared.queues[self.index].take_newest() {
            return Some(task);
        }
        if !self.is_searching.get() {
            self.is_searching.set(true);
            self.shared.idle.search();
        }
        for round in 0..ROUNDS {
            if let Some(task) = self.steal() {
                return Some(task);
            }
            if !self.shared.injector.is_empty() || self.shared.is_stopping() {
                return None;
            }
            if round + 1 < ROUNDS && self.shared.queues.len() > 1 {
                for _ in 0..SPINS {
                    hint::spin_loop();
                }
            }
        }
        if self.shared.timers.fire() {
            return None;
        }
        self.park()
    }

    /// Takes half of what another worker has queued.
    fn steal(&self) -> Option<Task> {
        let queues = &self.shared.queues;
        let start = self.random.borrow_mut().below(queues.len());
        for step in 0..queues.len() {
            let victim = (start + step) % queues.len();
            if victim == self.index {
                continue;
            }
            let mut stolen = queues[victim].steal();
            if let Some(task) = stolen.pop() {
                self.counters().stolen.add(stolen.len() as u64 + 1);
                if !stolen.is_empty() {
                    queues[self.index].push_chain(stolen);
                }
                return Some(task);
            }
        }
        None
    }

    /// Sleeps, unless there is work. The worker is counted as searching before and after.
    fn park(&self) -> Option<Task> {
        let shared = &*self.shared;
        let epoch = shared.idle.prepare();
        if shared.has_work() || shared.is_stopping() {
            shared.idle.resume();
            return None;
        }
        if !shared.idle.enlist(self.index, epoch) {
            return None;
        }
        self.counters().parks.add(1);
        let watch = (shared.queues.len() > 1).then_some(shared.watch).flatten();
        if shared.driver.try_hold(self.index) {
            let due = shared.timers.begin_sleep();
            let timeout = match (due, watch) {
                (Some(due), Some(watch)) => Some(due.min(watch)),
                (due, watch) => due.or(watch),
            };
            if timeout != Some(Duration::ZERO) {
                let mut wakers = self.wakers.borrow_mut();
                shared.driver.sleep(&self.parker, timeout, &mut wakers);
            }
            shared.timers.end_sleep();
            shared.driver.release();
        } else {
            self.parker.park_for(watch);
        }
        // First, so that notifiers of the tasks woken below find a searching worker, and wake no
        // other.
        shared.idle.delist(self.index);
        self.wake_ready();
        shared.timers.fire();
        self.watch()
    }

    /// Wakes the wakers that the driver returned.
    pub(super) fn wake_ready(&self) {
        let mut wakers = self.wakers.take();
        wakers.drain(..).for_each(wake);
        // The vector is still empty: only this thread polls the driver, above.
        self.wakers.replace(wakers);
    }

    /// Returns whether a worker is still in the poll in which the last check found it, or still
    /// sleeps.
    fn is_stuck(&self, victim: usize) -> bool {
        let steps = self.shared.counters[victim].steps.get();
        victim != self.index && self.watched[victim].replace(steps) == steps
    }

    /// Takes the newest task of a stuck worker.
    fn watch(&self) -> Option<Task> {
        let mut taken = None;
        for victim in 0..self.watched.len() {
            if self.is_stuck(victim) && taken.is_none() {
                taken = self.rescue(victim);
            }
        }
        taken
    }

    fn rescue(&self, victim: usize) -> Option<Task> {
        let task = self.shared.queues[victim].take_newest()?;
        self.counters().rescued.add(1);
        Some(task)
    }

    /// Moves tasks from a stuck worker to this one's queue, because a worker that is always busy
    /// never searches.
    pub(super) fn relieve(&self, victim: usize) {
        if !self.is_stuck(victim) {
            return;
        }
        let queue = &*self.shared.queues[self.index];
        let stolen = self.shared.queues[victim].steal();
        let rescued = self.rescue(victim);
        if stolen.is_empty() && rescued.is_none() {
            return;
        }
        self.counters().stolen.add(stolen.len() as u64);
        queue.push_chain(stolen);
        if let Some(task) = rescued {
            queue.push(task);
        }
        // A worker that fell asleep meanwhile did not see them.
        self.shared.notify();
    }
}
