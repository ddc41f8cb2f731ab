//! The loop of an executor for one thread, and its public type.

use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;

use rast_timers::{Clock, MonotonicClock};

use crate::budget;
use crate::context::{self, Context, OUTSIDE, Place, refuse_nested};
use crate::deadlines::{SharedClock, shared_clock, trusted_clock};
use crate::driver::{Driver, ParkerDriver};
use crate::local::{Local, Ready, Shared};
use crate::primitive::sync::Arc;
use crate::remote::RemoteSpawner;
use crate::task::{JoinHandle, Schedule, Setup, Task};

/// Number of polls between two checks of the timers.
const LOOK_EVERY: u32 = 16;
/// Maximum number of polls of one turn of the driver.
const TURN: u32 = 64;

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
    fn inside<'a>(&self, context: Option<&Context<'a>>) -> Option<&'a Local> {
        match context?.place {
            Place::Local(local) if core::ptr::eq(Arc::as_ptr(&local.shared), self) => Some(local),
            _ => None,
        }
    }
}

impl Local {
    /// Runs tasks until `future` is ready. Calls `idle` when no task is ready, with the maximum
    /// time to wait for the timers.
    pub(crate) fn run<F: Future>(
        self: &Rc<Self>,
        future: F,
        idle: impl Fn(Option<Duration>),
    ) -> F::Output {
        /// Aborts the process if the main future is not complete, because what it borrows would be
        /// gone. Only a panic drops this, and a second panic aborts.
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
        budget::replace(budget::DEFAULT);
        if let Some(task) = task.run(&context.yielded) {
            self.ready.borrow_mut().push(task);
        }
        context.task.set(core::ptr::null());
        budget::replace(budget::UNLIMITED);
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
}

/// An executor for one thread, whose futures need not be `Send`.
///
/// [`run`](Self::run) runs a future on the calling thread until it is ready. Meanwhile it also runs
/// all tasks of the executor, spawned by [`spawn_local`] or [`spawn`](Self::spawn). The next `run`
/// continues the tasks that this `run` did not complete. Dropping the executor drops its tasks.
///
/// A wake-up from this thread costs one atomic operation, on the task's state word. A wake-up from
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
/// An executor cannot be sent to another thread:
///
/// ```compile_fail,E0277
/// fn moves<T: Send>() {}
/// moves::<rast_executor::LocalExecutor>();
/// ```
pub struct LocalExecutor {
    local: Rc<Local>,
}

impl LocalExecutor {
    /// Makes an executor with the system's monotonic clock.
    #[must_use]
    pub fn new() -> Self {
        let clock = trusted_clock(MonotonicClock::new());
        Self::of(clock, Box::new(ParkerDriver::new()))
    }

    /// Makes an executor whose sleeps use `clock`.
    ///
    /// When no task is ready, it computes from the clock how long to sleep. If you move a clock
    /// manually, wake the executor too. [`Deterministic`](crate::Deterministic) moves its own
    /// clock.
    ///
    /// Panics of the clock are caught, as by [`ContainedClock`](rast_timers::ContainedClock): a
    /// reading that panics returns an earlier time. The executor reads the clock between polls,
    /// where a panic would end the process.
    pub fn with_clock(clock: impl Clock + Send + Sync + 'static) -> Self {
        Self::with_driver(clock, ParkerDriver::new())
    }

    /// Makes an executor whose sleeps use `clock`, and whose thread sleeps in `driver`. Panics of
    /// the clock are caught, as by [`with_clock`](Self::with_clock).
    ///
    /// See [`Driver`] for an example.
    pub fn with_driver(
        clock: impl Clock + Send + Sync + 'static,
        driver: impl Driver + 'static,
    ) -> Self {
        Self::of(shared_clock(clock), Box::new(driver))
    }

    fn of(clock: SharedClock, driver: Box<dyn Driver>) -> Self {
        let local = Rc::new(Local::new(clock, None, driver));
        Self { local }
    }

    /// Runs `future` and the tasks until `future` is ready. Blocking.
    ///
    /// # Panics
    ///
    /// If `future` panics, with its payload. If it is called inside an executor.
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
        RemoteSpawner(Arc::clone(&self.local.shared))
    }

    /// Returns how many tasks are not complete.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.local.shared.owned.len()
    }
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
/// If neither of them runs the caller. For example, a worker of a [`Runtime`](crate::Runtime)
/// accepts only futures that are `Send`.
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
