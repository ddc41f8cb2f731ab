//! A counter that one thread writes and any thread reads.

use crate::constructor;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A wrapping counter with one writer at a time.
///
/// Since no other thread writes, the writer adds with a load and a store instead of a
/// read-modify-write. If two threads write at the same time, an addition may be lost, without
/// undefined behaviour. A thread that becomes the writer must synchronize with the previous writer
/// by other means.
///
/// Every call is wait-free. Adding costs a load and a store of a word that is in the writer's
/// cache, unless another thread has read it since.
///
/// ```
/// use rast_primitive::Counter;
///
/// let handled = Counter::new();
/// handled.add(2);
/// handled.subtract(1);
/// assert_eq!(handled.get(), 1);
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    constructor! {
        /// Makes a counter of zero.
        #[must_use]
        pub fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    /// Adds to the counter. Only the writer may call it.
    #[inline(always)]
    pub fn add(&self, amount: u64) {
        self.set(self.get().wrapping_add(amount));
    }

    /// Adds to the counter. The writer's earlier writes are visible to a thread that reads the new
    /// value by [`get_after`](Self::get_after). Only the writer may call it.
    #[inline(always)]
    pub fn add_after(&self, amount: u64) {
        let sum = self.get().wrapping_add(amount);
        // Release: pairs with the Acquire in get_after; publishes what the writer did. [SUM1]
        self.0.store(sum, Ordering::Release);
    }

    /// Subtracts from the counter. Only the writer may call it.
    #[inline(always)]
    pub fn subtract(&self, amount: u64) {
        self.add(amount.wrapping_neg());
    }

    /// Sets the counter. Only the writer may call it.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        // Relaxed: a number that publishes nothing.
        self.0.store(value, Ordering::Relaxed);
    }

    /// Returns the value.
    #[inline(always)]
    #[must_use]
    pub fn get(&self) -> u64 {
        // Relaxed: a number by which no other memory is read; the writer loads its own last store.
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the value, and synchronizes with the [`add_after`](Self::add_after) that stored it.
    #[inline(always)]
    #[must_use]
    pub fn get_after(&self) -> u64 {
        // Acquire: pairs with the Release in add_after. [SUM2]
        self.0.load(Ordering::Acquire)
    }
}

impl Default for Counter {
    fn default() -> Self {
        Self::new()
    }
}
