//! The commits of one owner in their order, and how far each reactor is.
//!
//! ```text
//!   owner                      nodes, oldest first                     reactors
//!   Writer ── first ──► 3 ──► 4 ──► 5 ──► 6 ◄── last      Follower: the node applied last
//!                       │           └────── reactor 1: at 5, pins 3    (a transaction reads 3)
//!                       └────────────────── reactor 2: at 3, parked
//! ```
//!
//! | word of a reactor | written by it | meaning |
//! | --- | --- | --- |
//! | `at` | after it has applied commits, before and after a park, at its end | the commit applied last, times two; the low bit says that it is parked |
//! | `pins` | before `at`, and when a transaction has ended | the last commit that its oldest open transaction sees; `u64::MAX` if none is open |
//!
//! Rules:
//!
//! 1. A reactor runs tasks only while its `at` says that it is not parked, and a transaction that
//!    it opens sees all commits up to its `at`.
//! 2. Before a reactor runs a task after a park, it applies every commit that it finds after the
//!    fence that follows the change of `at`.
//! 3. `pins` is lowered before `at` passes what it pins.
//! 4. The owner reads `at` before `pins`.
//! 5. A node is freed when the number in every `at` is above its own, parked or not.
//!
//! A commit n has *passed* a reactor if its `at` is parked or at least n, and its `pins` at least
//! n. Then no transaction there reads what n replaced, now or later:
//!
//! - If `at` is n or more, a later transaction sees n by rule 1. An earlier one that is still open
//!   and does not see n was open when `at` became n, so `pins` was below n by rule 3, and the owner
//!   reads that or a later value by rule 4. A later value says that the transaction has ended.
//! - If `at` is parked, there are two fences: the owner's, between the publication of n and its
//!   read of `at`, and the reactor's, between the end of its park and its look at the nodes. If the
//!   owner's is first, the reactor finds n and applies it before a task runs. If the reactor's is
//!   first, the owner reads an `at` that is no longer parked. So a parked reactor need not wake.
//!
//! FASTER's C++ code publishes the reader's epoch by a plain store without the second fence; here
//! a reader that comes from a park has it, and one that runs has nothing to publish.

use std_alloc::boxed::Box;
use std_alloc::collections::VecDeque;
use std_alloc::vec::Vec;

use crate::primitive::CachePadded;
use crate::primitive::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};
use crate::primitive::sync::{Arc, Mutex};

const PARKED: u64 = 1;
const ONE: u64 = 2;

/// How far one reactor is.
struct Cursor {
    at: AtomicU64,
    pins: AtomicU64,
}

struct Node<C> {
    number: u64,
    bytes: usize,
    next: AtomicPtr<Node<C>>,
    /// `None` in the first node alone.
    content: Option<C>,
}

impl<C> Node<C> {
    fn new(number: u64, bytes: usize, content: Option<C>) -> *mut Self {
        Box::into_raw(Box::new(Self {
            number,
            bytes,
            next: AtomicPtr::new(core::ptr::null_mut()),
            content,
        }))
    }
}

/// What is left when the owner is gone: its nodes and its resources.
struct Left<C> {
    first: *mut Node<C>,
    estate: Option<Box<dyn Send>>,
}

/// The part that the owner and all reactors share.
pub struct Ledger<C> {
    cursors: Box<[CachePadded<Cursor>]>,
    owner: usize,
    /// The owner sleeps and waits until reactors are further.
    waits: AtomicBool,
    left: Mutex<Left<C>>,
}

// SAFETY: the pointer in `left` is written by the writer at its end and read at the ledger's; nodes
// hold contents that may be shared and dropped on any thread.
unsafe impl<C: Send + Sync> Send for Ledger<C> {}
// SAFETY: as above, and the rest are atomics.
unsafe impl<C: Send + Sync> Sync for Ledger<C> {}

impl<C> Ledger<C> {
    /// The commits of `owner`, one of `reactors`: its writer, and a follower for each reactor.
    #[must_use]
    pub fn of(owner: usize, reactors: usize) -> (Writer<C>, Vec<Follower<C>>) {
        let first = Node::new(0, 0, None);
        let cursor = |_| {
            CachePadded::new(Cursor {
                at: AtomicU64::new(0),
                pins: AtomicU64::new(u64::MAX),
            })
        };
        let ledger = Arc::new(Self {
            cursors: (0..reactors).map(cursor).collect(),
            owner,
            waits: AtomicBool::new(false),
            left: Mutex::new(Left {
                first: core::ptr::null_mut(),
                estate: None,
            }),
        });
        let follower = |reactor| Follower {
            ledger: Arc::clone(&ledger),
            reactor,
            node: first,
            number: 0,
            later: VecDeque::new(),
            told: (0, u64::MAX),
        };
        let followers = (0..reactors).map(follower).collect();
        let writer = Writer {
            ledger,
            first,
            last: first,
            number: 0,
            estate: None,
        };
        (writer, followers)
    }

