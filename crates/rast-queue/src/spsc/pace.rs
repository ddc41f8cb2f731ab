//! Decides when a `pop` pauses at an empty ring, so that the producer gets ahead.
//!
//! The module `wait` does the same for pops of batches.
//!
//! A consumer that is faster than its producer catches up with it. From then on each check for
//! items moves the cache line of the tail away from the producer. Each transfer of a line brings
//! only an item or two. A pause at the empty ring lets the producer get ahead, and both then use
//! different lines.
//!
//! The next pause depends on the number of items that are queued after this pause, because reading
//! that number costs less than reading the clock:
//!
//! | queued after the pause | length of the next pause | items popped before the next pause |
//! | --- | --- | --- |
//! | fewer than 16: the producer is slow, gone, or on this thread | 16 spin hints | twice as many as last time, 65,536 at most |
//! | less than an eighth of the capacity | twice this pause, 64 hints at most | 64 |
//! | up to half of the capacity | the same as this pause | 64 |
//! | more than half of the capacity | half of this pause, 4 hints at least | 64 |
//!
//! So if no pause brings items, there are ten pauses, and then one pause per 65,536 popped items.
//! The measurements are in `docs/performance.md`.

use crate::primitive::hint::spin_loop;

/// Minimum number of items popped between two pauses. All these constants except the last are
/// binary logarithms.
const GAP: u32 = 6;

/// Maximum number of items popped between two pauses, reached when pauses do not pay.
const GAP_MOST: u32 = 16;

/// The spin hints of a first pause.
const PAUSES: u32 = 4;
const PAUSES_LEAST: u32 = 2;
const PAUSES_MOST: u32 = 6;

/// Number of items that must be queued after a pause for it to count as worth its time.
const PAYS: usize = 16;

/// A consumer's state about pauses: the number of items between two pauses, and the length of one.
///
/// Two logarithms in one word, which is passed in registers. If it were passed by address, the
/// consumer would need an address too and could not be kept in registers.
#[derive(Clone, Copy)]
pub(super) struct Pace(u32);

impl Pace {
    pub(super) fn new() -> Self {
        Self::of(GAP, PAUSES)
    }

    fn of(gap: u32, pauses: u32) -> Self {
        Self(gap << 8 | pauses)
    }

    /// How many items are popped between two pauses.
    #[inline(always)]
    pub(super) fn gap(self) -> usize {
        1 << (self.0 >> 8)
    }

    pub(super) fn wait(self) {
        for _ in 0..1 << (self.0 & 0xff) {
            spin_loop();
        }
    }

    /// Returns the state after a pause after which `gathered` items were in a ring of `capacity`.
    pub(super) fn after(self, gathered: usize, capacity: usize) -> Self {
        let (gap, pauses) = (self.0 >> 8, self.0 & 0xff);
        if gathered < PAYS {
            Self::of((gap + 1).min(GAP_MOST), PAUSES)
        } else if gathered < capacity / 8 {
            Self::of(GAP, (pauses + 1).min(PAUSES_MOST))
        } else if gathered <= capacity / 2 {
            Self::of(GAP, pauses)
        } else {
            Self::of(GAP, (pauses - 1).max(PAUSES_LEAST))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_that_bring_nothing_become_rare() {
        let mut pace = Pace::new();
        for log in (6..=16).chain([16]) {
            assert_eq!(pace.gap(), 1 << log);
            pace = pace.after(PAYS - 1, 1024);
        }
        assert_eq!(pace.after(PAYS, 1024).gap(), 64);
    }

    #[test]
    fn pauses_that_pay_find_their_length() {
        let longest = (0..9).fold(Pace::new(), |pace, _| pace.after(100, 1024));
        assert_eq!(longest.0, Pace::of(GAP, PAUSES_MOST).0);
        assert_eq!(longest.after(300, 1024).0, longest.0);
        let shortest = (0..9).fold(longest, |pace, _| pace.after(1000, 1024));
        assert_eq!(shortest.0, Pace::of(GAP, PAUSES_LEAST).0);
        assert_eq!(shortest.after(0, 1024).0, Pace::of(GAP + 1, PAUSES).0);
    }
}
