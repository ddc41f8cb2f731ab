//! The requests that a server answers later. A token holds each of them.
//!
//! ```text
//!   server's outlet of answers                        the server's state, or a message
//!   Kept   slots  [ client 3, since ] ◄── Ticket ──┐
//!                 [ client 0, since ] ◄── Ticket ──┤   answered: out of the slot, by `&mut Cx`
//!   oldest ─► newest, by order of arrival          │   dropped, on any thread:
//!   Dropped  slots of tickets that were dropped ◄──┘   into `Dropped`, and the shard is woken
//! ```
//!
//! The token that a handler takes is a [`ReplyTo`](crate::ReplyTo). It consists of a [`Ticket`],
//! which names a slot, and the types of the request.
//!
//! 1. A token owns one slot from the moment it is taken. Only the token, or its entry in `Dropped`,
//!    frees the slot, so a slot needs no generation. When a token is answered, its reference to
//!    `Dropped` stays in the slot for the next token. So neither token changes the reference count.
//! 2. Only the server accesses the slots. The lock of `Dropped` is acquired only when a token is
//!    dropped, and by the check after a wake-up.
//! 3. A server that is retired waives the requests of all its slots (ends them without an answer);
//!    their tokens are then void.

use crate::primitive::sync::{Arc, Mutex};
use crate::sharder::{self, ShardId};
use crate::timers::Instant;

/// Wakes shards of a running graph, from any thread; without a handle before its start and after
/// its end.
#[derive(Default)]
pub(crate) struct Wakes(pub(crate) Mutex<Option<sharder::Handle>>);

/// The slots of tokens that were dropped.
pub(crate) struct Dropped {
    slots: Mutex<Vec<u32>>,
    shard: ShardId,
    wakes: Arc<Wakes>,
}

impl Dropped {
    fn push(&self, slot: u32) {
        self.slots.lock().push(slot);
        // Not under the lock: a worker may sleep in user code.
        let handle = self.wakes.0.lock().clone();
        if let Some(handle) = handle {
            handle.wake(self.shard);
        }
    }
}

const NONE: u32 = u32::MAX;

struct Slot {
    /// `NONE` if it is free or void.
    client: u32,
    since: Instant,
    /// The neighbours in the order of arrival; of a free slot, the next free one.
    older: u32,
    newer: u32,
    /// In a free slot: for the next token.
    spare: Option<Arc<Dropped>>,
}

/// The requests whose tokens were taken, at one instance of their server.
pub(crate) struct Kept {
    slots: Vec<Slot>,
    free: u32,
    oldest: u32,
    newest: u32,
    dropped: Arc<Dropped>,
}

impl Kept {
    pub(crate) fn new(shard: ShardId, wakes: Arc<Wakes>) -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            oldest: NONE,
            newest: NONE,
            dropped: Arc::new(Dropped {
                slots: Mutex::new(Vec::new()),
                shard,
                wakes,
            }),
        }
    }

    /// Stores a request of a client.
    pub(crate) fn keep(&mut self, client: usize, since: Instant) -> Ticket {
        if self.free == NONE {
            self.free = u32::try_from(self.slots.len()).expect("credit bounds the requests");
            self.slots.push(Slot {
                client: NONE,
                since,
                older: NONE,
                newer: NONE,
                spare: None,
            });
        }
        let at = self.free;
        let slot = &mut self.slots[at as usize];
        self.free = slot.newer;
        slot.client = u32::try_from(client).expect("an edge has fewer clients");
        slot.since = since;
        (slot.older, slot.newer) = (self.newest, NONE);
        let dropped = slot.spare.take();
        match self.newest {
            NONE => self.oldest = at,
            newest => self.slots[newest as usize].newer = at,
        }
        self.newest = at;
        Ticket {
            slot: at,
            dropped: Some(dropped.unwrap_or_else(|| Arc::clone(&self.dropped))),
        }
    }

    /// Returns `true` if the ticket is of this instance.
    pub(crate) fn is_own(&self, ticket: &Ticket) -> bool {
        let dropped = ticket.dropped.as_ref();
        dropped.is_some_and(|dropped| Arc::ptr_eq(&self.dropped, dropped))
    }

    /// Frees the slot of a ticket of this instance; returns its client, unless it is void.
    #[inline]
    pub(crate) fn end(&mut self, mut ticket: Ticket) -> Option<usize> {
        let client = self.take(ticket.slot);
        self.slots[ticket.slot as usize].spare = ticket.dropped.take();
        client
    }

    /// Frees a slot; returns its client, unless it is void.
    fn take(&mut self, at: u32) -> Option<usize> {
        let Slot {
            client,
            older,
            newer,
            ..
        } = self.slots[at as usize];
        if client != NONE {
            match older {
                NONE => self.oldest = newer,
                older => self.slots[older as usize].newer = newer,
            }
            match newer {
                NONE => self.newest = older,
                newer => self.slots[newer as usize].older = older,
            }
        }
        let slot = &mut self.slots[at as usize];
        slot.client = NONE;
        slot.newer = self.free;
        self.free = at;
        (client != NONE).then_some(client as usize)
    }

    /// Frees the slot of a token that was dropped; returns its client.
    pub(crate) fn take_dropped(&mut self) -> Option<usize> {
        loop {
            let at = self.dropped.slots.lock().pop()?;
            if let Some(client) = self.take(at) {
                return Some(client);
            }
        }
    }

    /// Makes the oldest token void; returns its client.
    pub(crate) fn void_oldest(&mut self) -> Option<usize> {
        if self.oldest == NONE {
            return None;
        }
        let slot = &mut self.slots[self.oldest as usize];
        let client = core::mem::replace(&mut slot.client, NONE);
        self.oldest = slot.newer;
        match self.oldest {
            NONE => self.newest = NONE,
            oldest => self.slots[oldest as usize].older = NONE,
        }
        Some(client as usize)
    }

    /// Returns when the oldest request arrived.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.slots.get(self.oldest as usize).map(|slot| slot.since)
    }
}

/// A slot of [`Kept`]; dropping it frees the slot.
pub(crate) struct Ticket {
    slot: u32,
    /// `None` once the slot is free.
    dropped: Option<Arc<Dropped>>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(dropped) = self.dropped.take() {
            dropped.push(self.slot);
        }
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;
    use crate::timers::Nanos;

    #[test]
    fn the_oldest_is_known_whatever_order_tokens_end_in() {
        let at = |nanos| Instant::ORIGIN.saturating_add(Nanos::from_nanos(nanos));
        let mut kept = Kept::new(ShardId::from_index(0), Arc::default());
        let mut tickets: Vec<_> = (0..4).map(|n| kept.keep(n as usize, at(n))).collect();
        assert_eq!(kept.oldest(), Some(at(0)));
        let middle = tickets.remove(1);
        assert_eq!((kept.end(middle), kept.oldest()), (Some(1), Some(at(0))));
        drop(tickets.remove(0));
        assert_eq!((kept.take_dropped(), kept.oldest()), (Some(0), Some(at(2))));
        assert_eq!(kept.take_dropped(), None);
        // Free slots are used again.
        let last = kept.keep(9, at(9));
        assert_eq!(kept.slots.len(), 4);
        assert_eq!(kept.void_oldest(), Some(2));
        assert_eq!((kept.void_oldest(), kept.void_oldest()), (Some(3), Some(9)));
        assert_eq!((kept.void_oldest(), kept.oldest()), (None, None));
        // Void tokens end without a client.
        assert_eq!(kept.end(last), None);
        drop(tickets);
        assert_eq!(kept.take_dropped(), None);
    }
}
