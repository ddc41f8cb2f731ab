//! A generator of pseudo-random numbers, for tests, benches and choices that need not be secret.

/// A SplitMix64 generator (Steele, Lea and Flood, 2014): the same seed gives the same numbers.
///
/// Neighbouring seeds give unrelated numbers. An observer can predict the next number, so do not
/// use the generator for secrets.
///
/// ```
/// use rast_primitive::Random;
///
/// let mut random = Random::new(1);
/// assert!(random.below(6) < 6);
/// let (mut one, mut same) = (Random::new(7), Random::new(7));
/// assert_eq!(one.draw(), same.draw());
/// ```
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes a generator from a seed, which may be any number.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    #[inline]
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns a number below `bound`, without a division.
    ///
    /// # Panics
    ///
    /// Panics if `bound` is 0.
    #[inline]
    pub const fn below(&mut self, bound: usize) -> usize {
        assert!(bound != 0, "there is no number below 0");
        ((self.draw() as u128 * bound as u128) >> 64) as usize
    }

    /// Returns a number of at least 0 and below 1.
    #[inline]
    pub const fn fraction(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
