//! The wait-for graph of the locks of a thread: scopes, the state of a lock, and its acquisition.
//!
//! A [`LockScope`] is a node of a wait-for graph. A wait borrows its scope, so a scope waits for at
//! most one lock at a time. A waiting scope has an edge to each scope that must release the lock
//! first: the holders, and the waiters ahead of it.
//!
//! ```text
//!   scope A ──waits for──► lock 1 ◄──holds── scope B ──waits for──► lock 2 ◄──holds── scope A
//!      ▲                                                                                 │
//!      └───────────────────── the wait that would close this is refused ─────────────────┘
//! ```
//!
//! The search for a cycle follows only the edges to holders, and is still exact:
//!
//! 1. A waiter ahead waits for the same lock. So its edges lead only to the holders of that lock
//!    and to waiters still further ahead.
//! 2. Every waiter needs all holders to release the lock. An exclusive request is compatible with
//!    no holder. A shared request waits for an exclusive holder, which is the only holder, or it
//!    waits behind an exclusive waiter, which needs all holders to release the lock.
//!
//! So if a cycle has an edge to a waiter, there is also a cycle that has only edges to holders.
//!
//! Only the start of a wait can close a cycle. A grant adds only edges to the scope that got the
//! lock, and that scope no longer waits, so no edges leave it. A release or the end of a wait
//! removes edges. So one search at the start of each wait finds every deadlock, and refuses nothing
//! else. A free lock needs no search.
//!
//! The acquisition of a free lock only records the holder, by its [`NodeId`], without a reference
//! count. Only a wait writes to the graph.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::mem::{self, ManuallyDrop};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

use crate::error::error;
use crate::line::{Ended, Line, Place, Wait};
use crate::nodes::{NodeId, Nodes};
use crate::primitive;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// The scopes of a thread, each with the lock for which it waits. Every lock and every scope has a
/// reference to it.
struct Graph(RefCell<Nodes<Rc<Core>>>);

primitive::thread_local! {
    /// The graph of the thread; null if there is none. It has no destructor, so it can also be read
    /// while the thread ends.
    static GRAPH: Cell<*const Graph> = const { Cell::new(core::ptr::null()) };
}

impl Graph {
    /// The graph of the thread.
    #[inline]
    fn current() -> Rc<Self> {
        let current = GRAPH.try_with(Cell::get).unwrap_or(core::ptr::null());
        if current.is_null() {
            return Self::start();
        }
        // SAFETY: `start` got the pointer from an `Rc` of this thread, and `drop` takes it away
        // when the last reference is given up, so there is one.
        unsafe { Rc::increment_strong_count(current) };
        // SAFETY: as above; this takes over the reference that was just added.
        unsafe { Rc::from_raw(current) }
    }

    #[cold]
    fn start() -> Rc<Self> {
        let graph = Rc::new(Self(RefCell::new(Nodes::new())));
        let _ = GRAPH.try_with(|current| current.set(Rc::as_ptr(&graph)));
        graph
    }

    /// Sets what a scope waits for.
    fn set(&self, node: NodeId, lock: Option<Rc<Core>>) {
        let old = {
            let mut nodes = self.0.borrow_mut();
            let waits_for = nodes.waits_for_mut(node);
            waits_for.map(|waits_for| mem::replace(waits_for, lock))
        };
        // After the borrow: the end of a lock drops wakers, which are user code.
        drop(old);
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let _ = GRAPH.try_with(|current| current.set(core::ptr::null()));
    }
}

/// The part of a lock without its value.
///
/// | bit of `word` | set while |
/// | --- | --- |
/// | `EXCLUSIVE` | `holder` holds the lock |
/// | `SHARED` | `sharers` hold the lock |
/// | `WAITED` | a scope is in `line` |
pub(crate) struct Core {
    word: Cell<u8>,
    /// The last scope that held the lock exclusively.
    holder: Cell<NodeId>,
    sharers: RefCell<Vec<NodeId>>,
    line: RefCell<Line<(NodeId, Mode)>>,
    /// Whether the current search has visited it.
    is_searched: Cell<bool>,
    graph: Rc<Graph>,
}

