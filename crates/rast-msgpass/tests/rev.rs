//! Attacks.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use rast_msgpass::{Cx, Egress, Ingress, Next, Process, Receive, graph};

const LONG: Duration = Duration::from_secs(20);

// 1. One input of an edge keeps the others from their turn.
struct Source { left: u64, pings: u64 }
struct Sink { seen: u64, at: Option<u64> }
struct Busy(u64);
graph! {
    graph Starve {
        processors { source: [Source; 2], sink: Sink }
        edges { source -> sink: Busy [cap = 256, burst = 128]; sink -> egress: (u64, u64) [unbounded]; ingress -> sink: u8; }
    }
}
impl Process<Starve> for Source {
    fn ping(&mut self, cx: &mut Cx<'_, Starve, Self>) -> Next {
        self.pings += 1;
        if self.left == 0 { return Next::Idle; }
        if cx.replica() == 0 {
            for _ in 0..128 { cx.to::<Sink>().send(Busy(0)); }
            self.left -= 1;
        } else if self.pings > 20 {
            cx.to::<Sink>().send(Busy(1));
            self.left = 0;
        }
        Next::Again
    }
}
impl Process<Starve> for Sink {}
impl Receive<Starve, Ingress, u8> for Sink {
    fn receive(&mut self, _: u8, _: &mut Cx<'_, Starve, Self>) {}
}
impl Receive<Starve, Source, Busy> for Sink {
    fn receive(&mut self, Busy(what): Busy, cx: &mut Cx<'_, Starve, Self>) {
        self.seen += 1;
        if what == 1 { self.at = Some(self.seen); }
        if self.seen == 128 * 2_000 + 1 {
            cx.to::<Egress>().send((self.at.unwrap_or(0), self.seen));
        }
    }
}
#[test]
fn a_busy_sender_does_not_starve_another() {
    let sources = [Source { left: 2_000, pings: 0 }, Source { left: 1, pings: 0 }];
    let app = Starve::builder(sources, Sink { seen: 0, at: None }).workers(1).start().unwrap();
    let mut out = app.egress::<Sink, (u64, u64)>(0);
    let (at, all) = out.recv_timeout(LONG).unwrap();
    assert!(at < 10_000, "the one message came as number {at} of {all}");
}

// 2. A gated sender costs nothing.
struct Echo;
graph! {
    graph Gated {
        processors { echo: Echo }
        edges { ingress -> echo: u64 [cap = 4]; echo -> egress: u64 [cap = 8]; }
    }
}
impl Process<Gated> for Echo {}
impl Receive<Gated, Ingress, u64> for Echo {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Gated, Self>) { cx.to::<Egress>().send(number); }
}
#[test]
fn a_gated_sender_sleeps() {
    let app = Gated::builder(Echo).workers(1).start().unwrap();
    let mut out = app.egress::<Echo, u64>(0);
    let door = app.ingress::<Echo, u64>();
    (0..12).for_each(|n| door.send(n).unwrap());
    std::thread::sleep(Duration::from_millis(200));
    let before = app.metrics();
    std::thread::sleep(Duration::from_millis(500));
    let after = app.metrics();
    println!("{:?}\n{:?}", before.workers, after.workers);
    (0..12).for_each(|n| assert_eq!(out.recv_timeout(LONG), Ok(n)));
    let turns = after.workers[0].turns - before.workers[0].turns;
    assert!(turns < 100, "{turns} turns while nothing could be done");
}

// 3. A handler that contains a panic of a message's Clone.
struct Fan;
struct Leaf;
struct Moody;
impl Clone for Moody {
    fn clone(&self) -> Self {
        let copies = COPIES.with(|c| { c.set(c.get() + 1); c.get() });
        assert!(!(PANICS.with(std::cell::Cell::get) && copies == 2), "no second copy");
        Moody
    }
}
graph! {
    graph Caught {
        processors { fan: Fan, leaf: [Leaf; 3] }
        edges { ingress -> fan: bool; fan -> leaf: Moody; leaf -> egress: usize; }
    }
}
impl Process<Caught> for Fan {}
impl Receive<Caught, Ingress, bool> for Fan {
    fn receive(&mut self, panics: bool, cx: &mut Cx<'_, Caught, Self>) {
        let _ = catch_unwind(AssertUnwindSafe(|| cx.to::<Leaf>().all().send(Seq::new(panics))));
    }
}
struct Seq;
impl Seq { fn new(panics: bool) -> Moody { COPIES.with(|c| c.set(0)); PANICS.with(|c| c.set(panics)); Moody } }
thread_local! {
    static COPIES: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    static PANICS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}
impl Process<Caught> for Leaf {}
impl Receive<Caught, Fan, Moody> for Leaf {
    fn receive(&mut self, _: Moody, cx: &mut Cx<'_, Caught, Self>) {
        let replica = cx.replica();
        cx.to::<Egress>().send(replica);
    }
}
#[test]
fn a_caught_panic_of_clone_keeps_the_edge_alive() {
    let app = Caught::builder(Fan, [Leaf, Leaf, Leaf]).workers(1).start().unwrap();
    let mut out = app.egress::<Leaf, usize>(0);
    let door = app.ingress::<Fan, bool>();
    door.send(true).unwrap();
    (0..10).for_each(|_| door.send(false).unwrap());
    let drained = app.drain(Duration::from_secs(3));
    let mut got = 0;
    while out.try_recv().is_ok() { got += 1; }
    println!("{drained:?}");
    assert!(got >= 30, "{got} messages arrived of 31; drain: {}", drained.is_ok());
}
#[test]
fn timing() { let _ = Instant::now(); }
