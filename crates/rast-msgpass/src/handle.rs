//! A running graph, from outside: its doors, its figures, its end.

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;
use std::any::Any;
use std::io;
use std::time::Instant;

use crate::door::{AnyDoor, Doors};
use crate::drain::{Blocked, Drain, DrainCause, DrainError, LOOK};
use crate::egress::{EgressReceiver, Lane, LaneParts};
use crate::ending::{EndedBy, Ending};
use crate::graph::{Edge, Egress, Graph, Ingress, Node};
use crate::ingress::IngressSender;
use crate::panics::text;
use crate::primitive::Parker;
use crate::primitive::panics::contain;
use crate::primitive::sync::{Arc, Mutex};
use crate::primitive::thread::{self, JoinHandle};
use crate::report::{Metrics, Report};
use crate::runtime::Runtime;
use crate::sharder::{self, Outcome, ShardId, Sharder};
use crate::shared::Shared;
use crate::stages::{Stage, stages};
use crate::states::States;
use crate::view::{Notes, View, Viewer};
use crate::wiring::{Lanes, Outside};

/// What the thread of a graph leaves at its end.
///
/// If a handler of the graph dropped the handle, no thread takes this value. Its drop then drops
/// the processors and contains the panics of their destructors, because a panic in the drop of the
/// result of a thread aborts the process.
#[derive(Default)]
pub(crate) struct Found {
    notes: Notes,
    states: States,
    /// What records such a panic.
    shared: Option<Arc<Shared>>,
}

impl Drop for Found {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            drop_states(&self.states, shared);
        }
    }
}

/// Drops the processors that were not taken, and records the panics of their destructors.
fn drop_states(states: &States, shared: &Shared) {
    while let Some(state) = states.pop() {
        shared.contained("a processor's destructor", || drop(state));
    }
}

/// A running graph: its ingress and egress, its metrics, and the calls that end it.
///
/// `Send` and `Sync`. Dropping it stops the graph and waits for its threads. The drop blocks, and
/// so do [`stop`](Self::stop), [`drain`](Self::drain) and [`wait`](Self::wait). So an async task
/// moves the handle to a thread that may block, for example by tokio's `spawn_blocking`.
///
/// A handler of the same graph may drop the `Handle`, or end the graph by one of these calls. Then
/// the drop or the call stops the graph but waits for no other thread, because the handler has to
/// return first.
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
    pub(crate) run: Run,
    graph: PhantomData<fn(G)>,
}

/// A running graph without its type.
pub(crate) struct Run {
    pub(crate) shared: Arc<Shared>,
    pub(crate) sharder: sharder::Handle,
    doors: Vec<Option<Box<dyn Any + Send + Sync>>>,
    pub(crate) view: Arc<View>,
    pub(crate) receivers: Mutex<Lanes>,
    thread: Option<JoinHandle<Found>>,
    states: States,
}

impl Run {
    pub(crate) fn new(shared: Arc<Shared>, sharder: sharder::Handle, outside: Outside) -> Self {
        *shared.wakes.0.lock() = Some(sharder.clone());
        Self {
            view: Arc::new(View {
                shared: Arc::clone(&shared),
                sharder: sharder.clone(),
                closers: outside.closers,
                lanes: outside.lanes,
                notes: Mutex::new(Notes::default()),
            }),
            shared,
            sharder,
            doors: outside.doors,
            receivers: Mutex::new(outside.receivers),
            thread: None,
            states: States::default(),
        }
    }

    pub(crate) fn start(
        shared: Arc<Shared>,
        sharder: Sharder<Runtime>,
        outside: Outside,
    ) -> io::Result<Self> {
        let mut run = Self::new(shared, sharder.handle(), outside);
        let closing = run.closing();
        let name = format!("rast-{}", run.shared.graph);
        run.thread = Some(thread::spawn_named(name, move || {
            closing.shared.enter_thread();
            let (found, outcome) = run_sharder(sharder);
            closing.close(found, outcome)
        })?);
        Ok(run)
    }

