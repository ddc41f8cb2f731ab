//! Typed numbers of shards and workers.
//!
//! Both are dense, `0..shards` and `0..workers`, because the sharder indexes tables with them.

use core::fmt;

/// The number of a shard, dense from zero.
///
/// ```
/// use rast_sharder::ShardId;
///
/// assert_eq!(ShardId(3).index(), 3);
/// assert_eq!(ShardId(3).to_string(), "shard 3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u32);

impl ShardId {
    /// Returns the number as an index into a table of shards.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the id of the shard at `index`.
    ///
    /// # Panics
    ///
    /// If `index` is more than `u32::MAX`.
    #[inline]
    #[must_use]
    pub const fn from_index(index: usize) -> Self {
        assert!(index <= u32::MAX as usize, "a shard's number fits 32 bits");
        Self(index as u32)
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {}", self.0)
    }
}

/// The number of a worker (a thread of the runtime), dense from zero.
///
/// ```
/// use rast_sharder::WorkerId;
///
/// assert_eq!(WorkerId(1).index(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u16);

impl WorkerId {
    /// Returns the number as an index into a table of workers.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the id of the worker at `index`.
    ///
    /// # Panics
    ///
    /// If `index` is more than `u16::MAX`.
    #[inline]
    #[must_use]
    pub const fn from_index(index: usize) -> Self {
        assert!(index <= u16::MAX as usize, "a worker's number fits 16 bits");
        Self(index as u16)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.0)
    }
}
