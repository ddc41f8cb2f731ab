//! Locks between tasks: order, deadlocks, drops, retries.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::Duration;

use rast_reactor::executor::{Deterministic, LocalExecutor, now, spawn_local, yield_now};
use rast_reactor::{Deadlock, ExclusiveGuard, Lock, LockScope, Retry, retry};

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn shared_ones_hold_it_together_and_an_exclusive_one_alone() {
    let lock = Lock::new(1);
    let mut scopes: Vec<_> = (0..3).map(|_| LockScope::new()).collect();
    let [one, two, three] = &mut scopes[..] else {
        unreachable!()
    };
    let first = lock.try_shared(one).unwrap();
    let second = lock.try_shared(two).unwrap();
    assert!(lock.try_exclusive(three).is_none());
    assert_eq!(*first + *second, 2);
    drop((first, second));
    let mut alone = lock.try_exclusive(three).unwrap();
    *alone = 5;
    assert!(lock.try_shared(one).is_none() && lock.try_exclusive(two).is_none());
    assert_eq!(format!("{lock:?}"), "Lock(<locked>)");
    drop(alone);
    assert_eq!(format!("{lock:?}"), "Lock(5)");
    assert_eq!(lock.into_inner(), 5);
}

#[test]
fn first_come_first_served() {
    let order = Rc::new(RefCell::new(Vec::new()));
    let lock = Rc::new(Lock::new(()));
    LocalExecutor::new().run(async {
        let mut scope = LockScope::new();
        let held = lock.exclusive(&mut scope).await.unwrap();
        let mut tasks = Vec::new();
        for (n, is_shared) in [true, true, false, true, false, false]
            .into_iter()
            .enumerate()
        {
            let (lock, order) = (Rc::clone(&lock), Rc::clone(&order));
            tasks.push(spawn_local(async move {
                let mut scope = LockScope::new();
                if is_shared {
                    let guard = lock.shared(&mut scope).await.unwrap();
                    order.borrow_mut().push((n, "in"));
                    yield_now().await;
                    order.borrow_mut().push((n, "out"));
                    drop(guard);
                } else {
                    let guard = lock.exclusive(&mut scope).await.unwrap();
                    order.borrow_mut().push((n, "in"));
                    yield_now().await;
                    order.borrow_mut().push((n, "out"));
                    drop(guard);
                }
            }));
        }
        yield_now().await;
        drop(held);
        for task in tasks {
            task.await.unwrap();
        }
    });
    let expected = [
        (0, "in"),
        (1, "in"),
        (0, "out"),
        (1, "out"),
        (2, "in"),
        (2, "out"),
        (3, "in"),
        (3, "out"),
        (4, "in"),
        (4, "out"),
        (5, "in"),
        (5, "out"),
    ];
    assert_eq!(*order.borrow(), expected);
}

#[test]
fn a_scope_does_not_wait_for_itself() {
    let lock = Lock::new(());
    let mut scope = LockScope::new();
    let mut other = LockScope::new();
    let shared = lock.try_shared(&mut scope).unwrap();
    // No upgrade, and no second time alone.
    assert_eq!(
        poll(pin!(lock.exclusive(&mut scope))).map(|r| r.err()),
        Poll::Ready(Some(Deadlock))
    );
    assert!(scope.is_deadlocked());
    let again = lock.try_shared(&mut scope).unwrap();
    {
        let mut waits = pin!(lock.exclusive(&mut other));
        assert!(poll(waits.as_mut()).is_pending());
        // Behind one that waits for this scope.
        let refused = poll(pin!(lock.shared(&mut scope))).map(|result| result.err());
        assert_eq!(refused, Poll::Ready(Some(Deadlock)));
    }
    // The other one has left.
    assert!(poll(pin!(lock.shared(&mut scope))).is_ready());
    drop((shared, again));
    let alone = lock.try_exclusive(&mut scope).unwrap();
    assert_eq!(
        poll(pin!(lock.shared(&mut scope))).map(|r| r.err()),
        Poll::Ready(Some(Deadlock))
    );
    drop(alone);
}

#[test]
fn a_wait_that_is_dropped_lets_the_next_ones_on() {
    let lock = Lock::new(());
    let mut scopes: Vec<_> = (0..4).map(|_| LockScope::new()).collect();
    let [one, two, three, four] = &mut scopes[..] else {
        unreachable!()
    };
    let held = lock.try_shared(one).unwrap();
    let mut alone = Box::pin(lock.exclusive(two));
    let mut shares = Box::pin(lock.shared(three));
    assert!(poll(alone.as_mut()).is_pending());
    assert!(poll(shares.as_mut()).is_pending());
    drop(alone);
    assert!(
        poll(shares.as_mut()).is_ready(),
        "nothing exclusive is ahead any more"
    );
    drop((shares, held));
    // One that was served and is dropped before it runs gives the lock back.
    let held = lock.try_exclusive(one).unwrap();
    let mut served = Box::pin(lock.exclusive(two));
    let mut next = Box::pin(lock.exclusive(four));
    assert!(poll(served.as_mut()).is_pending() && poll(next.as_mut()).is_pending());
    drop(held);
    assert!(poll(next.as_mut()).is_pending());
    drop(served);
    assert!(poll(next.as_mut()).is_ready());
}

