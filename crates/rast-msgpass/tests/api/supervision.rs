//! Restarts on threads, while instances move and the graph drains or stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use rast_msgpass::{
    BuildError, Builder, Cx, Egress, EndedBy, Ingress, OnPanic, Process, Receive, ReplyTo, Restart,
    Stopped, graph,
};

use crate::LONG;
use crate::rotate::Rotate;

graph! {
    graph Hall {
        processors { porter: [Porter; 3], desk: [Desk; 2] }
        edges {
            ingress -> porter: u64 [cap = 16, keep];
            porter -> desk: Ask [cap = 4, keep];
            desk -> porter: Answer [reply = Ask, keep];
            porter -> egress: u64 [unbounded];
        }
    }
}

#[derive(Clone)]
struct Ask(u64);
#[derive(Clone)]
struct Answer(u64);

/// What all processors count.
#[derive(Default)]
struct Counts {
    /// Handlers that returned, per edge.
    handled: [AtomicU64; 3],
    lost: [AtomicU64; 4],
    begun: AtomicU64,
    ended: AtomicU64,
    alive: AtomicU64,
}

/// A processor that is counted while it lives.
struct Alive(Arc<Counts>);

impl Alive {
    fn new(counts: &Arc<Counts>) -> Self {
        counts.alive.fetch_add(1, SeqCst);
        Self(counts.clone())
    }

    /// Panics at some messages, without a text on the terminal.
    fn handle(&self, edge: usize, number: u64, faulty: u64) {
        if number % faulty == faulty - 1 {
            std::panic::resume_unwind(Box::new("a faulty number"));
        }
        self.0.handled[edge].fetch_add(1, SeqCst);
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, SeqCst);
    }
}

struct Porter(Alive);
struct Desk {
    alive: Alive,
    kept: Vec<ReplyTo<Hall, Porter, Desk, Ask>>,
}

impl Process<Hall> for Porter {
    fn on_start(&mut self, cx: &mut Cx<'_, Hall, Self>) {
        self.0.0.begun.fetch_add(1, SeqCst);
        cx.to::<Egress>().send(u64::MAX);
    }
    fn on_stop(&mut self, _: Stopped) {
        self.0.0.ended.fetch_add(1, SeqCst);
    }
}
impl Receive<Hall, Ingress, u64> for Porter {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Hall, Self>) {
        cx.to::<Desk>().key(number).send(Ask(number));
        self.0.handle(0, number, 11);
    }
}
impl Receive<Hall, Desk, Answer> for Porter {
    fn receive(&mut self, Answer(number): Answer, cx: &mut Cx<'_, Hall, Self>) {
        cx.to::<Egress>().send(number);
        self.0.handle(2, number, 17);
    }
}
impl Process<Hall> for Desk {
    fn on_start(&mut self, _: &mut Cx<'_, Hall, Self>) {
        self.alive.0.begun.fetch_add(1, SeqCst);
    }
    fn on_stop(&mut self, _: Stopped) {
        self.alive.0.ended.fetch_add(1, SeqCst);
    }
    fn flush(&mut self, cx: &mut Cx<'_, Hall, Self>) {
        for token in std::mem::take(&mut self.kept) {
            token.send(Answer(0), cx);
        }
    }
}
impl Receive<Hall, Porter, Ask> for Desk {
    fn receive(&mut self, Ask(number): Ask, cx: &mut Cx<'_, Hall, Self>) {
        match number % 3 {
            0 => {
                let token = cx.reply_to();
                self.kept.push(token);
                if self.kept.len() > 2 {
                    self.kept.remove(0).send(Answer(number), cx);
                }
            }
            1 => {
                let client = cx.sender();
                cx.to::<Porter>().at(client).send(Answer(number));
            }
            _ => {}
        }
        self.alive.handle(1, number, 13);
    }
}

fn hall(counts: &Arc<Counts>, restart: Restart) -> Builder<Hall> {
    let porter = |counts: &Arc<Counts>| Porter(Alive::new(counts));
    let desk = |counts: &Arc<Counts>| Desk {
        alive: Alive::new(counts),
        kept: Vec::new(),
    };
    let porters: Vec<_> = (0..3).map(|_| porter(counts)).collect();
    let desks = [desk(counts), desk(counts)];
    let (of_porters, of_desks) = (counts.clone(), counts.clone());
    let (failed, given_up) = (counts.clone(), counts.clone());
    let lose = |counts: &Counts, edge: &_| {
        let edge = Hall::EDGES.iter().position(|of| of == edge);
        counts.lost[edge.expect("an edge of the graph")].fetch_add(1, SeqCst);
    };
    Hall::builder(porters, desks)
        .workers(2)
        .period(Duration::from_millis(1))
        .balancer(Rotate)
        .restart::<Porter>(restart, move |_| porter(&of_porters))
        .restart::<Desk>(restart, move |_| desk(&of_desks))
        .on_failure(move |failure| {
            if let Some(edge) = failure.edge {
                assert!(failure.message.is_some());
                lose(&failed, edge);
            }
        })
        .on_undelivered(move |edge, _| lose(&given_up, edge))
}

