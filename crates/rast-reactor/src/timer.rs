//! The three kinds of timers of a reactor (the trackers of the original RAST design).
//!
//! | timer | store | can be cancelled |
//! |---|---|---|
//! | [`sleep`](rast_executor::sleep) of the executor | `CalendarStore` | yes |
//! | [`Lane::sleep`]: timeouts of one length | `LaneStore` | yes; its memory is reused later |
//! | [`fire_at`]: a closure, any time | `HeapStore` | no |
//!
//! In one turn at most 128 timers of the executor and 128 of this module expire, so that many due
//! timers do not delay tasks for long. The others expire in the next turns, in order.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, RawWakerVTable, Waker};
use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;

use rast_executor::timers::{Handle, Instant, Nanos};

use crate::here::{OUTSIDE, here};
use crate::trackers::Trackers;

/// A lane: timeouts of one length, on the reactor that made it. They are cheaper than the
/// executor's sleeps, because each new timeout is the last one to expire and is appended at the end
/// of a list.
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
    /// Makes a lane of sleeps of `span`. A span of over 584 years counts as 584 years.
    ///
    /// # Panics
    ///
    /// Outside of a reactor.
    #[must_use]
    #[track_caller]
    pub fn new(span: Duration) -> Self {
        Self {
            trackers: Rc::clone(&here().expect(OUTSIDE).trackers),
            span: span.into(),
        }
    }

    /// Waits for the span, from now on; never ready early. Dropping it cancels it.
    ///
    /// Cost: a reading of the clock; an insert into a ring when it is first polled.
    pub fn sleep(&self) -> LaneSleep {
        LaneSleep {
            at: self.trackers.now().saturating_add(self.span),
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
    /// In the store, with the address of the waker that it has there.
    armed: Option<(Handle, *const (), *const RawWakerVTable)>,
}

impl LaneSleep {
    fn disarm(&mut self) {
        if let Some((handle, ..)) = self.armed.take() {
            drop(self.trackers.cancel(handle));
        }
    }
}

impl Future for LaneSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // A timer that has expired is not in the store, whatever the clock shows.
        let has_expired = self.armed.is_some() && self.trackers.has_expired(self.at);
        if has_expired || self.trackers.now() >= self.at {
            self.disarm();
            return Poll::Ready(());
        }
        let address = |waker: &Waker| (waker.data(), core::ptr::from_ref(waker.vtable()));
        if self
            .armed
            .is_none_or(|(_, data, table)| (data, table) != address(cx.waker()))
        {
            self.disarm();
            // The address of the clone: the waker of a poll may be valid only during the poll, and
            // then a clone has another address.
            let waker = cx.waker().clone();
            let (data, table) = address(&waker);
            let handle = self.trackers.arm(self.at, waker);
            self.armed = Some((handle, data, table));
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
/// It cannot be cancelled. A closure that is not due when the reactor ends is dropped there.
///
/// The closure runs between the polls of tasks, so it must be short; spawn a task for more work.
/// Panics of the closure and of its drop are contained.
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
    here.trackers.fire_at(at, Box::new(f));
}
