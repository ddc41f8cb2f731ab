//! Calls from a task to other reactors, and to the pool.
//!
//! A call is a task of the target's executor. The caller makes it and sends it with the other calls
//! of the turn; it begins at its first poll. Its handle returns the result, the panic, or that the
//! target has stopped; dropping the handle aborts the call. So the only protocol that calls add to
//! tasks is that of the credits.

use core::panic::Location;
use std_alloc::vec::Vec;

use rast_executor::queue::Full;

use crate::all::all_results;
use crate::error::CallError;
use crate::here::{Credit, Here, LaneOf, OUTSIDE, here};
use crate::line::Wait;
use crate::origin::Origin;
use crate::pool::Policy;
use crate::primitive::sync::Arc;
use crate::spawned::Call;
use crate::watched::{Entry, Watched};

/// Sends a call with the credit that it has.
fn send<F, R>(
    here: &Here,
    lane: &LaneOf,
    credit: Credit,
    line: &'static Location<'static>,
    begin: F,
) -> Call<R::Output>
where
    F: FnOnce() -> R + Send + 'static,
    R: Future + 'static,
    R::Output: Send,
{
    let shared = Arc::clone(&here.shared);
    let reactor = lane.target;
    let handle = here.stage(lane, |batch| {
        batch.spawn(move || {
            // The closure begins, so the call returns its credit.
            drop(credit);
            Watched {
                future: async move { begin().await },
                entry: Entry::of_call(shared, reactor, Origin { name: None, line }),
            }
        })
    });
    Call::new(handle)
}

/// Sends a call as soon as there is a credit, and awaits its result.
async fn call<F, R>(
    here: &Here,
    target: usize,
    line: &'static Location<'static>,
    begin: F,
) -> Result<R::Output, CallError>
where
    F: FnOnce() -> R + Send + 'static,
    R: Future + 'static,
    R::Output: Send,
{
    let lane = here.lane(target).ok_or(CallError::NoReactor)?;
    let credit = match lane.try_take() {
        Some(credit) => credit,
        None => {
            let wait = Wait::new(lane, ());
            // Ends the wait now if there is a credit; otherwise a returned credit ends it.
            lane.serve();
            wait.await;
            lane.taken()
        }
    };
    let call = send(here, lane, credit, line, begin);
    let _awaited = here.awaits();
    call.await
}

/// Calls `begin` on the reactor `target`, runs the returned future on that reactor, and returns the
/// future's output.
///
/// From one reactor to another at most 1,024 calls may be sent but not begun; each of them holds a
/// credit. Further calls wait for a credit, first come first served. A call returns its credit when
/// the closure begins, before the closure can make calls of its own. So reactors that call each
/// other cannot deadlock. All calls that a reactor makes to one target in one turn of its loop are
/// sent together at the end of the turn. They begin in the order of the calls, but tasks that other
/// threads have sent to the target may run between them.
///
/// If the returned future is dropped, the call is cancelled on the target's thread: a closure that
/// has not begun is dropped, and a running future is dropped at its next await. If the target has
/// stopped, the caller drops the closure.
///
/// Cost: an allocation and two locks that are seldom contended. The calls of a turn to one target
/// share one atomic exchange and one wake-up. A reactor that awaits a result, and has no other
/// task, spins briefly before it sleeps. If the result does not arrive during such spins, the
/// reactor spins less often.
///
/// # Errors
///
/// [`CallError::Panicked`] with the payload; [`CallError::Stopped`] if the target has stopped;
/// [`CallError::NoReactor`] if there is no reactor `target`.
///
/// # Panics
///
/// Outside of a reactor, when it is polled.
///
/// ```
/// use rast_reactor::{Reactors, current, reactor_task};
///
/// let reactors = Reactors::builder().number(2).build().unwrap();
/// let task = reactors.reactor(0).unwrap().spawn(|| async {
///     reactor_task(1, || async { current().unwrap().index() }).await.unwrap()
/// });
/// assert_eq!(rast_reactor::executor::block_on(task).unwrap(), 1);
/// ```
///
/// The call stays on its reactor:
///
/// ```compile_fail,E0277
/// fn moves<T: Send>(_: T) {}
/// moves(rast_reactor::reactor_task(1, || async {}));
/// ```
#[track_caller]
pub fn reactor_task<F, R>(
    target: usize,
    begin: F,
) -> impl Future<Output = Result<R::Output, CallError>>
where
    F: FnOnce() -> R + Send + 'static,
    R: Future + 'static,
    R::Output: Send,
{
    let line = Location::caller();
    async move {
        let here = here().expect(OUTSIDE);
        call(&here, target, line, begin).await
    }
}

