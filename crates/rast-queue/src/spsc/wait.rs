//! Decides when a batch waits, so that the producer gets ahead. Only a batch that reloads the
//! producer's index may wait.
//!
//! The pause of `pace` at an empty ring comes too late for batches: they pop the few queued items,
//! check again, and rarely find the ring empty. So a batch waits for more items if it must reload
//! the index and then finds few. It waits in steps, as long as each step brings many items.
//!
//! A batch that finds enough items by the cached index never waits. The next wait depends on the
//! number of items that this wait brings, because reading that number costs less than reading the
//! clock:
//!
//! | this wait | items popped before the next one |
//! | --- | --- |
//! | brought 16 items in one of its steps | 64 |
//! | did not: the producer is slow, gone, or on this thread | twice as many as last time, 65,536 at most |
//!
//! So if no wait brings items, there are ten waits of one step, and then one wait per 65,536 popped
//! items.

use crate::primitive::hint::spin_loop;

/// Binary logarithm of the minimum number of items popped between two waits.
const GAP: u32 = 6;

/// Binary logarithm of the maximum number of items popped between two waits, reached when waits do
/// not pay.
const GAP_MOST: u32 = 16;

/// With fewer items than this, or than a quarter of the capacity, the consumer is near the
/// producer.
const NEAR: usize = 128;

/// The spin hints of a step.
const HINTS: u32 = 16;

/// The most steps of a wait.
const STEPS: u32 = 8;

/// Number of items that a step must bring for another step to follow.
const PAYS: usize = 16;

/// A consumer's state about waits: the binary logarithm of the number of items between two.
///
/// It is passed in registers. If it were passed by address, the consumer would need an address too
/// and could not be kept in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait(u32);

impl Wait {
    pub(super) fn new() -> Self {
        Self(GAP)
    }

    /// How many items are popped between two waits.
    #[inline(always)]
    pub(super) fn gap(self) -> usize {
        1 << self.0
    }

    /// Waits while too few items for a ring of `capacity` are queued and each step brings many.
    /// `standing` is the number of items that were queued, and `look` returns the number that is
    /// queued now.
    ///
    /// Returns the number of queued items at the last check, and the new state.
    pub(super) fn run(
        self,
        capacity: usize,
        mut standing: usize,
        mut look: impl FnMut() -> usize,
    ) -> (usize, Self) {
        let enough = NEAR.min(capacity / 4);
        if standing >= enough {
            return (standing, self);
        }
        let mut has_paid = false;
        for _ in 0..STEPS {
            for _ in 0..HINTS {
                spin_loop();
            }
            let before = standing;
            standing = look();
            if standing - before < PAYS {
                break;
            }
            has_paid = true;
            if standing >= enough {
                break;
            }
        }
        let next = if has_paid {
            Self::new()
        } else {
            Self((self.0 + 1).min(GAP_MOST))
        };
        (standing, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits at a ring of 1024 slots with `standing` queued items, where each step brings `gain`.
    /// Returns the number of looks, the number of items queued afterwards, and the new state.
    fn run(wait: Wait, standing: usize, gain: usize) -> (u32, usize, Wait) {
        let (mut looks, mut now) = (0, standing);
        let (after, next) = wait.run(1024, standing, || {
            looks += 1;
            now += gain;
            now
        });
        (looks, after, next)
    }

    #[test]
    fn waits_that_bring_little_are_short_and_become_rare() {
        let mut wait = Wait::new();
        for log in (6..=16).chain([16]) {
            assert_eq!(wait.gap(), 1 << log);
            let (looks, after, next) = run(wait, 1, PAYS - 1);
            assert_eq!((looks, after), (1, PAYS));
            wait = next;
        }
        assert_eq!(run(wait, 0, PAYS), (STEPS, NEAR, Wait::new()));
    }

    #[test]
    fn a_wait_ends_with_enough_items() {
        assert_eq!(run(Wait::new(), 0, 100), (2, 200, Wait::new()));
        assert_eq!(run(Wait::new(), NEAR - 1, 0).0, 1);
        let rare = run(Wait::new(), 0, 0).2;
        assert_eq!(run(rare, NEAR, 0), (0, NEAR, rare));
    }

    #[test]
    fn a_ring_of_few_slots_has_no_near() {
        let next = Wait::new().run(2, 0, || panic!("no wait, so no look"));
        assert_eq!(next, (0, Wait::new()));
    }
}
