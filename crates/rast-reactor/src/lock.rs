//! Locks between tasks of one thread, which report deadlocks.
//!
//! A [`LockScope`] is a node of a wait-for graph. A wait borrows its scope, so a scope waits for at
//! most one lock at a time. A waiting scope has an edge to each scope that must release the lock
//! before it gets the lock: holders, and waiters ahead of it.
//!
//! ```text
//!   scope A ──waits for──► lock 1 ◄──holds── scope B ──waits for──► lock 2 ◄──holds── scope A
//!      ▲                                                                                 │
//!      └───────────────────── the wait that would close this is refused ─────────────────┘
//! ```
//!
//! The search for a cycle follows only the edges to holders, and is still exact:
//!
//! 1. A waiter ahead waits for the same lock, and for nothing else. So its edges lead to the
//!    holders of that lock, and to waiters further ahead, for which the same is true.
//! 2. Whatever the modes, a waiter needs all holders to release the lock. An exclusive request is
//!    compatible with no other. A shared one waits behind an exclusive holder, which is the only
//!    holder, or behind an exclusive waiter, which needs all holders to release.
//!
//! So the scopes that are reached through waiters ahead are those that are reached through holders.
//! Only the start of a wait can close a cycle: a grant adds edges to a scope that runs, and a
//! release, or the end of a wait, removes edges. So one search per wait finds every deadlock, and
//! refuses nothing else. A free lock needs no search.

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
    /// The lock for which it waits.
    waits_for: RefCell<Option<Rc<Core>>>,
    /// Whether a wait of this scope was refused.
    is_deadlocked: Cell<bool>,
}

/// The part of a lock without its value.
struct Core(RefCell<State>);

struct State {
    /// More than one only in shared mode.
    holders: Vec<Rc<Node>>,
    mode: Mode,
    line: Line<(Rc<Node>, Mode)>,
    /// Whether the current search has visited it.
    is_searched: Cell<bool>,
}

impl State {
    /// Returns `true` if a further scope may hold it in this mode.
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

    /// Acquires the lock if no holder excludes that and no scope waits.
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
        /// Removes the edge when the wait ends, in any way.
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
        // Dropped before the wait, which wakes other tasks when it leaves the wait list.
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

    /// Grants the lock to the first waiters, as many as may have it.
    fn grant(&self) {
        let mut ended = Ended::new();
        {
            let mut state = self.0.borrow_mut();
            while let Some((node, mode)) = state.line.first().map(|first| first.wants.clone()) {
                if !state.admits(mode) {
                    break;
                }
                // From here on the scope holds the lock and waits for none, even before it runs. A
                // scope whose wait was leaked may wait for another lock by now.
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

/// Returns `true` if `node` is reached from `lock`, so that a wait of `node` would close a cycle.
fn closes_cycle(lock: &Rc<Core>, node: &Rc<Node>) -> bool {
    search(lock, node).0
}

/// Searches for `node` among the holders that are reached from `lock`. Returns whether it is one,
/// and how many holders were visited: each lock that is reached is searched once.
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

/// A wait was refused, because it would have closed a cycle of waiting scopes.
///
/// Release all locks and start again, as [`retry`](crate::retry) does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlock;

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("to wait for this lock would be a deadlock")
    }
}

impl core::error::Error for Deadlock {}

/// A request that acquires locks: it waits for one at a time, and may hold several.
///
/// Make one for each request. A guard that is passed to another request still counts for the scope
/// that acquired it.
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
/// First come, first served: a shared request waits behind an earlier exclusive one. There is no
/// upgrade: a scope that holds the lock and requests it exclusively gets
/// [`Err(Deadlock)`](Deadlock).
///
/// Only waits for such locks are known: deadlocks through channels or calls are not found. A leaked
/// guard or wait holds its lock forever. Do not use a scope again after its wait was leaked,
/// because deadlocks of that wait are not found.
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

    /// Waits until no scope holds the lock exclusively, and no earlier request waits to do so.
    ///
    /// Cancel-safe: dropping the wait leaves the wait list, or releases the lock.
    ///
    /// # Errors
    ///
    /// [`Deadlock`] if `scope` would wait for itself through other scopes.
    pub async fn shared(&self, scope: &mut LockScope) -> Result<SharedGuard<'_, T>, Deadlock> {
        self.core.lock(scope, Mode::Shared).await?;
        Ok(SharedGuard {
            value: self.value.borrow(),
            _held: Held::new(&self.core, scope),
        })
    }

    /// Waits until no scope holds the lock, and no earlier request waits for it.
    ///
    /// Cancel-safe: dropping the wait leaves the wait list, or releases the lock.
    ///
    /// # Errors
    ///
    /// [`Deadlock`] if `scope` would wait for itself through other scopes, or holds the lock.
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

    /// Acquires the lock exclusively if it is free and no scope waits for it.
    #[must_use]
    pub fn try_exclusive(&self, scope: &mut LockScope) -> Option<ExclusiveGuard<'_, T>> {
        let is_taken = self.core.try_lock(scope, Mode::Exclusive);
        is_taken.then(|| ExclusiveGuard {
            value: self.value.borrow_mut(),
            _held: Held::new(&self.core, scope),
        })
    }

    /// Acquires the lock in shared mode if no scope holds it exclusively and none waits for it.
    #[must_use]
    pub fn try_shared(&self, scope: &mut LockScope) -> Option<SharedGuard<'_, T>> {
        let is_taken = self.core.try_lock(scope, Mode::Shared);
        is_taken.then(|| SharedGuard {
            value: self.value.borrow(),
            _held: Held::new(&self.core, scope),
        })
    }

    /// Returns a reference to the value without locking: `&mut self` shows that no scope holds the
    /// lock.
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

/// The right to a lock; dropping it releases the lock.
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

/// A lock held in shared mode.
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

/// A lock held exclusively.
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
