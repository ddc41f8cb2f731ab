//! Receivers of lanes: wakers that panic, wait strategies, several lanes at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::Context;
use std::time::Duration;

use rast_msgpass::__private::{EgressReceiver, Lane, Wake};
use rast_msgpass::primitive::WaitStrategy;
use rast_msgpass::queue::spsc;
use rast_msgpass::sharder::ShardId;
use rast_msgpass::{Cx, Egress, EndedBy, Ingress, Process, Receive, TryRecvError, WaitAny, graph};

use crate::LONG;

struct Both;

struct Text(u64);

graph! {
    graph Out {
        processors { both: Both }
        edges {
            ingress -> both: u64 [cap = 64];
            both -> egress: u64 [cap = 64, lanes = 2];
            both -> egress: Text [cap = 64];
        }
    }
}

impl Process<Out> for Both {}
impl Receive<Out, Ingress, u64> for Both {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Out, Self>) {
        match number {
            0..100 => {
                cx.to::<Egress>().lane(0).send(number);
                cx.to::<Egress>().send(Text(number));
            }
            _ => cx.to::<Egress>().lane(1).send(number),
        }
    }
}

#[test]
fn a_waker_that_panics_leaves_no_lane_unannounced() {
    let app = Out::builder(Both).workers(1).start().unwrap();
    let (mut first, mut second) = (app.egress::<Both, u64>(0), app.egress::<Both, u64>(1));
    let armed = Arc::new(AtomicBool::new(false));
    for out in [&mut first, &mut second] {
        let armed = armed.clone();
        out.set_waker(move || assert!(!armed.load(SeqCst), "a waker that panics"));
    }
    armed.store(true, SeqCst);
    let into = app.ingress::<Both, u64>();
    for number in [1, 100, 2, 101] {
        into.send(number).unwrap();
    }
    let report = app.drain(LONG).unwrap();
    assert!(!report.faults.is_empty());
    assert_eq!([first.recv(), first.recv()], [Ok(1), Ok(2)]);
    assert_eq!([second.recv(), second.recv()], [Ok(100), Ok(101)]);
    let closed = TryRecvError::Closed(EndedBy::Drain);
    assert_eq!(first.try_recv(), Err(closed));
    assert_eq!(second.try_recv(), Err(closed));
}

struct Deaf;

impl Wake for Deaf {
    fn wake(&self, _: ShardId) {}
}

#[test]
fn a_lane_that_has_ended_gives_what_was_never_announced() {
    let lane = Arc::new(Lane::new(2));
    let (_first, ring0) = spsc::ring::<u32>(2);
    let (mut second, ring1) = spsc::ring::<u32>(2);
    let mut out = EgressReceiver::from_rings(vec![ring0, ring1], Arc::clone(&lane), 1, Deaf);
    second.push(7).unwrap();
    assert_eq!(out.try_recv(), Err(TryRecvError::Empty));
    lane.end();
    assert_eq!(out.try_recv(), Ok(7));
    assert!(out.is_closed());
}

#[test]
fn a_receiver_waits_as_it_was_told() {
    for strategy in [
        WaitStrategy::Spin,
        WaitStrategy::Adaptive,
        WaitStrategy::Park,
    ] {
        let app = Out::builder(Both).workers(1).start().unwrap();
        let mut out = app.egress::<Both, u64>(0);
        out.set_wait(strategy);
        let short = Duration::from_millis(1);
        assert!(out.recv_timeout(short).is_err());
        let into = app.ingress::<Both, u64>();
        let receiver = std::thread::spawn(move || {
            let seen = (0..10).map(|_| out.recv().unwrap()).collect::<Vec<_>>();
            (seen, out.recv().is_err())
        });
        let text = app.egress::<Both, Text>(0);
        drop(text);
        (0..10).for_each(|number| into.send(number).unwrap());
        while app.metrics().edges[1].received < 10 {
            std::thread::yield_now();
        }
        let _ = app.stop();
        let (seen, closed) = receiver.join().unwrap();
        assert!(closed);
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }
}

#[test]
fn one_thread_waits_for_several_lanes() {
    const EACH: u64 = 100;
    for strategy in [WaitStrategy::Spin, WaitStrategy::Park] {
        let app = Out::builder(Both).workers(1).start().unwrap();
        let mut first = app.egress::<Both, u64>(0);
        let mut second = app.egress::<Both, u64>(1);
        let mut text = app.egress::<Both, Text>(0);
        let into = app.ingress::<Both, u64>();
        let asked = Arc::new(AtomicUsize::new(0));
        let told = asked.clone();
        let receiver = std::thread::spawn(move || {
            let mut any = WaitAny::new().strategy(strategy);
            let mut seen = [0_u64; 3];
            loop {
                told.fetch_add(1, SeqCst);
                let end = match any.wait(&mut [&mut first, &mut second, &mut text]) {
                    0 => first.try_recv().map(|_| 0),
                    1 => second.try_recv().map(|_| 1),
                    _ => text.try_recv().map(|text| {
                        assert!(text.0 < 100);
                        2
                    }),
                };
                match end {
                    Ok(lane) => seen[lane] += 1,
                    Err(end) => {
                        assert_eq!(end, TryRecvError::Closed(EndedBy::Drain));
                        // Each lane ends once it is empty; the others may hold something.
                        seen[0] += first.drain(usize::MAX, drop) as u64;
                        seen[1] += second.drain(usize::MAX, drop) as u64;
                        seen[2] += text.drain(usize::MAX, drop) as u64;
                        return seen;
                    }
                }
            }
        });
        while asked.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        for number in 0..EACH {
            into.send(number).unwrap();
            into.send(100 + number).unwrap();
        }
        app.drain(LONG).unwrap();
        assert_eq!(receiver.join().unwrap(), [EACH; 3], "{strategy:?}");
    }
}

