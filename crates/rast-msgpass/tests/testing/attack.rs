//! Misuse, and calls in an order that no example has.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rast_msgpass::testing::{Room, TestCx, TestGraph, for_each_seed};
use rast_msgpass::{
    Cx, DrainCause, Egress, Ingress, Next, OnPanic, Process, Receive, ReplyTo, Timer, graph,
};

graph! {
    graph App {
        processors { client: Client, server: Server, busy: Busy [source] }
        edges {
            ingress -> client: Put [cap = 4];
            client -> server: Ask [cap = 4];
            server -> client: Answer [reply = Ask, cap = 2];
            client -> egress: Out [cap = 4, burst = 2];
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Put(u64);
#[derive(Clone, Debug, PartialEq)]
struct Ask(u64);
#[derive(Clone, Debug, PartialEq)]
struct Answer(u64);
#[derive(Clone, Debug, PartialEq)]
struct Out(u64);
#[derive(Clone)]
struct Tick(u64);

/// Asks for numbers below 100. The others have a meaning of their own.
#[derive(Default)]
struct Client {
    fired: Vec<(u64, u64)>,
}
/// Keeps each odd request.
#[derive(Default)]
struct Server {
    kept: Vec<ReplyTo<App, Client, Server, Ask>>,
}
/// Wants a ping all the time, if so.
#[derive(Default)]
struct Busy(bool);

const TIMERS: u64 = 100;
const FAULTY_TIMER: u64 = 102;
const REPEATED: u64 = 103;

impl Process<App> for Client {
    fn flush(&mut self, _: &mut Cx<'_, App, Self>) {
        assert!(self.fired.is_empty(), "fired before");
    }
}
impl Receive<App, Ingress, Put> for Client {
    fn receive(&mut self, Put(number): Put, cx: &mut Cx<'_, App, Self>) {
        match number {
            TIMERS => (0..1_000).for_each(|number| {
                cx.after(Duration::from_nanos(1_000 - number), Tick(number));
            }),
            REPEATED => {
                cx.every(Duration::from_millis(1), Tick(0));
            }
            FAULTY_TIMER => {
                cx.after(Duration::from_nanos(1), Tick(u64::MAX));
            }
            _ => cx.to::<Server>().send(Ask(number)),
        }
    }
}
impl Receive<App, Server, Answer> for Client {
    fn receive(&mut self, Answer(number): Answer, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Egress>().send(Out(number));
    }
}
impl Receive<App, Timer, Tick> for Client {
    fn receive(&mut self, Tick(number): Tick, cx: &mut Cx<'_, App, Self>) {
        assert!(number < u64::MAX, "a faulty timer");
        self.fired.push((cx.now().as_nanos(), number));
    }
}
impl Process<App> for Server {}
impl Receive<App, Client, Ask> for Server {
    fn receive(&mut self, Ask(number): Ask, cx: &mut Cx<'_, App, Self>) {
        match number % 2 {
            0 => cx.to::<Client>().send(Answer(number)),
            _ => self.kept.push(cx.reply_to()),
        }
    }
}
impl Process<App> for Busy {
    fn ping(&mut self, _: &mut Cx<'_, App, Self>) -> Next {
        match self.0 {
            true => Next::Again,
            false => Next::Idle,
        }
    }
}

fn app(seed: u64, on_panic: OnPanic) -> TestGraph<App> {
    let builder = App::builder(Client::default(), Server::default(), Busy(false));
    builder.on_panic(on_panic).test(seed).unwrap()
}

/// The text of a panic.
fn text_of(run: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(run)).expect_err("it panics");
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| payload.downcast_ref().map(|text: &&str| (*text).to_owned()));
    text.expect("with a text")
}

#[test]
fn injected_panics_count_each_for_itself() {
    for_each_seed(0..50, |seed| {
        let mut app = app(seed, OnPanic::Continue);
        let out = app.collect::<Client, Out>(0);
        app.panic_at::<Ingress, Client, Put>(2);
        app.panic_at::<Ingress, Client, Put>(3);
        app.panic_in::<Client>(0, 2);
        app.panic_in::<Server>(0, 1);
        app.feed::<Client, Put>([0, 2, 4, 6].map(Put));
        // No answer takes a number of the client's handlers.
        app.pause::<Server>(0);
        app.run_until_idle();
        app.resume::<Server>(0);
        app.run_until_idle();
        assert_eq!(out.take(), [Out(6)], "seed {seed}");
        let report = app.drain().unwrap();
        let texts: Vec<_> = report.panics.iter().map(|panic| &*panic.message).collect();
        assert_eq!(
            texts,
            [
                "injected: message 2 of ingress -> Client: Put",
                "injected: message 3 of ingress -> Client: Put",
                "injected: message 1 of server[0]",
            ]
        );
    });
}

#[test]
fn a_send_to_a_door_that_stays_full_fails_the_test() {
    let builder = App::builder(Client::default(), Server::default(), Busy(true));
    let mut app = builder.test(1).unwrap();
    app.pause::<Client>(0);
    (0..4).for_each(|number| app.send::<Client, Put>(Put(number)).unwrap());
    let text = text_of(|| drop(app.send::<Client, Put>(Put(4))));
    assert!(
        text.contains("graph `App`") && text.contains("steps"),
        "{text}"
    );
}

#[test]
fn a_watch_of_one_processor_fails_the_test() {
    let mut alone = TestCx::<App, Client>::new(Client::default());
    let watch = |passed: rast_msgpass::testing::Passed<&Put>| assert_ne!(passed.message.0, 2);
    alone.graph().watch::<Ingress, Client, Put>(watch);
    alone.receive::<Ingress, Put>(Put(0));
    let text = text_of(|| alone.receive::<Ingress, Put>(Put(2)));
    assert!(text.contains("left != right"), "{text}");
    alone.turn();
    assert_eq!(alone.sent::<Server, Ask>(), [Ask(0), Ask(2)]);
}

#[test]
fn a_panic_says_which_handler_it_was() {
    let mut app = app(1, OnPanic::Continue);
    app.send::<Client, Put>(Put(FAULTY_TIMER)).unwrap();
    app.send::<Client, Put>(Put(REPEATED)).unwrap();
    app.run_for(Duration::from_millis(1));
    let report = app.drain().unwrap();
    let texts: Vec<_> = report.panics.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "client[0] in a timer's handler: a faulty timer",
            "client[0] in its flush: fired before",
        ]
    );
}

