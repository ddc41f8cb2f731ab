//! Letting other tasks run.

use core::pin::Pin;
use core::task::{Context, Poll};

use crate::context;
use crate::task;

/// Yields once: the tasks that are ready run before the caller does.
///
/// If the caller is polled with the task's own waker, this costs no read-modify-write on the task.
/// If a combinator wraps the waker, the yield costs an ordinary wake-up.
///
/// ```
/// use rast_executor::{LocalExecutor, spawn_local, yield_now};
///
/// LocalExecutor::new().run(async {
///     let other = spawn_local(async {});
///     yield_now().await;
///     assert!(other.is_finished());
/// });
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { has_yielded: false }
}

/// The future of [`yield_now`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct YieldNow {
    has_yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_yielded {
            return Poll::Ready(());
        }
        self.has_yielded = true;
        let task = task::task_of(cx.waker());
        let is_noted = context::with(|context| match (context, task) {
            (Some(context), Some(task)) if context.task.get() == task => {
                context.yielded.set(true);
                true
            }
            _ => false,
        });
        if !is_noted {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}
