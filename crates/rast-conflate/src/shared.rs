//! State that producers and consumers share: the tables, and the waiting consumers.
//!
//! ```text
//!   status   bit 0: closed    bit 1: puts keep statistics per key
//!            bits 2-31: sleeping threads      bits 32-63: armed wakers
//! ```
//!
//! A put begins and ends with a load of `status`. Zero means that the put has nothing else to do.
//! The second load comes after the marks and their fences. Consider another thread that is about to
//! sleep, or that closes the conflator. By the store-buffer argument, either the put sees this in
//! `status`, or that thread sees the put's marks.

use core::hash::{BuildHasher, Hash};
use core::ptr::NonNull;
use core::task::Waker;
use core::time::Duration;
use std::boxed::Box;
use std::vec::Vec;

use crate::config::{Config, Growth, Pace};
use crate::figures::Ledger;
use crate::life::State;
use crate::marks::Path;
use crate::mode::Mode;
use crate::primitive::panics::{discard, drop_each, quietly};
use crate::primitive::sync::Mutex;
use crate::primitive::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};
use crate::primitive::{CachePadded, EventCount, fence_after_exchange};
use crate::table::{Entry, Table};
use crate::timers::Instant;

pub(crate) const CLOSED: u64 = 1;
/// Each put updates the statistics of its key; never cleared.
pub(crate) const STAMPED: u64 = 1 << 1;
const SLEEPER: u64 = 1 << 2;
const SLEEPERS: u64 = (1 << 32) - SLEEPER;
const WAKER: u64 = 1 << 32;

/// A waker, and the consumer that armed it.
pub(crate) struct Armed {
    consumer: u64,
    waker: Waker,
}

pub(crate) struct Shared<K, V, M: Mode<V>, S> {
    /// Loaded by every put; written when a consumer sleeps or wakes.
    status: CachePadded<AtomicU64>,
    first: NonNull<Table<K, V, M>>,
    /// One of the last tables, from which the last one is found; a hint.
    newest: AtomicPtr<Table<K, V, M>>,
    hasher: S,
    pub(crate) config: Config,
    /// Number of keys in the table, plus insertions in progress.
    keys: AtomicUsize,
    pub(crate) consumers: AtomicUsize,
    event: EventCount,
    wakers: Mutex<Vec<Armed>>,
    pub(crate) ledger: Ledger,
}

// SAFETY: the tables are shared by their own protocol, and only the drop frees them; everything
// else is `Sync` itself.
unsafe impl<K: Send + Sync, V: Send, M: Mode<V>, S: Sync> Sync for Shared<K, V, M, S> {}
// SAFETY: as above, and keys and values may be sent.
unsafe impl<K: Send + Sync, V: Send, M: Mode<V>, S: Send> Send for Shared<K, V, M, S> {}

/// A cell of a table.
pub(crate) struct Place<'a, K, V, M: Mode<V>> {
    pub(crate) table: &'a Table<K, V, M>,
    pub(crate) at: usize,
}

/// The parts of a place that a put needs, as direct references.
pub(crate) struct Target<'a, K, V, M: Mode<V>> {
    pub(crate) place: Place<'a, K, V, M>,
    pub(crate) entry: &'a Entry<K, M::Cell>,
    /// [`Path::NONE`] if the conflator has priorities.
    pub(crate) path: Path<'a>,
}

/// The address of a place, which outlives a borrow of the tables.
pub(crate) struct Spot<K, V, M: Mode<V>> {
    pub(crate) table: NonNull<Table<K, V, M>>,
    pub(crate) at: usize,
}

impl<K, V, M: Mode<V>> Clone for Spot<K, V, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V, M: Mode<V>> Copy for Spot<K, V, M> {}

impl<K, V, M: Mode<V>> Spot<K, V, M> {
    /// Returns the place; `shared` must be the conflator that the spot came from.
    #[inline(always)]
    pub(crate) fn place<'a, S>(self, shared: &'a Shared<K, V, M, S>) -> Place<'a, K, V, M> {
        // SAFETY: 1: each spot is used with the conflator that it came from.
        let table = unsafe { shared.table(self.table) };
        Place { table, at: self.at }
    }
}

