//! Tasks for a `LocalExecutor` from other threads.
//!
//! The spawning thread makes the task and passes it through the injector, as a wake-up from another
//! thread does. At first the task contains only the closure, which is `Send`. The first poll, on
//! the executor's thread, calls the closure. This makes the future, which need not be `Send`.
//!
//! Rule: a task enters the executor's list of tasks immediately before it is pushed, not when it
//! enters a batch. So dropping an executor waits for no batch.

use core::fmt;
use std_alloc::boxed::Box;

use crate::chain::Chain;
use crate::local::Shared;
use crate::primitive::sync::Arc;
use crate::task::{FUTURE_MAX, JoinHandle, Made, Schedule, Setup, TaskRef, make};

/// Spawns tasks on a [`LocalExecutor`](crate::LocalExecutor) from any thread; made by
/// [`LocalExecutor::remote`](crate::LocalExecutor::remote).
///
/// The closure is sent to the executor and called there, so the future need not be `Send`. If the
/// executor was dropped, the caller drops the closure, and the handle returns an error.
///
/// Cost: an allocation, a lock, a compare-exchange, and a wake-up if no other task is queued. The
/// lock is one of four; the task's address determines which.
///
/// # Examples
///
/// ```
/// use rast_executor::{LocalExecutor, block_on};
/// use std::rc::Rc;
///
/// let executor = LocalExecutor::new();
/// let remote = executor.remote();
/// let other = std::thread::spawn(move || {
///     block_on(remote.spawn(|| {
///         let here = Rc::new(6);
///         async move { *here * 7 }
///     }))
/// });
/// executor.run(async {
///     while !other.is_finished() {
///         rast_executor::yield_now().await;
///     }
/// });
/// assert_eq!(other.join().unwrap().unwrap(), 42);
/// ```
#[derive(Clone)]
pub struct RemoteSpawner(pub(crate) Arc<Shared>);

impl RemoteSpawner {
    /// Makes the executor call `begin` and run the returned future.
    pub fn spawn<F, R>(&self, begin: F) -> JoinHandle<R::Output>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Future + 'static,
        R::Output: Send,
    {
        let (task, owned, handle) = self.make(begin);
        match self.0.owned.adopt(owned) {
            Ok(()) => self.0.schedule(task),
            Err(owned) => task.refuse(owned),
        }
        handle
    }

    /// Returns an empty batch of tasks for the executor.
    #[must_use]
    pub fn batch(&self) -> RemoteBatch {
        RemoteBatch {
            spawner: self.clone(),
            tasks: Chain::default(),
        }
    }

    fn make<F, R>(&self, begin: F) -> Made<R::Output>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Future + 'static,
        R::Output: Send,
    {
        let future = async move { begin().await };
        if size_of_val(&future) > FUTURE_MAX {
            // SAFETY: as below.
            return unsafe { make(Box::pin(future), Arc::clone(&self.0), Setup::default()) };
        }
        // SAFETY: 1. nothing is borrowed; 2. before its first poll the future contains only the
        // closure, which is `Send`, and only the executor's thread polls it.
        unsafe { make(future, Arc::clone(&self.0), Setup::default()) }
    }
}

impl fmt::Debug for RemoteSpawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteSpawner").finish_non_exhaustive()
    }
}

/// Tasks that are sent to an executor together, by one compare-exchange and at most one wake-up.
///
/// They run after [`send`](Self::send). Dropping a batch cancels the tasks that were not sent.
///
/// ```
/// use rast_executor::LocalExecutor;
///
/// let executor = LocalExecutor::new();
/// let mut batch = executor.remote().batch();
/// let (one, two) = (batch.spawn(|| async { 1 }), batch.spawn(|| async { 2 }));
/// assert_eq!(batch.len(), 2);
/// batch.send();
/// let sum = executor.run(async { one.await.unwrap() + two.await.unwrap() });
/// assert_eq!(sum, 3);
/// ```
pub struct RemoteBatch {
    spawner: RemoteSpawner,
    /// Each has a reference for the list, which it has not entered yet.
    tasks: Chain,
}

impl RemoteBatch {
    /// Adds a task. See [`RemoteSpawner::spawn`].
    pub fn spawn<F, R>(&mut self, begin: F) -> JoinHandle<R::Output>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Future + 'static,
        R::Output: Send,
    {
        let (task, owned, handle) = self.spawner.make(begin);
        let _ = owned.into_raw();
        self.tasks.push(task);
        handle
    }

    /// Returns how many tasks were added and not sent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns `true` if there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Sends the tasks, oldest first. If the executor was dropped, they are cancelled here.
    pub fn send(&mut self) {
        let shared = &self.spawner.0;
        let mut adopted = Chain::default();
        // The rejected tasks are cancelled last, because their destructors may take long.
        let mut refused = Chain::default();
        while let Some(task) = self.tasks.pop() {
            // SAFETY: `spawn` kept this reference, and it is taken once.
            let owned = unsafe { TaskRef::of_list(&task) };
            match shared.owned.adopt(owned) {
                Ok(()) => adopted.push(task),
                Err(owned) => {
                    let _ = owned.into_raw();
                    refused.push(task);
                }
            }
        }
        if shared.injector.push_all(adopted) {
            shared.wake();
        }
    }
}

impl fmt::Debug for RemoteBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteBatch")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
