//! Unbounded edges have a ceiling: there the graph stops, and nothing is lost unseen.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use rast_msgpass::{
    Builder, Cx, DrainCause, Egress, EndedBy, Handle, Ingress, OnPanic, Process, Receive, Report,
    TrySendError, graph,
};

use crate::LONG;

/// What a source is to do.
#[derive(Clone, Copy, Debug)]
enum Order {
    Send(u64),
    /// On both edges.
    Both(u64),
    /// Sends after it has stopped the graph.
    Stop(u64),
    /// Sends and then panics.
    Panic(u64),
    /// Sends while there is room, which it compares with what it was told.
    Try,
    /// Sends so many more when it is asked to flush.
    Flush(u64),
}

#[derive(Default)]
struct Source {
    flush: u64,
}
/// Counts what it handles. Its lane has no receiver, so it handles one message.
struct Sink(Counts);
struct Other;

type Counts = Arc<Mutex<HashMap<&'static str, u64>>>;

fn count(counts: &Counts, message: &'static str) {
    *counts.lock().unwrap().entry(message).or_default() += 1;
}

graph! {
    graph Pile {
        processors { source: [Source; 3], sink: Sink }
        edges {
            ingress -> source: Order [cap = 64];
            source -> sink: u64 [unbounded, cap = 4, ceiling = 100];
            source -> sink: Other [unbounded, cap = 4, ceiling = 50];
            sink -> egress: u8 [cap = 1];
        }
    }
}

/// The edges with ceilings.
const NUMBERS: usize = 1;
const OTHERS: usize = 2;

impl Source {
    fn send(count: u64, cx: &mut Cx<'_, Pile, Self>) {
        (0..count).for_each(|number| cx.to::<Sink>().send(number));
    }
}
impl Process<Pile> for Source {
    fn flush(&mut self, cx: &mut Cx<'_, Pile, Self>) {
        Self::send(core::mem::take(&mut self.flush), cx);
    }
}
impl Receive<Pile, Ingress, Order> for Source {
    fn receive(&mut self, order: Order, cx: &mut Cx<'_, Pile, Self>) {
        match order {
            Order::Send(count) => Self::send(count, cx),
            Order::Both(count) => {
                Self::send(count, cx);
                (0..count).for_each(|_| cx.to::<Sink>().send(Other));
            }
            Order::Stop(count) => {
                cx.stop();
                Self::send(count, cx);
            }
            Order::Panic(count) => {
                Self::send(count, cx);
                panic!("as ordered");
            }
            Order::Try => {
                let room = cx.to::<Sink>().room::<u64>();
                assert!(cx.to::<Sink>().has_room::<u64>(room));
                let mut taken = 0;
                while cx.to::<Sink>().try_send(taken).is_ok() {
                    taken += 1;
                }
                assert!(taken >= room as u64, "{taken} of {room}");
                assert_eq!(cx.to::<Sink>().room::<u64>(), 0);
                assert!(!cx.to::<Sink>().has_room::<u64>(1));
            }
            Order::Flush(count) => self.flush = count,
        }
    }
}
impl Process<Pile> for Sink {}
impl Receive<Pile, Source, u64> for Sink {
    fn receive(&mut self, _: u64, cx: &mut Cx<'_, Pile, Self>) {
        count(&self.0, "u64");
        cx.to::<Egress>().send(0_u8);
    }
}
impl Receive<Pile, Source, Other> for Sink {
    fn receive(&mut self, _: Other, cx: &mut Cx<'_, Pile, Self>) {
        count(&self.0, "Other");
        cx.to::<Egress>().send(0_u8);
    }
}

/// A graph, what its sink handled, and what it gave up.
struct Run {
    app: Handle<Pile>,
    handled: Counts,
    given_up: Counts,
}

fn start(workers: usize, set: impl FnOnce(Builder<Pile>) -> Builder<Pile>) -> Run {
    let (handled, given_up) = (Counts::default(), Counts::default());
    let lost = given_up.clone();
    let sources = [Source::default(), Source::default(), Source::default()];
    let builder = Pile::builder(sources, Sink(handled.clone()))
        .workers(workers)
        .on_undelivered(move |edge, _| count(&lost, edge.message));
    let app = set(builder).start().unwrap();
    Run {
        app,
        handled,
        given_up,
    }
}

impl Run {
    fn order(&self, order: Order) {
        self.app
            .ingress::<Source, Order>()
            .at(0)
            .send(order)
            .unwrap();
    }
}

