//! The inbox of one receiver of an edge, which all senders of the edge share.
//!
//! ```text
//!   Inbox   [ ring ─► mpsc::bounded | receiver ]                 all senders
//!           [ taken | first, end, asks │ place 0 | 1 | 2 | 3 ]   the receiver's worker alone
//! ```
//!
//! Most messages come from an instance on the receiver's worker, and find the inbox empty. For them
//! an inbox has a few *places* beside its ring. A place needs no atomic operation. A message that
//! finds the inbox empty always takes the first place, which is in the cache. A ring uses its slots
//! in turn, so its next slot has most often left the cache.
//!
//! Rules:
//! 1. Only the thread whose worker holds the receiver's shard accesses the places: the receiver in
//!    its own calls, and a sender in its own turn, while it has a [`Here`] (the right to access the
//!    places). The access ends before user code runs.
//! 2. The flag `asks` tells the receiver to look into the ring. A message enters a place only while
//!    `asks` is unset. If its sender has ever pushed to a ring of the edge, this inbox's ring must
//!    also be empty. The sender sees that by `taken`, the receiver's index in the ring.
//! 3. The receiver takes messages of the places before those of the ring.
//! 4. After each push to the ring, the sender wakes the receiver. If the receiver is on the same
//!    worker, the sender also sets `asks`. Otherwise the note of the wake-up (the number of the
//!    input) has the bit [`RING`], and the receiver sets `asks` when it gets the note. After a move
//!    of its shard, the receiver sets `asks`, so that its check of all inputs includes the ring.
//!    The receiver accesses the ring only while `asks` is set, and unsets it when it finds the next
//!    slot unwritten.
//!
//! Messages of a pair stay in order, even if its sender or receiver moves to another worker. Take
//! two messages of the pair. If the first is in the ring, its sender has pushed to a ring. So the
//! second cannot enter a place before the first is taken (rule 2). If the first is in a place, it
//! is taken before all messages of the ring (rule 3). The places move with the receiver's shard.
//!
//! No message stays in the ring. If the receiver finds the next slot unwritten, `asks` is set again
//! after a sender has written the slot (rule 4). The places do not starve the ring: while `asks` is
//! set, no message enters a place (rule 2).

#[cfg(any(rast_loom, rast_shuttle))]
pub mod model;

use core::marker::PhantomData;

use crate::primitive::CachePadded;
use crate::primitive::cell::UnsafeCell;
use crate::primitive::panics::drop_each;
use crate::primitive::sync::Arc;
use crate::queue::{Full, mpsc::bounded};
use crate::sharder::{ShardId, WorkerCx};
use crate::waiting::Pace;

/// Messages that an inbox holds beside its ring.
const PLACES: usize = 4;

/// In the note of a wake-up, beside the input: a ring got something. A note without it is for
/// messages in places, or in a ring by pair.
pub(crate) const RING: u32 = 1 << 30;

/// Maximum number of inputs of an instance: their numbers do not reach the bit [`RING`].
pub(crate) const INPUTS_MAX: usize = RING as usize;

/// The places, and how far the receiver has emptied the ring.
#[repr(C)]
struct Local<T> {
    /// The receiver's index in the ring.
    taken: usize,
    /// The places from `first` to `end` have messages. Both are zero if none has.
    first: u8,
    end: u8,
    /// Whether the receiver is to look into the ring.
    asks: bool,
    /// With the tags of their senders.
    places: [Option<(u32, T)>; PLACES],
    /// The receiver's index in the ring when it last counted the senders to wake.
    checked: usize,
}

impl<T> Local<T> {
    #[inline]
    fn is_empty(&self) -> bool {
        self.first == self.end
    }

    #[inline]
    fn take(&mut self) -> Option<(u32, T)> {
        if self.is_empty() {
            return None;
        }
        let message = self.places[self.first as usize].take();
        self.first += 1;
        if self.is_empty() {
            (self.first, self.end) = (0, 0);
        }
        message
    }
}

/// The inbox of one receiver. In this order, so that what a message in the first place accesses is
/// one cache line.
#[repr(C)]
pub(crate) struct Inbox<T> {
    ring: bounded::Producer<T>,
    receiver: ShardId,
    /// Whether the receiver wakes as many waiting senders as it has room for, and not all.
    wakes_by_room: bool,
    local: UnsafeCell<Local<T>>,
}

