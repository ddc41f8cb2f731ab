//! Making the queues of a graph: rings, inboxes, doors (from outside) and lanes (to outside).
//!
//! `graph!` calls [`Wiring::edge`] once per edge, in order, with its types. An edge from `n` to `m`
//! instances gets `n * m` rings if these are at most [`PAIRS_MAX`](crate::PAIRS_MAX), or if the
//! edge declares `rings`. Otherwise it gets one inbox per receiver, which all senders share. Each
//! half of a queue goes to the instance that will own it. An edge with `drop_oldest`, `latest` or
//! `bytes` always has a locked queue per pair, however many pairs there are. An edge from outside
//! has doors, and an edge to outside has lanes.
//!
//! ```text
//!              instance 0 of To      instance 1 of To
//!   From 0     ring 0→0              ring 0→1            outs[0] = one target per To
//!   From 1     ring 1→0              ring 1→1            ins[0]  = one ring per From
//!
//!   From 0..n  inbox 0               inbox 1             outs[0] = one outbox
//! ```

use core::marker::PhantomData;
use std::any::Any;
use std::vec::IntoIter;

use crate::batch::Batch;
use crate::buffer::{Bounds, Buffers, buffers};
use crate::credit::{Credit, answers_held};
use crate::door::{AnyDoor, Door, Doors};
use crate::egress::{self, AnyLaneParts, Lane, LaneParts, LaneRing};
use crate::erased::Erased;
use crate::graph::{Edge, EdgeKind, End, Graph, Node};
use crate::inbox::{INPUTS_MAX, Receiver, inboxes};
#[cfg(feature = "testing")]
use crate::inlet::Tap;
use crate::inlet::{In, Inlet, Intake, Measured, Place, Ring, Source};
use crate::instance::{AnyInstance, Instance};
use crate::instance_core::Core;
use crate::load::Route;
use crate::outbox::{self, Outbox};
use crate::outlet::{self, Out, Receivers, Way};
use crate::own::own_vec;
use crate::policy::Factory;
use crate::primitive::sync::Arc;
use crate::process::{Process, Receive};
use crate::queue::spsc;
use crate::rings::Rings;
use crate::sampling::{Arrivals, Departures, Draw, Marks, Plan, SharedDraw, stamps};
use crate::sends::{Waits, answers_to};
use crate::sharder::ShardId;
use crate::shared::Shared;
use crate::ticket::Kept;
use crate::waiting::{Pace, Waiting};

/// Makes an inlet of an edge from what depends on its message alone.
type Make<M> = fn(Intake<M>) -> Box<dyn Any + Send>;

fn make<G, F, T, M>(intake: Intake<M>) -> Box<dyn Any + Send>
where
    G: Node<F> + Node<T>,
    F: 'static,
    M: Edge<G, F, T>,
    T: Receive<G, F, M> + 'static,
{
    let inlet: Box<dyn Inlet<G, T>> = Box::new(In::<G, F, M>::new(intake));
    Box::new(inlet)
}

/// Returns the index of the processor that an end is.
fn processor(end: End) -> usize {
    end.processor()
        .expect("the compile-time check refuses other ends")
}

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

/// A graph whose edges can be made; only [`graph!`](crate::graph) implements it, for every graph.
///
/// A generic function that makes a `TestCx` (feature `testing`) names it as a bound.
pub trait Wired: Graph {
    /// Calls [`Wiring::edge`] for each edge, in order, with its types.
    #[doc(hidden)]
    fn wire(wiring: &mut Wiring);
}

/// The function [`Wired::wire`] of a graph.
type Wire = fn(&mut Wiring);

impl Wiring {
    pub(crate) fn new(shared: Arc<Shared>, wire: Wire) -> Self {
        let shards = shared.stats.len();
        let mut wiring = Self {
            shared,
            parts: (0..shards).map(|_| Parts::default()).collect(),
            outside: Outside::default(),
            #[cfg(feature = "testing")]
            alone: None,
        };
        wire(&mut wiring);
        wiring
    }

