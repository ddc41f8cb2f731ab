//! No wake-up is lost, no matter which thread wakes whom and when; wakers outlive their tasks and
//! runtimes.
//!
//! The runtimes have no watch, so a wake-up that is lost is a test that hangs, and the bounded
//! waits say which.
#![cfg(not(any(rast_loom, rast_shuttle)))]
#![allow(clippy::waker_clone_wake, reason = "waking by value is what is tested")]

use std::future::{pending, poll_fn};
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use rast_executor::timers::ManualClock;
use rast_executor::{LocalExecutor, Runtime, block_on, sleep, spawn, yield_now};

const LONG: Duration = Duration::from_secs(60);

fn runtime(workers: usize) -> Runtime {
    let builder = Runtime::builder().workers(workers).watch(None);
    builder.build().expect("the system gives threads")
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "waited in vain for: {what}");
        thread::yield_now();
    }
}

#[test]
fn one_task_is_woken_by_many_threads_and_polled_by_one_at_a_time() {
    const THREADS: usize = 4;
    const WAKES: u64 = 20_000;
    let runtime = runtime(4);
    let inside = Arc::new(AtomicBool::new(false));
    let sent = Arc::new(AtomicU64::new(0));
    let (sender, receiver) = mpsc::channel::<Waker>();
    let theirs = Arc::clone(&sent);
    let mut sender = Some(sender);
    let task = runtime.spawn(poll_fn(move |cx| {
        assert!(
            !inside.swap(true, Ordering::SeqCst),
            "polled by two workers"
        );
        if let Some(sender) = sender.take() {
            sender.send(cx.waker().clone()).unwrap();
        }
        let sum = theirs.load(Ordering::SeqCst);
        inside.store(false, Ordering::SeqCst);
        if sum == WAKES * THREADS as u64 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }));
    let waker = receiver.recv().unwrap();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for n in 0..WAKES {
                    sent.fetch_add(1, Ordering::SeqCst);
                    if n % 2 == 0 {
                        waker.wake_by_ref();
                    } else {
                        waker.clone().wake();
                    }
                }
            });
        }
    });
    runtime.block_on(task).unwrap();
    waker.wake_by_ref();
    drop(runtime);
    waker.wake();
}

#[test]
fn tasks_wake_tasks_in_a_ring() {
    for workers in [1, 2, 3] {
        let runtime = runtime(workers);
        const TASKS: usize = 16;
        const ROUNDS: usize = 300;
        let token = Arc::new(AtomicUsize::new(0));
        let wakers: Arc<Vec<Mutex<Option<Waker>>>> =
            Arc::new((0..TASKS).map(|_| Mutex::new(None)).collect());
        let tasks: Vec<_> = (0..TASKS)
            .map(|me| {
                let (token, wakers) = (Arc::clone(&token), Arc::clone(&wakers));
                runtime.spawn(poll_fn(move |cx| {
                    *wakers[me].lock().unwrap() = Some(cx.waker().clone());
                    loop {
                        let at = token.load(Ordering::SeqCst);
                        if at >= TASKS * ROUNDS {
                            for waker in wakers.iter() {
                                if let Some(waker) = waker.lock().unwrap().take() {
                                    waker.wake();
                                }
                            }
                            return Poll::Ready(());
                        }
                        if at % TASKS != me {
                            return Poll::Pending;
                        }
                        token.store(at + 1, Ordering::SeqCst);
                        if let Some(waker) = wakers[(me + 1) % TASKS].lock().unwrap().take() {
                            waker.wake();
                        }
                    }
                }))
            })
            .collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }
}

#[test]
fn spawns_from_outside_meet_workers_that_fall_asleep() {
    let runtime = runtime(2);
    for round in 0..3_000 {
        let task = runtime.spawn(async move { round });
        assert_eq!(runtime.block_on(task).unwrap(), round);
        if round % 64 == 0 {
            wait_until("all asleep", || runtime.metrics().active == 0);
        }
    }
}

#[test]
fn two_runtimes_and_a_local_executor_await_each_other() {
    let (left, right) = (runtime(1), runtime(2));
    let there = right.handle().clone();
    let back = left.handle().clone();
    let sum = left.block_on(left.spawn(async move {
        let mut sum = 0;
        for n in 0..200 {
            let back = back.clone();
            sum += there
                .spawn(async move { back.spawn(async move { n }).await.unwrap() })
                .await
                .unwrap();
        }
        sum
    }));
    assert_eq!(sum.unwrap(), 19_900);
    let task = right.spawn(async { 5 });
    assert_eq!(LocalExecutor::new().run(task).unwrap(), 5);
}

