//! `async` bodies: yields, sleeps, signals, hops, and foreign combinators.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use rast_scheduler::timers::{Instant, Nanos};
use rast_scheduler::{Scheduler, yield_now};

use crate::support::{LONG, advance, by_hand};

#[test]
fn a_yield_lets_others_run() {
    let scheduler = Scheduler::new(1).unwrap();
    let (sender, receiver) = mpsc::channel();
    let gate = scheduler.spawn(thread::yield_now);
    for name in ["a", "b"] {
        let sender = sender.clone();
        drop(scheduler.spawn_future(async move {
            for step in 0..3 {
                sender.send((name, step)).unwrap();
                yield_now().await;
            }
        }));
    }
    gate.join().unwrap();
    drop(sender);
    let all: Vec<_> = receiver.iter().collect();
    let of = |name| {
        all.iter()
            .filter(|step| step.0 == name)
            .map(|step| step.1)
            .collect::<Vec<_>>()
    };
    assert_eq!((of("a"), of("b")), (vec![0, 1, 2], vec![0, 1, 2]));
}

#[test]
fn a_sleep_ends_at_its_time() {
    let (scheduler, clock) = by_hand(1);
    let task = scheduler.spawn_async(|cx| async move {
        cx.sleep_until(Instant::from_nanos(50)).await;
        let first = cx.now();
        cx.sleep(Nanos::from_nanos(50)).await;
        (first, cx.now())
    });
    scheduler.spawn(|| ()).join().unwrap();
    advance(&scheduler, &clock, Nanos::from_nanos(49));
    scheduler.spawn(|| ()).join().unwrap();
    assert!(!task.is_finished());
    advance(&scheduler, &clock, Nanos::from_nanos(1));
    while !task.is_finished() {
        advance(&scheduler, &clock, Nanos::from_nanos(1));
        thread::yield_now();
    }
    let (first, second) = task.join().unwrap();
    assert!(first.as_nanos() >= 50 && second.as_nanos() >= first.as_nanos() + 50);
}

#[test]
fn signals_are_received_one_by_one_and_do_not_disturb_a_sleep() {
    let (scheduler, clock) = by_hand(1);
    let (sender, receiver) = mpsc::channel();
    let task = scheduler.spawn_async(|cx| async move {
        cx.signal().await;
        sender.send("signal").unwrap();
        cx.sleep(Nanos::from_nanos(10)).await;
        sender.send("slept").unwrap();
        cx.signal().await; // the one that came during the sleep
        sender.send("again").unwrap();
    });
    let handle = task.handle();
    handle.signal().unwrap();
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), "signal");
    handle.signal().unwrap();
    assert!(scheduler.spawn(|| true).join().unwrap());
    assert!(receiver.try_recv().is_err());
    advance(&scheduler, &clock, Nanos::from_nanos(10));
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), "slept");
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), "again");
    task.join().unwrap();
}

/// Polls its future by a waker of its own, as combinators of many futures do.
struct Wrapped<F>(Pin<Box<F>>, Arc<Flag>);

struct Flag {
    is_set: AtomicBool,
    outer: std::sync::Mutex<Option<Waker>>,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.is_set.store(true, Ordering::Release);
        let outer = self.outer.lock().unwrap().clone();
        if let Some(outer) = outer {
            outer.wake();
        }
    }
}

impl<F> Wrapped<F> {
    fn new(future: F) -> Self {
        let flag = Flag {
            is_set: AtomicBool::new(true),
            outer: std::sync::Mutex::new(None),
        };
        Self(Box::pin(future), Arc::new(flag))
    }
}

impl<F: Future> Future for Wrapped<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        *self.1.outer.lock().unwrap() = Some(cx.waker().clone());
        if !self.1.is_set.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let waker = Waker::from(Arc::clone(&self.1));
        self.0.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

#[test]
fn combinators_with_wakers_of_their_own_work() {
    let scheduler = Scheduler::new(2).unwrap();
    let task = scheduler.spawn_async(|cx| async move {
        let mut sleep = Wrapped::new(cx.sleep(Nanos::from_micros(300)));
        let mut never = Wrapped::new(cx.sleep_until(Instant::MAX));
        let first = poll_fn(|cx| {
            if Pin::new(&mut never).poll(cx).is_ready() {
                return Poll::Ready("never");
            }
            Pin::new(&mut sleep).poll(cx).map(|()| "slept")
        })
        .await;
        let signal = cx.signal();
        Wrapped::new(async move {
            signal.await;
        })
        .await;
        first
    });
    let handle = task.handle();
    handle.signal().unwrap();
    assert_eq!(task.join().unwrap(), "slept");
}

/// A sleep that another thread polls has its deadline all the same.
#[test]
fn a_sleep_may_be_polled_on_another_thread() {
    let scheduler = Scheduler::new(1).unwrap();
    let (sender, receiver) = mpsc::channel();
    let task = scheduler.spawn_async(|cx| async move {
        sender.send(cx.sleep(Nanos::from_micros(500))).unwrap();
        cx.signal().await;
    });
    let sleep = receiver.recv_timeout(LONG).unwrap();
    let other = Scheduler::new(1).unwrap();
    other.spawn_future(sleep).join().unwrap();
    task.handle().signal().unwrap();
    task.join().unwrap();
}

#[test]
fn a_task_hops_between_schedulers() {
    let one = Scheduler::builder().workers(1).name("one").start().unwrap();
    let two = Scheduler::builder().workers(1).name("two").start().unwrap();
    let (first, second) = (one.remote(), two.remote());
    let task = one.spawn_async(move |cx| async move {
        let name = || thread::current().name().unwrap_or("").to_string();
        let mut names = vec![name()];
        cx.hop(&second).await.unwrap();
        names.push(name());
        cx.sleep(Nanos::from_micros(10)).await;
        names.push(name());
        cx.hop(&first).await.unwrap();
        names.push(name());
        names
    });
    assert_eq!(task.join().unwrap(), ["one-0", "two-0", "two-0", "one-0"]);
    let gone = two.remote();
    drop(two);
    let task = one.spawn_async(move |cx| async move { cx.hop(&gone).await.is_err() });
    assert!(task.join().unwrap());
}

#[test]
fn dropped_sleeps_leave_nothing() {
    let scheduler = Scheduler::new(1).unwrap();
    let task = scheduler.spawn_async(|cx| async move {
        for _ in 0..1000 {
            let mut sleep = std::pin::pin!(cx.sleep(Nanos::from_secs(3600)));
            poll_fn(|cx| {
                assert!(sleep.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
        }
    });
    task.join().unwrap();
    assert!(scheduler.wait_idle(LONG));
}
