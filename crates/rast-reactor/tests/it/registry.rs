//! The registry: owners, commits, transactions, keys, lists, refusals.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use crate::support::{Live, Value, builder, on, reactors, turn};
use rast_reactor::executor::yield_now;
use rast_reactor::registry::{
    Changes, Children, Id, NotCommitted, Refusal, Resource, Resources, change, read,
};
use rast_reactor::{BuildError, Reactors, reactor_task};

fn insert(changes: &mut Changes, key: u64, value: Value) -> Id<Value> {
    changes
        .insert(key, value)
        .map_err(|refused| refused.reason)
        .unwrap()
}

/// Commits one resource on its owner, which runs the caller.
async fn put(key: u64, value: Value) -> Id<Value> {
    let mut changes = change();
    let id = insert(&mut changes, key, value);
    changes.commit().unwrap().await;
    id
}

async fn set(id: Id<Value>, number: u64) {
    let mut changes = change();
    changes.update(id, |value| value.number = number).unwrap();
    changes.commit().unwrap().await;
}

fn number(id: Id<Value>) -> Option<u64> {
    read().get(id).map(Value::number)
}

#[test]
fn a_type_without_an_owner_is_an_error() {
    let error = |resources| builder(2).resources(resources).build().unwrap_err();
    let missing = error(Resources::new().own::<Value>(2));
    assert!(matches!(missing, BuildError::MissingOwner { owner: 2, .. }));
    let twice = error(Resources::new().own::<Value>(0).own::<Value>(1));
    assert!(matches!(twice, BuildError::OwnedTwice(name) if name.contains("Value")));
    let reactors = builder(1).build().unwrap();
    let unknown = on(&reactors, 0, || async {
        let read = || read().get(Id::<Value>::from_bits(0)).is_none();
        catch_unwind(AssertUnwindSafe(read)).unwrap_err()
    });
    let message = unknown.downcast::<String>().unwrap();
    assert!(
        message.contains("Value") && message.contains("Resources::own"),
        "{message}"
    );
}

#[test]
fn the_owner_alone_changes_its_types() {
    let (reactors, live) = reactors(2, |own| own.own::<Value>(1).own::<Children<Value>>(0));
    let theirs = live.clone();
    let id = on(
        &reactors,
        1,
        || async move { put(1, theirs.value(1)).await },
    );
    on(&reactors, 0, move || async move {
        let not_owner = Refusal::NotOwner { owner: 1 };
        let mut changes = change();
        let refused = changes.insert(2, live.value(2)).unwrap_err();
        assert_eq!(
            (refused.reason, refused.value.0, refused.value.1.number()),
            (not_owner, 2, 2)
        );
        let refused = changes.add(live.value(3)).unwrap_err();
        assert_eq!((refused.reason, refused.value.number()), (not_owner, 3));
        let refused = changes.replace(id, live.value(4)).unwrap_err();
        assert_eq!((refused.reason, refused.value.number()), (not_owner, 4));
        assert_eq!(
            changes.update(id, |_| panic!("it is not called")),
            Err(not_owner)
        );
        assert_eq!(changes.remove(id), Err(not_owner));
        // What it owns itself goes on, and what it names may be another's.
        let list = changes
            .add([id].into_iter().collect::<Children<_>>())
            .unwrap();
        changes.commit().unwrap().await;
        let read = read();
        let found: Vec<_> = read
            .children(list)
            .map(|(_, value)| value.number())
            .collect();
        assert_eq!(found, [1]);
    });
    // One that owns nothing commits nothing.
    let (reactors, _) = crate::support::reactors(2, |own| own.own::<Value>(0));
    on(&reactors, 1, || async { change().commit().unwrap().await });
}

