//! Clocks of the program that panic: between polls, while a task is queued, before a sleep, and in
//! their destructors.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rast_executor::timers::{Clock, Instant, MonotonicClock};
use rast_executor::{LocalExecutor, Runtime, now, sleep, spawn, spawn_local, yield_now};

const LONG: Duration = Duration::from_secs(60);

/// A payload whose destructor panics.
struct Loud;

impl Drop for Loud {
    fn drop(&mut self) {
        resume_unwind(Box::new("a payload"));
    }
}

/// A clock that panics at some readings, and in its destructor.
struct Broken {
    clock: MonotonicClock,
    is_due: fn(u64) -> bool,
    readings: Arc<AtomicU64>,
    drops: Arc<AtomicU64>,
}

impl Broken {
    fn new(is_due: fn(u64) -> bool) -> Self {
        Self {
            clock: MonotonicClock::new(),
            is_due,
            readings: Arc::default(),
            drops: Arc::default(),
        }
    }
}

impl Clock for Broken {
    fn now(&self) -> Instant {
        if (self.is_due)(self.readings.fetch_add(1, SeqCst)) {
            resume_unwind(Box::new(Loud));
        }
        self.clock.now()
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        self.drops.fetch_add(1, SeqCst);
        resume_unwind(Box::new(Loud));
    }
}

/// Readings that panic, and after which time goes on.
const NOW_AND_THEN: [fn(u64) -> bool; 5] = [
    |reading| reading % 2 == 0,
    |reading| reading % 2 == 1,
    |reading| reading % 7 < 6,
    |reading| reading < 100,
    |reading| (10..300).contains(&reading),
];

/// Sleeps and yields in turns.
async fn rest(number: u64) -> u64 {
    for turn in 0..4 {
        sleep(Duration::from_micros(50 * (number % 5 + turn))).await;
        yield_now().await;
    }
    number
}

#[test]
fn a_clock_that_panics_stops_no_local_executor() {
    for is_due in NOW_AND_THEN {
        let clock = Broken::new(is_due);
        let readings = Arc::clone(&clock.readings);
        let executor = LocalExecutor::with_clock(clock);
        let sum = executor.run(async {
            let tasks: Vec<_> = (0..40).map(|number| spawn_local(rest(number))).collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            sum
        });
        assert_eq!((sum, executor.tasks()), (780, 0));
        assert!((0..readings.load(SeqCst)).any(is_due), "it has panicked");
    }
}

#[test]
fn a_clock_that_panics_stops_no_worker_and_loses_no_task() {
    const TASKS: u64 = 400;
    for is_due in NOW_AND_THEN {
        let clock = Broken::new(is_due);
        let readings = Arc::clone(&clock.readings);
        let runtime = Runtime::builder().workers(2).clock(clock).build().unwrap();
        let (sender, receiver) = mpsc::channel();
        for number in 0..TASKS {
            let sender = sender.clone();
            // From outside and from a worker: both read the clock for some of the tasks.
            let task = async move {
                let task = spawn(rest(number));
                sender.send(task.await.unwrap()).unwrap();
            };
            runtime.spawn(task).detach();
        }
        let mut sum = 0;
        for _ in 0..TASKS {
            sum += receiver.recv_timeout(LONG).expect("no task is lost");
        }
        assert_eq!(sum, TASKS * (TASKS - 1) / 2);
        assert!((0..readings.load(SeqCst)).any(is_due), "it has panicked");
        let ended = runtime.shutdown(LONG);
        assert!(ended.is_clean(), "{ended:?}");
    }
}

#[test]
fn time_stands_still_while_a_clock_panics() {
    let always = |_| true;
    LocalExecutor::with_clock(Broken::new(always)).run(async {
        assert_eq!((now(), now()), (Instant::ORIGIN, Instant::ORIGIN));
        // What needs no time goes on.
        sleep(Duration::ZERO).await;
        assert_eq!(spawn_local(async { 1 }).await.unwrap(), 1);
    });
    let builder = Runtime::builder().workers(2).clock(Broken::new(always));
    let runtime = builder.build().unwrap();
    let asleep = runtime.spawn(sleep_for_ever());
    for number in 0..1_000 {
        assert_eq!(
            runtime
                .block_on(runtime.spawn(async move { number }))
                .unwrap(),
            number
        );
    }
    assert_eq!(runtime.shutdown(Duration::ZERO).unfinished.len(), 1);
    assert!(rast_executor::block_on(asleep).unwrap_err().is_cancelled());
}

/// Waits for a time that does not come.
async fn sleep_for_ever() {
    sleep(Duration::from_millis(1)).await;
}

#[test]
fn a_destructor_of_a_clock_that_panics_is_contained() {
    let clock = Broken::new(|_| false);
    let drops = Arc::clone(&clock.drops);
    drop(LocalExecutor::with_clock(clock));
    assert_eq!(drops.load(SeqCst), 1);
    let clock = Broken::new(|_| false);
    let drops = Arc::clone(&clock.drops);
    let runtime = Runtime::builder().workers(2).clock(clock).build().unwrap();
    assert!(runtime.shutdown(LONG).is_clean());
    // A worker that has returned drops it a moment later.
    while drops.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
}