#[test]
fn wakers_are_cloned_woken_and_dropped_in_every_order_around_the_end() {
    // Each thread does one of these to its waker at about the time at which the task completes, is
    // aborted, or is cancelled by the shutdown.
    for round in 0..200_u32 {
        let runtime = runtime(1 + (round % 2) as usize);
        let (sender, receiver) = mpsc::channel::<Waker>();
        let done = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&done);
        let task = runtime.spawn(poll_fn(move |cx| {
            let _ = sender.send(cx.waker().clone());
            if theirs.load(Ordering::Acquire) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        }));
        let waker = receiver.recv().unwrap();
        let start = Arc::new(Barrier::new(4));
        let threads: Vec<_> = (0..3_u32)
            .map(|index| {
                let (waker, start) = (waker.clone(), Arc::clone(&start));
                let done = Arc::clone(&done);
                thread::spawn(move || {
                    start.wait();
                    done.store(index == 0 && round % 3 == 0, Ordering::Release);
                    match (round / 3 + index) % 4 {
                        0 => waker.wake(),
                        1 => {
                            waker.wake_by_ref();
                            waker.wake_by_ref();
                        }
                        2 => drop(waker.clone()),
                        _ => waker.clone().wake(),
                    }
                })
            })
            .collect();
        start.wait();
        match round % 4 {
            0 => task.abort(),
            1 => drop(task),
            2 => drop(runtime),
            _ => {
                let _ = runtime.shutdown(Duration::ZERO);
            }
        }
        for thread in threads {
            thread.join().unwrap();
        }
        waker.wake();
    }
}

#[test]
fn futures_are_dropped_once_by_a_shutdown_amid_spawns_and_wakes() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    for round in 0..60 {
        let runtime = runtime(2);
        let alive = Arc::new(AtomicUsize::new(0));
        let handle = runtime.handle().clone();
        let stop = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (handle, alive) = (handle.clone(), Arc::clone(&alive));
                let stop = Arc::clone(&stop);
                thread::spawn(move || {
                    let mut refused = 0;
                    for n in 0_u32.. {
                        if stop.load(Ordering::Relaxed) && refused > 0 {
                            break;
                        }
                        if alive.load(Ordering::SeqCst) > 500 && !stop.load(Ordering::Relaxed) {
                            // The workers are to keep up.
                            thread::yield_now();
                            continue;
                        }
                        alive.fetch_add(1, Ordering::SeqCst);
                        let counted = Counted(Arc::clone(&alive));
                        let future = async move {
                            let _counted = counted;
                            match n % 4 {
                                0 => {}
                                1 => yield_now().await,
                                2 => sleep(Duration::from_micros(50)).await,
                                _ => spawn(yield_now()).await.unwrap_or(()),
                            }
                        };
                        match handle.try_spawn(future) {
                            Ok(task) if n % 3 == 0 => task.abort(),
                            Ok(task) => task.detach(),
                            Err(_) => refused += 1,
                        }
                    }
                    refused
                })
            })
            .collect();
        for _ in 0..round {
            thread::yield_now();
        }
        let _ = runtime.shutdown(Duration::ZERO);
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            assert!(
                thread.join().unwrap() > 0,
                "spawns are refused after the end"
            );
        }
        wait_until("all futures dropped", || alive.load(Ordering::SeqCst) == 0);
    }
}

#[test]
fn a_local_executor_is_dropped_while_its_tasks_are_woken() {
    for _ in 0..300 {
        let executor = LocalExecutor::new();
        let (sender, receiver) = mpsc::channel::<Waker>();
        let task = executor.spawn(poll_fn(move |cx| {
            let _ = sender.send(cx.waker().clone());
            Poll::<()>::Pending
        }));
        executor.run(yield_now());
        let waker = receiver.recv().unwrap();
        let waking = thread::spawn(move || {
            for _ in 0..20 {
                waker.clone().wake();
                waker.wake_by_ref();
            }
        });
        drop(executor);
        waking.join().unwrap();
        assert!(block_on(task).unwrap_err().is_cancelled());
    }
}

