//! A hasher of which executions repeat.

use std::hash::{BuildHasherDefault, Hasher};

/// Keys are their own hashes.
#[derive(Default)]
pub(crate) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }
    fn write_u8(&mut self, key: u8) {
        self.0 = u64::from(key);
    }
}

/// Makes the hasher.
pub(crate) type Hash = BuildHasherDefault<Identity>;
