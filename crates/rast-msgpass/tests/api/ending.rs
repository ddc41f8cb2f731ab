//! Stop and drain, from anywhere, at any moment.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use rast_msgpass::timers::Nanos;
use rast_msgpass::{
    BuildError, Cx, EdgeInfo, Egress, Handle, Ingress, Next, Process, Receive, graph,
};

use crate::LONG;

struct Front {
    pings: u64,
}
struct Back {
    handled: Arc<AtomicU64>,
    stop_at: u64,
}

graph! {
    graph Line {
        processors { front: Front, back: [Back; 2] }
        edges {
            ingress -> front: u64 [cap = 32];
            front -> back: u64 [cap = 4, burst = 2];
        }
    }
}

impl Process<Line> for Front {
    fn ping(&mut self, cx: &mut Cx<'_, Line, Self>) -> Next {
        if self.pings == 0 {
            return Next::Idle;
        }
        self.pings -= 1;
        cx.to::<Back>().any().send(0_u64);
        Next::At(cx.now())
    }
}
impl Receive<Line, Ingress, u64> for Front {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Line, Self>) {
        cx.to::<Back>().key(number).send(number);
        cx.to::<Back>().any().send(number);
    }
}
impl Process<Line> for Back {}
impl Receive<Line, Front, u64> for Back {
    fn receive(&mut self, _: u64, cx: &mut Cx<'_, Line, Self>) {
        if self.handled.fetch_add(1, SeqCst) + 1 == self.stop_at {
            cx.stop();
        }
    }
}

fn backs(stop_at: u64) -> (Arc<AtomicU64>, [Back; 2]) {
    let handled = Arc::new(AtomicU64::new(0));
    let back = || Back {
        handled: handled.clone(),
        stop_at,
    };
    let backs = [back(), back()];
    (handled, backs)
}

#[test]
fn a_drain_loses_nothing_while_threads_still_send() {
    for round in 0..50 {
        let (handled, backs) = backs(0);
        let app = Line::builder(Front { pings: round * 7 }, backs)
            .workers(1 + (round % 3) as usize)
            .start()
            .unwrap();
        let into = app.ingress::<Front, u64>();
        let senders: Vec<_> = (0..3)
            .map(|_| {
                let into = into.clone();
                std::thread::spawn(move || {
                    let mut accepted = 0;
                    while into.send(accepted).is_ok() {
                        accepted += 1;
                    }
                    accepted
                })
            })
            .collect();
        // Some rounds drain at once, others in full flow.
        while handled.load(SeqCst) < round * 20 {
            std::thread::yield_now();
        }
        let report = app.drain(LONG).unwrap();
        let accepted: u64 = senders.into_iter().map(|one| one.join().unwrap()).sum();
        let front = &report.metrics.instances[0];
        assert_eq!(front.received, accepted);
        assert_eq!(front.sent, handled.load(SeqCst));
        assert!(front.sent >= 2 * accepted);
        assert_eq!(report.undelivered_total(), 0);
    }
}

#[test]
fn a_stop_at_any_moment_accounts_for_every_message() {
    for round in 0..200_u64 {
        let (handled, backs) = backs(0);
        let given_up = Arc::new(AtomicU64::new(0));
        let counted = given_up.clone();
        let hook = move |_: &'static EdgeInfo, message: Box<dyn Any + Send>| {
            assert!(message.is::<u64>());
            counted.fetch_add(1, SeqCst);
        };
        let app = Line::builder(Front { pings: 0 }, backs)
            .workers(1 + (round % 2) as usize)
            .on_undelivered(hook)
            .start()
            .unwrap();
        let into = app.ingress::<Front, u64>();
        let sender = std::thread::spawn(move || {
            let mut accepted = 0;
            while into.send(accepted).is_ok() {
                accepted += 1;
            }
            accepted
        });
        let stopper = app.stopper();
        while handled.load(SeqCst) < round {
            std::thread::yield_now();
        }
        let report = match round % 3 {
            0 => app.stop(),
            1 => {
                std::thread::spawn(move || stopper.stop()).join().unwrap();
                app.wait()
            }
            _ => {
                stopper.stop();
                app.stop()
            }
        };
        let accepted = sender.join().unwrap();
        let front = &report.metrics.instances[0];
        assert_eq!(front.received, accepted, "{report}");
        let lost_at_door = report
            .undelivered
            .iter()
            .find(|lost| lost.edge.to_type == "Front")
            .map_or(0, |lost| lost.messages);
        assert_eq!(front.sent, 2 * (accepted - lost_at_door));
        assert_eq!(
            front.sent + lost_at_door,
            handled.load(SeqCst) + report.undelivered_total()
        );
        assert_eq!(report.undelivered_total(), given_up.load(SeqCst));
    }
}

