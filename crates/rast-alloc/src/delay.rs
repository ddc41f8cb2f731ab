//! How long memory is unused before it goes back to the system by itself.

use core::time::Duration;

use crate::primitive::sync::atomic::{AtomicU64, Ordering};

/// Means never.
const NEVER: u64 = u64::MAX;

/// The delay of all threads' heaps.
pub(crate) static DELAY: Delay = Delay(AtomicU64::new(1000));

/// A delay in milliseconds, or never.
pub(crate) struct Delay(AtomicU64);

impl Delay {
    /// The delay; `None` if it is never over.
    #[inline]
    pub(crate) fn get(&self) -> Option<u64> {
        // Relaxed: a wish, by which nothing is published. [AT13]
        let delay_ms = self.0.load(Ordering::Relaxed);
        (delay_ms != NEVER).then_some(delay_ms)
    }

    /// Sets it, rounded up to milliseconds.
    pub(crate) fn set(&self, delay: Option<Duration>) {
        let delay_ms = delay.map_or(NEVER, |delay| {
            let millis = delay.as_nanos().div_ceil(1_000_000);
            u64::try_from(millis).unwrap_or(NEVER)
        });
        // Relaxed: as for [AT13]. [AT14]
        self.0.store(delay_ms, Ordering::Relaxed);
    }
}
