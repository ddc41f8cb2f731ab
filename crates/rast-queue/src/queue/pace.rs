//! Decides when a consumer pauses before it checks for more items.
//!
//! A consumer that is faster than the producer finds one or two items at each check. Each check
//! takes the cache line of `tail` away from the producer, and each item is read from a line that
//! the producer is still writing. So the time to transfer a line limits both sides. If the consumer
//! pauses before it checks again, the producer gets ahead, and one check finds many items.
//!
//! ```text
//!   look: 2 items ──► handed out ──► pause ──► look: 12 items ──► handed out ──► pause ──► …
//!                     at once
//! ```
//!
//! 1. The pause is before a check, never between a check and the pops of the items that it found.
//!    So it delays no item that the consumer knows of.
//! 2. After a check that found [`MANY`] items or more there is no pause.
//! 3. If producers claimed at least [`GAIN`] tickets during a pause, the next check pauses again.
//!    If not, the next pause is 2, 4, 8, … checks later, at most two to the power of
//!    [`SKIPS_MOST_POWER`]. So a thread that pushes and pops alternately rarely pauses.
//!
//! The stored state is a hint. A lost or stale update only moves the next pause to an earlier or
//! later check.

use crate::primitive::constructor;
use crate::primitive::sync::atomic::{AtomicU32, Ordering};

use super::pause::IS_MODEL;

/// Number of items in one check that shows that the producers are ahead.
const MANY: usize = 256;
/// Minimum number of tickets that producers claim during a pause that is worth its time.
const GAIN: usize = 8;
/// Number of pause instructions in one pause: about 600 ns on a Zen 4 processor, a few line
/// transfers.
pub(super) const PAUSES: u32 = 24;
/// Binary logarithm of the maximum number of checks between two pauses.
const SKIPS_MOST_POWER: u32 = 12;

/// Set if the last check found few items.
const FEW: u32 = 1 << 31;
/// Position of the binary logarithm of the current number of skipped checks. The bits below it hold
/// the number of checks until the next pause.
const POWER_AT: u32 = 16;
const LEFT: u32 = (1 << POWER_AT) - 1;

/// The state that decides about pauses, shared by all consumers.
pub(super) struct Pace(AtomicU32);

impl Pace {
    constructor! {
        pub(super) fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Returns whether the caller should pause before its check, and then call
    /// [`paused`](Self::paused).
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        if IS_MODEL {
            return false;
        }
        // Relaxed: a hint. [QU41]
        let state = self.0.load(Ordering::Relaxed);
        if state & FEW == 0 {
            return false;
        }
        if state & LEFT != 0 {
            // Relaxed: a hint; a lost update skips one more check. [QU42]
            self.0.store(state - 1, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Records a pause during which producers claimed `gained` tickets.
    pub(super) fn paused(&self, gained: usize) {
        let power = if gained >= GAIN {
            0
        } else {
            // Relaxed: a hint. [QU43]
            let state = self.0.load(Ordering::Relaxed);
            ((state & !FEW) >> POWER_AT).min(SKIPS_MOST_POWER - 1) + 1
        };
        // Relaxed: a hint. [QU44]
        self.0.store(
            FEW | power << POWER_AT | ((1 << power) - 1),
            Ordering::Relaxed,
        );
    }

    /// Records how many items a check found.
    #[inline]
    pub(super) fn found(&self, items: usize) {
        if IS_MODEL {
            return;
        }
        // Relaxed: a hint. [QU77]
        let state = self.0.load(Ordering::Relaxed);
        let now = if items < MANY {
            state | FEW
        } else {
            state & !FEW
        };
        if now != state {
            // Relaxed: a hint. [QU78]
            self.0.store(now, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn pauses_that_do_not_pay_become_rare() {
        let pace = Pace::new();
        assert!(!pace.is_due(), "nothing is known of a queue without items");
        pace.found(1);
        let mut pauses = 0;
        for _ in 0..10_000 {
            if pace.is_due() {
                pauses += 1;
                pace.paused(0);
            }
        }
        assert_eq!(
            pauses, 13,
            "at looks 1, 3, 7, … 4095, and one more 4096 later"
        );
    }

    #[test]
    fn pauses_that_pay_come_at_each_look_that_follows_few_items() {
        let pace = Pace::new();
        pace.found(MANY - 1);
        for _ in 0..10 {
            assert!(pace.is_due());
            pace.paused(GAIN);
        }
        pace.found(MANY);
        assert!(!pace.is_due(), "the producers are ahead");
        pace.found(1);
        assert!(pace.is_due());
    }
}
