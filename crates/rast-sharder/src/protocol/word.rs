//! The packed words: epoch, members and promises in one, a shard's holder in another.
//!
//! Epoch and promises share a word so that one store both opens an epoch and resets the promises of
//! the old one. The count of members is reserved for workers that join and leave.

use crate::ids::WorkerId;

/// Epoch (32 bits), members (16) and promised (16) in one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word(u64);

/// The value that adds one promise to the word.
pub(super) const ONE_PROMISE: u64 = 1;

impl Word {
    /// Packs a word.
    pub const fn new(epoch: u32, members: u16, promised: u16) -> Self {
        Self((epoch as u64) << 32 | (members as u64) << 16 | promised as u64)
    }

    /// Unpacks a loaded word.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the word as it is stored.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the number of the assignment in force. It wraps; only equality and the lowest bit
    /// are used.
    pub const fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the number of members, all of which must promise.
    pub const fn members(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Returns the number of members that have promised in this epoch.
    pub const fn promised(self) -> u16 {
        self.0 as u16
    }

    /// Returns the word that opens the next epoch.
    pub const fn next(self) -> Self {
        Self::new(self.epoch().wrapping_add(1), self.members(), 0)
    }
}

/// The holder word of a shard that no thread holds.
pub const FREE: u32 = 0;

/// Returns the holder word of a shard held by `worker`.
pub(super) const fn held_by(worker: WorkerId) -> u32 {
    worker.0 as u32 + 1
}

/// Returns the worker named by a holder word, if any.
pub(super) const fn holder_in(word: u32) -> Option<WorkerId> {
    match word {
        FREE => None,
        id => Some(WorkerId((id - 1) as u16)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_packs_and_wraps() {
        let word = Word::new(u32::MAX, 7, 6);
        assert_eq!(
            (word.epoch(), word.members(), word.promised()),
            (u32::MAX, 7, 6)
        );
        let full = Word::from_bits(word.bits() + ONE_PROMISE);
        assert_eq!((full.epoch(), full.promised()), (u32::MAX, 7));
        let next = full.next();
        assert_eq!((next.epoch(), next.members(), next.promised()), (0, 7, 0));
        assert_ne!(
            next.epoch() & 1,
            full.epoch() & 1,
            "the pages alternate over the wrap"
        );
    }

    #[test]
    fn the_holder_word_names_the_worker() {
        let worker = WorkerId(u16::MAX);
        assert_eq!(holder_in(held_by(worker)), Some(worker));
        assert_eq!(holder_in(FREE), None);
    }
}
