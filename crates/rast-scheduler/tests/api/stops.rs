//! Stop, restart, drain, idle.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rast_scheduler::timers::{Instant, Nanos};
use rast_scheduler::{Finished, JoinError, Next, OnWorker, Scheduler, Task};

use crate::support::{Count, Gate, LONG, until};

#[test]
fn a_stop_returns_what_is_left_and_a_start_goes_on() {
    let scheduler = Scheduler::new(2).unwrap();
    let ran = Count::new();
    let count = |ran: &Count| {
        let ran = ran.clone();
        Task::new(move |_| {
            ran.add();
            Next::Exit
        })
    };
    let hour = scheduler.now().saturating_add(Nanos::from_secs(3600));
    let later = hour.saturating_add(Nanos::from_secs(1));
    scheduler.post_wait(count(&ran)).unwrap();
    scheduler.post_at(count(&ran), later).unwrap();
    scheduler.post_at(count(&ran), hour).unwrap();
    let tasks = scheduler.stop().unwrap();
    let deadlines: Vec<_> = tasks.iter().map(Task::deadline).collect();
    assert_eq!(deadlines, [Some(hour), Some(later), None]);
    assert!(scheduler.stop().unwrap().is_empty());
    assert_eq!(ran.get(), 0);

    // What is posted meanwhile is kept.
    scheduler.post(count(&ran)).unwrap();
    assert!(!scheduler.wait_idle(Duration::ZERO));
    for round in 1..4 {
        scheduler.start().unwrap();
        scheduler.start().unwrap();
        ran.reaches(round);
        assert!(scheduler.stop().unwrap().is_empty());
        scheduler.post(count(&ran)).unwrap();
    }
    scheduler.start().unwrap();
    let mut tasks = tasks;
    tasks[2].clear_deadline();
    tasks[0].set_deadline(Instant::ORIGIN);
    drop(tasks.remove(1));
    scheduler.post_many(tasks).unwrap();
    ran.reaches(6);
}

#[test]
fn a_stop_returns_ready_tasks_too() {
    let scheduler = Arc::new(Scheduler::new(1).unwrap());
    let (gate, go) = (Gate::new(), Gate::new());
    let (at, on, inside) = (gate.clone(), go.clone(), Arc::clone(&scheduler));
    // The only worker blocks until the stop has begun.
    let blocker = scheduler.spawn(move || {
        at.open();
        on.pass();
        until("the stop", || inside.start().is_err());
    });
    gate.pass();
    let queued: Vec<_> = (0..500)
        .map(|number| scheduler.spawn(move || number))
        .collect();
    let stopper = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || scheduler.stop().unwrap())
    };
    go.open();
    let tasks = stopper.join().unwrap();
    blocker.join().unwrap();
    assert_eq!(tasks.len(), 500);
    assert!(queued.iter().all(|task| !task.is_finished()));
    scheduler.post_many(tasks).unwrap();
    scheduler.start().unwrap();
    for (number, task) in queued.into_iter().enumerate() {
        assert_eq!(task.join().unwrap(), number);
    }
}

#[test]
fn dropping_what_a_stop_returns_ends_it() {
    let scheduler = Scheduler::new(1).unwrap();
    let pending = scheduler.spawn_future(std::future::pending::<()>());
    let handle = pending.handle();
    assert!(scheduler.wait_idle(LONG));
    drop(scheduler.stop().unwrap());
    assert_eq!(handle.wake(), Err(Finished));
    assert!(matches!(pending.join(), Err(JoinError::Cancelled)));
}

/// Threads post while another stops and starts: nothing is lost, nothing runs twice.
#[test]
fn stop_while_posting() {
    const EACH: usize = 3000;
    let scheduler = Arc::new(Scheduler::new(2).unwrap());
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let posters: Vec<_> = (0..2)
        .map(|poster| {
            let (remote, seen) = (scheduler.remote(), Arc::clone(&seen));
            thread::spawn(move || {
                for number in 0..EACH {
                    let seen = Arc::clone(&seen);
                    let mut steps = number % 3;
                    let task = Task::new(move |cx| {
                        if steps > 0 {
                            steps -= 1;
                            return if steps == 1 {
                                Next::Again
                            } else {
                                cx.after(Nanos::from_nanos(1))
                            };
                        }
                        assert!(seen.lock().unwrap().insert((poster, number)));
                        Next::Exit
                    });
                    remote.post(task).unwrap();
                }
            })
        })
        .collect();
    for _ in 0..50 {
        let tasks = scheduler.stop().unwrap();
        scheduler.start().unwrap();
        scheduler.post_many(tasks).unwrap();
    }
    for poster in posters {
        poster.join().unwrap();
    }
    assert!(scheduler.wait_idle(LONG));
    assert_eq!(seen.lock().unwrap().len(), 2 * EACH);
    assert_eq!(scheduler.stats().panics, 0);
}

#[test]
fn a_step_cannot_wait_for_itself() {
    let scheduler = Arc::new(Scheduler::new(1).unwrap());
    let inside = Arc::clone(&scheduler);
    let asked = scheduler.spawn(move || (inside.stop().map(drop), inside.drain(LONG).map(drop)));
    assert_eq!(asked.join().unwrap(), (Err(OnWorker), Err(OnWorker)));
}

