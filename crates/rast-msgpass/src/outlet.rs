//! The sending half of an edge, as one instance of its sender owns it.
//!
//! ```text
//!   Core.outs ─► [ Out<Line> | Out<Job> | Out<Ack> | ... ]   one per edge that leaves
//!                     │
//!                     ├─ way: a ring per receiver, or an outbox for their inboxes
//!                     ├─ used: how much of its burst this invocation has sent
//!                     └─ credit (requests), or requests held by tokens (answers)
//! ```
//!
//! Rules:
//! 1. On a bounded edge `send` counts against the burst of the handler's call. An outlet without
//!    room for a burst *gates* the handlers that send on it: none of them is called. So each `send`
//!    within the burst finds room.
//! 2. An outlet notes each target that runs short of room or credit. So it need not check all
//!    targets to know whether it gates.
//! 3. On an unbounded edge, messages without room wait at the sender, in order, until the receiver
//!    has made room. If the number of waiting messages has reached the edge's ceiling, `send`
//!    counts its message as undelivered and stops the graph.
//! 4. A request reserves a slot for its answer on the reply edge. The answer, or a waiver in its
//!    place, is put into the slot, and the reservation ends when the client takes it out. Handlers
//!    send requests only within the credit of the reply edge, except by rule 6.
//! 5. A handler answers the request that it handles, or one whose token it has. The answer has a
//!    reserved slot. With inboxes, some time may pass before the client publishes that this slot is
//!    free. Until then the answer waits at the server. If handlers of the server may block, the
//!    client publishes each free slot at once, before it gets its credit back.
//! 6. There are twice as many slots for answers as the credit allows requests. So the handler of an
//!    answer may send requests beyond the credit. If few of the slots for a target's answers are
//!    free, the client handles only answers from this target. Each of these answers frees its slot,
//!    so its handler can send one request.

mod answers;
mod any;
mod copies;
mod faults;
mod flush;
mod lossy;
mod room;
mod waits;

use crate::buffer::Buffers;
use crate::credit::Credit;
use crate::egress::Lane;
use crate::graph::{EdgeInfo, EdgeKind};
use crate::outbox::Outbox;
use crate::primitive::sync::Arc;
use crate::queue::Full;
use crate::rings::Rings;
use crate::sharder::WorkerCx;
use crate::shared::{Shared, Stats};
use crate::ticket::{Kept, Ticket};
use crate::timers::Instant;
use crate::waiting::Waiting;

/// In the note to a shard: an outlet, by its index, may have room again. Without
/// it, the note is the number of an input that got messages.
pub(crate) const ROOM: u32 = 1 << 31;

/// The result of a send or a flush, as bits.
pub(crate) type News = u8;
/// The message is the first since the last flush.
pub(crate) const FIRST: News = 1;
/// The outlet gates its sender now.
pub(crate) const GATES: News = 2;
/// The outlet keeps messages that found no room.
pub(crate) const KEEPS: News = 4;
/// The message goes to another thread.
pub(crate) const REMOTE: News = 8;

