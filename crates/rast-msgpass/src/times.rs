//! The histograms of one instance, which its worker writes.

use crate::primitive::{self, LiveHistogram};

/// Number of buckets per doubling, as a power of two.
const PART_BITS: u32 = 3;

/// Durations in nanoseconds. A quantile is at most an eighth too high; count, sum, least and
/// largest value are exact.
pub type Histogram = primitive::Histogram<PART_BITS>;

/// A [`Histogram`] that one thread writes.
pub(crate) type Live = LiveHistogram<PART_BITS>;

/// What is measured of one instance.
#[derive(Debug)]
pub(crate) struct Times {
    /// Per edge that enters.
    pub(crate) waiting: Box<[Live]>,
    pub(crate) handling: Live,
}

impl Times {
    pub(crate) fn new(incoming: usize) -> Self {
        Self {
            waiting: (0..incoming).map(|_| Live::new()).collect(),
            handling: Live::new(),
        }
    }
}
