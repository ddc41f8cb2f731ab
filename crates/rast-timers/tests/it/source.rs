//! The faults of the source's timers (RAST 2.6 to 2.8; docs/algorithms/timers.md). Each test runs
//! the source's rule and ours on the same trace.
#![cfg(not(rast_loom))]

use rast_timers::primitive;
use rast_timers::{
    Clock, Instant, ManualClock, Nanos, PeriodicTimer, StartFinishTimer, Tick, TimerConfig,
    WaitingTimer,
};
use std::cell::Cell;
use std::iter::repeat_n;
use std::ops::Range;
use std::rc::Rc;

const MS: u64 = 1_000_000;
const START: u64 = 1_000_000_000_000;

/// The source's periodic timer (2.6): batch counted in calls, the old error
/// spread over the next batch, C's division.
struct Source {
    period: i64,
    greatest: i64,
    least: i64,
    left: i64,
    batch: i64,
    balance: i64,
    last: i64,
    step: i64,
    readings: u64,
}

impl Source {
    fn new() -> Self {
        Self {
            period: MS as i64,
            greatest: 10_000,
            least: 1,
            left: 1,
            batch: 1,
            balance: 0,
            last: 0,
            step: 0,
            readings: 0,
        }
    }

    fn passed(&mut self, now: u64) -> i64 {
        self.left -= 1;
        if self.left == 0 {
            let now = now as i64;
            self.readings += 1;
            let passed = now - self.last;
            let next = (self.period / passed * self.batch)
                .min(self.greatest)
                .max(1);
            self.step = passed / self.batch + self.balance / next;
            self.batch = next;
            self.left = next;
            self.last = now;
            self.balance += passed;
        }
        let answer = self.step.max(self.least);
        self.balance -= answer;
        answer
    }
}

/// A clock that counts its readings.
#[derive(Clone)]
struct Counting(ManualClock, Rc<Cell<u64>>);

impl Clock for Counting {
    fn now(&self) -> Instant {
        self.1.set(self.1.get() + 1);
        self.0.now()
    }
}

/// Ours under one trace, beside a ticker of 1 ms: greatest lag and lead, both
/// in ns, and clock readings.
struct Run {
    clock: Counting,
    tick: Tick,
    tick_due: u64,
}

impl Run {
    fn new() -> Self {
        let clock = ManualClock::at(Instant::from_nanos(START));
        let tick = Tick::new();
        tick.publish(clock.now());
        Self {
            clock: Counting(clock, Rc::default()),
            tick,
            tick_due: START + MS,
        }
    }

    /// Time passes; the ticker publishes at its beats, on time.
    fn pass(&mut self, gap: u64) {
        self.clock.0.advance(Nanos::from_nanos(gap));
        let now = self.clock.0.now().as_nanos();
        if now >= self.tick_due {
            let beat = now - (now - START) % MS;
            self.tick.publish(Instant::from_nanos(beat));
            self.tick_due = beat + MS;
        }
    }

    fn readings(&self) -> u64 {
        self.clock.1.get()
    }

    /// Runs the periodic timer over the gaps: (greatest lag, greatest lead).
    fn periodic(&mut self, gaps: impl IntoIterator<Item = u64>) -> (u64, u64) {
        let mut timer = PeriodicTimer::new(self.clock.clone(), TimerConfig::new());
        timer.elapsed(&self.tick);
        let start = self.clock.0.now().as_nanos();
        let (mut sum, mut lag, mut lead) = (start, 0, 0);
        for gap in gaps {
            self.pass(gap);
            sum += timer.elapsed(&self.tick).as_nanos();
            let now = self.clock.0.now().as_nanos();
            lag = lag.max(now.saturating_sub(sum));
            lead = lead.max(sum.saturating_sub(now));
        }
        (lag, lead)
    }
}

/// The same traces in every run.
struct Random(primitive::Random);

