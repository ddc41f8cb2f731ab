//! The free ids of a table: runs of indices. Each run has the generation of its next ids.
//!
//! ```text
//!   free   │ 17, one, generation 4 │ 900 to 1999, generation 1 │      from 2000 on: generation 0
//!            given out first                 taken back last             never given out
//! ```
//!
//! An id is an index and a generation. An index is reused with a higher generation, so a deleted id
//! never names a value again. Returned indices go to the end of the list, so all free indices are
//! used in turn and their generations rise together. If there are many more runs than ids in use,
//! the list is sorted by index and neighbouring runs are merged. A merged run takes the highest
//! generation of the runs that it replaces. So the list has at most `SMALL` runs and two more for
//! each id in use, except for the runs that cannot be merged.
//!
//! A merge skips generations of some indices. To limit this, runs whose generations differ by more
//! than `SKIP` are not merged. An index is not reused after the last of its 2^32 generations. From
//! then on the runs on its two sides are not neighbours, so they are not merged either.

use std_alloc::collections::VecDeque;
use std_alloc::vec::Vec;

/// Number of runs that a list may have, however few ids are in use.
const SMALL: usize = 256;
/// Maximum number of generations that an index skips in a merge.
const SKIP: u32 = 1 << 16;

/// Free indices next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    begin: u32,
    len: u32,
    /// The generation of the next id of each index.
    generation: u32,
}

impl Run {
    fn end(&self) -> u64 {
        u64::from(self.begin) + u64::from(self.len)
    }
}

/// The ids of one table.
#[derive(Debug, Default)]
pub struct Ids {
    free: VecDeque<Run>,
    /// Number of indices that were ever used.
    span: u64,
    in_use: usize,
    /// Number of runs after the last merge, if it could not merge enough of them.
    apart: usize,
}

impl Ids {
    /// Returns an index with a generation that it never had.
    ///
    /// # Panics
    ///
    /// If 2^32 indices are in use.
    pub fn give(&mut self) -> (u32, u32) {
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
                let index = index.expect("a table has at most 2^32 values");
                self.span += 1;
                (index, 0)
            }
        };
        self.in_use += 1;
        given
    }

    /// Makes an id free. It never names a value again.
    pub fn take_back(&mut self, index: u32, generation: u32) {
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

    /// Merges neighbouring runs. If all could be merged, there is then at most one more run than
    /// ids in use. So the next merge comes only after at least a third of these ids were returned.
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
        let (mut ids, mut ever, mut live) = (Ids::default(), HashSet::new(), Vec::new());
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
        let mut ids = Ids::default();
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
        let mut ids = Ids::default();
        let (index, _) = ids.give();
        ids.take_back(index, u32::MAX - 1);
        assert_eq!(ids.give(), (0, u32::MAX));
        ids.take_back(0, u32::MAX);
        assert_eq!(ids.give(), (1, 0));
        // A run whose generation is far ahead is not merged with its neighbour.
        ids.give();
        ids.take_back(1, u32::MAX - 1);
        ids.take_back(2, 0);
        ids.merge();
        assert_eq!(ids.free.len(), 2);
    }
}
