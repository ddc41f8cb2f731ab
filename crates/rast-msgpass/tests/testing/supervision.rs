//! Policies, restarts, limits and hooks: what is accepted has one fate, whatever panics when.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rast_msgpass::testing::{TestGraph, for_each_seed};
use rast_msgpass::{
    Builder, Cx, DrainCause, EdgeInfo, Egress, Handler, Ingress, Next, OnPanic, Process, Receive,
    ReplyTo, Report, Restart, Retired, Stopped, Then, Timer, graph,
};

use crate::messages::{Answer, Ask, Job, Line, Out, Put, watch_order};
use crate::rotate::Rotate;
use crate::ward::{Balance, Journal, Part, Step, bomb_in, lock};

graph! {
    graph Ward {
        processors { front: Front, worker: [Worker; 2], store: Store, log: Log }
        edges {
            ingress -> front: Put [cap = 4, keep];
            front -> worker: Job [cap = 2, keep];
            worker -> store: Ask [cap = 2, keep];
            store -> worker: Answer [reply = Ask, keep];
            worker -> log: Line [cap = 2, unbounded, keep];
            log -> egress: Out [cap = 4];
        }
    }
}

struct Tick;
/// A token that is part of no state.
struct Late(Token);

type Token = ReplyTo<Ward, Worker, Store, Ask>;
type Shared = Arc<Mutex<Journal>>;

struct Front(Part);
struct Worker {
    part: Part,
    has_flushed: bool,
}
struct Store {
    part: Part,
    kept: Vec<Token>,
}
struct Log(Part);

impl Front {
    fn new(journal: &Shared) -> Self {
        Self(Part::new(journal, "front", 0))
    }
}
impl Worker {
    fn new(journal: &Shared, replica: usize) -> Self {
        let part = Part::new(journal, "worker", replica);
        Self {
            part,
            has_flushed: false,
        }
    }

    fn line(&self, cx: &mut Cx<'_, Ward, Self>) {
        cx.to::<Log>().send(Line(self.part.number()));
    }
}
impl Store {
    fn new(journal: &Shared) -> Self {
        let part = Part::new(journal, "store", 0);
        Self {
            part,
            kept: Vec::new(),
        }
    }

    fn answer(&self, token: Token, cx: &mut Cx<'_, Ward, Self>) {
        token.send(Answer(self.part.number()), cx);
    }
}
impl Log {
    fn new(journal: &Shared) -> Self {
        Self(Part::new(journal, "log", 0))
    }
}

impl Process<Ward> for Front {
    fn on_start(&mut self, cx: &mut Cx<'_, Ward, Self>) {
        cx.watch::<Worker>();
        cx.watch::<Store>();
        cx.watch::<Log>();
        self.0.on_start(cx.restarts(), cx.now());
    }
    fn on_stop(&mut self, why: Stopped) {
        self.0.on_stop(why);
    }
    fn on_retired(&mut self, who: Retired, _: &mut Cx<'_, Ward, Self>) {
        self.0.told((who.processor, who.replica));
    }
    fn ping(&mut self, _: &mut Cx<'_, Ward, Self>) -> Next {
        self.0.step("ping");
        Next::Idle
    }
}
impl Receive<Ward, Ingress, Put> for Front {
    fn receive(&mut self, Put(number): Put, cx: &mut Cx<'_, Ward, Self>) {
        cx.to::<Worker>().key(number).send(Job(self.0.number()));
        self.0.handled(0, number);
    }
}