const FREE: u8 = 0;
const EXCLUSIVE: u8 = 1;
const SHARED: u8 = 1 << 1;
const WAITED: u8 = 1 << 2;

impl Core {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self {
            word: Cell::new(FREE),
            holder: Cell::new(NodeId::NONE),
            sharers: RefCell::new(Vec::new()),
            line: RefCell::new(Line::new()),
            is_searched: Cell::new(false),
            graph: Graph::current(),
        })
    }

    fn set(&self, bit: u8, to: bool) {
        let word = self.word.get();
        self.word.set(if to { word | bit } else { word & !bit });
    }

    /// Returns `true` if a further scope may hold it in this mode.
    fn admits(&self, mode: Mode) -> bool {
        let excludes = match mode {
            Mode::Shared => EXCLUSIVE,
            Mode::Exclusive => EXCLUSIVE | SHARED,
        };
        self.word.get() & excludes == 0
    }

    #[inline]
    fn hold(&self, node: NodeId, mode: Mode) {
        debug_assert!(self.admits(mode), "lock: shared ones hold it, or one");
        match mode {
            Mode::Shared => {
                self.sharers.borrow_mut().push(node);
                self.set(SHARED, true);
            }
            Mode::Exclusive => {
                self.holder.set(node);
                self.set(EXCLUSIVE, true);
            }
        }
    }

    /// Acquires the lock if no holder excludes that and no scope waits.
    #[inline]
    pub(crate) fn try_lock(&self, scope: &LockScope, mode: Mode) -> bool {
        let may = matches!((self.word.get(), mode), (FREE, _) | (SHARED, Mode::Shared));
        if may {
            self.hold(scope.node, mode);
        }
        may
    }

    #[inline]
    pub(crate) fn unlock_exclusive(&self) {
        debug_assert!(self.word.get() & EXCLUSIVE != 0, "lock: it was held");
        if self.word.get() == EXCLUSIVE {
            self.word.set(FREE);
        } else {
            self.unlock_slow(EXCLUSIVE);
        }
    }

    pub(crate) fn unlock_shared(&self, node: NodeId) {
        let is_last = {
            let mut sharers = self.sharers.borrow_mut();
            let at = sharers.iter().rposition(|&holder| holder == node);
            let released = at.map(|at| sharers.swap_remove(at));
            debug_assert!(released.is_some(), "lock: what is unlocked was held");
            sharers.is_empty()
        };
        if is_last {
            self.unlock_slow(SHARED);
        }
    }

    fn unlock_slow(&self, bit: u8) {
        self.set(bit, false);
        if self.word.get() & WAITED != 0 {
            self.grant();
        }
    }

    /// Grants the lock to the first waiters, as many as may have it.
    fn grant(&self) {
        let mut ended = Ended::new();
        self.line(|line| {
            while let Some((node, mode)) = line.first().map(|first| first.wants) {
                if !self.admits(mode) {
                    break;
                }
                // From here on the scope holds the lock and waits for none, even before it runs. A
                // scope whose wait was leaked may wait for another lock by now.
                if let Some(waits_for) = self.graph.0.borrow_mut().waits_for_mut(node) {
                    waits_for.take_if(|core| core::ptr::eq(&raw const **core, self));
                }
                self.hold(node, mode);
                line.serve(&mut ended);
            }
        });
        ended.wake();
    }

    /// Calls `f` with each holder.
    fn holders(&self, mut f: impl FnMut(NodeId)) {
        if self.word.get() & EXCLUSIVE != 0 {
            f(self.holder.get());
        }
        self.sharers.borrow().iter().copied().for_each(f);
    }
}

/// An acquisition, and what makes its guard.
pub(crate) struct Acquire<'a, 's, G> {
    core: &'a Rc<Core>,
    scope: &'s mut LockScope,
    mode: Mode,
    state: Acquisition,
    guard: G,
}

enum Acquisition {
    NotPolled,
    /// Dropped by [`Acquire::end`] alone, so that the other states need no drop.
    Waits(ManuallyDrop<Wait<Core>>),
    Ready,
}

