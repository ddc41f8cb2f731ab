//! Timers: never early, in order, and never a crowd of them at once.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::Duration;

use rast_reactor::executor::timers::{Clock, Instant, ManualClock, MonotonicClock, Nanos};
use rast_reactor::executor::{block_on, now, sleep, yield_now};
use rast_reactor::primitive::Random;
use rast_reactor::{Lane, LaneSleep, Pool, Reactors, fire_at, spawn_local};

/// Runs a test on a reactor whose clock is moved by hand.
fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(ManualClock) -> F + Send + 'static) {
    let clock = ManualClock::new();
    let reactors = Reactors::builder()
        .number(1)
        .clock(clock.clone())
        .slow_poll(Duration::MAX)
        .pool(Pool::builder().threads([0, 0, 1]))
        .build()
        .unwrap();
    let task = reactors.reactor(0).unwrap().spawn(move || test(clock));
    match block_on(task) {
        Ok(()) => {}
        Err(rast_reactor::CallError::Panicked(payload)) => std::panic::resume_unwind(payload),
        Err(error) => panic!("{error}"),
    }
    assert!(reactors.stop(Duration::from_secs(60)).is_clean());
}

/// A clock that panics at some readings.
struct Broken {
    readings: AtomicU64,
    is_due: fn(u64) -> bool,
}

impl Clock for Broken {
    fn now(&self) -> Instant {
        // Relaxed: a number.
        let reading = self.readings.fetch_add(1, Ordering::Relaxed);
        if (self.is_due)(reading) {
            std::panic::resume_unwind(Box::new("no time"));
        }
        MonotonicClock::new().now()
    }
}

#[test]
fn a_clock_that_panics_loses_no_timer() {
    const TIMERS: u64 = 20;
    let each_other: fn(u64) -> bool = |reading| reading % 2 == 0;
    for is_due in [
        each_other,
        |reading| reading % 2 == 1,
        |reading| reading % 7 < 6,
    ] {
        let reactors = Reactors::builder()
            .number(1)
            .clock(Broken {
                readings: AtomicU64::new(0),
                is_due,
            })
            .slow_poll(Duration::MAX)
            .pool(Pool::builder().threads([0, 0, 1]))
            .build()
            .unwrap();
        let task = reactors.reactor(0).unwrap().spawn(|| async {
            let tasks: Vec<_> = (0..TIMERS)
                .map(|number| {
                    spawn_local(async move {
                        let lane = Lane::new(Duration::from_micros(100 * number));
                        for _ in 0..4 {
                            lane.sleep().await;
                            sleep(Duration::from_micros(50 * number)).await;
                        }
                        1
                    })
                })
                .collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            sum
        });
        assert_eq!(block_on(task).unwrap(), TIMERS);
        assert!(reactors.stop(Duration::from_secs(60)).is_clean());
    }
}

/// Counts its wake-ups.
#[derive(Default)]
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        // Relaxed: one thread has it.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn at_most_256_timers_expire_in_a_turn() {
    run(|clock| async move {
        let counts = Arc::new(Counts::default());
        let waker = Waker::from(Arc::clone(&counts));
        let mut cx = Context::from_waker(&waker);
        let fired = Rc::new(Cell::new(0));
        let lane = Lane::new(Duration::from_secs(1));
        let mut sleeps: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
        for _ in 0..1000 {
            sleeps.push(Box::pin(sleep(Duration::from_secs(1))));
            sleeps.push(Box::pin(lane.sleep()));
            let fired = Rc::clone(&fired);
            fire_at(now().saturating_add(Nanos::from_secs(1)), move || {
                fired.set(fired.get() + 1);
            });
        }
        for sleep in &mut sleeps {
            assert!(sleep.as_mut().poll(&mut cx).is_pending());
        }
        clock.advance(Nanos::from_secs(1));
        let count = || fired.get() + counts.0.load(Ordering::Relaxed);
        let (mut before, mut most) = (0, 0);
        while count() < 3000 {
            yield_now().await;
            most = most.max(count() - before);
            before = count();
        }
        assert!(most <= 256, "{most} expired at once");
        for sleep in sleeps {
            sleep.await;
        }
    });
}

