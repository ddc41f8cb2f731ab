//! The least of a number since the last decay tick, and since the last look.
//!
//! What is taken of things kept and put back again is above the least that there were meanwhile; so
//! as many as that no thread needed. Decay ticks come by the count of events and looks by the
//! clock, so each has its own least: what a look finds were unused since the look before, however
//! many decay ticks came between.

use core::cell::Cell;

/// The least that a number was.
pub(crate) struct Least {
    since_tick: Cell<usize>,
    since_look: Cell<usize>,
}

impl Least {
    /// Of a number that is zero.
    pub(crate) const fn new() -> Self {
        Self {
            since_tick: Cell::new(0),
            since_look: Cell::new(0),
        }
    }

    /// Says that the number fell, as something was taken to be used.
    pub(crate) fn fell(&self, to: usize) {
        for least in [&self.since_tick, &self.since_look] {
            least.set(least.get().min(to));
        }
    }

    /// Says that the number fell by so much of what no thread needed.
    pub(crate) fn fell_by(&self, by: usize) {
        for least in [&self.since_tick, &self.since_look] {
            least.set(least.get().saturating_sub(by));
        }
    }

    /// The least since the last decay tick.
    pub(crate) fn since_tick(&self) -> usize {
        self.since_tick.get()
    }

    /// The least since the last look.
    pub(crate) fn since_look(&self) -> usize {
        self.since_look.get()
    }

    /// A decay tick, at which the number is `now`.
    pub(crate) fn tick(&self, now: usize) {
        self.since_tick.set(now);
    }

    /// A look, at which the number is `now`.
    pub(crate) fn look(&self, now: usize) {
        self.since_look.set(now);
    }
}
