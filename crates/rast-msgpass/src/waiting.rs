//! Wait lists: which senders of an edge wait for room, and at which receiver.
//!
//! ```text
//!   first[receiver 0] ──► sender 7 ──► sender 2 ──► END
//!   first[receiver 1] ──► END
//!   next[sender]       the sender behind it in its list, or ABSENT
//! ```
//!
//! A sender waits at one receiver at a time, so the lists take one word per sender and one per
//! receiver. A list changes only at its head: senders push by compare-exchange, and a swap takes
//! the whole list. The receiver that takes a list wakes each sender in it. To wait at another
//! receiver, a sender takes the list that it is in, and wakes the other senders of that list, which
//! enter again.
//!
//! No wake-up is lost:
//!
//! ```text
//!   sender                            receiver
//!   S1 enter the list                 R1 return slots
//!   S2 fence [WL1]                    R2 fence [WL2]
//!   S3 check the room: too little,    R3 check the list: take it, wake each
//!      go idle
//! ```
//!
//! If S2 comes before R2, R3 finds the sender. If R2 comes before S2, S3 finds the slots of R1. A
//! fence is expensive, so the receiver executes R2 and R3 only at some of its returns: see
//! [`Pace`].
//!
//! Only a receiver that had no room wakes the senders in its list. So if S3 finds room at that
//! receiver, but none at another one, the sender enters the other one's list before it goes idle.

use crate::primitive::CachePadded;
use crate::primitive::sync::atomic::{AtomicU32, Ordering, fence};

const END: u32 = u32::MAX;
const ABSENT: u32 = u32::MAX - 1;

/// The senders of one edge that wait for room, by receiver.
#[derive(Debug)]
#[repr(align(128))]
pub struct Waiting {
    /// By receiver: the sender that entered last.
    first: Box<[CachePadded<AtomicU32>]>,
    /// By sender: the sender behind it.
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

    /// Enters `sender` into the list of `receiver`, unless it is in a list already. The caller must
    /// then check its room again. Only the sender calls it.
    pub fn enter(&self, sender: usize, receiver: usize) {
        if !self.is_waiting(sender) {
            self.push(sender, receiver);
        }
        // SeqCst: pairs with the fence in look; either that receiver finds the sender, or the
        // sender's next check finds the slots. [WL1]
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
            // Release: pairs with the Acquire in take; publishes the word above. [WL5]
            match first.compare_exchange_weak(head, own, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Returns `true` if `sender` is in a list. Only the sender calls it.
    #[must_use]
    pub fn is_waiting(&self, sender: usize) -> bool {
        // Relaxed: this sender wrote the word, or a receiver that removed it from its list. [WL6]
        self.next[sender].load(Ordering::Relaxed) != ABSENT
    }

    /// Calls `wake` with each sender that waits for the slots that the receiver has returned.
    /// `fenced` must be `true` unless all senders that may wait are on the receiver's worker.
    /// [`Pace`] determines when a call is due.
    #[inline]
    pub fn look(&self, receiver: usize, fenced: bool, wake: impl FnMut(usize)) {
        if fenced {
            // SeqCst: pairs with the fence in enter; either the load below finds the sender, or its
            // check finds the returned slots. [WL2]
            fence(Ordering::SeqCst);
        }
        // Relaxed: ordered by the fence above; the swap in `take` decides. [WL7]
        if self.first[receiver].load(Ordering::Relaxed) != END {
            self.take(receiver, wake);
        }
    }

    #[cold]
    fn take(&self, receiver: usize, mut wake: impl FnMut(usize)) {
        // Acquire: pairs with the Release in push; the words of the senders in the list are
        // visible. [WL8]
        let mut at = self.first[receiver].swap(END, Ordering::Acquire);
        while at != END {
            let sender = at as usize;
            // Relaxed: visible by the swap above; a sender in a list does not write its word. [WL9]
            at = self.next[sender].load(Ordering::Relaxed);
            // Relaxed: it only means that the sender may enter again. [WL10]
            self.next[sender].store(ABSENT, Ordering::Relaxed);
            wake(sender);
        }
    }
}

/// When a receiver returns slots, and when it checks for waiting senders.
///
/// Slots are returned after each quarter of the capacity, and when a chunk ends. A check costs a
/// fence. It is made once `due` messages were taken since the last check. A sender that waits has
/// more messages in the queue than the capacity less its burst, and `due` is at most this number.
///
/// No sender waits for ever. Let F be a check that does not find a waiting sender W, made after the
/// head f was published. Then W's last check came after F, and saw a head h of at least f, with
/// more than `capacity - burst` messages behind it. So the receiver takes at least `due` messages
/// more after f, and checks again. That check finds W, or W saw that check's head, and the same
/// argument applies again; the number of messages is finite.
///
/// A sender on the same worker needs no fence, because it runs before or after the check.
#[derive(Clone, Copy, Debug)]
// The two fields that change are not at multiples of four bytes. There x86 code loads 32 bits for a
// 16-bit field, and such a load waits about 13 cycles for the last store of 16 bits.
#[repr(C, align(8))]
pub struct Pace {
    /// A quarter of the capacity, or `u16::MAX` if that is less.
    quarter: u16,
    /// Number of messages taken whose slots were not returned: at most `quarter`.
    held: u16,
    due: u16,
    /// Number of slots returned since the last check.
    since: u16,
}

impl Pace {
    /// Makes the pace of a queue with `capacity` slots, whose senders wait if there is less room
    /// than `burst`.
    #[must_use]
    pub fn new(capacity: usize, burst: usize) -> Self {
        let clamp = |count: usize| u16::try_from(count.max(1)).unwrap_or(u16::MAX);
        let quarter = capacity / 4;
        Self {
            quarter: clamp(quarter),
            due: clamp(quarter.min((capacity + 1).saturating_sub(burst))),
            held: 0,
            since: 0,
        }
    }

    /// Counts a taken message; returns `true` if its slot and those before it are to be returned
    /// now.
    #[inline]
    #[must_use]
    pub fn take(&mut self) -> bool {
        self.held += 1;
        self.held >= self.quarter
    }

    /// Returns `true` if there are slots to return.
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

    /// Records that the slots were returned; returns `true` if a check is due.
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
