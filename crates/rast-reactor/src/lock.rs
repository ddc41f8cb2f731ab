//! Locks between tasks of one thread, which report deadlocks: the value and its guards.
//!
//! `wait_graph` has the rest: which scopes hold a lock, which wait for it, and the search for
//! deadlocks.

use core::cell::{Ref, RefCell, RefMut};
use core::fmt;
use core::ops::{Deref, DerefMut};
use std_alloc::rc::Rc;

use crate::nodes::NodeId;
use crate::wait_graph::{Acquire, Core, Deadlock, LockScope, Mode};

/// A shared or exclusive lock for the tasks of one thread. It may be held across awaits.
///
/// First come, first served: a shared request waits behind an earlier exclusive one. A
/// [`LockScope`] owns all locks that one request to the service holds. A shared lock cannot be
/// upgraded: a scope that holds the lock and requests it exclusively gets
/// [`Err(Deadlock)`](Deadlock).
///
/// Deadlocks through channels or calls are not found. A leaked guard or wait holds its lock
/// forever. Do not use a scope again after its wait was leaked, because deadlocks in which the
/// leaked wait takes part are not found.
///
/// Cost: if the lock is free, a few loads and stores, and no atomic operation. If many scopes share
/// the lock, the time of a release is linear in their number. A wait allocates, and searches the
/// wait-for graph for a cycle.
///
/// # Examples
///
/// ```
/// use rast_reactor::executor::LocalExecutor;
/// use rast_reactor::{Deadlock, Lock, LockScope};
///
/// let (here, there) = (Lock::new(1), Lock::new(2));
/// LocalExecutor::new().run(async {
///     let (mut one, mut two) = (LockScope::new(), LockScope::new());
///     let first = here.exclusive(&mut one).await.unwrap();
///     let second = there.shared(&mut two).await.unwrap();
///     // `one` waits for `two`; if `two` waited for `one` both would wait for ever.
///     let waits = async {
///         let second = there.exclusive(&mut one).await.unwrap();
///         *first + *second
///     };
///     let refused = async {
///         assert_eq!(here.shared(&mut two).await.err(), Some(Deadlock));
///         drop(second);
///         0
///     };
///     let waits: std::pin::Pin<Box<dyn Future<Output = i32>>> = Box::pin(waits);
///     let sums = rast_reactor::all_results([waits, Box::pin(refused)]).await;
///     assert_eq!(sums, [3, 0]);
/// });
/// ```
///
/// Guards stay on their thread:
///
/// ```compile_fail,E0277
/// fn moves<T: Send>() {}
/// moves::<rast_reactor::SharedGuard<'static, u32>>();
/// ```
pub struct Lock<T> {
    core: Rc<Core>,
    /// Borrowed only while the lock is held, so no borrow fails.
    value: RefCell<T>,
}

impl<T> Lock<T> {
    /// Makes a free lock.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self {
            core: Core::new(),
            value: RefCell::new(value),
        }
    }

    /// Waits until no scope holds the lock exclusively, and no earlier exclusive request waits.
    ///
    /// Cancel-safe: dropping the wait leaves the wait list, or releases the lock.
    ///
    /// # Errors
    ///
    /// [`Deadlock`] if `scope` would wait for itself through other scopes.
    #[inline]
    pub fn shared<'a>(
        &'a self,
        scope: &mut LockScope,
    ) -> impl Future<Output = Result<SharedGuard<'a, T>, Deadlock>> {
        Acquire::new(&self.core, scope, Mode::Shared, |scope: &LockScope| {
            self.shared_guard(scope)
        })
    }

    /// Waits until no scope holds the lock, and no earlier request waits for it.
    ///
    /// Cancel-safe: dropping the wait leaves the wait list, or releases the lock.
    ///
    /// # Errors
    ///
    /// [`Deadlock`] if `scope` would wait for itself through other scopes, or holds the lock.
    #[inline]
    pub fn exclusive<'a>(
        &'a self,
        scope: &mut LockScope,
    ) -> impl Future<Output = Result<ExclusiveGuard<'a, T>, Deadlock>> {
        Acquire::new(&self.core, scope, Mode::Exclusive, |_: &LockScope| {
            self.exclusive_guard()
        })
    }

    /// Acquires the lock exclusively if it is free and no scope waits for it.
    #[must_use]
    pub fn try_exclusive(&self, scope: &mut LockScope) -> Option<ExclusiveGuard<'_, T>> {
        let is_taken = self.core.try_lock(scope, Mode::Exclusive);
        is_taken.then(|| self.exclusive_guard())
    }

    /// Acquires the lock in shared mode if no scope holds it exclusively and none waits for it.
    #[must_use]
    pub fn try_shared(&self, scope: &mut LockScope) -> Option<SharedGuard<'_, T>> {
        let is_taken = self.core.try_lock(scope, Mode::Shared);
        is_taken.then(|| self.shared_guard(scope))
    }

    /// The guard of a lock that `scope` has just acquired in shared mode.
    #[inline]
    fn shared_guard(&self, scope: &LockScope) -> SharedGuard<'_, T> {
        SharedGuard {
            value: self.value.borrow(),
            _held: HeldShared {
                core: &self.core,
                node: scope.node,
            },
        }
    }

    /// The guard of a lock that a scope has just acquired exclusively.
    #[inline]
    fn exclusive_guard(&self) -> ExclusiveGuard<'_, T> {
        ExclusiveGuard {
            value: self.value.borrow_mut(),
            _held: HeldExclusive(&self.core),
        }
    }

    /// Returns the value without locking: `&mut self` shows that no scope holds the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: Default> Default for Lock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Held meanwhile, since the value's code may try to lock it.
        match self.try_shared(&mut LockScope::new()) {
            Some(value) => f.debug_tuple("Lock").field(&*value).finish(),
            None => f.write_str("Lock(<locked>)"),
        }
    }
}

/// A lock that a scope holds in shared mode; dropping it releases the lock.
struct HeldShared<'a> {
    core: &'a Core,
    node: NodeId,
}

impl Drop for HeldShared<'_> {
    fn drop(&mut self) {
        self.core.unlock_shared(self.node);
    }
}

/// A lock that a scope holds exclusively; dropping it releases the lock.
struct HeldExclusive<'a>(&'a Core);

impl Drop for HeldExclusive<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.unlock_exclusive();
    }
}

/// A lock held in shared mode.
#[must_use = "the lock is released when the guard is dropped"]
pub struct SharedGuard<'a, T> {
    // In this order: the borrow ends before the lock is passed on.
    value: Ref<'a, T>,
    _held: HeldShared<'a>,
}

impl<T: fmt::Debug> fmt::Debug for SharedGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedGuard").field(&**self).finish()
    }
}

impl<T> Deref for SharedGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// A lock held exclusively.
#[must_use = "the lock is released when the guard is dropped"]
pub struct ExclusiveGuard<'a, T> {
    // In this order: the borrow ends before the lock is passed on.
    value: RefMut<'a, T>,
    _held: HeldExclusive<'a>,
}

impl<T: fmt::Debug> fmt::Debug for ExclusiveGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExclusiveGuard").field(&**self).finish()
    }
}

impl<T> Deref for ExclusiveGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for ExclusiveGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