/// A place with a pin on it.
pub(crate) struct Pinned<'a, K, V, M: Mode<V>>(pub(crate) Place<'a, K, V, M>);

impl<K, V, M: Mode<V>> Clone for Place<'_, K, V, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V, M: Mode<V>> Copy for Place<'_, K, V, M> {}

impl<'a, K, V, M: Mode<V>> Place<'a, K, V, M> {
    #[inline(always)]
    pub(crate) fn entry(self) -> &'a Entry<K, M::Cell> {
        &self.table.entries[self.at]
    }

    /// Looks up what a put needs.
    #[inline(always)]
    pub(crate) fn target(self) -> Target<'a, K, V, M> {
        let path = match &*self.table.marks {
            [map] => map.path(self.at),
            _ => Path::NONE,
        };
        Target {
            place: self,
            entry: self.entry(),
            path,
        }
    }

    /// Pins the place if it holds this key.
    fn pin(self, key: &K) -> Option<(Pinned<'a, K, V, M>, State)>
    where
        K: Eq,
    {
        let state = self.entry().life.pin()?;
        // From here on a panic of the comparison removes the pin.
        let pinned = Pinned(self);
        (pinned.key() == key).then_some((pinned, state))
    }

    /// Pins the place if it holds any key.
    pub(crate) fn pin_any(self) -> Option<Pinned<'a, K, V, M>> {
        self.entry().life.pin().map(|_| Pinned(self))
    }

    /// Pins the place if it holds a key that is in the table.
    pub(crate) fn pin_live(self) -> Option<Pinned<'a, K, V, M>> {
        let life = &self.entry().life;
        if life.state() != State::Live {
            return None;
        }
        let pinned = self.pin_any()?;
        (pinned.state() == State::Live).then_some(pinned)
    }
}

impl<'a, K, V, M: Mode<V>> Pinned<'a, K, V, M> {
    pub(crate) fn key(&self) -> &K {
        // SAFETY: 1: the pin found the cell with a key, and is removed when this is dropped.
        unsafe { self.0.entry().key() }
    }

    pub(crate) fn state(&self) -> State {
        self.0.entry().life.state()
    }

    /// Keeps the pin and returns the place.
    pub(crate) fn keep(self) -> Place<'a, K, V, M> {
        core::mem::ManuallyDrop::new(self).0
    }
}

impl<K, V, M: Mode<V>> Drop for Pinned<'_, K, V, M> {
    fn drop(&mut self) {
        self.0.entry().life.unpin();
    }
}

/// A reserved count of a key whose insertion may fail, or panic in the key's own code; the drop
/// subtracts the count.
struct Reserved<'a, K, V, M: Mode<V>, S> {
    shared: &'a Shared<K, V, M, S>,
    cell: Option<Pinned<'a, K, V, M>>,
}

impl<'a, K, V, M: Mode<V>, S> Reserved<'a, K, V, M, S> {
    /// Keeps the count, and returns the cell that has the key.
    fn keep(mut self) -> Pinned<'a, K, V, M> {
        let cell = self.cell.take();
        core::mem::forget(self);
        cell.expect("a key that is kept has a cell")
    }
}

impl<K, V, M: Mode<V>, S> Drop for Reserved<'_, K, V, M, S> {
    fn drop(&mut self) {
        // If another thread made the key live, it counts.
        let is_live = self.cell.as_ref().is_some_and(|cell| {
            let killed = cell.0.entry().life.shift(State::Tentative, State::Killed);
            killed.is_err_and(|state| state != State::Killed)
        });
        if !is_live {
            self.shared.unreserve();
        }
    }
}

/// Why there is no cell for a key.
pub(crate) struct NoRoom;

