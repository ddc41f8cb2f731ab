//! How a graph comes to rest: between two messages, flushed, with nothing lost behind an `Ok`.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rast_msgpass::{
    Batch, Cx, DrainCause, Egress, EndedBy, Handle, Ingress, Next, OnPanic, Process, Receive, graph,
};

use crate::LONG;

/// What a handler does with a number.
enum Do {
    Count,
    Stop,
    Panic,
    /// Says that it has begun, and waits until it may go on.
    Wait(mpsc::Sender<()>, mpsc::Receiver<()>),
}

struct Worker {
    handled: Arc<AtomicU64>,
}

graph! {
    graph One {
        processors { worker: Worker }
        edges { ingress -> worker: Do [cap = 128]; }
    }
}

impl Process<One> for Worker {}
impl Receive<One, Ingress, Do> for Worker {
    fn receive(&mut self, what: Do, cx: &mut Cx<'_, One, Self>) {
        self.handled.fetch_add(1, SeqCst);
        match what {
            Do::Count => {}
            Do::Stop => cx.stop(),
            Do::Panic => panic!("as asked"),
            Do::Wait(begun, go_on) => {
                begun.send(()).unwrap();
                go_on.recv().unwrap();
            }
        }
    }
}

/// A graph whose worker is in a handler, and what lets it go on.
fn held() -> (Handle<One>, Arc<AtomicU64>, mpsc::Sender<()>) {
    let handled = Arc::new(AtomicU64::new(0));
    let worker = Worker {
        handled: handled.clone(),
    };
    let app = One::builder(worker).workers(1).start().unwrap();
    let ((begin, begun), (go_on, gone_on)) = (mpsc::channel(), mpsc::channel());
    let into = app.ingress::<Worker, Do>();
    into.send(Do::Wait(begin, gone_on)).unwrap();
    begun.recv().unwrap();
    (app, handled, go_on)
}

#[test]
fn a_handler_that_stops_the_graph_is_the_last_one() {
    let (app, handled, go_on) = held();
    let into = app.ingress::<Worker, Do>();
    (0..4).for_each(|_| into.send(Do::Count).unwrap());
    into.send(Do::Stop).unwrap();
    (0..60).for_each(|_| into.send(Do::Count).unwrap());
    go_on.send(()).unwrap();
    let report = app.wait();
    assert_eq!(handled.load(SeqCst), 6);
    assert_eq!(report.undelivered_total(), 60);
    let (name, replica) = ("worker", 0);
    assert_eq!(report.ended_by, Some(EndedBy::Processor { name, replica }));
}

#[test]
fn a_stop_from_outside_waits_for_one_handler_alone() {
    let (app, handled, go_on) = held();
    let into = app.ingress::<Worker, Do>();
    (0..60).for_each(|_| into.send(Do::Count).unwrap());
    app.stopper().stop();
    go_on.send(()).unwrap();
    let report = app.wait();
    assert_eq!(handled.load(SeqCst), 1);
    assert_eq!(report.ended_by, Some(EndedBy::Stopper));
    let closed = into.send(Do::Count).unwrap_err();
    assert_eq!(closed.ended_by(), EndedBy::Stopper);
}

#[test]
fn a_closed_door_says_that_a_temporary_handle_was_dropped() {
    let handled = Arc::new(AtomicU64::new(0));
    let worker = Worker { handled };
    let into = One::builder(worker)
        .start()
        .unwrap()
        .ingress::<Worker, Do>();
    let closed = into.send(Do::Count).unwrap_err();
    assert_eq!(closed.ended_by(), EndedBy::Dropped);
    assert!(closed.to_string().contains("its handle was dropped"));
}

#[test]
fn a_drain_does_not_say_ok_when_a_retired_processor_lost_messages() {
    let handled = Arc::new(AtomicU64::new(0));
    let worker = Worker {
        handled: handled.clone(),
    };
    let app = One::builder(worker)
        .workers(1)
        .on_panic(OnPanic::Retire)
        .start()
        .unwrap();
    let into = app.ingress::<Worker, Do>();
    into.send(Do::Panic).unwrap();
    (0..9).for_each(|_| into.send(Do::Count).unwrap());
    let error = app.drain(LONG).unwrap_err();
    assert_eq!(error.cause, DrainCause::Lost);
    assert_eq!(error.report.undelivered_total(), 10);
    let text = error.to_string();
    assert!(
        text.contains("10 of them of ingress -> Worker: Do"),
        "{text}"
    );
    assert!(text.contains("worker[0]: as asked"), "{text}");
    assert!(text.lines().count() <= 5, "{text}");
}

