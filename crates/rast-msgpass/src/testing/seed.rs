//! Numbers from a seed, and the loop over seeds.

use std::panic::resume_unwind;

use crate::panics::contain;

/// A generator of numbers (SplitMix64): each seed gives another sequence.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let once = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let twice = (once ^ (once >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        twice ^ (twice >> 31)
    }

    /// Returns a number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Returns how many of `most` messages a turn takes: often one, often all.
    pub(crate) fn share(&mut self, most: u32) -> u32 {
        match self.below(4) {
            0 => 1,
            1 => most,
            _ => 1 + self.below(most as usize) as u32,
        }
    }
}

/// Calls `test` with each seed. If it panics, prints the seed and lets the panic go on.
///
/// With `RAST_SEED=17` in the environment `test` is called with 17 alone: the run that failed.
///
/// # Panics
///
/// As `test`; and when `RAST_SEED` is no number.
///
/// ```
/// use rast_msgpass::testing::for_each_seed;
///
/// let mut sum = 0;
/// for_each_seed(0..10, |seed| sum += seed);
/// # if std::env::var_os("RAST_SEED").is_none() {
/// assert_eq!(sum, 45);
/// # }
/// ```
pub fn for_each_seed(seeds: impl IntoIterator<Item = u64>, test: impl FnMut(u64)) {
    match std::env::var("RAST_SEED") {
        Ok(seed) => {
            let seed = seed.trim().parse();
            let seed = seed.expect("RAST_SEED is the number of a seed");
            run([seed], test);
        }
        Err(_) => run(seeds, test),
    }
}

fn run(seeds: impl IntoIterator<Item = u64>, mut test: impl FnMut(u64)) {
    for seed in seeds {
        if let Err(payload) = contain(|| test(seed)) {
            eprintln!("seed {seed} failed; RAST_SEED={seed} repeats it");
            resume_unwind(payload);
        }
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_seed_and_below_the_bound() {
        let row = |seed| -> Vec<usize> {
            let mut numbers = Numbers::new(seed);
            (0..100).map(|_| numbers.below(7)).collect()
        };
        assert_eq!(row(5), row(5));
        assert_ne!(row(5), row(6));
        assert!((0..7).all(|number| row(5).contains(&number)));
        assert!(row(5).iter().all(|&number| number < 7));
        let mut numbers = Numbers::new(1);
        let shares: Vec<u32> = (0..100).map(|_| numbers.share(64)).collect();
        assert!(shares.contains(&1) && shares.contains(&64));
        assert!(shares.iter().all(|share| (1..=64).contains(share)));
        assert_eq!(numbers.share(1), 1);
    }

    #[test]
    fn a_seed_that_fails_ends_the_loop() {
        let mut seen = Vec::new();
        let failed = contain(|| {
            run(0..10, |seed| {
                seen.push(seed);
                if seed == 3 {
                    // Without the hook's text.
                    resume_unwind(Box::new("seed 3"));
                }
            });
        });
        assert_eq!(crate::panics::text(failed.unwrap_err()), "seed 3");
        assert_eq!(seen, [0, 1, 2, 3]);
    }
}
