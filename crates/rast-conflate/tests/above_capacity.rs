//! Producers put four values for each value that is handled: how long a key waits, in passes.
//!
//! With optimisation the tests on one thread make a million passes, in seconds, and the others a
//! fraction of that, or a million with `RAST_FULL` set. `cargo xtask verify` runs them so in its
//! step `stress`. Without optimisation a million passes take minutes, so there are fewer.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use core::array::from_fn;
use core::mem::replace;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread;

use rast_conflate::primitive::Backoff;
use rast_conflate::{Conflator, KeyHandle, Pass};

/// Number of passes on one thread.
const PASSES: u64 = if cfg!(miri) {
    2
} else if cfg!(debug_assertions) {
    2_000
} else {
    1_000_000
};
/// Number of passes of each consumer that has a thread. Producers on other threads put without end,
/// so a pass takes as long as the threads share the processors.
fn passes_of_threads() -> u64 {
    match std::env::var_os("RAST_FULL") {
        Some(_) => PASSES,
        None => PASSES.min(20_000),
    }
}

/// Number of puts for each value that is handled.
const PUTS: u64 = 4;
/// Few keys, because a pass costs as much as it handles.
const KEYS: usize = 24;
/// A table for so many keys has 256 cells, so the marks of the keys are in four words.
const ROOM: usize = 128;

fn conflator() -> Conflator<usize, u64> {
    Conflator::builder().keys(ROOM).build()
}

fn handles(conflator: &Conflator<usize, u64>) -> [KeyHandle<usize, u64>; KEYS] {
    from_fn(|key| conflator.handle(&key).unwrap())
}

fn balanced(of: &Conflator<usize, u64>) {
    let f = of.figures();
    let sum = f.handled + f.conflated + f.panicked + f.returned;
    assert_eq!(f.submitted, sum, "{f:?}");
}

/// Numbers that look random (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// A value that waits under a key.
#[derive(Clone, Copy)]
struct Waiting {
    newest: u64,
    /// The pass of the first put after the key's last run, and the number of runs before that put.
    pass: u64,
    since: u64,
}

/// One thread, so that all of it is exact. Each handler puts four values under keys at random, and
/// `consumers` make passes in turns. Each pass runs each key that has a value when the pass begins
/// exactly once, with its newest value, and any other key once at most.
///
/// So a key waits for the rest of the pass of its put and for its turn in the next pass. That is
/// less than two runs of each key.
fn exact(consumers: usize) {
    let conflator = conflator();
    let handles = handles(&conflator);
    let mut producer = conflator.producer();
    let mut consumers: Vec<_> = (0..consumers)
        .map(|_| conflator.consumer().unwrap())
        .collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut puts, mut runs, mut oldest) = (0, 0, 0);
    let mut waiting: [Option<Waiting>; KEYS] = [None; KEYS];
    let mut put = |waiting: &mut [Option<Waiting>; KEYS], key: usize, pass: u64, since: u64| {
        puts += 1;
        producer.put(&handles[key], puts).unwrap();
        let newest = puts;
        let first = waiting[key].unwrap_or(Waiting {
            newest,
            pass,
            since,
        });
        waiting[key] = Some(Waiting { newest, ..first });
    };
    for key in 0..KEYS {
        put(&mut waiting, key, 0, runs);
    }
    for pass in 0..PASSES {
        let at_start = waiting.map(|value| value.is_some());
        let mut seen = [false; KEYS];
        let at = pass as usize % consumers.len();
        let ran = consumers[at].pass(|key, value| {
            assert!(!replace(&mut seen[*key], true), "key {key} ran twice");
            let was = waiting[*key].take().expect("its value was handled before");
            assert_eq!(value, was.newest, "the newest value of key {key}");
            assert!(was.pass + 1 >= pass, "key {key} waited for a whole pass");
            oldest = oldest.max(runs - was.since);
            runs += 1;
            for _ in 0..PUTS {
                put(&mut waiting, random.below(KEYS), pass, runs);
            }
        });
        // A handler's failed assertion is a panic that the conflator contains.
        assert_eq!(ran.panicked, 0, "in pass {pass}");
        for key in 0..KEYS {
            assert!(
                seen[key] || !at_start[key],
                "pass {pass} left out key {key}"
            );
        }
    }
    println!("{PASSES} passes, {runs} runs, {puts} puts; a key waited for {oldest} runs at most");
    assert!(oldest < 2 * KEYS as u64);
    conflator.drain(|_, _| {});
    balanced(&conflator);
}

#[test]
fn each_dirty_key_runs_once_in_a_pass() {
    exact(1);
}

#[test]
fn each_dirty_key_runs_once_in_a_pass_of_consumers_in_turns() {
    exact(2);
}

/// Producers on threads of their own, at least four times as fast as the handlers: a handler
/// returns only after four puts for each run.
struct Load {
    puts: [AtomicU64; 2],
    runs: AtomicU64,
    is_over: AtomicBool,
}

