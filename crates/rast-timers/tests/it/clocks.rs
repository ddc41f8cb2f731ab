//! The clocks of the system, the coarse clock and its ticker.
#![cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]

use rast_timers::primitive::CachePadded;
use rast_timers::primitive::sync::atomic::{AtomicUsize, Ordering};
use rast_timers::primitive::sync::{Arc, Mutex};
use rast_timers::{
    Clock, CoarseClock, Guard, Instant, ManualClock, MonotonicClock, Nanos, PeriodicTimer,
    StartFinishTimer, Tick, Ticker, TimerConfig, Tsc, WaitingTimer,
};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

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

/// Panics when it is dropped, and counts the drop before that.
struct Loud(Arc<AtomicUsize>);

impl Drop for Loud {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
        panic!("the payload");
    }
}

/// From the second reading on it drops the ticker that reads it, if it has one, and panics with a
/// [`Loud`]. The first reading is that of the coarse clock.
#[derive(Clone, Default)]
struct Broken {
    ticker: Arc<Mutex<Option<Ticker>>>,
    readings: Arc<AtomicUsize>,
    panics_of_ticker: Arc<AtomicUsize>,
    payloads: Arc<AtomicUsize>,
}

impl Clock for Broken {
    fn now(&self) -> Instant {
        if self.readings.fetch_add(1, Ordering::Relaxed) > 0 {
            let ticker = self.ticker.lock().take();
            let drops = catch_unwind(AssertUnwindSafe(|| drop(ticker)));
            let panics = usize::from(drops.is_err());
            self.panics_of_ticker.fetch_add(panics, Ordering::Relaxed);
            panic_any(Loud(Arc::clone(&self.payloads)));
        }
        Instant::ORIGIN
    }
}

impl Broken {
    fn start(&self) -> Ticker {
        Ticker::start(CoarseClock::new(self.clone()), Nanos::MAX).unwrap()
    }

    /// Waits until the payload is dropped.
    fn await_payload(&self) {
        while self.payloads.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
    }
}

/// The clock panics on the ticker's thread, and so does the destructor of what it panics with.
#[test]
fn a_ticker_whose_clock_panics_is_dropped_without_a_panic() {
    let clock = Broken::default();
    let ticker = clock.start();
    clock.await_payload();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(ticker))).is_ok());
}

/// The source clock drops the ticker whose thread reads it. So no thread joins that thread, or
/// takes what it panics with.
#[test]
fn a_ticker_may_be_dropped_on_its_own_thread() {
    let clock = Broken::default();
    // The thread waits for the lock until its ticker is there.
    let mut place = clock.ticker.lock();
    *place = Some(clock.start());
    drop(place);
    clock.await_payload();
    assert_eq!(clock.panics_of_ticker.load(Ordering::Relaxed), 0);
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

/// A tick that panics when it is to vouch, if it is told to.
struct Fragile {
    tick: Tick,
    panics: Cell<bool>,
}

impl Guard for Fragile {
    fn word(&self) -> u64 {
        self.tick.load()
    }

    fn vouches(&self, word: u64, now: Instant) -> bool {
        assert!(!self.panics.get(), "no word");
        self.tick.vouches(word, now)
    }
}

/// A call that a guard ends by a panic changes nothing, so the next call does what it should.
#[test]
fn a_guard_that_panics_costs_no_beat_and_no_time() {
    let clock = ManualClock::new();
    let guard = Fragile {
        tick: Tick::new(),
        panics: Cell::new(false),
    };
    let pass = |micros| {
        clock.advance(Nanos::from_micros(micros));
        guard.tick.publish(clock.now());
    };
    let mut beat = WaitingTimer::new(clock.clone(), Nanos::from_secs(1), TimerConfig::new());
    let mut busy = StartFinishTimer::new(clock.clone(), TimerConfig::new());
    for _ in 0..100 {
        assert!(!beat.check(&guard));
        busy.start(&guard);
        busy.finish(&guard);
    }
    pass(1_000_000);
    guard.panics.set(true);
    assert!(catch_unwind(AssertUnwindSafe(|| beat.check(&guard))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| busy.start(&guard))).is_err());
    guard.panics.set(false);
    assert!(beat.check(&guard), "the beat is due");
    assert!(!beat.check(&guard));
    busy.start(&guard);
    busy.finish(&guard);
    assert!(busy.error() <= Nanos::from_secs(1), "{}", busy.error());
}
