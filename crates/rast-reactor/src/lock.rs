//! Locks between tasks of one thread, which report deadlocks.
//!
//! A [`LockScope`] is a node of a wait-for graph: it waits for at most one lock at a time, since a
//! wait borrows it. A scope that waits has an edge to each scope that must let go before it gets
//! the lock: holders, and waiters ahead.
//!
//! ```text
//!   scope A ──waits for──► lock 1 ◄──holds── scope B ──waits for──► lock 2 ◄──holds── scope A
//!      ▲                                                                                 │
//!      └───────────────────── the wait that would close this is refused ─────────────────┘
//! ```
//!
//! The search for a cycle follows the edges to holders alone, and is still exact:
//!
//! 1. A waiter ahead waits for the same lock, and for nothing else. So its edges lead to the
//!    holders of that lock, and to waiters further ahead, of which the same is true.
//! 2. Whatever the modes are, one that waits needs all holders to let go. An exclusive one is not
//!    compatible with any. A shared one waits behind an exclusive holder, which is the only one, or
//!    behind an exclusive waiter, which needs all of them to go.
//!
//! So the scopes that are reached through waiters ahead are those that are reached through holders.
//! A cycle can only be closed by a wait that begins: a grant gives edges to a scope that runs, and
//! a release or a wait that ends takes edges away. So one search for each wait finds every
//! deadlock, and refuses nothing else. A lock that is free costs no search.

use core::cell::{Cell, Ref, RefCell, RefMut};
use core::fmt;
use core::ops::{Deref, DerefMut};
use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

use crate::line::{Ended, Line, Place, Wait};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Shared,
    Exclusive,
}

/// A scope in the graph.
#[derive(Default)]
struct Node {
    /// The lock that it waits for.
    waits_for: RefCell<Option<Rc<Core>>>,
    /// A wait of it was refused.
    is_deadlocked: Cell<bool>,
}

/// The part of a lock without its value.
struct Core(RefCell<State>);

struct State {
    /// Many if the mode is shared.
    holders: Vec<Rc<Node>>,
    mode: Mode,
    line: Line<(Rc<Node>, Mode)>,
    /// The search at hand was here.
    is_searched: Cell<bool>,
}

impl State {
    /// Returns `true` if one more may hold it.
    fn admits(&self, mode: Mode) -> bool {
        self.holders.is_empty() || (mode, self.mode) == (Mode::Shared, Mode::Shared)
    }

    fn hold(&mut self, node: Rc<Node>, mode: Mode) {
        debug_assert!(self.admits(mode), "lock: shared ones hold it, or one");
        self.holders.push(node);
        self.mode = mode;
    }
}

impl Core {
    fn new() -> Rc<Self> {
        Rc::new(Self(RefCell::new(State {
            holders: Vec::new(),
            mode: Mode::Shared,
            line: Line::new(),
            is_searched: Cell::new(false),
        })))
    }

    /// Takes the lock if none is in its way or waits.
    fn try_lock(&self, scope: &LockScope, mode: Mode) -> bool {
        let mut state = self.0.borrow_mut();
        let may = state.line.is_empty() && state.admits(mode);
        if may {
            state.hold(Rc::clone(&scope.node), mode);
        }
        may
    }

    /// Waits for the lock, unless that would close a cycle.
    async fn lock(self: &Rc<Self>, scope: &mut LockScope, mode: Mode) -> Result<(), Deadlock> {
        if self.try_lock(scope, mode) {
            return Ok(());
        }
        self.lock_slow(&scope.node, mode).await
    }

