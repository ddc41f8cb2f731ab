//! The greedy balancer of the original RAST design (section 2.10), with its faults corrected.
//!
//! The original fills one worker after the other. It takes the heaviest shard if the load of that
//! shard alone exceeds the average load of a worker. Otherwise, of the shards that still fit under
//! the average, it takes the one with the strongest *tie* to the shards already taken, that is,
//! with the most traffic between them. If none fits, it goes on to the next worker.
//!
//! What changed, and why:
//!
//! 1. A shard that fits nowhere goes to the least loaded worker. The original forgets such a shard:
//!    of three equal shards on two workers it loses one.
//! 2. The strength of a tie is the number of messages × the penalty of a message between workers.
//!    This is the time saved if both shards are on one worker. The original uses the time for which
//!    the receiver handles the messages. But that time is spent whether or not both shards are on
//!    one worker.
//! 3. The current owners matter. A *group* is the set of shards chosen for one future worker. The
//!    charge of a move is the cost of moving one shard. While the group of a worker is filled, this
//!    charge is added to the ties of the shards that the worker already has. A finished group goes
//!    to the worker that already has most of its shards. Shards without load keep their owner. The
//!    original assigns groups anew each time, and moves half of all shards.
//! 4. The result is adopted only if it is better by more than the sum of a margin, the charge of
//!    its moves, and the noise of the loads.
//! 5. Each load is a rate: the figures of a shard over its own window, smoothed over windows
//!    (`rates.rs`).

use super::plan::{Plan, Planned, Verdict, shared_workers};
use super::rates::Rates;
use super::{Balancer, Decision};
use crate::assignment::Assignment;
use crate::load::LoadView;
use crate::timers::Nanos;

/// The default extra cost of a message that crosses workers, on each side.
const PENALTY: Nanos = Nanos::from_nanos(100);

/// The default least improvement, as a share of the average load.
const MARGIN: f64 = 0.05;

/// The default charge for moving all shards, as a share of the average load.
const CHARGE: f64 = 0.10;

/// The gain must also exceed this multiple of the noise of the comparison. In the scenario of
/// `noise_on_a_uniform_load_settles` (`tests/model.rs`, 2026-11-29) one run of 3,000,000 moves
/// late.
const NOISE: f64 = 1.75;

/// The default minimum length of a window whose figures count.
const LEAST_WINDOW: Nanos = Nanos::from_millis(1);

/// The default balancer: fills one worker after the other up to the average load.
///
/// A decision costs O((s + p) × log s) for s active shards and p pairs of them that exchange
/// messages, and is made in slices. A shard is active while it is used, and for some windows after
/// its last use. If its load was that of a whole worker, these are at most 20 windows. Memory is
/// proportional to the number of shards, workers and pairs, and is kept for the next decision.
///
/// If fewer than two workers take part, no shard can move, and a decision costs nothing.
///
/// ```
/// use rast_sharder::{Assignment, Balancer, Decision, Greedy, LoadView, ShardId};
/// use rast_sharder::timers::Nanos;
///
/// let mut view = LoadView::new(2, 4);
/// for (shard, busy) in [(0, 0.5), (1, 0.1), (2, 0.5), (3, 0.1)] {
///     view.set(ShardId(shard), busy, Nanos::from_millis(100));
/// }
/// let now = Assignment::round_robin(4, 2); // 1.0 busy against 0.2
/// let mut greedy = Greedy::new();
/// greedy.begin(&view, &now);
/// let next = loop {
///     match greedy.step(&view, &now, 8) {
///         Decision::Pending => continue,
///         decision => break decision.next(&now)?.expect("a skewed load is mended"),
///     }
/// };
/// assert_ne!(next.owner(ShardId(0)), next.owner(ShardId(2)));
/// assert_eq!(next.moved_from(&now), 2);
/// # Ok::<(), rast_sharder::AssignmentError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Greedy {
    penalty: Nanos,
    margin: f64,
    charge: f64,
    least_window: Nanos,
    rates: Rates,
    plan: Plan,
    stage: Stage,
}

