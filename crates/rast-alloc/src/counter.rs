//! A sum that one thread writes and any thread reads.
//!
//! The writer needs no read-modify-write: nothing else writes, so a load and a store do, and the
//! processor adds in place.

use crate::primitive::sync::atomic::{AtomicU64, Ordering};

/// A wrapping sum with one writer at a time; the thread that becomes the next writer is ordered
/// after the last one by the claim on what the sum belongs to.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds; only the writer calls it.
    #[inline(always)]
    pub(crate) fn add(&self, amount: u64) {
        // Relaxed: only this thread writes the word. [AC1]
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(amount);
        // Relaxed: a sum of its own; publishes nothing. [AC2]
        self.0.store(sum, Ordering::Relaxed);
    }

    /// Subtracts; only the writer calls it.
    #[inline(always)]
    pub(crate) fn subtract(&self, amount: u64) {
        self.add(amount.wrapping_neg());
    }

    /// Reads, from any thread.
    #[inline(always)]
    pub(crate) fn read(&self) -> u64 {
        // Relaxed: figures are read one by one; no other memory hangs on them. [AC3]
        self.0.load(Ordering::Relaxed)
    }
}
