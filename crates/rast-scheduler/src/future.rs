//! Futures as tasks, and the futures that an `async` body awaits through its [`AsyncCx`].
//!
//! A poll is a step, and the waker is a handle of the task. The task has a list, the ledger, of its
//! pending [`AsyncCx`] futures, each with the waker of its last poll. At the start of each step the
//! task wakes the futures whose deadline has passed or whose signal has arrived. At the end of the
//! step the earliest deadline in the ledger becomes the deadline of the task. Because of the
//! ledger, any combinator on any thread may poll such a future. When the task ends, the ledger is
//! closed and all its wakers are woken.

use core::fmt;
use core::future::Future;
use core::mem::{self, ManuallyDrop};
use core::pin::Pin;
use core::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::vec::Vec;

use rast_timers::primitive::panics::discard;
use rast_timers::primitive::sync::{Arc, Mutex, MutexGuard};
use rast_timers::primitive::thread::{self, ThreadId};
use rast_timers::queue::Closed;
use rast_timers::{Instant, Nanos};

use crate::cell::Body;
use crate::cx::Cx;
use crate::join::{JoinHandle, Joined, wake_contained};
use crate::next::Next;
use crate::owned::{Owned, Reference, nanos};
use crate::remote::Remote;
use crate::task_handle::TaskHandle;

/// One vtable for all wakers, so that `will_wake` recognises two of one task.
static WAKER: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, release);

/// # Safety
///
/// For all four functions: `raw` is the address of a counted reference, which belongs to the waker.
unsafe fn clone(raw: *const ()) -> RawWaker {
    // SAFETY: by the caller; the waker keeps its own.
    let reference = ManuallyDrop::new(unsafe { Reference::from_raw(raw) });
    RawWaker::new(Reference::clone(&reference).into_raw(), &WAKER)
}

/// # Safety
///
/// As [`clone`].
unsafe fn wake(raw: *const ()) {
    // SAFETY: by the caller; the waker ends here.
    let handle = TaskHandle(unsafe { Reference::from_raw(raw) });
    // A finished task needs no wake-up.
    let _ = handle.wake();
}

/// # Safety
///
/// As [`clone`].
unsafe fn wake_by_ref(raw: *const ()) {
    // SAFETY: by the caller; the waker keeps its own.
    let handle = ManuallyDrop::new(TaskHandle(unsafe { Reference::from_raw(raw) }));
    // As in `wake`.
    let _ = handle.wake();
}

/// # Safety
///
/// As [`clone`].
unsafe fn release(raw: *const ()) {
    // SAFETY: by the caller; the waker ends here.
    drop(unsafe { Reference::from_raw(raw) });
}

/// Calls `poll` with the waker of the task whose step this is.
fn with_waker<R>(cx: &Cx<'_>, poll: impl FnOnce(&Waker) -> R) -> R {
    let raw = ManuallyDrop::into_inner(cx.reference()).into_raw();
    // SAFETY: the functions keep the contract of a waker; the reference is borrowed from the step,
    // and not dropped.
    let waker = ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(raw, &WAKER)) });
    poll(&waker)
}

/// A future without an [`AsyncCx`].
pub(crate) struct Plain<F>(pub(crate) F);

impl<F> Body for Plain<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    type Joint = Joined<F::Output>;

    fn step(self: Pin<&mut Self>, joint: &Self::Joint, cx: &mut Cx<'_>) -> Next {
        // SAFETY: the future is pinned with the body: nothing moves it out.
        let future = unsafe { self.map_unchecked_mut(|body| &mut body.0) };
        // The future cannot receive a signal; while one is left, the task would not wait.
        cx.take_signal();
        match with_waker(cx, |waker| future.poll(&mut Context::from_waker(waker))) {
            Poll::Ready(value) => {
                joint.succeed(value);
                Next::Exit
            }
            Poll::Pending => Next::Wait,
        }
    }
}

/// Registered futures of an [`AsyncCx`].
struct Ledger {
    /// The task; `None` only before it is posted.
    task: Option<TaskHandle>,
    home: Remote,
    /// The thread that is running a step.
    stepping: Option<ThreadId>,
    /// A signal that was received from the task's status, but not yet by [`AsyncCx::signal`].
    is_signaled: bool,
    /// `true` once the task has ended: no step will wake a registered future.
    is_closed: bool,
    /// The last reading of the clock of `home` before the last step.
    reading: u64,
    last: u64,
    sleeps: Vec<(u64, Instant, Waker)>,
    signals: Vec<(u64, Waker)>,
    hops: Vec<Hopping>,
    /// Number of the hop that moves the task to the scheduler of its next step.
    underway: Option<u64>,
}

