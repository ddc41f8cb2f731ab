//! Which workers sleep, which of them are notified, and which one waits for the next deadline.
//!
//! | word | meaning | written by |
//! | --- | --- | --- |
//! | `asleep`, a bit per worker | the worker sleeps, or checks once more before it sleeps | that worker |
//! | `asleep`, [`STOP`] | workers must leave their loops | `stop` sets it, `start` clears it |
//! | `notified`, a bit per worker | a thread wakes the worker, or is about to | set by that thread, cleared by the worker |
//! | `wakes` | number of times that a worker stopped sleeping | that worker, before it takes a task |
//! | `keeper` | the index, plus one, of the worker that sleeps until the next deadline; 0 if none does | that worker |
//!
//! 1. A worker that finds no task sets its bit in `asleep` (the announcement) and executes a
//!    barrier (`primitive::asymmetric`, or a fence if the system has none). Then it checks all
//!    queues once more, and sleeps if they are empty.
//! 2. A pushing thread loads `asleep` after the push. By the barrier, either this load finds the
//!    worker's bit, or the worker's check finds the pushed task.
//! 3. If the pushing thread finds sleepers, it wakes one that is not notified or, if all are
//!    notified, one of them again. So if a thread is suspended after it has set the bit in
//!    `notified` and before it wakes the worker, it delays no other thread.
//! 4. A worker takes no task while its bit in `asleep` is set.
//!
//! Without `notified` a burst of posts would wake the same sleeper many times. A bit of `notified`
//! is a hint: if it is set late, when its worker is awake again, it costs one useless wake-up.

use core::time::Duration;
use std::boxed::Box;
use std::vec::Vec;

use rast_timers::primitive::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use rast_timers::primitive::{CachePadded, Parker, Unparker, asymmetric};

/// Bit of `asleep`: workers must leave their loop.
pub(crate) const STOP: u64 = 1 << 63;

/// Maximum number of workers of one scheduler, including threads of the user.
pub const MAX_WORKERS: usize = 63;

/// Maximum sleep of a worker whose call of the barrier has failed.
const NAP: Duration = Duration::from_millis(1);

/// The words.
#[derive(Debug)]
pub struct Idle {
    asleep: CachePadded<AtomicU64>,
    notified: CachePadded<AtomicU64>,
    wakes: AtomicU64,
    keeper: AtomicUsize,
    /// `true` if the system has the barrier, so that threads that push need no fence.
    cheap: bool,
    unparkers: Box<[Unparker]>,
}

impl Idle {
    /// Makes the words, and a parker for each worker.
    #[must_use]
    pub fn new(workers: usize) -> (Self, Vec<Parker>) {
        Self::with_barrier(workers, asymmetric::barrier())
    }

    /// As [`new`](Self::new), for a system with or without the barrier.
    #[must_use]
    pub fn with_barrier(workers: usize, cheap: bool) -> (Self, Vec<Parker>) {
        assert!(
            workers <= MAX_WORKERS,
            "a scheduler has at most {MAX_WORKERS} workers"
        );
        let parkers: Vec<Parker> = (0..workers).map(|_| Parker::new()).collect();
        let idle = Self {
            asleep: CachePadded::new(AtomicU64::new(0)),
            notified: CachePadded::new(AtomicU64::new(0)),
            wakes: AtomicU64::new(0),
            keeper: AtomicUsize::new(0),
            cheap,
            unparkers: parkers.iter().map(Parker::unparker).collect(),
        };
        (idle, parkers)
    }

    /// Orders the caller's push before its next load of `asleep`.
    #[inline]
    fn order(&self) {
        if self.cheap {
            asymmetric::order();
        } else {
            // SeqCst: as the cheap half, for a system without the barrier; pairs with SI5. [SI1]
            fence(Ordering::SeqCst);
        }
    }

    /// Returns the mask of sleepers, and [`STOP`], after the caller's push.
    #[inline]
    pub fn look(&self) -> u64 {
        self.order();
        // Acquire: pairs with SI4; the caller's next check sees what the sleeper pushed before it.
        // [SI2]
        self.asleep.load(Ordering::Acquire)
    }

    /// Wakes a sleeper if there is one, so that it finds what the caller pushed.
    #[inline]
    pub fn notify(&self) {
        if self.look() & !STOP != 0 {
            self.notify_slow();
        }
    }

