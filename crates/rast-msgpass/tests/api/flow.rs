//! What waits for room: one inlet, and only for the edges that its handler sends on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, ReplyTo, graph};

use crate::LONG;

/// Longer than a door stays full when the graph goes on.
const SOON: Duration = Duration::from_secs(20);

fn wait_for(count: &AtomicU64, at_least: u64) {
    let start = std::time::Instant::now();
    while count.load(SeqCst) < at_least {
        assert!(
            start.elapsed() < SOON,
            "{} of {at_least}",
            count.load(SeqCst)
        );
        std::thread::yield_now();
    }
}

mod any {
    //! Three replicas, of which the first can be blocked for good.
    use super::*;

    pub(super) struct Router;
    pub(super) struct Worker(pub(super) Arc<AtomicU64>);
    pub(super) struct Job;

    graph! {
        pub(super) graph Jobs {
            processors { router: Router, worker: [Worker; 3] }
            edges {
                ingress -> router: u64 [cap = 4];
                router -> worker: Job [cap = 2, burst = 2, route = any];
                worker -> egress: u64 [cap = 1];
            }
        }
    }

    impl Process<Jobs> for Router {}
    impl Receive<Jobs, Ingress, u64> for Router {
        fn receive(&mut self, _: u64, cx: &mut Cx<'_, Jobs, Self>) {
            cx.to::<Worker>().any().send(Job);
            cx.to::<Worker>().any().send(Job);
        }
    }
    impl Process<Jobs> for Worker {}
    impl Receive<Jobs, Router, Job> for Worker {
        fn receive(&mut self, _: Job, cx: &mut Cx<'_, Jobs, Self>) {
            self.0.fetch_add(1, SeqCst);
            if cx.replica() == 0 {
                cx.to::<Egress>().send(1);
            }
        }
    }
}

#[test]
fn one_blocked_replica_stops_no_other_on_an_edge_to_any() {
    use any::{Jobs, Router, Worker};
    for workers in [1, 2] {
        let done = Arc::new(AtomicU64::new(0));
        let replicas = (0..3).map(|_| Worker(done.clone()));
        let app = Jobs::builder(Router, replicas)
            .workers(workers)
            .start()
            .unwrap();
        // Its lane has room for one, and no receiver takes it.
        let into = app.ingress::<Router, u64>();
        for number in 0..100 {
            into.send_timeout(number, SOON).unwrap();
        }
        // All but what the ring of the blocked one holds.
        wait_for(&done, 200 - 2);
        let report = app.drain(Duration::ZERO).unwrap_err().report;
        assert!(report.panics.is_empty(), "{report}");
        assert!(report.undelivered_total() <= 4, "{report}");
    }
}

mod many {
    //! As `any`, with an inbox per replica.
    use super::*;

    pub(super) struct Router;
    pub(super) struct Worker(pub(super) Arc<AtomicU64>);
    pub(super) struct Job;
    pub(super) const REPLICAS: usize = 150;

    graph! {
        pub(super) graph Many {
            processors { router: [Router; 2], worker: [Worker; REPLICAS] }
            edges {
                ingress -> router: u64 [cap = 4];
                router -> worker: Job [cap = 4, route = any];
                worker -> egress: u64 [cap = 1];
            }
        }
    }

    impl Process<Many> for Router {}
    impl Receive<Many, Ingress, u64> for Router {
        fn receive(&mut self, _: u64, cx: &mut Cx<'_, Many, Self>) {
            cx.to::<Worker>().any().send(Job);
        }
    }
    impl Process<Many> for Worker {}
    impl Receive<Many, Router, Job> for Worker {
        fn receive(&mut self, _: Job, cx: &mut Cx<'_, Many, Self>) {
            self.0.fetch_add(1, SeqCst);
            if cx.replica() != 0 && cx.replica() != 77 {
                cx.to::<Egress>().send(1);
            }
        }
    }
}

