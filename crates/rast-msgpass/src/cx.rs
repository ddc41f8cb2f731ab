//! The context of a handler: its instance, and its edges.
//!
//! `cx.to::<Parser>().send(line)` names the receiver's type. The message's type selects the edge,
//! and the edge's constants give the index of its outlet.

mod debug;

use core::marker::PhantomData;

use crate::credit::{consistent_replica_of, replica_of};
use crate::graph::{Edge, EdgeKind, Egress, End, Graph, Node, Replicated, Single};
use crate::instance_core::Core;
use crate::queue::Full;
use crate::sends::OfEnd;
use crate::timers::{Clock, Instant};

/// The context of a handler of processor `P` in graph `G`.
///
/// ```
/// use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, graph};
///
/// struct Front;
/// struct Shard(u64);
///
/// graph! {
///     graph Store {
///         processors { front: Front, shard: [Shard; 4] }
///         edges {
///             ingress -> front: u64;
///             front -> shard: Add;
///             front -> shard: Tell;
///             shard -> egress: Sum;
///         }
///     }
/// }
/// struct Add(u64);
/// #[derive(Clone)]
/// struct Tell;
/// struct Sum(u64);
///
/// impl Process<Store> for Front {}
/// impl Receive<Store, Ingress, u64> for Front {
///     fn receive(&mut self, number: u64, cx: &mut Cx<'_, Store, Self>) {
///         if number > 0 {
///             cx.to::<Shard>().key(number).send(Add(number)); // one, by the key
///         } else {
///             cx.to::<Shard>().all().send(Tell); // a copy to each
///         }
///     }
/// }
/// impl Process<Store> for Shard {}
/// impl Receive<Store, Front, Add> for Shard {
///     fn receive(&mut self, Add(number): Add, cx: &mut Cx<'_, Store, Self>) {
///         assert_eq!(cx.replica(), rast_msgpass::replica_of(number, 4));
///         self.0 += number;
///     }
/// }
/// impl Receive<Store, Front, Tell> for Shard {
///     fn receive(&mut self, _: Tell, cx: &mut Cx<'_, Store, Self>) {
///         cx.to::<Egress>().send(Sum(self.0));
///     }
/// }
///
/// let app = Store::builder(Front, (0..4).map(|_| Shard(0))).start()?;
/// let mut sums = app.egress::<Shard, Sum>(0); // lane 0
/// let numbers = app.ingress::<Front, u64>();
/// // Messages stay in order along one edge, not across two. So wait until `front -> shard: Add`,
/// // which is edge 1, has delivered all numbers.
/// (1..=10).for_each(|number| numbers.send(number).unwrap());
/// while app.metrics().edges[1].received < 10 {
///     std::thread::yield_now();
/// }
/// numbers.send(0)?;
/// let total: u64 = (0..4).map(|_| sums.recv().map_or(0, |Sum(sum)| sum)).sum();
/// assert_eq!(total, 55);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cx<'a, G, P> {
    core: &'a mut Core,
    types: PhantomData<fn(G, P)>,
}

impl<'a, G: Graph, P> Cx<'a, G, P> {
    pub(crate) fn new(core: &'a mut Core) -> Self {
        Self {
            core,
            types: PhantomData,
        }
    }

    /// Selects a receiver: another processor, or [`Egress`].
    #[inline]
    pub fn to<To>(&mut self) -> Port<'_, G, P, To>
    where
        G: Node<To>,
    {
        Port {
            core: self.core,
            types: PhantomData,
        }
    }

    /// Returns the index of this instance among the replicas of its processor; 0 if it has no
    /// replicas.
    #[must_use]
    pub fn replica(&self) -> usize {
        self.core.replica
    }

    /// Returns the index of the replica that sent the current message, to which an answer goes. 0
    /// for a processor without replicas, for ingress, and in a ping.
    #[must_use]
    pub fn sender(&self) -> usize {
        self.core.sender
    }

