//! Numbers from a seed, and a loop over seeds.

use std::panic::resume_unwind;

use crate::primitive::Random;
use crate::primitive::panics::contain;

/// Returns how many of `most` messages a turn handles: often one, often all.
pub(crate) fn share(random: &mut Random, most: u32) -> u32 {
    match random.below(4) {
        0 => 1,
        1 => most,
        _ => 1 + random.below(most as usize) as u32,
    }
}

/// Calls `test` with each seed. If it panics, prints the seed and propagates the panic.
///
/// If `RAST_SEED=17` is set in the environment, calls `test` only with 17, to repeat a failed run.
///
/// # Panics
///
/// If `test` panics, or if `RAST_SEED` is not a number.
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
    fn shares_are_from_one_to_all() {
        let mut random = Random::new(1);
        let shares: Vec<u32> = (0..100).map(|_| share(&mut random, 64)).collect();
        assert!(shares.contains(&1) && shares.contains(&64));
        assert!(shares.iter().all(|share| (1..=64).contains(share)));
        assert_eq!(share(&mut random, 1), 1);
    }

    #[test]
    fn a_seed_that_fails_ends_the_loop() {
        let mut seen = Vec::new();
        let failed = contain(|| {
            run(0..10, |seed| {
                seen.push(seed);
                if seed == 3 {
                    // Without the hook's message.
                    resume_unwind(Box::new("seed 3"));
                }
            });
        });
        assert_eq!(crate::panics::text(failed.unwrap_err()), "seed 3");
        assert_eq!(seen, [0, 1, 2, 3]);
    }
}