impl Process<Ward> for Worker {
    fn on_start(&mut self, cx: &mut Cx<'_, Ward, Self>) {
        self.part.on_start(cx.restarts(), cx.now());
        self.line(cx);
    }
    fn on_stop(&mut self, why: Stopped) {
        self.part.on_stop(why);
    }
    fn ping(&mut self, _: &mut Cx<'_, Ward, Self>) -> Next {
        self.part.step("ping");
        Next::Idle
    }
    fn flush(&mut self, cx: &mut Cx<'_, Ward, Self>) {
        self.part.step("flush");
        if !std::mem::replace(&mut self.has_flushed, true) {
            self.line(cx);
        }
    }
}
impl Receive<Ward, Front, Job> for Worker {
    fn receive(&mut self, Job(number): Job, cx: &mut Cx<'_, Ward, Self>) {
        cx.to::<Store>().send(Ask(self.part.number()));
        if number.is_multiple_of(3) {
            cx.after(Duration::from_micros(3), Tick);
        }
        self.part.handled(1, number);
    }
}
impl Receive<Ward, Timer, Tick> for Worker {
    fn receive(&mut self, _: Tick, cx: &mut Cx<'_, Ward, Self>) {
        self.line(cx);
        self.part.step("timer");
    }
}
impl Receive<Ward, Store, Answer> for Worker {
    fn receive(&mut self, Answer(number): Answer, cx: &mut Cx<'_, Ward, Self>) {
        self.line(cx);
        self.part.handled(3, number);
    }
}

impl Process<Ward> for Store {
    fn on_start(&mut self, cx: &mut Cx<'_, Ward, Self>) {
        self.part.on_start(cx.restarts(), cx.now());
    }
    fn on_stop(&mut self, why: Stopped) {
        self.part.on_stop(why);
    }
    fn flush(&mut self, cx: &mut Cx<'_, Ward, Self>) {
        for token in std::mem::take(&mut self.kept) {
            self.answer(token, cx);
        }
        self.part.step("flush");
    }
}
impl Receive<Ward, Worker, Ask> for Store {
    fn receive(&mut self, Ask(number): Ask, cx: &mut Cx<'_, Ward, Self>) {
        let token = cx.reply_to();
        match number % 4 {
            0 => self.kept.push(token),
            1 => {
                cx.after(Duration::from_micros(2), Late(token));
            }
            2 => drop(token),
            _ => self.answer(token, cx),
        }
        if self.kept.len() > 1 {
            let oldest = self.kept.remove(0);
            self.answer(oldest, cx);
        }
        self.part.handled(2, number);
    }
}
impl Receive<Ward, Timer, Late> for Store {
    fn receive(&mut self, Late(token): Late, cx: &mut Cx<'_, Ward, Self>) {
        self.answer(token, cx);
        self.part.step("timer");
    }
}

impl Process<Ward> for Log {
    fn on_start(&mut self, cx: &mut Cx<'_, Ward, Self>) {
        self.0.on_start(cx.restarts(), cx.now());
    }
    fn on_stop(&mut self, why: Stopped) {
        self.0.on_stop(why);
    }
}
impl Receive<Ward, Worker, Line> for Log {
    fn receive(&mut self, Line(number): Line, cx: &mut Cx<'_, Ward, Self>) {
        cx.to::<Egress>().send(Out(self.0.number()));
        self.0.handled(4, number);
    }
}

/// The number in a message.
fn number_of(message: &dyn Any) -> u64 {
    let numbers = [
        message.downcast_ref().map(|&Put(number)| number),
        message.downcast_ref().map(|&Job(number)| number),
        message.downcast_ref().map(|&Ask(number)| number),
        message.downcast_ref().map(|&Answer(number)| number),
        message.downcast_ref().map(|&Line(number)| number),
        message.downcast_ref().map(|&Out(number)| number),
    ];
    let number = numbers.into_iter().flatten().next();
    number.expect("a message of the graph")
}

fn edge_of(edge: &EdgeInfo) -> usize {
    let mut edges = Ward::EDGES.iter();
    edges
        .position(|of| of == edge)
        .expect("an edge of the graph")
}

/// The policies of the tests, by number.
const POLICIES: u64 = 6;

/// Whether a processor of this policy goes on whatever panics.
fn lasts(policy: u64) -> bool {
    policy == 0 || policy == 5
}

fn restart(policy: u64) -> Restart {
    let micros = Duration::from_micros;
    let second = Duration::from_secs(1);
    match policy {
        3 => Restart::new().limit(2, second).delay(micros(0), micros(0)),
        4 => Restart::new()
            .limit(3, second)
            .delay(micros(4), micros(10))
            .or_stop(),
        _ => Restart::new()
            .without_limit(second)
            .delay(micros(1), micros(2)),
    }
}