/// All that was sent was handled, or given up and counted.
fn is_complete(report: &Report, handled: &Counts, given_up: &Counts) {
    let (handled, given_up) = (handled.lock().unwrap(), given_up.lock().unwrap());
    for edge in &report.metrics.edges[NUMBERS..=OTHERS] {
        let message = edge.edge.message;
        let lost = report
            .undelivered
            .iter()
            .find(|lost| lost.edge == edge.edge);
        let lost = lost.map_or(0, |lost| lost.messages);
        assert_eq!(
            lost,
            given_up.get(message).copied().unwrap_or(0),
            "{report}"
        );
        let handled = handled.get(message).copied().unwrap_or(0);
        assert_eq!(edge.sent, handled + lost, "{message}: {report}");
    }
}

fn ceiling(edge: usize) -> EndedBy {
    let edge = &Pile::EDGES[edge];
    EndedBy::Ceiling { edge }
}

#[test]
fn a_graph_stops_at_the_ceiling_of_an_unbounded_edge_and_names_it() {
    for workers in [1, 2] {
        let run = start(workers, |builder| builder);
        // Within the ceiling nothing happens: at most four are in the ring and one is handled.
        run.order(Order::Send(100));
        while run.app.metrics().edges[NUMBERS].sent < 100 {
            std::thread::yield_now();
        }
        assert_eq!(run.app.ended_by(), None);
        run.order(Order::Send(50));
        let into = run.app.ingress::<Source, Order>();
        let report = run.app.wait();
        assert_eq!(report.ceilings, [&Pile::EDGES[NUMBERS]]);
        assert_eq!(report.ended_by, Some(ceiling(NUMBERS)));
        let text = report.to_string();
        let line = "the unbounded edge Source -> Sink: u64 reached its ceiling of 100";
        assert!(text.contains(line), "{text}");
        let closed = into.at(0).send(Order::Try).unwrap_err();
        assert_eq!(closed.ended_by(), ceiling(NUMBERS));
        assert_eq!(report.metrics.edges[NUMBERS].sent, 150);
        is_complete(&report, &run.handled, &run.given_up);
    }
}

#[test]
fn the_ceiling_has_a_default_and_bounds_what_is_kept() {
    use length::Long;
    assert_eq!(Long::EDGES[1].ceiling, 1 << 20);
    assert_eq!(Pile::EDGES[NUMBERS].ceiling, 100);
    assert_eq!(
        Pile::EDGES[0].ceiling,
        usize::MAX,
        "a bounded edge has none"
    );
    // What is past the ceiling is given up while the handler runs.
    let run = start(1, |builder| builder);
    let count = if cfg!(miri) { 1000 } else { 100_000 };
    run.order(Order::Send(count));
    let report = run.app.wait();
    assert_eq!(report.metrics.edges[NUMBERS].sent, count);
    is_complete(&report, &run.handled, &run.given_up);
}

#[test]
fn try_send_is_refused_at_the_ceiling_and_the_graph_goes_on() {
    for workers in [1, 2] {
        let run = start(workers, |builder| builder);
        run.order(Order::Try);
        run.order(Order::Try);
        while run.app.metrics().edges[0].received < 2 {
            std::thread::yield_now();
        }
        assert_eq!(run.app.ended_by(), None);
        let report = run.app.stop();
        assert!(
            report.panics.is_empty() && report.ceilings.is_empty(),
            "{report}"
        );
        let sent = report.metrics.edges[NUMBERS].sent;
        // The ceiling, the ring, and one that was handled.
        assert!((104..=105).contains(&sent), "{sent}");
        is_complete(&report, &run.handled, &run.given_up);
    }
}

#[test]
fn a_ceiling_reached_while_the_graph_stops_is_named_and_all_is_counted() {
    let run = start(2, |builder| builder);
    run.order(Order::Stop(150));
    let report = run.app.wait();
    let (name, replica) = ("source", 0);
    assert_eq!(report.ended_by, Some(EndedBy::Processor { name, replica }));
    assert_eq!(report.ceilings, [&Pile::EDGES[NUMBERS]]);
    is_complete(&report, &run.handled, &run.given_up);
}

