//! Deadline stores against maps, heaps and wheels.
//!
//! Every contender gets the same deadlines, converted to its own type of time before the measured
//! time. Every value that comes out is summed and checked.
//!
//! A wheel rounds a deadline up to its tick, and keeps no order below the tick. Our stores and the
//! maps do not round and keep the order, which is more work. So in scenarios in which timers fire,
//! the calendar takes part twice: once by `expire`, and once by `expire_unordered`, which does not
//! round either but does not sort.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hint::black_box;
use std::time::{Duration, Instant};

use rast::primitive::Random;
use rast::timers::{
    self, CalendarStore, DeadlineStore, FiringStore, Handle, HeapStore, LaneStore, Step,
};

use super::LAYER;
#[cfg(all(rast_rivals, feature = "rivals"))]
use super::wheels;
use crate::harness::Scenario;
use crate::histogram::Histogram;
use crate::workers::{Sample, alone};

pub(super) const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;

/// Budget of one call, for contenders that have a budget.
const BUDGET: usize = 64;

/// A store of deadlines.
pub(super) trait Deadlines {
    type Key;
    type Time: Copy;

    /// Makes a store with room for the given number of deadlines.
    fn new(room: usize) -> Self;

    /// Converts nanoseconds since the store was made.
    fn time(&self, at: u64) -> Self::Time;

    fn insert(&mut self, at: Self::Time, value: u64) -> Self::Key;

    /// Inserts the value 1 for each of `times`, and appends the keys to `keys`.
    #[inline]
    fn insert_all(&mut self, times: &[Self::Time], keys: &mut Vec<Self::Key>) {
        keys.extend(times.iter().map(|&at| self.insert(at, 1)));
    }

    fn cancel(&mut self, key: Self::Key) -> Option<u64>;

    /// Cancels all of `keys`; returns the sum of their values.
    fn cancel_all(&mut self, keys: &mut Vec<Self::Key>) -> u64 {
        keys.drain(..).filter_map(|key| self.cancel(key)).sum()
    }

    /// One call that expires due deadlines; returns their number, the sum of their values, and
    /// whether more are due.
    fn expire(&mut self, now: Self::Time) -> (u64, u64, bool);
}

macro_rules! ours {
    ($($store:ident)*) => {$(
        impl Deadlines for $store<u64> {
            type Key = Handle;
            type Time = timers::Instant;

            fn new(room: usize) -> Self {
                Self::with_capacity(room)
            }

            fn time(&self, at: u64) -> timers::Instant {
                timers::Instant::from_nanos(at)
            }

            #[inline]
            fn insert(&mut self, at: timers::Instant, value: u64) -> Handle {
                DeadlineStore::insert(self, at, value)
            }

            #[inline]
            fn insert_all(&mut self, times: &[timers::Instant], keys: &mut Vec<Handle>) {
                // As if each key had its place in what it belongs to.
                let first = keys.len();
                keys.resize(first + times.len(), Handle::new(0, 0));
                let mut places = keys[first..].iter_mut();
                let values = times.iter().map(|&at| (at, 1));
                DeadlineStore::insert_all(self, values, |key| {
                    if let Some(place) = places.next() {
                        *place = key;
                    }
                });
            }

            #[inline]
            fn cancel(&mut self, key: Handle) -> Option<u64> {
                DeadlineStore::cancel(self, key)
            }

            #[inline]
            fn cancel_all(&mut self, keys: &mut Vec<Handle>) -> u64 {
                let mut sum = 0;
                DeadlineStore::cancel_all(self, keys, |_, value| sum += value);
                keys.clear();
                sum
            }

            #[inline]
            fn expire(&mut self, now: timers::Instant) -> (u64, u64, bool) {
                let mut sum = 0_u64;
                let swept = DeadlineStore::expire(self, now, BUDGET, |due| {
                    sum = sum.wrapping_add(due.value);
                });
                (swept.fired as u64, sum, swept.more)
            }
        }
    )*};
}

ours!(CalendarStore FiringStore HeapStore LaneStore);

/// The calendar by `expire_unordered`, which has no order, like a wheel.
struct Unordered(CalendarStore<u64>);

impl Deadlines for Unordered {
    type Key = Handle;
    type Time = timers::Instant;

    fn new(room: usize) -> Self {
        Self(CalendarStore::with_capacity(room))
    }