// SAFETY: by rule 1 one thread at a time accesses the places. The sharder passes a shard on with
// Release and Acquire, so these accesses are ordered. Messages move between threads, so they are
// Send. The other fields are Sync by themselves.
unsafe impl<T: Send> Sync for Inbox<T> {}

/// The inboxes of an edge, by receiver.
pub(crate) type Inboxes<T> = Arc<Box<[CachePadded<Inbox<T>>]>>;

/// Makes the inboxes of receivers whose shards begin at `first`. `wakes_by_room`: a receiver wakes
/// as many waiting senders as it has room for; these pass a wake-up on that they do not use.
pub(crate) fn inboxes<T>(
    first: usize,
    receivers: usize,
    capacity: usize,
    wakes_by_room: bool,
    pace: impl Fn(usize) -> Pace,
) -> (Inboxes<T>, Vec<Receiver<T>>) {
    let (inboxes, rings): (Vec<_>, Vec<_>) = (0..receivers)
        .map(|receiver| {
            let (ring, consumer) = bounded::queue(capacity);
            let inbox = CachePadded::new(Inbox {
                local: UnsafeCell::new(Local {
                    taken: consumer.index(),
                    first: 0,
                    end: 0,
                    asks: false,
                    places: [const { None }; PLACES],
                    checked: consumer.index(),
                }),
                ring,
                wakes_by_room,
                receiver: ShardId::from_index(first + receiver),
            });
            (inbox, consumer)
        })
        .unzip();
    let inboxes: Inboxes<T> = Arc::new(inboxes.into_boxed_slice());
    let receiver = |(index, ring): (usize, bounded::Consumer<T>)| Receiver {
        inboxes: Arc::clone(&inboxes),
        index,
        pace: pace(ring.capacity()),
        ring,
    };
    let receivers = rings.into_iter().enumerate().map(receiver).collect();
    (inboxes, receivers)
}

impl<T> Inbox<T> {
    /// Returns the right to access the places, if the receiver is on this worker.
    #[inline]
    pub(crate) fn here<'a>(&'a self, cx: &'a WorkerCx<'_>) -> Option<Here<'a, T>> {
        cx.is_local(self.receiver).then_some(Here {
            inbox: self,
            worker: PhantomData,
        })
    }

    /// Wakes the receiver on this worker after messages were put into places.
    #[inline]
    pub(crate) fn wake_here(&self, cx: &mut WorkerCx<'_>, note: u32) {
        if !cx.wake_local(self.receiver, note) {
            cx.wake(self.receiver, note);
        }
    }

    /// Wakes the receiver after a push to the ring (rule 4). Returns `true` if it is on this
    /// worker.
    pub(crate) fn wake(&self, cx: &mut WorkerCx<'_>, note: u32) -> bool {
        let here = self.here(cx);
        let is_here = here.is_some();
        if let Some(mut here) = here {
            here.with(|local| local.asks = true);
        }
        cx.wake(self.receiver, if is_here { note } else { note | RING });
        is_here
    }

    /// Pushes a message to the ring, if there is room.
    #[inline]
    pub(crate) fn push(&self, tag: u32, message: T) -> Result<(), T> {
        self.ring.push(tag, message).map_err(Full::into_inner)
    }

    /// Pushes messages to the ring as far as there is room; returns how many.
    #[inline]
    pub(crate) fn push_batch(
        &self,
        tag: u32,
        messages: &mut impl ExactSizeIterator<Item = T>,
    ) -> usize {
        self.ring.push_batch(tag, messages)
    }

    /// Returns the room of the ring; other senders may take it.
    pub(crate) fn room(&self) -> usize {
        self.ring.room()
    }
}

/// The right to access the places of an inbox: while it lives, the turn of a sender on the
/// receiver's worker goes on.
pub(crate) struct Here<'a, T> {
    inbox: &'a Inbox<T>,
    /// It does not leave the worker's thread.
    worker: PhantomData<*const ()>,
}

