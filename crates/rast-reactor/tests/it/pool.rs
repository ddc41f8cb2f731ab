//! The background pool: which threads run what, bounds, age, drops, panics, the end.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use rast_reactor::executor::block_on;
use rast_reactor::queue::Full;
use rast_reactor::timers::{Clock, Instant, ManualClock, Nanos};
use rast_reactor::{Call, CallError, Policy, Pool, PoolBuilder};

const LONG: Duration = Duration::from_secs(120);
const POLICIES: [Policy; 3] = [Policy::High, Policy::Medium, Policy::Low];

fn pool(threads: [usize; 3]) -> Pool {
    Pool::builder().threads(threads).build().unwrap()
}

fn run<T: Send + 'static>(
    pool: &Pool,
    policy: Policy,
    task: impl FnOnce() -> T + Send + 'static,
) -> Call<T> {
    let Ok(call) = pool.run(policy, task) else {
        panic!("the pool is full")
    };
    call
}

/// Keeps a thread busy until the sender is dropped; returns the name of that thread.
fn block(pool: &Pool, policy: Policy) -> (Sender<()>, String) {
    let (release, gate): (_, Receiver<()>) = mpsc::channel();
    let (begins, begun) = mpsc::channel();
    let call = run(pool, policy, move || {
        begins
            .send(thread::current().name().unwrap().to_owned())
            .unwrap();
        let _ = gate.recv();
    });
    // A call that has begun is not given up any more.
    let name = begun.recv().unwrap();
    drop(call);
    (release, name)
}

/// Notes on which thread it is dropped.
struct Dropped(Sender<ThreadId>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(thread::current().id());
    }
}

#[test]
fn a_policy_runs_on_its_class_and_those_above() {
    let pool = pool([2, 2, 2]);
    let held: Vec<_> = (0..6).map(|_| block(&pool, Policy::High)).collect();
    let mut names: Vec<_> = held.iter().map(|(_, name)| name.clone()).collect();
    names.sort();
    let expected: Vec<_> = (0..3)
        .flat_map(|class| (0..2).map(move |n| format!("rast-pool-{class}-{n}")))
        .collect();
    assert_eq!(names, expected, "a high task runs on every thread");
}

#[test]
fn each_thread_calls_the_hook_before_its_first_task() {
    std::thread_local! {
        static CLASS: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
    }
    let pool = Pool::builder()
        .threads([0, 1, 2])
        .on_thread_start(|thread| {
            CLASS.set(Some(thread.class));
            assert!(thread.class < 2, "a panic of the hook is contained");
        })
        .build()
        .unwrap();
    let mut held = Vec::new();
    for _ in 0..3 {
        let (release, gate) = mpsc::channel::<()>();
        let (says, said) = mpsc::channel();
        let task = run(&pool, Policy::High, move || {
            let name = thread::current().name().unwrap().to_owned();
            says.send((name, CLASS.get())).unwrap();
            let _ = gate.recv();
        });
        held.push((said.recv().unwrap(), release, task));
    }
    for ((name, class), ..) in &held {
        let class = class.expect("the hook was called");
        assert!(name.starts_with(&format!("rast-pool-{class}-")), "{name}");
    }
}

#[test]
fn a_hook_whose_destructor_panics_ends_no_thread() {
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            panic!("in a destructor");
        }
    }
    let (release, gate) = mpsc::channel::<()>();
    let captured = (Loud, Mutex::new(gate));
    let hook = move |_| {
        let (_loud, gate) = &captured;
        let _ = gate.lock().unwrap().recv();
    };
    let pool = Pool::builder().threads([0, 0, 1]).on_thread_start(hook);
    let pool = pool.build().unwrap();
    // The builder is gone, so the thread drops the hook.
    drop(release);
    assert_eq!(pool.stop(LONG), 0);
}

