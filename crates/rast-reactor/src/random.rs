//! Numbers that spread waits, so that what failed together does not try again together.

use core::hash::{BuildHasher, Hasher};
use core::time::Duration;
use std::hash::RandomState;

/// Returns a part of `span`: `percent` hundredths of it, over 100 counts as 100.
pub(crate) fn part(span: Duration, percent: u32) -> Duration {
    (span / 100).saturating_mul(percent.min(100))
}

/// Returns a span between the two. Each call takes new keys of the system's hasher.
pub(crate) fn between(least: Duration, most: Duration) -> Duration {
    // The upper 53 bits as a number from 0 to 1.
    let part = (RandomState::new().build_hasher().finish() >> 11) as f64 / (1_u64 << 53) as f64;
    let more = most.saturating_sub(least).mul_f64(part);
    least.saturating_add(more).min(most)
}

/// The next number of a seed, by xorshift and a multiplication; a seed of 0 counts as another.
#[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
pub(crate) fn next_u64(seed: &mut u64) -> u64 {
    let mut x = if *seed == 0 { !0 } else { *seed };
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *seed = x;
    x.wrapping_mul(0x2545_f491_4f6c_dd1d)
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
