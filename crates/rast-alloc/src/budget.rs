//! A budget: how many bytes may be in use at once, counted by all threads in one word.

use crate::constructor::constructor;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};

/// A bound, what is used of it, and the most that was.
///
/// Without a bound nothing is counted, so that threads share no word; the most is what
/// [`Budget::seen`] was told then.
#[derive(Debug)]
pub struct Budget {
    bound: usize,
    used: AtomicUsize,
    peak: AtomicUsize,
}

impl Budget {
    constructor! {
        /// A budget of `bound` bytes; `usize::MAX` is none.
        pub fn new(bound: usize) {
            Self {
                bound,
                used: AtomicUsize::new(0),
                peak: AtomicUsize::new(0),
            }
        }
    }

    /// The bound.
    #[must_use]
    pub fn bound(&self) -> usize {
        self.bound
    }

    /// Takes bytes; `false` if they do not fit, and nothing has changed; lock-free.
    ///
    /// A refusal is exact: at one moment of the call what was used left no room.
    #[inline]
    #[must_use]
    pub fn take(&self, bytes: usize) -> bool {
        if self.bound == usize::MAX {
            return true;
        }
        // Relaxed: a count of its own; the exchange decides. [AB1]
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let Some(sum) = used.checked_add(bytes).filter(|sum| *sum <= self.bound) else {
                return false;
            };
            // Relaxed: a count of its own; publishes nothing. [AB2]
            match self
                .used
                .compare_exchange_weak(used, sum, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => {
                    self.seen(sum);
                    return true;
                }
                Err(now) => used = now,
            }
        }
    }

    /// Gives bytes back that were taken; wait-free.
    #[inline]
    pub fn give(&self, bytes: usize) {
        if self.bound != usize::MAX {
            // Relaxed: as for [AB2]. [AB3]
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Says that so many bytes were in use at once; returns the most that ever were.
    #[inline]
    pub fn seen(&self, bytes: usize) -> usize {
        // Relaxed: the peak only rises, so by an old value the call below may be made in vain,
        // never left out. [AB4]
        let peak = self.peak.load(Ordering::Relaxed);
        if peak >= bytes {
            return peak;
        }
        // Relaxed: a maximum is the same in whatever order the values arrive. [AB5]
        self.peak.fetch_max(bytes, Ordering::Relaxed).max(bytes)
    }
}
