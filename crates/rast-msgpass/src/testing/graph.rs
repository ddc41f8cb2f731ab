//! `TestGraph`: a graph whose turns come from a seed.

use core::fmt;
use std::collections::VecDeque;
use std::panic::resume_unwind;

use super::outside::{Collected, Collector, Feed, Feeder, Outside, Sent};
use super::probe::{Passed, Probe, watch};
use super::seed::share;
use crate::door::TrySendError;
use crate::drain::{Drain, DrainError};
use crate::ending::EndedBy;
use crate::graph::{Edge, EdgeInfo, EdgeKind, Egress, End, Graph, Ingress, Node};
use crate::graph::{Replicated, Single};
use crate::handle::Handle;
use crate::instance_core::Core;
use crate::primitive::Random;
use crate::primitive::sync::{Arc, Mutex};
use crate::primitive::thread;
use crate::report::{Metrics, Report};
use crate::runtime::Runtime;
use crate::sharder::{ShardId, Stepper};
use crate::shared::Shared;
use crate::stages::stages;
use crate::timers::{Clock, Instant, ManualClock, Nanos};
use crate::trial::{Failed, Fault, Room, Watch};

/// The most steps of one call: a graph that is never idle fails its test.
const MOST: u64 = 1_000_000;

/// Turns that are kept for the text of a failed test.
const KEPT: usize = 16;

/// A graph on the thread of a test: from [`Builder::test`](crate::Builder::test).
///
/// Nothing runs except in its calls. Equal seeds and equal calls give equal runs; a test that
/// panics while it has one prints the seed and the last turns. The
/// [module](crate::testing) has an example.
///
/// Handlers run as in the program. A panic of a handler is contained and recorded in the
/// [`Report`], and the test continues. A wait of the [`handle`](Self::handle)'s doors and lanes
/// would block for ever, as no other thread acts: use [`send`](Self::send), [`feed`](Self::feed),
/// [`collect`](Self::collect) and `try_recv`.
///
/// Dropping it stops the graph.
pub struct TestGraph<G: Graph> {
    handle: Handle<G>,
    driver: Driver,
}

/// A turn that was given.
#[derive(Clone, Copy, Debug)]
struct Turn {
    shard: usize,
    batch: u32,
}

/// What gives the turns.
struct Driver {
    /// `None` once the graph has ended.
    stepper: Option<Stepper<Runtime>>,
    shared: Arc<Shared>,
    clock: ManualClock,
    seed: u64,
    random: Random,
    /// Per processor: the most messages of a turn.
    batches: Vec<u32>,
    /// Per shard.
    is_paused: Vec<bool>,
    outside: Vec<Box<dyn Outside>>,
    failed: Failed,
    steps: u64,
    turns: u64,
    last: VecDeque<Turn>,
}

impl Driver {
    fn stepper(&mut self) -> &mut Stepper<Runtime> {
        let stepper = self.stepper.as_mut();
        stepper.expect("the graph runs until `drain` or `stop` takes it")
    }

    /// Has one instance, or something outside, act; returns `false` if none has anything to do.
    fn step(&mut self) -> bool {
        self.stepper().look();
        let mut choices: Vec<Choice> = Vec::new();
        let (paused, stepper) = (&self.is_paused, self.stepper.as_ref());
        if let Some(stepper) = stepper.filter(|stepper| !stepper.handle().is_stopping()) {
            let ready = stepper.ready().filter(|shard| !paused[shard.index()]);
            choices.extend(ready.map(Choice::Instance));
        }
        let outside = self.outside.iter_mut().enumerate();
        let ready = outside.filter_map(|(at, outside)| outside.is_ready().then_some(at));
        choices.extend(ready.map(Choice::Outside));
        if choices.is_empty() {
            return false;
        }
        self.steps += 1;
        match choices[self.random.below(choices.len())] {
            Choice::Instance(shard) => self.turn(shard),
            Choice::Outside(at) => self.outside[at].act(&mut self.random),
        }
        true
    }

    fn turn(&mut self, shard: ShardId) {
        let (node, _) = self.shared.instance(shard.index());
        let batch = share(&mut self.random, self.batches[node]);
        self.turns += 1;
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        let index = shard.index();
        self.last.push_back(Turn {
            shard: index,
            batch,
        });
        let stepper = self.stepper();
        stepper.shard(shard).limit_batch(batch);
        stepper.turn(shard);
        self.outside.iter_mut().for_each(|outside| outside.retry());
        self.fail();
    }

