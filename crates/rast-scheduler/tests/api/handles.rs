//! Handles that outlive their tasks, and panics.

use rast_scheduler::{Finished, Next, Scheduler, Task};
use std::panic;
use std::sync::{Arc, mpsc};
use std::thread;

use crate::support::{Count, LONG, until};

#[test]
fn a_finished_task_answers_finished() {
    let scheduler = Scheduler::new(1).unwrap();
    let task = Task::new(|_| Next::Exit);
    let handle = task.handle();
    scheduler.post(task).unwrap();
    until("the end", || handle.is_finished());
    assert_eq!(handle.wake(), Err(Finished));
    assert_eq!(handle.signal(), Err(Finished));
    assert_eq!(handle.abort(), Err(Finished));
    assert!(!handle.is_signaled());
    drop(scheduler);
    let elsewhere = handle.clone();
    thread::spawn(move || assert_eq!(elsewhere.wake(), Err(Finished)))
        .join()
        .unwrap();
    assert_eq!(handle.wake(), Err(Finished));
}

#[test]
fn a_task_that_is_never_posted_or_left_behind_is_finished() {
    let held = Arc::new(());
    let hold = |held: &Arc<()>| {
        let held = Arc::clone(held);
        Task::new(move |_| {
            let _ = &held;
            Next::Wait
        })
    };
    let task = hold(&held);
    let dropped = task.handle();
    drop(task);
    assert_eq!(dropped.wake(), Err(Finished));

    let scheduler = Scheduler::builder().workers(1).build();
    let (posted, waiting) = (hold(&held), hold(&held));
    let handles = [posted.handle(), waiting.handle()];
    scheduler.post(posted).unwrap();
    scheduler.start().unwrap();
    scheduler.post_wait(waiting).unwrap();
    assert!(scheduler.wait_idle(LONG));
    let remote = scheduler.remote();
    drop(scheduler);
    for handle in handles {
        assert_eq!(handle.signal(), Err(Finished));
    }
    assert_eq!(Arc::strong_count(&held), 1, "bodies are dropped");
    let refused = remote.post(hold(&held)).unwrap_err().into_inner();
    assert_eq!(refused.handle().wake(), Ok(()));
    let many = remote.post_many([hold(&held), hold(&held)]).unwrap_err();
    assert_eq!(many.into_inner().len(), 2);
    assert!(!remote.spawn(|| 1).join().unwrap_err().is_panic());
}

/// Threads wake, signal and abort while the scheduler goes: every answer is a value.
#[test]
fn wake_ups_against_the_end() {
    for round in 0..60 {
        let scheduler = Scheduler::new(1 + round % 3).unwrap();
        let ended = Count::new();
        struct Ends(Count);
        impl Drop for Ends {
            fn drop(&mut self) {
                self.0.add();
            }
        }
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let mut left = 3;
                let ends = Ends(ended.clone());
                Task::new(move |cx| {
                    let _ = &ends;
                    cx.take_signal();
                    left -= 1;
                    if left == 0 { Next::Exit } else { Next::Wait }
                })
            })
            .collect();
        let handles: Vec<_> = tasks.iter().map(Task::handle).collect();
        scheduler.post_many(tasks).unwrap();
        let storm = |step: usize| {
            let handles = handles.clone();
            thread::spawn(move || {
                for turn in 0..400 {
                    let handle = &handles[turn * step % handles.len()];
                    let _ = match turn % 17 {
                        0 => handle.abort(),
                        1..9 => handle.signal(),
                        _ => handle.wake(),
                    };
                }
            })
        };
        let storms = [storm(1), storm(7)];
        if round % 2 == 0 {
            drop(scheduler);
            storms.into_iter().for_each(|storm| storm.join().unwrap());
        } else {
            storms.into_iter().for_each(|storm| storm.join().unwrap());
            drop(scheduler);
        }
        assert_eq!(ended.get(), 20, "each body is dropped once");
        assert!(handles.iter().all(|handle| handle.wake() == Err(Finished)));
    }
}

#[test]
fn a_step_that_panics_ends_its_task_alone() {
    let scheduler = Scheduler::new(1).unwrap();
    let task = Task::new(|_| panic::panic_any(7));
    let handle = task.handle();
    scheduler.post(task).unwrap();
    let bad = Task::new({
        struct Bad;
        impl Drop for Bad {
            fn drop(&mut self) {
                panic!("in the destructor");
            }
        }
        let bad = Bad;
        move |_| {
            let _ = &bad;
            Next::Exit
        }
    });
    scheduler.post(bad).unwrap();
    assert_eq!(scheduler.spawn(|| 5).join().unwrap(), 5);
    assert!(scheduler.wait_idle(LONG));
    assert_eq!(handle.wake(), Err(Finished));
    assert_eq!(scheduler.stats().panics, 1);
}

#[test]
fn an_aborted_task_runs_no_further_step() {
    let scheduler = Scheduler::new(1).unwrap();
    let (sender, receiver) = mpsc::channel();
    let task = Task::new(move |_| {
        sender.send(()).unwrap();
        Next::Wait
    });
    let handle = task.handle();
    scheduler.post(task).unwrap();
    receiver.recv_timeout(LONG).unwrap();
    handle.abort().unwrap();
    assert!(
        receiver.recv_timeout(LONG).is_err(),
        "the body is dropped, without a step"
    );
    until("the end", || handle.is_finished());
}
