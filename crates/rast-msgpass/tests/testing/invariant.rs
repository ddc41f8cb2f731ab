//! What is accepted is delivered or counted as undelivered, and each pair keeps its order: with
//! all kinds of edges, 1,000 seeds.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rast_msgpass::testing::{Room, TestGraph, for_each_seed};
use rast_msgpass::{
    Cx, DrainCause, Egress, Ingress, OnPanic, Process, Receive, ReplyTo, Report, Timer, graph,
    replica_of,
};

use crate::messages::{Answer, Ask, Job, Line, Out, Poke, Put, watch_order};

const WORKERS: usize = 3;

graph! {
    graph World {
        processors { front: Front, worker: [Worker; WORKERS], store: Store, log: Log }
        edges {
            ingress -> front: Put [cap = 4];
            ingress -> worker: Poke [cap = 4];
            front -> worker: Job [cap = 4, burst = 2];
            worker -> store: Ask [cap = 2];
            store -> worker: Answer [reply = Ask];
            worker -> log: Line [cap = 2, unbounded];
            log -> egress: Out [cap = 4];
        }
    }
}

#[derive(Clone)]
struct Tick;

/// Handlers that returned, per edge.
type Handled = Arc<Mutex<[u64; 6]>>;

/// Counts a handler that returned.
fn count(handled: &Handled, edge: usize) {
    handled.lock().unwrap()[edge] += 1;
}

struct Front {
    handled: Handled,
    sent: [u64; WORKERS],
    extra: u64,
}

struct Worker {
    handled: Handled,
    asked: u64,
    lines: u64,
    ticks: u64,
    has_flushed: bool,
}

struct Store {
    handled: Handled,
    kept: Vec<Kept>,
    answered: [u64; WORKERS],
}

/// A request that is answered later, and its client.
type Kept = (usize, ReplyTo<World, Worker, Store, Ask>);

struct Log {
    handled: Handled,
    out: u64,
}

impl Process<World> for Front {}
impl Receive<World, Ingress, Put> for Front {
    fn receive(&mut self, Put(number): Put, cx: &mut Cx<'_, World, Self>) {
        let to = replica_of(number, WORKERS);
        cx.to::<Worker>().key(number).send(Job(self.sent[to]));
        self.sent[to] += 1;
        if cx
            .to::<Worker>()
            .key(number)
            .try_send(Job(self.sent[to]))
            .is_ok()
        {
            (self.sent[to], self.extra) = (self.sent[to] + 1, self.extra + 1);
        }
        count(&self.handled, 0);
    }
}

impl Process<World> for Worker {
    fn flush(&mut self, cx: &mut Cx<'_, World, Self>) {
        // In a cycle it is called until none has anything to send.
        if !std::mem::replace(&mut self.has_flushed, true) {
            cx.to::<Log>().send(Line(self.lines));
            self.lines += 1;
        }
    }
}
impl Receive<World, Ingress, Poke> for Worker {
    fn receive(&mut self, Poke(key): Poke, cx: &mut Cx<'_, World, Self>) {
        assert_eq!(cx.replica(), replica_of(key, WORKERS));
        cx.after(Duration::from_micros(3), Tick);
        count(&self.handled, 1);
    }
}
impl Receive<World, Timer, Tick> for Worker {
    fn receive(&mut self, _: Tick, cx: &mut Cx<'_, World, Self>) {
        self.ticks += 1;
        cx.to::<Log>().send(Line(self.lines));
        self.lines += 1;
    }
}
impl Receive<World, Front, Job> for Worker {
    fn receive(&mut self, _: Job, cx: &mut Cx<'_, World, Self>) {
        cx.to::<Store>().send(Ask(self.asked));
        self.asked += 1;
        count(&self.handled, 2);
    }
}
impl Receive<World, Store, Answer> for Worker {
    fn receive(&mut self, _: Answer, cx: &mut Cx<'_, World, Self>) {
        cx.to::<Log>().send(Line(self.lines));
        self.lines += 1;
        count(&self.handled, 4);
    }
}

impl Store {
    fn answer(&mut self, (client, token): Kept, cx: &mut Cx<'_, World, Self>) {
        token.send(Answer(self.answered[client]), cx);
        self.answered[client] += 1;
    }
}
impl Process<World> for Store {
    fn flush(&mut self, cx: &mut Cx<'_, World, Self>) {
        for kept in std::mem::take(&mut self.kept) {
            self.answer(kept, cx);
        }
    }
}
impl Receive<World, Worker, Ask> for Store {
    fn receive(&mut self, Ask(number): Ask, cx: &mut Cx<'_, World, Self>) {
        let kept = (cx.sender(), cx.reply_to());
        match number % 5 {
            0 => self.kept.push(kept),
            1 => drop(kept),
            _ => self.answer(kept, cx),
        }
        if self.kept.len() > 1 {
            let oldest = self.kept.remove(0);
            self.answer(oldest, cx);
        }
        count(&self.handled, 3);
    }
}

