//! The three timers under patterns of calls that try to break their bounds.

use crate::world::{Step, World, configs, starts, steps};
use proptest::prelude::*;
use rast_timers::{
    Clock, Instant, Missed, Nanos, PeriodicTimer, StartFinishTimer, TimerConfig, WaitingTimer,
};

/// A configuration together with its period, which the bound speaks of.
fn with_period() -> impl Strategy<Value = (u64, TimerConfig)> {
    let period = prop_oneof![Just(0_u64), Just(1), 1..5_000_u64, Just(1_000_000)];
    (period, configs())
        .prop_map(|(period, config)| (period, config.period(Nanos::from_nanos(period))))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// −P ≤ now − sum ≤ τ + δ at every call, δ as measured at that call.
    #[test]
    fn periodic_keeps_its_inequality(
        (period, config) in with_period(),
        start in starts(),
        tau in 1_000..2_000_000_u64,
        steps in steps(),
    ) {
        let mut world = World::new(start, tau);
        let mut timer = PeriodicTimer::new(world.clock.clone(), config);
        // The start of the series plus all answers.
        let mut sum: Option<u64> = None;
        for step in &steps {
            match *step {
                Step::Calls { gap, count } => for _ in 0..count {
                    world.pass(gap);
                    let answer = timer.elapsed(world.tick()).as_nanos();
                    let now = world.now();
                    let total = match sum {
                        None => {
                            prop_assert_eq!(answer, 0, "the first call starts the series");
                            now
                        }
                        Some(sum) => {
                            // Also shows that the sum stays within the range.
                            sum.checked_add(answer).expect("the sum stays within P of the clock")
                        }
                    };
                    sum = Some(total);
                    prop_assert!(total <= now.saturating_add(period), "lead {}", total - now);
                    prop_assert!(
                        now.saturating_sub(total) <= world.staleness(),
                        "lag {} staleness {}", now - total, world.staleness(),
                    );
                }
                Step::Reset => {
                    timer.reset();
                    sum = None;
                }
                ref other => world.take(other),
            }
        }
    }

    /// Never early; never later than the tick's staleness; on the beat that
    /// the policy names.
    #[test]
    fn waiting_fires_in_its_time(
        config in configs(),
        start in starts(),
        tau in 1_000..2_000_000_u64,
        period in prop_oneof![Just(0_u64), 1..1_000_u64, 10_000..30_000_000_u64, Just(u64::MAX)],
        policy in prop_oneof![Just(Missed::Burst), Just(Missed::Skip), Just(Missed::Delay)],
        steps in steps(),
    ) {
        let mut world = World::new(start, tau);
        let mut timer = WaitingTimer::new(world.clock.clone(), Nanos::from_nanos(period), config)
            .missed(policy);
        let mut deadline = start.saturating_add(period);
        for step in &steps {
            match *step {
                Step::Calls { gap, count } => for _ in 0..count {
                    world.pass(gap);
                    prop_assert_eq!(timer.deadline(), Instant::from_nanos(deadline));
                    let fired = timer.check(world.tick());
                    let now = world.now();
                    if fired {
                        prop_assert!(now >= deadline, "early by {}", deadline - now);
                        deadline = match policy {
                            Missed::Burst => deadline.saturating_add(period),
                            Missed::Delay => now.saturating_add(period),
                            Missed::Skip if period == 0 => now,
                            Missed::Skip => {
                                let mut next = u128::from(deadline);
                                next += (u128::from(now) - next) / u128::from(period)
                                    * u128::from(period);
                                u64::try_from(next + u128::from(period)).unwrap_or(u64::MAX)
                            }
                        };
                    } else {
                        let late = now.saturating_sub(deadline);
                        prop_assert!(
                            now < deadline || deadline == u64::MAX || late < world.staleness(),
                            "late by {} staleness {}", late, world.staleness(),
                        );
                    }
                }
                Step::Reset => {
                    timer.reset();
                    deadline = world.now().saturating_add(period);
                }
                ref other => world.take(other),
            }
        }
    }

    /// The true sum lies within the error bar, the sum never goes back, and
    /// the count is right.
    #[test]
    fn start_finish_keeps_its_error_bar(
        config in configs(),
        start in starts(),
        tau in 1_000..2_000_000_u64,
        inside in prop::collection::vec(
            prop_oneof![4 => 0..500_u64, 2 => 0..50_000_u64, 1 => 0..9_000_000_u64],
            1..20,
        ),
        steps in steps(),
    ) {
        let mut world = World::new(start, tau);
        let mut timer = StartFinishTimer::new(world.clock.clone(), config);
        let mut lengths = inside.iter().cycle();
        let (mut truth, mut count) = (0_u64, 0_u64);
        let mut last = Nanos::ZERO;
        for step in &steps {
            match *step {
                Step::Calls { gap, count: calls } => for call in 0..calls {
                    world.pass(gap);
                    timer.start(world.tick());
                    if call % 50 == 49 {
                        // Forgotten: a start follows a start.
                        continue;
                    }
                    let began = world.now();
                    world.pass(*lengths.next().expect("a cycle has no end"));
                    if call % 50 == 30 {
                        world.take(&Step::Migrate);
                    }
                    timer.finish(world.tick());
                    truth += world.now() - began;
                    count += 1;
                    if call % 7 == 0 {
                        timer.finish(world.tick()); // closes nothing
                    }
                    let sum = timer.sum();
                    let off = sum.as_nanos().abs_diff(truth);
                    prop_assert!(sum >= last, "the sum went back");
                    prop_assert!(
                        off <= timer.error().as_nanos(),
                        "true {} sum {} error {}", truth, sum, timer.error(),
                    );
                    last = sum;
                }
                Step::Reset => {
                    timer.start(world.tick());
                    timer.reset();
                    timer.finish(world.tick()); // its pair is forgotten
                    (truth, count, last) = (0, 0, Nanos::ZERO);
                    prop_assert_eq!((timer.sum(), timer.error()), (Nanos::ZERO, Nanos::ZERO));
                }
                ref other => world.take(other),
            }
            prop_assert_eq!(timer.count(), count);
        }
    }
}

/// A tick ahead of the clock breaks its promise; the timers then read the
/// clock at every call and stay exact.
#[test]
fn a_tick_from_the_future_costs_readings_and_no_truth() {
    let mut world = World::new(1_000, 1_000_000);
    world.tick().publish(Instant::from_nanos(u64::MAX / 2));
    let config = TimerConfig::new();
    let mut timer = PeriodicTimer::new(world.clock.clone(), config);
    let mut pairs = StartFinishTimer::new(world.clock.clone(), config);
    let mut beat = WaitingTimer::new(world.clock.clone(), Nanos::from_nanos(100), config);
    timer.elapsed(world.tick());
    for call in 1..=1_000_u64 {
        pairs.start(world.tick());
        world.pass(10);
        pairs.finish(world.tick());
        assert_eq!(timer.elapsed(world.tick()), Nanos::from_nanos(10));
        assert_eq!(beat.check(world.tick()), call % 10 == 0);
    }
    assert_eq!(pairs.sum(), Nanos::from_micros(10));
    assert_eq!(pairs.error(), Nanos::ZERO);
    assert_eq!(timer.sum(), Nanos::from_micros(10));
    assert_eq!(timer.clock().now(), world.clock.now());
}
