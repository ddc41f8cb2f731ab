//! Promises at large sizes: 10,000 replicas on eight workers that move and are drawn meanwhile,
//! receivers of one lane that come and go, sources that a drain ends, and messages whose `clone`
//! panics.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use rast_msgpass::primitive::Random;
use rast_msgpass::{
    Cx, DrainCause, Egress, Ingress, Next, OnPanic, Process, Receive, Restart, SharedReceiver,
    Timer, graph,
};

use crate::LONG;
use crate::rotate::Rotate;
use crate::task::block_on;

const LEAVES: usize = if cfg!(miri) { 20 } else { 10_000 };
const JOBS: u64 = if cfg!(miri) { 40 } else { 100_000 };
const SENDERS: u64 = 4;

/// A thread's number and the place in the order of its messages.
#[derive(Clone, Copy, Debug)]
struct Job(u64, u64);

struct Hub;
struct Leaf;
#[derive(Default)]
struct Gather {
    last: HashMap<(usize, u64), u64>,
    is_wrong: bool,
}

graph! {
    graph Crowd {
        processors { hub: Hub, leaf: [Leaf; _], gather: Gather }
        edges {
            ingress -> hub: Job [cap = 1_024];
            hub -> leaf: Job [cap = 8];
            leaf -> gather: Job [cap = 16_384];
            gather -> egress: Job [cap = 1_024];
        }
    }
}

impl Process<Crowd> for Hub {}
impl Receive<Crowd, Ingress, Job> for Hub {
    fn receive(&mut self, job: Job, cx: &mut Cx<'_, Crowd, Self>) {
        cx.to::<Leaf>().key(job.1 / 3).send(job);
    }
}
impl Process<Crowd> for Leaf {}
impl Receive<Crowd, Hub, Job> for Leaf {
    fn receive(&mut self, job: Job, cx: &mut Cx<'_, Crowd, Self>) {
        cx.to::<Gather>().send(job);
    }
}
impl Process<Crowd> for Gather {}
impl Receive<Crowd, Leaf, Job> for Gather {
    fn receive(&mut self, job: Job, cx: &mut Cx<'_, Crowd, Self>) {
        let before = self.last.insert((cx.sender(), job.0), job.1);
        self.is_wrong |= before.is_some_and(|before| before >= job.1);
        cx.to::<Egress>().send(job);
    }
}

#[test]
fn ten_thousand_replicas_move_and_are_drawn_and_lose_nothing() {
    let leaves = (0..LEAVES).map(|_| Leaf);
    let app = Crowd::builder(Hub, leaves, Gather::default())
        .workers(8)
        .period(Duration::from_millis(200))
        .balancer(Rotate)
        .sample(64)
        .start()
        .unwrap();
    let into = app.ingress::<Hub, Job>();
    let out = app.egress::<Gather, Job>(0).share();
    let viewer = app.viewer();
    let report = thread::scope(|scope| {
        let readers = [0, 1, 2].map(|_| {
            let out = out.clone();
            scope.spawn(move || core::iter::from_fn(|| out.recv().ok()).count() as u64)
        });
        scope.spawn(|| {
            let last = format!("  i{} [", LEAVES + 1);
            while viewer.ended_by().is_none() {
                assert!(viewer.dot().contains(&last));
                assert!(viewer.mermaid().contains("subgraph p1"));
                let metrics = viewer.metrics();
                assert!(metrics.edges.iter().all(|edge| edge.received <= JOBS));
                assert_eq!(viewer.assignment().assignment.shards(), LEAVES + 2);
                thread::yield_now();
            }
        });
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let into = into.clone();
                scope.spawn(move || {
                    (0..JOBS / SENDERS).for_each(|at| into.send(Job(sender, at)).unwrap());
                })
            })
            .collect();
        senders.into_iter().for_each(|one| one.join().unwrap());
        let report = app.drain(LONG).unwrap();
        let received = readers.map(|one| one.join().unwrap());
        assert_eq!(received.iter().sum::<u64>(), JOBS);
        report
    });
    assert!(
        report.panics.is_empty() && report.faults.is_empty(),
        "{report}"
    );
    assert!(!report.take_states::<Crowd, Gather>()[0].is_wrong);
    assert_eq!(viewer.metrics().edges.len(), 4);
    assert!(
        viewer
            .metrics()
            .edges
            .iter()
            .all(|edge| edge.sent == JOBS && edge.depth == 0)
    );
    assert!(viewer.dot().contains(&format!("{JOBS} sent, 0 queued")));
    let timings = viewer.timings().unwrap();
    assert!(cfg!(miri) || timings.edges.iter().all(|edge| edge.waiting.count() > 0));
}

