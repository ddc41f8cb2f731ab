//! Several workers: blocking steps, stealing, threads of the user.

use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

use rast_scheduler::timers::{ManualClock, Nanos};
use rast_scheduler::{MAX_WORKERS, Next, NoSeat, Scheduler, Task};

use crate::support::{Count, Gate, LONG};

/// The source's "domino": three steps that wait for each other run on three workers.
#[test]
fn blocking_steps_run_side_by_side() {
    for _ in 0..50 {
        let scheduler = Scheduler::new(3).unwrap();
        let gate = Gate::new();
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let gate = gate.clone();
                Task::new(move |_| {
                    gate.pass();
                    Next::Exit
                })
            })
            .collect();
        scheduler.post_many(tasks).unwrap();
        gate.await_arrivals(3);
        gate.open();
        assert!(scheduler.wait_idle(LONG));
    }
}

/// What a blocked worker had in its queue is run by the others.
#[test]
fn a_blocked_worker_delays_no_task() {
    let scheduler = Scheduler::new(2).unwrap();
    let gate = Gate::new();
    let ran = Count::new();
    // One worker takes all of these in a round; the first blocks it.
    let inside = gate.clone();
    let first = Task::new(move |_| {
        inside.pass();
        Next::Exit
    });
    let others = (0..200).map(|number| {
        let ran = ran.clone();
        let mut steps = 3;
        Task::new(move |cx| {
            steps -= 1;
            match steps {
                0 => {
                    ran.add();
                    Next::Exit
                }
                _ if number % 2 == 0 => Next::Again,
                _ => cx.after(Nanos::from_micros(number)),
            }
        })
    });
    scheduler
        .post_many([first].into_iter().chain(others))
        .unwrap();
    gate.await_arrivals(1);
    ran.reaches(200);
    gate.open();
}

/// Deadlines and wake-ups come through while the worker that kept the time is blocked.
#[test]
fn a_blocked_keeper_delays_no_deadline() {
    let scheduler = Scheduler::new(2).unwrap();
    for _ in 0..100 {
        let gate = Gate::new();
        let inside = gate.clone();
        let blocks = Task::new(move |_| {
            inside.pass();
            Next::Exit
        });
        scheduler
            .post_after(blocks, Nanos::from_micros(20))
            .unwrap();
        let ran = Count::new();
        let count = ran.clone();
        let later = Task::new(move |_| {
            count.add();
            Next::Exit
        });
        scheduler
            .post_after(later, Nanos::from_micros(200))
            .unwrap();
        gate.await_arrivals(1);
        ran.reaches(1);
        gate.open();
        assert!(scheduler.wait_idle(LONG));
    }
}

#[test]
fn threads_of_the_user_work() {
    let scheduler = Scheduler::builder().workers(0).guests(2).build();
    assert_eq!(scheduler.work(), Err(NoSeat), "it is not running");
    scheduler.start().unwrap();
    let guests: Vec<_> = (0..2)
        .map(|_| {
            let remote = scheduler.remote();
            thread::spawn(move || remote.work())
        })
        .collect();
    let gate = Gate::new();
    let tasks: Vec<_> = (0..2)
        .map(|_| {
            let gate = gate.clone();
            scheduler.spawn(move || gate.pass())
        })
        .collect();
    gate.await_arrivals(2);
    assert_eq!(scheduler.work(), Err(NoSeat), "both seats are taken");
    gate.open();
    for task in tasks {
        task.join().unwrap();
    }
    assert!(scheduler.wait_idle(LONG));
    assert!(scheduler.stop().unwrap().is_empty());
    for guest in guests {
        guest.join().unwrap().unwrap();
    }
    scheduler.start().unwrap();
    let remote = scheduler.remote();
    let guest = thread::spawn(move || remote.work());
    assert_eq!(scheduler.spawn(|| 3).join().unwrap(), 3);
    drop(scheduler);
    guest.join().unwrap().unwrap();
}

#[test]
fn the_number_of_workers_is_bounded() {
    let scheduler = Scheduler::builder().workers(1000).guests(1).build();
    assert_eq!(scheduler.worker_threads(), MAX_WORKERS - 1);
    assert_eq!(scheduler.stats().workers.len(), MAX_WORKERS);
}

/// A worker that sleeps has counted its sleep, and the steps before it.
#[test]
fn a_sleeping_worker_has_counted() {
    let scheduler = Scheduler::new(1).unwrap();
    scheduler.post(Task::new(|_| Next::Exit)).unwrap();
    assert!(scheduler.wait_idle(LONG));
    crate::support::until("the counts", || {
        let worker = scheduler.stats().workers[0];
        worker.steps == 1 && worker.sleeps > 0
    });
}

/// No thread polls: a scheduler that waits sleeps.
#[test]
fn idle_workers_sleep() {
    let scheduler = Scheduler::new(3).unwrap();
    for _ in 0..50 {
        scheduler
            .post_after(Task::new(|_| Next::Exit), Nanos::from_secs(3600))
            .unwrap();
        scheduler.post_wait(Task::new(|_| Next::Exit)).unwrap();
    }
    scheduler.spawn(|| ()).join().unwrap();
    let sleeps = || {
        scheduler
            .stats()
            .workers
            .iter()
            .map(|worker| worker.sleeps)
            .sum::<u64>()
    };
    // Until the counts do not change for as many looks as a worker that polled would need to move
    // them.
    let (mut last, mut same) = (sleeps(), 0);
    crate::support::until("the workers to sleep", || {
        let now = sleeps();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same > 20_000
    });
}

/// A clock that does not move makes every batch look as if it took no time.
#[test]
fn a_batch_may_be_as_long_as_numbers_go() {
    let scheduler = Scheduler::builder()
        .workers(1)
        .batch(usize::MAX)
        .batch_time(Nanos::MAX)
        .clock(ManualClock::new())
        .start()
        .unwrap();
    for number in 0..70 {
        assert_eq!(scheduler.spawn(move || number).join().unwrap(), number);
    }
    assert!(scheduler.stop().unwrap().is_empty());
}

#[test]
fn a_name_that_the_system_cannot_bear_is_an_error() {
    let scheduler = Scheduler::builder().workers(2).name("a\0b").build();
    let error = scheduler.start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(scheduler.wait_idle(Duration::ZERO));
}
