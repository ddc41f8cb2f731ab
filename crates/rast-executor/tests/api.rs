//! What the crate promises, one by one: handles, panics, nesting, scopes, timers, shutdown.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::cell::Cell;
use std::future::{Future, pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rast_executor::timers::{ManualClock, Nanos};
use rast_executor::{
    AbortHandle, Deterministic, Elapsed, Handle, Interval, JoinError, JoinHandle, LocalExecutor,
    MissedTicks, Priority, Runtime, Sleep, block_on, consume_budget, interval, now, sleep,
    sleep_until, spawn, spawn_blocking, spawn_local, timeout, yield_now,
};

const LONG: Duration = Duration::from_secs(60);

fn runtime(workers: usize) -> Runtime {
    // Without the watch: no period of it may hide a wake-up that was lost.
    let builder = Runtime::builder().workers(workers).watch(None);
    builder.build().expect("the system gives threads")
}

/// Counts how often it is dropped.
#[derive(Clone)]
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Waits for a condition that another thread makes true.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "waited in vain for: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn types_are_send_where_they_should_be() {
    fn send_sync<T: Send + Sync>() {}
    fn unwind_safe<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    send_sync::<Runtime>();
    send_sync::<Handle>();
    send_sync::<JoinHandle<i32>>();
    send_sync::<AbortHandle>();
    send_sync::<JoinError>();
    send_sync::<Sleep>();
    send_sync::<Interval>();
    unwind_safe::<JoinHandle<i32>>();
    unwind_safe::<JoinError>();
}

#[test]
fn outputs_come_back_from_any_number_of_workers() {
    for workers in [1, 2, 4] {
        let runtime = runtime(workers);
        let sum = runtime.block_on(async {
            let tasks: Vec<_> = (0..1_000_u64).map(|n| spawn(async move { n })).collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            sum
        });
        assert_eq!(sum, 499_500);
    }
}

#[test]
fn a_future_of_every_size_is_dropped_once() {
    async fn hold<const N: usize>(dropped: Dropped) -> usize {
        let bytes = [1_u8; N];
        yield_now().await;
        drop(dropped);
        bytes.iter().map(|&byte| usize::from(byte)).sum()
    }
    let runtime = runtime(2);
    let count = Arc::new(AtomicUsize::new(0));
    let dropped = || Dropped(Arc::clone(&count));
    assert_eq!(
        runtime
            .block_on(runtime.spawn(hold::<0>(dropped())))
            .unwrap(),
        0
    );
    assert_eq!(
        runtime
            .block_on(runtime.spawn(hold::<500>(dropped())))
            .unwrap(),
        500
    );
    assert_eq!(
        runtime
            .block_on(runtime.spawn(hold::<2040>(dropped())))
            .unwrap(),
        2040
    );
    assert_eq!(
        runtime
            .block_on(runtime.spawn(hold::<9000>(dropped())))
            .unwrap(),
        9000
    );
    assert_eq!(count.load(Ordering::SeqCst), 4);
}

#[test]
fn a_panic_is_returned_and_the_worker_lives_on() {
    let runtime = runtime(1);
    let handle = runtime.spawn(async {
        yield_now().await;
        panic!("in a poll");
    });
    let error = runtime.block_on(handle).unwrap_err();
    assert!(error.is_panic() && !error.is_cancelled());
    assert_eq!(error.to_string(), "the task panicked");
    assert_eq!(
        error.into_panic().unwrap().downcast_ref(),
        Some(&"in a poll")
    );
    assert_eq!(runtime.block_on(runtime.spawn(ready(1))).unwrap(), 1);
}

/// Panics when it is dropped; a future that is never ready.
struct Bomb;

impl Future for Bomb {
    type Output = ();
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("in a destructor");
    }
}

/// A payload whose destructor panics.
struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic!("in the destructor of a payload");
    }
}

