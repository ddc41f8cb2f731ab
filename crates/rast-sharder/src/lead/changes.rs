//! Converts a balancer's decision to changes of the assignment. Checks it, and leaves out moves
//! that change nothing.
//!
//! A balancer returns either all owners or a list of moves. Both become a list of [`Change`]s for
//! the workers and a table of owners for readers outside, in slices of bounded work.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use crate::assignment::{Assignment, Move};
use crate::ids::{ShardId, WorkerId};
use crate::load::LoadView;
use crate::protocol::Change;

/// Number of owners that a slice compares or copies.
const OWNERS_PER_SLICE: usize = 8_192;

/// Number of moves that a slice checks or makes.
const MOVES_PER_SLICE: usize = 512;

/// A checked decision that moves shards.
#[derive(Debug, Default)]
pub(crate) struct Next {
    pub(crate) changes: Vec<Change>,
    /// The assignment with these changes, if there are any.
    pub(crate) owners: Option<Assignment>,
}

/// Memory of the checks: which shards the list of moves has named. Only the leader accesses it.
#[derive(Debug)]
pub(super) struct Checks {
    /// The number of the last list.
    list: u32,
    /// By shard: the number of the last list that named it.
    named: Vec<u32>,
}

impl Checks {
    pub(super) fn new(shards: usize) -> Self {
        Self {
            list: 0,
            named: std::vec![0; shards],
        }
    }

    /// Begins a list of moves.
    fn begin(&mut self) {
        self.list = self.list.wrapping_add(1);
        if self.list == 0 {
            self.named.fill(0);
            self.list = 1;
        }
    }

    /// Names a shard; returns whether the list has named it before.
    fn has_named(&mut self, shard: ShardId) -> bool {
        core::mem::replace(&mut self.named[shard.index()], self.list) == self.list
    }
}

#[derive(Debug)]
enum Wanted {
    Owners(Assignment),
    Moves(Vec<Move>),
}

/// A decision that is being checked.
#[derive(Debug)]
pub(super) struct Check {
    wanted: Wanted,
    at: usize,
    changes: Vec<Change>,
}

impl Check {
    /// Begins with the owners of all shards, an assignment of the same shape as the current one.
    pub(super) fn of_owners(next: Assignment) -> Self {
        Self {
            wanted: Wanted::Owners(next),
            at: 0,
            changes: Vec::new(),
        }
    }

    /// Begins with a list of moves.
    pub(super) fn of_moves(moves: Vec<Move>, checks: &mut Checks) -> Self {
        checks.begin();
        Self {
            changes: Vec::with_capacity(moves.len()),
            wanted: Wanted::Moves(moves),
            at: 0,
        }
    }

    /// Checks some more. Returns `None` until all is checked or something is wrong.
    pub(super) fn slice(
        &mut self,
        current: &Assignment,
        view: &LoadView,
        checks: &mut Checks,
    ) -> Option<Result<(), String>> {
        let Self {
            wanted,
            at,
            changes,
        } = self;
        let mut add = |shard: ShardId, from: WorkerId, to: WorkerId| {
            if from != to {
                if let Some(worker) = view.pin_of(shard) {
                    return Err(format!(
                        "the balancer moved {shard}, which is pinned to {worker}"
                    ));
                }
                if let Some(worker) = [from, to].into_iter().find(|&at| view.is_dedicated(at)) {
                    return Err(format!(
                        "the balancer moved {shard} from {from} to {to}, of which {worker} is dedicated"
                    ));
                }
                changes.push(Change { shard, from, to });
            }
            Ok(())
        };
        let (start, checked, is_done) = match wanted {
            Wanted::Owners(next) => {
                let end = next.shards().min(*at + OWNERS_PER_SLICE);
                let owners = current.owners()[*at..end].iter();
                let mut pairs = owners.zip(&next.owners()[*at..end]).enumerate();
                let checked = pairs.try_for_each(|(offset, (&from, &to))| {
                    add(ShardId::from_index(*at + offset), from, to)
                });
                (end, checked, end == next.shards())
            }
            Wanted::Moves(moves) => {
                let end = moves.len().min(*at + MOVES_PER_SLICE);
                let checked = moves[*at..end].iter().try_for_each(|&Move { shard, to }| {
                    (current.check(shard, to)).map_err(|error| error.to_string())?;
                    if checks.has_named(shard) {
                        return Err(format!("the balancer moved {shard} twice"));
                    }
                    add(shard, current.owner(shard), to)
                });
                (end, checked, end == moves.len())
            }
        };
        *at = start;
        match checked {
            Ok(()) if !is_done => None,
            checked => Some(checked),
        }
    }

    /// Returns the checked decision, if it moves any shard: complete, or with the owners still to
    /// be copied.
    pub(super) fn checked(self) -> Option<Result<Next, Copying>> {
        let Self {
            wanted, changes, ..
        } = self;
        if changes.is_empty() {
            return None;
        }
        Some(match wanted {
            Wanted::Owners(next) => Ok(Next {
                changes,
                owners: Some(next),
            }),
            Wanted::Moves(_) => Err(Copying {
                owners: Vec::new(),
                changes,
                made: 0,
            }),
        })
    }
}

