//! What a worker records about its window (the period in which loads are measured): when it began
//! and ended, how the worker spent it, and which shards were used in it. The leader reads the
//! figures of these shards only. So the cost of an epoch grows with the number of used shards, and
//! not with the number of all shards.
//!
//! ```text
//!   worker 0   window   since │ until │ spent │ used: 7, 2
//!   worker 1   window   since │ until │ spent │ used: 4
//!                       written by its worker; read by the leader after the worker's promise
//!
//!   shard      0    1    2    3    4    5    6    7
//!   number     8   10   11    3   11    1    9   11               the window it was last used in
//!                        └─────────┴──────────────┴─ in window 11; the figures of the others
//!                                                    are old, and no thread reads them
//! ```
//!
//! 1. A shard enters the window of its worker at its first turn in the window. The worker detects
//!    this turn because the number stored with the shard differs from the number of the window.
//!    Then the shard's figures are emptied, and the shard is added to the list. In a later turn the
//!    numbers are equal, and only this comparison is made.
//! 2. A shard that comes to a worker enters the window at once, and is measured from then on. So a
//!    shard that did not enter the window was at its worker for the whole window without a turn,
//!    and its load is zero.
//! 3. A shard that is ready at the end of the window, and had no turn in it, enters at the end.
//! 4. The number of a window is the count of epochs that the worker has seen. All workers in one
//!    epoch have the same number, and numbers do not repeat. So a shard has the number of the
//!    current window only if it entered that window.
//! 5. A dedicated worker takes part in no epoch, and numbers its windows itself. Its window ends
//!    when an epoch of the others is requested. It also ends when its time is over and a shard was
//!    used in it. The shards of a dedicated worker stay, so rule 4 holds for them.
//!
//! A worker *promises* once per epoch: after that it changes no figure of the window
//! (`protocol/mod.rs`, rule 3).

use std::vec::Vec;

use crate::ids::ShardId;
use crate::meter::Spent;
use crate::timers::{Instant, Nanos};

/// The number of a window, counted from one.
pub(crate) type Number = u64;

/// The window of one worker.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) number: Number,
    since: Instant,
    until: Instant,
    /// How the worker spent it.
    pub(crate) spent: Spent,
    /// The shards that entered, each once.
    pub(crate) used: Vec<ShardId>,
}

impl Window {
    /// Makes the first window, which is opened later.
    pub(crate) fn new() -> Self {
        Self {
            number: 0,
            since: Instant::ORIGIN,
            until: Instant::ORIGIN,
            spent: Spent::default(),
            used: Vec::new(),
        }
    }

    /// Opens the next window. Costs the same for any number of shards.
    pub(crate) fn open(&mut self, number: Number, now: Instant) {
        debug_assert_eq!(number, self.number + 1, "no window is left out");
        self.number = number;
        self.since = now;
        self.until = now;
        self.used.clear();
    }

    /// Closes the window; `spent` is how the worker spent it.
    pub(crate) fn close(&mut self, now: Instant, spent: Spent) {
        self.until = now;
        self.spent = spent;
    }

    /// Returns the length of the window.
    pub(crate) fn length(&self) -> Nanos {
        self.until.saturating_since(self.since)
    }

    /// Returns the time from `since` to the end of the window.
    pub(crate) fn length_from(&self, since: Instant) -> Nanos {
        self.until.saturating_since(since)
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_window_forgets_the_one_before() {
        let at = Instant::from_nanos;
        let mut window = Window::new();
        window.open(1, at(10));
        window.used.push(ShardId(3));
        window.close(at(30), Spent::default());
        assert_eq!(window.used, [ShardId(3)]);
        assert_eq!(window.length(), Nanos::from_nanos(20));
        assert_eq!(window.length_from(at(25)), Nanos::from_nanos(5));
        window.open(2, at(40));
        assert_eq!((window.number, window.used.len()), (2, 0));
        assert_eq!(window.length(), Nanos::ZERO);
    }
}
