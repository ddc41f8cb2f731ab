//! Random numbers: the same sequence for each allocator.

/// A small xorshift generator.
pub(super) struct Random(u64);

impl Random {
    /// A generator; each `stream` has its own sequence.
    pub(super) fn new(stream: u64) -> Self {
        let mut random =
            Self(0x9e37_79b9_7f4a_7c15 ^ (stream + 1).wrapping_mul(0xd134_2543_de82_ef95));
        for _ in 0..4 {
            random.next();
        }
        random
    }

    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`, without a division.
    #[inline]
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (((self.next() >> 32) * bound as u64) >> 32) as usize
    }

    /// A number of `least..=most`.
    #[inline]
    pub(super) fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }
}