#[test]
fn a_low_task_waits_for_its_class_and_a_high_one_does_not() {
    let pool = pool([1, 0, 1]);
    let (release, name) = block(&pool, Policy::Low);
    assert_eq!(name, "rast-pool-2-0");
    let low = run(&pool, Policy::Low, || {
        thread::current().name().map(str::to_owned)
    });
    let medium = run(&pool, Policy::Medium, || {
        thread::current().name().map(str::to_owned)
    });
    let high = run(&pool, Policy::High, || {
        thread::current().name().map(str::to_owned)
    });
    assert_eq!(block_on(high).unwrap().as_deref(), Some("rast-pool-0-0"));
    assert_eq!(
        (pool.queued(Policy::Low), pool.queued(Policy::Medium)),
        (1, 1)
    );
    drop(release);
    assert_eq!(block_on(low).unwrap().as_deref(), Some("rast-pool-2-0"));
    assert_eq!(block_on(medium).unwrap().as_deref(), Some("rast-pool-2-0"));
}

#[test]
fn an_old_task_goes_first() {
    let clock = ManualClock::new();
    let builder: PoolBuilder = Pool::builder().threads([0, 0, 1]).clock(clock.clone());
    let pool = builder.build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let order = Arc::clone(&order);
        move || order.lock().unwrap().push(name)
    };
    let (release, _) = block(&pool, Policy::High);
    let mut calls = vec![run(&pool, Policy::Low, note("old"))];
    clock.advance(Nanos::from_nanos(1_000_000_001));
    calls.push(run(&pool, Policy::Low, note("young")));
    calls.push(run(&pool, Policy::Medium, note("medium")));
    calls.push(run(&pool, Policy::High, note("high")));
    drop(release);
    for call in calls {
        block_on(call).unwrap();
    }
    assert_eq!(*order.lock().unwrap(), ["old", "high", "medium", "young"]);
}

#[test]
fn the_bound_is_by_policy_and_gives_the_closure_back() {
    let pool = Pool::builder()
        .threads([0, 0, 1])
        .capacity(3)
        .build()
        .unwrap();
    let (release, _) = block(&pool, Policy::High);
    let calls: Vec<_> = POLICIES
        .into_iter()
        .flat_map(|policy| (0..3).map(move |n| (policy, n)))
        .map(|(policy, n)| run(&pool, policy, move || n))
        .collect();
    for policy in POLICIES {
        let Err(Full(refused)) = pool.run(policy, || 7) else {
            panic!("{policy:?} is full")
        };
        assert_eq!(refused(), 7);
    }
    drop(release);
    let sum: i32 = calls.into_iter().map(|call| block_on(call).unwrap()).sum();
    assert_eq!(sum, 9);
    assert_eq!(POLICIES.map(|policy| pool.queued(policy)), [0; 3]);
    let none = Pool::builder().capacity(0).build().unwrap();
    assert!(none.run(Policy::High, || ()).is_err());
}

#[test]
fn a_call_that_is_given_up_is_dropped_by_the_pool() {
    let pool = pool([0, 0, 1]);
    let (release, _) = block(&pool, Policy::High);
    let (send, dropped) = mpsc::channel();
    let note = Dropped(send);
    drop(run(&pool, Policy::High, move || {
        drop(note);
        unreachable!("it was given up")
    }));
    let last = run(&pool, Policy::High, || thread::current().id());
    drop(release);
    assert_eq!(block_on(last).unwrap(), dropped.recv().unwrap());
}

#[test]
fn a_panic_goes_to_the_caller_and_the_thread_goes_on() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("in a destructor");
        }
    }
    let pool = pool([0, 0, 1]);
    let first = run(&pool, Policy::Low, || -> () { panic!("no") });
    assert!(matches!(block_on(first), Err(CallError::Panicked(_))));
    // A result that nothing takes panics as it is dropped: in the pool, or by its handle.
    let call = run(&pool, Policy::Low, || Panics);
    let _ = catch_unwind(AssertUnwindSafe(|| drop(call)));
    assert_eq!(block_on(run(&pool, Policy::Low, || 1)).unwrap(), 1);
}

#[test]
fn the_end_cancels_what_is_queued_and_waits_for_what_runs() {
    let pool = pool([0, 0, 1]);
    let (release, _) = block(&pool, Policy::High);
    let queued = run(&pool, Policy::High, || 1);
    drop(release);
    // It has begun, or is cancelled.
    assert_eq!(pool.stop(LONG), 0);
    assert!(matches!(block_on(queued), Ok(1) | Err(CallError::Stopped)));

    let pool = self::pool([0, 0, 1]);
    let (release, _) = block(&pool, Policy::High);
    let queued = run(&pool, Policy::High, || 1);
    assert_eq!(pool.stop(Duration::from_millis(1)), 1, "it still runs");
    assert!(matches!(block_on(queued), Err(CallError::Stopped)));
    drop(release);
}

