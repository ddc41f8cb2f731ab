//! Ready tasks of one worker, by priority.
//!
//! Each list is first in, first out. A turn is one call of `pop`. Normal tasks from threads outside
//! have their own list, which precedes the others, at most 128 turns in a row. Of each 64 other
//! turns, eight begin at the normal list, and one begins at the low list. So if k tasks are ahead
//! of a task in its list, a task from outside is taken within 2 (k + 1) turns, whatever else is
//! pushed. A task of the normal list is taken within 1032 (k + 1) turns, and a low task within 8256
//! (k + 1).

use crate::chain::Chain;
use crate::priority::Priority;
use crate::task::Task;

/// One in so many turns begins at the normal list, and at the low one.
pub(crate) const NORMAL_EVERY: u32 = 8;
pub(crate) const LOW_EVERY: u32 = 64;
/// Which one of `LOW_EVERY` turns begins at the low list: not one that begins at the normal list.
const LOW_AT: u32 = NORMAL_EVERY / 2;
/// Maximum number of consecutive turns for tasks from outside: 128 short tasks take about as long
/// as one poll of 10 us. With 8, a burst of them beside such polls took 1,900 ns each, with 32 it
/// took 670, with 128 it takes 170 (`spawn_many_remote_busy1`, two processors, 2026-11-23).
const OUTSIDE_MAX: u32 = 128;

/// Number of lists: one per priority, and one for tasks from outside.
const COUNT: usize = Priority::COUNT + 1;
const OUTSIDE: usize = Priority::COUNT;

#[derive(Debug, Default)]
pub(crate) struct Lists {
    of: [Chain; COUNT],
    /// Number of turns of the priorities.
    turn: u32,
    /// Number of consecutive turns that went to tasks from outside.
    streak: u32,
}

impl Lists {
    pub(crate) fn push(&mut self, task: Task) {
        self.of[task.header().priority as usize].push(task);
    }

    /// Adds a task from another thread: to the list from outside if its priority is normal.
    pub(crate) fn push_outside(&mut self, task: Task) {
        match task.header().priority {
            Priority::Normal => self.of[OUTSIDE].push(task),
            _ => self.push(task),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Task> {
        if self.streak < OUTSIDE_MAX
            && let Some(task) = self.of[OUTSIDE].pop()
        {
            self.streak += 1;
            return Some(task);
        }
        self.streak = 0;
        self.turn = self.turn.wrapping_add(1);
        let order: [usize; COUNT] = if self.turn.is_multiple_of(NORMAL_EVERY) {
            [1, 0, 2, OUTSIDE]
        } else if self.turn % LOW_EVERY == LOW_AT {
            [2, 0, 1, OUTSIDE]
        } else {
            [0, 1, 2, OUTSIDE]
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
    fn every_task_has_its_turn_in_time_whenever_it_comes() {
        let count = Count::new();
        let mut lists = Lists::default();
        let outside_share = OUTSIDE_MAX + 1;
        // A flood of each kind, so that no list is ever empty.
        lists.push(task(&count, Priority::High));
        lists.push(task(&count, Priority::Normal));
        lists.push(task(&count, Priority::Low));
        lists.push_outside(task(&count, Priority::Normal));
        let outside = lists.pop().expect("it is the first");
        let address = outside.address();
        lists.push_outside(outside);
        let mut last = [0; Priority::COUNT];
        for turn in 1..=20 * outside_share * LOW_EVERY {
            let task = lists.pop().expect("each comes back");
            if task.address() == address {
                lists.push_outside(task);
                continue;
            }
            let priority = task.header().priority;
            let waited = turn - last[priority as usize];
            let most = match priority {
                Priority::High => 3,
                Priority::Normal => NORMAL_EVERY,
                Priority::Low => LOW_EVERY,
            };
            assert!(waited <= outside_share * most, "{priority:?}: {waited}");
            last[priority as usize] = turn;
            lists.push(task);
        }
    }

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
        // From outside there is always another one too.
        lists.push_outside(task(&count, Priority::Normal));
        let outside = lists
            .pop()
            .expect("the first turn is for those from outside");
        let address = outside.address();
        lists.push_outside(outside);
        let mut last = [0; Priority::COUNT];
        let outside_share = OUTSIDE_MAX + 1;
        let mut streak = 1;
        for turn in 1..=outside_share * LOW_EVERY * (behind + 1) {
            let task = lists.pop().expect("the urgent tasks come back");
            if task.address() == address {
                streak += 1;
                assert!(streak <= OUTSIDE_MAX, "turn {turn}");
                lists.push_outside(task);
                continue;
            }
            streak = 0;
            let priority = task.header().priority;
            last[priority as usize] = turn;
            if priority == Priority::High {
                lists.push(task);
            }
        }
        assert!(
            last[1] > 0 && last[1] <= outside_share * NORMAL_EVERY * (behind + 1),
            "{last:?}"
        );
        assert!(
            last[2] > 0 && last[2] <= outside_share * LOW_EVERY * (behind + 1),
            "{last:?}"
        );
        assert_eq!(count.cancelled(), 8);
    }
}
