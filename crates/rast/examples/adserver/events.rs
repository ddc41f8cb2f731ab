//! Rare events of the server, counted, with a wait for them.
//!
//! The demo waits for an event instead of a time. An ad request with a small document causes none,
//! so its path has no lock.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A bid found the gate full, and waited or was refused.
    GateFull,
    /// The limiter had no tokens.
    Limited,
    /// A request was above the burst of the limiter.
    TooLarge,
    /// The breaker opened.
    BreakerOpened,
    /// The breaker refused a bid.
    BreakerRefused,
    /// A probe succeeded, and the breaker closed.
    BreakerClosed,
    /// A transfer holds its first lock.
    TransferHolds,
    /// A lock was refused because the wait would have been a deadlock.
    Deadlock,
    /// The background pool was full.
    PoolFull,
    /// A document was parsed in the background pool.
    Background,
    /// A poll took longer than its limit.
    SlowPoll,
}

const COUNT: usize = Event::SlowPoll as usize + 1;

/// How often each event happened.
#[derive(Debug, Default)]
pub(crate) struct Events {
    counts: Mutex<[u64; COUNT]>,
    changed: Condvar,
}

impl Events {
    fn counts(&self) -> MutexGuard<'_, [u64; COUNT]> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an event.
    pub(crate) fn add(&self, event: Event) {
        self.counts()[event as usize] += 1;
        self.changed.notify_all();
    }

    /// Returns how often an event happened.
    pub(crate) fn count(&self, event: Event) -> u64 {
        self.counts()[event as usize]
    }

    /// Waits until an event happened `least` times; returns `false` if it did not within `limit`.
    pub(crate) fn wait_for(&self, event: Event, least: u64, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut counts = self.counts();
        while counts[event as usize] < least {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(counts, left);
            counts = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
