//! The clock by counter on a simulated machine, whose counter, reference and scheduler behave well
//! or badly.
#![cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]

use proptest::prelude::*;
use rast_timers::primitive::Random;
use rast_timers::{
    Clock, Counter, Guard, Instant, Interval, Nanos, PeriodicTimer, TimerConfig, TscClock,
    TscConfig, TscStatus, Unstable,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const MS: u64 = 1_000_000;

/// A machine with one thread. Each reading takes a little of its time.
struct Machine {
    /// The true time in ns.
    time: Cell<u64>,
    /// Counts per 1000 ns.
    per_micro: Cell<u64>,
    /// Where the present pace of the counter began: time and count.
    counted: Cell<(u64, u64)>,
    /// Where the present pace of the reference began: time and what it showed, in
    /// millionths of a ns.
    shown: Cell<(u64, u128)>,
    /// Parts in a million that the reference runs fast.
    ppm: Cell<i64>,
    /// The count moves in steps of so many.
    step: Cell<u64>,
    /// The time of a reading, in two halves: before and after the value is taken.
    cost: Cell<u64>,
    /// Draws what each half takes, up to `cost`; without it each half takes half of `cost`.
    noise: RefCell<Option<Random>>,
    /// The thread loses its core for so long in one half of a reading, after so
    /// many other halves.
    stall: Cell<(u32, u64)>,
    /// In one half of a reading, after so many others, another thread reads.
    other: Cell<Option<(u32, Other)>>,
    /// The latest that any thread was shown.
    last: Cell<Instant>,
}

/// Another thread: so many readings, each after a gap.
struct Other {
    clock: TscClock<Count, Reference>,
    gap: u64,
    count: u16,
}

#[derive(Clone)]
struct Count(Rc<Machine>);

#[derive(Clone)]
struct Reference(Rc<Machine>);

impl Machine {
    fn new(per_micro: u64) -> Rc<Self> {
        Rc::new(Self {
            time: Cell::new(1_000_000_000),
            per_micro: Cell::new(per_micro),
            counted: Cell::new((0, 77)),
            shown: Cell::new((0, 5_000_000_000)),
            ppm: Cell::new(0),
            step: Cell::new(1),
            cost: Cell::new(8),
            noise: RefCell::default(),
            stall: Cell::new((0, 0)),
            other: Cell::new(None),
            last: Cell::new(Instant::ORIGIN),
        })
    }

    fn clock(self: &Rc<Self>, config: TscConfig) -> TscClock<Count, Reference> {
        TscClock::with_parts(Count(Rc::clone(self)), Reference(Rc::clone(self)), config)
    }

    fn pass(&self, nanos: u64) {
        self.time.set(self.time.get() + nanos);
    }

    fn count_at(&self, time: u64) -> u64 {
        let (since, count) = self.counted.get();
        count.wrapping_add((time - since) * self.per_micro.get() / 1_000)
    }

    /// What the reference shows.
    fn reference_at(&self, time: u64) -> u64 {
        (self.millionths_at(time) / 1_000_000) as u64
    }

    fn millionths_at(&self, time: u64) -> u128 {
        let (since, shown) = self.shown.get();
        shown + u128::from(time - since) * (1_000_000 + self.ppm.get()) as u128
    }

    fn reference(&self) -> u64 {
        self.reference_at(self.time.get())
    }

    fn slew(&self, ppm: i64) {
        self.step_reference(0);
        self.ppm.set(ppm);
    }

    fn step_reference(&self, by: u64) {
        let time = self.time.get();
        let shown = self.millionths_at(time) + u128::from(by) * 1_000_000;
        self.shown.set((time, shown));
    }

    fn step_counter(&self, by: i64) {
        let count = self.count_at(self.time.get());
        self.counted
            .set((self.time.get(), count.wrapping_add_signed(by)));
    }

    fn change_pace(&self, per_micro: u64) {
        self.counted
            .set((self.time.get(), self.count_at(self.time.get())));
        self.per_micro.set(per_micro);
    }

    /// One half of a reading.
    fn spend(&self) {
        self.pass(match self.random() {
            0 => self.cost.get() / 2,
            random if random % 4 == 0 => 0,
            random if random % 4 == 1 => self.cost.get(),
            random => (random >> 8) % (self.cost.get() + 1),
        });
        match self.stall.get() {
            (0, stall) => {
                self.stall.set((0, 0));
                self.pass(stall);
            }
            (after, stall) => self.stall.set((after - 1, stall)),
        }
        match self.other.take() {
            None => {}
            Some((0, other)) => {
                for _ in 0..other.count {
                    self.pass(other.gap);
                    self.read(&other.clock);
                }
            }
            Some((after, other)) => self.other.set(Some((after - 1, other))),
        }
    }

    fn random(&self) -> u64 {
        self.noise.borrow_mut().as_mut().map_or(0, Random::draw)
    }

    /// Reads the clock in both ways, and checks them.
    fn read(&self, clock: &TscClock<Count, Reference>) {
        let last = self.last.get();
        let interval = checked(self, clock);
        assert!(interval.latest >= last, "{interval:?} ends before {last:?}");
        let last = self.last.get();
        let now = clock.now();
        assert!(now >= last, "back from {last:?} to {now:?}");
        assert!(now >= interval.earliest, "{now:?} is before {interval:?}");
        self.last.set(self.last.get().max(now));
    }
}

impl Counter for Count {
    fn count(&self) -> u64 {
        self.0.spend();
        let count = self.0.count_at(self.0.time.get());
        self.0.spend();
        count - count % self.0.step.get()
    }

    fn step(&self) -> u64 {
        self.0.step.get()
    }

    fn pace(&self) -> u64 {
        self.0.per_micro.get() * 1_000_000
    }
}

impl Clock for Reference {
    fn now(&self) -> Instant {
        self.0.spend();
        let shown = self.0.reference();
        self.0.spend();
        Instant::from_nanos(shown)
    }
}

/// Reads an interval and checks it against the reference around it.
fn checked(machine: &Machine, clock: &TscClock<Count, Reference>) -> Interval {
    let before = machine.reference();
    let interval = clock.interval();
    let after = machine.reference();
    assert!(
        interval.earliest.as_nanos() <= after && before <= interval.latest.as_nanos(),
        "{interval:?} misses {before}..{after}",
    );
    interval
}

/// A clock that has counted for some time, and its machine.
fn counting() -> (Rc<Machine>, TscClock<Count, Reference>) {
    let machine = Machine::new(2_600);
    let clock = machine.clock(TscConfig::new());
    for _ in 0..20_000 {
        machine.pass(1_000);
        checked(&machine, &clock);
    }
    assert_eq!(clock.status(), TscStatus::Counting);
    (machine, clock)
}

#[test]
fn it_can_be_read_at_once_and_counts_within_microseconds() {
    let machine = Machine::new(2_600);
    let clock = machine.clock(TscConfig::new());
    assert_eq!(clock.status(), TscStatus::Learning);
    let start = machine.time.get();
    while clock.status() == TscStatus::Learning {
        let width = checked(&machine, &clock).half_width();
        if clock.status() == TscStatus::Learning {
            assert!(width <= Nanos::from_nanos(1), "{width}");
        }
    }
    let took = machine.time.get() - start;
    assert!(took < 20_000, "{took} ns");
    // The error is larger at first and says so.
    let mut widest = Nanos::ZERO;
    for _ in 0..10_000 {
        widest = widest.max(checked(&machine, &clock).half_width());
        machine.pass(100);
    }
    assert!(widest > Nanos::from_nanos(100), "{widest}");
    assert!(widest < Nanos::from_micros(3), "{widest}");
}

/// The first pace is learned over a distance that may be shorter by the slack of
/// both anchors, so the true pace may be higher than the slack's share says.
#[test]
fn a_pace_that_is_hardly_known_is_not_taken_for_a_low_one() {
    // The counter moves every 42 ns, and here once in the first 2 ns.
    let machine = Machine::new(24);
    machine.cost.set(0);
    machine.pass(40);
    let clock = machine.clock(TscConfig::new().anchor_every(Nanos::from_millis(30)));
    machine.pass(2);
    for _ in 0..1_000 {
        machine.read(&clock);
        machine.pass(100);
    }
    assert_eq!(clock.status(), TscStatus::Counting);

    // The default configuration: the thread loses its core before the reference is
    // read for the first anchor, and after it is read for the second.
    for gap in (1_000..20_000).step_by(100) {
        let machine = Machine::new(2_600);
        // The constructor reads the count and the reference, then takes an anchor.
        machine.stall.set((4 + 2, 1_000));
        let clock = machine.clock(TscConfig::new());
        machine.pass(gap);
        // The call reads the count, then takes an anchor.
        machine.stall.set((2 + 3, 1_000));
        for _ in 0..10 {
            machine.read(&clock);
            machine.pass(1_000);
        }
    }
}

#[test]
fn the_median_half_width_is_under_a_microsecond() {
    let (machine, clock) = counting();
    let mut widths: Vec<Nanos> = (0..50_000)
        .map(|_| {
            machine.pass(200);
            checked(&machine, &clock).half_width()
        })
        .collect();
    widths.sort();
    assert!(
        widths[25_000] < Nanos::from_nanos(500),
        "{}",
        widths[25_000]
    );
    assert!(
        widths[49_999] < Nanos::from_nanos(700),
        "{}",
        widths[49_999]
    );
}

#[test]
fn a_reader_that_comes_seldom_is_told_the_truth() {
    let (machine, clock) = counting();
    let mut last = clock.now();
    for gap in [2 * MS, 90 * MS, 40_000 * MS, 3_600_000 * MS, 3 * MS] {
        machine.pass(gap);
        let interval = checked(&machine, &clock);
        assert!(interval.half_width() < Nanos::from_micros(1));
        assert!(clock.now() > last);
        last = clock.now();
        assert_eq!(clock.status(), TscStatus::Counting);
    }
}

#[test]
fn a_jump_of_the_counter_is_found_at_the_next_anchor() {
    for by in [-3_000_000_i64, 3_000_000, -50_000_000_000, 1 << 60] {
        let (machine, clock) = counting();
        let before = clock.now();
        machine.step_counter(by);
        let mut last = before;
        let until = machine.time.get() + 2 * MS;
        while machine.time.get() < until {
            machine.pass(1_000);
            let now = clock.now();
            assert!(now >= last, "the clock went back");
            last = now;
        }
        let TscStatus::Left(reason) = clock.status() else {
            panic!("a jump by {by} was not found");
        };
        let expected = match by < 0 {
            // A small step back may be made good before the next anchor.
            true => [Unstable::WentBack, Unstable::Jumped],
            false => [Unstable::Jumped; 2],
        };
        assert!(expected.contains(&reason), "{reason:?} after {by}");
        // From here on the reference is shown, and the intervals are true.
        machine.pass(5 * MS);
        assert_eq!(checked(&machine, &clock).half_width(), Nanos::from_nanos(1));
        clock.resume();
        assert_eq!(clock.status(), TscStatus::Learning);
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last, "the clock went back");
            last = now;
            checked(&machine, &clock);
            machine.pass(300);
        }
        assert_eq!(clock.status(), TscStatus::Counting);
    }
}