#[test]
fn panics_in_destructors_are_contained() {
    let runtime = runtime(1);
    let handle = runtime.spawn(Bomb);
    handle.abort();
    let error = runtime.block_on(handle).unwrap_err();
    assert_eq!(
        error.into_panic().unwrap().downcast_ref(),
        Some(&"in a destructor")
    );

    // The future panics in its poll and in its destructor.
    struct Twice(Bomb);
    impl Future for Twice {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            panic!("in the poll");
        }
    }
    let error = runtime.block_on(runtime.spawn(Twice(Bomb))).unwrap_err();
    assert_eq!(
        error.into_panic().unwrap().downcast_ref(),
        Some(&"in the poll")
    );

    // An output that no thread takes panics while it is dropped; so does the payload of a panic.
    runtime.spawn(poll_fn(|_| Poll::Ready(Bomb))).detach();
    runtime
        .spawn(async { std::panic::panic_any(Payload) })
        .detach();
    assert_eq!(runtime.block_on(runtime.spawn(ready(1))).unwrap(), 1);

    // What is left is dropped by the shutdown.
    runtime.spawn(Bomb).detach();
    let ended = runtime.shutdown(Duration::ZERO);
    assert_eq!(ended.unfinished.len(), 1);
}

#[test]
fn an_abort_drops_the_future_once_wherever_it_is() {
    let runtime = runtime(2);
    let count = Arc::new(AtomicUsize::new(0));
    // Not polled yet, waiting, complete, detached.
    for round in 0..200 {
        let dropped = Dropped(Arc::clone(&count));
        let handle = runtime.spawn(async move {
            let _dropped = dropped;
            for _ in 0..round % 5 {
                yield_now().await;
            }
            if round % 2 == 0 {
                pending::<()>().await;
            }
        });
        if round % 3 == 0 {
            yield_thread();
        }
        let abort = handle.abort_handle();
        abort.abort();
        handle.abort();
        match runtime.block_on(handle) {
            Ok(()) => assert_eq!(round % 2, 1),
            Err(error) => assert!(error.is_cancelled()),
        }
        assert!(abort.is_finished());
        abort.abort();
        assert_eq!(count.load(Ordering::SeqCst), round + 1);
    }
}

fn yield_thread() {
    std::thread::yield_now();
}

#[test]
fn a_task_aborts_itself_and_others_while_they_run() {
    let runtime = runtime(2);
    let (sender, receiver) = mpsc::channel::<AbortHandle>();
    let polled = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&polled);
    let handle = runtime.spawn(poll_fn(move |_| {
        theirs.fetch_add(1, Ordering::SeqCst);
        receiver.recv().unwrap().abort();
        Poll::<()>::Pending
    }));
    sender.send(handle.abort_handle()).unwrap();
    assert!(runtime.block_on(handle).unwrap_err().is_cancelled());
    assert_eq!(polled.load(Ordering::SeqCst), 1);
}

