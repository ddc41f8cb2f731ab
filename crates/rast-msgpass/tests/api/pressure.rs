//! Bounds: a slow sink gates its source, a burst is a bound, unbounded is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use rast_msgpass::{Cx, Egress, Full, Ingress, Next, Process, Receive, graph};

use crate::LONG;

/// Sends numbers as fast as it may.
struct Source {
    next: u64,
    end: u64,
    sent: Arc<AtomicU64>,
}
/// Takes them, checks that they come in order and are never far behind.
struct Sink {
    next: u64,
    sent: Arc<AtomicU64>,
    furthest: Arc<AtomicU64>,
}

graph! {
    graph Slow {
        processors { source: Source [source], sink: Sink }
        edges {
            source -> sink: u64 [cap = 4, burst = 2];
            sink -> egress: u64 [cap = 1];
        }
    }
}

impl Process<Slow> for Source {
    fn ping(&mut self, cx: &mut Cx<'_, Slow, Self>) -> Next {
        for _ in 0..2 {
            if self.next == self.end {
                return Next::Idle;
            }
            self.sent.fetch_add(1, SeqCst);
            cx.to::<Sink>().send(self.next);
            self.next += 1;
        }
        Next::Again
    }
}
impl Process<Slow> for Sink {}
impl Receive<Slow, Source, u64> for Sink {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Slow, Self>) {
        assert_eq!(number, self.next);
        self.next += 1;
        let ahead = self.sent.load(SeqCst) - number;
        self.furthest.fetch_max(ahead, SeqCst);
        cx.to::<Egress>().send(number);
    }
}

#[test]
fn a_slow_receiver_gates_the_source_and_nothing_is_lost() {
    for workers in [1, 2] {
        let sent = Arc::new(AtomicU64::new(0));
        let furthest = Arc::new(AtomicU64::new(0));
        let source = Source {
            next: 0,
            end: 3000,
            sent: sent.clone(),
        };
        let sink = Sink {
            next: 0,
            sent: sent.clone(),
            furthest: furthest.clone(),
        };
        let app = Slow::builder(source, sink)
            .workers(workers)
            .start()
            .unwrap();
        let mut out = app.egress::<Sink, u64>(0);
        for number in 0..3000 {
            assert_eq!(out.recv_timeout(LONG), Ok(number));
        }
        let report = app.drain(LONG).unwrap();
        assert!(report.panics.is_empty(), "{report}");
        // The ring of 4, the batch that the sink has taken out of it, one under way.
        let furthest = furthest.load(SeqCst);
        assert!(furthest <= 4 + 4 + 2, "{furthest} ahead");
        assert!(report.metrics.instances[0].gated > 0);
    }
}

#[test]
fn a_receiver_that_nobody_takes_gates_and_a_gone_one_does_not() {
    let source = || Source {
        next: 0,
        end: 100,
        sent: Arc::new(AtomicU64::new(0)),
    };
    let sink = |source: &Source| Sink {
        next: 0,
        sent: source.sent.clone(),
        furthest: Arc::default(),
    };
    let first = source();
    let second = sink(&first);
    let app = Slow::builder(first, second).workers(2).start().unwrap();
    let out = app.egress::<Sink, u64>(0);
    // Dropped while its senders wait for room, or before: they go on in both cases.
    drop(out);
    while app.metrics().instances[0].sent < 100 {
        std::thread::yield_now();
    }
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.metrics.instances[1].received, 100);
    let lost = &report.undelivered[0];
    assert_eq!(lost.edge.message, "u64");
    // Also what the ring held when its receiver went.
    assert_eq!(lost.messages, 100, "{report}");
    let mut edges = report.metrics.edges.iter();
    let out = edges.find(|counts| counts.edge == lost.edge).unwrap();
    assert_eq!((out.sent, out.received, out.depth), (100, 0, 0));
}

#[test]
fn what_no_receiver_was_ever_taken_for_counts_as_undelivered() {
    let source = Source {
        next: 0,
        end: 1,
        sent: Arc::new(AtomicU64::new(0)),
    };
    let sink = Sink {
        next: 0,
        sent: source.sent.clone(),
        furthest: Arc::default(),
    };
    let app = Slow::builder(source, sink).workers(1).start().unwrap();
    while app.metrics().instances[1].sent < 1 {
        std::thread::yield_now();
    }
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.undelivered_total(), 1, "{report}");
}

struct Greedy;
struct Quiet(u64);

graph! {
    graph Bursts {
        processors { greedy: Greedy, quiet: Quiet }
        edges {
            ingress -> greedy: u64;
            greedy -> quiet: u64 [cap = 8, burst = 2];
            quiet -> egress: u64;
        }
    }
}

