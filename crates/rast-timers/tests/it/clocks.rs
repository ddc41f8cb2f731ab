//! The clocks of the system, the coarse clock and its ticker.
#![cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]

use rast_timers::primitive::CachePadded;
use rast_timers::primitive::sync::Arc;
use rast_timers::{
    Clock, CoarseClock, Guard, Instant, ManualClock, MonotonicClock, Nanos, PeriodicTimer, Tick,
    Ticker, TimerConfig, Tsc,
};

#[test]
fn threads_may_share_clocks() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<CoarseClock<MonotonicClock>>();
    shared::<Tsc>();
    fn send<T: Send>() {}
    send::<Ticker>();
}

#[test]
fn a_coarse_clock_lags_its_source_and_stands_still() {
    let source = ManualClock::at(Instant::from_nanos(7));
    let clock = CoarseClock::new(source.clone());
    let same = clock.clone();
    assert_eq!(clock.now(), source.now());
    source.advance(Nanos::from_nanos(50));
    assert_eq!(clock.now(), Instant::from_nanos(7));
    assert_eq!(clock.staleness(), Nanos::from_nanos(50));
    assert_eq!(same.update(), source.now());
    assert_eq!(
        (clock.now(), clock.staleness()),
        (source.now(), Nanos::ZERO)
    );
    assert_eq!(clock.tick().now(), source.now());
}

#[test]
fn a_ticker_moves_the_clock_until_it_is_dropped() {
    let clock = CoarseClock::new(MonotonicClock::new());
    let ticker = Ticker::start(clock.clone(), Nanos::from_millis(1)).unwrap();
    let start = clock.now();
    while clock.now() == start {
        std::thread::yield_now();
    }
    assert!(clock.now() <= clock.source().now());
    drop(ticker);
    // The thread is gone with the ticker, so nothing moves any more.
    let last = clock.now();
    let until = clock.source().now().saturating_add(Nanos::from_millis(5));
    while clock.source().now() < until {
        std::thread::yield_now();
    }
    assert_eq!(clock.now(), last);
}

#[test]
fn a_ticker_that_sleeps_for_ever_stops_at_once() {
    let clock = CoarseClock::new(MonotonicClock::new());
    drop(Ticker::start(clock, Nanos::MAX).unwrap());
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn the_boot_clock_never_runs_behind_the_monotonic_one() {
    use rast_timers::BootClock;
    let boot = BootClock::new().unwrap();
    let monotonic = MonotonicClock::new();
    let (boot_at, monotonic_at) = (boot.now(), monotonic.now());
    let until = monotonic_at.saturating_add(Nanos::from_millis(2));
    while monotonic.now() < until {
        std::hint::spin_loop();
    }
    assert!(boot.now().saturating_since(boot_at) >= Nanos::from_millis(2));
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn the_clock_of_a_thread_moves_while_it_runs_and_not_with_others() {
    use rast_timers::ThreadClock;
    let clock = ThreadClock::new().unwrap();
    let start = clock.now();
    while clock.now().saturating_since(start) < Nanos::from_millis(2) {
        std::hint::spin_loop();
    }
    // A thread that has just begun has run for less.
    let own = clock.now();
    let other = std::thread::spawn(move || clock.now()).join().unwrap();
    assert!(other < own);
}

/// A guard may be borrowed, shared, padded, and chosen while the program runs.
#[test]
fn any_guard_will_do() {
    let clock = ManualClock::at(Instant::from_nanos(1_000));
    let mut timer = PeriodicTimer::new(clock.clone(), TimerConfig::new());
    let padded = Arc::new(CachePadded::new(Tick::new()));
    padded.publish(clock.now());
    timer.elapsed(&padded);
    clock.advance(Nanos::from_nanos(10));
    let chosen: &dyn Guard = &*padded;
    assert_eq!(timer.elapsed(chosen), Nanos::from_nanos(10));
    assert!(padded.vouches(1_000, clock.now()));
    assert!(!padded.vouches(2_000, clock.now()));
}