/// Sends numbers for as long as it is pinged.
struct Source {
    sent: Arc<AtomicU64>,
}
struct Relay;
struct Late;

graph! {
    graph Springs {
        processors { source: [Source; 8] [source], relay: [Relay; 3] }
        edges {
            source -> relay: u64 [cap = 16, burst = 4];
            relay -> egress: u64 [cap = 16];
        }
    }
}

impl Source {
    fn send(&self, count: u64, cx: &mut Cx<'_, Springs, Self>) {
        for _ in 0..count {
            let number = self.sent.fetch_add(1, SeqCst);
            cx.to::<Relay>().key(number).send(number);
        }
    }
}

impl Process<Springs> for Source {
    fn on_start(&mut self, cx: &mut Cx<'_, Springs, Self>) {
        cx.after(Duration::from_micros(cx.replica() as u64), Late);
        self.send(1, cx);
    }

    fn ping(&mut self, cx: &mut Cx<'_, Springs, Self>) -> Next {
        self.send(4, cx);
        match cx.replica() % 3 {
            0 => Next::Again,
            1 => Next::At(cx.now()),
            _ => Next::Woken(cx.now()),
        }
    }

    fn flush(&mut self, cx: &mut Cx<'_, Springs, Self>) {
        self.send(4, cx);
    }
}
impl Receive<Springs, Timer, Late> for Source {
    fn receive(&mut self, _: Late, cx: &mut Cx<'_, Springs, Self>) {
        self.send(2, cx);
        cx.after(Duration::from_micros(5), Late);
    }
}
impl Process<Springs> for Relay {}
impl Receive<Springs, Source, u64> for Relay {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Springs, Self>) {
        cx.to::<Egress>().send(number);
    }
}

#[test]
fn a_drain_ends_sources_that_never_rest_and_all_they_sent_comes_out() {
    for round in 0..if cfg!(miri) { 1 } else { 40 } {
        let sent = Arc::new(AtomicU64::new(0));
        let sources = (0..8).map(|_| Source {
            sent: Arc::clone(&sent),
        });
        let app = Springs::builder(sources, (0..3).map(|_| Relay))
            .workers(8)
            .period(Duration::from_millis(1))
            .balancer(Rotate)
            .start()
            .unwrap();
        let mut out = app.egress::<Relay, u64>(0);
        let reader = thread::spawn(move || core::iter::from_fn(|| out.recv().ok()).count() as u64);
        while sent.load(SeqCst) < round * 100 {
            thread::yield_now();
        }
        let report = app.drain(LONG).unwrap();
        assert_eq!(reader.join().unwrap(), sent.load(SeqCst));
        assert_eq!(report.undelivered_total(), 0, "{report}");
    }
}

struct Fount;

graph! {
    graph Tap {
        processors { fount: Fount }
        edges {
            ingress -> fount: u64 [cap = 64];
            fount -> egress: u64 [cap = 32];
        }
    }
}

impl Process<Tap> for Fount {}
impl Receive<Tap, Ingress, u64> for Fount {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Tap, Self>) {
        cx.to::<Egress>().send(number);
    }
}

