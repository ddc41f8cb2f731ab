//! The stores of the timers of a reactor; `timer` has the functions that set timers.

use core::cell::{Cell, RefCell};
use core::task::Waker;
use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::vec::Vec;

use rast_executor::SharedClock;
use rast_executor::timers::{DeadlineStore, Handle, HeapStore, Instant, LaneStore, Step};

use crate::primitive::panics::quietly;
use crate::waker_list::wake_all;

/// Timers of the two stores that expire in one turn, at most.
const TURN: usize = 128;

/// No deadline.
const NEVER: u64 = u64::MAX;

/// The lanes and the heap of a reactor.
pub(crate) struct Trackers {
    clock: SharedClock,
    lanes: RefCell<LaneStore<Waker>>,
    heap: RefCell<HeapStore<Box<dyn FnOnce()>>>,
    /// Nothing is due before it.
    next_ns: Cell<u64>,
    /// The latest time at which timers expired.
    expired_at: Cell<Instant>,
    wakers: RefCell<Vec<Waker>>,
}

impl Trackers {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self {
            clock,
            lanes: RefCell::new(LaneStore::new()),
            heap: RefCell::new(HeapStore::new()),
            next_ns: Cell::new(NEVER),
            expired_at: Cell::new(Instant::ORIGIN),
            wakers: RefCell::new(Vec::new()),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Returns `true` if the timers up to `at` have expired. After a panic, a clock of the program
    /// may show an earlier time.
    pub(crate) fn has_expired(&self, at: Instant) -> bool {
        at <= self.expired_at.get()
    }

    /// Wakes at `at`, by the lanes.
    pub(crate) fn arm(&self, at: Instant, waker: Waker) -> Handle {
        let handle = self.lanes.borrow_mut().insert(at, waker);
        self.is_before(at);
        handle
    }

    /// Takes a waker of the lanes out.
    pub(crate) fn cancel(&self, handle: Handle) -> Option<Waker> {
        self.lanes.borrow_mut().cancel(handle)
    }

    /// Calls `f` at `at`, by the heap.
    pub(crate) fn fire_at(&self, at: Instant, f: Box<dyn FnOnce()>) {
        // The stores take the last instant as never.
        let at = at.min(Instant::from_nanos(NEVER - 1));
        self.heap.borrow_mut().insert(at, f);
        self.is_before(at);
    }

    fn is_before(&self, at: Instant) {
        self.next_ns.set(self.next_ns.get().min(at.as_nanos()));
    }

    /// Expires due timers, up to the turn's bound. Cost if none is due: a comparison, and a
    /// reading of the clock if there is a timer.
    pub(crate) fn expire(&self) {
        if self.next_ns.get() != NEVER {
            let now = self.clock.now();
            if self.next_ns.get() <= now.as_nanos() {
                self.expire_slow(now);
            }
        }
    }

    #[cold]
    fn expire_slow(&self, now: Instant) {
        self.expired_at.set(self.expired_at.get().max(now));
        let mut left = TURN;
        let mut wakers = self.wakers.take();
        let swept = {
            let mut lanes = self.lanes.borrow_mut();
            // Half, so that many due timers in the lanes do not delay the heap.
            lanes.expire(now, TURN / 2, |due| wakers.push(due.value))
        };
        left -= swept.fired;
        wake_all(wakers.drain(..));
        self.wakers.replace(wakers);
        while left > 0 {
            let step = self.heap.borrow_mut().step(now);
            match step {
                Step::Due(due) => {
                    left -= 1;
                    quietly(due.value);
                }
                Step::Busy => left -= 1,
                Step::Idle => break,
            }
        }
        let next = |at: Option<Instant>| at.map_or(NEVER, Instant::as_nanos);
        let lanes = next(self.lanes.borrow().next_deadline());
        self.next_ns
            .set(lanes.min(next(self.heap.borrow().next_deadline())));
    }

    /// How long a sleep may last.
    pub(crate) fn limit(&self, timeout: Option<Duration>) -> Option<Duration> {
        if self.next_ns.get() == NEVER {
            return timeout;
        }
        let next = Instant::from_nanos(self.next_ns.get());
        let left = next.saturating_since(self.clock.now()).into();
        Some(timeout.map_or(left, |timeout| timeout.min(left)))
    }

    /// Drops the remaining timers; none expires any more.
    pub(crate) fn close(&self) {
        self.next_ns.set(NEVER);
        let mut heap = self.heap.take();
        // One by one, since a second panic in the drop of a store would abort the process.
        loop {
            match heap.step(Instant::from_nanos(NEVER)) {
                Step::Due(due) => {
                    quietly(|| drop(due));
                }
                Step::Busy => {}
                Step::Idle => break,
            }
        }
        let lanes = self.lanes.take();
        quietly(|| drop(lanes));
    }
}
