//! Timers of processors, on a clock that is moved by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use rast_msgpass::timers::{Clock, Instant, ManualClock, Nanos};
use rast_msgpass::{
    Cx, Egress, EgressReceiver, Handle, Ingress, Next, OnPanic, Process, Receive, Timer, TimerId,
    TryRecvError, graph,
};

use crate::LONG;

enum Do {
    After(u64),
    Every(u64),
    /// Takes back what was armed last.
    Cancel,
    /// Asks for a ping.
    WakeAt(u64),
    Panic,
}

/// What comes from a timer.
#[derive(Clone, Debug, PartialEq)]
struct Tick(u64);

#[derive(Debug, PartialEq)]
enum Seen {
    Tick { number: u64, at: u64 },
    Ping { at: u64 },
    Cancelled(Option<Tick>),
}

#[derive(Default)]
struct Sleeper {
    armed: u64,
    last: Option<TimerId<Tick>>,
    pings: u64,
}

graph! {
    graph Times {
        processors { sleeper: Sleeper }
        edges {
            ingress -> sleeper: Do;
            sleeper -> egress: Seen;
        }
    }
}

impl Process<Times> for Sleeper {
    fn ping(&mut self, cx: &mut Cx<'_, Times, Self>) -> Next {
        self.pings += 1;
        // The first one comes at the start.
        if self.pings > 1 {
            let at = cx.now().as_nanos();
            cx.to::<Egress>().send(Seen::Ping { at });
        }
        Next::Idle
    }
}
impl Receive<Times, Ingress, Do> for Sleeper {
    fn receive(&mut self, what: Do, cx: &mut Cx<'_, Times, Self>) {
        match what {
            Do::After(nanos) => {
                self.armed += 1;
                let tick = Tick(self.armed);
                self.last = Some(cx.after(Nanos::from_nanos(nanos), tick));
            }
            Do::Every(nanos) => {
                self.armed += 1;
                let tick = Tick(self.armed);
                self.last = Some(cx.every(Nanos::from_nanos(nanos), tick));
            }
            Do::Cancel => {
                let message = self.last.take().and_then(|timer| cx.cancel(timer));
                cx.to::<Egress>().send(Seen::Cancelled(message));
            }
            Do::WakeAt(nanos) => cx.wake_at(Instant::from_nanos(nanos)),
            Do::Panic => panic!("as asked"),
        }
    }
}
impl Receive<Times, Timer, Tick> for Sleeper {
    fn receive(&mut self, Tick(number): Tick, cx: &mut Cx<'_, Times, Self>) {
        let at = cx.now().as_nanos();
        cx.to::<Egress>().send(Seen::Tick { number, at });
    }
}

struct Rig {
    clock: ManualClock,
    app: Handle<Times>,
    out: EgressReceiver<Seen>,
    sent: u64,
}

impl Rig {
    fn new() -> Self {
        let clock = ManualClock::new();
        let app = Times::builder(Sleeper::default())
            .workers(1)
            .clock(clock.clone())
            .start()
            .unwrap();
        let out = app.egress::<Sleeper, Seen>(0);
        let sent = 0;
        Self {
            clock,
            app,
            out,
            sent,
        }
    }

    /// Has it done, and waits until it is.
    fn tell(&mut self, what: Do) {
        self.app.ingress::<Sleeper, Do>().send(what).unwrap();
        self.sent += 1;
        while self.app.metrics().edges[0].received < self.sent {
            std::thread::yield_now();
        }
    }

    fn go_to(&mut self, nanos: u64) {
        self.clock.set(Instant::from_nanos(nanos));
        self.app.look_at_clock();
    }

    fn next(&mut self) -> Seen {
        self.out.recv_timeout(LONG).unwrap()
    }
}

const HOUR: u64 = 3_600_000_000_000;

#[test]
fn a_message_to_oneself_comes_at_its_time_on_an_idle_graph() {
    let mut rig = Rig::new();
    rig.tell(Do::After(HOUR));
    rig.tell(Do::After(HOUR / 2));
    rig.go_to(HOUR / 2 - 1);
    // A handler that runs now sees the clock, and the timers are not due.
    rig.tell(Do::After(HOUR));
    assert_eq!(rig.out.try_recv(), Err(TryRecvError::Empty));
    rig.go_to(HOUR / 2);
    let at = HOUR / 2;
    assert_eq!(rig.next(), Seen::Tick { number: 2, at });
    rig.go_to(2 * HOUR);
    let at = 2 * HOUR;
    assert_eq!(rig.next(), Seen::Tick { number: 1, at });
    assert_eq!(rig.next(), Seen::Tick { number: 3, at });
    let report = rig.app.drain(LONG).unwrap();
    assert_eq!(report.timers_cancelled, 0);
}