#[test]
fn a_dropped_pool_cancels_what_is_queued() {
    let pool = pool([0, 0, 1]);
    let (release, _) = block(&pool, Policy::High);
    let queued = run(&pool, Policy::Medium, || 1);
    drop(pool);
    assert!(matches!(block_on(queued), Err(CallError::Stopped)));
    drop(release);
}

#[test]
fn nothing_is_lost_between_many_threads() {
    let pool = Arc::new(pool([2, 1, 2]));
    let ran = Arc::new(AtomicUsize::new(0));
    let pushers: Vec<_> = POLICIES
        .into_iter()
        .map(|policy| {
            let (pool, ran) = (Arc::clone(&pool), Arc::clone(&ran));
            thread::spawn(move || {
                for round in 0..500 {
                    let ran = Arc::clone(&ran);
                    let call = run(&pool, policy, move || ran.fetch_add(1, Ordering::Relaxed));
                    // Now and then all threads fall asleep.
                    if round % 3 == 0 {
                        block_on(call).unwrap();
                    } else {
                        while !call.is_finished() {
                            thread::yield_now();
                        }
                    }
                }
            })
        })
        .collect();
    for pusher in pushers {
        pusher.join().unwrap();
    }
    assert_eq!(ran.load(Ordering::Relaxed), 1500);
}

#[test]
fn calls_whose_drops_panic_are_dropped_by_the_pool_too() {
    struct Panics(Arc<AtomicUsize>);
    impl Drop for Panics {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("in a destructor");
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let queue = |pool: &Pool| {
        let panics = Panics(Arc::clone(&drops));
        run(pool, Policy::Low, move || drop(panics))
    };
    // Given up: by the thread that would have run it.
    let pool = pool([0, 0, 1]);
    let (release, _) = block(&pool, Policy::Low);
    (0..3).for_each(|_| drop(queue(&pool)));
    drop(release);
    assert_eq!(block_on(run(&pool, Policy::Low, || 1)).unwrap(), 1);
    assert_eq!(drops.load(Ordering::Relaxed), 3);
    // Cancelled: by the end of the pool.
    let (release, _) = block(&pool, Policy::Low);
    let calls: Vec<_> = (0..3).map(|_| queue(&pool)).collect();
    let last = run(&pool, Policy::Low, || 1);
    drop(pool);
    assert_eq!(drops.load(Ordering::Relaxed), 6);
    for call in calls {
        assert!(matches!(block_on(call), Err(CallError::Panicked(_))));
    }
    assert!(matches!(block_on(last), Err(CallError::Stopped)));
    drop(release);
}

/// A clock that panics after its first readings, by a payload whose drop panics too.
struct Broken(AtomicUsize);

impl Clock for Broken {
    fn now(&self) -> Instant {
        struct Loud;
        impl Drop for Loud {
            fn drop(&mut self) {
                panic!("so does its payload");
            }
        }
        if self.0.fetch_add(1, Ordering::Relaxed) >= 3 {
            std::panic::panic_any(Loud);
        }
        Instant::from_nanos(7)
    }
}

#[test]
fn a_clock_that_panics_ends_no_thread() {
    let clock = Broken(AtomicUsize::new(0));
    let pool = Pool::builder().threads([0, 0, 1]).clock(clock);
    let pool = pool.build().unwrap();
    let (release, _) = block(&pool, Policy::High);
    // The two policies have the thread ask which of the two tasks is older.
    let low = run(&pool, Policy::Low, || 1);
    let high = run(&pool, Policy::High, || 2);
    drop(release);
    assert_eq!((block_on(low), block_on(high)).0.unwrap(), 1);
    let more = run(&pool, Policy::Medium, || 3);
    assert_eq!(block_on(more).unwrap(), 3);
    assert_eq!(pool.stop(LONG), 0);
}
