//! Setting a graph up and starting it.

use core::fmt;
use core::time::Duration;
use std::any::Any;
use std::io;

use crate::batch::Batch;
use crate::blocking::{Places, Reserved};
use crate::clock::GraphClock;
use crate::graph::{EdgeInfo, EdgeKind, End, Graph, Node};
use crate::handle::{Handle, Run};
use crate::policy::{Factory, Failure, OnPanic, Policy, Restart};
use crate::primitive::sync::Arc;
use crate::primitive::{WaitStrategy, thread};
use crate::process::Process;
use crate::runtime::Runtime;
use crate::sharder::{self, Balancer, Greedy, Park, ShardId, Sharder, WorkerId};
use crate::shared::{Hooks, Layout, Shared};
#[cfg(feature = "testing")]
use crate::testing::TestGraph;
#[cfg(feature = "testing")]
use crate::timers::ManualClock;
use crate::timers::{Clock, MonotonicClock};
use crate::wiring::{AnyFactory, Given, Outside, Wiring};

/// Sets up a graph; made by `builder(..)` of the graph's type.
///
/// # Examples
///
/// ```
/// use rast_msgpass::{Cx, Ingress, Process, Receive, graph};
///
/// struct Sink(u64);
/// impl Process<App> for Sink {}
/// impl Receive<App, Ingress, u64> for Sink {
///     fn receive(&mut self, number: u64, _: &mut Cx<'_, App, Self>) {
///         self.0 += number;
///     }
/// }
///
/// graph! {
///     graph App {
///         processors { sink: Sink }
///         edges { ingress -> sink: u64; }
///     }
/// }
///
/// let app = App::builder(Sink(0)).workers(1).start().unwrap();
/// let numbers = app.ingress::<Sink, u64>();
/// for number in 0..10 {
///     numbers.send(number).unwrap();
/// }
/// let report = app.drain(std::time::Duration::from_secs(5)).unwrap();
/// assert_eq!(report.received_total(), 10);
/// ```
pub struct Builder<G: Graph> {
    given: Given<G>,
    workers: Option<usize>,
    period: Duration,
    balancer: Box<dyn Balancer>,
    wait: WaitStrategy,
    batch: Batch,
    /// Of single processors.
    batches: Vec<(usize, Batch)>,
    on_panic: OnPanic,
    /// Of single processors.
    policies: Vec<(usize, Policy, Option<AnyFactory>)>,
    hooks: Hooks,
    clock: Option<GraphClock>,
    park: Option<Parks>,
    /// Processor, replica, worker.
    pins: Vec<(usize, usize, usize)>,
    /// Processors that may block, each with its number of workers.
    blocking: Vec<(usize, usize)>,
    on_worker_start: Option<OnWorkerStart>,
    #[cfg(feature = "affinity")]
    pins_threads: bool,
}

/// Makes what a worker sleeps in.
type Parks = Box<dyn FnMut(WorkerId) -> Box<dyn Park> + Send>;

/// What each worker calls first.
type OnWorkerStart = Box<dyn Fn(WorkerId) + Send + Sync>;

