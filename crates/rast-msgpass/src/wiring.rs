//! Making the rings, doors and lanes of a graph.
//!
//! `graph!` calls [`Wiring::edge`] once per edge, in order, with its types.
//! For an edge from `n` to `m` instances it makes `n * m` rings if these are few,
//! and lays each half with the instance that will own it; otherwise one inbox
//! per receiver, which all senders share:
//!
//! ```text
//!              instance 0 of To      instance 1 of To
//!   From 0     ring 0→0              ring 0→1            outs[0] = one target per To
//!   From 1     ring 1→0              ring 1→1            ins[0]  = one ring per From
//!
//!   From 0..n  inbox 0               inbox 1             outs[0] = one outbox
//! ```

use std::any::Any;

use crate::batch::Batch;
use crate::credit::{Credit, answers_held};
use crate::cx::Core;
use crate::egress::{AnyLaneParts, Lane, LaneParts};
use crate::erased::Erased;
use crate::graph::{Edge, EdgeInfo, EdgeKind, End, Graph};
use crate::ingress::{AnyDoor, Door, Doors};
use crate::inlet::{In, Inlet, Place, Ring, Source};
use crate::instance::{AnyInstance, Instance};
use crate::load::Route;
use crate::outbox::Outbox;
use crate::outlet::{self, Out, Receivers, Way};
use crate::policy::{Factory, Life, Restarts};
use crate::primitive::sync::Arc;
use crate::process::{Process, Receive};
use crate::queue::{mpsc::bounded, spsc};
use crate::reply::Kept;
use crate::rings::Rings;
use crate::sends::{Waits, answers_to};
use crate::sharder::ShardId;
use crate::shared::Shared;
use crate::stack::Stack;
#[cfg(feature = "testing")]
use crate::testing::Tap;
use crate::timer::Timers;
use crate::timers::Instant;
use crate::waiting::{Pace, Waiting};

/// What is made for one instance before its processor joins it.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) outs: Vec<Erased>,
    /// Each holds a `Box<dyn Inlet<G, P>>` of the instance's own types.
    pub(crate) ins: Vec<Box<dyn Any + Send>>,
    /// Per input: its sender.
    pub(crate) routes: Vec<Route>,
    /// Per inlet: what it waits for.
    pub(crate) waits: Vec<Waits>,
}

/// Per edge to egress, per lane: its `LaneParts<M>`, until it is handed out.
pub(crate) type Lanes = Vec<Vec<Option<Box<dyn AnyLaneParts>>>>;

/// What outside threads hold of a graph's doors.
#[derive(Default)]
pub(crate) struct Outside {
    /// Per edge: its `Arc<Doors<M>>`.
    pub(crate) doors: Vec<Option<Box<dyn Any + Send + Sync>>>,
    /// Per edge: its doors again, without their types.
    pub(crate) closers: Vec<Vec<Box<dyn AnyDoor>>>,
    /// Per edge: its lanes.
    pub(crate) lanes: Vec<Vec<Arc<Lane>>>,
    pub(crate) receivers: Lanes,
}

/// A graph under construction.
pub struct Wiring {
    pub(crate) shared: Arc<Shared>,
    /// Per shard.
    pub(crate) parts: Vec<Parts>,
    pub(crate) outside: Outside,
    /// The one shard that has an instance; the others have stubs.
    #[cfg(feature = "testing")]
    alone: Option<usize>,
}

fn before(shared: &Shared, edge: usize) -> usize {
    crate::check::outgoing_before(shared.edges, edge)
}

impl Wiring {
    pub(crate) fn new<G: Graph>(shared: Arc<Shared>) -> Self {
        let shards = shared.stats.len();
        let mut wiring = Self {
            shared,
            parts: (0..shards).map(|_| Parts::default()).collect(),
            outside: Outside::default(),
            #[cfg(feature = "testing")]
            alone: None,
        };
        G::wire(&mut wiring);
        wiring
    }

    /// Makes what one instance needs, and stubs for the others.
    #[cfg(feature = "testing")]
    pub(crate) fn alone<G: Graph>(shared: Arc<Shared>, shard: usize) -> Self {
        let mut wiring = Self {
            parts: shared.stats.iter().map(|_| Parts::default()).collect(),
            shared,
            outside: Outside::default(),
            alone: Some(shard),
        };
        G::wire(&mut wiring);
        wiring
    }