#[test]
fn a_repeated_message_keeps_its_row_and_leaves_out_what_was_missed() {
    let mut rig = Rig::new();
    rig.tell(Do::Every(HOUR));
    for times in [1, 2] {
        rig.go_to(times * HOUR);
        let at = times * HOUR;
        assert_eq!(rig.next(), Seen::Tick { number: 1, at });
    }
    // Late by three and a half: the next one is the fifth hour's successor.
    rig.go_to(5 * HOUR + HOUR / 2);
    let at = 5 * HOUR + HOUR / 2;
    assert_eq!(rig.next(), Seen::Tick { number: 1, at });
    rig.go_to(6 * HOUR);
    let at = 6 * HOUR;
    assert_eq!(rig.next(), Seen::Tick { number: 1, at });
    rig.tell(Do::Cancel);
    assert_eq!(rig.next(), Seen::Cancelled(Some(Tick(1))));
    rig.go_to(100 * HOUR);
    rig.tell(Do::Cancel);
    assert_eq!(rig.next(), Seen::Cancelled(None));
}

#[test]
fn a_timer_that_was_cancelled_or_has_fired_gives_nothing() {
    let mut rig = Rig::new();
    rig.tell(Do::After(HOUR));
    rig.tell(Do::Cancel);
    assert_eq!(rig.next(), Seen::Cancelled(Some(Tick(1))));
    rig.tell(Do::After(HOUR));
    rig.go_to(HOUR);
    let at = HOUR;
    assert_eq!(rig.next(), Seen::Tick { number: 2, at });
    rig.tell(Do::Cancel);
    assert_eq!(rig.next(), Seen::Cancelled(None));
}

#[test]
fn a_handler_may_ask_for_a_ping_at_a_time() {
    let mut rig = Rig::new();
    rig.tell(Do::WakeAt(2 * HOUR));
    rig.tell(Do::WakeAt(HOUR));
    rig.tell(Do::WakeAt(3 * HOUR));
    rig.go_to(HOUR - 1);
    rig.tell(Do::After(HOUR));
    assert_eq!(rig.out.try_recv(), Err(TryRecvError::Empty));
    rig.go_to(HOUR);
    assert_eq!(rig.next(), Seen::Ping { at: HOUR });
}

#[test]
fn a_drain_and_a_stop_cancel_timers_and_count_them() {
    for drains in [true, false] {
        let mut rig = Rig::new();
        rig.tell(Do::After(1));
        rig.tell(Do::Every(HOUR));
        rig.tell(Do::After(HOUR));
        let report = match drains {
            true => rig.app.drain(LONG).unwrap(),
            false => rig.app.stop(),
        };
        assert_eq!(report.timers_cancelled, 3, "the clock stood still");
        let text = report.to_string();
        assert!(text.contains("3 timers cancelled"), "{text}");
    }
}

#[test]
fn a_retired_processor_loses_its_timers() {
    let app = Times::builder(Sleeper::default())
        .workers(1)
        .on_panic(OnPanic::Retire)
        .start()
        .unwrap();
    let into = app.ingress::<Sleeper, Do>();
    into.send(Do::After(HOUR)).unwrap();
    into.send(Do::Panic).unwrap();
    while app.report().timers_cancelled == 0 {
        std::thread::yield_now();
    }
    assert_eq!(app.stop().timers_cancelled, 1);
}

/// A message whose copy panics at the second time.
struct Brittle(Arc<AtomicU64>);

impl Clone for Brittle {
    fn clone(&self) -> Self {
        assert!(self.0.fetch_add(1, SeqCst) != 1, "the second copy");
        Self(self.0.clone())
    }
}

struct Fragile(Arc<AtomicU64>);

graph! {
    graph Copies {
        processors { fragile: Fragile [source] }
        edges { fragile -> egress: u64; }
    }
}

impl Process<Copies> for Fragile {
    fn ping(&mut self, cx: &mut Cx<'_, Copies, Self>) -> Next {
        cx.every(Duration::from_micros(100), Brittle(self.0.clone()));
        Next::Idle
    }
}
impl Receive<Copies, Timer, Brittle> for Fragile {
    fn receive(&mut self, message: Brittle, cx: &mut Cx<'_, Copies, Self>) {
        cx.to::<Egress>().send(message.0.load(SeqCst));
    }
}