/// As [`reactor_task`], but never waits for a credit: if none is free, it returns the closure.
///
/// # Errors
///
/// [`Full`] with the closure if 1,024 calls from this reactor to `target` are sent but not begun,
/// or if earlier calls from this reactor to `target` wait for a credit. If there is no reactor
/// `target`, awaiting the returned call yields [`CallError::NoReactor`].
///
/// # Panics
///
/// Outside of a reactor.
///
/// ```
/// use rast_reactor::{Reactors, try_reactor_task};
///
/// let reactors = Reactors::builder().number(2).build().unwrap();
/// let task = reactors.reactor(0).unwrap().spawn(|| async {
///     let call = try_reactor_task(1, || async { 1 }).unwrap_or_else(|_| panic!("it is idle"));
///     call.await.unwrap()
/// });
/// assert_eq!(rast_reactor::executor::block_on(task).unwrap(), 1);
/// ```
#[track_caller]
pub fn try_reactor_task<F, R>(target: usize, begin: F) -> Result<Call<R::Output>, Full<F>>
where
    F: FnOnce() -> R + Send + 'static,
    R: Future + 'static,
    R::Output: Send,
{
    let here = here().expect(OUTSIDE);
    let Some(lane) = here.lane(target) else {
        return Ok(Call::nowhere());
    };
    match lane.try_take() {
        Some(credit) => Ok(send(&here, lane, credit, Location::caller(), begin)),
        None => Err(Full(begin)),
    }
}

/// Calls `begin` on every other reactor, as [`reactor_task`] does; returns the results in the order
/// of the reactors.
///
/// # Panics
///
/// Outside of a reactor, when it is polled.
///
/// ```
/// use rast_reactor::{Reactors, current, reactors_task};
///
/// let reactors = Reactors::builder().number(3).build().unwrap();
/// let task = reactors.reactor(1).unwrap().spawn(|| async {
///     let results = reactors_task(|| async { current().unwrap().index() }).await;
///     results.into_iter().map(Result::unwrap).collect::<Vec<_>>()
/// });
/// assert_eq!(rast_reactor::executor::block_on(task).unwrap(), [0, 2]);
/// ```
#[track_caller]
pub fn reactors_task<F, R>(begin: F) -> impl Future<Output = Vec<Result<R::Output, CallError>>>
where
    F: FnOnce() -> R + Clone + Send + 'static,
    R: Future + 'static,
    R::Output: Send,
{
    let line = Location::caller();
    async move {
        let here = here().expect(OUTSIDE);
        let others = (0..here.shared.seats.len()).filter(|&target| target != here.index);
        let calls = others.map(|target| {
            let begin = begin.clone();
            call(&here, target, line, begin)
        });
        all_results(calls).await
    }
}

/// Runs `task` in the background pool of the reactors; the reactor continues meanwhile.
///
/// The tasks that the reactor makes in one turn of its loop are passed to the pool together at the
/// end of the turn, under one lock. Dropping the handle cancels the task if it has not begun.
///
/// # Errors
///
/// [`Full`] with the closure if the queue of the policy is at the pool's capacity, 65,536 tasks by
/// default. The handle returns [`CallError::Panicked`] with the payload if the task panicked, and
/// [`CallError::Stopped`] if the pool dropped the task.
///
/// # Panics
///
/// Outside of a reactor.
///
/// ```
/// use rast_reactor::{Policy, Reactors, background_task};
///
/// let reactors = Reactors::builder().number(1).build().unwrap();
/// let task = reactors.reactor(0).unwrap().spawn(|| async {
///     let parsed = background_task(Policy::Medium, || "42".parse::<u32>());
///     parsed.unwrap_or_else(|_| panic!("it is idle")).await.unwrap()
/// });
/// assert_eq!(rast_reactor::executor::block_on(task).unwrap(), Ok(42));
/// ```
pub fn background_task<T, F>(policy: Policy, task: F) -> Result<Call<T>, Full<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let here = here().expect(OUTSIDE);
    let (entry, call) = here.shared.pool.shared.admit(policy, task)?;
    here.stage_job(entry);
    Ok(call)
}