#[test]
fn the_states_come_back() {
    let (app, _, go_on) = held();
    let into = app.ingress::<Worker, Do>();
    into.send(Do::Count).unwrap();
    assert!(app.report().take_states::<One, Worker>().is_empty());
    go_on.send(()).unwrap();
    let report = app.drain(LONG).unwrap();
    let same = report.clone();
    let states = report.take_states::<One, Worker>();
    assert_eq!(states[0].handled.load(SeqCst), 2);
    assert!(same.take_states::<One, Worker>().is_empty(), "taken once");
}

struct Holder;

graph! {
    graph Own {
        processors { holder: Holder }
        edges {
            ingress -> holder: Handle<Own>;
            holder -> egress: DrainCause;
        }
    }
}

impl Process<Own> for Holder {}
impl Receive<Own, Ingress, Handle<Own>> for Holder {
    fn receive(&mut self, app: Handle<Own>, cx: &mut Cx<'_, Own, Self>) {
        // It would wait for itself.
        let error = app.drain(LONG).unwrap_err();
        cx.to::<Egress>().send(error.cause);
    }
}

#[test]
fn a_drain_by_a_handler_of_the_graph_is_refused_at_once() {
    let app = Own::builder(Holder).start().unwrap();
    let mut out = app.egress::<Holder, DrainCause>(0);
    let into = app.ingress::<Holder, Handle<Own>>();
    into.send(app).unwrap();
    assert_eq!(out.recv_timeout(LONG), Ok(DrainCause::Handler));
}

struct Many;

graph! {
    graph Spill {
        processors { many: Many }
        edges {
            ingress -> many: u64 [cap = 128];
            many -> egress: u64 [cap = 4, unbounded];
        }
    }
}

impl Process<Spill> for Many {}
impl Receive<Spill, Ingress, u64> for Many {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Spill, Self>) {
        cx.to::<Egress>().send(number);
    }
}

#[test]
fn a_drain_waits_for_what_an_unbounded_egress_keeps() {
    let app = Spill::builder(Many).workers(1).start().unwrap();
    let mut out = app.egress::<Many, u64>(0);
    let into = app.ingress::<Many, u64>();
    (0..100).for_each(|number| into.send(number).unwrap());
    while app.metrics().edges[1].sent < 100 {
        std::thread::yield_now();
    }
    let receiver = std::thread::spawn(move || {
        let mut seen = Vec::new();
        while let Ok(number) = out.recv() {
            seen.push(number);
        }
        seen
    });
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.undelivered_total(), 0);
    assert_eq!(receiver.join().unwrap(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_drain_that_cannot_end_names_the_lane() {
    let app = Spill::builder(Many).workers(1).start().unwrap();
    let _out = app.egress::<Many, u64>(0);
    let into = app.ingress::<Many, u64>();
    (0..100).for_each(|number| into.send(number).unwrap());
    while app.metrics().edges[1].sent < 100 {
        std::thread::yield_now();
    }
    let error = app.drain(Duration::from_millis(5)).unwrap_err();
    assert_eq!(error.cause, DrainCause::Deadline);
    let blocked = error.blocked.unwrap();
    assert_eq!((blocked.lane, blocked.messages), (Some(0), 100));
    assert!(!blocked.is_unrequested);
    let text = error.to_string();
    assert!(text.contains("Many -> egress: u64, lane 0"), "{text}");
    assert!(text.lines().count() <= 5, "{text}");
}

#[test]
fn a_drain_says_that_the_receiver_of_a_full_lane_was_never_requested() {
    let app = Spill::builder(Many).workers(1).start().unwrap();
    let into = app.ingress::<Many, u64>();
    (0..100).for_each(|number| into.send(number).unwrap());
    while app.metrics().edges[1].sent < 100 {
        std::thread::yield_now();
    }
    let error = app.drain(Duration::from_millis(5)).unwrap_err();
    assert!(error.blocked.unwrap().is_unrequested);
    let text = error.to_string();
    let hint = "lane 0, whose receiver was never requested: call `Handle::egress`";
    assert!(text.contains(hint), "{text}");
    // What a `main` prints that returns the error.
    let text = format!("{error:?}");
    assert!(text.contains("Deadline") && text.contains(hint), "{text}");
    assert!(text.len() < 400, "{text}");
}

/// Keeps what it gets, and sends it at the end.
struct Keep {
    kept: Vec<u64>,
    log: Arc<Mutex<Vec<&'static str>>>,
}
struct Pass {
    rounds: u64,
    log: Arc<Mutex<Vec<&'static str>>>,
}

graph! {
    graph Late {
        processors { pass: Pass, keep: Keep }
        edges {
            ingress -> keep: u64;
            keep -> pass: u64 [burst = 8];
            pass -> pass: u64 [unbounded];
            pass -> egress: u64 [cap = 2];
        }
    }
}

impl Process<Late> for Keep {
    fn flush(&mut self, cx: &mut Cx<'_, Late, Self>) {
        assert!(cx.is_draining());
        self.log.lock().unwrap().push("keep");
        for number in self.kept.drain(..) {
            cx.to::<Pass>().send(number);
        }
    }
}
impl Receive<Late, Ingress, u64> for Keep {
    fn receive(&mut self, number: u64, _: &mut Cx<'_, Late, Self>) {
        self.kept.push(number);
    }
}
impl Process<Late> for Pass {
    fn ping(&mut self, _: &mut Cx<'_, Late, Self>) -> Next {
        Next::Idle
    }

    fn flush(&mut self, cx: &mut Cx<'_, Late, Self>) {
        self.log.lock().unwrap().push("pass");
        if self.rounds > 0 {
            self.rounds -= 1;
            cx.to::<Pass>().send(self.rounds);
        }
    }
}
impl Receive<Late, Keep, u64> for Pass {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Late, Self>) {
        cx.to::<Egress>().send(100 + number);
    }
}
impl Receive<Late, Pass, u64> for Pass {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Late, Self>) {
        cx.to::<Egress>().send(number);
    }
}

