//! How many messages an outlet accepts, and the count of the burst.

use super::{Out, Way};
use crate::graph::EdgeKind;

impl<M: Send + 'static> Out<M> {
    /// Counts one message; returns `false` if it exceeds the burst.
    #[inline]
    pub(super) fn count_burst(&mut self, invocation: u64) -> bool {
        self.begin(invocation);
        self.used = self.used.saturating_add(1);
        self.used <= self.burst
    }

    /// Returns `true` if one more message is within the burst.
    pub(super) fn has_burst(&mut self, invocation: u64) -> bool {
        self.begin(invocation);
        self.used < self.burst
    }

    /// Resets the count if this is another invocation, and ends a grant.
    #[inline]
    pub(super) fn begin(&mut self, invocation: u64) {
        self.end_grant();
        if self.invocation != invocation {
            self.invocation = invocation;
            self.used = 0;
        }
    }

    /// Subtracts granted messages that were not sent from the counts.
    #[inline]
    pub(super) fn end_grant(&mut self) {
        if self.granted > 0 {
            let granted = core::mem::take(&mut self.granted);
            self.used -= granted;
            self.uncounted -= u64::from(granted);
        }
    }

    /// Returns how many messages `try_send` would take for a target now.
    /// `promised`: the handler found room for its burst.
    pub(crate) fn room(&self, index: usize, invocation: u64, promised: bool) -> usize {
        match self.info.kind {
            EdgeKind::Unbounded => {
                let below = self.ceiling.saturating_sub(self.without_room());
                self.queue_room(index).saturating_add(below)
            }
            // Its request reserved it.
            EdgeKind::Reply { .. } => 1,
            EdgeKind::Reject | EdgeKind::DropNewest => self.queue_room(index),
            // A message without room takes the place of another.
            EdgeKind::DropOldest | EdgeKind::Latest => {
                self.check_target(index);
                usize::MAX
            }
            EdgeKind::Bounded => {
                let promise = self.promise(index, invocation, promised);
                self.queue_room(index).max(promise)
            }
        }
    }

    /// Returns the rest of the burst. The handler of an answer may lack slots for the answers to a
    /// whole burst of requests.
    pub(crate) fn promise(&self, index: usize, invocation: u64, promised: bool) -> usize {
        let unused = match promised {
            true => self.unused(invocation),
            false => 0,
        };
        match &self.credit {
            Some(credit) => unused.min(credit.slots(index)),
            None => unused,
        }
    }

    /// Returns `true` if `try_send` would accept this many messages for a target now.
    #[inline]
    pub(crate) fn has_room(
        &self,
        index: usize,
        count: usize,
        invocation: u64,
        promised: bool,
    ) -> bool {
        match &self.way {
            Way::Rings(_) if self.is_bounded => {
                self.queue_has_room(index, count)
                    || self.promise(index, invocation, promised) >= count
            }
            _ => self.room(index, invocation, promised) >= count,
        }
    }

    /// Returns `true` if a target has room and credit for this many messages.
    #[inline]
    pub(crate) fn queue_has_room(&self, index: usize, count: usize) -> bool {
        let credit = self.credit.as_ref();
        credit.is_none_or(|credit| credit.left(index) >= count)
            && match &self.way {
                Way::Rings(rings) => rings.has_room(index, count),
                _ => self.queue_room(index) >= count,
            }
    }

    /// Returns the room and credit of a target, by a fresh check.
    fn queue_room(&self, index: usize) -> usize {
        let room = match &self.way {
            Way::Rings(rings) => rings.room(index),
            Way::Inboxes(outbox) => outbox.room(index),
            // The next message may be too heavy for a further one.
            Way::Buffers(buffers) => usize::from(buffers.has_room(index)),
            Way::AnswerRings(_) | Way::AnswerInboxes(_) => 0,
        };
        match &self.credit {
            Some(credit) => room.min(credit.left(index)),
            None => room,
        }
    }

    /// Returns the number of messages without room.
    #[inline]
    fn without_room(&self) -> usize {
        match &self.way {
            Way::Rings(rings) => rings.spilled(),
            Way::Inboxes(outbox) => outbox.late(),
            // Credit bounds answers, and buffers have their own bound.
            Way::AnswerRings(_) | Way::AnswerInboxes(_) | Way::Buffers(_) => 0,
        }
    }

    /// Returns `true` if a further message to a target would exceed the edge's ceiling.
    #[inline]
    pub(super) fn is_at_ceiling(&self, index: usize) -> bool {
        self.without_room() >= self.ceiling && self.queue_room(index) == 0
    }

    /// Returns `true` if the oldest messages make room.
    #[cfg(feature = "testing")]
    pub(crate) fn always_has_room(&self) -> bool {
        matches!(self.info.kind, EdgeKind::DropOldest | EdgeKind::Latest)
    }

    /// Returns `true` if `send` would accept a message for a target now; otherwise it panics.
    #[cfg(feature = "testing")]
    pub(crate) fn takes(&self, index: usize, invocation: u64) -> bool {
        index < self.targets()
            && (!self.is_bounded || self.unused(invocation) > 0)
            && (!self.info.kind.is_lossy() || self.queue_room(index) > 0)
    }

    fn unused(&self, invocation: u64) -> usize {
        let unused = match self.invocation == invocation {
            true => (self.burst - self.used.min(self.burst)).saturating_add(self.granted),
            false => self.burst,
        };
        unused as usize
    }
}
