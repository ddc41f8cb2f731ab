//! The commits of one owner (a reactor that changes resources), in order, and how far each reactor
//! has applied them.
//!
//! ```text
//!   owner                      nodes, oldest first                     reactors
//!   Writer ── first ──► 3 ──► 4 ──► 5 ──► 6 ◄── last      Follower: the node applied last
//!                       │           └────── reactor 1: at 5, pins 3    (a transaction reads 3)
//!                       └────────────────── reactor 2: at 3, parked
//! ```
//!
//! | word of a reactor | written by the reactor | meaning |
//! | --- | --- | --- |
//! | `at` | after it has applied commits, before and after a park, at its end | the last applied commit, times two; the low bit is set while it is parked |
//! | `pins` | before each write of `at`, and when a transaction has ended | the last commit that its oldest open transaction sees; `u64::MAX` if none is open |
//!
//! Rules:
//!
//! 1. A reactor runs tasks only while it is not parked. A transaction that it opens sees all
//!    commits up to its `at`.
//! 2. To end a park, a reactor changes `at`, executes a fence, and applies every commit that it
//!    then finds. Only afterwards it runs a task.
//! 3. Before `at` becomes larger than the last commit that an open transaction sees, `pins` is
//!    lowered to that commit.
//! 4. The owner loads `at` before `pins`.
//! 5. A node is freed when the number in every `at`, parked or not, is above the node's number.
//!
//! A commit n has *passed* a reactor if the owner finds both: the reactor's `at` is parked or at
//! least n, and its `pins` is at least n. Then no transaction on that reactor, open or later, reads
//! what n replaced:
//!
//! - If `at` is n or more, a later transaction sees n by rule 1. A transaction that does not see n
//!   was open when `at` became n, so `pins` was below n by rule 3. By rule 4 the owner loads this
//!   value of `pins` or a later one. So if the owner loads n or more from `pins`, the transaction
//!   has ended.
//! - If `at` is parked, the order of two fences decides. The owner executes its fence between the
//!   publication of n and its load of `at`. The reactor executes its fence between the end of its
//!   park and its check of the nodes. If the owner's fence is first, the reactor finds n and
//!   applies it before it runs a task. If the reactor's fence is first, the owner does not find
//!   `at` parked. Thus a commit can pass a reactor that stays parked, and the owner frees what the
//!   commit replaced without waking the reactor.

use std_alloc::boxed::Box;
use std_alloc::collections::VecDeque;
use std_alloc::vec::Vec;

use super::retired::shorten;
use crate::primitive::CachePadded;
use crate::primitive::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};
use crate::primitive::sync::{Arc, Mutex};

const PARKED: u64 = 1;
const ONE: u64 = 2;

/// The progress of one reactor.
struct Cursor {
    at: AtomicU64,
    pins: AtomicU64,
}

struct Node<C> {
    number: u64,
    bytes: usize,
    next: AtomicPtr<Node<C>>,
    /// `None` only in the first node.
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

/// The rest after the owner's end: its nodes and its resources.
struct Left<C> {
    first: *mut Node<C>,
    estate: Option<Box<dyn Send>>,
}

/// The part that the owner and all reactors share.
pub struct Ledger<C> {
    cursors: Box<[CachePadded<Cursor>]>,
    owner: usize,
    /// Whether the owner sleeps and waits for the progress of reactors.
    waits: AtomicBool,
    left: Mutex<Left<C>>,
}

// SAFETY: the pointer in `left` is written when the writer ends, and read when the ledger is
// dropped; nodes hold contents that may be shared and dropped on any thread.
unsafe impl<C: Send + Sync> Send for Ledger<C> {}
// SAFETY: as above, and the rest are atomics.
unsafe impl<C: Send + Sync> Sync for Ledger<C> {}

impl<C> Ledger<C> {
    /// Makes the ledger of `owner`, one of `reactors`: its writer, and one follower per reactor.
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
        };
        (writer, followers)
    }

    /// Returns `true` if the owner must be woken. The caller has published, and made a fence.
    fn take_wait(&self) -> bool {
        // Relaxed: ordered by the fences; the owner checks again after it was woken.
        self.waits.load(Ordering::Relaxed) && self.waits.swap(false, Ordering::Relaxed)
    }
}