#[test]
fn handles_are_awaited_and_dropped_while_their_tasks_end() {
    let runtime = runtime(2);
    for round in 0..3_000 {
        let task = runtime.spawn(async move {
            for _ in 0..round % 3 {
                yield_now().await;
            }
            vec![round]
        });
        match round % 4 {
            0 => drop(task),
            1 => assert_eq!(runtime.block_on(task).unwrap(), [round]),
            2 => {
                // A waker is left, and the handle dropped.
                let mut task = task;
                runtime.block_on(poll_fn(|cx| {
                    let _ = Pin::new(&mut task).poll(cx);
                    Poll::Ready(())
                }));
            }
            _ => {
                let outer = runtime.spawn(async move { task.await.unwrap() });
                assert_eq!(runtime.block_on(outer).unwrap(), [round]);
            }
        }
    }
}

#[test]
fn tasks_that_await_each_other_are_freed() {
    // Each has the other's handle, so each task's join waker is the other.
    let alive = Arc::new(());
    let runtime = runtime(2);
    let mut ends = Vec::new();
    for _ in 0..100 {
        let (left, right) = (mpsc::channel(), mpsc::channel());
        let (one, other) = (Arc::clone(&alive), Arc::clone(&alive));
        let mut gate = Some(left.1);
        let a = runtime.spawn(async move {
            let _alive = one;
            let other: rast_executor::JoinHandle<()> = gate.take().unwrap().recv().unwrap();
            let _ = other.await;
        });
        ends.push(a.abort_handle());
        let mut gate = Some(right.1);
        let b = runtime.spawn(async move {
            let _alive = other;
            let other: rast_executor::JoinHandle<()> = gate.take().unwrap().recv().unwrap();
            let _ = other.await;
        });
        ends.push(b.abort_handle());
        left.0.send(b).unwrap();
        right.0.send(a).unwrap();
    }
    for end in &ends {
        end.abort();
    }
    wait_until("both aborted", || ends.iter().all(|end| end.is_finished()));
    assert_eq!(Arc::strong_count(&alive), 1);
    runtime.block_on(async { spawn(async {}).await.unwrap() });
    drop(runtime);
    let unused = pending::<()>();
    drop(unused);
}

/// A waker that is lent for one poll: it borrows another waker, and its clones are clones of that
/// one. So a later waker at the same address may wake another task.
static LENT: RawWakerVTable = RawWakerVTable::new(
    |data| {
        // SAFETY: `poll_lent` makes the pointer, and the waker is lent for its call.
        let lender = unsafe { &*data.cast::<Waker>() };
        let clone = ManuallyDrop::new(lender.clone());
        RawWaker::new(clone.data(), clone.vtable())
    },
    |_| unreachable!("a lent waker is woken by reference"),
    // SAFETY: as above.
    |data| unsafe { &*data.cast::<Waker>() }.wake_by_ref(),
    |_| {},
);

fn poll_lent<F: Future + Unpin>(future: &mut F, lender: &Waker) -> Poll<F::Output> {
    let raw = RawWaker::new(std::ptr::from_ref(lender).cast(), &LENT);
    // SAFETY: the functions of the table only use the lender, which outlives the waker.
    let waker = unsafe { Waker::from_raw(raw) };
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls with wakers of two tasks that are lent at one address, lets the future become ready by
/// `end`, and returns how often each task was woken.
fn woken_at_one_address<F: Future + Unpin>(mut future: F, end: impl FnOnce()) -> [usize; 2] {
    let bells = [(); 2].map(|()| Arc::new(Bell::default()));
    let mut lender = Waker::noop().clone();
    for bell in &bells {
        lender = Waker::from(Arc::clone(bell));
        assert!(poll_lent(&mut future, &lender).is_pending());
    }
    end();
    assert!(poll_lent(&mut future, &lender).is_ready());
    bells.map(|bell| bell.0.load(Ordering::Relaxed))
}

#[test]
fn a_handle_wakes_the_task_that_polled_last_although_its_waker_was_lent() {
    let executor = LocalExecutor::new();
    let (release, gate) = futures::channel::oneshot::channel::<()>();
    let task = executor.spawn(gate);
    let woken = woken_at_one_address(task, || {
        release.send(()).unwrap();
        executor.run(yield_now());
    });
    assert_eq!(woken, [0, 1]);
}

#[test]
fn a_sleep_wakes_the_task_that_polled_last_although_its_waker_was_lent() {
    let clock = ManualClock::new();
    let executor = LocalExecutor::with_clock(clock.clone());
    let span = Duration::from_nanos(1);
    let rest = executor.run(poll_fn(|_| Poll::Ready(sleep(span))));
    let woken = woken_at_one_address(rest, || {
        clock.advance(span.into());
        // In so many polls it checks its timers.
        executor.run(async {
            for _ in 0..32 {
                yield_now().await;
            }
        });
    });
    assert_eq!(woken, [0, 1]);
}
