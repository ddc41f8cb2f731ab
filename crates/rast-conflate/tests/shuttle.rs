//! Scenarios that are too long for loom: four threads, tens of operations, tables that grow.
//!
//! Under `--cfg rast_shuttle` each runs in many random schedules, over tables of two cells, windows
//! of one and marks of two bits a word: `cargo xtask shuttle -p rast-conflate`. Otherwise they run
//! as a stress on real threads.
#![cfg(not(rast_loom))]

mod support;

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Relaxed, Release},
};

use rast_conflate::primitive::model::{draw, model};
use rast_conflate::primitive::{Random, WaitStrategy, thread};
use rast_conflate::{Conflator, Consumer, Marks, Merge, Merged, Mode, Newest, Producer};
use support::Hash;

const KEYS: usize = 6;
const PRODUCERS: usize = 2;
/// Steps of each thread.
const STEPS: u64 = 10;

/// A number of a producer, which counts up.
type Value = (usize, u64);

/// What the handlers saw. A panic of a handler would be contained, so faults are noted.
#[derive(Default)]
struct Seen {
    is_running: [AtomicBool; KEYS],
    /// Of each key and producer the last number.
    last: [[AtomicU64; PRODUCERS]; KEYS],
    ran: AtomicU64,
    is_faulty: AtomicBool,
}

impl Seen {
    fn handle(&self, key: u8, (producer, number): Value) {
        let is_running = &self.is_running[usize::from(key)];
        let mut is_good = !is_running.swap(true, AcqRel);
        // Others may come between.
        thread::yield_now();
        let last = &self.last[usize::from(key)][producer];
        is_good &= last.swap(number, AcqRel) < number;
        self.ran.fetch_add(1, Relaxed);
        is_running.store(false, Release);
        if !is_good {
            self.is_faulty.store(true, Relaxed);
        }
    }

    fn pass(&self, consumer: &mut Consumer<u8, Value, Newest, Hash>) {
        consumer.pass(|key, value| self.handle(*key, value));
    }
}

type Shared<V, M = Newest> = Conflator<u8, V, M, Hash>;

fn conflator<V: Send + 'static, M: Mode<V>>(marks: Marks) -> Shared<V, M> {
    let builder = Conflator::<u8, V>::builder().mode::<M>();
    let builder = builder.keys(1).marks(marks).batch(2);
    builder.hasher(Hash::default()).build()
}

fn balanced<V: Send + 'static, M: Mode<V>>(of: &Shared<V, M>) {
    let f = of.figures();
    let sum = f.handled + f.conflated + f.panicked + f.returned;
    assert_eq!(f.submitted, sum, "{f:?}");
}

/// Puts by handle and by key, and removals; returns of each key the last number.
fn put(
    of: &Shared<Value>,
    mut producer: Producer<u8, Value, Newest, Hash>,
    me: usize,
    mut random: Random,
    removes: bool,
) -> [u64; KEYS] {
    let handle = of.handle(&0).unwrap();
    let mut last = [0; KEYS];
    for number in 1..=STEPS {
        let key = random.below(KEYS);
        if removes && random.below(5) == 0 {
            producer.remove(&(key as u8));
            continue;
        }
        let put = match key {
            0 => producer.put(&handle, (me, number)),
            _ => producer.put_key(&(key as u8), (me, number)),
        };
        assert_eq!(put, Ok(()));
        last[key] = number;
    }
    last
}

/// Two producers and two consumers over tables that grow: keys run on one consumer at a time, no
/// older value of a producer follows a newer one, and of each key the last value runs.
fn newest_runs(marks: Marks, removes: bool) {
    model(move || {
        let mut random = Random::new(draw());
        let of = conflator::<Value, Newest>(marks);
        let seen = Arc::new(Seen::default());
        let putting: Vec<_> = (0..PRODUCERS)
            .map(|me| {
                let (of, producer) = (of.clone(), of.producer());
                let choices = Random::new(random.draw());
                thread::spawn(move || put(&of, producer, me, choices, removes))
            })
            .collect();
        let mut mine = of.consumer().unwrap();
        let other = {
            let (of, seen) = (of.clone(), Arc::clone(&seen));
            thread::spawn(move || {
                for _ in 0..3 {
                    // One that comes and goes hands on what it had claimed.
                    let mut consumer = of.consumer().unwrap();
                    seen.pass(&mut consumer);
                    if let Some(item) = consumer.try_next() {
                        seen.handle(*item.key(), *item);
                    }
                }
            })
        };
        for _ in 0..4 {
            seen.pass(&mut mine);
        }
        let last: Vec<_> = putting.into_iter().map(|t| t.join().unwrap()).collect();
        other.join().unwrap();
        seen.pass(&mut mine);
        assert_eq!(of.pending(), 0);
        assert!(!seen.is_faulty.load(Relaxed), "order or exclusion of a key");
        for key in 0..if removes { 0 } else { KEYS } {
            // Of the last values of the producers one was the last of the key.
            let ran = |me: usize| seen.last[key][me].load(Relaxed);
            let is_last = (0..PRODUCERS).any(|me| ran(me) >= last[me][key]);
            assert!(is_last, "key {key}: {last:?}");
        }
        assert_eq!(of.figures().handled, seen.ran.load(Relaxed));
        balanced(&of);
    });
}

#[test]
fn newest_runs_by_the_tree() {
    newest_runs(Marks::Tree, false);
}

#[test]
fn newest_runs_by_the_mask() {
    newest_runs(Marks::Flat, false);
}

#[test]
fn newest_runs_beside_removals() {
    newest_runs(Marks::Tree, true);
}

/// Consumers that sleep whenever nothing is due are woken for each value, and end after the close;
/// a wake-up that is missing is a deadlock.
#[test]
fn sleepers_get_all_that_is_merged() {
    struct Sum(u64);
    impl Merge for Sum {
        fn merge(&mut self, newer: Self) {
            self.0 += newer.0;
        }
    }
    model(|| {
        let of = conflator::<Sum, Merged>(Marks::Tree);
        let sum = Arc::new(AtomicU64::new(0));
        let consuming: Vec<_> = (0..2)
            .map(|_| {
                let (mut consumer, sum) = (of.consumer().unwrap(), Arc::clone(&sum));
                thread::spawn(move || {
                    consumer.run(WaitStrategy::Park, |_, Sum(value)| {
                        sum.fetch_add(value, Relaxed);
                    })
                })
            })
            .collect();
        let putting = {
            let mut producer = of.producer();
            thread::spawn(move || {
                for value in 1..=STEPS {
                    let key = (value % KEYS as u64) as u8;
                    assert!(producer.put_key(&key, Sum(value)).is_ok(), "it is open");
                }
            })
        };
        putting.join().unwrap();
        of.close();
        for thread in consuming {
            assert_eq!(thread.join().unwrap().panicked, 0);
        }
        assert_eq!(
            (sum.load(Relaxed), of.pending()),
            (STEPS * (STEPS + 1) / 2, 0)
        );
        balanced(&of);
    });
}
