//! rast-msgpass: a message through a graph of two processors against two threads and a channel.
//!
//! The channel does less: no graph, no back-pressure across several edges, no load figures, no
//! moves. What is compared is the price of a message for one who would otherwise write two
//! threads by hand.

use std::sync::mpsc;
use std::time::Instant;

use rast::msgpass::{Builder, Cx, Next, Process, Receive, graph};
use rast::sharder::Static;

use crate::harness::Scenario;
use crate::workers::{Sample, together};

mod engine;

const LAYER: &str = "msgpass";

/// Messages of room, in the edge and in the channels.
const ROOM: usize = 1024;

/// Messages that the source sends at most before others have their turn.
const BURST: usize = 64;

graph! {
    /// One edge.
    graph Hop {
        processors { source: Source, sink: Sink }
        edges { source -> sink: u64 [cap = ROOM, burst = BURST]; }
    }
}

/// Sends `0..end`, and says when it began.
struct Source {
    next: u64,
    end: u64,
    /// Messages of a turn.
    burst: u64,
    began: mpsc::Sender<Instant>,
}

impl Process<Hop> for Source {
    fn ping(&mut self, cx: &mut Cx<'_, Hop, Self>) -> Next {
        if self.next == 0 {
            self.began.send(Instant::now()).expect("the bench waits");
        }
        let end = self.end.min(self.next + self.burst);
        while self.next < end {
            cx.to::<Sink>().send(self.next);
            self.next += 1;
        }
        if self.next < self.end {
            Next::Again
        } else {
            Next::Idle
        }
    }
}

/// Sums what comes, and says when it had everything.
struct Sink {
    sum: u64,
    left: u64,
    ended: mpsc::Sender<(Instant, u64)>,
}

impl Process<Hop> for Sink {}

impl Receive<Hop, Source, u64> for Sink {
    fn receive(&mut self, value: u64, _: &mut Cx<'_, Hop, Self>) {
        self.sum = self.sum.wrapping_add(value);
        self.left -= 1;
        if self.left == 0 {
            let end = (Instant::now(), self.sum);
            self.ended.send(end).expect("the bench waits");
        }
    }
}

/// The sum of `0..ops`, which every run must come to.
fn expected(ops: u64) -> u64 {
    (0..ops).fold(0, u64::wrapping_add)
}

fn hop(ops: u64, burst: u64, setting: impl FnOnce(Builder<Hop>) -> Builder<Hop>) -> Sample {
    let (began, begin) = mpsc::channel();
    let (ended, end) = mpsc::channel();
    let source = Source {
        next: 0,
        end: ops,
        burst,
        began,
    };
    let sink = Sink {
        sum: 0,
        left: ops,
        ended,
    };
    let handle = setting(Hop::builder(source, sink))
        .start()
        .expect("a valid graph");
    let begin = begin.recv().expect("the source begins");
    let (end, sum) = end.recv().expect("the sink gets everything");
    drop(handle); // stops the graph and joins its workers
    assert_eq!(sum, expected(ops));
    Sample::new(ops, end - begin)
}

graph! {
    /// A request and its reply.
    graph Call {
        processors { caller: Caller, callee: Callee }
        edges {
            caller -> callee: Request;
            callee -> caller: Reply [reply = Request];
        }
    }
}

struct Request(u64);
struct Reply(u64);

/// Sends a request, waits for its reply, sends the next one.
struct Caller {
    left: u64,
    began: Option<Instant>,
    ended: mpsc::Sender<(Instant, Instant)>,
}

impl Process<Call> for Caller {
    fn ping(&mut self, cx: &mut Cx<'_, Call, Self>) -> Next {
        if self.began.is_none() {
            self.began = Some(Instant::now());
            cx.to::<Callee>().send(Request(self.left));
        }
        Next::Idle
    }
}

impl Receive<Call, Callee, Reply> for Caller {
    fn receive(&mut self, reply: Reply, cx: &mut Cx<'_, Call, Self>) {
        assert_eq!(reply.0, self.left);
        self.left -= 1;
        if self.left > 0 {
            cx.to::<Callee>().send(Request(self.left));
        } else {
            let span = (self.began.expect("it began"), Instant::now());
            self.ended.send(span).expect("the bench waits");
        }
    }
}

struct Callee;

impl Process<Call> for Callee {}

impl Receive<Call, Caller, Request> for Callee {
    fn receive(&mut self, request: Request, cx: &mut Cx<'_, Call, Self>) {
        cx.to::<Caller>().send(Reply(request.0));
    }
}

