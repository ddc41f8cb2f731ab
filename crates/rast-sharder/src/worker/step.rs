//! The workers of a sharder on one thread, whose caller chooses each turn.
//!
//! A worker's round first collects work, and then runs turns in the order of its queue. Here the
//! caller chooses the turns, and the rest of the round is the same code: shards move, deadlines
//! expire and wake-ups arrive as on threads. No thread is started and nothing sleeps, so with a
//! manual clock a run depends only on the caller's choices.

use core::fmt;
use std::vec::Vec;

use super::{Shared, Worker};
use crate::controller::Controller;
use crate::handle::Handle;
use crate::ids::{ShardId, WorkerId};
use crate::primitive::sync::Arc;
use crate::sharder::{Outcome, Sharder};
use crate::timers::Instant;

/// A sharder whose caller runs each turn, for tests. Made by
/// [`Sharder::stepper`](crate::Sharder::stepper).
///
/// All workers are on the caller's thread. Panics of the controller are contained as on a worker's
/// thread. Dropping the stepper drops the shards; [`finish`](Self::finish) returns them.
///
/// ```
/// use rast_sharder::timers::{Instant, ManualClock, Nanos};
/// use rast_sharder::{Controller, Progress, ShardId, Sharder, WorkerCx};
///
/// /// Each shard works at the times 0, 5 and 10.
/// struct Steps;
///
/// impl Controller for Steps {
///     type Shard = Vec<Instant>;
///     type Load = ();
///     fn process(
///         &self,
///         cx: &mut WorkerCx<'_>,
///         _: ShardId,
///         times: &mut Vec<Instant>,
///         _: Option<&mut ()>,
///     ) -> Progress {
///         times.push(cx.now());
///         match times.len() {
///             3 => Progress::Idle,
///             turns => Progress::At(Instant::from_nanos(5 * turns as u64)),
///         }
///     }
///     fn new_load(&self, _: ShardId) {}
/// }
///
/// let clock = ManualClock::new();
/// let sharder = Sharder::builder(Steps)
///     .shards(vec![Vec::new(), Vec::new()])
///     .workers(1)
///     .clock(clock.clone())
///     .build()?;
/// let mut steps = sharder.stepper();
/// let second = ShardId::from_index(1);
/// assert_eq!(steps.ready().count(), 2);
/// assert!(steps.turn(second) && !steps.turn(second));
/// clock.advance(Nanos::from_nanos(5));
/// steps.look();
/// assert!(steps.turn(second));
/// assert_eq!(steps.shard(second).len(), 2);
/// assert_eq!(steps.finish().shards[0].state, []);
/// # Ok::<(), rast_sharder::BuildError>(())
/// ```
pub struct Stepper<C: Controller> {
    /// These borrow from `shared`, and are dropped before it.
    workers: Vec<Worker<'static, C>>,
    shared: Arc<Shared<C>>,
}

impl<C: Controller> Sharder<C> {
    /// Returns a stepper, with which the caller runs each turn on its own thread, for tests.
    pub fn stepper(self) -> Stepper<C> {
        let shared = Arc::new(self.shared);
        // SAFETY: the value is in the allocation of the `Arc` and does not move. Only the workers
        // have the reference, and both ways to end this value drop the workers first: `finish`, and
        // the order of the fields.
        let lent: &'static Shared<C> = unsafe { &*Arc::as_ptr(&shared) };
        let worker = |member| {
            let mut worker = Worker::new(lent, member);
            worker.start();
            worker
        };
        let mut stepper = Stepper {
            workers: self.members.into_iter().map(worker).collect(),
            shared,
        };
        stepper.look();
        stepper
    }
}

