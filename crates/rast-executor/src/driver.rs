//! What workers sleep in: their parkers, and for one of them at a time the timers and the readiness
//! poll.

use core::time::Duration;
use std_alloc::boxed::Box;

use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use crate::primitive::{Parker, Unparker};

/// Wakes workers. One of the sleepers holds the driver: it sleeps until the next deadline.
#[derive(Debug)]
pub(crate) struct Driver {
    unparkers: Box<[Unparker]>,
    /// The sleeper that has it, plus one; 0 if none has.
    holder: AtomicUsize,
}

impl Driver {
    pub(crate) fn new(parkers: &[Parker]) -> Self {
        Self {
            unparkers: parkers.iter().map(Parker::unparker).collect(),
            holder: AtomicUsize::new(0),
        }
    }

    /// Takes the driver, if no other worker has it.
    pub(crate) fn try_hold(&self, worker: usize) -> bool {
        // Relaxed: it guards no memory. [XD1]
        self.holder
            .compare_exchange(0, worker + 1, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Gives the driver back.
    pub(crate) fn release(&self) {
        // Relaxed: as XD1. [XD2]
        self.holder.store(0, Ordering::Relaxed);
    }

    /// Sleeps, as the holder, until a wake-up or for the time.
    pub(crate) fn sleep(&self, parker: &Parker, timeout: Option<Duration>) {
        match timeout {
            Some(timeout) => {
                parker.park_timeout(timeout);
            }
            None => parker.park(),
        }
    }

    /// Wakes a worker. The wake-up is kept if the worker is awake.
    pub(crate) fn wake(&self, worker: usize) {
        self.unparkers[worker].unpark();
    }

    /// Wakes the holder, if there is one.
    pub(crate) fn interrupt(&self) {
        // Relaxed: the caller has seen, by an Acquire, what the holder wrote after it took the
        // driver. A former holder that is woken in vain looks again. [XD3]
        let holder = self.holder.load(Ordering::Relaxed);
        if let Some(worker) = holder.checked_sub(1) {
            self.wake(worker);
        }
    }
}