/// What a decision is at.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// The figures are taken in.
    Rates,
    Plan,
    /// The plan is worth it, and its moves are listed.
    Moves,
}

impl Greedy {
    /// Makes a balancer with the default settings.
    #[must_use]
    pub fn new() -> Self {
        Self {
            penalty: PENALTY,
            margin: MARGIN,
            charge: CHARGE,
            least_window: LEAST_WINDOW,
            rates: Rates::default(),
            plan: Plan::default(),
            stage: Stage::Rates,
        }
    }

    /// Sets the extra cost, on each side, of a message that crosses from one worker to another.
    /// Default: 100 ns.
    #[must_use]
    pub fn penalty(mut self, penalty: Nanos) -> Self {
        self.penalty = penalty;
        self
    }

    /// Sets by how much a change must reduce the load of the busiest worker, as a share of the
    /// average load. Default: 0.05.
    ///
    /// # Panics
    ///
    /// If it is negative or not a number.
    #[must_use]
    pub fn margin(mut self, share: f64) -> Self {
        assert!(share >= 0.0, "a margin is not negative");
        self.margin = share;
        self
    }

    /// Sets the cost of moving all shards, as a share of the average load; moving some of them
    /// costs a proportional part. Default: 0.10.
    ///
    /// # Panics
    ///
    /// If it is negative or not a number.
    #[must_use]
    pub fn move_charge(mut self, share: f64) -> Self {
        assert!(share >= 0.0, "a charge is not negative");
        self.charge = share;
        self
    }

    /// Sets how long a shard must have been measured for its figures to count.
    /// Default: 1 ms.
    #[must_use]
    pub fn least_window(mut self, window: Nanos) -> Self {
        self.least_window = window;
        self
    }

    /// Returns whether the finished plan is better than the current assignment by enough.
    fn is_worth(&self, verdict: Verdict, current: &Assignment) -> bool {
        let Verdict {
            moved,
            average,
            now,
            then,
        } = verdict;
        let share = moved as f64 / current.shards() as f64;
        let gain = (now.0 - then.0) / average;
        // Both sides of the comparison are noisy. The plan was chosen as the best of many, so it
        // probably looks better than it is.
        let noise = NOISE * (now.1 + then.1).sqrt() / average;
        moved > 0 && gain > self.margin + self.charge * share + noise
    }
}

impl Default for Greedy {
    fn default() -> Self {
        Self::new()
    }
}

impl Balancer for Greedy {
    fn needs_figures(&self, view: &LoadView, _: &Assignment) -> bool {
        shared_workers(view) > 1
    }

    fn begin(&mut self, view: &LoadView, current: &Assignment) {
        self.stage = Stage::Rates;
        if current.workers() > 1 {
            self.rates.begin(view.shards());
        }
    }

    fn step(&mut self, view: &LoadView, current: &Assignment, budget: usize) -> Decision {
        let is_same = current.shards() == view.shards() && current.workers() == view.workers();
        if current.workers() == 1 || !is_same {
            return Decision::Keep;
        }
        let budget = budget.clamp(1, isize::MAX as usize);
        match self.stage {
            Stage::Rates => match self.rates.update(view, current, self.least_window, budget) {
                None => Decision::Pending,
                Some(true) => {
                    let penalty = self.penalty.as_nanos() as f64 / 1e9;
                    (self.plan).begin(&self.rates, penalty, self.charge, current, view);
                    self.stage = Stage::Plan;
                    Decision::Pending
                }
                Some(false) => Decision::Keep,
            },
            Stage::Plan => match self.plan.step(&self.rates, current, view, budget) {
                Planned::More => Decision::Pending,
                Planned::Done(verdict) if self.is_worth(verdict, current) => {
                    self.stage = Stage::Moves;
                    Decision::Pending
                }
                Planned::Idle | Planned::Done(_) => {
                    self.stage = Stage::Rates;
                    Decision::Keep
                }
            },
            Stage::Moves => match self.plan.moves(&self.rates, current, budget) {
                None => Decision::Pending,
                Some(moves) => {
                    self.stage = Stage::Rates;
                    Decision::Move(moves)
                }
            },
        }
    }
}
