//! What a builder was told, and how a graph is made of it, without the type of the graph. So this
//! code is compiled once, and not per graph.

use core::time::Duration;

use crate::batch::Batch;
use crate::blocking::{Places, Reserved};
use crate::build_error::BuildError;
use crate::clock::GraphClock;
use crate::graph::{EdgeKind, End, Tables};
#[cfg(feature = "testing")]
use crate::handle::Run;
use crate::inbox::INPUTS_MAX;
use crate::policy::{OnPanic, Policy};
use crate::primitive::sync::Arc;
use crate::primitive::{WaitStrategy, thread};
use crate::runtime::Runtime;
use crate::sharder::{self, Balancer, Greedy, Park, Sharder, WorkerId};
use crate::shared::{Hooks, Layout, Shared};
#[cfg(feature = "testing")]
use crate::testing::Driver;
#[cfg(feature = "testing")]
use crate::timers::ManualClock;
use crate::timers::MonotonicClock;
use crate::wiring::{AnyFactory, Nodes, Outside, Wiring};

/// The choices of a [`Builder`](crate::Builder).
pub(crate) struct Plan {
    pub(crate) tables: Tables,
    nodes: Nodes,
    pub(crate) workers: Option<usize>,
    pub(crate) period: Duration,
    pub(crate) balancer: Box<dyn Balancer>,
    pub(crate) wait: WaitStrategy,
    pub(crate) batch: Batch,
    /// Of single processors.
    pub(crate) batches: Vec<(usize, Batch)>,
    pub(crate) on_panic: OnPanic,
    /// Of single processors.
    pub(crate) policies: Vec<(usize, Policy, Option<AnyFactory>)>,
    pub(crate) hooks: Hooks,
    pub(crate) clock: Option<GraphClock>,
    pub(crate) park: Option<Parks>,
    /// Processor, replica, worker.
    pub(crate) pins: Vec<(usize, usize, usize)>,
    /// Processors that may block, each with its number of workers.
    pub(crate) blocking: Vec<(usize, usize)>,
    pub(crate) on_worker_start: Option<OnWorkerStart>,
    #[cfg(feature = "affinity")]
    pub(crate) pins_threads: bool,
}

/// Makes what a worker sleeps in.
type Parks = Box<dyn FnMut(WorkerId) -> Box<dyn Park> + Send>;

/// What each worker calls first.
type OnWorkerStart = Box<dyn Fn(WorkerId) + Send + Sync>;

impl Plan {
    /// Begins with the defaults.
    pub(crate) fn new(tables: Tables, nodes: Nodes) -> Self {
        Self {
            tables,
            nodes,
            workers: None,
            period: Duration::from_millis(100),
            balancer: Box::new(Greedy::new()),
            wait: WaitStrategy::default(),
            batch: Batch::messages(64),
            batches: Vec::new(),
            on_panic: OnPanic::default(),
            policies: Vec::new(),
            hooks: Hooks::default(),
            clock: None,
            park: None,
            pins: Vec::new(),
            blocking: Vec::new(),
            on_worker_start: None,
            #[cfg(feature = "affinity")]
            pins_threads: false,
        }
    }

    /// Makes a graph without a thread, and what gives its turns by `seed`.
    #[cfg(feature = "testing")]
    pub(crate) fn test(mut self, seed: u64) -> Result<(Run, Driver), BuildError> {
        self.check()?;
        self.blocking.clear();
        let clock = ManualClock::new();
        self.clock = Some(GraphClock::new(clock.clone()));
        self.period = Duration::ZERO;
        self.workers = self.workers.or(Some(1));
        #[cfg(feature = "affinity")]
        {
            self.pins_threads = false;
        }
        let batches = self.batches_by_node();
        let (shared, sharder, outside) = self.assemble()?;
        let stepper = sharder.stepper();
        let run = Run::new(Arc::clone(&shared), stepper.handle(), outside);
        let batches = batches.iter().map(|batch| batch.messages).collect();
        Ok((run, Driver::new(shared, stepper, clock, batches, seed)))
    }

    /// Returns what ends the batches of each processor.
    fn batches_by_node(&self) -> Vec<Batch> {
        let mut batches = vec![self.batch; self.tables.processors.len()];
        for &(node, _) in &self.blocking {
            batches[node] = Batch::messages(1);
        }
        for &(node, batch) in &self.batches {
            batches[node] = batch;
        }
        batches
    }

