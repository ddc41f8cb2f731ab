//! The cursor goes back if the clock has gone back: rule 7 of the calendar.

use super::{BACK, CalendarStore, DIGIT, FAN, NONE};
use crate::store::{DeadlineStore, Step};

impl<T> CalendarStore<T> {
    /// Returns whether a deadline before `bar` belongs to `late`; always `true`, unless the cursor
    /// has gone back.
    #[cold]
    pub(super) fn is_late(&self, at: u64) -> bool {
        at < self.cursor || self.moved <= at
    }

    /// Returns whether values must move from `late` to the lists, by rule 7.
    #[inline(always)]
    pub(super) fn is_moving(&self) -> bool {
        self.cursor < self.bar
    }

    /// Moves the cursor back if the clock has gone back; returns `None` if no value is left to
    /// move.
    #[inline(always)]
    pub(super) fn come_back(&mut self, now: u64) -> Option<Step<T>> {
        if now < self.cursor && (self.cursor - now > BACK || self.is_moving()) {
            self.go_back(now);
        }
        self.is_moving().then(|| self.come_nearer(now))
    }

    /// Moves the cursor back to `now`, by rule 7.
    #[cold]
    pub(super) fn go_back(&mut self, now: u64) {
        debug_assert!(self.drain == NONE, "no list is being taken apart");
        let level = (63 - (self.cursor ^ now).leading_zeros()) / DIGIT;
        // In this digit, all values of the levels below differ from `now`. Their list is empty,
        // since it is the list of the cursor's own digit.
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

    /// Returns a value that is due before the cursor, or moves the first value of `late` to the
    /// lists.
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
                // By rule 5 it is before `bar`. Values with the same deadline that are still in
                // `late` were inserted after it.
                self.moved = at.saturating_add(1);
                self.place(slot, at);
                self.moved = at;
            }
            None => self.move_cursor(self.cursor),
        }
        Step::Busy
    }
}
