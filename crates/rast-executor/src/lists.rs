//! Tasks that are ready on one worker, by priority.
//!
//! What is ahead in one list goes first. A turn is one call of `pop`. Every eighth turn begins at the
//! normal list, every 64th at the low one. So with k tasks ahead in its list a normal task is taken
//! within 8 (k + 1) turns, and a low one within 64 (k + 1), whatever else is pushed.

use crate::chain::Chain;
use crate::priority::Priority;
use crate::task::Task;

/// Every so many turns begin at the normal list, and at the low one.
pub(crate) const NORMAL_EVERY: u32 = 8;
pub(crate) const LOW_EVERY: u32 = 64;

#[derive(Debug, Default)]
pub(crate) struct Lists {
    of: [Chain; Priority::COUNT],
    turn: u32,
}

impl Lists {
    pub(crate) fn push(&mut self, task: Task) {
        self.of[task.header().priority.index()].push(task);
    }

    pub(crate) fn pop(&mut self) -> Option<Task> {
        self.turn = self.turn.wrapping_add(1);
        let order: [usize; Priority::COUNT] = if self.turn.is_multiple_of(LOW_EVERY) {
            [2, 0, 1]
        } else if self.turn.is_multiple_of(NORMAL_EVERY) {
            [1, 0, 2]
        } else {
            [0, 1, 2]
        };
        order.into_iter().find_map(|index| self.of[index].pop())
    }

    pub(crate) fn len(&self) -> usize {
        self.of.iter().map(Chain::len).sum()
    }

    pub(crate) fn each(&mut self) -> impl Iterator<Item = &mut Chain> {
        self.of.iter_mut()
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;
    use crate::task::testing::{Count, task};

    #[test]
    fn a_flood_of_urgent_tasks_leaves_turns_to_the_others() {
        let count = Count::new();
        let mut lists = Lists::default();
        let behind: u32 = 3;
        for priority in [Priority::Normal, Priority::Low] {
            for _ in 0..=behind {
                lists.push(task(&count, priority));
            }
        }
        lists.push(task(&count, Priority::High));
        lists.push(task(&count, Priority::High));
        let mut last = [0; Priority::COUNT];
        for turn in 1..=LOW_EVERY * (behind + 1) {
            let task = lists.pop().expect("the urgent tasks come back");
            let priority = task.header().priority;
            last[priority.index()] = turn;
            if priority == Priority::High {
                lists.push(task);
            }
        }
        assert!(
            last[1] > 0 && last[1] <= NORMAL_EVERY * (behind + 1),
            "{last:?}"
        );
        assert!(
            last[2] > 0 && last[2] <= LOW_EVERY * (behind + 1),
            "{last:?}"
        );
        assert_eq!(count.cancelled(), 8);
    }
}
