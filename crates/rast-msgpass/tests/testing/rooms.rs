//! Messages that wait at one of several receivers, and room that earlier messages will take.

use std::panic::resume_unwind;
use std::time::Duration;

use rast_msgpass::testing::{Room, for_each_seed};
use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, Restart, graph};

/// Sends each number on, panics after the last one, and sends once more as it starts again.
struct Router;
#[derive(Default)]
struct Worker(u64);
struct Job;

const LAST: u64 = 1;

graph! {
    graph Jobs {
        processors { router: Router, worker: [Worker; 2] }
        edges {
            ingress -> router: u64 [cap = 4];
            router -> worker: Job [cap = 1, route = any];
        }
    }
}

impl Process<Jobs> for Router {
    fn on_start(&mut self, cx: &mut Cx<'_, Jobs, Self>) {
        if cx.restarts() > 0 {
            cx.to::<Worker>().any().send(Job);
        }
    }
}
impl Receive<Jobs, Ingress, u64> for Router {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Jobs, Self>) {
        cx.to::<Worker>().any().send(Job);
        if number == LAST {
            resume_unwind(Box::new("by order"));
        }
    }
}
impl Process<Jobs> for Worker {}
impl Receive<Jobs, Router, Job> for Worker {
    fn receive(&mut self, _: Job, _: &mut Cx<'_, Jobs, Self>) {
        self.0 += 1;
    }
}

#[test]
fn what_waits_at_one_replica_goes_on_although_another_had_room_first() {
    for_each_seed(0..20, |seed| {
        let restart = Restart::new().delay(Duration::ZERO, Duration::ZERO);
        let builder = Jobs::builder(Router, [Worker::default(), Worker::default()]);
        let mut app = builder
            .restart::<Router>(restart, |_| Router)
            .test(seed)
            .unwrap();
        (0..2).for_each(|replica| app.pause::<Worker>(replica));
        // Both replicas are full when the next router starts, so its message waits.
        (0..=LAST).for_each(|number| app.send::<Router, u64>(number).unwrap());
        app.run_until_idle();
        assert_eq!(app.metrics().edges[1].sent, 3);
        for replica in [seed as usize % 2, 1 - seed as usize % 2] {
            app.resume::<Worker>(replica);
            app.run_until_idle();
        }
        let handled = [0, 1].map(|replica| app.processor::<Worker>(replica).0);
        assert_eq!(handled.iter().sum::<u64>(), 3, "{handled:?}");
        let report = app.drain().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(report.metrics.edges[1].depth, 0);
    });
}

/// Asks for room behind a message that has not left yet.
struct Spread;
struct Leaf;

const LEAVES: usize = 300;
const CAP: usize = 8;

graph! {
    graph Fan {
        processors { spread: Spread, leaf: [Leaf; LEAVES] }
        edges {
            ingress -> spread: usize;
            spread -> leaf: usize [cap = CAP, burst = 2];
        }
    }
}

impl Process<Fan> for Spread {}
impl Receive<Fan, Ingress, usize> for Spread {
    fn receive(&mut self, second: usize, cx: &mut Cx<'_, Fan, Self>) {
        // To one replica, or to two that share a place in the outbox.
        cx.to::<Leaf>().at(3).send(0);
        cx.to::<Leaf>().at(second).send(1);
        let before = 1 + usize::from(second == 3);
        let room = cx.to::<Leaf>().at(3).room::<usize>();
        assert_eq!(room, CAP - before);
        assert!(cx.to::<Leaf>().at(3).has_room::<usize>(room));
        assert!(!cx.to::<Leaf>().at(3).has_room::<usize>(room + 1));
        assert_eq!(cx.to::<Leaf>().at(4).room::<usize>(), CAP);
        let sent = (0..2 * CAP).take_while(|&at| cx.to::<Leaf>().at(3).try_send(at).is_ok());
        assert_eq!(sent.count(), room);
    }
}
impl Process<Fan> for Leaf {}
impl Receive<Fan, Spread, usize> for Leaf {
    fn receive(&mut self, _: usize, _: &mut Cx<'_, Fan, Self>) {}
}

#[test]
fn room_in_an_inbox_leaves_out_what_earlier_messages_will_take() {
    assert!(!Fan::EDGES[1].by_pair);
    for second in [3, 3 + 64, 5] {
        let mut app = Fan::builder(Spread, (0..LEAVES).map(|_| Leaf))
            .test(1)
            .unwrap();
        app.send::<Spread, usize>(second).unwrap();
        let report = app.drain().unwrap_or_else(|error| panic!("{error}"));
        assert!(report.panics.is_empty(), "{report}");
    }
}

/// Sends each number out.
struct Crier;

graph! {
    graph Square {
        processors { crier: Crier }
        edges {
            ingress -> crier: u64;
            crier -> egress: u64 [drop_newest, cap = 2];
        }
    }
}

impl Process<Square> for Crier {}
impl Receive<Square, Ingress, u64> for Crier {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Square, Self>) {
        cx.to::<Egress>().send(number);
    }
}

#[test]
fn a_probe_does_not_see_what_is_dropped_for_lack_of_room() {
    for (room, seen) in [(Room::Real, 2), (Room::None, 0)] {
        let mut app = Square::builder(Crier).test(1).unwrap();
        let probe = app.probe::<Crier, Egress, u64>();
        app.set_room::<Crier, Egress, u64>(room);
        (0..4).for_each(|number| app.send::<Crier, u64>(number).unwrap());
        app.run_until_idle();
        let out = &app.metrics().edges[1];
        assert_eq!((out.sent, out.dropped), (seen, 4 - seen), "{room:?}");
        assert_eq!(probe.len() as u64, seen, "{room:?}");
    }
}

/// Sends while there is room, each time that it gets a number.
#[derive(Default)]
struct Offerer(Vec<usize>);

graph! {
    graph Stall {
        processors { offerer: Offerer }
        edges {
            ingress -> offerer: u64;
            offerer -> egress: u64 [reject, cap = 8];
        }
    }
}

impl Process<Stall> for Offerer {}
impl Receive<Stall, Ingress, u64> for Offerer {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Stall, Self>) {
        let room = cx.to::<Egress>().room::<u64>();
        let accepted = (0..16).take_while(|_| cx.to::<Egress>().try_send(number).is_ok());
        self.0.extend([room, accepted.count()]);
    }
}

#[test]
fn an_edge_that_returns_messages_has_no_burst() {
    for (room, accepted) in [(Room::Real, 8), (Room::Burst, 8), (Room::None, 0)] {
        let mut app = Stall::builder(Offerer::default()).test(1).unwrap();
        app.set_room::<Offerer, Egress, u64>(room);
        app.send::<Offerer, u64>(7).unwrap();
        app.run_until_idle();
        assert_eq!(app.processor::<Offerer>(0).0, [accepted; 2], "{room:?}");
    }
}
