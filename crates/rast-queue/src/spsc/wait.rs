//! When a batch waits at a reload of the producer's index, so that the producer is let alone and
//! items gather.
//!
//! What `pace` does for a `pop` at an empty ring comes too late for batches: they take the few
//! queued items, look again, and rarely find nothing. So a batch that must look again and finds few
//! items waits for more, in steps, as long as each brings many.
//!
//! A batch that gets what it asks for pays nothing, for all this is asked where the copy of the
//! index has shown too little. Whether a wait pays is learned from what it brings, as counts of
//! items, since the clock costs more:
//!
//! | the wait | the next one comes when the head has moved by |
//! | --- | --- |
//! | brought 16 items in one of its steps | 64 items, at the next such look |
//! | did not: the producer is slow, gone, or on this thread | twice as many items as last time, 65,536 at most |
//!
//! So a stream that is not worth it meets ten waits of one step, and then one in 65,536 items.
//! The figures behind the numbers are in `docs/performance.md`.

use crate::primitive::hint::spin_loop;

/// How many items are popped between two waits, at least, as a power of two.
const GAP: u32 = 6;

/// How many at most, when waits do not pay.
const GAP_MOST: u32 = 16;

/// With fewer items than this, or than a quarter of the capacity, the consumer is near the
/// producer.
const NEAR: usize = 128;

/// The spin hints of a step.
const HINTS: u32 = 16;

/// The most steps of a wait.
const STEPS: u32 = 8;

/// How many items a step must bring for another one to follow.
const PAYS: usize = 16;

/// What a consumer has learned about waits: how far the head moves between two, as a power of two.
///
/// It goes through registers into the slow path and back: were it passed by its address, the whole
/// consumer would have one, and could not itself live in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait(u32);

impl Wait {
    /// That of a new consumer.
    pub(super) fn new() -> Self {
        Self(GAP)
    }

    /// How many items are popped between two waits.
    #[inline(always)]
    pub(super) fn gap(self) -> usize {
        1 << self.0
    }

    /// Waits while fewer than enough of `capacity` items are queued and each step brings many;
    /// `standing` is how many were queued, and `look` tells how many are queued now.
    ///
    /// Returns how many were queued at the last look, and what is known then.
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

    /// Waits at a ring of 1024 items of which `standing` stand, where each step brings `gain`; how
    /// many looks that took, how many were queued after, and what is known then.
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