impl Load {
    fn new() -> Self {
        Self {
            puts: from_fn(|_| AtomicU64::new(0)),
            runs: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Puts rising numbers under all keys until the load ends; returns the number of puts. `done`
    /// is told each key and number whose put has returned.
    fn put(&self, at: usize, conflator: &Conflator<usize, u64>, done: impl Fn(usize, u64)) -> u64 {
        // If a put fails, no handler waits for the next one.
        let _ending = self.ending();
        let handles = handles(conflator);
        let mut producer = conflator.producer();
        for number in 1.. {
            let key = (number as usize * 7 + at) % KEYS;
            producer.put(&handles[key], number).unwrap();
            self.puts[at].store(number, Relaxed);
            done(key, number);
            if number > KEYS as u64 && self.is_over.load(Relaxed) {
                return number;
            }
        }
        unreachable!("the numbers do not end")
    }

    /// Ends a run: waits until there are four puts for each.
    fn ran(&self) {
        let due = PUTS * (self.runs.fetch_add(1, Relaxed) + 1);
        let puts = || self.puts.iter().map(|puts| puts.load(Relaxed)).sum::<u64>();
        let backoff = Backoff::new();
        while puts() < due && !self.is_over.load(Relaxed) {
            backoff.snooze();
        }
    }

    /// One if the pass ran a key. After one that ran none a producer may need the processor.
    fn count(&self, pass: Pass) -> u64 {
        assert_eq!(pass.panicked, 0);
        if pass.is_empty() {
            assert!(!self.is_over.load(Relaxed), "no producer");
            thread::yield_now();
        }
        u64::from(!pass.is_empty())
    }

    /// Ends the load when it is dropped, also if the test fails.
    fn ending(&self) -> Ending<'_> {
        Ending(&self.is_over)
    }

    fn print(&self) {
        let runs = self.runs.load(Relaxed);
        let puts: u64 = self.puts.iter().map(|puts| puts.load(Relaxed)).sum();
        let passes = passes_of_threads();
        println!("{passes} passes of each consumer, {runs} runs, {puts} puts");
    }
}

struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A producer outruns the one consumer: each key that is dirty when a pass begins runs once in it,
/// with that value or a newer one, and no key twice. So no key's newest value waits for longer than
/// a pass.
#[test]
fn a_producer_outruns_a_consumer() {
    let conflator = conflator();
    let load = Load::new();
    // Of each key the last number whose put has returned.
    let done: [_; KEYS] = from_fn(|_| AtomicU64::new(0));
    thread::scope(|scope| {
        let putting = scope.spawn(|| {
            load.put(0, &conflator, |key, number| {
                done[key].store(number, Release);
            })
        });
        let ending = load.ending();
        let mut consumer = conflator.consumer().unwrap();
        let mut handled = [0; KEYS];
        let (mut pass, passes) = (0, passes_of_threads());
        while pass < passes {
            let before: [_; KEYS] = from_fn(|key| done[key].load(Acquire));
            let mut seen = [false; KEYS];
            let ran = consumer.pass(|key, number| {
                assert!(!replace(&mut seen[*key], true), "key {key} ran twice");
                handled[*key] = number;
                load.ran();
            });
            pass += load.count(ran);
            for key in 0..KEYS {
                let (put, ran) = (before[key], handled[key]);
                assert!(ran >= put, "pass {pass} left out {put} of key {key}");
            }
        }
        drop(ending);
        let puts = putting.join().unwrap();
        consumer.pass(|key, number| handled[*key] = number);
        assert_eq!(handled.iter().max(), Some(&puts));
    });
    load.print();
    balanced(&conflator);
}

/// Producers outrun two consumers: a consumer's pass hands out each key once at most, and no key
/// that is put all the time is left out.
#[test]
fn producers_outrun_two_consumers() {
    let conflator = conflator();
    let load = Load::new();
    let total: [_; KEYS] = from_fn(|_| AtomicU64::new(0));
    thread::scope(|scope| {
        for at in 0..2 {
            let (conflator, load) = (&conflator, &load);
            scope.spawn(move || load.put(at, conflator, |_, _| {}));
        }
        let _ending = load.ending();
        let consuming = [(); 2].map(|()| {
            let mut consumer = conflator.consumer().unwrap();
            let (total, load) = (&total, &load);
            scope.spawn(move || {
                let (mut pass, passes) = (0, passes_of_threads());
                while pass < passes {
                    let mut seen = [false; KEYS];
                    let ran = consumer.pass(|key, _| {
                        assert!(!replace(&mut seen[*key], true), "key {key} ran twice");
                        total[*key].fetch_add(1, Relaxed);
                        load.ran();
                    });
                    pass += load.count(ran);
                }
            })
        });
        let passed = consuming.map(|thread| thread.join());
        assert!(passed.iter().all(Result::is_ok));
    });
    load.print();
    conflator.drain(|key, _| {
        total[*key].fetch_add(1, Relaxed);
    });
    assert!(total.iter().all(|count| count.load(Relaxed) > 0));
    balanced(&conflator);
}
