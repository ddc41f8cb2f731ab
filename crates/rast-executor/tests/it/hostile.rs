//! Ends and destructors at bad moments: shutdown of long chains, unwinding threads, threads of the
//! pool that end as a call comes.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use rast_executor::primitive::model::draw;
use rast_executor::primitive::panics;
use rast_executor::timers::{Clock, Instant};
use rast_executor::{
    JoinHandle, LocalExecutor, Runtime, Sleep, block_on, consume_budget, interval, sleep,
    sleep_until, spawn, spawn_local, timeout, yield_now,
};

const LONG: Duration = Duration::from_secs(60);

/// Drives a future on this thread with a waker that does nothing, as another crate's `block_on` may
/// do inside of a task: it polls until the future is ready.
fn spin_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
}

#[test]
fn a_loop_that_polls_inside_of_a_poll_is_not_refused_for_ever() {
    let loops = || {
        spin_on(async {
            for _ in 0..10_000 {
                consume_budget().await;
            }
            7
        })
    };
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let task = runtime.spawn(async move { loops() });
    assert_eq!(runtime.block_on(task).unwrap(), 7);
    assert_eq!(LocalExecutor::new().run(async { loops() }), 7);
    // The next poll has a budget again.
    let polls = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&polls);
    let task = runtime.spawn(async move {
        loops();
        let mut ready = std::pin::pin!(async {
            for _ in 0..1_000 {
                consume_budget().await;
            }
        });
        yield_now().await;
        std::future::poll_fn(|cx| {
            theirs.fetch_add(1, Ordering::Relaxed);
            ready.as_mut().poll(cx)
        })
        .await;
    });
    runtime.block_on(task).unwrap();
    assert!(polls.load(Ordering::Relaxed) >= 1_000 / 128);
}

/// Waits in its destructor for a task, and says what came of it.
struct WaitsInDrop {
    task: Option<JoinHandle<()>>,
    told: mpsc::Sender<bool>,
}

impl Drop for WaitsInDrop {
    fn drop(&mut self) {
        let task = self.task.take().expect("dropped once");
        let wait = std::panic::AssertUnwindSafe(|| block_on(task));
        let waited = std::panic::catch_unwind(wait);
        let _ = self.told.send(waited.is_ok());
    }
}

#[test]
fn a_destructor_that_waits_for_a_task_is_refused_while_the_runtime_ends() {
    // By the last worker, and by the thread that shuts down, because a worker blocks.
    for is_blocked in [false, true] {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let (told, waited) = mpsc::channel();
        let (release, gate) = mpsc::channel::<()>();
        let (started, running) = mpsc::channel();
        // Those that wait are cancelled first, since the list begins with the newest task.
        let never = [(); 2].map(|()| runtime.spawn(pending::<()>()));
        for task in never {
            let waits = WaitsInDrop {
                task: Some(task),
                told: told.clone(),
            };
            let holds = async move {
                let _waits = waits;
                pending::<()>().await;
            };
            runtime.spawn(holds).detach();
        }
        runtime
            .spawn(async move {
                started.send(()).unwrap();
                if is_blocked {
                    let _ = gate.recv();
                }
            })
            .detach();
        running.recv().unwrap();
        let ended = runtime.shutdown(Duration::ZERO);
        // A worker that the system suspends for long counts as blocked as well.
        assert!(!is_blocked || ended.workers_blocked == 1);
        assert_eq!(waited.try_iter().collect::<Vec<_>>(), [false, false]);
        drop(release);
    }
}

/// A clock that shows whether its runtime still has it.
struct Held(Arc<()>);

impl Clock for Held {
    fn now(&self) -> Instant {
        assert!(Arc::strong_count(&self.0) > 1, "the test has the other one");
        Instant::ORIGIN
    }
}

#[test]
fn a_shutdown_frees_the_runtime() {
    for workers in [1, 2] {
        let held = Arc::new(());
        let builder = Runtime::builder().workers(workers);
        let runtime = builder.clock(Held(Arc::clone(&held))).build().unwrap();
        runtime.block_on(runtime.spawn(yield_now())).unwrap();
        assert!(runtime.shutdown(LONG).is_clean());
        // The thread of a worker ends a moment later.
        while Arc::strong_count(&held) > 1 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_hundred_thousand_tasks_are_aborted_at_random() {
    const TASKS: usize = 100_000;
    let seed = draw();
    println!("seed {seed}");
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let alive = Arc::new(());
    let tasks: Vec<_> = (0..TASKS)
        .map(|n| {
            let alive = Arc::clone(&alive);
            runtime.spawn(async move {
                let _alive = alive;
                match n % 4 {
                    0 => {}
                    1 => yield_now().await,
                    2 => sleep(LONG).await,
                    _ => pending::<()>().await,
                }
                n
            })
        })
        .collect();
    // Two threads abort in orders of their own, and meet at many tasks.
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let tasks = &tasks;
            scope.spawn(move || {
                // An odd factor visits each place once.
                let factor = (seed.wrapping_add(thread) | 1) as usize;
                for n in 0..1 << 17 {
                    let at = (n * (factor % (1 << 17)) + seed as usize % 1_000) % (1 << 17);
                    tasks.get(at).into_iter().for_each(JoinHandle::abort);
                }
            });
        }
    });
    for (n, task) in tasks.into_iter().enumerate() {
        match runtime.block_on(task) {
            Ok(output) => assert!(output == n && n % 4 < 2, "task {n}"),
            Err(error) => assert!(error.is_cancelled(), "task {n}"),
        }
    }
    assert_eq!(Arc::strong_count(&alive), 1);
    assert_eq!(runtime.metrics().tasks, 0);
}