    /// Makes what one instance needs, and stubs for the others.
    #[cfg(feature = "testing")]
    pub(crate) fn alone<G: Wired>(shared: Arc<Shared>, shard: usize) -> Self {
        let mut wiring = Self {
            parts: shared.stats.iter().map(|_| Parts::default()).collect(),
            shared,
            outside: Outside::default(),
            alone: Some(shard),
        };
        G::wire(&mut wiring);
        wiring
    }

    /// Makes what one edge needs. This function is compiled once per edge, so it is short: the rest
    /// depends on the message alone.
    ///
    /// The conditions are constants of the edge, so only the branch that is taken is compiled. An
    /// edge to egress has no inlet, and an edge from ingress has no outlet.
    pub fn edge<G, F, T, M>(&mut self)
    where
        G: Node<F> + Node<T>,
        F: 'static,
        M: Edge<G, F, T>,
        T: Receive<G, F, M> + 'static,
    {
        let id = <M as Edge<G, F, T>>::ID;
        self.begin_edge(id);
        if const { matches!(<G as Node<F>>::END, End::Ingress) } {
            self.ingress::<M>(id, make::<G, F, T, M>);
        } else if const { matches!(<G as Node<T>>::END, End::Egress) } {
            self.egress::<M>(id);
        } else {
            self.between::<M>(id, <M as Edge<G, F, T>>::WEIGH, make::<G, F, T, M>);
        }
    }

    fn begin_edge(&mut self, id: usize) {
        debug_assert_eq!(id, self.outside.doors.len(), "edges are wired in order");
        self.outside.doors.push(None);
        self.outside.closers.push(Vec::new());
        self.outside.lanes.push(Vec::new());
        self.outside.receivers.push(Vec::new());
    }

