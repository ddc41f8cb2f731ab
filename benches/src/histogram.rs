//! A histogram of nanoseconds, for percentiles of many samples at a fixed cost per sample. It is
//! that of rast-primitive, with 128 buckets for each doubling. A result is at most one part in 128
//! too high; below 256 ns it is exact.

use rast::primitive;

/// Number of buckets per doubling, as a power of two.
const PART_BITS: u32 = 7;

/// Counts of samples by size.
#[derive(Clone, Debug, Default)]
pub struct Histogram(primitive::Histogram<PART_BITS>);

impl Histogram {
    /// Holds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one sample.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.0.record(ns);
    }

    /// Adds the samples of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    /// The least bucket value, in nanoseconds, that a `share` of the samples does not exceed.
    ///
    /// # Panics
    ///
    /// If there is no sample.
    pub fn quantile(&self, share: f64) -> f64 {
        assert!(!self.0.is_empty(), "a quantile needs one sample at least");
        self.0.quantile(share) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_count_from_below() {
        let mut histogram = Histogram::new();
        for ns in 1..=100 {
            histogram.record(ns);
        }
        assert_eq!(histogram.quantile(0.5), 50.0);
        assert_eq!(histogram.quantile(0.99), 99.0);
        let mut other = Histogram::default();
        other.record(7);
        other.merge(&histogram);
        assert_eq!(other.quantile(1.0), 100.0);
        assert_eq!(other.quantile(0.0), 1.0);
    }
}
