//! An executor for one thread.
//!
//! ```text
//!   wake-ups of this thread ──► ready lists ──► run        no lock, no fence
//!   wake-ups of others ──► injector ──┘                     looked at before each poll
//! ```
//!
//! Rule: only the thread of its executor runs a task and drops its future. A wake-up or an abort
//! from another thread passes the right to run through the injector. The injector lives as long as
//! the tasks, and the executor empties it when it is dropped. A right that is pushed later has no
//! future to run.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::marker::PhantomData;
use core::task::Waker;
use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

use rast_timers::{Clock, MonotonicClock};

use crate::budget;
use crate::context::{self, Context, OUTSIDE, Place, refuse_nested};
use crate::deadlines::{SharedClock, Timers};
use crate::driver::{Driver, ParkerDriver};
use crate::injector::Injector;
use crate::lists::Lists;
use crate::owned::Owned;
use crate::primitive::Random;
use crate::primitive::sync::Arc;
use crate::remote::RemoteSpawner;
use crate::sleepers::Sleepers;
use crate::task::{FUTURE_MAX, JoinHandle, Poller, Ran, Schedule, Setup, Task, make};

/// Number of polls between two checks of the timers.
const LOOK_EVERY: u32 = 16;
/// Maximum number of polls of one turn of the driver.
const TURN: u32 = 64;
/// Deadlines that fire in one turn, at most, so that a crowd of them does not hold up the others.
const EXPIRIES: usize = 128;

/// The part that wakers reach.
pub(crate) struct Shared {
    pub(crate) injector: Injector,
    pub(crate) owned: Owned,
    sleepers: Arc<Sleepers>,
}

// SAFETY: 1. `forget` unlinks from the list of this executor, which adopted the task. 2. The
// executor has a reference while it runs. 3. `schedule` on another thread only passes the task on;
// `Local` runs and drops all tasks on its thread.
unsafe impl Schedule for Shared {
    fn schedule(&self, task: Task) {
        let mut task = Some(task);
        context::with(|context| {
            if let Some(local) = self.inside(context)
                && let Some(task) = task.take()
            {
                local.ready.borrow_mut().push(task);
            }
        });
        if let Some(task) = task
            && self.injector.push(task)
        {
            self.wake();
        }
    }

    fn is_inside(&self) -> bool {
        context::with(|context| self.inside(context).is_some())
    }

    fn forget(&self, task: &Task) {
        // SAFETY: every task of this scheduler was adopted by this list.
        unsafe { self.owned.forget(task) };
    }
}

impl Shared {
    /// Wakes the thread, or leaves a token.
    pub(crate) fn wake(&self) {
        self.sleepers.wake(0);
    }

    fn inside<'a>(&self, context: Option<&Context<'a>>) -> Option<&'a Local> {
        match context?.place {
            Place::Local(local) if core::ptr::eq(Arc::as_ptr(&local.shared), self) => Some(local),
            _ => None,
        }
    }
}

/// The ready tasks.
enum Ready {
    /// By priority, first in first out.
    InOrder(Lists),
    /// In an order drawn from a seed.
    Seeded { tasks: Vec<Task>, random: Random },
}

impl Ready {
    fn push(&mut self, task: Task) {
        match self {
            Self::InOrder(lists) => lists.push(task),
            Self::Seeded { tasks, .. } => tasks.push(task),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::InOrder(lists) => lists.len() == 0,
            Self::Seeded { tasks, .. } => tasks.is_empty(),
        }
    }

    fn pop(&mut self) -> Option<Task> {
        match self {
            Self::InOrder(lists) => lists.pop(),
            Self::Seeded { tasks, .. } if tasks.is_empty() => None,
            Self::Seeded { tasks, random } => Some(tasks.swap_remove(random.below(tasks.len()))),
        }
    }
}

