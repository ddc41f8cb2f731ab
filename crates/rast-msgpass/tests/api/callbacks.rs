//! Code of the user that panics where no handler runs: destructors at the end, and the clock.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use rast_msgpass::timers::{Clock, Instant, MonotonicClock};
use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, Timer, Weight, graph};

use crate::LONG;

/// A message whose destructor panics.
#[derive(Clone)]
struct Bomb(Arc<AtomicU64>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
        resume_unwind(Box::new("a bomb"));
    }
}

/// Sends bombs for each number: to itself, in an hour, or to both lanes.
struct Bomber(Arc<AtomicU64>);

const TO_ITSELF: u64 = 0;
const OUT: u64 = 1;

graph! {
    graph Bombs {
        processors { bomber: Bomber }
        edges {
            ingress -> bomber: u64;
            bomber -> egress: Bomb [cap = 16, burst = 6, lanes = 2];
        }
    }
}

impl Process<Bombs> for Bomber {}
impl Receive<Bombs, Ingress, u64> for Bomber {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Bombs, Self>) {
        if number == TO_ITSELF {
            let hour = Duration::from_secs(3_600);
            for _ in 0..3 {
                cx.after(hour, Bomb(self.0.clone()));
            }
            cx.every(hour, Bomb(self.0.clone()));
            return;
        }
        for lane in [0, 1, 0, 1, 0, 1] {
            cx.to::<Egress>().lane(lane).send(Bomb(self.0.clone()));
        }
    }
}
impl Receive<Bombs, Timer, Bomb> for Bomber {
    fn receive(&mut self, bomb: Bomb, _: &mut Cx<'_, Bombs, Self>) {
        drop(bomb);
    }
}

#[test]
fn destructors_that_panic_in_rings_are_faults() {
    let drops = Arc::new(AtomicU64::new(0));
    let app = Bombs::builder(Bomber(drops.clone())).start().unwrap();
    for lane in 0..2 {
        drop(app.egress::<Bomber, Bomb>(lane));
    }
    app.ingress::<Bomber, u64>().send(OUT).unwrap();
    // The bombs are in rings that have no receiver.
    while app.metrics().edges[0].received < 1 {
        std::thread::yield_now();
    }
    let report = app.stop();
    assert_eq!(drops.load(SeqCst), 6);
    assert_eq!(report.undelivered_total(), 6, "{report}");
    let fault = "the destructor of a message panicked: a bomb";
    assert_eq!(report.faults, [fault; 2], "one for each ring");
}

#[test]
fn destructors_that_panic_in_timers_are_faults() {
    let drops = Arc::new(AtomicU64::new(0));
    let app = Bombs::builder(Bomber(drops.clone())).start().unwrap();
    app.ingress::<Bomber, u64>().send(TO_ITSELF).unwrap();
    while app.metrics().edges[0].received < 1 {
        std::thread::yield_now();
    }
    let report = app.stop();
    assert_eq!((drops.load(SeqCst), report.timers_cancelled), (4, 4));
    let fault = "a timer's destructor panicked: a bomb";
    assert_eq!(report.faults, [fault; 4]);
}

/// A clock that panics at some of its readings.
struct Moody {
    clock: MonotonicClock,
    readings: Arc<AtomicU64>,
    from: u64,
    to: u64,
}

impl Clock for Moody {
    fn now(&self) -> Instant {
        let reading = self.readings.fetch_add(1, SeqCst);
        if (self.from..self.to).contains(&reading) {
            resume_unwind(Box::new("no time"));
        }
        self.clock.now()
    }
}

struct Front;
struct Back;
#[derive(Debug)]
struct Tick(u64);

graph! {
    graph Clocked {
        processors { front: Front, back: [Back; 2] }
        edges {
            ingress -> front: u64 [cap = 2];
            front -> back: u64 [cap = 4];
            back -> front: u32 [reply = u64];
            front -> back: i64 [drop_oldest, cap = 64];
            back -> egress: u64 [cap = 4];
        }
    }
}

