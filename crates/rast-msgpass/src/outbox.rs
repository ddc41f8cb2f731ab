//! Sending to one inbox per receiver, which all senders of an edge share.
//!
//! ```text
//!   places    [ 5: 0 | 9: 1 | - | 2: 2 | ... ]       by the target's low bits: the first entry
//!                  │
//!   entries   [ m0 ──────────────► m3 ]              a chain: the messages of one target
//!             [ m1 ] [ m2 ]
//! ```
//!
//! A sender has no memory per receiver. Its messages are kept in entries, chained by target. One
//! exchange pushes a chain to its inbox: when the chunk ends, when there are many entries, or when
//! two targets meet in one place of the table. What a chain needs is in its first entry, and the
//! table has a byte per place, so a message touches one line of the table and one entry.
//!
//! Messages that an inbox has no room for stay here, in order, and the sender of a bounded edge
//! does not run until all are pushed. So every accepted message gets room, and no step checks all
//! targets.

use std::collections::VecDeque;

use crate::primitive::sync::Arc;
use crate::queue::Full;
use crate::queue::mpsc::bounded::Producer;
use crate::sampling::{Draw, MARKED, Marks, UNMEASURED};

const PLACES: usize = 64;

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

/// Messages to one target that go from behind those that found no room straight to the inbox.
/// Fewer are chained with others of their target.
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

/// The sender's end of an edge with inboxes.
pub(crate) struct Outbox<T> {
    inboxes: Arc<Box<[Producer<T>]>>,
    /// The sender's number, which goes with each message.
    tag: u32,
    entries: Vec<Entry<T>>,
    /// The first entry of each chain, by place.
    places: [u8; PLACES],
    /// A bit per place that has a chain.
    used: u64,
    /// Sent while a chain found no room: goes behind the chains.
    late: VecDeque<Late<T>>,
    /// Bits: see below.
    state: u8,
    /// With `ANY`: the inbox that is tried first.
    cursor: usize,
    written: Vec<u32>,
    measured: Option<Box<Measured>>,
}

impl<T> Outbox<T> {
    pub(crate) fn new(
        inboxes: Arc<Box<[Producer<T>]>>,
        tag: usize,
        any: bool,
        measured: Option<Measured>,
    ) -> Self {
        assert!(tag < MARKED as usize, "an edge has fewer senders");
        let sampled = if measured.is_some() { SAMPLED } else { 0 };
        Self {
            inboxes,
            tag: tag as u32,
            entries: Vec::with_capacity(ENTRIES),
            places: [0; PLACES],
            used: 0,
            late: VecDeque::new(),
            state: sampled | if any { ANY } else { 0 },
            cursor: 0,
            written: Vec::with_capacity(PLACES),
            measured: measured.map(Box::new),
        }
    }

    pub(crate) fn targets(&self) -> usize {
        self.inboxes.len()
    }

    /// Keeps a message for an inbox. `index` is below [`targets`](Self::targets).
    #[inline]
    pub(crate) fn put(&mut self, index: usize, message: T) {
        assert!(index < self.inboxes.len(), "there is no such replica");
        let target = index as u32;
        match self.state {
            0 => self.chain(target, message),
            // Only that: nothing is measured, and the target counts.
            STUCK => self.late.push_back(Late {
                target,
                sent: UNMEASURED,
                message,
            }),
            _ => {
                let sent = self.measured.as_mut().map(|measured| measured.draw.draw());
                self.put_otherwise(Late {
                    target,
                    sent: sent.unwrap_or(UNMEASURED),
                    message,
                });
            }
        }
    }

    /// Puts a message at the end of the chain of its target.
    #[inline(always)]
    fn chain(&mut self, target: u32, message: T) {
        let place = target as usize % PLACES;
        if self.used >> place & 1 != 0 && self.first(place).target != target {
            self.send(place);
            if self.is_stuck() {
                self.late.push_back(Late {
                    target,
                    sent: UNMEASURED,
                    message,
                });
                return;
            }
        }
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
        if self.entries.len() >= ENTRIES {
            self.send_all();
        }
    }

    /// Returns the first entry of the chain in a place.
    #[inline]
    fn first(&self, place: usize) -> &Entry<T> {
        &self.entries[self.places[place] as usize]
    }

    /// Keeps a message behind those that found no room, gives it to an inbox with room, or gives a
    /// measured one to its inbox.
    #[inline(never)]
    fn put_otherwise(&mut self, mut late: Late<T>) {
        if self.is_stuck() {
            self.late.push_back(late);
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
            let count = self.inboxes.len();
            for step in 0..count {
                let index = (self.cursor + step) % count;
                match self.push(index, late.sent, late.message) {
                    Ok(()) => {
                        self.cursor = (index + 1) % count;
                        return;
                    }
                    Err(message) => late.message = message,
                }
            }
        }
        self.state |= STUCK;
        self.late.push_back(late);
    }