    fn time(&self, at: u64) -> timers::Instant {
        timers::Instant::from_nanos(at)
    }

    #[inline]
    fn insert(&mut self, at: timers::Instant, value: u64) -> Handle {
        DeadlineStore::insert(&mut self.0, at, value)
    }

    #[inline]
    fn cancel(&mut self, key: Handle) -> Option<u64> {
        DeadlineStore::cancel(&mut self.0, key)
    }

    #[inline]
    fn expire(&mut self, now: timers::Instant) -> (u64, u64, bool) {
        let mut sum = 0_u64;
        let swept = self.0.expire_unordered(now, BUDGET, |due| {
            sum = sum.wrapping_add(due.value);
        });
        (swept.fired as u64, sum, swept.more)
    }
}

/// A store made of std: a map by deadline and serial number.
pub(super) struct Ordered {
    map: BTreeMap<(u64, u64), u64>,
    serial: u64,
}

impl Deadlines for Ordered {
    type Key = (u64, u64);
    type Time = u64;

    fn new(_room: usize) -> Self {
        Self {
            map: BTreeMap::new(),
            serial: 0,
        }
    }

    fn time(&self, at: u64) -> u64 {
        at
    }

    fn insert(&mut self, at: u64, value: u64) -> (u64, u64) {
        self.serial += 1;
        self.map.insert((at, self.serial), value);
        (at, self.serial)
    }

    fn cancel(&mut self, key: (u64, u64)) -> Option<u64> {
        self.map.remove(&key)
    }

    fn expire(&mut self, now: u64) -> (u64, u64, bool) {
        let (mut fired, mut sum) = (0, 0_u64);
        while let Some(entry) = self.map.first_entry()
            && entry.key().0 <= now
        {
            fired += 1;
            sum = sum.wrapping_add(entry.remove());
        }
        (fired, sum, false)
    }
}