impl<K, V, M: Mode<V>, S> Shared<K, V, M, S> {
    pub(crate) fn new(config: Config, hasher: S) -> Self {
        let grows = config.growth == Growth::Grow;
        let cells = config.keys.saturating_mul(2);
        let table = Table::new(cells, grows, config.marks, config.priorities, None);
        let first = NonNull::from(Box::leak(table));
        let status = if config.key_figures { STAMPED } else { 0 };
        Self {
            status: CachePadded::new(AtomicU64::new(status)),
            first,
            newest: AtomicPtr::new(first.as_ptr()),
            hasher,
            config,
            keys: AtomicUsize::new(0),
            consumers: AtomicUsize::new(0),
            event: EventCount::new(),
            wakers: Mutex::new(Vec::new()),
            ledger: Ledger::default(),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.config.clock.now()
    }

    /// Returns the first table; the others follow it.
    #[inline(always)]
    pub(crate) fn first(&self) -> &Table<K, V, M> {
        // SAFETY: the tables live as long as `self`.
        unsafe { self.first.as_ref() }
    }

    /// Returns the table of a stored address.
    ///
    /// # Safety
    ///
    /// 1. It is a table of this conflator.
    #[inline(always)]
    pub(crate) unsafe fn table(&self, table: NonNull<Table<K, V, M>>) -> &Table<K, V, M> {
        // SAFETY: by 1 it lives as long as `self`.
        unsafe { table.as_ref() }
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Table<K, V, M>> {
        core::iter::successors(Some(self.first()), |table| table.next())
    }

    /// Returns all cells of all tables.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place<'_, K, V, M>> {
        let places = |table| move |at| Place { table, at };
        self.tables()
            .flat_map(move |table| (0..table.cells()).map(places(table)))
    }

    fn last(&self) -> &Table<K, V, M> {
        // Acquire: pairs with the Release below; the table is initialised. [CS1]
        let newest = self.newest.load(Acquire);
        // SAFETY: the word contains only addresses of tables of this conflator.
        let mut table = unsafe { &*newest };
        while let Some(next) = table.next() {
            table = next;
            // Release: pairs with the Acquire above; another thread may store an older table. [CS2]
            self.newest
                .store(core::ptr::from_ref(next).cast_mut(), Release);
        }
        table
    }

    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        // Relaxed: a snapshot. [CS3]
        self.keys.load(Relaxed)
    }

    /// Adds one to the number of keys, if the limit allows it.
    fn reserve(&self) -> Result<(), NoRoom> {
        if self.config.growth == Growth::Grow {
            // Relaxed: a counter that publishes nothing. [CS4]
            self.keys.fetch_add(1, Relaxed);
            return Ok(());
        }
        let more = |keys| (keys < self.config.keys).then_some(keys + 1);
        // Relaxed: as CS4. [CS5]
        let counted = self.keys.fetch_update(Relaxed, Relaxed, more);
        counted.map(drop).map_err(|_| NoRoom)
    }

    pub(crate) fn unreserve(&self) {
        // Relaxed: as CS4. [CS6]
        self.keys.fetch_sub(1, Relaxed);
    }

    /// Makes a removed key live again; the caller has a pin on it or runs it.
    pub(crate) fn revive(&self, place: Place<'_, K, V, M>) -> Result<(), NoRoom> {
        self.reserve()?;
        if place
            .entry()
            .life
            .shift(State::Removed, State::Live)
            .is_err()
        {
            // Another thread was first.
            self.unreserve();
        }
        Ok(())
    }

    /// Removes a key from the table; its cell may still have a value. Returns `false` if it was not
    /// live.
    pub(crate) fn remove(&self, place: Place<'_, K, V, M>) -> bool {
        let is_removed = place
            .entry()
            .life
            .shift(State::Live, State::Removed)
            .is_ok();
        if is_removed {
            self.unreserve();
        }
        is_removed
    }

    /// Marks a cell, up to the root of its table. The caller must have fenced after its last
    /// read-modify-write.
    pub(crate) fn mark(&self, place: Place<'_, K, V, M>) {
        // Relaxed: any priority that the key had is correct.
        let priority = place.entry().priority.load(Relaxed);
        place.table.marks[priority].path(place.at).mark();
    }

