//! The deadlines of a runtime: a store for each worker, and the time until which the worker that
//! holds the driver sleeps.
//!
//! A sleep enters the store of the worker that polls it. Any worker fires due deadlines of any
//! store. A worker that runs tasks checks them every 16 polls; the worker that holds the driver
//! sleeps until the earliest of all deadlines.
//!
//! Two fences make sure that the sleeper misses no deadline. It stores `asleep_until`, fences, and
//! then loads the earliest deadlines. A thread that inserts a deadline stores it, fences, and then
//! loads `asleep_until`. At least one of the two sees what the other wrote.

use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::vec::Vec;

#[cfg(not(any(rast_loom, rast_shuttle)))]
use rast_timers::ContainedClock;
use rast_timers::{CalendarStore, Clock, DeadlineStore, Handle, Instant};

use crate::primitive::CachePadded;
use crate::primitive::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::primitive::sync::{Arc, Mutex};
use crate::sleepers::Sleepers;
use crate::wakers::wake;

/// Maximum number of wakers that are taken from a store under one lock.
const BATCH: usize = 64;

/// The clock of an executor.
pub type SharedClock = Arc<dyn Clock + Send + Sync>;

/// A clock of the program behind a pointer.
///
/// It is read between the polls of tasks, while a task is queued and before a sleep. A panic of the
/// clock there would lose tasks or end a worker, so it is caught. The threads of rast-reactor and
/// of its pool read and drop it too.
pub fn shared_clock(clock: impl Clock + Send + Sync + 'static) -> SharedClock {
    // The models have no clock that panics, and explore each access to an atomic word.
    #[cfg(not(any(rast_loom, rast_shuttle)))]
    let clock = ContainedClock::new(clock);
    crate::primitive::unsized_arc!(clock)
}

/// A clock of `rast-timers` that does not panic, behind a pointer.
pub fn trusted_clock(clock: impl Clock + Send + Sync + 'static) -> SharedClock {
    crate::primitive::unsized_arc!(clock)
}

/// No deadline.
const NEVER: u64 = u64::MAX;

struct Shard {
    /// Time before which no value of the store is due. Written under the lock.
    next_ns: AtomicU64,
    store: Mutex<CalendarStore<Waker>>,
}

/// The deadlines.
pub(crate) struct Timers {
    clock: SharedClock,
    shards: Box<[CachePadded<Shard>]>,
    /// Time until which the holder of the driver sleeps; 0 if no worker does.
    asleep_until_ns: AtomicU64,
    /// The latest time at which deadlines were fired.
    fired_at_ns: AtomicU64,
    /// Set when the executor has ended: no deadline fires any more.
    is_closed: AtomicBool,
    driver: Arc<Sleepers>,
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").finish_non_exhaustive()
    }
}

/// A deadline that is in a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Armed {
    shard: usize,
    handle: Handle,
}

