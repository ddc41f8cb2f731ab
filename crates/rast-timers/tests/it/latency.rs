//! Timers for each call site, and the latency histogram.
#![cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]

use rast_timers::{
    Instant, ManualClock, Nanos, PeriodicTimer, StartFinishTimer, Tick, TimerConfig, at_site,
};

thread_local! {
    static CLOCK: ManualClock = ManualClock::at(Instant::from_nanos(1_000));
}

fn clock() -> ManualClock {
    CLOCK.with(Clone::clone)
}

fn config() -> TimerConfig {
    TimerConfig::new().greatest_skip(0)
}

fn here(tick: &Tick) -> Nanos {
    at_site!(PeriodicTimer<ManualClock> = PeriodicTimer::new(clock(), config()), |timer| {
        timer.elapsed(tick)
    })
}

fn there(tick: &Tick) -> Nanos {
    at_site!(
        PeriodicTimer<ManualClock> = PeriodicTimer::new(clock(), config()),
        |timer| timer.elapsed(tick),
    )
}

#[test]
fn each_place_and_each_thread_has_a_timer_of_its_own() {
    let tick = Tick::new();
    assert_eq!(here(&tick), Nanos::ZERO);
    clock().advance(Nanos::from_nanos(5));
    assert_eq!(there(&tick), Nanos::ZERO);
    clock().advance(Nanos::from_nanos(5));
    assert_eq!(here(&tick), Nanos::from_nanos(10));
    assert_eq!(there(&tick), Nanos::from_nanos(5));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| here(&tick));
        assert_eq!(other.join().unwrap(), Nanos::ZERO);
    });
}

#[test]
fn finish_tells_what_it_read() {
    let (clock, tick) = (clock(), Tick::new());
    let mut timer = StartFinishTimer::new(clock.clone(), TimerConfig::new());
    let (mut read, mut sum) = (0_u64, 0);
    for pair in 0..10_000_u64 {
        timer.start(&tick);
        clock.advance(Nanos::from_nanos(20 + pair % 10));
        if let Some(span) = timer.finish(&tick) {
            assert_eq!(span.as_nanos(), 20 + pair % 10);
            read += 1;
            sum += span.as_nanos();
        }
        assert_eq!(timer.finish(&tick), None);
    }
    assert!((10..1_000).contains(&read), "{read} were read");
    assert!((20..30).contains(&(sum / read)));
}

#[cfg(feature = "histogram")]
mod histogram {
    use super::{clock, config};
    use rast_timers::{LatencyHistogram, Nanos, Tick, TimerConfig};

    #[test]
    fn a_drawn_pair_stands_for_its_batch() {
        let (clock, tick) = (clock(), Tick::new());
        let mut latency = LatencyHistogram::new(clock.clone(), TimerConfig::new());
        let mut random = 1_u64;
        for _ in 0..1_000_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            latency.start(&tick);
            clock.advance(Nanos::from_nanos(match random >> 32 & 15 {
                0 => 1_000,
                _ => 100,
            }));
            latency.finish(&tick);
        }
        // All pairs but the last batch are counted.
        assert!(latency.histogram().len() > 980_000);
        assert!(latency.histogram().len() <= latency.timer().count());
        assert_eq!(latency.percentile(50.0).as_nanos(), 100);
        assert!(latency.percentile(99.0).as_nanos().abs_diff(1_000) <= 1);
        let slow = latency.histogram().count_between(900, 1_100) as f64;
        let share = slow / latency.histogram().len() as f64 * 16.0;
        assert!((0.7..1.3).contains(&share), "{share}");
    }

    #[test]
    fn ends_of_the_range_and_reset() {
        let (clock, tick) = (clock(), Tick::new());
        let mut latency = LatencyHistogram::new(clock.clone(), config());
        assert_eq!(latency.percentile(99.0), Nanos::ZERO);
        latency.finish(&tick); // none is open
        latency.start(&tick);
        latency.finish(&tick);
        assert_eq!(latency.percentile(50.0), Nanos::from_nanos(1));
        latency.start(&tick);
        clock.advance(Nanos::from_secs(1_000_000));
        latency.finish(&tick);
        assert!(latency.percentile(100.0) >= Nanos::from_secs(3_600));
        latency.reset();
        assert_eq!((latency.histogram().len(), latency.timer().count()), (0, 0));
    }
}