    /// Makes what one edge needs.
    pub fn edge<G, F, T, M>(&mut self)
    where
        G: Graph,
        F: 'static,
        M: Edge<G, F, T>,
        T: Receive<G, F, M> + 'static,
    {
        let id = <M as Edge<G, F, T>>::ID;
        debug_assert_eq!(id, self.outside.doors.len(), "edges are wired in order");
        self.outside.doors.push(None);
        self.outside.closers.push(Vec::new());
        self.outside.lanes.push(Vec::new());
        self.outside.receivers.push(Vec::new());
        let info = &G::EDGES[id];
        match (info.from, info.to) {
            (End::Processor(from), End::Processor(to)) => {
                self.between::<G, F, T, M>(id, from, to);
            }
            (End::Ingress, End::Processor(to)) => self.ingress::<G, F, T, M>(id, to),
            (End::Processor(from), End::Egress) => self.egress::<M>(id, from),
            _ => unreachable!("the compile-time check refuses other ends"),
        }
    }

    fn between<G, F, T, M>(&mut self, id: usize, from: usize, to: usize)
    where
        G: Graph,
        F: 'static,
        M: Edge<G, F, T>,
        T: Receive<G, F, M> + 'static,
    {
        let info = &self.shared.edges[id];
        let (senders, receivers) = (self.shared.shards_of(from), self.shared.shards_of(to));
        let is_answer = matches!(info.kind, EdgeKind::Reply { .. });
        let (ways, sources) = match (is_answer, info.by_pair) {
            (false, true) => {
                let make = |rings, burst| Way::Rings(Rings::new(rings, burst, info.any));
                let (ways, rings) = by_pair(senders.len(), receivers.len(), info.capacity);
                let burst = match info.kind {
                    EdgeKind::Bounded => info.burst,
                    EdgeKind::Unbounded | EdgeKind::Reply { .. } => 0,
                };
                let ring = |ring: spsc::Consumer<M>| Ring {
                    pace: Pace::new(ring.capacity(), burst.max(1)),
                    ring,
                };
                let source = |rings: Vec<_>| Source::Rings(rings.into_iter().map(ring).collect());
                (
                    ways.into_iter().map(|rings| make(rings, burst)).collect(),
                    rings.into_iter().map(source).collect(),
                )
            }
            (false, false) => {
                let (outboxes, inboxes) =
                    by_receiver(senders.len(), receivers.len(), info.capacity, info.any);
                (
                    outboxes.into_iter().map(Way::Inboxes).collect(),
                    inboxes
                        .into_iter()
                        .map(|(inbox, pace)| Source::Inbox(inbox, pace))
                        .collect(),
                )
            }
            (true, true) => {
                let capacity = answers_held(info.capacity);
                let (ways, rings) = by_pair(senders.len(), receivers.len(), capacity);
                let way = |rings| Way::AnswerRings(Rings::new(rings, 0, false));
                (
                    ways.into_iter().map(way).collect(),
                    rings
                        .into_iter()
                        .map(Source::AnswerRings)
                        .collect::<Vec<_>>(),
                )
            }
            (true, false) => {
                let capacity = answers_held(info.capacity);
                let (outboxes, inboxes) =
                    by_receiver(senders.len(), receivers.len(), capacity, false);
                (
                    outboxes
                        .into_iter()
                        .map(Way::AnswerInboxes)
                        .collect::<Vec<_>>(),
                    inboxes
                        .into_iter()
                        .map(|(inbox, pace)| Source::AnswerInbox(inbox, pace))
                        .collect(),
                )
            }
        };
        // A sender that needs room at one of them waits in one list for all.
        let lists = if info.any { 1 } else { receivers.len() };
        let waiting = Arc::new(Waiting::new(senders.len(), lists));
        self.add_ins::<G, F, T, M>(id, to, sources, &senders, &waiting);
        let base = self.first_input(id);
        for (sender, way) in ways.into_iter().enumerate() {
            let note = base + if info.by_pair { sender } else { 0 };
            let receivers = Receivers::Shards {
                first: receivers.start,
                note: u32::try_from(note).expect("a processor has fewer inputs"),
            };
            self.add_out(id, senders.start + sender, sender, way, receivers, &waiting);
        }
    }

