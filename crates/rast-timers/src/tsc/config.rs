//! The parameters of the counter clock.

use crate::Nanos;

/// How often a [`TscClock`](crate::TscClock) compares its counter with its reference, and how far
/// it trusts the rate in between.
///
/// ```
/// use rast_timers::{Nanos, TscConfig};
/// // A tenth of the anchors, for ten times the error.
/// let config = TscConfig::new().anchor_every(Nanos::from_millis(10));
/// # let _ = config;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TscConfig {
    pub(crate) anchor_every: Nanos,
    pub(crate) drift_ppm: u32,
}

impl TscConfig {
    /// The shortest time between two anchors.
    pub const SHORTEST: Nanos = Nanos::from_micros(16);

    /// The longest time between two anchors.
    // A segment is about as long at most, and may run at up to twice the rate. So its times are
    // below 2^32 ns, and fit a word with their fraction.
    pub const LONGEST: Nanos = Nanos::from_nanos(1 << 30);

    /// Makes the default: an anchor every millisecond, drift at most 500 parts
    /// in a million.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            anchor_every: Nanos::from_millis(1),
            drift_ppm: 500,
        }
    }

    /// Sets the time from one anchor to the next while the clock is read, clamped to
    /// [`SHORTEST`](Self::SHORTEST)..=[`LONGEST`](Self::LONGEST).
    ///
    /// The interval is at its widest just before the next anchor: about
    /// `anchor_every` times the drift, to either side.
    #[must_use]
    pub const fn anchor_every(mut self, span: Nanos) -> Self {
        let nanos = span.as_nanos();
        self.anchor_every = if nanos < Self::SHORTEST.as_nanos() {
            Self::SHORTEST
        } else if nanos > Self::LONGEST.as_nanos() {
            Self::LONGEST
        } else {
            span
        };
        self
    }

    /// Sets by how many parts per million the rate of the reference against the counter may differ
    /// from its mean over about the last second; at most 100 000.
    ///
    /// The default (500) is the most that the kernel's own time discipline may do. A program that
    /// sets the time may be allowed more while it corrects a large error. With too small a bound
    /// the clock notices at the next anchor and leaves the counter.
    #[must_use]
    pub const fn drift_ppm(mut self, parts: u32) -> Self {
        self.drift_ppm = if parts > 100_000 { 100_000 } else { parts };
        self
    }
}

impl Default for TscConfig {
    fn default() -> Self {
        Self::new()
    }
}
