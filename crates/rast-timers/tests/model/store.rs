//! Each store against a `BTreeMap` ordered by (deadline, arrival).

use proptest::prelude::*;
use rast_timers::{
    CalendarStore, DeadlineStore, Expired, FiringStore, Handle, HeapStore, Instant, LaneStore,
    Nanos, Step,
};
use std::collections::BTreeMap;

/// A store under test, with what only tests may ask.
trait Tested: DeadlineStore<u32> {
    /// Whether `next_deadline` is the earliest deadline.
    const EXACT: bool;
    fn new() -> Self;
    fn check(&self);
}

impl Tested for HeapStore<u32> {
    const EXACT: bool = true;
    fn new() -> Self {
        Self::new()
    }
    fn check(&self) {
        self.check_invariants();
    }
}

impl Tested for CalendarStore<u32> {
    const EXACT: bool = false;
    fn new() -> Self {
        Self::new()
    }
    fn check(&self) {
        self.check_invariants();
    }
}

impl Tested for LaneStore<u32> {
    const EXACT: bool = false;
    fn new() -> Self {
        Self::new()
    }
    fn check(&self) {
        self.check_invariants();
    }
}

impl Tested for FiringStore<u32> {
    const EXACT: bool = false;
    fn new() -> Self {
        Self::new()
    }
    fn check(&self) {
        self.check_invariants();
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    /// So many at about one time, in order if `u8` is even.
    Cluster(u64, u8),
    /// So many at once, so far from one to the next, then one that lies before.
    InsertAll(u64, u8, u64),
    Within(u64, u64),
    Cancel(usize),
    /// So many handles from one on, those that have left among them.
    CancelAll(usize, usize),
    Reschedule(usize, u64),
    PopDue,
    Expire(usize),
    Unordered(usize),
    /// Time moves, also back.
    Now(u64),
    Clear,
}

fn times() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0..40_u64,
        2 => 0..100_000_u64,
        1 => (0..64_u32).prop_map(|bit| 1 << bit),
        1 => (1..64_u32).prop_map(|bit| (1 << bit) - 1),
        1 => any::<u64>(),
        1 => Just(u64::MAX),
        1 => Just(u64::MAX - 1),
    ]
}

fn budgets() -> impl Strategy<Value = usize> {
    prop_oneof![0..6_usize, 0..300_usize]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => times().prop_map(Op::Insert),
        1 => (times(), any::<u8>()).prop_map(|(at, count)| Op::Cluster(at, count)),
        1 => (times(), any::<u8>(), 0..3_u64).prop_map(|(at, count, step)| Op::InsertAll(at, count, step)),
        1 => (times(), times()).prop_map(|(at, slack)| Op::Within(at, slack)),
        3 => any::<usize>().prop_map(Op::Cancel),
        1 => (any::<usize>(), 0..40_usize).prop_map(|(from, count)| Op::CancelAll(from, count)),
        3 => (any::<usize>(), times()).prop_map(|(which, at)| Op::Reschedule(which, at)),
        2 => Just(Op::PopDue),
        3 => budgets().prop_map(Op::Expire),
        2 => budgets().prop_map(Op::Unordered),
        3 => times().prop_map(Op::Now),
        1 => (0..8_u8).prop_map(|rare| if rare == 0 { Op::Clear } else { Op::PopDue }),
    ];
    prop::collection::vec(op, 1..120)
}

/// What the store should be: (deadline, arrival) to (handle, value).
#[derive(Default)]
struct Oracle {
    waiting: BTreeMap<(u64, u64), (Handle, u32)>,
    arrivals: u64,
}

impl Oracle {
    fn arrive(&mut self, at: u64, handle: Handle, value: u32) {
        self.waiting.insert((at, self.arrivals), (handle, value));
        self.arrivals += 1;
    }