impl<'a, 's, G> Acquire<'a, 's, G> {
    #[inline]
    pub(crate) fn new(core: &'a Rc<Core>, scope: &'s mut LockScope, mode: Mode, guard: G) -> Self {
        Self {
            core,
            scope,
            mode,
            state: Acquisition::NotPolled,
            guard,
        }
    }

    /// Waits for the lock, unless that would close a cycle.
    #[cold]
    fn poll_slow(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Deadlock>> {
        if let Acquisition::NotPolled = self.state {
            let node = self.scope.node;
            if closes_cycle(self.core, node) {
                self.state = Acquisition::Ready;
                self.scope.is_deadlocked = true;
                return Poll::Ready(Err(Deadlock));
            }
            let wait = Wait::new(self.core, (node, self.mode));
            self.state = Acquisition::Waits(ManuallyDrop::new(wait));
            self.core.graph.set(node, Some(Rc::clone(self.core)));
        }
        let Acquisition::Waits(wait) = &mut self.state else {
            panic!("a lock is polled after it was ready");
        };
        if Pin::new(&mut **wait).poll(cx).is_pending() {
            return Poll::Pending;
        }
        // No wait is refused once it has begun.
        self.end();
        Poll::Ready(Ok(()))
    }

    /// Ends a wait: one that was not served leaves the wait list.
    #[cold]
    fn end(&mut self) {
        // Before the wait is dropped, which wakes other tasks when it leaves the wait list.
        self.core.graph.set(self.scope.node, None);
        if let Acquisition::Waits(wait) = mem::replace(&mut self.state, Acquisition::Ready) {
            drop(ManuallyDrop::into_inner(wait));
        }
    }
}

impl<R, G: FnMut(&LockScope) -> R + Unpin> Future for Acquire<'_, '_, G> {
    type Output = Result<R, Deadlock>;

    // Always inlined: a call would cost more than the rest of the function.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let is_new = matches!(this.state, Acquisition::NotPolled);
        if is_new && this.core.try_lock(this.scope, this.mode) {
            this.state = Acquisition::Ready;
        } else if let Err(refused) = ready!(this.poll_slow(cx)) {
            return Poll::Ready(Err(refused));
        }
        Poll::Ready(Ok((this.guard)(this.scope)))
    }
}

impl<G> Drop for Acquire<'_, '_, G> {
    #[inline]
    fn drop(&mut self) {
        if let Acquisition::Waits(_) = self.state {
            self.end();
        }
    }
}

impl Place for Core {
    type Wants = (NodeId, Mode);

    fn line<R>(&self, f: impl FnOnce(&mut Line<Self::Wants>) -> R) -> R {
        let mut line = self.line.borrow_mut();
        let result = f(&mut line);
        self.set(WAITED, !line.is_empty());
        result
    }

    fn give_back(&self, &(node, mode): &Self::Wants) {
        match mode {
            Mode::Shared => self.unlock_shared(node),
            Mode::Exclusive => self.unlock_exclusive(),
        }
    }

    fn left(&self) {
        self.grant();
    }
}

/// Returns `true` if `node` is reached from `lock`, so that a wait of `node` would close a cycle.
fn closes_cycle(lock: &Rc<Core>, node: NodeId) -> bool {
    // Nearly always no holder waits, which needs no list of locks.
    let mut ends_here = true;
    {
        let nodes = lock.graph.0.borrow();
        lock.holders(|holder| ends_here &= holder != node && nodes.waits_for(holder).is_none());
    }
    !ends_here && search(lock, node).0
}

/// Searches for `node` among the holders that are reached from `lock`. Returns whether it is one,
/// and how many holders were visited: each lock that is reached is searched once.
fn search(lock: &Rc<Core>, node: NodeId) -> (bool, usize) {
    let nodes = lock.graph.0.borrow();
    let mut locks: Vec<&Rc<Core>> = Vec::new();
    let reach = |lock, locks: &mut Vec<_>| {
        let lock: &Rc<Core> = lock;
        if !lock.is_searched.replace(true) {
            locks.push(lock);
        }
    };
    reach(lock, &mut locks);
    let (mut at, mut looked_at, mut is_reached) = (0, 0, false);
    while at < locks.len() && !is_reached {
        let lock = locks[at];
        at += 1;
        lock.holders(|holder| {
            looked_at += 1;
            is_reached |= holder == node;
            if let Some(next) = nodes.waits_for(holder) {
                reach(next, &mut locks);
            }
        });
    }
    for lock in locks {
        lock.is_searched.set(false);
    }
    (is_reached, looked_at)
}