impl Process<World> for Log {}
impl Receive<World, Worker, Line> for Log {
    fn receive(&mut self, _: Line, cx: &mut Cx<'_, World, Self>) {
        cx.to::<Egress>().send(Out(self.out));
        self.out += 1;
        count(&self.handled, 5);
    }
}

fn world(seed: u64, on_panic: OnPanic) -> (TestGraph<World>, Handled, Arc<Mutex<u64>>) {
    let handled = Handled::default();
    let worker = |_| Worker {
        handled: handled.clone(),
        asked: 0,
        lines: 0,
        ticks: 0,
        has_flushed: false,
    };
    let hooked = Arc::new(Mutex::new(0));
    let counts = hooked.clone();
    let front = Front {
        handled: handled.clone(),
        sent: [0; WORKERS],
        extra: 0,
    };
    let store = Store {
        handled: handled.clone(),
        kept: Vec::new(),
        answered: [0; WORKERS],
    };
    let log = Log {
        handled: handled.clone(),
        out: 0,
    };
    let builder = World::builder(front, (0..WORKERS).map(worker), store, log)
        .batch(8)
        .workers(1 + seed as usize % 2)
        .on_panic(on_panic)
        .on_undelivered(move |_, _| *counts.lock().unwrap() += 1);
    let mut app = builder.test(seed).unwrap();
    watch_order!(app: Ingress -> Front: Put, Front -> Worker: Job, Worker -> Store: Ask,
        Store -> Worker: Answer, Worker -> Log: Line, Log -> Egress: Out);
    (app, handled, hooked)
}

/// Each message that an edge took was handled, or counted as lost.
fn assert_balance(report: &Report, handled: &Handled, hooked: u64) {
    let handled = handled.lock().unwrap();
    let lost = |edge: usize| {
        let lost = report.undelivered.iter();
        let of = lost.filter(|lost| *lost.edge == World::EDGES[edge]);
        of.map(|lost| lost.messages).sum::<u64>()
    };
    for (edge, counts) in report.metrics.edges.iter().enumerate().take(6) {
        assert_eq!(
            counts.sent,
            handled[edge] + lost(edge),
            "{}: {counts:?}\n{report}",
            counts.edge
        );
        assert_eq!(counts.depth, 0, "{}", counts.edge);
    }
    // All except those that were in hand go to the hook.
    let in_hand = report.panics.iter().filter(|panic| panic.edge.is_some());
    let in_hand: u64 = in_hand.map(|panic| panic.count).sum();
    assert_eq!(report.undelivered_total(), hooked + in_hand);
}

#[test]
fn what_is_accepted_is_delivered_or_counted() {
    let (mut lost, mut drained) = (0, 0);
    for_each_seed(0..1_000, |seed| {
        let policy = [OnPanic::Continue, OnPanic::Retire, OnPanic::Stop][seed as usize % 3];
        let (mut app, handled, hooked) = world(seed, policy);
        let out = app.collect::<Log, Out>(0);
        let puts = app.feed::<Front, Put>((0..40).map(Put));
        let pokes = app.feed_by_key::<Worker, Poke>((0..6).map(|key| (key, Poke(key))));
        if seed % 4 == 1 {
            app.panic_at::<Front, Worker, Job>(1 + seed % 31);
            app.panic_in::<Store>(0, 1 + seed % 17);
        }
        if seed % 5 == 1 {
            app.set_room::<Front, Worker, Job>(Room::Burst);
            app.pause::<Worker>(1);
            app.steps(100);
            app.set_room::<Front, Worker, Job>(Room::Real);
            app.resume::<Worker>(1);
        }
        app.steps(seed as usize % 97);
        app.advance(Duration::from_micros(seed % 5));
        let is_clean = seed % 4 != 1;
        let report = match seed % 7 {
            0 => app.stop(),
            1 => {
                app.run_for(Duration::from_micros(10));
                app.stop()
            }
            _ => match app.drain() {
                Ok(report) => {
                    drained += 1;
                    report
                }
                Err(error) => {
                    assert!(!is_clean, "seed {seed}: {error}");
                    let known = matches!(error.cause, DrainCause::Lost | DrainCause::Ended(_));
                    assert!(known, "seed {seed}: {error}");
                    *error.report
                }
            },
        };
        let edges = &report.metrics.edges;
        assert_eq!(
            (edges[0].sent, edges[1].sent),
            (puts.accepted(), pokes.accepted())
        );
        assert_balance(&report, &handled, *hooked.lock().unwrap());
        let sent: u64 = edges[6].sent;
        assert_eq!(
            out.take().len() as u64,
            sent,
            "a lane gives all that was sent"
        );
        lost += report.undelivered_total();
        if is_clean {
            assert_eq!(report.panics, []);
        }
    });
    if std::env::var_os("RAST_SEED").is_none() {
        assert!(lost > 0 && drained > 500, "{lost} lost, {drained} drained");
    }
}