    /// Returns the number of the first input of an edge at its receivers.
    fn first_input(&self, id: usize) -> usize {
        let edges = self.shared.edges;
        let inputs = |edge: &&EdgeInfo| match edge.from {
            End::Processor(from) if edge.by_pair => self.shared.shards_of(from).len(),
            _ => 1,
        };
        let before = edges[..id].iter().filter(|edge| edge.to == edges[id].to);
        before.map(|edge| inputs(&edge)).sum()
    }

    /// Adds the receiving halves of an edge.
    fn add_ins<G, F, T, M>(
        &mut self,
        id: usize,
        to: usize,
        sources: Vec<Source<M>>,
        senders: &core::ops::Range<usize>,
        waiting: &Arc<Waiting>,
    ) where
        G: Graph,
        F: 'static,
        M: Edge<G, F, T>,
        T: Receive<G, F, M> + 'static,
    {
        let info = &self.shared.edges[id];
        let requests = answers_to(self.shared.edges, id).map(|edge| before(&self.shared, edge));
        let answering = match info.kind {
            EdgeKind::Reply { request } => Some(before(&self.shared, request)),
            EdgeKind::Bounded | EdgeKind::Unbounded => None,
        };
        let shards = self.shared.shards_of(to);
        for ((receiver, shard), source) in shards.enumerate().zip(sources) {
            let parts = &mut self.parts[shard];
            parts.waits.push(Waits::of(self.shared.edges, id));
            match &source {
                Source::Door(..) => parts.routes.push(Route::Outside),
                Source::Rings(_) | Source::AnswerRings(_) => {
                    let routes = senders.clone().map(ShardId::from_index).map(Route::One);
                    parts.routes.extend(routes);
                }
                Source::Inbox(..) | Source::AnswerInbox(..) => {
                    let first = ShardId::from_index(senders.start);
                    parts.routes.push(Route::Many(first));
                }
            }
            let place = Place {
                edge: id,
                index: parts.ins.len(),
                requests,
                answering,
                waiting: Arc::clone(waiting),
                receiver: if info.any { 0 } else { receiver },
                first: senders.start,
                outlet: before(&self.shared, id),
            };
            #[cfg(feature = "testing")]
            if self.alone.is_some_and(|alone| alone != shard) {
                let tap: Box<dyn Tap> = Box::new(In::<G, F, M>::new(place, source));
                parts.ins.push(Box::new(tap));
                continue;
            }
            let inlet: Box<dyn Inlet<G, T>> = Box::new(In::<G, F, M>::new(place, source));
            parts.ins.push(Box::new(inlet));
        }
    }