/// The last owner may be a step.
#[test]
fn a_step_may_drop_the_scheduler() {
    for workers in 1..4 {
        let scheduler = Scheduler::new(workers).unwrap();
        let remote = scheduler.remote();
        let waiting = Task::new(|_| Next::Wait);
        let handle = waiting.handle();
        scheduler.post(waiting).unwrap();
        assert!(scheduler.wait_idle(LONG));
        let dropped = remote.spawn(move || drop(scheduler));
        dropped.join().unwrap();
        until("the close", || handle.wake() == Err(Finished));
        until("a refusal", || {
            remote.post(Task::new(|_| Next::Exit)).is_err()
        });
    }
}

#[test]
fn a_drain_lets_end_what_ends() {
    let scheduler = Scheduler::new(2).unwrap();
    let ran = Count::new();
    for number in 0..100_u64 {
        let ran = ran.clone();
        let task = Task::new(move |_| {
            ran.add();
            Next::Exit
        });
        scheduler
            .post_after(task, Nanos::from_micros(number * 20))
            .unwrap();
    }
    scheduler.post_wait(Task::new(|_| Next::Exit)).unwrap();
    let left = scheduler.drain(LONG).unwrap();
    assert_eq!((ran.get(), left.len()), (100, 1));

    scheduler.start().unwrap();
    scheduler
        .post_after(Task::new(|_| Next::Exit), Nanos::from_secs(3600))
        .unwrap();
    assert_eq!(scheduler.drain(Duration::ZERO).unwrap().len(), 1);
}

#[test]
fn idle_is_told_when_it_is_true_and_not_before() {
    let scheduler = Scheduler::new(2).unwrap();
    assert!(scheduler.wait_idle(LONG));
    let ran = Count::new();
    for round in 1..300 {
        let ran_here = ran.clone();
        let task = Task::new(move |_| {
            ran_here.add();
            Next::Exit
        });
        if round % 3 == 0 {
            scheduler
                .post_after(task, Nanos::from_nanos(round as u64 * 100))
                .unwrap();
        } else {
            scheduler.post(task).unwrap();
        }
        assert!(scheduler.wait_idle(LONG));
        assert_eq!(ran.get(), round);
    }
    let busy = Scheduler::new(1).unwrap();
    busy.post(Task::new(|_| Next::Again)).unwrap();
    assert!(!busy.wait_idle(Duration::from_millis(1)));
}

/// A task whose wake-up is refused ends while the store is emptied; its memory may be another
/// task's then.
#[test]
fn a_drop_while_waking_touches_no_task_that_ended() {
    const TASKS: usize = 20_000;
    let other = Scheduler::new(1).unwrap();
    let scheduler = Scheduler::new(1).unwrap();
    let handles: Vec<_> = (0..TASKS)
        .map(|_| {
            let task = Task::new(|_| Next::Wait);
            let handle = task.handle();
            scheduler.post(task).unwrap();
            handle
        })
        .collect();
    assert!(scheduler.wait_idle(LONG));
    let gate = Gate::new();
    let (at, remote) = (gate.clone(), other.remote());
    let waker = thread::spawn(move || {
        at.pass();
        for handle in handles.into_iter().rev() {
            let _ = handle.wake();
            drop(handle);
            remote.post_wait(Task::new(|_| Next::Wait)).unwrap();
        }
    });
    gate.await_arrivals(1);
    gate.open();
    drop(scheduler);
    waker.join().unwrap();
    assert!(other.wait_idle(LONG));
    assert_eq!(other.stop().unwrap().len(), TASKS);
}

/// It would wait for the stop, which waits for its step.
#[test]
fn a_step_cannot_start_what_is_being_stopped() {
    let scheduler = Arc::new(Scheduler::builder().workers(1).guests(1).start().unwrap());
    let (gate, go) = (Gate::new(), Gate::new());
    let (at, on, inside) = (gate.clone(), go.clone(), Arc::clone(&scheduler));
    let step = scheduler.spawn(move || {
        let while_running = inside.start().is_ok();
        at.open();
        on.pass();
        (while_running, inside.start().unwrap_err().kind())
    });
    gate.pass();
    let stopper = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || scheduler.stop().unwrap().len())
    };
    // Ends when the stop has begun, or finds that it has.
    let _ = scheduler.work();
    go.open();
    assert_eq!(stopper.join().unwrap(), 0);
    assert_eq!(step.join().unwrap(), (true, ErrorKind::Deadlock));
}

/// Its ready tasks are left until the stop returns them.
#[test]
fn a_scheduler_that_is_being_stopped_is_not_idle() {
    struct Slow(Gate);
    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.pass();
        }
    }
    thread_local!(static SLOW: RefCell<Option<Slow>> = const { RefCell::new(None) });
    let scheduler = Arc::new(Scheduler::builder().workers(1).guests(1).start().unwrap());
    let (step, end) = (Gate::new(), Gate::new());
    let (at, slow) = (step.clone(), end.clone());
    let task = Task::new(move |_| {
        // The thread ends when this destructor returns.
        SLOW.set(Some(Slow(slow.clone())));
        at.pass();
        Next::Again
    });
    scheduler.post(task).unwrap();
    step.await_arrivals(1);
    let stopper = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || scheduler.stop().unwrap().len())
    };
    // Ends when the stop has begun, or finds that it has.
    let _ = scheduler.work();
    step.open();
    end.await_arrivals(1);
    let is_idle = scheduler.wait_idle(Duration::ZERO);
    end.open();
    assert_eq!(stopper.join().unwrap(), 1);
    assert!(!is_idle);
}
