//! Threads that put, handle, remove and grow at once, at sizes that no model reaches.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread;

use rast_conflate::primitive::WaitStrategy;
use rast_conflate::{Conflator, ManyProducers, Marks, Merge, Merged, Mode, Newest, PutError, Sum};

/// How much less a checker that is slow does.
const LESS: u64 = if cfg!(miri) { 1000 } else { 1 };

fn balanced<K, V, M: Mode<V>, S>(of: &Conflator<K, V, M, S>) {
    let f = of.figures();
    assert_eq!(
        f.submitted,
        f.handled + f.conflated + f.panicked + f.returned,
        "{f:?}"
    );
}

/// What the handlers of one key saw.
#[derive(Default)]
struct Seen {
    is_running: AtomicBool,
    /// Of each producer the last value.
    last: [AtomicU64; 4],
}

/// Producers put rising values under shared keys, consumers check order and exclusion, some
/// handlers panic.
fn newest_runs(marks: Marks, keys: u64, producers: usize, consumers: usize, room: usize) {
    let puts = 8_000 / LESS;
    let conflator = Conflator::<u64, (usize, u64)>::builder()
        .marks(marks)
        .keys(room)
        .batch(3)
        .build();
    let seen: Arc<Vec<Seen>> = Arc::new((0..keys).map(|_| Seen::default()).collect());
    let consuming: Vec<_> = (0..consumers)
        .map(|at| {
            let mut consumer = conflator.consumer().unwrap();
            let seen = Arc::clone(&seen);
            let strategy = [WaitStrategy::Adaptive, WaitStrategy::Park][at % 2];
            thread::spawn(move || {
                consumer.run(strategy, |key, (producer, value)| {
                    let seen = &seen[*key as usize];
                    assert!(
                        !seen.is_running.swap(true, Acquire),
                        "two consumers run key {key}"
                    );
                    let before = seen.last[producer].swap(value, Relaxed);
                    let is_newer = before < value;
                    seen.is_running.store(false, Release);
                    if !is_newer {
                        eprintln!("key {key}: {value} after {before}");
                        std::process::abort();
                    }
                })
            })
        })
        .collect();
    let producing: Vec<_> = (0..producers)
        .map(|at| {
            let (conflator, mut producer) = (conflator.clone(), conflator.producer());
            thread::spawn(move || {
                let handle = conflator.handle(&0).unwrap();
                for value in 1..=puts {
                    let key = value.wrapping_mul(0x9e37_79b9) % keys;
                    match key {
                        0 => producer.put(&handle, (at, value)).unwrap(),
                        _ => producer.put_key(&key, (at, value)).unwrap(),
                    }
                }
                // The last one of this producer under each key.
                for key in 0..keys {
                    producer.put_key(&key, (at, puts + 1)).unwrap();
                }
            })
        })
        .collect();
    producing
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    conflator.close();
    let runs: Vec<_> = consuming
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    assert_eq!(runs.iter().map(|run| run.panicked).sum::<u64>(), 0);
    for (key, seen) in seen.iter().enumerate() {
        let last = seen
            .last
            .iter()
            .map(|last| last.load(Relaxed))
            .max()
            .unwrap();
        assert_eq!(last, puts + 1, "the last value of key {key}");
    }
    let figures = conflator.figures();
    assert_eq!(figures.submitted, (puts + keys) * producers as u64);
    assert_eq!((conflator.len() as u64, conflator.pending()), (keys, 0));
    balanced(&conflator);
}

#[test]
fn newest_runs_one_to_one() {
    newest_runs(Marks::Tree, 700, 1, 1, 700);
}

#[test]
fn newest_runs_four_to_four() {
    newest_runs(Marks::Tree, 700, 4, 4, 700);
}

#[test]
fn newest_runs_flat() {
    newest_runs(Marks::Flat, 700, 2, 3, 2000);
}

#[test]
fn newest_runs_on_one_key() {
    newest_runs(Marks::Tree, 1, 4, 4, 1);
}

#[test]
fn newest_runs_while_it_grows() {
    newest_runs(Marks::Tree, 10_000, 2, 2, 1);
}

/// Sums and merged lists come out whole.
#[test]
fn nothing_that_is_merged_is_lost() {
    struct Count(u64);
    impl Merge for Count {
        fn merge(&mut self, newer: Self) {
            self.0 += newer.0;
        }
    }

    fn all<M: ManyProducers<V>, V: Send + 'static>(of: fn(u64) -> V, back: fn(V) -> u64) {
        let puts = 8_000 / LESS;
        let conflator = Conflator::<u64, V>::builder().mode::<M>().build();
        let sum = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                let mut consumer = conflator.consumer().unwrap();
                let sum = &sum;
                scope.spawn(move || {
                    consumer.run(WaitStrategy::Adaptive, |_, value| {
                        sum.fetch_add(back(value), Relaxed);
                    });
                });
            }
            let producing: Vec<_> = (0..3)
                .map(|_| {
                    let mut producer = conflator.producer();
                    scope.spawn(move || {
                        for value in 0..puts {
                            producer.put_key(&(value % 7), of(value)).unwrap();
                        }
                    })
                })
                .collect();
            producing
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            conflator.close();
        });
        assert_eq!(sum.into_inner(), 3 * puts * (puts - 1) / 2);
        balanced(&conflator);
    }
    all::<Sum, u64>(|value| value, |value| value);
    all::<Merged, Count>(Count, |count| count.0);
}

