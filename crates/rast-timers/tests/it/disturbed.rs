//! The clock by counter under random disturbances of counter and reference. It never runs
//! backwards. Its interval is true while the counter is left, and some seconds after the last
//! disturbance.
#![cfg(all(feature = "std", not(any(rast_loom, rast_shuttle, miri))))]

use rast_timers::primitive;
use rast_timers::{Clock, Counter, Guard, Instant, Nanos, TscClock, TscConfig, TscStatus};
use std::cell::Cell;
use std::rc::Rc;

const MS: u64 = 1_000_000;

#[derive(Clone)]
struct Machine(Rc<State>);

struct State {
    time: Cell<u64>,
    count: Cell<u64>,
    per_micro: Cell<u64>,
    shown: Cell<u64>,
    ppm: Cell<i64>,
}

impl Machine {
    fn new() -> Self {
        Self(Rc::new(State {
            time: Cell::new(0),
            count: Cell::new(1 << 50),
            per_micro: Cell::new(2_600),
            shown: Cell::new(3_600_000 * MS),
            ppm: Cell::new(0),
        }))
    }

    fn pass(&self, nanos: u64) {
        let state = &*self.0;
        state.time.set(state.time.get() + nanos);
        let counts = u128::from(nanos) * u128::from(state.per_micro.get()) / 1_000;
        state
            .count
            .set(state.count.get().wrapping_add(counts as u64));
        let more = i128::from(nanos) * i128::from(state.ppm.get()) / 1_000_000;
        state
            .shown
            .set(state.shown.get() + (i128::from(nanos) + more) as u64);
    }
}

#[derive(Clone)]
struct Count(Machine);

#[derive(Clone)]
struct Reference(Machine);

impl Counter for Count {
    fn count(&self) -> u64 {
        self.0.pass(5);
        self.0.0.count.get()
    }

    fn pace(&self) -> u64 {
        2_600 * MS
    }
}

impl Clock for Reference {
    fn now(&self) -> Instant {
        self.0.pass(10);
        let shown = self.0.0.shown.get();
        self.0.pass(10);
        Instant::from_nanos(shown)
    }
}

struct Random(primitive::Random);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        (self.0.draw() >> 11) % most
    }
}

/// Disturbs the counter or the reference once; returns what was done.
fn disturb(machine: &Machine, gap: u64, random: &mut Random) -> String {
    let state = &*machine.0;
    let by = 1 << random.below(45);
    match random.below(6) {
        0 => state.count.set(state.count.get() + by),
        // By more than a segment: less is not covered.
        1 => state
            .count
            .set(state.count.get() - by.max((gap + 13 * MS / 10) * 26 / 10)),
        2 => state.shown.set(state.shown.get() + by),
        3 => state
            .per_micro
            .set([0, 1_300, 2_500, 2_620, 5_200][random.below(5) as usize]),
        4 => state
            .ppm
            .set([-400_000, -80_000, 5_000, 100_000][random.below(4) as usize]),
        _ => {
            // The machine slept: the counter stood while the reference went on.
            state.shown.set(state.shown.get() + by);
            state.time.set(state.time.get() + by);
        }
    }
    format!("{by} {} {}", state.per_micro.get(), state.ppm.get())
}

fn undisturbed(machine: &Machine) {
    machine.0.per_micro.set(2_600);
    machine.0.ppm.set(0);
}

#[test]
fn no_disturbance_makes_it_go_back_or_lie_for_long() {
    for seed in 1..=400_u64 {
        let mut random = Random(primitive::Random::new(
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        ));
        let machine = Machine::new();
        let clock = TscClock::with_parts(
            Count(machine.clone()),
            Reference(machine.clone()),
            TscConfig::new(),
        );
        let guard = clock.guard(Nanos::from_micros(100));
        let mut last = Instant::ORIGIN;
        let mut log = Vec::new();
        // When it is at rest again.
        let mut disturbed = 0;
        for step in 0..6_000 {
            let gap = match random.below(20) {
                0 => random.below(200 * MS),
                1..4 => random.below(3 * MS),
                _ => random.below(50_000),
            };
            machine.pass(gap);
            if machine.0.time.get() > disturbed && random.below(100) == 0 {
                log.push((step, disturb(&machine, gap, &mut random)));
                disturbed = u64::MAX;
            } else if disturbed == u64::MAX && random.below(20) == 0 {
                undisturbed(&machine);
                log.push((step, "rest".into()));
                // The mean pace is that of a second or more.
                disturbed = machine.0.time.get() + 2_500 * MS;
            }
            match random.below(400) {
                0 => clock.resume(),
                1 => {
                    clock.check();
                }
                2 => {
                    guard.vouches(guard.word(), clock.now());
                }
                _ => {}
            }
            let status = clock.status();
            let before = machine.0.shown.get();
            let interval = clock.interval();
            let after = machine.0.shown.get();
            let now = clock.now();
            assert!(
                now >= last,
                "seed {seed}, step {step}: back by {} from {last:?}, {status:?}, then {:?}, {before}..{after}, {interval:?}, {log:?}",
                last.as_nanos() - now.as_nanos(),
                clock.status(),
            );
            last = now;
            let is_calm = machine.0.time.get() > disturbed;
            if matches!(status, TscStatus::Left(_)) || is_calm {
                assert!(
                    interval.earliest.as_nanos() <= after && before <= interval.latest.as_nanos(),
                    "seed {seed}, step {step}: {interval:?} misses {before}..{after} {status:?} {log:?}"
                );
            }
        }
    }
}
