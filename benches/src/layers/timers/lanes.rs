//! Uniform timeouts, for which `LaneStore` is made.

use std::time::{Duration, Instant};

use rast::timers::{CalendarStore, LaneStore};

use super::LAYER;
use super::stores::{Binary, Deadlines, MILLI, Ordered};
#[cfg(all(rast_rivals, feature = "rivals"))]
use super::wheels;
use crate::harness::Scenario;
use crate::workers::Sample;

/// The time by which a contender is judged: that of one of the three operations, their mean, the
/// least, or the mean of arming and firing for a store that cannot cancel.
const ARM: usize = 0;
const CANCEL: usize = 1;
const FIRE: usize = 2;
const MEAN: usize = 3;
const CHEAPEST: usize = 4;
const ARM_AND_FIRE: usize = 5;

/// Which half of uniform timeouts is cancelled: the older one, or every other.
const OLDER: usize = 0;
const EVERY_OTHER: usize = 1;

/// The times of the three operations.
#[derive(Default)]
struct Spent {
    times: [Duration; 3],
    counts: [u64; 3],
}

impl Spent {
    fn add(&mut self, operation: usize, since: Instant, count: u64) {
        self.times[operation] += since.elapsed();
        self.counts[operation] += count;
    }

    fn sample(&self, by: usize) -> Sample {
        // 0 for an operation that was not done, because a heap cancels nothing.
        let per = |operation: usize| match self.counts[operation] {
            0 => 0.0,
            count => self.times[operation].as_nanos() as f64 / count as f64,
        };
        let each = [per(ARM), per(CANCEL), per(FIRE)];
        let measured = each.iter().copied().filter(|&ns| ns > 0.0);
        let sample = Sample::new(self.counts[ARM], self.times.iter().sum())
            .with("arm ns", each[ARM])
            .with("cancel ns", each[CANCEL])
            .with("fire ns", each[FIRE]);
        sample.judged_by(match by {
            MEAN => each.iter().sum::<f64>() / 3.0,
            CHEAPEST => measured.fold(f64::INFINITY, f64::min),
            ARM_AND_FIRE => (each[ARM] + each[FIRE]) / 2.0,
            one => each[one],
        })
    }
}

/// Deadlines from 30 ms on, one nanosecond apart.
fn timeouts<S: Deadlines>(store: &S, now: u64, count: usize) -> Vec<S::Time> {
    let turns = 0..count as u64;
    turns
        .map(|turn| store.time(now + 30 * MILLI + turn))
        .collect()
}

/// Lets all queued items fire, 40 ms later; returns how many.
#[inline(always)]
fn let_fire<S: Deadlines>(store: &mut S, now: u64) -> u64 {
    let end = store.time(now + 40 * MILLI);
    let (mut fired, mut more) = (0, true);
    while more {
        let (count, _, again) = store.expire(end);
        fired += count;
        more = again;
    }
    fired
}

/// Uniform timeouts, `N` at a time. In each round `arm_and_cancel` arms all of them, cancels half,
/// and returns how many it cancelled. Then the others fire.
#[inline(always)]
fn rounds<S: Deadlines, const N: usize>(
    ops: u64,
    mut arm_and_cancel: impl FnMut(&mut S, &[S::Time], &mut Spent) -> u64,
) -> Spent {
    let mut store = S::new(N);
    let rounds = (ops / N as u64).max(1);
    let mut spent = Spent::default();
    for round in 0..=rounds {
        let now = round * 40 * MILLI;
        let times = timeouts(&store, now, N);
        if round == 1 {
            // The first round allocates the memory, and does not count.
            spent = Spent::default();
        }
        let gone = arm_and_cancel(&mut store, &times, &mut spent);
        let before = Instant::now();
        let fired = let_fire(&mut store, now);
        spent.add(FIRE, before, fired);
        assert_eq!(gone + fired, N as u64);
    }
    spent
}