/// The table for readers outside, being made from the current one.
#[derive(Debug)]
pub(super) struct Copying {
    owners: Vec<WorkerId>,
    changes: Vec<Change>,
    /// Number of changes made.
    made: usize,
}

impl Copying {
    /// Copies or changes some more; returns the decision when that is done.
    pub(super) fn slice(&mut self, current: &Assignment) -> Option<Next> {
        let copied = self.owners.len();
        if copied < current.shards() {
            self.owners.reserve_exact(current.shards() - copied);
            let end = current.shards().min(copied + OWNERS_PER_SLICE);
            self.owners
                .extend_from_slice(&current.owners()[copied..end]);
            return None;
        }
        let end = self.changes.len().min(self.made + MOVES_PER_SLICE);
        for change in &self.changes[self.made..end] {
            self.owners[change.shard.index()] = change.to;
        }
        self.made = end;
        if end < self.changes.len() {
            return None;
        }
        let owners = core::mem::take(&mut self.owners);
        Some(Next {
            changes: core::mem::take(&mut self.changes),
            owners: Some(Assignment::of_checked(owners, current.workers())),
        })
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;

    const SHARDS: usize = 3 * OWNERS_PER_SLICE;

    /// Checks a decision to its end.
    fn check(mut check: Check, view: &LoadView, checks: &mut Checks) -> Result<Next, String> {
        let current = Assignment::round_robin(SHARDS, 2);
        loop {
            match check.slice(&current, view, checks) {
                None => {}
                Some(Err(why)) => return Err(why),
                Some(Ok(())) => break,
            }
        }
        let mut copying = match check.checked() {
            None => return Ok(Next::default()),
            Some(Ok(next)) => return Ok(next),
            Some(Err(copying)) => copying,
        };
        loop {
            if let Some(next) = copying.slice(&current) {
                return Ok(next);
            }
        }
    }

    fn moves(of: impl IntoIterator<Item = (usize, u16)>) -> Vec<Move> {
        let one = |(shard, to)| Move {
            shard: ShardId::from_index(shard),
            to: WorkerId(to),
        };
        of.into_iter().map(one).collect()
    }

    #[test]
    fn moves_and_owners_come_to_the_same_changes() {
        let view = LoadView::new(2, SHARDS);
        let mut checks = Checks::new(SHARDS);
        // Every third shard goes to worker 1, where half of them are.
        let wanted = moves((0..SHARDS).step_by(3).map(|shard| (shard, 1)));
        let mut owners = Assignment::round_robin(SHARDS, 2);
        owners.apply(&wanted).expect("they exist");
        let by_owners = Check::of_owners(owners.clone());
        let by_owners = check(by_owners, &view, &mut checks).expect("it is right");
        let by_moves = Check::of_moves(wanted, &mut checks);
        let by_moves = check(by_moves, &view, &mut checks).expect("it is right");
        assert_eq!(by_moves.changes, by_owners.changes);
        assert_eq!(by_moves.changes.len(), SHARDS / 6);
        assert_eq!(
            (by_moves.owners, by_owners.owners),
            (Some(owners.clone()), Some(owners))
        );
    }

    #[test]
    fn what_changes_nothing_keeps_the_assignment() {
        let view = LoadView::new(2, SHARDS);
        let mut checks = Checks::new(SHARDS);
        for wanted in [moves([]), moves([(3, 1), (4, 0)])] {
            let next = check(Check::of_moves(wanted, &mut checks), &view, &mut checks);
            assert!(next.expect("it is right").owners.is_none());
        }
    }

    #[test]
    fn wrong_moves_are_named() {
        let mut view = LoadView::new(2, SHARDS);
        view.add_pin(ShardId(4), WorkerId(0));
        let mut checks = Checks::new(SHARDS);
        checks.list = u32::MAX - 2;
        for (wanted, why) in [
            (moves([(SHARDS, 0)]), "shard 24576 is moved, of 24576"),
            (moves([(1, 2)]), "shard 1 is given to worker 2 of 2"),
            (moves([(1, 0), (1, 0)]), "the balancer moved shard 1 twice"),
            (moves([(4, 0), (4, 1)]), "the balancer moved shard 4 twice"),
            (
                moves([(3, 0), (4, 1)]),
                "the balancer moved shard 4, which is pinned to worker 0",
            ),
        ] {
            let checked = check(Check::of_moves(wanted, &mut checks), &view, &mut checks);
            assert_eq!(checked.expect_err("it is wrong"), why);
        }
        // What earlier lists named counts for nothing, also after the number wrapped.
        let next = check(
            Check::of_moves(moves([(1, 0)]), &mut checks),
            &view,
            &mut checks,
        );
        assert_eq!(next.expect("it is right").changes.len(), 1);
    }
}