    #[cold]
    async fn lock_slow(self: &Rc<Self>, node: &Rc<Node>, mode: Mode) -> Result<(), Deadlock> {
        /// The edge is gone when the wait ends, however it does.
        struct Edge<'a>(&'a Node);
        impl Drop for Edge<'_> {
            fn drop(&mut self) {
                self.0.waits_for.take();
            }
        }
        if closes_cycle(self, node) {
            node.is_deadlocked.set(true);
            return Err(Deadlock);
        }
        let mut wait = Wait::new(self, (Rc::clone(node), mode));
        node.waits_for.replace(Some(Rc::clone(self)));
        // Dropped before the wait, which wakes others as it leaves the line.
        let _edge = Edge(node);
        let is_served = (&mut wait).await;
        debug_assert!(is_served, "lock: no wait is refused once it has begun");
        Ok(())
    }

    fn unlock(&self, node: &Rc<Node>) {
        let released = {
            let mut state = self.0.borrow_mut();
            let at = state
                .holders
                .iter()
                .rposition(|holder| Rc::ptr_eq(holder, node));
            at.map(|at| state.holders.swap_remove(at))
        };
        debug_assert!(released.is_some(), "lock: what is unlocked was held");
        self.grant();
    }

    /// Gives the lock to those in front that may have it.
    fn grant(&self) {
        let mut ended = Ended::new();
        {
            let mut state = self.0.borrow_mut();
            while let Some((node, mode)) = state.line.first().map(|first| first.wants.clone()) {
                if !state.admits(mode) {
                    break;
                }
                // From here on it holds the lock and waits for none, also before it runs. A scope
                // whose wait was forgotten may wait for another lock since.
                node.waits_for
                    .borrow_mut()
                    .take_if(|core| core::ptr::eq(&raw const **core, self));
                state.hold(node, mode);
                state.line.serve(&mut ended);
            }
        }
        ended.wake();
    }
}

impl Place for Core {
    type Wants = (Rc<Node>, Mode);

    fn line<R>(&self, f: impl FnOnce(&mut Line<Self::Wants>) -> R) -> R {
        f(&mut self.0.borrow_mut().line)
    }

    fn give_back(&self, (node, _): &Self::Wants) {
        self.unlock(node);
    }

    fn left(&self) {
        self.grant();
    }
}

/// Returns `true` if `node` is reached from `lock`: a wait of it would close a cycle.
fn closes_cycle(lock: &Rc<Core>, node: &Rc<Node>) -> bool {
    search(lock, node).0
}

/// Searches `node` among the holders that are reached from `lock`. Returns whether it is one, and
/// how many holders were looked at: each lock that is reached is searched once.
fn search(lock: &Rc<Core>, node: &Rc<Node>) -> (bool, usize) {
    let mut locks: Vec<Rc<Core>> = Vec::new();
    let reach = |lock: &Rc<Core>, locks: &mut Vec<Rc<Core>>| {
        if !lock.0.borrow().is_searched.replace(true) {
            locks.push(Rc::clone(lock));
        }
    };
    reach(lock, &mut locks);
    let (mut at, mut looked_at, mut is_reached) = (0, 0, false);
    while at < locks.len() && !is_reached {
        let lock = Rc::clone(&locks[at]);
        at += 1;
        for holder in &lock.0.borrow().holders {
            looked_at += 1;
            is_reached |= Rc::ptr_eq(holder, node);
            if let Some(next) = &*holder.waits_for.borrow() {
                reach(next, &mut locks);
            }
        }
    }
    for lock in locks {
        lock.0.borrow().is_searched.set(false);
    }
    (is_reached, looked_at)
}

/// A wait was refused: it would have closed a cycle of scopes that wait for each other.
///
/// Let go of all locks and begin again, as [`retry`](crate::retry) does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlock;

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("to wait for this lock would be a deadlock")
    }
}

impl core::error::Error for Deadlock {}

/// A request that takes locks: it waits for one at a time, and may hold many.
///
/// Make one for each request. A guard that another request is given still counts for the scope that
/// took it.
#[derive(Default)]
pub struct LockScope {
    node: Rc<Node>,
}

impl LockScope {
    /// Makes a scope that holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns `true` if a wait of this scope was refused.
    #[must_use]
    pub fn is_deadlocked(&self) -> bool {
        self.node.is_deadlocked.get()
    }
}

impl fmt::Debug for LockScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockScope")
            .field("is_waiting", &self.node.waits_for.borrow().is_some())
            .field("is_deadlocked", &self.is_deadlocked())
            .finish_non_exhaustive()
    }
}

/// A lock between the tasks of one thread, shared or exclusive, held across awaits.
///
/// First come, first served: a shared request waits behind an exclusive one that came before. There
/// is no upgrade: a scope that holds the lock and asks for it exclusively gets
/// [`Err(Deadlock)`](Deadlock).
///
/// Known are the waits for such locks alone: tasks that wait for each other by channels or calls
/// are not found. What is forgotten, a guard or a wait, holds its lock for ever; do not use a scope
/// again whose wait was forgotten, because deadlocks of that wait are not found.
///
/// Cost: if the lock is free, a few loads and stores, and no atomic operation; a release by one of
/// many shared holders is linear in their number. A wait allocates, and searches the scopes that
/// are reached through holders.
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
    /// Borrowed as the lock is held, so no borrow of it fails.
    value: RefCell<T>,
}

