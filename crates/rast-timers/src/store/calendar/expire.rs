//! Expires many values in one call, ordered or unordered.
//!
//! An ordered call passes on the next values without a search before each of them. An unordered
//! call sorts no list of more than `SHORT` (16) values. If `now` is after the range of time of a
//! list, it passes on all values of the list, in list order. If `now` is within this range, it
//! passes on the due values. The others stay in a short list; a longer list is split.
//!
//! An unordered call splits a list only once the earliest deadline in it has passed; `wake` is set
//! to that time. Ordered and unordered calls keep the rules of the calendar, so they may be mixed.

use super::{CalendarStore, Index, LANE, MOVES, NONE, SHORT};
use crate::store::{Expired, Step, Swept};

impl<T> CalendarStore<T> {
    /// Implements [`expire`](super::DeadlineStore::expire).
    #[inline]
    pub(super) fn expire_in_order(
        &mut self,
        now: u64,
        budget: usize,
        mut each: impl FnMut(Expired<T>),
    ) -> Swept {
        self.expire_by(now, budget, |store, left| {
            let burst = store.burst(now, left, &mut each);
            if burst > 0 {
                return Some(burst);
            }
            match store.work(now) {
                Step::Due(expired) => {
                    each(expired);
                    Some(1)
                }
                Step::Busy => Some(0),
                Step::Idle => None,
            }
        })
    }

    /// Implements [`expire_unordered`](super::DeadlineStore::expire_unordered).
    #[inline]
    pub(super) fn expire_in_no_order(
        &mut self,
        now: u64,
        budget: usize,
        mut each: impl FnMut(Expired<T>),
    ) -> Swept {
        self.expire_by(now, budget, |store, left| {
            store.gather(now, left, &mut each)
        })
    }

    /// Spends `budget` on calls of `part`. Each call gets the remaining budget and passes on at
    /// most that many values. If it passes on none, it moves a few closer. It returns `None` if
    /// none is due.
    #[inline(always)]
    fn expire_by(
        &mut self,
        now: u64,
        budget: usize,
        mut part: impl FnMut(&mut Self, usize) -> Option<usize>,
    ) -> Swept {
        let mut fired = 0;
        let mut left = budget;
        while left > 0 {
            if now < self.wake {
                return Swept { fired, more: false };
            }
            let Some(count) = part(self, left) else {
                return Swept { fired, more: false };
            };
            fired += count;
            left -= count.max(1);
        }
        Swept { fired, more: true }
    }

    /// Returns the entries of a short list by deadline, then by list order, and their number;
    /// `None` for a long list.
    #[inline(always)]
    fn sorted(&self, head: Index) -> Option<([(u64, Index); SHORT], usize)> {
        let (mut sorted, mut count) = ([(u64::MAX, NONE); SHORT], 0);
        for (slot, at) in self.lists.iter(head) {
            if count == SHORT {
                return None;
            }
            let mut place = count;
            while place > 0 && sorted[place - 1].0 > at {
                sorted[place] = sorted[place - 1];
                place -= 1;
            }
            sorted[place] = (at, slot);
            count += 1;
        }
        Some((sorted, count))
    }

    /// Passes on the first values without a new search before each value: the due part of the lane,
    /// then that of a short list.
    #[inline(always)]
    fn burst(&mut self, now: u64, budget: usize, each: &mut impl FnMut(Expired<T>)) -> usize {
        let mut fired = 0;
        if self.is_moving() {
            return 0;
        }
        let late = self
            .late
            .first()
            .map_or(u64::MAX, |first| first.0.as_nanos());
        let (begin, bucket) = if self.drain == NONE {
            let earliest = self.earliest();
            (earliest.map_or(u64::MAX, |bucket| bucket.start), earliest)
        } else {
            (self.cursor, None)
        };
        // For equal deadlines the lane is first, by rule 4.
        let limit = now.min(begin).min(late);
        let mut left = budget;
        let mut front = late;
        while let Some(slot) = self.lists.first(LANE) {
            let at = self.at(slot);
            if left == 0 || at > limit {
                front = front.min(at);
                break;
            }
            left -= 1;
            self.hand(slot, &mut fired, each);
        }
        // A value elsewhere at or before the list's start precedes the whole list.
        let Some(bucket) = bucket.filter(|bucket| bucket.start <= now && bucket.start < front)
        else {
            return fired;
        };
        self.touch(SHORT as u64 + 1);
        if let Some((sorted, count)) = self.sorted(bucket.head) {
            for &(at, slot) in sorted[..count].iter().take(left) {
                if at > now || at >= front {
                    break;
                }
                self.hand(slot, &mut fired, each);
            }
        }
        fired
    }

