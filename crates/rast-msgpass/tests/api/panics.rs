//! Panics of handlers: contained, reported, answered by the policy.

use rast_msgpass::{Cx, Ingress, Next, OnPanic, Process, Receive, graph};

use crate::LONG;

struct Gate;
struct Fragile {
    pings: u64,
}
struct Sink;

graph! {
    graph Cracks {
        processors { gate: Gate, fragile: Fragile, sink: Sink }
        edges {
            ingress -> gate: u64;
            gate -> fragile: u64 [cap = 2];
            fragile -> sink: u64;
            fragile -> gate: i8 [reply = u64];
        }
    }
}

impl Process<Cracks> for Gate {}
impl Receive<Cracks, Ingress, u64> for Gate {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Cracks, Self>) {
        cx.to::<Fragile>().send(number);
    }
}
impl Receive<Cracks, Fragile, i8> for Gate {
    fn receive(&mut self, _: i8, _: &mut Cx<'_, Cracks, Self>) {}
}
impl Process<Cracks> for Fragile {
    fn ping(&mut self, _: &mut Cx<'_, Cracks, Self>) -> Next {
        self.pings += 1;
        assert!(self.pings != 1, "the first ping");
        Next::Idle
    }
}
impl Receive<Cracks, Gate, u64> for Fragile {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Cracks, Self>) {
        cx.to::<Sink>().send(number);
        if number % 10 == 3 {
            panic!("cannot take {number}");
        }
        if number % 10 == 4 {
            std::panic::panic_any(number);
        }
        cx.to::<Gate>().send(0_i8);
    }
}
impl Process<Cracks> for Sink {}
impl Receive<Cracks, Fragile, u64> for Sink {
    fn receive(&mut self, _: u64, _: &mut Cx<'_, Cracks, Self>) {}
}

#[test]
fn a_panic_costs_one_message_and_is_reported() {
    let app = Cracks::builder(Gate, Fragile { pings: 0 }, Sink)
        .workers(2)
        .start()
        .unwrap();
    let into = app.ingress::<Gate, u64>();
    for number in 0..600 {
        into.send(number).unwrap();
    }
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.metrics.instances[1].panics, 121);
    assert_eq!(report.metrics.instances[2].received, 600);
    assert_eq!(report.undelivered.len(), 1);
    assert_eq!(report.undelivered[0].messages, 120);
    // The credit of each lost request came back, or the gate had stood still.
    assert_eq!(report.metrics.instances[0].received, 600 + 480);
    let text = report.to_string();
    let counts = "messages handled by 3 instances on 2 workers";
    assert!(text.lines().next().unwrap().contains(counts), "{text}");
    assert!(
        text.contains("\nundelivered: 120 of Gate -> Fragile: u64"),
        "{text}"
    );
    assert!(!text.ends_with('\n'), "{text}");
    let texts: Vec<_> = report.panics.iter().map(ToString::to_string).collect();
    assert!(texts.contains(&"fragile[0] in its ping: the first ping".to_owned()));
    let third = "fragile[0] handling Gate -> Fragile: u64: cannot take 13";
    assert!(texts.contains(&third.to_owned()), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("carries no text")));
}

#[test]
fn a_retired_processor_holds_nobody_up() {
    let app = Cracks::builder(Gate, Fragile { pings: 1 }, Sink)
        .workers(2)
        .on_panic(OnPanic::Retire)
        .start()
        .unwrap();
    let into = app.ingress::<Gate, u64>();
    for number in 0..500 {
        into.send(number).unwrap();
    }
    let report = app.drain(LONG).unwrap_err().report;
    assert_eq!(report.panics.len(), 1);
    assert_eq!(report.metrics.instances[0].sent, 500);
    // Three were answered, the fourth panicked, the others were given up.
    assert_eq!(report.undelivered_total(), 497);
    assert_eq!(report.metrics.instances[2].received, 4);
}

#[test]
fn a_panic_may_stop_the_graph() {
    let app = Cracks::builder(Gate, Fragile { pings: 1 }, Sink)
        .on_panic(OnPanic::Stop)
        .start()
        .unwrap();
    app.ingress::<Gate, u64>().send(3).unwrap();
    let report = app.wait();
    assert_eq!(report.panics.len(), 1);
}

mod caught {
    //! A handler that contains panics of its own sends.
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;
    use rast_msgpass::PAIRS_MAX;

    pub(super) const MANY: usize = PAIRS_MAX + 1;

    /// Panics at the second copy.
    pub(super) struct Moody(pub(super) Option<Arc<AtomicU32>>);
    impl Clone for Moody {
        fn clone(&self) -> Self {
            if let Some(copies) = &self.0 {
                assert!(copies.fetch_add(1, Relaxed) < 1, "no second copy");
            }
            Self(self.0.clone())
        }
    }

    pub(super) struct Fan;
    pub(super) struct Leaf;
    pub(super) struct Crowd;
    graph! {
        pub(super) graph Caught {
            processors { fan: Fan, leaf: [Leaf; 3], crowd: [Crowd; MANY] }
            edges {
                ingress -> fan: Moody;
                ingress -> fan: usize;
                fan -> leaf: Moody;
                fan -> leaf: usize;
                fan -> crowd: usize;
            }
        }
    }
    impl Process<Caught> for Fan {}
    impl Receive<Caught, Ingress, Moody> for Fan {
        fn receive(&mut self, message: Moody, cx: &mut Cx<'_, Caught, Self>) {
            let _ = catch_unwind(AssertUnwindSafe(|| cx.to::<Leaf>().all().send(message)));
        }
    }
    impl Receive<Caught, Ingress, usize> for Fan {
        fn receive(&mut self, index: usize, cx: &mut Cx<'_, Caught, Self>) {
            let _ = catch_unwind(AssertUnwindSafe(|| cx.to::<Leaf>().at(index).send(index)));
            let _ = catch_unwind(AssertUnwindSafe(|| cx.to::<Crowd>().at(index).send(index)));
        }
    }
    impl Process<Caught> for Leaf {}
    impl<M> Receive<Caught, Fan, M> for Leaf {
        fn receive(&mut self, _: M, _: &mut Cx<'_, Caught, Self>) {}
    }
    impl Process<Caught> for Crowd {}
    impl Receive<Caught, Fan, usize> for Crowd {
        fn receive(&mut self, _: usize, _: &mut Cx<'_, Caught, Self>) {}
    }
}

fn caught() -> rast_msgpass::Handle<caught::Caught> {
    use caught::{Caught, Crowd, Fan, Leaf, MANY};
    let crowd = (0..MANY).map(|_| Crowd);
    Caught::builder(Fan, [Leaf, Leaf, Leaf], crowd)
        .workers(1)
        .start()
        .unwrap()
}

#[test]
fn a_panic_of_clone_that_a_handler_contains_leaves_the_edge_alive() {
    let app = caught();
    let into = app.ingress::<caught::Fan, caught::Moody>();
    into.send(caught::Moody(Some(Default::default()))).unwrap();
    (0..10).for_each(|_| into.send(caught::Moody(None)).unwrap());
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.undelivered_total(), 0, "{report}");
    // The first replica got its copy before the panic.
    let received = |replica: usize| report.metrics.instances[1 + replica].received;
    assert_eq!([received(0), received(1), received(2)], [11, 10, 10]);
}

#[test]
fn a_replica_that_is_none_counts_nothing_as_sent() {
    let app = caught();
    let into = app.ingress::<caught::Fan, usize>();
    for index in [0, caught::MANY, 2] {
        into.send(index).unwrap();
    }
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.metrics.instances[0].sent, 4, "{report}");
}
