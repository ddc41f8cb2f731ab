//! `TestGraph`: a graph whose turns come from a seed.

use core::fmt;

use super::driver::{Driver, MOST};
use super::outside::{Collected, Collector, Feed, Feeder, Sent};
use super::probe::{Passed, Probe, watch};
use crate::door::TrySendError;
use crate::drain::DrainError;
use crate::ending::EndedBy;
use crate::graph::{Edge, EdgeKind, Egress, End, Graph, Ingress, Node};
use crate::graph::{Replicated, Single};
use crate::handle::Handle;
use crate::primitive::thread;
use crate::report::{Metrics, Report};
use crate::sharder::ShardId;
use crate::timers::{Clock, Instant, ManualClock, Nanos};
use crate::trial::Room;

/// A graph on the thread of a test: from [`Builder::test`](crate::Builder::test).
///
/// Processors run only while the test calls a method of the `TestGraph`. A test that panics while
/// it has a `TestGraph` prints the seed and the last turns. The [module](crate::testing) has an
/// example.
///
/// Handlers run as in the program. A panic of a handler is contained and recorded in the
/// [`Report`], and the test continues.
///
/// Do not use blocking calls of the [`handle`](Self::handle): no other thread would end them. Use
/// [`send`](Self::send), [`feed`](Self::feed), [`collect`](Self::collect) and `try_recv`.
///
/// Dropping it stops the graph.
pub struct TestGraph<G: Graph> {
    handle: Handle<G>,
    pub(super) driver: Driver,
}

impl<G: Graph> TestGraph<G> {
    pub(crate) fn new(handle: Handle<G>, driver: Driver) -> Self {
        Self { handle, driver }
    }

    /// Returns the handle: doors, lanes, metrics and the stopper.
    #[must_use]
    pub fn handle(&self) -> &Handle<G> {
        &self.handle
    }