#[test]
fn blocked_inboxes_stop_no_other_on_an_edge_to_any() {
    use many::{Many, REPLICAS, Router, Worker};
    assert!(!Many::EDGES[1].by_pair && Many::EDGES[1].any);
    for workers in [1, 3] {
        let done = Arc::new(AtomicU64::new(0));
        let replicas = (0..REPLICAS).map(|_| Worker(done.clone()));
        let app = Many::builder([Router, Router], replicas)
            .workers(workers)
            .start()
            .unwrap();
        // Two replicas send nothing, the others are blocked after one message each.
        let into = app.ingress::<Router, u64>();
        for number in 0..2000 {
            into.at(number % 2).send_timeout(1, SOON).unwrap();
        }
        // Each of the 148 handles one and holds four.
        wait_for(&done, 2000 - 4 * 148);
        let error = app.drain(Duration::ZERO).unwrap_err();
        assert!(error.report.panics.is_empty(), "{}", error.report);
    }
}

mod slow {
    //! All replicas are full at times; a receiver outside makes room.
    use super::*;

    pub(super) struct Router;
    pub(super) struct Worker;

    graph! {
        pub(super) graph Slow {
            processors { router: [Router; 2], worker: [Worker; 3] }
            edges {
                ingress -> router: u64 [cap = 4];
                router -> worker: u64 [cap = 2, route = any];
                worker -> egress: u64 [cap = 1];
            }
        }
    }

    impl Process<Slow> for Router {}
    impl Receive<Slow, Ingress, u64> for Router {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Slow, Self>) {
            cx.to::<Worker>().any().send(number);
        }
    }
    impl Process<Slow> for Worker {}
    impl Receive<Slow, Router, u64> for Worker {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Slow, Self>) {
            cx.to::<Egress>().send(number);
        }
    }
}

#[test]
fn room_at_any_replica_wakes_a_router_that_waits() {
    use slow::{Router, Slow, Worker};
    for workers in [1, 2, 4] {
        let app = Slow::builder([Router, Router], [Worker, Worker, Worker])
            .workers(workers)
            .start()
            .unwrap();
        let into = app.ingress::<Router, u64>();
        let mut out = app.egress::<Worker, u64>(0);
        let mut seen: Vec<u64> = std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..4000 {
                    into.at(number as usize % 2)
                        .send_timeout(number, SOON)
                        .unwrap();
                }
            });
            (0..4000).map(|_| out.recv_timeout(SOON).unwrap()).collect()
        });
        seen.sort_unstable();
        assert_eq!(seen, (0..4000).collect::<Vec<_>>());
        assert!(app.drain(LONG).unwrap().metrics.instances[0].gated > 0);
    }
}

mod inlets {
    //! A processor with one edge that is full and one that is not.
    use super::*;

    pub(super) struct Front(pub(super) Arc<AtomicU64>);
    pub(super) struct Back(pub(super) Arc<AtomicU64>);
    pub(super) struct Out;
    pub(super) struct Job;
    pub(super) struct Note;
    pub(super) struct Wrong;
    pub(super) struct Attempt;

    graph! {
        pub(super) graph Inlets {
            processors { front: Front, back: Back }
            edges {
                ingress -> front: Out [cap = 4, sends = (egress: u64)];
                ingress -> front: Job [cap = 4, sends = (u64, back: Job)];
                ingress -> front: Note [cap = 4, sends = ()];
                ingress -> front: Wrong [sends = (back: Job)];
                ingress -> front: Attempt [sends = (Job)];
                front -> back: Job [cap = 2];
                front -> back: u64;
                front -> egress: u64 [cap = 1];
                ingress -> front: u8 [sends = (Job)];
            }
        }
    }

