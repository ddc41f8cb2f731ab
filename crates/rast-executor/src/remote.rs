//! Tasks for a `LocalExecutor` from other threads.
//!
//! A task is made on the thread that spawns it and passes through the injector, as a wake-up from
//! elsewhere does. Its future begins as the closure, which is `Send`; the first poll, on the
//! executor's thread, makes the future itself, which need not be.
//!
//! Rule: a task enters the list of the executor immediately before it is pushed, not when it enters
//! a batch. So an executor that is dropped waits for no batch.

use core::fmt;
use std_alloc::boxed::Box;

use crate::chain::Chain;
use crate::local::Shared;
use crate::primitive::sync::Arc;
use crate::task::{FUTURE_MAX, JoinHandle, Schedule, Setup, Task, TaskRef, make};

/// Spawns tasks on a [`LocalExecutor`](crate::LocalExecutor) from any thread; made by
/// [`LocalExecutor::remote`](crate::LocalExecutor::remote).
///
/// The closure is sent and called there, so the future need not be `Send`.
/// Once the executor is gone the closure is dropped by the caller, and the handle returns an error.
///
/// Cost: an allocation, a lock that the executor's other spawns share, an exchange, and a wake-up
/// if no other task is on its way.
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
pub struct RemoteSpawner(Arc<Shared>);

impl RemoteSpawner {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Has the executor call `begin` and run its future.
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
            tasks: Chain::new(),
        }
    }

    fn make<F, R>(&self, begin: F) -> (Task, TaskRef, JoinHandle<R::Output>)
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
        // SAFETY: 1. nothing is borrowed; 2. before its first poll the future holds the closure
        // alone, which is `Send`, and the executor's thread alone polls it.
        unsafe { make(future, Arc::clone(&self.0), Setup::default()) }
    }
}

impl fmt::Debug for RemoteSpawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteSpawner").finish_non_exhaustive()
    }
}

/// Tasks that are sent to an executor together, by one exchange and at most one wake-up.
///
/// They run after [`send`](Self::send). A batch that is dropped cancels those that were not sent.
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
    /// Each has the reference of the list that it is not in yet.
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

    /// How many tasks were added and not sent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns `true` if there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Sends the tasks, oldest first. If the executor is gone they are cancelled here.
    pub fn send(&mut self) {
        let shared = &self.spawner.0;
        let mut adopted = Chain::new();
        // They are cancelled last: their destructors may take long, and the executor waits for what
        // it has adopted.
        let mut refused = Chain::new();
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
