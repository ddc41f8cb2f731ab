//! The tests of the source's scheduler: they check the same, with code of our own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};

use rast_scheduler::timers::{Clock, Instant, MonotonicClock, Nanos};
use rast_scheduler::{Finished, Next, Scheduler, Task, TaskHandle};

use crate::support::{Count, LONG, advance, by_hand, until};

#[test]
fn basic_reposts_three_times() {
    let scheduler = Scheduler::new(1).unwrap();
    let steps = Count::new();
    let count = steps.clone();
    scheduler
        .post(Task::new(move |_| {
            if count.add() < 3 {
                Next::Again
            } else {
                Next::Exit
            }
        }))
        .unwrap();
    assert!(scheduler.wait_idle(LONG));
    assert_eq!(steps.get(), 3);
}

#[test]
fn basic_respects_delays_and_deadlines() {
    let clock = MonotonicClock::new();
    let scheduler = Scheduler::builder()
        .workers(1)
        .clock(clock)
        .start()
        .unwrap();
    for span in [Nanos::from_millis(2), Nanos::from_micros(1)] {
        let due = clock.now().saturating_add(span);
        let (sender, receiver) = mpsc::channel();
        let task = Task::new(move |_| {
            sender.send(clock.now()).unwrap();
            Next::Exit
        });
        scheduler.post_at(task, due).unwrap();
        assert!(receiver.recv_timeout(LONG).unwrap() >= due);
    }
}

/// A step posts another task while the scheduler ends: with `drain` both run.
#[test]
fn destroy_with_front() {
    let scheduler = Scheduler::new(1).unwrap();
    let ran = Count::new();
    let (outer, inner) = (ran.clone(), ran.clone());
    scheduler
        .post(Task::new(move |cx| {
            outer.add();
            let inner = inner.clone();
            let other = Task::new(move |_| {
                inner.add();
                Next::Exit
            });
            cx.scheduler().post(other).unwrap();
            Next::Exit
        }))
        .unwrap();
    assert!(scheduler.drain(LONG).unwrap().is_empty());
    assert_eq!(ran.get(), 2);
}

#[test]
fn destroy_with_waiting() {
    let scheduler = Scheduler::new(1).unwrap();
    let ran = Count::new();
    let count = ran.clone();
    let task = Task::new(move |_| {
        count.add();
        Next::Exit
    });
    scheduler.post_after(task, Nanos::from_millis(5)).unwrap();
    assert!(scheduler.drain(LONG).unwrap().is_empty());
    assert_eq!(ran.get(), 1);
}

#[test]
fn order_of_deadlines() {
    let (scheduler, clock) = by_hand(1);
    let (sender, receiver) = mpsc::channel();
    for millis in [3, 0, 5] {
        let sender = sender.clone();
        let task = Task::new(move |_| {
            sender.send(millis).unwrap();
            Next::Exit
        });
        scheduler
            .post_after(task, Nanos::from_millis(millis))
            .unwrap();
    }
    drop(sender);
    scheduler.spawn(|| ()).join().unwrap();
    advance(&scheduler, &clock, Nanos::from_millis(10));
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 3, 5]);
}

/// Eight combinations of how a task waits and what ends the wait.
#[test]
fn expiration() {
    #[derive(Clone, Copy, PartialEq)]
    enum By {
        Nothing,
        Wake,
        Signal,
    }
    let far = Instant::from_nanos(1 << 60);
    for (wait, by, is_expired) in [
        (None, By::Nothing, true),
        (None, By::Wake, true),
        (None, By::Signal, true),
        (Some(Some(far)), By::Wake, false),
        (Some(Some(far)), By::Signal, false),
        (Some(None), By::Wake, false),
        (Some(None), By::Signal, false),
        (Some(Some(Instant::from_nanos(1))), By::Signal, true),
    ] {
        let (scheduler, clock) = by_hand(1);
        clock.advance(Nanos::from_nanos(5));
        let (sender, receiver) = mpsc::channel();
        let mut task = Task::new(move |cx| {
            sender.send((cx.is_expired(), cx.take_signal())).unwrap();
            Next::Exit
        });
        match wait {
            None => {}
            Some(None) => task.set_wait(),
            Some(Some(at)) => task.set_deadline(at),
        }
        match by {
            By::Nothing => {}
            By::Wake => task.wake(),
            By::Signal => task.signal(),
        }
        scheduler.post(task).unwrap();
        let seen = receiver.recv_timeout(LONG).unwrap();
        assert_eq!(seen, (is_expired, by == By::Signal));
    }
}

