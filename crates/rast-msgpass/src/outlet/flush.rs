//! How an outlet publishes its messages.

use super::{Lanes, News, Out, REMOTE, Receivers, Way};
use crate::primitive::panics::contain;
use crate::sharder::{ShardId, WorkerCx};

impl<M: Send + 'static> Out<M> {
    /// Publishes what was sent to one receiver on this worker, by a ring, and counts it. Returns
    /// `false`, and does nothing, if there is more to do.
    ///
    /// It calls no function, so it saves no registers.
    #[inline(always)]
    pub(super) fn flush_one(&mut self, cx: &mut WorkerCx<'_>) -> bool {
        if let Way::Rings(rings) = &mut self.way
            && let &Receivers::Shards { first, note } = &self.receivers
            && self.is_plain
            && self.granted == 0
            && let Some(target) = rings.only_written()
            && cx.wake_local(ShardId::from_index(first as usize + target), note)
        {
            self.is_noted = false;
            // Before it can be received.
            self.stats.sent[self.index as usize].add(core::mem::take(&mut self.uncounted));
            rings.publish_only(target);
            return true;
        }
        false
    }

    /// Passes on what an outbox keeps, which is counted already, and wakes the receivers.
    #[inline(never)]
    pub(super) fn flush_outbox(&mut self, cx: &mut WorkerCx<'_>) -> News {
        self.is_noted = false;
        if self.has_credit {
            self.note_asked(cx.now());
        }
        let &Receivers::Shards { note, .. } = &self.receivers else {
            unreachable!("an inbox is that of an instance");
        };
        let (is_remote, is_stuck) = match &mut self.way {
            Way::Inboxes(outbox) => (outbox.flush(cx, note), outbox.is_stuck()),
            Way::AnswerInboxes(outbox) => (outbox.flush(cx, note), outbox.is_stuck()),
            _ => unreachable!("the caller has checked it"),
        };
        let news = if is_remote { REMOTE } else { 0 };
        news | self.state_by(is_stuck)
    }

    /// Publishes what was sent, counts it, and wakes the receivers.
    #[inline(never)]
    pub(super) fn flush_any(&mut self, cx: &mut WorkerCx<'_>) -> News {
        self.is_noted = false;
        self.end_grant();
        // Before it can be received.
        self.stats.sent[self.index as usize].add(core::mem::take(&mut self.uncounted));
        if self.has_credit {
            self.note_asked(cx.now());
        }
        match (&mut self.way, &self.receivers) {
            (Way::Rings(rings), &Receivers::Shards { first, note }) => {
                let mut news = 0;
                rings.flush(|target| {
                    if !cx.wake(ShardId::from_index(first as usize + target), note) {
                        news = REMOTE;
                    }
                });
                let lacks = rings.is_low();
                news | self.state_by(lacks)
            }
            _ => {
                let news = self.flush_otherwise(cx);
                self.count_kept();
                news | self.state()
            }
        }
    }

    /// Publishes in another way than by rings to shards.
    #[inline(never)]
    fn flush_otherwise(&mut self, cx: &mut WorkerCx<'_>) -> News {
        match &self.receivers {
            &Receivers::Shards { first, note } => {
                let mut news = 0;
                let wake = |target: usize| {
                    if !cx.wake(ShardId::from_index(first as usize + target), note) {
                        news = REMOTE;
                    }
                };
                match &mut self.way {
                    Way::Rings(rings) => rings.flush(wake),
                    Way::AnswerRings(rings) => rings.flush(wake),
                    Way::Buffers(buffers) => buffers.flush(wake),
                    Way::Inboxes(_) | Way::AnswerInboxes(_) => {
                        unreachable!("`flush_outbox` has done it")
                    }
                }
                news
            }
            Receivers::Lanes(lanes) => {
                let Lanes { lanes, slot } = &**lanes;
                if let Way::Rings(rings) = &mut self.way {
                    rings.note_closed();
                    let shared = &self.shared;
                    rings.flush(|lane| {
                        if let Err(payload) = contain(|| lanes[lane].announce(*slot)) {
                            // A waker of a lane. The other receivers are told all the same.
                            shared.record_fault("a waker", payload);
                        }
                    });
                }
                REMOTE
            }
        }
    }

    /// Counts what waits beside the instance for room in a lane.
    #[inline]
    pub(super) fn count_kept(&mut self) {
        if let (Receivers::Lanes(_), Way::Rings(rings)) = (&self.receivers, &self.way) {
            let kept = rings.spilled();
            if kept != self.spilled {
                let change = (kept as u64).wrapping_sub(self.spilled as u64);
                self.stats.kept.add(change);
                self.spilled = kept;
            }
        }
    }
}
