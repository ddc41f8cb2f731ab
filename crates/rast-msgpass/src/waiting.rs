//! Wait lists: which senders of an edge wait for room, and at which receiver.
//!
//! ```text
//!   list of receiver 0    first ──► sender 2 ◄──► sender 7 ◄── last
//!   list of receiver 1    empty
//!   links[sender]         its neighbours in its list; `next` is ABSENT if it is in none
//! ```
//!
//! A sender waits at one receiver at a time, so the lists take two words per sender. A sender that
//! enters a list is the last in it. A receiver removes the first ones and wakes them. To wait at
//! another receiver, a sender leaves its list.
//!
//! Each list has a lock, which a thread holds for some instructions. A receiver takes it only if a
//! sender waits, and a sender only if it lacks room.
//!
//! No wake-up is lost:
//!
//! ```text
//!   sender                            receiver
//!   S1 enter the list                 R1 return slots
//!   S2 fence [WL1]                    R2 fence [WL2]
//!   S3 check the room: too little,    R3 check the list: remove and wake its senders
//!      go idle
//! ```
//!
//! If S2 comes before R2, R3 finds the sender. If R2 comes before S2, S3 finds the slots of R1. A
//! fence is expensive, so the receiver does not execute R2 and R3 each time it returns slots: see
//! [`Pace`].
//!
//! Only the receiver of a list wakes the senders in it, and only if that receiver lacked room
//! before. Suppose that S3 finds room at this receiver, but none at another one. Then it is
//! possible that no wake-up follows. Therefore the sender enters the list of the other receiver
//! before it goes idle.
//!
//! # How many senders a check wakes
//!
//! On an unbounded edge with inboxes a check wakes as many senders as there is room for, at least
//! one. The other senders continue to wait. Each of the woken senders, in its next turn, does one
//! of these:
//!
//! 1. It pushes a message to the inbox.
//! 2. It finds no room there, after it has seen that it was removed from the list.
//! 3. It removes and wakes the first sender of the list, which does one of these in its place.
//!
//! Let F be a check that leaves a sender W in the list. Let `head` be the position in the ring that
//! the receiver published last before F. The receiver has taken all messages before this position.
//! Suppose that no check follows F. Then W is still woken, for the following reasons.
//!
//! Fewer than `due` messages (see [`Pace`]) come into the ring after `head`. Otherwise the receiver
//! would take them, and another check would follow. So the ring has room from then on, and F has
//! woken as many senders as the ring has free slots.
//!
//! Take the senders that F woke, and those that were woken in their place by 3. Each of them sees
//! `head` or a later position [WL3] [WL4], so it finds room and does not do 2. Their pushes come
//! after F. If all did 1, the pushes would fill the ring, but the ring has room. So one of them
//! does 3, and wakes the first sender of the list. The same argument applies to the woken sender,
//! and so on, until W is woken. The list is not empty before that, because W is in it.
//!
//! The argument covers every waiting sender. A sender that enters the list after F sees `head` in
//! S3, finds room, and does not go idle.
//!
//! A list is first in, first out, so W is woken after at most as many checks as there were senders
//! before it. If the worker of a woken sender is busy, W need not wait for that sender as long as
//! another sender pushes. Further checks then follow, and each of them counts the free slots again.
//!
//! On other edges a check wakes all senders of the list. A sender of a bounded edge needs room for
//! a burst, and its inbox has room for a burst of each sender, so few senders wait. If the handlers
//! of senders may block, a check wakes all senders too: a woken sender that blocks would delay its
//! step 3.

use crate::primitive::CachePadded;
use crate::primitive::sync::Mutex;
use crate::primitive::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

const END: u32 = u32::MAX;
const ABSENT: u32 = u32::MAX - 1;

/// The senders of one edge that wait for room, by receiver.
#[derive(Debug)]
#[repr(align(128))]
pub struct Waiting {
    /// By receiver.
    lists: Box<[CachePadded<List>]>,
    /// By sender. Written under the lock of the list in which the sender is.
    links: Box<[Link]>,
}

