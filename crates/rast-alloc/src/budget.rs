//! A budget: a bound on the bytes in use, which all threads count in one word.

use crate::primitive::constructor;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};

/// A bound, the bytes used, and a maximum: that of the values passed to [`Budget::seen`].
///
/// Without a bound nothing is counted, so that threads share no word.
#[derive(Debug)]
#[repr(align(32))]
pub struct Budget {
    bound: usize,
    used: AtomicUsize,
    peak: AtomicUsize,
}

// Aligned to its size, so that the words are in one cache line: see `take`.
const _: () = assert!(cfg!(rast_loom) || size_of::<Budget>() <= 32);

impl Budget {
    constructor! {
        /// Makes a budget of `bound` bytes; `usize::MAX` is no bound.
        #[must_use]
        pub fn new(bound: usize) -> Self {
            Self {
                bound,
                used: AtomicUsize::new(0),
                peak: AtomicUsize::new(0),
            }
        }
    }

    /// Returns the bound.
    #[must_use]
    pub fn bound(&self) -> usize {
        self.bound
    }

    /// Takes bytes from the budget. If the bytes in use then exceed the recorded maximum, returns
    /// their number, otherwise 0. If the result is not 0, the caller passes it to
    /// [`seen`](Self::seen) once it has the memory. Returns `None`, and changes nothing, if the
    /// bytes do not fit. Lock-free.
    ///
    /// Without a bound the result is 0. The maximum is read here because this thread has just
    /// written to the cache line of the maximum. After the allocation, the line may be in the cache
    /// of another thread.
    ///
    /// A refusal is exact: at one moment of the call there was no room for the bytes.
    #[inline]
    #[must_use]
    pub fn take(&self, bytes: usize) -> Option<usize> {
        if self.bound == usize::MAX {
            return Some(0);
        }
        // Relaxed: a count that publishes nothing; the exchange decides. [AB1]
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let sum = used.checked_add(bytes).filter(|sum| *sum <= self.bound)?;
            // Relaxed: a count that publishes nothing. [AB2]
            match self
                .used
                .compare_exchange_weak(used, sum, Ordering::Relaxed, Ordering::Relaxed)
            {
                // Relaxed: as for [AB4]. [AB10]
                Ok(_) if self.peak.load(Ordering::Relaxed) >= sum => return Some(0),
                Ok(_) => return Some(sum),
                Err(now) => used = now,
            }
        }
    }

    /// Gives back bytes that were taken. Wait-free.
    #[inline]
    pub fn give(&self, bytes: usize) {
        if self.bound != usize::MAX {
            // Relaxed: as for [AB2]. [AB3]
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Records that so many bytes were in use at once; returns the maximum.
    #[inline]
    pub fn seen(&self, bytes: usize) -> usize {
        // Relaxed: the peak only rises, so a stale value may cause a needless call below, but never
        // a missing one. [AB4]
        let peak = self.peak.load(Ordering::Relaxed);
        if peak >= bytes {
            return peak;
        }
        // Relaxed: a maximum does not depend on the order of the values. [AB5]
        self.peak.fetch_max(bytes, Ordering::Relaxed).max(bytes)
    }
}