impl Process<Bursts> for Greedy {}
impl Receive<Bursts, Ingress, u64> for Greedy {
    fn receive(&mut self, count: u64, cx: &mut Cx<'_, Bursts, Self>) {
        if count < 100 {
            for number in 0..count {
                cx.to::<Quiet>().send(number);
            }
            return;
        }
        // try_send goes past the burst, up to the room there really is.
        let room = cx.to::<Quiet>().room::<u64>();
        assert!((2..=8).contains(&room), "{room}");
        assert!(cx.to::<Quiet>().has_room::<u64>(room));
        assert!(!cx.to::<Quiet>().has_room::<u64>(9));
        for number in 0..count {
            if let Err(Full(back)) = cx.to::<Quiet>().try_send(number) {
                assert_eq!(back, number);
                assert!(number >= room as u64 && number >= 2);
                return;
            }
        }
        panic!("a ring has a bound");
    }
}
impl Process<Bursts> for Quiet {}
impl Receive<Bursts, Greedy, u64> for Quiet {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Bursts, Self>) {
        self.0 += 1;
        cx.to::<Egress>().send(number);
    }
}

#[test]
fn a_burst_is_a_bound_and_its_panic_names_the_edge() {
    let app = Bursts::builder(Greedy, Quiet(0))
        .workers(1)
        .start()
        .unwrap();
    let into = app.ingress::<Greedy, u64>();
    into.send(2).unwrap();
    into.send(3).unwrap();
    into.send(2).unwrap();
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.panics.len(), 1);
    let panic = &report.panics[0];
    assert_eq!((panic.processor, panic.replica), ("greedy", 0));
    assert_eq!(panic.edge.unwrap().message, "u64");
    for part in [
        "`Bursts`",
        "Greedy -> Quiet: u64",
        "burst of 2",
        "[burst = 3]",
    ] {
        assert!(panic.message.contains(part), "{panic}");
    }
    // Two, the two that went before the panic, and two.
    assert_eq!(report.metrics.instances[1].received, 6);
}

#[test]
fn try_send_takes_what_room_there_is() {
    let app = Bursts::builder(Greedy, Quiet(0))
        .workers(2)
        .start()
        .unwrap();
    let into = app.ingress::<Greedy, u64>();
    let mut out = app.egress::<Quiet, u64>(0);
    let receiver = std::thread::spawn(move || {
        let mut count = 0;
        while out.recv().is_ok() {
            count += 1;
        }
        count
    });
    for _ in 0..100 {
        into.send(100).unwrap();
    }
    let report = app.drain(LONG).unwrap();
    assert!(report.panics.is_empty(), "{report}");
    let count = receiver.join().unwrap();
    assert!(count >= 200, "{count}");
    assert_eq!(count, report.metrics.instances[0].sent);
}

#[test]
fn a_handler_that_takes_all_room_leaves_none_promised_to_the_next() {
    // One worker: the door holds several messages when the first is handled, so
    // a batch is admitted by the room that there is before the first takes it.
    for _ in 0..200 {
        let app = Bursts::builder(Greedy, Quiet(0))
            .workers(1)
            .start()
            .unwrap();
        let into = app.ingress::<Greedy, u64>();
        let mut out = app.egress::<Quiet, u64>(0);
        for count in [100, 100, 2, 100, 2, 2, 100, 2] {
            into.send(count).unwrap();
        }
        let report = app.drain(LONG).unwrap();
        assert!(report.panics.is_empty(), "{report}");
        let sent = report.metrics.instances[0].sent as usize;
        assert_eq!(out.drain(usize::MAX, drop), sent);
    }
}

struct Echo {
    left: u64,
}
struct Mirror;

graph! {
    graph Loop {
        processors { echo: Echo, mirror: Mirror }
        edges {
            ingress -> echo: u64;
            echo -> mirror: u64 [cap = 2];
            mirror -> echo: u64 [unbounded, cap = 2];
        }
    }
}

impl Process<Loop> for Echo {}
impl Receive<Loop, Ingress, u64> for Echo {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Loop, Self>) {
        cx.to::<Mirror>().send(number);
    }
}
impl Receive<Loop, Mirror, u64> for Echo {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Loop, Self>) {
        if number > 0 {
            self.left -= 1;
            cx.to::<Mirror>().send(number - 1);
        }
    }
}
impl Process<Loop> for Mirror {}
impl Receive<Loop, Echo, u64> for Mirror {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Loop, Self>) {
        // More than any ring of the edge holds.
        cx.to::<Echo>().send(number);
        if number == 0 {
            for _ in 0..100 {
                cx.to::<Echo>().send(0);
            }
        }
    }
}

#[test]
fn an_unbounded_edge_keeps_a_cycle_going() {
    for workers in [1, 2] {
        let app = Loop::builder(Echo { left: 1 << 40 }, Mirror)
            .workers(workers)
            .start()
            .unwrap();
        let into = app.ingress::<Echo, u64>();
        for _ in 0..20 {
            into.send(50).unwrap();
        }
        let report = app.drain(LONG).unwrap();
        assert!(report.panics.is_empty(), "{report}");
        assert_eq!(report.undelivered_total(), 0);
        // 20 from outside; 51 echoes of each and the hundred of its end.
        assert_eq!(report.metrics.instances[0].received, 20 + 20 * (51 + 100));
        assert_eq!(report.metrics.instances[1].received, 20 * 51);
    }
}