#[test]
fn a_commit_is_seen_whole() {
    const COMMITS: u64 = 2_000;
    let (reactors, live) = reactors(3, |own| own.own::<Value>(0).own::<Other>(0));
    let ids = on(&reactors, 0, move || async move {
        let mut changes = change();
        let a = insert(&mut changes, 1, live.value(0));
        let b = changes.add(Other(COMMITS)).unwrap();
        changes.commit().unwrap().await;
        (a, b)
    });
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = [1, 2]
        .map(|index| {
            let is_over = Arc::clone(&is_over);
            reactors.reactor(index).unwrap().spawn(move || async move {
                let mut last = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let read = read();
                    let first = read.get(ids.0).unwrap().number();
                    assert!(first >= last, "commits are seen in order");
                    last = first;
                    yield_now().await;
                    let second = read.get(ids.1).unwrap().0;
                    assert_eq!(first + second, COMMITS);
                    assert_eq!(read.find::<Value, _>(&1).unwrap().1.number(), first);
                }
                last
            })
        })
        .into();
    on(&reactors, 0, move || async move {
        for n in 1..=COMMITS {
            let mut changes = change();
            changes.update(ids.0, |value| value.number += 1).unwrap();
            changes.update(ids.1, |other| other.0 -= 1).unwrap();
            let committed = changes.commit().unwrap();
            if n % 64 == 0 {
                committed.await;
            }
        }
        change().commit().unwrap().await;
    });
    is_over.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(rast_reactor::executor::block_on(reader).unwrap() <= COMMITS);
    }
}

#[derive(Clone)]
struct Other(u64);

impl Resource for Other {
    type Key = rast_reactor::registry::NoKey;
}

#[test]
fn a_transaction_sees_what_was_when_it_began() {
    let (reactors, live) = reactors(2, |own| own.own::<Value>(0));
    let theirs = live.clone();
    let ids = on(&reactors, 0, || async move {
        [
            put(1, theirs.value(10)).await,
            put(2, theirs.value(20)).await,
        ]
    });
    let (go, gone) = mpsc::channel::<()>();
    let reader = reactors.reactor(1).unwrap().spawn(move || async move {
        let before = read();
        // The owner changes all of it, and its commits are applied here meanwhile.
        while gone.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
            yield_now().await;
        }
        assert_eq!(number(ids[0]), Some(11));
        assert_eq!(number(ids[1]), None);
        let now = read();
        for read in [&before, &now] {
            let is_old = core::ptr::eq(read, &raw const before);
            let one = read
                .find::<Value, _>(&1)
                .map(|(id, value)| (id, value.number()));
            assert_eq!(one, Some((ids[0], if is_old { 10 } else { 11 })));
            let (two, value) = read.find::<Value, _>(&2).unwrap();
            assert_eq!(
                (two == ids[1], value.number()),
                (is_old, if is_old { 20 } else { 21 })
            );
            assert_eq!(read.find::<Value, _>(&3).is_none(), is_old);
            assert_eq!(
                read.of::<Value>().iter().count(),
                if is_old { 2 } else { 3 }
            );
            assert_eq!(read.get(two).map(Value::number), Some(value.number()));
        }
    });
    // The reader began: a commit is seen by a transaction that is opened later.
    on(&reactors, 1, || async { yield_now().await });
    on(&reactors, 0, move || async move {
        set(ids[0], 11).await;
        let mut changes = change();
        changes.remove(ids[1]).unwrap();
        let new = insert(&mut changes, 2, live.value(21));
        insert(&mut changes, 3, live.value(30));
        changes.commit().unwrap().await;
        assert_ne!(new, ids[1]);
        assert_eq!(number(new), Some(21));
    });
    drop(go);
    rast_reactor::executor::block_on(reader).unwrap();
}

#[test]
fn an_id_that_was_deleted_names_nothing_ever_after() {
    let (reactors, live) = reactors(1, |own| own.own::<Value>(0));
    on(&reactors, 0, move || async move {
        let first = put(1, live.value(1)).await;
        let mut changes = change();
        changes.remove(first).unwrap();
        assert!(changes.get(first).is_none() && changes.before().get(first).is_some());
        assert_eq!(changes.remove(first), Err(Refusal::Gone));
        assert_eq!(changes.update(first, |_| ()), Err(Refusal::Gone));
        assert_eq!(
            changes.replace(first, live.value(2)).unwrap_err().reason,
            Refusal::Gone
        );
        changes.commit().unwrap().await;
        for n in 0..100 {
            let id = put(1, live.value(n)).await;
            assert!(number(first).is_none() && number(id) == Some(n));
            let mut changes = change();
            assert_eq!(changes.update(first, |_| ()), Err(Refusal::Gone));
            changes.remove(id).unwrap();
            changes.commit().unwrap().await;
        }
        assert!(number(Id::from_bits(u64::MAX)).is_none());
        assert!(read().find::<Value, _>(&1).is_none());
    });
}

