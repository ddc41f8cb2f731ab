//! Handles of tasks and calls.

use core::pin::Pin;
use core::task::{Context, Poll};

use rast_executor::JoinHandle;

use crate::error::CallError;

/// A handle, or the reason why there is none.
#[derive(Debug)]
struct Outcome<T>(Result<JoinHandle<T>, Refusal>);

#[derive(Clone, Copy, Debug)]
enum Refusal {
    Stopped,
    NoReactor,
}

impl<T> Outcome<T> {
    fn abort(&self) {
        if let Ok(handle) = &self.0 {
            handle.abort();
        }
    }

    fn is_finished(&self) -> bool {
        self.0.as_ref().map_or(true, JoinHandle::is_finished)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, CallError>> {
        match &mut self.0 {
            Ok(handle) => Pin::new(handle).poll(cx).map_err(CallError::from),
            Err(Refusal::Stopped) => Poll::Ready(Err(CallError::Stopped)),
            Err(Refusal::NoReactor) => Poll::Ready(Err(CallError::NoReactor)),
        }
    }
}

/// The handle of a task: a future of its output, for any thread. Dropping it detaches the task.
///
/// See [`Reactor::spawn`](crate::Reactor::spawn).
#[must_use = "dropping a handle detaches the task; call `detach` to say so"]
#[derive(Debug)]
pub struct Spawned<T>(Outcome<T>);

impl<T> Spawned<T> {
    pub(crate) fn new(handle: JoinHandle<T>) -> Self {
        Self(Outcome(Ok(handle)))
    }

    /// Makes the handle of a task that was rejected.
    pub(crate) fn stopped() -> Self {
        Self(Outcome(Err(Refusal::Stopped)))
    }

    /// Asks the reactor to drop the future at its next await. Lock-free.
    pub fn abort(&self) {
        self.0.abort();
    }

    /// Lets the task run on without a handle.
    pub fn detach(self) {
        drop(self);
    }

    /// Returns `true` if the task is complete. Wait-free.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl<T> Future for Spawned<T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx)
    }
}

/// A call that was sent: a future of its result. Dropping it cancels the call: a closure that has
/// not started is dropped where it would run, and a running future at its next await.
#[must_use = "dropping a call gives it up"]
#[derive(Debug)]
pub struct Call<T>(Outcome<T>);

impl<T> Call<T> {
    pub(crate) fn new(handle: JoinHandle<T>) -> Self {
        Self(Outcome(Ok(handle)))
    }

    /// Makes the result of a call to a reactor that does not exist.
    pub(crate) fn nowhere() -> Self {
        Self(Outcome(Err(Refusal::NoReactor)))
    }

    /// Returns `true` if the call has ended. Wait-free.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl<T> Future for Call<T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx)
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        // A complete task is left unchanged.
        self.0.abort();
    }
}
