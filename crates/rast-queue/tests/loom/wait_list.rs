//! The wait list of `Queue` alone.
#![cfg(any(rast_loom, rast_shuttle))]

use rast_queue::Waiters;
use rast_queue::primitive::cell::UnsafeCell;
use rast_queue::primitive::model::model;
use rast_queue::primitive::sync::Arc;
use rast_queue::primitive::thread;

/// A wait list, and a plain place that the steps under test order the accesses to.
struct Shared {
    waiters: Waiters,
    place: UnsafeCell<u32>,
}

// SAFETY: that no two threads have the place at once is what the tests are about.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            waiters: Waiters::new(),
            place: UnsafeCell::new(0),
        })
    }

    fn write(&self) {
        // SAFETY: see `Shared`.
        self.place.with_mut(|place| unsafe { *place += 1 });
    }

    fn read(&self) -> u32 {
        // SAFETY: see `Shared`.
        self.place.with(|place| unsafe { *place })
    }
}

/// A waiter that was woken sees what its waker did before; and the place can be entered again.
#[test]
fn wait_list_a_woken_waiter_sees_its_waker() {
    model(|| {
        let shared = Shared::new();
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || {
            theirs.write();
            theirs.waiters.take()
        });
        let (waiter, _) = shared.waiters.enter();
        let was_woken = shared.waiters.leave(waiter);
        if was_woken {
            assert_eq!(shared.read(), 1);
        }
        let (again, _) = shared.waiters.enter();
        let woken = usize::from(was_woken) + usize::from(shared.waiters.leave(again));
        assert_eq!(woken, usize::from(other.join().unwrap()));
        assert!(!shared.waiters.take(), "no thread is left");
    });
}

/// A place that one waiter has left can be entered by another.
#[test]
fn wait_list_a_place_comes_again() {
    model(|| {
        let shared = Shared::new();
        let (first, _) = shared.waiters.enter();
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || {
            let (second, _) = theirs.waiters.enter();
            assert!(!theirs.waiters.leave(second));
        });
        assert!(!shared.waiters.leave(first));
        other.join().unwrap();
    });
}

/// Two waiters and one wake-up: one of them has it, and both places are free afterwards.
#[test]
fn wait_list_one_of_two_waiters_is_woken() {
    model(|| {
        let shared = Shared::new();
        let (stays, _) = shared.waiters.enter();
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || assert!(theirs.waiters.take(), "one stays"));
        let (goes, _) = shared.waiters.enter();
        let woken = shared.waiters.leave(goes);
        other.join().unwrap();
        assert_ne!(woken, shared.waiters.leave(stays));
    });
}

/// A waiter that is settled sets the flag after a thread has cleared it, and two threads clear it
/// one after the other.
#[test]
fn wait_list_a_settled_waiter_comes_after_the_clearing() {
    model(|| {
        let shared = Shared::new();
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || theirs.waiters.clear(|| theirs.write()));
        shared.waiters.clear(|| shared.write());
        let (waiter, is_settled) = shared.waiters.enter();
        if is_settled {
            shared.write();
        }
        other.join().unwrap();
        assert!(!shared.waiters.leave(waiter));
    });
}

/// Two threads find no place and make the same chunk, not one each.
#[test]
fn wait_list_grows_once_for_two() {
    model(|| {
        let shared = Shared::new();
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || theirs.waiters.enter().0);
        let (waiter, _) = shared.waiters.enter();
        let waiters = [waiter, other.join().unwrap()];
        assert_eq!(shared.waiters.places(), 2, "places for two waiters");
        for waiter in waiters {
            assert!(!shared.waiters.leave(waiter));
        }
    });
}
