//! Answering a request later than in its handler, by a token with the types of its request.
//!
//! The handler of a request either answers it, or takes its token, which is the right to answer it
//! once, later. If the handler does neither before it returns or panics, the request is *waived*:
//! it ends without an answer.
//!
//! `instance_core.rs` has the request that is being handled, and `ticket.rs` the requests that are
//! held by tokens.

use core::fmt;
use core::marker::PhantomData;

use crate::cx::Cx;
use crate::graph::{Edge, EdgeInfo, EdgeKind, Graph, Node};
use crate::instance_core::Core;
use crate::sends::answers_to;
use crate::ticket::Ticket;

/// The right to answer one request `M` of `F`, in graph `G`, by the server `P` that received it.
///
/// [`Cx::reply_to`] returns it, for a handler that does not answer at once by
/// [`Port::send`](crate::Port::send). It may be stored in the processor's state and answered by a
/// later handler or ping of the same instance. Another instance or thread that gets it can only
/// send it back to this instance, or drop it. Dropping it, on any thread, waives the request: its
/// client gets the credit back without an answer.
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
    /// Takes the right to answer the current request of `F` later. To answer at once, use
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
