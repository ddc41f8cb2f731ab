//! Answers: by `send`, by a token, or a waiver; and the time since which requests have no answer.

use super::{News, Out, Way};
use crate::credit::set_oldest;
use crate::ticket::{Kept, Ticket};
use crate::timers::Instant;

impl<M: Send + 'static> Out<M> {
    /// Answers a request that has a token.
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
            // The retired processor has waived it; its handlers do not run any more.
            None => 0,
        }
    }

    /// Publishes the arrival time of the oldest request that is held by a token.
    pub(super) fn note_oldest(&self) {
        let oldest = self.kept.as_ref().and_then(Kept::oldest);
        set_oldest(&self.stats.since[self.index as usize], oldest);
    }

    /// Answers a request of a client. The caller handles it, or has its token.
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
                // An outbox may publish at once, so the answer is counted before.
                self.stats.sent[self.index as usize].add(1);
                outbox.put(client, Some(message));
            }
            _ => unreachable!("answers have a way of their own"),
        }
        self.news()
    }

    /// Returns the credit of one request of a client.
    pub(super) fn give_back(&mut self, client: usize) -> News {
        self.stats.waived[self.index as usize].add(1);
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

    /// Records the time at which requests are published.
    #[inline(never)]
    pub(super) fn note_asked(&mut self, now: Instant) {
        let since = &self.stats.asked[self.index as usize];
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