#[test]
fn a_scope_that_was_served_waits_no_more_though_it_has_not_run() {
    let [left, middle, right] = [(); 3].map(|()| Lock::new(()));
    let mut scopes: Vec<_> = (0..4).map(|_| LockScope::new()).collect();
    let [first, served, runs, asks] = &mut scopes[..] else {
        unreachable!()
    };
    let held = left.try_exclusive(first).unwrap();
    let _middle = middle.try_exclusive(served).unwrap();
    let _right = right.try_exclusive(asks).unwrap();
    let mut not_polled = pin!(left.shared(served));
    assert!(poll(not_polled.as_mut()).is_pending());
    let shares = {
        let mut polled = pin!(left.shared(runs));
        assert!(poll(polled.as_mut()).is_pending());
        drop(held);
        let Poll::Ready(Ok(guard)) = poll(polled.as_mut()) else {
            panic!("both share it")
        };
        guard
    };
    let mut waits = pin!(right.exclusive(runs));
    assert!(poll(waits.as_mut()).is_pending());
    // `asks` waits for `served`, which waits for nothing, least of all for `runs`.
    assert!(poll(pin!(middle.exclusive(asks))).is_pending());
    drop(shares);
}

#[test]
fn a_panic_lets_go() {
    let lock = Lock::new(1);
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut scope = LockScope::new();
        let _held = lock.try_exclusive(&mut scope).unwrap();
        panic!("with the lock");
    }));
    assert!(result.is_err());
    assert!(lock.try_exclusive(&mut LockScope::new()).is_some());
}

