//! The budget of a task: how many operations may be ready in one poll.

use core::cell::Cell;
use core::future::poll_fn;
use core::task::{Context, Poll};

use crate::primitive;

/// Default number of operations that may be ready in one poll.
pub(crate) const DEFAULT: u32 = 128;

/// Budget outside a task.
pub(crate) const UNLIMITED: u32 = u32::MAX;

/// Limit of the budget of a task, exclusive. Greater values mean that it is spent, and count the
/// operations that were refused since.
pub(crate) const MAX: u32 = 1 << 30;

/// Maximum number of refused operations per poll. Further ones are ready again: the poll is
/// probably a loop, such as the `block_on` of another crate, which would never return.
const REFUSED_MAX: u32 = 1 << 16;

primitive::thread_local! {
    /// How many more operations of the task that is being polled may be ready.
    static LEFT: Cell<u32> = const { Cell::new(UNLIMITED) };
}

/// The budget of the calling thread; unlimited if the thread is ending.
#[inline]
fn left() -> u32 {
    LEFT.try_with(Cell::get).unwrap_or(UNLIMITED)
}

/// Sets the budget of the calling thread; returns the old one.
#[inline]
pub(crate) fn replace(budget: u32) -> u32 {
    let replace = |left: &Cell<u32>| left.replace(budget);
    LEFT.try_with(replace).unwrap_or(UNLIMITED)
}

/// Subtracts one from the budget of the task; if it is spent, wakes the task and returns `Pending`.
///
/// Outside a task there is no limit.
pub(crate) fn spend(cx: &mut Context<'_>) -> Poll<()> {
    let left = left();
    let is_left = match left {
        UNLIMITED => true,
        1..MAX => {
            replace(left - 1);
            true
        }
        _ => {
            let refused = left.max(MAX) - MAX;
            replace(MAX + (refused + 1).min(REFUSED_MAX));
            refused == REFUSED_MAX
        }
    };
    if is_left {
        return Poll::Ready(());
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Subtracts one from the task's budget, and yields if the budget is spent.
///
/// The operations of this crate (joins, sleeps, sockets) do this themselves. Call this function in
/// loops over other operations that may always be ready, such as reads of a channel that is never
/// empty. Outside a task it returns at once. Cost: an access to a thread-local counter.
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
/// assert_eq!(seen, 129); // a budget of 128, and the turn that found it spent
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
        runtime.block_on(async {
            consume_budget().await;
            assert_eq!(left(), UNLIMITED);
        });
    }
}
