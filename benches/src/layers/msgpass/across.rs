//! A message from one worker to another: counting, ping-pong, request and reply, two slow stages.
//!
//! The processors stay on their first worker (`Static`), one on each. If the workers are pinned,
//! they and the rival's threads are on different processors.

use std::hint::spin_loop;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rast::msgpass::{Builder, Cx, Graph, Next, Process, Receive, graph};
use rast::primitive::WaitStrategy;
use rast::sharder::Static;

use super::desk;
use super::pong::{beside_64_busy, beside_one_idle};
use super::span::{Span, measured};
use super::{BURST, Channel, LAYER, Std, channel_call, channel_hop, hop};
use crate::crossing;
use crate::harness::Scenario;
use crate::workers::{Sample, anywhere, apart};

/// Two workers, which are not pinned, with a processor each.
fn two<G: Graph>(graph: Builder<G>) -> Builder<G> {
    graph.workers(2).balancer(Static)
}

/// As [`two`], with the workers pinned to different processors.
fn pinned<G: Graph>(wait: WaitStrategy) -> impl Fn(Builder<G>) -> Builder<G> {
    move |graph| two(graph).wait(wait).pin_threads()
}

/// The time that each of the two stages works on a message.
const WORK: Duration = Duration::from_millis(2);

fn work() {
    let start = Instant::now();
    while start.elapsed() < WORK {
        spin_loop();
    }
}

/// The time of a run divided by the ideal time, in which both stages work at the same time.
fn over_ideal(sample: Sample) -> Sample {
    let ideal = WORK.as_secs_f64() * (sample.done + 1) as f64;
    let ratio = sample.elapsed.as_secs_f64() / ideal;
    sample.with("time over the ideal", ratio)
}

/// Two stages that work for 2 ms per message, with the given number of slots between them.
macro_rules! stages {
    ($module:ident, $cap:expr) => {
        mod $module {
            use super::*;

            graph! {
                graph Line {
                    processors { first: First [source], second: Second }
                    edges { first -> second: u64 [cap = $cap]; }
                }
            }

            struct First {
                left: u64,
                span: mpsc::Sender<Span>,
                own: Option<Span>,
            }
            struct Second {
                left: u64,
                span: mpsc::Receiver<Span>,
            }

            impl Process<Line> for First {
                fn ping(&mut self, cx: &mut Cx<'_, Line, Self>) -> Next {
                    if let Some(mut span) = self.own.take() {
                        span.begin();
                        self.span.send(span).expect("the second stage is there");
                    }
                    work();
                    cx.to::<Second>().send(self.left);
                    self.left -= 1;
                    match self.left {
                        0 => Next::Idle,
                        _ => Next::Again,
                    }
                }
            }
            impl Process<Line> for Second {}
            impl Receive<Line, First, u64> for Second {
                fn receive(&mut self, number: u64, _: &mut Cx<'_, Line, Self>) {
                    assert_eq!(number, self.left);
                    work();
                    self.left -= 1;
                    if self.left == 0 {
                        self.span.recv().expect("the first stage began").end();
                    }
                }
            }

            pub(super) fn run(ops: u64) -> Sample {
                let sample = measured(ops, |own| {
                    let (give, take) = mpsc::channel();
                    let first = First {
                        left: ops,
                        span: give,
                        own: Some(own),
                    };
                    let second = Second {
                        left: ops,
                        span: take,
                    };
                    let builder = Line::builder(first, second);
                    let builder = pinned(WaitStrategy::Adaptive)(builder);
                    builder.start().expect("a valid graph")
                });
                over_ideal(sample.by(2))
            }
        }
    };
}

stages!(stages_of_1, 1);
stages!(stages_of_4, 4);

/// The two stages on threads, with a channel between them.
fn channel_stages<C: Channel>(ops: u64, room: usize) -> Sample {
    let (sender, receiver) = C::bounded(room);
    over_ideal(apart(vec![
        Box::new(move || {
            for number in 0..ops {
                work();
                C::send(&sender, number);
            }
            0
        }),
        Box::new(move || {
            for number in 0..ops {
                assert_eq!(C::recv(&receiver), number);
                work();
            }
            ops
        }),
    ]))
}

/// Adds the channels of two threads, pinned, to a scenario of counting.
fn beside_channels(scenario: Scenario) -> Scenario {
    let scenario = scenario.rival("std sync_channel", channel_hop::<Std>);
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let scenario = scenario.rival("crossbeam-channel", channel_hop::<super::Crossbeam>);
    scenario
}

/// The scenarios.
pub(super) fn scenarios() -> Vec<Scenario> {
    let count = |name, burst, ops| {
        let hop = move |wait| move |ops| hop(ops, burst, pinned(wait)).by(2);
        let scenario = Scenario::new(LAYER, name, ops, 2000)
            .ours("rast graph, adaptive", hop(WaitStrategy::Adaptive))
            .ours("rast graph, spinning", hop(WaitStrategy::Spin));
        beside_channels(scenario)
    };
    let pong = |name, ops| {
        let pong = move |wait| move |ops| beside_one_idle::run(ops, pinned(wait)).by(2);
        (Scenario::new(LAYER, name, ops, 100), pong)
    };
    let (spinning, pong_by) = pong("ping-pong across two workers that spin", 500_000);
    let spinning = spinning
        .ours("rast graph", pong_by(WaitStrategy::Spin))
        .ours("rast graph, adaptive", pong_by(WaitStrategy::Adaptive))
        .ours("rast graph, beside 64 busy shards", |ops| {
            beside_64_busy::run(ops, pinned(WaitStrategy::Spin)).by(2)
        })
        .rival("two threads, two lines", crossing::spinning);
    let (parking, pong_by) = pong("ping-pong across two workers that park", 10_000);
    let parking = parking.ours("rast graph", pong_by(WaitStrategy::Park));
    #[cfg(target_os = "linux")]
    let parking = parking.rival("two threads, two futexes", crossing::sleeping);
    let request = Scenario::new(
        LAYER,
        "request and reply across workers, not pinned",
        100_000,
        100,
    )
    .ours("rast graph, adaptive", |ops| {
        desk::run(ops, 1, false, two).by(2)
    })
    .rival("std sync_channel", |ops| channel_call::<Std>(ops, anywhere));
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let request = request.rival("crossbeam-channel", |ops| {
        channel_call::<super::Crossbeam>(ops, anywhere)
    });
    let stages = |name, run: fn(u64) -> Sample, room| {
        Scenario::new(LAYER, name, 100, 2)
            .ours("rast graph", run)
            .rival("std sync_channel", move |ops| {
                channel_stages::<Std>(ops, room)
            })
    };
    vec![
        count(
            "counting across two workers, bursts of 64",
            BURST,
            5_000_000,
        ),
        count("counting across two workers, bursts of one", 1, 2_000_000),
        spinning,
        parking,
        request,
        stages("two stages of 2 ms, cap 1", stages_of_1::run, 1),
        stages("two stages of 2 ms, cap 4", stages_of_4::run, 4),
    ]
}