#[test]
fn a_count_that_goes_back_into_the_segment_before_is_not_believed() {
    let (machine, clock) = counting();
    for _ in 0..50 {
        machine.pass(7_300);
        let last = clock.now();
        // 1.3 ms, where a segment is 1 ms long.
        machine.step_counter(-1_300 * 2_600);
        let now = clock.now();
        assert!(now >= last, "the clock went back from {last:?} to {now:?}");
        assert_eq!(clock.status(), TscStatus::Left(Unstable::WentBack));
        clock.resume();
        for _ in 0..3_000 {
            machine.pass(1_000);
            checked(&machine, &clock);
        }
    }
}

#[test]
fn a_count_that_jumps_while_its_pace_is_learned_is_not_believed() {
    for by in [1 << 20, 1 << 30, 1_i64 << 41] {
        let machine = Machine::new(2_600);
        let clock = machine.clock(TscConfig::new());
        assert_eq!(clock.status(), TscStatus::Learning);
        machine.step_counter(by);
        for _ in 0..20_000 {
            checked(&machine, &clock);
            machine.pass(1_000);
        }
    }
}

#[test]
fn a_counter_that_changes_its_pace_is_left() {
    for pace in [2_500, 2_590, 2_610, 2_700] {
        let (machine, clock) = counting();
        machine.change_pace(pace);
        let mut last = clock.now();
        for _ in 0..40_000 {
            machine.pass(1_000);
            let now = clock.now();
            assert!(now >= last, "the clock went back");
            last = now;
        }
        assert_eq!(clock.status(), TscStatus::Left(Unstable::Jumped));
        checked(&machine, &clock);
    }
}