    /// Wakes a sleeper.
    #[cold]
    pub(crate) fn notify_slow(&self) {
        loop {
            // Relaxed: a sleeper that is missed checks after its announcement. [SI3]
            let asleep = self.asleep.load(Ordering::Relaxed) & !STOP;
            if asleep == 0 {
                return;
            }
            // Relaxed: a hint, by rule 3. [SI6]
            let fresh = asleep & !self.notified.load(Ordering::Relaxed);
            if fresh == 0 {
                return self.unpark(asleep.trailing_zeros() as usize);
            }
            // Wake the keeper last, because another worker would have to take its role over.
            let others = fresh & !self.keeper_bit();
            let chosen = if others == 0 { fresh } else { others };
            let worker = chosen.trailing_zeros() as usize;
            let bit = 1 << worker;
            // Relaxed: as SI6; the wake-up itself publishes. [SI7]
            if self.notified.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
                return self.unpark(worker);
            }
        }
    }

    fn unpark(&self, worker: usize) {
        self.unparkers[worker].unpark();
    }

    fn keeper_bit(&self) -> u64 {
        // Relaxed: a preference; a thread that depends on it fences. [SI8]
        let keeper = self.keeper.load(Ordering::Relaxed);
        if keeper == 0 { 0 } else { 1 << (keeper - 1) }
    }

    /// Announces that `worker` is about to sleep; the worker must check for work after this.
    /// Returns `false` if the barrier failed, so that the worker's loads may be stale.
    pub fn announce(&self, worker: usize) -> bool {
        // Relaxed: a late mark is harmless. [SI9]
        self.notified.fetch_and(!(1 << worker), Ordering::Relaxed);
        // Release: pairs with SI2. [SI4]
        self.asleep.fetch_or(1 << worker, Ordering::Release);
        if self.cheap {
            return asymmetric::barrier();
        }
        // SeqCst: pairs with SI1. [SI5]
        fence(Ordering::SeqCst);
        true
    }

    /// Withdraws the announcement, before the worker takes any work.
    pub fn rise(&self, worker: usize) {
        if self.keeper_bit() == 1 << worker {
            // Relaxed: only this worker clears its own index. [SI10]
            self.keeper.store(0, Ordering::Relaxed);
        }
        // Relaxed: it publishes nothing; a late wake-up leaves a token. [SI11]
        self.asleep.fetch_and(!(1 << worker), Ordering::Relaxed);
        // Relaxed: a hint. [SI12]
        self.notified.fetch_and(!(1 << worker), Ordering::Relaxed);
        // Release: pairs with SI20; a thread that loads this count before its check sees the bit
        // cleared. [SI13]
        self.wakes.fetch_add(1, Ordering::Release);
        // SeqCst: pairs with SI19; a thread that sees a task gone that this worker takes sees the
        // changed `wakes`. [SI14]
        fence(Ordering::SeqCst);
    }

    /// Makes `worker` the keeper unless there is one. The next deadline must be loaded after this.
    pub fn keep(&self, worker: usize) -> bool {
        // Relaxed: the fence below orders it. [SI15]
        let kept = self
            .keeper
            .compare_exchange(0, worker + 1, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        // SeqCst: pairs with SI17; the keeper sees the earlier deadline, or the other thread sees
        // the keeper. [SI16]
        fence(Ordering::SeqCst);
        kept
    }

    /// Wakes the keeper because the next deadline, stored before, is earlier now.
    pub fn hasten(&self) {
        // SeqCst: pairs with SI16. [SI17]
        fence(Ordering::SeqCst);
        // Relaxed: as above. [SI18]
        let keeper = self.keeper.load(Ordering::Relaxed);
        if keeper != 0 {
            self.unpark(keeper - 1);
        }
    }

    /// Returns whether there is a keeper.
    pub(crate) fn is_kept(&self) -> bool {
        self.keeper_bit() != 0
    }

    /// Sleeps until woken, for at most `limit`.
    pub(crate) fn sleep(parker: &Parker, limit: Option<Duration>, is_sure: bool) {
        let nap = limit.map_or(NAP, |limit| limit.min(NAP));
        parker.park_for(if is_sure { limit } else { Some(nap) });
    }

    /// Returns whether all of `members` sleep, and slept during the whole call of `looks`, which
    /// must return `true`.
    pub fn is_calm(&self, members: u64, looks: impl FnOnce() -> bool) -> bool {
        // Acquire: pairs with SI13. [SI20]
        let before = self.wakes.load(Ordering::Acquire);
        // Acquire: pairs with SI4; the sleepers' earlier writes are visible. [SI22]
        let asleep = self.asleep.load(Ordering::Acquire) & !STOP;
        if asleep & members != members || !looks() {
            return false;
        }
        // SeqCst: pairs with SI14. [SI19]
        fence(Ordering::SeqCst);
        // Relaxed: as above. [SI23]
        self.wakes.load(Ordering::Relaxed) == before
    }

    /// Makes all workers leave their loops, including sleeping ones.
    pub(crate) fn stop(&self) {
        // Relaxed: a request that publishes nothing. [SI21]
        self.asleep.fetch_or(STOP, Ordering::Relaxed);
        for unparker in &self.unparkers {
            unparker.unpark();
        }
    }

    /// Lets workers run again.
    pub(crate) fn go(&self) {
        // Relaxed: no worker runs. [SI24]
        self.asleep.fetch_and(!STOP, Ordering::Relaxed);
    }

    /// Returns whether workers must leave their loops.
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        // Relaxed: a worker that sees it late leaves late. [SI25]
        self.asleep.load(Ordering::Relaxed) & STOP != 0
    }
}
