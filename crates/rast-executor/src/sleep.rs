//! Futures of time: sleep, timeout, interval.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, RawWakerVTable, Waker};
use core::time::Duration;

use rast_timers::{Instant, Nanos};

use crate::budget;
use crate::context::{self, OUTSIDE};
use crate::deadlines::{Armed, Timers};
use crate::primitive::sync::Arc;

#[track_caller]
fn timers() -> Arc<Timers> {
    context::with(|context| Arc::clone(context.expect(OUTSIDE).timers))
}

/// Returns the time by the clock of the executor that runs the caller.
///
/// # Panics
///
/// Outside an executor.
///
/// ```
/// rast_executor::LocalExecutor::new().run(async {
///     assert!(rast_executor::now() <= rast_executor::now());
/// });
/// ```
#[must_use]
#[track_caller]
pub fn now() -> Instant {
    context::with(|context| context.expect(OUTSIDE).timers.now())
}

/// Waits for at least `span`, by the clock of the executor in which the future was made.
///
/// The first poll inserts a deadline into the store of a worker, under a lock that other workers
/// seldom take; dropping the future cancels the deadline. The future may be awaited on any thread.
/// A busy worker ends the sleep at most 16 polls late. A sleeping worker ends the sleep late, by
/// the time that it takes to wake a thread.
///
/// # Panics
///
/// If it is called outside an executor. If the executor ends before the sleep, the tasks of the
/// executor are cancelled. If another executor or thread awaits the sleep, the sleep panics,
/// because no thread can wake it.
///
/// ```
/// use rast_executor::{Deterministic, now, sleep};
/// use std::time::Duration;
///
/// Deterministic::new(1).run(async {
///     let before = now();
///     sleep(Duration::from_secs(3600)).await;
///     assert_eq!(now().saturating_since(before).as_nanos(), 3_600_000_000_000);
/// });
/// ```
#[track_caller]
pub fn sleep(span: Duration) -> Sleep {
    Sleep::after(timers(), span)
}

/// Waits until `deadline`, by the clock of the executor: see [`now`] and [`sleep`].
///
/// # Panics
///
/// Outside of an executor.
///
/// ```
/// use rast_executor::{Deterministic, now, sleep_until, timers::Nanos};
///
/// Deterministic::new(1).run(async {
///     let noon = now().saturating_add(Nanos::from_secs(60));
///     sleep_until(noon).await;
///     assert_eq!(now(), noon);
/// });
/// ```
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(timers(), deadline)
}

/// The future of [`sleep`] and [`sleep_until`].
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    timers: Arc<Timers>,
    deadline: Instant,
    /// The deadline in the store, and the address of the waker that the store has.
    armed: Option<(Armed, *const (), *const RawWakerVTable)>,
}

// SAFETY: the addresses are compared and never dereferenced.
unsafe impl Send for Sleep {}
// SAFETY: as above.
unsafe impl Sync for Sleep {}

impl Sleep {
    fn new(timers: Arc<Timers>, deadline: Instant) -> Self {
        Self {
            timers,
            deadline,
            armed: None,
        }
    }

    pub(crate) fn after(timers: Arc<Timers>, span: Duration) -> Self {
        let deadline = timers.now().saturating_add(Nanos::from(span));
        Self::new(timers, deadline)
    }

    /// Returns the deadline.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Moves the deadline; after that the future may be awaited again.
    ///
    /// ```
    /// use rast_executor::{Deterministic, now, sleep, timers::Nanos};
    /// use std::time::Duration;
    ///
    /// Deterministic::new(1).run(async {
    ///     let mut rest = sleep(Duration::from_secs(1));
    ///     (&mut rest).await;
    ///     rest.reset(now().saturating_add(Nanos::from_secs(1)));
    ///     rest.await;
    ///     assert_eq!(now().as_nanos(), 2_000_000_000);
    /// });
    /// ```
    pub fn reset(&mut self, deadline: Instant) {
        self.disarm();
        self.deadline = deadline;
    }

    fn disarm(&mut self) {
        if let Some((armed, ..)) = self.armed.take() {
            drop(self.timers.disarm(armed));
        }
    }

    /// Arms the deadline to wake `waker`.
    ///
    /// # Panics
    ///
    /// If the executor has ended, except in its own tasks.
    fn arm(&mut self, waker: &Waker) {
        if self.timers.is_closed() {
            return self.refuse();
        }
        let address = |waker: &Waker| (waker.data(), core::ptr::from_ref(waker.vtable()));
        if let Some((_, data, table)) = self.armed
            && (data, table) == address(waker)
        {
            // The store has this waker, which is alive, so no other waker has its address. If the
            // store had woken it, the deadline would be past.
            return;
        }
        // The address of the clone: the waker of a poll may be valid only during the poll, and then
        // a clone has another address.
        let waker = waker.clone();
        let address = address(&waker);
        self.disarm();
        let shard = context::with(|context| context.map_or(0, |context| context.shard));
        match self.timers.arm(shard, self.deadline, waker) {
            Some(armed) => self.armed = Some((armed, address.0, address.1)),
            None => self.refuse(),
        }
    }