#[test]
fn a_handle_is_polled_in_a_select_moved_and_awaited_elsewhere() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for round in 0..500 {
        let (release, gate) = futures::channel::oneshot::channel::<()>();
        let task = runtime.spawn(async move {
            let _ = gate.await;
            round
        });
        // Its waker is left by the select of a task, which ends and is freed.
        let task = runtime
            .block_on(runtime.spawn(async move {
                match futures::future::select(task, yield_now()).await {
                    futures::future::Either::Left(_) => unreachable!("the gate is closed"),
                    futures::future::Either::Right(((), task)) => Some(task),
                }
            }))
            .unwrap()
            .expect("the select gives it back");
        // A join in a task that is aborted drops a handle with a waker; this one is moved on.
        let other = runtime.spawn(pending::<()>());
        let end = other.abort_handle();
        let joined = runtime.spawn(futures::future::join(other, yield_now()));
        match round % 3 {
            0 => joined.abort(),
            1 => end.abort(),
            _ => drop(joined),
        }
        release.send(()).unwrap();
        let waiting = std::thread::spawn(move || block_on(task).unwrap());
        assert_eq!(waiting.join().unwrap(), round);
        end.abort();
    }
}

#[test]
fn futures_and_outputs_of_any_alignment_and_size_are_in_place() {
    #[repr(align(512))]
    #[derive(Clone, Copy)]
    struct Wide([u8; 512]);
    struct Nothing;
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let wide = Wide([7; 512]);
    let task = runtime.spawn(async move {
        let kept = wide;
        yield_now().await;
        assert_eq!((&raw const kept).addr() % 512, 0);
        (Nothing, kept)
    });
    let (Nothing, kept) = runtime.block_on(task).unwrap();
    assert!(kept.0.iter().all(|&byte| byte == 7));
    let huge = vec![runtime.spawn(async move { [wide; 64] })];
    for task in huge {
        assert_eq!(runtime.block_on(task).unwrap()[63].0[511], 7);
    }
}

#[test]
fn extreme_times_of_a_builder_neither_overflow_nor_spin() {
    let runtime = Runtime::builder()
        .workers(2)
        .watch(Some(Duration::MAX))
        .keep_alive(Duration::MAX)
        .budget(u32::MAX)
        .build()
        .unwrap();
    let call = runtime.spawn_blocking(|| 1);
    assert_eq!(runtime.block_on(call).unwrap(), 1);
    let task = runtime.spawn(async {
        for _ in 0..1_000 {
            consume_budget().await;
        }
        timeout(Duration::MAX, yield_now()).await
    });
    assert_eq!(runtime.block_on(task).unwrap(), Ok(()));
    // All fall asleep, and are woken again.
    while runtime.metrics().active > 0 {
        std::thread::yield_now();
    }
    assert_eq!(runtime.block_on(runtime.spawn(async { 2 })).unwrap(), 2);
}

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
    let rest = local.run(std::future::poll_fn(|_| Poll::Ready(sleep(LONG))));
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

/// A waker that panics when it is dropped, unless its thread panics already.
struct Loud;

impl Wake for Loud {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Loud {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "this waker is dropped loudly");
    }
}

/// The panic of a waker's destructor is that of the poll that replaces it. The waker that replaces
/// it stays the handle's, and is not dropped between the polls of tasks.
#[test]
fn a_waker_whose_drop_panics_in_a_poll_of_a_handle_harms_no_executor() {
    LocalExecutor::new().run(async {
        let mut task = spawn_local(yield_now());
        for is_replaced in [false, true] {
            let waker = Waker::from(Arc::new(Loud));
            let poll = || Pin::new(&mut task).poll(&mut Context::from_waker(&waker));
            let polled = panics::contain(poll);
            assert_eq!(polled.is_err(), is_replaced);
            // The handle's clone is the last one.
            drop(waker);
        }
        let _ = panics::contain(|| drop(task));
        // The task ends, and its memory is freed.
        for _ in 0..3 {
            yield_now().await;
        }
    });
}
