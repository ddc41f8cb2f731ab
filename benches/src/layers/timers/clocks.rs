//! Clocks and measuring timers against reading std's clock every time.
//!
//! The amortised timers need work from their caller: reading the clock and publishing the tick. Our
//! loops do it once in `TICK` calls, and its time is included.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rast::timers::{
    Clock, CoarseClock, Counter, MonotonicClock, Nanos, PeriodicTimer, StartFinishTimer, Tick,
    TimerConfig, TscClock, WaitingTimer,
};

use super::LAYER;
use crate::harness::Scenario;
use crate::workers::{Job, Sample, alone, together};

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

/// A deadline that is not reached in the run, so only the check is timed.
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

/// [`PeriodicTimer`] with the processor's counter as the guard, which needs no publishing thread.
fn periodic_by_counter(clock: &TscClock) -> impl FnMut(u64) -> Sample + 'static {
    let guard = clock.guard(Nanos::from_millis(1));
    move |ops| {
        let mut timer = PeriodicTimer::new(MonotonicClock::new(), TimerConfig::new());
        alone(|| {
            for _ in 0..ops {
                black_box(timer.elapsed(&guard));
            }
            ops
        })
    }
}

/// Calls `read`, which returns the time, `ops` times.
fn reading<T>(ops: u64, read: impl Fn() -> T) -> Sample {
    alone(|| {
        for _ in 0..ops {
            black_box(read());
        }
        ops
    })
}

/// Two threads that read at the same time, which shows the cost of shared data.
fn reading_together<T>(ops: u64, read: impl Fn() -> T + Sync) -> Sample {
    let read = &read;
    let job = || -> Job<'_> {
        Box::new(move || {
            for _ in 0..ops / 2 {
                black_box(read());
            }
            ops / 2
        })
    };
    together(vec![job(), job()])
}

/// The rivals' calls that return the time.
#[cfg(all(rast_rivals, feature = "rivals"))]
mod rivals {
    use super::{Sample, alone, black_box};

    pub(super) fn quanta_elapsed(ops: u64) -> Sample {
        let mut last = quanta::Instant::now();
        alone(|| {
            for _ in 0..ops {
                let now = quanta::Instant::now();
                black_box(now - last);
                last = now;
            }
            ops
        })
    }

    /// Calibrates quanta and fastant, which takes them up to 200 ms, before any run is timed.
    pub(super) fn prepare() {
        black_box((quanta::Instant::now(), fastant::Instant::now()));
        quanta::set_recent(quanta::Clock::new().now());
        coarsetime::Instant::update();
    }
}

/// Adds the rivals from other crates.
fn with_rivals(scenario: Scenario, threads: usize) -> Scenario {
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let scenario = {
        rivals::prepare();
        // A generic type for each function, so that it is inlined as ours is.
        fn read<T: 'static>(
            threads: usize,
            now: impl Fn() -> T + Sync + 'static,
        ) -> impl FnMut(u64) -> Sample + 'static {
            move |ops| match threads {
                1 => reading(ops, &now),
                _ => reading_together(ops, &now),
            }
        }
        let clock = quanta::Clock::new();
        scenario
            .rival("quanta Instant", read(threads, quanta::Instant::now))
            .rival("quanta Clock", read(threads, move || clock.now()))
            .rival("fastant Instant", read(threads, fastant::Instant::now))
            .rival(
                "coarsetime Instant",
                read(threads, coarsetime::Instant::now),
            )
    };
    let _ = threads;
    scenario
}

/// The scenarios that need the processor's counter.
fn by_counter(clock: &TscClock) -> Vec<Scenario> {
    let (one, two, interval) = (clock.clone(), clock.clone(), clock.clone());
    let least = clock.clone();
    vec![
        Scenario::new(
            LAYER,
            "time since the last call, guarded by the counter",
            20_000_000,
            1000,
        )
        .ours("rast PeriodicTimer, TscGuard", periodic_by_counter(clock))
        .rival("std Instant, every call", periodic_std),
        with_rivals(
            Scenario::new(LAYER, "read the time", 20_000_000, 1000)
                .ours("rast TscClock", move |ops| reading(ops, || one.now()))
                .rival("the counter alone", move |ops| {
                    reading(ops, || least.counter().count())
                })
                .rival("std Instant", |ops| reading(ops, Instant::now)),
            1,
        ),
        with_rivals(
            Scenario::new(LAYER, "read the time, two threads", 20_000_000, 1000)
                .ours("rast TscClock", move |ops| {
                    reading_together(ops, || two.now())
                })
                .rival("std Instant", |ops| reading_together(ops, Instant::now)),
            2,
        ),
        Scenario::new(LAYER, "read the time and its error", 10_000_000, 1000)
            .ours("rast TscClock::interval", move |ops| {
                reading(ops, || interval.interval())
            })
            .rival("std Instant, no error told", |ops| {
                reading(ops, Instant::now)
            }),
    ]
}

/// A reading that some thread published.
fn recent() -> Scenario {
    let clock = CoarseClock::new(MonotonicClock::new());
    let scenario = Scenario::new(LAYER, "read a recent time", 50_000_000, 1000)
        .ours("rast CoarseClock", move |ops| reading(ops, || clock.now()))
        .rival("std Instant", |ops| reading(ops, Instant::now));
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let scenario = scenario
        .rival("quanta recent", |ops| reading(ops, quanta::Instant::recent))
        .rival("coarsetime recent", |ops| {
            reading(ops, coarsetime::Instant::recent)
        });
    scenario
}

/// The scenarios of this file.
pub(super) fn scenarios() -> Vec<Scenario> {
    let since = Scenario::new(LAYER, "time since the last call", 20_000_000, 1000)
        .ours("rast PeriodicTimer", periodic)
        .rival("std Instant, every call", periodic_std);
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let since = since.rival("quanta Instant, every call", rivals::quanta_elapsed);
    let mut scenarios = vec![
        since,
        Scenario::new(LAYER, "count and time a piece of work", 20_000_000, 1000)
            .ours("rast StartFinishTimer", start_finish)
            .rival("std Instant, twice", start_finish_std),
        Scenario::new(LAYER, "is the deadline reached", 20_000_000, 1000)
            .ours("rast WaitingTimer", waiting)
            .rival("std Instant, every call", waiting_std),
        recent(),
    ];
    match TscClock::new() {
        Ok(clock) => scenarios.extend(by_counter(&clock)),
        Err(reason) => println!("timers: the clock by counter is not measured: {reason}"),
    }
    scenarios
}
