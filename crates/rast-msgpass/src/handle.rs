//! A running graph, from outside: its doors, its figures, its end.

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;
use std::any::Any;
use std::io;
use std::time::Instant;

use crate::egress::{EgressReceiver, LaneParts};
use crate::graph::{Edge, EdgeKind, Egress, End, Graph, Ingress, Node};
use crate::ingress::{AnyDoor, Doors, IngressSender};
use crate::panics::{contain, text};
use crate::primitive::Parker;
use crate::primitive::sync::{Arc, Mutex};
use crate::primitive::thread::{self, JoinHandle};
use crate::report::{DrainError, EdgeMetrics, InstanceMetrics, Metrics, Report, Undelivered};
use crate::runtime::Runtime;
use crate::sends::answers_to;
use crate::sharder::{self, Outcome, ShardId, Sharder};
use crate::shared::Shared;
use crate::timers::{self, Clock, MonotonicClock, Nanos};
use crate::wiring::{Lanes, Outside};

/// How long `drain` sleeps between two looks.
const LOOK: Duration = Duration::from_micros(200);

/// What the thread of a graph found at its end, beside the shared counts.
#[derive(Clone, Debug, Default)]
struct Ending {
    rejections: Vec<String>,
    faults: Vec<String>,
}

/// A running graph: its doors, its figures, and the way to end it.
///
/// `Send` and `Sync`. Dropping it stops the graph and waits for its threads.
/// Dropped, or asked to end the graph, by a handler of the same graph, it stops
/// the graph and waits for nobody: the handler has to return first.
///
/// ```
/// # use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, graph};
/// # struct Echo;
/// # graph! {
/// #     graph App {
/// #         processors { echo: Echo }
/// #         edges { ingress -> echo: u64 [cap = 4]; echo -> egress: u64 [cap = 8]; }
/// #     }
/// # }
/// # impl Process<App> for Echo {}
/// # impl Receive<App, Ingress, u64> for Echo {
/// #     fn receive(&mut self, number: u64, cx: &mut Cx<'_, App, Self>) {
/// #         cx.to::<Egress>().send(number);
/// #     }
/// # }
/// let app = App::builder(Echo).start()?;
/// let numbers = app.ingress::<Echo, u64>();
/// let mut echoes = app.egress::<Echo, u64>(0);
/// numbers.send(7)?;
/// assert_eq!(echoes.recv(), Ok(7));
/// assert_eq!(app.metrics().edges[0].sent, 1);
///
/// // Another thread may stop the graph; this one lets it come to rest.
/// let stopper = app.stopper();
/// let report = app.drain(std::time::Duration::from_secs(10))?;
/// assert_eq!((report.received_total(), report.undelivered_total()), (1, 0));
/// assert!(numbers.send(8).is_err());
/// # drop(stopper);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Handle<G: Graph> {
    run: Run,
    graph: PhantomData<fn(G)>,
}

/// A running graph without its type.
pub(crate) struct Run {
    shared: Arc<Shared>,
    sharder: sharder::Handle,
    doors: Vec<Option<Box<dyn Any + Send + Sync>>>,
    closers: Vec<Vec<Box<dyn AnyDoor>>>,
    lanes: Vec<Vec<Arc<crate::egress::Lane>>>,
    receivers: Mutex<Lanes>,
    thread: Option<JoinHandle<Ending>>,
    ending: Ending,
}

