//! Priorities in turns that end by their time.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rast_msgpass::testing::{TestGraph, for_each_seed};
use rast_msgpass::timers::{ManualClock, Nanos};
use rast_msgpass::{Batch, Cx, Ingress, Process, Receive, Timer, graph};

/// The time of a turn.
const TURN: Duration = Duration::from_micros(50);

/// Time of the handler of an urgent message: several end a turn.
const URGENT: Nanos = Nanos::from_micros(10);

/// Time of the handler of a timer: one ends a turn.
const TICK: Nanos = Nanos::from_micros(60);

struct Urgent;
struct Bulk;
struct Tick;

/// Counts its messages, and takes time for some of them.
struct Worker {
    clock: Arc<OnceLock<ManualClock>>,
    ticks: bool,
    urgent: usize,
    bulk: usize,
}

graph! {
    graph Timed {
        processors { worker: Worker }
        edges {
            ingress -> worker: Urgent [cap = 64, high];
            ingress -> worker: Bulk [cap = 64];
        }
    }
}

impl Worker {
    fn work(&self, time: Nanos) {
        let clock = self.clock.get().expect("the test sets it first");
        clock.advance(time);
    }
}

impl Process<Timed> for Worker {
    fn on_start(&mut self, cx: &mut Cx<'_, Timed, Self>) {
        if self.ticks {
            cx.after(Nanos::ZERO, Tick);
        }
    }
}
impl Receive<Timed, Ingress, Urgent> for Worker {
    fn receive(&mut self, _: Urgent, _: &mut Cx<'_, Timed, Self>) {
        self.urgent += 1;
        self.work(URGENT);
    }
}
impl Receive<Timed, Ingress, Bulk> for Worker {
    fn receive(&mut self, _: Bulk, _: &mut Cx<'_, Timed, Self>) {
        self.bulk += 1;
    }
}
impl Receive<Timed, Timer, Tick> for Worker {
    fn receive(&mut self, _: Tick, cx: &mut Cx<'_, Timed, Self>) {
        self.work(TICK);
        // It is due in the next turn.
        cx.after(Nanos::ZERO, Tick);
    }
}

fn timed(seed: u64, ticks: bool) -> TestGraph<Timed> {
    let clock = Arc::<OnceLock<ManualClock>>::default();
    let worker = Worker {
        clock: Arc::clone(&clock),
        ticks,
        urgent: 0,
        bulk: 0,
    };
    let batch = Batch::messages(64).time(TURN);
    let app = Timed::builder(worker).batch(batch).test(seed).unwrap();
    clock.set(app.clock()).expect("it is set once");
    app
}

#[test]
fn high_messages_that_use_up_the_time_of_each_turn_starve_no_other() {
    const TURNS: usize = 100;
    for_each_seed(0..50, |seed| {
        let mut app = timed(seed, false);
        let (urgent, bulk) = (
            app.handle().ingress::<Worker, Urgent>(),
            app.handle().ingress::<Worker, Bulk>(),
        );
        for _ in 0..TURNS {
            while urgent.try_send(Urgent).is_ok() {}
            while bulk.try_send(Bulk).is_ok() {}
            assert!(app.step());
        }
        let worker = app.processor::<Worker>(0);
        // One in each turn at least, and the greater part is of the others.
        assert!(worker.bulk >= TURNS, "{} in {TURNS} turns", worker.bulk);
        assert!(worker.urgent >= TURNS, "{}", worker.urgent);
    });
}

#[test]
fn timers_that_use_up_the_time_of_each_turn_starve_no_message() {
    for_each_seed(0..50, |seed| {
        let mut app = timed(seed, true);
        // It starts, and arms the timer.
        assert!(app.step());
        for _ in 0..5 {
            app.handle()
                .ingress::<Worker, Urgent>()
                .send(Urgent)
                .unwrap();
            app.handle().ingress::<Worker, Bulk>().send(Bulk).unwrap();
        }
        app.steps(10);
        let worker = app.processor::<Worker>(0);
        assert_eq!((worker.urgent, worker.bulk), (5, 5));
    });
}
