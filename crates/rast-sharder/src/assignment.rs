//! Which worker owns which shard.
//!
//! An assignment is one owner per shard, so that no shard can be lost or
//! assigned twice: the source keeps a list of shards per thread, and its
//! balancer forgets shards that fit nowhere.
//! What remains to be checked, that every owner exists, is checked when the
//! assignment is made.

use core::fmt;
use std::vec::Vec;

use crate::ids::{ShardId, WorkerId};

/// The most workers that a sharder can have: each has a place for the wake-ups of each
/// other. Worker ids plus one fit the low 16 bits of a holder word, and so does the count
/// of promises.
pub const MAX_WORKERS: usize = 4_096;

/// One owner for each shard.
///
/// ```
/// use rast_sharder::{Assignment, ShardId, WorkerId};
///
/// let assignment = Assignment::round_robin(5, 2);
/// assert_eq!(assignment.owner(ShardId(3)), WorkerId(1));
/// let own: Vec<_> = assignment.shards_of(WorkerId(0)).collect();
/// assert_eq!(own, [ShardId(0), ShardId(2), ShardId(4)]);
///
/// let refused = Assignment::new(vec![WorkerId(2)], 2);
/// assert!(refused.is_err());
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Assignment {
    owners: Vec<WorkerId>,
    workers: usize,
}

impl Clone for Assignment {
    fn clone(&self) -> Self {
        Self {
            owners: self.owners.clone(),
            workers: self.workers,
        }
    }

    /// Copies without allocating when the lengths agree, as the pages of the
    /// protocol do at each epoch.
    fn clone_from(&mut self, source: &Self) {
        self.owners.clone_from(&source.owners);
        self.workers = source.workers;
    }
}

impl Assignment {
    /// Makes an assignment from the owner of each shard.
    ///
    /// # Errors
    ///
    /// [`AssignmentError`] when an owner is not one of `workers`, when
    /// `workers` is zero or more than [`MAX_WORKERS`], or when there are more
    /// shards than `u32` numbers.
    pub fn new(owners: Vec<WorkerId>, workers: usize) -> Result<Self, AssignmentError> {
        if workers == 0 || workers > MAX_WORKERS {
            return Err(AssignmentError::Workers(workers));
        }
        if u32::try_from(owners.len()).is_err() {
            return Err(AssignmentError::Shards(owners.len()));
        }
        if let Some(at) = owners.iter().position(|owner| owner.index() >= workers) {
            return Err(AssignmentError::UnknownWorker {
                shard: ShardId::from_index(at),
                worker: owners[at],
                workers,
            });
        }
        Ok(Self { owners, workers })
    }

    /// Deals the shards out by number, modulo the workers: the source's
    /// initial configuration.
    ///
    /// # Panics
    ///
    /// When `workers` is zero or more than [`MAX_WORKERS`], or `shards` is
    /// past `u32::MAX`.
    #[must_use]
    pub fn round_robin(shards: usize, workers: usize) -> Self {
        let owners = (0..shards)
            .map(|shard| WorkerId::from_index(shard % workers))
            .collect();
        match Self::new(owners, workers) {
            Ok(assignment) => assignment,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns how many shards it covers.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.owners.len()
    }

    /// Returns for how many workers it is made; some may own nothing.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the owner of `shard`.
    ///
    /// # Panics
    ///
    /// When there is no such shard.
    #[inline]
    #[must_use]
    pub fn owner(&self, shard: ShardId) -> WorkerId {
        self.owners[shard.index()]
    }

    /// Sets the owner of a shard to a worker that exists.
    pub(crate) fn set_owner(&mut self, shard: ShardId, worker: WorkerId) {
        debug_assert!(worker.index() < self.workers, "an owner exists");
        self.owners[shard.index()] = worker;
    }

    /// Returns the owner of every shard, by number.
    #[must_use]
    pub fn owners(&self) -> &[WorkerId] {
        &self.owners
    }

    /// Goes through the shards that `worker` owns, by number. Costs a scan of
    /// all owners.
    pub fn shards_of(&self, worker: WorkerId) -> impl Iterator<Item = ShardId> + '_ {
        self.owners
            .iter()
            .enumerate()
            .filter(move |(_, owner)| **owner == worker)
            .map(|(shard, _)| ShardId::from_index(shard))
    }

    /// Counts the shards whose owner differs from that in `old`.
    ///
    /// # Panics
    ///
    /// When the two cover different numbers of shards.
    #[must_use]
    pub fn moved_from(&self, old: &Self) -> usize {
        assert_eq!(
            self.shards(),
            old.shards(),
            "two assignments of the same shards are compared"
        );
        self.owners
            .iter()
            .zip(&old.owners)
            .filter(|(new, old)| new != old)
            .count()
    }

    /// Tells whether it can follow `other`: the same shards, the same workers.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        self.shards() == other.shards() && self.workers == other.workers
    }
}

/// Why a list of owners is no assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssignmentError {
    /// The count of workers is zero or more than [`MAX_WORKERS`].
    Workers(usize),
    /// There are more shards than 32-bit numbers.
    Shards(usize),
    /// A shard is given to a worker that does not exist.
    UnknownWorker {
        /// The shard.
        shard: ShardId,
        /// The owner named for it.
        worker: WorkerId,
        /// How many workers there are.
        workers: usize,
    },
}

impl fmt::Display for AssignmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workers(n) => {
                write!(f, "an assignment has 1 to {MAX_WORKERS} workers, not {n}")
            }
            Self::Shards(n) => write!(f, "{n} shards are more than a 32-bit number counts"),
            Self::UnknownWorker {
                shard,
                worker,
                workers,
            } => write!(f, "{shard} is given to {worker} of {workers}"),
        }
    }
}

impl core::error::Error for AssignmentError {}
