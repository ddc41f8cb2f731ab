//! Sending to one inbox per receiver, which all senders of an edge share.
//!
//! ```text
//!   few       [ to 2 | to 5 | - | - ]             in the order of the sends
//!
//!   places    [ - | - | 0 | - | - | 1 | ... ]     at the low bits of a target: its first entry
//!
//!   entries   [ to 2 | to 5 | to 2 ]              a chain: the messages to one target
//!                └──── next ───┘
//! ```
//!
//! A sender has no memory per receiver. If no other bit than `HAS_PUSHED` is set in `state`, the
//! first messages are stored in `few`. Most turns send no more messages than `few` can hold. The
//! flush at the end of a chunk (the messages that a turn handles before it publishes) moves them to
//! their inboxes one by one, as long as each finds a free place (`inbox.rs`).
//!
//! If there are more messages, or if one finds no place, all messages that are still here are
//! stored in entries. All entries of one target form a chain, so a chunk costs each ring at most
//! one read-modify-write. The flush moves the chains to their inboxes. A chain is pushed before the
//! flush if there are many entries, or if another target has the same low bits.
//!
//! The target, the last entry and the length of a chain are in its first entry, and an element of
//! `places` has one byte. So storing a message accesses one cache line of `places`, the message's
//! own entry, and the first and the last entry of its chain.
//!
//! Messages without room stay here, in order, and the sender of a bounded edge does not run until
//! all are pushed. Except with `route = any`, no step checks all targets.

use std::collections::VecDeque;

use crate::inbox::Inboxes;
use crate::primitive::sync::Arc;
use crate::sampling::{Draw, MARKED, Marks, UNMEASURED};
use crate::sharder::WorkerCx;

const PLACES: usize = 64;

/// Number of messages that a turn may send without chains: as many as an inbox has places.
const FEW: usize = 4;

/// Messages that are kept at most before they go to the inboxes.
const ENTRIES: usize = 64;

const _: () = assert!(ENTRIES <= u8::MAX as usize, "an entry's index is a byte");

struct Entry<T> {
    message: Option<T>,
    /// The target of the chain.
    target: u32,
    /// The next entry of the chain.
    next: u8,
    /// In the first entry of a chain: its last entry, and its number of messages.
    last: u8,
    len: u8,
}

/// The messages of a chain, taken out of their entries.
struct Messages<'a, T> {
    entries: &'a mut [Entry<T>],
    first: u8,
    left: u8,
}

impl<T> Iterator for Messages<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        let entry = &mut self.entries[self.first as usize];
        self.first = entry.next;
        entry.message.take()
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl<T> ExactSizeIterator for Messages<'_, T> {}

/// Something found no room.
const STUCK: u8 = 1;
/// Each message goes to an inbox with room, at once.
const ANY: u8 = 2;
/// Some messages are measured: each goes to its inbox at once, with a mark.
const SAMPLED: u8 = 4;
/// Messages are in chains.
const CHAINED: u8 = 8;
/// The ring of an inbox got something since the last flush, and its receiver is to be woken.
const PUSHED: u8 = 16;
/// The ring of an inbox got something at some time. It stays set: see rule 2 of `inbox.rs`.
const HAS_PUSHED: u8 = 32;

/// Minimum number of messages to one target, behind those that found no room, that go straight to
/// the inbox. Fewer are chained with others of their target.
const RUN: usize = 8;

/// A message behind those that found no room.
struct Late<T> {
    target: u32,
    /// When it was sent, if it is measured.
    sent: u64,
    message: T,
}

/// The first messages of those that found no room, all to one target.
struct Run<'a, T> {
    late: &'a mut VecDeque<Late<T>>,
    left: usize,
}

impl<T> Iterator for Run<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        self.late.pop_front().map(|late| late.message)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for Run<'_, T> {}

/// Which messages are measured, and the marks of each inbox.
pub(crate) struct Measured {
    pub(crate) draw: Draw,
    pub(crate) marks: Arc<Box<[Marks]>>,
}

/// The sender's end of an edge with inboxes. In this order, so that short messages are on the same
/// cache line as what is before them.
#[repr(C)]
pub(crate) struct Outbox<T> {
    inboxes: Inboxes<T>,
    /// What a turn with few messages does not access.
    rest: Box<Rest<T>>,
    /// The sender's number, which goes with each message.
    tag: u32,
    /// Bits: see above.
    state: u8,
    /// Number of messages in `few`. While there are any, no other bit than `HAS_PUSHED` is set.
    count: u8,
    /// The first messages, with their targets.
    few: [Option<(u32, T)>; FEW],
}

