//! The heap store against a `BTreeMap` ordered by (deadline, arrival).

use proptest::prelude::*;
use rast_timers::{DeadlineStore, Expired, Handle, HeapStore, Instant};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    Cancel(usize),
    Reschedule(usize, u64),
    PopDue,
    Expire(usize),
    /// Time moves, also back.
    Now(u64),
}

fn times() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0..40_u64,
        2 => 0..100_000_u64,
        1 => any::<u64>(),
        1 => Just(u64::MAX),
        1 => Just(u64::MAX - 1),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => times().prop_map(Op::Insert),
        3 => any::<usize>().prop_map(Op::Cancel),
        3 => (any::<usize>(), times()).prop_map(|(which, at)| Op::Reschedule(which, at)),
        2 => Just(Op::PopDue),
        2 => (0..6_usize).prop_map(Op::Expire),
        3 => times().prop_map(Op::Now),
    ];
    prop::collection::vec(op, 1..300)
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn heap_store_is_an_ordered_map(ops in ops()) {
        let mut store = HeapStore::new();
        let mut oracle = Oracle::default();
        let mut handles: Vec<Handle> = Vec::new();
        let (mut now, mut values) = (0_u64, 0_u32);
        for op in ops {
            match op {
                Op::Insert(at) => {
                    let handle = store.insert(Instant::from_nanos(at), values);
                    prop_assert!(!handles.contains(&handle), "no handle is given twice");
                    oracle.arrive(at, handle, values);
                    handles.push(handle);
                    values += 1;
                }
                Op::Cancel(which) if !handles.is_empty() => {
                    let handle = handles[which % handles.len()];
                    prop_assert_eq!(store.cancel(handle), oracle.leave(handle));
                    prop_assert_eq!(store.get(handle), None);
                }
                Op::Reschedule(which, at) if !handles.is_empty() => {
                    let handle = handles[which % handles.len()];
                    let value = oracle.leave(handle);
                    let there = store.reschedule(handle, Instant::from_nanos(at));
                    prop_assert_eq!(there, value.is_some());
                    if let Some(value) = value {
                        oracle.arrive(at, handle, value);
                        prop_assert_eq!(store.deadline(handle), Some(Instant::from_nanos(at)));
                        prop_assert_eq!(store.get(handle), Some(&value));
                    }
                }
                Op::Cancel(_) | Op::Reschedule(..) => {}
                Op::PopDue => {
                    prop_assert_eq!(store.pop_due(Instant::from_nanos(now)), oracle.pop_due(now));
                }
                Op::Expire(budget) => {
                    let mut got = Vec::new();
                    let done =
                        store.expire(Instant::from_nanos(now), budget, |due| got.push(due));
                    prop_assert_eq!(done, got.len());
                    let mut want = Vec::new();
                    while want.len() < budget {
                        let Some(due) = oracle.pop_due(now) else { break };
                        want.push(due);
                    }
                    prop_assert_eq!(got, want);
                }
                Op::Now(to) => now = to,
            }
            prop_assert_eq!(store.len(), oracle.waiting.len());
            prop_assert_eq!(store.next_deadline(), oracle.next().map(Instant::from_nanos));
            store.check_invariants();
        }
    }
}