    fn leave(&mut self, handle: Handle) -> Option<u32> {
        let key = *self.waiting.iter().find(|(_, entry)| entry.0 == handle)?.0;
        self.waiting.remove(&key).map(|entry| entry.1)
    }

    fn next(&self) -> Option<u64> {
        let at = self.waiting.keys().next()?.0;
        (at != u64::MAX).then_some(at)
    }

    fn pop_due(&mut self, now: u64) -> Option<Expired<u32>> {
        let at = self.next().filter(|&at| at <= now)?;
        let (_, (handle, value)) = self.waiting.pop_first()?;
        Some(Expired {
            at: Instant::from_nanos(at),
            handle,
            value,
        })
    }
}

/// Takes the stores through the operations.
struct Run<S> {
    store: S,
    oracle: Oracle,
    /// Every handle given, and the oracle's name for its value.
    handles: Vec<Handle>,
    now: u64,
    values: u32,
}

impl<S: Tested> Run<S> {
    fn insert(&mut self, at: u64) {
        let handle = self.store.insert(Instant::from_nanos(at), self.values);
        self.arrived(at, handle);
    }

    fn arrived(&mut self, at: u64, handle: Handle) {
        assert!(!self.handles.contains(&handle), "no handle is given twice");
        self.oracle.arrive(at, handle, self.values);
        self.handles.push(handle);
        self.values += 1;
    }

    fn take(&mut self, op: Op) {
        let now = Instant::from_nanos(self.now);
        match op {
            Op::Insert(at) => self.insert(at),
            Op::Cluster(at, count) => {
                for index in 0..u64::from(count) {
                    let step = if count % 2 == 0 {
                        index
                    } else {
                        index * 37 % 64
                    };
                    self.insert(at.saturating_add(step));
                }
            }
            Op::InsertAll(at, count, step) => {
                let times = (0..u64::from(count)).map(|index| at.saturating_add(index * step));
                let times: Vec<_> = times.chain([at / 2, at]).collect();
                let values = times.iter().zip(self.values..);
                let values = values.map(|(&at, value)| (Instant::from_nanos(at), value));
                let mut handles = Vec::new();
                let count = self.store.insert_all(values, |handle| handles.push(handle));
                assert_eq!((count, handles.len()), (times.len(), times.len()));
                for (at, handle) in times.into_iter().zip(handles) {
                    self.arrived(at, handle);
                }
            }
            Op::Within(at, slack) => {
                let (from, slack) = (Instant::from_nanos(at), Nanos::from_nanos(slack));
                let handle = self.store.insert_within(from, slack, self.values);
                let rounded = from.within(slack);
                assert!(from <= rounded && rounded <= from.saturating_add(slack));
                assert_eq!(rounded == Instant::MAX, from == Instant::MAX);
                self.arrived(rounded.as_nanos(), handle);
            }
            Op::Cancel(which) if !self.handles.is_empty() => {
                let handle = self.handles[which % self.handles.len()];
                assert_eq!(self.store.cancel(handle), self.oracle.leave(handle));
                assert_eq!(self.store.cancel(handle), None);
            }
            Op::Reschedule(which, at) if !self.handles.is_empty() => {
                let handle = self.handles[which % self.handles.len()];
                let value = self.oracle.leave(handle);
                let moved = self.store.reschedule(handle, Instant::from_nanos(at));
                assert_eq!(moved.is_some(), value.is_some());
                if let (Some(value), Some(moved)) = (value, moved) {
                    assert!(moved == handle || !self.handles.contains(&moved));
                    self.oracle.arrive(at, moved, value);
                    self.handles.push(moved);
                }
            }
            Op::Cancel(_) | Op::Reschedule(..) => {}
            Op::CancelAll(from, count) => {
                let from = from % (self.handles.len() + 1);
                let to = self.handles.len().min(from + count);
                let (mut got, mut want) = (Vec::new(), Vec::new());
                for &handle in &self.handles[from..to] {
                    want.extend(self.oracle.leave(handle).map(|value| (handle, value)));
                }
                let each = |handle, value| got.push((handle, value));
                let gone = self.store.cancel_all(&self.handles[from..to], each);
                assert_eq!((gone, &got), (want.len(), &want));
            }
            Op::PopDue => {
                assert_eq!(self.store.pop_due(now), self.oracle.pop_due(self.now));
            }
            Op::Expire(budget) => self.expire(now, budget),
            Op::Unordered(budget) => self.expire_unordered(now, budget),
            Op::Now(to) => self.now = to,
            Op::Clear => {
                self.store.clear();
                self.oracle.waiting.clear();
                assert_eq!(self.store.next_deadline(), None);
            }
        }
        assert_eq!(self.store.len(), self.oracle.waiting.len());
        let next = self.store.next_deadline();
        let want = self.oracle.next().map(Instant::from_nanos);
        if S::EXACT {
            assert_eq!(next, want);
        } else if let Some(want) = want {
            assert!(next.is_some_and(|next| next <= want), "a lower bound");
        }
        self.store.check();
    }

