//! Comparisons that decide whether a left counter has a steady rate again.

use super::segment::{Anchor, Pace};
use crate::TscConfig;

/// Number of consecutive comparisons that must agree before the counter is used again, the first
/// time that it was left.
pub(super) const TRIALS: u32 = 8;

/// State of a left counter at the last comparison.
#[derive(Clone, Copy)]
pub(super) struct Trial {
    pub(super) anchor: Anchor,
    /// Rate between the last two comparisons.
    pub(super) rate: Option<Pace>,
    /// Number of consecutive comparisons that found the rate of the one before.
    pub(super) steady: u32,
}

impl Trial {
    pub(super) const fn begun(anchor: Anchor) -> Self {
        Self {
            anchor,
            rate: None,
            steady: 0,
        }
    }

    /// Returns the state after the next comparison. It is steady if the reference is where the rate
    /// between the two comparisons before predicts.
    pub(super) fn next(self, anchor: Anchor, step: u64, config: &TscConfig) -> Self {
        let is_steady = self.rate.is_some_and(|rate| {
            let allowed = self
                .anchor
                .unsure(anchor.count, step, rate)
                .saturating_add(anchor.unsure(anchor.count, step, rate));
            let expected = self.anchor.expected(anchor.count, rate);
            expected.abs_diff(anchor.nanos) <= allowed
        });
        Self {
            anchor,
            rate: Pace::between(self.anchor, anchor, config),
            steady: if is_steady { self.steady + 1 } else { 0 },
        }
    }
}
