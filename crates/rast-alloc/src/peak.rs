//! The bytes that the whole process has in use, and their peak.
//!
//! Each heap tells a lower bound of its own bytes in steps ([`crate::arena`], file `told.rs`), so
//! that no shared line is touched on a fast path, and no heap looks at the others. As each told no
//! more than it had in use at that moment, no value of the sum is more than was in use at once; it
//! is less by what heaps did not tell.

use crate::primitive::sync::atomic::{AtomicU64, Ordering};

/// Of the process.
pub(crate) static IN_USE: Peak = Peak::new();

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
    pub(crate) fn change(&self, change: i64) {
        let change = change.cast_unsigned();
        // Relaxed: the word's own order of changes makes each of its values exactly once. [AT2]
        let before = self.current.fetch_add(change, Ordering::Relaxed);
        // A heap that frees what another took may tell first, so that the sum is below zero for a
        // moment.
        if let Ok(sum) = u64::try_from(before.wrapping_add(change).cast_signed()) {
            self.offer(sum);
        }
    }

    /// Offers a value to the peak; returns the peak.
    pub(crate) fn offer(&self, value: u64) -> u64 {
        // Relaxed: the peak only rises, so by an old value the call below may be made in vain,
        // never left out. [AT7]
        let peak = self.peak.load(Ordering::Relaxed);
        if peak >= value {
            return peak;
        }
        // Relaxed: a maximum is the same in whatever order the values arrive. [AT3]
        self.peak.fetch_max(value, Ordering::Relaxed).max(value)
    }
}