    /// Makes all that runs.
    pub(crate) fn assemble(self) -> Result<(Arc<Shared>, Sharder<Runtime>, Outside), BuildError> {
        self.check()?;
        let counts = self.nodes.counts();
        let places = Places::new(&counts, &self.blocking, self.worker_count());
        let workers = places.workers();
        let batches = self.batches_by_node();
        let mut policies = vec![Policy::Plain(self.on_panic); self.tables.processors.len()];
        let mut factories: Vec<Option<AnyFactory>> =
            self.tables.processors.iter().map(|_| None).collect();
        for (node, policy, factory) in self.policies {
            (policies[node], factories[node]) = (policy, factory);
        }
        let shared = Shared::new(
            self.tables,
            workers,
            policies,
            self.hooks,
            (self.clock.clone()).unwrap_or_else(|| GraphClock::System(MonotonicClock::new())),
            &counts,
            &self.blocking,
        );
        let Wiring {
            mut parts, outside, ..
        } = Wiring::new(Arc::clone(&shared), self.nodes.wire);
        let routes = parts
            .iter_mut()
            .map(|parts| core::mem::take(&mut parts.routes))
            .collect();
        let instances = self.nodes.assemble(&shared, parts, &batches, &factories);
        let runtime = Runtime {
            shared: Arc::clone(&shared),
            routes,
        };
        let mut builder = Sharder::builder(runtime)
            .shards(instances)
            .workers(workers)
            .period(self.period)
            .wait(self.wait)
            .name(format!("rast-{}", self.tables.name));
        if let Some(clock) = self.clock {
            builder = builder.clock(clock);
        }
        if let Some(hook) = self.on_worker_start {
            builder = builder.on_worker_start(hook);
        }
        #[cfg(feature = "affinity")]
        if self.pins_threads {
            builder = builder.pin_threads();
        }
        if let Some(park) = self.park {
            builder = builder.park(park);
        }
        let pins = self.pins.into_iter().map(|(node, replica, worker)| {
            let shard = shared.shard_of(node, replica);
            (shard, WorkerId::from_index(worker))
        });
        let pins: Vec<_> = pins.collect();
        let mut balancer = self.balancer;
        if !self.blocking.is_empty() {
            balancer = Box::new(Reserved::new(balancer, places.clone(), &pins));
            builder = builder.assignment(places.first());
        }
        for worker in places.dedicated_workers() {
            builder = builder.dedicate(worker);
        }
        for (shard, worker) in pins.into_iter().chain(places.pins()) {
            builder = builder.pin(shard, worker);
        }
        let sharder = builder.balancer(balancer).build();
        let sharder = sharder.map_err(BuildError::Sharder)?;
        Ok((shared, sharder, outside))
    }

    /// Returns what is wrong with it, if anything is.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let counts = self.nodes.counts();
        for (processor, &given) in self.tables.processors.iter().zip(&counts) {
            let (least, most) = (processor.replicas, processor.replicas_max);
            if given < least || given > most {
                return Err(BuildError::Replicas {
                    processor: processor.name,
                    least,
                    most,
                    given,
                });
            }
        }
        let layout = Layout::of_all(self.tables.edges, &counts);
        let mut inputs = vec![0_usize; counts.len()];
        for (edge, layout) in self.tables.edges.iter().zip(&layout) {
            if let End::Processor(to) = edge.to {
                let senders = edge.from.processor().map_or(1, |from| counts[from]);
                inputs[to] = inputs[to].saturating_add(layout.inputs(senders));
            }
        }
        for (processor, &inputs) in self.tables.processors.iter().zip(&inputs) {
            if inputs > INPUTS_MAX {
                let processor = processor.name;
                return Err(BuildError::Inputs { processor, inputs });
            }
        }
        for (edge, layout) in self.tables.edges.iter().zip(&layout) {
            let (EdgeKind::Bounded, false, End::Processor(from)) =
                (edge.kind, layout.by_pair, edge.from)
            else {
                continue;
            };
            let least = counts[from].saturating_mul(edge.burst).saturating_add(1);
            if layout.capacity < least || least == usize::MAX {
                return Err(BuildError::Inbox { edge, least });
            }
        }
        if self.workers == Some(0) {
            return Err(BuildError::NoWorkers);
        }
        let mut batches = self.batches.iter().map(|(_, batch)| batch);
        if self.batch.messages == 0 || batches.any(|batch| batch.messages == 0) {
            return Err(BuildError::NoBatch);
        }
        for &(node, threads) in &self.blocking {
            let (processor, given) = (self.tables.processors[node].name, counts[node]);
            if threads == 0 || threads > given {
                return Err(BuildError::Blocking {
                    processor,
                    threads,
                    given,
                });
            }
            if self.pins.iter().any(|&(pinned, ..)| pinned == node) {
                return Err(BuildError::PinnedBlocking { processor });
            }
        }
        for (node, policy, _) in &self.policies {
            if matches!(policy, Policy::Restart(restart) if restart.counts_none()) {
                let processor = self.tables.processors[*node].name;
                return Err(BuildError::RestartWindow { processor });
            }
        }
        let workers = self.worker_count();
        let dedicated: usize = self.blocking.iter().map(|(_, threads)| threads).sum();
        if workers + dedicated > sharder::MAX_WORKERS {
            let cause = sharder::BuildError::TooManyWorkers(workers + dedicated);
            return Err(BuildError::Sharder(cause));
        }
        for &(node, replica, worker) in &self.pins {
            let (processor, given) = (self.tables.processors[node].name, counts[node]);
            if replica >= given {
                return Err(BuildError::NoReplica {
                    processor,
                    replica,
                    given,
                });
            }
            if worker >= workers {
                return Err(BuildError::NoWorker {
                    processor,
                    replica,
                    worker,
                    workers,
                });
            }
        }
        Ok(())
    }

    /// Returns how many workers there will be for processors that do not block.
    fn worker_count(&self) -> usize {
        let blocks = |node: &usize| self.blocking.iter().any(|(blocked, _)| blocked == node);
        let counts = self.nodes.counts().into_iter().enumerate();
        let counts = counts.filter(|(node, _)| !blocks(node));
        let shards = counts.map(|(_, count)| count).sum();
        self.workers
            .unwrap_or_else(thread::available_parallelism)
            .min(shards)
    }
}