#[test]
fn closures_fire_in_the_order_of_their_times() {
    run(|clock| async move {
        let order = Rc::new(RefCell::new(Vec::new()));
        for n in [5_u64, 1, 4, 2, 3, 1] {
            let order = Rc::clone(&order);
            fire_at(now().saturating_add(Nanos::from_millis(n)), move || {
                order.borrow_mut().push(n);
                // What it arms, and what it spawns, runs too.
                let theirs = Rc::clone(&order);
                fire_at(now(), move || theirs.borrow_mut().push(10 + n));
                spawn_local(async move { order.borrow_mut().push(20 + n) }).detach();
            });
        }
        fire_at(now(), || panic!("a closure"));
        yield_now().await;
        assert!(order.borrow().is_empty(), "none is early");
        for _ in 0..5 {
            clock.advance(Nanos::from_millis(1));
            let len = order.borrow().len();
            while order.borrow().len() < len + 3 {
                yield_now().await;
            }
        }
        while order.borrow().len() < 18 {
            yield_now().await;
        }
        let mut first = order.borrow().clone();
        first.retain(|&n| n < 10);
        assert_eq!(first, [1, 1, 2, 3, 4, 5]);
        let mut all = order.borrow().clone();
        all.sort_unstable();
        assert_eq!(
            all,
            [
                1, 1, 2, 3, 4, 5, 11, 11, 12, 13, 14, 15, 21, 21, 22, 23, 24, 25
            ]
        );
    });
}

