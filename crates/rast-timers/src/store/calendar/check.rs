//! Checks of the calendar's rules, for tests.

use super::lists::Index;
use super::{CalendarStore, DIGIT, FAN, HEADS, LANE, LEVELS, NONE};
use crate::store::DeadlineStore;

impl<T> CalendarStore<T> {
    /// Checks rules 1, 3, 4, 5 and 7 of the calendar; rules 2 and 6 are about changes, not states.
    ///
    /// # Panics
    ///
    /// If one is broken. In O(n); for tests.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.late.check_invariants();
        let mut count = self.late.len();
        if self.lists.len() == 0 {
            return;
        }
        for head in 0..HEADS {
            count += self.lists.check(head);
            let level = (head / FAN) as usize;
            let filled = self.lists.first(head).is_some();
            if level < LEVELS && head != self.drain {
                let noted = self.occupied[level] >> (head % FAN) & 1 == 1;
                assert_eq!(noted, filled, "the words tell which lists are in use");
                for (_, at) in self.lists.iter(head) {
                    assert!(at >= self.cursor, "rule 1: not before the cursor");
                    let digit = (63 - (at ^ self.cursor | 1).leading_zeros()) / DIGIT;
                    let list = (at >> (digit * DIGIT)) as u32 % FAN;
                    assert_eq!(digit * FAN + list, head, "rule 1: its own list");
                    assert!(at >= self.wake, "no deadline before the wake");
                }
            }
        }
        for (level, &word) in self.occupied.iter().enumerate() {
            assert_eq!(self.levels >> level & 1 == 1, word != 0);
        }
        if self.drain != NONE {
            for (_, at) in self.lists.iter(self.drain) {
                assert!(at ^ self.cursor < self.span, "rule 3: X's range");
            }
        }
        let mut last = 0;
        for (_, at) in self.lists.iter(LANE) {
            assert!(last <= at && at <= self.lane_last, "rule 4: sorted");
            last = at;
        }
        let late = if self.late.is_empty() {
            0
        } else {
            self.late_last
        };
        assert!(late <= self.bar && self.late.len() <= self.len, "rule 5");
        assert!(
            self.cursor <= self.moved && self.moved <= self.bar,
            "rule 7"
        );
        let entries = (0..self.lists.len()).map(|index| self.lists.slot(HEADS + index as Index));
        let full = entries.filter(|slot| slot.is_full());
        assert_eq!(full.count(), self.len, "each value is counted");
        assert_eq!(count, self.len, "each value waits somewhere, once");
    }
}
