//! Tasks that borrow from the thread that waits for them.

use core::fmt;
use core::marker::PhantomData;
use std::panic::resume_unwind;

use crate::Handle;
use crate::JoinHandle;
use crate::context::refuse_nested;
use crate::primitive::panics::contain;
use crate::primitive::sync::{Arc, Condvar, Mutex};
use crate::task::Setup;

/// Spawns tasks that may borrow data that outlives the scope: see [`Handle::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    handle: Handle,
    open: Arc<Open>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Number of tasks of a scope that are not complete.
struct Open {
    tasks: Mutex<usize>,
    none: Condvar,
}

/// Counts a task; part of its future, and dropped after it.
struct Counted(Arc<Open>);

impl Drop for Counted {
    fn drop(&mut self) {
        let mut tasks = self.0.tasks.lock();
        *tasks -= 1;
        let is_last = *tasks == 0;
        drop(tasks);
        if is_last {
            self.0.none.notify_all();
        }
    }
}

/// The future of a task of a scope. The fields are dropped in this order.
struct Scoped<F> {
    future: F,
    _counted: Counted,
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(
        self: core::pin::Pin<&mut Self>,
        cx: &mut core::task::Context<'_>,
    ) -> core::task::Poll<F::Output> {
        // SAFETY: the future is not moved out of its pin.
        unsafe { self.map_unchecked_mut(|this| &mut this.future) }.poll(cx)
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a task that may borrow for the duration of the scope. Its output must own its data.
    pub fn spawn<F>(&'scope self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'scope,
        F::Output: Send + 'static,
    {
        *self.open.tasks.lock() += 1;
        let future = Scoped {
            future,
            _counted: Counted(Arc::clone(&self.open)),
        };
        // SAFETY: `Handle::scope` returns only when the future is dropped, so what it borrows lives
        // until then; its output borrows nothing; both are `Send`.
        unsafe { self.handle.spawn_unchecked(future, Setup::default()) }
    }
}

impl Handle {
    /// Calls `f` with a scope, and returns when all tasks that were spawned in it are complete.
    /// Blocking.
    ///
    /// If a task panics, the scope still waits for all tasks, and the handle of that task returns
    /// the panic.
    ///
    /// # Panics
    ///
    /// If `f` panics; `scope` first waits until all tasks are complete. If `scope` is called
    /// inside an executor, because it would block the executor's thread.
    ///
    /// ```
    /// use rast_executor::Runtime;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let words = ["a", "rose", "is"];
    /// let letters = AtomicUsize::new(0);
    /// runtime.handle().scope(|scope| {
    ///     for word in &words {
    ///         let letters = &letters;
    ///         scope
    ///             .spawn(async move {
    ///                 letters.fetch_add(word.len(), Ordering::Relaxed);
    ///             })
    ///             .detach();
    ///     }
    /// });
    /// assert_eq!(letters.into_inner(), 7);
    /// ```
    ///
    /// A task cannot borrow data that does not outlive the scope:
    ///
    /// ```compile_fail,E0373
    /// let runtime = rast_executor::Runtime::new().unwrap();
    /// runtime.handle().scope(|scope| {
    ///     let local = 1;
    ///     scope.spawn(async { println!("{local}") }).detach();
    /// });
    /// ```
    pub fn scope<'env, R>(
        &self,
        f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    ) -> R {
        refuse_nested("Handle::scope");
        let scope = Scope {
            handle: self.clone(),
            open: Arc::new(Open {
                tasks: Mutex::new(0),
                none: Condvar::new(),
            }),
            scope: PhantomData,
            env: PhantomData,
        };
        let result = contain(|| f(&scope));
        let mut tasks = scope.open.tasks.lock();
        while *tasks > 0 {
            scope.open.none.wait(&mut tasks);
        }
        drop(tasks);
        match result {
            Ok(value) => value,
            Err(payload) => resume_unwind(payload),
        }
    }
}
