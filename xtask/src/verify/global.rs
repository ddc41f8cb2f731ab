//! The step `global`: tests of the layers with RastAlloc as the allocator of the whole program.
//!
//! One of them is the allocator's own test, which fails if `RastAlloc` is not the global allocator.
//! All are built from the packages with their default features, so this build also checks the
//! default features.
//!
//! Some crates take long to build and test. Without `--full`, only a sample of these crates runs.

use super::outcome::Outcome;
use super::steps::{counted, is_full};
use crate::{Result, package, programs, variant};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// What runs each time.
const ALWAYS: [&str; 2] = [
    "-p rast-alloc --test global --test threads",
    "-p rast-primitive -p rast-scheduler -p rast-executor -p rast-reactor --test api",
];

/// The crates of which a sample runs.
const SAMPLED: [&str; 5] = [
    "rast-queue",
    "rast-timers",
    "rast-conflate",
    "rast-sharder",
    "rast-msgpass",
];
/// How many of them run.
const SAMPLE: usize = 3;
/// Their tests, besides the unit tests; each crate has some of these.
const TESTS: [&str; 7] = [
    "api",
    "model",
    "it",
    "memory",
    "protocol",
    "allocation",
    "many_edges",
];

/// The variable for the seed that chooses the sample.
const SEED: &str = "RAST_GLOBAL_SEED";

/// Runs the step.
pub(super) fn run() -> Result<Outcome> {
    let (workspace, tree) = package::unpack()?;
    let names = match is_full() {
        true => SAMPLED.to_vec(),
        false => sample(seed()?),
    };
    let mut sampled = String::from("--lib");
    for name in &names {
        sampled += &format!(" -p {name}");
    }
    for test in TESTS {
        let mut packages = names.iter().filter_map(|name| workspace.package(name));
        if packages.any(|package| package.has_target("test", test)) {
            sampled += &format!(" --test {test}");
        }
    }
    let mut commands = Vec::new();
    for tests in [ALWAYS[0], &sampled, ALWAYS[1]] {
        let line = format!("test --no-run {tests}");
        commands.push(variant::cargo("rast_global_alloc", &line)?.dir(&tree));
    }
    counted(programs::test(commands, &[], &[]))
}

/// The seed of the environment, or else a random one; it is printed.
fn seed() -> Result<u64> {
    let seed = match std::env::var(SEED) {
        Ok(text) => text.parse().map_err(|_| format!("{SEED} is no number"))?,
        Err(_) => RandomState::new().hash_one(0),
    };
    println!("to repeat the sample: {SEED}={seed}");
    Ok(seed)
}

/// [`SAMPLE`] different crates, each as likely as another.
fn sample(mut seed: u64) -> Vec<&'static str> {
    let mut left = SAMPLED.to_vec();
    let mut sample = Vec::new();
    for _ in 0..SAMPLE {
        let many = left.len() as u64;
        sample.push(left.remove((seed % many) as usize));
        seed /= many;
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn samples_are_of_different_crates_and_each_crate_is_in_as_many() {
        let samples: Vec<BTreeSet<&str>> = (0..60)
            .map(|seed| sample(seed).into_iter().collect())
            .collect();
        for sample in &samples {
            assert_eq!(sample.len(), SAMPLE);
        }
        for name in SAMPLED {
            let with = samples.iter().filter(|sample| sample.contains(name));
            assert_eq!(with.count(), 60 * SAMPLE / SAMPLED.len(), "{name}");
        }
    }
}