    /// Returns `true` if the owner is to be woken; the caller has published, and passed a fence.
    fn take_wait(&self) -> bool {
        // Relaxed: ordered by the fences; the owner looks again after it was woken.
        self.waits.load(Ordering::Relaxed) && self.waits.swap(false, Ordering::Relaxed)
    }
}

impl<C> Drop for Ledger<C> {
    fn drop(&mut self) {
        let left = {
            let mut left = self.left.lock();
            let none = core::ptr::null_mut();
            (
                core::mem::replace(&mut left.first, none),
                left.estate.take(),
            )
        };
        let mut node = left.0;
        while !node.is_null() {
            // SAFETY: the writer is gone, and so are the followers; each node was made by
            // `Node::new` and is taken once.
            let taken = unsafe { Box::from_raw(node) };
            // Relaxed: the last drop of the `Arc` comes after all that its holders did.
            node = taken.next.load(Ordering::Relaxed);
        }
    }
}

/// What the owner has learnt of all reactors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Each commit up to this one is applied by every reactor that runs.
    pub applied: u64,
    /// What commits up to this one replaced is read by no reactor.
    pub passed: u64,
    /// The least node that a reactor is at, parked or not.
    at: u64,
}

/// The owner's side of a ledger; on its thread alone.
pub struct Writer<C> {
    ledger: Arc<Ledger<C>>,
    first: *mut Node<C>,
    last: *mut Node<C>,
    number: u64,
    estate: Option<Box<dyn Send>>,
}

// SAFETY: as for `Ledger`: the nodes are its own to change, and their contents may be shared.
unsafe impl<C: Send + Sync> Send for Writer<C> {}

impl<C> Writer<C> {
    /// The number of the last commit.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The reactor that owns the ledger.
    #[must_use]
    pub fn owner(&self) -> usize {
        self.ledger.owner
    }

    /// Returns `true` if there are nodes that some reactor has not left behind.
    #[must_use]
    pub fn has_nodes(&self) -> bool {
        self.first != self.last
    }

    /// Publishes a commit; returns its number.
    pub fn push(&mut self, content: C, bytes: usize) -> u64 {
        self.number += 1;
        let node = Node::new(self.number, bytes, Some(content));
        // SAFETY: the last node is not freed while it is the last.
        let last = unsafe { &*self.last };
        // Release: pairs with the Acquire in `advance`; publishes the node, and all values that it
        // points to. [GE1]
        last.next.store(node, Ordering::Release);
        self.last = node;
        // SeqCst: pairs with GE9; either the scans that follow see that a reactor is no longer
        // parked, or that reactor finds the node when its park ends. [GE3]
        fence(Ordering::SeqCst);
        self.number
    }

    /// How far the reactors are.
    #[must_use]
    pub fn scan(&self) -> Scan {
        let mut scan = Scan {
            applied: self.number,
            passed: self.number,
            at: self.number,
        };
        for cursor in &self.ledger.cursors {
            // Acquire: pairs with GE5; the value of `pins` read next is not older than this one.
            // [GE6]
            let word = cursor.at.load(Ordering::Acquire);
            // Acquire: pairs with GE4; what transactions read until they ended comes before what
            // the owner does with it from here on. [GE7]
            let pins = cursor.pins.load(Ordering::Acquire);
            let at = word / ONE;
            scan.at = scan.at.min(at);
            if word & PARKED == 0 {
                scan.applied = scan.applied.min(at);
            }
            scan.passed = scan.passed.min(pins);
        }
        scan.passed = scan.passed.min(scan.applied);
        scan
    }

    /// The reactors that are parked at least `lag` commits behind.
    pub fn sleepers_behind(&self, lag: u64) -> impl Iterator<Item = usize> {
        let numbered = self.ledger.cursors.iter().enumerate();
        numbered.filter_map(move |(reactor, cursor)| {
            // Relaxed: they are woken to look, which is never wrong.
            let word = cursor.at.load(Ordering::Relaxed);
            let is_behind = self.number.saturating_sub(word / ONE) >= lag;
            (word & PARKED != 0 && is_behind).then_some(reactor)
        })
    }

