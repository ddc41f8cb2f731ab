//! The bytes that the whole process asks for, and their peak, in steps.
//!
//! Each heap tells a change once it is large, so that no shared line is touched on a fast path; a reading adds what is
//! not told yet.

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

    /// Moves the sum; wait-free.
    #[cold]
    pub(crate) fn change(&self, change: i64) {
        let change = change.cast_unsigned();
        // Relaxed: the word's own order of changes makes each of its values exactly once. [AT2]
        let before = self.current.fetch_add(change, Ordering::Relaxed);
        self.offer(before.wrapping_add(change));
    }

    /// Offers a value to the peak; returns the peak. A heap that frees what another took may tell first, so that the sum
    /// is below zero for a moment: such a value is none.
    pub(crate) fn offer(&self, value: u64) -> u64 {
        let value = if value.cast_signed() < 0 { 0 } else { value };
        // Relaxed: the peak only rises, so by an old value the call below may be made in vain, never left out. [AT7]
        let peak = self.peak.load(Ordering::Relaxed);
        if peak >= value {
            return peak;
        }
        // Relaxed: a maximum is the same in whatever order the values arrive. [AT3]
        self.peak.fetch_max(value, Ordering::Relaxed).max(value)
    }
}