fn call(ops: u64, setting: impl FnOnce(Builder<Call>) -> Builder<Call>) -> Sample {
    let (ended, end) = mpsc::channel();
    let caller = Caller {
        left: ops,
        began: None,
        ended,
    };
    let handle = setting(Call::builder(caller, Callee))
        .start()
        .expect("a valid graph");
    let (begin, end) = end.recv().expect("the caller gets everything");
    drop(handle); // stops the graph and joins its workers
    Sample::new(ops, end - begin)
}

/// The two ends of a bounded channel that blocks.
trait Channel {
    type Sender: Send + 'static;
    type Receiver: Send + 'static;
    fn bounded(room: usize) -> (Self::Sender, Self::Receiver);
    fn send(sender: &Self::Sender, value: u64);
    fn recv(receiver: &Self::Receiver) -> u64;
}

struct Std;

impl Channel for Std {
    type Sender = mpsc::SyncSender<u64>;
    type Receiver = mpsc::Receiver<u64>;

    fn bounded(room: usize) -> (Self::Sender, Self::Receiver) {
        mpsc::sync_channel(room)
    }

    #[inline]
    fn send(sender: &Self::Sender, value: u64) {
        sender.send(value).expect("the receiver is there");
    }

    #[inline]
    fn recv(receiver: &Self::Receiver) -> u64 {
        receiver.recv().expect("the sender is there")
    }
}

#[cfg(all(rast_rivals, feature = "rivals"))]
struct Crossbeam;

#[cfg(all(rast_rivals, feature = "rivals"))]
impl Channel for Crossbeam {
    type Sender = crossbeam_channel::Sender<u64>;
    type Receiver = crossbeam_channel::Receiver<u64>;

    fn bounded(room: usize) -> (Self::Sender, Self::Receiver) {
        crossbeam_channel::bounded(room)
    }

    #[inline]
    fn send(sender: &Self::Sender, value: u64) {
        sender.send(value).expect("the receiver is there");
    }

    #[inline]
    fn recv(receiver: &Self::Receiver) -> u64 {
        receiver.recv().expect("the sender is there")
    }
}

fn channel_hop<C: Channel>(ops: u64) -> Sample {
    let (sender, receiver) = C::bounded(ROOM);
    together(vec![
        Box::new(move || {
            for value in 0..ops {
                C::send(&sender, value);
            }
            0
        }),
        Box::new(move || {
            let sum = (0..ops).fold(0_u64, |sum, _| sum.wrapping_add(C::recv(&receiver)));
            assert_eq!(sum, expected(ops));
            ops
        }),
    ])
}

fn channel_call<C: Channel>(ops: u64) -> Sample {
    let (there, far) = C::bounded(ROOM);
    let (back, near) = C::bounded(ROOM);
    together(vec![
        Box::new(move || {
            for value in 0..ops {
                C::send(&there, value);
                assert_eq!(C::recv(&near), value);
            }
            ops
        }),
        Box::new(move || {
            for _ in 0..ops {
                C::send(&back, C::recv(&far));
            }
            0
        }),
    ])
}

/// The scenarios of this layer.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let hop = Scenario::new(LAYER, "hop, two processors", 5_000_000, 5000)
        .ours("rast graph, two workers, apart", |ops| {
            hop(ops, BURST as u64, |graph| graph.workers(2).balancer(Static))
        })
        .ours("rast graph, two workers, balanced", |ops| {
            hop(ops, BURST as u64, |graph| graph.workers(2))
        })
        .ours("rast graph, one worker", |ops| {
            hop(ops, BURST as u64, |graph| graph.workers(1))
        })
        .rival("std sync_channel, two threads", channel_hop::<Std>);
    let single = Scenario::new(LAYER, "hop, bursts of one", 2_000_000, 2000)
        .ours("rast graph, two workers, apart", |ops| {
            self::hop(ops, 1, |graph| graph.workers(2).balancer(Static))
        })
        .rival("std sync_channel, two threads", channel_hop::<Std>);
    let call = Scenario::new(LAYER, "request and reply, two processors", 100_000, 100)
        .ours("rast graph, two workers, apart", |ops| {
            call(ops, |graph| graph.workers(2).balancer(Static))
        })
        .ours("rast graph, two workers, balanced", |ops| {
            call(ops, |graph| graph.workers(2))
        })
        .ours("rast graph, one worker", |ops| {
            call(ops, |graph| graph.workers(1))
        })
        .rival("std sync_channel, two threads", channel_call::<Std>);
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let (hop, single, call) = (
        hop.rival("crossbeam-channel, two threads", channel_hop::<Crossbeam>),
        single.rival("crossbeam-channel, two threads", channel_hop::<Crossbeam>),
        call.rival("crossbeam-channel, two threads", channel_call::<Crossbeam>),
    );
    let mut all = vec![hop, single, call];
    all.extend(engine::scenarios());
    all
}