    impl Process<Inlets> for Front {}
    impl Receive<Inlets, Ingress, Out> for Front {
        fn receive(&mut self, _: Out, cx: &mut Cx<'_, Inlets, Self>) {
            cx.to::<Egress>().send(1_u64);
        }
    }
    impl Receive<Inlets, Ingress, Job> for Front {
        fn receive(&mut self, job: Job, cx: &mut Cx<'_, Inlets, Self>) {
            cx.to::<Back>().send(job);
        }
    }
    impl Receive<Inlets, Ingress, Note> for Front {
        fn receive(&mut self, _: Note, _: &mut Cx<'_, Inlets, Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    impl Receive<Inlets, Ingress, Wrong> for Front {
        fn receive(&mut self, _: Wrong, cx: &mut Cx<'_, Inlets, Self>) {
            cx.to::<Back>().send(1_u64);
        }
    }
    impl Receive<Inlets, Ingress, Attempt> for Front {
        fn receive(&mut self, _: Attempt, cx: &mut Cx<'_, Inlets, Self>) {
            // The lane holds one, which is not promised to this handler.
            let room = cx.to::<Egress>().room::<u64>();
            let sent = (0..4)
                .filter(|_| cx.to::<Egress>().try_send(1_u64).is_ok())
                .count();
            assert_eq!(sent, room);
            self.0.fetch_add(room as u64, SeqCst);
        }
    }
    impl Receive<Inlets, Ingress, u8> for Front {
        fn receive(&mut self, count: u8, cx: &mut Cx<'_, Inlets, Self>) {
            (0..count).for_each(|_| cx.to::<Back>().send(Job));
        }
    }
    impl Process<Inlets> for Back {}
    impl Receive<Inlets, Front, Job> for Back {
        fn receive(&mut self, _: Job, _: &mut Cx<'_, Inlets, Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    impl Receive<Inlets, Front, u64> for Back {
        fn receive(&mut self, _: u64, _: &mut Cx<'_, Inlets, Self>) {}
    }
}

#[test]
fn an_inlet_waits_for_the_edges_that_its_handler_sends_on() {
    use inlets::{Back, Front, Inlets, Job, Note, Out};
    for workers in [1, 2] {
        let (notes, jobs) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (front, back) = (Front(notes.clone()), Back(jobs.clone()));
        let app = Inlets::builder(front, back)
            .workers(workers)
            .start()
            .unwrap();
        let mut lane = app.egress::<Front, u64>(0);
        // The lane is full after one: this inlet waits, and its door fills up.
        let outs = app.ingress::<Front, Out>();
        (0..5).for_each(|_| outs.send_timeout(Out, SOON).unwrap());
        while app.metrics().instances[0].gated == 0 {
            std::thread::yield_now();
        }
        assert!(outs.try_send(Out).is_err());
        let (into, into_notes) = (app.ingress::<Front, Job>(), app.ingress::<Front, Note>());
        // Those that send nothing, or not there, go on: also past a burst of the other edge.
        (0..100).for_each(|_| into_notes.send_timeout(Note, SOON).unwrap());
        wait_for(&notes, 100);
        // This one lists `u64`, which is that of both receivers.
        (0..4).for_each(|_| into.send_timeout(Job, SOON).unwrap());
        (0..8).for_each(|_| into_notes.send_timeout(Note, SOON).unwrap());
        wait_for(&notes, 108);
        assert_eq!(jobs.load(SeqCst), 0);
        // Room at the lane is what the others waited for.
        (0..5).for_each(|_| assert_eq!(lane.recv_timeout(SOON), Ok(1)));
        wait_for(&jobs, 4);
        assert!(app.drain(LONG).unwrap().panics.is_empty());
    }
}

#[test]
fn a_send_on_an_edge_that_is_not_listed_panics_and_names_both() {
    use inlets::{Attempt, Back, Front, Inlets, Wrong};
    let app = Inlets::builder(Front(Arc::default()), Back(Arc::default()))
        .workers(1)
        .start()
        .unwrap();
    app.ingress::<Front, Wrong>().send(Wrong).unwrap();
    while app.report().panics.is_empty() {
        std::thread::yield_now();
    }
    let report = app.report();
    for part in [
        "`Inlets`",
        "ingress -> Front: Wrong",
        "Front -> Back: u64",
        "`sends`",
        "try_send",
    ] {
        assert!(report.panics[0].message.contains(part), "{report}");
    }
    // Twice: the second finds the lane full, and handles its message all the same.
    let attempts = app.ingress::<Front, Attempt>();
    attempts.send(Attempt).unwrap();
    attempts.send(Attempt).unwrap();
    while app.metrics().edges[4].received < 2 {
        std::thread::yield_now();
    }
    let report = app.drain(LONG).unwrap_or_else(|error| *error.report);
    assert_eq!(report.panics.len(), 1, "{report}");
    assert_eq!(report.metrics.edges[7].sent, 1);
}

#[test]
fn the_burst_is_a_bound_of_a_listed_edge_too() {
    use inlets::{Back, Front, Inlets};
    let app = Inlets::builder(Front(Arc::default()), Back(Arc::default()))
        .workers(1)
        .start()
        .unwrap();
    let counts = app.ingress::<Front, u8>();
    (0..50).for_each(|_| counts.send(1).unwrap());
    counts.send(2).unwrap();
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.panics.len(), 1, "{report}");
    assert!(report.panics[0].message.contains("burst of 1"), "{report}");
    assert_eq!(report.metrics.edges[5].received, 51);
}

mod ring {
    //! A cycle of bounded edges in which one handler sends nothing.
    use super::*;

