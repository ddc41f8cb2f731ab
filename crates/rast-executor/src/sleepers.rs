//! How workers sleep. One sleeping worker, the holder of the driver, waits for deadlines and
//! sockets. The other sleeping workers wait in their parkers.
//!
//! The holder sleeps in the readiness poll, which a wake-up interrupts. Two fences make sure that a
//! wake-up between the check of the parker and the poll is not lost. The holder stores that it
//! holds the driver, fences, and then checks its parker for a token. The waking thread stores the
//! token, fences, and then loads which worker is the holder. At least one of the two sees what the
//! other wrote.

use core::task::Waker;
use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::vec::Vec;

#[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
use crate::io::Reactor;
#[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
use crate::primitive::sync::Arc;
#[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
use crate::primitive::sync::atomic::fence;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use crate::primitive::{Parker, Unparker};

/// Wakes workers. One of the sleepers holds the driver and sleeps until the next deadline.
#[derive(Debug)]
pub(crate) struct Sleepers {
    unparkers: Unparkers,
    /// Index of the sleeper that holds the driver, plus one; 0 if none does.
    holder: AtomicUsize,
    /// The sockets; none on one thread.
    #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
    reactor: Option<Arc<Reactor>>,
}

/// How the sleeping threads are woken.
#[derive(Debug)]
enum Unparkers {
    /// One for each worker.
    Workers(Box<[Unparker]>),
    /// Waker of the driver of a `LocalExecutor`.
    Driver(Waker),
}

impl Sleepers {
    pub(crate) fn new(parkers: &[Parker]) -> Self {
        Self::with(Unparkers::Workers(
            parkers.iter().map(Parker::unparker).collect(),
        ))
    }

    /// Makes the sleepers for one thread, which sleeps in a [`Driver`](crate::Driver).
    pub(crate) fn of_driver(unparker: Waker) -> Self {
        Self::with(Unparkers::Driver(unparker))
    }

    fn with(unparkers: Unparkers) -> Self {
        Self {
            unparkers,
            holder: AtomicUsize::new(0),
            #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
            reactor: None,
        }
    }

    /// As [`new`](Self::new), with sockets.
    #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
    pub(crate) fn with_reactor(parkers: &[Parker], reactor: Reactor) -> Self {
        Self {
            reactor: Some(Arc::new(reactor)),
            ..Self::new(parkers)
        }
    }

    #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
    pub(crate) fn reactor(&self) -> Option<&Arc<Reactor>> {
        self.reactor.as_ref()
    }

    /// Acquires the driver, if no other worker has it.
    pub(crate) fn try_hold(&self, worker: usize) -> bool {
        // Relaxed: it guards no memory. [XD1]
        self.holder
            .compare_exchange(0, worker + 1, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Releases the driver.
    pub(crate) fn release(&self) {
        // Relaxed: as XD1. [XD2]
        self.holder.store(0, Ordering::Relaxed);
    }

    /// Sleeps, as the holder, until a wake-up, an event or the timeout. Adds the wakers of ready
    /// sockets.
    pub(crate) fn sleep(
        &self,
        parker: &Parker,
        timeout: Option<Duration>,
        wakers: &mut Vec<Waker>,
    ) {
        #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
        if let Some(reactor) = &self.reactor {
            // SeqCst: pairs with XD5; either the waking thread sees the holder, or the check below
            // finds its token. [XD4]
            fence(Ordering::SeqCst);
            if !parker.park_timeout(Duration::ZERO) {
                reactor.poll(timeout, wakers);
                // Consumes the token of a wake-up through the poll.
                parker.park_timeout(Duration::ZERO);
            }
            return;
        }
        let _ = wakers;
        parker.park_for(timeout);
    }

    /// Polls for events without sleeping, if no worker sleeps in the poll and there are sockets.
    pub(crate) fn look(&self, wakers: &mut Vec<Waker>) {
        #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
        if let Some(reactor) = &self.reactor {
            reactor.look(wakers);
        }
        let _ = wakers;
    }

    /// Wakes a worker. If the worker is awake, its next sleep ends at once.
    pub(crate) fn wake(&self, worker: usize) {
        match &self.unparkers {
            Unparkers::Workers(unparkers) => unparkers[worker].unpark(),
            Unparkers::Driver(unparker) => unparker.wake_by_ref(),
        }
        #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
        if let Some(reactor) = &self.reactor {
            // SeqCst: pairs with XD4; either the load below sees the holder, or the holder finds
            // the token. [XD5]
            fence(Ordering::SeqCst);
            // Relaxed: ordered by the fence. [XD6]
            if self.holder.load(Ordering::Relaxed) == worker + 1 {
                reactor.interrupt();
            }
        }
    }

    /// Wakes the holder, if there is one.
    pub(crate) fn interrupt(&self) {
        // Relaxed: ordered by the fences of the timers. A worker that no longer holds the driver
        // only checks for work once more. [XD3]
        let holder = self.holder.load(Ordering::Relaxed);
        if let Some(worker) = holder.checked_sub(1) {
            self.wake(worker);
        }
    }
}
