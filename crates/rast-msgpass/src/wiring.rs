//! Making the rings, doors and lanes of a graph.
//!
//! `graph!` calls [`Wiring::edge`] once per edge, in order, with its types.
//! For an edge from `n` to `m` instances it makes `n * m` rings, and lays each
//! half with the instance that will own it:
//!
//! ```text
//!              instance 0 of To      instance 1 of To
//!   From 0     ring 0→0              ring 0→1            outs[0] = one target per To
//!   From 1     ring 1→0              ring 1→1            ins[0]  = one ring per From
//! ```

use std::any::Any;

use crate::cx::Core;
use crate::egress::{AnyLaneParts, Lane, LaneParts};
use crate::graph::{Edge, EdgeKind, End, Graph};
use crate::ingress::{AnyDoor, Door, Doors};
use crate::inlet::{In, Inlet, Place, Source};
use crate::instance::{AnyInstance, Instance, Settings};
use crate::outlet::{Out, Outlet, Receiver, Target, answers_held};
use crate::primitive::sync::Arc;
use crate::process::{Process, Receive};
use crate::queue::spsc;
use crate::sharder::ShardId;
use crate::shared::Shared;

/// What is made for one instance before its processor joins it.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) outs: Vec<Box<dyn Outlet>>,
    /// Each holds a `Box<dyn Inlet<G, P>>` of the instance's own types.
    pub(crate) ins: Vec<Box<dyn Any + Send>>,
    /// Per ring of all inlets: the shard that sends into it.
    pub(crate) routes: Vec<Option<ShardId>>,
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
}

/// Returns the edge that answers the requests of `edge`, if one does.
fn answering_edge(shared: &Shared, edge: usize) -> Option<usize> {
    let answers = EdgeKind::Reply { request: edge };
    shared.edges.iter().position(|other| other.kind == answers)
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
        let answers = answering_edge(&self.shared, id);
        let place = |index| Place {
            edge: id,
            index,
            requests: answers.map(|edge| before(&self.shared, edge)),
            answering: match info.kind {
                EdgeKind::Reply { request } => Some(before(&self.shared, request)),
                EdgeKind::Bounded | EdgeKind::Unbounded => None,
            },
            first: senders.start,
            burst: info.burst,
        };
        let mut targets: Vec<Vec<Target<M>>> = senders.clone().map(|_| Vec::new()).collect();
        for shard in receivers {
            let receiver = || Receiver::Shard(ShardId::from_index(shard));
            let source = if matches!(info.kind, EdgeKind::Reply { .. }) {
                let mut rings = Vec::new();
                for targets in &mut targets {
                    let (producer, consumer) = spsc::ring(answers_held(info.capacity));
                    targets.push(Target::reply(producer, receiver()));
                    rings.push(consumer);
                }
                Source::Replies(rings)
            } else {
                let mut rings = Vec::new();
                for targets in &mut targets {
                    let (producer, consumer) = spsc::ring(info.capacity);
                    targets.push(Target::plain(producer, receiver()));
                    rings.push(consumer);
                }
                Source::Rings(rings)
            };
            let parts = &mut self.parts[shard];
            parts
                .routes
                .extend(senders.clone().map(|from| Some(ShardId::from_index(from))));
            let inlet = In::<G, F, M>::new(place(parts.ins.len()), source);
            let inlet: Box<dyn Inlet<G, T>> = Box::new(inlet);
            parts.ins.push(Box::new(inlet));
        }
        let credit = answers.map(|edge| self.shared.edges[edge].capacity);
        for (shard, targets) in senders.zip(targets) {
            self.add_out(id, shard, targets, credit);
        }
    }

    fn add_out<M: Send + 'static>(
        &mut self,
        id: usize,
        shard: usize,
        targets: Vec<Target<M>>,
        credit: Option<usize>,
    ) {
        let outs = &mut self.parts[shard].outs;
        debug_assert_eq!(
            outs.len(),
            before(&self.shared, id),
            "outlets stand in order"
        );
        let shared = Arc::clone(&self.shared);
        let out = Out::new(shared, id, outs.len(), shard, targets, credit);
        outs.push(Box::new(out));
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
            EdgeKind::Unbounded => usize::MAX,
            EdgeKind::Bounded | EdgeKind::Reply { .. } => info.capacity,
        };
        let receivers = self.shared.shards_of(to);
        let first = receivers.start;
        let mut doors = Vec::new();
        for shard in receivers {
            let door = Arc::new(Door::<M>::new(capacity));
            self.outside.closers[id].push(Box::new(Arc::clone(&door)));
            doors.push(Arc::clone(&door));
            let parts = &mut self.parts[shard];
            parts.routes.push(None);
            let place = Place {
                edge: id,
                index: parts.ins.len(),
                requests: None,
                answering: None,
                first,
                burst: 1,
            };
            let inlet = In::<G, F, M>::new(place, Source::Door(door));
            let inlet: Box<dyn Inlet<G, T>> = Box::new(inlet);
            parts.ins.push(Box::new(inlet));
        }
        self.outside.doors[id] = Some(Box::new(Arc::new(Doors { doors, first })));
    }

    fn egress<M: Send + 'static>(&mut self, id: usize, from: usize) {
        let info = &self.shared.edges[id];
        let senders = self.shared.shards_of(from);
        let mut targets: Vec<Vec<Target<M>>> = senders.clone().map(|_| Vec::new()).collect();
        for _ in 0..info.lanes {
            let lane = Arc::new(Lane::new(senders.len()));
            let mut rings = Vec::new();
            for (slot, targets) in targets.iter_mut().enumerate() {
                let (producer, consumer) = spsc::ring(info.capacity);
                let lane = Arc::clone(&lane);
                targets.push(Target::plain(producer, Receiver::Lane { lane, slot }));
                rings.push(consumer);
            }
            self.outside.lanes[id].push(Arc::clone(&lane));
            self.outside.receivers[id].push(Some(Box::new(LaneParts {
                rings,
                lane,
                first: senders.start,
                burst: info.burst,
            })));
        }
        for (shard, targets) in senders.zip(targets) {
            self.add_out(id, shard, targets, None);
        }
    }
}

