//! The list of sleeping workers, and the choice of the worker that a new task wakes.
//!
//! ```text
//!   63                          25 24 23        12 11         0
//!  ┌──────────────────────────────┬──┬────────────┬────────────┐
//!  │ epoch                        │ E│ searching  │ active     │     E: the runtime has ended
//!  └──────────────────────────────┴──┴────────────┴────────────┘
//! ```
//!
//! | worker that finds no task | thread that queued a task |
//! | --- | --- |
//! | S1 `search`: searching + 1; check all queues | N1 queue the task |
//! | S2 `prepare`: active - 1, searching - 1, record the epoch | N2 fence |
//! | S3 fence | N3 load the word: return if a worker searches, or all are active |
//! | S4 check all queues; if there is a task, `resume` | N4 lock: epoch + 1 |
//! | S5 `enlist`: lock; if the epoch has changed, resume; else enter the list of sleepers | N5 if no worker searches, remove a sleeper from the list, and count it as active and searching |
//! | S6 unlock and sleep until a wake-up | N6 unlock and wake that worker |
//!
//! The lemmas of Q. Fu, "Build an Async Runtime for Rust from Scratch", as they apply here:
//!
//! - **A** (while a worker is active, the others are woken): deliberately not kept. Here a sleeper
//!   is woken only when there is a task for it.
//! - **B** (a worker at S5 does not miss a new epoch): if N4 takes the lock before the worker does
//!   at S5, the worker sees the new epoch. Otherwise N5 sees the worker in the list.
//! - **C** (a queued task is seen): by the fences N2 and S3, either S4 sees the task, or N3 sees
//!   that the worker is not active, and B applies. If N3 returns because a worker searches, that
//!   worker finds the task, finds another one, or finds none and goes through S2 to S4 itself. If
//!   it finds another task and is the last searcher, it checks the queues again, and wakes a worker
//!   if they have a task (`found`). If it is not the last searcher, another worker still searches.
//!   A searcher may take more tasks than the one that it runs. It queues the others before it ends
//!   its search, so S4 of the remaining searcher sees them.
//! - **D** (no deadlock): if all workers sleep, all queues are empty, because C applies to the
//!   thread that queued a task.
//!
//! Changes: Fu's runtime increments the epoch for each task, wakes all workers, and lets no worker
//! sleep while another is active. Here the epoch changes only when a worker may be about to sleep,
//! so in a busy runtime no thread writes the word. The epoch has 39 bits, and each increment takes
//! the lock, so it wraps after hours. A wrap does harm only if a worker stays between S2 and S5 for
//! exactly the time of a wrap.

use std_alloc::vec::Vec;

use crate::primitive::CachePadded;
use crate::primitive::sync::Mutex;
use crate::primitive::sync::atomic::{AtomicU64, Ordering, fence};

const ACTIVE: u64 = 1;
const SEARCHING: u64 = 1 << 12;
const FIELD: u64 = (1 << 12) - 1;
/// Mask of both counts.
const COUNTS: u64 = (1 << 24) - 1;
const ENDED: u64 = 1 << 24;
const EPOCH: u64 = 1 << 25;

/// Maximum number of workers of a runtime.
pub(crate) const WORKERS_MAX: usize = FIELD as usize;

const fn active(word: u64) -> u64 {
    word & FIELD
}

const fn searching(word: u64) -> u64 {
    (word / SEARCHING) & FIELD
}

/// What the thread that queued a task must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notified {
    /// Nothing: a worker will see the task.
    Seen,
    /// Wake this worker.
    Wake(usize),
    /// No worker runs any more: remove the task from the queue and cancel it.
    Ended,
}

/// The epoch of a worker that is about to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch(u64);

/// The word and the list.
#[derive(Debug)]
pub struct Idle {
    word: CachePadded<AtomicU64>,
    sleepers: Mutex<Vec<usize>>,
    workers: u64,
}