#[test]
fn children_are_named_by_lists_of_stable_ids() {
    let (reactors, live) = reactors(2, |own| own.own::<Value>(0).own::<Children<Value>>(0));
    let (list, parent, ids) = on(&reactors, 0, move || async move {
        let mut changes = change();
        let ids = [1, 2, 3].map(|n| insert(&mut changes, n, live.value(n)));
        let list = changes
            .add(ids.into_iter().collect::<Children<_>>())
            .unwrap();
        let parent = insert(&mut changes, 100, live.parent(list));
        changes.commit().unwrap().await;
        (list, parent, ids)
    });
    let seen = move || {
        let read = read();
        let of_parent = read.get(parent).map(|parent| parent.children.unwrap());
        assert!(of_parent.is_none_or(|of_parent| of_parent == list));
        let numbers: Vec<_> = read
            .children(list)
            .map(|(_, child)| child.number())
            .collect();
        (
            core::ptr::from_ref(read.get(list).unwrap()) as usize,
            numbers,
        )
    };
    on(&reactors, 0, move || async move {
        let (address, numbers) = seen();
        assert_eq!(numbers, [1, 2, 3]);
        let parent_address = core::ptr::from_ref(read().get(parent).unwrap()) as usize;
        set(ids[1], 20).await;
        assert_eq!(seen(), (address, vec![1, 20, 3]), "the list is not copied");
        assert_eq!(
            core::ptr::from_ref(read().get(parent).unwrap()) as usize,
            parent_address
        );
        let mut changes = change();
        changes.remove(ids[0]).unwrap();
        changes.commit().unwrap().await;
        assert_eq!(seen(), (address, vec![20, 3]), "its id gives nothing");
        let mut changes = change();
        changes
            .update(list, |list| {
                assert!(list.remove(ids[2]) && !list.remove(ids[2]))
            })
            .unwrap();
        changes.remove(parent).unwrap();
        changes.commit().unwrap().await;
        assert_eq!(seen().1, [20]);
        assert_eq!(number(ids[2]), Some(3), "what is not listed is there");
        let mut changes = change();
        changes.remove(list).unwrap();
        changes.commit().unwrap().await;
        assert_eq!(read().children(list).count(), 0);
    });
    let left = on(&reactors, 1, move || async move { ids.map(number) });
    assert_eq!(left, [None, Some(20), Some(3)]);
}

#[test]
fn of_two_that_change_the_same_the_second_is_refused() {
    let (reactors, live) = reactors(1, |own| own.own::<Value>(0));
    on(&reactors, 0, move || async move {
        let id = put(1, live.value(0)).await;
        let (mut first, mut second) = (change(), change());
        first.update(id, |value| value.number += 1).unwrap();
        second.update(id, |value| value.number += 10).unwrap();
        first.commit().unwrap().await;
        let Err(NotCommitted::Conflict(second)) = second.commit() else {
            panic!("it would lose the first update");
        };
        assert_eq!(second.get(id).unwrap().number(), 10);
        drop(second);
        // The same of a key.
        let (mut first, mut second) = (change(), change());
        insert(&mut first, 2, live.value(1));
        insert(&mut second, 2, live.value(2));
        first.commit().unwrap().await;
        assert!(matches!(second.commit(), Err(NotCommitted::Conflict(_))));
        // A removal, and an update of what was removed whose place was given out again.
        let (mut first, mut second) = (change(), change());
        first.remove(id).unwrap();
        first.commit().unwrap().await;
        let new = insert(&mut second, 3, live.value(3));
        second.update(id, |value| value.number = 9).unwrap();
        assert_eq!(
            (
                second.get(new).unwrap().number(),
                second.get(id).unwrap().number()
            ),
            (3, 9)
        );
        assert!(matches!(second.commit(), Err(NotCommitted::Conflict(_))));
        assert!(number(id).is_none() && number(new).is_none());
        // Others do not meet.
        let (mut first, mut second) = (change(), change());
        insert(&mut first, 4, live.value(4));
        insert(&mut second, 5, live.value(5));
        first.commit().unwrap().await;
        second.commit().unwrap().await;
        let read = read();
        assert_eq!(
            [2, 4, 5].map(|key| read.find::<Value, _>(&key).unwrap().1.number()),
            [1, 4, 5]
        );
    });
}

