//! The bytes that the whole process asks for, and their peak, in steps.
//!
//! Each heap tells a change once it is large, so that no shared line is touched on a fast path.
//! What is told of two heaps need not be of one moment: one heap may have told what it took, and another one not yet that
//! it gave the same back. So a sum of what was told only says when to look: the peak is made of readings of the heaps
//! themselves, none of which is more than was ever in use at once ([`crate::stats`]).

use crate::primitive::sync::atomic::{AtomicU64, Ordering};

/// The level of the process.
pub(crate) static LEVEL: Peak = Peak::new();

/// A sum and the highest value that it had.
#[derive(Debug)]
pub(crate) struct Peak {
    current: AtomicU64,
    peak: AtomicU64,
}

impl Peak {
    pub(crate) const fn new() -> Self {
        Self {
            current: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }
    }

    /// Moves the sum, and reads the heaps if that makes it more than the peak; wait-free but for `read`.
    #[cold]
    pub(crate) fn change(&self, change: i64, read: impl FnOnce() -> u64) {
        let change = change.cast_unsigned();
        // Relaxed: the word's own order of changes makes each of its values exactly once. [AT2]
        let before = self.current.fetch_add(change, Ordering::Relaxed);
        // A heap that frees what another took may tell first, so that the sum is below zero for a moment.
        let sum = before.wrapping_add(change).cast_signed();
        // Relaxed: a hint when to look. [AT15]
        if sum > self.peak.load(Ordering::Relaxed).cast_signed() {
            self.offer(read());
        }
    }

    /// Offers a value to the peak; returns the peak.
    pub(crate) fn offer(&self, value: u64) -> u64 {
        // Relaxed: the peak only rises, so by an old value the call below may be made in vain, never left out. [AT7]
        let peak = self.peak.load(Ordering::Relaxed);
        if peak >= value {
            return peak;
        }
        // Relaxed: a maximum is the same in whatever order the values arrive. [AT3]
        self.peak.fetch_max(value, Ordering::Relaxed).max(value)
    }
}
