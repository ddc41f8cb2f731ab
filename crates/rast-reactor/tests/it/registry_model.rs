//! Random commits and transactions on two reactors, each read compared with a plain map.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::support::{LONG, Live, Value, on, reactors};
use proptest::prelude::*;
use rast_reactor::executor::yield_now;
use rast_reactor::reactor_task;
use rast_reactor::registry::{Changes, Id, NotCommitted, Read, Refusal, change, read};

const KEYS: u64 = 6;

#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    Update(u64),
    Remove(u64),
    Commit,
    /// Drops the changes.
    GiveUp,
    Open(usize),
    Close(usize, usize),
    Turn,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..KEYS).prop_map(Op::Insert),
        4 => (0..KEYS).prop_map(Op::Update),
        3 => (0..KEYS).prop_map(Op::Remove),
        5 => Just(Op::Commit),
        1 => Just(Op::GiveUp),
        3 => (0..2_usize).prop_map(Op::Open),
        2 => (0..2_usize, 0..8_usize).prop_map(|(reactor, at)| Op::Close(reactor, at)),
        1 => Just(Op::Turn),
    ]
}

/// The resources by key, as a commit left them.
type Map = BTreeMap<u64, (Id<Value>, u64)>;

thread_local! {
    /// The transactions of a reactor, with what they are to see.
    static OPEN: RefCell<Vec<(Read, Map)>> = const { RefCell::new(Vec::new()) };
}

fn check(read: &Read, map: &Map, ids: &[Id<Value>]) {
    for key in 0..KEYS {
        let found = read
            .find::<Value, _>(&key)
            .map(|(id, value)| (id, value.number()));
        assert_eq!(found, map.get(&key).copied(), "key {key}");
    }
    let by_id: BTreeMap<_, _> = map.values().copied().collect();
    for id in ids {
        let found = read.get(*id).map(Value::number);
        assert_eq!(found, by_id.get(id).copied(), "{id:?}");
    }
    let mut all: Vec<_> = read
        .of()
        .iter()
        .map(|(id, v): (_, &Value)| (id, v.number()))
        .collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(by_id), "all");
}

fn check_all(map: &Map, ids: &[Id<Value>]) {
    OPEN.with(|open| {
        for (read, map) in &*open.borrow() {
            check(read, map, ids);
        }
    });
    check(&read(), map, ids);
}

/// On either reactor, from the first.
async fn at<R: Send + 'static>(reactor: usize, f: impl FnOnce() -> R + Send + 'static) -> R {
    if reactor == 0 {
        return f();
    }
    reactor_task(1, || async move { f() }).await.unwrap()
}

struct Run {
    live: Live,
    committed: Map,
    drafted: Map,
    changes: Changes,
    ids: Vec<Id<Value>>,
    number: u64,
}

impl Run {
    async fn step(&mut self, op: Op) {
        self.number += 1;
        match op {
            Op::Insert(key) => {
                let inserted = self.changes.insert(key, self.live.value(self.number));
                match inserted {
                    Ok(id) => {
                        assert!(!self.ids.contains(&id), "an id is given out once");
                        self.ids.push(id);
                        let old = self.drafted.insert(key, (id, self.number));
                        assert_eq!(old, None);
                    }
                    Err(refused) => {
                        assert_eq!(refused.reason, Refusal::Taken);
                        assert!(self.drafted.contains_key(&key));
                    }
                }
            }
            Op::Update(key) => {
                if let Some((id, number)) = self.drafted.get_mut(&key) {
                    *number = self.number;
                    self.changes
                        .update(*id, |value| value.number = *number)
                        .unwrap();
                    assert_eq!(self.changes.get(*id).map(Value::number), Some(*number));
                }
            }
            Op::Remove(key) => {
                if let Some((id, _)) = self.drafted.remove(&key) {
                    self.changes.remove(id).unwrap();
                    assert_eq!(self.changes.remove(id), Err(Refusal::Gone));
                }
            }
            Op::Commit => {
                let changes = std::mem::replace(&mut self.changes, change());
                match changes.commit() {
                    Ok(committed) => committed.await,
                    Err(NotCommitted::Full(_)) => unreachable!("the limit is far"),
                    Err(error) => panic!("{error:?}"),
                }
                self.changes = change();
                self.committed.clone_from(&self.drafted);
            }
            Op::GiveUp => {
                self.changes = change();
                self.drafted.clone_from(&self.committed);
            }
            Op::Open(reactor) => {
                let map = self.committed.clone();
                at(reactor, || {
                    OPEN.with(|open| open.borrow_mut().push((read(), map)))
                })
                .await;
            }
            Op::Close(reactor, place) => {
                let close = move || {
                    OPEN.with(|open| {
                        let mut open = open.borrow_mut();
                        if place < open.len() {
                            drop(open.swap_remove(place));
                        }
                    });
                };
                at(reactor, close).await;
            }
            Op::Turn => yield_now().await,
        }
        for reactor in 0..2 {
            let (map, ids) = (self.committed.clone(), self.ids.clone());
            at(reactor, move || check_all(&map, &ids)).await;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn transactions_see_what_was_committed(ops in proptest::collection::vec(op(), 1..60)) {
        let (reactors, live) = reactors(2, |own| own.own::<Value>(0));
        let theirs = live.clone();
        on(&reactors, 0, move || async move {
            let mut run = Run {
                live: theirs.clone(),
                committed: Map::new(),
                drafted: Map::new(),
                changes: change(),
                ids: Vec::new(),
                number: 0,
            };
            for op in ops {
                run.step(op).await;
            }
            for reactor in 0..2 {
                at(reactor, || OPEN.with(|open| open.borrow_mut().clear())).await;
            }
            let count = run.committed.len();
            drop(run);
            while theirs.count() > count {
                yield_now().await;
            }
        });
        prop_assert!(reactors.stop(LONG).is_clean());
        prop_assert_eq!(live.count(), 0);
    }
}
