//! The bounds that the crate states: in polls, and behind a worker that blocks.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rast_executor::{JoinHandle, Priority, Runtime, sleep, spawn, yield_now};

fn one_worker() -> Runtime {
    Runtime::builder().workers(1).watch(None).build().unwrap()
}

fn polls(runtime: &Runtime) -> u64 {
    runtime
        .metrics()
        .workers
        .iter()
        .map(|worker| worker.polls)
        .sum()
}

/// Spawns tasks that are always ready, until the flag is set.
fn flood(runtime: &Runtime, tasks: usize, priority: Priority) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..tasks {
        let stop = Arc::clone(&stop);
        runtime
            .task()
            .priority(priority)
            .spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    yield_now().await;
                }
            })
            .detach();
    }
    stop
}

/// How many polls pass between the spawn of a task and its first poll, at most, over some tries.
fn greatest_wait(runtime: &Runtime, priority: Priority) -> u64 {
    (0..200)
        .map(|_| {
            let before = polls(runtime);
            let (sender, receiver) = mpsc::channel();
            runtime
                .task()
                .priority(priority)
                .spawn(async move { sender.send(()).unwrap() })
                .detach();
            receiver.recv().unwrap();
            polls(runtime) - before
        })
        .max()
        .unwrap()
}

#[test]
fn a_worker_takes_a_task_from_outside_before_it_polls_again() {
    // Counted by the flood itself, since the figures are read by a thread that may be stopped.
    let runtime = one_worker();
    let turns = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let (theirs, ends) = (Arc::clone(&turns), Arc::clone(&stop));
    let handle = runtime.handle().clone();
    let seen = Arc::new(AtomicU64::new(0));
    let note = Arc::clone(&seen);
    let flood = runtime.spawn(async move {
        for _ in 0..100 {
            // Another thread spawns while this poll lasts.
            let (turns, note) = (Arc::clone(&theirs), Arc::clone(&note));
            let at = theirs.load(Ordering::SeqCst);
            let handle = handle.clone();
            std::thread::spawn(move || {
                handle
                    .spawn(async move {
                        let waited = turns.load(Ordering::SeqCst) - at;
                        note.fetch_max(waited, Ordering::SeqCst);
                    })
                    .detach();
            })
            .join()
            .unwrap();
            theirs.fetch_add(1, Ordering::SeqCst);
            yield_now().await;
            theirs.fetch_add(1, Ordering::SeqCst);
            yield_now().await;
        }
        ends.store(true, Ordering::SeqCst);
    });
    runtime.block_on(flood).unwrap();
    assert!(seen.load(Ordering::SeqCst) <= 2, "{seen:?}");
}

#[test]
fn tasks_that_are_always_ready_starve_no_other() {
    let runtime = one_worker();
    let stop = flood(&runtime, 20, Priority::Normal);
    // There is an end to each wait; the bound in turns is tested where turns are counted.
    assert!(greatest_wait(&runtime, Priority::Normal) > 0);
    stop.store(true, Ordering::Relaxed);
}

#[test]
fn urgent_tasks_that_are_always_ready_starve_no_other() {
    let runtime = one_worker();
    let stop = flood(&runtime, 3, Priority::High);
    assert!(greatest_wait(&runtime, Priority::Normal) > 0);
    assert!(greatest_wait(&runtime, Priority::Low) > 0);
    stop.store(true, Ordering::Relaxed);
}

#[test]
fn two_tasks_that_wake_each_other_let_a_third_run() {
    // The pair uses the slot for the newest task, which must not go first for ever.
    let runtime = one_worker();
    let turns = runtime
        .block_on(runtime.spawn(async {
            let turns = Arc::new(AtomicU64::new(0));
            let stop = Arc::new(AtomicBool::new(false));
            let wakers: Arc<[std::sync::Mutex<Option<std::task::Waker>>; 2]> = Arc::default();
            let pair: Vec<_> = (0..2)
                .map(|me| {
                    let (turns, stop) = (Arc::clone(&turns), Arc::clone(&stop));
                    let wakers = Arc::clone(&wakers);
                    spawn(std::future::poll_fn(move |cx| {
                        turns.fetch_add(1, Ordering::Relaxed);
                        let waker: &std::sync::Mutex<_> = &wakers[me];
                        *waker.lock().unwrap() = Some(cx.waker().clone());
                        if let Some(other) = wakers[1 - me].lock().unwrap().take() {
                            other.wake();
                        }
                        if stop.load(Ordering::Relaxed) {
                            std::task::Poll::Ready(())
                        } else {
                            std::task::Poll::Pending
                        }
                    }))
                })
                .collect();
            let mut most = 0;
            for _ in 0..100 {
                let before = turns.load(Ordering::Relaxed);
                yield_now().await;
                most = most.max(turns.load(Ordering::Relaxed) - before);
            }
            stop.store(true, Ordering::Relaxed);
            for task in pair {
                task.await.unwrap();
            }
            most
        }))
        .unwrap();
    // Two others in the list, and the newest task three times.
    assert!(
        turns <= 5,
        "{turns} polls of the pair between two of the third"
    );
}