/// An executor of one thread, behind its public faces.
pub(crate) struct Local {
    shared: Arc<Shared>,
    ready: RefCell<Ready>,
    timers: Arc<Timers>,
    driver: RefCell<Box<dyn Driver>>,
    #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
    pub(crate) sockets: Option<crate::io::Sockets>,
    budget: u32,
    polls: Cell<u64>,
    /// How many more deadlines may fire in this turn.
    expiries: Cell<usize>,
}

impl Local {
    pub(crate) fn new(
        clock: SharedClock,
        budget: u32,
        seed: Option<u64>,
        driver: Box<dyn Driver>,
    ) -> Self {
        let sleepers = Arc::new(Sleepers::of_driver(driver.unparker()));
        let ready = match seed {
            None => Ready::InOrder(Lists::default()),
            Some(seed) => Ready::Seeded {
                tasks: Vec::new(),
                random: Random::new(seed),
            },
        };
        Self {
            timers: Arc::new(Timers::new(clock, 1, Arc::clone(&sleepers))),
            shared: Arc::new(Shared {
                injector: Injector::new(),
                owned: Owned::new(),
                sleepers,
            }),
            ready: RefCell::new(ready),
            #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
            sockets: driver.sockets(),
            driver: RefCell::new(driver),
            budget,
            polls: Cell::new(0),
            expiries: Cell::new(EXPIRIES),
        }
    }

    /// Spawns a future that may borrow and may stay on this thread.
    ///
    /// # Safety
    ///
    /// What the future and its output borrow lives until the task is complete and the handle is
    /// dropped.
    unsafe fn spawn_unchecked<F: Future>(&self, future: F, setup: Setup) -> JoinHandle<F::Output> {
        // SAFETY: 1. by the caller; 2. this executor runs and drops the task on this thread.
        let (task, owned, handle) = unsafe { make(future, Arc::clone(&self.shared), setup) };
        // The list is closed while the executor is dropped, by destructors that spawn: the future
        // is dropped at once then.
        match self.shared.owned.adopt(owned) {
            Ok(()) => self.ready.borrow_mut().push(task),
            Err(owned) => task.refuse(owned),
        }
        handle
    }