#[test]
fn a_key_names_one_resource() {
    let (reactors, live) = reactors(1, |own| own.own::<Value>(0));
    let all = live.clone();
    on(&reactors, 0, move || async move {
        let id = put(1, live.value(1)).await;
        let mut changes = change();
        let refused = changes.insert(1, live.value(2)).unwrap_err();
        assert_eq!(
            (refused.reason, refused.value.1.number()),
            (Refusal::Taken, 2)
        );
        let two = insert(&mut changes, 2, live.value(2));
        assert_eq!(
            changes.insert(2, live.value(3)).unwrap_err().reason,
            Refusal::Taken
        );
        changes.update(two, |value| value.number = 4).unwrap();
        changes.remove(two).unwrap();
        assert!(changes.get(two).is_none());
        let two = insert(&mut changes, 2, live.value(5));
        changes.remove(id).unwrap();
        let one = insert(&mut changes, 1, live.value(6));
        assert_eq!(
            changes.insert(1, live.value(7)).unwrap_err().reason,
            Refusal::Taken
        );
        changes.replace(one, live.value(8)).unwrap();
        changes.commit().unwrap().await;
        assert_eq!(
            (number(id), number(one), number(two)),
            (None, Some(8), Some(5))
        );
        let read = read();
        assert_eq!(read.find::<Value, _>(&1).unwrap().0, one);
        assert_eq!(read.find::<Value, _>(&2).unwrap().0, two);
    });
    assert_eq!(left(reactors, &all), 0);
}

/// How many values are left after a stop.
fn left(reactors: Reactors, live: &Live) -> usize {
    assert!(reactors.stop(crate::support::LONG).is_clean());
    live.count()
}

#[test]
fn changes_that_are_dropped_leave_nothing_behind() {
    let (reactors, live) = reactors(1, |own| own.own::<Value>(0));
    let theirs = live.clone();
    on(&reactors, 0, move || async move {
        let kept = put(1, theirs.value(1)).await;
        let mut changes = change();
        let ids: Vec<_> = (2..100)
            .map(|n| insert(&mut changes, n, theirs.value(n)))
            .collect();
        changes.update(kept, |value| value.number = 9).unwrap();
        drop(changes);
        turn().await;
        assert_eq!((theirs.count(), number(kept)), (1, Some(1)));
        let again: Vec<_> = {
            let mut changes = change();
            let ids = (2..100)
                .map(|n| insert(&mut changes, n, theirs.value(n)))
                .collect();
            changes.commit().unwrap().await;
            ids
        };
        assert!(
            ids.iter().all(|&id| number(id).is_none()),
            "ids are not given out twice"
        );
        assert!(again.iter().all(|&id| number(id).is_some()));
    });
    drop(reactors);
    assert_eq!(live.count(), 0);
}