    fn between<M: Send + 'static>(
        &mut self,
        id: usize,
        weigh: Option<fn(&M) -> usize>,
        make: Make<M>,
    ) {
        let info = &self.shared.edges[id];
        let (from, to) = (processor(info.from), processor(info.to));
        let (senders, receivers) = (self.shared.shards_of(from), self.shared.shards_of(to));
        let is_answer = matches!(info.kind, EdgeKind::Reply { .. });
        let layout = self.shared.layout[id];
        let (mut departures, arrivals) = self.pairs(id, senders.len(), receivers.len());
        let mut measured: Vec<Measured> = Vec::new();
        let by_rings = |arrivals| Measured {
            arrivals,
            marks: None,
        };
        let (ways, sources) = match (is_answer, layout.by_pair) {
            _ if info.is_buffered() => {
                let bounds = Bounds {
                    messages: layout.capacity,
                    bytes: info.bytes,
                    burst: if info.kind.is_lossy() { 0 } else { info.burst },
                };
                let sources: Vec<Vec<_>> = receivers
                    .clone()
                    .map(|_| buffers(bounds, senders.len()))
                    .collect();
                let way = |sender: usize| {
                    let targets = sources.iter().map(|source| Arc::clone(&source[sender]));
                    Way::Buffers(Buffers::new(
                        targets.collect(),
                        weigh,
                        self.draw(id, sender),
                    ))
                };
                (
                    (0..senders.len()).map(way).collect(),
                    sources.into_iter().map(Source::Buffers).collect(),
                )
            }
            (false, true) => {
                measured = arrivals.into_iter().map(by_rings).collect();
                let mut departures = departures.drain(..);
                let mut way = |rings, burst| {
                    let departures = departures.next().unwrap_or_default();
                    Way::Rings(Rings::new(rings, burst, info.any, departures))
                };
                let (ways, rings) = by_pair(senders.len(), receivers.len(), layout.capacity);
                let burst = match info.kind {
                    EdgeKind::Bounded => info.burst,
                    _ => 0,
                };
                let ring = |ring: spsc::Consumer<M>| Ring {
                    pace: self.pace(id, ring.capacity(), burst.max(1)),
                    ring,
                };
                let source = |rings: Vec<_>| Source::Rings(own_vec(rings.into_iter().map(ring)));
                (
                    ways.into_iter().map(|rings| way(rings, burst)).collect(),
                    rings.into_iter().map(source).collect(),
                )
            }
            (false, false) => {
                let (outboxes, inboxes);
                (outboxes, inboxes, measured) = self.by_receiver(
                    id,
                    [senders.len(), receivers.len()],
                    layout.capacity,
                    info.any,
                );
                (
                    outboxes.into_iter().map(Way::Inboxes).collect(),
                    inboxes.into_iter().map(Source::Inbox).collect(),
                )
            }
            (true, true) => {
                let capacity = answers_held(layout.capacity);
                let (ways, rings) = by_pair(senders.len(), receivers.len(), capacity);
                measured = arrivals.into_iter().map(by_rings).collect();
                let mut departures = departures.drain(..);
                let way = |rings| {
                    let departures = departures.next().unwrap_or_default();
                    Way::AnswerRings(Rings::new(rings, 0, false, departures))
                };
                (
                    ways.into_iter().map(way).collect(),
                    rings
                        .into_iter()
                        .map(|rings| Source::AnswerRings(own_vec(rings)))
                        .collect::<Vec<_>>(),
                )
            }
            (true, false) => {
                let capacity = answers_held(layout.capacity);
                let (outboxes, inboxes);
                (outboxes, inboxes, measured) =
                    self.by_receiver(id, [senders.len(), receivers.len()], capacity, false);
                (
                    outboxes
                        .into_iter()
                        .map(Way::AnswerInboxes)
                        .collect::<Vec<_>>(),
                    inboxes.into_iter().map(Source::AnswerInbox).collect(),
                )
            }
        };
        // A sender that needs room at one of them waits in one list for all.
        let lists = if info.any { 1 } else { receivers.len() };
        let waiting = Arc::new(Waiting::new(senders.len(), lists));
        self.add_ins(id, to, sources, measured, &senders, &waiting, make);
        let base = self.first_input(id);
        for (sender, way) in ways.into_iter().enumerate() {
            let note = base + if layout.by_pair { sender } else { 0 };
            assert!(note < INPUTS_MAX, "`Plan::check` limits the inputs");
            let receivers = Receivers::Shards {
                first: u32::try_from(receivers.start).expect("a graph has fewer instances"),
                note: note as u32,
            };
            self.add_out(id, senders.start + sender, sender, way, receivers, &waiting);
        }
    }

    /// Returns when a receiver of an edge returns slots. It returns each before the handler of its
    /// message, if that handler may block, or if the edge carries answers of handlers that may
    /// block.
    ///
    /// Rule 5 of `outlet.rs` needs the second case (see `Instance::look`).
    fn pace(&self, id: usize, capacity: usize, burst: usize) -> Pace {
        let info = &self.shared.edges[id];
        let blocks = |end: End| end.processor().is_some_and(|at| self.shared.blocking[at]);
        let answers = matches!(info.kind, EdgeKind::Reply { .. });
        match blocks(info.to) || (answers && blocks(info.from)) {
            true => Pace::new(1, 1),
            false => Pace::new(capacity, burst),
        }
    }

    /// Returns whether an inbox of an edge wakes as many waiting senders as it has room for, and
    /// not all: see `waiting.rs`.
    fn wakes_by_room(&self, id: usize) -> bool {
        let info = &self.shared.edges[id];
        let from = info.from.processor();
        let blocks = from.is_some_and(|from| self.shared.blocking[from]);
        matches!(info.kind, EdgeKind::Unbounded) && !info.any && !blocks
    }

    /// Returns the number of the first input of an edge at its receivers.
    fn first_input(&self, id: usize) -> usize {
        let edges = self.shared.edges;
        let inputs = |edge: usize| {
            let from = edges[edge].from.processor();
            let senders = from.map_or(1, |from| self.shared.shards_of(from).len());
            self.shared.layout[edge].inputs(senders)
        };
        let before = (0..id).filter(|&edge| edges[edge].to == edges[id].to);
        before.map(inputs).sum()
    }

    /// Makes what measures the rings of an edge: the senders' ends by sender, and the receivers'
    /// by receiver. Both are empty if nothing is measured, or the edge has no rings.
    fn pairs(&self, id: usize, senders: usize, receivers: usize) -> Pairs {
        let info = &self.shared.edges[id];
        let layout = self.shared.layout[id];
        let (mut departures, mut arrivals) = (Vec::new(), Vec::new());
        let by_pair = layout.by_pair || info.to == End::Egress;
        if self.shared.one_in == 0 || info.is_buffered() || !by_pair {
            return (departures, arrivals);
        }
        // Of a ring for answers, which has more slots.
        let capacity = match info.kind {
            EdgeKind::Reply { .. } => answers_held(layout.capacity),
            _ => layout.capacity,
        };
        let capacity = capacity.next_power_of_two();
        arrivals.resize_with(receivers, Vec::new);
        for sender in 0..senders {
            let mut of_sender = Vec::with_capacity(receivers);
            for (receiver, arrivals) in arrivals.iter_mut().enumerate() {
                if let Some(plan) = Plan::new(self.shared.one_in, [id, sender, receiver]) {
                    let (departing, arriving) = stamps(plan, capacity, &self.shared.clock);
                    of_sender.push(departing);
                    arrivals.push(arriving);
                }
            }
            departures.push(of_sender);
        }
        (departures, arrivals)
    }

    /// Makes what chooses among the messages of a sender on all its queues of an edge.
    fn draw(&self, id: usize, sender: usize) -> Option<Draw> {
        let plan = Plan::new(self.shared.one_in, [id, sender, 0])?;
        Some(Draw::new(plan, &self.shared.clock))
    }

    /// Makes an inbox per receiver.
    fn by_receiver<T>(
        &self,
        id: usize,
        [senders, receivers]: [usize; 2],
        capacity: usize,
        any: bool,
    ) -> (Vec<Outbox<T>>, Vec<Receiver<T>>, Vec<Measured>) {
        let to = self.shared.edges[id].to.processor();
        let first = to.map_or(0, |to| self.shared.shards_of(to).start);
        let by_room = self.wakes_by_room(id);
        let (inboxes, consumers) = inboxes(first, receivers, capacity, by_room, |capacity| {
            self.pace(id, capacity, 1)
        });
        let marks = (0..receivers).map_while(|receiver| {
            let plan = Plan::new(self.shared.one_in, [id, 0, receiver])?;
            Some(Marks::new(plan, capacity))
        });
        let marks: Arc<Box<[Marks]>> = Arc::new(marks.collect());
        let outbox = |sender| {
            let measured = self.draw(id, sender).map(|draw| outbox::Measured {
                draw,
                marks: Arc::clone(&marks),
            });
            Outbox::new(Arc::clone(&inboxes), sender, any, measured)
        };
        let measured = (0..marks.len()).map(|receiver| Measured {
            arrivals: Vec::new(),
            marks: Some((Arc::clone(&marks), receiver)),
        });
        (
            (0..senders).map(outbox).collect(),
            consumers,
            measured.collect(),
        )
    }

    /// Adds the receiving halves of an edge. `measured`: per receiver, or empty.
    #[expect(clippy::too_many_arguments, reason = "what an edge is made of")]
    fn add_ins<M: Send + 'static>(
        &mut self,
        id: usize,
        to: usize,
        sources: Vec<Source<M>>,
        measured: Vec<Measured>,
        senders: &core::ops::Range<usize>,
        waiting: &Arc<Waiting>,
        make: Make<M>,
    ) {
        let info = &self.shared.edges[id];
        let requests = answers_to(self.shared.edges, id).map(|edge| before(&self.shared, edge));
        let answering = match info.kind {
            EdgeKind::Reply { request } => Some(before(&self.shared, request)),
            _ => None,
        };
        let shards = self.shared.shards_of(to);
        let mut measured = measured.into_iter();
        for ((receiver, shard), source) in shards.enumerate().zip(sources) {
            let parts = &mut self.parts[shard];
            parts.waits.push(Waits::of(self.shared.edges, id));
            let first_input = parts.routes.len();
            match &source {
                Source::Door(..) => parts.routes.push(Route::Outside),
                Source::Rings(_) | Source::AnswerRings(_) | Source::Buffers(_) => {
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
                first_input,
            };
            let measured = measured.next().unwrap_or_default();
            #[cfg(feature = "testing")]
            if self.alone.is_some_and(|alone| alone != shard) {
                let tap: Box<dyn Tap> = Box::new(Intake::new(place, source, measured));
                parts.ins.push(Box::new(tap));
                continue;
            }
            parts.ins.push(make(Intake::new(place, source, measured)));
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
            let answers = self.shared.layout[answers];
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
            passes_on: matches!(way, Way::Inboxes(_)) && self.wakes_by_room(id),
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

    fn ingress<M: Send + 'static>(&mut self, id: usize, make: Make<M>) {
        let info = &self.shared.edges[id];
        let to = processor(info.to);
        let capacity = match info.kind {
            EdgeKind::Unbounded => info.ceiling,
            _ => self.shared.layout[id].capacity,
        };
        let receivers = self.shared.shards_of(to);
        let doors: Vec<_> = (0..receivers.len())
            .map(|receiver| {
                let plan = Plan::new(self.shared.one_in, [id, 0, receiver]);
                let draw = plan.map(|plan| SharedDraw::new(plan, &self.shared.clock));
                Arc::new(Door::<M>::of(
                    capacity,
                    Arc::clone(&self.shared.ending),
                    draw,
                ))
            })
            .collect();
        let closer = |door: &Arc<Door<M>>| Box::new(Arc::clone(door)) as Box<dyn AnyDoor>;
        self.outside.closers[id].extend(doors.iter().map(closer));
        let pace = self.pace(id, capacity, 1);
        let source = |door: &Arc<Door<M>>| Source::Door(Arc::clone(door), pace);
        let sources = doors.iter().map(source).collect();
        let first = receivers.start;
        let deaths = Arc::clone(&self.shared.deaths);
        let waiting = Arc::new(Waiting::new(0, receivers.len()));
        self.add_ins(id, to, sources, Vec::new(), &(0..0), &waiting, make);
        self.outside.doors[id] = Some(Box::new(Arc::new(Doors {
            doors,
            first,
            deaths,
        })));
    }

    fn egress<M: Send + 'static>(&mut self, id: usize) {
        let info = &self.shared.edges[id];
        let senders = self.shared.shards_of(processor(info.from));
        let burst = match info.kind {
            EdgeKind::Bounded => info.burst,
            _ => 0,
        };
        let measures = self.shared.one_in > 0;
        let waiting = Arc::new(Waiting::new(senders.len(), info.lanes));
        let lane = |number| {
            let ending = Arc::clone(&self.shared.ending);
            let lists = (Arc::clone(&waiting), number);
            Arc::new(Lane::of(senders.len(), ending, lists, measures))
        };
        let lanes: Vec<Arc<Lane>> = (0..info.lanes).map(lane).collect();
        let (ways, rings) =
            by_pair::<M>(senders.len(), info.lanes, self.shared.layout[id].capacity);
        let (departures, arrivals) = self.pairs(id, senders.len(), info.lanes);
        let (mut departures, mut arrivals) = (departures.into_iter(), arrivals.into_iter());
        for (rings, lane) in rings.into_iter().zip(&lanes) {
            let measured = arrivals.next().map(|arrivals| egress::Measured {
                clock: self.shared.clock.clone(),
                arrivals,
            });
            self.outside.receivers[id].push(Some(Box::new(LaneParts {
                rings: rings.into_iter().map(LaneRing::new).collect(),
                lane: Arc::clone(lane),
                first: senders.start,
                burst: burst.max(1),
                lost: {
                    let shared = Arc::clone(&self.shared);
                    Arc::new(Box::new(move |lost| shared.count_undelivered(id, lost)))
                },
                measured,
            })));
        }
        for (slot, rings) in ways.into_iter().enumerate() {
            let receivers = Receivers::Lanes(Box::new(outlet::Lanes {
                lanes: lanes.clone(),
                slot,
            }));
            let departures = departures.next().unwrap_or_default();
            let way = Way::Rings(Rings::new(rings, burst, false, departures));
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

/// The senders' ends of what measures rings, by sender and receiver, and the receivers' ends, by
/// receiver and sender.
type Pairs = (Vec<Vec<Departures>>, Vec<Vec<Arrivals>>);

/// The processors that were given to the builder, in order.
pub struct Given<G> {
    pub(crate) nodes: Nodes,
    graph: PhantomData<fn(G)>,
}

/// The same without the type of the graph.
pub(crate) struct Nodes {
    pub(crate) wire: Wire,
    nodes: Vec<Box<dyn AnyNode>>,
}

/// A `Factory` of some processor.
pub(crate) type AnyFactory = Box<dyn Any + Send>;

/// The instances of one processor whose type is not known.
trait AnyNode: Send {
    fn count(&self) -> usize;
    /// Joins the next instance and what was wired for it.
    fn join_next(
        &mut self,
        parts: Parts,
        core: Core,
        batch: Batch,
        factory: Option<&AnyFactory>,
    ) -> Box<dyn AnyInstance>;
}

struct Instances<G, P> {
    left: IntoIter<P>,
    graph: PhantomData<fn(G)>,
}

impl<G: Graph, P: Process<G>> AnyNode for Instances<G, P> {
    fn count(&self) -> usize {
        self.left.len()
    }

    fn join_next(
        &mut self,
        parts: Parts,
        core: Core,
        batch: Batch,
        factory: Option<&AnyFactory>,
    ) -> Box<dyn AnyInstance> {
        let Some(processor) = self.left.next() else {
            unreachable!("there is a shard per instance");
        };
        let factory = factory.and_then(|factory| factory.downcast_ref::<Factory<P>>());
        join::<G, P>(processor, parts, core, batch, factory.cloned())
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
    core.fit(parts.outs, parts.waits);
    Box::new(Instance::<G, P>::new(
        processor, parts.ins, core, batch, factory,
    ))
}

impl<G: Wired> Given<G> {
    /// Begins with no processor.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self {
            nodes: Nodes {
                wire: G::wire,
                nodes: Vec::new(),
            },
            graph: PhantomData,
        }
    }
}

impl<G: Graph> Given<G> {
    /// Adds a processor with one instance.
    pub fn one<P: Process<G>>(&mut self, processor: P) {
        self.add(Vec::from([processor]));
    }

    /// Adds a processor with replicas.
    pub fn many<P: Process<G>>(&mut self, replicas: impl Iterator<Item = P>) {
        self.add(replicas.collect::<Vec<P>>());
    }

    fn add<P: Process<G>>(&mut self, replicas: Vec<P>) {
        let instances = Instances::<G, P> {
            left: replicas.into_iter(),
            graph: PhantomData,
        };
        self.nodes.nodes.push(Box::new(instances));
    }
}

impl Nodes {
    /// Returns the number of instances of each processor.
    pub(crate) fn counts(&self) -> Vec<usize> {
        self.nodes.iter().map(|node| node.count()).collect()
    }

    /// Joins the processors and what was wired for them.
    pub(crate) fn assemble(
        self,
        shared: &Arc<Shared>,
        parts: Vec<Parts>,
        batches: &[Batch],
        factories: &[Option<AnyFactory>],
    ) -> Vec<Box<dyn AnyInstance>> {
        let mut instances = Vec::with_capacity(parts.len());
        let mut nodes = self.nodes;
        for (shard, parts) in parts.into_iter().enumerate() {
            let node = shared.instance(shard).0;
            let core = Core::new(shared, shard);
            let factory = factories[node].as_ref();
            instances.push(nodes[node].join_next(parts, core, batches[node], factory));
        }
        instances
    }
}