/// Takes up to 20 messages in ways that `random` chooses. Returns `false` if the lane has ended.
fn take_some(out: &SharedReceiver<u64>, random: &mut Random, took: &mut Vec<u64>) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    let mut kept = Vec::new();
    for _ in 0..random.below(20) {
        let received = match random.below(7) {
            0 => out.try_recv().map_err(|_| out.is_closed()),
            1 => out
                .recv_timeout(Duration::ZERO)
                .map_err(|_| out.is_closed()),
            2 => out
                .recv_timeout(Duration::from_micros(50))
                .map_err(|_| out.is_closed()),
            3 => out.recv().map_err(|_| true),
            4 => block_on(out.recv_async()).map_err(|_| true),
            5 => {
                out.recv_many(took, 3);
                continue;
            }
            _ => {
                // It waits behind a waker that does nothing, and is dropped with the others.
                let mut waits = Box::pin(out.recv_async());
                match waits.as_mut().poll(&mut cx) {
                    Poll::Ready(received) => received.map_err(|_| true),
                    Poll::Pending => {
                        kept.push(waits);
                        // Nothing is taken in a way that may wait for one that is not polled.
                        break;
                    }
                }
            }
        };
        match received {
            Ok(number) => took.push(number),
            Err(true) => return false,
            Err(false) => {}
        }
    }
    true
}

#[test]
fn receivers_of_a_lane_that_come_and_go_take_each_message_once() {
    let app = Tap::builder(Fount).workers(2).start().unwrap();
    let into = app.ingress::<Fount, u64>();
    let out = app.egress::<Fount, u64>(0).share();
    let threads: Vec<_> = (0..8)
        .map(|seed| {
            let out = out.clone();
            thread::spawn(move || {
                let (mut random, mut took) = (Random::new(seed), Vec::new());
                let mut own = out.clone();
                while take_some(&own, &mut random, &mut took) {
                    own = out.clone();
                }
                took
            })
        })
        .collect();
    drop(out);
    (0..JOBS).for_each(|number| into.send(number).unwrap());
    let report = app.drain(LONG).unwrap();
    let mut all = Vec::new();
    for thread in threads {
        let took = thread.join().unwrap();
        assert!(took.is_sorted(), "one receiver takes in order");
        all.extend(took);
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(0..JOBS));
    assert_eq!(report.undelivered_total(), 0);
}

#[test]
fn what_receivers_that_all_leave_did_not_take_is_counted() {
    for round in 0..if cfg!(miri) { 2 } else { 100 } {
        let app = Tap::builder(Fount).workers(2).start().unwrap();
        let into = app.ingress::<Fount, u64>();
        let out = app.egress::<Fount, u64>(0).share();
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                let out = out.clone();
                thread::spawn(move || {
                    let mut random = Random::new(seed + 10 * round);
                    let most = random.below(300);
                    let mut took = Vec::new();
                    while took.len() < most && take_some(&out, &mut random, &mut took) {}
                    took.len() as u64
                })
            })
            .collect();
        drop(out);
        (0..2_000).for_each(|number| into.send(number).unwrap());
        // All of them have enough, and leave.
        let took: u64 = threads.into_iter().map(|one| one.join().unwrap()).sum();
        let report = app.drain(LONG).unwrap();
        assert_eq!(took + report.undelivered_total(), 2_000, "{report}");
        assert_eq!(report.metrics.edges[1].depth, 0);
    }
}

/// Its `clone` panics for one number in seven.
struct Frail(u64);

impl Clone for Frail {
    fn clone(&self) -> Self {
        if self.0 % 7 == 3 {
            resume_unwind(Box::new("by order"));
        }
        Self(self.0)
    }
}

struct Keeper {
    handled: Arc<AtomicU64>,
}

graph! {
    graph Keeps {
        processors { keeper: [Keeper; 64] }
        edges { ingress -> keeper: Frail [keep, cap = 16]; }
    }
}