/// An outlet whose message type is not known.
pub(crate) trait Outlet: Send {
    /// Returns `true` if the sender may not run.
    fn gates(&self) -> bool;
    /// Returns `true` if the sender may not run because room is short. Handling answers makes no
    /// room.
    fn lacks_room(&self) -> bool;
    /// Returns `true` if it keeps messages that found no room.
    fn keeps(&self) -> bool;
    /// Returns `true` if messages without room are returned or dropped, so it never gates.
    #[cfg(feature = "testing")]
    fn is_lossy(&self) -> bool;
    /// Returns `true` if a target owes so many answers that another request must wait for one.
    fn is_at_limit(&self, target: usize) -> bool;
    /// As `is_at_limit`, for any target except the given one.
    fn is_other_at_limit(&self, target: Option<usize>) -> bool;
    /// Checks the targets that lacked room again.
    fn look(&mut self) -> News;
    /// Enters the wait list of the first target that lacks room; a `look` must follow. Leaves
    /// another list.
    fn wait(&mut self, cx: &mut WorkerCx<'_>);
    /// Returns `true` if the sender does not wait at the first target that lacks room, so that it
    /// may not be woken.
    fn waits_elsewhere(&self) -> bool;
    /// Uses the room for which a receiver has woken the sender, if one has, or wakes another sender
    /// for it.
    fn use_wake_up(&mut self, cx: &mut WorkerCx<'_>) -> News;
    /// Publishes what was sent, counts it, and wakes the receivers.
    fn flush(&mut self, cx: &mut WorkerCx<'_>) -> News;
    /// An answer from a target has been taken out.
    fn answered(&mut self, target: usize);
    /// Gives back the credit of one request of a target.
    fn waive(&mut self, target: usize) -> News;
    /// Keeps a request of a target, to be answered by the ticket.
    fn keep(&mut self, target: usize, since: Instant) -> Ticket;
    /// Waives the requests whose tickets were dropped.
    fn waive_dropped(&mut self) -> News;
    /// Waives all requests that are kept; their tickets are void.
    fn waive_kept(&mut self) -> News;
    /// Gives up the messages without room, at the end.
    fn abandon(&mut self);
}

/// How messages travel.
pub(crate) enum Way<M> {
    Rings(Rings<M>),
    Inboxes(Outbox<M>),
    /// `None` gives back the credit of a request that got no answer.
    AnswerRings(Rings<Option<M>>),
    AnswerInboxes(Outbox<Option<M>>),
    /// A queue under a lock per pair.
    Buffers(Buffers<M>),
}

/// The receivers at the other end.
pub(crate) enum Receivers {
    /// The shards from `first` on; `note` names their input.
    Shards {
        first: u32,
        note: u32,
    },
    Lanes(Box<Lanes>),
}

/// The receivers of an edge to egress; `slot` is the sender's ring there.
pub(crate) struct Lanes {
    pub(crate) lanes: Vec<Arc<Lane>>,
    pub(crate) slot: usize,
}

/// The sending half of one edge, on cache lines of its own. A send and a flush of one message
/// access two lines, of which `way` begins the second.
#[repr(C, align(128))]
pub(crate) struct Out<M> {
    is_bounded: bool,
    /// It has rings, and neither carries nor expects answers.
    is_plain: bool,
    /// It has inboxes, and neither carries nor expects answers.
    is_shared: bool,
    /// It expects answers.
    has_credit: bool,
    /// It is plain and bounded, and has one target.
    grants: bool,
    /// Room at one target is enough.
    any: bool,
    /// It was reported as written since the last flush.
    is_noted: bool,
    used: u32,
    /// The index among the outlets of the processor.
    index: u32,
    invocation: u64,
    /// Messages that the invocation may send to the only target without another look. They are
    /// in `used` and `uncounted` already.
    granted: u32,
    /// The most messages of an invocation; `u32::MAX` on an edge without a bound.
    burst: u32,
    /// Sent and not counted yet.
    uncounted: u64,
    stats: Arc<Stats>,
    receivers: Receivers,
    way: Way<M>,
    /// The most messages without room; `usize::MAX` on an edge that has no such bound.
    ceiling: usize,
    /// On an edge of requests.
    credit: Option<Credit>,
    /// On an edge of answers: the requests that have tickets.
    kept: Option<Kept>,
    info: &'static EdgeInfo,
    edge: usize,
    shard: usize,
    shared: Arc<Shared>,
    waiting: Arc<Waiting>,
    /// The number of this sender among those of the edge.
    sender: usize,
    /// On an edge to egress: messages that found no room, as counted.
    spilled: usize,
    /// The target whose wait list it entered last.
    waits_at: usize,
    /// Whether it is in that list, or was removed from it and has not seen that.
    is_listed: bool,
    /// Whether it has to pass a wake-up on that it does not use: see `waiting.rs`.
    passes_on: bool,
    /// The target that `.any()` tries first.
    cursor: usize,
    /// The number of retired instances of the graph that it passes over.
    deaths: usize,
}

#[cfg(not(rast_loom))]
const _: () = assert!(core::mem::offset_of!(Out<u64>, way) == 64);

/// The parts of an outlet, beside its queues.
pub(crate) struct Parts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) edge: usize,
    pub(crate) index: usize,
    pub(crate) shard: usize,
    pub(crate) sender: usize,
    pub(crate) receivers: Receivers,
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) credit: Option<Credit>,
    pub(crate) kept: Option<Kept>,
    pub(crate) passes_on: bool,
}