#[test]
fn a_processor_may_stop_the_graph() {
    let (handled, backs) = backs(100);
    let app = Line::builder(Front { pings: u64::MAX }, backs)
        .workers(2)
        .start()
        .unwrap();
    let report = app.wait();
    assert!(handled.load(SeqCst) >= 100);
    assert!(report.panics.is_empty());
}

#[test]
fn a_graph_that_is_dropped_ends() {
    let (handled, backs) = backs(0);
    let app = Line::builder(Front { pings: u64::MAX }, backs)
        .workers(2)
        .start()
        .unwrap();
    while handled.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    drop(app);
    // The threads are gone, and with them the processors.
    assert_eq!(Arc::strong_count(&handled), 1);
}

/// A message whose destructor panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a bomb");
    }
}

struct Blocked(Arc<AtomicU64>);

graph! {
    graph Bombs {
        processors { blocked: Blocked }
        edges {
            ingress -> blocked: Bomb;
            blocked -> egress: Bomb [cap = 1];
        }
    }
}

impl Process<Bombs> for Blocked {}
impl Receive<Bombs, Ingress, Bomb> for Blocked {
    fn receive(&mut self, bomb: Bomb, cx: &mut Cx<'_, Bombs, Self>) {
        self.0.fetch_add(1, SeqCst);
        cx.to::<Egress>().send(bomb);
    }
}

#[test]
fn destructors_that_panic_do_not_keep_a_graph_from_ending() {
    let handled = Arc::new(AtomicU64::new(0));
    let app = Bombs::builder(Blocked(handled.clone())).start().unwrap();
    let mut out = app.egress::<Blocked, Bomb>(0);
    let into = app.ingress::<Blocked, Bomb>();
    for _ in 0..5 {
        assert!(into.send(Bomb).is_ok());
    }
    while handled.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    let report = app.stop();
    assert_eq!(report.undelivered_total(), 4);
    assert_eq!(report.faults.len(), 4, "{report}");
    assert!(report.faults[0].contains("a bomb"));
    drop(report.take_states::<Bombs, Blocked>());
    assert_eq!(Arc::strong_count(&handled), 1);
    // The lane has ended, after the one that left.
    std::mem::forget(out.recv().unwrap());
    assert!(out.recv().is_err());
}

mod loud {
    //! Two processors whose destructors panic, and a handler that drops the handle.
    use super::*;

    pub(super) struct Loud(pub(super) Arc<AtomicU64>);

    impl Drop for Loud {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
            panic!("a processor that panics");
        }
    }

    graph! {
        pub(super) graph Louds {
            processors { loud: [Loud; 2] }
            edges { ingress -> loud: Box<Handle<Louds>>; }
        }
    }

    impl Process<Louds> for Loud {}
    impl Receive<Louds, Ingress, Box<Handle<Louds>>> for Loud {
        fn receive(&mut self, handle: Box<Handle<Louds>>, _: &mut Cx<'_, Louds, Self>) {
            drop(handle);
        }
    }

    pub(super) fn start(drops: &Arc<AtomicU64>) -> Handle<Louds> {
        let louds = [Loud(drops.clone()), Loud(drops.clone())];
        Louds::builder(louds).start().unwrap()
    }
}

