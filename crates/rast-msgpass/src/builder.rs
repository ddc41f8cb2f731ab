//! Setting a graph up and starting it.

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;
use std::any::Any;

use crate::batch::Batch;
use crate::build_error::BuildError;
use crate::clock::GraphClock;
use crate::graph::{EdgeInfo, Graph, Node, Tables};
use crate::handle::{Handle, Run};
use crate::plan::Plan;
use crate::policy::{Factory, Failure, OnPanic, Policy, Restart};
use crate::primitive::WaitStrategy;
use crate::primitive::sync::Arc;
use crate::process::Process;
use crate::sharder::{Balancer, Park, WorkerId};
#[cfg(feature = "testing")]
use crate::testing::TestGraph;
use crate::timers::Clock;
use crate::wiring::Given;

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
    plan: Plan,
    graph: PhantomData<fn(G)>,
}

impl<G: Graph> Builder<G> {
    /// Begins from the processors.
    #[doc(hidden)]
    #[must_use]
    pub fn new(given: Given<G>) -> Self {
        Self {
            plan: Plan::new(Tables::of::<G>(), given.nodes),
            graph: PhantomData,
        }
    }

    /// Sets the number of worker threads. Default: the number of threads that the machine runs at
    /// once. There are never more than instances. The workers of [`blocking`](Self::blocking) are
    /// in addition.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.plan.workers = Some(workers);
        self
    }

    /// Sets how often the assignment is decided anew. Default: 100 ms. Zero: only on
    /// [`Handle::reshard`].
    #[must_use]
    pub fn period(mut self, period: Duration) -> Self {
        self.plan.period = period;
        self
    }

    /// Sets the balancer, which decides the assignment. Default: [`Greedy`](rast_sharder::Greedy).
    #[must_use]
    pub fn balancer(mut self, balancer: impl Balancer + 'static) -> Self {
        self.plan.balancer = Box::new(balancer);
        self
    }

    /// Sets how workers wait for work. Default:
    /// [`WaitStrategy::Adaptive`].
    #[must_use]
    pub fn wait(mut self, wait: WaitStrategy) -> Self {
        self.plan.wait = wait;
        self
    }

    /// Sets what each worker sleeps in; [`start`](Self::start) calls `park` for each. Default: a
    /// condition variable.
    ///
    /// The returned `Park` may wake an instance by its [`shard_of`](crate::shard_of). The instance
    /// is then pinged if it asked for [`Next::Woken`](crate::Next::Woken).
    #[must_use]
    pub fn park<P: Park>(mut self, mut park: impl FnMut(WorkerId) -> P + Send + 'static) -> Self {
        self.plan.park = Some(Box::new(move |worker| Box::new(park(worker))));
        self
    }

    /// Sets the clock of the graph: of [`Cx::now`](crate::Cx::now), timers, pings, loads and the
    /// sharder. Workers sleep in real time, so a test that moves a clock by hand calls
    /// [`Handle::look_at_clock`]. Default: the system's monotonic clock.
    ///
    /// If the clock panics, the graph uses the time that it returned last, and the report names the
    /// panic. Costs a store per reading.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Self {
        self.plan.clock = Some(GraphClock::new(clock));
        self
    }

    /// Keeps a replica of processor `P` at a worker from the start to the end. The last call for a
    /// replica counts.
    ///
    /// # Panics
    ///
    /// If `P` is declared with too few replicas. If the builder gets the number,
    /// [`check`](Self::check) fails instead.
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
        let is_other = |&(pinned, of, _): &_| (pinned, of) != (node, replica);
        self.plan.pins.retain(is_other);
        self.plan.pins.push((node, replica, worker));
        self
    }

    /// Runs the replicas of `P` on `threads` workers of their own, so that its handlers may block:
    /// on a file, a lock, or a channel. The last call for `P` counts.
    ///
    /// These workers are numbered after those of [`workers`](Self::workers), and run nothing else.
    /// Each runs the same replicas from the start to the end; no [balancer](Self::balancer) moves
    /// them. While a handler blocks, only the other replicas on its worker wait. A turn of `P`
    /// handles one message of each edge, unless [`batch_of`](Self::batch_of) says otherwise. A
    /// message leaves its queue before its handler runs, so a sender that waits for room does not
    /// wait for the handler.
    ///
    /// When a handler has returned, its messages are published, except if the queue to the receiver
    /// is full. A queue can be full on an `unbounded` edge, and on an edge with inboxes that other
    /// senders have filled. Then the messages wait in the sender. Once the receiver has made room,
    /// they are published between two handler calls of the sender, at most one
    /// [capacity](crate::EdgeInfo::capacity) at a time. So a handler that sends on such an edge
    /// must not wait for the receiver to handle earlier messages, unless the queue has room for all
    /// of them. An answer always has room, because its client returns the slot of each answer at
    /// once, at the cost of a fence.
    ///
    /// A drain and a stop wait for the handler that is running, so a handler that never returns
    /// keeps the graph from ending. A resharding waits for no handler of `P`, because these workers
    /// take no part in it. If there are more workers than cores, workers without work sleep at
    /// once, as under `WaitStrategy::Park`.
    ///
    /// In a `TestGraph`, `P` is a processor like any other.
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
        self.plan.blocking.retain(|&(blocked, _)| blocked != node);
        self.plan.blocking.push((node, threads));
        self
    }

    /// Sets a hook that is called on the thread of each worker before its first turn. A panic in it
    /// is listed among [`Report::faults`](crate::Report::faults), and the worker continues.
    ///
    /// The threads are named `rast-` and the graph's name, those after the first with the
    /// worker's number at the end.
    #[must_use]
    pub fn on_worker_start(mut self, hook: impl Fn(WorkerId) + Send + Sync + 'static) -> Self {
        self.plan.on_worker_start = Some(Box::new(hook));
        self
    }

    /// Makes each worker's thread run on one core only: worker `n` on the `n`-th core that the
    /// process may use, beginning again if there are fewer cores. Where the system refuses, a
    /// thread stays as it is.
    #[cfg(feature = "affinity")]
    #[must_use]
    pub fn pin_threads(mut self) -> Self {
        self.plan.pins_threads = true;
        self
    }

    /// Sets what ends the batch that a processor handles in one turn. Default: 64 messages of one
    /// edge. A smaller batch is fairer to the others on the worker.
    #[must_use]
    pub fn batch(mut self, batch: impl Into<Batch>) -> Self {
        self.plan.batch = batch.into();
        self
    }

    /// Sets what ends a batch of processor `P`, as [`batch`](Self::batch) does for all others.
    #[must_use]
    pub fn batch_of<P>(mut self, batch: impl Into<Batch>) -> Self
    where
        G: Node<P>,
    {
        self.plan.batches.push((<G as Node<P>>::ID, batch.into()));
        self
    }

    /// Sets what becomes of a processor whose handler panicked, where
    /// [`on_panic_of`](Self::on_panic_of) and [`restart`](Self::restart) say nothing else. Default:
    /// [`OnPanic::Continue`].
    #[must_use]
    pub fn on_panic(mut self, policy: OnPanic) -> Self {
        self.plan.on_panic = policy;
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
        self.plan.policies.push((node, Policy::Plain(policy), None));
        self
    }

    /// If a handler of a replica of `P` panics, calls `factory` with the number of the replica, and
    /// replaces the replica by the result. This happens as often as `restart` allows. The last call
    /// for `P` counts.
    ///
    /// The new processor keeps the queued messages, the timers, and what the instance
    /// [watches](crate::Cx::watch). [`ReplyTo`](crate::ReplyTo) tokens in the state of the old one
    /// are dropped, so their clients get no answer. The factory runs on a worker, so it should
    /// return soon. A panic of the factory counts as a panic of the processor.
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
        self.plan
            .policies
            .push((node, policy, Some(Box::new(factory))));
        self
    }

    /// Sets a hook that is called for each panic of a handler, with its place, its payload, and on
    /// an edge that is marked `keep` the message in hand. Workers call it, so it should return
    /// soon.
    #[must_use]
    pub fn on_failure(mut self, hook: impl Fn(Failure) + Send + Sync + 'static) -> Self {
        self.plan.hooks.on_failure = Some(Box::new(hook));
        self
    }

    /// Sets a hook that is called with each message that was accepted and cannot be handled any
    /// more. Messages in the hand of a handler that panicked, or in a lane whose receiver is gone,
    /// are only counted. The hook is called by workers, and at the end of the graph.
    #[must_use]
    pub fn on_undelivered(
        mut self,
        hook: impl Fn(&'static EdgeInfo, Box<dyn Any + Send>) + Send + Sync + 'static,
    ) -> Self {
        self.plan.hooks.on_undelivered = Some(Box::new(hook));
        self
    }

    /// Measures how long messages wait and how long their handlers run. On each queue, one message
    /// in `one_in` is measured. Zero, the default, measures none.
    /// [`Viewer::timings`](crate::Viewer::timings) and [`Report::timings`](crate::Report::timings)
    /// have the result.
    ///
    /// The measured message is chosen at random from `one_in` consecutive messages. A measured
    /// message costs three readings of the clock and two entries in histograms, so 1,024 suits a
    /// graph whose messages cost some nanoseconds each. Even if `one_in` is zero, there are two
    /// branches per batch, and one branch per message that comes by ingress, a shared inbox or a
    /// locked queue. If `one_in` is not zero, histograms take 2.4 KiB per instance and per edge
    /// that enters it. Send times then take 8 bytes per `one_in` slots of each ring.
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
        self.plan.hooks.one_in = one_in;
        self
    }

    /// Starts the graph on threads of its own.
    ///
    /// Allocates every ring and inbox. The guarantees in the [crate docs](crate#guarantees) say
    /// which messages allocate later.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check), and [`BuildError::Thread`]; the processors are
    /// dropped then.
    pub fn start(self) -> Result<Handle<G>, BuildError> {
        let (shared, sharder, outside) = self.plan.assemble()?;
        let run = Run::start(shared, sharder, outside).map_err(BuildError::Thread)?;
        Ok(Handle::new(run))
    }

    /// Sets the graph up without a thread: the calling thread runs the turns, in an order that
    /// follows from `seed`.
    ///
    /// The clock is a manual one that shows zero, and no resharding becomes due, so
    /// [`clock`](Self::clock) and [`period`](Self::period) have no effect. There is one worker,
    /// unless [`workers`](Self::workers) says otherwise.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); the processors are dropped then.
    #[cfg(feature = "testing")]
    pub fn test(self, seed: u64) -> Result<TestGraph<G>, BuildError> {
        let (run, driver) = self.plan.test(seed)?;
        Ok(TestGraph::new(Handle::new(run), driver))
    }

    /// Returns `Ok` if [`start`](Self::start) would start the graph, provided that the system gives
    /// it its threads. A `start` that fails drops the processors; this check keeps them.
    ///
    /// # Errors
    ///
    /// [`BuildError`] says what is wrong.
    pub fn check(&self) -> Result<(), BuildError> {
        self.plan.check()
    }
}

impl<G: Graph> fmt::Debug for Builder<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("graph", &G::NAME)
            .field("workers", &self.plan.workers)
            .field("period", &self.plan.period)
            .field("wait", &self.plan.wait)
            .field("batch", &self.plan.batch)
            .field("on_panic", &self.plan.on_panic)
            .finish_non_exhaustive()
    }
}
