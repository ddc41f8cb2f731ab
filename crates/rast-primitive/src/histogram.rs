//! A log-linear histogram of numbers, such as durations in nanoseconds, and a variant that one
//! thread writes while others read it.
//!
//! ```text
//!   value      0  1 ..  2^P | 2^P .. 2^(P+1) | 2^(P+1) .. 2^(P+2) | ...      | 2^40 - 1 and more
//!   bucket     one each     | 2^P of one     | 2^P of two         | 2^P each | the last one
//! ```
//!
//! Each range from one power of two to the next has `2^P` buckets of equal width. So a value is
//! known to one part in `2^P`, and exactly if it is below `2^(P+1)`. The layout is fixed, so two
//! histograms merge bucket by bucket. The scheme is that of `HdrHistogram` (Gil Tene), but a power
//! of two sets the precision, and not a number of decimal digits.

use core::{array, fmt};
use std_alloc::boxed::Box;
use std_alloc::vec;

use crate::Counter;

/// Maximum number of bits of a value; larger values count in the last bucket.
const VALUE_BITS: u32 = 40;
const LARGEST: u64 = (1 << VALUE_BITS) - 1;

/// Returns the bucket of a value.
const fn bucket(value: u64, part_bits: u32) -> usize {
    let value = if value < LARGEST { value } else { LARGEST };
    let parts = 1 << part_bits;
    if value < parts {
        return value as usize;
    }
    let shift = value.ilog2() - part_bits;
    ((shift as u64 + 1) * parts + (value >> shift) % parts) as usize
}

/// Returns the largest value of a bucket.
const fn largest(bucket: usize, part_bits: u32) -> u64 {
    let (bucket, parts) = (bucket as u64, 1 << part_bits);
    if bucket < parts {
        return bucket;
    }
    let shift = bucket / parts - 1;
    ((parts + bucket % parts + 1) << shift) - 1
}

/// Counts how many values fall into each bucket. There are `2^P` buckets between one power of two
/// and the next.
///
/// A quantile is at most one part in `2^P` too high, unless it is in the last bucket: there it is
/// the largest recorded value. Count, sum, least and largest value are exact; the sum saturates.
/// Values of 2^40 or more, which is 18 minutes in nanoseconds, count in the last bucket.
///
/// Memory: 8 bytes for each of `(41 - P) << P` buckets, 2.4 KiB with `P` = 3, allocated by
/// [`new`](Self::new). Recording, merging and reading values allocate nothing.
///
/// ```
/// use rast_primitive::Histogram;
///
/// let mut waits = Histogram::<3>::new();
/// for nanos in 1..=1_000 {
///     waits.record(nanos);
/// }
/// let mut all = Histogram::<3>::new();
/// all.record(5_000);
/// all.merge(&waits);
/// assert_eq!((all.count(), all.sum(), all.max()), (1_001, 505_500, 5_000));
/// assert!((500..=500 + 500 / 8).contains(&all.quantile(0.5)));
/// ```
///
/// # Panics
///
/// `P` above 16 does not compile.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram<const P: u32> {
    counts: Box<[u64]>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl<const P: u32> Histogram<P> {
    const BUCKETS: usize = {
        assert!(
            P <= 16,
            "a histogram has at most 2^16 buckets for each doubling"
        );
        bucket(LARGEST, P) + 1
    };

    /// Makes an empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counts: vec![0; Self::BUCKETS].into(),
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// Counts a value: some ten instructions, and two lines of memory.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.counts[bucket(value, P)] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Returns how many values were counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns `true` if no value was counted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the sum of the values, at most `u64::MAX`.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the least value; zero if there is none.
    #[must_use]
    pub const fn min(&self) -> u64 {
        // In a copy of a live histogram the largest value may be older than the least one.
        match self.count {
            0 => 0,
            _ if self.min < self.max => self.min,
            _ => self.max,
        }
    }

    /// Returns the largest value; zero if there is none.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Returns the mean, rounded down; zero if there is none.
    #[must_use]
    pub const fn mean(&self) -> u64 {
        match self.sum.checked_div(self.count) {
            Some(mean) => mean,
            None => 0,
        }
    }

    /// Returns the value that `share` of the values do not exceed; 0.99 is the 99th percentile. The
    /// result is at most one part in `2^P` too high, never above [`max`](Self::max), and zero if
    /// there is no value. In the last bucket it is [`max`](Self::max). A `share` below 0 counts as
    /// 0, one above 1 as 1. Costs a pass over the buckets.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        // From 2^53 on the count is not exact as a float, in either direction.
        if share >= 1.0 {
            return self.max;
        }
        let share = share.max(0.0) * self.count as f64;
        // Rounded up.
        let whole = share as u64;
        let wanted = whole + u64::from((whole as f64) < share);
        let wanted = wanted.min(self.count).max(1);
        let mut seen = 0;
        let at = self.counts.iter().position(|&count| {
            seen += count;
            seen >= wanted
        });
        at.map_or(0, |at| match at + 1 == self.counts.len() {
            true => self.max,
            false => largest(at, P).min(self.max),
        })
    }

    /// Returns the buckets that counted a value since `earlier` was copied from this histogram.
    /// Each item has two numbers: the largest value that belongs to the bucket, and how many values
    /// the bucket has counted since.
    ///
    /// ```
    /// use rast_primitive::Histogram;
    ///
    /// let mut waits = Histogram::<3>::new();
    /// waits.record(1);
    /// let earlier = waits.clone();
    /// waits.record(1);
    /// waits.record(7);
    /// assert!(waits.iter_since(&earlier).eq([(1, 1), (7, 1)]));
    /// assert!(waits.iter_since(&Histogram::new()).eq([(1, 2), (7, 1)]));
    /// ```
    pub fn iter_since<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = (u64, u64)> + 'a {
        let counts = self.counts.iter().zip(&earlier.counts).enumerate();
        let counts =
            counts.map(|(at, (now, before))| (largest(at, P), now.saturating_sub(*before)));
        counts.filter(|&(_, count)| count > 0)
    }
}

