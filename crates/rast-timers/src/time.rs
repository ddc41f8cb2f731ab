//! Points in time and spans, in whole nanoseconds.
//!
//! One `u64` each: 584 years of range, one register, one atomic word. There are no `+` and `-`
//! operators on purpose: each method's name states how it treats overflow.

use core::fmt;
use core::time::Duration;

/// A point in time: nanoseconds since the origin of the clock that gave it.
///
/// Instants of different clocks must not be compared; all instances of
/// [`MonotonicClock`](crate::MonotonicClock) count as one clock.
///
/// ```
/// use rast_timers::{Instant, Nanos};
/// let start = Instant::from_nanos(500);
/// let later = start.saturating_add(Nanos::from_micros(2));
/// assert_eq!(later.saturating_since(start), Nanos::from_nanos(2_000));
/// assert_eq!(start.saturating_since(later), Nanos::ZERO);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the clock.
    pub const ORIGIN: Self = Self(0);

    /// The last instant; as a deadline it means never.
    pub const MAX: Self = Self(u64::MAX);

    /// Makes the instant `nanos` nanoseconds after the clock's origin.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the clock's origin.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the instant `span` later, or `None` on overflow.
    #[inline]
    #[must_use]
    pub const fn checked_add(self, span: Nanos) -> Option<Self> {
        match self.0.checked_add(span.0) {
            Some(nanos) => Some(Self(nanos)),
            None => None,
        }
    }

    /// Returns the instant `span` earlier, or `None` before the origin.
    #[inline]
    #[must_use]
    pub const fn checked_sub(self, span: Nanos) -> Option<Self> {
        match self.0.checked_sub(span.0) {
            Some(nanos) => Some(Self(nanos)),
            None => None,
        }
    }

    /// Returns the instant `span` later, at most [`Instant::MAX`].
    #[inline]
    #[must_use]
    pub const fn saturating_add(self, span: Nanos) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Returns the instant `span` earlier, at least the origin.
    #[inline]
    #[must_use]
    pub const fn saturating_sub(self, span: Nanos) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// Returns the instant with the most trailing zero bits, of all instants from this one to
    /// `slack` later. Timers with overlapping slack tend to get the same instant.
    ///
    /// [`Instant::MAX`] is returned unchanged.
    ///
    /// ```
    /// use rast_timers::{Instant, Nanos};
    /// let within = |at, slack| {
    ///     let rounded = Instant::from_nanos(at).within(Nanos::from_nanos(slack));
    ///     rounded.as_nanos()
    /// };
    /// assert_eq!(within(1001, 100), 1024);
    /// assert_eq!(within(1000, 30), 1024);
    /// assert_eq!(within(1025, 3), 1028);
    /// assert_eq!(within(1025, 0), 1025);
    /// ```
    #[inline]
    #[must_use]
    pub const fn within(self, slack: Nanos) -> Self {
        if self.0 == 0 || self.0 == u64::MAX {
            return self;
        }
        // Never the last instant, which means never.
        let end = match self.0.checked_add(slack.0) {
            Some(u64::MAX) | None => u64::MAX - 1,
            Some(end) => end,
        };
        // The highest bit in which `self - 1` and `end` differ: with all bits below it zero, `end`
        // is still at or after `self`.
        let bit = ((self.0 - 1) ^ end).ilog2();
        Self(end >> bit << bit)
    }

    /// Returns the span since `earlier`, or `None` if `earlier` is later.
    #[inline]
    #[must_use]
    pub const fn checked_since(self, earlier: Self) -> Option<Nanos> {
        match self.0.checked_sub(earlier.0) {
            Some(nanos) => Some(Nanos(nanos)),
            None => None,
        }
    }

    /// Returns the span since `earlier`, zero if `earlier` is later.
    #[inline]
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({self})")
    }
}

impl fmt::Display for Instant {
    /// Writes the span since the origin, as `1.5ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Nanos(self.0), f)
    }
}

/// A span of time in whole nanoseconds.
///
/// ```
/// use core::time::Duration;
/// use rast_timers::Nanos;
/// assert_eq!(Nanos::from_millis(3).to_string(), "3ms");
/// assert_eq!(Duration::from(Nanos::from_secs(1)), Duration::from_secs(1));
/// assert_eq!(Nanos::from(Duration::MAX), Nanos::MAX);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(u64);

