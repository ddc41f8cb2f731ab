//! The cost of a message if the graph is large: many idle shards, many replicas, many pairs.

use std::time::{Duration, Instant};

use rast::msgpass::{Cx, Next, Process, Receive, graph};

use super::LAYER;
use super::pong::{beside_100_000_idle, beside_one_idle};
use super::span::{Span, measured, measured_with};
use crate::harness::Scenario;
use crate::usage::{memory, processor_time};
use crate::workers::Sample;

/// No processor sends to it.
struct Idler;

/// Messages by key to replicas and back, 64 under way.
macro_rules! through {
    ($module:ident, $replicas:expr) => {
        mod $module {
            use super::*;

            const FLIGHT: u64 = 64;

            graph! {
                graph Fan {
                    processors { hub: Hub [source], spoke: [Spoke; $replicas] }
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

/// Returns freed memory of earlier runs to the system, so that the memory of the next run is
/// measured.
fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Messages of 16 bytes from many senders to many receivers by random keys, two per turn of each
/// sender.
macro_rules! square {
    ($module:ident, $side:expr, $cap:expr) => {
        mod $module {
            use super::*;
            use std::sync::Arc;
            use std::sync::atomic::{AtomicU64, Ordering};

            const TURN: usize = 2;

            graph! {
                graph Square {
                    processors { sender: [Sender; $side] [source], receiver: [Receiver; $side] }
                    edges { sender -> receiver: [u64; 2] [burst = 2, cap = $cap]; }
                }
            }

            struct Sender {
                left: u64,
                state: u64,
            }
            struct Receiver {
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
            impl Process<Square> for Receiver {}
            impl Receive<Square, Sender, [u64; 2]> for Receiver {
                #[inline]
                fn receive(&mut self, message: [u64; 2], _: &mut Cx<'_, Square, Self>) {
                    assert_eq!(message[1], 1);
                    if self.total.fetch_add(1, Ordering::Relaxed) + 1 == self.end {
                        self.span.end();
                    }
                }
            }

            pub(super) fn run(ops: u64, workers: usize) -> Sample {
                let each = ops.div_ceil($side);
                trim();
                let before = memory();
                let (mut start_ms, mut at_end) = (0.0, before);
                let start = |mut span: Span| {
                    span.begin();
                    let total = Arc::new(AtomicU64::new(0));
                    let senders = (0..$side).map(|n: u64| Sender {
                        left: each,
                        state: n * 7919 + 1,
                    });
                    let receivers = (0..$side).map(|_: u64| Receiver {
                        total: Arc::clone(&total),
                        end: each * $side,
                        span: span.clone(),
                    });
                    let start = Instant::now();
                    let builder = Square::builder(senders, receivers).workers(workers);
                    let handle = builder.start().expect("a valid graph");
                    start_ms = start.elapsed().as_secs_f64() * 1e3;
                    handle
                };
                let sample = measured_with(each * $side, start, || at_end = memory());
                let megabytes = (at_end - before).max(0.0) / 1e6;
                sample
                    .by(workers)
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

    /// An idle graph for `ops` milliseconds; the figure is the share of a core that it took.
    pub(super) fn run(ops: u64) -> Sample {
        let app = Quiet::builder((0..10_000).map(|_| Idler))
            .workers(2)
            .start()
            .expect("a valid graph");
        while app.metrics().instances.iter().any(|one| one.pings == 0) {
            std::thread::yield_now();
        }
        let (start, before) = (Instant::now(), processor_time());
        std::thread::sleep(Duration::from_millis(ops));
        let share = (processor_time() - before).as_secs_f64() / start.elapsed().as_secs_f64();
        drop(app);
        Sample::new(ops, start.elapsed()).with("of a core, %", share * 100.0)
    }
}

/// The scenarios.
pub(super) fn scenarios() -> Vec<Scenario> {
    let one_idle = |ops| beside_one_idle::run(ops, |graph| graph.workers(1));
    let many_idle = |ops| beside_100_000_idle::run(ops, |graph| graph.workers(1));
    let pong = Scenario::new(LAYER, "ping-pong on one worker", 2_000_000, 1000)
        .ours("rast graph", one_idle);
    let beside = Scenario::new(
        LAYER,
        "ping-pong beside 100,000 idle shards",
        1_000_000,
        100,
    )
    .ours("rast graph, one idle", one_idle)
    .ours("rast graph, 100,000 idle", many_idle);
    let through = Scenario::new(LAYER, "by key through replicas and back", 1_000_000, 1000)
        .ours("rast graph, ping-pong", one_idle)
        .ours("rast graph, 64 replicas", through_64::run)
        .ours("rast graph, 1,000 replicas", through_1000::run);
    let square = |name, workers| {
        Scenario::new(LAYER, name, 4_000_000, 64_000)
            .ours("rast graph, 64 to 64", move |ops| {
                square_64::run(ops, workers)
            })
            .ours("rast graph, 1,000 to 1,000", move |ops| {
                square_1000::run(ops, workers)
            })
    };
    let idle = Scenario::new(LAYER, "10,000 idle shards, 10 s", 10_000, 10)
        .at_most(3)
        .ours("rast graph, two workers", idle::run);
    let count = |name, burst| {
        Scenario::new(LAYER, name, 5_000_000, 5000)
            .ours("rast graph", move |ops| {
                super::hop(ops, burst, |graph| graph.workers(1))
            })
            .ours("rast graph, 1 in 1,024 measured", move |ops| {
                super::hop(ops, burst, |graph| graph.workers(1).sample(1_024))
            })
    };
    let count_64 = count("counting on one worker, bursts of 64", 64);
    let count_1 = count("counting on one worker, bursts of one", 1);
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let (pong, count_64, count_1) = {
        use super::rivals::{actix_count, kameo_count, ractor_count};
        use super::rivals::{tokio_count, tokio_ping_pong};
        (
            pong.rival("tokio bounded mpsc, one thread", tokio_ping_pong),
            count_64.rival("tokio unbounded mpsc, one thread", |ops| {
                tokio_count(ops, 64)
            }),
            count_1
                .rival("tokio unbounded mpsc, one thread", |ops| {
                    tokio_count(ops, 1)
                })
                .rival("actix, one thread", actix_count)
                .rival("ractor, one thread", ractor_count)
                .rival("kameo, one thread", kameo_count),
        )
    };
    vec![
        count_64,
        count_1,
        pong,
        beside,
        through,
        square("many to many, one worker", 1),
        square("many to many, two workers", 2),
        idle,
    ]
}
