//! The price of a message as the graph grows: idle shards beside, many replicas, many pairs.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use rast::msgpass::{Cx, Next, Process, Receive, graph};

use crate::harness::Scenario;
use crate::usage::memory;
use crate::workers::Sample;

use super::LAYER;

/// Tells when the first and the last message was handled.
#[derive(Clone)]
struct Span {
    began: Option<Instant>,
    ended: mpsc::Sender<(Instant, Instant)>,
}

impl Span {
    fn begin(&mut self) {
        self.began = Some(Instant::now());
    }

    fn end(&self) {
        let span = (self.began.expect("it began"), Instant::now());
        self.ended.send(span).expect("the bench waits");
    }
}

/// Makes a span, starts a graph with it, and measures it.
fn measured<H>(ops: u64, start: impl FnOnce(Span) -> H) -> Sample {
    let (ended, end) = mpsc::channel();
    let handle = start(Span { began: None, ended });
    let (begin, end) = end.recv().expect("the last message comes");
    drop(handle); // stops the graph and joins its workers
    Sample::new(ops, end - begin)
}

/// Nothing is ever sent to it.
struct Idler;

/// A ball that goes to and fro between two processors, beside idle ones.
macro_rules! ping_pong {
    ($module:ident, $idle:expr) => {
        mod $module {
            use super::*;

            graph! {
                graph Table {
                    processors { left: Left, right: Right, idle: [Idler; $idle] }
                    edges {
                        left -> right: u64;
                        right -> left: u64 [unbounded];
                        ingress -> idle: u64 [cap = 1];
                    }
                }
            }

            struct Left {
                left: u64,
                span: Span,
            }
            struct Right;

            impl Process<Table> for Left {
                fn ping(&mut self, cx: &mut Cx<'_, Table, Self>) -> Next {
                    self.span.begin();
                    cx.to::<Right>().send(self.left);
                    Next::Idle
                }
            }
            impl Receive<Table, Right, u64> for Left {
                fn receive(&mut self, ball: u64, cx: &mut Cx<'_, Table, Self>) {
                    self.left -= 1;
                    match self.left {
                        0 => self.span.end(),
                        _ => cx.to::<Right>().send(ball + 1),
                    }
                }
            }
            impl Process<Table> for Right {}
            impl Receive<Table, Left, u64> for Right {
                fn receive(&mut self, ball: u64, cx: &mut Cx<'_, Table, Self>) {
                    cx.to::<Left>().send(ball + 1);
                }
            }
            impl Process<Table> for Idler {}
            impl Receive<Table, rast::msgpass::Ingress, u64> for Idler {
                fn receive(&mut self, _: u64, _: &mut Cx<'_, Table, Self>) {}
            }

            pub(super) fn run(ops: u64) -> Sample {
                measured(ops, |span| {
                    let idle = (0..$idle).map(|_| Idler);
                    let builder = Table::builder(Left { left: ops, span }, Right, idle);
                    builder.workers(1).start().expect("a valid graph")
                })
            }
        }
    };
}

ping_pong!(beside_one, 1);
ping_pong!(beside_many, 100_000);

/// Messages by key to replicas and from there back, so many under way.
macro_rules! through {
    ($module:ident, $replicas:expr) => {
        mod $module {
            use super::*;

            const FLIGHT: u64 = 64;

            graph! {
                graph Fan {
                    processors { hub: Hub, spoke: [Spoke; $replicas] }
                    edges {
                        hub -> spoke: u64 [burst = 64, cap = 256];
                        spoke -> hub: u64 [unbounded, cap = 256];
                    }
                }
            }

            struct Hub {
                to_send: u64,
                to_come: u64,
                span: Span,
            }
            struct Spoke;

            impl Process<Fan> for Hub {
                fn ping(&mut self, cx: &mut Cx<'_, Fan, Self>) -> Next {
                    self.span.begin();
                    for key in 0..FLIGHT.min(self.to_send) {
                        cx.to::<Spoke>().key(key).send(key);
                    }
                    self.to_send = self.to_send.saturating_sub(FLIGHT);
                    Next::Idle
                }
            }
            impl Receive<Fan, Spoke, u64> for Hub {
                fn receive(&mut self, key: u64, cx: &mut Cx<'_, Fan, Self>) {
                    self.to_come -= 1;
                    if self.to_come == 0 {
                        self.span.end();
                    } else if self.to_send > 0 {
                        self.to_send -= 1;
                        let key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
                        cx.to::<Spoke>().key(key).send(key);
                    }
                }
            }
            impl Process<Fan> for Spoke {}
            impl Receive<Fan, Hub, u64> for Spoke {
                fn receive(&mut self, key: u64, cx: &mut Cx<'_, Fan, Self>) {
                    cx.to::<Hub>().send(key);
                }
            }

            pub(super) fn run(ops: u64) -> Sample {
                measured(ops, |span| {
                    let hub = Hub {
                        to_send: ops,
                        to_come: ops,
                        span,
                    };
                    let builder = Fan::builder(hub, (0..$replicas).map(|_| Spoke));
                    builder.workers(1).start().expect("a valid graph")
                })
            }
        }
    };
}

through!(through_64, 64);
through!(through_1000, 1000);

/// Messages of 16 bytes from many to many, by random keys, 2 a turn.
macro_rules! square {
    ($module:ident, $side:expr, $cap:expr) => {
        mod $module {
            use super::*;
            use std::sync::Arc;
            use std::sync::atomic::{AtomicU64, Ordering};

            const TURN: usize = 2;

            graph! {
                graph Square {
                    processors { sender: [Sender; $side], receiver: [Receiver; $side] }
                    edges { sender -> receiver: [u64; 2] [burst = 2, cap = $cap]; }
                }
            }

            struct Sender {
                left: u64,
                state: u64,
            }
            struct Receiver {
                /// Of those that are not full batches of 64.
                taken: u64,
                total: Arc<AtomicU64>,
                end: u64,
                span: Span,
            }

            impl Process<Square> for Sender {
                fn ping(&mut self, cx: &mut Cx<'_, Square, Self>) -> Next {
                    for _ in 0..self.left.min(TURN as u64) {
                        self.state = self
                            .state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        let key = self.state >> 20;
                        cx.to::<Receiver>().key(key).send([key, 1]);
                    }
                    self.left = self.left.saturating_sub(TURN as u64);
                    match self.left {
                        0 => Next::Idle,
                        _ => Next::Again,
                    }
                }
            }
            impl Process<Square> for Receiver {
                fn ping(&mut self, _: &mut Cx<'_, Square, Self>) -> Next {
                    Next::Idle
                }
            }
            impl Receive<Square, Sender, [u64; 2]> for Receiver {
                #[inline]
                fn receive(&mut self, message: [u64; 2], _: &mut Cx<'_, Square, Self>) {
                    self.taken += message[1];
                    if self.total.fetch_add(1, Ordering::Relaxed) + 1 == self.end {
                        self.span.end();
                    }
                }
            }

            pub(super) fn run(ops: u64, workers: usize) -> Sample {
                let each = ops.div_ceil($side);
                let before = memory();
                let mut start_ms = 0.0;
                let sample = measured(each * $side, |mut span| {
                    span.begin();
                    let total = Arc::new(AtomicU64::new(0));
                    let senders = (0..$side).map(|n: u64| Sender {
                        left: each,
                        state: n * 7919 + 1,
                    });
                    let receivers = (0..$side).map(|_: u64| Receiver {
                        taken: 0,
                        total: Arc::clone(&total),
                        end: each * $side,
                        span: span.clone(),
                    });
                    let start = Instant::now();
                    let builder = Square::builder(senders, receivers).workers(workers);
                    let handle = builder.start().expect("a valid graph");
                    start_ms = start.elapsed().as_secs_f64() * 1e3;
                    handle
                });
                let megabytes = (memory() - before).max(0.0) / 1e6;
                sample
                    .with("start, ms", start_ms)
                    .with("memory, MB", megabytes)
            }
        }
    };
}

square!(square_64, 64, 2048);
square!(square_1000, 1000, 2048);

mod idle {
    use super::*;

    graph! {
        graph Quiet {
            processors { idle: [Idler; 10_000] }
            edges { ingress -> idle: u64 [cap = 1]; }
        }
    }

    impl Process<Quiet> for Idler {}
    impl Receive<Quiet, rast::msgpass::Ingress, u64> for Idler {
        fn receive(&mut self, _: u64, _: &mut Cx<'_, Quiet, Self>) {}
    }

    /// The processor's time of this process, of both kinds.
    fn busy() -> Duration {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields = text.rsplit(')').next().unwrap_or_default();
        let ticks: u64 = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|ticks| ticks.parse::<u64>().ok())
            .sum();
        Duration::from_millis(ticks * 10)
    }

    /// `ops` milliseconds of rest; the figure is the share of a core that they took.
    pub(super) fn run(ops: u64) -> Sample {
        let app = Quiet::builder((0..10_000).map(|_| Idler))
            .workers(2)
            .start()
            .expect("a valid graph");
        while app.metrics().instances.iter().any(|one| one.pings == 0) {
            std::thread::yield_now();
        }
        let (start, before) = (Instant::now(), busy());
        std::thread::sleep(Duration::from_millis(ops));
        let share = (busy() - before).as_secs_f64() / start.elapsed().as_secs_f64();
        drop(app);
        Sample::new(ops, start.elapsed()).with("of a core, %", share * 100.0)
    }
}

#[cfg(all(rast_rivals, feature = "rivals"))]
mod tokio_rival {
    use super::*;
    use tokio::sync::mpsc;

    fn on_one_thread<T>(task: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(task)
    }

    /// Counting through an unbounded channel, `burst` sends between two turns.
    pub(super) fn count(ops: u64, burst: u64) -> Sample {
        on_one_thread(async move {
            let (sender, mut receiver) = mpsc::unbounded_channel();
            let start = Instant::now();
            let source = async move {
                for first in (0..ops).step_by(burst as usize) {
                    for value in first..ops.min(first + burst) {
                        sender.send(value).expect("the receiver is there");
                    }
                    tokio::task::yield_now().await;
                }
            };
            let local = tokio::task::LocalSet::new();
            let sum = local
                .run_until(async move {
                    let source = tokio::task::spawn_local(source);
                    let mut sum = 0_u64;
                    while let Some(value) = receiver.recv().await {
                        sum = sum.wrapping_add(value);
                    }
                    source.await.expect("it sent");
                    sum
                })
                .await;
            assert_eq!(sum, super::super::expected(ops));
            Sample::new(ops, start.elapsed())
        })
    }

    pub(super) fn ping_pong(ops: u64) -> Sample {
        on_one_thread(async move {
            let (there, mut far) = mpsc::channel::<u64>(256);
            let (back, mut near) = mpsc::channel::<u64>(256);
            let local = tokio::task::LocalSet::new();
            let start = Instant::now();
            local
                .run_until(async move {
                    let echo = tokio::task::spawn_local(async move {
                        while let Some(ball) = far.recv().await {
                            back.send(ball + 1).await.expect("the other side is there");
                        }
                    });
                    for ball in 0..ops {
                        there.send(ball).await.expect("the other side is there");
                        near.recv().await.expect("the ball comes back");
                    }
                    drop(there);
                    echo.await.expect("it echoed");
                })
                .await;
            Sample::new(ops, start.elapsed())
        })
    }
}

/// The scenarios.
pub(super) fn scenarios() -> Vec<Scenario> {
    let pong = Scenario::new(LAYER, "ping-pong on one worker", 2_000_000, 1000)
        .ours("rast graph", beside_one::run);
    let beside = Scenario::new(
        LAYER,
        "ping-pong beside 100,000 idle shards",
        1_000_000,
        100,
    )
    .at_most(7)
    .ours("rast graph, 100,000 idle", beside_many::run)
    .ours("rast graph, one idle", beside_one::run);
    let through = Scenario::new(LAYER, "by key through replicas and back", 1_000_000, 1000)
        .ours("rast graph, 64 replicas", through_64::run)
        .ours("rast graph, 1,000 replicas", through_1000::run)
        .ours("rast graph, ping-pong", beside_one::run);
    let square = Scenario::new(LAYER, "many to many, one worker", 4_000_000, 64_000)
        .ours("rast graph, 64 to 64", |ops| square_64::run(ops, 1))
        .ours("rast graph, 1,000 to 1,000", |ops| square_1000::run(ops, 1));
    let square_two = Scenario::new(LAYER, "many to many, two workers", 4_000_000, 64_000)
        .ours("rast graph, 64 to 64", |ops| square_64::run(ops, 2))
        .ours("rast graph, 1,000 to 1,000", |ops| square_1000::run(ops, 2));
    let idle = Scenario::new(LAYER, "10,000 idle shards, 10 s", 10_000, 10)
        .at_most(2)
        .ours("rast graph, two workers", idle::run);
    let count = |name, burst| {
        Scenario::new(LAYER, name, 5_000_000, 5000).ours("rast graph", move |ops| {
            super::hop(ops, burst, |graph| graph.workers(1))
        })
    };
    let count_64 = count("counting on one worker, bursts of 64", 64);
    let count_1 = count("counting on one worker, bursts of one", 1);
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let (pong, count_64, count_1) = (
        pong.rival("tokio bounded mpsc, one thread", tokio_rival::ping_pong),
        count_64.rival("tokio unbounded mpsc, one thread", |ops| {
            tokio_rival::count(ops, 64)
        }),
        count_1.rival("tokio unbounded mpsc, one thread", |ops| {
            tokio_rival::count(ops, 1)
        }),
    );
    vec![
        count_64, count_1, pong, beside, through, square, square_two, idle,
    ]
}
