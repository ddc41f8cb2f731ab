//! Models of remote arm, cancel and fire, in every interleaving.
#![cfg(any(rast_loom, rast_shuttle))]

use rast_timers::primitive::cell::UnsafeCell;
use rast_timers::primitive::model::model;
use rast_timers::primitive::sync::Arc;
use rast_timers::primitive::sync::atomic::{AtomicUsize, Ordering};
use rast_timers::primitive::{Parker, thread};
use rast_timers::{Clock, Instant, ManualClock, Nanos, remote};

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// A cell that only the order of events keeps from racing; loom watches it.
struct Watched(UnsafeCell<u32>);

// SAFETY: the models order every access to the cell; loom fails one that does
// not.
unsafe impl Sync for Watched {}
// SAFETY: a number may be sent.
unsafe impl Send for Watched {}

impl Watched {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(0)))
    }

    fn write(&self, value: u32) {
        self.0.with_mut(|cell| {
            // SAFETY: ordered by the model, checked by loom.
            unsafe { *cell = value }
        });
    }

    fn read(&self) -> u32 {
        self.0.with(|cell| {
            // SAFETY: ordered by the model, checked by loom.
            unsafe { *cell }
        })
    }
}

/// Reads the cell when it is dropped.
struct ReadsOnDrop(Arc<Watched>, Arc<AtomicUsize>);

impl Drop for ReadsOnDrop {
    fn drop(&mut self) {
        self.1.store(self.0.read() as usize, Ordering::Relaxed);
    }
}

/// Exactly one of firing and cancelling happens, and the canceller's answer
/// is the truth.
#[test]
fn cancel_or_fire_never_both() {
    model(|| {
        let (timers, mut owner) = remote::channel(|| ());
        let timer = timers.arm(at(1), 7).unwrap();
        let canceller = thread::spawn(move || timer.cancel().is_ok());
        owner.poll(1);
        let fired = owner.pop_due(at(1)).is_some();
        let cancelled = canceller.join().unwrap();
        assert_ne!(fired, cancelled);
        assert_eq!(owner.pop_due(at(1)), None);
        owner.poll(usize::MAX);
        assert!(owner.is_empty());
    });
}

/// A cancel that comes too late sees what the owner did before it fired.
#[test]
fn late_cancel_sees_what_the_owner_did() {
    model(|| {
        let (timers, mut owner) = remote::channel(|| ());
        let timer = timers.arm(at(1), ()).unwrap();
        let cell = Watched::new();
        let seen = Arc::clone(&cell);
        let canceller = thread::spawn(move || {
            if timer.cancel().is_err() {
                assert_eq!(seen.read(), 1);
            }
        });
        owner.poll(1);
        // Told apart from a cancelled one only by the canceller, who reads the
        // cell only if the owner got past this write.
        cell.write(1);
        owner.pop_due(at(1));
        canceller.join().unwrap();
    });
}

/// The drop of a cancelled value sees what the canceller did before.
#[test]
fn drop_of_a_cancelled_value_sees_the_canceller() {
    model(|| {
        let (timers, mut owner) = remote::channel(|| ());
        let cell = Watched::new();
        let dropped = Arc::new(AtomicUsize::new(0));
        let value = ReadsOnDrop(Arc::clone(&cell), Arc::clone(&dropped));
        let timer = timers.arm(at(1), value).unwrap();
        let canceller = thread::spawn(move || {
            cell.write(1);
            timer.cancel().is_ok()
        });
        owner.poll(1);
        match owner.pop_due(at(1)) {
            // Fired: the value is the owner's, and the canceller's write says
            // nothing to it; keep the value from looking.
            Some((_, value)) => {
                assert!(!canceller.join().unwrap());
                drop(value);
            }
            None => {
                assert_eq!(dropped.load(Ordering::Relaxed), 1);
                assert!(canceller.join().unwrap());
            }
        }
    });
}

/// An owner that polls and then parks misses no timer armed meanwhile.
#[test]
fn arm_wakes_a_parked_owner() {
    model(|| {
        let parker = Parker::new();
        let unparker = parker.unparker();
        let (timers, mut owner) = remote::channel(move || unparker.unpark());
        let armer = thread::spawn(move || drop(timers.arm(at(1), 7).unwrap()));
        while owner.poll(usize::MAX) == 0 {
            parker.park();
        }
        assert_eq!(owner.pop_due(at(1)), Some((at(1), 7)));
        armer.join().unwrap();
    });
}

/// What is armed against an owner that goes away is given back or dropped
/// with it, never kept.
#[test]
fn arm_against_a_leaving_owner_loses_nothing() {
    model(|| {
        let (timers, owner) = remote::channel(|| ());
        let value = Arc::new(());
        let armed = Arc::clone(&value);
        let armer = thread::spawn(move || {
            let refused = timers.arm(at(1), armed).is_err();
            (timers, refused)
        });
        drop(owner);
        let (timers, _) = armer.join().unwrap();
        assert!(timers.is_closed());
        assert_eq!(Arc::strong_count(&value), 1);
    });
}

/// Two threads move one manual clock: nothing is lost and it never runs back.
#[test]
fn manual_clock_adds_up() {
    model(|| {
        let clock = ManualClock::new();
        let other = clock.clone();
        let mover = thread::spawn(move || other.advance(Nanos::from_nanos(2)));
        clock.advance(Nanos::from_nanos(3));
        let before = clock.now();
        clock.set(at(4));
        assert!(clock.now() >= before);
        mover.join().unwrap();
        assert!(clock.now() >= at(5));
    });
}