#[test]
fn a_copy_that_panics_costs_one_time_of_the_row() {
    let app = Copies::builder(Fragile(Arc::default())).start().unwrap();
    let mut out = app.egress::<Fragile, u64>(0);
    assert_eq!(out.recv_timeout(LONG), Ok(1));
    assert_eq!(out.recv_timeout(LONG), Ok(3));
    assert_eq!(out.recv_timeout(LONG), Ok(4));
    assert_eq!(app.stop().panics.len(), 1);
}

struct Punctual;

graph! {
    graph Due {
        processors { punctual: Punctual }
        edges {
            ingress -> punctual: u64;
            punctual -> egress: Instant;
        }
    }
}

impl Process<Due> for Punctual {}
impl Receive<Due, Ingress, u64> for Punctual {
    fn receive(&mut self, micros: u64, cx: &mut Cx<'_, Due, Self>) {
        let delay = Nanos::from_micros(micros);
        let due = cx.now().saturating_add(delay);
        cx.after(delay, due);
    }
}
impl Receive<Due, Timer, Instant> for Punctual {
    fn receive(&mut self, due: Instant, cx: &mut Cx<'_, Due, Self>) {
        assert!(cx.now() >= due, "never early");
        cx.to::<Egress>().send(due);
    }
}

#[test]
fn timers_fire_on_the_system_s_clock_and_never_early() {
    let app = Due::builder(Punctual).start().unwrap();
    let mut out = app.egress::<Punctual, Instant>(0);
    let into = app.ingress::<Punctual, u64>();
    for micros in [0, 1, 50, 500, 2_000] {
        into.send(micros).unwrap();
        let due = out.recv_timeout(LONG).unwrap();
        assert!(rast_msgpass::timers::MonotonicClock::new().now() >= due);
    }
    assert!(app.stop().panics.is_empty());
}

mod room {
    //! A timer's handler that sends on two edges.
    use super::*;

    pub(super) struct Late(pub(super) Arc<AtomicU64>);
    pub(super) struct Tick;
    pub(super) struct One;
    pub(super) struct Two;

    graph! {
        pub(super) graph Room {
            processors { late: Late }
            edges {
                ingress -> late: u64 [sends = ()];
                late -> egress: One [cap = 1];
                late -> egress: Two [cap = 1];
            }
        }
    }

    impl Process<Room> for Late {}
    impl Receive<Room, Ingress, u64> for Late {
        fn receive(&mut self, _: u64, cx: &mut Cx<'_, Room, Self>) {
            cx.after(Duration::ZERO, Tick);
        }
    }
    impl Receive<Room, Timer, Tick> for Late {
        fn receive(&mut self, _: Tick, cx: &mut Cx<'_, Room, Self>) {
            self.0.fetch_add(1, SeqCst);
            cx.to::<Egress>().send(One);
            cx.to::<Egress>().send(Two);
        }
    }
}

#[test]
fn a_timer_sends_on_every_edge_and_waits_for_room_in_all() {
    use room::{Late, One, Room, Two};
    let fired = Arc::new(AtomicU64::new(0));
    let app = Room::builder(Late(fired.clone()))
        .workers(1)
        .start()
        .unwrap();
    let (mut one, mut two) = (app.egress::<Late, One>(0), app.egress::<Late, Two>(0));
    let into = app.ingress::<Late, u64>();
    let handle = |count: u64| {
        let wanted = app.metrics().edges[0].received + count;
        (0..count).for_each(|number| into.send(number).unwrap());
        while app.metrics().edges[0].received < wanted {
            std::thread::yield_now();
        }
    };
    handle(1);
    while fired.load(SeqCst) < 1 {
        std::thread::yield_now();
    }
    // Both lanes are full. The messages that never wait are handled, and what they arm waits.
    handle(2);
    assert_eq!(fired.load(SeqCst), 1);
    // Room in one of the two is not enough.
    assert!(one.recv_timeout(LONG).is_ok());
    handle(1);
    assert_eq!(fired.load(SeqCst), 1);
    for wanted in 2..=4 {
        assert!(two.recv_timeout(LONG).is_ok());
        while fired.load(SeqCst) < wanted {
            std::thread::yield_now();
        }
        assert!(one.recv_timeout(LONG).is_ok());
    }
    assert!(two.recv_timeout(LONG).is_ok());
    assert!(app.drain(LONG).unwrap().panics.is_empty());
}
