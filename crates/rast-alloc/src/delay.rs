//! The purge delay: how long memory must be unused before it returns to the system automatically.

use core::time::Duration;

use crate::primitive::sync::atomic::{AtomicU64, Ordering};

/// The value for "never".
const NEVER: u64 = u64::MAX;

/// The delay of all heaps of threads.
pub(crate) static DELAY: Delay = Delay(AtomicU64::new(1000));

/// A delay in milliseconds, or never.
pub(crate) struct Delay(AtomicU64);

impl Delay {
    /// Returns the delay; `None` for never.
    #[inline]
    pub(crate) fn get(&self) -> Option<u64> {
        // Relaxed: a setting; it publishes nothing. [AT13]
        let delay_ms = self.0.load(Ordering::Relaxed);
        (delay_ms != NEVER).then_some(delay_ms)
    }

    /// Sets the delay, rounded up to milliseconds. A delay that does not fit becomes the longest
    /// one, not never, because only `None` stops the background thread.
    pub(crate) fn set(&self, delay: Option<Duration>) {
        let delay_ms = delay.map_or(NEVER, |delay| {
            let millis = delay.as_nanos().div_ceil(1_000_000);
            u64::try_from(millis).unwrap_or(NEVER).min(NEVER - 1)
        });
        // Relaxed: as for [AT13]. [AT14]
        self.0.store(delay_ms, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only `None` means never: it also stops the background thread, and no other value does.
    #[test]
    fn the_longest_delay_is_a_delay() {
        let delay = Delay(AtomicU64::new(0));
        for longest in [Duration::MAX, Duration::from_millis(u64::MAX)] {
            delay.set(Some(longest));
            assert!(delay.get().is_some_and(|delay_ms| delay_ms > u64::MAX / 2));
        }
        delay.set(None);
        assert_eq!(delay.get(), None);
    }
}
