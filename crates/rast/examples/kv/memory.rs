//! Accounts for memory against one limit that many threads share.
//!
//! If every write changed a shared counter, its cache line would move between the cores. So each
//! holder has an [`Account`], which sums the holder's changes. At [`STEP`] bytes the account adds
//! its sum to the counter. The counter is wrong by at most one step per holder.
//!
//! Holders count whole blocks of the allocator ([`block`]). The unused memory between blocks, which
//! values of changing sizes leave, is reported by the allocator. [`Memory::is_over`] compares the
//! total of both with a ceiling above the limit. While the total exceeds the ceiling even after a
//! purge, each request for room is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use rast::alloc::{Layout, RastAlloc};

/// How many bytes of changes a holder keeps to itself.
pub(crate) const STEP: i64 = 4096;

/// What the allocator may leave unused besides a tenth of the limit.
const SPARE: i64 = 16 << 20;

/// The bytes of the block that holds `bytes` bytes.
pub(crate) fn block(bytes: usize) -> usize {
    Layout::array::<u8>(bytes).map_or(bytes, RastAlloc::usable_size)
}

/// The shared figure and its limit.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: i64,
    used: AtomicI64,
    peak: AtomicI64,
    /// The last purge left the sum above the ceiling.
    strained: AtomicBool,
}

impl Memory {
    /// A figure of zero with a limit in bytes.
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Arc::new(Self {
            limit,
            used: AtomicI64::new(0),
            peak: AtomicI64::new(0),
            strained: AtomicBool::new(false),
        })
    }

    /// Bytes in use, give or take a [`STEP`] per holder.
    pub(crate) fn used(&self) -> u64 {
        // Relaxed: a figure that nothing else hangs on.
        u64::try_from(self.used.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// The most bytes that were in use at once, give or take the same.
    pub(crate) fn peak(&self) -> u64 {
        // Relaxed: as in `used`.
        u64::try_from(self.peak.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Whether more than the limit is in use.
    pub(crate) fn is_exceeded(&self) -> bool {
        // Relaxed: as in `used`.
        self.used.load(Ordering::Relaxed) > self.limit
    }

    /// Whether what is in use and `unused` bytes of the allocator are above the ceiling:
    /// the limit, a tenth of it, and [`SPARE`].
    pub(crate) fn is_over(&self, unused: usize) -> bool {
        let unused = i64::try_from(unused).unwrap_or(i64::MAX);
        let ceiling = self.limit.saturating_add(self.limit / 10 + SPARE);
        // Relaxed: as in `used`.
        self.used.load(Ordering::Relaxed).saturating_add(unused) > ceiling
    }

    /// Says whether the sum is above the ceiling though the allocator has purged.
    pub(crate) fn strain(&self, is_over: bool) {
        // Relaxed: as in `used`.
        self.strained.store(is_over, Ordering::Relaxed);
    }

    /// Whether the last purge left the sum above the ceiling.
    pub(crate) fn is_strained(&self) -> bool {
        // Relaxed: as in `used`.
        self.strained.load(Ordering::Relaxed)
    }

    /// The limit in bytes.
    pub(crate) fn limit(&self) -> u64 {
        u64::try_from(self.limit).unwrap_or(0)
    }
}

/// One holder's part of the figure; gives it back on drop.
#[derive(Debug)]
pub(crate) struct Account {
    memory: Arc<Memory>,
    held: i64,
    unsaid: i64,
}

impl Account {
    /// An empty account.
    pub(crate) fn new(memory: &Arc<Memory>) -> Self {
        Self {
            memory: Arc::clone(memory),
            held: 0,
            unsaid: 0,
        }
    }

    /// Bytes that this account holds.
    pub(crate) fn held(&self) -> u64 {
        u64::try_from(self.held).unwrap_or(0)
    }

    /// Whether `growth` more bytes stay within the limit.
    pub(crate) fn has_room(&self, growth: usize) -> bool {
        let growth = i64::try_from(growth).unwrap_or(i64::MAX);
        // Relaxed: the limit is kept up to a step per holder.
        let used = self.memory.used.load(Ordering::Relaxed);
        let sum = used.saturating_add(self.unsaid).saturating_add(growth);
        sum <= self.memory.limit && !self.memory.is_strained()
    }

    /// Sets the bytes that this account holds.
    pub(crate) fn set(&mut self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.change(bytes - self.held);
    }

    /// Adds bytes.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.change(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Takes bytes away.
    pub(crate) fn sub(&mut self, bytes: usize) {
        self.change(-i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn change(&mut self, by: i64) {
        self.held += by;
        self.unsaid += by;
        if self.unsaid.abs() >= STEP {
            self.say();
        }
    }

    fn say(&mut self) {
        // Relaxed: a sum; no other memory is published by it.
        let used = self.memory.used.fetch_add(self.unsaid, Ordering::Relaxed) + self.unsaid;
        // Relaxed: a figure that nothing else hangs on. Most calls only read it.
        if used > self.memory.peak.load(Ordering::Relaxed) {
            self.memory.peak.fetch_max(used, Ordering::Relaxed);
        }
        self.unsaid = 0;
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.change(-self.held);
        self.say();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_passed_on_in_steps_and_given_back() {
        let memory = Memory::new(10_000);
        let mut account = Account::new(&memory);
        account.add(100);
        assert_eq!((memory.used(), account.held()), (0, 100));
        account.add(5000);
        assert_eq!((memory.used(), account.held()), (5100, 5100));
        assert!(account.has_room(4900));
        assert!(!account.has_room(4901));
        account.set(50);
        assert_eq!((memory.used(), account.held()), (50, 50));
        account.sub(10);
        drop(account);
        assert_eq!(memory.used(), 0);
        assert_eq!(memory.peak(), 5100);
    }

    #[test]
    fn what_the_allocator_leaves_unused_counts_past_a_ceiling() {
        let limit = 100 << 20;
        let memory = Memory::new(limit);
        let mut account = Account::new(&memory);
        account.add(90 << 20);
        assert!(!memory.is_over(36 << 20));
        assert!(memory.is_over((36 << 20) + 1));
        assert!(account.has_room(1));
        memory.strain(true);
        assert!(!account.has_room(0));
        account.sub(1 << 20);
        assert!(!memory.is_over((36 << 20) + 1));
        memory.strain(false);
        assert!(account.has_room(0));
    }

    #[test]
    fn a_block_holds_what_it_is_for() {
        for bytes in [0, 1, 16, 17, 1000, 9000, 70_000, 3 << 20] {
            assert!(
                (bytes..=bytes + bytes / 4 + 4096).contains(&block(bytes)),
                "{bytes}"
            );
        }
    }
}
