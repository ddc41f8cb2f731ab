//! The clock by counter of this machine, compared with the system's.
//!
//! It takes a fraction of a second with the other tests. With `RAST_FULL` set each part runs for a
//! minute; `cargo xtask soak` does that, in release, and prints the results.
#![cfg(all(feature = "std", not(any(rast_loom, rast_shuttle, miri))))]

use rast_timers::primitive::Random;
use rast_timers::{
    Clock, Counter, Instant, Interval, MonotonicClock, Nanos, Tsc, TscClock, TscConfig, TscStatus,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

fn span() -> Nanos {
    match std::env::var_os("RAST_FULL") {
        Some(_) => Nanos::from_secs(60),
        None => Nanos::from_millis(300),
    }
}

/// What a thread saw.
#[derive(Default)]
struct Seen {
    readings: u64,
    /// Half-widths in ns, one reading in some.
    widths: Vec<u64>,
    missed: u64,
    back: u64,
    outside: u64,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.readings += other.readings;
        self.widths.extend(other.widths);
        self.missed += other.missed;
        self.back += other.back;
        self.outside += other.outside;
    }
}

/// Reads until `until`: the reference, the interval, the reference.
fn watch<K: Counter, R: Clock>(
    clock: &TscClock<K, R>,
    truth: &impl Clock,
    until: Instant,
    pause: u64,
) -> Seen {
    let mut seen = Seen::default();
    let mut last = Instant::ORIGIN;
    loop {
        let before = truth.now();
        let interval = clock.interval();
        let after = truth.now();
        seen.readings += 1;
        if !overlaps(interval, before, after) {
            seen.missed += 1;
        }
        let now = clock.now();
        seen.back += u64::from(now < last);
        last = now;
        // The guess is of a later moment than the interval, by a reading.
        let guess = clock.now();
        let later = clock.interval();
        seen.outside += u64::from(guess > later.latest);
        if seen.readings % 64 == 0 {
            seen.widths.push(interval.half_width().as_nanos());
        }
        if after >= until {
            return seen;
        }
        for _ in 0..pause {
            std::hint::spin_loop();
        }
    }
}

fn overlaps(interval: Interval, before: Instant, after: Instant) -> bool {
    interval.earliest <= after && before <= interval.latest
}

/// Two threads on one clock, one of them with pauses.
fn soak<K, R>(name: &str, clock: &TscClock<K, R>, truth: &(impl Clock + Sync)) -> Seen
where
    K: Counter + Send + Sync,
    R: Clock + Send + Sync,
{
    let until = truth.now().saturating_add(span());
    let mut seen = thread::scope(|scope| {
        let other = scope.spawn(|| watch(clock, truth, until, 2_000));
        let mut seen = watch(clock, truth, until, 0);
        seen.add(other.join().unwrap());
        seen
    });
    seen.widths.sort_unstable();
    let at = |part: usize| seen.widths[(seen.widths.len() - 1) * part / 1000];
    println!(
        "{name}: {} readings, {} missed, {} back, half-width median {} ns, p99 {} ns, p99.9 {} ns, greatest {} ns, {:?}",
        seen.readings,
        seen.missed,
        seen.back,
        at(500),
        at(990),
        at(999),
        at(1000),
        clock.status(),
    );
    assert_eq!(seen.missed, 0, "{name}: the interval missed the bracket");
    assert_eq!(seen.back, 0, "{name}: the clock went back");
    assert_eq!(seen.outside, 0, "{name}: the guess is past the interval");
    seen
}

fn counter() -> Option<Tsc> {
    match Tsc::detect() {
        Ok(tsc) => Some(tsc),
        Err(reason) => {
            println!("not run here: {reason}");
            None
        }
    }
}

#[test]
fn the_interval_never_misses_the_bracket() {
    let Some(tsc) = counter() else { return };
    let truth = MonotonicClock::new();
    let clock = TscClock::with_parts(tsc, truth, TscConfig::new());
    let seen = soak("plain", &clock, &truth);
    assert_eq!(clock.status(), TscStatus::Counting);
    let median = seen.widths[seen.widths.len() / 2];
    assert!(median < 1_000, "median half-width {median} ns");
}

/// The thread that anchors is held up between the readings, before and after the
/// reference, from nothing to far more than an anchor may be wrong.
struct HeldUp {
    inner: MonotonicClock,
    seeds: AtomicU64,
}

impl HeldUp {
    fn hold(&self) {
        let next = Random::new(self.seeds.fetch_add(1, Ordering::Relaxed)).draw();
        // Mostly a little, one in 64 for long.
        let spins = match next % 64 {
            0 => next >> 8 & 0xffff,
            _ => next >> 8 & 0x3f,
        };
        for _ in 0..spins {
            std::hint::spin_loop();
        }
    }
}

impl Clock for HeldUp {
    fn now(&self) -> Instant {
        self.hold();
        let now = self.inner.now();
        self.hold();
        now
    }
}

#[test]
fn anchors_that_are_wrong_widen_the_interval() {
    let Some(tsc) = counter() else { return };
    let held = HeldUp {
        inner: MonotonicClock::new(),
        seeds: AtomicU64::new(0),
    };
    let clock = TscClock::with_parts(tsc, held, TscConfig::new());
    soak("held up", &clock, &MonotonicClock::new());
}

/// A reference that runs up to 240 parts in a million fast or slow, another
/// pace every 5 ms.
#[derive(Clone, Copy)]
struct Wandering(MonotonicClock);

impl Clock for Wandering {
    fn now(&self) -> Instant {
        const PHASE: u64 = 5_000_000;
        const MOST: u64 = PHASE * 240 / 1_000_000;
        let nanos = self.0.now().as_nanos();
        let (phase, into) = (nanos / PHASE, nanos % PHASE);
        // Up in one phase, down in the next.
        let up = into * MOST / PHASE;
        let off = if phase % 2 == 0 { up } else { MOST - up };
        Instant::from_nanos(nanos + off)
    }
}

#[test]
fn a_reference_that_wanders_is_followed() {
    let Some(tsc) = counter() else { return };
    let truth = Wandering(MonotonicClock::new());
    let clock = TscClock::with_parts(tsc, truth, TscConfig::new());
    soak("wandering", &clock, &truth);
    assert_eq!(clock.status(), TscStatus::Counting);
}