#[test]
fn a_panic_in_a_change_changes_nothing() {
    let (reactors, live) = reactors(1, |own| own.own::<Value>(0));
    let all = live.clone();
    on(&reactors, 0, move || async move {
        let id = put(1, live.value(1)).await;
        let mut changes = change();
        changes.update(id, |value| value.number = 2).unwrap();
        let panics = |changes: &mut Changes, f: &dyn Fn(&mut Changes)| {
            catch_unwind(AssertUnwindSafe(|| f(changes))).unwrap_err();
        };
        panics(&mut changes, &|changes| {
            let _ = changes.update(id, |value| {
                value.number = 3;
                panic!("the change does");
            });
        });
        let fragile = insert(&mut changes, 2, live.value(5));
        let theirs = live.clone();
        panics(&mut changes, &|changes| {
            let mut value = theirs.value(7);
            value.bytes_panics = true;
            let _ = changes.replace(fragile, value);
        });
        panics(&mut changes, &|changes| {
            let mut value = theirs.value(7);
            value.bytes_panics = true;
            let _ = changes.insert(3, value);
        });
        assert_eq!(changes.get(id).unwrap().number(), 2);
        assert_eq!(changes.get(fragile).unwrap().number(), 5);
        changes.commit().unwrap().await;
        assert_eq!((number(id), number(fragile)), (Some(2), Some(5)));
        assert!(read().find::<Value, _>(&3).is_none());
    });
    assert_eq!(left(reactors, &all), 0);
}

#[test]
fn a_change_may_read_and_commit() {
    let (reactors, live) = reactors(1, |own| own.own::<Value>(0));
    on(&reactors, 0, move || async move {
        let ids = [put(1, live.value(1)).await, put(2, live.value(2)).await];
        let mut changes = change();
        changes
            .update(ids[0], |value| {
                value.number += read().get(ids[1]).unwrap().number();
                let mut inner = change();
                inner.update(ids[1], |value| value.number = 20).unwrap();
                drop(inner.commit().unwrap());
                value.number += read().get(ids[1]).unwrap().number();
            })
            .unwrap();
        assert_eq!(
            changes.before().get(ids[1]).unwrap().number(),
            2,
            "they began before it"
        );
        changes.commit().unwrap().await;
        assert_eq!(ids.map(number), [Some(23), Some(20)]);
        // One that commits what it changes itself is in conflict.
        let mut changes = change();
        changes
            .update(ids[0], |_| {
                let mut inner = change();
                inner.remove(ids[0]).unwrap();
                drop(inner.commit().unwrap());
            })
            .unwrap();
        assert!(matches!(changes.commit(), Err(NotCommitted::Conflict(_))));
        assert_eq!(number(ids[0]), None);
    });
}

/// A key whose comparison commits, or panics.
struct Odd(u64);

thread_local! {
    static IN_EQ: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

impl PartialEq for Odd {
    fn eq(&self, other: &Self) -> bool {
        let f = IN_EQ.with(|f| f.borrow_mut().take());
        if let Some(f) = f {
            f();
        }
        self.0 == other.0
    }
}

impl Eq for Odd {}

impl Hash for Odd {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Many keys have the same hash.
        (self.0 % 4).hash(state);
    }
}

struct Strange(u64);

impl Resource for Strange {
    type Key = Odd;
}