    /// Panics, because the executor has ended. A task of that executor that is still being polled
    /// is cancelled after the poll.
    #[cold]
    fn refuse(&self) {
        let is_own_task = context::with(|context| {
            context.is_some_and(|context| {
                !context.task.get().is_null() && Arc::ptr_eq(context.timers, &self.timers)
            })
        });
        assert!(
            is_own_task,
            "the executor of this sleep has ended, so nothing would wake it"
        );
    }

    /// Returns `true` if the deadline is past. Another thread may have read a later time and fired
    /// the deadline. Such a deadline is not armed again, so it must count as past.
    fn is_due(&self) -> bool {
        self.timers.now() >= self.deadline
            || (self.armed.is_some() && self.timers.has_fired(self.deadline))
    }

    /// As `poll`, without the budget.
    fn poll_due(&mut self, cx: &Context<'_>) -> Poll<()> {
        if !self.is_due() {
            self.arm(cx.waker());
            return Poll::Pending;
        }
        self.disarm();
        Poll::Ready(())
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.poll_due(cx).is_pending() {
            return Poll::Pending;
        }
        budget::spend(cx)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.disarm();
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// The time of a [`timeout`] was over before its future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time is up")
    }
}

impl core::error::Error for Elapsed {}

/// Awaits `future` for at most `span`.
///
/// The future is polled first, so a ready future returns its output even if `span` is zero. To keep
/// a future after its time is over, pass a pinned reference.
///
/// # Errors
///
/// [`Elapsed`] if the time is over first; the future is dropped with the `Timeout`.
///
/// # Panics
///
/// Outside of an executor.
///
/// ```
/// use rast_executor::{Deterministic, Elapsed, timeout};
/// use std::{future::pending, time::Duration};
///
/// Deterministic::new(1).run(async {
///     assert_eq!(timeout(Duration::ZERO, async { 1 }).await, Ok(1));
///     assert_eq!(timeout(Duration::from_secs(9), pending::<()>()).await, Err(Elapsed));
/// });
/// ```
#[track_caller]
pub fn timeout<F: Future>(span: Duration, future: F) -> Timeout<F> {
    Timeout {
        future,
        sleep: sleep(span),
    }
}

/// The future of [`timeout`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Timeout<F> {
    future: F,
    sleep: Sleep,
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the inner future is not moved out of its pin; `Sleep` needs none.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        if let Poll::Ready(output) = future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        // Without the budget: a future that has spent it must not exceed its time.
        this.sleep.poll_due(cx).map(|()| Err(Elapsed))
    }
}

/// How an [`Interval`] treats missed ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTicks {
    /// Returns the missed ticks at once, one by one, and is then on schedule again.
    #[default]
    Burst,
    /// Returns one tick at once; the next one is due a period after that.
    Delay,
    /// Returns one tick at once; the next one is due at the next multiple of the period.
    Skip,
}

/// Ticks at once, and then every `period`.
///
/// # Panics
///
/// If the period is zero, or outside an executor.
///
/// ```
/// use rast_executor::{Deterministic, interval, now};
/// use std::time::Duration;
///
/// Deterministic::new(1).run(async {
///     let mut ticks = interval(Duration::from_millis(10));
///     for tick in 0..3 {
///         assert_eq!(ticks.tick().await.as_nanos(), tick * 10_000_000);
///     }
///     assert_eq!(now().as_nanos(), 20_000_000);
/// });
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    assert!(
        !period.is_zero(),
        "the period of an interval must not be zero"
    );
    let timers = timers();
    let first = timers.now();
    Interval {
        sleep: Sleep::new(timers, first),
        period: Nanos::from(period),
        missed: MissedTicks::default(),
    }
}

/// Ticks of a period: see [`interval`].
#[derive(Debug)]
pub struct Interval {
    sleep: Sleep,
    period: Nanos,
    missed: MissedTicks,
}

impl Interval {
    /// Sets how missed ticks are treated.
    #[must_use]
    pub fn missed_ticks(mut self, missed: MissedTicks) -> Self {
        self.missed = missed;
        self
    }

    /// Waits for the next tick; returns the time at which it was due. The future may be dropped
    /// without losing a tick.
    pub async fn tick(&mut self) -> Instant {
        core::future::poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// As [`tick`](Self::tick), for a hand-written future.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        if Pin::new(&mut self.sleep).poll(cx).is_pending() {
            return Poll::Pending;
        }
        let due = self.sleep.deadline;
        let now = self.sleep.timers.now();
        let late = now.saturating_since(due);
        let next = match self.missed {
            _ if late < self.period => due.saturating_add(self.period),
            MissedTicks::Burst => due.saturating_add(self.period),
            MissedTicks::Delay => now.saturating_add(self.period),
            MissedTicks::Skip => {
                let periods = late.as_nanos() / self.period.as_nanos() + 1;
                due.saturating_add(self.period.saturating_mul(periods))
            }
        };
        self.sleep.reset(next);
        Poll::Ready(due)
    }
}