/// The processors that were given to the builder, in order.
pub struct Given<G> {
    nodes: Vec<Box<dyn Node<G>>>,
}

/// The instances of one processor whose type is not known.
trait Node<G>: Send {
    fn count(&self) -> usize;
    fn assemble(
        self: Box<Self>,
        parts: Vec<Parts>,
        cores: Vec<Core>,
        settings: Settings,
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
        settings: Settings,
    ) -> Vec<Box<dyn AnyInstance>> {
        let mut instances: Vec<Box<dyn AnyInstance>> = Vec::new();
        for ((processor, parts), mut core) in self.0.into_iter().zip(parts).zip(cores) {
            let ins = parts.ins.into_iter().map(|inlet| {
                let inlet: Box<Box<dyn Inlet<G, P>>> = inlet
                    .downcast()
                    .expect("an inlet is made for its processor");
                *inlet
            });
            let ins = ins.collect();
            core.outs = parts.outs;
            instances.push(Box::new(Instance::<G, P>::new(
                processor, ins, core, settings,
            )));
        }
        instances
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
        settings: Settings,
    ) -> Vec<Box<dyn AnyInstance>> {
        let mut parts = parts.into_iter();
        let mut instances = Vec::new();
        for (node, given) in self.nodes.into_iter().enumerate() {
            let shards = shared.shards_of(node);
            let parts = parts.by_ref().take(shards.len()).collect();
            let cores = shards.enumerate().map(|(replica, shard)| Core {
                shared: Arc::clone(shared),
                shard,
                node,
                replica,
                outs: Vec::new(),
                invocation: 0,
                sender: 0,
                overdrawn: false,
                stop: false,
                retired: false,
            });
            instances.extend(given.assemble(parts, cores.collect(), settings));
        }
        instances
    }
}
