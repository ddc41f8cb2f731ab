//! Accounts for memory against one limit that many threads share.
//!
//! A shared counter that every write touched would bounce between the cores, so
//! each holder adds up its own changes and passes them on in steps of
//! [`STEP`] bytes. The shared figure is off by at most one step per holder.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// How many bytes of changes a holder keeps to itself.
pub(crate) const STEP: i64 = 4096;

/// The shared figure and its limit.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: i64,
    used: AtomicI64,
    peak: AtomicI64,
}

impl Memory {
    /// A figure of zero with a limit in bytes.
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Arc::new(Self {
            limit,
            used: AtomicI64::new(0),
            peak: AtomicI64::new(0),
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
        used.saturating_add(self.unsaid).saturating_add(growth) <= self.memory.limit
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
    }
}
