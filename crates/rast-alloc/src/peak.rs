//! The process's bytes in use, and their peak.
//!
//! Each heap reports a lower bound of its own bytes in steps ([`crate::arena`], file
//! `reported.rs`). So no fast path touches a shared cache line, and no heap visits the others. No
//! heap reported more than it had in use at that moment, so no value of the sum exceeds what was in
//! use at once.

use crate::primitive::sync::atomic::{AtomicU64, Ordering};

/// The sum of the process.
pub(crate) static IN_USE: Peak = Peak::new();

/// A sum and its maximum.
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

    /// Adds to the sum. Wait-free.
    pub(crate) fn change(&self, change: i64) {
        let change = change.cast_unsigned();
        // Relaxed: the word's own order of changes makes each of its values exactly once. [AT2]
        let before = self.current.fetch_add(change, Ordering::Relaxed);
        // A heap that frees a block of another heap may report first, so the sum may be negative
        // for a moment.
        if let Ok(sum) = u64::try_from(before.wrapping_add(change).cast_signed()) {
            self.offer(sum);
        }
    }

    /// Raises the peak to `value` if that is higher; returns the peak.
    pub(crate) fn offer(&self, value: u64) -> u64 {
        // Relaxed: the peak only rises, so a stale value may cause a needless call below, but never
        // a missing one. [AT7]
        let peak = self.peak.load(Ordering::Relaxed);
        if peak >= value {
            return peak;
        }
        // Relaxed: a maximum does not depend on the order of the values. [AT3]
        self.peak.fetch_max(value, Ordering::Relaxed).max(value)
    }
}