impl<M: Send + 'static> Out<M> {
    pub(crate) fn new(parts: Parts, way: Way<M>) -> Self {
        let info = &parts.shared.edges[parts.edge];
        let is_bounded = matches!(info.kind, EdgeKind::Bounded);
        let is_plain = matches!(way, Way::Rings(_)) && parts.credit.is_none();
        let is_single = matches!(&way, Way::Rings(rings) if rings.targets() == 1);
        Self {
            is_bounded,
            is_plain,
            is_shared: matches!(way, Way::Inboxes(_)) && parts.credit.is_none(),
            has_credit: parts.credit.is_some(),
            grants: is_plain && is_bounded && is_single,
            any: info.any,
            is_noted: false,
            burst: match info.kind {
                EdgeKind::Bounded => u32::try_from(info.burst).unwrap_or(u32::MAX),
                _ => u32::MAX,
            },
            ceiling: info.ceiling,
            invocation: 0,
            used: 0,
            uncounted: 0,
            granted: 0,
            credit: parts.credit,
            kept: parts.kept,
            info,
            edge: parts.edge,
            index: u32::try_from(parts.index).expect("a processor has fewer edges"),
            shard: parts.shard,
            stats: Arc::clone(&parts.shared.stats[parts.shard]),
            shared: parts.shared,
            receivers: parts.receivers,
            waiting: parts.waiting,
            sender: parts.sender,
            spilled: 0,
            waits_at: 0,
            is_listed: false,
            passes_on: parts.passes_on,
            cursor: 0,
            deaths: 0,
            way,
        }
    }

    /// # Panics
    ///
    /// When there is no such target.
    #[inline]
    pub(crate) fn check_target(&self, index: usize) {
        if index >= self.targets() {
            self.target_fault(index);
        }
    }

    pub(crate) fn targets(&self) -> usize {
        match &self.way {
            Way::Rings(rings) => rings.targets(),
            Way::Inboxes(outbox) => outbox.targets(),
            Way::AnswerRings(rings) => rings.targets(),
            Way::AnswerInboxes(outbox) => outbox.targets(),
            Way::Buffers(buffers) => buffers.targets(),
        }
    }

    #[inline(always)]
    pub(crate) fn send(&mut self, index: usize, message: M, invocation: u64) -> News {
        if index == 0
            && self.granted > 0
            && self.invocation == invocation
            && let Way::Rings(rings) = &mut self.way
        {
            self.granted -= 1;
            return match rings.put_granted(message) {
                Ok(()) => 0,
                Err(_) => unreachable!("a grant is room"),
            };
        }
        if self.is_plain {
            self.end_grant();
            // In a register: the count is not read back from memory that was just written.
            let used = match self.invocation == invocation {
                true => self.used,
                false => 0,
            };
            self.invocation = invocation;
            self.used = used;
            if used < self.burst
                && let Way::Rings(rings) = &mut self.way
            {
                return match rings.put_fast(index, message) {
                    Ok(()) => {
                        self.used = used + 1;
                        self.uncounted += 1;
                        match core::mem::replace(&mut self.is_noted, true) {
                            true if self.grants => self.grant(),
                            true => 0,
                            false => FIRST,
                        }
                    }
                    Err(message) => self.send_slow(index, message, invocation),
                };
            }
        }
        self.send_slow(index, message, invocation)
    }

    /// Counts messages ahead that the invocation may send to the only target: within its burst,
    /// and while the ring has room for another burst behind them. Returns no news.
    #[inline(never)]
    fn grant(&mut self) -> News {
        if let Way::Rings(rings) = &mut self.way {
            let left = self.burst - self.used;
            self.granted = u32::try_from(rings.spare()).map_or(left, |spare| spare.min(left));
            self.used += self.granted;
            self.uncounted += u64::from(self.granted);
        }
        0
    }

    #[inline(never)]
    fn send_slow(&mut self, index: usize, mut message: M, invocation: u64) -> News {
        if let Way::Rings(rings) = &mut self.way
            && self.is_noted
            && self.is_plain
            && !self.is_bounded
            && rings.spilled() < self.ceiling
        {
            // That this outlet keeps messages was reported when the first of them found no room.
            match rings.put_behind(index, message) {
                Ok(()) => {
                    self.uncounted += 1;
                    return 0;
                }
                Err(unsent) => message = unsent,
            }
        }
        if self.is_shared {
            return self.send_to_inbox(index, message, invocation);
        }
        if self.is_bounded && !self.has_burst(invocation) {
            self.burst_fault();
        }
        let news = self.put(index, message);
        if self.is_bounded {
            // After the weight of the message was asked for, which is code of the user.
            self.used += 1;
        }
        news
    }

    /// Sends to an inbox, without credit.
    #[inline]
    fn send_to_inbox(&mut self, index: usize, message: M, invocation: u64) -> News {
        if self.is_bounded && !self.has_burst(invocation) {
            self.burst_fault();
        }
        let Way::Inboxes(outbox) = &mut self.way else {
            unreachable!("the caller has checked it");
        };
        let was_stuck = outbox.is_stuck();
        if index >= outbox.targets() || (was_stuck && outbox.late() >= self.ceiling) {
            let news = self.put(index, message);
            self.used += u32::from(self.is_bounded);
            return news;
        }
        // An outbox may publish at once, so it is counted before.
        self.stats.sent[self.index as usize].add(1);
        outbox.put(index, message);
        self.used += u32::from(self.is_bounded);
        match self.is_noted && (was_stuck || !outbox.is_stuck()) {
            true => 0,
            false => self.news(),
        }
    }

    #[inline]
    pub(crate) fn try_send(
        &mut self,
        index: usize,
        message: M,
        invocation: u64,
        promised: bool,
    ) -> Result<News, Full<M>> {
        if self.is_bounded
            && let Way::Rings(rings) = &mut self.way
            && index < rings.targets()
            && self
                .credit
                .as_ref()
                .is_none_or(|credit| credit.left(index) > 0)
        {
            if let Err(message) = rings.put_fast(index, message) {
                return self.try_send_slow(index, message, invocation, promised);
            }
            self.end_grant();
            self.uncounted += 1;
            if promised {
                self.count_burst(invocation);
            }
            self.spend(index);
            let first = match core::mem::replace(&mut self.is_noted, true) {
                true => 0,
                false => FIRST,
            };
            return match &self.credit {
                Some(credit) if credit.is_low() && self.all_lack(credit) => Ok(first | GATES),
                _ => Ok(first),
            };
        }
        self.try_send_slow(index, message, invocation, promised)
    }

    #[inline(never)]
    fn try_send_slow(
        &mut self,
        index: usize,
        message: M,
        invocation: u64,
        promised: bool,
    ) -> Result<News, Full<M>> {
        self.check_target(index);
        if !self.is_bounded {
            return match self.is_at_ceiling(index) {
                true => Err(Full(message)),
                false => Ok(self.put(index, message)),
            };
        }
        if self.promise(index, invocation, promised) == 0 {
            if !self.queue_has_room(index, 1) {
                return Err(Full(message));
            }
            if let Way::Inboxes(outbox) = &mut self.way {
                // Others may take the room meanwhile.
                self.stats.sent[self.index as usize].add(1);
                if let Err(message) = outbox.try_put(index, message) {
                    self.stats.sent[self.index as usize].add(u64::MAX);
                    return Err(Full(message));
                }
                if promised {
                    self.count_burst(invocation);
                }
                self.spend(index);
                return Ok(self.news());
            }
        }
        let news = self.put(index, message);
        if promised {
            // As in `send_slow`.
            self.count_burst(invocation);
        }
        Ok(news)
    }

    #[inline]
    fn spend(&mut self, index: usize) {
        if let Some(credit) = &mut self.credit
            && !credit.spend(index)
        {
            self.amplification_fault();
        }
    }

    /// Stages a message. What it returns must be noted before user code runs: a
    /// panic there would lose it, and nothing would publish the message.
    #[inline]
    pub(crate) fn put(&mut self, index: usize, message: M) -> News {
        // Before anything is counted.
        self.check_target(index);
        self.end_grant();
        self.spend(index);
        let is_at_ceiling = self.is_at_ceiling(index);
        if let Way::Rings(rings) = &mut self.way {
            self.uncounted += 1;
            if is_at_ceiling {
                return self.lose_at_ceiling(message);
            }
            if let Err(message) = rings.put(index, message) {
                return self.lose(message);
            }
            if self.is_noted && self.credit.is_none() && !rings.is_some_low() {
                return 0;
            }
            return self.news();
        }
        self.put_otherwise(index, message)
    }

    #[inline(never)]
    fn put_otherwise(&mut self, index: usize, message: M) -> News {
        let weight = match &self.way {
            Way::Buffers(buffers) => buffers.weigh(&message),
            _ => 0,
        };
        // An outbox may publish at once, so it is counted before.
        self.stats.sent[self.index as usize].add(1);
        if self.is_at_ceiling(index) {
            return self.lose_at_ceiling(message);
        }
        match &mut self.way {
            Way::Inboxes(outbox) => outbox.put(index, message),
            Way::Buffers(buffers) => buffers.put(index, weight, message),
            Way::Rings(_) => unreachable!("rings are written by `put`"),
            Way::AnswerRings(_) | Way::AnswerInboxes(_) => {
                unreachable!("answers are sent by `answer`")
            }
        }
        self.news()
    }

    #[inline(never)]
    fn news(&mut self) -> News {
        let first = if self.is_noted { 0 } else { FIRST };
        self.is_noted = true;
        first | self.state()
    }

    #[inline(always)]
    fn state(&self) -> News {
        let lacks = match &self.way {
            Way::Rings(rings) => rings.is_low(),
            Way::Inboxes(outbox) => outbox.is_stuck(),
            Way::AnswerRings(rings) => rings.is_low(),
            Way::AnswerInboxes(outbox) => outbox.is_stuck(),
            Way::Buffers(buffers) => buffers.is_low(),
        };
        self.state_by(lacks)
    }

    #[inline]
    fn state_by(&self, lacks: bool) -> News {
        match (lacks, self.is_bounded) {
            (true, true) => GATES,
            (true, false) => KEEPS,
            (false, true) if self.any && self.living_lack_room() => GATES,
            (false, _) if !self.has_credit => 0,
            (false, _) => match &self.credit {
                Some(credit) if credit.is_low() && self.all_lack(credit) => GATES,
                _ => 0,
            },
        }
    }

    /// Returns whether low credit at some target gates. If one target is enough, it gates only
    /// while each lacks room or credit.
    #[cold]
    #[inline(never)]
    fn all_lack(&self, credit: &Credit) -> bool {
        !self.any
            || !self.some_eligible(|index| !credit.is_low_at(index) && !self.is_target_low(index))
    }

    fn is_target_low(&self, index: usize) -> bool {
        match &self.way {
            Way::Rings(rings) => rings.is_target_low(index),
            Way::Inboxes(outbox) => outbox.is_stuck(),
            Way::Buffers(buffers) => buffers.is_target_low(index),
            Way::AnswerRings(_) | Way::AnswerInboxes(_) => false,
        }
    }

    /// The receiver outside has gone, or nothing is kept any more.
    #[cold]
    fn lose(&mut self, message: M) -> News {
        self.shared.abandon(self.edge, message);
        self.news()
    }

    /// An unbounded edge keeps no more: the graph stops.
    #[cold]
    pub(super) fn lose_at_ceiling(&mut self, message: M) -> News {
        self.shared.stop_at_ceiling(self.edge);
        self.lose(message)
    }
}

