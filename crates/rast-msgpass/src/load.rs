//! The load figures of one instance in one window of time, for the balancer: busy time, and the
//! senders of its messages.
//!
//! Senders with a ring of their own are counted exactly. Senders that share an inbox are counted in
//! a table of fixed size, which finds those with much traffic (Boyer and Moore's majority vote, one
//! per entry). An entry counts the messages of one sender. A message of another sender that maps to
//! the entry decreases the count by one. At zero the entry passes to that sender. So if a thousand
//! senders have equal traffic, their counts are near zero. Larger counts of such senders would not
//! help a balancer. Only one of eight messages is counted, and the report multiplies the counts by
//! eight.
//!
//! The time of turns is an estimate (see [`StartFinishTimer`]). In a graph with many instances, a
//! reading of the clock in each turn would make a message cost a fifth more. So the more instances
//! a graph has, the fewer of its turns an instance measures.

use crate::clock::GraphClock;
use crate::own::{OwnSlice, own_slice};
use crate::sharder::{LoadReport, ShardId};
use crate::timers::{Guard, Instant, Nanos, StartFinishTimer, Tick, TimerConfig};

/// Number of senders that are counted per inbox.
const PLACES: usize = 16;

/// One of so many messages of an inbox is counted: the counts are on a cache line of their own.
const ONE_IN: u32 = 8;

/// Returns `true` if the message of an inbox that comes after this number of handler calls is
/// counted. The products are spread evenly, also those of every n-th call, so no sender is counted
/// more often than another one because messages come in a fixed order.
#[inline]
pub(crate) fn is_counted(invocation: u64) -> bool {
    const SHIFT: u32 = u64::BITS - ONE_IN.trailing_zeros();
    invocation.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> SHIFT == 0
}

/// Time between two measured turns of an instance, in a graph of up to [`INSTANCES`].
const PERIOD: Nanos = Nanos::from_millis(1);

/// Number of instances up to which each measures a turn per [`PERIOD`]. In a larger graph the
/// period is longer in proportion, so as many turns are measured as before.
const INSTANCES: usize = 64;

/// Maximum period, in [`PERIOD`]s: several turns of an instance are measured in a window of the
/// default length, 100 ms.
const PERIODS: usize = 16;

/// Number of lower bits of the tick that timers of turns leave out: 2^22 ns are 4 ms.
const BITS: u32 = 22;

/// A worker's tick without its lower bits.
///
/// A timer reads the clock in a turn if the word differs from the word of the previous turn. The
/// tick changes every 10 µs, about as long as a pass over 64 ready instances takes. If the word
/// were the whole tick, each instance would read the clock in most of its turns. `BITS` is a
/// constant, because each turn executes two shifts.
struct Coarse<'a>(&'a Tick);

impl Guard for Coarse<'_> {
    #[inline(always)]
    fn word(&self) -> u64 {
        self.0.load() >> BITS
    }

    #[inline]
    fn vouches(&self, word: u64, now: Instant) -> bool {
        word << BITS <= now.as_nanos()
    }
}

/// Measures the turns of an instance.
#[derive(Debug)]
pub(crate) struct TurnTimer(StartFinishTimer<GraphClock>);

impl TurnTimer {
    /// Makes a timer for one of `instances` instances.
    fn new(clock: GraphClock, instances: usize) -> Self {
        let periods = (instances / INSTANCES).clamp(1, PERIODS);
        let config = TimerConfig::new().period(PERIOD.saturating_mul(periods as u64));
        Self(StartFinishTimer::new(clock, config))
    }

    /// Starts a turn.
    #[inline]
    pub(crate) fn start(&mut self, tick: &Tick) {
        self.0.start(&Coarse(tick));
    }

    /// Finishes a turn; returns its duration if it was measured.
    #[inline]
    pub(crate) fn finish(&mut self, tick: &Tick) -> Option<Nanos> {
        self.0.finish(&Coarse(tick))
    }
}

/// The senders into an input of an instance.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Route {
    /// Outside threads.
    Outside,
    /// One shard.
    One(ShardId),
    /// The shards from this one on.
    Many(ShardId),
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    sender: u32,
    messages: u32,
}

/// The figures of one input.
#[derive(Debug)]
pub(crate) enum Input {
    Outside,
    One(u64),
    Many(Box<[Entry; PLACES]>),
}

impl Input {
    /// Counts messages of the one sender.
    #[inline]
    pub(crate) fn add(&mut self, messages: u64) {
        if let Self::One(count) = self {
            *count += messages;
        }
    }

    /// Counts a message of one of many senders, if [`is_counted`] selects it.
    #[inline]
    pub(crate) fn add_from(&mut self, sender: u32) {
        let Self::Many(entries) = self else {
            return;
        };
        let entry = &mut entries[sender as usize % PLACES];
        if entry.sender == sender {
            entry.messages = entry.messages.saturating_add(1);
        } else if entry.messages > 0 {
            entry.messages -= 1;
        } else {
            *entry = Entry {
                sender,
                messages: 1,
            };
        }
    }
}

/// The figures of one instance. A turn without a reading of the clock accesses only the first
/// fields of the timer, and `inputs` if its input has one sender.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Load {
    pub(crate) timer: TurnTimer,
    /// The busy time of earlier windows.
    earlier: Nanos,
    pub(crate) inputs: OwnSlice<Input>,
}

