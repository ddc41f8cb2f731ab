//! Random numbers for waits, so that tasks that failed together do not retry together.

use core::hash::{BuildHasher, Hasher};
use core::time::Duration;
use std::hash::RandomState;

use crate::primitive::Random;

/// Returns a part of `span`: `percent` hundredths of it, over 100 counts as 100.
pub(crate) fn part(span: Duration, percent: u32) -> Duration {
    (span / 100).saturating_mul(percent.min(100))
}

/// Returns a span between the two. Each call takes new keys of the system's hasher.
pub(crate) fn between(least: Duration, most: Duration) -> Duration {
    let seed = RandomState::new().build_hasher().finish();
    let more = most
        .saturating_sub(least)
        .mul_f64(Random::new(seed).fraction());
    least.saturating_add(more).min(most)
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;
    use std_alloc::vec::Vec;

    #[test]
    fn spans_are_within_their_bounds_and_differ() {
        let (least, most) = (Duration::from_millis(500), Duration::from_millis(1500));
        let spans: Vec<_> = (0..1000).map(|_| between(least, most)).collect();
        let (low, high) = (*spans.iter().min().unwrap(), *spans.iter().max().unwrap());
        assert!(low >= least && high <= most, "{low:?} {high:?}");
        assert!(high - low > Duration::from_millis(500), "{low:?} {high:?}");
        assert_eq!(between(most, most), most);
        for percent in [0, 50, 100, 1000] {
            let less = Duration::MAX - part(Duration::MAX, percent);
            assert!(between(less, Duration::MAX) >= less);
        }
    }
}