#[test]
fn sleeps_of_a_lane_may_be_dropped_moved_and_awaited_again() {
    run(|clock| async move {
        let lane = Lane::new(Duration::from_millis(10));
        let dropped = Rc::new(Cell::new(false));
        let other = spawn_local({
            let (lane, dropped) = (lane.clone(), Rc::clone(&dropped));
            async move {
                lane.sleep().await;
                dropped.set(true);
            }
        });
        yield_now().await;
        // Polled by another waker before this task awaits it.
        let mut moved = Box::pin(lane.sleep());
        let counts = Arc::new(Counts::default());
        let waker = Waker::from(Arc::clone(&counts));
        assert!(
            moved
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        let mut given_up = Box::pin(lane.sleep());
        assert!(
            given_up
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        drop(given_up);
        other.abort();
        let _ = other.await;
        let mover = spawn_local(async move {
            yield_now().await;
            clock.advance(Nanos::from_millis(10));
        });
        moved.await;
        mover.await.unwrap();
        yield_now().await;
        assert_eq!(
            counts.0.load(Ordering::Relaxed),
            0,
            "its waker was replaced"
        );
        assert!(!dropped.get());
    });
}

/// A waker that is lent for one poll: it borrows another waker, and its clones are clones of that
/// one. So a later waker at the same address may wake another task.
static LENT: RawWakerVTable = RawWakerVTable::new(
    |data| {
        // SAFETY: the pointer is to a waker that outlives each poll by which it is lent.
        let lender = unsafe { &*data.cast::<Waker>() };
        let clone = ManuallyDrop::new(lender.clone());
        RawWaker::new(clone.data(), clone.vtable())
    },
    |_| unreachable!("a lent waker is not woken"),
    |_| unreachable!("a lent waker is not woken"),
    |_| {},
);

#[test]
fn a_sleep_of_a_lane_wakes_the_task_that_polled_last_although_its_waker_was_lent() {
    run(|clock| async move {
        let mut sleep = Lane::new(Duration::from_millis(10)).sleep();
        let counts = [(); 2].map(|()| Arc::new(Counts::default()));
        let mut lender = Waker::noop().clone();
        for count in &counts {
            lender.clone_from(&Waker::from(Arc::clone(count)));
            let raw = RawWaker::new(std::ptr::from_ref(&lender).cast(), &LENT);
            // SAFETY: the functions of the table only use the lender, which outlives the waker.
            let waker = unsafe { Waker::from_raw(raw) };
            let mut cx = Context::from_waker(&waker);
            assert!(Pin::new(&mut sleep).poll(&mut cx).is_pending());
        }
        clock.advance(Nanos::from_millis(10));
        // In so many polls the reactor checks its timers.
        for _ in 0..1_000 {
            yield_now().await;
        }
        let woken = counts.map(|count| count.0.load(Ordering::Relaxed));
        assert_eq!(woken, [0, 1]);
    });
}

#[test]
fn a_reactor_sleeps_until_its_timers_by_the_clock_of_the_system() {
    let reactors = Reactors::builder().number(1).build().unwrap();
    let task = reactors.reactor(0).unwrap().spawn(|| async {
        let begin = std::time::Instant::now();
        let lane = Lane::new(Duration::from_millis(3));
        lane.sleep().await;
        assert!(
            begin.elapsed() >= Duration::from_millis(3),
            "it is never early"
        );
        let (sent, received) = std::sync::mpsc::channel();
        fire_at(now().saturating_add(Nanos::from_millis(3)), move || {
            sent.send(std::time::Instant::now()).unwrap();
        });
        while begin.elapsed() < Duration::from_millis(6) || received.try_recv().is_err() {
            sleep(Duration::from_millis(1)).await;
        }
    });
    block_on(task).unwrap();
}

#[test]
fn closures_that_are_not_due_are_dropped_with_their_reactor() {
    let dropped = Arc::new(AtomicUsize::new(0));
    struct Drops(Arc<AtomicUsize>);
    impl Drop for Drops {
        fn drop(&mut self) {
            // Relaxed: read after the stop.
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("a destructor");
        }
    }
    let reactors = Reactors::builder().number(1).build().unwrap();
    let guards: [_; 3] = std::array::from_fn(|_| Drops(Arc::clone(&dropped)));
    let task = reactors.reactor(0).unwrap().spawn(move || async move {
        for guard in guards {
            fire_at(now().saturating_add(Nanos::from_secs(3600)), move || {
                drop(guard)
            });
        }
    });
    block_on(task).unwrap();
    assert!(reactors.stop(Duration::from_secs(60)).is_clean());
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
}

#[test]
fn timers_outlive_their_reactor() {
    /// Sets a timer when it is dropped.
    struct Sets(Instant, Arc<AtomicUsize>);
    impl Drop for Sets {
        fn drop(&mut self) {
            let dropped = Dropped(Arc::clone(&self.1));
            fire_at(self.0, move || drop(dropped));
        }
    }
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            // Relaxed: read after the stop.
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    thread_local!(static KEPT: RefCell<Vec<LaneSleep>> = const { RefCell::new(Vec::new()) });
    let dropped = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&dropped);
    let reactors = Reactors::builder().number(1).build().unwrap();
    let task = reactors.reactor(0).unwrap().spawn(move || async move {
        let (begin, lane) = (now(), Lane::new(Duration::from_secs(3600)));
        for _ in 0..3 {
            let mut sleep = lane.sleep();
            let mut cx = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut sleep).poll(&mut cx).is_pending());
            KEPT.with_borrow_mut(|kept| kept.push(sleep));
        }
        let sets = Sets(begin, theirs);
        spawn_local(async move {
            let _sets = sets;
            std::future::pending::<()>().await;
        })
        .detach();
    });
    block_on(task).unwrap();
    let stopped = reactors.stop(Duration::ZERO);
    assert_eq!(stopped.unfinished.len(), 1);
    while dropped.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_hundred_thousand_timers_are_dropped_in_any_order() {
    run(|clock| async move {
        let mut random = Random::new(0);
        let mut next = move || random.draw() as usize;
        let lanes: Vec<_> = (1..20).map(|n| Lane::new(Duration::from_secs(n))).collect();
        let counts = Arc::new(Counts::default());
        let waker = Waker::from(Arc::clone(&counts));
        let mut cx = Context::from_waker(&waker);
        let mut sleeps: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
        for _ in 0..100_000 {
            let mut timer: Pin<Box<dyn Future<Output = ()>>> = match next() % 3 {
                0 => Box::pin(sleep(Duration::from_nanos(
                    next() as u64 % 20_000_000_000 + 1,
                ))),
                _ => Box::pin(lanes[next() % lanes.len()].sleep()),
            };
            assert!(timer.as_mut().poll(&mut cx).is_pending());
            sleeps.push(timer);
        }
        while sleeps.len() > 10_000 {
            let at = next() % sleeps.len();
            drop(sleeps.swap_remove(at));
        }
        clock.advance(Nanos::from_secs(21));
        while counts.0.load(Ordering::Relaxed) < 10_000 {
            yield_now().await;
        }
        for timer in sleeps {
            timer.await;
        }
        assert_eq!(
            counts.0.load(Ordering::Relaxed),
            10_000,
            "no other one fires"
        );
        // As many tasks that sleep.
        let tasks: Vec<_> = (0..10_000_u64)
            .map(|n| spawn_local(sleep(Duration::from_nanos(n * 1000))))
            .collect();
        yield_now().await;
        clock.advance(Nanos::from_secs(1));
        for task in tasks {
            task.await.unwrap();
        }
    });
}
