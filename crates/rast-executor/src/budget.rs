//! The budget of a task: how many operations may be ready in one poll.

use core::future::poll_fn;
use core::task::{Context, Poll};

use crate::context;

/// Operations that may be ready in one poll, unless the builder says otherwise.
pub(crate) const DEFAULT: u32 = 128;

/// The budget of what runs outside of a task.
pub(crate) const UNLIMITED: u32 = u32::MAX;

/// The largest budget of a task. A value from here on means that the budget is spent, and how many
/// operations were refused since.
pub(crate) const MAX: u32 = 1 << 30;

/// How many operations of one poll are refused. After that they are ready again: the poll contains
/// a loop that polls until it is ready, such as the `block_on` of another crate, and would never
/// return.
const REFUSED_MAX: u32 = 1 << 16;

/// Takes one from the budget of the task; when it is spent, wakes the task and returns `Pending`.
///
/// Outside of a task there is no limit.
pub(crate) fn spend(cx: &mut Context<'_>) -> Poll<()> {
    let is_left = context::with(|context| {
        let Some(context) = context else {
            return true;
        };
        let left = context.budget.get();
        match left {
            UNLIMITED => true,
            1..MAX => {
                context.budget.set(left - 1);
                true
            }
            _ => {
                let refused = left.max(MAX) - MAX;
                context.budget.set(MAX + (refused + 1).min(REFUSED_MAX));
                refused == REFUSED_MAX
            }
        }
    });
    if is_left {
        return Poll::Ready(());
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Takes one from the task's budget, and yields if that is spent.
///
/// The operations of this crate (joins, sleeps, sockets) do so by themselves. For loops over
/// operations of others that are always ready, such as a channel that never runs empty.
/// Outside of a task it returns at once. Cost: a thread-local and a counter.
///
/// ```
/// use rast_executor::{LocalExecutor, consume_budget, spawn_local};
/// use std::{cell::Cell, rc::Rc};
///
/// let turns = Rc::new(Cell::new(0));
/// let theirs = Rc::clone(&turns);
/// let seen = LocalExecutor::new().run(async move {
///     spawn_local(async move {
///         loop {
///             theirs.set(theirs.get() + 1);
///             consume_budget().await;
///         }
///     })
///     .detach();
///     rast_executor::yield_now().await;
///     turns.get()
/// });
/// assert_eq!(seen, 129);
/// ```
pub async fn consume_budget() {
    poll_fn(spend).await;
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn what_runs_outside_of_a_task_spends_nothing() {
        let runtime = crate::Runtime::builder().workers(1).build().unwrap();
        let left = || context::with(|context| context.unwrap().budget.get());
        runtime.block_on(async {
            consume_budget().await;
            assert_eq!(left(), UNLIMITED);
        });
    }
}