    /// Reads the graph's clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.core.shared.clock.now()
    }

    pub(crate) fn core(&mut self) -> &mut Core {
        self.core
    }

    /// Returns the number of restarts of this instance: 0 for the processor that was given to the
    /// builder.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.core.stats.restarts.get()
    }

    /// Stops the whole graph, as [`Stopper::stop`](crate::Stopper::stop). Running handlers finish,
    /// and waiting messages count as undelivered. An instance that has seen the stop handles no
    /// other message. The calling instance has seen it.
    pub fn stop(&mut self) {
        self.core.end();
    }

    /// Returns `true` if the graph drains. Then no ping comes, the remaining messages are handled,
    /// and [`Process::flush`](crate::Process::flush) is called at the end.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.core.shared.calm.is_asked()
    }
}

/// The edges from processor `P` to `To`.
#[must_use = "a port does nothing until something is sent"]
pub struct Port<'a, G, P, To> {
    core: &'a mut Core,
    types: PhantomData<fn(G, P, To)>,
}

impl<'a, G: Node<P> + Node<To>, P, To> Port<'a, G, P, To> {
    fn choose<const ANY: bool>(self, choice: Choice) -> Chosen<'a, G, P, To, ANY> {
        Chosen {
            core: self.core,
            choice,
            types: PhantomData,
        }
    }

    /// Sends one message. Wait-free. There is room, because the processor runs only while there is
    /// room for the edge's burst. On an edge with `bytes`, `drop_oldest` or `latest` it takes a
    /// lock, which the receiver holds while it moves one message.
    ///
    /// # Panics
    ///
    /// If the invocation has already sent its burst on this edge, or if its `sends` does not list
    /// this edge. On a `reply` edge, if no request of the receiver is being handled; a request that
    /// was answered, or whose token was taken, does not count.
    #[inline]
    pub fn send<M>(self, message: M)
    where
        M: Edge<G, P, To>,
        G: Single<To>,
    {
        const {
            assert!(
                M::INFO.lanes == 1,
                "this edge to egress has several lanes: choose one by `.lane(i)`"
            );
        }
        self.choose::<false>(Choice::At(0)).send(message);
    }

    /// Sends one message if there is room. Wait-free. It counts against the burst, and may exceed
    /// the burst if the ring has room.
    ///
    /// # Errors
    ///
    /// [`Full`] with the message.
    pub fn try_send<M>(self, message: M) -> Result<(), Full<M>>
    where
        M: Edge<G, P, To>,
        G: Single<To>,
    {
        const {
            assert!(
                M::INFO.lanes == 1,
                "this edge to egress has several lanes: choose one by `.lane(i)`"
            );
        }
        self.choose::<false>(Choice::At(0)).try_send(message)
    }

    /// Returns how many messages [`try_send`](Self::try_send) would accept now. On a `reply` edge
    /// that is one if a request of the receiver is being handled. On an edge with `bytes` it is one
    /// or the rest of the burst while there is room; more may be accepted, depending on their
    /// weights.
    #[must_use]
    pub fn room<M>(self) -> usize
    where
        M: Edge<G, P, To>,
        G: Single<To>,
    {
        self.choose::<false>(Choice::At(0)).room::<M>()
    }

    /// Returns `true` if [`try_send`](Self::try_send) would accept this many messages now; see
    /// [`Chosen::has_room`].
    #[must_use]
    pub fn has_room<M>(self, count: usize) -> bool
    where
        M: Edge<G, P, To>,
        G: Single<To>,
    {
        self.choose::<false>(Choice::At(0)).has_room::<M>(count)
    }

    /// Chooses the replica for a key: equal keys get the same one, that of
    /// [`replica_of`](crate::replica_of). For keys that are not numbers, see
    /// [`hashed`](Self::hashed).
    pub fn key(self, key: u64) -> Chosen<'a, G, P, To>
    where
        G: Replicated<To>,
    {
        self.choose(Choice::Key(key))
    }

    /// Chooses the next replica in turn that has room. It chooses a
    /// [retired](crate::OnPanic::Retire) replica only if all are retired, or if no other has a slot
    /// for one more answer.
    ///
    /// On an edge with `route = any` this is the only way to `send`. A replica without room does
    /// not keep the sender from running, as long as another one has room.
    ///
    /// ```compile_fail
    /// # use rast_msgpass::{Cx, Ingress, Process, Receive, graph};
    /// # struct Router;
    /// # struct Worker;
    /// # graph! {
    /// #     graph App {
    /// #         processors { router: Router, worker: [Worker; 2] }
    /// #         edges {
    /// #             ingress -> router: u64;
    /// router -> worker: u64 [route = any];
    /// #         }
    /// #     }
    /// # }
    /// # impl Process<App> for Router {}
    /// # impl Process<App> for Worker {}
    /// # impl Receive<App, Router, u64> for Worker {
    /// #     fn receive(&mut self, _: u64, _: &mut Cx<'_, App, Self>) {}
    /// # }
    /// # impl Receive<App, Ingress, u64> for Router {
    /// #     fn receive(&mut self, number: u64, cx: &mut Cx<'_, App, Self>) {
    /// cx.to::<Worker>().at(0).send(number);
    /// #     }
    /// # }
    /// # App::builder(Router, [Worker, Worker]).check().unwrap();
    /// # App::builder(Router, [Worker, Worker]).start().unwrap();
    /// ```
    pub fn any(self) -> Chosen<'a, G, P, To, true>
    where
        G: Replicated<To>,
    {
        self.choose(Choice::Any)
    }

    /// Chooses the replica with this index; an answer goes to [`Cx::sender`].
    pub fn at(self, index: usize) -> Chosen<'a, G, P, To>
    where
        G: Replicated<To>,
    {
        self.choose(Choice::At(index))
    }

    pub(crate) fn at_hash(self, hash: u64) -> Chosen<'a, G, P, To> {
        self.choose(Choice::Hash(hash))
    }

    /// Selects all replicas.
    pub fn all(self) -> All<'a, G, P, To>
    where
        G: Replicated<To>,
    {
        All {
            core: self.core,
            types: PhantomData,
        }
    }
}