#[test]
fn destructors_of_processors_that_panic_do_not_abort() {
    // The report drops the processors: the first panic comes after both drops.
    let drops = Arc::new(AtomicU64::new(0));
    let report = loud::start(&drops).stop();
    let dropped = std::panic::catch_unwind(AssertUnwindSafe(|| drop(report)));
    let payload = dropped.unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"a processor that panics"));
    assert_eq!(Arc::strong_count(&drops), 1);

    // The drop of the handle contains both panics.
    drop(loud::start(&drops));
    assert_eq!(drops.load(SeqCst), 4);

    // A handler drops the handle, so the graph's thread drops the processors.
    let app = loud::start(&drops);
    let viewer = app.viewer();
    let into = app.ingress::<loud::Loud, Box<Handle<loud::Louds>>>();
    assert!(into.at(0).send(Box::new(app)).is_ok());
    let fault = "a processor's destructor panicked: a processor that panics";
    let faults = || {
        let faults = viewer.report().faults;
        faults.iter().filter(|text| *text == fault).count()
    };
    while faults() < 2 {
        std::thread::yield_now();
    }
    assert_eq!(drops.load(SeqCst), 6);
}

#[test]
fn a_graph_pings_when_it_was_asked_to() {
    struct Idle(Arc<AtomicU64>);
    graph! {
        graph Calm {
            processors { idle: Idle [source] }
            edges {}
        }
    }
    impl Process<Calm> for Idle {
        fn ping(&mut self, cx: &mut Cx<'_, Calm, Self>) -> Next {
            self.0.fetch_add(1, SeqCst);
            Next::At(cx.now().saturating_add(Nanos::from_millis(1)))
        }
    }
    let pings = Arc::new(AtomicU64::new(0));
    let app = Calm::builder(Idle(pings.clone())).start().unwrap();
    while pings.load(SeqCst) < 5 {
        std::thread::yield_now();
    }
    app.drain(LONG).unwrap();
}

#[test]
fn a_graph_that_cannot_start_says_why() {
    let (_, mut two) = backs(0);
    two[0].stop_at = 1;
    let one = two.into_iter().take(1);
    let error = Line::builder(Front { pings: 0 }, one).start().unwrap_err();
    assert!(matches!(
        error,
        BuildError::Replicas {
            processor: "back",
            least: 2,
            most: 2,
            given: 1,
        }
    ));
    assert!(error.to_string().contains("`back`"));
    let build = || Line::builder(Front { pings: 0 }, backs(0).1);
    assert!(matches!(
        build().workers(0).start().unwrap_err(),
        BuildError::NoWorkers
    ));
    let refused = build().workers(0);
    assert!(matches!(refused.check(), Err(BuildError::NoWorkers)));
    let mended = refused.workers(1);
    assert!(mended.check().is_ok());
    let report = mended.start().unwrap().stop();
    assert_eq!(report.received_total(), 0);
    assert!(matches!(
        build().batch(0).start().unwrap_err(),
        BuildError::NoBatch
    ));
}

/// Pings in every turn, on a worker of its own, and counts.
struct Poller(Arc<AtomicU64>);
/// Stops the graph, and returns after the other worker had time for many pings.
struct Ender(Arc<AtomicU64>);

graph! {
    graph Stopped {
        processors { poller: Poller [source], ender: Ender }
        edges { ingress -> ender: u64; }
    }
}

impl Process<Stopped> for Poller {
    fn ping(&mut self, _: &mut Cx<'_, Stopped, Self>) -> Next {
        self.0.fetch_add(1, SeqCst);
        Next::Again
    }
}
impl Process<Stopped> for Ender {}
impl Receive<Stopped, Ingress, u64> for Ender {
    fn receive(&mut self, _: u64, cx: &mut Cx<'_, Stopped, Self>) {
        while self.0.load(SeqCst) < 1_000 {
            std::thread::yield_now();
        }
        cx.stop();
        let before = self.0.load(SeqCst);
        (0..1_000).for_each(|_| std::thread::yield_now());
        // One ping may run, and another one may be about to begin.
        assert!(self.0.load(SeqCst) <= before + 2);
    }
}

#[test]
fn no_ping_begins_after_a_stop_while_its_handler_goes_on() {
    let pings = Arc::<AtomicU64>::default();
    let app = Stopped::builder(Poller(Arc::clone(&pings)), Ender(pings))
        .workers(2)
        .pin::<Poller>(0, 0)
        .pin::<Ender>(0, 1)
        .start()
        .unwrap();
    app.ingress::<Ender, u64>().send(1).unwrap();
    let report = app.wait();
    assert!(report.panics.is_empty(), "{report}");
}
