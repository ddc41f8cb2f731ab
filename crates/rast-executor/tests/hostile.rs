//! Ends and destructors at bad moments: shutdown of long chains, unwinding threads, threads of the
//! pool that end as a call comes.
#![cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rast_executor::{
    LocalExecutor, Runtime, Sleep, block_on, interval, sleep, sleep_until, spawn, timeout,
    timers::Instant, yield_now,
};

const LONG: Duration = Duration::from_secs(60);

/// A task that awaits a task that awaits a task, and so on; the last one never ends.
fn nest(depth: usize, reached: Arc<AtomicUsize>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        reached.fetch_add(1, Ordering::Relaxed);
        if depth == 0 {
            pending::<()>().await;
        }
        let _ = spawn(nest(depth - 1, reached)).await;
    })
}

#[test]
fn a_long_chain_of_tasks_is_cancelled_without_recursion() {
    const DEPTH: usize = 50_000;
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let reached = Arc::new(AtomicUsize::new(0));
    let task = runtime.spawn(nest(DEPTH, Arc::clone(&reached)));
    while reached.load(Ordering::Relaxed) <= DEPTH {
        std::thread::yield_now();
    }
    drop(runtime);
    assert!(block_on(task).unwrap_err().is_cancelled());
}

#[test]
fn a_shutdown_without_end_of_its_grace_does_not_overflow() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    assert!(runtime.shutdown(Duration::MAX).is_clean());
}

#[test]
fn a_local_executor_runs_in_a_destructor_of_a_thread_that_panics() {
    struct Runs(mpsc::Sender<i32>);
    impl Drop for Runs {
        fn drop(&mut self) {
            let seven = LocalExecutor::new().run(async {
                yield_now().await;
                7
            });
            let _ = self.0.send(seven);
        }
    }
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _runs = Runs(sender);
        panic!("on purpose");
    });
    assert!(thread.join().is_err());
    assert_eq!(receiver.recv(), Ok(7));
}

#[test]
fn a_call_that_comes_as_threads_of_the_pool_end_is_run() {
    let runtime = Runtime::builder()
        .workers(1)
        .blocking_threads(4)
        .keep_alive(Duration::from_micros(20))
        .build()
        .unwrap();
    for round in 0..5_000 {
        // Two calls that need each other, on a pool that has a thread for each.
        let (to_first, from_second) = mpsc::channel();
        let (to_second, from_first) = mpsc::channel();
        let first = runtime.spawn_blocking(move || {
            let _ = to_second.send(());
            from_second.recv_timeout(LONG).is_ok()
        });
        let second = runtime.spawn_blocking(move || {
            let _ = to_first.send(());
            from_first.recv_timeout(LONG).is_ok()
        });
        let both = runtime.block_on(async { (first.await, second.await) });
        assert!(both.0.unwrap() && both.1.unwrap(), "round {round}");
    }
}

/// What a sleep says that nothing would wake.
const ENDED: &str = "the executor of this sleep has ended";

fn message(run: impl FnOnce()) -> String {
    let run = std::panic::AssertUnwindSafe(run);
    let payload = std::panic::catch_unwind(run).expect_err("it panics");
    payload.downcast_ref::<&str>().expect("a text").to_string()
}

#[test]
fn a_sleep_whose_executor_has_ended_panics_and_does_not_wait() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let handle = runtime.handle().clone();
    let (made, due): (Sleep, Sleep) =
        handle.block_on(async { (sleep(LONG), sleep(Duration::ZERO)) });
    let ended = runtime.shutdown(Duration::ZERO);
    assert!(ended.is_clean(), "{ended:?}");
    assert!(message(|| block_on(made)).contains(ENDED));
    // What is due needs nothing.
    block_on(due);
    let inside = [
        message(|| handle.block_on(async { sleep(LONG).await })),
        message(|| handle.block_on(async { sleep_until(Instant::MAX).await })),
        message(|| handle.block_on(async { timeout(LONG, pending::<()>()).await.unwrap() })),
        message(|| {
            handle.block_on(async {
                let mut ticks = interval(LONG);
                ticks.tick().await;
                ticks.tick().await;
            });
        }),
    ];
    assert!(inside.iter().all(|text| text.contains(ENDED)), "{inside:?}");
    let local = LocalExecutor::new();
    let rest = local.run(std::future::poll_fn(|_| {
        std::task::Poll::Ready(sleep(LONG))
    }));
    drop(local);
    assert!(message(|| block_on(rest)).contains(ENDED));
}

#[test]
fn sleeps_on_other_threads_end_with_the_runtime() {
    for deadline in [Instant::from_nanos(u64::MAX / 2), Instant::MAX] {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let (sender, armed) = mpsc::channel();
        let handle = runtime.handle().clone();
        let waiting = std::thread::spawn(move || {
            message(|| {
                handle.block_on(async move {
                    let mut rest = std::pin::pin!(sleep_until(deadline));
                    std::future::poll_fn(|cx| {
                        let polled = rest.as_mut().poll(cx);
                        let _ = sender.send(());
                        polled
                    })
                    .await;
                });
            })
        });
        armed.recv().unwrap();
        drop(runtime);
        assert!(waiting.join().unwrap().contains(ENDED));
    }
}

#[test]
fn a_task_that_sleeps_while_its_runtime_ends_is_cancelled() {
    // The worker blocks past the shutdown, and its poll awaits a sleep after that.
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let (release, gate) = mpsc::channel::<()>();
    let (started, running) = mpsc::channel();
    let task = runtime.spawn(async move {
        started.send(()).unwrap();
        gate.recv().unwrap();
        sleep(LONG).await;
    });
    running.recv().unwrap();
    let ended = runtime.shutdown(Duration::ZERO);
    assert_eq!((ended.workers_blocked, ended.unfinished.len()), (1, 1));
    release.send(()).unwrap();
    assert!(block_on(task).unwrap_err().is_cancelled());
}

#[test]
fn a_poll_that_ends_within_the_grace_is_waited_for() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let handle = runtime.handle().clone();
    let (started, running) = mpsc::channel();
    let theirs = handle.clone();
    let task = runtime.spawn(async move {
        started.send(()).unwrap();
        // Blocks until the shutdown has begun.
        while theirs.try_spawn(async {}).is_ok() {
            std::thread::yield_now();
        }
        7
    });
    running.recv().unwrap();
    let ended = runtime.shutdown(LONG);
    assert!(ended.is_clean(), "{ended:?}");
    assert_eq!(block_on(task).unwrap(), 7);
}