/// Spawns a task that spawns ten, which send their numbers, and then blocks its worker until the
/// sender given back sends.
fn block_behind_ten(runtime: &Runtime) -> (JoinHandle<()>, mpsc::Sender<()>, mpsc::Receiver<i32>) {
    let (release, gate) = mpsc::channel::<()>();
    let (done, finished) = mpsc::channel();
    let blocker = runtime.spawn(async move {
        for n in 0..10 {
            let done = done.clone();
            spawn(async move { done.send(n).unwrap() }).detach();
        }
        drop(done);
        gate.recv().unwrap();
    });
    (blocker, release, finished)
}

#[test]
fn a_worker_that_blocks_hides_no_task_of_its_list() {
    let runtime = Runtime::builder().workers(2).watch(None).build().unwrap();
    let (blocker, release, finished) = block_behind_ten(&runtime);
    // All but the newest run while the worker blocks.
    let ran: Vec<i32> = (0..9).map(|_| finished.recv().unwrap()).collect();
    assert_eq!(ran.len(), 9);
    assert!(!blocker.is_finished());
    release.send(()).unwrap();
    runtime.block_on(blocker).unwrap();
    assert!(finished.recv().is_ok());
}

#[test]
fn the_newest_task_of_a_worker_that_blocks_is_rescued() {
    let watch = Duration::from_millis(5);
    let runtime = Runtime::builder()
        .workers(2)
        .watch(Some(watch))
        .build()
        .unwrap();
    let (release, gate) = mpsc::channel::<()>();
    let (done, finished) = mpsc::channel();
    let blocker = runtime.spawn(async move {
        spawn(async move { done.send(()).unwrap() }).detach();
        gate.recv().unwrap();
    });
    finished.recv().unwrap();
    assert!(!blocker.is_finished());
    release.send(()).unwrap();
    runtime.block_on(blocker).unwrap();
    let rescued: u64 = runtime
        .metrics()
        .workers
        .iter()
        .map(|worker| worker.rescued)
        .sum();
    assert!(rescued >= 1);
}

#[test]
fn a_worker_that_blocks_hides_no_task_from_one_that_is_always_busy() {
    let runtime = Runtime::builder().workers(2).watch(None).build().unwrap();
    let stop = flood(&runtime, 2, Priority::Normal);
    let (blocker, release, finished) = block_behind_ten(&runtime);
    assert_eq!(finished.iter().take(10).count(), 10);
    assert!(!blocker.is_finished());
    release.send(()).unwrap();
    stop.store(true, Ordering::Relaxed);
    runtime.block_on(blocker).unwrap();
}

#[test]
fn timers_fire_behind_a_worker_that_blocks_and_one_that_is_busy() {
    let runtime = Runtime::builder().workers(2).watch(None).build().unwrap();
    let stop = flood(&runtime, 2, Priority::Normal);
    let (release, gate) = mpsc::channel::<()>();
    let blocker = runtime.spawn(async move { gate.recv().unwrap() });
    let rest = runtime.spawn(async { sleep(Duration::from_millis(2)).await });
    runtime.block_on(rest).unwrap();
    assert!(!blocker.is_finished());
    release.send(()).unwrap();
    stop.store(true, Ordering::Relaxed);
    runtime.block_on(blocker).unwrap();
}

#[test]
fn a_blocked_worker_is_reported_by_a_shutdown_that_returns() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let (release, gate) = mpsc::channel::<()>();
    let (started, running) = mpsc::channel();
    let blocked = runtime.task().name("blocked").spawn(async move {
        started.send(()).unwrap();
        gate.recv().unwrap();
    });
    running.recv().unwrap();
    let waiting = runtime.spawn(std::future::pending::<()>());
    let ended = runtime.shutdown(Duration::from_millis(1));
    assert_eq!((ended.workers_blocked, ended.unfinished.len()), (1, 2));
    assert!(!ended.is_clean());
    assert!(rast_executor::block_on(waiting).unwrap_err().is_cancelled());
    assert!(!blocked.is_finished());
    release.send(()).unwrap();
    // Its poll was the last one, and it was ready by itself.
    rast_executor::block_on(blocked).unwrap();
}

#[test]
fn a_grace_lets_tasks_end_by_themselves() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for n in 0..20 {
        runtime
            .spawn(async move { sleep(Duration::from_millis(n % 5)).await })
            .detach();
    }
    let start = Instant::now();
    let ended = runtime.shutdown(Duration::from_secs(60));
    assert!(ended.is_clean(), "{ended:?}");
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_runtime_is_dropped_inside_of_its_own_task() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let handle = runtime.handle().clone();
    let task = handle.spawn(async move { drop(runtime) });
    let _ = rast_executor::block_on(task);
    assert!(handle.try_spawn(async {}).is_err());
}