/// The senders that wait at one receiver.
#[derive(Debug)]
struct List {
    /// Whether there are any. Written under the lock.
    is_used: AtomicBool,
    ends: Mutex<Ends>,
}

/// The ends of a list, and its length.
#[derive(Debug)]
struct Ends {
    first: u32,
    last: u32,
    len: usize,
}

/// The neighbours of a sender in its list.
#[derive(Debug)]
struct Link {
    before: AtomicU32,
    next: AtomicU32,
}

impl Waiting {
    /// Makes empty lists.
    #[must_use]
    pub fn new(senders: usize, receivers: usize) -> Self {
        let list = || {
            CachePadded::new(List {
                is_used: AtomicBool::new(false),
                ends: Mutex::new(Ends {
                    first: END,
                    last: END,
                    len: 0,
                }),
            })
        };
        let link = || Link {
            before: AtomicU32::new(END),
            next: AtomicU32::new(ABSENT),
        };
        Self {
            lists: (0..receivers).map(|_| list()).collect(),
            links: (0..senders).map(|_| link()).collect(),
        }
    }

    /// Enters `sender` into the list of `receiver`, unless it is in a list already. The caller must
    /// then check its room again. Only the sender calls it.
    pub fn enter(&self, sender: usize, receiver: usize) {
        if !self.is_waiting(sender) {
            self.push(sender, receiver);
        }
        // SeqCst: pairs with the fence in has_any; either that receiver finds the sender, or the
        // sender's next check finds the slots. [WL1]
        fence(Ordering::SeqCst);
    }

    fn push(&self, sender: usize, receiver: usize) {
        let own = u32::try_from(sender).expect("an edge has fewer senders");
        let (list, link) = (&self.lists[receiver], &self.links[sender]);
        let mut ends = list.ends.lock();
        // Relaxed, here and in `unlink`: the lock orders what is accessed under it.
        link.before.store(ends.last, Ordering::Relaxed);
        link.next.store(END, Ordering::Relaxed);
        match ends.last {
            END => ends.first = own,
            last => self.links[last as usize].next.store(own, Ordering::Relaxed),
        }
        ends.last = own;
        ends.len += 1;
        // Relaxed: the fences order it.
        list.is_used.store(true, Ordering::Relaxed);
    }

