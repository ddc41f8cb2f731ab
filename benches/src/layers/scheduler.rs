//! rast-scheduler: the loads of the original's benches, against its *twin* (a simple scheduler with
//! one list under a mutex), tokio and async-executor.
//!
//! Worker i is pinned to processor i modulo the number of processors, and the posting thread to the
//! processor after that of the last worker. As in the original's benches, tasks are made before the
//! measured time begins, and their memory is kept until it ends. Tokio and async-executor make
//! their tasks when these are posted, and free them when they end.

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