/// The reason why a graph was not started.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A processor was given another number of replicas than is declared.
    Replicas {
        /// The name of the processor in `graph!`.
        processor: &'static str,
        /// The minimum number.
        least: usize,
        /// The maximum number; `usize::MAX` if it was declared as `[Type; _]`.
        most: usize,
        /// The number given.
        given: usize,
    },
    /// [`Builder::pin`] names a replica that the processor has not.
    NoReplica {
        /// The name of the processor in `graph!`.
        processor: &'static str,
        /// The number of the replica.
        replica: usize,
        /// The number of replicas given.
        given: usize,
    },
    /// An inbox holds less than one burst of each of its senders and one message
    /// more, so that they could hold each other up.
    Inbox {
        /// The edge.
        edge: &'static EdgeInfo,
        /// The least capacity.
        least: usize,
    },
    /// [`Builder::blocking`] was given no thread, or more threads than there are replicas.
    Blocking {
        /// The name of the processor in `graph!`.
        processor: &'static str,
        /// The number of threads.
        threads: usize,
        /// The number of replicas given.
        given: usize,
    },
    /// [`Builder::pin`] names a replica of a processor that [blocks](Builder::blocking) on
    /// workers of its own.
    PinnedBlocking {
        /// The name of the processor in `graph!`.
        processor: &'static str,
    },
    /// A [`Restart`] has a limit within a time of zero, in which no restart would count.
    RestartWindow {
        /// The name of the processor in `graph!`.
        processor: &'static str,
    },
    /// `workers(0)`.
    NoWorkers,
    /// `batch(0)`.
    NoBatch,
    /// The sharder refused its part.
    Sharder(sharder::BuildError),
    /// The thread of the first worker could not be started.
    Thread(io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replicas {
                processor,
                least,
                most,
                given,
            } => {
                write!(f, "processor `{processor}` is declared with ")?;
                match (*least, *most) {
                    (least, usize::MAX) => write!(f, "at least {least}")?,
                    (least, most) if least == most => write!(f, "{least}")?,
                    (least, most) => write!(f, "{least} to {most}")?,
                }
                write!(f, " replicas and was given {given}")
            }
            Self::NoReplica {
                processor,
                replica,
                given,
            } => write!(
                f,
                "processor `{processor}` was given {given} replicas, so replica {replica} cannot \
                 be pinned"
            ),
            Self::Inbox { edge, least } => write!(
                f,
                "the edge {edge} has an inbox per receiver with room for {}; \
                 its senders need at least {least}: declare `cap = {least}`",
                edge.capacity
            ),
            Self::Blocking {
                processor,
                threads,
                given,
            } => write!(
                f,
                "processor `{processor}` was given {given} replicas and blocks on {threads} \
                 threads: give it from 1 to {given} threads"
            ),
            Self::PinnedBlocking { processor } => write!(
                f,
                "processor `{processor}` blocks on workers of its own, so no replica of it can be \
                 pinned: remove `pin` or `blocking`"
            ),
            Self::RestartWindow { processor } => write!(
                f,
                "the restarts of processor `{processor}` are limited within a time of zero, in \
                 which none counts: give `limit` a longer time, or use `without_limit`"
            ),
            Self::NoWorkers => f.write_str("a graph needs one worker at least"),
            Self::NoBatch => f.write_str("a batch holds one message at least"),
            Self::Sharder(error) => write!(f, "the sharder refused: {error}"),
            Self::Thread(error) => write!(f, "no thread for the first worker: {error}"),
        }
    }
}

impl core::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Sharder(error) => Some(error),
            Self::Thread(error) => Some(error),
            _ => None,
        }
    }
}