impl<C> Drop for Ledger<C> {
    fn drop(&mut self) {
        // The estate is dropped with the fields, after the nodes.
        let mut node = self.left.get_mut().first;
        while !node.is_null() {
            // SAFETY: the writer is gone, and so are the followers; each node was made by
            // `Node::new` and is taken once.
            let taken = unsafe { Box::from_raw(node) };
            // Relaxed: the last drop of the `Arc` comes after all that its holders did.
            node = taken.next.load(Ordering::Relaxed);
        }
    }
}

/// The owner's view of all reactors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Every running reactor has applied each commit up to this one.
    pub applied: u64,
    /// No reactor reads what commits up to this one replaced.
    pub passed: u64,
    /// The lowest `at` of a reactor, parked or not.
    at: u64,
}

/// The owner's side of a ledger; used only on its thread.
pub struct Writer<C> {
    ledger: Arc<Ledger<C>>,
    first: *mut Node<C>,
    last: *mut Node<C>,
    number: u64,
}

// SAFETY: as for `Ledger`: the nodes are its own to change, and their contents may be shared.
unsafe impl<C: Send + Sync> Send for Writer<C> {}

impl<C> Writer<C> {
    /// Returns the number of the last commit.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the reactor that owns the ledger.
    #[must_use]
    pub fn owner(&self) -> usize {
        self.ledger.owner
    }

    /// Returns `true` if some reactor has not passed all nodes.
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