    /// Marks again a cell that a consumer cleared and does not handle now, and wakes another
    /// consumer.
    pub(crate) fn mark_again(&self, place: Place<'_, K, V, M>) {
        // SeqCst: orders what the caller did before, which may not be a read-modify-write, before
        // the tests of the marks. [CS10]
        fence(SeqCst);
        self.mark(place);
        self.wake();
    }

    /// Ends the deferral of a key, if it has one. The caller must have a pin on it.
    pub(crate) fn end_deferral(&self, place: Place<'_, K, V, M>) {
        // SeqCst: store-buffer argument between this fence, after a pace is set, and that of a
        // consumer that defers the key. Either the consumer sees the pace, or its deferral is seen
        // here. [CS24]
        fence(SeqCst);
        if place.entry().life.undefer() {
            self.mark_again(place);
        }
    }

    /// Gives a key its own pace, and ends a deferral by the old one. The caller must have a pin on
    /// it.
    pub(crate) fn set_pace(&self, place: Place<'_, K, V, M>, pace: Pace) {
        let cold = &place.table.cold[place.at];
        // Relaxed: a setting; the fence in `end_deferral` orders it before the load of the
        // deferral.
        cold.every.store(pace.every().as_nanos(), Relaxed);
        // Relaxed: as above.
        cold.burst.store(pace.burst(), Relaxed);
        self.end_deferral(place);
    }

    /// As [`mark_again`](Self::mark_again), for leaf bits of one priority.
    pub(crate) fn give_back(
        &self,
        priority: usize,
        table: &Table<K, V, M>,
        claim: crate::marks::Claim,
    ) {
        // No fence: a mark that is already set was set after this consumer cleared it, and leads
        // another consumer here.
        table.marks[priority].give_back(claim);
        self.wake();
    }

    /// Returns `true` if a cell of one priority may be marked. Checks the root of each table.
    #[inline]
    pub(crate) fn is_dirty_at(&self, priority: usize) -> bool {
        self.tables().any(|table| table.marks[priority].is_marked())
    }

    /// Returns `true` if a cell may be marked.
    pub(crate) fn is_dirty(&self) -> bool {
        (0..self.config.priorities).any(|priority| self.is_dirty_at(priority))
    }

    // Waiting.

    /// Returns the status for a put: zero if the conflator is open, no consumer waits, and no
    /// statistics are kept per key.
    #[inline(always)]
    pub(crate) fn status(&self) -> u64 {
        // Relaxed: the fences of the marks precede it. A close or a sleeper writes it, fences, and
        // then checks the marks. [CS14]
        self.status.load(Relaxed)
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Acquire: pairs with the AcqRel in close; what preceded the close happens-before. [CS15]
        self.status.load(Acquire) & CLOSED != 0
    }

    /// Closes; returns whether it was open.
    pub(crate) fn close(&self) -> bool {
        // AcqRel: pairs with CS15. [CS16]
        let was_open = self.status.fetch_or(CLOSED, AcqRel) & CLOSED == 0;
        fence_after_exchange();
        self.event.notify_all();
        while self.wake_task() {}
        was_open
    }

