//! A simulated machine: one clock, two loops that publish ticks with a period and a lateness, and
//! one thread that calls and may move between the loops.

use proptest::prelude::*;
use rast_timers::{Clock, Instant, ManualClock, Nanos, Tick, TimerConfig};

/// What happens next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// So many calls, each after a gap.
    Calls { gap: u64, count: u16 },
    /// A gap without a call, with a ticker that may sleep through it.
    Stall { gap: u64, ticker_sleeps: bool },
    /// From here the calls look at the other loop's tick.
    Migrate,
    /// The loop publishes out of turn.
    Publish,
    /// The timer is reset.
    Reset,
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![
        Just(0_u64),
        1..200_u64,
        1_000..100_000_u64,
        500_000..3_000_000_u64,
    ];
    let long = prop_oneof![
        1_000_000..20_000_000_000_u64,
        Just(u64::MAX / 3),
        Just(u64::MAX),
    ];
    let step = prop_oneof![
        8 => (gap.clone(), 1..400_u16).prop_map(|(gap, count)| Step::Calls { gap, count }),
        2 => (prop_oneof![4 => gap, 1 => long], any::<bool>())
            .prop_map(|(gap, ticker_sleeps)| Step::Stall { gap, ticker_sleeps }),
        1 => Just(Step::Migrate),
        1 => Just(Step::Publish),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec(step, 1..40)
}

pub(crate) fn configs() -> impl Strategy<Value = TimerConfig> {
    let period = prop_oneof![
        Just(0_u64),
        Just(1),
        1..5_000_u64,
        Just(1_000_000),
        Just(u64::MAX),
    ];
    let skip = prop_oneof![Just(0_u32), 1..20_u32, Just(10_000), Just(u32::MAX)];
    let least = prop_oneof![3 => Just(0_u64), 1 => 1..100_u64, 1 => Just(10_000_000)];
    (period, skip, least).prop_map(|(period, skip, least)| {
        TimerConfig::new()
            .period(Nanos::from_nanos(period))
            .greatest_skip(skip)
            .least_value(Nanos::from_nanos(least))
    })
}

/// Where the clock starts: anywhere, the end of its range included.
pub(crate) fn starts() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0_u64),
        Just(1_000_000_000_000),
        (0..3_000_000_u64).prop_map(|before| u64::MAX - before),
        any::<u64>(),
    ]
}

pub(crate) struct World {
    pub(crate) clock: ManualClock,
    ticks: [Tick; 2],
    due: [u64; 2],
    tau: u64,
    here: usize,
}

impl World {
    pub(crate) fn new(start: u64, tau: u64) -> Self {
        let clock = ManualClock::at(Instant::from_nanos(start));
        let world = Self {
            clock,
            ticks: [Tick::new(), Tick::new()],
            due: [start, start.saturating_add(tau / 2)],
            tau,
            here: 0,
        };
        world.ticks[0].publish(world.clock.now());
        world.ticks[1].publish(world.clock.now());
        world
    }

    pub(crate) fn tick(&self) -> &Tick {
        &self.ticks[self.here]
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    /// τ + δ, measured: how far the word that the next call will see lies
    /// behind the clock.
    pub(crate) fn staleness(&self) -> u64 {
        self.now() - self.tick().load()
    }

    /// Time passes; the loops publish when they are due, late by what is left
    /// of the gap.
    pub(crate) fn pass(&mut self, gap: u64) {
        self.clock.advance(Nanos::from_nanos(gap));
        let now = self.now();
        for (tick, due) in self.ticks.iter().zip(&mut self.due) {
            if now >= *due {
                tick.publish(self.clock.now());
                *due = now.saturating_add(self.tau);
            }
        }
    }

    /// Takes a step other than calls and resets.
    pub(crate) fn take(&mut self, step: &Step) {
        match *step {
            Step::Stall {
                gap,
                ticker_sleeps: true,
            } => self.clock.advance(Nanos::from_nanos(gap)),
            Step::Stall {
                gap,
                ticker_sleeps: false,
            } => self.pass(gap),
            Step::Migrate => self.here = 1 - self.here,
            Step::Publish => self.tick().publish(self.clock.now()),
            Step::Calls { .. } | Step::Reset => {}
        }
    }
}