#[test]
fn a_ceiling_reached_in_a_drain_ends_it_with_an_error() {
    for workers in [1, 2] {
        // By a message that the drain lets be handled, and by the flush.
        for order in [Order::Send(150), Order::Flush(150)] {
            let run = start(workers, |builder| builder);
            let out = run.app.egress::<Sink, u8>(0);
            run.order(order);
            let error = run.app.drain(LONG).unwrap_err();
            assert_eq!(error.cause, DrainCause::Ended(ceiling(NUMBERS)), "{error}");
            let line = "Source -> Sink: u64 reached its ceiling of 100";
            assert!(error.to_string().contains(line), "{error}");
            assert_eq!(error.report.ceilings, [&Pile::EDGES[NUMBERS]]);
            is_complete(&error.report, &run.handled, &run.given_up);
            drop(out);
        }
    }
}

#[test]
fn several_senders_and_edges_reach_their_ceilings_at_once() {
    for workers in [2, 4] {
        let run = start(workers, |builder| builder);
        let into = run.app.ingress::<Source, Order>();
        std::thread::scope(|scope| {
            for source in 0..3 {
                let into = into.at(source);
                scope.spawn(move || {
                    // The first to get there closes the doors.
                    let _ = into.send(Order::Both(150));
                });
            }
        });
        let report = run.app.wait();
        let named = report.ceilings.len();
        assert!((1..=2).contains(&named), "each once: {report}");
        assert!(matches!(report.ended_by, Some(EndedBy::Ceiling { .. })));
        is_complete(&report, &run.handled, &run.given_up);
        // The orders that were accepted are counted too.
        let orders = report.metrics.edges[0];
        let lost = report
            .undelivered
            .iter()
            .find(|lost| lost.edge == orders.edge);
        let lost = lost.map_or(0, |lost| lost.messages);
        assert!(orders.sent >= 1 && lost < 3, "{report}");
    }
}

#[test]
fn a_handler_that_panics_at_the_ceiling_loses_only_what_is_in_hand() {
    for policy in [OnPanic::Continue, OnPanic::Retire, OnPanic::Stop] {
        for workers in [1, 2] {
            let run = start(workers, |builder| builder.on_panic(policy));
            run.order(Order::Panic(150));
            let report = run.app.wait();
            assert_eq!(report.panics.len(), 1, "{report}");
            assert_eq!(report.ended_by, Some(ceiling(NUMBERS)));
            assert_eq!(report.metrics.edges[NUMBERS].sent, 150);
            is_complete(&report, &run.handled, &run.given_up);
        }
    }
}

#[test]
fn a_hook_that_panics_at_the_ceiling_is_a_fault_in_the_report() {
    let hit = Arc::new(AtomicBool::new(false));
    let once = hit.clone();
    let run = start(1, move |builder| {
        builder.on_undelivered(move |_, _| {
            assert!(once.swap(true, SeqCst), "the first one");
        })
    });
    run.order(Order::Send(150));
    let report = run.app.wait();
    assert!(hit.load(SeqCst) && report.panics.is_empty(), "{report}");
    assert_eq!(report.faults.len(), 1, "{report}");
    let lost = &report.undelivered[0];
    let handled = run.handled.lock().unwrap().get("u64").copied().unwrap_or(0);
    assert_eq!(report.metrics.edges[NUMBERS].sent, handled + lost.messages);
}

mod length {
    //! An unbounded edge, whose receiver waits for the test, and one from ingress.
    use super::*;

    pub(super) struct Front;
    pub(super) struct Back;

    graph! {
        pub(super) graph Long {
            processors { front: Front, back: Back }
            edges {
                ingress -> front: u64 [unbounded, ceiling = 3];
                front -> back: u64 [unbounded, cap = 4];
                back -> egress: u64 [unbounded, cap = 1, ceiling = 1000];
                ingress -> back: u8 [unbounded, ceiling = 3];
                back -> egress: u8 [cap = 1];
            }
        }
    }

    impl Process<Long> for Front {}
    impl Receive<Long, Ingress, u64> for Front {
        fn receive(&mut self, count: u64, cx: &mut Cx<'_, Long, Self>) {
            (0..count).for_each(|number| cx.to::<Back>().send(number));
        }
    }
    impl Process<Long> for Back {}
    impl Receive<Long, Front, u64> for Back {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Long, Self>) {
            cx.to::<Egress>().send(number);
        }
    }
    impl Receive<Long, Ingress, u8> for Back {
        fn receive(&mut self, number: u8, cx: &mut Cx<'_, Long, Self>) {
            cx.to::<Egress>().send(number);
        }
    }
}