    /// Takes the end of a graph whose turns the caller gave.
    #[cfg(feature = "testing")]
    pub(crate) fn end_by_hand(&mut self, by: EndedBy, stepper: sharder::Stepper<Runtime>) {
        self.shared.ending.stop(by);
        let outcome = stepper.finish();
        let found = self.closing().close(Found::of(&outcome), outcome);
        self.has_ended(found);
    }

    /// Returns the doors of an edge from ingress.
    pub(crate) fn door<M: 'static>(&self, edge: usize) -> Option<&Arc<Doors<M>>> {
        self.doors[edge].as_ref()?.downcast_ref()
    }

    /// Returns what is to be closed at the end.
    fn closing(&self) -> Closing {
        let doors = self.view.closers.iter().flatten();
        Closing {
            shared: Arc::clone(&self.shared),
            doors: doors.map(|door| door.boxed()).collect(),
            lanes: self.view.lanes.iter().flatten().cloned().collect(),
        }
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            if self.shared.is_own_thread() {
                self.sharder.stop();
                let text = "a handler of the graph ended it, so the report comes before the end";
                self.view.notes.lock().faults.push(text.to_owned());
                return;
            }
            let found = thread.join().unwrap_or_else(|payload| {
                let mut found = Found::default();
                let text = format!("the graph's thread: {}", text(payload));
                found.notes.faults.push(text);
                found
            });
            self.has_ended(found);
        }
    }

    /// Records the end: no thread can ask for the other receivers any more.
    fn has_ended(&mut self, mut found: Found) {
        self.states = core::mem::take(&mut found.states);
        *self.view.notes.lock() = core::mem::take(&mut found.notes);
        for (edge, lanes) in self.receivers.lock().drain(..).enumerate() {
            let waiting = lanes.iter().flatten().map(|parts| parts.waiting());
            self.shared.count_undelivered(edge, waiting.sum());
        }
    }

    fn stop(&mut self, by: EndedBy) {
        self.shared.ending.stop(by);
        self.sharder.stop();
        self.join();
    }

    /// Drops the processors, and records the panics of their destructors.
    pub(crate) fn drop_states(&self) {
        drop_states(&self.states, &self.shared);
    }

    pub(crate) fn report(&self) -> Report {
        self.view.report(self.states.clone())
    }

    /// Returns the order in which a drain lets processors flush.
    pub(crate) fn stages(&self) -> Vec<Stage> {
        stages(self.shared.processors.len(), self.shared.edges)
    }

    /// Returns whether the receiver of a lane was never handed out.
    pub(crate) fn is_unrequested(&self, edge: usize, lane: usize) -> bool {
        self.receivers.lock()[edge][lane].is_some()
    }

    /// Waits until every accepted message was handled, then stops the graph.
    fn drain(&mut self, deadline: Duration) -> Result<Report, DrainError> {
        let stages = self.stages();
        let (mut settled, mut blocked) = (Err(DrainCause::Handler), None);
        if !self.shared.is_own_thread() {
            self.shared.ending.note(EndedBy::Drain);
            let deadline = Instant::now().checked_add(deadline);
            let parker = Parker::new();
            let mut pause = || {
                let is_late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                if !is_late {
                    parker.park_timeout(LOOK);
                }
                !is_late
            };
            let mut drain = Drain {
                view: &self.view,
                pause: &mut pause,
            };
            settled = drain.settle(&stages);
            if settled.is_err() {
                blocked = drain.blocked(&stages, |edge, lane| self.is_unrequested(edge, lane));
            }
        }
        self.stop(EndedBy::Drain);
        self.drained(settled, blocked)
    }

    /// Returns the result of a drain, once the graph has ended.
    pub(crate) fn drained(
        &self,
        settled: Result<(), DrainCause>,
        blocked: Option<Blocked>,
    ) -> Result<Report, DrainError> {
        let report = self.report();
        let cause = match settled {
            Ok(()) if self.shared.given_up() == 0 => return Ok(report),
            Ok(()) => DrainCause::Lost,
            Err(cause) => cause,
        };
        Err(DrainError {
            cause,
            blocked,
            report: Box::new(report),
        })
    }
}