/// A task goes back and forth between two schedulers, woken and signalled while it is posted
/// nowhere.
#[test]
fn reschedule() {
    let (one, two) = (Scheduler::new(1).unwrap(), Scheduler::new(1).unwrap());
    let (to_one, to_two) = (one.remote(), two.remote());
    let steps = Count::new();
    let count = steps.clone();
    let mut task = Task::new(move |cx| {
        let step = count.add();
        match step {
            1 => {
                assert!(cx.take_signal());
                Next::Hop(to_two.clone())
            }
            2..9 => Next::Hop(if step.is_multiple_of(2) {
                to_one.clone()
            } else {
                to_two.clone()
            }),
            9 => Next::Wait,
            _ => Next::Exit,
        }
    });
    task.signal();
    task.wake();
    task.set_wait();
    assert!(task.is_signaled());
    let handle = task.handle();
    one.post(task).unwrap();
    steps.reaches(9);
    assert!(one.wait_idle(LONG) && two.wait_idle(LONG));
    handle.wake().unwrap();
    steps.reaches(10);
}

/// A ring of tasks that signal each other, over five workers.
#[test]
fn a_ring_of_signals() {
    const TASKS: usize = 1000;
    const ROUNDS: usize = 10;
    let scheduler = Scheduler::new(5).unwrap();
    let ring: Arc<Mutex<Vec<TaskHandle>>> = Arc::default();
    let left = Arc::new(AtomicUsize::new(TASKS));
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| {
            let (ring, left) = (Arc::clone(&ring), Arc::clone(&left));
            let (mut received, mut next) = (0, None);
            Task::new(move |cx| {
                let next: &TaskHandle =
                    next.get_or_insert_with(|| ring.lock().unwrap()[(number + 1) % TASKS].clone());
                if cx.take_signal() {
                    received += 1;
                    let _ = next.signal();
                }
                if received == ROUNDS {
                    left.fetch_sub(1, Ordering::AcqRel);
                    return Next::Exit;
                }
                Next::Wait
            })
        })
        .collect();
    *ring.lock().unwrap() = tasks.iter().map(Task::handle).collect();
    let first = tasks[0].handle();
    scheduler.post_many(tasks).unwrap();
    first.signal().unwrap();
    until("the ring to end", || left.load(Ordering::Acquire) == 0);
    ring.lock().unwrap().clear();
}

/// A million deadlines, all woken before their time, is a bench; here some thousands.
#[test]
fn timeouts_that_are_all_woken() {
    let scheduler = Scheduler::new(2).unwrap();
    let ran = Count::new();
    let tasks: Vec<_> = (0..5000_u64)
        .map(|number| {
            let ran = ran.clone();
            let mut task = Task::new(move |cx| {
                assert!(!cx.is_expired());
                ran.add();
                Next::Exit
            });
            let span = Nanos::from_secs(3600 + number * 7919 % 5000);
            task.set_deadline(scheduler.now().saturating_add(span));
            task
        })
        .collect();
    let handles: Vec<_> = tasks.iter().map(Task::handle).collect();
    scheduler.post_many(tasks).unwrap();
    for handle in handles {
        handle.wake().unwrap();
    }
    assert!(scheduler.wait_idle(LONG));
    assert_eq!(ran.get(), 5000);
}