#[test]
fn a_drain_flushes_upstream_first_and_a_cycle_until_it_is_empty() {
    for workers in [1, 2] {
        let log = Arc::new(Mutex::new(Vec::new()));
        let pass = Pass {
            rounds: 3,
            log: log.clone(),
        };
        let keep = Keep {
            kept: Vec::new(),
            log: log.clone(),
        };
        let app = Late::builder(pass, keep).workers(workers).start().unwrap();
        let into = app.ingress::<Keep, u64>();
        let mut out = app.egress::<Pass, u64>(0);
        (0..5).for_each(|number| into.send(number).unwrap());
        let receiver = std::thread::spawn(move || {
            let mut seen = Vec::new();
            while let Ok(number) = out.recv() {
                seen.push(number);
            }
            seen
        });
        app.drain(LONG).unwrap();
        assert_eq!(receiver.join().unwrap(), [100, 101, 102, 103, 104, 2, 1, 0]);
        let log = log.lock().unwrap();
        assert_eq!(*log, ["keep", "pass", "pass", "pass", "pass"]);
    }
}

struct Slow {
    turns: Vec<u64>,
}

graph! {
    graph Timed {
        processors { slow: Slow }
        edges { ingress -> slow: u64 [cap = 128]; }
    }
}

impl Process<Timed> for Slow {
    fn ping(&mut self, cx: &mut Cx<'_, Timed, Self>) -> Next {
        // Once after the messages of each turn.
        self.turns.push(0);
        Next::Woken(
            cx.now()
                .saturating_add(rast_msgpass::timers::Nanos::from_secs(60)),
        )
    }
}
impl Receive<Timed, Ingress, u64> for Slow {
    fn receive(&mut self, micros: u64, _: &mut Cx<'_, Timed, Self>) {
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_micros(micros) {
            std::hint::spin_loop();
        }
        if let Some(turn) = self.turns.last_mut() {
            *turn += 1;
        }
    }
}

#[test]
fn a_batch_ends_by_count_or_by_time() {
    let run = |batch: Batch, micros: u64| {
        let slow = Slow { turns: Vec::new() };
        let app = Timed::builder(slow)
            .workers(1)
            .batch(1)
            .batch_of::<Slow>(batch)
            .start()
            .unwrap();
        let into = app.ingress::<Slow, u64>();
        (0..100).for_each(|_| into.send(micros).unwrap());
        while app.metrics().instances[0].received < 100 {
            std::thread::yield_now();
        }
        let report = app.drain(LONG).unwrap();
        report.take_states::<Timed, Slow>().remove(0).turns
    };
    let turns = run(Batch::messages(3), 0);
    assert!(turns.iter().all(|&turn| turn <= 3), "{turns:?}");
    // Each message takes the whole time.
    let turns = run(Batch::messages(64).time(Duration::from_micros(50)), 50);
    assert!(turns.iter().all(|&turn| turn <= 1), "{turns:?}");
}
