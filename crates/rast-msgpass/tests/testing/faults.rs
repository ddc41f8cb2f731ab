//! Panics, edges without room, and what a watch sees.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rast_msgpass::testing::{Room, TestGraph, for_each_seed};
use rast_msgpass::{Cx, Egress, Ingress, OnPanic, Process, Receive, graph};

graph! {
    graph Fan {
        processors { front: Front, back: [Back; 2] }
        edges {
            ingress -> front: Put;
            ingress -> front: Look [sends = ()];
            front -> back: Job [burst = 2];
            front -> egress: Seen [unbounded];
            back -> egress: Done;
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Put(u64);
struct Look;
#[derive(Clone, Debug, PartialEq)]
struct Job(u64);
/// What `room` and `try_send` said.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    room: usize,
    took: usize,
}
#[derive(Clone, Debug, PartialEq)]
struct Done(u64);

struct Front {
    tries: usize,
}
struct Back;

impl Front {
    fn try_all(&self, cx: &mut Cx<'_, Fan, Self>) {
        let room = cx.to::<Back>().at(0).room::<Job>();
        assert_eq!(cx.to::<Back>().at(0).has_room::<Job>(1), room > 0);
        let job = |cx: &mut Cx<'_, Fan, Self>| cx.to::<Back>().at(0).try_send(Job(0));
        let took = (0..self.tries).take_while(|_| job(cx).is_ok()).count();
        let _ = cx.to::<Egress>().try_send(Seen { room, took });
    }
}
impl Process<Fan> for Front {}
impl Receive<Fan, Ingress, Put> for Front {
    fn receive(&mut self, Put(number): Put, cx: &mut Cx<'_, Fan, Self>) {
        match self.tries {
            0 => cx.to::<Back>().key(number).send(Job(number)),
            _ => self.try_all(cx),
        }
    }
}
impl Receive<Fan, Ingress, Look> for Front {
    fn receive(&mut self, _: Look, cx: &mut Cx<'_, Fan, Self>) {
        self.try_all(cx);
    }
}
impl Process<Fan> for Back {}
impl Receive<Fan, Front, Job> for Back {
    fn receive(&mut self, Job(number): Job, cx: &mut Cx<'_, Fan, Self>) {
        cx.to::<Egress>().send(Done(number));
    }
}

fn fan(seed: u64, tries: usize, on_panic: OnPanic) -> TestGraph<Fan> {
    let builder = Fan::builder(Front { tries }, [Back, Back]);
    builder.on_panic(on_panic).test(seed).unwrap()
}

#[test]
fn an_injected_panic_takes_the_nth_message() {
    for_each_seed(0..100, |seed| {
        let mut app = fan(seed, 0, OnPanic::Continue);
        let jobs = app.probe::<Front, Back, Job>();
        let done = app.probe::<Back, Egress, Done>();
        let out = app.collect::<Back, Done>(0);
        app.feed::<Front, Put>((0..20).map(Put));
        app.panic_at::<Front, Back, Job>(7);
        app.run_until_idle();
        let jobs = jobs.messages();
        let mut left = jobs.clone();
        let lost = left.remove(6);
        assert_eq!(
            done.messages(),
            left.iter().map(|job| Done(job.0)).collect::<Vec<_>>()
        );
        assert!(!out.take().contains(&Done(lost.0)));
        let report = app.drain().unwrap();
        assert_eq!(report.undelivered_total(), 1);
        let [panic] = &report.panics[..] else {
            panic!("one panic was injected: {report}");
        };
        assert_eq!(panic.message, "injected: message 7 of Front -> Back: Job");
        assert_eq!(panic.edge, Some(&Fan::EDGES[2]));
    });
}

#[test]
fn an_injected_panic_of_one_replica_follows_the_policy() {
    for_each_seed(0..100, |seed| {
        let mut app = fan(seed, 0, OnPanic::Retire);
        let jobs = app.probe::<Front, Back, Job>();
        let _out = app.collect::<Back, Done>(0);
        app.panic_in::<Back>(1, 3);
        app.feed::<Front, Put>((0..40).map(Put));
        app.run_until_idle();
        let jobs = jobs.take();
        let of = |replica| {
            jobs.iter()
                .filter(move |job| job.receiver == replica)
                .count()
        };
        assert_eq!(of(1), 3);
        let report = app.stop();
        assert_eq!(report.undelivered_total() as usize, 40 - of(0) - 2);
    });
}

#[test]
fn without_room_handlers_wait_or_are_refused() {
    for_each_seed(0..50, |seed| {
        let mut app = fan(seed, 3, OnPanic::Continue);
        let seen = app.probe::<Front, Egress, Seen>();
        app.set_room::<Front, Back, Job>(Room::None);
        app.send::<Front, Put>(Put(1)).unwrap();
        app.handle()
            .ingress::<Front, Look>()
            .try_send(Look)
            .unwrap();
        app.run_until_idle();
        // The handler of `Put` waits; that of `Look`, which sends nothing for certain, runs.
        assert_eq!(seen.messages(), [Seen { room: 0, took: 0 }]);
        app.set_room::<Front, Back, Job>(Room::Burst);
        app.run_until_idle();
        assert_eq!(seen.messages(), [Seen { room: 2, took: 2 }]);
        app.set_room::<Front, Back, Job>(Room::Real);
        app.send::<Front, Put>(Put(2)).unwrap();
        app.run_until_idle();
        assert_eq!(seen.messages(), [Seen { room: 256, took: 3 }]);
        let report = app.drain().unwrap();
        assert_eq!(report.panics, []);
    });
}

#[test]
fn without_room_on_the_way_out_its_sender_waits() {
    let mut app = fan(1, 0, OnPanic::Continue);
    let out = app.collect::<Back, Done>(0);
    app.set_room::<Back, Egress, Done>(Room::None);
    app.send::<Front, Put>(Put(1)).unwrap();
    app.run_until_idle();
    assert!(out.is_empty());
    app.set_room::<Back, Egress, Done>(Room::Real);
    app.run_until_idle();
    assert_eq!(out.take(), [Done(1)]);
}

#[test]
fn a_watch_that_panics_fails_the_test_and_not_the_handler() {
    let mut app = fan(1, 0, OnPanic::Retire);
    app.watch::<Front, Back, Job>(|passed| assert_ne!(passed.message, &Job(1), "not this"));
    app.send::<Front, Put>(Put(0)).unwrap();
    app.run_until_idle();
    app.send::<Front, Put>(Put(1)).unwrap();
    let failed = catch_unwind(AssertUnwindSafe(|| app.run_until_idle())).unwrap_err();
    assert!(
        failed
            .downcast_ref::<String>()
            .unwrap()
            .contains("not this")
    );
    assert_eq!(app.stop().panics, []);
}

#[test]
fn what_no_sender_waits_for_has_no_room_to_set() {
    let mut app = fan(1, 0, OnPanic::Continue);
    let set = |app: &mut TestGraph<Fan>| app.set_room::<Front, Egress, Seen>(Room::None);
    let failed = catch_unwind(AssertUnwindSafe(|| set(&mut app))).unwrap_err();
    let text = failed.downcast_ref::<String>().unwrap();
    assert_eq!(
        text,
        "the edge Front -> egress: Seen is not one that its sender waits for"
    );
}
