//! Deadline stores against an ordered map.

use std::collections::BTreeMap;

use rast::timers::{self, DeadlineStore, Handle, HeapStore};

use super::LAYER;
use crate::harness::Scenario;
use crate::workers::{Sample, alone};

/// Deadlines that stand while others come and go.
const STANDING: usize = 10_000;

/// The same pseudo-random deadlines for every contender.
fn deadlines() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(0x9e37_79b9_7f4a_7c15_u64), |last| {
        let mut next = *last;
        next ^= next << 13;
        next ^= next >> 7;
        next ^= next << 17;
        Some(next)
    })
    .map(|random| random >> 30)
}

/// A store of deadlines that can be cancelled.
trait Deadlines {
    type Key: Copy;
    fn new() -> Self;
    fn insert(&mut self, at: u64, value: u64) -> Self::Key;
    fn cancel(&mut self, key: Self::Key) -> Option<u64>;
    fn pop(&mut self) -> Option<u64>;
}

impl Deadlines for HeapStore<u64> {
    type Key = Handle;

    fn new() -> Self {
        Self::new()
    }

    fn insert(&mut self, at: u64, value: u64) -> Handle {
        DeadlineStore::insert(self, timers::Instant::from_nanos(at), value)
    }

    fn cancel(&mut self, key: Handle) -> Option<u64> {
        DeadlineStore::cancel(self, key)
    }

    fn pop(&mut self) -> Option<u64> {
        self.pop_due(timers::Instant::from_nanos(u64::MAX))
            .map(|expired| expired.value)
    }
}

/// What std has: a map by deadline and serial number.
struct Ordered {
    map: BTreeMap<(u64, u64), u64>,
    serial: u64,
}

impl Deadlines for Ordered {
    type Key = (u64, u64);

    fn new() -> Self {
        Self {
            map: BTreeMap::new(),
            serial: 0,
        }
    }

    fn insert(&mut self, at: u64, value: u64) -> (u64, u64) {
        self.serial += 1;
        self.map.insert((at, self.serial), value);
        (at, self.serial)
    }

    fn cancel(&mut self, key: (u64, u64)) -> Option<u64> {
        self.map.remove(&key)
    }

    fn pop(&mut self) -> Option<u64> {
        self.map.pop_first().map(|(_, value)| value)
    }
}

/// A store with its standing deadlines, and their keys.
fn standing<S: Deadlines>(source: &mut impl Iterator<Item = u64>) -> (S, Vec<S::Key>) {
    let mut store = S::new();
    let keys = source
        .take(STANDING)
        .map(|at| store.insert(at, at))
        .collect();
    (store, keys)
}

/// Cancels the oldest deadline and arms another one: the life of a time-out that never fires.
fn rearm<S: Deadlines>(ops: u64) -> Sample {
    let mut source = deadlines();
    let (mut store, mut keys) = standing::<S>(&mut source);
    alone(|| {
        for (round, at) in (0..ops).zip(source) {
            let key = &mut keys[round as usize % STANDING];
            assert!(store.cancel(*key).is_some());
            *key = store.insert(at, at);
        }
        ops
    })
}

/// Takes the next deadline and arms another one, some time after it.
fn fire<S: Deadlines>(ops: u64) -> Sample {
    let mut source = deadlines();
    let (mut store, _) = standing::<S>(&mut source);
    alone(|| {
        for (_, span) in (0..ops).zip(source) {
            let at = store.pop().expect("thousands stand") + span;
            store.insert(at, at);
        }
        ops
    })
}

/// The scenarios of this file.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            LAYER,
            "10 000 deadlines: cancel one, arm one",
            3_000_000,
            1000,
        )
        .ours("rast HeapStore", rearm::<HeapStore<u64>>)
        .rival("std BTreeMap", rearm::<Ordered>),
        Scenario::new(
            LAYER,
            "10 000 deadlines: take the next, arm one",
            3_000_000,
            1000,
        )
        .ours("rast HeapStore", fire::<HeapStore<u64>>)
        .rival("std BTreeMap", fire::<Ordered>),
    ]
}