/// The part of an outbox for several messages, and for those without room. It is on cache lines of
/// its own, as the outlet is.
#[repr(align(128))]
struct Rest<T> {
    entries: Vec<Entry<T>>,
    /// The first entry of each chain, by place.
    places: [u8; PLACES],
    /// A bit per place that has a chain.
    used: u64,
    /// Sent while a chain found no room: goes behind the chains.
    late: VecDeque<Late<T>>,
    /// With `ANY`: the inboxes among which a message may go to each.
    chosen: Vec<u32>,
    /// With `ANY`: which of these is tried first.
    cursor: usize,
    /// The inboxes whose rings got something since the last flush.
    written: Vec<u32>,
    measured: Option<Measured>,
}

impl<T> Outbox<T> {
    pub(crate) fn new(
        inboxes: Inboxes<T>,
        tag: usize,
        any: bool,
        measured: Option<Measured>,
    ) -> Self {
        assert!(tag < MARKED as usize, "an edge has fewer senders");
        let sampled = if measured.is_some() { SAMPLED } else { 0 };
        let chosen = match any {
            true => (0..inboxes.len() as u32).collect(),
            false => Vec::new(),
        };
        Self {
            inboxes,
            tag: tag as u32,
            state: sampled | if any { ANY } else { 0 },
            count: 0,
            few: [const { None }; FEW],
            rest: Box::new(Rest {
                entries: Vec::with_capacity(ENTRIES),
                places: [0; PLACES],
                used: 0,
                late: VecDeque::new(),
                chosen,
                cursor: 0,
                written: Vec::with_capacity(PLACES),
                measured,
            }),
        }
    }

    pub(crate) fn targets(&self) -> usize {
        self.inboxes.len()
    }

    /// Keeps a message for an inbox. `index` is below [`targets`](Self::targets).
    #[inline]
    pub(crate) fn put(&mut self, index: usize, message: T) {
        assert!(index < self.inboxes.len(), "there is no such replica");
        if self.state & !HAS_PUSHED == 0
            && let Some(free) = self.few.get_mut(self.count as usize)
        {
            *free = Some((index as u32, message));
            self.count += 1;
            return;
        }
        self.put_next(index as u32, message);
    }

    /// Keeps a message that is not among the few, or that may be measured.
    #[inline(never)]
    fn put_next(&mut self, target: u32, message: T) {
        self.chain_few();
        if self.is_stuck() && self.state & (ANY | SAMPLED) == 0 {
            return self.keep(target, message);
        }
        if self.state & !(CHAINED | PUSHED | HAS_PUSHED) == 0 {
            return self.chain(target, message);
        }
        let sent = (self.rest.measured.as_mut()).map(|measured| measured.draw.draw());
        self.put_otherwise(Late {
            target,
            sent: sent.unwrap_or(UNMEASURED),
            message,
        });
    }

    /// Puts the few messages into chains.
    #[inline]
    fn chain_few(&mut self) {
        for at in 0..core::mem::take(&mut self.count) as usize {
            if let Some((target, message)) = self.few[at].take() {
                self.chain_or_keep(target, message);
            }
        }
    }

    /// As [`chain`](Self::chain), or behind those that found no room.
    fn chain_or_keep(&mut self, target: u32, message: T) {
        match self.is_stuck() {
            true => self.keep(target, message),
            false => self.chain(target, message),
        }
    }

    /// Keeps a message behind those that found no room.
    fn keep(&mut self, target: u32, message: T) {
        self.rest.late.push_back(Late {
            target,
            sent: UNMEASURED,
            message,
        });
    }

    /// Puts a message at the end of the chain of its target.
    #[inline]
    fn chain(&mut self, target: u32, message: T) {
        let place = target as usize % PLACES;
        if self.rest.used >> place & 1 != 0 && self.rest.first(place).target != target {
            self.send(place);
            if self.is_stuck() {
                return self.keep(target, message);
            }
        }
        self.state |= CHAINED;
        self.rest.chain(target, place, message);
        if self.rest.entries.len() >= ENTRIES {
            self.send_all();
        }
    }