/// Nothing but the count says that a segment is over, so it takes a look from
/// outside.
#[test]
fn a_counter_that_stops_is_found_by_a_check() {
    let (machine, clock) = counting();
    assert_eq!(clock.check(), TscStatus::Counting);
    machine.change_pace(0);
    let last = clock.now();
    machine.pass(50 * MS);
    assert!(clock.now() >= last);
    assert!(matches!(clock.check(), TscStatus::Left(_)));
    checked(&machine, &clock);
}

/// An anchor that is taken while the counter stands looks as if it were pinned
/// exactly, and a pace that is learned from there looks low.
#[test]
fn a_counter_that_stops_for_a_moment_is_left() {
    for pause in (10_000..80_000).step_by(5_000) {
        let (machine, clock) = counting();
        machine.pass(150 * MS);
        machine.change_pace(0);
        let mut last = clock.now();
        machine.pass(pause);
        machine.change_pace(2_600);
        for gap in [12_000, 36_000].repeat(20) {
            machine.pass(gap);
            let now = clock.now();
            assert!(now >= last, "back from {last:?} to {now:?}");
            last = now;
        }
        assert_eq!(clock.status(), TscStatus::Left(Unstable::Jumped));
        machine.read(&clock);
    }
}

#[test]
fn a_counter_that_never_moves_is_left_before_it_is_used() {
    let machine = Machine::new(0);
    let clock = machine.clock(TscConfig::new());
    for _ in 0..1_000 {
        machine.pass(10_000);
        checked(&machine, &clock);
    }
    assert_eq!(clock.status(), TscStatus::Left(Unstable::Stuck));
}

