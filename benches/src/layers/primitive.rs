//! rast-primitive: parking, notifying and snapshots against their counterparts in std and the
//! `parking` crate.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::{self, Thread};

use rast::primitive::{EventCount, Parker, Snapshot, Unparker};

use crate::harness::Scenario;
use crate::workers::{Patience, Sample, alone, together};

const LAYER: &str = "primitive";

/// How a contender sleeps and wakes.
trait Park: 'static {
    /// What a thread sleeps on; for std, the thread itself.
    type Sleeper: Send + 'static;
    /// What wakes it, from any thread.
    type Waker: Send + Sync + 'static;

    fn pair() -> (Self::Sleeper, Self::Waker);
    /// Called first, on the sleeper's own thread.
    fn settle(_: &Self::Sleeper) {}
    fn sleep(sleeper: &Self::Sleeper);
    fn wake(waker: &Self::Waker);
}

/// Ours.
struct Rast;

impl Park for Rast {
    type Sleeper = Parker;
    type Waker = Unparker;

    fn pair() -> (Parker, Unparker) {
        let parker = Parker::new();
        let unparker = parker.unparker();
        (parker, unparker)
    }

    #[inline]
    fn sleep(parker: &Parker) {
        parker.park();
    }

    #[inline]
    fn wake(unparker: &Unparker) {
        unparker.unpark();
    }
}

/// `std::thread::park`: the handle is known once the sleeper runs.
struct Std;

impl Park for Std {
    type Sleeper = Arc<OnceLock<Thread>>;
    type Waker = Arc<OnceLock<Thread>>;

    fn pair() -> (Self::Sleeper, Self::Waker) {
        let handle = Arc::new(OnceLock::new());
        (Arc::clone(&handle), handle)
    }

    fn settle(handle: &Self::Sleeper) {
        handle.get_or_init(thread::current);
    }

    #[inline]
    fn sleep(_: &Self::Sleeper) {
        thread::park();
    }

    #[inline]
    fn wake(handle: &Self::Waker) {
        let mut patience = Patience::new();
        loop {
            if let Some(thread) = handle.get() {
                return thread.unpark();
            }
            patience.wait();
        }
    }
}

/// The `parking` crate.
#[cfg(all(rast_rivals, feature = "rivals"))]
struct Parking;

#[cfg(all(rast_rivals, feature = "rivals"))]
impl Park for Parking {
    type Sleeper = parking::Parker;
    type Waker = parking::Unparker;

    fn pair() -> (parking::Parker, parking::Unparker) {
        parking::pair()
    }

    #[inline]
    fn sleep(parker: &parking::Parker) {
        parker.park();
    }

    #[inline]
    fn wake(unparker: &parking::Unparker) {
        unparker.unpark();
    }
}

/// One thread wakes itself and then sleeps, so the token is there before the sleep.
fn token<P: Park>(ops: u64) -> Sample {
    let (sleeper, waker) = P::pair();
    P::settle(&sleeper);
    alone(|| {
        for _ in 0..ops {
            P::wake(&waker);
            P::sleep(&sleeper);
        }
        ops
    })
}

/// Two threads pass a turn back and forth. The thread without the turn sleeps, and sleeps again
/// after a wake-up without the turn.
fn hand_over<P: Park>(ops: u64) -> Sample {
    let turn = Arc::new(AtomicU64::new(0));
    let (near, wake_near) = P::pair();
    let (far, wake_far) = P::pair();
    let side = |sleeper: P::Sleeper, other: P::Waker, parity: u64, counted: bool| {
        let turn = Arc::clone(&turn);
        move || {
            P::settle(&sleeper);
            for round in 0..ops {
                while turn.load(Ordering::Acquire) != 2 * round + parity {
                    P::sleep(&sleeper);
                }
                turn.store(2 * round + parity + 1, Ordering::Release);
                P::wake(&other);
            }
            if counted { ops } else { 0 }
        }
    };
    together(vec![
        Box::new(side(near, wake_far, 0, true)),
        Box::new(side(far, wake_near, 1, false)),
    ])
}

/// Publishes a value and notifies waiting threads; no thread waits.
fn notify_event_count(ops: u64) -> Sample {
    let value = AtomicU64::new(0);
    let event = EventCount::new();
    alone(|| {
        for round in 0..ops {
            value.store(black_box(round), Ordering::Release);
            event.notify_one();
        }
        ops
    })
}

fn notify_condvar(ops: u64) -> Sample {
    let value = Mutex::new(0);
    let event = Condvar::new();
    alone(|| {
        for round in 0..ops {
            *value.lock().expect("no panic inside") = black_box(round);
            event.notify_one();
        }
        ops
    })
}

fn snapshot_load(ops: u64) -> Sample {
    let snapshot = Snapshot::new([1_u64; 8]);
    alone(|| {
        for _ in 0..ops {
            black_box(snapshot.load()[3]);
        }
        ops
    })
}

fn snapshot_mutex(ops: u64) -> Sample {
    let snapshot = Mutex::new(Arc::new([1_u64; 8]));
    alone(|| {
        for _ in 0..ops {
            let held = Arc::clone(&*snapshot.lock().expect("no panic inside"));
            black_box(held[3]);
        }
        ops
    })
}

/// The scenarios of this layer.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let token = Scenario::new(
        LAYER,
        "wake, then sleep: the token is there",
        20_000_000,
        1000,
    )
    .ours("rast Parker", token::<Rast>)
    .rival("std park", token::<Std>);
    let hand_over = Scenario::new(
        LAYER,
        "two threads that wake each other, round trip",
        50_000,
        100,
    )
    .ours("rast Parker", hand_over::<Rast>)
    .rival("std park", hand_over::<Std>);
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let (token, hand_over) = (
        token.rival("parking", self::token::<Parking>),
        hand_over.rival("parking", self::hand_over::<Parking>),
    );
    vec![
        token,
        hand_over,
        Scenario::new(
            LAYER,
            "publish and notify, no thread waits",
            20_000_000,
            1000,
        )
        .ours("rast EventCount", notify_event_count)
        .rival("std Mutex and Condvar", notify_condvar),
        Scenario::new(
            LAYER,
            "read a shared snapshot of 64 bytes",
            20_000_000,
            1000,
        )
        .ours("rast Snapshot", snapshot_load)
        .rival("std Mutex<Arc<T>>, cloned", snapshot_mutex),
    ]
}