    /// Keeps a message behind those that found no room, gives it to an inbox with room, or gives a
    /// measured one to its inbox.
    #[inline(never)]
    fn put_otherwise(&mut self, mut late: Late<T>) {
        if self.is_stuck() {
            self.rest.late.push_back(late);
            return;
        }
        if self.state & ANY == 0 {
            if late.sent == UNMEASURED {
                return self.chain(late.target, late.message);
            }
            // What was sent to this inbox before goes first.
            self.send_all();
            if !self.is_stuck() {
                match self.push(late.target as usize, late.sent, late.message) {
                    Ok(()) => return,
                    Err(message) => late.message = message,
                }
            }
        } else {
            let count = self.rest.chosen.len();
            for step in 0..count {
                let turn = (self.rest.cursor + step) % count;
                let index = self.rest.chosen[turn] as usize;
                match self.push(index, late.sent, late.message) {
                    Ok(()) => {
                        self.rest.cursor = (turn + 1) % count;
                        return;
                    }
                    Err(message) => late.message = message,
                }
            }
        }
        self.state |= STUCK;
        self.rest.late.push_back(late);
    }

    /// With `ANY`: chooses the inboxes to which messages go from now on.
    #[cold]
    pub(crate) fn choose_among(&mut self, chosen: impl Iterator<Item = usize>) {
        if self.state & ANY != 0 {
            self.rest.chosen = chosen.map(|index| index as u32).collect();
            self.rest.cursor = 0;
        }
    }

    /// Gives one message to an inbox, if there is room.
    fn push(&mut self, index: usize, sent: u64, message: T) -> Result<(), T> {
        let marks = match &self.rest.measured {
            Some(measured) if sent != UNMEASURED => Some(&measured.marks[index]),
            _ => None,
        };
        let inbox = &self.inboxes[index];
        match marks {
            None => inbox.push(self.tag, message)?,
            Some(marks) => {
                // Before the message, so that its receiver finds it.
                marks.enter(self.tag, sent);
                if let Err(message) = inbox.push(self.tag | MARKED, message) {
                    marks.take_back(self.tag);
                    return Err(message);
                }
            }
        }
        self.has_pushed(index as u32);
        Ok(())
    }

    /// Moves a chain into the ring of its inbox, as far as there is room.
    fn send(&mut self, place: usize) {
        let target = self.rest.first(place).target;
        let (mut messages, last) = self.rest.messages(place);
        let pushed = self.inboxes[target as usize].push_batch(self.tag, &mut messages);
        let Messages { first, left, .. } = messages;
        self.rest.cut(place, first, last, left);
        if pushed > 0 {
            self.has_pushed(target);
        }
        if left > 0 {
            self.state |= STUCK;
        }
    }

    /// Records that a receiver is to be woken at the next flush.
    fn has_pushed(&mut self, target: u32) {
        if self.rest.written.last() != Some(&target) {
            self.rest.written.push(target);
        }
        self.state |= PUSHED | HAS_PUSHED;
    }

    fn send_all(&mut self) {
        let mut left = self.rest.used;
        while left != 0 {
            self.send(left.trailing_zeros() as usize);
            left &= left - 1;
        }
        self.has_sent();
    }

    /// Clears the entries if all chains are sent.
    fn has_sent(&mut self) {
        if self.rest.used == 0 {
            self.state &= !CHAINED;
            self.rest.entries.clear();
        }
    }

    /// Passes on what is kept, as far as there is room, and wakes each receiver that got something
    /// by `note`. Returns `true` if one of them is on another worker.
    #[inline]
    pub(crate) fn flush(&mut self, cx: &mut WorkerCx<'_>, note: u32) -> bool {
        match self.count {
            0 => self.flush_all(cx, note),
            _ => self.flush_few(cx, note),
        }
    }

    #[inline]
    fn flush_few(&mut self, cx: &mut WorkerCx<'_>, note: u32) -> bool {
        let count = core::mem::take(&mut self.count) as usize;
        for at in 0..count {
            let Some((target, message)) = self.few[at].take() else {
                continue;
            };
            let inbox = &self.inboxes[target as usize];
            if let Some(mut here) = inbox.here(cx)
                && here.room(self.state & HAS_PUSHED != 0) > 0
            {
                here.put(self.tag, message);
                inbox.wake_here(cx, note);
                continue;
            }
            if at + 1 == count {
                return self.push_last(target, message) && !self.wake(target, cx, note);
            }
            self.few[at] = Some((target, message));
            self.count = count as u8;
            return self.flush_chained(cx, note);
        }
        false
    }

    /// Flushes the few messages that are left by chains.
    #[inline(never)]
    fn flush_chained(&mut self, cx: &mut WorkerCx<'_>, note: u32) -> bool {
        self.chain_few();
        self.flush_all(cx, note)
    }

    fn wake(&self, target: u32, cx: &mut WorkerCx<'_>, note: u32) -> bool {
        self.inboxes[target as usize].wake(cx, note)
    }