impl Process<Clocked> for Front {}
impl Receive<Clocked, Ingress, u64> for Front {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Clocked, Self>) {
        cx.to::<Back>().key(number).send(number);
        cx.to::<Back>().key(number).send(number as i64);
    }
}
impl Receive<Clocked, Back, u32> for Front {
    fn receive(&mut self, _: u32, _: &mut Cx<'_, Clocked, Self>) {}
}
impl Process<Clocked> for Back {}
impl Receive<Clocked, Front, u64> for Back {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Clocked, Self>) {
        cx.after(Duration::ZERO, Tick(number));
        cx.to::<Front>().send(0_u32);
    }
}
impl Receive<Clocked, Front, i64> for Back {
    fn receive(&mut self, _: i64, _: &mut Cx<'_, Clocked, Self>) {}
}
impl Receive<Clocked, Timer, Tick> for Back {
    fn receive(&mut self, Tick(number): Tick, cx: &mut Cx<'_, Clocked, Self>) {
        cx.to::<Egress>().send(number);
    }
}

#[test]
fn a_clock_that_panics_costs_nothing() {
    const MESSAGES: u64 = 12;
    // At one reading, at each of some, and for good.
    let one = (0..80).map(|at| (at, at + 1));
    for (from, to) in one.chain([(10, 200), (30, u64::MAX)]) {
        let readings = Arc::new(AtomicU64::new(0));
        let clock = Moody {
            clock: MonotonicClock::new(),
            readings: readings.clone(),
            from,
            to,
        };
        let app = Clocked::builder(Front, [Back, Back]).clock(clock).sample(1);
        let app = app.workers(2).start().unwrap();
        let mut out = app.egress::<Back, u64>(0);
        let into = app.ingress::<Front, u64>();
        // More than the door has places, and each comes back by a timer.
        let mut sum = 0;
        for number in 0..MESSAGES {
            into.send(number).unwrap();
            sum += out.recv_timeout(LONG).unwrap();
        }
        assert_eq!(sum, MESSAGES * (MESSAGES - 1) / 2);
        let report = app.drain(LONG).unwrap();
        assert_eq!(report.undelivered_total(), 0, "{report}");
        assert!(report.panics.is_empty(), "{report}");
        let panics = readings.load(SeqCst).min(to).saturating_sub(from);
        let faults = match panics {
            0 => vec![],
            1 => vec!["the clock panicked: no time".to_owned()],
            panics => vec![format!("the clock panicked {panics} times, first: no time")],
        };
        assert_eq!(report.faults, faults, "from reading {from} to {to}");
        for edge in &report.metrics.edges {
            assert_eq!((edge.depth, edge.unanswered), (0, 0), "{report}");
        }
    }
}

/// A message whose weight panics if it is a multiple of three.
#[derive(Clone)]
struct Parcel(u64);

impl Weight for Parcel {
    fn weight(&self) -> usize {
        if self.0.is_multiple_of(3) {
            resume_unwind(Box::new("no scales"));
        }
        1
    }
}

struct Sender;
struct Receiver(u64);

graph! {
    graph Parcels {
        processors { sender: Sender, receiver: Receiver }
        edges {
            ingress -> sender: u64 [cap = 4];
            ingress -> sender: i64 [cap = 4];
            sender -> receiver: Parcel [cap = 4, bytes = 2];
        }
    }
}

impl Process<Parcels> for Sender {}
impl Receive<Parcels, Ingress, u64> for Sender {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Parcels, Self>) {
        cx.to::<Receiver>().send(Parcel(number));
    }
}
impl Receive<Parcels, Ingress, i64> for Sender {
    fn receive(&mut self, _: i64, cx: &mut Cx<'_, Parcels, Self>) {
        let weighed = catch_unwind(AssertUnwindSafe(|| cx.to::<Receiver>().send(Parcel(3))));
        assert!(weighed.is_err());
        let tried = || cx.to::<Receiver>().try_send(Parcel(6)).is_ok();
        assert!(catch_unwind(AssertUnwindSafe(tried)).is_err());
        // Neither counts within the burst, which is one message.
        cx.to::<Receiver>().send(Parcel(1));
    }
}
impl Process<Parcels> for Receiver {}
impl Receive<Parcels, Sender, Parcel> for Receiver {
    fn receive(&mut self, Parcel(number): Parcel, _: &mut Cx<'_, Parcels, Self>) {
        self.0 += number;
    }
}

#[test]
fn a_weight_that_panics_costs_the_message_in_hand_alone() {
    let app = Parcels::builder(Sender, Receiver(0)).start().unwrap();
    let numbers = app.ingress::<Sender, u64>();
    (0..30).for_each(|number| numbers.send(number).unwrap());
    let report = app.drain(LONG).unwrap();
    let texts: Vec<_> = report.panics.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        ["sender[0] handling ingress -> Sender: u64: no scales (10 times)"]
    );
    assert_eq!(report.undelivered_total(), 10, "{report}");
    let edge = &report.metrics.edges[2];
    assert_eq!((edge.sent, edge.received, edge.depth), (20, 20, 0));
}

#[test]
fn a_weight_whose_panic_a_handler_contains_uses_up_no_burst() {
    let app = Parcels::builder(Sender, Receiver(0)).start().unwrap();
    let numbers = app.ingress::<Sender, i64>();
    (0..10).for_each(|number| numbers.send(number).unwrap());
    let report = app.drain(LONG).unwrap();
    assert!(report.panics.is_empty(), "{report}");
    assert_eq!(report.take_states::<Parcels, Receiver>()[0].0, 10);
}

struct Spread;
struct Take(u64);

graph! {
    graph Copies {
        processors { spread: Spread, take: [Take; 2] }
        edges {
            ingress -> spread: u64 [cap = 4];
            spread -> take: Parcel [cap = 4, bytes = 4];
        }
    }
}

impl Process<Copies> for Spread {}
impl Receive<Copies, Ingress, u64> for Spread {
    fn receive(&mut self, _: u64, cx: &mut Cx<'_, Copies, Self>) {
        let weighed = catch_unwind(AssertUnwindSafe(|| cx.to::<Take>().all().send(Parcel(3))));
        assert!(weighed.is_err());
        // It does not count within the burst, which is one message to all.
        cx.to::<Take>().all().send(Parcel(1));
    }
}
impl Process<Copies> for Take {}
impl Receive<Copies, Spread, Parcel> for Take {
    fn receive(&mut self, Parcel(number): Parcel, _: &mut Cx<'_, Copies, Self>) {
        self.0 += number;
    }
}

#[test]
fn a_weight_that_panics_in_a_send_to_all_uses_up_no_burst() {
    let takes = [Take(0), Take(0)];
    let app = Copies::builder(Spread, takes).start().unwrap();
    let numbers = app.ingress::<Spread, u64>();
    (0..10).for_each(|number| numbers.send(number).unwrap());
    let report = app.drain(LONG).unwrap();
    assert!(report.panics.is_empty(), "{report}");
    let taken = report.take_states::<Copies, Take>();
    assert!(taken.iter().map(|take| take.0).eq([10, 10]), "{report}");
}
