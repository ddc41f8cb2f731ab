//! Which partition owns a key.
//!
//! The partition is the remainder of a hash, so the hash must be well mixed. It has a seed per
//! process, so that no client can choose keys of one partition. The partition's map has another
//! seed. Otherwise keys that share a partition would also share bits of their place in the map.

use std::hash::{BuildHasher, RandomState};

/// The number of partitions. With [`IOS`] I/O processors it makes `PAIRS_MAX` pairs, so each
/// pair has a ring of its own.
pub(crate) const PARTITIONS: usize = 32;

/// The most I/O processors: workers beyond that have none.
pub(crate) const IOS: usize = 8;

/// Maps keys to partitions; copies agree with each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Router {
    seed: u64,
}

impl Router {
    /// A router with a random seed.
    pub(crate) fn new() -> Self {
        Self {
            seed: RandomState::new().hash_one(PARTITIONS),
        }
    }

    /// The partition of `key`.
    pub(crate) fn partition(&self, key: &[u8]) -> usize {
        // PARTITIONS is a power of two, so the high bits choose evenly.
        (hash(self.seed, key) >> (64 - PARTITIONS.trailing_zeros())) as usize
    }
}

/// Multiplies eight bytes at a time into the state and folds the halves together.
fn hash(seed: u64, key: &[u8]) -> u64 {
    let mut state = seed ^ (key.len() as u64).wrapping_mul(FIRST);
    let mut words = key.chunks_exact(8);
    for word in &mut words {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        state = fold(state ^ u64::from_le_bytes(bytes));
    }
    let rest = words.remainder();
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    fold(fold(state ^ u64::from_le_bytes(bytes)) ^ SECOND)
}

// Odd numbers with bits set evenly: the fractions of the golden ratio and of the
// square root of two.
const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0x6a09_e667_f3bc_c909;

fn fold(word: u64) -> u64 {
    let product = u128::from(word ^ SECOND) * u128::from(FIRST);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_spread_evenly() {
        const KEYS: usize = 1000 * PARTITIONS;
        let router = Router::new();
        let mut counts = [0_usize; PARTITIONS];
        for number in 0..KEYS {
            counts[router.partition(format!("key:{number:012}").as_bytes())] += 1;
        }
        // The mean is 1000 with a deviation near 32; ten deviations never happen.
        assert!(
            counts.iter().all(|&count| (680..1320).contains(&count)),
            "{counts:?}"
        );
    }

    #[test]
    fn the_same_key_has_the_same_partition_in_every_copy() {
        let router = Router::new();
        let copy = router;
        for key in ["", "a", "12345678", "123456789", "user:1"] {
            assert_eq!(
                router.partition(key.as_bytes()),
                copy.partition(key.as_bytes())
            );
        }
    }
}