    /// Returns `true` if [`free`](Self::free) would free a node.
    #[must_use]
    pub fn may_free(&self, scan: Scan) -> bool {
        // SAFETY: the first node is the writer's, and not freed yet.
        let first = unsafe { &*self.first };
        // The last node stays: a scan is at most at its number.
        first.number < scan.at
    }

    /// Frees the nodes that no reactor is at or before; returns their bytes.
    pub fn free(&mut self, scan: Scan) -> usize {
        let mut bytes = 0;
        while self.may_free(scan) {
            // SAFETY: the first node is the writer's, and not freed yet.
            let node = unsafe { &*self.first };
            bytes += node.bytes;
            // Relaxed: this thread has stored it.
            let next = node.next.load(Ordering::Relaxed);
            // SAFETY: made by `Node::new`; rule 5: every follower is at a later node, and goes on
            // from there.
            drop(unsafe { Box::from_raw(self.first) });
            self.first = next;
        }
        bytes
    }

    /// Has reactors wake the owner when they are further, until [`ends_wait`](Self::ends_wait). It
    /// passes a fence before it scans and sleeps.
    pub fn begin_wait(&self) {
        // Relaxed: ordered by the fence that the caller passes in `Reader::park`.
        self.ledger.waits.store(true, Ordering::Relaxed);
    }

    /// The owner is awake.
    pub fn end_wait(&self) {
        // Relaxed: a reactor that still sees the mark wakes an owner that is awake.
        self.ledger.waits.store(false, Ordering::Relaxed);
    }

    /// What is dropped when the last reactor is gone: the owner's resources.
    pub fn leave(&mut self, estate: Box<dyn Send>) {
        self.estate = Some(estate);
    }
}

impl<C> Drop for Writer<C> {
    fn drop(&mut self) {
        let mut left = self.ledger.left.lock();
        left.first = self.first;
        left.estate = self.estate.take();
    }
}

/// One reactor's side of a ledger; on its thread alone.
pub struct Follower<C> {
    ledger: Arc<Ledger<C>>,
    reactor: usize,
    node: *const Node<C>,
    number: u64,
    /// Commits that were applied after the oldest open transaction began, by the reactor's epoch.
    later: VecDeque<(u64, u64)>,
    /// What was published last: `at` and `pins`.
    told: (u64, u64),
}

// SAFETY: as for `Ledger`.
unsafe impl<C: Send + Sync> Send for Follower<C> {}

impl<C> Follower<C> {
    /// The commit that comes next, if there is one.
    fn advance(&mut self) -> Option<&C> {
        // SAFETY: rule 5: the node is not freed while `at` says that this reactor is there, or
        // before it.
        let node = unsafe { &*self.node };
        // Acquire: pairs with GE1; the node and the values that it points to are seen whole. [GE2]
        let next = node.next.load(Ordering::Acquire);
        if next.is_null() {
            return None;
        }
        self.node = next;
        self.number += 1;
        // SAFETY: as above.
        let node = unsafe { &*next };
        debug_assert_eq!(
            node.number, self.number,
            "ledger: nodes are numbered in order"
        );
        node.content.as_ref()
    }

    fn has_news(&self) -> bool {
        // SAFETY: as in `advance`.
        let node = unsafe { &*self.node };
        // Relaxed: it is looked at alone; ordered with `at` by the fence before.
        !node.next.load(Ordering::Relaxed).is_null()
    }

    /// The last commit that every open transaction sees; `oldest` is the epoch of the oldest one.
    fn pins(&mut self, oldest: Option<u64>) -> u64 {
        let Some(oldest) = oldest else {
            self.later.clear();
            return u64::MAX;
        };
        while self
            .later
            .front()
            .is_some_and(|&(epoch, _)| epoch <= oldest)
        {
            self.later.pop_front();
        }
        match self.later.front() {
            Some(&(_, number)) => number - 1,
            None => self.number,
        }
    }

    /// Publishes how far it is; returns whether that is news.
    fn publish(&mut self, oldest: Option<u64>, state: State) -> bool {
        let pins = self.pins(oldest);
        let at = match state {
            State::Runs => self.number * ONE,
            State::Parked => (self.number * ONE) | PARKED,
            State::Left => u64::MAX,
        };
        let cursor = &self.ledger.cursors[self.reactor];
        let before = core::mem::replace(&mut self.told, (at, pins));
        if pins != before.1 {
            // Release: pairs with GE7; what transactions read comes before their end. [GE4]
            cursor.pins.store(pins, Ordering::Release);
        }
        if at != before.0 {
            // Release: pairs with GE6; `pins` above comes before it. [GE5]
            cursor.at.store(at, Ordering::Release);
        }
        before != self.told
    }
}

/// What a reactor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    Parked,
    /// It has ended; transactions may be open still.
    Left,
}

