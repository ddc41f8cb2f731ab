//! Histograms of a graph on threads.

use core::future::Future;
use core::task::{Context, Waker};
use core::time::Duration;

use rast_msgpass::timers::{ManualClock, Nanos};
use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, graph};

use crate::LONG;
use crate::rotate::Rotate;

/// Replicas: so many that their edge has inboxes.
const MANY: usize = 20;

struct Many;
struct Few;
struct One;
struct Ask;
struct Told;

graph! {
    graph Crowd {
        processors { many: [Many; 20], few: [Few; 20], one: One }
        edges {
            ingress -> many: u64 [cap = 16];
            many -> few: u64;
            few -> one: u64;
            one -> few: Ask [unbounded, cap = 4];
            few -> egress: Told [cap = 64];
        }
    }
}

impl Process<Crowd> for Many {}
impl Receive<Crowd, Ingress, u64> for Many {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Crowd, Self>) {
        cx.to::<Few>().key(number).send(number);
    }
}
impl Process<Crowd> for Few {}
impl Receive<Crowd, Many, u64> for Few {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Crowd, Self>) {
        cx.to::<One>().send(number);
    }
}
impl Receive<Crowd, One, Ask> for Few {
    fn receive(&mut self, _: Ask, cx: &mut Cx<'_, Crowd, Self>) {
        cx.to::<Egress>().send(Told);
    }
}
impl Process<Crowd> for One {}
impl Receive<Crowd, Few, u64> for One {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Crowd, Self>) {
        cx.to::<Few>().key(number + 1).send(Ask);
    }
}

/// Sends from several threads while instances move, and checks the counts of the histograms.
fn totals(one_in: u32, numbers: u64) {
    const SENDERS: u64 = 3;
    let many = (0..MANY).map(|_| Many);
    let app = Crowd::builder(many, (0..MANY).map(|_| Few), One)
        .workers(3)
        .period(Duration::from_millis(1))
        .balancer(Rotate)
        .sample(one_in)
        .start()
        .unwrap();
    let viewer = app.viewer();
    let mut told = app.egress::<Few, Told>(0);
    let total = SENDERS * numbers;
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let into = app.ingress::<Many, u64>();
            scope.spawn(move || {
                for number in 0..numbers {
                    let number = sender * numbers + number;
                    into.at((number % MANY as u64) as usize)
                        .send(number)
                        .unwrap();
                }
            });
        }
        for _ in 0..total {
            told.recv_timeout(LONG).unwrap();
        }
        // It reads while the graph runs.
        let timings = viewer.timings().unwrap();
        assert!(
            timings
                .edges
                .iter()
                .all(|edge| edge.waiting.count() <= total)
        );
    });
    while viewer.metrics().moves == 0 {
        std::thread::yield_now();
    }
    let report = app.drain(LONG).unwrap();
    assert!(report.metrics.moves > 0);
    let timings = report.timings.unwrap();
    assert_eq!(timings.one_in, one_in);
    for (timed, counted) in timings.edges.iter().zip(&report.metrics.edges) {
        assert_eq!(counted.received, total);
        // One of each whole block of each queue, and of the last block at most one.
        let (count, expected) = (timed.waiting.count(), total / u64::from(one_in));
        match one_in {
            1 => assert_eq!(count, total, "{}", timed.edge),
            _ => assert!(
                count.abs_diff(expected) <= MANY as u64,
                "{}: {count}",
                timed.edge
            ),
        }
    }
    let handled: u64 = timings
        .processors
        .iter()
        .map(|one| one.handling.count())
        .sum();
    let waited = timings.edges.iter();
    let waited = waited.filter(|edge| edge.edge.to.processor().is_some());
    assert_eq!(
        handled,
        waited.map(|edge| edge.waiting.count()).sum::<u64>()
    );
}

#[test]
fn each_message_is_measured_at_one_in_one_whatever_the_threads_do() {
    totals(1, 5_000);
}

#[test]
fn one_message_in_some_is_measured_whatever_the_threads_do() {
    totals(16, 20_000);
}

#[test]
fn a_task_that_waits_for_room_waits_as_its_message_does() {
    /// Holds its first message until it is told.
    struct Held(std::sync::mpsc::Receiver<()>);
    graph! {
        graph Narrow {
            processors { held: Held }
            edges { ingress -> held: u64 [cap = 1]; }
        }
    }
    impl Process<Narrow> for Held {}
    impl Receive<Narrow, Ingress, u64> for Held {
        fn receive(&mut self, number: u64, _: &mut Cx<'_, Narrow, Self>) {
            if number == 0 {
                self.0.recv().unwrap();
            }
        }
    }
    let (tell, told) = std::sync::mpsc::channel();
    let clock = ManualClock::new();
    let builder = Narrow::builder(Held(told)).workers(1).sample(1);
    let app = builder.clock(clock.clone()).start().unwrap();
    let door = app.ingress::<Held, u64>();
    door.send(0).unwrap();
    // The only place is taken by 1 while 0 is handled.
    while door.try_send(1).is_err() {
        std::thread::yield_now();
    }
    let mut sending = std::pin::pin!(door.send_async(2));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(sending.as_mut().poll(&mut cx).is_pending());
    clock.advance(Nanos::from_secs(7));
    tell.send(()).unwrap();
    while sending.as_mut().poll(&mut cx).is_pending() {
        std::thread::yield_now();
    }
    let report = app.drain(LONG).unwrap();
    let waiting = &report.timings.unwrap().edges[0].waiting;
    // 0 waited for nothing, and 1 and 2 until the clock moved.
    let seven = Nanos::from_secs(7).as_nanos();
    assert_eq!((waiting.count(), waiting.sum()), (3, 2 * seven));
}
