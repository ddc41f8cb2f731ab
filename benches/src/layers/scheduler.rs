//! rast-scheduler: the loads of the source's benches against its trivial twin, tokio and
//! async-executor.
//!
//! Worker i is pinned to processor i modulo the processors, and the thread that posts to the one
//! after the last worker's. Tasks are made before the time runs, and their memory is kept until it
//! is over, as in the source's benches; tokio and async-executor make theirs when they are posted,
//! and free them when they end.

mod contenders;
#[cfg(all(rast_rivals, feature = "rivals"))]
mod rivals;
mod steps;
mod twin;
mod waits;

use crate::harness::Scenario;

const LAYER: &str = "scheduler";

/// The scenarios of this layer.
pub(crate) fn scenarios() -> Vec<Scenario> {
    [steps::scenarios(), waits::scenarios()]
        .into_iter()
        .flatten()
        .collect()
}