    /// Returns the seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.driver.seed
    }

    /// Returns how many turns instances had.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.driver.turns
    }

    /// Gives one turn to an instance that wants one, or lets one of the [feeds](Self::feed) and
    /// [collectors](Self::collect) act. Returns `false` if none has anything to do at this time.
    ///
    /// # Panics
    ///
    /// If a closure of [`watch`](Self::watch) panicked in the turn. The same holds for all calls
    /// that give turns.
    pub fn step(&mut self) -> bool {
        self.driver.step()
    }

    /// Makes up to `count` steps; returns how many.
    ///
    /// # Panics
    ///
    /// As [`step`](Self::step).
    pub fn steps(&mut self, count: usize) -> usize {
        (0..count).take_while(|_| self.step()).count()
    }

    /// Makes steps until none is left. The clock does not move.
    ///
    /// # Panics
    ///
    /// After a million steps, and as [`step`](Self::step).
    pub fn run_until_idle(&mut self) {
        self.driver.run_until_idle();
    }

    /// Makes steps until `is_done` returns `true`; returns `false` if no step is left before.
    ///
    /// # Panics
    ///
    /// After a million steps, and as [`step`](Self::step).
    pub fn run_until(&mut self, mut is_done: impl FnMut(&mut Self) -> bool) -> bool {
        let first = self.driver.steps;
        while !is_done(self) {
            if !self.step() {
                return false;
            }
            assert!(
                self.driver.steps - first < MOST,
                "what graph `{}` was to do did not come in {MOST} steps",
                G::NAME
            );
        }
        true
    }

    /// Returns the time of the graph.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.driver.clock.now()
    }

    /// Returns the clock of the graph, for handlers that are to take time.
    #[must_use]
    pub fn clock(&self) -> ManualClock {
        self.driver.clock.clone()
    }

    /// Moves the clock forwards, and gives no turn.
    pub fn advance(&mut self, span: impl Into<Nanos>) {
        self.driver.advance(span.into());
    }

    /// Returns the time of the next timer or ping, or an earlier one that was cancelled.
    #[must_use]
    pub fn next_alarm(&mut self) -> Option<Instant> {
        self.driver.stepper().next_alarm()
    }

    /// Lets a time pass: runs until idle, moves the clock to the next timer or ping, and so on.
    ///
    /// # Panics
    ///
    /// As [`run_until_idle`](Self::run_until_idle), at each of the times.
    pub fn run_for(&mut self, span: impl Into<Nanos>) {
        self.driver.run_for(span.into());
    }

    /// Sends a message to a processor without replicas. If the door is full, runs steps until there
    /// is room.
    ///
    /// # Errors
    ///
    /// `Full` if no step is left and the door is still full, or `Closed`. Both return the message.
    ///
    /// # Panics
    ///
    /// After a million steps, and as [`step`](Self::step).
    pub fn send<P, M>(&mut self, mut message: M) -> Result<(), TrySendError<M>>
    where
        G: Single<P> + Node<Ingress>,
        M: Edge<G, Ingress, P>,
    {
        let door = self.handle.ingress::<P, M>();
        let first = self.driver.steps;
        loop {
            match door.try_send(message) {
                Err(TrySendError::Full(back)) if self.step() => message = back,
                other => return other,
            }
            assert!(
                self.driver.steps - first < MOST,
                "graph `{}`: the door of {} was full for {MOST} steps. The last turns were: {}",
                G::NAME,
                M::INFO,
                self.driver.last(),
            );
        }
    }

    /// Sends the messages to a processor without replicas, in steps that the seed chooses, while
    /// there is room for them. Takes the first message from the iterator at once, and then always
    /// one message in advance.
    pub fn feed<P, M>(&mut self, messages: impl IntoIterator<Item = M> + 'static) -> Feed
    where
        G: Single<P> + Node<Ingress>,
        P: 'static,
        M: Edge<G, Ingress, P>,
    {
        let door = self.handle.ingress::<P, M>();
        let send = move |message| Sent::of(door.try_send(message), |message| message);
        let (feeder, feed) = Feeder::new(messages.into_iter(), send);
        self.driver.outside.push(Box::new(feeder));
        feed
    }

    /// Sends the messages to the replicas that their keys choose, as [`feed`](Self::feed) does.
    pub fn feed_by_key<P, M>(
        &mut self,
        messages: impl IntoIterator<Item = (u64, M)> + 'static,
    ) -> Feed
    where
        G: Replicated<P> + Node<Ingress>,
        P: 'static,
        M: Edge<G, Ingress, P>,
    {
        let door = self.handle.ingress::<P, M>();
        let send = move |(key, message)| {
            Sent::of(door.key(key).try_send(message), |message| (key, message))
        };
        let (feeder, feed) = Feeder::new(messages.into_iter(), send);
        self.driver.outside.push(Box::new(feeder));
        feed
    }

    /// Receives the messages of one lane of the edge from `P` to egress, in steps that the seed
    /// chooses, and the remaining ones at the end.
    ///
    /// # Panics
    ///
    /// As [`Handle::egress`].
    pub fn collect<P, M>(&mut self, lane: usize) -> Collected<M>
    where
        G: Node<P> + Node<Egress>,
        M: Edge<G, P, Egress>,
    {
        let (collector, collected) = Collector::new(self.handle.egress::<P, M>(lane));
        self.driver.outside.push(Box::new(collector));
        collected
    }

    /// Keeps copies of the messages that pass from now on, on the edge from `F` to `T` with `M`.
    pub fn probe<F, T, M>(&mut self) -> Probe<M>
    where
        G: Node<F> + Node<T>,
        M: Edge<G, F, T> + Clone,
    {
        let probe = Probe::new();
        self.driver
            .add_watch(<M as Edge<G, F, T>>::ID, &probe.watch());
        probe
    }

    /// Calls `each` with each message of the edge from `F` to `T` from now on. The call comes
    /// before that of the message's handler, or on an edge to egress when the message is sent.
    ///
    /// A panic in `each` propagates to the call that gave the turn, so `each` may contain
    /// assertions.
    pub fn watch<F, T, M>(&mut self, each: impl FnMut(Passed<&M>) + Send + 'static)
    where
        G: Node<F> + Node<T>,
        M: Edge<G, F, T>,
    {
        self.driver
            .add_watch(<M as Edge<G, F, T>>::ID, &watch(each));
    }

    /// Makes the handler of the `nth` message of an edge panic instead of running, counted from 1
    /// and from now on, over all receivers. The message is lost, as in any panic of a handler.
    ///
    /// # Panics
    ///
    /// If `nth` is zero, or the edge leads to egress, which has no handlers.
    pub fn panic_at<F, T, M>(&mut self, nth: u64)
    where
        G: Node<F> + Node<T>,
        M: Edge<G, F, T>,
    {
        let (edge, info) = (<M as Edge<G, F, T>>::ID, <M as Edge<G, F, T>>::INFO);
        assert!(
            info.to != End::Egress,
            "the edge {info} has no handler to panic"
        );
        let text = format!("injected: message {nth} of {info}");
        let shards = self.driver.shards(info.to);
        self.driver.add_faults(&shards, Some(edge), nth, &text);
    }

    /// Makes the `nth` handler of a replica of `P` panic instead of running, counted from 1 and
    /// from now on, over all edges and timers.
    ///
    /// # Panics
    ///
    /// If `nth` is zero, or there is no such replica.
    pub fn panic_in<P>(&mut self, replica: usize, nth: u64)
    where
        G: Node<P>,
    {
        let shard = self.driver.shared.shard_of(<G as Node<P>>::ID, replica);
        let name = G::PROCESSORS[<G as Node<P>>::ID].name;
        let text = format!("injected: message {nth} of {name}[{replica}]");
        self.driver.add_faults(&[shard], None, nth, &text);
    }

    /// Sets how much room the edge from `F` to `T` with `M` has, as its senders see it, whatever is
    /// queued in it. For a slow receiver use [`pause`](Self::pause).
    ///
    /// # Panics
    ///
    /// If the edge comes from ingress, or is `unbounded` or a `reply`, whose messages always
    /// have room.
    pub fn set_room<F, T, M>(&mut self, room: Room)
    where
        G: Node<F> + Node<T>,
        M: Edge<G, F, T>,
    {
        let info = <M as Edge<G, F, T>>::INFO;
        let has_bound = matches!(info.kind, EdgeKind::Bounded) || info.kind.is_lossy();
        let (true, Some(node)) = (has_bound, info.from.processor()) else {
            panic!("the edge {info} is not one that its sender waits for");
        };
        let out = <M as Edge<G, F, T>>::OUT;
        let driver = &mut self.driver;
        for shard in driver.shared.shards_of(node).map(ShardId::from_index) {
            let core = driver.core(shard);
            let outs = core.outs.len();
            let rooms = &mut core.trial().rooms;
            rooms.resize(outs, Room::Real);
            rooms[out] = room;
            // Its next turn looks at all of them.
            core.is_gated = true;
            driver.stepper().handle().wake(shard);
        }
    }

    /// Gives a replica of `P` no turn until [`resume`](Self::resume): what is sent to it waits,
    /// and its edges fill up.
    ///
    /// # Panics
    ///
    /// If there is no such replica.
    pub fn pause<P>(&mut self, replica: usize)
    where
        G: Node<P>,
    {
        self.driver.is_paused[self.handle.shard_of::<P>(replica).index()] = true;
    }

    /// Gives a replica of `P` turns again.
    ///
    /// # Panics
    ///
    /// If there is no such replica.
    pub fn resume<P>(&mut self, replica: usize)
    where
        G: Node<P>,
    {
        self.driver.is_paused[self.handle.shard_of::<P>(replica).index()] = false;
    }

    /// Returns the state of a replica of `P`, between two turns.
    ///
    /// # Panics
    ///
    /// If there is no such replica, or it waits for its restart.
    #[must_use]
    pub fn processor<P: 'static>(&mut self, replica: usize) -> &P
    where
        G: Node<P>,
    {
        let shard = self.driver.shared.shard_of(<G as Node<P>>::ID, replica);
        let processor = self.driver.stepper().shard(shard).processor();
        let processor = processor.expect("a replica that waits for its restart has no state");
        let processor = processor.downcast_ref();
        processor.expect("a shard has the type of its processor")
    }

    /// Reads the counts.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.handle.metrics()
    }

    /// Runs until every accepted message was handled, as [`Handle::drain`] does, and ends the
    /// graph. Feeds and collectors act meanwhile; the clock moves to the time of each restart.
    ///
    /// # Errors
    ///
    /// As [`Handle::drain`]; [`DrainCause::Deadline`](crate::DrainCause::Deadline) if no step was
    /// left, or after a million steps.
    ///
    /// # Panics
    ///
    /// As [`step`](Self::step).
    pub fn drain(mut self) -> Result<Report, DrainError> {
        self.driver.drain(&mut self.handle.run)
    }

    /// Ends the graph between two turns, as [`Handle::stop`].
    #[must_use = "the report says what was lost"]
    pub fn stop(mut self) -> Report {
        self.end(EndedBy::Stop);
        self.handle.run.report()
    }

    /// Ends the graph, unless it has ended.
    pub(crate) fn end(&mut self, by: EndedBy) {
        self.driver.end(&mut self.handle.run, by);
    }
}

impl<G: Graph> Drop for TestGraph<G> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.driver.say_last();
        }
        self.end(EndedBy::Dropped);
    }
}

impl<G: Graph> fmt::Debug for TestGraph<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestGraph")
            .field("graph", &G::NAME)
            .field("seed", &self.driver.seed)
            .field("turns", &self.driver.turns)
            .finish_non_exhaustive()
    }
}