impl<const P: u32> Default for Histogram<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const P: u32> fmt::Debug for Histogram<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("min", &self.min())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

/// A [`Histogram`] that one thread writes and any thread reads.
///
/// As with [`Counter`], a thread that becomes the writer must synchronize with the previous one. If
/// two threads write at the same time, values may be lost, without undefined behaviour.
///
/// [`record`](Self::record) is wait-free: it loads four words that only the writer writes, and
/// stores at most these four. [`read`](Self::read) takes no lock; values that are recorded
/// meanwhile may be missing from the result.
///
/// ```
/// use rast_primitive::LiveHistogram;
///
/// let waits = LiveHistogram::<3>::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| (0..100).for_each(|wait| waits.record(wait)));
///     assert!(waits.read().count() <= 100);
/// });
/// assert_eq!(waits.read().count(), 100);
/// ```
pub struct LiveHistogram<const P: u32> {
    counts: Box<[Counter]>,
    /// The sum, the largest value, and `u64::MAX` minus the least value.
    others: [Counter; 3],
}

impl<const P: u32> LiveHistogram<P> {
    /// Makes an empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counts: (0..Histogram::<P>::BUCKETS)
                .map(|_| Counter::new())
                .collect(),
            others: array::from_fn(|_| Counter::new()),
        }
    }

    /// Counts a value. Only the writer may call it.
    #[inline]
    pub fn record(&self, value: u64) {
        // The bucket is written last, and readers load it first. So a value that a reader counts is
        // also in the sum, maximum and minimum, as far as these plain accesses keep their order.
        let [sum, max, min] = &self.others;
        sum.set(sum.get().saturating_add(value));
        raise(max, value);
        raise(min, u64::MAX - value);
        self.counts[bucket(value, P)].add(1);
    }

    /// Returns a copy of what was counted so far. It allocates the copy.
    #[must_use]
    pub fn read(&self) -> Histogram<P> {
        let mut all = Histogram::new();
        self.add_to(&mut all);
        all
    }

    /// Adds what was counted so far to `all`, without an allocation.
    pub fn add_to(&self, all: &mut Histogram<P>) {
        for (sum, count) in all.counts.iter_mut().zip(&self.counts) {
            let count = count.get();
            *sum += count;
            all.count += count;
        }
        let [sum, max, min] = &self.others;
        all.sum = all.sum.saturating_add(sum.get());
        all.max = all.max.max(max.get());
        all.min = all.min.min(u64::MAX - min.get());
    }
}

