//! Answers: to the request in hand, by a ticket, or none; and since when requests have none.

use super::{News, Out, Way};
use crate::credit::set_oldest;
use crate::reply::{Kept, Ticket};
use crate::timers::Instant;

impl<M: Send + 'static> Out<M> {
    /// Answers a request that has a ticket.
    pub(crate) fn answer_by(&mut self, ticket: Ticket, message: M) -> News {
        let kept = self
            .kept
            .as_mut()
            .expect("an edge of answers keeps requests");
        if !kept.is_own(&ticket) {
            self.ticket_fault();
        }
        match kept.end(ticket) {
            Some(client) => {
                self.note_oldest();
                self.answer(client, message)
            }
            // A retired processor has waived it; its handlers do not run any more.
            None => 0,
        }
    }

    /// Publishes since when the oldest request is kept.
    pub(super) fn note_oldest(&self) {
        let oldest = self.kept.as_ref().and_then(Kept::oldest);
        set_oldest(&self.stats.since[self.index], oldest);
    }

    /// Answers a request of a client. The caller has it in hand, or its ticket.
    #[inline]
    pub(crate) fn answer(&mut self, client: usize, message: M) -> News {
        match &mut self.way {
            Way::AnswerRings(rings) => {
                self.uncounted += 1;
                if let Err(message) = rings.put_fast(client, Some(message)) {
                    let kept = rings.put(client, message);
                    debug_assert!(kept.is_ok(), "a ring within the graph does not close");
                }
            }
            Way::AnswerInboxes(outbox) => {
                // An outbox may publish at once, so it is counted before.
                self.stats.sent[self.index].add(1);
                outbox.put(client, Some(message));
            }
            _ => unreachable!("answers have a way of their own"),
        }
        self.news()
    }

    /// Gives back the credit of one request of a client.
    pub(super) fn give_back(&mut self, client: usize) -> News {
        self.stats.waived[self.index].add(1);
        match &mut self.way {
            Way::AnswerRings(rings) => {
                let kept = rings.put(client, None);
                debug_assert!(kept.is_ok(), "a ring within the graph does not close");
            }
            Way::AnswerInboxes(outbox) => outbox.put(client, None),
            _ => unreachable!("answers have a way of their own"),
        }
        self.news()
    }

    /// Takes note of when requests are published.
    #[inline(never)]
    pub(super) fn note_asked(&mut self, now: Instant) {
        let since = &self.stats.asked[self.index];
        if let Some(credit) = &mut self.credit {
            match &self.way {
                Way::Rings(rings) => rings
                    .written()
                    .for_each(|target| credit.sent(target, now, since)),
                // One count for all.
                _ => credit.sent(0, now, since),
            }
        }
    }
}
