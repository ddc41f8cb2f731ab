//! Equal seeds give equal runs.

use std::collections::HashSet;
use std::time::Duration;

use rast_msgpass::testing::{TestGraph, for_each_seed};
use rast_msgpass::timers::Nanos;
use rast_msgpass::{Cx, Egress, Ingress, Next, Process, Receive, Restart, Timer, graph};

const SEEDS: u64 = 50;

#[derive(Clone)]
struct Urgent(u64);
#[derive(Clone)]
struct Tick;

/// Panics at some messages, and tells each that it handled.
struct Shaky {
    pings: u64,
}

graph! {
    graph Shakes {
        processors { front: Front, shaky: [Shaky; 3] }
        edges {
            ingress -> front: u64 [cap = 8];
            front -> shaky: u64 [cap = 4, keep];
            front -> shaky: Urgent [drop_oldest, cap = 2];
            shaky -> egress: (usize, u64) [cap = 4];
        }
    }
}

struct Front;
impl Process<Shakes> for Front {}
impl Receive<Shakes, Ingress, u64> for Front {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Shakes, Self>) {
        cx.to::<Shaky>().key(number).send(number);
        cx.to::<Shaky>().any().send(Urgent(number));
    }
}
impl Process<Shakes> for Shaky {
    fn on_start(&mut self, cx: &mut Cx<'_, Shakes, Self>) {
        if cx.restarts() == 0 {
            cx.every(Duration::from_micros(3), Tick);
        }
    }

    fn ping(&mut self, cx: &mut Cx<'_, Shakes, Self>) -> Next {
        self.pings += 1;
        Next::At(cx.now().saturating_add(Nanos::from_micros(self.pings)))
    }
}
impl Receive<Shakes, Front, u64> for Shaky {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Shakes, Self>) {
        if number % 11 == 3 {
            std::panic::resume_unwind(Box::new("by order"));
        }
        let replica = cx.replica();
        cx.to::<Egress>().send((replica, number));
    }
}
impl Receive<Shakes, Front, Urgent> for Shaky {
    fn receive(&mut self, urgent: Urgent, _: &mut Cx<'_, Shakes, Self>) {
        self.pings = urgent.0 % 5;
    }
}
impl Receive<Shakes, Timer, Tick> for Shaky {
    fn receive(&mut self, _: Tick, _: &mut Cx<'_, Shakes, Self>) {}
}

/// Returns the messages that passed, in order with their times, and the text of the report.
fn shake(seed: u64) -> (Vec<String>, String) {
    let shaky = (0..3).map(|_| Shaky { pings: 0 });
    let restart = Restart::new().delay(Duration::from_micros(2), Duration::from_micros(9));
    let restart = restart.without_limit(Duration::from_micros(50));
    let app = Shakes::builder(Front, shaky)
        .workers(2)
        .sample(3)
        .restart::<Shaky>(restart, |_| Shaky { pings: 1 });
    let mut app: TestGraph<Shakes> = app.test(seed).unwrap();
    let numbers = app.probe::<Front, Shaky, u64>();
    let urgent = app.probe::<Front, Shaky, Urgent>();
    let out = app.probe::<Shaky, Egress, (usize, u64)>();
    let collected = app.collect::<Shaky, (usize, u64)>(0);
    app.panic_at::<Front, Shaky, u64>(1 + seed % 20);
    app.panic_in::<Shaky>(1, 1 + seed % 30);
    app.feed::<Front, u64>(0..60);
    app.run_for(Duration::from_micros(40));
    app.feed::<Front, u64>(60..100);
    app.steps(seed as usize % 50);
    let report = app.drain().unwrap();
    let mut all: Vec<String> = Vec::new();
    all.extend(numbers.take().iter().map(|one| format!("{one:?}")));
    let urgent = urgent.take().into_iter();
    all.extend(urgent.map(|one| format!("{} {:?} {}", one.receiver, one.at, one.message.0)));
    all.extend(out.take().iter().map(|one| format!("{one:?}")));
    all.extend(collected.take().iter().map(|one| format!("{one:?}")));
    (all, report.to_string())
}

#[test]
fn equal_seeds_give_equal_orders_times_and_reports() {
    let mut orders = HashSet::new();
    for_each_seed(0..SEEDS, |seed| {
        let first = shake(seed);
        assert_eq!(first, shake(seed));
        orders.insert(first.0);
    });
    assert!(orders.len() as u64 > SEEDS / 2 || std::env::var_os("RAST_SEED").is_some());
}
