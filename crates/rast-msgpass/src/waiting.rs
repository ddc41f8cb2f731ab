//! Which senders of an edge wait for room, and at which receiver.
//!
//! ```text
//!   first[receiver 0] ──► sender 7 ──► sender 2 ──► END
//!   first[receiver 1] ──► END
//!   next[sender]       the sender behind it in its list, or ABSENT
//! ```
//!
//! A sender waits at one receiver at a time, so the lists take one word per
//! sender and one per receiver. A list changes at its head alone: senders push
//! by compare-exchange, and a list is taken whole, by a swap. The receiver that
//! takes it wakes each sender in it. A sender that is to wait at another receiver
//! takes the list that it is in, and wakes the others of it, which enter again.
//!
//! The look of S3 may find room at that receiver and none at another. Then the
//! sender enters again before it goes idle: only a wait at a receiver without
//! room ends by a wake-up.
//!
//! No wake-up is lost:
//!
//! ```text
//!   sender                            receiver
//!   S1 enter the list                 R1 return slots
//!   S2 fence [WL1]                    R2 fence [WL2]
//!   S3 look at the room: too little,  R3 look at the list: take it, wake each
//!      go idle
//! ```
//!
//! If S2 comes before R2, R3 finds the sender. If R2 comes before S2, S3 finds
//! the slots of R1. The receiver makes R2 and R3 only at some of its returns:
//! see [`Pace`].

use crate::primitive::CachePadded;
use crate::primitive::sync::atomic::{AtomicU32, Ordering, fence};

const END: u32 = u32::MAX;
const ABSENT: u32 = u32::MAX - 1;

/// The senders of one edge that wait for room, per receiver.
#[derive(Debug)]
pub struct Waiting {
    /// Per receiver: the sender that entered last.
    first: Box<[CachePadded<AtomicU32>]>,
    /// Per sender: the sender behind it.
    next: Box<[AtomicU32]>,
}

impl Waiting {
    /// Makes empty lists.
    #[must_use]
    pub fn new(senders: usize, receivers: usize) -> Self {
        let end = || CachePadded::new(AtomicU32::new(END));
        Self {
            first: (0..receivers).map(|_| end()).collect(),
            next: (0..senders).map(|_| AtomicU32::new(ABSENT)).collect(),
        }
    }

    /// Has `sender` wait at `receiver`, unless it waits at one already; the
    /// caller looks at its room again afterwards. Called by the sender alone.
    pub fn enter(&self, sender: usize, receiver: usize) {
        if !self.is_waiting(sender) {
            self.push(sender, receiver);
        }
        // SeqCst: pairs with the fence in look; either that receiver finds the sender, or the
        // sender's look after this finds the slots. [WL1]
        fence(Ordering::SeqCst);
    }