macro_rules! apply {
    ($builder:ident, $policy:expr, $processor:ty, $factory:expr) => {
        match $policy {
            0 => $builder.on_panic_of::<$processor>(OnPanic::Continue),
            1 => $builder.on_panic_of::<$processor>(OnPanic::Retire),
            2 => $builder.on_panic_of::<$processor>(OnPanic::Stop),
            policy => $builder.restart::<$processor>(restart(policy), $factory),
        }
    };
}

/// Builds the graph with a policy for each processor, in the order of the declaration.
fn ward(journal: &Shared, policies: [u64; 4]) -> Builder<Ward> {
    let workers = [Worker::new(journal, 0), Worker::new(journal, 1)];
    let (front, store, log) = (Front::new(journal), Store::new(journal), Log::new(journal));
    let builder = Ward::builder(front, workers, store, log).batch(8);
    let own = journal.clone();
    let builder = apply!(builder, policies[0], Front, move |_| {
        bomb_in(&own, "front.factory");
        Front::new(&own)
    });
    let own = journal.clone();
    let builder = apply!(builder, policies[1], Worker, move |replica| {
        bomb_in(&own, "worker.factory");
        Worker::new(&own, replica)
    });
    let own = journal.clone();
    let builder = apply!(builder, policies[2], Store, move |_| {
        bomb_in(&own, "store.factory");
        Store::new(&own)
    });
    let own = journal.clone();
    let builder = apply!(builder, policies[3], Log, move |_| Log::new(&own));
    let (own, failed) = (journal.clone(), journal.clone());
    builder
        .on_undelivered(move |edge, message| {
            lock(&own).lost(edge_of(edge), number_of(&*message));
        })
        .on_failure(move |failure| {
            let mut journal = lock(&failed);
            let is_right = failure.edge.is_some() == failure.message.is_some();
            journal.check(is_right, || format!("{failure:?}"));
            journal.failed(&failure);
            if let (Some(edge), Some(message)) = (failure.edge, failure.message) {
                journal.lost(edge_of(edge), number_of(&*message));
            }
            drop(journal);
            bomb_in(&failed, "failure");
        })
}

fn test(builder: Builder<Ward>, seed: u64) -> TestGraph<Ward> {
    let builder = builder.workers(1 + seed as usize % 2).balancer(Rotate);
    let mut app = builder.test(seed).unwrap();
    watch_order!(app: Front -> Worker: Job, Worker -> Store: Ask, Store -> Worker: Answer,
        Worker -> Log: Line, Log -> Egress: Out);
    app
}

/// Each message had one fate, and each processor one life.
fn assert_all(report: &Report, journal: &Shared, seed: u64) {
    let balance: Vec<Balance> = report.metrics.edges[..5]
        .iter()
        .map(|edge| Balance {
            sent: edge.sent,
            depth: edge.depth,
        })
        .collect();
    let journal = lock(journal);
    journal.assert_fates(&balance, &format!("seed {seed}: {report}"));
    for one in &report.metrics.instances {
        let life = journal.life((one.name, one.replica));
        // A graph may end before the first turn of an instance.
        let starts = life.starts.max(1);
        assert_eq!(starts, 1 + one.restarts, "seed {seed}: {report}");
        assert_eq!(life.failures, one.panics, "seed {seed}: {report}");
    }
    let counts = report.panics.iter().map(|panic| panic.count);
    let panics = report.metrics.instances.iter().map(|one| one.panics);
    assert_eq!(counts.sum::<u64>(), panics.sum::<u64>());
}

const BOMBS: [&str; 13] = [
    "front.on_start",
    "worker.on_start",
    "store.on_start",
    "worker.factory",
    "store.factory",
    "worker.flush",
    "store.flush",
    "worker.timer",
    "store.timer",
    "front.ping",
    "store.on_stop",
    "worker.drop",
    "front.on_retired",
];