impl<'a, G: Node<P> + Node<Egress>, P> Port<'a, G, P, Egress> {
    /// Chooses a lane: one of the receivers outside.
    pub fn lane(self, index: usize) -> Chosen<'a, G, P, Egress> {
        self.choose(Choice::At(index))
    }
}

#[derive(Clone, Copy, Debug)]
enum Choice {
    At(usize),
    Key(u64),
    Hash(u64),
    Any,
}

/// One replica or lane of `To`; with `ANY`, one that has room.
#[must_use = "a port does nothing until something is sent"]
pub struct Chosen<'a, G, P, To, const ANY: bool = false> {
    core: &'a mut Core,
    choice: Choice,
    types: PhantomData<fn(G, P, To)>,
}

impl<G: Node<P> + Node<To>, P, To, const ANY: bool> Chosen<'_, G, P, To, ANY> {
    /// Returns the edge of the requests, if this edge carries answers.
    const fn request<M: Edge<G, P, To>>() -> Option<usize> {
        match M::INFO.kind {
            EdgeKind::Reply { request } => Some(request),
            _ => None,
        }
    }

    /// Returns `true` if the current handler was called with room for its burst on this edge.
    #[inline]
    fn is_promised<M: Edge<G, P, To>>(&self) -> bool {
        if const { M::INFO.any && !ANY } {
            return false;
        }
        match const { OfEnd::<G, P>::IS_RESTRICTED } {
            true => self.core.is_promised(M::OUT),
            false => true,
        }
    }

    #[inline]
    fn index<M: Edge<G, P, To>>(&mut self) -> usize {
        match self.choice {
            Choice::At(index) => index,
            Choice::Key(key) | Choice::Hash(key) => {
                let replicas = const {
                    match M::INFO.to {
                        End::Processor(to) => {
                            let info = &G::PROCESSORS[to];
                            match info.replicas == info.replicas_max {
                                true => Some(info.replicas),
                                false => None,
                            }
                        }
                        End::Ingress | End::Egress => Some(1),
                    }
                };
                let replicas = match replicas {
                    Some(replicas) => replicas,
                    None => self.core.out::<M>(M::OUT).targets(),
                };
                match self.choice {
                    Choice::Hash(hash) => consistent_replica_of(hash, replicas),
                    _ => replica_of(key, replicas),
                }
            }
            Choice::Any => self.core.out::<M>(M::OUT).any(),
        }
    }

    /// Returns `true` if a request of the chosen client is being handled, on an edge of answers.
    fn has_request<M: Edge<G, P, To>>(&mut self) -> bool {
        let client = self.index::<M>();
        let core = &self.core;
        let edge = const { Self::request::<M>() };
        edge.is_some_and(|edge| core.has_request(edge, client))
    }

    /// Sends one message, as [`Port::send`].
    ///
    /// # Panics
    ///
    /// As [`Port::send`]; and if there is no such replica or lane.
    #[inline]
    pub fn send<M: Edge<G, P, To>>(self, message: M) {
        const {
            assert!(
                ANY || !M::INFO.any,
                "this edge is declared with `route = any`: send by `.any()`, or use `try_send`"
            );
            assert!(
                !matches!(M::INFO.kind, EdgeKind::Reject),
                "this edge is declared with `reject`, which returns messages: use `try_send`"
            );
        }
        self.send_by_rule(message);
    }

    /// Sends one message by the rule of its edge.
    #[inline]
    fn send_by_rule<M: Edge<G, P, To>>(mut self, message: M) {
        if const { OfEnd::<G, P>::IS_RESTRICTED } && !self.core.is_promised(M::OUT) {
            self.core.sends_fault(M::INFO);
        }
        let index = self.index::<M>();
        let invocation = self.core.invocation;
        self.core.sending(M::ID, M::OUT, index, &message);
        let news = match const { M::INFO.kind } {
            EdgeKind::Reply { request } => {
                let is_in_hand = self.core.take_request(request, index);
                let out = self.core.out::<M>(M::OUT);
                if !is_in_hand {
                    out.request_fault();
                }
                out.answer(index, message)
            }
            EdgeKind::Bounded | EdgeKind::Unbounded => {
                self.core.out::<M>(M::OUT).send(index, message, invocation)
            }
            _ => self.core.send_lossy(M::INFO.kind, M::OUT, index, message),
        };
        self.core.note(M::OUT, news);
    }

    /// Sends one message if there is room, as [`Port::try_send`].
    ///
    /// # Errors
    ///
    /// [`Full`] with the message.
    ///
    /// # Panics
    ///
    /// If there is no such replica or lane.
    pub fn try_send<M: Edge<G, P, To>>(mut self, message: M) -> Result<(), Full<M>> {
        if const { Self::request::<M>().is_some() } {
            if !self.has_request::<M>() {
                return Err(Full(message));
            }
            self.send_by_rule(message);
            return Ok(());
        }
        let index = self.index::<M>();
        let (invocation, promised) = (self.core.invocation, self.is_promised::<M>());
        if self.core.trial_room::<M>(M::OUT, index, promised) == Some(0) {
            return Err(Full(message));
        }
        self.core.trying(M::ID, index, &message);
        let out = self.core.out::<M>(M::OUT);
        let news = match const { M::INFO.kind } {
            EdgeKind::Reject | EdgeKind::DropNewest => out.offer(index, message)?,
            EdgeKind::DropOldest | EdgeKind::Latest => out.send_evicting(index, message),
            _ => out.try_send(index, message, invocation, promised)?,
        };
        self.core.note(M::OUT, news);
        Ok(())
    }

    /// Returns how many messages [`try_send`](Self::try_send) would accept now, as [`Port::room`].
    ///
    /// # Panics
    ///
    /// If there is no such replica or lane.
    #[must_use]
    pub fn room<M: Edge<G, P, To>>(mut self) -> usize {
        if const { Self::request::<M>().is_some() } {
            return usize::from(self.has_request::<M>());
        }
        let index = self.index::<M>();
        let (invocation, promised) = (self.core.invocation, self.is_promised::<M>());
        if let Some(room) = self.core.trial_room::<M>(M::OUT, index, promised) {
            return room;
        }
        self.core.out::<M>(M::OUT).room(index, invocation, promised)
    }

    /// Returns `true` if [`try_send`](Self::try_send) would accept this many messages now.
    ///
    /// If the pair has a ring, it loads the receiver's progress only if the cached value does not
    /// suffice. [`room`](Self::room) always loads it, so a call of `has_room` before each message
    /// is cheaper.
    ///
    /// # Panics
    ///
    /// If there is no such replica or lane.
    #[must_use]
    pub fn has_room<M: Edge<G, P, To>>(mut self, count: usize) -> bool {
        if const { Self::request::<M>().is_some() } {
            return usize::from(self.has_request::<M>()) >= count;
        }
        let index = self.index::<M>();
        let (invocation, promised) = (self.core.invocation, self.is_promised::<M>());
        if let Some(room) = self.core.trial_room::<M>(M::OUT, index, promised) {
            return room >= count;
        }
        let out = self.core.out::<M>(M::OUT);
        out.has_room(index, count, invocation, promised)
    }
}