impl<T> Lock<T> {
    /// Makes a lock that is free.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self {
            core: Core::new(),
            value: RefCell::new(value),
        }
    }

    /// Waits until no scope holds the lock exclusively, nor waited for that before.
    ///
    /// Cancel-safe: dropping the wait gives up its place, or the lock.
    ///
    /// # Errors
    ///
    /// [`Deadlock`] if `scope` would wait for itself through others.
    pub async fn shared(&self, scope: &mut LockScope) -> Result<SharedGuard<'_, T>, Deadlock> {
        self.core.lock(scope, Mode::Shared).await?;
        Ok(SharedGuard {
            value: self.value.borrow(),
            _held: Held::new(&self.core, scope),
        })
    }

    /// Waits until no scope holds the lock, nor waited for it before.
    ///
    /// Cancel-safe: dropping the wait gives up its place, or the lock.
    ///
    /// # Errors
    ///
    /// [`Deadlock`] if `scope` would wait for itself through others, or holds the lock.
    pub async fn exclusive(
        &self,
        scope: &mut LockScope,
    ) -> Result<ExclusiveGuard<'_, T>, Deadlock> {
        self.core.lock(scope, Mode::Exclusive).await?;
        Ok(ExclusiveGuard {
            value: self.value.borrow_mut(),
            _held: Held::new(&self.core, scope),
        })
    }

    /// Takes the lock if it is free and none waits for it.
    #[must_use]
    pub fn try_exclusive(&self, scope: &mut LockScope) -> Option<ExclusiveGuard<'_, T>> {
        let is_taken = self.core.try_lock(scope, Mode::Exclusive);
        is_taken.then(|| ExclusiveGuard {
            value: self.value.borrow_mut(),
            _held: Held::new(&self.core, scope),
        })
    }

    /// Takes the lock if none holds it exclusively and none waits for it.
    #[must_use]
    pub fn try_shared(&self, scope: &mut LockScope) -> Option<SharedGuard<'_, T>> {
        let is_taken = self.core.try_lock(scope, Mode::Shared);
        is_taken.then(|| SharedGuard {
            value: self.value.borrow(),
            _held: Held::new(&self.core, scope),
        })
    }

    /// Reaches the value without locking: `&mut self` shows that nothing holds it.
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

/// The right to a lock; dropping it lets go.
pub(crate) struct Held {
    core: Rc<Core>,
    node: Rc<Node>,
}

impl Held {
    fn new(core: &Rc<Core>, scope: &LockScope) -> Self {
        Self {
            core: Rc::clone(core),
            node: Rc::clone(&scope.node),
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.core.unlock(&self.node);
    }
}

/// A lock that is held, with others that share it.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct SharedGuard<'a, T> {
    // In this order: the borrow ends before the lock is passed on.
    value: Ref<'a, T>,
    _held: Held,
}

impl<T> Deref for SharedGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// A lock that is held alone.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct ExclusiveGuard<'a, T> {
    // In this order: the borrow ends before the lock is passed on.
    value: RefMut<'a, T>,
    _held: Held,
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

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_search_looks_at_each_lock_once() {
        const MANY: usize = 1000;
        let (first, second) = (Core::new(), Core::new());
        for _ in 0..MANY {
            let (one, two) = (Rc::<Node>::default(), Rc::<Node>::default());
            first.0.borrow_mut().hold(Rc::clone(&one), Mode::Shared);
            second.0.borrow_mut().hold(two, Mode::Shared);
            one.waits_for.replace(Some(Rc::clone(&second)));
        }
        let node = Rc::default();
        assert_eq!(search(&first, &node), (false, 2 * MANY));
        // Nothing of the first search is left.
        assert_eq!(search(&first, &node), (false, 2 * MANY));
        second.0.borrow_mut().hold(Rc::clone(&node), Mode::Shared);
        assert!(closes_cycle(&first, &node) && closes_cycle(&second, &node));
        assert_eq!(search(&first, &Rc::default()), (false, 2 * MANY + 1));
    }
}
