//! Gate, limiter and breaker: order, bounds, drops, clocks.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::waker;
use proptest::prelude::*;
use rast_reactor::executor::{Deterministic, LocalExecutor, now, spawn_local, yield_now};
use rast_reactor::timers::{Clock, Instant, ManualClock, Nanos};
use rast_reactor::{
    Admission, Breaker, EnterError, Gate, GateClosed, InvalidRate, Limited, Limiter, Open, TooLarge,
};

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// The clock of the executor that runs the caller.
struct Virtual;

impl Clock for Virtual {
    fn now(&self) -> Instant {
        now()
    }
}

#[test]
fn a_gate_lets_its_number_in_and_the_others_in_order() {
    let order = Rc::new(RefCell::new(Vec::new()));
    let most = Rc::new(Cell::new(0));
    let gate = Gate::new(3);
    LocalExecutor::new().run(async {
        let tasks: Vec<_> = (0..20)
            .map(|n| {
                let (gate, order, most) = (gate.clone(), Rc::clone(&order), Rc::clone(&most));
                spawn_local(async move {
                    let _pass = gate.enter().await.unwrap();
                    order.borrow_mut().push(n);
                    most.set(most.get().max(gate.users()));
                    for _ in 0..n % 3 {
                        yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(*order.borrow(), (0..20).collect::<Vec<_>>());
    assert_eq!((most.get(), gate.users(), gate.waiting()), (3, 0, 0));
}

#[test]
fn a_wait_at_a_gate_that_is_dropped_takes_no_place() {
    let gate = Gate::new(1);
    let pass = gate.try_enter().unwrap();
    let mut waits: Vec<_> = (0..3).map(|_| Box::pin(gate.enter())).collect();
    for wait in &mut waits {
        assert!(poll(wait.as_mut()).is_pending());
    }
    assert_eq!(gate.waiting(), 3);
    drop(waits.remove(0));
    // Served, and dropped before it ran: the next one enters.
    drop(pass);
    assert_eq!(gate.try_enter().err(), Some(EnterError::Full));
    drop(waits.remove(0));
    let Poll::Ready(Ok(pass)) = poll(waits[0].as_mut()) else {
        panic!("it is in")
    };
    assert_eq!(gate.users(), 1);
    drop(pass);
    assert_eq!(gate.users(), 0);
}

#[test]
fn a_gate_that_closes_refuses_and_drains() {
    let gate = Gate::new(2);
    let (first, second) = (gate.try_enter().unwrap(), gate.try_enter().unwrap());
    let mut waits = pin!(gate.enter());
    assert!(poll(waits.as_mut()).is_pending());
    let mut drains = pin!(gate.close());
    assert!(gate.is_closed(), "at once");
    assert_eq!(
        poll(waits.as_mut()).map(|entered| entered.err()),
        Poll::Ready(Some(GateClosed))
    );
    assert_eq!(gate.try_enter().err(), Some(EnterError::Closed));
    assert!(poll(drains.as_mut()).is_pending());
    drop(first);
    assert!(poll(drains.as_mut()).is_pending());
    // One that was dropped is no obstacle, and a second one waits too.
    drop(gate.close());
    LocalExecutor::new().run(async {
        let theirs = gate.clone();
        let also = spawn_local(async move { theirs.close().await });
        yield_now().await;
        assert!(!also.is_finished());
        drop(second);
        also.await.unwrap();
    });
    assert!(poll(drains.as_mut()).is_ready());
}

#[test]
fn a_gate_for_nobody_waits_until_it_is_closed() {
    let gate = Gate::new(0);
    let mut waits = pin!(gate.enter());
    assert!(poll(waits.as_mut()).is_pending());
    assert!(poll(pin!(gate.close())).is_ready());
    assert!(matches!(poll(waits.as_mut()), Poll::Ready(Err(GateClosed))));
}

#[test]
fn a_limiter_refuses_rates_that_mean_nothing() {
    let second = Duration::from_secs(1);
    for (tokens, period, burst) in [
        (0, second, 1),
        (1, Duration::ZERO, 1),
        (1, second, 0),
        (1, Duration::MAX, 1),
    ] {
        assert_eq!(Limiter::new(tokens, period, burst).err(), Some(InvalidRate));
    }
}

#[test]
fn an_acquire_waits_its_turn_and_takes_nothing_when_it_is_dropped() {
    let times = Deterministic::new(3).run(async {
        // One each 100 ms, five at once.
        let limiter = Limiter::with_clock(10, Duration::from_secs(1), 5, Virtual).unwrap();
        let limiter = Rc::new(limiter);
        assert_eq!(limiter.acquire(6).await, Err(TooLarge));
        limiter.acquire(5).await.unwrap();
        let times = Rc::new(RefCell::new(Vec::new()));
        let take = |tokens: u32| {
            let (limiter, times) = (Rc::clone(&limiter), Rc::clone(&times));
            async move {
                limiter.acquire(tokens).await.unwrap();
                times
                    .borrow_mut()
                    .push((tokens, now().as_nanos() / 1_000_000));
            }
        };
        let mut large = Box::pin(take(4));
        assert!(poll(large.as_mut()).is_pending());
        let mut given_up = Box::pin(take(3));
        assert!(poll(given_up.as_mut()).is_pending());
        let mut small = Box::pin(take(1));
        assert!(poll(small.as_mut()).is_pending());
        // None goes before those that wait, however small it is.
        rast_reactor::executor::sleep(Duration::from_millis(250)).await;
        assert!(matches!(limiter.try_acquire(1), Ok(Err(Limited { .. }))));
        drop(given_up);
        let (large, small) = (spawn_local(large), spawn_local(small));
        large.await.unwrap();
        small.await.unwrap();
        times.take()
    });
    assert_eq!(times, [(4, 400), (1, 500)]);
}

#[test]
fn a_refused_request_is_told_a_later_time_at_which_it_succeeds() {
    Deterministic::new(3).run(async {
        // One each 100 ms, five at once.
        let limiter = Limiter::with_clock(10, Duration::from_secs(1), 5, Virtual).unwrap();
        let limiter = Rc::new(limiter);
        limiter.acquire(5).await.unwrap();
        let waits = [4, 5, 2].map(|tokens| {
            let limiter = Rc::clone(&limiter);
            spawn_local(async move { limiter.acquire(tokens).await.unwrap() })
        });
        yield_now().await;
        // The first of those that wait has no token yet, has some, is to have all.
        for wait in [0, 250, 150] {
            rast_reactor::executor::sleep(Duration::from_millis(wait)).await;
            for tokens in 1..=5 {
                let Ok(Err(Limited { retry_at })) = limiter.try_acquire(tokens) else {
                    panic!("others wait for what is there")
                };
                assert!(retry_at > now());
                assert_eq!(retry_at.as_nanos(), u64::from(11 + tokens) * 100_000_000);
            }
        }
        let Ok(Err(Limited { retry_at })) = limiter.try_acquire(3) else {
            panic!("others wait for what is there")
        };
        let wait = retry_at.saturating_since(now()).as_nanos();
        rast_reactor::executor::sleep(Duration::from_nanos(wait)).await;
        assert_eq!(limiter.try_acquire(3), Ok(Ok(())));
        for wait in waits {
            wait.await.unwrap();
        }
    });
}

#[test]
fn a_wait_that_is_polled_late_is_overtaken_at_the_time_that_was_told_and_within_the_rate() {
    let clock = ManualClock::new();
    let limiter = Limiter::with_clock(1, Duration::from_nanos(10), 5, clock.clone()).unwrap();
    LocalExecutor::new().run(async {
        limiter.acquire(5).await.unwrap();
        let mut late = Box::pin(limiter.acquire(5));
        assert!(poll(late.as_mut()).is_pending());
        let Ok(Err(Limited { retry_at })) = limiter.try_acquire(2) else {
            panic!("the other waits for what is there")
        };
        assert_eq!(retry_at, Instant::from_nanos(70));
        clock.set(Instant::from_nanos(69));
        assert!(matches!(limiter.try_acquire(2), Ok(Err(_))));
        clock.set(retry_at);
        assert_eq!(limiter.try_acquire(2), Ok(Ok(())));
        assert!(
            poll(late.as_mut()).is_pending(),
            "seven would be above the burst"
        );
        clock.set(Instant::from_nanos(89));
        assert!(matches!(limiter.try_acquire(1), Ok(Err(_))));
        clock.set(Instant::from_nanos(90));
        late.await.unwrap();
    });
}

proptest! {
    #[test]
    fn a_limiter_is_a_bucket_that_fills_at_its_rate(
        tokens in 1..50_u32,
        period_ns in 1..1_000_u64,
        burst in 1..20_u32,
        steps in proptest::collection::vec((0..2_000_u64, 0..25_u32), 1..100),
    ) {
        let clock = ManualClock::new();
        let period = Duration::from_nanos(period_ns);
        let limiter = Limiter::with_clock(tokens, period, burst, clock.clone()).unwrap();
        // The bucket in parts of a token: a nanosecond brings `tokens` of them, a token has
        // `period_ns`.
        let full = u128::from(burst) * u128::from(period_ns);
        let mut level = full;
        for (wait, want) in steps {
            clock.advance(Nanos::from_nanos(wait));
            level = full.min(level + u128::from(wait) * u128::from(tokens));
            let cost = u128::from(want) * u128::from(period_ns);
            match limiter.try_acquire(want) {
                Err(TooLarge) => prop_assert!(want > burst),
                Ok(Ok(())) => {
                    prop_assert!(cost <= level);
                    level -= cost;
                }
                Ok(Err(Limited { retry_at })) => {
                    prop_assert!(want <= burst && cost > level);
                    let missing = (cost - level).div_ceil(u128::from(tokens));
                    let wait = retry_at.saturating_since(clock.now()).as_nanos();
                    prop_assert_eq!(u128::from(wait), missing);
                }
            }
        }
    }
}

fn breaker(clock: &ManualClock) -> Breaker<ManualClock> {
    let builder = Breaker::builder().jitter_percent(0);
    builder.clock(clock.clone()).build()
}

fn millis(clock: &ManualClock) -> u64 {
    clock.now().as_nanos() / 1_000_000
}

fn retry_at(breaker: &Breaker<ManualClock>) -> Instant {
    let Err(Open { retry_at }) = breaker.admit() else {
        panic!("it is open")
    };
    retry_at
}

fn trip(breaker: &Breaker<ManualClock>) {
    for _ in 0..5 {
        breaker.admit().unwrap().fail();
    }
}

#[test]
fn a_breaker_opens_after_failures_in_a_row() {
    let clock = ManualClock::new();
    let breaker = breaker(&clock);
    for _ in 0..3 {
        for _ in 0..4 {
            breaker.admit().unwrap().fail();
        }
        breaker.admit().unwrap().succeed();
    }
    // A call without a result is neither.
    for _ in 0..100 {
        drop(breaker.admit().unwrap());
    }
    assert!(breaker.is_closed());
    trip(&breaker);
    assert!(!breaker.is_closed());
    assert_eq!(retry_at(&breaker).as_nanos(), 100_000_000);
}

#[test]
fn a_breaker_doubles_its_wait_up_to_the_most_and_begins_anew_when_it_closed() {
    let clock = ManualClock::new();
    let breaker = breaker(&clock);
    trip(&breaker);
    let mut waits = Vec::new();
    for _ in 0..12 {
        let begin = millis(&clock);
        clock.set(retry_at(&breaker));
        waits.push(millis(&clock) - begin);
        let probe = breaker.admit().unwrap();
        assert!(probe.is_probe());
        probe.fail();
    }
    let doubled = [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600];
    assert_eq!(waits[..9], doubled);
    assert_eq!(waits[9..], [30_000; 3]);
    clock.set(retry_at(&breaker));
    breaker.admit().unwrap().succeed();
    assert!(breaker.is_closed());
    trip(&breaker);
    let wait = retry_at(&breaker).saturating_since(clock.now());
    assert_eq!(wait.as_nanos(), 100_000_000);
}

#[test]
fn one_probe_at_a_time() {
    let clock = ManualClock::new();
    let breaker = breaker(&clock);
    trip(&breaker);
    clock.set(retry_at(&breaker));
    let probe = breaker.admit().unwrap();
    for _ in 0..10 {
        assert_eq!(
            breaker.admit().err(),
            Some(Open {
                retry_at: clock.now().saturating_add(Nanos::from_secs(10))
            })
        );
    }
    probe.succeed();
    assert!(breaker.admit().is_ok());
}

#[test]
fn a_probe_that_is_dropped_or_late_has_failed() {
    let clock = ManualClock::new();
    let breaker = breaker(&clock);
    trip(&breaker);
    clock.set(retry_at(&breaker));
    drop(breaker.admit().unwrap());
    let wait = retry_at(&breaker).saturating_since(clock.now());
    assert_eq!(wait.as_nanos(), 200_000_000);
    // Late, and noticed by the next call: open since its deadline.
    clock.set(retry_at(&breaker));
    let late = breaker.admit().unwrap();
    let deadline = retry_at(&breaker);
    clock.set(deadline);
    assert_eq!(
        retry_at(&breaker).saturating_since(deadline).as_nanos(),
        400_000_000
    );
    // Its result comes after that and changes nothing.
    late.succeed();
    assert!(!breaker.is_closed());
    // Late, and noticed by its own result.
    clock.set(retry_at(&breaker));
    let late: Admission<_> = breaker.admit().unwrap();
    let deadline = retry_at(&breaker);
    clock.set(deadline);
    late.succeed();
    assert_eq!(
        retry_at(&breaker).saturating_since(deadline).as_nanos(),
        800_000_000
    );
}

#[test]
fn calls_of_an_earlier_state_count_for_nothing() {
    let clock = ManualClock::new();
    let breaker = breaker(&clock);
    let old: Vec<_> = (0..10).map(|_| breaker.admit().unwrap()).collect();
    trip(&breaker);
    clock.set(retry_at(&breaker));
    let probe = breaker.admit().unwrap();
    let mut old = old.into_iter();
    old.next().unwrap().fail();
    old.next().unwrap().succeed();
    assert!(!breaker.is_closed(), "the probe decides");
    probe.succeed();
    assert!(breaker.is_closed());
    old.for_each(Admission::fail);
    assert!(breaker.is_closed(), "they were admitted before it opened");
}

#[test]
fn jitter_opens_it_shorter_and_never_longer() {
    let clock = ManualClock::new();
    let mut waits = Vec::new();
    for _ in 0..100 {
        let builder = Breaker::builder().jitter_percent(50);
        let breaker = builder.clock(clock.clone()).build();
        trip(&breaker);
        waits.push(retry_at(&breaker).saturating_since(clock.now()).as_nanos());
    }
    let (least, most) = (*waits.iter().min().unwrap(), *waits.iter().max().unwrap());
    assert!(least >= 50_000_000 && most <= 100_000_000 && least < most);
}

thread_local! {
    static GATE: RefCell<Option<Gate>> = const { RefCell::new(None) };
}

/// A waker that looks at the gate when it is dropped.
struct Looks(Arc<AtomicUsize>);

impl Wake for Looks {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Looks {
    fn drop(&mut self) {
        GATE.with(|gate| assert_eq!(gate.borrow().as_ref().unwrap().waiting(), 1));
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_waker_may_use_the_gate_when_it_is_dropped() {
    let gate = Gate::new(1);
    GATE.set(Some(gate.clone()));
    let pass = gate.try_enter().unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut stays = pin!(gate.enter());
    assert!(poll(stays.as_mut()).is_pending());
    for n in 0..10 {
        let mut waits = Box::pin(gate.enter());
        let waker = Waker::from(Arc::new(Looks(Arc::clone(&dropped))));
        let polled = waits.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        drop((waker, waits));
        assert_eq!(
            dropped.load(Ordering::Relaxed),
            n + 1,
            "the line keeps no waker"
        );
    }
    drop(pass);
    assert!(poll(stays.as_mut()).is_ready());
}

#[test]
fn a_waker_that_panics_keeps_no_other_from_being_woken() {
    struct Counts(AtomicUsize);
    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker panics");
        }
    }
    let counts = Arc::new(Counts(AtomicUsize::new(0)));
    let wakers = [
        Waker::from(Arc::new(Panics)),
        Waker::from(Arc::clone(&counts)),
    ];
    let gate = Gate::new(1);
    let pass = gate.try_enter().unwrap();
    let mut waits = [Box::pin(gate.enter()), Box::pin(gate.enter())];
    for (wait, waker) in waits.iter_mut().zip(&wakers) {
        let polled = wait.as_mut().poll(&mut Context::from_waker(waker));
        assert!(polled.is_pending());
    }
    let mut drains = [Box::pin(gate.close()), Box::pin(gate.close())];
    assert_eq!(
        counts.0.load(Ordering::Relaxed),
        1,
        "the second waiter was refused"
    );
    for (drain, waker) in drains.iter_mut().zip(&wakers) {
        let polled = drain.as_mut().poll(&mut Context::from_waker(waker));
        assert!(polled.is_pending());
    }
    drop(pass);
    assert_eq!(
        counts.0.load(Ordering::Relaxed),
        2,
        "the second drain ended"
    );
}

#[test]
fn a_waker_whose_clone_panics_keeps_no_user_in() {
    let odd = Arc::default();
    let waker = waker::waker(&odd);
    let gate = Gate::new(1);
    let pass = gate.try_enter().unwrap();
    let mut drain = Box::pin(gate.close());
    // A waker that differs from its clone has one place in the gate.
    for _ in 0..10 {
        let polled = drain.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    assert_eq!(odd.alive(), 2);
    odd.have_clones_panic();
    drop(pass);
    assert_eq!((odd.wakes(), odd.alive()), (1, 1));
    assert!(poll(drain.as_mut()).is_ready());
}

#[test]
fn a_drain_that_is_given_up_leaves_no_waker_behind() {
    struct Idle;
    impl Wake for Idle {
        fn wake(self: Arc<Self>) {}
    }
    let gate = Gate::new(1);
    let pass = gate.try_enter().unwrap();
    let mut stays = Box::pin(gate.close());
    assert!(poll(stays.as_mut()).is_pending());
    let wakers = [(); 2].map(|()| Arc::new(Idle));
    for _ in 0..10 {
        let mut drain = Box::pin(gate.close());
        // Another task goes on with it.
        for waker in &wakers {
            let waker = Waker::from(Arc::clone(waker));
            let polled = drain.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
        assert_eq!(Arc::strong_count(&wakers[0]), 1, "the drain has moved");
        drop(drain);
        assert_eq!(Arc::strong_count(&wakers[1]), 1, "the drain was dropped");
    }
    drop(pass);
    assert!(poll(stays.as_mut()).is_ready());
}

#[test]
fn a_user_that_was_served_before_the_close_is_waited_for() {
    let gate = Gate::new(1);
    let pass = gate.try_enter().unwrap();
    let mut served = Box::pin(gate.enter());
    let mut refused = Box::pin(gate.enter());
    assert!(poll(served.as_mut()).is_pending() && poll(refused.as_mut()).is_pending());
    drop(pass);
    // It has its place, and has not run since.
    let mut drain = Box::pin(gate.close());
    assert!(poll(drain.as_mut()).is_pending());
    assert!(matches!(
        poll(refused.as_mut()),
        Poll::Ready(Err(GateClosed))
    ));
    drop(served);
    assert!(poll(drain.as_mut()).is_ready());
    assert_eq!((gate.users(), gate.waiting()), (0, 0));
}
