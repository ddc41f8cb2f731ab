//! What outside threads do most: send to any replica, loop over a receiver, name a wrong number.

use std::sync::mpsc;
use std::thread;

use rast_msgpass::{
    Cx, Egress, EndedBy, Handle, Ingress, IngressSender, Process, Receive, TryRecvError, graph,
};

use crate::LONG;

/// What a handler does.
enum Do {
    Echo(u64),
    /// Reports that it has begun, and waits until it may continue.
    Wait(mpsc::Sender<()>, mpsc::Receiver<()>),
}

struct Worker;

graph! {
    graph Pool {
        processors { worker: [Worker; 3] }
        edges {
            ingress -> worker: Do [cap = 4];
            worker -> egress: u64 [cap = 64];
        }
    }
}

impl Process<Pool> for Worker {}
impl Receive<Pool, Ingress, Do> for Worker {
    fn receive(&mut self, what: Do, cx: &mut Cx<'_, Pool, Self>) {
        match what {
            Do::Echo(number) => cx.to::<Egress>().send(number),
            Do::Wait(begun, go_on) => {
                begun.send(()).unwrap();
                go_on.recv().unwrap();
            }
        }
    }
}

fn start() -> Handle<Pool> {
    Pool::builder([Worker, Worker, Worker])
        .workers(1)
        .start()
        .unwrap()
}

#[test]
fn any_finds_the_replicas_that_have_room() {
    let app = start();
    let jobs = app.ingress::<Worker, Do>();
    let ((begun, has_begun), (go_on, may_go_on)) = (mpsc::channel(), mpsc::channel());
    jobs.at(0).send(Do::Wait(begun, may_go_on)).unwrap();
    // The only worker is in a handler, so no door empties.
    has_begun.recv().unwrap();
    while jobs.at(1).try_send(Do::Echo(1)).is_ok() {}
    let room = |at| jobs.at(at).capacity() - jobs.at(at).len();
    let left = room(0) + room(2);
    assert!(room(1) == 0 && room(2) == 4);
    for _ in 0..left {
        jobs.any().try_send(Do::Echo(1)).unwrap();
    }
    assert!(jobs.any().try_send(Do::Echo(1)).unwrap_err().is_full());
    assert_eq!((0..3).map(room).collect::<Vec<_>>(), [0, 0, 0]);
    go_on.send(()).unwrap();
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.metrics.edges[1].sent, 4 + left as u64);
}

#[test]
fn any_takes_turns_and_each_clone_has_its_own() {
    let app = start();
    let jobs = app.ingress::<Worker, Do>();
    let other = jobs.clone();
    for number in 0..3 {
        jobs.any().send(Do::Echo(number)).unwrap();
        other.any().send(Do::Echo(number)).unwrap();
    }
    let report = app.drain(LONG).unwrap();
    let received = report.metrics.instances.iter().map(|one| one.received);
    assert_eq!(received.collect::<Vec<_>>(), [2, 2, 2]);
}

#[test]
fn a_sender_knows_that_its_graph_drains_or_has_ended() {
    let app = start();
    let jobs = app.ingress::<Worker, Do>();
    assert!(!jobs.is_closed() && !jobs.at(2).is_closed());
    app.drain(LONG).unwrap();
    assert!(jobs.is_closed() && jobs.at(2).is_closed());
}

#[test]
fn loops_over_receivers_end_with_the_graph() {
    let app = start();
    let (jobs, mut echoes) = (app.ingress::<Worker, Do>(), app.egress::<Worker, u64>(0));
    let reader = thread::spawn(move || {
        let mut numbers: Vec<u64> = echoes.iter().take(2).collect();
        for number in &mut echoes {
            numbers.push(number);
        }
        (numbers, echoes)
    });
    let send = |jobs: &IngressSender<Pool, Worker, Do>| {
        (0..100).for_each(|number| jobs.at(0).send(Do::Echo(number)).unwrap());
    };
    send(&jobs);
    app.drain(LONG).unwrap();
    let (numbers, mut echoes) = reader.join().unwrap();
    assert_eq!(numbers, (0..100).collect::<Vec<u64>>());
    assert_eq!(echoes.try_iter().count(), 0);
    assert_eq!(echoes.try_recv(), Err(TryRecvError::Closed(EndedBy::Drain)));
    assert_eq!(echoes.into_iter().next(), None);

    let app = start();
    let (jobs, echoes) = (app.ingress::<Worker, Do>(), app.egress::<Worker, u64>(0));
    let echoes = echoes.share();
    let last = echoes.clone();
    let sum =
        thread::spawn(move || (&echoes).into_iter().sum::<u64>() + echoes.iter().sum::<u64>());
    send(&jobs);
    app.drain(LONG).unwrap();
    assert_eq!(sum.join().unwrap(), 4_950);
    assert_eq!(last.try_iter().count(), 0);
    assert_eq!(last.into_iter().next(), None);
}

#[test]
fn a_try_iter_takes_what_is_queued() {
    let app = start();
    let (jobs, mut echoes) = (app.ingress::<Worker, Do>(), app.egress::<Worker, u64>(0));
    (0..3).for_each(|number| jobs.at(0).send(Do::Echo(number)).unwrap());
    let mut numbers = Vec::new();
    while numbers.len() < 3 {
        // It ends where the lane is empty, and the graph goes on.
        numbers.extend(echoes.try_iter());
        thread::yield_now();
    }
    assert_eq!(numbers, [0, 1, 2]);
    drop(app);
}

#[test]
#[should_panic(
    expected = "graph `Pool`, edge ingress -> Worker: Do: there is no replica 3, only 3"
)]
fn a_replica_that_is_not_there_is_named() {
    let app = start();
    let _ = app.ingress::<Worker, Do>().at(3);
}

#[test]
#[should_panic(expected = "graph `Pool`, edge Worker -> egress: u64: there is no lane 1, only")]
fn a_lane_that_is_not_there_is_named() {
    let app = start();
    let _ = app.egress::<Worker, u64>(1);
}

struct Other;

graph! {
    graph Single {
        processors { other: Other }
        edges { ingress -> other: u64; }
    }
}

impl Process<Single> for Other {}
impl Receive<Single, Ingress, u64> for Other {
    fn receive(&mut self, _: u64, _: &mut Cx<'_, Single, Self>) {}
}

#[test]
fn counts_are_found_by_their_types() {
    let app = start();
    let jobs = app.ingress::<Worker, Do>();
    for (replica, number) in [(0, 1), (2, 2), (2, 3)] {
        jobs.at(replica).send(Do::Echo(number)).unwrap();
    }
    let metrics = app.drain(LONG).unwrap().metrics;
    assert_eq!(metrics.edge::<Pool, Ingress, Worker, Do>().received, 3);
    assert_eq!(metrics.edge::<Pool, Worker, Egress, u64>().sent, 3);
    let workers = metrics.instances_of::<Pool, Worker>().iter();
    assert_eq!(workers.map(|one| one.sent).collect::<Vec<_>>(), [1, 0, 2]);
    assert!(metrics.instances_of::<Pool, Egress>().is_empty());
}

#[test]
#[should_panic(expected = "these are not the counts of graph `Single`")]
fn counts_of_another_graph_are_refused() {
    let app = start();
    let _ = app.metrics().edge::<Single, Ingress, Other, u64>();
}