/// Tasks each receive so many signals from several threads; every signal that finds the flag clear
/// is received.
#[test]
fn a_stress_of_signals() {
    let scheduler = Scheduler::new(3).unwrap();
    let handles: Vec<_> = (0..200)
        .map(|_| {
            let task = Task::new(|cx| {
                cx.take_signal();
                Next::Wait
            });
            let handle = task.handle();
            scheduler.post_wait(task).unwrap();
            handle
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..50 {
                    for handle in &handles {
                        handle.signal().unwrap();
                    }
                }
            });
        }
    });
    assert!(scheduler.wait_idle(LONG));
    assert!(handles.iter().all(|handle| !handle.is_signaled()));
    assert_eq!(scheduler.stop().unwrap().len(), 200);
}

/// Many steps of many tasks over five workers: posts, delays, and wake-ups and signals to tasks at
/// random.
#[test]
fn a_heavy_batch() {
    const TASKS: usize = 300;
    const STEPS: usize = 60;
    let scheduler = Scheduler::new(5).unwrap();
    let handles: Arc<OnceLock<Vec<TaskHandle>>> = Arc::default();
    let ended = Count::new();
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| {
            let (handles, ended) = (Arc::clone(&handles), ended.clone());
            let (mut step, mut random) = (0, number as u64 + 1);
            Task::new(move |cx| {
                cx.take_signal();
                step += 1;
                if step == STEPS {
                    ended.add();
                    return Next::Exit;
                }
                if step % 10 == 0 {
                    for turn in 0..4 {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        let other = &handles.get().unwrap()[(random >> 33) as usize % TASKS];
                        // One that is finished needs no wake-up.
                        let _ = if turn % 2 == 0 {
                            other.wake()
                        } else {
                            other.signal()
                        };
                    }
                }
                match step % 6 {
                    0 | 3 => cx.after(Nanos::from_micros(200)),
                    2 | 4 => cx.after(Nanos::from_micros(100)),
                    _ => Next::Again,
                }
            })
        })
        .collect();
    assert!(
        handles
            .set(tasks.iter().map(Task::handle).collect())
            .is_ok()
    );
    scheduler.post_many(tasks).unwrap();
    ended.reaches(TASKS);
    assert!(scheduler.wait_idle(LONG));
    let steps: u64 = scheduler
        .stats()
        .workers
        .iter()
        .map(|worker| worker.steps)
        .sum();
    assert_eq!(steps, (TASKS * STEPS) as u64);
    for handle in handles.get().unwrap() {
        assert_eq!(handle.wake(), Err(Finished));
    }
}

/// One-shot tasks in portions, five workers: each portion ends before the next begins.
#[test]
fn portions_of_one_shots() {
    let scheduler = Scheduler::new(5).unwrap();
    let ran = Count::new();
    for portion in 1..=20 {
        for _ in 0..500 {
            let ran = ran.clone();
            drop(scheduler.spawn(move || ran.add()));
        }
        assert!(scheduler.wait_idle(LONG));
        assert_eq!(ran.get(), portion * 500);
    }
}

/// The ring of signals once more, as `async` bodies.
#[test]
fn a_ring_of_signals_between_bodies() {
    const TASKS: usize = 200;
    const ROUNDS: usize = 10;
    let scheduler = Scheduler::new(5).unwrap();
    let ring: Arc<OnceLock<Vec<TaskHandle>>> = Arc::default();
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| {
            let ring = Arc::clone(&ring);
            scheduler.spawn_async(move |cx| async move {
                for _ in 0..ROUNDS {
                    cx.signal().await;
                    // The last signal of the round may find its task finished.
                    let _ = ring.get().unwrap()[(number + 1) % TASKS].signal();
                }
            })
        })
        .collect();
    let handles: Vec<_> = tasks.iter().map(|task| task.handle()).collect();
    let first = handles[0].clone();
    assert!(ring.set(handles).is_ok());
    first.signal().unwrap();
    for task in tasks {
        until("the ring to end", || task.is_finished());
        task.join().unwrap();
    }
}