impl<C: Controller> Stepper<C> {
    /// Returns a handle, as [`Sharder::handle`](crate::Sharder::handle).
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle {
            core: self.shared.core.clone(),
        }
    }

    /// Returns the ready shards, by worker and number, as of the last [`look`](Self::look) or
    /// [`turn`](Self::turn).
    pub fn ready(&self) -> impl Iterator<Item = ShardId> {
        self.workers.iter().flat_map(|worker| worker.ready.queued())
    }

    /// Runs a turn of `shard`, then collects new work. Returns `false` if the shard is not ready,
    /// or the sharder was stopped.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    pub fn turn(&mut self, shard: ShardId) -> bool {
        if self.shared.core.baton.is_stopping() {
            return false;
        }
        let workers = self.workers.iter_mut();
        let mut queued = workers.filter_map(|worker| worker.ready.take(shard).then_some(worker));
        let Some(worker) = queued.next() else {
            return false;
        };
        worker.process(shard);
        worker.local.member.flush();
        worker.tally().turns.add(1);
        self.look();
        true
    }

    /// Makes every worker read the clock and collect wake-ups, deadlines and shards. Call it after
    /// the clock was moved, or after a [`Handle`] woke a shard.
    pub fn look(&mut self) {
        while !self.shared.core.baton.is_stopping() && self.pass() {}
    }

    /// Collects work once; returns whether that may have made more work visible.
    fn pass(&mut self) -> bool {
        let mut progressed = false;
        for worker in &mut self.workers {
            worker.read_clock();
            let epoch = worker.local.member.epoch();
            progressed |= worker.begin_round();
            // A worker that entered an epoch may have freed shards for those before it.
            progressed |= worker.local.member.epoch() != epoch;
            worker.local.member.flush();
            worker.tally().rounds.add(1);
            worker.promise_when_due();
            progressed |= worker.decide();
            let now = worker.local.now;
            progressed |= worker.ready.next_alarm().is_some_and(|at| at <= now);
        }
        progressed
    }

    /// Returns the earliest deadline entry; its deadline may have been put off.
    #[must_use]
    pub fn next_alarm(&self) -> Option<Instant> {
        let alarms = self.workers.iter();
        alarms.filter_map(|worker| worker.ready.next_alarm()).min()
    }

    /// Returns the worker that holds `shard`; `None` while it moves.
    #[must_use]
    pub fn holder(&self, shard: ShardId) -> Option<WorkerId> {
        self.shared.core.baton.holder(shard)
    }

    /// Returns the state of a shard.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    #[must_use]
    pub fn shard(&mut self, shard: ShardId) -> &mut C::Shard {
        // SAFETY: all workers are in this value and none runs a turn, so nothing else borrows the
        // slot while `self` is borrowed.
        let slot = unsafe { self.shared.slots.slot(shard) };
        &mut slot.state
    }

    /// Stops, and returns what [`Sharder::run`](crate::Sharder::run) returns.
    #[must_use]
    pub fn finish(self) -> Outcome<C> {
        let Self { workers, shared } = self;
        shared.core.baton.stop();
        for mut worker in workers {
            worker.leave();
        }
        let Ok(shared) = Arc::try_unwrap(shared) else {
            unreachable!("the workers have left, and there is no other share");
        };
        Outcome::new(shared)
    }
}