/// Lets some things panic that the seed chooses.
fn arm(app: &mut TestGraph<Ward>, journal: &Shared, seed: u64) {
    let mut journal = lock(journal);
    for (number, &bomb) in BOMBS.iter().enumerate() {
        // Each is armed in one seed of four.
        if (seed >> (2 * number % 9)).wrapping_mul(0x9e37_79b9) % 64 < 16 {
            journal.arm(bomb, 1 + (seed + number as u64) % 5);
        }
    }
    if seed.is_multiple_of(9) {
        journal.arm("failure", 2);
    }
    drop(journal);
    if !seed.is_multiple_of(3) {
        app.panic_at::<Ingress, Front, Put>(1 + seed % 11);
        app.panic_at::<Worker, Store, Ask>(1 + seed % 13);
        app.panic_at::<Worker, Log, Line>(1 + seed % 7);
        app.panic_in::<Worker>(seed as usize % 2, 1 + seed % 17);
        app.panic_in::<Store>(0, 1 + seed % 19);
        app.panic_in::<Store>(0, 5 + seed % 3);
    }
}

#[test]
fn every_message_has_one_fate_under_every_policy() {
    let (mut restarts, mut drained, mut ended, mut moves) = (0, 0, 0, 0);
    for_each_seed(0..1_000, |seed| {
        let journal = Shared::default();
        let mix = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let policies = [16, 24, 32, 40].map(|shift| (mix >> shift) % POLICIES);
        let mut app = test(ward(&journal, policies), seed);
        let out = app.collect::<Log, Out>(0);
        let puts = app.feed::<Front, Put>((0..40).map(Put));
        arm(&mut app, &journal, seed);
        // On two workers instances move at each of these.
        for _ in 0..seed % 10 {
            app.steps(16);
            app.handle().reshard();
        }
        app.advance(Duration::from_micros(seed % 7));
        let lasts = policies.into_iter().all(lasts);
        if lasts || seed % 5 == 0 {
            app.run_for(Duration::from_millis(1));
        }
        let is_fed = puts.accepted() == 40;
        let report = match seed % 6 {
            0 => app.stop(),
            _ => match app.drain() {
                Ok(report) => {
                    drained += 1;
                    report
                }
                Err(error) => {
                    assert!(!lasts, "seed {seed}: {error}");
                    ended += 1;
                    let known = matches!(error.cause, DrainCause::Lost | DrainCause::Ended(_));
                    assert!(known, "seed {seed}: {error}");
                    *error.report
                }
            },
        };
        assert_eq!(report.metrics.edges[0].sent, puts.accepted());
        assert_all(&report, &journal, seed);
        assert_eq!(out.take().len() as u64, report.metrics.edges[5].sent);
        if lasts {
            assert!(is_fed, "seed {seed}: {report}");
            let given_up = report.undelivered_total() as usize;
            let in_hand = report.panics.iter().filter(|panic| panic.edge.is_some());
            assert_eq!(
                given_up as u64,
                in_hand.map(|panic| panic.count).sum::<u64>()
            );
            if seed % 6 > 0 {
                // No credit was lost on the way.
                assert_eq!(
                    report.metrics.edges[2].unanswered, 0,
                    "seed {seed}: {report}"
                );
            }
        }
        moves += report.metrics.moves;
        restarts += report
            .metrics
            .instances
            .iter()
            .map(|one| one.restarts)
            .sum::<u64>();
        lock(&journal).disarm("worker.drop");
        drop(report);
        assert_eq!(lock(&journal).alive(), 0, "seed {seed}");
    });
    if std::env::var_os("RAST_SEED").is_none() {
        let enough = restarts > 1_000 && drained > 200 && ended > 200 && moves > 5_000;
        let counts = [restarts, drained, ended, moves];
        assert!(enough, "restarts, drained, ended, moves: {counts:?}");
    }
}

