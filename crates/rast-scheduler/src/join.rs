//! The result of a task: its value, or why there is none.

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

use crate::cell::{Body, Joint};
use crate::cx::Cx;
use crate::next::Next;
use crate::owned::Reference;
use crate::primitive::panics::{discard, quietly};
use crate::task_handle::TaskHandle;

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

/// The shared state of a task and its joiner, with a result of type `T`.
pub struct Joined<T>(Mutex<End<T>>);

struct End<T> {
    result: Option<Result<T, JoinError>>,
    /// `true` once the task is finished, so that its handles report it.
    is_announced: bool,
    joiner: Option<Waker>,
}

impl<T> Joined<T> {
    /// Makes the state of a task that has not ended.
    #[must_use]
    pub fn new() -> Self {
        Self(Mutex::new(End {
            result: None,
            is_announced: false,
            joiner: None,
        }))
    }

    /// Stores the result, before the end is announced.
    pub fn succeed(&self, value: T) {
        self.0.lock().result = Some(Ok(value));
    }

    /// Returns the result if the end was announced; otherwise `waker` is called then.
    pub fn poll(&self, waker: &Waker) -> Poll<Result<T, JoinError>> {
        let mut cloned = None;
        loop {
            let mut end = self.0.lock();
            if end.is_announced {
                let Some(result) = end.result.take() else {
                    panic!("a join handle was polled after it had given the result");
                };
                drop(end);
                // A panic there would lose the result.
                discard(cloned);
                return Poll::Ready(result);
            }
            if end.joiner.as_ref().is_some_and(|old| old.will_wake(waker)) {
                return Poll::Pending;
            }
            // The clone and the drop of a waker are foreign code, so they run outside the lock.
            if let Some(cloned) = cloned.take() {
                let old = end.joiner.replace(cloned);
                drop(end);
                drop(old);
                return Poll::Pending;
            }
            drop(end);
            cloned = Some(waker.clone());
        }
    }

    /// Announces to the joiner that the task is finished.
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

/// Calls a waker, and catches its panic.
pub(crate) fn wake_contained(waker: Waker) {
    quietly(|| waker.wake());
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
        // The body stored its result and then panicked.
        discard(old);
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

/// The future result of a task: await it, or block in [`join`](Self::join).
///
/// Dropping it detaches the task, whose result is then dropped with it.
#[must_use = "dropping the handle detaches the task"]
pub struct JoinHandle<T> {
    task: Reference,
    result: PhantomData<fn(T) -> T>,
}

impl<T: Send + 'static> JoinHandle<T> {
    /// Makes the handle of `task`, whose shared state must be `Joined<T>`.
    pub(crate) fn new(task: Reference) -> Self {
        Self {
            task,
            result: PhantomData,
        }
    }

    fn joined(&self) -> &Joined<T> {
        // SAFETY: the shared state of this task is of that type, and our reference keeps it alive.
        unsafe { self.task.joint().cast().as_ref() }
    }

    /// Waits for the end of the task. Blocking: do not call it in a step, because it blocks the
    /// worker.
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

    /// Ends the task before its next step. The result is [`JoinError::Cancelled`], unless the
    /// running step ends the task.
    pub fn abort(&self) {
        // A finished task has its result.
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
    /// If it has already returned the result.
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
