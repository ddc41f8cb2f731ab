//! Requests at their server: the one being handled, and those that are held by tokens.
//!
//! The handler of a request either answers it, or takes its token, which is the right to answer it
//! once, later. If the handler ends, by return or by panic, without either, the request is waived.
//!
//! ```text
//!   server's outlet of answers                        the server's state, or a message
//!   Kept   slots  [ client 3, since ] ◄── ReplyTo ──┐
//!                 [ client 0, since ] ◄── ReplyTo ──┤   answered: out of the slot, by `&mut Cx`
//!   oldest ─► newest, by order of arrival           │   dropped, on any thread:
//!   Dropped  slots of tokens that were dropped ◄────┘   into `Dropped`, and the shard is woken
//! ```
//!
//! 1. A token owns one slot from the moment it is taken. Only the token, or its entry in `Dropped`,
//!    frees the slot, so a slot needs no generation. A freed slot keeps the token's reference to
//!    `Dropped` for the next token, so tokens count no references.
//! 2. Only the server accesses the slots. The lock of `Dropped` is acquired only when a token is
//!    dropped, and by the check after a wake-up.
//! 3. A retired server waives all its slots at once; their tokens are then void.

use core::fmt;
use core::marker::PhantomData;

use crate::cx::{Core, Cx};
use crate::graph::{Edge, EdgeInfo, EdgeKind, Graph, Node};
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

/// The right to answer one request `M` of `F`, in graph `G`, by the server `P` that received it.
///
/// [`Cx::reply_to`] returns it, for a handler that does not answer at once by
/// [`Port::send`](crate::Port::send). It may be stored in the processor's state and answered by a
/// later handler or ping of the same instance. Elsewhere it can only be sent back or dropped.
/// Dropping it, on any thread, waives the request: its client gets the credit back without an
/// answer.
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
///         match self.is_lent {
///             true => self.waiting.push(cx.reply_to()),
///             false => cx.to::<Client>().send(Lent),
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

impl<G: Node<F> + Node<P>, F, P, M: Edge<G, F, P>> ReplyTo<G, F, P, M> {
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

    /// Answers. Wait-free. The request has reserved the room, so it never waits, and `sends` need
    /// not list it. It allocates nothing.
    ///
    /// # Panics
    ///
    /// If the token belongs to another instance than the one whose handler runs.
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

impl Core {
    /// Records the request of an edge that is being handled. Its handler answers it or takes its
    /// token; otherwise `end_request` waives it.
    #[inline]
    pub(crate) fn begin_request(&mut self, edge: usize, now: Instant) {
        self.request = (self.invocation, edge);
        self.now = now;
    }

    /// Takes the request of an edge and a client that is being handled, once; returns `true` if
    /// there is one.
    #[inline]
    pub(crate) fn take_request(&mut self, edge: usize, client: usize) -> bool {
        let is_in_hand = self.has_request(edge, client);
        if is_in_hand {
            self.request.0 = 0;
        }
        is_in_hand
    }

    #[inline]
    pub(crate) fn has_request(&self, edge: usize, client: usize) -> bool {
        self.request == (self.invocation, edge) && self.sender == client
    }

    /// Ends the handler of a request, after its return or panic. `out`: the outlet of answers.
    #[inline]
    pub(crate) fn end_request(&mut self, out: usize) {
        if self.request.0 == self.invocation {
            self.request.0 = 0;
            self.waive(out);
        }
    }

    /// Waives a request of the sender of the current message.
    #[cold]
    pub(crate) fn waive(&mut self, out: usize) {
        let news = self.outs[out].waive(self.sender);
        self.note(out, news);
    }

    /// Waives the requests whose tokens were dropped.
    #[cold]
    pub(crate) fn waive_dropped(&mut self) {
        for out in 0..self.outs.len() {
            let news = self.outs[out].waive_dropped();
            self.note(out, news);
        }
    }

    #[cold]
    fn request_fault(&self, edge: &EdgeInfo) -> ! {
        panic!(
            "graph `{}`, edge {edge}: `reply_to` in a handler that has no request of this edge \
             in hand, or took its `ReplyTo` before",
            self.shared.graph,
        )
    }
}

impl<G: Graph, P> Cx<'_, G, P> {
    /// Takes the right to answer the current request, which `F` sent, later. To answer at once, use
    /// [`Port::send`](crate::Port::send) without a token.
    ///
    /// The types usually follow from where the token is stored; otherwise name them:
    /// `cx.reply_to::<Client, Ask>()`. Wait-free; it allocates if more tokens are held than ever
    /// before.
    ///
    /// # Panics
    ///
    /// If the current message is no request `M` of `F`, or its token was taken before.
    pub fn reply_to<F, M>(&mut self) -> ReplyTo<G, F, P, M>
    where
        G: Node<F> + Node<P>,
        M: Edge<G, F, P>,
    {
        let core = self.core();
        let (sender, now) = (core.sender, core.now);
        if !core.take_request(M::ID, sender) {
            core.request_fault(M::INFO);
        }
        let ticket = core.outs[ReplyTo::<G, F, P, M>::OUT].keep(sender, now);
        ReplyTo::new(ticket)
    }

    fn answer<F, A: Edge<G, P, F>>(&mut self, ticket: Ticket, answer: A)
    where
        G: Node<F> + Node<P>,
    {
        let core = self.core();
        let news = core.out::<A>(A::OUT).answer_by(ticket, answer);
        core.note(A::OUT, news);
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