    /// Passes on at most `budget` due values, or moves a few closer to being due; `None` if none is
    /// due.
    fn gather(
        &mut self,
        now: u64,
        budget: usize,
        each: &mut impl FnMut(Expired<T>),
    ) -> Option<usize> {
        self.touch(2);
        let mut fired = self.sweep(LANE, now, budget, each);
        while fired < budget
            && let Some((at, &slot)) = self.late.first()
            && at.as_nanos() <= now
        {
            self.hand(slot, &mut fired, each);
        }
        // A late value costs as much as a unit of the budget may cost.
        if fired > 0 {
            return Some(fired);
        }
        if self.drain != NONE {
            return Some(fired + self.sift(now, budget - fired, each));
        }
        match self.come_back(now) {
            None => {}
            Some(Step::Due(expired)) => {
                each(expired);
                return Some(1);
            }
            Some(_) => return Some(0),
        }
        let earliest = self.earliest();
        if let Some(bucket) = earliest
            && self.lists.least(bucket.head) <= now
        {
            if bucket.last() <= now {
                return Some(fired + self.sweep(bucket.head, now, budget - fired, each));
            }
            self.touch(SHORT as u64 + 1);
            let Some((sorted, count)) = self.sorted(bucket.head) else {
                self.open(bucket);
                return Some(fired + self.sift(now, budget - fired, each));
            };
            for &(at, slot) in sorted[..count].iter().take(budget - fired) {
                if at > now {
                    break;
                }
                self.hand(slot, &mut fired, each);
            }
            if sorted[0].0 > now {
                // The entry with the earliest deadline was cancelled.
                self.lists.tighten(bucket.head, sorted[0].0);
            }
        }
        if fired > 0 {
            return Some(fired);
        }
        let least = earliest.map_or(u64::MAX, |bucket| self.lists.least(bucket.head));
        self.wake = self.front().map_or(least, |front| front.0.min(least));
        let start = earliest.map_or(u64::MAX, |bucket| bucket.start);
        if start > now && now > self.cursor {
            // Rule 2: the earliest list starts after it.
            self.move_cursor(now);
        }
        None
    }

    #[inline(always)]
    fn hand(&mut self, slot: Index, fired: &mut usize, each: &mut impl FnMut(Expired<T>)) {
        if let Step::Due(expired) = self.take(slot) {
            *fired += 1;
            each(expired);
        }
    }

    /// Passes on at most `budget` values from the front of a list, up to the first that is not due.
    #[inline(always)]
    fn sweep(
        &mut self,
        head: Index,
        now: u64,
        budget: usize,
        each: &mut impl FnMut(Expired<T>),
    ) -> usize {
        let mut fired = 0;
        while fired < budget
            && let Some(slot) = self.lists.first(head)
            && self.at(slot) <= now
        {
            self.hand(slot, &mut fired, each);
        }
        fired
    }

    /// As [`advance`](Self::advance), but passes on due values, at most `budget`.
    fn sift(&mut self, now: u64, budget: usize, each: &mut impl FnMut(Expired<T>)) -> usize {
        let mut fired = 0;
        let mut moves = MOVES;
        while moves > 0 {
            fired += self.sweep(self.drain, now, budget - fired, each);
            if fired == budget {
                break;
            }
            // In a sorted run, the values after one that is not due are not due.
            let run = self.advance_in_order(moves);
            moves -= run;
            if run == 0 {
                let Some(slot) = self.lists.first(self.drain) else {
                    break;
                };
                self.descend(slot);
                moves -= 1;
            }
        }
        self.close();
        fired
    }
}
