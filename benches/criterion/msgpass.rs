//! rast-msgpass: messages between processors of one worker.
//!
//! Each measurement starts a graph of its own. The time runs from its first message to its last
//! one, without the start and the end of the graph.

mod settings;

use std::hint::black_box;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rast::msgpass::{Cx, Next, Process, Receive, graph};

fn main() {
    settings::run("msgpass", |group| {
        group.bench_function("round_trip", |bencher| bencher.iter_custom(round_trip));
        group.bench_function("hop", |bencher| bencher.iter_custom(hop));
        group.bench_function("keyed_4_replicas", |bencher| bencher.iter_custom(keyed));
    });
}

graph! {
    /// A request and its reply.
    graph Call {
        processors { caller: Caller [source], callee: Callee }
        edges {
            caller -> callee: Request;
            callee -> caller: Reply [reply = Request];
        }
    }
}

struct Request(u64);
struct Reply(u64);

/// Sends a request, and the next one after its reply.
struct Caller {
    left: u64,
    began: Option<Instant>,
    spans: Sender<Duration>,
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
            let span = self.began.expect("it began").elapsed();
            self.spans.send(span).expect("the bench waits");
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

fn round_trip(count: u64) -> Duration {
    let (spans, span) = channel();
    let caller = Caller {
        left: count,
        began: None,
        spans,
    };
    let handle = Call::builder(caller, Callee)
        .workers(1)
        .start()
        .expect("a valid graph");
    let span = span.recv().expect("the caller ends");
    drop(handle); // stops the graph and joins its worker
    span
}

/// Messages that a source sends in one turn.
const BURST: u64 = 64;

/// What a source sends after its last message.
const END: u64 = u64::MAX;

/// Sends `left` messages, and `END` after them.
struct Source {
    left: u64,
    began: Option<Sender<Instant>>,
}

impl Source {
    /// How many messages to send in this turn; the first turn tells the bench its time.
    #[inline]
    fn burst(&mut self) -> u64 {
        if let Some(began) = self.began.take() {
            began.send(Instant::now()).expect("the bench waits");
        }
        let burst = self.left.min(BURST);
        self.left -= burst;
        burst
    }
}

/// Adds the messages up, and tells the bench the time of `END`.
#[derive(Clone)]
struct Sink {
    sum: u64,
    ended: Sender<Instant>,
}

impl Sink {
    #[inline]
    fn take(&mut self, number: u64) {
        if number == END {
            black_box(self.sum);
            self.ended.send(Instant::now()).expect("the bench waits");
        }
        self.sum = self.sum.wrapping_add(number);
    }
}

graph! {
    /// One edge between two processors.
    graph Hop {
        processors { source: Source [source], sink: Sink }
        edges { source -> sink: u64 [cap = 1024, burst = 65]; }
    }
}

impl Process<Hop> for Source {
    fn ping(&mut self, cx: &mut Cx<'_, Hop, Self>) -> Next {
        if self.left == 0 {
            return Next::Idle;
        }
        for number in 0..self.burst() {
            cx.to::<Sink>().send(number);
        }
        if self.left > 0 {
            return Next::Again;
        }
        cx.to::<Sink>().send(END);
        Next::Idle
    }
}

impl Process<Hop> for Sink {}

impl Receive<Hop, Source, u64> for Sink {
    fn receive(&mut self, number: u64, _: &mut Cx<'_, Hop, Self>) {
        self.take(number);
    }
}

fn hop(count: u64) -> Duration {
    span(1, |began, ended| {
        let source = Source {
            left: count,
            began: Some(began),
        };
        let graph = Hop::builder(source, Sink { sum: 0, ended });
        graph.workers(1).start().expect("a valid graph")
    })
}

graph! {
    /// Each message goes to the replica of its key.
    graph Keyed {
        processors { source: Source [source], sinks: [Sink; 4] }
        edges { source -> sinks: u64 [cap = 1024, burst = 65]; }
    }
}

impl Process<Keyed> for Source {
    fn ping(&mut self, cx: &mut Cx<'_, Keyed, Self>) -> Next {
        if self.left == 0 {
            return Next::Idle;
        }
        for number in 0..self.burst() {
            cx.to::<Sink>().key(number).send(number);
        }
        if self.left > 0 {
            return Next::Again;
        }
        cx.to::<Sink>().all().send(END);
        Next::Idle
    }
}

impl Process<Keyed> for Sink {}

impl Receive<Keyed, Source, u64> for Sink {
    fn receive(&mut self, number: u64, _: &mut Cx<'_, Keyed, Self>) {
        self.take(number);
    }
}

fn keyed(count: u64) -> Duration {
    span(4, |began, ended| {
        let source = Source {
            left: count,
            began: Some(began),
        };
        let graph = Keyed::builder(source, vec![Sink { sum: 0, ended }; 4]);
        graph.workers(1).start().expect("a valid graph")
    })
}

/// The time from the source's first turn until each of `sinks` has received `END`.
fn span<Handle>(
    sinks: usize,
    start: impl FnOnce(Sender<Instant>, Sender<Instant>) -> Handle,
) -> Duration {
    let (begins, begin) = channel();
    let (ends, end) = channel();
    let handle = start(begins, ends);
    let begin = begin.recv().expect("the source begins");
    let last = (0..sinks).map(|_| end.recv().expect("the sink ends")).max();
    drop(handle); // stops the graph and joins its worker
    last.expect("there are sinks") - begin
}
