//! Which ids of a type are free: runs of indices, each with the generation that it has next.
//!
//! ```text
//!   free   │ 17, one, generation 4 │ 900 to 1999, generation 1 │      from 2000 on: generation 0
//!            given out first                 taken back last             never given out
//! ```
//!
//! An index is given out again with a higher generation, so an id that was deleted names nothing
//! for ever. Those that are taken back go behind the others, so all free indices are used in turn
//! and their generations rise together. When there are many more runs than ids in use, neighbours
//! become one run, which takes the highest generation of them. So the list is a small multiple of
//! what is in use, and what a type had once costs nothing. The lowest indices then come first.
//!
//! An index whose generations are used up is not given out again. There are 2^32 of each; a run
//! skips some where its members differ, and members that differ by more than `SKIP` stay apart.

use std_alloc::collections::VecDeque;
use std_alloc::vec::Vec;

/// Runs that a list may have whatever is in use.
const SMALL: usize = 256;
/// Generations that a member of a run skips at most, when runs become one.
const SKIP: u32 = 1 << 16;

/// Free indices next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    begin: u32,
    len: u32,
    /// What the next id of each has.
    generation: u32,
}

impl Run {
    fn end(&self) -> u64 {
        u64::from(self.begin) + u64::from(self.len)
    }
}

/// The ids of one type.
pub(super) struct Ids {
    free: VecDeque<Run>,
    /// How many indices were ever given out.
    span: u64,
    in_use: usize,
    /// How many runs the last merge of neighbours has left, if it could not merge enough of them.
    apart: usize,
}

impl Ids {
    pub(super) const fn new() -> Self {
        Self {
            free: VecDeque::new(),
            span: 0,
            in_use: 0,
            apart: 0,
        }
    }

    /// Gives out an index with a generation that it never had.
    ///
    /// # Panics
    ///
    /// If there are 2^32.
    pub(super) fn give(&mut self) -> (u32, u32) {
        let given = match self.free.front_mut() {
            Some(run) => {
                let given = (run.begin, run.generation);
                run.begin = run.begin.wrapping_add(1);
                run.len -= 1;
                if run.len == 0 {
                    self.free.pop_front();
                }
                given
            }
            None => {
                let index = u32::try_from(self.span).ok();
                let index = index.expect("there are at most 2^32 resources of a type");
                self.span += 1;
                (index, 0)
            }
        };
        self.in_use += 1;
        given
    }

    /// Takes an id back, which names nothing from now on.
    pub(super) fn take_back(&mut self, index: u32, generation: u32) {
        self.in_use -= 1;
        let Some(generation) = generation.checked_add(1) else {
            return;
        };
        if let Some(last) = self.free.back_mut()
            && last.end() == u64::from(index)
            && last.generation == generation
        {
            last.len += 1;
            return;
        }
        self.free.push_back(Run {
            begin: index,
            len: 1,
            generation,
        });
        if self.free.len() > SMALL + 2 * (self.in_use + self.apart) {
            self.merge();
        }
    }

    /// Makes neighbours one run. There are at most as many runs as ids in use then, and one more,
    /// so a third as many ids are taken back before the next merge.
    #[cold]
    fn merge(&mut self) {
        let mut runs = Vec::from(core::mem::take(&mut self.free));
        runs.sort_unstable_by_key(|run| run.begin);
        runs.dedup_by(|next, run| {
            let is_near = next.generation.abs_diff(run.generation) <= SKIP;
            let merges = run.end() == u64::from(next.begin) && is_near;
            if merges {
                run.len += next.len;
                run.generation = run.generation.max(next.generation);
            }
            merges
        });
        runs.shrink_to_fit();
        let is_few = runs.len() <= SMALL / 2 + 2 * self.in_use;
        self.apart = if is_few { 0 } else { runs.len() };
        self.free = runs.into();
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use hashbrown::HashSet;

    use super::*;
    use crate::primitive::Random;

    #[test]
    fn no_id_is_given_out_twice() {
        let mut random = Random::new(3);
        let (mut ids, mut ever, mut live) = (Ids::new(), HashSet::new(), Vec::new());
        for phase in 0..40 {
            let most = [2_000, 0, 5, 9_000][phase % 4];
            for _ in 0..12_000 {
                if live.len() < most && random.below(8) != 0 {
                    let id = ids.give();
                    assert!(ever.insert(id), "{id:?}");
                    live.push(id);
                } else if !live.is_empty() {
                    let (index, generation) = live.swap_remove(random.below(live.len()));
                    ids.take_back(index, generation);
                }
            }
            assert_eq!(ids.in_use, live.len());
            assert!(ids.span <= 9_000, "free indices are used first");
            let free: u64 = ids.free.iter().map(|run| u64::from(run.len)).sum();
            assert_eq!(free + live.len() as u64, ids.span);
        }
    }

    #[test]
    fn what_is_free_becomes_a_few_runs() {
        const MANY: u32 = 50_000;
        let mut ids = Ids::new();
        for _ in 0..MANY {
            ids.give();
        }
        // In an order in which no two neighbours follow each other.
        for n in 0..MANY {
            ids.take_back(n * 7_919 % MANY, 0);
        }
        assert!(ids.free.len() <= 2 * SMALL, "{}", ids.free.len());
        ids.merge();
        let all = Run {
            begin: 0,
            len: MANY,
            generation: 1,
        };
        assert_eq!(ids.free, [all]);
        assert!(ids.free.capacity() <= 4, "{}", ids.free.capacity());
        assert_eq!((ids.give(), ids.give()), ((0, 1), (1, 1)));
    }

    #[test]
    fn an_index_ends_with_its_generations() {
        let mut ids = Ids::new();
        let (index, _) = ids.give();
        ids.take_back(index, u32::MAX - 1);
        assert_eq!(ids.give(), (0, u32::MAX));
        ids.take_back(0, u32::MAX);
        assert_eq!(ids.give(), (1, 0));
        // One that is far ahead does not take its neighbour with it.
        ids.give();
        ids.take_back(1, u32::MAX - 1);
        ids.take_back(2, 0);
        ids.merge();
        assert_eq!(ids.free.len(), 2);
    }
}
