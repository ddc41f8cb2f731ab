//! A histogram of nanoseconds, for percentiles of many samples at a fixed cost each.
//!
//! Buckets are linear inside each power of two, 128 of them, so that a figure is off by less than
//! one part in 128; below 128 ns it is exact.

const LINEAR_BITS: u32 = 7;
const LINEAR: u64 = 1 << LINEAR_BITS;
const BUCKETS: usize = (64 - LINEAR_BITS as usize + 1) << LINEAR_BITS;

/// Counts of samples by size.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Holds nothing yet.
    pub fn new() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            total: 0,
        }
    }

    /// Adds one sample.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.total += 1;
    }

    /// Adds the samples of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
    }

    /// The least bucket value that `share` of the samples do not exceed, in nanoseconds.
    ///
    /// # Panics
    ///
    /// If there is no sample.
    pub fn quantile(&self, share: f64) -> f64 {
        assert!(self.total > 0, "a quantile needs one sample at least");
        let wanted = ((self.total as f64 * share).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return middle(index);
            }
        }
        unreachable!("the counts sum to the total")
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// The bucket of a value: itself below 128, then its top eight bits.
fn bucket(ns: u64) -> usize {
    let above = (64 - ns.leading_zeros()).saturating_sub(LINEAR_BITS + 1);
    let within = ns >> above;
    ((u64::from(above) << LINEAR_BITS) + within) as usize
}

/// The middle of a bucket.
fn middle(index: usize) -> f64 {
    let index = index as u64;
    if index < 2 * LINEAR {
        return index as f64;
    }
    let above = (index >> LINEAR_BITS) - 1;
    let low = ((index & (LINEAR - 1)) + LINEAR) << above;
    low as f64 + ((1_u64 << above) - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_as_narrow_as_promised() {
        for ns in (0..5000).chain([u64::MAX / 3, u64::MAX - 1, u64::MAX]) {
            let off = (middle(bucket(ns)) - ns as f64).abs();
            assert!(off * 128.0 <= ns as f64, "{ns} reads as {off} off");
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

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