impl Load {
    /// Makes the figures of one of `instances` instances.
    pub(crate) fn new(routes: &[Route], clock: GraphClock, instances: usize) -> Self {
        let input = |route: &Route| match route {
            Route::Outside => Input::Outside,
            Route::One(_) => Input::One(0),
            Route::Many(_) => Input::Many(Box::new([Entry::default(); PLACES])),
        };
        Self {
            timer: TurnTimer::new(clock, instances),
            inputs: own_slice(routes.iter().map(input)),
            earlier: Nanos::ZERO,
        }
    }

    pub(crate) fn restart(&mut self) {
        self.earlier = self.busy_in_all();
        self.timer.0.reset();
        for input in self.inputs.iter_mut() {
            match input {
                Input::Outside => {}
                Input::One(count) => *count = 0,
                Input::Many(entries) => entries.fill(Entry::default()),
            }
        }
    }

    pub(crate) fn busy(&self) -> Nanos {
        self.timer.0.sum()
    }

    /// The busy time of all windows.
    #[inline]
    pub(crate) fn busy_in_all(&self) -> Nanos {
        self.earlier.saturating_add(self.timer.0.sum())
    }

    /// Reports the senders.
    pub(crate) fn report(&self, routes: &[Route], out: &mut LoadReport<'_>) {
        for (route, input) in routes.iter().zip(self.inputs.iter()) {
            match (*route, input) {
                (Route::One(from), Input::One(messages)) => out.received(from, *messages),
                (Route::Many(first), Input::Many(entries)) => {
                    for entry in entries.iter().filter(|entry| entry.messages > 0) {
                        let from = ShardId::from_index(first.index() + entry.sender as usize);
                        out.received(from, u64::from(entry.messages) * u64::from(ONE_IN));
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;
    use crate::primitive::sync::Arc;
    use crate::primitive::sync::atomic::{AtomicU64, Ordering};
    use crate::timers::{Clock, ManualClock};

    #[test]
    fn a_heavy_sender_is_found_among_many() {
        let clock = GraphClock::new(ManualClock::new());
        let mut load = Load::new(&[Route::Many(ShardId::from_index(0))], clock, 1);
        for round in 0..1000 {
            load.inputs[0].add_from(round % 999);
            load.inputs[0].add_from(5);
        }
        let Input::Many(entries) = &load.inputs[0] else {
            panic!("many senders share the input");
        };
        let most = entries.iter().max_by_key(|entry| entry.messages);
        assert!(most.is_some_and(|entry| entry.sender == 5 && entry.messages > 900));
        assert!(entries.iter().filter(|entry| entry.messages > 20).count() == 1);
    }

    #[test]
    fn messages_are_counted_in_proportion_whatever_their_period_is() {
        for period in 1..40 {
            let invocations = (0..10_000).map(|at| 3 + at * period);
            let counted = invocations.filter(|&at| is_counted(at)).count() as u32;
            let apart = (counted * ONE_IN).abs_diff(10_000);
            assert!(apart < 200, "{counted} of every {period}th");
        }
    }

    /// A clock that counts its readings.
    #[derive(Clone)]
    struct Counted(ManualClock, Arc<AtomicU64>);

    impl Clock for Counted {
        fn now(&self) -> Instant {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.now()
        }
    }

    /// Runs instances of one worker for 200 ms, in turns of 400 ns, and asserts that each busy time
    /// is right. Returns the number of turns per clock reading.
    fn turns_per_reading(instances: usize) -> u64 {
        const TURN: Nanos = Nanos::from_nanos(400);
        let (clock, readings) = (ManualClock::new(), Arc::new(AtomicU64::new(0)));
        let counted = GraphClock::new(Counted(clock.clone(), Arc::clone(&readings)));
        let mut loads: Vec<_> = (0..instances)
            .map(|_| Load::new(&[], counted.clone(), instances))
            .collect();
        let tick = Tick::new();
        let turns: u64 = 500_000;
        for turn in 0..turns {
            // Published every 10 µs.
            if turn.is_multiple_of(25) {
                tick.publish(clock.now());
            }
            let at = turn as usize % instances;
            loads[at].timer.start(&tick);
            clock.advance(TURN);
            loads[at].timer.finish(&tick);
        }
        for load in &loads {
            let (busy, each) = (load.busy().as_nanos(), turns / instances as u64);
            let apart = busy.abs_diff(each * TURN.as_nanos());
            assert!(apart <= TURN.as_nanos(), "{busy} ns in {each} turns");
        }
        turns / readings.load(Ordering::Relaxed)
    }

    #[test]
    fn turns_of_many_instances_rarely_read_the_clock() {
        // A measured turn takes two readings, and there is one per 4 ms. The turns of one of 64
        // instances are 26 µs apart, and a batch has 29 of them on average: 2 / 29 + 26 / 4,194
        // readings per turn. With 1,000 instances they are 400 µs apart, and 28 are a batch.
        for (instances, least) in [(1, 100), (64, 12), (256, 8), (1_000, 5)] {
            let turns = turns_per_reading(instances);
            assert!(
                turns >= least,
                "{instances} instances: {turns} turns per reading"
            );
        }
    }
}
