//! The end of a task and its joiner: the result, or why there is none.

use core::fmt;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::any::Any;
use std::boxed::Box;
use std::sync::Arc;
use std::task::Wake;

use rast_timers::primitive::sync::Mutex;
use rast_timers::primitive::{Parker, Unparker};

use crate::cx::Cx;
use crate::next::Next;
use crate::owned::{Body, Joint, Reference, drop_contained};
use crate::task::TaskHandle;

/// Why a task has no result.
pub enum JoinError {
    /// It panicked, with this payload.
    Panicked(Box<dyn Any + Send>),
    /// It was aborted, or its scheduler was dropped.
    Cancelled,
}

impl JoinError {
    /// Returns whether the task panicked.
    #[must_use]
    pub const fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panicked(_) => "Panicked(..)",
            Self::Cancelled => "Cancelled",
        })
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panicked(_) => "the task panicked",
            Self::Cancelled => "the task was cancelled",
        })
    }
}

impl core::error::Error for JoinError {}

/// The joint of a task with a result of type `T`.
pub struct Joined<T>(Mutex<End<T>>);

struct End<T> {
    result: Option<Result<T, JoinError>>,
    /// The task is finished, so that its handles say so too.
    is_announced: bool,
    joiner: Option<Waker>,
}

impl<T> Joined<T> {
    /// The joint of a task that has not ended.
    #[must_use]
    pub fn new() -> Self {
        Self(Mutex::new(End {
            result: None,
            is_announced: false,
            joiner: None,
        }))
    }

    /// Notes the result, before the end is announced.
    pub fn succeed(&self, value: T) {
        self.0.lock().result = Some(Ok(value));
    }

    /// The result once the end is announced, or else `waker` is called then.
    pub fn poll(&self, waker: &Waker) -> Poll<Result<T, JoinError>> {
        let mut end = self.0.lock();
        if end.is_announced {
            let Some(result) = end.result.take() else {
                panic!("a join handle was polled after it had given the result");
            };
            return Poll::Ready(result);
        }
        let old = if end.joiner.as_ref().is_some_and(|old| old.will_wake(waker)) {
            None
        } else {
            end.joiner.replace(waker.clone())
        };
        drop(end);
        // Not under the lock: the drop of a waker is foreign code.
        drop(old);
        Poll::Pending
    }

    /// Tells the joiner that the task is finished.
    pub fn announce(&self) {
        let mut end = self.0.lock();
        end.is_announced = true;
        let joiner = end.joiner.take();
        drop(end);
        if let Some(joiner) = joiner {
            wake_contained(joiner);
        }
    }
}

/// Wakes, and contains a panic of it.
pub(crate) fn wake_contained(waker: Waker) {
    drop_contained(WakeOnDrop(Some(waker)));
}

/// Wakes where the panics of a destructor are contained, because a waker is foreign code.
struct WakeOnDrop(Option<Waker>);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }
}

impl<T> Default for Joined<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Joined<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Joint for Joined<T> {
    const IS_JOINED: bool = true;

    fn fail(&self, payload: Option<Box<dyn Any + Send>>) {
        let error = payload.map_or(JoinError::Cancelled, JoinError::Panicked);
        let old = self.0.lock().result.replace(Err(error));
        // A body that noted its result and panicked then.
        drop_contained(old);
    }

    fn announce(&self) {
        Joined::announce(self);
    }
}

/// A closure that runs once.
pub(crate) struct Once<F, T>(Option<F>, PhantomData<fn() -> T>);

impl<F, T> Once<F, T> {
    pub(crate) fn new(f: F) -> Self {
        Self(Some(f), PhantomData)
    }
}

// The closure is moved out before it is called.
impl<F, T> Unpin for Once<F, T> {}

impl<F, T> Body for Once<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Joint = Joined<T>;

    fn step(mut self: Pin<&mut Self>, joint: &Joined<T>, _: &mut Cx<'_>) -> Next {
        if let Some(f) = self.0.take() {
            joint.succeed(f());
        }
        Next::Exit
    }
}

/// The result of a task, to come: a future, or a blocking [`join`](Self::join).
///
/// Dropping it leaves the task alone; its result is dropped with it.
#[must_use = "dropping the handle detaches the task"]
pub struct JoinHandle<T> {
    task: Reference,
    result: PhantomData<fn(T) -> T>,
}

impl<T: Send + 'static> JoinHandle<T> {
    /// `task` is one whose joint is `Joined<T>`.
    pub(crate) fn new(task: Reference) -> Self {
        Self {
            task,
            result: PhantomData,
        }
    }

    fn joined(&self) -> &Joined<T> {
        // SAFETY: the joint of this task is of that type, and our reference keeps it.
        unsafe { self.task.joint().cast().as_ref() }
    }

    /// Waits for the end of the task. Blocking: not for a step, whose worker would run nothing
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`JoinError`] if the task panicked or was cancelled.
    pub fn join(self) -> Result<T, JoinError> {
        let parker = Parker::new();
        let waker = Waker::from(Arc::new(Unpark(parker.unparker())));
        loop {
            if let Poll::Ready(result) = self.joined().poll(&waker) {
                return result;
            }
            parker.park();
        }
    }

    /// Returns a handle of the task.
    #[must_use]
    pub fn handle(&self) -> TaskHandle {
        TaskHandle(self.task.clone())
    }

    /// Ends the task before its next step; the result is [`JoinError::Cancelled`] unless a running
    /// step is the last.
    pub fn abort(&self) {
        // A task that is finished has its result.
        let _ = self.handle().abort();
    }

    /// Returns whether the task is finished. Wait-free.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.header().status().is_finished()
    }
}

impl<T: Send + 'static> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    ///
    /// If it gave the result before.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.joined().poll(cx.waker())
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("is_finished", &self.task.header().status().is_finished())
            .finish_non_exhaustive()
    }
}

struct Unpark(Unparker);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