impl Process<Keeps> for Keeper {}
impl Receive<Keeps, Ingress, Frail> for Keeper {
    fn receive(&mut self, frail: Frail, _: &mut Cx<'_, Keeps, Self>) {
        if frail.0 % 11 == 5 {
            resume_unwind(Box::new("by order"));
        }
        self.handled.fetch_add(1, SeqCst);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Continue,
    Retire,
    Restart,
}

#[test]
fn a_message_whose_clone_panics_is_lost_alone_whatever_follows() {
    const EACH: u64 = if cfg!(miri) { 20 } else { 5_000 };
    for rule in [Rule::Continue, Rule::Retire, Rule::Restart] {
        let (handled, hooked, returned) =
            <(Arc<AtomicU64>, Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let new = |handled: &Arc<AtomicU64>| Keeper {
            handled: Arc::clone(handled),
        };
        let keepers: Vec<_> = (0..64).map(|_| new(&handled)).collect();
        let app = Keeps::builder(keepers).workers(8).on_failure({
            let hooked = Arc::clone(&hooked);
            move |failure| {
                // Without a clone the hook gets no message.
                let number = failure.message.and_then(|one| one.downcast::<Frail>().ok());
                assert!(number.is_none_or(|one| one.0 % 7 != 3 && one.0 % 11 == 5));
                if hooked.fetch_add(1, SeqCst) % 5 == 0 {
                    resume_unwind(Box::new("the hook"));
                }
            }
        });
        let app = app.on_undelivered({
            let returned = Arc::clone(&returned);
            move |_, message| {
                assert!(message.is::<Frail>());
                if returned.fetch_add(1, SeqCst) % 5 == 0 {
                    resume_unwind(Box::new("the hook"));
                }
            }
        });
        let app = match rule {
            Rule::Continue => app,
            Rule::Retire => app.on_panic_of::<Keeper>(OnPanic::Retire),
            Rule::Restart => {
                let restart = Restart::new().without_limit(Duration::from_millis(1));
                let restart = restart.delay(Duration::ZERO, Duration::from_micros(100));
                let handled = Arc::clone(&handled);
                app.restart::<Keeper>(restart, move |_| new(&handled))
            }
        };
        let app = app.start().unwrap();
        let into = app.ingress::<Keeper, Frail>();
        thread::scope(|scope| {
            for sender in 0..SENDERS {
                let into = &into;
                scope.spawn(move || {
                    for number in 0..EACH {
                        into.key(sender + number / 2).send(Frail(number)).unwrap();
                    }
                });
            }
        });
        let drained = app.drain(LONG);
        assert_eq!(drained.is_ok(), rule != Rule::Retire);
        let report = drained.unwrap_or_else(|error| {
            assert_eq!(error.cause, DrainCause::Lost);
            *error.report
        });
        let (handled, lost) = (handled.load(SeqCst), report.undelivered_total());
        assert_eq!(handled + lost, SENDERS * EACH, "{rule:?}");
        let bad = (0..EACH).filter(|number| number % 7 == 3 || number % 11 == 5);
        let panics: u64 = report.metrics.instances.iter().map(|one| one.panics).sum();
        assert_eq!(hooked.load(SeqCst), panics);
        assert_eq!(returned.load(SeqCst), lost - panics);
        match rule {
            Rule::Retire => assert!(panics <= 64),
            _ => assert_eq!(panics, SENDERS * bad.count() as u64),
        }
        let noted: u64 = report.panics.iter().map(|one| one.count).sum();
        assert_eq!(noted, panics);
        let by_hooks = |text: &String| text.contains("the hook");
        assert!(report.faults.iter().all(by_hooks), "{report}");
    }
}

/// Polls once with a waker that does nothing, in a pinned place.
fn is_pending(future: impl Future) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    pin!(future).poll(&mut cx).is_pending()
}

#[test]
fn sends_that_are_polled_once_and_dropped_take_no_place() {
    let app = Tap::builder(Fount).workers(1).start().unwrap();
    let into = app.ingress::<Fount, u64>();
    // No thread receives: the lane fills up, and then the door.
    loop {
        // Once it is gated, the processor takes nothing more.
        let is_gated = app.metrics().instances[0].gated > 0;
        if into.try_send(0).is_err() && is_gated {
            break;
        }
        thread::yield_now();
    }
    (0..10_000).for_each(|number| assert!(is_pending(into.send_async(number))));
    let mut out = app.egress::<Fount, u64>(0);
    let sender = thread::spawn({
        let into = into.clone();
        move || (0..1_000).for_each(|_| block_on(into.send_async(7)).unwrap())
    });
    (0..1_000).for_each(|_| assert!(out.recv().is_ok()));
    drop(out);
    sender.join().unwrap();
    app.drain(LONG).unwrap();
}
