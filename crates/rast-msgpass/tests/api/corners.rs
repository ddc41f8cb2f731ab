//! User code in odd places: hooks and wakers that panic, a handle in the hands
//! of a handler, a processor that retires in debt, a worker without work.

use rast_msgpass::sharder::{Assignment, Balancer, Decision, LoadView, WorkerId};
use rast_msgpass::{Cx, Egress, Ingress, Next, Process, Receive, ReplyTo, graph};

use crate::LONG;

mod ends {
    //! A door, a lane behind it, and another processor behind that.
    use super::*;

    pub(super) struct Fine;
    pub(super) struct Wait;
    pub(super) struct Behind;

    graph! {
        pub(super) graph Ends {
            processors { fine: Fine, behind: Behind, wait: Wait }
            edges {
                ingress -> fine: u64;
                fine -> egress: u64;
                fine -> behind: u64;
                ingress -> wait: i8;
            }
        }
    }

    impl Process<Ends> for Fine {}
    impl Receive<Ends, Ingress, u64> for Fine {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Ends, Self>) {
            cx.to::<Behind>().send(number);
            cx.to::<Egress>().send(number);
        }
    }
    impl Process<Ends> for Behind {}
    impl Receive<Ends, Fine, u64> for Behind {
        fn receive(&mut self, _: u64, _: &mut Cx<'_, Ends, Self>) {}
    }
    impl Process<Ends> for Wait {}
    impl Receive<Ends, Ingress, i8> for Wait {
        fn receive(&mut self, _: i8, cx: &mut Cx<'_, Ends, Self>) {
            cx.stop();
        }
    }
}

#[test]
fn a_hook_that_panics_costs_its_message_alone() {
    use ends::{Behind, Ends, Fine, Wait};
    use rast_msgpass::RecvTimeoutError;
    let app = Ends::builder(Fine, Behind, Wait)
        .workers(1)
        .batch(1)
        .on_undelivered(|_, _| panic!("a hook that panics"))
        .start()
        .unwrap();
    let mut out = app.egress::<Fine, u64>(0);
    let into = app.ingress::<Fine, u64>();
    // No thread receives, so the lane fills up, then the door.
    let mut accepted = 0_u64;
    while accepted < 512 {
        match into.try_send(1) {
            Ok(()) => accepted += 1,
            Err(_) => std::thread::yield_now(),
        }
    }
    app.ingress::<Wait, i8>().send(0).unwrap();
    let mut handled = 0;
    let end = loop {
        match out.recv_timeout(LONG) {
            Ok(_) => handled += 1,
            Err(end) => break end,
        }
    };
    assert!(matches!(end, RecvTimeoutError::Closed(_)), "{end}");
    let report = app.wait();
    let lost = report
        .undelivered
        .iter()
        .find(|lost| lost.edge.to_type == "Fine");
    let lost = lost.expect("the door was full").messages;
    assert_eq!(handled + lost, accepted, "{report}");
    let text = "giving a message up panicked: a hook that panics";
    assert_eq!(report.faults[0], text);
}

#[test]
fn a_waker_that_panics_delays_nobody() {
    use ends::{Behind, Ends, Fine, Wait};
    let app = Ends::builder(Fine, Behind, Wait)
        .workers(3)
        .wait(rast_msgpass::primitive::WaitStrategy::Park)
        .start()
        .unwrap();
    let mut out = app.egress::<Fine, u64>(0);
    let armed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let told = std::sync::Arc::clone(&armed);
    out.set_waker(move || {
        assert!(
            !told.load(std::sync::atomic::Ordering::Relaxed),
            "a waker that panics"
        );
    });
    armed.store(true, std::sync::atomic::Ordering::Relaxed);
    let into = app.ingress::<Fine, u64>();
    for number in 0..200 {
        into.send(number).unwrap();
        assert_eq!(out.recv_timeout(LONG), Ok(number));
        let before = std::time::Instant::now();
        while app.metrics().instances[1].received <= number {
            assert!(before.elapsed() < LONG, "the other edge was not announced");
            std::thread::yield_now();
        }
    }
    let report = app.drain(LONG).unwrap();
    let expected = "a waker panicked: a waker that panics";
    assert!(!report.faults.is_empty());
    assert!(report.faults.iter().all(|fault| fault == expected));
}

mod within {
    //! A handler that gets the only handle of its own graph.
    use super::*;
    use rast_msgpass::Handle;

    pub(super) struct Holder;
    pub(super) struct Other;

    graph! {
        pub(super) graph Own {
            processors { holder: Holder, other: Other }
            edges {
                ingress -> holder: Box<Handle<Own>>;
                ingress -> other: Box<Handle<Own>>;
                other -> egress: u8;
            }
        }
    }

    impl Process<Own> for Holder {}
    impl Receive<Own, Ingress, Box<Handle<Own>>> for Holder {
        fn receive(&mut self, handle: Box<Handle<Own>>, _: &mut Cx<'_, Own, Self>) {
            drop(handle);
        }
    }
    impl Process<Own> for Other {}
    impl Receive<Own, Ingress, Box<Handle<Own>>> for Other {
        fn receive(&mut self, handle: Box<Handle<Own>>, _: &mut Cx<'_, Own, Self>) {
            drop(handle);
        }
    }
}