#[test]
fn the_length_of_an_unbounded_edge_is_a_figure() {
    use length::{Back, Front, Long};
    let app = Long::builder(Front, Back).workers(1).start().unwrap();
    let gate = app.ingress::<Back, u8>();
    let mut lane = app.egress::<Back, u8>(0);
    let mut out = app.egress::<Back, u64>(0);
    // With its lane of bytes full, the back handles nothing.
    gate.send(1).unwrap();
    while app.metrics().edges[4].sent < 1 {
        std::thread::yield_now();
    }
    app.ingress::<Front, u64>().send(1000).unwrap();
    while app.metrics().edges[1].depth != 1000 {
        std::thread::yield_now();
    }
    // At the ceiling of a door a sender outside is told, and nothing stops.
    (0..3).for_each(|number| gate.try_send(number).unwrap());
    assert_eq!(gate.try_send(3), Err(TrySendError::Full(3)));
    assert_eq!(app.metrics().edges[3].depth, 3);
    // An edge to egress keeps its messages too.
    assert_eq!(lane.recv_timeout(LONG), Ok(1));
    while lane.try_recv().is_ok() || app.metrics().edges[2].depth != 1000 {
        std::thread::yield_now();
    }
    (0..1000).for_each(|number| assert_eq!(out.recv_timeout(LONG), Ok(number)));
    let receiver = std::thread::spawn(move || while lane.recv().is_ok() {});
    let report = app.drain(LONG).unwrap();
    assert!(report.ceilings.is_empty());
    assert!(report.metrics.edges.iter().all(|edge| edge.depth == 0));
    receiver.join().unwrap();
}

#[test]
fn an_edge_to_egress_has_a_ceiling_too() {
    use length::{Back, Front, Long};
    for is_taken in [false, true] {
        let app = Long::builder(Front, Back).workers(2).start().unwrap();
        let out = is_taken.then(|| app.egress::<Back, u64>(0));
        let into = app.ingress::<Front, u64>();
        into.send(600).unwrap();
        into.send(600).unwrap();
        let report = app.wait();
        assert_eq!(report.ceilings, [&Long::EDGES[2]], "{report}");
        let [front, back] = [1, 2].map(|edge| report.metrics.edges[edge]);
        let lost = |edge| {
            let mut all = report.undelivered.iter();
            all.find(|lost| lost.edge == edge)
                .map_or(0, |lost| lost.messages)
        };
        assert_eq!(front.sent, back.sent + lost(front.edge), "{report}");
        let left = out.map_or(0, |mut out| out.drain(usize::MAX, drop) as u64);
        assert_eq!(back.sent, left + lost(back.edge), "{report}");
    }
}

mod wide {
    //! An unbounded edge with inboxes.
    use super::*;

    pub(super) struct Many;
    pub(super) struct Hub(pub(super) Arc<AtomicU64>);

    graph! {
        pub(super) graph Wide {
            processors { many: [Many; 300], hub: Hub }
            edges {
                ingress -> many: u64;
                many -> hub: u64 [unbounded, cap = 8, ceiling = 100];
                hub -> egress: u8 [cap = 1];
            }
        }
    }

    impl Process<Wide> for Many {}
    impl Receive<Wide, Ingress, u64> for Many {
        fn receive(&mut self, count: u64, cx: &mut Cx<'_, Wide, Self>) {
            (0..count).for_each(|number| cx.to::<Hub>().send(number));
        }
    }
    impl Process<Wide> for Hub {}
    impl Receive<Wide, Many, u64> for Hub {
        fn receive(&mut self, _: u64, cx: &mut Cx<'_, Wide, Self>) {
            self.0.fetch_add(1, SeqCst);
            cx.to::<Egress>().send(0_u8);
        }
    }
}

#[test]
fn the_ceiling_holds_for_inboxes() {
    use wide::{Hub, Many, Wide};
    assert!(!Wide::EDGES[1].by_pair);
    let handled = Arc::new(AtomicU64::new(0));
    let app = Wide::builder((0..300).map(|_| Many), Hub(handled.clone()))
        .workers(2)
        .start()
        .unwrap();
    let into = app.ingress::<Many, u64>();
    into.at(7).send(90).unwrap();
    while app.metrics().edges[1].sent < 90 {
        std::thread::yield_now();
    }
    assert_eq!(app.ended_by(), None);
    into.at(7).send(200).unwrap();
    let report = app.wait();
    assert_eq!(report.ceilings, [&Wide::EDGES[1]]);
    let lost = report
        .undelivered
        .iter()
        .find(|lost| lost.edge == &Wide::EDGES[1]);
    let lost = lost.map_or(0, |lost| lost.messages);
    assert_eq!(
        report.metrics.edges[1].sent,
        handled.load(SeqCst) + lost,
        "{report}"
    );
}
