//! Pages: tables of the owner of each shard, with the changes since the previous epoch.
//!
//! There are two pages, one for even and one for odd epochs. So a page that is used again is two
//! epochs old. The leader first applies the changes of the current epoch to this page, and then the
//! changes of the next epoch:
//!
//! ```text
//!   epoch       e-1               e                  e+1
//!   page A      owners(e-1)       -                  owners(e-1) + changes(e) + changes(e+1)
//!   page B      -                 owners(e)          -
//!                                 changes(e)
//! ```
//!
//! So the cost of an epoch, for the leader and for each worker that reads the changes, grows with
//! the number of shards that move in this epoch and in the one before.

use std::vec::Vec;

use crate::assignment::Assignment;
use crate::ids::{ShardId, WorkerId};

/// A shard that gets another owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The shard.
    pub shard: ShardId,
    /// Its owner in the epoch before.
    pub from: WorkerId,
    /// Its owner from this epoch on, another worker.
    pub to: WorkerId,
}

/// One of the two tables of owners.
#[derive(Debug)]
pub(super) struct Page {
    /// Owners of the shards in the epochs of this page.
    pub(super) owners: Assignment,
    /// How the owners differ from those of the epoch before; each shard once.
    pub(super) changes: Vec<Change>,
    /// Number of requests for an epoch that were made before this epoch was decided, and so are
    /// answered by it.
    pub(super) served: u32,
}

impl Page {
    /// Makes both pages: that of the first epoch, and that of an epoch before it with the same
    /// owners.
    pub(super) fn first(owners: &Assignment) -> Self {
        Self {
            owners: owners.clone(),
            changes: Vec::new(),
            served: 0,
        }
    }

    /// Turns this page, which is that of the epoch before `current`, into that of the epoch after
    /// `current`.
    ///
    /// # Panics
    ///
    /// If a change names a shard or a worker that does not exist, a wrong owner, or the same owner
    /// again. So a shard that is named twice is found too.
    pub(super) fn follow(&mut self, current: &Self, changes: &[Change], served: u32) {
        for change in &current.changes {
            self.owners.set_owner(change.shard, change.to);
        }
        self.changes.clear();
        self.changes.extend_from_slice(changes);
        self.served = served;
        for change in changes {
            let is_known = change.to.index() < self.owners.workers();
            assert!(
                is_known && change.from != change.to,
                "a change names another worker"
            );
            assert_eq!(
                self.owners.owner(change.shard),
                change.from,
                "a change names the owner"
            );
            self.owners.set_owner(change.shard, change.to);
        }
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;

    #[test]
    fn pages_that_follow_each_other_hold_every_change() {
        let first = Assignment::round_robin(4, 3);
        let mut expected = first.clone();
        let mut pages = [Page::first(&first), Page::first(&first)];
        for epoch in 1..20_u32 {
            let changes: Vec<_> = (0..4)
                .filter(|shard| epoch.is_multiple_of(shard + 1))
                .map(|shard| {
                    let (shard, from) = (ShardId(shard), expected.owner(ShardId(shard)));
                    let to = WorkerId((from.0 + 1) % 3);
                    Change { shard, from, to }
                })
                .collect();
            for change in &changes {
                expected.set_owner(change.shard, change.to);
            }
            let [even, odd] = &mut pages;
            let (next, current) = match epoch % 2 {
                0 => (even, odd),
                _ => (odd, even),
            };
            next.follow(current, &changes, epoch);
            assert_eq!((&next.owners, next.served), (&expected, epoch));
            assert_eq!(next.changes, changes);
        }
    }

    #[test]
    #[should_panic(expected = "a change names the owner")]
    fn a_shard_that_changes_twice_is_found() {
        let first = Assignment::round_robin(2, 2);
        let mut page = Page::first(&first);
        let change = Change {
            shard: ShardId(0),
            from: WorkerId(0),
            to: WorkerId(1),
        };
        page.follow(&Page::first(&first), &[change, change], 0);
    }
}