    /// Adds the sending half of an edge.
    fn add_out<M: Send + 'static>(
        &mut self,
        id: usize,
        shard: usize,
        sender: usize,
        way: Way<M>,
        receivers: Receivers,
        waiting: &Arc<Waiting>,
    ) {
        let info = &self.shared.edges[id];
        let index = before(&self.shared, id);
        let targets = match info.to {
            End::Processor(to) => self.shared.shards_of(to).len(),
            End::Ingress | End::Egress => 0,
        };
        let credit = answers_to(self.shared.edges, id).map(|answers| {
            let answers = &self.shared.edges[answers];
            Credit::new(targets, !answers.by_pair, answers.capacity, info.burst)
        });
        let parts = outlet::Parts {
            shared: Arc::clone(&self.shared),
            edge: id,
            index,
            shard,
            sender,
            receivers,
            waiting: Arc::clone(waiting),
            credit,
            kept: matches!(info.kind, EdgeKind::Reply { .. }).then(|| {
                let wakes = Arc::clone(&self.shared.wakes);
                Kept::new(ShardId::from_index(shard), wakes)
            }),
        };
        let outs = &mut self.parts[shard].outs;
        debug_assert_eq!(outs.len(), index, "outlets are in order");
        outs.push(Erased::new(Out::new(parts, way)));
    }

    fn ingress<G, F, T, M>(&mut self, id: usize, to: usize)
    where
        G: Graph,
        F: 'static,
        M: Edge<G, F, T>,
        T: Receive<G, F, M> + 'static,
    {
        let info = &self.shared.edges[id];
        let capacity = match info.kind {
            EdgeKind::Unbounded => info.ceiling,
            EdgeKind::Bounded | EdgeKind::Reply { .. } => info.capacity,
        };
        let receivers = self.shared.shards_of(to);
        let doors: Vec<_> = receivers
            .clone()
            .map(|_| Arc::new(Door::<M>::of(capacity, Arc::clone(&self.shared.ending))))
            .collect();
        let closer = |door: &Arc<Door<M>>| Box::new(Arc::clone(door)) as Box<dyn AnyDoor>;
        self.outside.closers[id].extend(doors.iter().map(closer));
        let source = |door: &Arc<Door<M>>| Source::Door(Arc::clone(door), Pace::new(capacity, 1));
        let sources = doors.iter().map(source).collect();
        let first = receivers.start;
        let waiting = Arc::new(Waiting::new(0, receivers.len()));
        self.add_ins::<G, F, T, M>(id, to, sources, &(0..0), &waiting);
        self.outside.doors[id] = Some(Box::new(Arc::new(Doors { doors, first })));
    }

    fn egress<M: Send + 'static>(&mut self, id: usize, from: usize) {
        let info = &self.shared.edges[id];
        let senders = self.shared.shards_of(from);
        let burst = match info.kind {
            EdgeKind::Bounded => info.burst,
            EdgeKind::Unbounded | EdgeKind::Reply { .. } => 0,
        };
        let lane = || Arc::new(Lane::of(senders.len(), Arc::clone(&self.shared.ending)));
        let lanes: Vec<Arc<Lane>> = (0..info.lanes).map(|_| lane()).collect();
        let waiting = Arc::new(Waiting::new(senders.len(), info.lanes));
        let (ways, rings) = by_pair::<M>(senders.len(), info.lanes, info.capacity);
        for ((number, rings), lane) in rings.into_iter().enumerate().zip(&lanes) {
            self.outside.receivers[id].push(Some(Box::new(LaneParts {
                rings,
                lane: Arc::clone(lane),
                number,
                waiting: Arc::clone(&waiting),
                first: senders.start,
                burst: burst.max(1),
            })));
        }
        for (slot, rings) in ways.into_iter().enumerate() {
            let receivers = Receivers::Lanes {
                lanes: lanes.clone(),
                slot,
            };
            let way = Way::Rings(Rings::new(rings, burst, false));
            self.add_out(id, senders.start + slot, slot, way, receivers, &waiting);
        }
        self.outside.lanes[id] = lanes;
    }
}

/// Makes a ring per pair: the producers by sender, the consumers by receiver.
#[expect(clippy::type_complexity, reason = "two tables of halves")]
fn by_pair<T>(
    senders: usize,
    receivers: usize,
    capacity: usize,
) -> (Vec<Vec<spsc::Producer<T>>>, Vec<Vec<spsc::Consumer<T>>>) {
    let mut producers: Vec<Vec<_>> = (0..senders).map(|_| Vec::new()).collect();
    let mut consumers = Vec::new();
    for _ in 0..receivers {
        let ring = |producers: &mut Vec<_>| {
            let (producer, consumer) = spsc::ring(capacity);
            producers.push(producer);
            consumer
        };
        consumers.push(producers.iter_mut().map(ring).collect());
    }
    (producers, consumers)
}

/// Makes an inbox per receiver.
#[expect(clippy::type_complexity, reason = "two tables of halves")]
fn by_receiver<T>(
    senders: usize,
    receivers: usize,
    capacity: usize,
    any: bool,
) -> (Vec<Outbox<T>>, Vec<(bounded::Consumer<T>, Pace)>) {
    let (producers, consumers): (Vec<_>, Vec<_>) =
        (0..receivers).map(|_| bounded::queue(capacity)).unzip();
    let producers = Arc::new(producers.into_boxed_slice());
    let outbox = |sender| Outbox::new(Arc::clone(&producers), sender, any);
    let with_pace = |inbox: bounded::Consumer<T>| {
        let pace = Pace::new(inbox.capacity(), 1);
        (inbox, pace)
    };
    (
        (0..senders).map(outbox).collect(),
        consumers.into_iter().map(with_pace).collect(),
    )
}

/// The processors that were given to the builder, in order.
pub struct Given<G> {
    nodes: Vec<Box<dyn Node<G>>>,
}

/// A `Factory` of some processor.
pub(crate) type AnyFactory = Box<dyn Any + Send>;

/// The instances of one processor whose type is not known.
trait Node<G>: Send {
    fn count(&self) -> usize;
    fn assemble(
        self: Box<Self>,
        parts: Vec<Parts>,
        cores: Vec<Core>,
        batch: Batch,
        factory: Option<AnyFactory>,
    ) -> Vec<Box<dyn AnyInstance>>;
}