#[test]
fn a_handle_may_be_dropped_by_a_handler_of_its_graph() {
    use rast_msgpass::{EndedBy, RecvTimeoutError};
    use within::{Holder, Other, Own};
    for to_holder in [true, false] {
        for workers in [1, 2] {
            let app = Own::builder(Holder, Other)
                .workers(workers)
                .start()
                .unwrap();
            let mut out = app.egress::<Other, u8>(0);
            let (holder, other) = (
                app.ingress::<Holder, Box<_>>(),
                app.ingress::<Other, Box<_>>(),
            );
            match to_holder {
                true => holder.send(Box::new(app)).unwrap(),
                false => other.send(Box::new(app)).unwrap(),
            }
            let end = out.recv_timeout(LONG);
            let dropped = RecvTimeoutError::Closed(EndedBy::Dropped);
            assert_eq!(end, Err(dropped), "{to_holder} {workers}");
        }
    }
}

mod owing {
    //! A processor that owes answers and retires.
    use super::*;

    pub(super) struct Front;
    #[derive(Default)]
    pub(super) struct Back(Vec<ReplyTo<Owing, Front, Self, Ask>>);
    pub(super) struct Ask;
    pub(super) struct Answer;

    graph! {
        pub(super) graph Owing {
            processors {
                /// Documentation may be above every entry.
                front: Front,
                back: Back,
            }
            edges {
                /// Above an edge as well.
                ingress -> front: u64;
                front -> back: Ask;
                back -> front: Answer [cap = 4, reply = Ask];
            }
        }
    }

    impl Process<Owing> for Front {}
    impl Receive<Owing, Ingress, u64> for Front {
        fn receive(&mut self, _: u64, cx: &mut Cx<'_, Owing, Self>) {
            cx.to::<Back>().send(Ask);
        }
    }
    impl Receive<Owing, Back, Answer> for Front {
        fn receive(&mut self, _: Answer, _: &mut Cx<'_, Owing, Self>) {}
    }
    impl Process<Owing> for Back {
        fn ping(&mut self, _: &mut Cx<'_, Owing, Self>) -> Next {
            assert!(self.0.len() < 4, "owing four");
            Next::Again
        }
    }
    impl Receive<Owing, Front, Ask> for Back {
        fn receive(&mut self, _: Ask, cx: &mut Cx<'_, Owing, Self>) {
            // It means to answer all four later.
            self.0.push(cx.reply_to());
        }
    }
}

#[test]
fn a_retired_processor_waives_what_it_owes() {
    use owing::{Back, Front, Owing};
    use rast_msgpass::OnPanic;
    for workers in [1, 2] {
        let app = Owing::builder(Front, Back::default())
            .workers(workers)
            .on_panic(OnPanic::Retire)
            .start()
            .unwrap();
        let into = app.ingress::<Front, u64>();
        for number in 0..100 {
            into.send(number).unwrap();
        }
        while app.report().panics.is_empty() {
            std::thread::yield_now();
        }
        // What the retired one did not handle is no `Ok`.
        let report = app.drain(LONG).unwrap_err().report;
        assert_eq!(report.metrics.instances[0].received, 100);
    }
}

mod empty_worker {
    //! Two processors of which one has work.
    use super::*;

    pub(super) struct One;
    pub(super) struct Two;
    graph! {
        pub(super) graph Pair {
            processors { one: One, two: Two [source] }
            edges { ingress -> one: u8; }
        }
    }
    impl Process<Pair> for One {}
    impl Receive<Pair, Ingress, u8> for One {
        fn receive(&mut self, _: u8, _: &mut Cx<'_, Pair, Self>) {}
    }
    impl Process<Pair> for Two {}
}

/// Gives everything to the first worker.
struct Together;

impl Balancer for Together {
    fn begin(&mut self, _: &LoadView, _: &Assignment) {}

    fn step(&mut self, _: &LoadView, current: &Assignment, _: usize) -> Decision {
        let owners = vec![WorkerId::from_index(0); current.shards()];
        Decision::Adopt(Assignment::new(owners, current.workers()).unwrap())
    }
}

#[test]
fn a_drain_wakes_workers_that_hold_nothing() {
    use empty_worker::{One, Pair, Two};
    let app = Pair::builder(One, Two)
        .workers(2)
        .balancer(Together)
        .period(std::time::Duration::ZERO)
        .start()
        .unwrap();
    let into = app.ingress::<One, u8>();
    into.send(1).unwrap();
    app.reshard();
    while app.metrics().moves == 0 || app.metrics().workers[1].shards != 0 {
        std::thread::yield_now();
    }
    // It sleeps when it takes no turn any more; if not yet, the test is easier.
    let (mut turns, mut same) = (0, 0);
    while same < 10_000 {
        let now = app.metrics().workers[1].turns;
        same = if now == turns { same + 1 } else { 0 };
        turns = now;
        std::thread::yield_now();
    }
    let report = app.drain(std::time::Duration::MAX).unwrap();
    assert_eq!(report.received_total(), 1);
}