impl Timers {
    pub(crate) fn new(clock: SharedClock, shards: usize, driver: Arc<Sleepers>) -> Self {
        let shard = || {
            CachePadded::new(Shard {
                next_ns: AtomicU64::new(NEVER),
                store: Mutex::new(CalendarStore::new()),
            })
        };
        Self {
            clock,
            shards: (0..shards).map(|_| shard()).collect(),
            asleep_until_ns: AtomicU64::new(0),
            fired_at_ns: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            driver,
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Arms `waker` to be woken at `at`, in the store `shard` modulo their number. Returns `None`
    /// if the executor has ended.
    pub(crate) fn arm(&self, shard: usize, at: Instant, waker: Waker) -> Option<Armed> {
        // The stores treat the last instant as never, but `close` must find every waker.
        let at = at.min(Instant::from_nanos(NEVER - 1));
        let shard = shard % self.shards.len();
        let place = &self.shards[shard];
        let handle = {
            let mut store = place.store.lock();
            // Under the lock: either `close` takes it later, or the flag is seen here.
            if self.is_closed() {
                drop(store);
                return None;
            }
            let handle = store.insert(at, waker);
            // Relaxed: the fence below orders it. [XT1]
            if at.as_nanos() < place.next_ns.load(Ordering::Relaxed) {
                // Relaxed: under the lock; the fence below orders it before the load. [XT2]
                place.next_ns.store(at.as_nanos(), Ordering::Relaxed);
            }
            handle
        };
        // SeqCst: pairs with XT6; either the load below sees until when the holder sleeps, or the
        // holder sees this deadline. [XT3]
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence above, and so is the holder that `interrupt` reads. [XT4]
        if at.as_nanos() < self.asleep_until_ns.load(Ordering::Relaxed) {
            self.driver.interrupt();
        }
        Some(Armed { shard, handle })
    }

    /// Returns whether the executor has ended.
    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: `arm` reads it under a lock that `close` takes after it; a sleep that `close`
        // woke is polled after that wake-up. [XT12]
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Rejects deadlines from now on, and wakes all waiters: they find that the executor has ended.
    pub(crate) fn close(&self) {
        // Relaxed: as XT12. [XT13]
        self.is_closed.store(true, Ordering::Relaxed);
        for shard in &self.shards {
            while !shard.store.lock().is_empty() {
                shard.fire(Instant::MAX, BATCH);
            }
        }
    }

    /// Makes the holder of the driver read the clock again, which was moved manually.
    pub(crate) fn clock_moved(&self) {
        // SeqCst: pairs with XT6; either the load of the holder below finds the worker that is
        // about to sleep, or that worker's clock reading sees the move. [XT14]
        fence(Ordering::SeqCst);
        self.driver.interrupt();
    }

    /// Removes a deadline; returns `None` if it has fired.
    pub(crate) fn disarm(&self, armed: Armed) -> Option<Waker> {
        self.shards[armed.shard].store.lock().cancel(armed.handle)
    }

    /// Announces a sleep; returns how long it may last, `None` if there is no deadline.
    pub(crate) fn begin_sleep(&self) -> Option<Duration> {
        // Relaxed: ordered by the fence below. [XT5]
        self.asleep_until_ns.store(NEVER, Ordering::Relaxed);
        // SeqCst: pairs with XT3; either an insert sees the store above, or the reading below sees
        // its deadline. Pairs with XT14 in the same way for the holder and the clock. [XT6]
        fence(Ordering::SeqCst);
        let next = self.next()?;
        // Relaxed: a later deadline needs no interruption; a thread that loads the former value
        // interrupts needlessly. [XT7]
        self.asleep_until_ns
            .store(next.as_nanos(), Ordering::Relaxed);
        Some(next.saturating_since(self.now()).into())
    }

    /// Returns `true` if a thread has fired the deadlines up to this one, so that no store has it.
    /// The calling thread may still read an earlier time, for example after a panic of the clock.
    pub(crate) fn has_fired(&self, at: Instant) -> bool {
        // Relaxed: a task that was woken sees the store before its wake-up. [XT15]
        at.as_nanos() <= self.fired_at_ns.load(Ordering::Relaxed)
    }

    /// Ends the announcement of a sleep.
    pub(crate) fn end_sleep(&self) {
        // Relaxed: a stale value only costs an interruption. [XT8]
        self.asleep_until_ns.store(0, Ordering::Relaxed);
    }

    /// Returns a time before which no deadline is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        // Relaxed: ordered by the fence of XT6 if the result decides a sleep. [XT9]
        let next = |shard: &CachePadded<Shard>| shard.next_ns.load(Ordering::Relaxed);
        let next = self.shards.iter().map(next).min()?;
        (next != NEVER).then(|| Instant::from_nanos(next))
    }

    /// Wakes all due deadlines; returns whether there were any. If none is due, it costs a load for
    /// each store, and a clock reading if there is a deadline.
    pub(crate) fn fire(&self) -> bool {
        self.fire_at_most(usize::MAX) != 0
    }

    /// As [`fire`](Self::fire), but fires at most `most` deadlines; returns how many.
    pub(crate) fn fire_at_most(&self, most: usize) -> usize {
        let Some(next) = self.next() else {
            return 0;
        };
        let now = self.now();
        if next <= now {
            self.fire_until(now, most)
        } else {
            0
        }
    }

    #[cold]
    fn fire_until(&self, now: Instant, most: usize) -> usize {
        // Relaxed: the wake-ups below publish it. [XT16]
        self.fired_at_ns
            .fetch_max(now.as_nanos(), Ordering::Relaxed);
        let mut count = 0;
        for shard in &self.shards {
            // Relaxed: a hint; the store is read under its lock. [XT10]
            while shard.next_ns.load(Ordering::Relaxed) <= now.as_nanos() {
                if count == most {
                    return count;
                }
                count += shard.fire(now, most - count);
            }
        }
        count
    }
}

impl Shard {
    /// Fires a batch of due deadlines, at most `most`; returns how many.
    fn fire(&self, now: Instant, most: usize) -> usize {
        let mut wakers = Vec::with_capacity(BATCH);
        {
            let mut store = self.store.lock();
            let _ = store.expire(now, BATCH.min(most), |due| wakers.push(due.value));
            let next = store.next_deadline().map_or(NEVER, Instant::as_nanos);
            // Relaxed: under the lock. [XT11]
            self.next_ns.store(next, Ordering::Relaxed);
        }
        let count = wakers.len();
        // Outside of the lock, since wakers are code of the user.
        wakers.into_iter().for_each(wake);
        count
    }
}
