//! The parts of the protocols, for the models alone; no part of the interface.

pub use crate::credit::{CREDITS, Pair, Sent};
pub use crate::epoch::{Follower, Ledger, Reader, Writer};

/// How often completions overflowed the ring of the calling reactor, and how many calls of the
/// system it made; `None` without io_uring.
#[cfg(all(feature = "io", target_os = "linux", not(any(rast_loom, rast_shuttle))))]
pub fn ring_counts() -> Option<(u64, u64)> {
    let io = crate::io::Io::current();
    io.ring.as_ref().map(|ring| ring.counts())
}
