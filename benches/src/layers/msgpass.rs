//! rast-msgpass: a message through a graph of two processors against two threads and a channel.
//!
//! A channel does less: it has no graph, no back-pressure across several edges, no measurement of
//! load, and no moves. The comparison shows what a message costs a program that would otherwise use
//! threads and channels directly.

use std::sync::mpsc;
use std::time::Instant;

use rast::msgpass::{Builder, Cx, Graph, Next, Process, Receive, graph};
use rast::sharder::Static;

use crate::harness::Scenario;
use crate::options::Options;
use crate::workers::{Job, Sample, together};

mod across;
mod actors;
mod compile;
mod desk;
mod engine;
mod later;
mod pong;
mod rates;
#[cfg(all(rast_rivals, feature = "rivals"))]
mod rivals;
mod savina;
mod skew;
mod span;

const LAYER: &str = "msgpass";

/// The capacity of the edge and of the channels.
const ROOM: usize = 1024;

/// Messages per turn of the source, unless the scenario has one per turn.
const BURST: u64 = 64;

graph! {
    /// One edge.
    graph Hop {
        processors { source: Source [source], sink: Sink }
        edges { source -> sink: u64 [cap = ROOM, burst = BURST as usize]; }
    }
}

/// Sends `0..end`, and reports when it began.
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

/// Sums the messages, and reports when the last one has come.
struct Sink {
    sum: u64,
    left: u64,
    ended: mpsc::Sender<(Instant, u64)>,
}

impl Process<Hop> for Sink {}

impl Sink {
    /// Reports, once.
    #[cold]
    fn end(&self) {
        let end = (Instant::now(), self.sum);
        self.ended.send(end).expect("the bench waits");
    }
}

impl Receive<Hop, Source, u64> for Sink {
    #[inline]
    fn receive(&mut self, value: u64, _: &mut Cx<'_, Hop, Self>) {
        self.sum = self.sum.wrapping_add(value);
        self.left -= 1;
        if self.left == 0 {
            self.end();
        }
    }
}

/// One worker, with the balancer that moves no processor.
fn on_one_worker<G: Graph>(graph: Builder<G>) -> Builder<G> {
    graph.workers(1).balancer(Static)
}

/// The sum of `0..ops`, which every run must reach.
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

/// The two ends of a bounded channel that blocks.
trait Channel {
    type Sender: Send + 'static;
    type Receiver: Send + 'static;
    fn bounded(room: usize) -> (Self::Sender, Self::Receiver);
    fn send(sender: &Self::Sender, value: u64);
    fn recv(receiver: &Self::Receiver) -> u64;
}

/// A channel by its two ends and the function that makes them.
macro_rules! channel {
    ($name:ident: $sender:ty, $receiver:ty, $bounded:path) => {
        struct $name;

        impl Channel for $name {
            type Sender = $sender;
            type Receiver = $receiver;

            fn bounded(room: usize) -> (Self::Sender, Self::Receiver) {
                $bounded(room)
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
    };
}

channel! { Std: mpsc::SyncSender<u64>, mpsc::Receiver<u64>, mpsc::sync_channel }
#[cfg(all(rast_rivals, feature = "rivals"))]
channel! {
    Crossbeam: crossbeam_channel::Sender<u64>, crossbeam_channel::Receiver<u64>,
    crossbeam_channel::bounded
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

/// Requests and replies through two channels, between two threads that `on` runs.
fn channel_call<C: Channel>(ops: u64, on: fn(Vec<Job<'_>>) -> Sample) -> Sample {
    let (there, far) = C::bounded(ROOM);
    let (back, near) = C::bounded(ROOM);
    on(vec![
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

pub(crate) use savina::summary::table as savina_table;

/// The scenarios of this layer.
pub(crate) fn scenarios(options: &Options) -> Vec<Scenario> {
    let mut all = engine::scenarios();
    all.extend(across::scenarios());
    all.extend(later::scenarios());
    all.push(desk::scenario());
    all.push(skew::scenario());
    all.extend(savina::scenarios());
    all.extend(rates::scenarios());
    all.extend(compile::scenario(options));
    all
}