impl Idle {
    /// Makes the state in which all workers are active and none searches; `workers` must not be
    /// zero.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        assert!(workers <= WORKERS_MAX, "idle: the counts have 12 bits");
        Self {
            word: CachePadded::new(AtomicU64::new(workers as u64)),
            sleepers: Mutex::new(Vec::with_capacity(workers)),
            workers: workers as u64,
        }
    }

    fn load(&self) -> u64 {
        // Relaxed: each use is ordered by a fence or by the lock. [XP1]
        self.word.load(Ordering::Relaxed)
    }

    /// S1: the calling worker has no task and searches for one.
    pub fn search(&self) {
        // Relaxed: notifiers that see it rely on S2 to S4, which are fenced. [XP2]
        self.word.fetch_add(SEARCHING, Ordering::Relaxed);
    }

    /// Ends a search that found a task. If it returns `true`, the worker must check for further
    /// tasks and, if there are any, call [`notify`](Self::notify).
    #[must_use = "the last searcher hands the search on"]
    pub fn found(&self) -> bool {
        // Release: pairs with XP6; a worker that ends its search after this one sees the tasks that
        // this one queued. [XP3]
        let word = self.word.fetch_sub(SEARCHING, Ordering::Release);
        // SeqCst: pairs with XP8; either a notifier sees that no worker searches, or the check that
        // follows sees its task. [XP4]
        fence(Ordering::SeqCst);
        searching(word) == 1
    }

    /// S2 and S3: the search found no task. The worker must then check all queues, and call
    /// [`resume`](Self::resume) or [`enlist`](Self::enlist).
    #[must_use = "the epoch is what `enlist` compares"]
    pub fn prepare(&self) -> Epoch {
        // Relaxed: the fence below orders it before the check. [XP5]
        let word = self.word.fetch_sub(ACTIVE + SEARCHING, Ordering::Relaxed);
        // SeqCst: pairs with XP8; either a notifier sees that this worker is not active, or the
        // check that follows sees its task. As an acquire it pairs with XP3. [XP6]
        fence(Ordering::SeqCst);
        Epoch(word / EPOCH)
    }

    /// S4: there is a task, or another reason not to sleep; the worker searches again.
    pub fn resume(&self) {
        // Relaxed: as XP2. [XP7]
        self.word.fetch_add(ACTIVE + SEARCHING, Ordering::Relaxed);
    }

    /// S5: enters the list of sleepers. If a task was queued since [`prepare`](Self::prepare),
    /// returns `false`, and the worker searches again.
    #[must_use = "false: the worker must not sleep"]
    pub fn enlist(&self, worker: usize, epoch: Epoch) -> bool {
        let mut sleepers = self.sleepers.lock();
        if self.load() / EPOCH != epoch.0 {
            drop(sleepers);
            self.resume();
            return false;
        }
        debug_assert!(!sleepers.contains(&worker), "idle: a worker sleeps once");
        sleepers.push(worker);
        true
    }

    /// Removes a worker that woke up, by a wake-up or by itself; it is active and searches after
    /// this.
    pub fn delist(&self, worker: usize) {
        let mut sleepers = self.sleepers.lock();
        if let Some(at) = sleepers.iter().position(|&sleeper| sleeper == worker) {
            sleepers.remove(at);
            drop(sleepers);
            self.resume();
        }
        // Otherwise the notifier that removed this worker has counted it.
    }

    /// N2 to N5: a task was queued. It costs a fence and a load if a worker searches or all are
    /// active. Otherwise it takes the lock, even if the list of sleepers is empty.
    #[inline]
    pub fn notify(&self) -> Notified {
        // SeqCst: pairs with XP4 and XP6; either the load below sees that the worker does not
        // search or is not active, or that worker's check sees the task. [XP8]
        fence(Ordering::SeqCst);
        let word = self.load();
        if searching(word) != 0 || active(word) == self.workers {
            return Notified::Seen;
        }
        self.notify_slow()
    }

    #[cold]
    fn notify_slow(&self) -> Notified {
        let mut sleepers = self.sleepers.lock();
        // Relaxed: `enlist` loads it under the same lock. [XP9]
        let word = self.word.fetch_add(EPOCH, Ordering::Relaxed);
        if word & ENDED != 0 {
            return Notified::Ended;
        }
        if searching(word) != 0 {
            return Notified::Seen;
        }
        let Some(worker) = sleepers.pop() else {
            return Notified::Seen;
        };
        // Relaxed: as XP2; under the lock, so that no second notifier wakes another one. [XP10]
        self.word.fetch_add(ACTIVE + SEARCHING, Ordering::Relaxed);
        Notified::Wake(worker)
    }

    /// Records that no worker runs any more: every later [`notify`](Self::notify) returns `Ended`.
    /// The caller must then check all queues and cancel the tasks in them.
    pub fn end(&self) {
        let word = self.load();
        // Relaxed: the workers have ended, and notifiers only add to the epoch; the fence below
        // orders it before the check. [XP11]
        self.word
            .fetch_add(ENDED.wrapping_sub(word & COUNTS), Ordering::Relaxed);
        // SeqCst: pairs with XP8; either a notifier sees the end, or the check that follows sees
        // its task. [XP12]
        fence(Ordering::SeqCst);
    }

    /// Returns how many workers are active, and how many of them search; a hint.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let word = self.load();
        (active(word) as usize, searching(word) as usize)
    }
}
