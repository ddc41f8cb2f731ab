//! The token of a request: the right to answer it, once, now or later.
//!
//! ```text
//!   server's outlet of answers                        the server's state, or a message
//!   Kept   slots  [ client 3, since ] ◄── ReplyTo ──┐
//!                 [ client 0, since ] ◄── ReplyTo ──┤   answered: out of the slot, by `&mut Cx`
//!   oldest ─► newest, by order of arrival           │   dropped, on any thread:
//!   Dropped  slots of tokens that were dropped ◄────┘   into `Dropped`, and the shard is woken
//! ```
//!
//! 1. A token owns one slot from the moment it is taken. Only the token, or what was
//!    found in `Dropped`, frees it, so a slot needs no generation.
//! 2. The slots are reached by the server alone. `Dropped` has a lock, which only drops and the
//!    look after a wake-up take.
//! 3. A retired server waives all its slots at once; tokens of these are void.

use core::fmt;
use core::marker::PhantomData;

use crate::cx::Cx;
use crate::graph::{Edge, EdgeKind, Graph};
use crate::primitive::sync::{Arc, Mutex};
use crate::sends::answers_to;
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
        // Not under the lock: what a worker sleeps in may be the user's.
        let handle = self.wakes.0.lock().clone();
        if let Some(handle) = handle {
            handle.wake(self.shard);
        }
    }
}

const NONE: u32 = u32::MAX;

struct Slot {
    /// `NONE` if it is free, or void.
    client: u32,
    since: Instant,
    /// The neighbours in the order of arrival; of a free slot, the next free one.
    older: u32,
    newer: u32,
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

    /// Keeps a request of a client.
    pub(crate) fn keep(&mut self, client: usize, since: Instant) -> Ticket {
        let slot = Slot {
            client: u32::try_from(client).expect("an edge has fewer clients"),
            since,
            older: self.newest,
            newer: NONE,
        };
        let at = match self.free {
            NONE => {
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1).expect("credit bounds the requests")
            }
            free => {
                self.free = self.slots[free as usize].newer;
                self.slots[free as usize] = slot;
                free
            }
        };
        match self.newest {
            NONE => self.oldest = at,
            newest => self.slots[newest as usize].newer = at,
        }
        self.newest = at;
        Ticket {
            slot: at,
            dropped: Arc::clone(&self.dropped),
        }
    }

    /// Returns `true` if the ticket is of this instance.
    pub(crate) fn is_own(&self, ticket: &Ticket) -> bool {
        Arc::ptr_eq(&self.dropped, &ticket.dropped)
    }

    /// Frees a slot; returns its client, unless it is void.
    pub(crate) fn take(&mut self, at: u32) -> Option<usize> {
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

/// A slot of [`Kept`], which is freed when this is dropped.
pub(crate) struct Ticket {
    slot: u32,
    dropped: Arc<Dropped>,
}

impl Ticket {
    /// Returns the slot, which the caller frees.
    pub(crate) fn into_slot(mut self) -> u32 {
        core::mem::replace(&mut self.slot, NONE)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.slot != NONE {
            self.dropped.push(self.slot);
        }
    }
}

/// The right to answer one request `M` of `F`, in graph `G`, by the server `P` that received it.
///
/// Taken by [`Cx::reply_to`]. It may be kept in the processor's state and answered by a later
/// handler or ping of the same instance; sent elsewhere, it can only come back or be dropped.
/// Dropped, on any thread, it waives: its client gets the credit back without an answer.
///
/// ```
/// use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, ReplyTo, graph};
///
/// struct Client;
/// /// Lends one thing to one client at a time.
/// #[derive(Default)]
/// struct Lender {
///     is_lent: bool,
///     waiting: Vec<ReplyTo<App, Client, Lender, Borrow>>,
/// }
/// struct Borrow;
/// struct Lent;
/// struct Return;
///
/// graph! {
///     graph App {
///         processors { client: Client, lender: Lender }
///         edges {
///             ingress -> client: u64 [sends = (Borrow)];
///             client -> lender: Borrow;
///             client -> lender: Return;
///             lender -> client: Lent [reply = Borrow, sends = (Return, egress: u64)];
///             client -> egress: u64;
///         }
///     }
/// }
///
/// impl Process<App> for Client {}
/// impl Receive<App, Ingress, u64> for Client {
///     fn receive(&mut self, _: u64, cx: &mut Cx<'_, App, Self>) {
///         cx.to::<Lender>().send(Borrow);
///     }
/// }
/// impl Receive<App, Lender, Lent> for Client {
///     fn receive(&mut self, _: Lent, cx: &mut Cx<'_, App, Self>) {
///         cx.to::<Egress>().send(1_u64);
///         cx.to::<Lender>().send(Return);
///     }
/// }
/// impl Process<App> for Lender {}
/// impl Receive<App, Client, Borrow> for Lender {
///     fn receive(&mut self, _: Borrow, cx: &mut Cx<'_, App, Self>) {
///         let reply = cx.reply_to();
///         match self.is_lent {
///             true => self.waiting.push(reply),
///             false => reply.send(Lent, cx),
///         }
///         self.is_lent = true;
///     }
/// }
/// impl Receive<App, Client, Return> for Lender {
///     fn receive(&mut self, _: Return, cx: &mut Cx<'_, App, Self>) {
///         match self.waiting.pop() {
///             Some(reply) => reply.send(Lent, cx),
///             None => self.is_lent = false,
///         }
///     }
/// }
///
/// let app = App::builder(Client, Lender::default()).start()?;
/// let mut out = app.egress::<Client, u64>(0);
/// (0..3).for_each(|number| app.ingress::<Client, u64>().send(number).unwrap());
/// assert_eq!([out.recv(), out.recv(), out.recv()], [Ok(1); 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a token that is dropped waives the answer"]
pub struct ReplyTo<G, F, P, M> {
    ticket: Ticket,
    types: PhantomData<fn(G, F, P, M)>,
}

impl<G: Graph, F, P, M: Edge<G, F, P>> ReplyTo<G, F, P, M> {
    /// The outlet of the answers.
    pub(crate) const OUT: usize = match answers_to(G::EDGES, M::ID) {
        Some(answers) => crate::check::outgoing_before(G::EDGES, answers),
        None => panic!("no edge is declared as the `reply` to this request"),
    };

    pub(crate) fn new(ticket: Ticket) -> Self {
        Self {
            ticket,
            types: PhantomData,
        }
    }

    /// Answers. Wait-free; the request has reserved the room, so it never waits for any, and no
    /// `sends` has to list it. It allocates nothing.
    ///
    /// # Panics
    ///
    /// When the token is of another instance than that whose handler runs.
    pub fn send<A: Edge<G, P, F>>(self, answer: A, cx: &mut Cx<'_, G, P>) {
        const {
            assert!(
                matches!(A::INFO.kind, EdgeKind::Reply { request } if request == M::ID),
                "this message does not answer the request: its edge is not declared as its `reply`"
            );
        }
        cx.answer::<F, A>(self.ticket, answer);
    }
}

impl<G, F, P, M> fmt::Debug for ReplyTo<G, F, P, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyTo").finish_non_exhaustive()
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
        let middle = tickets.remove(1).into_slot();
        assert_eq!((kept.take(middle), kept.oldest()), (Some(1), Some(at(0))));
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
        assert_eq!(kept.take(last.into_slot()), None);
        drop(tickets);
        assert_eq!(kept.take_dropped(), None);
    }
}