    pub(super) struct Ping {
        pub(super) back: u64,
    }
    pub(super) struct Pong;

    graph! {
        pub(super) graph Ring {
            processors { ping: Ping, pong: Pong }
            edges {
                ingress -> ping: u64 [cap = 2];
                ping -> pong: u64 [cap = 1];
                pong -> ping: u64 [cap = 1, sends = ()];
            }
        }
    }

    impl Process<Ring> for Ping {}
    impl Receive<Ring, Ingress, u64> for Ping {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Ring, Self>) {
            cx.to::<Pong>().send(number);
        }
    }
    impl Receive<Ring, Pong, u64> for Ping {
        fn receive(&mut self, number: u64, _: &mut Cx<'_, Ring, Self>) {
            assert_eq!(number, self.back);
            self.back += 1;
        }
    }
    impl Process<Ring> for Pong {}
    impl Receive<Ring, Ping, u64> for Pong {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Ring, Self>) {
            cx.to::<Ping>().send(number);
        }
    }
}

#[test]
fn a_cycle_ends_where_a_handler_sends_nothing() {
    use ring::{Ping, Pong, Ring};
    for workers in [1, 2] {
        let app = Ring::builder(Ping { back: 0 }, Pong)
            .workers(workers)
            .start()
            .unwrap();
        let into = app.ingress::<Ping, u64>();
        (0..3000).for_each(|number| into.send_timeout(number, SOON).unwrap());
        let report = app.drain(LONG).unwrap();
        assert!(report.panics.is_empty(), "{report}");
        assert_eq!(report.metrics.edges[2].received, 3000);
    }
}

mod shares {
    //! Requests to any of three servers, of which the first never answers.
    use super::*;

    pub(super) struct Front(pub(super) Arc<AtomicU64>);
    #[derive(Default)]
    pub(super) struct Back(Vec<ReplyTo<Shares, Front, Self, Ask>>);
    pub(super) struct Ask;
    pub(super) struct Answer;

    graph! {
        pub(super) graph Shares {
            processors { front: Front, back: [Back; 3] }
            edges {
                ingress -> front: u64 [cap = 4];
                front -> back: Ask [cap = 4, route = any];
                back -> front: Answer [cap = 2, reply = Ask];
            }
        }
    }

    impl Process<Shares> for Front {}
    impl Receive<Shares, Ingress, u64> for Front {
        fn receive(&mut self, _: u64, cx: &mut Cx<'_, Shares, Self>) {
            cx.to::<Back>().any().send(Ask);
        }
    }
    impl Receive<Shares, Back, Answer> for Front {
        fn receive(&mut self, _: Answer, cx: &mut Cx<'_, Shares, Self>) {
            // Each third is asked on.
            if self.0.fetch_add(1, SeqCst).is_multiple_of(3) {
                cx.to::<Back>().any().send(Ask);
            }
        }
    }
    impl Process<Shares> for Back {}
    impl Receive<Shares, Front, Ask> for Back {
        fn receive(&mut self, _: Ask, cx: &mut Cx<'_, Shares, Self>) {
            match cx.replica() {
                0 => self.0.push(cx.reply_to()),
                _ => cx.to::<Front>().send(Answer),
            }
        }
    }
}

#[test]
fn a_server_that_does_not_answer_stops_no_other_on_an_edge_to_any() {
    use shares::{Back, Front, Shares};
    for workers in [1, 2, 3] {
        let answers = Arc::new(AtomicU64::new(0));
        let back = [Back::default(), Back::default(), Back::default()];
        let app = Shares::builder(Front(answers.clone()), back)
            .workers(workers)
            .start()
            .unwrap();
        let into = app.ingress::<Front, u64>();
        (0..1000).for_each(|number| into.send_timeout(number, SOON).unwrap());
        // The first one holds its credit, or twice that, for good.
        wait_for(&answers, 1000 - 4);
        let report = app.drain(LONG).unwrap();
        assert!(report.panics.is_empty(), "{report}");
    }
}
