//! Waiting for a future on a thread that runs no tasks.

use core::pin::pin;
use core::task::{Context, Poll};

use crate::context::refuse_nested;
use crate::primitive::Parker;
use crate::wakers::waker_of;

/// Polls `future` on the calling thread until it is ready; the thread sleeps in between. Blocking.
///
/// It provides no timers and cannot spawn: see [`Runtime::block_on`](crate::Runtime::block_on) and
/// [`LocalExecutor::run`](crate::LocalExecutor::run).
///
/// # Panics
///
/// If it is called inside a task, because it would block the task's thread.
///
/// ```
/// assert_eq!(rast_executor::block_on(async { 6 * 7 }), 42);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    refuse_nested("block_on");
    wait(future)
}

/// As [`block_on`], without checking the context.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    let parker = Parker::new();
    let waker = waker_of(parker.unparker());
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        parker.park();
    }
}