/// A store made of std, for deadlines that are never cancelled.
pub(super) struct Binary {
    heap: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Deadlines for Binary {
    type Key = ();
    type Time = u64;

    fn new(room: usize) -> Self {
        Self {
            heap: BinaryHeap::with_capacity(room),
        }
    }

    fn time(&self, at: u64) -> u64 {
        at
    }

    fn insert(&mut self, at: u64, value: u64) {
        self.heap.push(Reverse((at, value)));
    }

    #[inline]
    fn insert_all(&mut self, times: &[u64], _keys: &mut Vec<()>) {
        self.heap.extend(times.iter().map(|&at| Reverse((at, 1))));
    }

    fn cancel(&mut self, (): ()) -> Option<u64> {
        None
    }

    fn expire(&mut self, now: u64) -> (u64, u64, bool) {
        let (mut fired, mut sum) = (0, 0_u64);
        while let Some(first) = self.heap.peek()
            && first.0.0 <= now
            && let Some(Reverse((_, value))) = self.heap.pop()
        {
            fired += 1;
            sum = sum.wrapping_add(value);
        }
        (fired, sum, false)
    }
}

/// The same pseudo-random numbers for every contender.
fn noise() -> impl Iterator<Item = u64> {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    std::iter::repeat_with(move || random.draw() >> 20)
}

/// Deadlines between a millisecond and thirty seconds from now.
fn spread<S: Deadlines>(store: &S, count: usize) -> Vec<S::Time> {
    let spread = noise().map(|random| store.time(MILLI + random % (30 * SECOND)));
    spread.take(count).collect()
}

/// Arms `N` deadlines, cancels all of them in the order of arming, and repeats this.
fn all<S: Deadlines, const N: usize>(ops: u64) -> Sample {
    let mut store = S::new(N);
    let times = spread(&store, N);
    let mut keys = Vec::with_capacity(N);
    let mut round = |times: &[S::Time]| {
        keys.extend(
            times
                .iter()
                .zip(0..)
                .map(|(&at, value)| store.insert(at, value)),
        );
        let gone = keys.drain(..).filter_map(|key| store.cancel(key));
        gone.fold(0_u64, u64::wrapping_add)
    };
    // The store allocates and touches its memory before the measured time.
    round(&times);
    let rounds = (ops as usize / N).max(1);
    alone(|| {
        for _ in 0..rounds {
            let count = N as u64;
            assert_eq!(round(&times), count * (count - 1) / 2);
        }
        (rounds * N) as u64
    })
}

/// While `N` deadlines are armed, cancels the oldest or any of them, and arms another one.
fn churn<S: Deadlines, const N: usize, const ANY: bool>(ops: u64) -> Sample {
    let mut store = S::new(N);
    let times = spread(&store, N);
    let mut keys: Vec<_> = times.iter().map(|&at| Some(store.insert(at, 1))).collect();
    let picks: Vec<u32> = noise()
        .enumerate()
        .map(|(turn, random)| (if ANY { random as usize % N } else { turn % N }) as u32)
        .take(ops as usize)
        .collect();
    alone(|| {
        let mut turn = 0;
        for &pick in &picks {
            let key = &mut keys[pick as usize];
            let gone = key.take().and_then(|key| store.cancel(key));
            assert_eq!(gone, Some(1));
            *key = Some(store.insert(times[turn], 1));
            turn += 1;
            if turn == N {
                turn = 0;
            }
        }
        ops
    })
}

/// While `N` deadlines are armed, cancels any sixteen of them, and arms sixteen others.
fn batches<S: Deadlines, const N: usize>(ops: u64) -> Sample {
    const BATCH: usize = 16;
    let mut store = S::new(N);
    let times = spread(&store, N);
    let mut keys: Vec<_> = times.iter().map(|&at| Some(store.insert(at, 1))).collect();
    let picks = noise().map(|random| random as usize % N);
    let picks: Vec<_> = picks.take(ops as usize).collect();
    let mut times = times.iter().cycle();
    let (mut batch, mut done) = (Vec::with_capacity(BATCH), 0);
    alone(|| {
        for picks in picks.chunks(BATCH) {
            batch.extend(picks.iter().filter_map(|&pick| keys[pick].take()));
            let count = batch.len() as u64;
            assert_eq!(store.cancel_all(&mut batch), count);
            done += count;
            for &pick in picks {
                // This index was drawn twice in one batch, so it is already armed again.
                if keys[pick].is_none() {
                    let &at = times.next().expect("they go round");
                    keys[pick] = Some(store.insert(at, 1));
                }
            }
        }
        done
    })
}

/// A mixed load: `expire` is called each millisecond. Four of five times, a deadline in 50 to 250
/// ms is armed; one of twenty times, one is cancelled.
fn mixed<S: Deadlines>(ops: u64) -> Sample {
    let mut store = S::new(1024);
    let times: Vec<_> = (0..ops + 300)
        .map(|milli| store.time(milli * MILLI))
        .collect();
    let mut keys = Vec::with_capacity(ops as usize);
    alone(|| {
        let (mut armed, mut done) = (0_u64, 0);
        for milli in 0..ops as usize {
            let mut more = true;
            while more {
                let (fired, _, again) = store.expire(times[milli]);
                done += fired;
                more = again;
            }
            if milli % 5 != 0 {
                armed += 1;
                keys.push(store.insert(times[milli + 50 + milli % 200], 1));
            }
            if milli % 20 == 0
                && let Some(key) = keys.pop()
            {
                done += store.cancel(key).unwrap_or(0);
            }
        }
        black_box(done);
        assert!(done <= armed);
        ops
    })
}

/// The shape of the deadlines of a run: at random over a second; one timeout for all, armed one
/// after the other within a millisecond; at random within a millisecond.
const DENSE: u8 = 0;
const UNIFORM: u8 = 1;
const SHUFFLED: u8 = 2;

/// What a run is judged by: the time per timer of all calls that had due timers, or the p99.99 of
/// the time of a call.
const WHOLE: u8 = 0;
const TAIL: u8 = 1;

/// Arms `N` deadlines. Then for each millisecond it calls `expire` until no more are due, and times
/// each call.
fn fire<S: Deadlines, const N: usize, const SHAPE: u8, const JUDGE: u8>(ops: u64) -> Sample {
    let mut calls = Histogram::new();
    let (mut done, mut whole) = (0, Duration::ZERO);
    let rounds = (ops / N as u64).max(1);
    let mut last = 0;
    for _ in 0..rounds {
        let mut store = S::new(N);
        let start = 100 * MILLI;
        let times: Vec<_> = noise()
            .enumerate()
            .map(|(index, random)| match SHAPE {
                DENSE => start + random % SECOND,
                UNIFORM => start + index as u64 * MILLI / N as u64,
                SHUFFLED => start + random % MILLI,
                _ => unreachable!("there are three shapes"),
            })
            .take(N)
            .collect();
        for &at in &times {
            // These timers are not cancelled, so the key can be dropped.
            drop(store.insert(store.time(at), at));
        }
        let (mut fired, mut sum, mut now) = (0, 0_u64, 0);
        while fired < N as u64 {
            now += MILLI;
            assert!(now < 4 * SECOND, "a deadline is lost");
            let time = store.time(now);
            let mut more = true;
            while more {
                let before = Instant::now();
                let (count, part, again) = store.expire(time);
                let spent = before.elapsed();
                calls.record(spent.as_nanos() as u64);
                if count > 0 || again {
                    whole += spent;
                }
                fired += count;
                sum = sum.wrapping_add(part);
                more = again;
            }
        }
        assert_eq!(
            sum,
            times.iter().fold(0, |sum: u64, at| sum.wrapping_add(*at))
        );
        done += fired;
        last = now;
    }
    let sample = Sample::new(done, whole)
        .with("call p50 ns", calls.quantile(0.5))
        .with("call p99 ns", calls.quantile(0.99))
        .with("call p99.99 ns", calls.quantile(0.9999))
        .with("last out at ms", last as f64 / MILLI as f64);
    if JUDGE == TAIL {
        sample.judged_by(calls.quantile(0.9999))
    } else {
        sample
    }
}

/// While `N` deadlines are armed, takes the next one and arms another one some time after it.
fn next<S: Deadlines<Time = timers::Instant> + DeadlineStore<u64>, const N: usize>(
    ops: u64,
) -> Sample {
    let mut store = <S as Deadlines>::new(N);
    let times = spread(&store, N);
    for at in times {
        DeadlineStore::insert(&mut store, at, 0);
    }
    let spans: Vec<u64> = noise().take(ops as usize).collect();
    alone(|| {
        for span in &spans {
            let due = loop {
                match store.step(timers::Instant::from_nanos(u64::MAX)) {
                    Step::Due(due) => break due,
                    Step::Busy => {}
                    Step::Idle => unreachable!("thousands stand"),
                }
            };
            let at = due.at.as_nanos() + MILLI + span % (30 * SECOND);
            DeadlineStore::insert(&mut store, timers::Instant::from_nanos(at), 0);
        }
        ops
    })
}

/// The same for std's heap and map.
fn next_std<const N: usize, const MAP: bool>(ops: u64) -> Sample {
    let mut map = Ordered::new(N);
    let mut heap = Binary::new(N);
    for at in noise().take(N).map(|random| MILLI + random % (30 * SECOND)) {
        if MAP {
            map.insert(at, 0);
        } else {
            heap.insert(at, 0);
        }
    }
    let spans: Vec<u64> = noise().take(ops as usize).collect();
    alone(|| {
        for span in &spans {
            let first = if MAP {
                map.map.pop_first().map(|(key, _)| key.0)
            } else {
                heap.heap.pop().map(|Reverse(first)| first.0)
            };
            let at = first.expect("thousands stand") + MILLI + span % (30 * SECOND);
            if MAP {
                map.insert(at, 0);
            } else {
                heap.insert(at, 0);
            }
        }
        ops
    })
}

macro_rules! cancelling {
    ($name:literal, $run:ident $(, $arg:tt)*) => {{
        let scenario = Scenario::new(LAYER, $name, 2_000_000, 2_000)
            .ours("rast CalendarStore", $run::<CalendarStore<u64> $(, $arg)*>)
            .ours("rast HeapStore", $run::<HeapStore<u64> $(, $arg)*>)
            .rival("std BTreeMap", $run::<Ordered $(, $arg)*>);
        #[cfg(all(rast_rivals, feature = "rivals"))]
        let scenario = scenario
            .rival("tokio-util DelayQueue", $run::<wheels::Delays $(, $arg)*>)
            .rival("hierarchical_hash_wheel_timer", $run::<wheels::Hashed $(, $arg)*>)
            .rival("bitwheel", $run::<wheels::Bits $(, $arg)*>)
            .rival("nexus-timer", $run::<wheels::Nexus $(, $arg)*>);
        scenario
    }};
}

macro_rules! firing {
    ($name:literal, $run:ident $(, $arg:tt)*) => {{
        let scenario = Scenario::new(LAYER, $name, 500_000, 2_000)
            .ours("rast CalendarStore, unordered", $run::<Unordered $(, $arg)*>)
            .ours("rast CalendarStore", $run::<CalendarStore<u64> $(, $arg)*>)
            .ours("rast FiringStore", $run::<FiringStore<u64> $(, $arg)*>)
            .rival("std BTreeMap", $run::<Ordered $(, $arg)*>)
            .rival("std BinaryHeap", $run::<Binary $(, $arg)*>);
        #[cfg(all(rast_rivals, feature = "rivals"))]
        let scenario = scenario
            .rival("hierarchical_hash_wheel_timer", $run::<wheels::Hashed $(, $arg)*>)
            .rival("bitwheel", $run::<wheels::Bits $(, $arg)*>)
            .rival("nexus-timer", $run::<wheels::Nexus $(, $arg)*>);
        scenario
    }};
}

/// The calendar's cost by the number of stored deadlines, with all numbers in one round. In the
/// other scenarios each number is a scenario of its own, which runs minutes after the others.
macro_rules! populations {
    ($name:literal, $($row:literal => $run:expr),+ $(,)?) => {
        Scenario::new(LAYER, $name, 2_000_000, 2_000)
            $(.ours(concat!("rast CalendarStore, ", $row), $run))+
    };
}

/// The scenarios of this file.
pub(super) fn scenarios() -> Vec<Scenario> {
    let mut scenarios = table! { cancelling:
        ("64 deadlines: arm all, cancel all", all, 64)
        ("4096 deadlines: arm all, cancel all", all, 4096)
        ("65 536 deadlines: arm all, cancel all", all, 65_536)
        ("1 000 000 deadlines: arm all, cancel all", all, 1_000_000)
        ("64 deadlines: cancel the oldest, arm one", churn, 64, false)
        ("4096 deadlines: cancel the oldest, arm one", churn, 4096, false)
        ("1 000 000 deadlines: cancel the oldest, arm one", churn, 1_000_000, false)
        ("64 deadlines: cancel any, arm one", churn, 64, true)
        ("1 000 000 deadlines: cancel any, arm one", churn, 1_000_000, true)
        ("1 000 000 deadlines: cancel any sixteen, arm sixteen", batches, 1_000_000)
    };
    scenarios.extend([
        populations!(
            "by population: arm all, cancel all",
            "64" => all::<CalendarStore<u64>, 64>,
            "4096" => all::<CalendarStore<u64>, 4096>,
            "65 536" => all::<CalendarStore<u64>, 65_536>,
            "1 000 000" => all::<CalendarStore<u64>, 1_000_000>,
        ),
        populations!(
            "by population: cancel the oldest, arm one",
            "64" => churn::<CalendarStore<u64>, 64, false>,
            "4096" => churn::<CalendarStore<u64>, 4096, false>,
            "1 000 000" => churn::<CalendarStore<u64>, 1_000_000, false>,
        ),
        populations!(
            "by population: cancel any, arm one",
            "64" => churn::<CalendarStore<u64>, 64, true>,
            "1 000 000" => churn::<CalendarStore<u64>, 1_000_000, true>,
            "1 000 000, by sixteens" => batches::<CalendarStore<u64>, 1_000_000>,
        ),
    ]);
    scenarios.extend(table! { firing:
        ("mixed, a turn each millisecond", mixed)
        ("100 000 deadlines over a second", fire, 100_000, DENSE, WHOLE)
        ("100 000 of one timeout, time by timer", fire, 100_000, UNIFORM, WHOLE)
        ("100 000 of one timeout, p99.99 of a call", fire, 100_000, UNIFORM, TAIL)
        ("100 000 within a millisecond, time by timer", fire, 100_000, SHUFFLED, WHOLE)
        ("100 000 within a millisecond, p99.99 of a call", fire, 100_000, SHUFFLED, TAIL)
    });
    scenarios.push(
        Scenario::new(
            LAYER,
            "4096 deadlines: take the next, arm one",
            2_000_000,
            2_000,
        )
        .ours("rast FiringStore", next::<FiringStore<u64>, 4096>)
        .ours("rast HeapStore", next::<HeapStore<u64>, 4096>)
        .ours("rast CalendarStore", next::<CalendarStore<u64>, 4096>)
        .rival("std BinaryHeap", next_std::<4096, false>)
        .rival("std BTreeMap", next_std::<4096, true>),
    );
    scenarios
}