impl Nanos {
    /// The empty span.
    pub const ZERO: Self = Self(0);

    /// The longest span, about 584 years.
    pub const MAX: Self = Self(u64::MAX);

    /// Makes a span of `nanos` nanoseconds.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Makes a span of `micros` microseconds, at most [`Nanos::MAX`].
    #[inline]
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Makes a span of `millis` milliseconds, at most [`Nanos::MAX`].
    #[inline]
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Makes a span of `secs` seconds, at most [`Nanos::MAX`].
    #[inline]
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Makes a span from a `Duration`, or `None` on overflow.
    #[inline]
    #[must_use]
    pub const fn checked_from(span: Duration) -> Option<Self> {
        let nanos = span.as_nanos();
        if nanos > u64::MAX as u128 {
            return None;
        }
        Some(Self(nanos as u64))
    }

    /// Returns the number of nanoseconds.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns `true` if the span is zero.
    #[inline]
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns the sum, or `None` on overflow.
    #[inline]
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(nanos) => Some(Self(nanos)),
            None => None,
        }
    }

    /// Returns the difference, or `None` if `other` is longer.
    #[inline]
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(nanos) => Some(Self(nanos)),
            None => None,
        }
    }

    /// Returns the product, or `None` on overflow.
    #[inline]
    #[must_use]
    pub const fn checked_mul(self, factor: u64) -> Option<Self> {
        match self.0.checked_mul(factor) {
            Some(nanos) => Some(Self(nanos)),
            None => None,
        }
    }

    /// Returns the sum, at most [`Nanos::MAX`].
    #[inline]
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference, zero if `other` is longer.
    #[inline]
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the product, at most [`Nanos::MAX`].
    #[inline]
    #[must_use]
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl From<Nanos> for Duration {
    /// Exact: every span fits.
    #[inline]
    fn from(span: Nanos) -> Self {
        Self::from_nanos(span.0)
    }
}

impl From<Duration> for Nanos {
    /// Saturating: a longer `Duration` becomes [`Nanos::MAX`].
    #[inline]
    fn from(span: Duration) -> Self {
        Self::checked_from(span).unwrap_or(Self::MAX)
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Nanos {
    /// Writes the span in its largest fitting unit, as `1.5ms`; a precision is respected.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Duration::from_nanos(self.0), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std_alloc::format;

    #[test]
    fn ends_of_the_range_saturate_or_say_none() {
        let one = Nanos::from_nanos(1);
        assert_eq!(Instant::MAX.saturating_add(one), Instant::MAX);
        assert_eq!(Instant::MAX.checked_add(one), None);
        assert_eq!(Instant::ORIGIN.saturating_sub(one), Instant::ORIGIN);
        assert_eq!(Instant::ORIGIN.checked_sub(one), None);
        assert_eq!(Instant::ORIGIN.checked_since(Instant::MAX), None);
        assert_eq!(Instant::MAX.saturating_since(Instant::ORIGIN), Nanos::MAX);
        assert_eq!(Nanos::MAX.checked_add(one), None);
        assert_eq!(Nanos::ZERO.checked_sub(one), None);
        assert_eq!(Nanos::MAX.checked_mul(2), None);
        assert_eq!(Nanos::MAX.saturating_mul(2), Nanos::MAX);
        assert_eq!(Nanos::from_secs(u64::MAX), Nanos::MAX);
    }

    #[test]
    fn durations_convert_both_ways() {
        let span = Nanos::from_nanos(1_500_000_001);
        assert_eq!(Nanos::from(Duration::from(span)), span);
        assert_eq!(Nanos::checked_from(Duration::MAX), None);
        assert_eq!(Nanos::from(Duration::MAX), Nanos::MAX);
    }

    #[test]
    fn display_is_for_people() {
        assert_eq!(format!("{}", Nanos::from_nanos(1_500)), "1.5µs");
        assert_eq!(format!("{:.2}", Nanos::from_nanos(1_234_567)), "1.23ms");
        assert_eq!(format!("{:?}", Instant::from_nanos(7)), "Instant(7ns)");
    }
}