    /// Returns the progress of the reactors.
    #[must_use]
    pub fn scan(&self) -> Scan {
        let mut scan = Scan {
            applied: self.number,
            passed: self.number,
            at: self.number,
        };
        for cursor in &self.ledger.cursors {
            // Acquire: pairs with GE5; the value of `pins` loaded next is not older than this one.
            // [GE6]
            let word = cursor.at.load(Ordering::Acquire);
            // Acquire: pairs with GE4; reads of ended transactions happen before what the owner
            // does from here on. [GE7]
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

    /// Returns the reactors that are parked at least `lag` commits behind.
    pub fn sleepers_behind(&self, lag: u64) -> impl Iterator<Item = usize> {
        let numbered = self.ledger.cursors.iter().enumerate();
        numbered.filter_map(move |(reactor, cursor)| {
            // Relaxed: a reactor may be woken needlessly, which is harmless.
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

    /// Frees the nodes before every reactor's `at`; returns their bytes.
    pub fn free(&mut self, scan: Scan) -> usize {
        let mut bytes = 0;
        while self.may_free(scan) {
            // SAFETY: the first node is the writer's, and not freed yet.
            let node = unsafe { &*self.first };
            bytes += node.bytes;
            // Relaxed: this thread stored it.
            let next = node.next.load(Ordering::Relaxed);
            // SAFETY: made by `Node::new`; rule 5: every follower is at a later node, and continues
            // from there.
            drop(unsafe { Box::from_raw(self.first) });
            self.first = next;
        }
        bytes
    }

    /// Requests that reactors wake the owner when they progress, until
    /// [`end_wait`](Self::end_wait). The owner makes a fence before it scans and sleeps.
    pub fn begin_wait(&self) {
        // Relaxed: ordered by the fence in `Reader::park`.
        self.ledger.waits.store(true, Ordering::Relaxed);
    }

    /// Ends the request of [`begin_wait`](Self::begin_wait).
    pub fn end_wait(&self) {
        // Relaxed: a reactor that still sees the flag wakes an owner that is awake.
        self.ledger.waits.store(false, Ordering::Relaxed);
    }

    /// Leaves the owner's resources to the ledger; they are dropped when the last reactor is gone.
    pub fn leave(&mut self, estate: Box<dyn Send>) {
        self.ledger.left.lock().estate = Some(estate);
    }
}

impl<C> Drop for Writer<C> {
    fn drop(&mut self) {
        self.ledger.left.lock().first = self.first;
    }
}

/// One reactor's side of a ledger; used only on its thread.
pub struct Follower<C> {
    ledger: Arc<Ledger<C>>,
    reactor: usize,
    node: *const Node<C>,
    number: u64,
    /// The reactor's epochs of commits applied since the oldest open transaction started.
    later: VecDeque<(u64, u64)>,
    /// The values published last: `at` and `pins`.
    told: (u64, u64),
}

// SAFETY: as for `Ledger`.
unsafe impl<C: Send + Sync> Send for Follower<C> {}

impl<C> Follower<C> {
    /// Returns the next commit, if there is one.
    fn advance(&mut self) -> Option<&C> {
        // SAFETY: rule 5: the node is not freed while `at` is at this node or before it.
        let node = unsafe { &*self.node };
        // Acquire: pairs with GE1; the node and the values that it points to are initialised. [GE2]
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
        // Relaxed: only compared with null; the fence before orders it with `at`.
        !node.next.load(Ordering::Relaxed).is_null()
    }

    /// Returns the last commit that every open transaction sees; `oldest` is the epoch of the
    /// oldest one.
    fn pins(&mut self, oldest: Option<u64>) -> u64 {
        let Some(oldest) = oldest else {
            self.later.clear();
            shorten(&mut self.later);
            return u64::MAX;
        };
        while self
            .later
            .front()
            .is_some_and(|&(epoch, _)| epoch <= oldest)
        {
            self.later.pop_front();
        }
        shorten(&mut self.later);
        match self.later.front() {
            Some(&(_, number)) => number - 1,
            None => self.number,
        }
    }

    /// Publishes the progress; returns `true` if it has changed.
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
            // Release: pairs with GE7; the reads of transactions happen before the publication of
            // their end. [GE4]
            cursor.pins.store(pins, Ordering::Release);
        }
        if at != before.0 {
            // Release: pairs with GE6; `pins` above is stored before it. [GE5]
            cursor.at.store(at, Ordering::Release);
        }
        before != self.told
    }
}

/// The state of a reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Runs,
    Parked,
    /// It has ended; transactions may still be open.
    Left,
}

/// A reactor as a reader of all ledgers; used only on its thread.
///
/// Its epoch counts the commits of all owners in the order in which it has applied them.
pub struct Reader<C> {
    followers: Vec<Follower<C>>,
    epoch: u64,
    state: State,
}

impl<C> Reader<C> {
    /// Makes a reader of these followers, one per ledger.
    #[must_use]
    pub fn new(followers: Vec<Follower<C>>) -> Self {
        Self {
            followers,
            epoch: 0,
            state: State::Runs,
        }
    }

    /// Returns the number of applied commits.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Applies new commits: calls `apply` with the new epoch and the commit. `is_read` is `true` if
    /// a transaction is open.
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

    /// Publishes what was applied, and which transaction is the oldest, once per turn. Calls `wake`
    /// for owners that wait for it.
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

    /// Publishes, before a sleep, that the reactor is parked. Returns `false`, and the reactor is
    /// not parked, if a commit came meanwhile.
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
        // If a commit came before the fence, its owner may not have seen that this reactor is
        // parked, and would wait until the commit is applied.
        let is_behind = self.followers.iter().any(Follower::has_news);
        if is_behind {
            self.unpark(oldest);
        }
        !is_behind
    }

    /// Ends a park. Commits must then be applied before a task runs.
    pub fn unpark(&mut self, oldest: Option<u64>) {
        debug_assert_eq!(self.state, State::Parked, "ledger: it was parked");
        self.state = State::Runs;
        for follower in &mut self.followers {
            follower.publish(oldest, State::Runs);
        }
        // SeqCst: pairs with GE3; either the owner sees that this reactor is no longer parked, or
        // `advance` finds the owner's commit. [GE9]
        fence(Ordering::SeqCst);
    }

    /// Publishes the end of the reactor, which opens no further transactions.
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

/// The fence between what a thread has published and what it loads next. A reactor loads whether an
/// owner waits. An owner that is about to sleep loads the progress of the reactors.
fn announced() {
    // SeqCst: pairs with itself on another thread, and with GE3; of two threads that publish and
    // then load, at least one sees what the other published. [GE8]
    fence(Ordering::SeqCst);
}

impl<C> Drop for Reader<C> {
    fn drop(&mut self) {
        // The transactions of this reactor have ended, because they keep it alive. No owner is
        // woken, so the requests of sleeping owners are left for other reactors.
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

    #[test]
    fn a_list_of_later_commits_that_was_long_is_short_again() {
        const MANY: u64 = 10_000;
        let (mut writer, followers) = Ledger::of(0, 1);
        let mut reader = Reader::new(followers);
        for _ in 0..MANY {
            writer.push((), 0);
        }
        reader.follow(true, |_, ()| {});
        // An older transaction has ended, and a newer one is open.
        reader.publish(Some(MANY - 2), |_| {});
        let later = &reader.followers[0].later;
        assert_eq!(later.len(), 2);
        assert!(later.capacity() <= 1024, "{}", later.capacity());
    }
}