#[test]
fn a_step_of_the_reference_is_found() {
    let (machine, clock) = counting();
    machine.step_reference(10 * MS);
    for _ in 0..2_000 {
        machine.pass(1_000);
        clock.now();
    }
    assert_eq!(clock.status(), TscStatus::Left(Unstable::Jumped));
    checked(&machine, &clock);
}

#[test]
fn a_reference_that_drifts_more_than_agreed_is_found() {
    let (machine, clock) = counting();
    machine.slew(5_000);
    for _ in 0..3_000 {
        machine.pass(1_000);
        clock.now();
    }
    assert_eq!(clock.status(), TscStatus::Left(Unstable::Jumped));
}

#[test]
fn a_guard_of_the_counter_keeps_its_period() {
    let (machine, clock) = counting();
    let guard = clock.guard(Nanos::from_micros(100));
    let period = guard.period();
    assert!(period <= Nanos::from_micros(100) && period > Nanos::from_micros(49));
    let mut timer = PeriodicTimer::new(Reference(Rc::clone(&machine)), TimerConfig::new());
    timer.elapsed(&guard);
    let start = machine.reference();
    for call in 0..100_000_u64 {
        machine.pass(call % 977);
        timer.elapsed(&guard);
        let truth = machine.reference() - start;
        let sum = timer.sum().as_nanos();
        assert!(sum <= truth + MS, "lead {}", sum - truth);
        // δ: what the readings themselves take here.
        let lag = truth.saturating_sub(sum);
        assert!(lag <= period.as_nanos() + 100, "lag {lag}");
    }
    // A counter that was left vouches for nothing.
    machine.step_counter(1 << 40);
    clock.now();
    assert!(!guard.vouches(guard.word(), clock.now()));
}

/// A clock with segments of a second, in the middle of one, and what it says of
/// its error there.
fn in_the_middle() -> (Rc<Machine>, TscClock<Count, Reference>) {
    let machine = Machine::new(2_600);
    let clock = machine.clock(TscConfig::new().anchor_every(TscConfig::LONGEST));
    for _ in 0..6_000 {
        machine.pass(MS);
        checked(&machine, &clock);
    }
    assert_eq!(clock.status(), TscStatus::Counting);
    (machine, clock)
}

/// Goes on until the clock shows the reference again, never back and never
/// farther ahead than `bound`; returns how long that took.
fn settles(machine: &Machine, clock: &TscClock<Count, Reference>, bound: u64) -> u64 {
    let begun = machine.reference();
    let mut last = clock.now();
    loop {
        let interval = checked(machine, clock);
        let now = clock.now();
        assert!(now >= last, "back from {last:?} to {now:?}");
        assert!(now >= interval.earliest, "{now:?} before {interval:?}");
        let ahead = now.as_nanos().saturating_sub(machine.reference());
        assert!(ahead <= bound, "{ahead} ns ahead");
        if ahead == 0 && matches!(clock.status(), TscStatus::Left(_)) {
            return machine.reference() - begun;
        }
        machine.pass(10_000);
        // Half the pace at least: it does not stand still.
        let least = last.as_nanos() + 4_000;
        assert!(clock.now().as_nanos() >= least.min(machine.reference()));
        last = now;
    }
}