/// All replicas of `To`.
#[must_use = "a port does nothing until something is sent"]
pub struct All<'a, G, P, To> {
    core: &'a mut Core,
    types: PhantomData<fn(G, P, To)>,
}

impl<G: Node<P> + Node<To>, P, To> All<'_, G, P, To> {
    /// Sends a copy to each replica; it counts as one message of the burst.
    ///
    /// # Panics
    ///
    /// As [`Port::send`], and if `clone` of the message panics. The replicas before the failed copy
    /// get theirs. If there are none, the message is not counted.
    pub fn send<M: Edge<G, P, To> + Clone>(self, message: M) {
        const {
            assert!(
                !M::INFO.any,
                "this edge is declared with `route = any`: it needs room at one replica, not at all"
            );
            assert!(
                !matches!(M::INFO.kind, EdgeKind::Reply { .. }),
                "an answer goes to the client of its request, not to all"
            );
            assert!(
                !matches!(M::INFO.kind, EdgeKind::Reject),
                "this edge is declared with `reject`, which returns messages: use `try_send`"
            );
        }
        if const { OfEnd::<G, P>::IS_RESTRICTED } && !self.core.is_promised(M::OUT) {
            self.core.sends_fault(M::INFO);
        }
        let invocation = self.core.invocation;
        let put = |core: &mut Core, index, message| {
            let news = match const { M::INFO.kind.is_lossy() } {
                true => core.send_lossy(M::INFO.kind, M::OUT, index, message),
                false => core.out::<M>(M::OUT).put(index, message),
            };
            core.note(M::OUT, news);
            if index == 0 {
                core.out::<M>(M::OUT).count_all();
            }
        };
        let last = self.core.out::<M>(M::OUT).begin_all(invocation) - 1;
        let mut index = 0;
        while index < last {
            let copy = message.clone();
            put(self.core, index, copy);
            index += 1;
            if const { !M::INFO.kind.is_lossy() } {
                index = (self.core.out::<M>(M::OUT)).put_copies(index, last, &message);
            }
        }
        put(self.core, last, message);
    }
}
