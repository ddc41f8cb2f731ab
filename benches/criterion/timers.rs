//! rast-timers: a clock, a measuring timer, and the stores of deadlines.

mod settings;

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Throughput};
use rast::timers::{
    CalendarStore, Clock, DeadlineStore, Instant, LaneStore, MonotonicClock, PeriodicTimer, Tick,
    TimerConfig, TscClock,
};

const MILLI: u64 = 1_000_000;
/// Deadlines of a batch.
const BATCH: u64 = 64;

fn main() {
    settings::run("timers", |group| {
        clock(group);
        periodic(group);
        calendar_cancel(group);
        group.throughput(Throughput::Elements(BATCH));
        fire(
            group,
            "calendar_insert_expire",
            CalendarStore::with_capacity(64),
        );
        fire(group, "lane_arm_fire", LaneStore::with_capacity(64));
    });
}

/// Reads the clock; not measured where the processor has no steady counter.
fn clock(group: &mut BenchmarkGroup<'_, WallTime>) {
    match TscClock::new() {
        Ok(clock) => {
            group.bench_function("tsc_clock_now", |bencher| bencher.iter(|| clock.now()));
        }
        Err(reason) => println!("timers/tsc_clock_now is not measured: {reason}"),
    }
}

/// Asks for the time since the last call, while the tick stays the same.
fn periodic(group: &mut BenchmarkGroup<'_, WallTime>) {
    let (clock, tick) = (MonotonicClock::new(), Tick::new());
    tick.publish(clock.now());
    let mut timer = PeriodicTimer::new(clock, TimerConfig::new());
    group.bench_function("periodic_elapsed", |bencher| {
        bencher.iter(|| timer.elapsed(&tick));
    });
}

/// Cancels the oldest of a thousand deadlines and inserts a new one.
fn calendar_cancel(group: &mut BenchmarkGroup<'_, WallTime>) {
    const STORED: usize = 1000;
    let mut store = CalendarStore::with_capacity(STORED);
    // Between a millisecond and thirty seconds, in no order; 7919 is prime to the range.
    let mut next = 0;
    let mut later = || {
        next = (next + 7919) % 29_999;
        Instant::from_nanos((1 + next) * MILLI)
    };
    let mut handles: Vec<_> = (0..STORED).map(|_| store.insert(later(), 1_u64)).collect();
    let mut oldest = 0;
    group.bench_function("calendar_insert_cancel", |bencher| {
        bencher.iter(|| {
            let cancelled = store.cancel(handles[oldest]);
            assert_eq!(cancelled, Some(1));
            handles[oldest] = store.insert(later(), 1);
            oldest = (oldest + 1) % STORED;
        });
    });
}

/// Inserts a batch of equal timeouts of 30 ms and lets all of them expire 40 ms later.
fn fire(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, mut store: impl DeadlineStore<u64>) {
    let mut now = 0;
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            for index in 0..BATCH {
                store.insert(Instant::from_nanos(now + 30 * MILLI + index), black_box(1));
            }
            now += 40 * MILLI;
            let (mut fired, mut more) = (0, true);
            while more {
                let swept = store.expire(Instant::from_nanos(now), 64, |due| fired += due.value);
                more = swept.more;
            }
            assert_eq!(fired, BATCH);
        });
    });
}