/// What is left in the middle of a long segment has shown no more than that.
#[test]
fn leaving_the_counter_does_not_jump_ahead() {
    // The reference goes ahead, and the watchdog looks.
    let (machine, clock) = in_the_middle();
    machine.step_reference(5 * MS);
    assert_eq!(clock.check(), TscStatus::Left(Unstable::Jumped));
    let took = settles(&machine, &clock, MS);
    assert!(took <= 2 * MS, "{took} ns");

    // The counter goes back, by less than the segment has run and by more.
    for by in [-2_600_000, -26_000_000_000_i64] {
        let (machine, clock) = in_the_middle();
        machine.step_counter(by);
        assert!(matches!(clock.check(), TscStatus::Left(_)));
        let took = settles(&machine, &clock, MS);
        assert!(took <= 2 * MS, "{took} ns");
    }

    // The counter jumps far ahead, as where a machine wakes up.
    let (machine, clock) = in_the_middle();
    machine.step_counter(26_000_000_000);
    let took = settles(&machine, &clock, MS);
    assert!(took <= 2 * MS, "{took} ns");

    // It stops.
    let (machine, clock) = in_the_middle();
    machine.change_pace(0);
    machine.pass(50 * MS);
    assert!(matches!(clock.check(), TscStatus::Left(_)));
    assert!(settles(&machine, &clock, MS) <= 2 * MS);
}

/// What has been shown is never taken back: where the counter was ahead, the
/// clock goes at half the pace until the reference is there, and says so.
#[test]
fn a_clock_that_was_ahead_slews() {
    let (machine, clock) = in_the_middle();
    machine.step_counter(26_000_000);
    let ahead = clock.now().as_nanos() - machine.reference();
    assert!(
        ahead > 9 * MS,
        "the counter is believed until it is compared"
    );
    assert_eq!(clock.check(), TscStatus::Left(Unstable::Jumped));
    let took = settles(&machine, &clock, ahead + 1_000);
    assert!((19 * MS..=21 * MS).contains(&took), "{took} ns");
    // Taken up again in the middle of that, it is still ahead and never back.
    let (machine, clock) = in_the_middle();
    machine.step_counter(26_000_000);
    let mut last = clock.now();
    clock.check();
    machine.pass(5 * MS);
    last = last.max(clock.now());
    clock.resume();
    for _ in 0..100_000 {
        let interval = checked(&machine, &clock);
        let now = clock.now();
        assert!(now >= last && now >= interval.earliest);
        last = now;
        machine.pass(50_000);
    }
    assert_eq!(clock.status(), TscStatus::Counting);
    assert!(last.as_nanos() < machine.reference() + MS);
}

/// chrony corrects a large error by up to 100,000 parts in a million.
#[test]
fn the_counter_is_taken_up_again_after_a_slew() {
    for ppm in [5_000, 83_333, -83_333] {
        let (machine, clock) = counting();
        machine.slew(ppm);
        let mut last = clock.now();
        let mut pass = |nanos: u64| {
            for _ in 0..nanos / 100_000 {
                machine.pass(100_000);
                let now = clock.now();
                assert!(now >= last, "the clock went back");
                last = now;
            }
            clock.status()
        };
        assert_eq!(pass(3 * MS), TscStatus::Left(Unstable::Jumped));
        // It need not be off as long as the slew keeps one pace.
        pass(700 * MS);
        machine.slew(0);
        assert_eq!(pass(5_000 * MS), TscStatus::Counting, "{ppm}");
        checked(&machine, &clock);
    }
    // One that does not keep to a pace stays off.
    let (machine, clock) = counting();
    for turn in 0..100_000 {
        machine.change_pace(if turn % 300 < 200 { 2_600 } else { 2_700 });
        machine.pass(MS);
        clock.now();
        if turn > 2_000 {
            assert!(matches!(clock.status(), TscStatus::Left(_)), "{turn}");
        }
    }
}

/// No thread reads the guard's clock, and the counter stops or slows down.
#[test]
fn a_guard_finds_a_counter_that_stops() {
    for (pace, fast) in [(0, true), (0, false), (1_000, true), (1_000, false)] {
        let machine = Machine::new(2_600);
        let guard = machine
            .clock(TscConfig::new())
            .guard(Nanos::from_micros(100));
        let period = guard.period().as_nanos();
        let mut timer = PeriodicTimer::new(Reference(Rc::clone(&machine)), TimerConfig::new());
        timer.elapsed(&guard);
        let start = machine.reference();
        // Fast calls, so that the timer plans thousands of them at once.
        for _ in 0..100_000 {
            machine.pass(if fast { 20 } else { 20_000 });
            timer.elapsed(&guard);
        }
        machine.change_pace(pace);
        let mut most = 0;
        for call in 0..20_000 {
            machine.pass(MS);
            timer.elapsed(&guard);
            let truth = machine.reference() - start;
            // The count of the first call is another one than that of the call
            // before the counter stopped.
            if call > 0 {
                most = most.max(truth.saturating_sub(timer.sum().as_nanos()));
            }
        }
        assert!(most <= period + 100, "lag {most} at a pace of {pace}");
        assert!(!guard.vouches(guard.word(), Instant::ORIGIN));
    }
}