#[test]
fn requests_past_the_credit_are_refused_by_name() {
    let mut alone = TestCx::<App, Server>::new(Server::default());
    // Two is the credit.
    (0..2).for_each(|_| alone.receive::<Client, Ask>(Ask(1)));
    let text = text_of(|| alone.receive::<Client, Ask>(Ask(1)));
    assert_eq!(
        text,
        "graph `App`, edge Client -> Server: Ask: the test sends a message for which there is no \
         room or credit"
    );
    assert_eq!(alone.processor().kept.len(), 2);
    drop(alone.into_inner());
}

#[test]
fn what_is_paused_is_named_by_a_drain() {
    for_each_seed(0..20, |seed| {
        let mut app = app(seed, OnPanic::Continue);
        let feed = app.feed::<Client, Put>((0..50).map(|number| Put(2 * (number % 40))));
        let out = app.collect::<Client, Out>(0);
        app.pause::<Server>(0);
        app.steps(seed as usize);
        let error = app.drain().unwrap_err();
        if error.report.metrics.edges[1].sent == 0 {
            return;
        }
        assert_eq!(error.cause, DrainCause::Deadline);
        assert!(error.to_string().contains(" wait on "), "{error}");
        let report = &error.report;
        let lost = report.undelivered_total();
        assert!(report.metrics.edges[0].sent <= feed.accepted());
        assert!(lost > 0 && out.is_empty());
    });
}

#[test]
fn what_has_no_room_is_named_by_a_drain() {
    let mut app = app(1, OnPanic::Continue);
    app.set_room::<Client, Server, Ask>(Room::None);
    app.send::<Client, Put>(Put(0)).unwrap();
    app.run_until_idle();
    let error = app.drain().unwrap_err();
    assert_eq!(error.cause, DrainCause::Deadline);
    assert_eq!(error.report.undelivered_total(), 1);
    assert!(
        error.to_string().contains("ingress -> Client: Put"),
        "{error}"
    );
}

#[test]
fn a_graph_is_dropped_at_any_step() {
    for_each_seed(0..200, |seed| {
        let lost = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&lost);
        let builder = App::builder(Client::default(), Server::default(), Busy(seed % 2 == 0));
        let hook = move |_: &_, _| {
            count.fetch_add(1, SeqCst);
            assert_ne!(seed % 3, 0, "a hook that panics");
        };
        let mut app = builder.on_undelivered(hook).workers(2).test(seed).unwrap();
        let feed = app.feed::<Client, Put>((0..40).map(Put));
        app.steps(seed as usize);
        drop(app);
        let (first, lost) = (feed.accepted(), lost.load(SeqCst));
        assert!(lost <= 3 * first, "{lost} of {first}");
    });
}

#[test]
fn two_graphs_take_turns_on_one_thread() {
    let run = |seed, others: &mut dyn FnMut()| {
        let mut app = app(seed, OnPanic::Continue);
        let order = Arc::new(Mutex::new(Vec::new()));
        let see = Arc::clone(&order);
        app.watch::<Client, Server, Ask>(move |passed| see.lock().unwrap().push(passed.message.0));
        let _out = app.collect::<Client, Out>(0);
        app.feed::<Client, Put>((0..20).map(|number| Put(2 * number)));
        while app.step() {
            others();
        }
        let order = order.lock().unwrap().clone();
        (app.turns(), order)
    };
    let mut second = app(9, OnPanic::Continue);
    let taken = second.collect::<Client, Out>(0);
    let mut number = 0;
    let alone = run(5, &mut || {});
    let beside = run(5, &mut || {
        second.send::<Client, Put>(Put(number % 100)).unwrap();
        second.step();
        number += 2;
    });
    assert_eq!(alone, beside);
    second.run_until_idle();
    assert_eq!(taken.len() as u64, number / 2);
}

