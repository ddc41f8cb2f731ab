//! Credits limit how many calls from one reactor to another may be sent but not started.
//!
//! ```text
//!   caller                      word: returned << 1 | waits        target
//!   sent (its own)  ───────────────────┐        ┌──────────────────  a closure starts,
//!   free = 1024 - (sent - returned)  ◄─┴────────┘                    or is dropped: returned += 1
//! ```
//!
//! `returned` and `waits` are in one word. A caller without a credit sets `waits` and reads
//! `returned` by one atomic operation. A target adds to `returned` and reads `waits` by one atomic
//! operation. If the caller's operation comes second, it sees the credit. If the target's comes
//! second, the target sees that the caller waits, clears the bit and wakes the caller.

use core::cell::Cell;

use crate::primitive::sync::atomic::{AtomicU64, Ordering};

/// Number of calls of one pair that may be sent and not started.
pub const CREDITS: u64 = 1024;

/// Set while the caller waits for a credit.
const WAITS: u64 = 1;
const ONE: u64 = 2;

/// The word of an ordered pair of reactors.
#[derive(Debug, Default)]
pub struct Pair(AtomicU64);

impl Pair {
    /// Makes a pair with all its credits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a credit, on any thread; returns `true` if the caller must be woken.
    #[must_use = "true: the caller waits"]
    pub fn give_back(&self) -> bool {
        // Relaxed: a count and a bit in one word; the wake-up orders what follows it.
        let before = self.0.fetch_add(ONE, Ordering::Relaxed);
        // Relaxed: as above. Of two threads that saw the bit, the one that clears it wakes.
        before & WAITS != 0 && self.0.fetch_and(!WAITS, Ordering::Relaxed) & WAITS != 0
    }

    fn returned(&self) -> u64 {
        // Relaxed: a stale count hides a credit, and `wait` checks by a read-modify-write.
        self.0.load(Ordering::Relaxed) / ONE
    }

    /// Sets the bit that the caller waits; returns the number of returned credits.
    fn wait(&self) -> u64 {
        // Relaxed: one order of operations on the word, as at the head of the file.
        self.0.fetch_or(WAITS, Ordering::Relaxed) / ONE
    }
}

/// The caller's side of a pair; used only on its thread.
#[derive(Debug, Default)]
pub struct Sent {
    sent: Cell<u64>,
    /// Cached number of returned credits.
    returned: Cell<u64>,
}

impl Sent {
    /// Takes a credit, if there is one. At most one load, and none if the cached number suffices.
    pub fn take(&self, pair: &Pair) -> bool {
        if self.is_spent() {
            self.returned.set(pair.returned());
        }
        self.take_known()
    }

    /// As [`take`](Self::take); if there is no credit, the next one that is returned wakes the
    /// caller.
    pub fn take_or_wait(&self, pair: &Pair) -> bool {
        if self.take(pair) {
            return true;
        }
        self.returned.set(pair.wait());
        self.take_known()
    }

    fn is_spent(&self) -> bool {
        self.sent.get() - self.returned.get() >= CREDITS
    }

    fn take_known(&self) -> bool {
        if self.is_spent() {
            return false;
        }
        self.sent.set(self.sent.get() + 1);
        true
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_and_they_come_back() {
        let (pair, sent) = (Pair::new(), Sent::default());
        for _ in 0..CREDITS {
            assert!(sent.take(&pair));
        }
        assert!(!sent.take(&pair));
        assert!(!pair.give_back(), "the caller does not wait");
        assert!(sent.take(&pair));
        assert!(!sent.take_or_wait(&pair));
        assert!(pair.give_back());
        assert!(!pair.give_back(), "it was woken");
        assert!(sent.take(&pair) && sent.take_or_wait(&pair));
        assert!(!sent.take(&pair));
    }
}