/// A wait was refused, because it would have closed a cycle of waiting scopes.
///
/// Release all locks and start again, as [`retry`](crate::retry) does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlock;

error!(Deadlock, "to wait for this lock would be a deadlock");

/// The owner of locks, made for one request. It waits for one lock at a time, and may hold several.
///
/// Make one for each request. A guard that is passed to another request still belongs to the scope
/// that acquired it.
///
/// Cost: a few loads and stores. A thread with a [`Lock`](crate::Lock) has a table of its scopes,
/// which allocates when it grows and keeps its memory until no scope is left.
pub struct LockScope {
    graph: Rc<Graph>,
    pub(crate) node: NodeId,
    is_deadlocked: bool,
}

impl LockScope {
    /// Makes a scope that holds nothing.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        let graph = Graph::current();
        let node = graph.0.borrow_mut().add();
        Self {
            graph,
            node,
            is_deadlocked: false,
        }
    }

    /// Returns `true` if a wait of this scope was refused.
    #[must_use]
    pub fn is_deadlocked(&self) -> bool {
        self.is_deadlocked
    }

    fn is_waiting(&self) -> bool {
        self.graph.0.borrow().waits_for(self.node).is_some()
    }
}

impl Default for LockScope {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for LockScope {
    #[inline]
    fn drop(&mut self) {
        // It is set only if a wait was leaked.
        let waits_for = self.graph.0.borrow_mut().remove(self.node);
        // After the borrow: the end of a lock drops wakers, which are user code.
        drop(waits_for);
    }
}

impl fmt::Debug for LockScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockScope")
            .field("is_waiting", &self.is_waiting())
            .field("is_deadlocked", &self.is_deadlocked())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_search_looks_at_each_lock_once() {
        const MANY: usize = 1000;
        let (first, second) = (Core::new(), Core::new());
        let scopes: Vec<_> = (0..2 * MANY).map(|_| LockScope::new()).collect();
        for pair in scopes.chunks(2) {
            first.hold(pair[0].node, Mode::Shared);
            second.hold(pair[1].node, Mode::Shared);
            first.graph.set(pair[0].node, Some(Rc::clone(&second)));
        }
        let (one, other) = (LockScope::new(), LockScope::new());
        assert_eq!(search(&first, one.node), (false, 2 * MANY));
        // Nothing of the first search is left.
        assert_eq!(search(&first, one.node), (false, 2 * MANY));
        second.hold(one.node, Mode::Shared);
        assert!(closes_cycle(&first, one.node) && closes_cycle(&second, one.node));
        assert_eq!(search(&first, other.node), (false, 2 * MANY + 1));
    }

    #[test]
    fn a_holder_that_was_dropped_is_no_later_scope() {
        let (lock, next) = (Core::new(), Core::new());
        let scope = LockScope::new();
        assert!(lock.try_lock(&scope, Mode::Exclusive));
        drop(scope);
        // It has the place of the scope that was dropped, and does not hold the lock.
        let other = LockScope::new();
        assert!(!closes_cycle(&lock, other.node));
        other.graph.set(other.node, Some(Rc::clone(&next)));
        assert_eq!(search(&lock, other.node), (false, 1));
        lock.unlock_exclusive();
        assert_eq!(lock.word.get(), FREE);
    }

    #[test]
    fn the_graph_ends_with_the_last_lock_and_scope() {
        let (lock, scope) = (Core::new(), LockScope::new());
        let graph = Rc::downgrade(&lock.graph);
        assert!(Rc::ptr_eq(&lock.graph, &scope.graph));
        drop(lock);
        assert!(graph.upgrade().is_some());
        drop(scope);
        assert!(graph.upgrade().is_none());
        let scope = LockScope::new();
        assert!(Rc::ptr_eq(&Core::new().graph, &scope.graph));
    }
}
