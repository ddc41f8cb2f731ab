//! A cursor that goes back, where the clock has: rule 7 of the calendar.

use super::{CalendarStore, DIGIT, FAN, LEAD_MAX, NONE};
use crate::store::{DeadlineStore, Step};

/// A `now` so far before the cursor is a clock that has gone back. A list that
/// is taken apart ahead of its time puts the cursor half as far ahead at most.
pub(super) const BACK: u64 = 2 * LEAD_MAX;

impl<T> CalendarStore<T> {
    /// Whether a deadline before `bar` belongs to `late`: each does, unless the
    /// cursor has gone back.
    #[cold]
    pub(super) fn is_late(&self, at: u64) -> bool {
        at < self.cursor || self.moved <= at
    }

    /// Whether values have to move from `late` to the lists, by rule 7.
    #[inline(always)]
    pub(super) fn is_moving(&self) -> bool {
        self.cursor < self.bar
    }

    /// Lets the cursor go back if the clock has; `None` if that is done.
    #[inline(always)]
    pub(super) fn come_back(&mut self, now: u64) -> Option<Step<T>> {
        if now < self.cursor && (self.cursor - now > BACK || self.is_moving()) {
            self.go_back(now);
        }
        self.is_moving().then(|| self.come_nearer(now))
    }

    /// Rule 7: the cursor to a time before it.
    #[cold]
    pub(super) fn go_back(&mut self, now: u64) {
        debug_assert!(self.drain == NONE, "no list is being taken apart");
        let level = (63 - (self.cursor ^ now).leading_zeros()) / DIGIT;
        // In this digit all of the levels below differ from `now`, and nothing
        // waits there, since the cursor has the same digit.
        let list = (self.cursor >> (level * DIGIT)) as u32 % FAN;
        let head = level * FAN + list;
        for lower in 0..level {
            let mut lists = core::mem::take(&mut self.occupied[lower as usize]);
            while lists != 0 {
                self.lists.join(lower * FAN + lists.trailing_zeros(), head);
                lists &= lists - 1;
                self.touch(4);
            }
            self.levels &= !(1 << lower);
        }
        if self.lists.first(head).is_some() {
            self.levels |= 1 << level;
            self.occupied[level as usize] |= 1 << list;
        }
        self.move_cursor(now);
        if !self.late.is_empty() {
            self.bar = self.bar.max(self.late_last.saturating_add(1));
        }
        self.wake = 0;
    }

    /// Moves the first value of `late` to the lists, or hands out what is due
    /// before the cursor.
    #[cold]
    pub(super) fn come_nearer(&mut self, now: u64) -> Step<T> {
        if let Some((at, slot)) = self.front()
            && at < self.cursor
            && at <= now
        {
            return self.take(slot);
        }
        match self.late.first().map(|(at, &slot)| (at.as_nanos(), slot)) {
            Some((at, slot)) => {
                self.displace(slot);
                // By rule 5 it is before `bar`. Those of its deadline that are
                // still in `late` came after it.
                self.moved = at.saturating_add(1);
                self.place(slot, at);
                self.moved = at;
            }
            None => self.move_cursor(self.cursor),
        }
        Step::Busy
    }
}
