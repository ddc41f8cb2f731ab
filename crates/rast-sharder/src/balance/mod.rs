//! Balancing: which worker should own which shard, from measured loads.
//!
//! A balancer is a state machine that decides in slices. The leader of an epoch calls
//! [`Balancer::begin`] once on the frozen figures. Then it calls [`Balancer::step`] once in each of
//! its own turns, so that its shards are still served while it decides.

mod greedy;
mod plan;
mod rates;
#[cfg(all(test, not(rast_loom)))]
mod trials;

pub use greedy::Greedy;

use std::vec::Vec;

use crate::assignment::{Assignment, AssignmentError, Move};
use crate::load::LoadView;

/// The result of a slice of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Not decided yet: [`step`](Balancer::step) is called again.
    Pending,
    /// The current assignment stays.
    Keep,
    /// This assignment follows. It must cover the same shards and workers as the current one, else
    /// it is refused and reported. The comparison with the current one takes time for each shard.
    Adopt(Assignment),
    /// These shards move, and all others stay. If a move names a shard or a worker that does not
    /// exist, if a pinned shard moves, or if a shard is named twice, all moves are refused and
    /// reported. Each move costs some time. If any shard moves, the table for
    /// [`Handle::assignment`](crate::Handle::assignment) is copied as well, in slices.
    Move(Vec<Move>),
}

impl Decision {
    /// Returns the next assignment; `None` for `Pending` and `Keep`.
    ///
    /// # Errors
    ///
    /// [`AssignmentError`] if a move names a shard or a worker that does not exist.
    ///
    /// ```
    /// use rast_sharder::{Assignment, Decision, Move, ShardId, WorkerId};
    ///
    /// let now = Assignment::round_robin(2, 2);
    /// let moves = vec![Move { shard: ShardId(0), to: WorkerId(1) }];
    /// let next = Decision::Move(moves).next(&now)?;
    /// assert_eq!(next, Some(Assignment::new(vec![WorkerId(1); 2], 2)?));
    /// assert_eq!(Decision::Keep.next(&now)?, None);
    /// # Ok::<(), rast_sharder::AssignmentError>(())
    /// ```
    pub fn next(self, current: &Assignment) -> Result<Option<Assignment>, AssignmentError> {
        match self {
            Self::Pending | Self::Keep => Ok(None),
            Self::Adopt(next) => Ok(Some(next)),
            Self::Move(moves) => {
                let mut next = current.clone();
                next.apply(&moves)?;
                Ok(Some(next))
            }
        }
    }
}

/// Decides which worker gets which shards.
///
/// All calls run on the thread of the epoch's leader (the worker that ended the epoch). A panic
/// leaves the current assignment in force and is reported.
///
/// If a balancer visits only the shards of [`LoadView::used`] and returns [`Decision::Move`], the
/// cost of its decision grows only with the number of used shards. A balancer that stores figures
/// per shard must treat a shard that is not in this list as one without load in the [window of its
/// worker](LoadView::worker_window).
///
/// ```
/// use rast_sharder::{Assignment, Balancer, Decision, LoadView, WorkerId};
///
/// /// Moves everything to worker 0.
/// struct Pack;
///
/// impl Balancer for Pack {
///     fn begin(&mut self, _: &LoadView, _: &Assignment) {}
///     fn step(&mut self, view: &LoadView, now: &Assignment, _: usize) -> Decision {
///         match Assignment::new(vec![WorkerId(0); view.shards()], view.workers()) {
///             Ok(packed) if packed != *now => Decision::Adopt(packed),
///             _ => Decision::Keep,
///         }
///     }
/// }
/// ```
pub trait Balancer: Send + 'static {
    /// Returns `false` if this balancer would keep the assignment whatever the figures are. Then
    /// the sharder keeps it, collects no figures, and calls neither [`begin`](Self::begin) nor
    /// [`step`](Self::step) in this epoch. Default: `true`.
    ///
    /// `view` has the workers, the shards and the pins, and no loads. Called once per epoch; it
    /// should cost the same for any number of shards. While the answer is `false`, workers do not
    /// read their thread's processor time. So in the first epoch after the answer changes to
    /// `true`, loads include time in which the system ran other threads
    /// ([`thread_clock`](crate::Builder::thread_clock)).
    ///
    /// ```
    /// use rast_sharder::{Assignment, Balancer, Greedy, LoadView, Static};
    ///
    /// let (view, now) = (LoadView::new(2, 8), Assignment::round_robin(8, 2));
    /// assert!(Greedy::new().needs_figures(&view, &now));
    /// assert!(!Static.needs_figures(&view, &now));
    /// // There is no other worker.
    /// let (view, now) = (LoadView::new(1, 8), Assignment::round_robin(8, 1));
    /// assert!(!Greedy::new().needs_figures(&view, &now));
    /// ```
    fn needs_figures(&self, view: &LoadView, current: &Assignment) -> bool {
        let _ = (view, current);
        true
    }

    /// Begins a decision on the figures of an epoch. It is one slice, so work in proportion to the
    /// shards or the traffic belongs in [`step`](Self::step).
    fn begin(&mut self, view: &LoadView, current: &Assignment);

    /// Works for one slice: does about `budget` units of work, each of less than about 0.2 µs. Then
    /// the leader runs its own shards again. The figures are those given to `begin`.
    fn step(&mut self, view: &LoadView, current: &Assignment, budget: usize) -> Decision;
}

impl<B: Balancer + ?Sized> Balancer for std::boxed::Box<B> {
    fn needs_figures(&self, view: &LoadView, current: &Assignment) -> bool {
        (**self).needs_figures(view, current)
    }

    fn begin(&mut self, view: &LoadView, current: &Assignment) {
        (**self).begin(view, current);
    }

    fn step(&mut self, view: &LoadView, current: &Assignment, budget: usize) -> Decision {
        (**self).step(view, current, budget)
    }
}

/// Leaves every shard where it is, and needs no figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Static;

impl Balancer for Static {
    fn needs_figures(&self, _: &LoadView, _: &Assignment) -> bool {
        false
    }

    fn begin(&mut self, _: &LoadView, _: &Assignment) {}

    fn step(&mut self, _: &LoadView, _: &Assignment, _: usize) -> Decision {
        Decision::Keep
    }
}