impl<C: Controller> fmt::Debug for Stepper<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stepper")
            .field("workers", &self.workers.len())
            .field("shards", &self.shared.slots.len())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use std::vec;

    use super::*;
    use crate::controller::{Controller, Progress};
    use crate::cx::WorkerCx;
    use crate::primitive::sync::Mutex;
    use crate::{Assignment, Balancer, Decision, LoadView, Move};

    /// Shard 0 wakes shard 1 in each turn, and itself if it goes on. Shard 1 rests, and those from
    /// 2 on are always busy.
    struct Source {
        /// When shard 0 gets its next turn.
        next: Progress,
        turns: Mutex<Vec<ShardId>>,
    }

    impl Source {
        fn new(next: Progress) -> Self {
            let turns = Mutex::new(Vec::new());
            Self { next, turns }
        }
    }

    impl Controller for Source {
        type Shard = ();
        type Load = ();

        fn process(
            &self,
            cx: &mut WorkerCx<'_>,
            shard: ShardId,
            (): &mut (),
            _: Option<&mut ()>,
        ) -> Progress {
            self.turns.lock().push(shard);
            match shard.index() {
                0 => {
                    if !matches!(self.next, Progress::Idle) {
                        cx.wake(ShardId(0), 0);
                    }
                    cx.wake(ShardId(1), 0);
                    self.next
                }
                1 => Progress::Idle,
                _ => Progress::Again,
            }
        }

        fn new_load(&self, _: ShardId) {}
    }

    #[test]
    fn a_shard_that_was_woken_between_two_rounds_passes_the_busy_ones() {
        const SHARDS: usize = 40;
        let mut builder = Sharder::builder(Source::new(Progress::Idle))
            .shards(vec![(); SHARDS])
            .workers(2);
        for shard in 0..SHARDS {
            let worker = WorkerId::from_index(usize::from(shard > 0));
            builder = builder.pin(ShardId::from_index(shard), worker);
        }
        let mut steps = builder.build().expect("it builds").stepper();
        // So that each busy shard is in the queue, and shard 1 is not.
        for _ in 0..SHARDS {
            steps.workers[1].round();
        }
        steps.workers[0].round();
        steps.shared.controller.turns.lock().clear();
        steps.workers[1].round();
        let turns = steps.shared.controller.turns.lock();
        assert!(turns.len() > 1);
        assert_eq!(turns[0], ShardId(1));
    }

    #[test]
    fn a_shard_that_wants_another_turn_is_behind_those_that_it_woke() {
        // An instant in the past counts as `Again`.
        for next in [Progress::Again, Progress::At(Instant::ORIGIN)] {
            let builder = Sharder::builder(Source::new(next)).shards(vec![(); 2]);
            let mut steps = builder.workers(1).build().expect("it builds").stepper();
            steps.workers[0].round();
            let turns = steps.shared.controller.turns.lock();
            assert!(turns.len() > 2);
            let alternate = turns.windows(2).all(|pair| pair[0] != pair[1]);
            assert!(alternate, "{next:?}: {turns:?}");
        }
    }

    /// Expects a message at some lines after each turn.
    struct Expects;

    impl Controller for Expects {
        type Shard = ();
        type Load = ();

        fn process(
            &self,
            cx: &mut WorkerCx<'_>,
            _: ShardId,
            (): &mut (),
            _: Option<&mut ()>,
        ) -> Progress {
            cx.expect_at([core::ptr::without_provenance::<u8>(64); 2]);
            Progress::Idle
        }

        fn new_load(&self, _: ShardId) {}
    }

    struct ToWorkerOne;

    impl Balancer for ToWorkerOne {
        fn begin(&mut self, _: &LoadView, _: &Assignment) {}

        fn step(&mut self, _: &LoadView, _: &Assignment, _: usize) -> Decision {
            let (shard, to) = (ShardId(0), WorkerId::from_index(1));
            Decision::Move(vec![Move { shard, to }])
        }
    }

    #[test]
    fn a_worker_forgets_the_lines_of_a_shard_that_left() {
        let builder = Sharder::builder(Expects).shards(vec![(); 2]).workers(2);
        let sharder = builder.balancer(ToWorkerOne).build().expect("it builds");
        let mut steps = sharder.stepper();
        assert_eq!(steps.holder(ShardId(0)), Some(WorkerId::from_index(0)));
        assert!(steps.turn(ShardId(0)));
        assert_ne!(steps.workers[0].local.lines, [0; 2]);
        steps.handle().reshard();
        steps.look();
        assert_eq!(steps.holder(ShardId(0)), Some(WorkerId::from_index(1)));
        assert_eq!(steps.workers[0].local.lines, [0; 2]);
    }
}
