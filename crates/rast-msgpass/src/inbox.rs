//! The inbox of one receiver of an edge, which all senders of the edge share.
//!
//! ```text
//!   Inbox   [ local: taken │ first, end │ place 0 | 1 | 2 | 3 ]    the receiver's worker alone
//!           [ ring ─► mpsc::bounded ]                              all senders
//! ```
//!
//! Most messages come from an instance on the receiver's worker, and find the inbox empty. For them
//! an inbox has a few *places* beside its ring. A place needs no atomic operation, and a message in
//! an empty inbox always takes the same place, which is in the cache. A ring uses each of its slots
//! in turn, so the next slot has most often left the cache.
//!
//! Rules:
//! 1. Only the thread whose worker holds the receiver's shard accesses the places: the receiver in
//!    its own calls, and a sender in its own turn, while it has a [`Here`]. The access ends before
//!    user code runs.
//! 2. A message enters a place only while the ring is empty, as `taken` shows.
//! 3. The receiver takes messages of the places before those of the ring.
//!
//! Messages of a pair stay in order, even if its sender or receiver moves to another worker. If the
//! first of two messages is in the ring, the second cannot enter a place before the first is taken
//! (rule 2). If the first is in a place, it is taken before any in the ring (rule 3), and the
//! places move with the receiver's shard. By rule 2 the places do not starve the ring.

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

/// The places, and how far the receiver has emptied the ring.
struct Local<T> {
    /// The receiver's index in the ring.
    taken: usize,
    /// The places from `first` to `end` have messages. Both are zero if none has.
    first: u8,
    end: u8,
    /// With the tags of their senders.
    places: [Option<(u32, T)>; PLACES],
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

/// The inbox of one receiver.
pub(crate) struct Inbox<T> {
    local: UnsafeCell<Local<T>>,
    ring: bounded::Producer<T>,
    receiver: ShardId,
}

// SAFETY: by rule 1 one thread at a time accesses the places. The sharder passes a shard on with
// Release and Acquire, so these accesses are ordered. Messages move between threads, so they are
// Send. The other fields are Sync by themselves.
unsafe impl<T: Send> Sync for Inbox<T> {}

/// The inboxes of an edge, by receiver.
pub(crate) type Inboxes<T> = Arc<Box<[CachePadded<Inbox<T>>]>>;

/// Makes the inboxes of receivers whose shards begin at `first`.
pub(crate) fn inboxes<T>(
    first: usize,
    receivers: usize,
    capacity: usize,
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
                    places: [const { None }; PLACES],
                }),
                ring,
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
    /// Wakes the receiver, if it is on this worker, for the messages that the caller then passes
    /// on. Returns `None`, and does nothing, if it is not, or if the worker's vector of wake-ups is
    /// full.
    #[inline]
    pub(crate) fn here<'a>(&'a self, cx: &'a mut WorkerCx<'_>, note: u32) -> Option<Here<'a, T>> {
        cx.wake_local(self.receiver, note).then_some(Here {
            inbox: self,
            worker: PhantomData,
        })
    }

    /// Wakes the receiver. Returns `true` if it is on this worker.
    pub(crate) fn wake(&self, cx: &mut WorkerCx<'_>, note: u32) -> bool {
        cx.wake(self.receiver, note)
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

    /// Returns the number of free places; 0 while the ring has messages.
    #[inline]
    pub(crate) fn room(&mut self) -> usize {
        // The sender's earlier pushes happen before: it made them in this turn or in an earlier
        // one. So `index` counts them. [rule 2]
        let pushed = self.inbox.ring.index();
        self.with(|local| match local.taken == pushed {
            true => PLACES - local.end as usize,
            false => 0,
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
        let inbox = &self.inboxes[self.index];
        let message = inbox.local.with_mut(|local| {
            // SAFETY: the receiver is part of an instance, or of the stub of one. The thread that
            // has it, holds its shard, or is the only one left. So rule 1 allows the access, and
            // no access of a sender is open: each ends within its call.
            unsafe { &mut *local }.take()
        });
        match message {
            Some((tag, message)) => Some((tag, message, false)),
            // Another message of a ring that is empty wakes the receiver again.
            None if inbox.ring.index() == self.ring.index() => None,
            None => self.take_from_ring(),
        }
    }

    #[inline(never)]
    fn take_from_ring(&mut self) -> Option<(u32, T, bool)> {
        let taken = self.ring.take();
        let index = self.ring.index();
        self.inboxes[self.index].local.with_mut(|local| {
            // SAFETY: as in `take`.
            unsafe { (*local).taken = index };
        });
        let (tag, message) = taken?;
        Some((tag, message, self.pace.take() && self.release()))
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

    /// Returns `true` if there is no message.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let inbox = &self.inboxes[self.index];
        let has_none = inbox.local.with(|local| {
            // SAFETY: as in `take`; this access only reads.
            unsafe { &*local }.is_empty()
        });
        has_none && (inbox.ring.index() == self.ring.index() || self.ring.is_empty())
    }
}

impl<T> Drop for Receiver<T> {
    /// Drops the messages that are left. If a destructor panics, the others are dropped all the
    /// same.
    fn drop(&mut self) {
        drop_each(|| self.take().map(|(_, message, _)| message));
    }
}
