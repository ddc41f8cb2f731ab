//! The three parameters of the amortised timers.

use crate::Nanos;

/// How often an amortised timer reads its clock, and what it may return between two readings.
///
/// ```
/// use rast_timers::{Nanos, TimerConfig};
/// let config = TimerConfig::new()
///     .period(Nanos::from_micros(100))
///     .greatest_skip(1_000)
///     .least_value(Nanos::from_nanos(1));
/// # let _ = config;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerConfig {
    pub(crate) period: Nanos,
    pub(crate) greatest_skip: u32,
    pub(crate) least_value: Nanos,
}

impl TimerConfig {
    /// Makes the default: period 1 ms, greatest skip 10 000 calls, minimum value zero.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            period: Nanos::from_millis(1),
            greatest_skip: 10_000,
            least_value: Nanos::ZERO,
        }
    }

    /// Sets P: the time between two clock readings of a steady caller, and the maximum lead of the
    /// answers over the clock.
    ///
    /// Zero makes every call read the clock.
    #[must_use]
    pub const fn period(mut self, period: Nanos) -> Self {
        self.period = period;
        self
    }

    /// Sets the maximum number of consecutive calls without a clock reading.
    ///
    /// Zero makes every call read the clock.
    #[must_use]
    pub const fn greatest_skip(mut self, calls: u32) -> Self {
        self.greatest_skip = calls;
        self
    }

    /// Sets the minimum span that a call returns.
    ///
    /// P has priority: a call returns less, even zero, if the minimum would put the sum more than P
    /// ahead of the last clock reading. So the minimum rounds small steps up and cannot break the
    /// bound.
    #[must_use]
    pub const fn least_value(mut self, span: Nanos) -> Self {
        self.least_value = span;
        self
    }

    /// Returns the size of the next batch: the number of calls from one clock reading up to and
    /// including the next. It at most doubles, keeps a steady caller within P, and never exceeds
    /// the greatest skip.
    pub(crate) fn next_batch(&self, batch: u32, mean_gap: u64) -> u32 {
        if self.period.is_zero() {
            return 1;
        }
        let greatest = self.greatest_skip.saturating_add(1);
        let doubled = batch.saturating_mul(2).min(greatest);
        match self.period.as_nanos().checked_div(mean_gap) {
            // As far as the clock shows, no time passes between two calls.
            None => doubled,
            Some(fits) => u32::try_from(fits).unwrap_or(u32::MAX).clamp(1, doubled),
        }
    }
}

impl Default for TimerConfig {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_at_most_double_and_stay_in_their_limits() {
        let config = TimerConfig::new().greatest_skip(100);
        assert_eq!(config.next_batch(1, 0), 2);
        assert_eq!(config.next_batch(64, 0), 101);
        assert_eq!(config.next_batch(64, 1_000_000), 1);
        assert_eq!(config.next_batch(64, u64::MAX), 1);
        assert_eq!(config.next_batch(64, 20_000), 50);
        assert_eq!(config.period(Nanos::ZERO).next_batch(64, 0), 1);
        assert_eq!(config.greatest_skip(0).next_batch(1, 0), 1);
        let widest = config.greatest_skip(u32::MAX).period(Nanos::MAX);
        assert_eq!(widest.next_batch(u32::MAX, 1), u32::MAX);
    }
}
