//! The choice of a target by `.any()`.

use super::{Out, Receivers, Way};

impl<M: Send + 'static> Out<M> {
    /// Picks the next target in turn, preferring one with room. A retired instance has room, as it
    /// drops what it gets, so it is picked only if no other target can be.
    pub(crate) fn any(&mut self) -> usize {
        let found = match self.shared.deaths.count() {
            0 => self.find(|_| true),
            count => {
                if self.deaths != count {
                    self.deaths = count;
                    self.pass_retired_over();
                }
                self.find_living()
            }
        };
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

    /// Finds the next living target that has room; else one in which the message waits for room;
    /// else a retired one.
    #[cold]
    fn find_living(&self) -> Option<usize> {
        let credit = self.credit.as_ref();
        let is_living = |index| !self.is_retired(index);
        self.find(is_living)
            .or_else(|| {
                let takes = |&index: &usize| {
                    is_living(index) && credit.is_none_or(|credit| credit.left(index) > 0)
                };
                self.turns().find(takes)
            })
            .or_else(|| self.find(|_| true))
    }

    fn is_retired(&self, index: usize) -> bool {
        match &self.receivers {
            Receivers::Shards { first, .. } => self.shared.deaths.has(*first as usize + index),
            Receivers::Lanes(_) => false,
        }
    }

    /// Returns the targets that `.any()` can pick: the living ones, or all if none lives.
    #[cold]
    pub(super) fn eligible(&self) -> impl Iterator<Item = usize> + use<'_, M> {
        let all = 0..self.targets();
        let passes_over =
            self.shared.deaths.count() > 0 && all.clone().any(|index| !self.is_retired(index));
        all.filter(move |&index| !(passes_over && self.is_retired(index)))
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
}
