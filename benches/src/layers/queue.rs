//! rast-queue: each structure against its rivals.
//!
//! The consumers sum the values, and the harness checks the sum. So no contender can gain by
//! losing, repeating or skipping an item.

mod batch;
mod contenders;
mod fairness;
mod halves;
mod latency;
mod mpmc;
#[cfg(all(rast_rivals, feature = "rivals"))]
mod rivals;
mod sleeping;
mod source;
mod spsc;
#[cfg(unix)]
mod stall;
mod timeout;

use crate::harness::Scenario;
use crate::options::Options;

const LAYER: &str = "queue";

/// The scenarios of this layer.
pub(crate) fn scenarios() -> Vec<Scenario> {
    [
        spsc::scenarios(),
        mpmc::scenarios(),
        batch::scenarios(),
        halves::scenarios(),
        latency::scenarios(),
        sleeping::scenarios(),
        fairness::scenarios(),
        source::scenarios(),
        timeout::scenarios(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The test with stalled threads, in place of the scenarios.
///
/// # Errors
///
/// If a contender does not do what it claims, or if the system has no signals that stop threads.
pub(crate) fn stall(options: &Options) -> Result<(), String> {
    #[cfg(unix)]
    let result = stall::run(options);
    #[cfg(not(unix))]
    let result = Err(format!("no signals here: {options:?}"));
    result
}