    pub(crate) fn spawn<F: Future + 'static>(
        &self,
        future: F,
        setup: Setup,
    ) -> JoinHandle<F::Output> {
        if size_of::<F>() > FUTURE_MAX {
            // SAFETY: nothing is borrowed.
            return unsafe { self.spawn_unchecked(Box::pin(future), setup) };
        }
        // SAFETY: as above.
        unsafe { self.spawn_unchecked(future, setup) }
    }

    /// Runs tasks until `future` is ready. Calls `idle` when no task is ready, with the maximum
    /// time to wait for the timers.
    pub(crate) fn run<F: Future>(
        self: &Rc<Self>,
        future: F,
        idle: impl Fn(Option<Duration>),
    ) -> F::Output {
        /// Aborts the process if the main future is not complete, because what it borrows would be
        /// gone. Only a panic drops this, and a panic in a destructor then aborts the process.
        struct Incomplete;
        impl Drop for Incomplete {
            fn drop(&mut self) {
                panic!("a LocalExecutor panicked: this is its fault");
            }
        }
        let context = Context::new(Place::Local(self), &self.timers, 0);
        let mut handle = {
            let incomplete = Incomplete;
            // SAFETY: below the task is run until it is complete, and its output taken; a panic in
            // between ends the process.
            let handle = unsafe { self.spawn_unchecked(future, Setup::default()) };
            context::enter(&context, || {
                while !handle.is_finished() {
                    self.turn(&context, &idle);
                }
                self.submit();
            });
            core::mem::forget(incomplete);
            handle
        };
        let waker = Waker::noop();
        let mut cx = core::task::Context::from_waker(waker);
        match core::pin::Pin::new(&mut handle).poll(&mut cx) {
            core::task::Poll::Ready(Ok(output)) => output,
            core::task::Poll::Ready(Err(error)) => match error.into_panic() {
                Some(payload) => std::panic::resume_unwind(payload),
                None => unreachable!("local: the main task has no other handle to abort it"),
            },
            core::task::Poll::Pending => unreachable!("local: the main task is finished"),
        }
    }

    /// Runs one task, or waits for one.
    fn turn(&self, context: &Context<'_>, idle: &impl Fn(Option<Duration>)) {
        if let Some(mut chain) = self.shared.injector.take() {
            let mut ready = self.ready.borrow_mut();
            while let Some(task) = chain.pop() {
                match &mut *ready {
                    Ready::InOrder(lists) => lists.push_outside(task),
                    ready => ready.push(task),
                }
            }
        }
        let polls = self.polls.get() + 1;
        self.polls.set(polls);
        if polls.is_multiple_of(u64::from(LOOK_EVERY)) {
            self.fire();
        }
        if polls.is_multiple_of(u64::from(TURN)) {
            self.submit();
        }
        let task = self.ready.borrow_mut().pop();
        let Some(task) = task else {
            self.wait(idle);
            return;
        };
        context.task.set(task.address());
        context.budget.set(self.budget);
        let poller = Poller {
            yielded: &context.yielded,
        };
        if let Ran::Again(task) = task.run(poller) {
            self.ready.borrow_mut().push(task);
        }
        context.task.set(core::ptr::null());
        context.budget.set(u32::MAX);
    }

    #[cold]
    fn wait(&self, idle: &impl Fn(Option<Duration>)) {
        if self.fire() {
            return;
        }
        self.submit();
        if !self.ready.borrow().is_empty() {
            return;
        }
        let held = self.shared.sleepers.try_hold(0);
        debug_assert!(held, "local: the executor is the one that sleeps");
        let timeout = self.timers.begin_sleep();
        // A push onto an empty injector leaves a token, so the sleep ends at once.
        if timeout != Some(Duration::ZERO) && self.shared.injector.is_empty() {
            idle(timeout);
        }
        self.timers.end_sleep();
        self.shared.sleepers.release();
        self.fire();
    }

    /// Fires deadlines, up to the turn's bound; returns whether there was one.
    fn fire(&self) -> bool {
        let left = self.expiries.get();
        let fired = self.timers.fire_at_most(left);
        self.expiries.set(left - fired);
        fired != 0
    }

    fn submit(&self) {
        self.expiries.set(EXPIRIES);
        self.driver.borrow_mut().submit();
    }

    fn sleep(&self, timeout: Option<Duration>) {
        self.driver.borrow_mut().park(timeout);
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.shared.owned.close();
        self.timers.close();
        #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
        if let Some(sockets) = &self.sockets {
            sockets.0.close();
        }
        for task in self.shared.owned.all() {
            if let Some(task) = task.claim() {
                task.cancel();
            }
        }
        // Queued tasks were not claimed. Wait for a thread that has incremented the wake-ups of a
        // task and has not pushed it yet: it is a few instructions from its push.
        loop {
            self.ready.get_mut().clear();
            self.shared.injector.drain(Task::cancel);
            if self.shared.owned.len() == 0 {
                return;
            }
            crate::primitive::thread::yield_now();
        }
    }
}

impl Ready {
    /// Cancels all tasks.
    fn clear(&mut self) {
        while let Some(task) = self.pop() {
            task.cancel();
        }
    }
}