/// Runs the sharder to its end.
fn run_sharder(sharder: Sharder<Runtime>) -> (Found, Outcome<Runtime>) {
    match sharder.run() {
        Ok(outcome) => (Found::of(&outcome), outcome),
        Err(error) => {
            let text = error.to_string();
            let outcome = error.into_parts().1;
            let mut found = Found::of(&outcome);
            found.notes.faults.insert(0, text);
            (found, outcome)
        }
    }
}

impl Found {
    fn of(outcome: &Outcome<Runtime>) -> Self {
        let faults = outcome.report.panics.iter().map(ToString::to_string);
        Self {
            notes: Notes {
                rejections: outcome.report.rejections.clone(),
                faults: faults.collect(),
            },
            states: States::default(),
            shared: None,
        }
    }
}

/// What is closed at the end of a graph, after its last turn.
struct Closing {
    shared: Arc<Shared>,
    doors: Vec<Box<dyn AnyDoor>>,
    lanes: Vec<Arc<Lane>>,
}

impl Closing {
    /// Closes doors and lanes, and gives up what waits; the states go into `found`.
    fn close(self, mut found: Found, outcome: Outcome<Runtime>) -> Found {
        // Tokens that are dropped from here on wake nothing.
        self.shared.wakes.0.lock().take();
        // A runtime that failed ended without a cause so far.
        self.shared.ending.stop(EndedBy::Fault);
        // From here on a sender gets its message back.
        for door in self.doors {
            door.close();
        }
        let mut contained = |step: &mut dyn FnMut()| match contain(step) {
            Ok(()) => true,
            Err(payload) => {
                found
                    .notes
                    .faults
                    .push(format!("at the end: {}", text(payload)));
                false
            }
        };
        let mut states = Vec::with_capacity(outcome.shards.len());
        for shard in outcome.shards {
            let mut instance = shard.state;
            instance.stop();
            // A destructor of a message that panics took that message with it.
            while !contained(&mut || instance.finish()) {}
            states.push(instance.take_state());
            let mut rest = Some(instance);
            contained(&mut || drop(rest.take()));
        }
        for lane in &self.lanes {
            contained(&mut || lane.end());
        }
        found.states.put(states);
        found.shared = Some(Arc::clone(&self.shared));
        let by = self.shared.ending.cause().unwrap_or(EndedBy::Fault);
        let shared = &self.shared;
        shared.traced(|| shared.trace.ended(shared.graph, &by));
        found
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let has_ended = self.thread.is_none();
        self.stop(EndedBy::Dropped);
        // A report that was made has a share in the states, and drops those that are left.
        if !has_ended {
            self.drop_states();
        }
    }
}

impl<G: Graph> Handle<G> {
    pub(crate) fn new(run: Run) -> Self {
        Self {
            run,
            graph: PhantomData,
        }
    }

    /// Returns a sender for the door from ingress to `P` that takes `M`.
    pub fn ingress<P, M>(&self) -> IngressSender<G, P, M>
    where
        G: Node<Ingress> + Node<P>,
        M: Edge<G, Ingress, P>,
    {
        let doors = self.run.door::<M>(<M as Edge<G, Ingress, P>>::ID);
        let doors = doors.expect("an edge from ingress has doors for its message");
        IngressSender::new(Arc::clone(doors), self.run.sharder.clone())
    }