    /// Pushes the last of the few messages to the ring of its inbox; returns `true` if there was
    /// room.
    #[inline(never)]
    fn push_last(&mut self, target: u32, message: T) -> bool {
        match self.inboxes[target as usize].push(self.tag, message) {
            Ok(()) => {
                self.state |= HAS_PUSHED;
                true
            }
            Err(message) => {
                self.chain(target, message);
                self.state |= STUCK;
                false
            }
        }
    }

    #[inline(never)]
    fn flush_all(&mut self, cx: &mut WorkerCx<'_>, note: u32) -> bool {
        if self.state & CHAINED != 0 && !self.is_stuck() {
            let mut left = self.rest.used;
            while left != 0 {
                self.send_here(left.trailing_zeros() as usize, cx, note);
                left &= left - 1;
            }
            self.has_sent();
        }
        let mut is_remote = false;
        while let Some(target) = self.rest.written.pop() {
            is_remote |= !self.wake(target, cx, note);
        }
        self.state &= !PUSHED;
        is_remote
    }

    /// Moves a chain into the places of its inbox, as far as that is possible, and the rest of it
    /// into the ring.
    fn send_here(&mut self, place: usize, cx: &mut WorkerCx<'_>, note: u32) {
        let target = self.rest.first(place).target;
        let inbox = &self.inboxes[target as usize];
        if let Some(mut here) = inbox.here(cx) {
            let (mut messages, last) = self.rest.messages(place);
            let room = here.room(self.state & HAS_PUSHED != 0);
            for _ in 0..room.min(messages.len()) {
                if let Some(message) = messages.next() {
                    here.put(self.tag, message);
                }
            }
            let Messages { first, left, .. } = messages;
            self.rest.cut(place, first, last, left);
            if room > 0 {
                inbox.wake_here(cx, note);
            }
            if left == 0 {
                return;
            }
        }
        self.send(place);
    }

    /// Passes everything to the rings, as far as there is room, and returns the targets that got
    /// something.
    #[cfg(all(test, not(rast_loom)))]
    fn publish(&mut self) -> Vec<u32> {
        self.chain_few();
        if !self.is_stuck() {
            self.send_all();
        }
        self.state &= !PUSHED;
        core::mem::take(&mut self.rest.written)
    }

    /// Returns whether an inbox lacked room.
    #[inline]
    pub(crate) fn is_stuck(&self) -> bool {
        self.state & STUCK != 0
    }

    /// Returns how many messages are kept behind those, at most `ENTRIES`, that found no room.
    #[inline]
    pub(crate) fn late(&self) -> usize {
        match self.is_stuck() {
            true => self.rest.late.len(),
            false => 0,
        }
    }

    /// Returns whether an inbox got something since the last flush.
    pub(crate) fn is_written(&self) -> bool {
        !self.rest.written.is_empty()
    }

    /// Returns whether the ring of an inbox got something since the last flush.
    pub(crate) fn is_written_to(&self, index: usize) -> bool {
        self.rest.written.contains(&(index as u32))
    }

    /// Returns whether an inbox has room, by a fresh look, whatever waits here for room.
    pub(crate) fn has_free_slot(&self, index: usize) -> bool {
        self.inboxes[index].room() > 0
    }

    /// Tries again with what found no room.
    pub(crate) fn look(&mut self) {
        if !self.is_stuck() {
            return;
        }
        self.state &= !STUCK;
        self.send_all();
        while !self.is_stuck() {
            if let Some((target, run)) = self.first_run() {
                self.send_run(target, run);
                continue;
            }
            let Some(first) = self.rest.late.pop_front() else {
                return;
            };
            let late = core::mem::take(&mut self.rest.late);
            self.put_otherwise(first);
            // What was put behind it, if it stuck, was sent before the others.
            let put_back = core::mem::replace(&mut self.rest.late, late);
            for kept in put_back.into_iter().rev() {
                self.rest.late.push_front(kept);
            }
            if self.rest.late.is_empty() && !self.is_stuck() {
                self.send_all();
            }
        }
    }

    /// Returns the target of the first messages that found no room, and how many in a row go to it
    /// and have room there; `None` if these are few.
    fn first_run(&self) -> Option<(u32, usize)> {
        if self.state & ANY != 0 {
            return None;
        }
        let late = &self.rest.late;
        let target = late.front()?.target;
        let is_of_run = |late: &&Late<T>| late.target == target && late.sent == UNMEASURED;
        // One that finds no room shows that.
        let most = self.inboxes[target as usize].room().max(1);
        let run = late.iter().take(most).take_while(is_of_run).count();
        (run >= RUN.min(most)).then_some((target, run))
    }