/// A hop that was polled and is not complete.
struct Hopping {
    number: u64,
    to: Remote,
    /// Whether the task arrived; `None` before its first step there.
    has_come: Option<bool>,
    waker: Waker,
}

impl Ledger {
    /// Reads the clock; returns the reading from before the last step if the clock panics. That
    /// step may be due by this reading, so its sleeps must end by it too.
    fn now(&self) -> u64 {
        self.home.0.now_or(self.reading)
    }

    /// Returns the task if it needs a step to see the new registration; in its own step it does
    /// not.
    fn step_needed(&self) -> Option<TaskHandle> {
        let is_step = self.stepping == Some(thread::current_id());
        self.task.clone().filter(|_| !is_step)
    }

    /// Checks that there is a task that can run a step.
    fn check_open(&self) {
        assert!(
            !self.is_closed,
            "a future of an `AsyncCx` was polled after the end of its task"
        );
    }
}

/// Releases the lock, then drops `old`, which is foreign code, then wakes the task for a step.
fn leave<T>(ledger: MutexGuard<'_, Ledger>, old: T, step: Option<TaskHandle>) {
    drop(ledger);
    drop(old);
    if let Some(task) = step {
        // A finished task has woken all registered futures.
        let _ = task.wake();
    }
}

/// Removes the entry with this number.
fn take_out<T>(entries: &mut Vec<T>, is_it: impl Fn(&T) -> bool) -> Option<T> {
    let index = entries.iter().position(is_it)?;
    Some(entries.swap_remove(index))
}

type Shelf = Arc<Mutex<Ledger>>;

/// The place of a future in the ledger. Its drop removes the future's entry.
struct Registration {
    ledger: Shelf,
    number: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut ledger = self.ledger.lock();
        let sleep = take_out(&mut ledger.sleeps, |entry| entry.0 == self.number);
        let signal = take_out(&mut ledger.signals, |entry| entry.0 == self.number);
        // The hops stay in order.
        let hop = ledger.hops.iter().position(|hop| hop.number == self.number);
        let hop = hop.map(|index| ledger.hops.remove(index));
        leave(ledger, (sleep, signal, hop), None);
    }
}

/// A future with an [`AsyncCx`]. The fields are dropped in this order.
pub(crate) struct Async<F> {
    ledger: Open,
    future: F,
}

/// The ledger of a task that has not ended.
struct Open(Shelf);

impl Drop for Open {
    /// Closes the ledger and wakes its waiters, so that futures in other tasks see the end.
    fn drop(&mut self) {
        let mut ledger = self.0.lock();
        ledger.is_closed = true;
        let mut woken = Vec::new();
        woken.extend(ledger.sleeps.drain(..).map(|(_, _, waker)| waker));
        woken.extend(ledger.signals.drain(..).map(|(_, waker)| waker));
        let hops = mem::take(&mut ledger.hops);
        drop(ledger);
        for Hopping { waker, to, .. } in hops {
            woken.push(waker);
            discard(to);
        }
        woken.into_iter().for_each(wake_contained);
    }
}

impl<F> Async<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// Makes the task of `body`, and its handle.
    pub(crate) fn task(
        home: Remote,
        body: impl FnOnce(AsyncCx) -> F,
    ) -> (Owned, JoinHandle<F::Output>) {
        let ledger = Open(Arc::new(Mutex::new(Ledger {
            task: None,
            home,
            stepping: None,
            is_signaled: false,
            is_closed: false,
            reading: 0,
            last: 0,
            sleeps: Vec::new(),
            signals: Vec::new(),
            hops: Vec::new(),
            underway: None,
        })));
        let shelf = Arc::clone(&ledger.0);
        let future = body(AsyncCx {
            ledger: Arc::clone(&shelf),
        });
        let task = Owned::new(Self { ledger, future }, Joined::new());
        shelf.lock().task = Some(TaskHandle(task.reference()));
        let handle = JoinHandle::new(task.reference());
        (task, handle)
    }
}