#[test]
fn restarts_come_at_their_times_up_to_the_limit() {
    for_each_seed(0..1_000, |seed| {
        let journal = Shared::default();
        // The delays of a store: 4, 8 and 10 microseconds, then the graph stops; or it retires
        // after two restarts without a delay.
        let policy = 3 + seed % 2;
        let mut app = test(ward(&journal, [0, 0, policy, 0]), seed);
        let _out = app.collect::<Log, Out>(0);
        if seed % 4 > 1 {
            // A factory that fails takes part.
            lock(&journal).arm("store.factory", 1);
        }
        // It lives for four messages each time.
        (1..=4).for_each(|nth| app.panic_in::<Store>(0, 4 * nth));
        app.feed::<Front, Put>((0..40).map(Put));
        app.run_for(Duration::from_secs(3));
        let by = app.handle().ended_by();
        let report = app.stop();
        assert_all(&report, &journal, seed);
        let journal = lock(&journal);
        let life = journal.life(("store", 0));
        let (delays, most): (&[u64], _) = match policy {
            3 => (&[0, 0], 2),
            _ => (&[4_000, 8_000, 10_000], 3),
        };
        let thens: Vec<Then> = life.thens.clone();
        let is_end = |then: &Then| match policy {
            3 => *then == Then::Retires,
            _ => *then == Then::Stops,
        };
        assert_eq!(thens.len(), most + 1, "seed {seed}: {thens:?}");
        assert!(is_end(&thens[most]), "seed {seed}: {thens:?}");
        assert_eq!(by.is_some(), policy == 4, "seed {seed}");
        for (number, (&(asked, at), &delay)) in life.asked.iter().zip(delays).enumerate() {
            assert_eq!(at - asked, delay, "seed {seed}: {life:?}");
            // Never early, and not late where the clock stops at each of them.
            let has_factory = seed % 4 < 2 || number > 0;
            let has_started = life.started[1..].contains(&at);
            assert!(
                delay == 0 || has_factory == has_started,
                "seed {seed}: {life:?}"
            );
        }
        let factories = usize::from(seed % 4 > 1);
        assert_eq!(life.starts as usize, 1 + most - factories, "seed {seed}");
        let is_retired = report.metrics.instances[3].is_retired;
        assert_eq!(is_retired, policy == 3);
    });
}

#[test]
fn what_an_instance_has_outlives_its_processor() {
    for_each_seed(0..1_000, |seed| {
        let journal = Shared::default();
        let mut app = test(ward(&journal, [5, 5, 5, 5]), seed);
        let answers = app.probe::<Store, Worker, Answer>();
        let out = app.collect::<Log, Out>(0);
        // Numbers of the workers' requests choose what the store does with their tokens.
        app.feed::<Front, Put>((0..24).map(Put));
        app.panic_in::<Store>(0, 3 + seed % 9);
        app.panic_in::<Worker>(0, 2 + seed % 5);
        app.panic_at::<Ingress, Front, Put>(1 + seed % 24);
        app.run_for(Duration::from_secs(1));
        let metrics = app.metrics();
        // All was handled, once: no credit, no slot and no timer was lost with a processor.
        assert_eq!(metrics.edges[0].sent, 24);
        assert!(
            metrics.edges.iter().all(|edge| edge.depth == 0),
            "seed {seed}"
        );
        assert!(metrics.edges[2].unanswered <= 1, "seed {seed}");
        let restarts: Vec<u64> = metrics.instances.iter().map(|one| one.restarts).collect();
        assert_eq!(restarts, [1, 1, 0, 1, 0], "seed {seed}");
        assert!(!answers.is_empty() && !out.is_empty());
        let report = app.drain().unwrap();
        let in_hand = report.panics.iter().filter(|panic| panic.edge.is_some());
        assert_eq!(
            report.undelivered_total(),
            in_hand.count() as u64,
            "seed {seed}: {report}"
        );
        assert_eq!(report.timers_cancelled, 0);
        assert_all(&report, &journal, seed);
    });
}

#[test]
fn those_that_asked_are_told_of_each_retirement_once() {
    for_each_seed(0..1_000, |seed| {
        let journal = Shared::default();
        // The front asks when it starts: late, after one was retired, where it is paused.
        let mut app = test(ward(&journal, [5, 1, 1, 1]), seed);
        let _out = app.collect::<Log, Out>(0);
        if seed % 2 == 0 {
            app.pause::<Front>(0);
            lock(&journal).arm("worker.ping", 1 + seed / 2 % 2);
            app.run_until_idle();
            assert!(lock(&journal).deaths().is_empty());
            app.resume::<Front>(0);
        }
        if seed % 3 == 0 {
            lock(&journal).arm("front.on_retired", 1);
        }
        app.panic_in::<Log>(0, 1 + seed % 4);
        app.panic_in::<Worker>(1, 1 + seed % 5);
        app.feed::<Front, Put>((0..30).map(Put));
        app.run_for(Duration::from_secs(1));
        let metrics = app.metrics();
        let retired = metrics.instances.iter().filter(|one| one.is_retired);
        let mut retired: Vec<_> = retired.map(|one| (one.name, one.replica)).collect();
        let mut told = lock(&journal).deaths();
        retired.sort_unstable();
        told.sort_unstable();
        assert!(retired.len() >= 2, "seed {seed}");
        assert_eq!(told, retired, "seed {seed}");
        assert_all(&app.stop(), &journal, seed);
    });
}

