//! Scenarios that are too long for loom, in random schedules: random programs over tasks, and whole
//! runtimes with their workers.
//!
//! `cargo xtask shuttle -p rast-executor`. The checker of the programs is that of
//! `tests/it/histories.rs`. A wake-up that is lost is a deadlock, which the scheduler finds. The
//! runtimes have no watch, which would hide it, and no sockets.
#![cfg(rast_shuttle)]

#[path = "support/history.rs"]
mod history;
#[path = "support/program.rs"]
mod program;
#[path = "support/subjects.rs"]
mod subjects;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::Duration;

use program::{Size, Subject, run};
use rast_executor::primitive::model::{draw, faulty, model};
use rast_executor::primitive::sync::Mutex;
use rast_executor::primitive::thread;
use rast_executor::timers::{Clock, ManualClock, Nanos};
use rast_executor::{Runtime, block_on, sleep_until, spawn, yield_now};
use subjects::{Fault, Plain, Tasks, Workers};

const SIZE: Size = Size {
    threads: 3,
    ops: 8,
    tasks: 3,
    steps: 3,
};

fn runtime(workers: usize) -> Runtime {
    let builder = Runtime::builder().workers(workers).watch(None);
    builder.build().expect("a model has threads")
}

/// The scenario: a random program over such a subject keeps the rules.
fn program<S: Subject>(size: Size, subject: impl Fn() -> S) {
    let seed = draw();
    if let Err(broken) = run(seed, size, subject()) {
        panic!("{broken}, program {seed}");
    }
}

#[test]
fn tasks_keep_the_rules() {
    model(|| program(SIZE, Tasks::new));
}

#[test]
fn a_runtime_keeps_the_rules() {
    let size = Size {
        threads: 2,
        ops: 4,
        tasks: 2,
        steps: 2,
    };
    model(move || program(size, || Workers::new(runtime(2))));
}

#[test]
#[should_panic(expected = "rule 2: a wake-up was lost")]
fn a_wake_up_that_is_lost_is_caught() {
    faulty(|| program(SIZE, || Plain::new(Some(Fault::WakeDuringPoll))));
}

#[test]
#[should_panic(expected = "rule 4: an abort was lost")]
fn an_abort_that_is_lost_is_caught() {
    faulty(|| program(SIZE, || Plain::new(Some(Fault::LostAbort))));
}

#[test]
fn tasks_spawn_and_join_tasks_over_two_workers() {
    model(|| {
        let runtime = runtime(2);
        let outer = runtime.spawn(async {
            let inner: Vec<_> = (0..3)
                .map(|n| {
                    spawn(async move {
                        yield_now().await;
                        n
                    })
                })
                .collect();
            let mut sum = 0;
            for task in inner {
                sum += task.await.unwrap();
            }
            sum
        });
        assert_eq!(runtime.block_on(outer).unwrap(), 3);
    });
}

#[test]
fn workers_sleep_and_are_woken_from_outside() {
    model(|| {
        let runtime = runtime(2);
        for n in 0..3 {
            let task = runtime.spawn(async move { n });
            assert_eq!(block_on(task).unwrap(), n);
        }
    });
}

#[test]
fn a_task_is_woken_by_a_thread_and_aborted_by_another() {
    model(|| {
        let runtime = runtime(1);
        let place: std::sync::Arc<Mutex<Option<Waker>>> = std::sync::Arc::default();
        let put = std::sync::Arc::clone(&place);
        let task = runtime.spawn(poll_fn(move |cx| {
            let old = put.lock().replace(cx.waker().clone());
            drop(old);
            Poll::<()>::Pending
        }));
        let abort = task.abort_handle();
        let waking = thread::spawn(move || {
            let waker = place.lock().take();
            waker.into_iter().for_each(Waker::wake);
        });
        let aborting = thread::spawn(move || abort.abort());
        assert!(block_on(task).unwrap_err().is_cancelled());
        waking.join().unwrap();
        aborting.join().unwrap();
    });
}

#[test]
fn a_shutdown_meets_spawns_and_wake_ups() {
    model(|| {
        let runtime = runtime(2);
        let handle = runtime.handle().clone();
        let waits = runtime.spawn(std::future::pending::<()>());
        let spawning = thread::spawn(move || {
            let tasks = [0, 1].map(|n| handle.spawn(async move { n }));
            tasks.map(|task| block_on(task).is_ok())
        });
        let _ = runtime.shutdown(Duration::ZERO);
        assert!(block_on(waits).unwrap_err().is_cancelled());
        // Each ran or was cancelled, and its handle was woken.
        spawning.join().unwrap();
    });
}

#[test]
fn a_sleep_ends_when_the_clock_is_moved() {
    model(|| {
        let clock = ManualClock::new();
        let builder = Runtime::builder().workers(2).watch(None);
        let runtime = builder.clock(clock.clone()).build().unwrap();
        let at = clock.now().saturating_add(Nanos::from_nanos(1));
        let armed = runtime.spawn(async move {
            let mut rest = pin!(sleep_until(at));
            poll_fn(|cx| rest.as_mut().poll(cx)).await;
        });
        clock.advance(Nanos::from_nanos(1));
        runtime.handle().clock_moved();
        block_on(armed).unwrap();
    });
}
