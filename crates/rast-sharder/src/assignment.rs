//! Which worker owns which shard.
//!
//! An assignment is a list of owners, one per shard, so no shard can be lost or assigned twice. The
//! constructor checks that every owner exists.

use core::fmt;
use std::vec::Vec;

use crate::ids::{ShardId, WorkerId};

/// Maximum number of workers of a sharder: each stores an entry for the wake-ups of each other one.
/// Worker ids plus one, and the count of promises, fit 16 bits.
pub const MAX_WORKERS: usize = 4_096;

/// A shard, and the worker that owns it from the next epoch on.
///
/// ```
/// use rast_sharder::{Assignment, Move, ShardId, WorkerId};
///
/// let mut assignment = Assignment::round_robin(4, 2);
/// let moves = [Move { shard: ShardId(0), to: WorkerId(1) }];
/// assignment.apply(&moves)?;
/// assert_eq!(assignment.owner(ShardId(0)), WorkerId(1));
/// # Ok::<(), rast_sharder::AssignmentError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The shard.
    pub shard: ShardId,
    /// Its new owner.
    pub to: WorkerId,
}

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

    /// Copies without allocating if the lengths agree, as for the pages of the protocol.
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
    /// [`AssignmentError`] if an owner is not one of `workers`, if `workers` is zero or more than
    /// [`MAX_WORKERS`], or if there are more than `u32::MAX` shards.
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

    /// Makes an assignment from owners that were checked.
    pub(crate) fn of_checked(owners: Vec<WorkerId>, workers: usize) -> Self {
        debug_assert!(
            owners.iter().all(|owner| owner.index() < workers),
            "every owner exists"
        );
        Self { owners, workers }
    }

    /// Assigns the shards by number, modulo the workers.
    ///
    /// # Panics
    ///
    /// If `workers` is zero or more than [`MAX_WORKERS`], or `shards` is more than `u32::MAX`.
    #[must_use]
    pub fn round_robin(shards: usize, workers: usize) -> Self {
        let owners = (0..shards)
            .map(|shard| WorkerId::from_index(shard % workers))
            .collect();
        Self::new(owners, workers).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.owners.len()
    }

    /// Returns the number of workers; some may own no shard.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the owner of `shard`.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    #[inline]
    #[must_use]
    pub fn owner(&self, shard: ShardId) -> WorkerId {
        self.owners[shard.index()]
    }

    /// Makes the moves one after the other. The cost grows with their number.
    ///
    /// # Errors
    ///
    /// [`AssignmentError`] if a shard or a worker does not exist. The moves before it are made.
    pub fn apply(&mut self, moves: &[Move]) -> Result<(), AssignmentError> {
        for &Move { shard, to } in moves {
            self.check(shard, to)?;
            self.set_owner(shard, to);
        }
        Ok(())
    }

    /// Checks that a shard and a worker exist.
    pub(crate) fn check(&self, shard: ShardId, worker: WorkerId) -> Result<(), AssignmentError> {
        if shard.index() >= self.owners.len() {
            return Err(AssignmentError::UnknownShard {
                shard,
                shards: self.owners.len(),
            });
        }
        if worker.index() >= self.workers {
            return Err(AssignmentError::UnknownWorker {
                shard,
                worker,
                workers: self.workers,
            });
        }
        Ok(())
    }

    /// Sets the owner of a shard; the worker must exist.
    pub(crate) fn set_owner(&mut self, shard: ShardId, worker: WorkerId) {
        debug_assert!(worker.index() < self.workers, "an owner exists");
        self.owners[shard.index()] = worker;
    }

    /// Returns the owner of every shard, by number.
    #[must_use]
    pub fn owners(&self) -> &[WorkerId] {
        &self.owners
    }

    /// Returns the shards that `worker` owns, by number. Scans all owners.
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
    /// If the two have different numbers of shards.
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

    /// Returns `true` if it has as many shards and workers as `other`, and so may follow it.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        self.shards() == other.shards() && self.workers == other.workers
    }
}

/// Why a list of owners is not an assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssignmentError {
    /// The number of workers is zero or more than [`MAX_WORKERS`].
    Workers(usize),
    /// There are more shards than 32-bit numbers.
    Shards(usize),
    /// A shard that is moved does not exist.
    UnknownShard {
        /// The shard.
        shard: ShardId,
        /// The number of shards.
        shards: usize,
    },
    /// The owner of a shard does not exist.
    UnknownWorker {
        /// The shard.
        shard: ShardId,
        /// Its owner in the list.
        worker: WorkerId,
        /// The number of workers.
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
            Self::UnknownShard { shard, shards } => write!(f, "{shard} is moved, of {shards}"),
            Self::UnknownWorker {
                shard,
                worker,
                workers,
            } => write!(f, "{shard} is given to {worker} of {workers}"),
        }
    }
}

impl core::error::Error for AssignmentError {}