    fn push(&self, sender: usize, receiver: usize) {
        let own = u32::try_from(sender).expect("an edge has fewer senders");
        let first = &self.first[receiver];
        // Relaxed: the exchange below checks it. [WL3]
        let mut head = first.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange below. [WL4]
            self.next[sender].store(head, Ordering::Relaxed);
            // Release: pairs with the Acquire in take; the word above is seen. [WL5]
            match first.compare_exchange_weak(head, own, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Returns `true` if `sender` is in a list. Called by the sender alone.
    #[must_use]
    pub fn is_waiting(&self, sender: usize) -> bool {
        // Relaxed: it is this sender that left the word, or a receiver that took it off its list
        // for good. [WL6]
        self.next[sender].load(Ordering::Relaxed) != ABSENT
    }

    /// The receiver has returned slots: calls `wake` with each sender that
    /// waits there. `fenced` unless all senders that may wait there are on the
    /// receiver's worker; [`Pace`] says when a look is due.
    #[inline]
    pub fn look(&self, receiver: usize, fenced: bool, wake: impl FnMut(usize)) {
        if fenced {
            // SeqCst: pairs with the fence in enter; either the load below finds the sender, or its
            // look finds the slots that were returned. [WL2]
            fence(Ordering::SeqCst);
        }
        // Relaxed: ordered by the fence above; a sender that is found is taken by a swap. [WL7]
        if self.first[receiver].load(Ordering::Relaxed) != END {
            self.take(receiver, wake);
        }
    }

    #[cold]
    fn take(&self, receiver: usize, mut wake: impl FnMut(usize)) {
        // Acquire: pairs with the Release in push; the words of those in the list are seen. [WL8]
        let mut at = self.first[receiver].swap(END, Ordering::Acquire);
        while at != END {
            let sender = at as usize;
            // Relaxed: seen by the swap above; a sender in a list leaves its word alone. [WL9]
            at = self.next[sender].load(Ordering::Relaxed);
            // Relaxed: the sender may enter again; that its word is free is all it says. [WL10]
            self.next[sender].store(ABSENT, Ordering::Relaxed);
            wake(sender);
        }
    }
}

/// When a receiver returns slots, and when it looks for senders that wait.
///
/// Slots return in quarters of the capacity, and when a chunk ends. A look for
/// senders, which costs a fence, is made once `due` messages were taken since the
/// last one, where `due` is at most what a sender that waits
/// has in the queue: more than the capacity less its burst.
///
/// Let F be such a look, after the head f was published, that did not find a
/// sender W. Then W's last look came after F and saw a head h of f or more, and
/// more than `capacity - burst` messages behind it. So the receiver takes at
/// least `due` messages more after f, and looks again. That look finds W, or W
/// saw its head, and the same holds again; the number of messages is finite.
///
/// With a sender on the same worker no fence is needed: it acts before or after.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    quarter: u32,
    due: u32,
    /// Taken and not returned.
    held: u32,
    /// Returned since the last look.
    since: u32,
}

impl Pace {
    /// Makes the pace of a queue with so many slots, whose senders wait when
    /// there is less room than `burst`.
    #[must_use]
    pub fn new(capacity: usize, burst: usize) -> Self {
        let clamp = |count: usize| u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        let quarter = capacity / 4;
        Self {
            quarter: clamp(quarter),
            due: clamp(quarter.min((capacity + 1).saturating_sub(burst))),
            held: 0,
            since: 0,
        }
    }

    /// A message was taken; returns whether its slot and those before it are to
    /// be returned now.
    #[inline]
    #[must_use]
    pub fn take(&mut self) -> bool {
        self.count(1);
        self.is_due()
    }

    /// Counts messages that were taken.
    #[inline]
    pub fn count(&mut self, messages: u32) {
        self.held += messages;
    }

    /// Returns whether the slots of the messages that were counted are to be returned now.
    #[inline]
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.held >= self.quarter
    }

    /// Returns after how many more messages that is; at least one.
    #[inline]
    #[must_use]
    pub fn left(&self) -> u32 {
        self.quarter.saturating_sub(self.held).max(1)
    }

    /// Returns whether there are slots to return.
    #[inline]
    #[must_use]
    pub fn holds(&self) -> bool {
        self.held > 0
    }

    /// Returns the number of slots to return.
    #[inline]
    #[must_use]
    pub fn give(&mut self) -> usize {
        core::mem::take(&mut self.held) as usize
    }

    /// The slots were returned; returns whether a look is due.
    #[inline]
    #[must_use]
    pub fn release(&mut self) -> bool {
        self.since = self.since.saturating_add(self.held);
        self.held = 0;
        if self.since < self.due {
            return false;
        }
        self.since = 0;
        true
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_list_gives_each_sender_once_and_to_one_receiver() {
        let waiting = Waiting::new(3, 2);
        let found = |receiver| {
            let mut found = Vec::new();
            waiting.look(receiver, true, |sender| found.push(sender));
            found
        };
        assert!(found(0).is_empty());
        waiting.enter(2, 0);
        waiting.enter(0, 0);
        waiting.enter(1, 1);
        // It waits there already.
        waiting.enter(0, 1);
        assert!(waiting.is_waiting(0));
        assert_eq!(found(0), [0, 2]);
        assert!(!waiting.is_waiting(0));
        assert_eq!(found(1), [1]);
        waiting.enter(0, 1);
        assert_eq!((found(0), found(1)), (vec![], vec![0]));
    }

    #[test]
    fn a_pace_looks_before_a_full_queue_is_taken() {
        for capacity in [1_usize, 2, 4, 64, 1024] {
            for burst in [1, capacity.div_ceil(2), capacity] {
                let mut pace = Pace::new(capacity, burst);
                // A sender waits with this many behind the head.
                let (mut looks, least) = (0, capacity - burst + 1);
                for _ in 0..least {
                    if pace.take() {
                        looks += u32::from(pace.release());
                    }
                }
                if pace.holds() {
                    looks += u32::from(pace.release());
                }
                assert!(looks > 0, "capacity {capacity}, burst {burst}");
            }
        }
    }
}