    /// Gives one message to an inbox, if there is room.
    fn push(&mut self, index: usize, sent: u64, message: T) -> Result<(), T> {
        let marks = match &self.measured {
            Some(measured) if sent != UNMEASURED => Some(&measured.marks[index]),
            _ => None,
        };
        let pushed = match marks {
            None => self.inboxes[index].push(self.tag, message),
            Some(marks) => {
                // Before the message, so that its receiver finds it.
                marks.enter(self.tag, sent);
                let pushed = self.inboxes[index].push(self.tag | MARKED, message);
                if pushed.is_err() {
                    marks.take_back(self.tag);
                }
                pushed
            }
        };
        if pushed.is_ok() {
            self.note_written(index as u32);
        }
        pushed.map_err(Full::into_inner)
    }

    /// Moves a chain into its inbox, as far as there is room.
    fn send(&mut self, place: usize) {
        let &Entry {
            target, last, len, ..
        } = self.first(place);
        let mut messages = Messages {
            entries: &mut self.entries,
            first: self.places[place],
            left: len,
        };
        let inbox = &self.inboxes[target as usize];
        let pushed = inbox.push_batch(self.tag, &mut messages);
        let Messages { first, left, .. } = messages;
        if pushed > 0 {
            self.note_written(target);
        }
        self.cut(place, first, last, left);
        if left > 0 {
            self.state |= STUCK;
        }
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

    fn send_all(&mut self) {
        let mut left = self.used;
        while left != 0 {
            self.send(left.trailing_zeros() as usize);
            left &= left - 1;
        }
        if self.used == 0 {
            self.entries.clear();
        }
    }

    /// Moves what is kept into the inboxes, as far as there is room, and calls
    /// `each` with every target that got something.
    #[inline]
    pub(crate) fn flush(&mut self, each: impl FnMut(usize)) {
        if self.used != 0 && !self.is_stuck() {
            self.send_all();
        }
        self.announce(each);
    }

    fn announce(&mut self, mut each: impl FnMut(usize)) {
        while let Some(target) = self.written.pop() {
            each(target as usize);
        }
    }

    /// Returns whether an inbox lacked room.
    #[inline]
    pub(crate) fn is_stuck(&self) -> bool {
        self.state & STUCK != 0
    }

    /// Returns how many messages are kept behind those, at most `ENTRIES`, that found no room.
    #[inline]
    pub(crate) fn late(&self) -> usize {
        self.late.len()
    }

    /// Returns whether an inbox got something since the last flush.
    pub(crate) fn is_written(&self) -> bool {
        !self.written.is_empty()
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
            let Some(first) = self.late.pop_front() else {
                return;
            };
            let late = core::mem::take(&mut self.late);
            self.put_again(first);
            // What was put behind it, if it stuck, was sent before the others.
            let put_back = core::mem::replace(&mut self.late, late);
            for kept in put_back.into_iter().rev() {
                self.late.push_front(kept);
            }
            if self.late.is_empty() && !self.is_stuck() {
                self.send_all();
            }
        }
    }

