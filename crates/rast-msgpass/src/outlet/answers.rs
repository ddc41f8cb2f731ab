//! Answers: to the request in hand, by a ticket, or none.

use super::{News, Out, Way};
use crate::reply::{Kept, Ticket};

impl<M: Send + 'static> Out<M> {
    /// Answers a request that has a ticket.
    pub(crate) fn answer(&mut self, ticket: Ticket, message: M) -> News {
        let kept = self
            .kept
            .as_mut()
            .expect("an edge of answers keeps requests");
        if !kept.is_own(&ticket) {
            self.ticket_fault();
        }
        match kept.take(ticket.into_slot()) {
            Some(client) => {
                self.note_oldest();
                self.put_paid(client, message)
            }
            // A retired processor has waived it; its handlers do not run any more.
            None => 0,
        }
    }

    /// Publishes since when the oldest request is kept.
    pub(super) fn note_oldest(&self) {
        let oldest = self.kept.as_ref().and_then(Kept::oldest);
        let since = &self.stats.since[self.index];
        since.set(oldest.map_or(0, |oldest| oldest.as_nanos() + 1));
    }

    #[inline]
    pub(super) fn put_paid(&mut self, index: usize, message: M) -> News {
        if let Way::AnswerRings(rings) = &mut self.way {
            self.uncounted += 1;
            if let Err(message) = rings.put_fast(index, Some(message)) {
                let kept = rings.put(index, message);
                debug_assert!(kept.is_ok(), "a ring within the graph does not close");
            }
            return self.news();
        }
        // An outbox may publish at once, so it is counted before.
        self.stats.sent[self.index].add(1);
        if self.is_at_ceiling(index) {
            return self.lose_at_ceiling(message);
        }
        match &mut self.way {
            Way::Rings(_) | Way::AnswerRings(_) => unreachable!("rings are written above"),
            Way::Inboxes(outbox) => outbox.put(index, message),
            Way::AnswerInboxes(outbox) => outbox.put(index, Some(message)),
        }
        self.news()
    }

    /// Gives back the credit of one request of a target, which is no debt any more.
    pub(super) fn waive_paid(&mut self, target: usize) -> News {
        self.stats.waived[self.index].add(1);
        match &mut self.way {
            Way::AnswerRings(rings) => {
                let kept = rings.put(target, None);
                debug_assert!(kept.is_ok(), "a ring within the graph does not close");
            }
            Way::AnswerInboxes(outbox) => outbox.put(target, None),
            Way::Rings(_) | Way::Inboxes(_) => unreachable!("answers have a way of their own"),
        }
        self.news()
    }
}