impl<M: Send + 'static> Outlet for Out<M> {
    fn gates(&self) -> bool {
        self.state() & GATES != 0
    }

    fn lacks_room(&self) -> bool {
        self.is_bounded && (self.first_lacking().is_some() || (self.any && self.living_lack_room()))
    }

    fn keeps(&self) -> bool {
        self.state() & KEEPS != 0
    }

    #[cfg(feature = "testing")]
    fn is_lossy(&self) -> bool {
        self.info.kind.is_lossy()
    }

    fn is_at_limit(&self, target: usize) -> bool {
        let credit = self.credit.as_ref();
        credit.is_some_and(|credit| credit.is_at_limit(target))
    }

    fn is_other_at_limit(&self, target: Option<usize>) -> bool {
        let Some(credit) = &self.credit else {
            return false;
        };
        if !self.any {
            return credit.is_other_at_limit(target);
        }
        // One is enough, and `target` has a slot when its answer is handled.
        !self.some_eligible(|index| {
            let has_slot = target == Some(index) || credit.slots(index) > 0;
            has_slot && !self.is_target_low(index)
        })
    }

    fn look(&mut self) -> News {
        if self.any {
            // What waits for room goes to no replica that retired since.
            self.note_deaths();
            self.move_spilled();
        }
        let (shared, edge) = (&self.shared, self.edge);
        match &mut self.way {
            Way::Rings(rings) => rings.look(|message| shared.give_up(edge, message)),
            Way::Inboxes(outbox) => outbox.look(),
            Way::AnswerRings(rings) => rings.look(drop),
            Way::AnswerInboxes(outbox) => outbox.look(),
            Way::Buffers(buffers) => buffers.look(),
        }
        self.count_kept();
        let has_moved = match &self.way {
            Way::Rings(rings) => rings.is_written(),
            Way::Inboxes(outbox) => outbox.is_written(),
            Way::AnswerRings(rings) => rings.is_written(),
            Way::AnswerInboxes(outbox) => outbox.is_written(),
            Way::Buffers(buffers) => buffers.is_written(),
        };
        match has_moved {
            true => self.news(),
            false => self.state(),
        }
    }

    fn wait(&mut self, cx: &mut WorkerCx<'_>) {
        self.enter_list(cx);
    }

    fn waits_elsewhere(&self) -> bool {
        let lacking = self.list();
        lacking.is_some_and(|target| !self.is_listed || target != self.waits_at)
    }

    fn use_wake_up(&mut self, cx: &mut WorkerCx<'_>) -> News {
        match self.passes_on && self.is_woken() {
            true => self.use_room(cx),
            false => 0,
        }
    }

    fn flush(&mut self, cx: &mut WorkerCx<'_>) -> News {
        if self.flush_one(cx) {
            return 0;
        }
        match self.way {
            Way::Inboxes(_) | Way::AnswerInboxes(_) => self.flush_outbox(cx),
            _ => self.flush_any(cx),
        }
    }

    fn answered(&mut self, target: usize) {
        if let Some(credit) = &mut self.credit {
            credit.give_back(target, &self.stats.asked[self.index as usize]);
        }
    }

    fn waive(&mut self, target: usize) -> News {
        self.give_back(target)
    }

    fn keep(&mut self, target: usize, since: Instant) -> Ticket {
        let kept = self.kept.as_mut();
        let kept = kept.expect("an edge of answers keeps requests");
        let ticket = kept.keep(target, since);
        self.note_oldest();
        ticket
    }

    fn waive_dropped(&mut self) -> News {
        let mut news = 0;
        while let Some(client) = self.kept.as_mut().and_then(Kept::take_dropped) {
            self.note_oldest();
            news |= self.give_back(client);
        }
        news
    }

    fn waive_kept(&mut self) -> News {
        let mut news = 0;
        while let Some(client) = self.kept.as_mut().and_then(Kept::void_oldest) {
            self.note_oldest();
            news |= self.give_back(client);
        }
        news
    }

    fn abandon(&mut self) {
        self.end_grant();
        let (shared, edge) = (&self.shared, self.edge);
        if self.uncounted > 0 {
            self.stats.sent[self.index as usize].add(self.uncounted);
            self.uncounted = 0;
        }
        let lost = |message| shared.abandon(edge, message);
        let fault = |payload| shared.record_fault("the destructor of a message", payload);
        match &mut self.way {
            Way::Rings(rings) => {
                // What its receiver left there is dropped with the ring.
                let left = rings.abandon(lost, fault);
                shared.count_undelivered(edge, left as u64);
            }
            Way::Inboxes(outbox) => outbox.abandon(lost),
            Way::AnswerRings(rings) => {
                rings.abandon(|answer| answer.into_iter().for_each(lost), fault);
            }
            Way::AnswerInboxes(outbox) => {
                outbox.abandon(|answer| answer.into_iter().for_each(lost));
            }
            // What is there is the receiver's.
            Way::Buffers(_) => {}
        }
    }
}