impl<F> Body for Async<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    type Joint = Joined<F::Output>;

    fn step(self: Pin<&mut Self>, joint: &Self::Joint, cx: &mut Cx<'_>) -> Next {
        let shelf = Arc::clone(&self.ledger.0);
        let mut woken = Vec::new();
        let mut guard = shelf.lock();
        let ledger = &mut *guard;
        ledger.stepping = Some(thread::current_id());
        // The task hopped, or was stopped and posted on another scheduler.
        let left =
            (!cx.is_on(&ledger.home)).then(|| mem::replace(&mut ledger.home, cx.scheduler()));
        ledger.reading = cx.reading();
        if let Some(number) = ledger.underway.take()
            && let Some(hop) = ledger.hops.iter_mut().find(|hop| hop.number == number)
        {
            hop.has_come = Some(cx.is_on(&hop.to));
            // Moved out, not cloned: a clone is foreign code.
            woken.push(mem::replace(&mut hop.waker, Waker::noop().clone()));
        }
        if cx.take_signal() {
            ledger.is_signaled = true;
            woken.extend(ledger.signals.drain(..).map(|(_, waker)| waker));
        }
        if !ledger.sleeps.is_empty() {
            let now = ledger.now();
            let due = ledger.sleeps.extract_if(.., |(_, at, _)| nanos(*at) <= now);
            woken.extend(due.map(|(_, _, waker)| waker));
        }
        drop(guard);
        // The last reference to a scheduler drops its clock. A panic there must not lose `woken`.
        discard(left);
        // SAFETY: the future is pinned with the body: nothing moves it out.
        let future = unsafe { self.map_unchecked_mut(|body| &mut body.future) };
        let polled = with_waker(cx, |own| {
            // A future that the task itself polled is polled again below.
            let others = woken.into_iter().filter(|waker| !waker.will_wake(own));
            others.for_each(wake_contained);
            future.poll(&mut Context::from_waker(own))
        });
        let mut ledger = shelf.lock();
        ledger.stepping = None;
        if let Poll::Ready(value) = polled {
            drop(ledger);
            joint.succeed(value);
            return Next::Exit;
        }
        if let Some(hop) = ledger.hops.iter().find(|hop| hop.has_come.is_none()) {
            let (number, to) = (hop.number, hop.to.clone());
            ledger.underway = Some(number);
            return Next::Hop(to);
        }
        let first = ledger.sleeps.iter().map(|(_, at, _)| *at).min();
        first.map_or(Next::Wait, Next::At)
    }
}

/// The view that an `async` body has of its scheduler; [`Remote::spawn_async`] makes it.
///
/// Its futures may be used with any combinator, sent to other tasks, and cancelled by dropping
/// them. Each poll takes a lock that only this task uses.
///
/// A clone may outlive its task. The end of the task wakes the futures of its clones. A future that
/// then cannot complete panics when it is polled, because without the task nothing sleeps, receives
/// signals or hops.
#[derive(Clone)]
pub struct AsyncCx {
    ledger: Shelf,
}

impl AsyncCx {
    /// Returns a handle of the task.
    ///
    /// # Panics
    ///
    /// If the closure that makes the body calls it, before the task exists.
    #[must_use]
    pub fn handle(&self) -> TaskHandle {
        let task = self.ledger.lock().task.clone();
        task.expect("the body is a task when it runs")
    }

    /// Returns the scheduler that runs the task.
    #[must_use]
    pub fn scheduler(&self) -> Remote {
        self.ledger.lock().home.clone()
    }

    /// Reads the scheduler's clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.ledger.lock().home.now()
    }

    /// Lets the ready tasks of this worker run, then continues.
    pub fn yield_now(&self) -> YieldNow {
        yield_now()
    }

    /// Waits until `at`, never less.
    ///
    /// # Panics
    ///
    /// The future panics if it is polled after the end of the task and before its deadline.
    pub fn sleep_until(&self, at: Instant) -> Sleep {
        let registration = self.register();
        Sleep { registration, at }
    }

    /// Waits for `span` from now, never less.
    ///
    /// # Panics
    ///
    /// As [`sleep_until`](Self::sleep_until).
    pub fn sleep(&self, span: Nanos) -> Sleep {
        self.sleep_until(self.now().saturating_add(span))
    }

    /// Waits for a signal to the task, and receives it. Several signals may be received as one.
    ///
    /// # Panics
    ///
    /// The future panics if it is polled after the end of the task, unless a signal is left.
    pub fn signal(&self) -> Signaled {
        Signaled(self.register())
    }

    /// Continues on a worker of another scheduler.
    ///
    /// Returns [`Closed`] if that scheduler was dropped; the task then stays where it is. It also
    /// returns `Closed` if that scheduler was stopped before the task ran there, and the task was
    /// posted on another one.
    ///
    /// A hop begins at the end of the step that polled it. Dropping the future before that cancels
    /// the hop; dropping it later does not. Several concurrent hops all take place, in the order of
    /// their first polls.
    ///
    /// # Panics
    ///
    /// The future panics if it is polled after the end of the task, unless the hop was complete.
    pub fn hop(&self, to: &Remote) -> Hop {
        Hop {
            registration: self.register(),
            to: to.clone(),
        }
    }

    /// Gives a new future its number.
    fn register(&self) -> Registration {
        let mut ledger = self.ledger.lock();
        ledger.last += 1;
        Registration {
            number: ledger.last,
            ledger: Arc::clone(&self.ledger),
        }
    }
}

