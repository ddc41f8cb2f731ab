//! A histogram of latencies with a relative error below one part in 32.
//!
//! Buckets are linear within each power of two: 32 per octave. One thread records,
//! others read at any time; a reading is a sum of counts that were all true at
//! some moment of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets per power of two, as a power of two.
const FINE: u32 = 5;
/// Powers of two above the first: up to 2^40 ns, about 18 minutes.
const OCTAVES: u32 = 36;
const BUCKETS: usize = ((OCTAVES + 1) << FINE) as usize;

/// Counts of latencies.
#[derive(Debug)]
pub(crate) struct Histogram {
    counts: Vec<AtomicU64>,
}

impl Histogram {
    /// An empty histogram.
    pub(crate) fn new() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Records `count` latencies of `span`.
    pub(crate) fn record(&self, span: Duration, count: u64) {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        // Relaxed: counts alone, read as a picture.
        self.counts[bucket(nanos)].fetch_add(count, Ordering::Relaxed);
    }

    /// Adds the counts to `total`.
    pub(crate) fn add_to(&self, total: &mut Counts) {
        for (sum, count) in total.0.iter_mut().zip(&self.counts) {
            // Relaxed: as in `record`.
            *sum += count.load(Ordering::Relaxed);
        }
    }
}

/// Counts that were read.
#[derive(Clone, Debug)]
pub(crate) struct Counts(Vec<u64>);

impl Counts {
    /// No counts.
    pub(crate) fn new() -> Self {
        Self(vec![0; BUCKETS])
    }

    /// What came in since an earlier reading.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self(
            self.0
                .iter()
                .zip(&earlier.0)
                .map(|(now, then)| now.saturating_sub(*then))
                .collect(),
        )
    }

    /// How many latencies were recorded.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The latency that `share` of all stay within; zero when there is none.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let total = self.total();
        let rank = ((total as f64) * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.0.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(upper(index));
            }
        }
        Duration::ZERO
    }
}

fn bucket(nanos: u64) -> usize {
    let octave = (u64::BITS - (nanos >> FINE).leading_zeros()).min(OCTAVES);
    // In the first octave the value is its own bucket; above, its top bits are.
    let shift = octave.saturating_sub(1);
    let within = (nanos >> shift) - if octave == 0 { 0 } else { 1 << FINE };
    let within = within.min((1 << FINE) - 1);
    ((octave << FINE) as usize) + within as usize
}

/// The largest value of a bucket.
fn upper(index: usize) -> u64 {
    let octave = (index >> FINE) as u32;
    let within = (index & ((1 << FINE) - 1)) as u64;
    if octave == 0 {
        within
    } else {
        ((within + (1 << FINE) + 1) << (octave - 1)) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_the_range_with_a_small_error() {
        let mut last = None;
        for nanos in (0..5000).chain((13..39).map(|power| (1 << power) + 12345)) {
            let index = bucket(nanos);
            assert!(last <= Some(index), "{nanos}");
            last = Some(index);
            let top = upper(index);
            assert!(
                top >= nanos && top - nanos <= nanos / 32,
                "{nanos} in a bucket up to {top}"
            );
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn quantiles_are_ranks() {
        let histogram = Histogram::new();
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros), 1);
        }
        let mut counts = Counts::new();
        assert_eq!(counts.quantile(0.5), Duration::ZERO);
        histogram.add_to(&mut counts);
        assert_eq!(counts.total(), 1000);
        for (share, micros) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0)] {
            let found = counts.quantile(share).as_secs_f64() * 1e6;
            assert!((found - micros).abs() / micros < 0.04, "{share}: {found}");
        }
        assert_eq!(counts.since(&counts.clone()).total(), 0);
    }
}
