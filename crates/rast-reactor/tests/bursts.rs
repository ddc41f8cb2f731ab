//! Memory after a burst: tables of resources and of tasks end with what lives in them.
//!
//! One test, since the count of bytes is of the process.
#![cfg(not(any(rast_loom, rast_shuttle, rast_global_alloc)))]

#[path = "support/bytes.rs"]
mod bytes;
mod support;

use std::collections::HashSet;

use bytes::Bytes;
use rast_reactor::registry::{Id, change, read};
use rast_reactor::{Reactors, spawn_local};
use support::{Live, Value, on, own, reactors, turn};

#[global_allocator]
static ALLOCATOR: Bytes = Bytes;

/// Resources of a burst.
const MANY: u64 = 40_000;
/// Turns in which what is retired is destroyed: at most 256 values in each.
const TURNS: u64 = 4 * MANY / 256;
/// What may be left of a burst: tables of some hundreds of places, and lists of the allocator.
const LEFT: usize = 256 << 10;

/// Inserts so many from a key on, in commits of 10,000; returns their ids.
async fn insert(first: u64, many: u64, live: &Live) -> Vec<Id<Value>> {
    let mut ids = Vec::new();
    for begin in (first..first + many).step_by(10_000) {
        let mut changes = change();
        for key in begin..(begin + 10_000).min(first + many) {
            ids.push(changes.insert(key, live.value(key)).unwrap());
        }
        changes.commit().unwrap().await;
    }
    ids
}

async fn remove(ids: &[Id<Value>]) {
    let mut changes = change();
    for &id in ids {
        changes.remove(id).unwrap();
    }
    changes.commit().unwrap().await;
}

/// Waits until no more than `most` bytes are allocated.
fn settle(reactors: &Reactors, live: &Live, most: usize, what: &str) {
    for _ in 0..TURNS {
        for reactor in 0..2 {
            on(reactors, reactor, turn);
        }
        // The test's own list of drops.
        drop(live.dropped());
        if Bytes::live() <= most {
            return;
        }
    }
    panic!("{what}: {} bytes, {most} were expected", Bytes::live());
}

/// What both reactors see of the ids.
fn seen(reactors: &Reactors, ids: &[Id<Value>]) -> [Vec<Option<u64>>; 2] {
    [0, 1].map(|reactor| {
        let ids = ids.to_vec();
        on(reactors, reactor, || async move {
            let read = read();
            let number = |&id| read.get(id).map(Value::number);
            ids.iter().map(number).collect()
        })
    })
}

#[test]
fn memory_of_a_burst_returns() {
    let (reactors, live) = reactors(2, own);
    let round = |first: u64, keep: &'static [u64]| {
        let live = live.clone();
        on(&reactors, 0, move || async move {
            let ids = insert(first, MANY, &live).await;
            let is_kept = |at: &usize| keep.contains(&(*at as u64));
            let kept: Vec<_> = (0..ids.len()).filter(is_kept).map(|at| ids[at]).collect();
            let removed: Vec<_> = (0..ids.len())
                .filter(|at| !is_kept(at))
                .map(|at| ids[at])
                .collect();
            remove(&removed).await;
            (kept, removed)
        })
    };
    // What is made once.
    let warm_up = live.clone();
    on(&reactors, 0, move || async move {
        let ids = insert(1 << 40, 300, &warm_up).await;
        remove(&ids).await;
    });
    on(&reactors, 1, turn);
    on(&reactors, 0, turn);
    let before = Bytes::live();
    let (kept, mut removed) = round(0, &[0, 1, MANY / 2, MANY - 1]);
    removed.shrink_to_fit();
    removed.shrink_to_fit();
    let most = before + LEFT + size_of_val(&*removed);
    settle(&reactors, &live, most, "resources");
    let numbers = [0, 1, MANY / 2, MANY - 1].map(Some);
    for found in seen(&reactors, &kept) {
        assert_eq!(found, numbers);
    }
    for found in seen(&reactors, &removed[..1000]) {
        assert!(found.iter().all(Option::is_none));
    }
    on(&reactors, 1, || async {
        let read = read();
        let mut all: Vec<_> = read.of::<Value>().iter().map(|(_, v)| v.number()).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, MANY / 2, MANY - 1]);
        assert_eq!(read.find::<Value, _>(&1).unwrap().1.number(), 1);
        assert!(read.find::<Value, _>(&2).is_none());
    });
    // Further bursts give out ids that never were, and the old ones name nothing.
    let mut ever: HashSet<_> = removed.iter().chain(&kept).copied().collect();
    for first in [1, 2] {
        let (kept, removed_now) = round(first * MANY, &[7]);
        assert!(removed_now.iter().chain(&kept).all(|&id| ever.insert(id)));
        for found in seen(&reactors, &removed[..1000]) {
            assert!(found.iter().all(Option::is_none));
        }
        for found in seen(&reactors, &kept) {
            assert_eq!(found, [Some(first * MANY + 7)]);
        }
    }
    drop((ever, removed));
    settle(&reactors, &live, before + LEFT, "three bursts");

    let before = Bytes::live();
    on(&reactors, 0, || async {
        let tasks: Vec<_> = (0..MANY).map(|_| spawn_local(async {})).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    settle(&reactors, &live, before + LEFT, "tasks");
    drop(reactors);
    assert_eq!(live.count(), 0);
}
