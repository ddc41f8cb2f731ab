//! rast-timers: clocks and amortised measuring against reading a clock every time, and the deadline
//! stores against maps and wheels.

mod clocks;
mod lanes;
mod stores;
#[cfg(all(rast_rivals, feature = "rivals"))]
mod wheels;

use crate::harness::Scenario;

const LAYER: &str = "timers";

/// The scenarios of this layer.
pub(crate) fn scenarios() -> Vec<Scenario> {
    [clocks::scenarios(), stores::scenarios(), lanes::scenarios()]
        .into_iter()
        .flatten()
        .collect()
}