#[test]
fn a_handle_is_awaited_by_changing_wakers() {
    let runtime = runtime(1);
    let (release, gate) = mpsc::channel::<()>();
    let mut handle = runtime.spawn_blocking(move || gate.recv().is_ok());
    struct Flag(AtomicBool);
    impl std::task::Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let flags: Vec<_> = (0..3)
        .map(|_| Arc::new(Flag(AtomicBool::new(false))))
        .collect();
    for flag in &flags {
        let waker = Waker::from(Arc::clone(flag));
        for _ in 0..2 {
            let polled = Pin::new(&mut handle).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
    }
    // Two wakers were replaced, and only the last one is kept.
    assert_eq!(Arc::strong_count(&flags[0]), 1);
    release.send(()).unwrap();
    wait_until("the last waker", || flags[2].0.load(Ordering::SeqCst));
    assert!(!flags[0].0.load(Ordering::SeqCst) && !flags[1].0.load(Ordering::SeqCst));
    assert!(block_on(&mut handle).unwrap());
    let again = catch_unwind(AssertUnwindSafe(|| block_on(&mut handle)));
    assert!(again.is_err(), "a handle is ready once");
}

#[test]
fn nested_waiting_is_refused_with_a_message() {
    fn message(f: impl FnOnce()) -> String {
        let payload = catch_unwind(AssertUnwindSafe(f)).unwrap_err();
        match payload.downcast::<String>() {
            Ok(text) => *text,
            Err(payload) => (*payload.downcast_ref::<&str>().unwrap()).to_owned(),
        }
    }
    let runtime = runtime(1);
    let inner = runtime.handle().clone();
    let said = runtime
        .block_on(runtime.spawn(async move {
            [
                message(|| inner.block_on(async {})),
                message(|| block_on(async {})),
                message(|| LocalExecutor::new().run(async {})),
                message(|| Deterministic::new(0).run(async {})),
                message(|| inner.scope(|_| {})),
                message(|| spawn_local(async {}).detach()),
            ]
        }))
        .unwrap();
    for text in said {
        assert!(
            text.contains("inside of an executor") || text.contains("use spawn"),
            "{text}"
        );
    }
    let said = LocalExecutor::new().run(async { message(|| block_on(async {})) });
    assert!(said.contains("inside of an executor"), "{said}");
    assert!(catch_unwind(|| spawn(async {}).detach()).is_err());
    assert!(catch_unwind(|| drop(sleep(LONG))).is_err());
    assert!(Handle::current().is_none());
}

#[test]
fn the_wait_from_a_wake_up_to_the_poll_is_measured() {
    let clock = ManualClock::new();
    // A task stores zero where its wake-up is not measured, so a wake-up at zero counts as later.
    clock.advance(Nanos::from_millis(1));
    let builder = Runtime::builder().workers(1).watch(None);
    let runtime = builder.clock(clock.clone()).build().unwrap();
    let (release, gate) = mpsc::channel::<()>();
    let (started, running) = mpsc::channel();
    let blocker = runtime.spawn(async move {
        started.send(()).unwrap();
        gate.recv().unwrap();
        // From the worker itself: these wait for nothing by this clock.
        let tasks: Vec<_> = (0..500).map(|_| spawn(async {})).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    running.recv().unwrap();
    let before = runtime.metrics().schedule_latency.count();
    let tasks: Vec<_> = (0..500).map(|_| runtime.spawn(async {})).collect();
    clock.advance(Nanos::from_millis(3));
    release.send(()).unwrap();
    runtime.block_on(async {
        blocker.await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let waits = runtime.metrics().schedule_latency;
    // One in 95 at least, of each kind.
    assert!(waits.count() - before >= 10, "{waits:?}");
    assert!(waits.percentile(1.0).is_zero());
    let longest = waits.percentile(100.0).as_micros();
    assert!((3_000..=3_750).contains(&longest), "{longest} us");
}

#[test]
fn calls_that_block_run_beside_and_are_counted() {
    let runtime = Runtime::builder()
        .workers(1)
        .blocking_threads(2)
        .build()
        .unwrap();
    let (release, gate) = mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let calls: Vec<_> = (0..4)
        .map(|n| {
            let gate = Arc::clone(&gate);
            runtime.spawn_blocking(move || gate.lock().unwrap().recv().map(|()| n))
        })
        .collect();
    assert_eq!(runtime.metrics().blocking_calls, 4);
    assert!(runtime.metrics().blocking_threads <= 2);
    // Tasks go on meanwhile.
    assert_eq!(runtime.block_on(runtime.spawn(ready(1))).unwrap(), 1);
    for _ in 0..4 {
        release.send(()).unwrap();
    }
    let mut sum = 0;
    for call in calls {
        sum += runtime.block_on(call).unwrap().unwrap();
    }
    assert_eq!(sum, 6);
    let panicked = runtime.spawn_blocking(|| panic!("in a call"));
    assert!(runtime.block_on(panicked).unwrap_err().is_panic());
    let nested = runtime.block_on(async { spawn_blocking(|| block_on(async { 7 })).await });
    assert_eq!(nested.unwrap(), 7);
}

#[test]
fn a_call_that_has_not_begun_is_aborted() {
    let runtime = Runtime::builder()
        .workers(1)
        .blocking_threads(1)
        .build()
        .unwrap();
    let (release, gate) = mpsc::channel::<()>();
    let first = runtime.spawn_blocking(move || gate.recv().is_ok());
    let second = runtime.spawn_blocking(|| ());
    second.abort();
    release.send(()).unwrap();
    assert!(runtime.block_on(second).unwrap_err().is_cancelled());
    assert!(runtime.block_on(first).unwrap());
}

#[test]
fn a_scope_waits_for_its_tasks_also_after_a_panic() {
    let runtime = runtime(2);
    let mut slots = [0; 64];
    runtime.handle().scope(|scope| {
        for (index, slot) in slots.iter_mut().enumerate() {
            scope
                .spawn(async move {
                    yield_now().await;
                    *slot = index;
                })
                .detach();
        }
    });
    assert_eq!(slots.iter().sum::<usize>(), 63 * 64 / 2);
    let done = AtomicUsize::new(0);
    let result = catch_unwind(AssertUnwindSafe(|| {
        runtime.handle().scope(|scope| {
            for _ in 0..8 {
                scope
                    .spawn(async {
                        yield_now().await;
                        done.fetch_add(1, Ordering::SeqCst);
                    })
                    .detach();
            }
            panic!("in the scope");
        })
    }));
    assert!(result.is_err());
    assert_eq!(done.into_inner(), 8);
    let error = runtime.handle().scope(|scope| {
        let task = scope.spawn(async { panic!("in a task") });
        block_on(task)
    });
    assert!(error.unwrap_err().is_panic());
}

#[test]
fn a_scope_ends_when_its_runtime_does() {
    let runtime = runtime(1);
    let handle = runtime.handle().clone();
    std::thread::scope(|threads| {
        let (sender, receiver) = mpsc::channel();
        let waiting = threads.spawn(move || {
            handle.scope(|scope| {
                scope.spawn(pending::<()>()).detach();
                sender.send(()).unwrap();
            });
            // Refused: the future is dropped at once.
            handle.scope(|scope| block_on(scope.spawn(pending::<()>())).is_err())
        });
        receiver.recv().unwrap();
        let ended = runtime.shutdown(Duration::ZERO);
        assert_eq!(ended.unfinished.len(), 1);
        assert!(waiting.join().unwrap());
    });
}

#[test]
fn sleeps_by_a_clock_that_is_moved() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder()
        .workers(2)
        .watch(None)
        .clock(clock.clone())
        .build()
        .unwrap();
    let rests: Vec<_> = (1..=50)
        .map(|n| runtime.spawn(async move { sleep(Duration::from_millis(n)).await }))
        .collect();
    wait_until("all tasks polled", || {
        runtime
            .metrics()
            .workers
            .iter()
            .map(|w| w.polls)
            .sum::<u64>()
            >= 50
    });
    assert!(rests.iter().all(|rest| !rest.is_finished()));
    clock.advance(Nanos::from_millis(25));
    runtime.handle().clock_moved();
    wait_until("half of them", || {
        rests.iter().filter(|rest| rest.is_finished()).count() == 25
    });
    assert!(rests[..25].iter().all(JoinHandle::is_finished));
    clock.advance(Nanos::from_millis(25));
    runtime.handle().clock_moved();
    for rest in rests {
        runtime.block_on(rest).unwrap();
    }
}

#[test]
fn sleeps_by_the_systems_clock_are_not_early() {
    let runtime = runtime(2);
    let span = Duration::from_millis(5);
    let start = std::time::Instant::now();
    runtime.block_on(async {
        let rests: Vec<_> = (0..100)
            .map(|_| spawn(async move { sleep(span).await }))
            .collect();
        for rest in rests {
            rest.await.unwrap();
        }
    });
    assert!(start.elapsed() >= span);
    // In block_on itself, and by a timeout on another thread's value.
    runtime.block_on(async { sleep(Duration::from_millis(1)).await });
    let waited =
        runtime.block_on(async { timeout(Duration::from_millis(1), pending::<()>()).await });
    assert_eq!(waited, Err(Elapsed));
    let executor = LocalExecutor::new();
    executor.run(async { sleep(Duration::from_millis(1)).await });
}

#[test]
fn an_earlier_deadline_wakes_a_worker_that_sleeps_for_a_later_one() {
    let runtime = runtime(2);
    let late = runtime.spawn(sleep_in(LONG));
    wait_until("both asleep", || runtime.metrics().active == 0);
    for _ in 0..50 {
        let early = runtime.spawn(sleep_in(Duration::from_micros(100)));
        runtime.block_on(early).unwrap();
    }
    assert!(!late.is_finished());
}

async fn sleep_in(span: Duration) {
    sleep(span).await;
}

#[test]
fn a_sleep_is_moved_dropped_and_awaited_elsewhere() {
    Deterministic::new(3).run(async {
        let mut rest = Box::pin(sleep(Duration::from_secs(1)));
        assert!(
            timeout(Duration::from_millis(1), rest.as_mut())
                .await
                .is_err()
        );
        // Another task awaits what this one has armed.
        spawn_local(rest).await.unwrap();
        assert_eq!(now().as_nanos(), 1_000_000_000);
        let mut moved = sleep(Duration::from_secs(1));
        moved.reset(now().saturating_add(Nanos::from_secs(5)));
        moved.await;
        assert_eq!(now().as_nanos(), 6_000_000_000);
        sleep_until(now()).await;
        sleep(Duration::ZERO).await;
        assert_eq!(now().as_nanos(), 6_000_000_000);
        // No overflow, and taken back when it is dropped.
        assert!(
            timeout(Duration::from_secs(1), sleep(Duration::MAX))
                .await
                .is_err()
        );
    });
}

#[test]
fn a_million_sleeps_leave_nothing_whatever_the_order_of_their_drops() {
    struct Counted;
    impl std::task::Wake for Counted {
        fn wake(self: Arc<Self>) {}
    }
    let count = Arc::new(Counted);
    let waker = Waker::from(Arc::clone(&count));
    LocalExecutor::new().run(async {
        let mut cx = Context::from_waker(&waker);
        let mut number = 1_u64;
        for _ in 0..10 {
            let mut sleeps: Vec<_> = (0..100_000)
                .map(|_| {
                    number = number
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    Box::pin(sleep(Duration::from_nanos(
                        3_600_000_000_000 + (number >> 24),
                    )))
                })
                .collect();
            for sleep in &mut sleeps {
                assert!(sleep.as_mut().poll(&mut cx).is_pending());
            }
            while !sleeps.is_empty() {
                number = number
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let at = (number >> 33) as usize % sleeps.len();
                drop(sleeps.swap_remove(at));
            }
        }
    });
    drop(waker);
    assert_eq!(Arc::strong_count(&count), 1);
}

#[test]
fn missed_ticks_follow_their_policy() {
    let ticks = |missed| {
        Deterministic::new(1).run(async move {
            let mut ticks = interval(Duration::from_secs(1)).missed_ticks(missed);
            let mut due = vec![ticks.tick().await];
            sleep(Duration::from_millis(3500)).await;
            for _ in 0..4 {
                due.push(ticks.tick().await);
            }
            due.iter()
                .map(|due| due.as_nanos() / 100_000_000)
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(ticks(MissedTicks::Burst), [0, 10, 20, 30, 40]);
    assert_eq!(ticks(MissedTicks::Delay), [0, 10, 45, 55, 65]);
    assert_eq!(ticks(MissedTicks::Skip), [0, 10, 40, 50, 60]);
}

#[test]
fn a_deterministic_run_that_cannot_go_on_names_its_seed() {
    let payload = catch_unwind(|| Deterministic::new(77).run(pending::<()>())).unwrap_err();
    let text = payload.downcast_ref::<String>().unwrap();
    assert!(text.contains("seed 77"), "{text}");
}

#[test]
fn the_same_seed_gives_the_same_order() {
    let order = |seed| {
        let order = Rc::new(std::cell::RefCell::new(Vec::new()));
        Deterministic::new(seed).run(async {
            let tasks: Vec<_> = (0..10_u64)
                .map(|n| {
                    let order = Rc::clone(&order);
                    spawn_local(async move {
                        for step in 0..3 {
                            order.borrow_mut().push((n, step));
                            sleep(Duration::from_millis(n % 3)).await;
                            yield_now().await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        order.take()
    };
    let orders: Vec<_> = (0..20).map(order).collect();
    for (seed, first) in orders.iter().enumerate() {
        assert_eq!(*first, order(seed as u64), "seed {seed}");
    }
    assert!(orders.windows(2).any(|pair| pair[0] != pair[1]));
}

#[test]
fn local_tasks_are_woken_by_other_threads() {
    let executor = LocalExecutor::new();
    let sum = executor.run(async {
        let mut sum = 0;
        for n in 0..100 {
            let (sender, receiver) = mpsc::channel::<Waker>();
            let is_set = Arc::new(AtomicBool::new(false));
            let theirs = Arc::clone(&is_set);
            let thread = std::thread::spawn(move || {
                let waker = receiver.recv().unwrap();
                theirs.store(true, Ordering::Release);
                waker.wake();
            });
            let mut sent = false;
            let task = spawn_local(poll_fn(move |cx| {
                if !sent {
                    sender.send(cx.waker().clone()).unwrap();
                    sent = true;
                }
                if is_set.load(Ordering::Acquire) {
                    Poll::Ready(n)
                } else {
                    Poll::Pending
                }
            }));
            sum += task.await.unwrap();
            thread.join().unwrap();
        }
        sum
    });
    assert_eq!(sum, 4950);
}

#[test]
fn local_tasks_borrow_run_on_and_are_dropped_with_their_executor() {
    let executor = LocalExecutor::new();
    let text = String::from("borrowed");
    assert_eq!(executor.run(async { text.len() }), 8);
    let steps = Rc::new(Cell::new(0));
    let theirs = Rc::clone(&steps);
    let task = executor.spawn(async move {
        loop {
            theirs.set(theirs.get() + 1);
            yield_now().await;
        }
    });
    executor.run(yield_now());
    let before = steps.get();
    executor.run(async {
        for _ in 0..3 {
            yield_now().await;
        }
    });
    assert!(steps.get() > before);
    assert_eq!(executor.tasks(), 1);
    let abort: AbortHandle = task.abort_handle();
    drop(executor);
    assert_eq!(Rc::strong_count(&steps), 1, "the future is dropped");
    assert!(abort.is_finished());
    abort.abort();
    assert!(block_on(task).unwrap_err().is_cancelled());
}

#[test]
fn the_main_future_of_a_local_executor_panics_to_its_caller() {
    let executor = LocalExecutor::new();
    let result = catch_unwind(AssertUnwindSafe(|| executor.run(async { panic!("main") })));
    assert_eq!(result.unwrap_err().downcast_ref(), Some(&"main"));
    assert_eq!(executor.run(async { 1 }), 1);
}

#[test]
fn the_budget_makes_a_ready_loop_yield() {
    let runtime = Runtime::builder()
        .workers(1)
        .watch(None)
        .budget(10)
        .build()
        .unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&stop);
    let spinner = runtime.spawn(async move {
        while !theirs.load(Ordering::Relaxed) {
            consume_budget().await;
        }
    });
    // The one worker gets to this task although the spinner is always ready.
    let other = Arc::clone(&stop);
    runtime
        .block_on(runtime.spawn(async move { other.store(true, Ordering::Relaxed) }))
        .unwrap();
    runtime.block_on(spinner).unwrap();
}

#[test]
fn names_and_priorities_are_shown() {
    let runtime = runtime(1);
    let handle = runtime
        .task()
        .name("reader")
        .priority(Priority::Low)
        .spawn(pending::<()>());
    assert!(format!("{handle:?}").contains("reader"));
    assert_eq!(runtime.metrics().tasks, 1);
    handle.abort();
}

#[test]
fn a_builder_refuses_what_cannot_be() {
    assert!(Runtime::builder().workers(0).build().is_err());
    assert!(Runtime::builder().workers(5000).build().is_err());
    assert!(Runtime::builder().blocking_threads(0).build().is_err());
    assert!(Runtime::builder().name("a\0b").build().is_err());
    let spins = Runtime::builder().watch(Some(Duration::ZERO));
    assert!(spins.build().is_err());
}
