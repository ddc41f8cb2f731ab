//! rast-queue: each structure against its rivals.
//!
//! Every value is summed by the side that takes it, and the sum is checked, so that no contender
//! can lose, repeat or skip an item for speed.

mod contenders;
mod fairness;
mod halves;
mod latency;
mod mpmc;
#[cfg(all(rast_rivals, feature = "rivals"))]
mod rivals;
mod source;
mod spsc;

use crate::harness::Scenario;

const LAYER: &str = "queue";

/// The scenarios of this layer.
pub(crate) fn scenarios() -> Vec<Scenario> {
    [
        spsc::scenarios(),
        mpmc::scenarios(),
        halves::scenarios(),
        latency::scenarios(),
        fairness::scenarios(),
        source::scenarios(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