/// Keys are put, removed and expire at once, with few cells: each value is handled or handed back,
/// under its own key.
#[test]
fn removal_meets_everything() {
    let puts = 8_000 / LESS;
    let conflator = Conflator::<u64, u64>::builder().keys(8).build();
    thread::scope(|scope| {
        let mut consumer = conflator.consumer().unwrap();
        scope.spawn(move || {
            let run = consumer.run(WaitStrategy::Adaptive, |key, value| {
                assert_eq!(*key, value % 41, "a value under another key");
                assert!(value % 97 != 0, "some panic");
            });
            assert!(run.handled > 0);
        });
        let producing: Vec<_> = (0..3)
            .map(|at: u64| {
                let (conflator, mut producer) = (&conflator, conflator.producer());
                scope.spawn(move || {
                    let handles: Vec<_> =
                        (0..5).map(|key| conflator.handle(&key).unwrap()).collect();
                    for round in 0..puts {
                        let value = round * 3 + at;
                        let key = value % 41;
                        match (key, round % 5) {
                            (_, 0) => {
                                if let Some(old) = producer.remove(&key).value {
                                    assert_eq!(old % 41, key);
                                }
                            }
                            (0..5, _) => producer.put(&handles[key as usize], value).unwrap(),
                            _ => producer.put_key(&key, value).unwrap(),
                        }
                    }
                })
            })
            .collect();
        producing
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        conflator.close();
    });
    assert_eq!(conflator.pending(), 0);
    // No key stays twice.
    let mut keys = Vec::new();
    conflator.for_each(|key, _| keys.push(*key));
    keys.sort_unstable();
    let all = keys.len();
    keys.dedup();
    assert_eq!((keys.len(), conflator.len()), (all, all));
    assert!(conflator.cells() < 2000, "{}", conflator.cells());
    balanced(&conflator);
}

/// Consumers come and go in the middle of their laps.
#[test]
fn consumers_that_leave_lose_nothing() {
    let rounds = 3000 / LESS.min(100);
    let conflator = Conflator::<u64, u64, Newest>::builder().keys(300).build();
    let handled = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !conflator.is_closed() || conflator.pending() > 0 {
                    let mut consumer = conflator.consumer().unwrap();
                    for _ in 0..5 {
                        handled.fetch_add(u64::from(consumer.try_next().is_some()), Relaxed);
                    }
                }
            });
        }
        let mut producer = conflator.producer();
        for round in 0..rounds {
            producer.put_key(&(round % 300), round).unwrap();
        }
        conflator.close();
    });
    let figures = conflator.figures();
    assert_eq!(figures.handled, handled.into_inner());
    balanced(&conflator);
}

/// Closed in the middle, with puts under way: what each put says, the handlers and the drain agree.
#[test]
fn a_close_in_the_middle() {
    for _ in 0..if cfg!(miri) { 2 } else { 50 } {
        let conflator = Conflator::<u64, u64>::new();
        let accepted = AtomicU64::new(0);
        let out = AtomicU64::new(0);
        thread::scope(|scope| {
            for at in 0..2 {
                let mut producer = conflator.producer();
                let accepted = &accepted;
                scope.spawn(move || {
                    for value in 0.. {
                        match producer.put_key(&(at + value % 5), value) {
                            Ok(()) => accepted.fetch_add(1, Relaxed),
                            Err(PutError::Closed(_)) => break,
                            Err(error) => panic!("{error}"),
                        };
                    }
                });
            }
            let mut consumer = conflator.consumer().unwrap();
            let (conflator, out) = (&conflator, &out);
            scope.spawn(move || {
                while out.load(Relaxed) < 50 {
                    consumer.pass(|_, _| {
                        out.fetch_add(1, Relaxed);
                    });
                }
                conflator.close();
                consumer.run(WaitStrategy::Spin, |_, _| {
                    out.fetch_add(1, Relaxed);
                });
            });
        });
        assert_eq!(conflator.pending(), 0);
        let figures = conflator.figures();
        assert_eq!(figures.handled, out.into_inner());
        // A refused put had reached its cell, or had not.
        let tried = accepted.into_inner() + 2;
        assert!(
            (tried - 2..=tried).contains(&figures.submitted),
            "{figures:?}"
        );
        balanced(&conflator);
    }
}
