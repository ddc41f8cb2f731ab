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
    let report = app.drain(LONG).unwrap();
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
