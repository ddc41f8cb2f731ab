//! A clock reading with its error bound.

use crate::{Instant, Nanos};

/// An interval of time that contains the true instant, ends included.
///
/// Source: the interval of TrueTime (Corbett et al., Spanner, 2012).
///
/// ```
/// use rast_timers::{Instant, Interval, Nanos};
/// let sooner = Interval::new(Instant::from_nanos(10), Instant::from_nanos(30));
/// let later = Interval::new(Instant::from_nanos(40), Instant::from_nanos(50));
/// assert_eq!(sooner.half_width(), Nanos::from_nanos(10));
/// assert!(sooner.contains(Instant::from_nanos(30)));
/// assert!(sooner.is_before(later)); // for certain
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    /// Earliest possible true instant.
    pub earliest: Instant,
    /// Latest possible true instant.
    pub latest: Instant,
}

impl Interval {
    /// Makes the interval between two instants.
    ///
    /// # Panics
    ///
    /// If `earliest` is after `latest`.
    #[must_use]
    pub const fn new(earliest: Instant, latest: Instant) -> Self {
        assert!(
            earliest.as_nanos() <= latest.as_nanos(),
            "an interval ends where it begins or later"
        );
        Self { earliest, latest }
    }

    /// Returns the distance from the middle to either end, rounded up.
    #[must_use]
    pub const fn half_width(&self) -> Nanos {
        Nanos::from_nanos((self.latest.as_nanos() - self.earliest.as_nanos()).div_ceil(2))
    }

    /// Returns `true` if `instant` may be the true one.
    #[must_use]
    pub const fn contains(&self, instant: Instant) -> bool {
        self.earliest.as_nanos() <= instant.as_nanos()
            && instant.as_nanos() <= self.latest.as_nanos()
    }

    /// Returns `true` if the true instant of `self` is certainly before that of `other`; intervals
    /// that overlap are not ordered.
    #[must_use]
    pub const fn is_before(&self, other: Self) -> bool {
        self.latest.as_nanos() < other.earliest.as_nanos()
    }
}