    /// Removes a sender from the list whose lock is held.
    fn unlink(&self, list: &List, ends: &mut Ends, sender: usize) {
        let link = &self.links[sender];
        let before = link.before.load(Ordering::Relaxed);
        let next = link.next.load(Ordering::Relaxed);
        match before {
            END => ends.first = next,
            before => self.links[before as usize]
                .next
                .store(next, Ordering::Relaxed),
        }
        match next {
            END => ends.last = before,
            next => self.links[next as usize]
                .before
                .store(before, Ordering::Relaxed),
        }
        ends.len -= 1;
        if ends.len == 0 {
            list.is_used.store(false, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in is_waiting; a sender that sees it sees the slots that
        // the receiver has returned. [WL3]
        link.next.store(ABSENT, Ordering::Release);
    }

    /// Returns `true` if `sender` is in a list. Otherwise it sees the slots for which it was woken.
    /// Only the sender calls it.
    #[must_use]
    pub fn is_waiting(&self, sender: usize) -> bool {
        // Acquire: pairs with the Release in unlink; the slots for which the sender was removed are
        // visible. [WL4]
        self.links[sender].next.load(Ordering::Acquire) != ABSENT
    }

    /// Removes `sender` from the list of `receiver`, the last one that it entered. Returns `false`
    /// if it is not in it: it was removed, and is woken. Only the sender calls it.
    pub fn leave(&self, sender: usize, receiver: usize) -> bool {
        if !self.is_waiting(sender) {
            return false;
        }
        let list = &self.lists[receiver];
        let mut ends = list.ends.lock();
        // Another thread may have removed it meanwhile.
        let is_here = self.is_waiting(sender);
        if is_here {
            self.unlink(list, &mut ends, sender);
        }
        is_here
    }

    /// Removes all senders that wait for the slots that the receiver has returned, and calls `wake`
    /// with each. `fenced`: as in [`has_any`](Self::has_any). [`Pace`] determines when a call is
    /// due.
    #[inline]
    pub fn look(&self, receiver: usize, fenced: bool, wake: impl FnMut(usize)) {
        if self.has_any(receiver, fenced) {
            self.wake(receiver, usize::MAX, wake);
        }
    }

    /// Returns `true` if a sender waits for the slots that the receiver has returned. `fenced` must
    /// be `true` unless all senders that may wait are on the receiver's worker.
    #[inline]
    #[must_use]
    pub fn has_any(&self, receiver: usize, fenced: bool) -> bool {
        if fenced {
            // SeqCst: pairs with the fence in enter; either the load below finds the sender, or its
            // check finds the returned slots. [WL2]
            fence(Ordering::SeqCst);
        }
        // Relaxed: ordered by the fence above; the lock decides. [WL5]
        self.lists[receiver].is_used.load(Ordering::Relaxed)
    }

    /// Removes the first senders of the list of `receiver`, at most `most`, and calls `wake` with
    /// each. Any thread may call it.
    #[cold]
    pub fn wake(&self, receiver: usize, most: usize, mut wake: impl FnMut(usize)) {
        let list = &self.lists[receiver];
        // A sender that enters meanwhile waits for the next call.
        let mut left = most.min(list.ends.lock().len);
        while left > 0 {
            let mut ends = list.ends.lock();
            let sender = ends.first as usize;
            if ends.len == 0 {
                return;
            }
            self.unlink(list, &mut ends, sender);
            drop(ends);
            wake(sender);
            left -= 1;
        }
    }
}

/// When a receiver returns slots, and when it checks for waiting senders.
///
/// Slots are returned after each quarter of the capacity, and when a chunk ends. A check costs a
/// fence. So the receiver checks only when it has taken `due` messages since the last check. When a
/// sender begins to wait, its queue has at least `capacity + 1 - burst` messages. `due` is at most
/// this number, so a check comes at the latest when the receiver has taken all these messages.
///
/// No sender waits for ever. Let F be a check that does not find a waiting sender W, and f the head
/// that the receiver had published before F. By the fences WL1 and WL2, W's last check of the room
/// came after F. It saw a head h of at least f, and more than `capacity - burst` messages behind h.
/// So the receiver takes at least `due` more messages after f, and makes another check. Either this
/// check finds W, or the argument applies to it as it did to F. The number of messages is finite,
/// so some check finds W.
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

    /// Returns how many messages are taken at most between two checks.
    #[must_use]
    pub fn due(&self) -> usize {
        self.due as usize
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
        assert_eq!(found(0), [2, 0]);
        assert!(!waiting.is_waiting(0));
        assert_eq!(found(1), [1]);
        waiting.enter(0, 1);
        assert_eq!((found(0), found(1)), (vec![], vec![0]));
    }

    #[test]
    fn the_first_in_a_list_are_woken_first_and_any_may_leave() {
        let waiting = Waiting::new(5, 1);
        let woken = |most| {
            let mut woken = Vec::new();
            waiting.wake(0, most, |sender| woken.push(sender));
            woken
        };
        [3, 1, 4, 0, 2]
            .into_iter()
            .for_each(|sender| waiting.enter(sender, 0));
        assert_eq!(woken(1), [3]);
        assert!(waiting.leave(0, 0) && waiting.leave(1, 0) && waiting.leave(2, 0));
        assert!(!waiting.leave(3, 0) && !waiting.leave(0, 0));
        waiting.enter(1, 0);
        assert!(waiting.has_any(0, true));
        assert_eq!(woken(usize::MAX), [4, 1]);
        assert!(!waiting.has_any(0, true) && woken(1).is_empty());
        waiting.enter(4, 0);
        assert!(waiting.leave(4, 0) && !waiting.has_any(0, true));
        // One that enters while others are woken is not woken by the same call.
        waiting.enter(0, 0);
        let mut count = 0;
        waiting.look(0, true, |sender| {
            count += 1;
            waiting.enter(sender, 0);
        });
        assert!(count == 1 && waiting.is_waiting(0));
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
