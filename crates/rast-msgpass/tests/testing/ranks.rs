//! Inputs of different ranks, in batches that end by their time.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rast_msgpass::testing::for_each_seed;
use rast_msgpass::timers::{ManualClock, Nanos};
use rast_msgpass::{Batch, Cx, Ingress, Process, Receive, Timer, graph};

const SEEDS: u64 = 50;

struct Urgent;
struct Bulk;
#[derive(Clone)]
struct Tick;

/// Each of its handlers takes longer than its batch may.
#[derive(Default)]
struct Desk {
    clock: Arc<OnceLock<ManualClock>>,
    ticks: bool,
    urgent: u64,
    bulk: u64,
}

graph! {
    graph Office {
        processors { desk: Desk }
        edges {
            ingress -> desk: Urgent [cap = 8, high];
            ingress -> desk: Bulk [cap = 16];
        }
    }
}

impl Desk {
    fn work(&self) {
        let clock = self
            .clock
            .get()
            .expect("it is set before the first message");
        clock.advance(Nanos::from_micros(20));
    }
}

impl Process<Office> for Desk {
    fn on_start(&mut self, cx: &mut Cx<'_, Office, Self>) {
        if self.ticks {
            cx.every(Duration::from_micros(1), Tick);
        }
    }
}
impl Receive<Office, Ingress, Urgent> for Desk {
    fn receive(&mut self, _: Urgent, _: &mut Cx<'_, Office, Self>) {
        self.urgent += 1;
        self.work();
    }
}
impl Receive<Office, Ingress, Bulk> for Desk {
    fn receive(&mut self, _: Bulk, _: &mut Cx<'_, Office, Self>) {
        self.bulk += 1;
        self.work();
    }
}
impl Receive<Office, Timer, Tick> for Desk {
    fn receive(&mut self, _: Tick, _: &mut Cx<'_, Office, Self>) {
        self.work();
    }
}

#[test]
fn the_time_of_a_batch_starves_no_input_beside_a_high_one() {
    for_each_seed(0..SEEDS, |seed| {
        let ticks = seed % 2 == 1;
        let desk = Desk {
            ticks,
            ..Desk::default()
        };
        let clock = Arc::clone(&desk.clock);
        let batch = Batch::messages(64).time(Duration::from_micros(10));
        let mut app = Office::builder(desk).batch(batch).test(seed).unwrap();
        clock.set(app.clock()).expect("it was not set");
        (0..10).for_each(|_| app.send::<Desk, Bulk>(Bulk).unwrap());
        let urgent = app.handle().ingress::<Desk, Urgent>();
        // The door of urgent messages is filled again before each turn.
        for _ in 0..200 {
            while urgent.try_send(Urgent).is_ok() {}
            app.step();
        }
        let desk = app.processor::<Desk>(0);
        assert_eq!(desk.bulk, 10, "with timers: {ticks}");
        assert!(desk.urgent > 100, "{}, with timers: {ticks}", desk.urgent);
    });
}
