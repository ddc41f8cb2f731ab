//! When a `pop` that finds nothing pauses, so that the producer is let alone and items gather.
//!
//! `wait` is the same for batches.
//!
//! A consumer that is quicker than its producer catches up with it. From then on each of its looks
//! takes the line of the tail away from the producer, and each item or two are a line that crosses
//! for so little. A pause at the empty ring gives the producer a lead, and both then run on lines
//! of their own.
//!
//! Whether a pause pays is learned from what is queued after it, as counts of items, since the
//! clock costs more:
//!
//! | queued after the pause | the next pause | comes when the head has moved by |
//! | --- | --- | --- |
//! | fewer than 16: the producer is slow, gone, or on this thread | is of 16 spin hints | twice as many items as last time, 65,536 at most |
//! | less than an eighth of the capacity | is twice as long, 64 hints at most | 64 items |
//! | up to a half | is as long | 64 items |
//! | more than a half | is half as long, 4 hints at least | 64 items |
//!
//! So a stream that is not worth it meets ten pauses, and then one in 65,536 items.
//! The figures behind the numbers are in `docs/performance.md`.

use crate::primitive::hint::spin_loop;

/// How many items are popped between two pauses, at least; all numbers but the last are logarithms.
const GAP: u32 = 6;

/// How many at most, when pauses do not pay.
const GAP_MOST: u32 = 16;

/// The spin hints of a first pause.
const PAUSES: u32 = 4;
const PAUSES_LEAST: u32 = 2;
const PAUSES_MOST: u32 = 6;

/// How many items must be queued after a pause that has paid.
const PAYS: usize = 16;

/// What a consumer has learned about pauses: how far the head moves between two, and how long one
/// is.
///
/// Two logarithms in one word, which goes through registers into the slow path and back: were it
/// passed by its address, the whole consumer would have one, and could not itself live in
/// registers.
#[derive(Clone, Copy)]
pub(super) struct Pace(u32);

impl Pace {
    /// That of a new consumer.
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

    /// Pauses.
    pub(super) fn wait(self) {
        for _ in 0..1 << (self.0 & 0xff) {
            spin_loop();
        }
    }

    /// What is known after a pause, after which `gathered` items were in a ring of `capacity`.
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
