//! The low-water mark of a cache: the minimum number of entries since the last decay tick, and
//! since the last decay pass.
//!
//! That many entries went unused in that time, so they can be released. Decay ticks are counted in
//! events and decay passes are timed, so each has its own minimum. A pass finds what was unused
//! since the previous pass, however many ticks came between.

use core::cell::Cell;

/// The minimum of a number.
pub(crate) struct LowWater {
    since_tick: Cell<usize>,
    since_pass: Cell<usize>,
}

impl LowWater {
    /// Makes the low-water mark of a number that is zero.
    pub(crate) const fn new() -> Self {
        Self {
            since_tick: Cell::new(0),
            since_pass: Cell::new(0),
        }
    }

    /// Records that the number fell to `to` because entries were taken for use.
    pub(crate) fn record(&self, to: usize) {
        for least in [&self.since_tick, &self.since_pass] {
            least.set(least.get().min(to));
        }
    }

    /// Records that the number fell by `by` because unused entries were released.
    pub(crate) fn subtract(&self, by: usize) {
        for least in [&self.since_tick, &self.since_pass] {
            least.set(least.get().saturating_sub(by));
        }
    }

    /// Returns the minimum since the last decay tick.
    pub(crate) fn since_tick(&self) -> usize {
        self.since_tick.get()
    }

    /// Returns the minimum since the last decay pass.
    pub(crate) fn since_pass(&self) -> usize {
        self.since_pass.get()
    }

    /// Starts a new tick; the number is `now`.
    pub(crate) fn tick(&self, now: usize) {
        self.since_tick.set(now);
    }

    /// Starts a new pass; the number is `now`.
    pub(crate) fn pass(&self, now: usize) {
        self.since_pass.set(now);
    }
}