impl<const P: u32> Default for LiveHistogram<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const P: u32> fmt::Debug for LiveHistogram<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveHistogram").field(&self.read()).finish()
    }
}

#[inline]
fn raise(counter: &Counter, value: u64) {
    if value > counter.get() {
        counter.set(value);
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    fn check_layout<const P: u32>() {
        let mut last = None;
        for at in 0..Histogram::<P>::BUCKETS {
            // Each bucket begins where the one before it ends.
            let first = last.map_or(0, |last: u64| last + 1);
            assert_eq!((bucket(first, P), bucket(largest(at, P), P)), (at, at));
            assert!(largest(at, P) - first <= first >> P, "one part in 2^P");
            last = Some(largest(at, P));
        }
        assert_eq!(last, Some(LARGEST));
        let buckets = Histogram::<P>::BUCKETS;
        assert_eq!(bucket(u64::MAX, P), buckets - 1);
        assert_eq!(buckets, (41 - P as usize) << P);
    }

    #[test]
    fn each_value_has_one_bucket_as_narrow_as_promised() {
        check_layout::<0>();
        check_layout::<2>();
        check_layout::<3>();
        check_layout::<7>();
    }

    #[test]
    fn quantiles_count_from_below() {
        let mut all = Histogram::<7>::new();
        assert_eq!((all.quantile(0.5), all.min(), all.mean()), (0, 0, 0));
        assert!(all.is_empty());
        (1..=100).for_each(|value| all.record(value));
        let found = [0.0, 0.5, 0.99, 0.991, 1.0].map(|share| all.quantile(share));
        assert_eq!(found, [1, 50, 99, 100, 100]);
        assert_eq!((all.min(), all.mean(), all.max()), (1, 50, 100));
        let mut other = Histogram::default();
        other.record(LARGEST + 7);
        other.merge(&all);
        assert_eq!((other.quantile(1.0), other.count()), (LARGEST + 7, 101));
        let counts = other.iter_since(&all).map(|(_, count)| count);
        assert_eq!(counts.sum::<u64>(), 1);
    }

    #[test]
    fn a_sum_past_the_range_stays_at_its_end() {
        let live = LiveHistogram::<3>::new();
        live.record(u64::MAX);
        live.record(2);
        let mut all = live.read();
        assert_eq!((all.sum(), all.min(), all.max()), (u64::MAX, 2, u64::MAX));
        all.merge(&live.read());
        all.record(1);
        assert_eq!((all.sum(), all.count()), (u64::MAX, 5));
    }

    /// As a float, the count of these values is rounded up.
    #[test]
    fn a_quantile_of_very_many_values_is_one_of_them() {
        let mut all = Histogram::<3>::new();
        all.record(5);
        for _ in 0..53 {
            all.merge(&all.clone());
        }
        // As floats, the first count is rounded down and the last one up.
        for _ in 0..3 {
            all.record(7);
            assert_eq!(all.quantile(1.0), 7);
        }
    }

    #[test]
    fn what_is_read_is_what_was_recorded() {
        let (live, mut same) = (LiveHistogram::<3>::new(), Histogram::<3>::new());
        let mut random = crate::Random::new(7);
        for _ in 0..10_000 {
            let value = random.draw() >> (random.draw() % 64);
            live.record(value);
            same.record(value);
        }
        assert_eq!(live.read(), same);
        live.add_to(&mut same);
        assert_eq!(same.count(), 20_000);
    }
}