/// A reactor as a reader of all ledgers; on its thread alone.
///
/// Its epoch counts the commits of all owners in the order in which it has applied them.
pub struct Reader<C> {
    followers: Vec<Follower<C>>,
    epoch: u64,
    state: State,
}

impl<C> Reader<C> {
    /// Reads by these followers, one of each ledger.
    #[must_use]
    pub fn new(followers: Vec<Follower<C>>) -> Self {
        Self {
            followers,
            epoch: 0,
            state: State::Runs,
        }
    }

    /// The number of commits that were applied.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Applies what was committed: calls `apply` with the new epoch and the commit. `is_read` says
    /// that a transaction is open.
    pub fn follow(&mut self, is_read: bool, mut apply: impl FnMut(u64, &C)) -> bool {
        let before = self.epoch;
        for follower in &mut self.followers {
            while let Some(content) = follower.advance() {
                self.epoch += 1;
                apply(self.epoch, content);
                if is_read {
                    follower.later.push_back((self.epoch, follower.number));
                }
            }
        }
        self.epoch != before
    }

    /// Publishes what was applied and which transaction is the oldest, once a turn. `wake` is
    /// called with owners that sleep until then.
    pub fn publish(&mut self, oldest: Option<u64>, mut wake: impl FnMut(usize)) {
        let state = self.state;
        let mut is_news = false;
        for follower in &mut self.followers {
            is_news |= follower.publish(oldest, state);
        }
        if is_news {
            announced();
            self.wake_owners(&mut wake);
        }
    }

    /// Before a sleep: publishes that the reactor is parked. Returns `false`, and it is not parked,
    /// if a commit came meanwhile.
    ///
    /// No user code runs from here to [`unpark`](Self::unpark): it could open a transaction.
    pub fn park(&mut self, oldest: Option<u64>, mut wake: impl FnMut(usize)) -> bool {
        debug_assert_eq!(self.state, State::Runs, "ledger: one park at a time");
        for follower in &mut self.followers {
            follower.publish(oldest, State::Parked);
        }
        self.state = State::Parked;
        announced();
        self.wake_owners(&mut wake);
        // If a commit came before the fence, its owner may not have seen that this one is parked,
        // and waits until it is applied.
        let is_behind = self.followers.iter().any(Follower::has_news);
        if is_behind {
            self.unpark(oldest);
        }
        !is_behind
    }

    /// After a sleep; commits are then to be followed before a task runs.
    pub fn unpark(&mut self, oldest: Option<u64>) {
        debug_assert_eq!(self.state, State::Parked, "ledger: it was parked");
        self.state = State::Runs;
        for follower in &mut self.followers {
            follower.publish(oldest, State::Runs);
        }
        // SeqCst: pairs with GE3; either the owner sees that this reactor is no longer parked, or
        // `advance` finds its commit. [GE9]
        fence(Ordering::SeqCst);
    }

    /// At the end of the reactor: it opens no more transactions.
    pub fn leave(&mut self, oldest: Option<u64>, wake: impl FnMut(usize)) {
        self.state = State::Left;
        self.publish(oldest, wake);
    }

    fn wake_owners(&self, wake: &mut impl FnMut(usize)) {
        for follower in &self.followers {
            // An owner does not wait for itself.
            let owner = follower.ledger.owner;
            if owner != follower.reactor && follower.ledger.take_wait() {
                wake(owner);
            }
        }
    }
}

/// The fence between what a thread has published and what it looks at next: of a reactor, whether
/// an owner waits; of an owner that is about to sleep, how far the reactors are.
fn announced() {
    // SeqCst: pairs with itself on another thread, and with GE3; of two threads that publish and
    // then look, one sees what the other published. [GE8]
    fence(Ordering::SeqCst);
}

impl<C> Drop for Reader<C> {
    fn drop(&mut self) {
        // The transactions of this reactor are gone: they hold it. No owner is woken, so the
        // request flags of owners that sleep are left for the others.
        for follower in &mut self.followers {
            follower.publish(None, State::Left);
        }
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_is_dropped_leaves_the_request_flag_to_the_others() {
        let (mut writer, followers) = Ledger::of(0, 3);
        let readers = followers
            .into_iter()
            .map(|one| Reader::new(Vec::from([one])));
        let mut readers: Vec<_> = readers.collect();
        writer.push((), 0);
        writer.begin_wait();
        drop(readers.pop());
        readers[1].follow(false, |_, ()| {});
        let mut woken = None;
        readers[1].publish(None, |owner| woken = Some(owner));
        assert_eq!(woken, Some(0));
    }
}