impl<G: Graph> Builder<G> {
    /// Begins from the processors.
    #[doc(hidden)]
    #[must_use]
    pub fn new(given: Given<G>) -> Self {
        Self {
            given,
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

    /// Sets the number of worker threads; by default what the machine runs in
    /// parallel. Never more than there are instances. Those of [`blocking`](Self::blocking)
    /// are in addition.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets how often the assignment is decided anew (100 ms); zero means
    /// only on [`Handle::reshard`].
    #[must_use]
    pub fn period(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Sets what decides the assignment ([`Greedy`]).
    #[must_use]
    pub fn balancer(mut self, balancer: impl Balancer + 'static) -> Self {
        self.balancer = Box::new(balancer);
        self
    }

    /// Sets how workers wait for work.
    #[must_use]
    pub fn wait(mut self, wait: WaitStrategy) -> Self {
        self.wait = wait;
        self
    }

    /// Sets what each worker sleeps in; called for each in [`start`](Self::start). Default: a
    /// condition of the system.
    ///
    /// It wakes an instance by its [`shard_of`](crate::shard_of), which is pinged then if it
    /// asked for [`Next::Woken`](crate::Next::Woken).
    #[must_use]
    pub fn park<P: Park>(mut self, mut park: impl FnMut(WorkerId) -> P + Send + 'static) -> Self {
        self.park = Some(Box::new(move |worker| Box::new(park(worker))));
        self
    }

    /// Sets the clock of the graph: of [`Cx::now`](crate::Cx::now), timers, pings, loads and the
    /// sharder. Sleeps are in real time: a test that moves a clock by hand calls
    /// [`Handle::look_at_clock`]. Default: the system's monotonic clock.
    ///
    /// If the clock panics, the time that it returned last is used in place of the one that is
    /// missing, and the report names the panic. Costs a store per reading.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Self {
        self.clock = Some(GraphClock::new(clock));
        self
    }

    /// Keeps a replica of processor `P` at a worker from the start to the end.
    ///
    /// # Panics
    ///
    /// When `P` is declared with so few replicas. Where the builder gets the number,
    /// [`check`](Self::check) fails.
    #[must_use]
    pub fn pin<P>(mut self, replica: usize, worker: usize) -> Self
    where
        G: Node<P>,
    {
        let node = <G as Node<P>>::ID;
        let most = G::PROCESSORS[node].replicas_max;
        assert!(
            replica < most,
            "graph `{}` has {most} of `{}`, so there is no replica {replica}",
            G::NAME,
            <G as Node<P>>::TYPE_NAME,
        );
        self.pins.push((node, replica, worker));
        self
    }

    /// Runs the replicas of `P` on `threads` workers of their own, so that its handlers may block:
    /// on a file, a lock, or a channel. The last call for `P` counts.
    ///
    /// These workers come after those of [`workers`](Self::workers), and run nothing else. Each
    /// has the same replicas from the start to the end; no [balancer](Self::balancer) sees them.
    /// While a handler blocks, the other replicas at its worker wait, and no other processor. A
    /// turn of `P` handles one message of each edge, unless [`batch_of`](Self::batch_of) says
    /// otherwise. A message leaves its queue before its handler runs, so a sender that waits for
    /// the room does not wait for the handler.
    ///
    /// What a handler sends is on its way when it has returned, except if the queue to the receiver
    /// is full: on an `unbounded` edge, or on an edge with inboxes that other senders have filled.
    /// Messages for which there is no room wait in the sender. They leave between two of its
    /// handlers, once the receiver has made room, at most one
    /// [capacity](crate::EdgeInfo::capacity) at a time. So a handler must not block until its
    /// receiver has handled messages of such an edge, unless the queue holds all that are on their
    /// way. An answer always has room: its client returns a slot, with a fence, per answer.
    ///
    /// A drain and a stop wait for the handler that is running, so one that never returns keeps the
    /// graph from its end. A resharding waits for no handler of `P`: these workers take no part in
    /// it.
    /// If there are more workers than cores, those without work sleep at once, as under
    /// `WaitStrategy::Park`.
    ///
    /// In a `TestGraph` it is a processor like any other.
    ///
    /// ```
    /// use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, graph};
    /// use std::path::PathBuf;
    ///
    /// struct Disk;
    /// graph! {
    ///     graph App {
    ///         processors { disk: [Disk; 2] }
    ///         edges { ingress -> disk: PathBuf; disk -> egress: Option<String>; }
    ///     }
    /// }
    /// impl Process<App> for Disk {}
    /// impl Receive<App, Ingress, PathBuf> for Disk {
    ///     fn receive(&mut self, path: PathBuf, cx: &mut Cx<'_, App, Self>) {
    ///         cx.to::<Egress>().send(std::fs::read_to_string(path).ok());
    ///     }
    /// }
    ///
    /// let app = App::builder([Disk, Disk]).blocking::<Disk>(2).start()?;
    /// let mut texts = app.egress::<Disk, Option<String>>(0);
    /// app.ingress::<Disk, PathBuf>().at(1).send(PathBuf::from("no such file"))?;
    /// assert_eq!(texts.recv(), Ok(None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn blocking<P>(mut self, threads: usize) -> Self
    where
        G: Node<P>,
    {
        let node = <G as Node<P>>::ID;
        self.blocking.retain(|&(blocked, _)| blocked != node);
        self.blocking.push((node, threads));
        self
    }

    /// Has `hook` called on the thread of each worker before its first turn. A panic in it
    /// is listed among [`Report::faults`](crate::Report::faults), and the worker goes on.
    ///
    /// The threads are named `rast-` and the graph's name, those after the first with the
    /// worker's number at the end.
    #[must_use]
    pub fn on_worker_start(mut self, hook: impl Fn(WorkerId) + Send + Sync + 'static) -> Self {
        self.on_worker_start = Some(Box::new(hook));
        self
    }

    /// Makes each worker's thread run on one core only: worker `n` on the `n`-th core that the
    /// process may use, beginning again if there are fewer cores. Where the system refuses, a
    /// thread stays as it is.
    #[cfg(feature = "affinity")]
    #[must_use]
    pub fn pin_threads(mut self) -> Self {
        self.pins_threads = true;
        self
    }

    /// Sets what ends the batch that a processor handles in one turn (64 messages of one
    /// edge): smaller is fairer to the others on the worker.
    #[must_use]
    pub fn batch(mut self, batch: impl Into<Batch>) -> Self {
        self.batch = batch.into();
        self
    }

    /// Sets what ends a batch of processor `P`, as [`batch`](Self::batch) does for all others.
    #[must_use]
    pub fn batch_of<P>(mut self, batch: impl Into<Batch>) -> Self
    where
        G: Node<P>,
    {
        self.batches.push((<G as Node<P>>::ID, batch.into()));
        self
    }

    /// Sets what becomes of a processor whose handler panicked, where
    /// [`on_panic_of`](Self::on_panic_of) and [`restart`](Self::restart) say nothing else.
    #[must_use]
    pub fn on_panic(mut self, policy: OnPanic) -> Self {
        self.on_panic = policy;
        self
    }

    /// Sets what becomes of a replica of `P` whose handler panicked. The last call for `P`
    /// counts.
    #[must_use]
    pub fn on_panic_of<P>(mut self, policy: OnPanic) -> Self
    where
        G: Node<P>,
    {
        let node = <G as Node<P>>::ID;
        self.policies.push((node, Policy::Plain(policy), None));
        self
    }

    /// If a handler of `P` panics, drops its replica and replaces it by what `factory` makes of its
    /// number, as often as `restart` allows. The last call for `P` counts.
    ///
    /// Queued messages, timers and what the instance [watches](crate::Cx::watch) are kept for the
    /// next processor; [`ReplyTo`](crate::ReplyTo) tokens in the state are dropped, which waives
    /// their requests. The factory runs on a worker, so it should return soon. A panic of it counts
    /// as one of the processor.
    ///
    /// ```
    /// use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, Restart, graph};
    ///
    /// struct Sum(u64);
    /// graph! {
    ///     graph App {
    ///         processors { sum: Sum }
    ///         edges { ingress -> sum: u64 [keep]; sum -> egress: u64; }
    ///     }
    /// }
    /// impl Process<App> for Sum {}
    /// impl Receive<App, Ingress, u64> for Sum {
    ///     fn receive(&mut self, number: u64, cx: &mut Cx<'_, App, Self>) {
    ///         assert!(number < 100, "too large");
    ///         self.0 += number;
    ///         cx.to::<Egress>().send(self.0);
    ///     }
    /// }
    ///
    /// let app = App::builder(Sum(0))
    ///     .restart(Restart::new().limit(3, std::time::Duration::from_secs(1)), |_| Sum(1_000))
    ///     .on_failure(|failure| {
    ///         let number = failure.message.and_then(|message| message.downcast::<u64>().ok());
    ///         assert_eq!(number, Some(Box::new(100)));
    ///     })
    ///     .start()?;
    /// let mut sums = app.egress::<Sum, u64>(0);
    /// let numbers = app.ingress::<Sum, u64>();
    /// (99..=101).for_each(|number| numbers.send(number).unwrap());
    /// numbers.send(1)?;
    /// assert_eq!([sums.recv(), sums.recv()], [Ok(99), Ok(1_001)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn restart<P: Process<G>>(
        mut self,
        restart: Restart,
        factory: impl Fn(usize) -> P + Send + Sync + 'static,
    ) -> Self
    where
        G: Node<P>,
    {
        let factory: Factory<P> = Arc::new(Box::new(factory));
        let policy = Policy::Restart(restart);
        let node = <G as Node<P>>::ID;
        self.policies.push((node, policy, Some(Box::new(factory))));
        self
    }

    /// Has `hook` called with what each panic of a handler left: where it was, the payload, and
    /// the message in hand on an edge that is marked `keep`. It is called by workers, and should
    /// return soon.
    #[must_use]
    pub fn on_failure(mut self, hook: impl Fn(Failure) + Send + Sync + 'static) -> Self {
        self.hooks.on_failure = Some(Box::new(hook));
        self
    }

    /// Has `hook` called with each message that was accepted and cannot be
    /// handled any more. Not with one in the hand of a handler that panicked, or
    /// in a lane whose receiver is gone: those are gone too, and counted. It is
    /// called by workers, and at the end of the graph.
    #[must_use]
    pub fn on_undelivered(
        mut self,
        hook: impl Fn(&'static EdgeInfo, Box<dyn Any + Send>) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.on_undelivered = Some(Box::new(hook));
        self
    }

    /// Measures how long messages wait and how long they are handled, for one message in `one_in`
    /// on each queue; zero, the default, measures none. [`Viewer::timings`](crate::Viewer::timings)
    /// and [`Report::timings`](crate::Report::timings) have the result.
    ///
    /// Which message of each `one_in` is measured is random. A measured message costs three
    /// readings of the clock and two entries in histograms, so 1,024 suits a graph whose messages
    /// cost some nanoseconds each. Switched off it costs two branches per batch of messages. Where
    /// messages come by a door, a shared inbox or a queue under a lock, it costs a branch per
    /// message. Memory, if it is on: 2.4 KiB per instance and per edge that enters it, and 8 bytes
    /// per `one_in` slots of each ring.
    ///
    /// ```
    /// # use rast_msgpass::{Cx, Ingress, Process, Receive, graph};
    /// # struct Sum(u64);
    /// # graph! {
    /// #     graph App {
    /// #         processors { sum: Sum }
    /// #         edges { ingress -> sum: u64; }
    /// #     }
    /// # }
    /// # impl Process<App> for Sum {}
    /// # impl Receive<App, Ingress, u64> for Sum {
    /// #     fn receive(&mut self, number: u64, _: &mut Cx<'_, App, Self>) {
    /// #         self.0 += number;
    /// #     }
    /// # }
    /// let app = App::builder(Sum(0)).sample(1).start()?;
    /// let numbers = app.ingress::<Sum, u64>();
    /// (0..10).for_each(|number| numbers.send(number).unwrap());
    /// let report = app.drain(std::time::Duration::from_secs(10))?;
    /// let timings = report.timings.unwrap();
    /// assert_eq!(timings.edges[0].waiting.count(), 10);
    /// assert!(timings.processors[0].handling.quantile(0.99) > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn sample(mut self, one_in: u32) -> Self {
        self.hooks.one_in = one_in;
        self
    }

    /// Starts the graph on threads of its own.
    ///
    /// Allocates every ring and inbox. From here on a message allocates only at a door (any edge
    /// from ingress), on an unbounded edge, and on an edge with `drop_oldest`, `latest` or `bytes`:
    /// there the first message of each pair of instances allocates the pair's slots.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check), and [`BuildError::Thread`]; the processors are
    /// dropped then.
    pub fn start(self) -> Result<Handle<G>, BuildError> {
        let (shared, sharder, outside) = self.assemble()?;
        Run::start(shared, sharder, outside).map_err(BuildError::Thread)
    }

    /// Sets the graph up without a thread: the calling thread runs the turns, in an order that
    /// follows from `seed`.
    ///
    /// The clock is a manual one that shows zero, and the time of resharding never comes:
    /// [`clock`](Self::clock) and [`period`](Self::period) have no effect. There is one worker,
    /// unless [`workers`](Self::workers) says otherwise.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); the processors are dropped then.
    #[cfg(feature = "testing")]
    pub fn test(mut self, seed: u64) -> Result<TestGraph<G>, BuildError> {
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
        let handle = Run::by_hand(shared, stepper.handle(), outside);
        let batches = batches.iter().map(|batch| batch.messages).collect();
        Ok(TestGraph::new(handle, stepper, clock, batches, seed))
    }

    /// Returns what ends the batches of each processor.
    fn batches_by_node(&self) -> Vec<Batch> {
        let mut batches = vec![self.batch; G::PROCESSORS.len()];
        for &(node, _) in &self.blocking {
            batches[node] = Batch::messages(1);
        }
        for &(node, batch) in &self.batches {
            batches[node] = batch;
        }
        batches
    }

    /// Makes all that runs.
    fn assemble(self) -> Result<(Arc<Shared>, Sharder<Runtime>, Outside), BuildError> {
        self.check()?;
        let counts = self.given.counts();
        let places = Places::new(&counts, &self.blocking, self.worker_count());
        let workers = places.workers();
        let batches = self.batches_by_node();
        let mut policies = vec![Policy::Plain(self.on_panic); G::PROCESSORS.len()];
        let mut factories: Vec<Option<AnyFactory>> = G::PROCESSORS.iter().map(|_| None).collect();
        for (node, policy, factory) in self.policies {
            (policies[node], factories[node]) = (policy, factory);
        }
        let shared = Shared::new::<G>(
            workers,
            policies,
            self.hooks,
            (self.clock.clone()).unwrap_or_else(|| GraphClock::System(MonotonicClock::new())),
            &counts,
            &self.blocking,
        );
        let Wiring {
            mut parts, outside, ..
        } = Wiring::new(Arc::clone(&shared), self.given.wire);
        let routes = parts
            .iter_mut()
            .map(|parts| core::mem::take(&mut parts.routes))
            .collect();
        let instances = self.given.assemble(&shared, parts, &batches, &factories);
        let runtime = Runtime {
            shared: Arc::clone(&shared),
            routes,
        };
        let mut builder = Sharder::builder(runtime)
            .shards(instances)
            .workers(workers)
            .period(self.period)
            .wait(self.wait)
            .name(format!("rast-{}", G::NAME));
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

    /// Returns whether [`start`](Self::start) would start the graph, if the system
    /// gives it a thread: for processors that must not be lost to a wrong number.
    ///
    /// # Errors
    ///
    /// [`BuildError`] says what is wrong.
    pub fn check(&self) -> Result<(), BuildError> {
        let counts = self.given.counts();
        for (processor, &given) in G::PROCESSORS.iter().zip(&counts) {
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
        let layout = Layout::of_all(G::EDGES, &counts);
        for (edge, layout) in G::EDGES.iter().zip(&layout) {
            let (EdgeKind::Bounded, false, End::Processor(from)) =
                (edge.kind, layout.by_pair, edge.from)
            else {
                continue;
            };
            let least = counts[from] * edge.burst + 1;
            if layout.capacity < least {
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
            let (processor, given) = (G::PROCESSORS[node].name, counts[node]);
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
                let processor = G::PROCESSORS[*node].name;
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
            let (processor, given) = (G::PROCESSORS[node].name, counts[node]);
            if replica >= given {
                return Err(BuildError::NoReplica {
                    processor,
                    replica,
                    given,
                });
            }
            if worker >= workers {
                let shard = counts[..node].iter().sum::<usize>() + replica;
                return Err(BuildError::Sharder(sharder::BuildError::Pin {
                    shard: ShardId::from_index(shard),
                    worker: WorkerId::from_index(worker),
                }));
            }
        }
        Ok(())
    }

    /// Returns how many workers there will be for processors that do not block.
    fn worker_count(&self) -> usize {
        let blocks = |node: &usize| self.blocking.iter().any(|(blocked, _)| blocked == node);
        let counts = self.given.counts().into_iter().enumerate();
        let counts = counts.filter(|(node, _)| !blocks(node));
        let shards = counts.map(|(_, count)| count).sum();
        self.workers
            .unwrap_or_else(thread::available_parallelism)
            .min(shards)
    }
}

impl<G: Graph> fmt::Debug for Builder<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("graph", &G::NAME)
            .field("workers", &self.workers)
            .field("period", &self.period)
            .field("wait", &self.wait)
            .field("batch", &self.batch)
            .field("on_panic", &self.on_panic)
            .finish_non_exhaustive()
    }
}