#[test]
fn a_wait_for_several_lanes_ends_in_time() {
    let app = Out::builder(Both).workers(1).start().unwrap();
    let (mut first, mut second) = (app.egress::<Both, u64>(0), app.egress::<Both, u64>(1));
    let mut any = WaitAny::new();
    let short = Duration::from_millis(1);
    assert_eq!(
        any.wait_timeout(&mut [&mut first, &mut second], short),
        None
    );
    app.ingress::<Both, u64>().send(100).unwrap();
    assert_eq!(any.wait(&mut [&mut first, &mut second]), 1);
    assert_eq!(second.try_recv(), Ok(100));
}

/// A message whose destructor panics, without a text.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
        std::panic::resume_unwind(Box::new("by order"));
    }
}

struct Bomber(Arc<AtomicUsize>);

graph! {
    graph Bombs {
        processors { bomber: Bomber }
        edges { ingress -> bomber: u64; bomber -> egress: Bomb [cap = 8, lanes = 2]; }
    }
}

impl Process<Bombs> for Bomber {}
impl Receive<Bombs, Ingress, u64> for Bomber {
    fn receive(&mut self, lane: u64, cx: &mut Cx<'_, Bombs, Self>) {
        let bomb = Bomb(Arc::clone(&self.0));
        cx.to::<Egress>().lane(lane as usize).send(bomb);
    }
}

#[test]
fn destructors_that_panic_are_contained_each_for_itself() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let app = Bombs::builder(Bomber(Arc::clone(&dropped)));
    let app = app.workers(1).start().unwrap();
    let lane = app.egress::<Bomber, Bomb>(0);
    let into = app.ingress::<Bomber, u64>();
    (0..6).for_each(|number| into.send(number % 2).unwrap());
    // A message counts as received after what its handler sent is in the lanes.
    while app.metrics().edges[0].received < 6 {
        std::thread::yield_now();
    }
    // Three by a receiver, and three in the lane whose receiver no thread took.
    drop(lane);
    assert_eq!(dropped.load(SeqCst), 3);
    let report = app.stop();
    assert_eq!(dropped.load(SeqCst), 6);
    assert!(report.faults.is_empty(), "{report}");
    // Several senders, and a panic that unwinds already.
    let lane = Arc::new(Lane::new(2));
    let (mut first, ring0) = spsc::ring(2);
    let (mut second, ring1) = spsc::ring(2);
    let out = EgressReceiver::from_rings(vec![ring0, ring1], lane, 1, Deaf);
    for ring in [&mut first, &mut second] {
        for _ in 0..2 {
            assert!(ring.push(Bomb(Arc::clone(&dropped))).is_ok());
        }
    }
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _out = out;
        std::panic::resume_unwind(Box::new("the receiver's thread"));
    }));
    let text = unwound.unwrap_err().downcast::<&str>().unwrap();
    assert_eq!(*text, "the receiver's thread");
    assert_eq!(dropped.load(SeqCst), 10);
}

/// A waker whose destructor panics.
struct LoudWaker(Arc<()>);

impl Drop for LoudWaker {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("a waker's destructor"));
    }
}

impl LoudWaker {
    fn call(&self) {
        assert!(Arc::strong_count(&self.0) > 1);
    }
}

#[test]
fn a_receiver_that_is_dropped_drops_its_waker() {
    let app = Out::builder(Both).workers(1).start().unwrap();
    let (mut first, mut second) = (app.egress::<Both, u64>(0), app.egress::<Both, u64>(1));
    let used = Arc::new(());
    let (own, loud) = (Arc::clone(&used), LoudWaker(Arc::clone(&used)));
    first.set_waker(move || assert!(Arc::strong_count(&own) > 1));
    second.set_waker(move || loud.call());
    assert_eq!(Arc::strong_count(&used), 3);
    drop(first);
    assert_eq!(Arc::strong_count(&used), 2);
    drop(second);
    assert_eq!(Arc::strong_count(&used), 1);
    // The same of the waker of a task.
    let mut text = app.egress::<Both, Text>(0);
    let task = Arc::new(Counted);
    let waker = std::task::Waker::from(Arc::clone(&task));
    assert!(
        text.poll_recv(&mut Context::from_waker(&waker))
            .is_pending()
    );
    drop(waker);
    assert!(Arc::strong_count(&task) > 1);
    drop(text);
    assert_eq!(Arc::strong_count(&task), 1);
    assert!(app.stop().faults.is_empty());
}

struct Counted;

impl std::task::Wake for Counted {
    fn wake(self: Arc<Self>) {}
}