#[test]
fn a_drain_waits_for_restarts_and_flushes_the_next_processor() {
    for_each_seed(0..1_000, |seed| {
        let journal = Shared::default();
        let mut app = test(ward(&journal, [5, 5, 5, 5]), seed);
        let out = app.collect::<Log, Out>(0);
        app.feed::<Front, Put>((0..12).map(Put));
        app.steps(seed as usize % 60);
        lock(&journal).arm("worker.flush", 1 + seed % 3);
        lock(&journal).arm("store.flush", 1 + seed / 3 % 2);
        app.panic_in::<Worker>(1, 1 + seed % 4);
        app.panic_in::<Log>(0, 1 + seed % 9);
        let report = app.drain().unwrap();
        assert_all(&report, &journal, seed);
        let journal = lock(&journal);
        for worker in 0..2 {
            // Each flushed at last, and nothing came to it afterwards.
            assert_eq!(journal.last_step(("worker", worker)), Some(Step::Stopped));
        }
        assert_eq!(
            journal.armed("worker.flush") + journal.armed("store.flush"),
            0
        );
        assert_eq!(out.take().len() as u64, report.metrics.edges[5].sent);
        // Tokens in timers that the drain cancelled.
        assert!(report.metrics.edges[2].unanswered <= report.timers_cancelled);
    });
}

#[test]
fn a_storm_of_restarts_starves_no_other_and_ends_at_the_limit() {
    for_each_seed(0..100, |seed| {
        let journal = Shared::default();
        let mut app = test(ward(&journal, [0, 0, 5, 0]), seed);
        let _out = app.collect::<Log, Out>(0);
        lock(&journal).arm_always("store.factory");
        app.panic_in::<Store>(0, 1);
        app.feed::<Front, Put>((0..30).map(Put));
        app.run_for(Duration::from_micros(200));
        let metrics = app.metrics();
        // 1 and then 2 microseconds between two attempts.
        let tries = metrics.instances[3].panics;
        assert!((95..=101).contains(&tries), "seed {seed}: {tries}");
        // Its senders wait; the others go on.
        assert_eq!(metrics.edges[4].depth, 0, "seed {seed}");
        assert!(!metrics.instances[3].is_retired);
        // The drain cannot end: there is never a processor to handle what waits.
        lock(&journal).disarm("store.factory");
        app.run_for(Duration::from_millis(1));
        let report = app.drain().unwrap();
        assert_eq!(report.metrics.instances[3].restarts, 1);
        assert_eq!(report.panics.len(), 2, "{report}");
        assert_eq!(report.panics[1].count + 1, tries, "{report}");
        assert_eq!(report.panics[1].handler, Handler::Factory);
        assert_all(&report, &journal, seed);
    });
}

#[test]
fn the_end_leaves_out_a_processor_that_waits() {
    for_each_seed(0..100, |seed| {
        let journal = Shared::default();
        let mut app = test(ward(&journal, [0, 5, 0, 0]), seed);
        app.panic_in::<Worker>(0, 1);
        app.feed::<Front, Put>((0..9).map(Put));
        app.run_until_idle();
        assert_eq!(app.metrics().instances[1].restarts, 0);
        let report = app.stop();
        assert_all(&report, &journal, seed);
        let left: Vec<Worker> = report.take_states::<Ward, Worker>();
        assert_eq!(
            left.iter()
                .map(|one| one.part.replica())
                .collect::<Vec<_>>(),
            [1]
        );
        assert_eq!(report.take_states::<Ward, Store>().len(), 1);
        drop(left);
        drop(report);
        assert_eq!(lock(&journal).alive(), 0);
    });
}
