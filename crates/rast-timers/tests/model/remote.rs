//! Remote timers under many threads: each value is fired, cancelled or dropped, exactly one of
//! these.

use rast_timers::remote::Entry;
use rast_timers::{
    CalendarStore, DeadlineStore, FiringStore, HeapStore, Instant, LaneStore, remote,
};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

#[test]
fn every_value_fires_or_is_cancelled_once() {
    one_fate_each(CalendarStore::new());
    one_fate_each(LaneStore::new());
    one_fate_each(FiringStore::new());
    one_fate_each(HeapStore::new());
}

fn one_fate_each(store: impl DeadlineStore<Entry<u64>>) {
    const THREADS: u64 = 4;
    const EACH: u64 = 2_000;
    let wakes = AtomicUsize::new(0);
    let (timers, mut owner) = remote::channel_with(store, || {
        wakes.fetch_add(1, Ordering::Relaxed);
    });
    let (mut fired, mut taken) = (HashSet::new(), HashSet::new());
    // To be cancelled by the owner, and perhaps by who armed it as well.
    let (give, given) = mpsc::channel();
    let mut take = |owner: &mut remote::TimerOwner<_, _, _>| {
        let some: Vec<_> = given.try_iter().take(40).collect();
        let mut count = 0;
        let cancelled = owner.cancel_all(&some, |value| {
            count += 1;
            assert!(taken.insert(value), "{value} cancelled twice");
        });
        assert_eq!(count, cancelled);
        !some.is_empty()
    };
    let cancelled: HashSet<u64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (timers, give) = (timers.clone(), give.clone());
                scope.spawn(move || {
                    let mut won = Vec::new();
                    let mut held = Vec::new();
                    for index in 0..EACH {
                        let value = thread * EACH + index;
                        let timer = timers.arm(Instant::from_nanos(value % 97), value).unwrap();
                        if index % 5 == 0 {
                            give.send(timer.clone()).unwrap();
                        }
                        held.push((value, timer));
                        // Cancels some at once and some late.
                        if index % 3 == 0 {
                            let (value, timer) = held.swap_remove(held.len() / 2);
                            if timer.cancel().is_ok() {
                                won.push(value);
                            }
                        }
                    }
                    won
                })
            })
            .collect();
        let mut now = 0;
        while !threads.iter().all(|thread| thread.is_finished()) {
            owner.poll(64);
            take(&mut owner);
            now += 1;
            let due = Instant::from_nanos(now % 120);
            let each = |at: Instant, value| {
                assert_eq!(at.as_nanos(), value % 97);
                assert!(fired.insert(value), "{value} fired twice");
            };
            if now % 2 == 0 {
                owner.expire(due, 50, each);
            } else {
                owner.expire_unordered(due, 50, each);
            }
        }
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    while take(&mut owner) {}
    while owner.poll(1_000) > 0 {}
    while let Some((_, value)) = owner.pop_due(Instant::from_nanos(97)) {
        assert!(fired.insert(value), "{value} fired twice");
    }
    assert!(owner.is_empty());
    assert!(fired.is_disjoint(&cancelled) && taken.is_disjoint(&cancelled));
    assert!(fired.is_disjoint(&taken) && !taken.is_empty());
    let decided = fired.len() + cancelled.len() + taken.len();
    assert_eq!(decided, (THREADS * EACH) as usize);
    assert_eq!(wakes.load(Ordering::Relaxed), (THREADS * EACH) as usize);
}