    fn expire(&mut self, now: Instant, budget: usize) {
        let mut got = Vec::new();
        let swept = self.store.expire(now, budget, |due| got.push(due));
        assert_eq!(swept.fired, got.len());
        let due = std::iter::from_fn(|| self.oracle.pop_due(self.now));
        let want: Vec<_> = due.take(got.len()).collect();
        assert_eq!(got, want);
        if !swept.more {
            assert_eq!(self.oracle.pop_due(self.now), None);
            assert!(self.store.next_deadline().is_none_or(|next| next > now));
        }
    }

    /// Any of those that are due may leave, each once, and in the end all.
    fn expire_unordered(&mut self, now: Instant, budget: usize) {
        let mut got = Vec::new();
        let swept = self
            .store
            .expire_unordered(now, budget, |due| got.push(due));
        assert_eq!(swept.fired, got.len());
        assert!(got.len() <= budget, "a unit for each value");
        for due in got {
            let entry = self.oracle.waiting.iter();
            let mut entry = entry.filter(|(_, entry)| entry.0 == due.handle);
            let (&key, &(_, value)) = entry.next().expect("it waited, until now");
            assert_eq!((due.at.as_nanos(), due.value), (key.0, value));
            assert!(due.at <= now && due.at < Instant::MAX, "not early");
            self.oracle.waiting.remove(&key);
        }
        if !swept.more {
            assert_eq!(self.oracle.pop_due(self.now), None);
            assert!(self.store.next_deadline().is_none_or(|next| next > now));
        }
    }
}

fn run<S: Tested>(ops: Vec<Op>) {
    let mut run = Run {
        store: S::new(),
        oracle: Oracle::default(),
        handles: Vec::new(),
        now: 0,
        values: 0,
    };
    for op in ops {
        run.take(op);
    }
    // All of it leaves in order in the end, by steps.
    run.now = u64::MAX;
    let mut idle = false;
    while !idle {
        match run.store.step(Instant::MAX) {
            Step::Due(due) => assert_eq!(Some(due), run.oracle.pop_due(u64::MAX)),
            Step::Busy => {}
            Step::Idle => idle = true,
        }
    }
    assert_eq!(run.oracle.pop_due(u64::MAX), None);
    assert_eq!(run.store.len(), run.oracle.waiting.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn heap_store_is_an_ordered_map(ops in ops()) {
        run::<HeapStore<u32>>(ops);
    }

    #[test]
    fn calendar_store_is_an_ordered_map(ops in ops()) {
        run::<CalendarStore<u32>>(ops);
    }

    #[test]
    fn lane_store_is_an_ordered_map(ops in ops()) {
        run::<LaneStore<u32>>(ops);
    }

    #[test]
    fn firing_store_is_an_ordered_map(ops in ops()) {
        run::<FiringStore<u32>>(ops);
    }
}
