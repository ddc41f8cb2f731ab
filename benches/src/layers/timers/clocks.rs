//! Clocks and measuring timers against reading std's clock every time.
//!
//! Our loops also do the work that the amortised timers need from their caller: they read the
//! clock and publish the tick once in `TICK` calls, and that time is part of the figure.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rast::timers::{
    Clock, MonotonicClock, PeriodicTimer, StartFinishTimer, Tick, TimerConfig, WaitingTimer,
};

use super::LAYER;
use crate::harness::Scenario;
use crate::workers::{Sample, alone};

/// Calls between two publications of the tick.
const TICK: u64 = 1024;

/// Runs `call` `ops` times and publishes the tick as a worker's loop does.
fn ticking(ops: u64, mut call: impl FnMut(&Tick)) -> Sample {
    let clock = MonotonicClock::new();
    let tick = Tick::new();
    alone(|| {
        for round in 0..ops {
            if round % TICK == 0 {
                tick.publish(clock.now());
            }
            call(&tick);
        }
        ops
    })
}

fn periodic(ops: u64) -> Sample {
    let mut timer = PeriodicTimer::new(MonotonicClock::new(), TimerConfig::new());
    ticking(ops, |tick| {
        black_box(timer.elapsed(tick));
    })
}

fn periodic_std(ops: u64) -> Sample {
    let mut last = Instant::now();
    alone(|| {
        for _ in 0..ops {
            let now = Instant::now();
            black_box(now - last);
            last = now;
        }
        ops
    })
}

fn start_finish(ops: u64) -> Sample {
    let mut timer = StartFinishTimer::new(MonotonicClock::new(), TimerConfig::new());
    let sample = ticking(ops, |tick| {
        timer.start(tick);
        black_box(());
        timer.finish(tick);
    });
    assert_eq!(timer.count(), ops);
    black_box(timer.sum());
    sample
}

fn start_finish_std(ops: u64) -> Sample {
    let mut sum = Duration::ZERO;
    let sample = alone(|| {
        for _ in 0..ops {
            let start = Instant::now();
            black_box(());
            sum += start.elapsed();
        }
        ops
    });
    black_box(sum);
    sample
}

/// A deadline that the run never reaches: the price of asking.
const FAR: Duration = Duration::from_secs(3600);

fn waiting(ops: u64) -> Sample {
    let mut timer = WaitingTimer::new(MonotonicClock::new(), FAR.into(), TimerConfig::new());
    ticking(ops, |tick| {
        black_box(timer.check(tick));
    })
}

fn waiting_std(ops: u64) -> Sample {
    let deadline = Instant::now() + FAR;
    alone(|| {
        for _ in 0..ops {
            black_box(Instant::now() >= deadline);
        }
        ops
    })
}

/// The scenarios of this file.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(LAYER, "time since the last call", 20_000_000, 1000)
            .ours("rast PeriodicTimer", periodic)
            .rival("std Instant, every call", periodic_std),
        Scenario::new(LAYER, "count and time a piece of work", 20_000_000, 1000)
            .ours("rast StartFinishTimer", start_finish)
            .rival("std Instant, twice", start_finish_std),
        Scenario::new(LAYER, "is the deadline reached", 20_000_000, 1000)
            .ours("rast WaitingTimer", waiting)
            .rival("std Instant, every call", waiting_std),
    ]
}