    /// Wakes a consumer, if one waits.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.status() & !(CLOSED | STAMPED) != 0 {
            self.wake_slow();
        }
    }

    #[cold]
    pub(crate) fn wake_slow(&self) {
        if self.status() & SLEEPERS != 0 {
            self.event.notify_one();
        }
        self.wake_task();
    }

    /// Calls the waker that was armed first; returns `false` if there is none.
    fn wake_task(&self) -> bool {
        if self.status() < WAKER {
            return false;
        }
        let armed = {
            let mut wakers = self.wakers.lock();
            if wakers.is_empty() {
                return false;
            }
            // Relaxed: written under the lock; `arm` fences and checks. [CS17]
            self.status.fetch_sub(WAKER, Relaxed);
            wakers.remove(0)
        };
        // A panic of the waker must not fail the put that called it.
        quietly(|| armed.waker.wake());
        true
    }

    /// Sleeps until a cell is marked, the conflator closes while it was open, or `span` has passed.
    pub(crate) fn sleep(&self, was_closed: bool, span: Option<Duration>) {
        // Relaxed: the fence of `prepare` orders it before the check below. [CS18]
        self.status.fetch_add(SLEEPER, Relaxed);
        let key = self.event.prepare();
        if self.is_dirty() || self.is_closed() != was_closed {
            self.event.cancel(key);
        } else {
            match span {
                Some(span) => drop(self.event.wait_timeout(key, span)),
                None => self.event.wait(key),
            }
        }
        // Relaxed: a put that loads the old count finds no thread to wake. [CS19]
        self.status.fetch_sub(SLEEPER, Relaxed);
    }

    /// Arms `waker` to be called once when a cell is marked or the conflator closes; returns
    /// `false` if that is already the case.
    pub(crate) fn arm(&self, consumer: u64, waker: &Waker) -> bool {
        let waker = waker.clone();
        let replaced = {
            let mut wakers = self.wakers.lock();
            match wakers.iter_mut().find(|armed| armed.consumer == consumer) {
                Some(armed) => Some(core::mem::replace(&mut armed.waker, waker)),
                None => {
                    wakers.push(Armed { consumer, waker });
                    // Relaxed: written under the lock; the fence below orders it before the check.
                    // [CS20]
                    self.status.fetch_add(WAKER, Relaxed);
                    None
                }
            }
        };
        // Outside the lock: a waker may own a task that owns a consumer. A panic of its destructor
        // must not prevent the check below.
        discard(replaced);
        // SeqCst: pairs with the fences of a put; either the put sees the waker, or the check below
        // sees its mark. [CS21]
        fence(SeqCst);
        if !self.is_dirty() && !self.is_closed() {
            return true;
        }
        self.disarm(consumer);
        false
    }

    /// Removes the waker of a consumer; returns `false` if it was called, or there was none.
    ///
    /// A panic of the waker's destructor is caught: the drop of a consumer calls this, and of two
    /// panics at once the second one would abort the process.
    pub(crate) fn disarm(&self, consumer: u64) -> bool {
        let taken = {
            let mut wakers = self.wakers.lock();
            let at = wakers.iter().position(|armed| armed.consumer == consumer);
            at.map(|at| {
                // Relaxed: as CS17. [CS22]
                self.status.fetch_sub(WAKER, Relaxed);
                wakers.remove(at)
            })
        };
        let is_armed = taken.is_some();
        discard(taken);
        is_armed
    }
}

impl<K: Hash + Eq, V, M: Mode<V>, S: BuildHasher> Shared<K, V, M, S> {
    /// Spreads the hash into the upper bits, for hashers that return small numbers unchanged.
    #[inline]
    fn tag(&self, key: &K) -> u64 {
        let hash = self.hasher.hash_one(key);
        (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
    }

    /// Finds a key in any state, and pins its cell.
    #[inline]
    pub(crate) fn find(&self, key: &K) -> Option<Pinned<'_, K, V, M>> {
        self.search(key, self.tag(key))
    }