#[test]
fn restarts_lose_nothing_while_instances_move() {
    let mut moves = 0;
    for round in 0..12 {
        let counts = Arc::new(Counts::default());
        let delay = [Duration::ZERO, Duration::from_micros(50)][round % 2];
        let restart = Restart::new()
            .without_limit(Duration::from_secs(1))
            .delay(delay, delay);
        let app = hall(&counts, restart).start().unwrap();
        // What leaves is dropped.
        drop(app.egress::<Porter, u64>(0));
        let into = app.ingress::<Porter, u64>();
        let senders: Vec<_> = (0..2)
            .map(|sender| {
                let into = into.clone();
                std::thread::spawn(move || {
                    let send = |number: &u64| into.key(*number).send(*number).is_ok();
                    (0..1_500)
                        .map(|number| 2 * number + sender)
                        .take_while(send)
                        .count() as u64
                })
            })
            .collect();
        let report = if round % 3 == 0 {
            // In the middle of it.
            while app.metrics().edges[0].received < 700 {
                std::thread::yield_now();
            }
            app.stop()
        } else {
            while app.metrics().edges[0].received < 2_900 {
                std::thread::yield_now();
            }
            app.drain(LONG).unwrap()
        };
        let sent: u64 = senders
            .into_iter()
            .map(|sender| sender.join().unwrap())
            .sum();
        let edges = &report.metrics.edges;
        assert_eq!(edges[0].sent, sent, "{report}");
        for (edge, counted) in edges.iter().enumerate().take(3) {
            let handled = counts.handled[edge].load(SeqCst);
            let lost = counts.lost[edge].load(SeqCst);
            assert_eq!(counted.sent, handled + lost, "edge {edge}: {report}");
            assert_eq!(counted.depth, 0, "edge {edge}: {report}");
        }
        if round % 3 > 0 {
            assert_eq!(edges[1].unanswered, 0, "{report}");
            assert!(sent >= 2_900, "{report}");
        }
        let restarts: u64 = report
            .metrics
            .instances
            .iter()
            .map(|one| one.restarts)
            .sum();
        assert!(restarts > 30, "{report}");
        moves += report.metrics.moves;
        assert_eq!(counts.begun.load(SeqCst), counts.ended.load(SeqCst));
        assert_eq!(report.faults, [""; 0]);
        drop(report);
        assert_eq!(counts.alive.load(SeqCst), 0);
    }
    assert!(moves > 0, "instances move while they restart");
}

#[test]
fn past_the_limit_the_graph_stops_by_name() {
    let counts = Arc::new(Counts::default());
    let restart = Restart::new()
        .limit(4, LONG)
        .delay(Duration::ZERO, Duration::ZERO)
        .or_stop();
    let app = hall(&counts, restart).start().unwrap();
    let into = app.ingress::<Porter, u64>();
    // Each 11th of them panics at its porter, and each has one of three.
    let mut sent = 0;
    while into.at(1).send(10).is_ok() {
        sent += 1;
    }
    let report = app.wait();
    let by = EndedBy::Processor {
        name: "porter",
        replica: 1,
    };
    assert_eq!(report.ended_by, Some(by));
    assert_eq!(report.metrics.instances[1].restarts, 4);
    assert_eq!(report.metrics.instances[1].panics, 5);
    assert_eq!((report.panics.len(), report.panics[0].count), (1, 5));
    let text = report.to_string();
    assert!(text.contains("a faulty number (5 times)"), "{text}");
    assert!(text.contains("\nporter x 3"), "{text}");
    assert!(report.metrics.edges[0].sent <= sent);
}

#[test]
fn policies_are_those_of_each_processor() {
    let counts = Arc::new(Counts::default());
    let app = hall(&counts, Restart::new())
        .on_panic(OnPanic::Stop)
        .on_panic_of::<Porter>(OnPanic::Retire)
        .start()
        .unwrap();
    let into = app.ingress::<Porter, u64>();
    into.at(2).send(10).unwrap();
    while !app.metrics().instances[2].is_retired {
        std::thread::yield_now();
    }
    into.at(0).send(1).unwrap();
    let mut out = app.egress::<Porter, u64>(0);
    while out.recv().unwrap() != 1 {}
    let report = app.stop();
    let retired = report.metrics.instances.iter().map(|one| one.is_retired);
    assert_eq!(
        retired.collect::<Vec<_>>(),
        [false, false, true, false, false]
    );
}

mod tiny {
    use super::*;

    pub(super) struct Only;
    graph! {
        pub(super) graph Tiny {
            processors { only: Only }
            edges { ingress -> only: u64; }
        }
    }
    impl Process<Tiny> for Only {}
    impl Receive<Tiny, Ingress, u64> for Only {
        fn receive(&mut self, number: u64, _: &mut Cx<'_, Tiny, Self>) {
            assert!(number < 1, "too large");
        }
    }
}

#[test]
fn a_limit_within_no_time_is_refused() {
    use tiny::{Only, Tiny};
    let build = |restart| Tiny::builder(Only).restart::<Only>(restart, |_| Only);
    for most in [0, 1, 5] {
        let restart = Restart::new().limit(most, Duration::ZERO);
        let error = build(restart).check().unwrap_err();
        assert!(matches!(
            error,
            BuildError::RestartWindow { processor: "only" }
        ));
        assert_eq!(
            error.to_string(),
            "the restarts of processor `only` are limited within a time of zero, in which none \
             counts: give `limit` a longer time, or use `without_limit`"
        );
    }
    let nanosecond = Restart::new().limit(5, Duration::from_nanos(1));
    build(nanosecond).check().unwrap();
    // Without a limit the time says how long the delay grows: it never does.
    let restart = Restart::new().without_limit(Duration::ZERO);
    let restart = restart.delay(Duration::ZERO, Duration::ZERO);
    let app = build(restart).start().unwrap();
    let into = app.ingress::<Only, u64>();
    (0..50).for_each(|number| into.send(number).unwrap());
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.metrics.instances[0].restarts, 49);
}
