//! rast-queue: the bounded ring against `rtrb` and `ringbuf`, and `Queue` against a lock and
//! crossbeam's `SegQueue`.
//!
//! Every item is a `u64`, every value is summed by the side that takes it, and the sum is checked,
//! so that no contender can lose, repeat or skip an item for speed.

mod mpmc;
mod spsc;

use crate::harness::Scenario;

/// The scenarios of this layer.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut scenarios = spsc::scenarios();
    scenarios.extend(mpmc::scenarios());
    scenarios
}
