//! The turns of a worker.
//!
//! One turn:
//!
//! 1. Move the tasks in the injector, which come from threads outside the runtime, to this worker's
//!    lists. Tasks of normal priority go to the list for normal tasks from outside, the other tasks
//!    to the lists of their priorities.
//! 2. Every 16 turns check the timers, every 64 turns the sockets, and every 256 turns one other
//!    worker. If the other worker is in the same poll as at the last check, take queued tasks and
//!    the newest task from it.
//! 3. Take the newest task, which is the one that this worker woke last. After 3 turns in a row
//!    that took it, the next 32 turns do not. If the newest task is not taken, take the next task
//!    of the lists. If the lists are empty, search the queues of other workers.
//! 4. Run it.
//!
//! So while the lists have tasks, at most three turns in a row take none from them. The bounds in
//! `lists.rs` count only turns that take a task from the lists.

use crate::budget;
use crate::context::{self, Context, Place};
use crate::runtime::lane::Lane;
use crate::runtime::worker::Worker;
use crate::task::Task;

/// Number of turns between two checks of the timers.
const LOOK_EVERY: u32 = 16;
/// Number of turns between two checks of the sockets.
const SOCKETS_EVERY: u32 = 64;
/// Number of turns between two checks of another worker.
const OTHERS_EVERY: u32 = 256;

impl Worker {
    /// Runs tasks until the runtime stops.
    pub(crate) fn run(&self) {
        let context = Context::new(Place::Worker(self), &self.shared.timers, self.index);
        context::enter(&context, || {
            let mut again = None;
            while !self.shared.is_stopping() {
                again = self.turn(&context, again);
            }
            if let Some(task) = again {
                self.shared.queues[self.index].push(task);
            }
        });
        // The last worker cancels tasks, whose destructors must not wait for other tasks.
        context::enter(&Lane::outside(&self.lane), || self.shared.leave());
    }

    /// Runs one turn; returns the task that must be queued again.
    fn turn(&self, context: &Context<'_>, again: Option<Task>) -> Option<Task> {
        let turn = self.turn.get().wrapping_add(1);
        self.turn.set(turn);
        let queue = &*self.shared.queues[self.index];
        if let Some(chain) = self.shared.injector.take() {
            let len = chain.len();
            queue.push_outside(chain);
            self.counters().injected.add(len as u64);
            if len > 1 {
                self.shared.notify();
            }
        }
        if turn.is_multiple_of(LOOK_EVERY) {
            self.shared.timers.fire();
            if turn.is_multiple_of(SOCKETS_EVERY) {
                self.shared.driver.look(&mut self.wakers.borrow_mut());
                self.wake_ready();
            }
            if turn.is_multiple_of(OTHERS_EVERY) {
                self.relieve((turn / OTHERS_EVERY) as usize % self.watched.len());
            }
        }
        let task = match self.next(turn, again) {
            Some(task) => task,
            None => self.search()?,
        };
        if self.is_searching.get() {
            self.found();
        }
        if let Some(at) = task.take_queued() {
            let now = self.shared.timers.now().as_nanos();
            self.counters().latencies.record(now.saturating_sub(at));
        }
        self.counters().steps.add(1);
        context.task.set(task.address());
        budget::replace(self.shared.budget);
        let again = task.run(&context.yielded);
        self.counters().steps.add(1);
        context.task.set(core::ptr::null());
        budget::replace(budget::UNLIMITED);
        again
    }
}
