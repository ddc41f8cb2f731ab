//! `async` bodies: yields, sleeps, signals, hops, and foreign combinators.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;

use rast_scheduler::timers::{Clock, Instant, ManualClock, Nanos};
use rast_scheduler::{AsyncCx, Finished, JoinError, Scheduler, yield_now};

use crate::support::{Count, Gate, LONG, advance, by_hand, until};

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
    let [one, two] = one_and_two();
    let (first, second) = (one.remote(), two.remote());
    let task = one.spawn_async(move |cx| async move {
        let mut names = vec![here()];
        cx.hop(&second).await.unwrap();
        names.push(here());
        cx.sleep(Nanos::from_micros(10)).await;
        names.push(here());
        cx.hop(&first).await.unwrap();
        names.push(here());
        names
    });
    assert_eq!(task.join().unwrap(), ["one-0", "two-0", "two-0", "one-0"]);
    let gone = two.remote();
    drop(two);
    let task = one.spawn_async(move |cx| async move { cx.hop(&gone).await.is_err() });
    assert!(task.join().unwrap());
}

/// The name of the worker.
fn here() -> String {
    thread::current().name().unwrap_or("").to_string()
}

/// Two schedulers of one worker each, called one and two.
fn one_and_two() -> [Scheduler; 2] {
    ["one", "two"].map(|name| Scheduler::builder().workers(1).name(name).start().unwrap())
}

/// Runs a future on a scheduler of its own; its end, or its panic, must come.
fn ends<F>(future: F) -> Result<F::Output, JoinError>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let scheduler = Scheduler::new(1).unwrap();
    let task = scheduler.spawn_future(future);
    until("the end of a future", || task.is_finished());
    task.join()
}

#[test]
fn a_hop_wakes_the_waker_that_it_was_polled_with() {
    let [one, two] = one_and_two();
    let second = two.remote();
    let task = one.spawn_async(move |cx| async move {
        Wrapped::new(cx.hop(&second)).await.unwrap();
        here()
    });
    until("the hop", || task.is_finished());
    assert_eq!(task.join().unwrap(), "two-0");
}