#[test]
fn a_thousand_timers_are_passed_at_once_or_one_by_one() {
    for_each_seed(0..20, |seed| {
        let mut app = app(seed, OnPanic::Continue);
        app.send::<Client, Put>(Put(TIMERS)).unwrap();
        app.run_until_idle();
        match seed % 2 {
            0 => app.advance(Duration::from_secs(1)),
            _ => app.run_for(Duration::from_secs(1)),
        }
        app.run_until_idle();
        let fired = app.processor::<Client>(0).fired.clone();
        let numbers: Vec<u64> = fired.iter().map(|&(_, number)| number).collect();
        assert_eq!(numbers, (0..1_000).rev().collect::<Vec<_>>());
        let late = fired.iter().filter(|&&(at, number)| at > 1_000 - number);
        assert_eq!(late.count(), if seed % 2 == 0 { 1_000 } else { 0 });
    });
}

#[test]
fn time_passes_to_its_end() {
    let mut app = app(1, OnPanic::Continue);
    app.send::<Client, Put>(Put(TIMERS)).unwrap();
    app.run_for(Duration::MAX);
    assert_eq!(app.processor::<Client>(0).fired.len(), 1_000);
    app.advance(Duration::MAX);
    app.run_until_idle();
    drop(app.stop());
}

#[test]
fn a_paused_replica_keeps_its_timers() {
    let mut app = app(1, OnPanic::Continue);
    app.send::<Client, Put>(Put(TIMERS)).unwrap();
    app.run_until_idle();
    app.pause::<Client>(0);
    app.run_for(Duration::from_secs(1));
    assert!(app.processor::<Client>(0).fired.is_empty());
    app.resume::<Client>(0);
    app.run_for(Duration::from_secs(1));
    assert_eq!(app.processor::<Client>(0).fired.len(), 1_000);
}

#[test]
fn a_replica_that_is_not_there_is_named() {
    let text = text_of(|| drop(TestCx::<App, Client>::at(3, Client::default())));
    assert!(text.contains('3'), "{text}");
    let mut alone = TestCx::<App, Server>::new(Server::default());
    let text = text_of(|| alone.receive_from::<Client, Ask>(7, Ask(0)));
    assert!(text.contains('7'), "{text}");
}

mod gone {
    use super::{Process, Receive};
    use rast_msgpass::{Cx, Egress, Ingress, graph};

    graph! {
        pub(super) graph Leak {
            processors { tap: Tap }
            edges {
                ingress -> tap: u64;
                tap -> egress: u64 [unbounded, cap = 1, ceiling = 4, lanes = 2];
            }
        }
    }
    pub(super) struct Tap;
    impl Process<Leak> for Tap {}
    impl Receive<Leak, Ingress, u64> for Tap {
        fn receive(&mut self, count: u64, cx: &mut Cx<'_, Leak, Self>) {
            for number in 0..count {
                match number % 2 {
                    0 if count > 50 => cx.to::<Egress>().lane(0).try_send(number).unwrap(),
                    _ => cx.to::<Egress>().lane(0).send(number),
                }
            }
        }
    }
}

#[test]
fn a_receiver_that_is_gone_brings_no_edge_to_its_ceiling() {
    use gone::{Leak, Tap};
    for (before, after) in [(0, 50), (0, 60), (4, 1), (5, 10)] {
        let hooked = Arc::new(AtomicU64::new(0));
        let counts = Arc::clone(&hooked);
        let hook = move |_: &_, _| {
            counts.fetch_add(1, SeqCst);
        };
        let mut app = Leak::builder(Tap).on_undelivered(hook).test(1).unwrap();
        let lane = app.handle().egress::<Tap, u64>(0);
        app.send::<Tap, u64>(before).unwrap();
        app.run_until_idle();
        drop(lane);
        app.send::<Tap, u64>(after).unwrap();
        app.send::<Tap, u64>(after).unwrap();
        app.run_until_idle();
        assert_eq!(app.handle().ended_by(), None, "{before} and {after}");
        let report = app.stop();
        assert_eq!(report.ceilings.len(), 0);
        assert_eq!(report.panics, []);
        assert_eq!(report.metrics.edges[1].sent, before + 2 * after);
        assert_eq!(report.undelivered_total(), before + 2 * after);
        // What found no room when the lane went is offered to the hook; the rest was in the lane.
        assert!(hooked.load(SeqCst) <= before + 2 * after);
    }
}