impl Random {
    fn new(seed: u64) -> Self {
        Self(primitive::Random::new(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.draw()
    }

    fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// 50 ns times a Pareto number of shape 1.2, at most 5 ms.
    fn pareto(&mut self) -> u64 {
        let even = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (50.0 * (1.0 - even).powf(-1.0 / 1.2)).min(5e6) as u64
    }
}

#[test]
fn steady_trace() {
    let mut run = Run::new();
    let (lag, lead) = run.periodic(repeat_n(100, 200_000));
    assert!(lag <= MS && lead <= MS, "lag {lag} lead {lead}");
    // 20 ms of calls: one reading per tick and few to find the pace.
    assert!(run.readings() <= 60, "{} readings", run.readings());
}

#[test]
fn jittered_trace() {
    let mut random = Random::new(1);
    let mut run = Run::new();
    let (lag, lead) = run.periodic((0..200_000).map(|_| random.within(50..151)));
    assert!(lag <= MS && lead <= MS, "lag {lag} lead {lead}");
    assert!(run.readings() <= 80, "{} readings", run.readings());
}

#[test]
fn burst_then_slow_trace() {
    let gaps = || repeat_n(20, 100_000).chain(repeat_n(1_000 * MS, 5_000));
    let mut run = Run::new();
    let (lag, lead) = run.periodic(gaps());
    assert!(lag <= MS && lead <= MS, "lag {lag} lead {lead}");

    // The source: 5000 s pass and the sum says a few milliseconds.
    let mut source = Source::new();
    source.last = START as i64 - 1;
    source.passed(START);
    let (mut now, mut sum) = (START, 0);
    for gap in gaps() {
        now += gap;
        sum += source.passed(now);
    }
    assert_eq!((now - START) / (1_000 * MS), 5_000);
    assert!(sum < 10 * MS as i64, "sum {sum}");
}

#[test]
fn bursts_and_pauses_trace() {
    let burst = || repeat_n(50, 1_000).chain([2 * MS]);
    let mut run = Run::new();
    let (lag, lead) = run.periodic((0..200).flat_map(|_| burst()));
    assert!(lag <= MS && lead <= MS, "lag {lag} lead {lead}");

    let mut source = Source::new();
    source.last = START as i64 - 1;
    source.passed(START);
    let (mut now, mut sum, mut worst) = (START, START as i64, 0);
    for gap in (0..200).flat_map(|_| burst()) {
        now += gap;
        sum += source.passed(now);
        worst = worst.max(now as i64 - sum);
    }
    assert!(worst > 20 * MS as i64, "the source lags by {worst}");
}

#[test]
fn heavy_tailed_trace() {
    let mut random = Random::new(1);
    let mut run = Run::new();
    let (lag, lead) = run.periodic((0..200_000).map(|_| random.pareto()));
    assert!(lag <= MS && lead <= MS, "lag {lag} lead {lead}");
}

/// Fault 2: the source skips by calls, so a wait of 10 ms ends after seconds
/// once a fast phase has been followed by a slow one.
#[test]
fn a_wait_of_10_ms_does_not_last_seconds() {
    let slow = 100_000; // 100 us between calls
    let mut source = Source::new();
    source.last = START as i64 - 1;
    let mut now = START;
    source.passed(now);
    for _ in 0..100_000 {
        now += 20;
        source.passed(now);
    }
    let (began, mut waited) = (now, 0);
    while waited <= 10 * MS as i64 {
        now += slow;
        waited += source.passed(now);
    }
    assert!(
        now - began > 900 * MS,
        "the source fires after {}",
        now - began
    );

    let mut run = Run::new();
    let wait = Nanos::from_millis(10);
    let mut beat = WaitingTimer::new(run.clock.clone(), wait, TimerConfig::new());
    for _ in 0..100_000 {
        run.pass(20);
        beat.check(&run.tick);
    }
    beat.reset();
    let began = run.clock.0.now();
    loop {
        run.pass(slow);
        if beat.check(&run.tick) {
            break;
        }
    }
    let after = run.clock.0.now().saturating_since(began);
    assert!(after >= wait, "early: {after}");
    assert!(after.as_nanos() <= 11 * MS + slow, "late: {after}");
}

/// Fault 1: what is predicted is taken back, so the sum lags by a batch for
/// good, although the calls are perfectly even.
#[test]
fn an_even_caller_is_not_a_batch_behind() {
    let mut source = Source::new();
    source.last = START as i64 - 1;
    source.passed(START);
    let (mut now, mut sum, mut worst) = (START, START as i64, 0);
    for call in 0..200_000 {
        now += 100;
        sum += source.passed(now);
        if call > 100_000 {
            worst = worst.max(now as i64 - sum);
        }
    }
    assert!(worst >= MS as i64 / 2, "the source lags by {worst}");

    let mut run = Run::new();
    let (lag, _) = run.periodic(repeat_n(100, 200_000));
    assert!(lag < 1_000, "lag {lag}");
}

/// Fault 5: two readings at one time divide by zero.
#[test]
fn equal_readings_divide_nothing() {
    let crash = std::panic::catch_unwind(|| {
        let mut source = Source::new();
        source.last = START as i64;
        source.passed(START)
    });
    assert!(crash.is_err());

    let mut run = Run::new();
    assert_eq!(run.periodic(repeat_n(0, 10_000)), (0, 0));
}

/// Fault 6: the first answer is the time since 1970.
#[test]
fn the_first_call_starts_the_series() {
    assert_eq!(Source::new().passed(START), START as i64);

    let run = Run::new();
    let mut timer = PeriodicTimer::new(run.clock.clone(), TimerConfig::new());
    assert_eq!(timer.elapsed(&run.tick), Nanos::ZERO);
}

/// Fault 7: a least value above the true interval runs away.
#[test]
fn a_least_value_does_not_run_away() {
    let mut source = Source::new();
    source.last = START as i64 - 1;
    source.least = 1_000;
    source.passed(START);
    let sum: i64 = (1..=100_000).map(|call| source.passed(START + call)).sum();
    assert_eq!(sum, 100_000 * 1_000); // 100 ms said, 0.1 ms passed

    let run = Run::new();
    let config = TimerConfig::new().least_value(Nanos::from_micros(1));
    let mut timer = PeriodicTimer::new(run.clock.clone(), config);
    for _ in 0..100_000 {
        run.clock.0.advance(Nanos::from_nanos(1));
        timer.elapsed(&run.tick);
    }
    assert!(
        timer.sum() <= Nanos::from_nanos(100_000 + MS),
        "{}",
        timer.sum()
    );
}

/// Fault 8: the difference of two series is the last duration, not the sum.
#[test]
fn start_finish_sums_durations() {
    // With answers that are exact the source's rule gives, for three pairs of
    // 10 in every 100, the last one alone.
    let (mut last_start, mut last_finish, mut sum) = (0, 0, 0);
    for pair in 0..3 {
        let (start, finish) = (pair * 100, pair * 100 + 10);
        sum -= start - last_start;
        sum += finish - last_finish;
        (last_start, last_finish) = (start, finish);
    }
    assert_eq!(sum, 10);

    let mut run = Run::new();
    let mut timer = StartFinishTimer::new(run.clock.clone(), TimerConfig::new());
    for _ in 0..3 {
        timer.start(&run.tick);
        run.pass(10 * MS);
        timer.finish(&run.tick);
        run.pass(90 * MS);
    }
    assert_eq!((timer.count(), timer.sum()), (3, Nanos::from_millis(30)));
    assert_eq!(timer.error(), Nanos::ZERO);
}

/// Runs pairs of the given lengths, `outside` apart: sum said over true sum.
fn ratio(run: &mut Run, outside: u64, inside: impl Iterator<Item = u64>) -> f64 {
    let mut timer = StartFinishTimer::new(run.clock.clone(), TimerConfig::new());
    let mut truth = 0;
    for length in inside {
        run.pass(outside);
        timer.start(&run.tick);
        run.pass(length);
        timer.finish(&run.tick);
        truth += length;
    }
    assert!(timer.sum().as_nanos().abs_diff(truth) <= timer.error().as_nanos());
    timer.sum().as_nanos() as f64 / truth as f64
}

/// The estimate is right in the mean where the pairs of a batch are alike, and
/// where they alternate in step with the calls.
#[test]
fn start_finish_estimates_well() {
    let mut random = Random::new(7);
    let mut run = Run::new();
    let even = ratio(&mut run, 100, (0..2_000_000).map(|_| random.within(20..61)));
    assert!((even - 1.0).abs() < 0.03, "jitter {even}");
    let turns = ratio(
        &mut run,
        100,
        (0..2_000_000).map(|pair| if pair % 2 == 0 { 10 } else { 90 }),
    );
    assert!((turns - 1.0).abs() < 0.15, "alternating {turns}");
    let before = run.readings();
    let short = ratio(&mut run, 40, (0..1_000_000).map(|_| 3));
    assert!((short - 1.0).abs() < 0.01, "short {short}");
    // A pair in about 7500 is read, at both ends, and a start at each tick.
    let readings = run.readings() - before;
    assert!(readings < 400, "{readings} readings");
}

/// A long pair that no thread expected is seen, because the tick moves in it.
#[test]
fn start_finish_sees_a_long_pair() {
    let mut run = Run::new();
    let inside = (0..100_000).map(|pair| if pair == 77_777 { 50 * MS } else { 20 });
    let long = ratio(&mut run, 80, inside);
    assert!((long - 1.0).abs() < 0.03, "long {long}");
}

/// Pairs that come seldom after a fast phase are read, each of them.
#[test]
fn start_finish_follows_a_slow_phase() {
    let mut run = Run::new();
    let mut timer = StartFinishTimer::new(run.clock.clone(), TimerConfig::new());
    for _ in 0..100_000 {
        timer.start(&run.tick);
        run.pass(20);
        timer.finish(&run.tick);
        run.pass(80);
    }
    let (sum, error) = (timer.sum(), timer.error());
    for _ in 0..1_000 {
        run.pass(10 * MS);
        timer.start(&run.tick);
        run.pass(MS / 10);
        timer.finish(&run.tick);
    }
    let slow = timer.sum().saturating_sub(sum).as_nanos();
    assert!(slow.abs_diff(100 * MS) < MS, "{slow}");
    // The first gap is averaged with the fast pairs before it, the second not.
    let grown = timer.error().saturating_sub(error);
    assert!(grown.as_nanos() <= 21 * MS, "the bar grew by {grown}");
}
