//! What a processor does later: timers of its own, and deadlines under load.

use std::hint::{black_box, spin_loop};

use rast::msgpass::{Cx, Next, Process, Receive, Timer, graph};
use rast::timers::{Clock, DeadlineStore, HeapStore, Instant, MonotonicClock, Nanos};

use super::span::{Span, measured, measured_with};
use super::{LAYER, on_one_worker};
use crate::harness::Scenario;
use crate::histogram::Histogram;
use crate::workers::{Sample, alone};

/// Timers under way.
const FLIGHT: u64 = 64;

/// The time until a timer is due: it fires in the next turn.
const SOON: Nanos = Nanos::from_nanos(1);

mod rearmed {
    //! Timers whose handlers arm the next ones.
    use super::*;

    graph! {
        graph Clocks {
            processors { clock: Beats [source] }
            edges {}
        }
    }

    struct Beats {
        left: u64,
        span: Span,
    }
    struct Beat(u64);

    impl Process<Clocks> for Beats {
        fn ping(&mut self, cx: &mut Cx<'_, Clocks, Self>) -> Next {
            self.span.begin();
            for number in 0..FLIGHT {
                cx.after(SOON, Beat(number));
            }
            Next::Idle
        }
    }
    impl Receive<Clocks, Timer, Beat> for Beats {
        fn receive(&mut self, Beat(number): Beat, cx: &mut Cx<'_, Clocks, Self>) {
            match self.left {
                0 => {}
                1 => self.span.end(),
                _ => {
                    cx.after(SOON, Beat(number));
                }
            }
            self.left = self.left.saturating_sub(1);
        }
    }

    pub(super) fn run(ops: u64) -> Sample {
        measured(ops, |span| {
            let beats = Beats { left: ops, span };
            on_one_worker(Clocks::builder(beats))
                .start()
                .expect("a valid graph")
        })
    }
}

/// The same timers in the bare store; `reads` says whether to read the clock for each timer.
fn store(ops: u64, reads: bool) -> Sample {
    let clock = MonotonicClock::new();
    let mut store = HeapStore::new();
    let mut left = ops;
    alone(|| {
        let now = clock.now();
        for number in 0..FLIGHT {
            store.insert(now.saturating_add(SOON), number);
        }
        while left > 0 {
            let now = clock.now();
            for _ in 0..FLIGHT {
                let Some(due) = store.pop_due(now) else {
                    break;
                };
                left = left.saturating_sub(1);
                let at = if reads { clock.now() } else { now };
                store.insert(at.saturating_add(SOON), black_box(due.value));
            }
        }
        ops
    })
}

mod deadlines {
    //! A deadline each 500 us, beside a processor that works a part of the time.
    use super::*;
    use std::sync::{Arc, Mutex};

    const APART: Nanos = Nanos::from_micros(500);
    /// How long the other processor works, and at what interval it does so.
    const WORK: Nanos = Nanos::from_micros(10);
    const PERIOD: Nanos = Nanos::from_micros(20);

    graph! {
        graph Deadlines {
            processors { late: Late [source], busy: Busy [source] }
            edges {}
        }
    }

    struct Late {
        left: u64,
        span: Span,
        delays: Arc<Mutex<Histogram>>,
    }
    struct Due(Instant);
    struct Busy(bool);

    impl Late {
        fn arm(cx: &mut Cx<'_, Deadlines, Self>) {
            // It is at or before the instant from which `after` counts.
            let at = cx.now().saturating_add(APART);
            cx.after(APART, Due(at));
        }
    }
    impl Process<Deadlines> for Late {
        fn ping(&mut self, cx: &mut Cx<'_, Deadlines, Self>) -> Next {
            self.span.begin();
            Self::arm(cx);
            Next::Idle
        }
    }
    impl Receive<Deadlines, Timer, Due> for Late {
        fn receive(&mut self, Due(at): Due, cx: &mut Cx<'_, Deadlines, Self>) {
            let now = cx.now();
            assert!(now >= at, "never early");
            let delay = now.saturating_since(at).as_nanos();
            self.delays.lock().expect("no panic").record(delay);
            self.left -= 1;
            match self.left {
                0 => self.span.end(),
                _ => Self::arm(cx),
            }
        }
    }
    impl Process<Deadlines> for Busy {
        fn ping(&mut self, cx: &mut Cx<'_, Deadlines, Self>) -> Next {
            if !self.0 {
                return Next::Idle;
            }
            let start = cx.now();
            while cx.now().saturating_since(start) < WORK {
                spin_loop();
            }
            Next::At(start.saturating_add(PERIOD))
        }
    }

    pub(super) fn run(ops: u64, is_busy: bool) -> Sample {
        let delays = Arc::new(Mutex::new(Histogram::new()));
        let seen = Arc::clone(&delays);
        let mut quantiles = [0.0; 3];
        let start = |span| {
            let late = Late {
                left: ops,
                span,
                delays,
            };
            on_one_worker(Deadlines::builder(late, Busy(is_busy)))
                .start()
                .expect("a valid graph")
        };
        let sample = measured_with(ops, start, || {
            let seen = seen.lock().expect("no panic");
            quantiles = [0.5, 0.99, 1.0].map(|share| seen.quantile(share));
        });
        let [p50, p99, max] = quantiles;
        let sample = sample.judged_by(p99);
        sample.with("p50 ns", p50).with("max ns", max)
    }
}

/// The scenarios.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(LAYER, "timer armed and fired", 2_000_000, 200)
            .ours("bare store", |ops| store(ops, false))
            .ours("bare store and a reading of the clock", |ops| {
                store(ops, true)
            })
            .ours("in a handler", rearmed::run),
        Scenario::new(LAYER, "lateness of deadlines, p99", 1_000, 5)
            .ours("idle", |ops| deadlines::run(ops, false))
            .ours("at half load", |ops| deadlines::run(ops, true)),
    ]
}
