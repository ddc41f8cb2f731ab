//! The end of reactors: long grace, many tasks, destructors that panic, slow polls that panic.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rast_reactor::executor::{block_on, yield_now};
use rast_reactor::timers::{ManualClock, Nanos};
use rast_reactor::{
    CallError, Policy, Pool, background_task, reactor_task, spawn_local, try_reactor_task,
};

use crate::support::{LONG, builder};

/// Counts its drops, each of which panics.
struct Panics(Arc<AtomicUsize>);

impl Drop for Panics {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("a destructor panics");
    }
}

#[test]
fn a_grace_without_end_is_a_grace() {
    let reactors = builder(2).build().unwrap();
    let task = reactors.reactor(0).unwrap().spawn(|| async {
        for _ in 0..100 {
            reactor_task(1, || async {}).await.unwrap();
        }
    });
    let stopped = reactors.stop(Duration::MAX);
    assert!(stopped.is_clean(), "{stopped:?}");
    assert!(block_on(task).is_ok());
    let pool = Pool::builder().threads([0, 0, 1]).build().unwrap();
    assert_eq!(pool.stop(Duration::MAX), 0);
}

#[test]
fn a_reactor_that_drops_many_tasks_is_not_in_a_poll() {
    const TASKS: usize = 100_000;
    let reactors = builder(1).build().unwrap();
    let (send, spawned) = mpsc::channel();
    let dropped = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&dropped);
    let spawn = move || async move {
        struct Counts(Arc<AtomicUsize>);
        impl Drop for Counts {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        for n in 0..TASKS {
            let counts = Counts(Arc::clone(&theirs));
            spawn_local(async move {
                let _counts = counts;
                pending::<()>().await;
            })
            .detach();
            if n % 100 == 0 {
                yield_now().await;
            }
        }
        send.send(()).unwrap();
    };
    block_on(reactors.reactor(0).unwrap().spawn(spawn)).unwrap();
    spawned.recv().unwrap();
    let stopped = reactors.stop(Duration::ZERO);
    assert_eq!(stopped.unfinished.len(), TASKS);
    // A reactor that the system does not run for the patience with a poll counts as blocked.
    if stopped.blocked.is_empty() {
        assert_eq!(dropped.load(Ordering::Relaxed), TASKS, "it was waited for");
    }
    while dropped.load(Ordering::Relaxed) < TASKS {
        std::thread::yield_now();
    }
}

#[test]
fn destructors_that_panic_end_no_reactor() {
    let count = Arc::new(AtomicUsize::new(0));
    let panics = || Panics(Arc::clone(&count));
    let reactors = builder(2).build().unwrap();
    let (theirs, calls) = (panics(), [panics(), panics(), panics(), panics()]);
    let (done, is_done) = mpsc::channel();
    let task = reactors.reactor(0).unwrap().spawn(move || async move {
        let [staged, sent, job, result] = calls;
        // Given up in its turn, before it is sent.
        drop(try_reactor_task(1, move || async move { drop(staged) }));
        // Given up after it was sent.
        let call = try_reactor_task(1, move || async move {
            let _sent = sent;
            pending::<()>().await;
        });
        yield_now().await;
        drop(call);
        // Given up before it began, or after.
        drop(background_task(Policy::Low, move || drop(job)));
        // The result is not taken.
        drop(try_reactor_task(1, move || async move { result }));
        // The reactors go on.
        assert_eq!(reactor_task(1, || async { 1 }).await.unwrap(), 1);
        done.send(()).unwrap();
        let _theirs = theirs;
        pending::<()>().await;
    });
    is_done.recv().unwrap();
    let handle = reactors.reactor(1).unwrap();
    let stopped = reactors.stop(Duration::from_millis(1));
    assert_eq!(stopped.unfinished.len(), 1);
    match block_on(task) {
        Err(CallError::Panicked(payload)) => assert!(payload.is::<&str>()),
        other => panic!("{other:?}"),
    }
    // Refused by a reactor that has stopped. The closure is dropped by the caller, as in the
    // refusal of a value.
    let refused = panics();
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        handle.spawn(move || async move { drop(refused) })
    }));
    drop(dropped);
    while count.load(Ordering::Relaxed) < 6 {
        std::thread::yield_now();
    }
    assert_eq!(count.load(Ordering::Relaxed), 6, "each once");
}

#[test]
fn what_is_refused_in_a_turn_may_panic_when_it_is_dropped() {
    let count = Arc::new(AtomicUsize::new(0));
    let reactors = builder(2).build().unwrap();
    let (begun, begins) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let theirs = Arc::clone(&count);
    // It is in a poll while the other one and the pool end, and calls both after that.
    let task = reactors.reactor(0).unwrap().spawn(move || async move {
        begun.send(()).unwrap();
        let _ = released.recv();
        for _ in 0..3 {
            let (one, two) = (Panics(Arc::clone(&theirs)), Panics(Arc::clone(&theirs)));
            let call = try_reactor_task(1, move || async move { drop(one) });
            let job = background_task(Policy::Low, move || drop(two));
            let Ok(call) = call else {
                panic!("there are credits")
            };
            let Ok(job) = job else {
                panic!("it is not full")
            };
            std::mem::forget((call, job));
        }
    });
    begins.recv().unwrap();
    let stopped = reactors.stop(Duration::ZERO);
    assert!(stopped.blocked.contains(&0));
    drop(release);
    block_on(task).unwrap();
    while count.load(Ordering::Relaxed) < 6 {
        std::thread::yield_now();
    }
}

