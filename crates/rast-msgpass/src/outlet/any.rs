//! The choice of a target by `.any()`.

use super::{Out, Receivers, Way};

impl<M: Send + 'static> Out<M> {
    /// Picks the next target in turn, preferring one with room. A retired instance has room, as it
    /// drops what it gets, so it is picked only if no other target can be.
    pub(crate) fn any(&mut self) -> usize {
        let found = match self.shared.deaths.count() {
            0 => self.find(|_| true),
            _ => {
                self.note_deaths();
                None
            }
        };
        let found = found.or_else(|| self.find_living());
        let found = found.unwrap_or(self.cursor);
        self.cursor = if found + 1 == self.targets() {
            0
        } else {
            found + 1
        };
        found
    }

    /// The indices of the targets, from the cursor on.
    fn turns(&self) -> impl Iterator<Item = usize> + Clone + use<M> {
        let (start, count) = (self.cursor, self.targets());
        (0..count).map(move |step| match start + step {
            index if index < count => index,
            index => index - count,
        })
    }

    /// Finds the next such target that has room, and credit if it needs credit.
    fn find(&self, is_such: impl Fn(usize) -> bool) -> Option<usize> {
        let has_room = |&index: &usize| {
            is_such(index)
                && match &self.way {
                    Way::Rings(rings) => rings.has_room(index, 1),
                    Way::Inboxes(outbox) => outbox.room(index) > 0,
                    Way::Buffers(buffers) => buffers.has_room(index),
                    Way::AnswerRings(_) | Way::AnswerInboxes(_) => true,
                }
        };
        let mut turns = self.turns();
        match &self.credit {
            None => turns.find(has_room),
            Some(credit) => turns
                .clone()
                .find(|index| credit.left(*index) > 0 && has_room(index))
                // In the handling of an answer.
                .or_else(|| turns.find(|index| credit.slots(*index) > 0 && has_room(index))),
        }
    }

    /// Finds a living target that has room and credit; else one for which the message waits for
    /// room, if possible within the credit; else a retired one, if no living one has a slot for one
    /// more answer.
    #[cold]
    fn find_living(&self) -> Option<usize> {
        let credit = self.credit.as_ref();
        let is_living = |index| !self.is_retired(index);
        self.find(is_living)
            .or_else(|| {
                let has_credit = |&index: &usize| {
                    is_living(index) && credit.is_none_or(|credit| credit.left(index) > 0)
                };
                self.turns().find(has_credit)
            })
            .or_else(|| {
                let has_slot = |&index: &usize| {
                    is_living(index) && credit.is_some_and(|credit| credit.slots(index) > 0)
                };
                self.turns().find(has_slot)
            })
            .or_else(|| self.find(|_| true))
    }

    fn is_retired(&self, index: usize) -> bool {
        match &self.receivers {
            Receivers::Shards { first, .. } => self.shared.deaths.has(*first as usize + index),
            Receivers::Lanes(_) => false,
        }
    }

    /// Returns whether such a target exists among those that `.any()` picks: the living ones, or
    /// all if none lives.
    #[cold]
    pub(super) fn some_eligible(&self, is_such: impl Fn(usize) -> bool) -> bool {
        let passes_over = self.shared.deaths.count() > 0;
        let (mut lives, mut retired) = (false, false);
        // One look at each flag: a replica that retires meanwhile is seen once, in one state.
        for index in 0..self.targets() {
            let is_retired = passes_over && self.is_retired(index);
            match (is_retired, is_such(index)) {
                (true, such) => retired |= such,
                (false, true) => return true,
                (false, false) => lives = true,
            }
        }
        !lives && retired
    }

    /// Returns whether each living target lacks room, although a retired one has some. An outbox
    /// knows it without this: it is stuck then.
    pub(super) fn living_lack_room(&self) -> bool {
        let Way::Rings(rings) = &self.way else {
            return false;
        };
        rings.is_some_low()
            && self.shared.deaths.count() > 0
            && !self.some_eligible(|index| !rings.is_target_low(index))
    }

    /// Passes over those that retired since the last call.
    pub(super) fn note_deaths(&mut self) {
        let count = self.shared.deaths.count();
        if self.deaths != count {
            self.deaths = count;
            self.pass_retired_over();
        }
    }

    /// Tells the outbox, which picks inboxes itself, to pass those of retired instances over.
    #[cold]
    fn pass_retired_over(&mut self) {
        if let (Way::Inboxes(outbox), Receivers::Shards { first, .. }) =
            (&mut self.way, &self.receivers)
        {
            let (first, targets) = (*first as usize, outbox.targets());
            let living = self.shared.deaths.living(first..first + targets);
            match living.is_empty() {
                true => outbox.choose_among(0..targets),
                false => outbox.choose_among(living.into_iter().map(|shard| shard - first)),
            }
        }
    }

    /// Gives what waits for room in rings of retired targets to living ones, as far as these have
    /// slots for answers. It is counted already.
    pub(super) fn move_spilled(&mut self) {
        let has_spilled = matches!(&self.way, Way::Rings(rings) if rings.spilled() > 0);
        if !has_spilled || self.shared.deaths.count() == 0 {
            return;
        }
        for index in 0..self.targets() {
            while let Way::Rings(rings) = &self.way
                && rings.has_spilled(index)
                && self.is_retired(index)
            {
                let target = self.any();
                if self.is_retired(target) || !self.move_one(index, target) {
                    return;
                }
            }
        }
    }

    /// Gives the first message that waits for room at a target to another one; returns `false` if
    /// there is no slot for its answer there.
    fn move_one(&mut self, index: usize, target: usize) -> bool {
        let Way::Rings(rings) = &mut self.way else {
            return false;
        };
        if let Some(credit) = &mut self.credit
            && !credit.shift(index, target, &self.stats.asked[self.index as usize])
        {
            return false;
        }
        let Some(message) = rings.take_spilled(index) else {
            return false;
        };
        let kept = rings.put(target, message);
        debug_assert!(kept.is_ok(), "a ring within the graph does not close");
        true
    }
}