impl Run {
    pub(crate) fn start<G: Graph>(
        shared: Arc<Shared>,
        sharder: Sharder<Runtime>,
        outside: Outside,
    ) -> io::Result<Handle<G>> {
        let handle = sharder.handle();
        *shared.wakes.0.lock() = Some(handle.clone());
        let closers: Vec<Box<dyn AnyDoor>> = outside
            .closers
            .iter()
            .flatten()
            .map(|door| door.boxed())
            .collect();
        let lanes = outside.lanes.clone();
        let own = Arc::clone(&shared);
        let thread = thread::spawn_named(format!("rast-{}", G::NAME), move || {
            own.enter_thread();
            let (mut ending, outcome) = run(sharder);
            // Tokens that are dropped from here on wake nothing.
            own.wakes.0.lock().take();
            // From here on a sender gets its message back.
            for door in closers {
                door.close();
            }
            let mut contained = |step: &mut dyn FnMut()| match contain(step) {
                Ok(()) => true,
                Err(payload) => {
                    ending.faults.push(format!("at the end: {}", text(payload)));
                    false
                }
            };
            for shard in outcome.shards {
                let mut state = Some(shard.state);
                // A destructor of a message that panics took that message with it.
                while !contained(&mut || state.iter_mut().for_each(|state| state.finish())) {}
                contained(&mut || drop(state.take()));
            }
            for lane in lanes.iter().flatten() {
                contained(&mut || lane.end());
            }
            ending
        })?;
        Ok(Handle {
            run: Self {
                shared,
                sharder: handle,
                doors: outside.doors,
                closers: outside.closers,
                lanes: outside.lanes,
                receivers: Mutex::new(outside.receivers),
                thread: Some(thread),
                ending: Ending::default(),
            },
            graph: PhantomData,
        })
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            if self.shared.is_own_thread() {
                self.sharder.stop();
                let text = "a handler of the graph ended it, so the report comes before the end";
                self.ending.faults.push(text.to_owned());
                return;
            }
            match thread.join() {
                Ok(ending) => self.ending = ending,
                Err(payload) => self
                    .ending
                    .faults
                    .push(format!("the graph's thread: {}", text(payload))),
            }
            // Nobody can ask for these receivers any more.
            for (edge, lanes) in self.receivers.lock().drain(..).enumerate() {
                let waiting = lanes.iter().flatten().map(|parts| parts.waiting());
                self.shared.count_undelivered(edge, waiting.sum());
            }
        }
    }

    fn stop(&mut self) {
        self.sharder.stop();
        self.join();
    }

    fn is_finished(&self) -> bool {
        self.sharder.is_stopping()
    }

    /// Waits until nothing is under way any more; returns false when the
    /// deadline, or a stop, came first.
    fn settle(&self, deadline: Option<Instant>) -> bool {
        for door in self.closers.iter().flatten() {
            door.close();
        }
        self.shared.calm.ask();
        let parker = Parker::new();
        loop {
            if self.is_finished() {
                return false;
            }
            let spent = self.closers.iter().flatten().all(|door| door.is_spent());
            let seen = self.shared.calm.all_see();
            if spent && seen && self.shared.is_quiet() {
                return true;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return false;
            }
            if !seen {
                // A worker that sleeps has not seen it, also one that holds no shard.
                self.sharder.notify_all();
            }
            parker.park_timeout(LOOK);
        }
    }

    fn metrics(&self) -> Metrics {
        let shared = &self.shared;
        let stats = self.sharder.stats();
        let published = self.sharder.assignment();
        let lost = shared.undelivered();
        let mut edges: Vec<EdgeMetrics> = shared
            .edges
            .iter()
            .map(|edge| EdgeMetrics {
                edge,
                sent: 0,
                received: 0,
                depth: 0,
                unanswered: 0,
                oldest: Nanos::ZERO,
            })
            .collect();
        let now = MonotonicClock::new().now();
        // Per edge of requests: those that were answered or waived.
        let mut ended = vec![0; shared.edges.len()];
        let mut instances = Vec::with_capacity(shared.stats.len());
        for (shard, counts) in shared.stats.iter().enumerate() {
            let (node, replica) = shared.instance(shard);
            let end = End::Processor(node);
            let mut total_received = 0;
            let incoming = (0..shared.edges.len()).filter(|&edge| shared.edges[edge].to == end);
            for (index, edge) in incoming.enumerate() {
                let received = counts.received[index].get();
                total_received += received;
                edges[edge].received += received;
                edges[edge].sent += counts.entered[index].get();
            }
            let mut total_sent = 0;
            let outgoing = (0..shared.edges.len()).filter(|&edge| shared.edges[edge].from == end);
            for (index, edge) in outgoing.enumerate() {
                let sent = counts.sent[index].get();
                total_sent += sent;
                edges[edge].sent += sent;
                if let EdgeKind::Reply { request } = shared.edges[edge].kind {
                    ended[request] += sent + counts.waived[index].get();
                    if let Some(since) = counts.since[index].get().checked_sub(1) {
                        let age = now.saturating_since(timers::Instant::from_nanos(since));
                        edges[request].oldest = edges[request].oldest.max(age);
                    }
                }
            }
            instances.push(InstanceMetrics {
                processor: node,
                name: shared.processors[node].name,
                replica,
                worker: published
                    .assignment
                    .owner(ShardId::from_index(shard))
                    .index(),
                pings: counts.pings.get(),
                received: total_received,
                sent: total_sent,
                turns: counts.turns.get(),
                gated: counts.gated.get(),
                panics: counts.panics.get(),
                busy: Nanos::from_nanos(counts.busy_ns.get()),
            });
        }
        for (edge, counts) in edges.iter_mut().enumerate() {
            counts.received += self.lanes[edge]
                .iter()
                .map(|lane| lane.taken())
                .sum::<u64>();
            let doors: u64 = self.closers[edge]
                .iter()
                .map(|door| door.len() as u64)
                .sum();
            // On the way out, what was lost is not among the received.
            let lost = match counts.edge.to {
                End::Egress => lost[edge],
                End::Ingress | End::Processor(_) => 0,
            };
            let gone = counts.received + lost;
            counts.depth = counts.sent.saturating_sub(gone) + doors;
            if answers_to(shared.edges, edge).is_some() {
                counts.unanswered = counts.sent.saturating_sub(ended[edge]);
            }
        }
        Metrics {
            instances,
            edges,
            workers: stats.workers,
            epochs: stats.epochs,
            moves: stats.moves,
        }
    }

    fn report(&self) -> Report {
        let lost = self.shared.undelivered();
        let shared_faults = self.shared.faults();
        let undelivered = self.shared.edges.iter().zip(lost);
        Report {
            metrics: self.metrics(),
            panics: self.shared.panics(),
            undelivered: undelivered
                .filter(|&(_, messages)| messages > 0)
                .map(|(edge, messages)| Undelivered { edge, messages })
                .collect(),
            rejections: self.ending.rejections.clone(),
            faults: [shared_faults, self.ending.faults.clone()].concat(),
        }
    }
}