#[test]
fn a_slow_poll_that_panics_is_reported() {
    let clock = ManualClock::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&seen);
    let reactors = builder(1)
        .clock(clock.clone())
        .on_slow_poll(move |slow| {
            theirs.lock().unwrap().push(slow.took);
            panic!("contained");
        })
        .build()
        .unwrap();
    let task = reactors.reactor(0).unwrap().spawn(move || async move {
        clock.advance(Nanos::from_millis(2));
        panic!("after a while");
    });
    assert!(matches!(block_on(task), Err(CallError::Panicked(_))));
    assert_eq!(*seen.lock().unwrap(), [Duration::from_millis(2)]);
    assert_eq!(reactors.slow_polls(0), Some(1));
    assert!(reactors.stop(LONG).is_clean());
}

#[test]
fn a_stop_with_work_from_all_sides_loses_nothing() {
    /// Counts what is alive.
    struct Alive(Arc<AtomicUsize>);
    impl Alive {
        fn new(count: &Arc<AtomicUsize>) -> Self {
            count.fetch_add(1, Ordering::Relaxed);
            Self(Arc::clone(count))
        }
    }
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    /// Calls the next reactor and itself again, for as long as there are reactors.
    async fn storm(count: Arc<AtomicUsize>) {
        let here = rast_reactor::current().unwrap();
        let next = (here.index() + 1) % here.reactors();
        loop {
            let calls = (0..1500).map(|n| {
                let alive = Alive::new(&count);
                let theirs = Arc::clone(&count);
                reactor_task(next, move || async move {
                    let _alive = alive;
                    if n % 2 == 0 {
                        let nested = Alive::new(&theirs);
                        let back = (next + 1) % rast_reactor::current().unwrap().reactors();
                        let _ = reactor_task(back, move || async move { drop(nested) }).await;
                    }
                    if n % 3 == 0 {
                        let job = Alive::new(&theirs);
                        if let Ok(job) = background_task(Policy::High, move || drop(job)) {
                            let _ = job.await;
                        }
                    }
                })
            });
            rast_reactor::all_results(calls).await;
        }
    }
    for round in 0..3 {
        let count = Arc::new(AtomicUsize::new(0));
        let reactors = builder(3).build().unwrap();
        let tasks: Vec<_> = (0..3)
            .map(|at| {
                let theirs = Arc::clone(&count);
                reactors.reactor(at).unwrap().spawn(|| storm(theirs))
            })
            .collect();
        // Threads from outside spawn all the time.
        let outside: Vec<_> = (0..2)
            .map(|_| {
                let all: Vec<_> = (0..3).map(|at| reactors.reactor(at).unwrap()).collect();
                let theirs = Arc::clone(&count);
                std::thread::spawn(move || {
                    for at in (0..3).cycle() {
                        let alive = Alive::new(&theirs);
                        let task = all[at].spawn(move || async move { drop(alive) });
                        if block_on(task).is_err() {
                            break;
                        }
                    }
                })
            })
            .collect();
        let stopped = reactors.stop(Duration::from_millis(20 * round));
        assert!(stopped.unfinished.len() >= 3);
        for task in tasks {
            assert!(matches!(block_on(task), Err(CallError::Stopped)));
        }
        outside
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        // A thread of the pool may be in its last task.
        while count.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_cycle_of_calls_outlasts_credits_and_callers_that_give_up() {
    let reactors = builder(3).build().unwrap();
    let begun = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..3)
        .map(|at| {
            let begun = Arc::clone(&begun);
            reactors.reactor(at).unwrap().spawn(move || async move {
                // Each is polled once, so it is sent or waits for a credit; then it is given up.
                for round in 0..4 {
                    let calls = (0..5000).map(|_| {
                        let begun = Arc::clone(&begun);
                        reactor_task((at + 1) % 3, move || async move {
                            begun.fetch_add(1, Ordering::Relaxed);
                            reactor_task((at + 2) % 3, || async {}).await.unwrap();
                            pending::<()>().await;
                        })
                    });
                    let mut calls = std::pin::pin!(rast_reactor::all_results(calls));
                    let mut polls = 0;
                    std::future::poll_fn(|cx| {
                        assert!(calls.as_mut().poll(cx).is_pending());
                        polls += 1;
                        if polls > round {
                            return std::task::Poll::Ready(());
                        }
                        cx.waker().wake_by_ref();
                        std::task::Poll::Pending
                    })
                    .await;
                }
                // All credits return.
                for _ in 0..3 {
                    let calls =
                        (0..3000).map(|n| reactor_task((at + 1) % 3, move || async move { n }));
                    let results = rast_reactor::all_results(calls).await;
                    for (n, result) in results.into_iter().enumerate() {
                        assert_eq!(result.unwrap(), n);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        block_on(task).unwrap();
    }
    assert!(reactors.stop(LONG).is_clean());
}