impl<T> Here<'_, T> {
    #[inline]
    fn with<R>(&mut self, access: impl FnOnce(&mut Local<T>) -> R) -> R {
        self.inbox.local.with_mut(|local| {
            // SAFETY: the worker of this thread held the receiver's shard when `here` made this
            // value. It borrows the context of the turn, so the turn has not ended, and the shard
            // stays. The receiver's own accesses end within its calls, and those of senders end
            // here. This is rule 1.
            access(unsafe { &mut *local })
        })
    }

    /// Returns the number of free places; 0 if the message is to go to the ring, by rule 2.
    /// `has_pushed`: the sender has pushed to a ring of the edge before.
    #[inline]
    pub(crate) fn room(&mut self, has_pushed: bool) -> usize {
        let ring = &self.inbox.ring;
        self.with(|local| {
            // The sender's earlier pushes happen before: it made them in this turn or in an earlier
            // one. So `index` counts them.
            let is_closed = local.asks || (has_pushed && local.taken != ring.index());
            match is_closed {
                true => 0,
                false => PLACES - local.end as usize,
            }
        })
    }

    /// Puts a message into a free place.
    ///
    /// # Panics
    ///
    /// If there is none. The caller has checked [`room`](Self::room).
    #[inline]
    pub(crate) fn put(&mut self, tag: u32, message: T) {
        self.with(|local| {
            local.places[local.end as usize] = Some((tag, message));
            local.end += 1;
        });
    }
}

/// The receiver's end of an inbox.
pub(crate) struct Receiver<T> {
    inboxes: Inboxes<T>,
    index: usize,
    pace: Pace,
    ring: bounded::Consumer<T>,
}

impl<T> Receiver<T> {
    /// Takes the next message, with the tag of its sender. The last part is `true` if slots were
    /// returned and the senders that wait for room are to be woken.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(u32, T, bool)> {
        let (message, asks) = self.with(|local| (local.take(), local.asks));
        match message {
            Some((tag, message)) => Some((tag, message, false)),
            None if asks => self.take_from_ring(),
            None => None,
        }
    }

    #[inline(never)]
    fn take_from_ring(&mut self) -> Option<(u32, T, bool)> {
        let taken = self.ring.take();
        let (index, asks) = (self.ring.index(), taken.is_some());
        self.with(|local| (local.taken, local.asks) = (index, asks));
        let (tag, message) = taken?;
        Some((tag, message, self.pace.take() && self.release()))
    }

    /// Has the next `take` look into the ring. [rule 4]
    pub(crate) fn ask(&self) {
        self.with(|local| local.asks = true);
    }

    #[inline]
    fn with<R>(&self, access: impl FnOnce(&mut Local<T>) -> R) -> R {
        self.inboxes[self.index].local.with_mut(|local| {
            // SAFETY: the receiver is part of an instance, or of the stub of one. The thread that
            // has it, holds its shard, or is the only one left. So rule 1 allows the access, and no
            // other access is open: each ends within its call, and none calls another one.
            access(unsafe { &mut *local })
        })
    }

    /// Returns the slots that are held, at the end of a batch. Returns `true` if the senders that
    /// wait for room are to be woken.
    #[inline]
    pub(crate) fn settle(&mut self) -> bool {
        self.pace.holds() && self.release()
    }

    fn release(&mut self) -> bool {
        self.ring.release();
        self.pace.release()
    }

    /// Returns how many of the senders that wait are to be woken, after `take` or `settle` has
    /// returned that slots were returned. See "How many senders a check wakes" in `waiting.rs`.
    #[cold]
    pub(crate) fn to_wake(&self) -> usize {
        let inbox = &self.inboxes[self.index];
        if !inbox.wakes_by_room {
            return usize::MAX;
        }
        let (room, index) = (inbox.room(), self.ring.index());
        let checked = self.with(|local| core::mem::replace(&mut local.checked, index));
        let returned = index.wrapping_sub(checked);
        let is_followed = self.ring.capacity() - room >= self.pace.due();
        let count = if is_followed {
            room.min(returned)
        } else {
            room
        };
        count.max(1)
    }

    /// Returns `true` if there is no message, except those whose senders will wake the receiver.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.with(|local| {
            local.asks = local.asks && !self.ring.is_empty();
            local.is_empty() && !local.asks
        })
    }
}

impl<T> Drop for Receiver<T> {
    /// Drops the messages that are left. If a destructor panics, the others are dropped all the
    /// same.
    fn drop(&mut self) {
        self.ask();
        drop_each(|| self.take().map(|(_, message, _)| message));
    }
}