/// One by one: arms all, cancels half, lets the others fire. Each operation is timed.
fn uniform<S: Deadlines, const N: usize, const HALF: usize, const BY: usize>(ops: u64) -> Sample {
    let mut keys = Vec::with_capacity(N);
    let spent = rounds::<S, N>(ops, |store, times, spent| {
        let before = Instant::now();
        keys.extend(times.iter().map(|&at| store.insert(at, 1)));
        spent.add(ARM, before, N as u64);
        let is_cancelled = |index| match HALF {
            OLDER => index < N / 2,
            _ => index % 2 == 0,
        };
        let (mut leave, mut stay) = (Vec::with_capacity(N / 2), Vec::with_capacity(N / 2));
        for (index, key) in keys.drain(..).enumerate() {
            let to = if is_cancelled(index) {
                &mut leave
            } else {
                &mut stay
            };
            to.push(key);
        }
        let before = Instant::now();
        let gone: u64 = leave.drain(..).filter_map(|key| store.cancel(key)).sum();
        spent.add(CANCEL, before, gone);
        gone
    });
    spent.sample(BY)
}

/// The same by sixteens: arms all, cancels the older half, lets the others fire.
fn uniform_batches<S: Deadlines, const N: usize, const BY: usize>(ops: u64) -> Sample {
    const BATCH: usize = 16;
    let mut keys: Vec<_> = (0..N / BATCH).map(|_| Vec::with_capacity(BATCH)).collect();
    let spent = rounds::<S, N>(ops, |store, times, spent| {
        let before = Instant::now();
        for (times, keys) in times.chunks_exact(BATCH).zip(&mut keys) {
            store.insert_all(times, keys);
        }
        spent.add(ARM, before, N as u64);
        let (leave, stay) = keys.split_at_mut(N / BATCH / 2);
        let before = Instant::now();
        let gone: u64 = leave.iter_mut().map(|keys| store.cancel_all(keys)).sum();
        spent.add(CANCEL, before, gone);
        stay.iter_mut().for_each(Vec::clear);
        gone
    });
    spent.sample(BY)
}

macro_rules! lanes {
    ($name:literal, $run:ident $(, $arg:tt)*) => {{
        let scenario = Scenario::new(LAYER, $name, 2_000_000, 8_192)
            .ours("rast LaneStore, mean", $run::<LaneStore<u64> $(, $arg)*, MEAN>)
            .ours("rast LaneStore, arm and fire", $run::<LaneStore<u64> $(, $arg)*, ARM_AND_FIRE>)
            .ours("rast LaneStore, arm", $run::<LaneStore<u64> $(, $arg)*, ARM>)
            .ours("rast LaneStore, cancel", $run::<LaneStore<u64> $(, $arg)*, CANCEL>)
            .ours("rast LaneStore, fire", $run::<LaneStore<u64> $(, $arg)*, FIRE>)
            .ours("rast CalendarStore, mean", $run::<CalendarStore<u64> $(, $arg)*, MEAN>)
            .rival("std BTreeMap, cheapest", $run::<Ordered $(, $arg)*, CHEAPEST>)
            .rival("std BinaryHeap, cheapest", $run::<Binary $(, $arg)*, CHEAPEST>);
        #[cfg(all(rast_rivals, feature = "rivals"))]
        let scenario = scenario
            .rival(
                "hierarchical_hash_wheel_timer, cheapest",
                $run::<wheels::Hashed $(, $arg)*, CHEAPEST>,
            )
            .rival("bitwheel, cheapest", $run::<wheels::Bits $(, $arg)*, CHEAPEST>)
            .rival("nexus-timer, cheapest", $run::<wheels::Nexus $(, $arg)*, CHEAPEST>)
            .rival(
                "nexus-timer TimeoutQueue, cheapest",
                $run::<wheels::Timeouts $(, $arg)*, CHEAPEST>,
            );
        scenario
    }};
}

/// The scenarios of this file.
pub(super) fn scenarios() -> Vec<Scenario> {
    table! { lanes:
        ("uniform timeouts, 4096 at a time", uniform, 4096, OLDER)
        ("uniform timeouts, every other cancelled", uniform, 4096, EVERY_OTHER)
        ("uniform timeouts, by sixteens", uniform_batches, 4096)
    }
}