/// At the end of the range the reference is read.
#[test]
fn the_end_of_the_range_is_the_references() {
    let (machine, clock) = counting();
    // Not a step that the clock would take for a fault, but a new clock there.
    machine.shown.set((
        machine.time.get(),
        u128::from(u64::MAX - 9_000_000_000) * 1_000_000,
    ));
    drop(clock);
    let clock = machine.clock(TscConfig::new());
    let mut last = Instant::ORIGIN;
    for _ in 0..8_000 {
        machine.pass(MS);
        let now = clock.now();
        assert!(now >= last);
        last = now;
        checked(&machine, &clock);
    }
    assert!(!matches!(clock.status(), TscStatus::Left(_)));
}

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// So many readings, each after a gap.
    Read { gap: u64, count: u16 },
    /// No thread reads.
    Idle(u64),
    /// The discipline of time changes the pace, within what was agreed.
    Slew(i64),
    /// The thread loses its core within one of the next readings.
    Stall(u32, u64),
    /// Another thread reads within one of the next readings.
    Other { after: u32, gap: u64, count: u16 },
    /// A reading takes longer from here on.
    Cost(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = || prop_oneof![Just(0_u64), 1..300_u64, 1_000..40_000_u64, MS..3 * MS];
    let step = prop_oneof![
        8 => (gap(), 1..400_u16).prop_map(|(gap, count)| Step::Read { gap, count }),
        1 => prop_oneof![MS / 2..5 * MS, 900 * MS..9_000 * MS].prop_map(Step::Idle),
        2 => (-240_i64..240).prop_map(Step::Slew),
        3 => (0..40_u32, prop_oneof![100..5_000_u64, MS..20 * MS])
            .prop_map(|(after, stall)| Step::Stall(after, stall)),
        2 => (0..40_u32, gap(), 1..40_u16)
            .prop_map(|(after, gap, count)| Step::Other { after, gap, count }),
        1 => prop_oneof![Just(0_u64), 2..60_u64, 500..1_500_u64].prop_map(Step::Cost),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The interval holds the reference, `now` lies in it and never goes back,
    /// and a machine that keeps what was agreed is not left: with anchors that
    /// are wrong by whole time slices, a counter that moves in steps, a reference
    /// that wanders, readers that come and go and interrupt each other.
    #[test]
    fn the_interval_holds_the_reference(
        per_micro in prop_oneof![Just(24_u64), Just(1_000), 1_700..5_000_u64],
        counter_step in prop_oneof![4 => Just(1_u64), 1 => 2..50_u64],
        every in prop_oneof![Just(20_000_u64), Just(MS), Just(30 * MS), Just(1_000 * MS)],
        noise in prop_oneof![Just(0_u64), 1..u64::MAX],
        start in 0..1_000_u64,
        cost in prop_oneof![Just(0_u64), 2..60_u64, 500..1_500_u64],
        steps in steps(),
    ) {
        let machine = Machine::new(per_micro);
        machine.step.set(counter_step);
        machine.noise.replace((noise != 0).then(|| Random::new(noise)));
        machine.cost.set(cost);
        machine.pass(start);
        let config = TscConfig::new().anchor_every(Nanos::from_nanos(every));
        let clock = machine.clock(config);
        for step in steps {
            match step {
                Step::Read { gap, count } => for _ in 0..count {
                    machine.pass(gap);
                    machine.read(&clock);
                },
                Step::Idle(gap) => machine.pass(gap),
                Step::Slew(ppm) => machine.slew(ppm),
                Step::Stall(after, stall) => machine.stall.set((after, stall)),
                Step::Other { after, gap, count } => {
                    let clock = clock.clone();
                    machine.other.set(Some((after, Other { clock, gap, count })));
                }
                Step::Cost(cost) => machine.cost.set(cost),
            }
            let status = clock.status();
            prop_assert!(!matches!(status, TscStatus::Left(_)), "{status:?}");
        }
        machine.other.take();
    }
}