#[test]
fn a_hop_that_is_dropped_in_its_step_does_not_take_place() {
    let [one, two] = one_and_two();
    let second = two.remote();
    let task = one.spawn_async(move |cx| async move {
        {
            let mut hop = std::pin::pin!(cx.hop(&second));
            poll_fn(|cx| {
                assert!(hop.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
        }
        cx.yield_now().await;
        let stayed = here();
        cx.hop(&second).await.unwrap();
        (stayed, here())
    });
    let names = task.join().unwrap();
    assert_eq!(names, ("one-0".to_string(), "two-0".to_string()));
}

/// The task that a hop was made for goes, whichever task polls the hop.
#[test]
fn a_hop_may_be_polled_by_another_task() {
    let [one, two] = one_and_two();
    let (sender, receiver) = mpsc::channel();
    let second = two.remote();
    let task = one.spawn_async(move |cx| async move {
        sender.send(cx.hop(&second)).unwrap();
        cx.signal().await;
        here()
    });
    let hop = receiver.recv_timeout(LONG).unwrap();
    ends(hop).unwrap().unwrap();
    task.handle().signal().unwrap();
    assert_eq!(task.join().unwrap(), "two-0");
}

/// Each of several hops takes place, in the order of their first polls.
#[test]
fn hops_at_once_are_taken_in_turn() {
    let [one, two] = one_and_two();
    let (first, second) = (one.remote(), two.remote());
    let task = one.spawn_async(move |cx| async move {
        let mut there = Wrapped::new(cx.hop(&second));
        let mut back = Wrapped::new(cx.hop(&first));
        let (mut went, mut came) = (None, None);
        poll_fn(|cx| {
            if went.is_none()
                && let Poll::Ready(result) = Pin::new(&mut there).poll(cx)
            {
                result.unwrap();
                went = Some(here());
            }
            if came.is_none()
                && let Poll::Ready(result) = Pin::new(&mut back).poll(cx)
            {
                result.unwrap();
                came = Some(here());
            }
            match (&went, &came) {
                (Some(went), Some(came)) => Poll::Ready((went.clone(), came.clone())),
                _ => Poll::Pending,
            }
        })
        .await
    });
    until("both hops", || task.is_finished());
    let names = task.join().unwrap();
    assert_eq!(names, ("two-0".to_string(), "one-0".to_string()));
}

/// What waits by a context of a task that ended is woken, and says that there is no task.
#[test]
fn a_context_that_outlives_its_task_says_so() {
    let scheduler = Scheduler::new(1).unwrap();
    let (sender, receiver) = mpsc::channel();
    let task = scheduler.spawn_async(|cx| async move {
        sender.send(cx.clone()).unwrap();
        cx.signal().await;
    });
    let cx = receiver.recv_timeout(LONG).unwrap();
    let other = Scheduler::new(1).unwrap();
    let polled = Count::new();
    let (polls, mut sleep) = (polled.clone(), Box::pin(cx.sleep(Nanos::from_secs(3600))));
    let sleeper = other.spawn_future(poll_fn(move |cx| {
        let polled = sleep.as_mut().poll(cx);
        polls.add();
        polled
    }));
    until("a poll", || polled.get() > 0);
    task.handle().signal().unwrap();
    task.join().unwrap();
    until("the end of the sleep", || sleeper.is_finished());
    assert!(sleeper.join().unwrap_err().is_panic());

    assert_eq!(cx.handle().wake(), Err(Finished));
    ends(cx.sleep(Nanos::ZERO)).unwrap();
    assert!(
        ends(cx.sleep(Nanos::from_secs(3600)))
            .unwrap_err()
            .is_panic()
    );
    assert!(ends(cx.signal()).unwrap_err().is_panic());
    assert!(ends(cx.hop(&other.remote())).unwrap_err().is_panic());
}

/// A waker of the user that panics ends no task but its own.
#[test]
fn a_waker_that_panics_ends_no_other_task() {
    struct Refuses;
    impl Wake for Refuses {
        fn wake(self: Arc<Self>) {
            panic!("this waker refuses");
        }
    }
    let (scheduler, clock) = by_hand(1);
    let task = scheduler.spawn_async(|cx| async move {
        let mut sleep = Box::pin(cx.sleep(Nanos::from_nanos(10)));
        let waker = Waker::from(Arc::new(Refuses));
        assert!(
            sleep
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        cx.sleep(Nanos::from_nanos(10)).await;
        cx.now()
    });
    scheduler.spawn(|| ()).join().unwrap();
    advance(&scheduler, &clock, Nanos::from_nanos(10));
    assert_eq!(task.join().unwrap(), Instant::from_nanos(10));
}

/// The source's nested coroutines: five deep, and an abort drops the innermost first.
#[test]
fn nested_bodies_end_from_the_inside() {
    struct Told(mpsc::Sender<u32>, u32);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.send(self.1).unwrap();
        }
    }
    fn nest(
        cx: AsyncCx,
        log: mpsc::Sender<u32>,
        depth: u32,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let told = Told(log.clone(), depth);
            if depth < 5 {
                nest(cx.clone(), log, depth + 1).await;
            } else {
                cx.signal().await;
            }
            cx.yield_now().await;
            drop(told);
        })
    }
    for is_aborted in [false, true] {
        let scheduler = Scheduler::new(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        let task = scheduler.spawn_async(|cx| nest(cx, sender, 1));
        assert!(scheduler.wait_idle(LONG));
        if is_aborted {
            task.abort();
        } else {
            task.handle().signal().unwrap();
        }
        assert_eq!(task.join().is_ok(), !is_aborted);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [5, 4, 3, 2, 1]);
    }
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

/// A task that a stop returned may be posted on another scheduler; its context follows it.
#[test]
fn a_context_follows_a_task_that_was_posted_elsewhere() {
    let [one, two] = one_and_two();
    let task = one.spawn_async(|cx| async move {
        cx.signal().await;
        let spawned = cx.scheduler().spawn(here).await;
        spawned.expect("the scheduler that runs the task is not closed")
    });
    assert!(one.wait_idle(LONG));
    two.post_many(one.stop().unwrap()).unwrap();
    drop(one);
    task.handle().signal().unwrap();
    assert_eq!(task.join().unwrap(), "two-0");
}

#[test]
fn a_hop_to_a_scheduler_that_was_stopped_says_so_elsewhere() {
    let one = Scheduler::new(1).unwrap();
    let stopped = Scheduler::builder().workers(1).build();
    let there = stopped.remote();
    let task = one.spawn_async(move |cx| async move { cx.hop(&there).await.is_err() });
    let mut tasks = Vec::new();
    until("the hop", || {
        tasks.extend(stopped.stop().unwrap());
        !tasks.is_empty()
    });
    one.post_many(tasks).unwrap();
    assert!(task.join().unwrap());
}

/// A future without a context cannot receive a signal, so the signal is a wake-up.
#[test]
fn a_signal_wakes_a_future_without_a_context_once() {
    let scheduler = Scheduler::new(1).unwrap();
    let polled = Count::new();
    let polls = polled.clone();
    let task = scheduler.spawn_future(poll_fn(move |_| {
        polls.add();
        Poll::<()>::Pending
    }));
    assert!(scheduler.wait_idle(LONG));
    task.handle().signal().unwrap();
    assert!(scheduler.wait_idle(LONG), "the task waits again");
    assert_eq!(polled.get(), 2);
    assert!(!task.handle().is_signaled());
}

/// A sleep reads the clock in a step, on a worker.
#[test]
fn a_clock_that_panics_in_a_step_ends_no_sleep() {
    struct Faulty(ManualClock, Arc<AtomicBool>);
    impl Clock for Faulty {
        fn now(&self) -> Instant {
            assert!(!self.1.load(Ordering::Acquire), "the clock is broken");
            self.0.now()
        }
    }
    let (clock, is_broken) = (ManualClock::new(), Arc::new(AtomicBool::new(false)));
    let scheduler = Scheduler::builder()
        .workers(1)
        .clock(Faulty(clock.clone(), Arc::clone(&is_broken)))
        .start()
        .unwrap();
    let (sender, receiver) = mpsc::channel();
    let task = scheduler.spawn_async(|cx| async move {
        let mut sleep = Box::pin(cx.sleep(Nanos::from_nanos(10)));
        poll_fn(|task| {
            sender.send(()).unwrap();
            sleep.as_mut().poll(task)
        })
        .await;
        cx.now()
    });
    receiver.recv_timeout(LONG).unwrap();
    is_broken.store(true, Ordering::Release);
    task.handle().wake().unwrap();
    let polled = receiver.recv_timeout(LONG);
    is_broken.store(false, Ordering::Release);
    polled.expect("the step polls the body");
    advance(&scheduler, &clock, Nanos::from_nanos(10));
    assert_eq!(task.join().unwrap(), Instant::from_nanos(10));
    assert!(scheduler.stats().clock_panics > 0);
}

/// A worker reads the clock a last time, so that a sleep is due, and then the clock fails for good.
#[test]
fn a_sleep_ends_by_the_last_reading_of_its_worker() {
    struct Once(Arc<AtomicU64>);
    impl Clock for Once {
        fn now(&self) -> Instant {
            // 0: the origin. 1: read 10 ns once, then fail.
            let state = self.0.load(Ordering::Acquire);
            let next = self
                .0
                .compare_exchange(1, 2, Ordering::AcqRel, Ordering::Acquire);
            assert!(state < 2 || next.is_ok(), "the clock is broken");
            Instant::from_nanos(if next.is_ok() { 10 } else { 0 })
        }
    }
    let state = Arc::new(AtomicU64::new(0));
    let scheduler = Scheduler::builder()
        .workers(1)
        .clock(Once(Arc::clone(&state)))
        .start()
        .unwrap();
    let (sender, receiver) = mpsc::channel();
    let task = scheduler.spawn_async(|cx| async move {
        let mut sleep = Box::pin(cx.sleep(Nanos::from_nanos(10)));
        poll_fn(|task| {
            let polled = sleep.as_mut().poll(task);
            sender.send(()).unwrap();
            polled
        })
        .await;
    });
    receiver.recv_timeout(LONG).unwrap();
    state.store(1, Ordering::Release);
    // The worker reads the clock around this step.
    scheduler.spawn(|| ()).join().unwrap();
    until("the sleep ends", || task.is_finished());
    task.join().unwrap();
    assert!(scheduler.stats().clock_panics > 0);
}

/// The clone of a waker is code of the user, which may use the context.
#[test]
fn a_waker_may_use_the_context_in_its_clone() {
    let scheduler = Scheduler::new(1).unwrap();
    let (sender, receiver) = mpsc::channel();
    let second = scheduler.remote();
    let task = scheduler.spawn_async(|cx| async move {
        sender.send(cx.clone()).unwrap();
        cx.signal().await;
    });
    let cx = receiver.recv_timeout(LONG).unwrap();
    let uses = cx.clone();
    let waker = waker_with_clone(move || drop(uses.scheduler()));
    let mut futures: [Pin<Box<dyn Future<Output = ()>>>; 3] = [
        Box::pin(cx.sleep(Nanos::from_secs(3600))),
        Box::pin(cx.signal()),
        Box::pin(async { cx.hop(&second).await.unwrap() }),
    ];
    for future in &mut futures {
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    drop(futures);
    task.handle().signal().unwrap();
    task.join().unwrap();
}

/// The task ends while the poll of its handle clones the waker.
#[test]
fn a_waker_may_wait_for_the_task_in_its_clone() {
    let scheduler = Arc::new(Scheduler::new(1).unwrap());
    let gate = Gate::new();
    let passed = gate.clone();
    let mut task = scheduler.spawn(move || passed.pass());
    let theirs = Arc::clone(&scheduler);
    let waker = waker_with_clone(move || {
        gate.open();
        assert!(theirs.wait_idle(LONG), "the task ends");
    });
    let polled = Pin::new(&mut task).poll(&mut Context::from_waker(&waker));
    assert!(matches!(polled, Poll::Ready(Ok(()))));
}

/// As a panic of its `wake`, a panic of a waker's `clone` ends only the task that polls with it.
#[test]
fn a_waker_whose_clone_panics_ends_no_other_task() {
    let [one, two] = one_and_two();
    let (sender, receiver) = mpsc::channel();
    let task = one.spawn_async(|cx| async move {
        sender.send(cx.clone()).unwrap();
        cx.signal().await;
        here()
    });
    let cx = receiver.recv_timeout(LONG).unwrap();
    let is_broken = Arc::new(AtomicBool::new(false));
    let broken = Arc::clone(&is_broken);
    let waker = waker_with_clone(move || {
        assert!(!broken.load(Ordering::Acquire), "this waker refuses");
    });
    // The step that begins the hop waits until the waker is broken.
    let gate = Gate::new();
    let at = gate.clone();
    let blocked = one.spawn(move || at.pass());
    gate.await_arrivals(1);
    let mut hop = Box::pin(cx.hop(&two.remote()));
    let polled = hop.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    is_broken.store(true, Ordering::Release);
    gate.open();
    blocked.join().unwrap();
    until("the hop", || {
        format!("{:?}", cx.scheduler()).contains("two")
    });
    let polled = hop.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(Ok(())));
    task.handle().signal().unwrap();
    assert_eq!(task.join().unwrap(), "two-0");
}

/// A context whose task was never made cannot sleep, and says so.
#[test]
fn a_context_without_a_task_says_so() {
    let scheduler = Scheduler::new(1).unwrap();
    let mut kept = None;
    let spawned = catch_unwind(AssertUnwindSafe(|| {
        scheduler.spawn_async(|cx| {
            kept = Some(cx);
            if true {
                panic!("no body");
            }
            std::future::ready(())
        })
    }));
    assert!(spawned.is_err());
    let cx = kept.unwrap();
    let asleep = ends(async move { cx.sleep(Nanos::from_secs(3600)).await });
    assert!(asleep.unwrap_err().is_panic());
}

/// Makes a waker that does nothing, and calls `cloned` when it is cloned.
fn waker_with_clone(cloned: impl Fn() + Send + Sync + 'static) -> Waker {
    type Cloned = Box<dyn Fn() + Send + Sync>;
    static WAKER: RawWakerVTable = RawWakerVTable::new(clone, drop, nothing, drop);
    fn clone(data: *const ()) -> RawWaker {
        let data = data.cast::<Cloned>();
        // SAFETY: the address is of a call in an `Arc`, of which this waker holds a reference.
        let cloned = unsafe { &*data };
        cloned();
        // SAFETY: as above; the new waker holds this reference.
        unsafe { Arc::increment_strong_count(data) };
        RawWaker::new(data.cast(), &WAKER)
    }
    fn nothing(_: *const ()) {}
    fn drop(data: *const ()) {
        // SAFETY: the reference is that of this waker, which ends here.
        unsafe { Arc::decrement_strong_count(data.cast::<Cloned>()) };
    }
    let cloned: Cloned = Box::new(cloned);
    let data = Arc::into_raw(Arc::new(cloned)).cast();
    // SAFETY: the functions keep the contract of a waker: each waker holds one reference.
    unsafe { Waker::from_raw(RawWaker::new(data, &WAKER)) }
}
