//! How an outlet waits for room: its place in a wait list, and what it does when it was woken.

use super::{GATES, News, Out, Outlet, ROOM, Way};
use crate::sharder::{ShardId, WorkerCx};

impl<M: Send + 'static> Out<M> {
    pub(super) fn first_lacking(&self) -> Option<usize> {
        match &self.way {
            Way::Rings(rings) => rings.first_low(),
            Way::Inboxes(outbox) => outbox.first_stuck(),
            Way::AnswerRings(rings) => rings.first_low(),
            Way::AnswerInboxes(outbox) => outbox.first_stuck(),
            Way::Buffers(buffers) => buffers.first_low(),
        }
    }

    /// Returns the list in which this sender has to wait, if any. If one target is enough, there is
    /// one list for all.
    pub(super) fn list(&self) -> Option<usize> {
        if !self.any {
            return self.first_lacking();
        }
        let some_low = match &self.way {
            Way::Rings(rings) => rings.is_some_low(),
            _ => self.first_lacking().is_some(),
        };
        (some_low && self.state() & GATES != 0).then_some(0)
    }

    /// Enters the wait list of the first target that lacks room, and leaves another list.
    pub(super) fn enter_list(&mut self, cx: &mut WorkerCx<'_>) {
        let target = self.list();
        if self.is_listed && target != Some(self.waits_at) {
            self.is_listed = false;
            if !self.waiting.leave(self.sender, self.waits_at) {
                self.pass_on(cx);
            }
        }
        if let Some(target) = target {
            // If a receiver has woken it for room at this target, the look that follows uses it.
            self.waiting.enter(self.sender, target);
            (self.waits_at, self.is_listed) = (target, true);
        }
    }

    /// Returns whether it was removed from the list that it entered, and has not used the room.
    pub(super) fn is_woken(&self) -> bool {
        self.is_listed && !self.waiting.is_waiting(self.sender)
    }

    /// Uses the room for which it was woken. If it sends nothing there, another sender gets the
    /// wake-up.
    #[cold]
    pub(super) fn use_room(&mut self, cx: &mut WorkerCx<'_>) -> News {
        self.is_listed = false;
        let target = self.waits_at;
        let is_written = |out: &Self| match &out.way {
            Way::Inboxes(outbox) => outbox.is_written_to(target),
            _ => false,
        };
        // What was written before it was woken does not count.
        let was_written = is_written(self);
        let news = self.look();
        if was_written || !is_written(self) {
            self.pass_on(cx);
        }
        news
    }

    /// Wakes the first sender that waits at the target at which this one waited, if there is room.
    #[cold]
    fn pass_on(&self, cx: &mut WorkerCx<'_>) {
        let Way::Inboxes(outbox) = &self.way else {
            return;
        };
        if self.passes_on && outbox.has_free_slot(self.waits_at) {
            let (first, note) = (self.shard - self.sender, ROOM | self.index);
            self.waiting.wake(self.waits_at, 1, |sender| {
                cx.wake(ShardId::from_index(first + sender), note);
            });
        }
    }
}