impl fmt::Debug for AsyncCx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncCx").finish_non_exhaustive()
    }
}

/// Lets the ready tasks of this worker run, then continues; works on any executor.
///
/// ```
/// let scheduler = rast_scheduler::Scheduler::new(1)?;
/// let task = scheduler.spawn_future(async {
///     rast_scheduler::yield_now().await;
///     1
/// });
/// assert_eq!(task.join()?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { has_yielded: false }
}

/// The future of [`yield_now`].
#[derive(Debug)]
#[must_use = "a future does nothing before it is awaited"]
pub struct YieldNow {
    has_yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if mem::replace(&mut self.has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The future of [`AsyncCx::sleep`].
#[must_use = "a future does nothing before it is awaited"]
pub struct Sleep {
    registration: Registration,
    at: Instant,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Registration { ledger, number } = &self.registration;
        // Before the lock: a clone is foreign code.
        let waker = cx.waker().clone();
        let mut ledger = ledger.lock();
        let now = ledger.now();
        let old = take_out(&mut ledger.sleeps, |entry| entry.0 == *number);
        if nanos(self.at) <= now {
            leave(ledger, old, None);
            return Poll::Ready(());
        }
        ledger.check_open();
        ledger.sleeps.push((*number, self.at, waker));
        let step = ledger.step_needed();
        leave(ledger, old, step);
        Poll::Pending
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("until", &self.at)
            .finish_non_exhaustive()
    }
}

/// The future of [`AsyncCx::signal`].
#[must_use = "a future does nothing before it is awaited"]
pub struct Signaled(Registration);

impl Future for Signaled {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Registration { ledger, number } = &self.0;
        // As in the poll of a sleep.
        let waker = cx.waker().clone();
        let mut ledger = ledger.lock();
        let old = take_out(&mut ledger.signals, |entry| entry.0 == *number);
        let status = |task: &TaskHandle| task.0.header().status().take_signal();
        if mem::take(&mut ledger.is_signaled) || ledger.task.as_ref().is_some_and(status) {
            leave(ledger, old, None);
            return Poll::Ready(());
        }
        ledger.check_open();
        // A signal that comes after the check of the status causes a step, which waits for this
        // lock.
        ledger.signals.push((*number, waker));
        leave(ledger, old, None);
        Poll::Pending
    }
}

impl fmt::Debug for Signaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signaled").finish_non_exhaustive()
    }
}

/// The future of [`AsyncCx::hop`].
#[must_use = "a future does nothing before it is awaited"]
pub struct Hop {
    registration: Registration,
    to: Remote,
}

impl Future for Hop {
    type Output = Result<(), Closed<()>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Registration { ledger, number } = &self.registration;
        // As in the poll of a sleep.
        let waker = cx.waker().clone();
        let mut ledger = ledger.lock();
        let entry = ledger.hops.iter().position(|hop| hop.number == *number);
        if let Some(index) = entry
            && let Some(has_come) = ledger.hops[index].has_come
        {
            let old = ledger.hops.remove(index);
            leave(ledger, old, None);
            return Poll::Ready(if has_come { Ok(()) } else { Err(Closed(())) });
        }
        ledger.check_open();
        let old = match entry {
            Some(index) => Some(mem::replace(&mut ledger.hops[index].waker, waker)),
            None => {
                ledger.hops.push(Hopping {
                    number: *number,
                    to: self.to.clone(),
                    has_come: None,
                    waker,
                });
                None
            }
        };
        let step = ledger.step_needed();
        leave(ledger, old, step);
        Poll::Pending
    }
}

impl fmt::Debug for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hop")
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}
