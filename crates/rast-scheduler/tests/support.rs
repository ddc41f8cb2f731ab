//! What the tests share: gates, counters and conditions to wait for.
#![allow(dead_code, reason = "each test program uses a part")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rast_scheduler::timers::{ManualClock, Nanos};
use rast_scheduler::{Remote, Scheduler};

/// Longer than anything that is waited for; a test that gets here has failed.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A door that a step waits at, and that a test opens.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<(usize, bool)>, Condvar)>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Waits until the gate is open.
    pub(crate) fn pass(&self) {
        let (lock, changed) = &*self.0;
        let mut state = lock.lock().unwrap();
        state.0 += 1;
        changed.notify_all();
        while !state.1 {
            state = changed.wait(state).unwrap();
        }
    }

    /// Waits until so many wait or have passed.
    pub(crate) fn await_arrivals(&self, wanted: usize) {
        let (lock, changed) = &*self.0;
        let mut state = lock.lock().unwrap();
        while state.0 < wanted {
            let (next, timeout) = changed.wait_timeout(state, LONG).unwrap();
            assert!(!timeout.timed_out(), "{} of {wanted} came", next.0);
            state = next;
        }
    }

    pub(crate) fn open(&self) {
        let (lock, changed) = &*self.0;
        lock.lock().unwrap().1 = true;
        changed.notify_all();
    }
}

/// A count that a test waits for.
#[derive(Clone, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn add(&self) -> usize {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn reaches(&self, wanted: usize) {
        until("a count", || self.get() >= wanted);
        assert_eq!(self.get(), wanted);
    }
}

/// Waits until `holds`.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < end, "{what} did not come about");
        thread::yield_now();
    }
}

/// A scheduler whose clock does not move by itself.
pub(crate) fn by_hand(workers: usize) -> (Scheduler, ManualClock) {
    let clock = ManualClock::new();
    let scheduler = Scheduler::builder()
        .workers(workers)
        .clock(clock.clone())
        .start()
        .unwrap();
    (scheduler, clock)
}

/// Moves the clock and has it looked at.
pub(crate) fn advance(remote: &Remote, clock: &ManualClock, span: Nanos) {
    clock.advance(span);
    remote.look();
}
