//! Timers of a reactor, by what they need: the source's three trackers.
//!
//! | timer | store | can be cancelled |
//! |---|---|---|
//! | [`sleep`](rast_executor::sleep) of the executor | `CalendarStore` | yes |
//! | [`Lane::sleep`]: timeouts of one span | `LaneStore` | yes, its place is free later |
//! | [`fire_at`]: a closure, any time | `HeapStore` | no |
//!
//! At most 256 timers expire in one turn, so a crowd of them delays tasks by no more than that:
//! half are those of the executor, half those here. The others expire in the next turns, in order.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

use rast_executor::timers::Step;
use rast_executor::timers::{Clock, DeadlineStore, Handle, HeapStore, Instant, LaneStore, Nanos};

use crate::here::{OUTSIDE, here};
use crate::primitive::panics::quietly;
use crate::primitive::sync::Arc;
use crate::waker_id::WakerId;

/// Timers of the two stores that expire in one turn, at most.
const TURN: usize = 128;

/// No deadline.
const NEVER: u64 = u64::MAX;

/// The lanes and the heap of a reactor.
pub(crate) struct Trackers {
    clock: Arc<dyn Clock + Send + Sync>,
    lanes: RefCell<LaneStore<Waker>>,
    heap: RefCell<HeapStore<Box<dyn FnOnce()>>>,
    /// Nothing is due before it.
    next_ns: Cell<u64>,
    wakers: RefCell<Vec<Waker>>,
}

impl Trackers {
    pub(crate) fn new(clock: Arc<dyn Clock + Send + Sync>) -> Self {
        Self {
            clock,
            lanes: RefCell::new(LaneStore::new()),
            heap: RefCell::new(HeapStore::new()),
            next_ns: Cell::new(NEVER),
            wakers: RefCell::new(Vec::new()),
        }
    }

    fn is_before(&self, at: Instant) {
        self.next_ns.set(self.next_ns.get().min(at.as_nanos()));
    }

    /// Expires what is due, up to the turn's bound. Cost where nothing is: a comparison, and a
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
        let mut left = TURN;
        let mut wakers = self.wakers.take();
        let swept = {
            let mut lanes = self.lanes.borrow_mut();
            // Half, so that a crowd in the lanes does not hold up the heap.
            lanes.expire(now, TURN / 2, |due| wakers.push(due.value))
        };
        left -= swept.fired;
        for waker in wakers.drain(..) {
            quietly(|| waker.wake());
        }
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
        let left = Duration::from_nanos(next.saturating_since(self.clock.now()).as_nanos());
        Some(timeout.map_or(left, |timeout| timeout.min(left)))
    }

    /// Drops what has not expired; nothing expires any more.
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

/// Timeouts of one span, on the reactor that made it: cheaper than sleeps of any length, since each
/// goes behind the last.
///
/// ```
/// use rast_reactor::{Lane, Reactors};
/// use std::time::{Duration, Instant};
///
/// let reactors = Reactors::builder().number(1).build().unwrap();
/// let task = reactors.reactor(0).unwrap().spawn(|| async {
///     let lane = Lane::new(Duration::from_millis(2));
///     let begin = Instant::now();
///     lane.sleep().await;
///     assert!(begin.elapsed() >= Duration::from_millis(2));
/// });
/// rast_reactor::executor::block_on(task).unwrap();
/// ```
#[derive(Clone)]
pub struct Lane {
    trackers: Rc<Trackers>,
    span: Nanos,
}

impl Lane {
    /// Makes a lane of sleeps of `span`. Over 584 years count as that.
    ///
    /// # Panics
    ///
    /// Outside of a reactor.
    #[must_use]
    #[track_caller]
    pub fn new(span: Duration) -> Self {
        Self {
            trackers: Rc::clone(&here().expect(OUTSIDE).trackers),
            span: Nanos::checked_from(span).unwrap_or(Nanos::from_nanos(u64::MAX)),
        }
    }

    /// Waits for the span, from now on; never ready early. Dropping it cancels it.
    ///
    /// Cost: a reading of the clock; an insert into a ring when it is first polled.
    pub fn sleep(&self) -> LaneSleep {
        LaneSleep {
            at: self.trackers.clock.now().saturating_add(self.span),
            trackers: Rc::clone(&self.trackers),
            armed: None,
        }
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("span", &self.span)
            .finish_non_exhaustive()
    }
}

/// The future of [`Lane::sleep`].
#[must_use = "futures do nothing unless polled"]
pub struct LaneSleep {
    trackers: Rc<Trackers>,
    at: Instant,
    /// In the store, with the waker that it has there.
    armed: Option<(Handle, WakerId)>,
}

impl LaneSleep {
    fn disarm(&mut self) {
        if let Some((handle, _)) = self.armed.take() {
            let waker = self.trackers.lanes.borrow_mut().cancel(handle);
            drop(waker);
        }
    }
}

impl Future for LaneSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.trackers.clock.now() >= self.at {
            self.disarm();
            return Poll::Ready(());
        }
        let id = WakerId::of(cx.waker());
        if self.armed.is_none_or(|(_, armed)| armed != id) {
            self.disarm();
            let (at, waker) = (self.at, cx.waker().clone());
            let handle = self.trackers.lanes.borrow_mut().insert(at, waker);
            self.trackers.is_before(at);
            self.armed = Some((handle, id));
        }
        Poll::Pending
    }
}

impl Drop for LaneSleep {
    fn drop(&mut self) {
        self.disarm();
    }
}

impl fmt::Debug for LaneSleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneSleep")
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

/// Calls `f` on this reactor at `at`, by the clock of [`now`](rast_executor::now), or soon after.
/// It cannot be cancelled; what is not due when the reactor ends is dropped there, each contained
/// if it panics.
///
/// It runs between the polls of tasks, so it is to be short: spawn a task for more. Its panics are
/// contained.
///
/// # Panics
///
/// Outside of a reactor.
///
/// ```
/// use rast_reactor::executor::{now, timers::Nanos};
/// use rast_reactor::{Reactors, fire_at};
///
/// let reactors = Reactors::builder().number(1).build().unwrap();
/// let (sent, fired) = std::sync::mpsc::channel();
/// let task = reactors.reactor(0).unwrap().spawn(move || async move {
///     fire_at(now().saturating_add(Nanos::from_millis(1)), move || sent.send(7).unwrap());
/// });
/// rast_reactor::executor::block_on(task).unwrap();
/// assert_eq!(fired.recv(), Ok(7));
/// ```
#[track_caller]
pub fn fire_at(at: Instant, f: impl FnOnce() + 'static) {
    let here = here().expect(OUTSIDE);
    if !here.is_running.get() {
        drop(f);
        return;
    }
    // The stores take the last instant as never.
    let at = at.min(Instant::from_nanos(NEVER - 1));
    let trackers = &here.trackers;
    trackers.heap.borrow_mut().insert(at, Box::new(f));
    trackers.is_before(at);
}