#[test]
fn a_key_may_commit_or_panic_while_it_is_compared() {
    let in_eq = |f: Box<dyn FnOnce()>| IN_EQ.with(|place| *place.borrow_mut() = Some(f));
    let (reactors, _) = reactors(2, |own| own.own::<Strange>(0));
    on(&reactors, 0, move || async move {
        let mut changes = change();
        let ids: Vec<_> = (0..64)
            .map(|n| changes.insert(Odd(n), Strange(n)).unwrap())
            .collect();
        changes.commit().unwrap().await;
        let find = |n| read().find::<Strange, _>(&Odd(n)).map(|(_, found)| found.0);
        assert!((0..64).all(|n| find(n) == Some(n)));
        // A lookup during which all other resources go.
        let gone = ids.clone();
        in_eq(Box::new(move || {
            let mut changes = change();
            gone.iter()
                .skip(1)
                .for_each(|&id| changes.remove(id).unwrap());
            drop(changes.commit().unwrap());
        }));
        let before = read();
        let _ = before.find::<Strange, _>(&Odd(60));
        turn().await;
        assert!((0..64).all(|n| before.find::<Strange, _>(&Odd(n)).unwrap().1.0 == n));
        drop(before);
        assert_eq!((find(0), find(60)), (Some(0), None));
        // A commit whose comparison of keys commits.
        let (mut first, mut second) = (change(), change());
        first.insert(Odd(4), Strange(4)).unwrap();
        second.insert(Odd(8), Strange(8)).unwrap();
        drop(first.commit().unwrap());
        in_eq(Box::new(|| {
            let mut changes = change();
            changes.insert(Odd(8), Strange(80)).unwrap();
            drop(changes.commit().unwrap());
        }));
        assert!(matches!(second.commit(), Err(NotCommitted::Conflict(_))));
        assert_eq!(find(8), Some(80));
        // One whose comparison panics commits nothing.
        let mut changes = change();
        changes.insert(Odd(12), Strange(12)).unwrap();
        let mut other = change();
        other.insert(Odd(1), Strange(1)).unwrap();
        drop(other.commit().unwrap());
        in_eq(Box::new(|| panic!("a key does")));
        catch_unwind(AssertUnwindSafe(|| drop(changes.commit()))).unwrap_err();
        assert_eq!((find(12), find(1)), (None, Some(1)));
        change().commit().unwrap().await;
    });
    let found = on(&reactors, 1, || async {
        [0, 1, 4, 8, 12].map(|n| read().find::<Strange, _>(&Odd(n)).map(|(_, found)| found.0))
    });
    assert_eq!(found, [Some(0), Some(1), Some(4), Some(80), None]);
}

#[test]
fn two_owners_commit_to_each_other() {
    let (reactors, live) = reactors(2, |own| own.own::<Value>(0).own::<Other>(1));
    let value = on(
        &reactors,
        0,
        move || async move { put(1, live.value(0)).await },
    );
    let other = on(&reactors, 1, || async {
        let mut changes = change();
        let id = changes.add(Other(0)).unwrap();
        changes.commit().unwrap().await;
        id
    });
    let tasks = [0, 1].map(|index| {
        reactors.reactor(index).unwrap().spawn(move || async move {
            for n in 1..=500 {
                let mut changes = change();
                if index == 0 {
                    changes.update(value, |value| value.number = n).unwrap();
                } else {
                    changes.update(other, |other| other.0 = n).unwrap();
                }
                changes.commit().unwrap().await;
                // What is applied everywhere is seen by a call.
                let seen = reactor_task(1 - index, move || async move {
                    let read = read();
                    (
                        read.get(value).unwrap().number(),
                        read.get(other).unwrap().0,
                    )
                });
                let seen = seen.await.unwrap();
                assert_eq!(if index == 0 { seen.0 } else { seen.1 }, n);
            }
        })
    });
    for task in tasks {
        rast_reactor::executor::block_on(task).unwrap();
    }
}

#[test]
fn many_resources() {
    const MANY: u64 = if cfg!(debug_assertions) {
        100_000
    } else {
        1_000_000
    };
    let (reactors, live) = reactors(2, |own| own.own::<Value>(0).own::<Other>(0));
    let all = live.clone();
    let first = on(&reactors, 0, move || async move {
        let mut changes = change();
        let ids: Vec<_> = (0..MANY)
            .map(|n| insert(&mut changes, n, live.value(n)))
            .collect();
        changes.commit().unwrap().await;
        let mut changes = change();
        ids.iter()
            .step_by(2)
            .for_each(|&id| changes.remove(id).unwrap());
        changes.commit().unwrap().await;
        // Destroyed over many turns.
        while live.count() as u64 > MANY / 2 {
            yield_now().await;
        }
        ids[0]
    });
    on(&reactors, 1, move || async move {
        let read = read();
        let values = read.of::<Value>();
        assert!(values.get(first).is_none());
        assert_eq!(values.iter().count() as u64, MANY / 2);
        for n in 0..MANY {
            let found = values.find(&n);
            assert_eq!(
                found.map(|(_, value)| value.number()),
                (n % 2 == 1).then_some(n)
            );
        }
    });
    assert_eq!(left(reactors, &all), 0);
}

