//! Balancing: which worker should own which shard, from measured loads.
//!
//! A balancer is a state machine that decides in slices.
//! The leader of an epoch calls [`Balancer::begin`] once on the frozen figures
//! and then [`Balancer::step`] once in each of its own turns, so that its
//! shards go on being served while it decides.

mod greedy;
mod plan;
mod rates;
#[cfg(all(test, not(rast_loom)))]
mod trials;

pub use greedy::Greedy;

use crate::assignment::Assignment;
use crate::load::LoadView;

/// What a slice of a decision came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Not decided yet: give another slice.
    Pending,
    /// The current assignment stays.
    Keep,
    /// This assignment follows. It must cover the same shards and workers as
    /// the current one, else it is refused and reported.
    Adopt(Assignment),
}

/// Decides on a new assignment.
///
/// Both calls run on the thread of the epoch's leader.
/// A panic leaves the current assignment in force and is reported.
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
    /// Begins a decision on the figures of an epoch. It is one slice; what costs time in
    /// proportion to the shards or the traffic belongs into [`step`](Self::step).
    fn begin(&mut self, view: &LoadView, current: &Assignment);

    /// Works for one slice: about `budget` things of less than about 0.2 µs are done, then the
    /// leader turns to its own shards again. The figures are those given to `begin`.
    fn step(&mut self, view: &LoadView, current: &Assignment, budget: usize) -> Decision;
}

impl<B: Balancer + ?Sized> Balancer for std::boxed::Box<B> {
    fn begin(&mut self, view: &LoadView, current: &Assignment) {
        (**self).begin(view, current);
    }

    fn step(&mut self, view: &LoadView, current: &Assignment, budget: usize) -> Decision {
        (**self).step(view, current, budget)
    }
}

/// Leaves every shard where it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Static;

impl Balancer for Static {
    fn begin(&mut self, _: &LoadView, _: &Assignment) {}

    fn step(&mut self, _: &LoadView, _: &Assignment, _: usize) -> Decision {
        Decision::Keep
    }
}