/// An executor for one thread, whose futures need not be `Send`.
///
/// [`run`](Self::run) runs a future, and all tasks that it spawns by [`spawn_local`] or
/// [`spawn`](Self::spawn), on the calling thread, until that future is ready. Tasks that are not
/// complete then continue in the next `run`, and are dropped with the executor.
///
/// A wake-up from this thread costs one atomic operation, on the task's word. A wake-up from
/// another thread pushes onto a lock-free stack, and wakes the thread if it sleeps.
///
/// # Examples
///
/// ```
/// use rast_executor::{LocalExecutor, spawn_local};
/// use std::{cell::Cell, rc::Rc};
///
/// let sum = Rc::new(Cell::new(0));
/// let executor = LocalExecutor::new();
/// executor.run(async {
///     let tasks: Vec<_> = (1..=4)
///         .map(|n| {
///             let sum = Rc::clone(&sum);
///             spawn_local(async move { sum.set(sum.get() + n) })
///         })
///         .collect();
///     for task in tasks {
///         task.await.unwrap();
///     }
/// });
/// assert_eq!(sum.get(), 10);
/// ```
///
/// It cannot be sent to another thread:
///
/// ```compile_fail,E0277
/// fn moves<T: Send>() {}
/// moves::<rast_executor::LocalExecutor>();
/// ```
pub struct LocalExecutor {
    local: Rc<Local>,
    stays: PhantomData<*const ()>,
}

impl LocalExecutor {
    /// Makes an executor with the system's monotonic clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(MonotonicClock::new())
    }

    /// Makes an executor whose sleeps use `clock`.
    ///
    /// When no task is ready, it sleeps for as long as the clock indicates at that time; a clock
    /// that is moved manually needs a wake-up, too. [`Deterministic`](crate::Deterministic) moves
    /// its own clock.
    pub fn with_clock(clock: impl Clock + Send + Sync + 'static) -> Self {
        Self::with_driver(clock, ParkerDriver::new())
    }

    /// Makes an executor whose sleeps use `clock`, and whose thread sleeps in `driver`.
    ///
    /// See [`Driver`] for an example.
    pub fn with_driver(
        clock: impl Clock + Send + Sync + 'static,
        driver: impl Driver + 'static,
    ) -> Self {
        let local = Local::new(shared_clock(clock), budget::DEFAULT, None, Box::new(driver));
        Self {
            local: Rc::new(local),
            stays: PhantomData,
        }
    }

    /// Runs `future` and the tasks until `future` is ready. Blocking.
    ///
    /// # Panics
    ///
    /// If `future` panics, with its payload; inside an executor.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        refuse_nested("LocalExecutor::run");
        let local = &self.local;
        local.run(future, |timeout| local.sleep(timeout))
    }

    /// Spawns a task, which runs while [`run`](Self::run) does.
    ///
    /// ```
    /// use rast_executor::LocalExecutor;
    ///
    /// let executor = LocalExecutor::new();
    /// let task = executor.spawn(async { 1 });
    /// assert_eq!(executor.run(task).unwrap(), 1);
    /// ```
    pub fn spawn<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        self.local.spawn(future, Setup::default())
    }

    /// Returns a spawner for other threads.
    #[must_use]
    pub fn remote(&self) -> RemoteSpawner {
        RemoteSpawner::new(Arc::clone(&self.local.shared))
    }

    /// Returns how many tasks are not complete.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.local.shared.owned.len()
    }
}

/// The clock behind a pointer.
pub(crate) fn shared_clock(clock: impl Clock + Send + Sync + 'static) -> SharedClock {
    crate::primitive::unsized_arc!(clock)
}

impl Default for LocalExecutor {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LocalExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalExecutor")
            .field("tasks", &self.tasks())
            .finish_non_exhaustive()
    }
}

/// Spawns a task on the [`LocalExecutor`] or the [`Deterministic`](crate::Deterministic) that runs
/// the caller; its future need not be `Send`.
///
/// # Panics
///
/// Elsewhere: the workers of a [`Runtime`](crate::Runtime) accept only futures that are `Send`.
///
/// See [`LocalExecutor`] for an example.
#[track_caller]
pub fn spawn_local<F: Future + 'static>(future: F) -> JoinHandle<F::Output> {
    context::with(|context| match context.map(|context| &context.place) {
        Some(Place::Local(local)) => local.spawn(future, Setup::default()),
        Some(_) => panic!("spawn_local inside of a Runtime: use spawn, or a LocalExecutor"),
        None => panic!("{OUTSIDE}"),
    })
}