    #[inline]
    fn search(&self, key: &K, tag: u64) -> Option<Pinned<'_, K, V, M>> {
        let mut table = Some(self.last());
        while let Some(here) = table {
            for (at, other) in here.window(tag) {
                if other == tag
                    && let Some((pinned, state)) = (Place { table: here, at }).pin(key)
                    && state != State::Killed
                {
                    return Some(pinned);
                }
            }
            table = here.prev();
        }
        None
    }

    /// Finds a key or inserts it; the result is live or removed.
    ///
    /// Lock-free. Cells are reused, and two threads may claim two cells for one key. So insertion
    /// has two steps: the cell becomes tentative, and then each thread that finds it checks all
    /// cells of the key, from the oldest table on. The first of them wins, unless a later one has
    /// already become the key's.
    pub(crate) fn find_or_insert(&self, key: &K) -> Result<Pinned<'_, K, V, M>, NoRoom>
    where
        K: Clone,
    {
        let tag = self.tag(key);
        loop {
            if let Some(found) = self.search(key, tag) {
                if self.settle(&found, tag) != State::Killed {
                    return Ok(found);
                }
                continue;
            }
            self.reserve()?;
            let mut reserved = Reserved {
                shared: self,
                cell: None,
            };
            let place = self.claim(tag).ok_or(NoRoom)?;
            let mine = reserved.cell.insert(self.fill(place, tag, key));
            if self.settle(mine, tag) != State::Killed {
                return Ok(reserved.keep());
            }
        }
    }

    /// Claims the first available cell for a key, from the oldest table on.
    fn claim(&self, tag: u64) -> Option<Place<'_, K, V, M>> {
        let mut table = self.first();
        loop {
            if let Some(at) = table.claim(tag) {
                return Some(Place { table, at });
            }
            if self.config.growth == Growth::Refuse {
                return None;
            }
            table = table.grow(self.config.marks);
        }
    }

    fn fill<'a>(&self, place: Place<'a, K, V, M>, tag: u64, key: &K) -> Pinned<'a, K, V, M>
    where
        K: Clone,
    {
        struct Unclaim<'a, K, V, M: Mode<V>>(Place<'a, K, V, M>);
        impl<K, V, M: Mode<V>> Drop for Unclaim<'_, K, V, M> {
            fn drop(&mut self) {
                self.0.entry().life.publish(State::Free, 0);
            }
        }
        // If the clone or the clock panics, the cell becomes free again.
        let unclaim = Unclaim(place);
        let (key, now) = (key.clone(), self.now().as_nanos());
        core::mem::forget(unclaim);
        let pace = self.config.pace;
        let pace = (pace.every().as_nanos(), pace.burst());
        place.table.fill(place.at, tag, key, pace, now);
        Pinned(place)
    }

    /// Decides the state of a tentative cell, and returns it.
    fn settle(&self, mine: &Pinned<'_, K, V, M>, tag: u64) -> State {
        let (place, life) = (mine.0, &mine.0.entry().life);
        if life.state() != State::Tentative {
            return life.state();
        }
        // SeqCst: if two cells became tentative for one key, the thread whose fence is second sees
        // the other cell. [CS23]
        fence(SeqCst);
        let mut my_step = None;
        for table in self.tables() {
            for (step, (at, other)) in table.window(tag).enumerate() {
                if core::ptr::eq(table, place.table) && at == place.at {
                    my_step = Some(step);
                    continue;
                }
                if other != tag {
                    continue;
                }
                let Some((rival, mut state)) = (Place { table, at }).pin(mine.key()) else {
                    continue;
                };
                let is_later = my_step
                    .is_some_and(|my_step| (place.table.index, my_step) < (table.index, step));
                if state == State::Tentative && is_later {
                    let killed = rival.0.entry().life.shift(State::Tentative, State::Killed);
                    state = killed.err().unwrap_or(State::Killed);
                }
                if state != State::Killed {
                    // That cell has the key, or precedes this one and will get it.
                    let _ = life.shift(State::Tentative, State::Killed);
                    return life.state();
                }
            }
        }
        let _ = life.shift(State::Tentative, State::Live);
        life.state()
    }
}

impl<K, V, M: Mode<V>, S> Drop for Shared<K, V, M, S> {
    fn drop(&mut self) {
        // SAFETY: the first table came from a box, and by `&mut self` no other thread uses it.
        let mut table = Some(unsafe { Box::from_raw(self.first.as_ptr()) });
        // Each table is dropped separately: recursion over a long chain would overflow the stack.
        drop_each(|| {
            let mut here = table.take()?;
            table = here.unlink();
            Some(here)
        });
    }
}