#[test]
fn philosophers_dine() {
    // Each takes the fork to its left, then the other; without a refusal they would starve.
    let forks: Rc<Vec<Lock<u32>>> = Rc::new((0..5).map(|_| Lock::new(0)).collect());
    let refused = Rc::new(RefCell::new(0));
    Deterministic::new(7).run(async {
        let tasks: Vec<_> = (0..5)
            .map(|n| {
                let (forks, refused) = (Rc::clone(&forks), Rc::clone(&refused));
                spawn_local(async move {
                    for _ in 0..10 {
                        // With more than one retry, since five may meet again.
                        loop {
                            let ate = retry(async |scope| {
                                let mut left = forks[n].exclusive(scope).await?;
                                yield_now().await;
                                let mut right = forks[(n + 1) % 5].exclusive(scope).await?;
                                *left += 1;
                                *right += 1;
                                Ok::<(), Deadlock>(())
                            });
                            match ate.await {
                                Ok(()) => break,
                                Err(Deadlock) => *refused.borrow_mut() += 1,
                            }
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let forks = Rc::try_unwrap(forks).unwrap();
    let total: u32 = forks.into_iter().map(Lock::into_inner).sum();
    assert_eq!(total, 5 * 10 * 2);
}

#[test]
fn a_retry_waits_drops_the_attempt_and_returns_the_last_error() {
    struct Guard(Rc<RefCell<Vec<&'static str>>>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.borrow_mut().push("dropped");
        }
    }
    let notes = Rc::new(RefCell::new(Vec::new()));
    let waited = Deterministic::new(1).run(async {
        let lock = Lock::new(());
        let begin = now();
        let result = Retry::new()
            .wait(Duration::from_secs(4))
            .jitter_percent(25)
            .run(async |scope| {
                notes.borrow_mut().push("begun");
                let _guard = Guard(Rc::clone(&notes));
                let _held = lock.shared(scope).await?;
                let _alone = lock.exclusive(scope).await?;
                Ok::<(), Deadlock>(())
            });
        assert_eq!(result.await, Err(Deadlock));
        now().saturating_since(begin).as_nanos()
    });
    assert!(
        (3_000_000_000..=5_000_000_000).contains(&waited),
        "{waited}"
    );
    assert_eq!(*notes.borrow(), ["begun", "dropped", "begun", "dropped"]);
    // An error that is no deadlock, and a refusal that the attempt mends, are returned at once.
    let results = Deterministic::new(1).run(async {
        let begin = now();
        let other = retry(async |_| Err::<(), _>("other")).await;
        let lock = Lock::new(());
        let mended = retry(async |scope| {
            let held = lock.shared(scope).await.unwrap();
            if lock.exclusive(scope).await.is_err() {
                drop(held);
            }
            Ok::<_, Deadlock>(lock.exclusive(scope).await.is_ok())
        });
        (other, mended.await, now() == begin)
    });
    assert_eq!(results, (Err("other"), Ok(true), true));
}

#[test]
fn a_value_may_try_its_lock_while_it_is_printed() {
    struct Tries(RefCell<Weak<Lock<Self>>>);
    impl fmt::Debug for Tries {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let lock = self.0.borrow().upgrade().unwrap();
            let mut scope = LockScope::new();
            let is_exclusive = lock.try_exclusive(&mut scope).is_some();
            let is_shared = lock.try_shared(&mut scope).is_some();
            write!(f, "{is_exclusive} {is_shared}")
        }
    }
    let lock = Rc::new(Lock::new(Tries(RefCell::default())));
    let mut scope = LockScope::new();
    *lock.try_shared(&mut scope).unwrap().0.borrow_mut() = Rc::downgrade(&lock);
    assert_eq!(format!("{lock:?}"), "Lock(false true)");
    let guard = lock.try_exclusive(&mut scope).unwrap();
    assert_eq!(format!("{lock:?}"), "Lock(<locked>)");
    drop(guard);
}

#[test]
fn a_wait_that_is_forgotten_hides_no_later_wait_of_its_scope() {
    let (first, second) = (Lock::new(1), Lock::new(2));
    let (mut one, mut two) = (LockScope::new(), LockScope::new());
    let held = first.try_exclusive(&mut two).unwrap();
    let other = second.try_exclusive(&mut two).unwrap();
    let mut forgotten = Box::pin(first.exclusive(&mut one));
    assert!(poll(forgotten.as_mut()).is_pending());
    std::mem::forget(forgotten);
    let mut waits = Box::pin(second.exclusive(&mut one));
    assert!(poll(waits.as_mut()).is_pending());
    // The forgotten wait gets the first lock; the scope still waits for the second one.
    drop(held);
    assert_eq!(
        poll(pin!(first.shared(&mut two))).map(Result::err),
        Poll::Ready(Some(Deadlock))
    );
    drop(other);
    assert!(poll(waits.as_mut()).is_ready());
}

thread_local! {
    /// A wait that the waker below polls.
    static IN_WAKE: RefCell<Option<Waits>> = const { RefCell::new(None) };
    static WOKEN: RefCell<Option<Poll<bool>>> = const { RefCell::new(None) };
}

/// A wait, with whether it got its lock.
type Waits = Pin<Box<dyn Future<Output = bool>>>;

struct PollsInline;

impl Wake for PollsInline {
    fn wake(self: Arc<Self>) {
        if let Some(mut waits) = IN_WAKE.take() {
            WOKEN.set(Some(poll(waits.as_mut())));
            IN_WAKE.set(Some(waits));
        }
    }
}

#[test]
fn a_wait_that_is_dropped_has_no_edge_while_it_wakes_the_next_one() {
    let (first, second) = (Lock::new(1), Rc::new(Lock::new(2)));
    let (mut one, mut two, mut three) = (LockScope::new(), LockScope::new(), LockScope::new());
    let shared = first.try_shared(&mut two).unwrap();
    let alone = second.try_exclusive(&mut one).unwrap();
    let mut dropped = Box::pin(first.exclusive(&mut one));
    assert!(poll(dropped.as_mut()).is_pending());
    let mut next = Box::pin(first.shared(&mut three));
    let waker = Waker::from(Arc::new(PollsInline));
    let polled = next.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    // `two` holds the first lock and asks for the second one, whose holder waits no more.
    let theirs = Rc::clone(&second);
    let waits = async move { theirs.shared(&mut two).await.is_ok() };
    IN_WAKE.set(Some(Box::pin(waits)));
    drop(dropped);
    assert_eq!(WOKEN.take(), Some(Poll::Pending));
    assert!(poll(next.as_mut()).is_ready());
    drop(alone);
    let mut waits = IN_WAKE.take().unwrap();
    assert_eq!(poll(waits.as_mut()), Poll::Ready(true));
    drop(shared);
}

thread_local! {
    static GUARD: RefCell<Option<ExclusiveGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// A waker whose clone drops the guard.
static RELEASES: RawWakerVTable = RawWakerVTable::new(
    |data| {
        drop(GUARD.take());
        RawWaker::new(data, &RELEASES)
    },
    |_| {},
    |_| {},
    |_| {},
);

#[test]
fn a_lock_that_the_clone_of_a_waker_releases_is_served_in_that_poll() {
    let lock: &'static Lock<()> = Box::leak(Box::new(Lock::new(())));
    let (mut one, mut other) = (LockScope::new(), LockScope::new());
    GUARD.set(lock.try_exclusive(&mut one));
    // SAFETY: the functions of the table use no data.
    let waker = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &RELEASES)) };
    let wait = pin!(lock.exclusive(&mut other));
    // It is not woken: it had no waker when it was served.
    let polled = wait.poll(&mut Context::from_waker(&waker));
    assert!(matches!(polled, Poll::Ready(Ok(_))));
}
