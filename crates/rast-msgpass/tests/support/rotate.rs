//! A balancer that moves every instance at each decision.

use rast_msgpass::sharder::{Assignment, Balancer, Decision, LoadView, WorkerId};

/// Gives every instance to the next worker.
pub(crate) struct Rotate;

impl Balancer for Rotate {
    fn begin(&mut self, _: &LoadView, _: &Assignment) {}

    fn step(&mut self, view: &LoadView, current: &Assignment, _: usize) -> Decision {
        let next = |owner: &WorkerId| WorkerId::from_index((owner.index() + 1) % view.workers());
        let owners: Vec<_> = current.owners().iter().map(next).collect();
        let next = Assignment::new(owners, view.workers());
        Decision::Adopt(next.expect("every shard has an owner"))
    }
}
