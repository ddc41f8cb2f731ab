//! How long messages wait and are handled, by a clock that is moved by hand.

use core::time::Duration;
use std::sync::{Arc, OnceLock};

use rast_msgpass::timers::{ManualClock, Nanos};
use rast_msgpass::{
    Cx, Egress, Ingress, OnPanic, Process, Receive, ReplyTo, Report, Restart, Timings, Viewer,
    graph,
};

/// Sends what it gets to all that follow.
struct Front;
/// One of each way that messages take.
struct Back {
    kept: Vec<ReplyTo<Ways, Front, Self, Work>>,
}

struct Plain(u64);
struct Bytes(#[expect(dead_code)] u64);
struct Newest(#[expect(dead_code)] u64);
struct Spills(#[expect(dead_code)] u64);
struct Work(u64);
struct Done;

impl rast_msgpass::Weight for Bytes {
    fn weight(&self) -> usize {
        8
    }
}

graph! {
    graph Ways {
        processors { front: Front, back: Back }
        edges {
            ingress -> front: u64 [cap = 64];
            front -> back: Plain [cap = 8];
            front -> back: Bytes [cap = 8, bytes = 1024];
            front -> back: Newest [cap = 4, drop_oldest];
            front -> back: Spills [unbounded, cap = 2];
            front -> back: Work [cap = 8];
            back -> front: Done [reply = Work];
            back -> egress: u64 [cap = 64];
        }
    }
}

impl Process<Ways> for Front {}
impl Receive<Ways, Ingress, u64> for Front {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Ways, Self>) {
        cx.to::<Back>().send(Plain(number));
        cx.to::<Back>().send(Bytes(number));
        cx.to::<Back>().send(Newest(number));
        cx.to::<Back>().send(Spills(number));
        cx.to::<Back>().send(Work(number));
    }
}
impl Receive<Ways, Back, Done> for Front {
    fn receive(&mut self, _: Done, _: &mut Cx<'_, Ways, Self>) {}
}
impl Process<Ways> for Back {}
impl Receive<Ways, Front, Plain> for Back {
    fn receive(&mut self, Plain(number): Plain, cx: &mut Cx<'_, Ways, Self>) {
        assert!(number < 1_000, "too large");
        cx.to::<Egress>().send(number);
    }
}
impl Receive<Ways, Front, Bytes> for Back {
    fn receive(&mut self, _: Bytes, _: &mut Cx<'_, Ways, Self>) {}
}
impl Receive<Ways, Front, Newest> for Back {
    fn receive(&mut self, _: Newest, _: &mut Cx<'_, Ways, Self>) {}
}
impl Receive<Ways, Front, Spills> for Back {
    fn receive(&mut self, _: Spills, _: &mut Cx<'_, Ways, Self>) {}
}
impl Receive<Ways, Front, Work> for Back {
    fn receive(&mut self, Work(number): Work, cx: &mut Cx<'_, Ways, Self>) {
        match number % 3 {
            0 => cx.to::<Front>().send(Done),
            1 => self.kept.push(cx.reply_to()),
            _ => self.kept.clear(),
        }
    }
}

/// Returns the timings, after a check of what holds for all of them at one message in one: as many
/// as were handled, or taken from a lane.
fn complete(viewer: &Viewer) -> Timings {
    let (timings, metrics) = (viewer.timings().unwrap(), viewer.metrics());
    for (timed, counted) in timings.edges.iter().zip(&metrics.edges) {
        assert_eq!(timed.edge, counted.edge);
        assert_eq!(timed.waiting.count(), counted.received, "{}", timed.edge);
    }
    for timed in &timings.processors {
        let instances = metrics.instances.iter();
        let instances = instances.filter(|one| one.processor == timed.processor);
        let received: u64 = instances.map(|one| one.received).sum();
        assert_eq!(timed.handling.count(), received, "{}", timed.name);
    }
    timings
}

#[test]
fn waiting_is_from_the_send_to_the_handler_on_each_way() {
    for seed in 0..20 {
        let back = Back { kept: Vec::new() };
        let builder = Ways::builder(Front, back).workers(2).sample(1);
        let mut app = builder.test(seed).unwrap();
        let viewer = app.handle().viewer();
        let mut numbers = app.handle().egress::<Back, u64>(0);
        app.pause::<Front>(0);
        app.pause::<Back>(0);
        for number in 0..3 {
            app.send::<Front, u64>(number).unwrap();
            app.advance(Duration::from_nanos(100));
        }
        // The door: 300, 200 and 100.
        app.resume::<Front>(0);
        app.run_until_idle();
        let door = complete(&viewer).edges.swap_remove(0).waiting;
        assert_eq!((door.count(), door.sum()), (3, 600));
        assert_eq!((door.min(), door.max()), (100, 300));
        // All edges from front to back: 1,000 each. The unbounded one has two slots, so the third
        // message waits beside the ring.
        app.advance(Duration::from_nanos(1_000));
        app.resume::<Back>(0);
        app.run_until_idle();
        let timings = complete(&viewer);
        for edge in &timings.edges[1..6] {
            let waiting = &edge.waiting;
            let found = (waiting.count(), waiting.min(), waiting.max());
            assert_eq!(found, (3, 1_000, 1_000), "{} by seed {seed}", edge.edge);
        }
        // One answer, and two waivers, which are not measured.
        assert_eq!(timings.edges[6].waiting.count(), 1);
        // The lane.
        app.advance(Duration::from_nanos(7));
        assert_eq!(numbers.try_recv(), Ok(0));
        app.advance(Duration::from_nanos(7));
        assert_eq!(numbers.drain(9, drop), 2);
        let lane = complete(&viewer).edges.swap_remove(7).waiting;
        assert_eq!((lane.count(), lane.min(), lane.sum()), (3, 7, 35));
        let report = app.drain().unwrap();
        assert_eq!(report.timings, viewer.timings());
        let text = report.to_string();
        assert!(text.contains("waiting (1 in 1)"), "{text}");
    }
}

/// Takes as long as its messages say.
struct Slow(Arc<OnceLock<ManualClock>>);

graph! {
    graph Slowly {
        processors { slow: Slow }
        edges { ingress -> slow: u64; }
    }
}

impl Process<Slowly> for Slow {}
impl Receive<Slowly, Ingress, u64> for Slow {
    fn receive(&mut self, nanos: u64, _: &mut Cx<'_, Slowly, Self>) {
        self.0
            .get()
            .expect("the test has set the clock")
            .advance(Nanos::from_nanos(nanos));
        assert!(nanos != 5, "five");
    }
}

#[test]
fn a_handler_that_takes_time_is_measured() {
    let clock = Arc::new(OnceLock::new());
    let builder = Slowly::builder(Slow(Arc::clone(&clock))).sample(1);
    let mut app = builder.test(1).unwrap();
    clock.set(app.clock()).unwrap();
    let viewer = app.handle().viewer();
    for nanos in [3, 5, 90] {
        app.send::<Slow, u64>(nanos).unwrap();
    }
    app.run_until_idle();
    let timings = viewer.timings().unwrap();
    let handling = &timings.processors[0].handling;
    // With the one that panicked.
    assert_eq!((handling.count(), handling.sum()), (3, 98));
    // Each waited for the handlers before it.
    let waiting = &timings.edges[0].waiting;
    assert_eq!((waiting.sum(), waiting.max()), (3 + 8, 8));
}

#[test]
fn a_restart_is_counted_and_what_was_given_up_is_not_measured() {
    let back = || Back { kept: Vec::new() };
    let restart = Restart::new().limit(1, Duration::from_secs(9));
    let builder = Ways::builder(Front, back()).restart(restart, move |_| back());
    let mut app = builder.sample(1).test(3).unwrap();
    let viewer = app.handle().viewer();
    app.send::<Front, u64>(1_000).unwrap();
    app.run_for(Duration::from_secs(1));
    assert_eq!(viewer.metrics().instances[1].restarts, 1);
    let timings = viewer.timings().unwrap();
    assert_eq!(timings.edges[1].waiting.count(), 1);
    // The second panic is one too many: it retires, and what comes after is given up.
    app.send::<Front, u64>(1_000).unwrap();
    app.run_for(Duration::from_secs(1));
    app.send::<Front, u64>(1).unwrap();
    app.run_for(Duration::from_secs(1));
    let report: Report = app.stop();
    let plain = &report.timings.as_ref().unwrap().edges[1].waiting;
    assert_eq!(plain.count(), 2);
    assert_eq!(report.metrics.edges[1].received, 3);
}

#[test]
fn one_message_of_each_block_is_measured() {
    for one_in in [2, 7, 64] {
        let back = Back { kept: Vec::new() };
        let builder = Ways::builder(Front, back).on_panic(OnPanic::Continue);
        let mut app = builder.sample(one_in).test(u64::from(one_in)).unwrap();
        let viewer = app.handle().viewer();
        let mut numbers = app.handle().egress::<Back, u64>(0);
        for number in 0..700 {
            app.send::<Front, u64>(3 * (number % 300)).unwrap();
            app.run_until_idle();
            while numbers.try_recv().is_ok() {}
        }
        let expected = 700 / u64::from(one_in);
        for edge in viewer.timings().unwrap().edges {
            let count = edge.waiting.count();
            assert!(count.abs_diff(expected) <= 1, "{}: {count}", edge.edge);
        }
    }
}

#[test]
fn without_a_sample_nothing_is_measured() {
    let back = Back { kept: Vec::new() };
    let app = Ways::builder(Front, back).test(1).unwrap();
    let viewer = app.handle().viewer();
    assert_eq!(viewer.timings(), None);
    assert!(!viewer.report().to_string().contains("waiting"));
}

/// Replicas: so many that their edges have inboxes.
const MANY: usize = 20;

struct Asker;
struct Server;
struct Sink;
struct Query(u64);
struct Answer;
struct Job;
struct Other;

graph! {
    graph Wide {
        processors { asker: [Asker; 20], server: [Server; 20], sink: [Sink; 20] }
        edges {
            ingress -> asker: u64 [cap = 64];
            asker -> server: Query [cap = 64];
            server -> asker: Answer [reply = Query];
            asker -> sink: Job [cap = 64, route = any];
            asker -> sink: Other [cap = 64];
        }
    }
}

impl Process<Wide> for Asker {}
impl Receive<Wide, Ingress, u64> for Asker {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Wide, Self>) {
        cx.to::<Server>().key(number).send(Query(number));
        cx.to::<Sink>().any().send(Job);
        let other = cx.to::<Sink>().at(0).try_send(Other);
        assert!(other.is_ok(), "one inbox has room for all");
    }
}
impl Receive<Wide, Server, Answer> for Asker {
    fn receive(&mut self, _: Answer, _: &mut Cx<'_, Wide, Self>) {}
}
impl Process<Wide> for Server {}
impl Receive<Wide, Asker, Query> for Server {
    fn receive(&mut self, Query(number): Query, cx: &mut Cx<'_, Wide, Self>) {
        if number % 2 == 0 {
            let asker = cx.sender();
            cx.to::<Asker>().at(asker).send(Answer);
        }
    }
}
impl Process<Wide> for Sink {}
impl Receive<Wide, Asker, Job> for Sink {
    fn receive(&mut self, _: Job, _: &mut Cx<'_, Wide, Self>) {}
}
impl Receive<Wide, Asker, Other> for Sink {
    fn receive(&mut self, _: Other, _: &mut Cx<'_, Wide, Self>) {}
}

#[test]
fn waiting_in_inboxes_is_from_the_send_to_the_handler() {
    for seed in 0..10 {
        let askers = (0..MANY).map(|_| Asker);
        let builder = Wide::builder(askers, (0..MANY).map(|_| Server), (0..MANY).map(|_| Sink));
        let mut app = builder.workers(2).sample(1).test(seed).unwrap();
        let viewer = app.handle().viewer();
        for replica in 0..MANY {
            app.pause::<Server>(replica);
            app.pause::<Sink>(replica);
        }
        let numbers = app.handle().ingress::<Asker, u64>();
        for number in 0..3 * MANY {
            numbers.at(number % MANY).send(number as u64).unwrap();
        }
        app.run_until_idle();
        app.advance(Duration::from_nanos(1_000));
        for replica in 0..MANY {
            app.pause::<Asker>(replica);
            app.resume::<Server>(replica);
            app.resume::<Sink>(replica);
        }
        app.run_until_idle();
        app.advance(Duration::from_nanos(50));
        for replica in 0..MANY {
            app.resume::<Asker>(replica);
        }
        app.run_until_idle();
        let timings = complete(&viewer);
        for edge in &timings.edges {
            let waiting = &edge.waiting;
            let found = (waiting.count(), waiting.min(), waiting.max());
            let expected = match edge.edge.message {
                "u64" => (60, 0, 0),
                "Answer" => (30, 50, 50),
                _ => (60, 1_000, 1_000),
            };
            assert_eq!(found, expected, "{} by seed {seed}", edge.edge);
        }
        app.drain().unwrap();
    }
}