struct Instances<P>(Vec<P>);

impl<G: Graph, P: Process<G>> Node<G> for Instances<P> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn assemble(
        self: Box<Self>,
        parts: Vec<Parts>,
        cores: Vec<Core>,
        batch: Batch,
        factory: Option<AnyFactory>,
    ) -> Vec<Box<dyn AnyInstance>> {
        let factory = factory.map(|factory| {
            let factory: Box<Factory<P>> = factory
                .downcast()
                .expect("a factory is given for its processor");
            *factory
        });
        let mut instances: Vec<Box<dyn AnyInstance>> = Vec::new();
        for ((processor, parts), core) in self.0.into_iter().zip(parts).zip(cores) {
            instances.push(join::<G, P>(processor, parts, core, batch, factory.clone()));
        }
        instances
    }
}

/// Joins a processor and what was wired for it.
pub(crate) fn join<G: Graph, P: Process<G>>(
    processor: P,
    parts: Parts,
    mut core: Core,
    batch: Batch,
    factory: Option<Factory<P>>,
) -> Box<dyn AnyInstance> {
    let ins = parts.ins.into_iter().map(|inlet| {
        let inlet: Box<Box<dyn Inlet<G, P>>> = inlet
            .downcast()
            .expect("an inlet is made for its processor");
        *inlet
    });
    let ins = ins.collect();
    core.fit(parts.outs, parts.waits);
    Box::new(Instance::<G, P>::new(processor, ins, core, batch, factory))
}

impl Core {
    /// Takes the outlets of an instance, and what its inlets wait for.
    pub(crate) fn fit(&mut self, outs: Vec<Erased>, waits: Vec<Waits>) {
        // Twice: after a panic all are in it, and each may be reported once more.
        self.written = Stack::new(2 * outs.len());
        self.outs = outs;
        self.waits = waits.into();
    }
}

/// Makes the core of an instance that was not wired yet.
pub(crate) fn core_of(shared: &Arc<Shared>, shard: usize) -> Core {
    let (node, replica) = shared.instance(shard);
    Core {
        shared: Arc::clone(shared),
        stats: Arc::clone(&shared.stats[shard]),
        ending: Arc::clone(&shared.ending),
        node,
        replica,
        outs: Vec::new(),
        written: Stack::new(0),
        invocation: 0,
        sender: 0,
        is_gated: false,
        keeps: false,
        waits: Box::default(),
        handling: None,
        request: (0, 0),
        now: Instant::ORIGIN,
        stop: false,
        life: Life::New,
        restarts: Restarts::new(),
        watched: Vec::new(),
        has_deaths: false,
        timers: Timers::default(),
        wake_at: None,
        #[cfg(feature = "testing")]
        trial: None,
    }
}

impl<G: Graph> Given<G> {
    /// Begins with no processor.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// Adds a processor with one instance.
    pub fn one<P: Process<G>>(&mut self, processor: P) {
        self.nodes.push(Box::new(Instances(vec![processor])));
    }

    /// Adds a processor with replicas.
    pub fn many<P: Process<G>>(&mut self, replicas: impl Iterator<Item = P>) {
        self.nodes.push(Box::new(Instances(replicas.collect())));
    }

    /// Returns the first processor whose number of instances is not the
    /// declared one, with the number given.
    pub(crate) fn mismatch(&self) -> Option<(usize, usize)> {
        let counts = self.nodes.iter().map(|node| node.count()).enumerate();
        counts
            .into_iter()
            .find(|&(node, count)| count != G::PROCESSORS[node].replicas)
    }

    /// Joins the processors and what was wired for them.
    pub(crate) fn assemble(
        self,
        shared: &Arc<Shared>,
        parts: Vec<Parts>,
        batches: &[Batch],
        mut factories: Vec<Option<AnyFactory>>,
    ) -> Vec<Box<dyn AnyInstance>> {
        let mut parts = parts.into_iter();
        let mut instances = Vec::new();
        for (node, given) in self.nodes.into_iter().enumerate() {
            let shards = shared.shards_of(node);
            let parts = parts.by_ref().take(shards.len()).collect();
            let cores = shards.map(|shard| core_of(shared, shard));
            let factory = factories[node].take();
            instances.extend(given.assemble(parts, cores.collect(), batches[node], factory));
        }
        instances
    }
}