/// A key whose hash is that of all others. It counts its comparisons.
#[derive(Clone)]
struct Same(u32, Arc<AtomicUsize>);

impl PartialEq for Same {
    fn eq(&self, other: &Self) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0 == other.0
    }
}

impl Eq for Same {}

impl Hash for Same {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

struct Crowded(u32);

impl Resource for Crowded {
    type Key = Same;
}

#[test]
fn a_read_compares_each_key_of_a_hash_once() {
    const MANY: u32 = 500;
    let (reactors, _) = reactors(2, |own| own.own::<Crowded>(0));
    let count = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&count);
    let ids = on(&reactors, 0, move || async move {
        let mut changes = change();
        let insert = |n| changes.insert(Same(n, Arc::clone(&theirs)), Crowded(n));
        let ids: Vec<_> = (0..MANY).map(insert).map(Result::unwrap).collect();
        changes.commit().unwrap().await;
        ids
    });
    let (theirs, key) = (Arc::clone(&count), Arc::clone(&count));
    let kept = ids.clone();
    let (go, gone) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let reader = reactors.reactor(1).unwrap().spawn(move || async move {
        let before = read();
        let look = |read: &rast_reactor::registry::Read, n| {
            theirs.store(0, Ordering::Relaxed);
            let found = read.find::<Crowded, _>(&Same(n, Arc::clone(&key)));
            // The first one is compared, and then all of them.
            assert!(theirs.load(Ordering::Relaxed) <= MANY as usize + 1);
            found.map(|(id, crowded)| (id, crowded.0))
        };
        for n in 0..MANY {
            assert_eq!(look(&before, n), Some((kept[n as usize], n)));
        }
        assert_eq!(look(&before, MANY), None);
        begin.send(()).unwrap();
        // Half of them are removed meanwhile, which this transaction does not see.
        while gone.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
            yield_now().await;
        }
        for n in 0..MANY {
            assert_eq!(look(&before, n), Some((kept[n as usize], n)));
            let now = (n % 2 == 0).then_some((kept[n as usize], n));
            assert_eq!(look(&read(), n), now);
        }
    });
    begun.recv().unwrap();
    on(&reactors, 0, move || async move {
        let mut changes = change();
        for &id in ids.iter().skip(1).step_by(2) {
            changes.remove(id).unwrap();
        }
        changes.commit().unwrap().await;
    });
    drop(go);
    rast_reactor::executor::block_on(reader).unwrap();
}

/// A key, or a resource, that panics when it is dropped.
#[derive(PartialEq, Eq, Hash)]
struct Loud(usize);

static LOUD_DROPS: AtomicUsize = AtomicUsize::new(0);

impl Drop for Loud {
    fn drop(&mut self) {
        LOUD_DROPS.fetch_add(1, Ordering::Relaxed);
        panic!("a resource is dropped loudly");
    }
}

impl Resource for Loud {
    type Key = Self;
}

/// Of another type.
struct Louder(#[expect(dead_code, reason = "it is dropped")] Loud);

impl Resource for Louder {
    type Key = Loud;
}

#[test]
fn changes_are_dropped_although_every_drop_panics() {
    const EACH: usize = 20;
    let resources = Resources::new().own::<Loud>(0).own::<Louder>(0);
    let reactors = builder(1).resources(resources).build().unwrap();
    on(&reactors, 0, || async {
        let mut changes = change();
        let mut ids = Vec::new();
        for number in 0..EACH {
            let id = changes.insert(Loud(number), Loud(number));
            ids.push(id.map_err(std::mem::forget).unwrap());
            let other = changes.insert(Loud(number), Louder(Loud(number)));
            other.map_err(std::mem::forget).unwrap();
        }
        // Its key and its value.
        let removed = ids.pop().unwrap();
        let removes = AssertUnwindSafe(|| changes.remove(removed));
        assert!(catch_unwind(removes).is_err());
        assert_eq!(LOUD_DROPS.load(Ordering::Relaxed), 2);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(changes))).is_err());
        assert_eq!(LOUD_DROPS.load(Ordering::Relaxed), 4 * EACH);
    });
}
