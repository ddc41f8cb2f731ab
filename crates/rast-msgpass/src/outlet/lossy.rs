//! Sends on edges that never gate their sender: a message without room is returned or dropped.
//!
//! A dropped message does not count as sent. A message that replaces an older one takes over the
//! older one's count. So the counts of sent and received messages mean the same as on other edges.

use super::{News, Out, Way};
use crate::queue::Full;

impl<M: Send + 'static> Out<M> {
    /// Sends if there is room, otherwise returns the message.
    pub(crate) fn offer(&mut self, index: usize, message: M) -> Result<News, Full<M>> {
        self.check_target(index);
        match &mut self.way {
            Way::Rings(rings) => {
                if let Err(message) = rings.put_fast(index, message) {
                    // A receiver outside that is gone must not prevent sends.
                    return match rings.is_gone(index) {
                        true => {
                            self.uncounted += 1;
                            Ok(self.lose(message))
                        }
                        false => Err(Full(message)),
                    };
                }
                self.uncounted += 1;
            }
            Way::Inboxes(outbox) => {
                // It may be received at once, so it is counted before.
                let sent = &self.stats.sent[self.index as usize];
                sent.add(1);
                if let Err(message) = outbox.try_put(index, message) {
                    sent.add(u64::MAX);
                    return Err(Full(message));
                }
            }
            Way::Buffers(buffers) => {
                let weight = buffers.weigh(&message);
                let sent = &self.stats.sent[self.index as usize];
                sent.add(1);
                if let Err(message) = buffers.try_put(index, weight, message) {
                    sent.add(u64::MAX);
                    return Err(Full(message));
                }
            }
            Way::AnswerRings(_) | Way::AnswerInboxes(_) => {
                unreachable!("answers are never returned")
            }
        }
        Ok(self.news())
    }

    /// Sends if there is room, otherwise drops the message.
    pub(crate) fn send_or_drop(&mut self, index: usize, message: M, is_filled: bool) -> News {
        let sent = match is_filled {
            true => Err(Full(message)),
            false => self.offer(index, message),
        };
        sent.unwrap_or_else(|Full(message)| {
            self.stats.dropped[self.index as usize].add(1);
            self.shared.drop_message(self.edge, message);
            0
        })
    }

    /// Sends, in place of the oldest messages if there is no room.
    pub(crate) fn send_evicting(&mut self, index: usize, message: M) -> News {
        self.check_target(index);
        let Way::Buffers(buffers) = &mut self.way else {
            unreachable!("an edge that drops the oldest has buffers");
        };
        let weight = buffers.weigh(&message);
        let (stats, shared) = (&self.stats, &self.shared);
        let (out, edge) = (self.index as usize, self.edge);
        stats.sent[out].add(1);
        buffers.put_evicting(index, weight, message, |oldest| {
            stats.sent[out].add(u64::MAX);
            stats.dropped[out].add(1);
            shared.drop_message(edge, oldest);
        });
        self.news()
    }
}
