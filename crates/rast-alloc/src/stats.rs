//! What the allocator was asked for: bytes now and at most, and calls.
//!
//! One set of counters for all threads, on one padded line: simple, and true by construction when one thread frees what
//! another took.
//! The bytes in use are one word, which every call moves by its own size, so the peak is the highest value that this
//! word ever had, not a guess put together from parts.
//!
//! Every operation is relaxed: each word stands for itself, and no other memory is published through it.
//! A block's addition precedes its subtraction, because the pointer travels from the one thread to the other with at
//! least that much order, so the bytes in use never fall below zero.

use core::fmt;

use crate::primitive::CachePadded;
use crate::primitive::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Figures of [`RastAlloc`](crate::RastAlloc) at one moment.
///
/// Each figure is exact; figures of one reading may be some calls apart while other threads allocate.
/// Sizes are those asked for, without what the system adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes in use.
    pub bytes_current: usize,
    /// The most bytes that were ever in use at once.
    pub bytes_peak: usize,
    /// Blocks taken.
    pub allocations: u64,
    /// Blocks given back.
    pub frees: u64,
    /// Blocks that were made larger or smaller.
    pub reallocations: u64,
}

impl Stats {
    /// Returns how many blocks are in use.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.allocations.saturating_sub(self.frees)
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes in {} blocks, peak {} bytes, {} allocations, {} frees, {} reallocations",
            self.bytes_current,
            self.live(),
            self.bytes_peak,
            self.allocations,
            self.frees,
            self.reallocations,
        )
    }
}

/// The counters behind [`Stats`].
#[derive(Debug)]
pub struct Counters(CachePadded<Words>);

#[derive(Debug)]
struct Words {
    current: AtomicUsize,
    peak: AtomicUsize,
    allocations: AtomicU64,
    frees: AtomicU64,
    reallocations: AtomicU64,
}

impl Counters {
    /// Counters at zero.
    #[cfg(not(rast_loom))]
    #[expect(
        clippy::new_without_default,
        reason = "hidden: for the static and the models alone"
    )]
    #[must_use]
    pub const fn new() -> Self {
        Self(CachePadded::new(Words {
            current: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            allocations: AtomicU64::new(0),
            frees: AtomicU64::new(0),
            reallocations: AtomicU64::new(0),
        }))
    }

    /// Counters at zero.
    #[cfg(rast_loom)]
    #[expect(
        clippy::new_without_default,
        reason = "hidden: for the static and the models alone"
    )]
    pub fn new() -> Self {
        Self(CachePadded::new(Words {
            current: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            allocations: AtomicU64::new(0),
            frees: AtomicU64::new(0),
            reallocations: AtomicU64::new(0),
        }))
    }

    /// Counts a block of `size` bytes taken.
    #[inline]
    pub fn count_allocation(&self, size: usize) {
        // Relaxed: a sum of its own; publishes nothing. [ST1]
        self.0.allocations.fetch_add(1, Ordering::Relaxed);
        self.add(size);
    }

    /// Counts a block of `size` bytes given back.
    #[inline]
    pub fn count_free(&self, size: usize) {
        // Relaxed: a sum of its own; publishes nothing. [ST2]
        self.0.frees.fetch_add(1, Ordering::Relaxed);
        self.subtract(size);
    }

    /// Counts a block that went from `old` bytes to `new`.
    #[inline]
    pub fn count_reallocation(&self, old: usize, new: usize) {
        // Relaxed: a sum of its own; publishes nothing. [ST3]
        self.0.reallocations.fetch_add(1, Ordering::Relaxed);
        if new >= old {
            self.add(new - old);
        } else {
            self.subtract(old - new);
        }
    }

    /// Reads all figures.
    pub fn read(&self) -> Stats {
        // Relaxed: figures are read one by one, as the docs of `Stats` say. [ST4]
        let current = self.0.current.load(Ordering::Relaxed);
        // Relaxed: as above. [ST5]
        let mut peak = self.0.peak.load(Ordering::Relaxed);
        if current > peak {
            // Relaxed: a maximum, as in `add`; the thread that raised `current` may not have come so far, and no later
            // reading may show less than this one. [ST13]
            peak = self
                .0
                .peak
                .fetch_max(current, Ordering::Relaxed)
                .max(current);
        }
        Stats {
            bytes_current: current,
            bytes_peak: peak,
            // Relaxed: as above. [ST6]
            allocations: self.0.allocations.load(Ordering::Relaxed),
            // Relaxed: as above. [ST7]
            frees: self.0.frees.load(Ordering::Relaxed),
            // Relaxed: as above. [ST8]
            reallocations: self.0.reallocations.load(Ordering::Relaxed),
        }
    }

    #[inline]
    fn add(&self, size: usize) {
        // Relaxed: the word's own order of changes makes `current` each of its values exactly once. [ST9]
        let current = self.0.current.fetch_add(size, Ordering::Relaxed) + size;
        // Relaxed: the peak only rises, so by an old value the call below may be made in vain, never left out. [ST10]
        if current > self.0.peak.load(Ordering::Relaxed) {
            // Relaxed: a maximum is the same in whatever order the values arrive. [ST11]
            self.0.peak.fetch_max(current, Ordering::Relaxed);
        }
    }

    #[inline]
    fn subtract(&self, size: usize) {
        // Relaxed: the addition of the same block came before, in this word's own order. [ST12]
        self.0.current.fetch_sub(size, Ordering::Relaxed);
    }
}
