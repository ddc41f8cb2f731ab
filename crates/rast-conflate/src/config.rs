//! Settings of a conflator.

use std::boxed::Box;

use crate::marks::Marks;
use crate::timers::{Clock, Nanos};

/// What happens if a key is new and the table is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// Another table is added; no cell moves, no thread waits.
    #[default]
    Grow,
    /// The put is rejected, with its value.
    Refuse,
}

/// What a put by the handle of a removed key does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Removed {
    /// It inserts the key again.
    #[default]
    Insert,
    /// It is rejected, with its value, until a new handle or a put by key inserts the key again.
    Refuse,
}

/// Maximum rate at which a key is handled.
///
/// ```
/// use rast_conflate::{Pace, timers::Nanos};
///
/// let cooldown = Pace::cooldown(Nanos::from_millis(5));
/// let rate = Pace::rate(100, Nanos::from_secs(1)); // up to 100 at once after a quiet second
/// assert_eq!(rate.every(), Nanos::from_millis(10));
/// assert_eq!((cooldown.burst(), rate.burst()), (1, 100));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    every: Nanos,
    burst: u64,
}

impl Pace {
    /// No limit.
    pub const NONE: Self = Self {
        every: Nanos::ZERO,
        burst: 1,
    };

    /// The next handling of a key begins no earlier than this span after the previous one began.
    #[must_use]
    pub const fn cooldown(every: Nanos) -> Self {
        Self { every, burst: 1 }
    }

    /// At most about `times` handlings of the key in each span `per`, and at most `times` at once.
    ///
    /// A token bucket: `times` handlings may come at once after a quiet span, and one more with
    /// each `per / times` that passes, rounded up to a nanosecond. Zero `times` counts as one.
    #[must_use]
    pub const fn rate(times: u32, per: Nanos) -> Self {
        let times = if times == 0 { 1 } else { times as u64 };
        Self {
            every: Nanos::from_nanos(per.as_nanos().div_ceil(times)),
            burst: times,
        }
    }

    /// Returns the span between two handlings at an even pace; zero means no limit.
    #[must_use]
    pub const fn every(self) -> Nanos {
        self.every
    }

    /// Returns how many handlings may come at once.
    #[must_use]
    pub const fn burst(self) -> u64 {
        self.burst
    }

    pub(crate) fn from_words(every: u64, burst: u64) -> Self {
        Self {
            every: Nanos::from_nanos(every),
            burst,
        }
    }
}

/// Settings that do not depend on type parameters.
pub(crate) struct Config {
    pub(crate) keys: usize,
    pub(crate) growth: Growth,
    pub(crate) removed: Removed,
    pub(crate) marks: Marks,
    pub(crate) priorities: usize,
    pub(crate) pace: Pace,
    pub(crate) consumers: usize,
    pub(crate) batch: u32,
    pub(crate) key_figures: bool,
    pub(crate) idle: Option<Nanos>,
    pub(crate) clock: Box<dyn Clock + Send + Sync>,
}