    /// Moves the clock to the next restart, if a processor that is not paused waits for one.
    fn wait_for_restart(&mut self) -> bool {
        let mut next: Option<Instant> = None;
        for shard in 0..self.is_paused.len() {
            let at = self
                .stepper()
                .shard(ShardId::from_index(shard))
                .restarts_at();
            if let Some(at) = at.filter(|_| !self.is_paused[shard]) {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        let Some(at) = next.filter(|&at| at > self.clock.now()) else {
            return false;
        };
        self.clock.set(at);
        true
    }

    /// Goes on with the panic of a watch, if there was one.
    fn fail(&self) {
        let failed = self.failed.lock().take();
        if let Some(payload) = failed {
            resume_unwind(payload);
        }
    }

    fn run_until_idle(&mut self) {
        let first = self.steps;
        while self.step() {
            assert!(
                self.steps - first < MOST,
                "graph `{}` was not idle after {MOST} steps; use `steps` or `run_until` where a \
                 processor asks for `Next::Again`. The last turns were: {}",
                self.shared.graph,
                self.last(),
            );
        }
    }

    /// Names the last turns.
    fn last(&self) -> String {
        let turn = |turn: &Turn| {
            let (node, replica) = self.shared.instance(turn.shard);
            let (name, batch) = (self.shared.processors[node].name, turn.batch);
            format!("{name}[{replica}] up to {batch}")
        };
        let turns: Vec<String> = self.last.iter().map(turn).collect();
        turns.join(", ")
    }
}

#[derive(Clone, Copy)]
enum Choice {
    Instance(ShardId),
    Outside(usize),
}

impl<G: Graph> TestGraph<G> {
    pub(crate) fn new(
        handle: Handle<G>,
        stepper: Stepper<Runtime>,
        clock: ManualClock,
        batches: Vec<u32>,
        seed: u64,
    ) -> Self {
        let shared = Arc::clone(&handle.run.shared);
        let driver = Driver {
            is_paused: vec![false; shared.stats.len()],
            stepper: Some(stepper),
            shared,
            clock,
            seed,
            random: Random::new(seed),
            batches,
            outside: Vec::new(),
            failed: Failed::default(),
            steps: 0,
            turns: 0,
            last: VecDeque::with_capacity(KEPT),
        };
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

    /// Gives one turn to an instance that wants one, or has one of the
    /// [feeds](Self::feed) and [collectors](Self::collect) act. Returns `false` if none has
    /// anything to do at this time.
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
        self.driver.clock.advance(span.into());
        self.driver.stepper().look();
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
        let end = self.now().saturating_add(span.into());
        loop {
            self.run_until_idle();
            match self.next_alarm() {
                // A graph that was stopped has no further turn.
                Some(at) if at <= end && !self.handle.is_stopping() => self.driver.clock.set(at),
                _ => break,
            }
        }
        self.driver.clock.set(end);
        self.run_until_idle();
    }

    /// Sends a message to a processor without replicas. If the door is full, it makes steps until
    /// there is room.
    ///
    /// # Errors
    ///
    /// `Full` if no step is left before there is room, or `Closed`, with the message.
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

    /// Sends the messages to a processor without replicas, in steps that the seed chooses,
    /// while there is room for them.
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
        self.add_watch(<M as Edge<G, F, T>>::ID, &probe.watch());
        probe
    }

    /// Calls `each` with each message of the edge from `F` to `T` from now on: before the message's
    /// handler is called, or on an edge to egress when the message is sent.
    ///
    /// A panic in `each` propagates to the call that gave the turn, so `each` may contain
    /// assertions.
    pub fn watch<F, T, M>(&mut self, each: impl FnMut(Passed<&M>) + Send + 'static)
    where
        G: Node<F> + Node<T>,
        M: Edge<G, F, T>,
    {
        self.add_watch(<M as Edge<G, F, T>>::ID, &watch(each));
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
        self.add_fault(info.to, Some(edge), nth, &text);
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
        self.add_faults([shard], None, nth, &text);
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
            let core = driver.stepper().shard(shard).core();
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
        let (run, driver) = (&self.handle.run, &mut self.driver);
        run.shared.ending.note(EndedBy::Drain);
        let (first, mut was_idle) = (driver.steps, false);
        let mut pause = || {
            // Without a step it looks once more: the last one may have been what was waited for.
            let is_idle = !driver.step() && !driver.wait_for_restart();
            let goes_on = !(is_idle && was_idle) && driver.steps - first < MOST;
            was_idle = is_idle;
            goes_on
        };
        let stages = stages::<G>();
        let mut drain = Drain {
            view: &run.view,
            pause: &mut pause,
        };
        let settled = drain.settle(&stages);
        let blocked = match settled {
            Ok(()) => None,
            Err(_) => drain.blocked(&stages),
        };
        self.end(EndedBy::Drain);
        self.handle.run.drained(settled, blocked)
    }

    /// Ends the graph between two turns, as [`Handle::stop`].
    #[must_use = "the report says what was lost"]
    pub fn stop(mut self) -> Report {
        self.end(EndedBy::Stop);
        self.handle.run.report()
    }

    /// Returns what a test may change of an instance.
    pub(crate) fn core(&mut self, shard: ShardId) -> &mut Core {
        self.driver.stepper().shard(shard).core()
    }

    /// Gives an instance a turn if it wants one.
    pub(crate) fn turn_of(&mut self, shard: ShardId) -> bool {
        self.driver.stepper().look();
        let had_one = !self.driver.is_paused[shard.index()] && self.driver.stepper().turn(shard);
        self.driver.fail();
        had_one
    }

    /// Gives the others turns until none wants one.
    pub(crate) fn turns_of_others(&mut self, shard: ShardId) {
        self.driver.stepper().look();
        while !self.handle.is_stopping() {
            let paused = &self.driver.is_paused;
            let ready = self.driver.stepper.iter().flat_map(Stepper::ready);
            let mut others = ready.filter(|&other| other != shard && !paused[other.index()]);
            let other = others.next();
            drop(others);
            let Some(other) = other else {
                return;
            };
            self.driver.stepper().turn(other);
            self.driver.fail();
        }
    }

    /// Ends the graph, unless it has ended.
    pub(crate) fn end(&mut self, by: EndedBy) {
        let Some(stepper) = self.driver.stepper.take() else {
            return;
        };
        self.handle.run.end_by_hand(by, stepper);
        let mut outside = core::mem::take(&mut self.driver.outside);
        outside.iter_mut().for_each(|outside| outside.end());
    }

    fn add_watch(&mut self, edge: usize, watch: &Watch) {
        let EdgeInfo { from, to, .. } = G::EDGES[edge];
        // Where it is seen.
        let end = if to == End::Egress { from } else { to };
        let failed = Arc::clone(&self.driver.failed);
        for shard in self.shards(end) {
            let trial = self.driver.stepper().shard(shard).core().trial();
            trial.watches.push((edge, Arc::clone(watch)));
            trial.failed = Arc::clone(&failed);
        }
    }

    fn add_fault(&mut self, end: End, edge: Option<usize>, nth: u64, text: &str) {
        let shards = self.shards(end);
        self.add_faults(shards, edge, nth, text);
    }

    fn add_faults(
        &mut self,
        shards: impl IntoIterator<Item = ShardId>,
        edge: Option<usize>,
        nth: u64,
        text: &str,
    ) {
        assert!(nth > 0, "messages are counted from 1");
        let left = Arc::new(Mutex::new(nth));
        for shard in shards {
            let fault = Fault {
                edge,
                left: Arc::clone(&left),
                text: text.to_owned(),
            };
            let core = self.driver.stepper().shard(shard).core();
            core.trial().faults.push(fault);
        }
    }

    fn shards(&self, end: End) -> Vec<ShardId> {
        let shards = end
            .processor()
            .map(|node| self.driver.shared.shards_of(node));
        shards
            .into_iter()
            .flatten()
            .map(ShardId::from_index)
            .collect()
    }
}

impl<G: Graph> Drop for TestGraph<G> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!(
                "the test graph `{}` had the seed {} and {} turns, the last of them: {}",
                G::NAME,
                self.driver.seed,
                self.driver.turns,
                self.driver.last()
            );
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