    /// Returns the target of the first messages that found no room, and how many go to it without
    /// another one in between, at most as many as have room there; `None` if these are few.
    fn first_run(&self) -> Option<(u32, usize)> {
        if self.state & ANY != 0 {
            return None;
        }
        let target = self.late.front()?.target;
        let is_of_run = |late: &&Late<T>| late.target == target && late.sent == UNMEASURED;
        // One that finds no room shows that.
        let most = self.inboxes[target as usize].room().max(1);
        let run = self.late.iter().take(most).take_while(is_of_run).count();
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
            late: &mut self.late,
            left: run,
        };
        let pushed = self.inboxes[target as usize].push_batch(self.tag, &mut messages);
        if pushed > 0 {
            self.note_written(target);
        }
        if pushed < run {
            self.state |= STUCK;
        }
    }

    /// Records that an inbox got something.
    #[inline]
    fn note_written(&mut self, target: u32) {
        if self.written.last() != Some(&target) {
            self.written.push(target);
        }
    }

    /// Puts a message that found no room, as if it were sent now.
    fn put_again(&mut self, late: Late<T>) {
        match self.state {
            0 => self.chain(late.target, late.message),
            _ => self.put_otherwise(late),
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
        if self.used == 0 {
            // A measured message goes without a chain.
            return self.late.front().map(|late| late.target as usize);
        }
        let place = self.used.trailing_zeros() as usize;
        Some(self.first(place).target as usize)
    }

    /// Sends at once if there is room, behind what was sent before.
    pub(crate) fn try_put(&mut self, index: usize, message: T) -> Result<(), T> {
        if !self.is_stuck() {
            self.send_all();
        }
        if self.is_stuck() {
            return Err(message);
        }
        let sent = self.measured.as_mut().map(|measured| measured.draw.look());
        self.push(index, sent.unwrap_or(UNMEASURED), message)?;
        if let Some(measured) = &mut self.measured {
            measured.draw.count();
        }
        Ok(())
    }

    /// The room of an inbox, by a fresh look; others may take it.
    pub(crate) fn room(&self, index: usize) -> usize {
        match self.is_stuck() {
            true => 0,
            false => self.inboxes[index].room(),
        }
    }

    /// Gives up what is kept, at the end.
    pub(crate) fn abandon(&mut self, mut lost: impl FnMut(T)) {
        // One by one: a panic of `lost` loses that message and no other.
        while self.used != 0 {
            let place = self.used.trailing_zeros() as usize;
            let &Entry { last, len, .. } = self.first(place);
            let mut messages = Messages {
                entries: &mut self.entries,
                first: self.places[place],
                left: len,
            };
            let message = messages.next();
            let Messages { first, left, .. } = messages;
            self.cut(place, first, last, left);
            message.into_iter().for_each(&mut lost);
        }
        while let Some(late) = self.late.pop_front() {
            lost(late.message);
        }
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;
    use crate::queue::mpsc::bounded;

    type Inboxes = Vec<bounded::Consumer<u32>>;

    fn outbox(inboxes: usize, capacity: usize) -> (Outbox<u32>, Inboxes) {
        let (producers, consumers): (Vec<_>, Vec<_>) =
            (0..inboxes).map(|_| bounded::queue(capacity)).unzip();
        let producers = Arc::new(producers.into_boxed_slice());
        (Outbox::new(producers, 7, false, None), consumers)
    }

    fn taken(inbox: &mut bounded::Consumer<u32>) -> Vec<u32> {
        let taken = core::iter::from_fn(|| inbox.take().map(|(_, message)| message)).collect();
        inbox.release();
        taken
    }

    #[test]
    fn targets_that_share_a_place_keep_their_order() {
        let (mut outbox, mut inboxes) = outbox(2 * PLACES, 256);
        let targets = [3, 5, PLACES + 3, 3, 5, PLACES + 3, 3];
        (0..70).for_each(|at| outbox.put(targets[at % targets.len()], at as u32));
        let mut announced = Vec::new();
        outbox.flush(|target| announced.push(target));
        for target in [3, 5, PLACES + 3] {
            let sent = (0..70).filter(|at| targets[at % targets.len()] == target);
            let sent: Vec<u32> = sent.map(|at| at as u32).collect();
            assert!(announced.contains(&target));
            assert_eq!(taken(&mut inboxes[target]), sent);
        }
    }

    #[test]
    fn what_finds_no_room_goes_later_and_in_order() {
        let (mut outbox, mut inboxes) = outbox(2, 4);
        (0..10).for_each(|message| outbox.put(message as usize % 2, message));
        outbox.flush(|_| {});
        assert!(outbox.is_stuck() && outbox.first_stuck() == Some(0));
        outbox.put(1, 11);
        assert_eq!(taken(&mut inboxes[0]), [0, 2, 4, 6]);
        outbox.look();
        // The other inbox is still full.
        assert!(outbox.is_stuck() && outbox.first_stuck() == Some(1));
        assert_eq!(taken(&mut inboxes[1]), [1, 3, 5, 7]);
        outbox.look();
        outbox.flush(|_| {});
        assert!(!outbox.is_stuck());
        assert_eq!(taken(&mut inboxes[0]), [8]);
        assert_eq!(taken(&mut inboxes[1]), [9, 11]);
    }

    #[test]
    fn runs_without_room_keep_their_order() {
        let (mut outbox, mut inboxes) = outbox(2, 16);
        // Longer and shorter than a run that goes straight to its inbox.
        let runs = [
            (0, 40),
            (1, 2 * RUN),
            (0, 3),
            (1, 1),
            (0, 1),
            (1, RUN),
            (0, RUN),
        ];
        let targets = runs.map(|(target, count)| vec![target; count]).concat();
        for (message, &target) in targets.iter().enumerate() {
            outbox.put(target, message as u32);
        }
        let mut all = [Vec::new(), Vec::new()];
        outbox.flush(|_| {});
        while outbox.is_stuck() {
            for (all, inbox) in all.iter_mut().zip(&mut inboxes) {
                // Part of it, so that a run finds room for a part of it.
                all.extend(
                    (0..5)
                        .map_while(|_| inbox.take())
                        .map(|(_, message)| message),
                );
                inbox.release();
            }
            outbox.look();
            outbox.flush(|_| {});
        }
        for (target, (all, inbox)) in all.iter_mut().zip(&mut inboxes).enumerate() {
            all.extend(taken(inbox));
            let sent = (0..targets.len()).filter(|&at| targets[at] == target);
            assert_eq!(*all, sent.map(|at| at as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_kept_is_given_up_once() {
        let (mut outbox, _inboxes) = outbox(3, 4);
        (0..9).for_each(|message| outbox.put(message as usize % 3, message));
        let mut lost = Vec::new();
        outbox.abandon(|message| lost.push(message));
        lost.sort_unstable();
        assert_eq!(lost, (0..9).collect::<Vec<_>>());
    }
}