/// Runs the sharder to its end.
fn run(sharder: Sharder<Runtime>) -> (Ending, Outcome<Runtime>) {
    let mut ending = Ending::default();
    let outcome = match sharder.run() {
        Ok(outcome) => outcome,
        Err(error) => {
            ending.faults.push(error.to_string());
            error.into_parts().1
        }
    };
    let faults = outcome.report.panics.iter().map(ToString::to_string);
    ending.faults.extend(faults);
    ending
        .rejections
        .extend(outcome.report.rejections.iter().cloned());
    (ending, outcome)
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<G: Graph> Handle<G> {
    /// Returns a sender for the door from ingress to `P` that takes `M`.
    pub fn ingress<P, M>(&self) -> IngressSender<G, P, M>
    where
        G: Node<P>,
        M: Edge<G, Ingress, P>,
    {
        let doors = self.run.doors[<M as Edge<G, Ingress, P>>::ID]
            .as_ref()
            .and_then(|doors| doors.downcast_ref::<Arc<Doors<M>>>())
            .expect("an edge from ingress has doors for its message");
        IngressSender::new(Arc::clone(doors), self.run.sharder.clone())
    }

    /// Returns the receiver of one lane of the edge from `P` to egress with
    /// `M`. There is one receiver per lane, so the second call for it gives
    /// `None`.
    ///
    /// # Panics
    ///
    /// When the edge has no such lane.
    pub fn try_egress<P, M>(&self, lane: usize) -> Option<EgressReceiver<M>>
    where
        G: Node<P>,
        M: Edge<G, P, Egress>,
    {
        let mut receivers = self.run.receivers.lock();
        let parts = receivers[<M as Edge<G, P, Egress>>::ID][lane].take()?;
        let parts: Box<dyn Any> = parts;
        let Ok(parts) = parts.downcast::<LaneParts<M>>() else {
            unreachable!("a lane is made for its edge's message");
        };
        Some(EgressReceiver::new(*parts, self.run.sharder.clone()))
    }

    /// Returns the receiver of one lane of the edge from `P` to egress with `M`.
    ///
    /// # Panics
    ///
    /// When the edge has no such lane, or its receiver was handed out before.
    pub fn egress<P, M>(&self, lane: usize) -> EgressReceiver<M>
    where
        G: Node<P>,
        M: Edge<G, P, Egress>,
    {
        match self.try_egress::<P, M>(lane) {
            Some(receiver) => receiver,
            None => panic!(
                "graph `{}`, edge {}: the receiver of lane {lane} was handed out before",
                G::NAME,
                <M as Edge<G, P, Egress>>::INFO,
            ),
        }
    }

    /// Returns something that stops the graph, for another thread to keep.
    pub fn stopper(&self) -> Stopper {
        Stopper {
            sharder: self.run.sharder.clone(),
        }
    }

    /// Tells whether the graph was asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.run.sharder.is_stopping()
    }

    /// Asks for a new decision on the assignment.
    pub fn reshard(&self) {
        self.run.sharder.reshard();
    }

    /// Reads the counts. Costs one load per count; stops nobody.
    pub fn metrics(&self) -> Metrics {
        self.run.metrics()
    }

    /// Says what happened so far.
    pub fn report(&self) -> Report {
        self.run.report()
    }

    /// Stops the graph and waits for its threads. Handlers that run end; what
    /// waits in rings and doors counts as undelivered. What left by egress
    /// stays there for its receivers, and counts as undelivered where no receiver
    /// was ever taken. Blocking.
    #[must_use = "the report says what was lost"]
    pub fn stop(mut self) -> Report {
        self.run.stop();
        self.run.report()
    }

    /// Waits until the graph was stopped: by a processor, or by a
    /// [`Stopper`]. Blocking.
    pub fn wait(mut self) -> Report {
        self.run.join();
        self.run.report()
    }

    /// Lets everything that was accepted be handled, then stops.
    ///
    /// Ingress closes and pings end; what is in the graph goes on, until all
    /// that was sent has been handled. Blocking, at most about `deadline` and
    /// the time of the handlers under way.
    ///
    /// # Errors
    ///
    /// [`DrainError`] when messages were lost because the deadline, or a stop by
    /// somebody else, came first; the report in it says which.
    pub fn drain(mut self, deadline: Duration) -> Result<Report, DrainError> {
        let settled = self.run.settle(Instant::now().checked_add(deadline));
        self.run.stop();
        let report = self.run.report();
        match settled || report.undelivered_total() == 0 {
            true => Ok(report),
            false => Err(DrainError {
                report: Box::new(report),
            }),
        }
    }
}

impl<G: Graph> fmt::Debug for Handle<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("graph", &G::NAME)
            .field("is_stopping", &self.is_stopping())
            .finish_non_exhaustive()
    }
}

/// Stops a graph from any thread.
#[derive(Clone)]
pub struct Stopper {
    sharder: sharder::Handle,
}

impl Stopper {
    /// Asks the graph to stop: handlers that run end, what waits counts as
    /// undelivered. Does not wait.
    pub fn stop(&self) {
        self.sharder.stop();
    }
}

impl fmt::Debug for Stopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopper").finish_non_exhaustive()
    }
}