    /// Moves the first messages that found no room into their inbox, as far as there is room.
    fn send_run(&mut self, target: u32, run: usize) {
        // What was sent to this inbox before goes first.
        self.send_all();
        if self.is_stuck() {
            return;
        }
        let mut messages = Run {
            late: &mut self.rest.late,
            left: run,
        };
        let pushed = self.inboxes[target as usize].push_batch(self.tag, &mut messages);
        if pushed > 0 {
            self.has_pushed(target);
        }
        if pushed < run {
            self.state |= STUCK;
        }
    }

    /// Returns the target of something that found no room.
    pub(crate) fn first_stuck(&self) -> Option<usize> {
        if !self.is_stuck() {
            return None;
        }
        if self.state & ANY != 0 {
            return Some(0);
        }
        if self.rest.used == 0 {
            // A measured message goes without a chain.
            return self.rest.late.front().map(|late| late.target as usize);
        }
        let place = self.rest.used.trailing_zeros() as usize;
        Some(self.rest.first(place).target as usize)
    }

    /// Sends at once if there is room, behind what was sent before.
    pub(crate) fn try_put(&mut self, index: usize, message: T) -> Result<(), T> {
        self.chain_few();
        if !self.is_stuck() {
            self.send_all();
        }
        if self.is_stuck() {
            return Err(message);
        }
        let sent = (self.rest.measured.as_mut()).map(|measured| measured.draw.look());
        self.push(index, sent.unwrap_or(UNMEASURED), message)?;
        if let Some(measured) = &mut self.rest.measured {
            measured.draw.count();
        }
        Ok(())
    }

    /// The room of an inbox behind the messages that are kept for it, by a fresh look; others may
    /// take it.
    pub(crate) fn room(&self, index: usize) -> usize {
        match self.is_stuck() {
            true => 0,
            false => self.inboxes[index]
                .room()
                .saturating_sub(self.kept_for(index)),
        }
    }

    /// Returns how many messages are kept for an inbox, while nothing found no room.
    fn kept_for(&self, index: usize) -> usize {
        if self.count > 0 {
            // While there are any, there is no chain.
            let few = self.few.iter().flatten();
            return few.filter(|(target, _)| *target as usize == index).count();
        }
        let place = index % PLACES;
        if self.rest.used >> place & 1 == 0 {
            return 0;
        }
        let first = self.rest.first(place);
        match first.target as usize == index {
            true => first.len as usize,
            false => 0,
        }
    }

    /// Gives up what is kept, at the end.
    pub(crate) fn abandon(&mut self, mut lost: impl FnMut(T)) {
        // One by one: a panic of `lost` loses that message and no other.
        for (_, message) in self.few.iter_mut().filter_map(Option::take) {
            lost(message);
        }
        self.count = 0;
        while self.rest.used != 0 {
            let place = self.rest.used.trailing_zeros() as usize;
            let (mut messages, last) = self.rest.messages(place);
            let message = messages.next();
            let Messages { first, left, .. } = messages;
            self.rest.cut(place, first, last, left);
            message.into_iter().for_each(&mut lost);
        }
        while let Some(late) = self.rest.late.pop_front() {
            lost(late.message);
        }
    }
}

impl<T> Rest<T> {
    /// Returns the first entry of the chain in a place.
    #[inline]
    fn first(&self, place: usize) -> &Entry<T> {
        &self.entries[self.places[place] as usize]
    }

    /// Returns the messages of the chain in a place, and its last entry. Then `cut` is due.
    fn messages(&mut self, place: usize) -> (Messages<'_, T>, u8) {
        let &Entry { last, len, .. } = self.first(place);
        let messages = Messages {
            entries: &mut self.entries,
            first: self.places[place],
            left: len,
        };
        (messages, last)
    }

    /// Puts a message at the end of the chain in a place, or begins it.
    #[inline]
    fn chain(&mut self, target: u32, place: usize, message: T) {
        let at = self.entries.len() as u8;
        if self.used >> place & 1 != 0 {
            let first = &mut self.entries[self.places[place] as usize];
            let last = core::mem::replace(&mut first.last, at);
            first.len += 1;
            self.entries[last as usize].next = at;
        } else {
            self.used |= 1 << place;
            self.places[place] = at;
        }
        self.entries.push(Entry {
            message: Some(message),
            target,
            next: 0,
            last: at,
            len: 1,
        });
    }

    /// Records what is left of the chain in a place.
    #[inline]
    fn cut(&mut self, place: usize, first: u8, last: u8, len: u8) {
        if len == 0 {
            self.used &= !(1 << place);
            return;
        }
        self.places[place] = first;
        let entry = &mut self.entries[first as usize];
        (entry.last, entry.len) = (last, len);
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests;