    /// Returns the receiver of one lane of the edge from `P` to egress with
    /// `M`. There is one receiver per lane, so the second call for it gives
    /// `None`.
    ///
    /// # Panics
    ///
    /// If the edge has no such lane.
    pub fn try_egress<P, M>(&self, lane: usize) -> Option<EgressReceiver<M>>
    where
        G: Node<P> + Node<Egress>,
        M: Edge<G, P, Egress>,
    {
        let info = <M as Edge<G, P, Egress>>::INFO;
        assert!(
            lane < info.lanes,
            "graph `{}`, edge {info}: there is no lane {lane}, only `lanes = {}`",
            G::NAME,
            info.lanes,
        );
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
    /// If the edge has no such lane, or its receiver was handed out before.
    pub fn egress<P, M>(&self, lane: usize) -> EgressReceiver<M>
    where
        G: Node<P> + Node<Egress>,
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

    /// Returns the number of instances of `P`.
    #[must_use]
    pub fn replicas<P>(&self) -> usize
    where
        G: Node<P>,
    {
        self.run.shared.shards_of(<G as Node<P>>::ID).len()
    }

    /// Returns the shard that a replica of `P` is: replicas are numbered in the order of the
    /// declaration.
    ///
    /// # Panics
    ///
    /// If there is no such replica.
    #[must_use]
    pub fn shard_of<P>(&self, replica: usize) -> ShardId
    where
        G: Node<P>,
    {
        self.run.shared.shard_of(<G as Node<P>>::ID, replica)
    }

    /// Returns a [`Stopper`], by which other threads stop the graph.
    pub fn stopper(&self) -> Stopper {
        Stopper {
            sharder: self.run.sharder.clone(),
            ending: Arc::clone(&self.run.shared.ending),
        }
    }

    /// Returns a [`Viewer`], by which other threads read metrics, report and assignment.
    #[must_use]
    pub fn viewer(&self) -> Viewer {
        Viewer::new(Arc::clone(&self.run.view))
    }

    /// Returns what ended the graph or is about to end it; `None` while it runs.
    pub fn ended_by(&self) -> Option<EndedBy> {
        self.run.shared.ending.cause()
    }

    /// Returns whether the graph was asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.run.sharder.is_stopping()
    }

    /// Requests a new decision on the assignment.
    pub fn reshard(&self) {
        self.run.sharder.reshard();
    }

    /// Makes every worker read the graph's clock, for a clock that a test moves. Workers sleep in
    /// real time, so sleeping workers would not notice the change earlier.
    pub fn look_at_clock(&self) {
        self.run.sharder.notify_all();
    }

    /// Reads the counts. Costs one load per count; stops no other thread.
    pub fn metrics(&self) -> Metrics {
        self.run.view.metrics()
    }

    /// Returns the report so far.
    pub fn report(&self) -> Report {
        self.run.report()
    }

    /// Stops the graph and waits for its threads. Running handlers finish; messages in queues and
    /// doors count as undelivered. Messages in egress lanes stay for their receivers, and count as
    /// undelivered if no receiver was ever taken. Blocking.
    #[must_use = "the report says what was lost"]
    pub fn stop(mut self) -> Report {
        self.run.stop(EndedBy::Stop);
        self.run.report()
    }

    /// Waits until the graph was stopped: by a processor, or by a
    /// [`Stopper`]. Blocking.
    pub fn wait(mut self) -> Report {
        self.run.join();
        self.run.report()
    }

    /// Waits until every accepted message was handled, then stops the graph.
    ///
    /// Ingress closes and pings end. Handlers run until every message that was sent has been
    /// handled, and no message to egress waits for room. Then processors
    /// [`flush`](crate::Process::flush), upstream first. Blocking, for at most about `deadline`
    /// plus the time of the running handlers.
    ///
    /// # Errors
    ///
    /// [`DrainError`] if the graph could not come to rest, or if accepted messages reached no
    /// handler because their processor was retired. The error says why, and its report says what
    /// was lost. If a handler of the same graph calls `drain`, the error is returned at once.
    ///
    /// With `Ok` each message reached its handler, unless its `clone` panicked on a `keep` edge.
    /// The report says which handlers and clones panicked, and how many messages went to a lane
    /// without a receiver.
    pub fn drain(mut self, deadline: Duration) -> Result<Report, DrainError> {
        self.run.drain(deadline)
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
///
/// To let a graph handle its messages first, send a signal to the thread that has the [`Handle`],
/// for example by a channel, and call [`Handle::drain`] there.
#[derive(Clone)]
pub struct Stopper {
    sharder: sharder::Handle,
    ending: Arc<Ending>,
}

impl Stopper {
    /// Asks the graph to stop: running handlers finish, and queued messages count as undelivered.
    /// Does not wait.
    pub fn stop(&self) {
        self.ending.stop(EndedBy::Stopper);
        self.sharder.stop();
    }
}

impl fmt::Debug for Stopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopper").finish_non_exhaustive()
    }
}
