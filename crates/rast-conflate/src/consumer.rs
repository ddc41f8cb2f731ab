//! The consumer's side: claim marks, run keys one at a time, wait.
//!
//! A consumer scans the tables with a cursor, in laps. A lap begins where the last one ended and
//! passes each cell once, so it handles each marked key once. A key that gets a value again after
//! the cursor has passed it waits for the next lap. Each priority has its own cursor, and the
//! consumer claims from the highest priority that has marks. So no key starves among the keys of
//! one priority.

use core::fmt;
use core::ptr::NonNull;
use core::task::Waker;
use core::time::Duration;
use std::hash::RandomState;
use std::vec::Vec;

use crate::cell::{Cell, Taken};
use crate::config::Removed;
use crate::figures::{Block, Count, Counts};
use crate::item::Item;
use crate::life::{Begin, State};
use crate::marks::Claim;
use crate::mode::{Mode, Newest};
use crate::primitive::panics::{discard, quietly};
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::{
    Ordering::{Relaxed, SeqCst},
    fence,
};
use crate::primitive::{Backoff, WaitStrategy, fence_after_exchange};
use crate::shared::{Place, Shared, Spot};
use crate::table::{Cold, Table};
use crate::timers::{CalendarStore, DeadlineStore, Instant};

/// Number of keys that a consumer claims at once if it is the only one: those of a word.
const ALONE: u32 = 64;

/// Takes values and runs handlers; made by [`Conflator::consumer`](crate::Conflator::consumer), for
/// one thread at a time.
///
/// With several consumers each key is run by one of them at a time, and values of a key are handled
/// in the order in which they were put. If the consumer is dropped, others handle what it had
/// claimed. If it is leaked with `mem::forget`, up to 64 keys, and those that it has deferred, are
/// not handled by others until they are put again.
pub struct Consumer<K, V, M: Mode<V> = Newest, S = RandomState> {
    pub(crate) shared: Arc<Shared<K, V, M, S>>,
    spare: <M::Cell as Cell<V>>::Spare,
    counts: Block,
    id: u64,
    /// One per priority.
    laps: Vec<Lap<K, V, M>>,
    claimed: Option<Claimed<K, V, M>>,
    /// Keys that their pace delays.
    deferred: CalendarStore<Spot<K, V, M>>,
    /// Time at the start of the pass, if a setting needs it.
    now: Option<Instant>,
}

/// A lap: one pass over all tables.
struct Lap<K, V, M: Mode<V>> {
    table: NonNull<Table<K, V, M>>,
    from: usize,
    /// Table and leaf bit at which the lap began.
    start: (usize, usize),
    has_wrapped: bool,
    is_done: bool,
}

/// Marks that this consumer cleared and must visit.
struct Claimed<K, V, M: Mode<V>> {
    priority: usize,
    table: NonNull<Table<K, V, M>>,
    claim: Claim,
    /// Number of visited cells of the lowest bit, if a bit covers several.
    visited: usize,
}

// SAFETY: the addresses are of tables that the shared part keeps alive; any thread may use them.
unsafe impl<K: Send + Sync, V: Send, M: Mode<V>, S: Send + Sync> Send for Consumer<K, V, M, S> {}

/// Result of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Number of values whose handler returned.
    pub handled: u64,
    /// Number of values whose handler panicked.
    pub panicked: u64,
}

impl Pass {
    /// Returns `true` if no value was handled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.handled + self.panicked == 0
    }
}

impl<K, V, M: Mode<V>, S> Consumer<K, V, M, S> {
    pub(crate) fn new(shared: Arc<Shared<K, V, M, S>>) -> Self {
        let (counts, id) = shared.ledger.open();
        let first = NonNull::from(shared.first());
        let lap = || Lap {
            table: first,
            from: 0,
            start: (0, 0),
            has_wrapped: false,
            is_done: false,
        };
        let laps = (0..shared.config.priorities).map(|_| lap()).collect();
        Self {
            shared,
            spare: M::Cell::spare(),
            counts,
            id,
            laps,
            claimed: None,
            deferred: CalendarStore::new(),
            now: None,
        }
    }

    /// Visits the keys that have a value, each key once. Calls the key's own handler, or `handler`
    /// if the key has none.
    ///
    /// With equal priorities and no pace, each key that has a value at the start is handled once,
    /// by one consumer. If a key gets a value again after it was visited, it waits for the next
    /// pass. With priorities, keys of the highest priority that has values are always served first.
    /// If all keys of this priority were visited and some of them have values again, the pass ends,
    /// even if keys of lower priorities have values.
    ///
    /// A handler that panics loses only the value that it was given: the panic is counted, and the
    /// key can be handled again.
    ///
    /// Never waits for another thread, unless a handler does. Allocates only if a pace defers more
    /// keys than ever before. With [`Marks::Tree`](crate::Marks::Tree), the cost grows with the
    /// number of marked keys.
    pub fn pass(&mut self, mut handler: impl FnMut(&K, V)) -> Pass {
        self.begin_lap();
        let mut pass = Pass::default();
        while let Some((spot, value)) = self.next_run() {
            if self.handle(spot, value, &mut handler) {
                pass.handled += 1;
            } else {
                pass.panicked += 1;
            }
        }
        pass
    }

    /// Takes the next value, if a key has one; no consumer runs the key until the item is dropped.
    ///
    /// The value counts as handled. Keys come in the order in which a pass visits them; the key's
    /// own handler is not called.
    pub fn try_next(&mut self) -> Option<Item<'_, K, V, M, S>> {
        let (spot, value) = self.take_next()?;
        Some(Item::new(&self.shared, spot, value))
    }

    /// Takes the next value of this lap or a new one; the caller then runs its key.
    pub(crate) fn take_next(&mut self) -> Option<(Spot<K, V, M>, V)> {
        let mut is_new = false;
        loop {
            if let Some(run) = self.next_run() {
                self.counts.add(Count::Handled, 1);
                return Some(run);
            }
            if is_new {
                return None;
            }
            self.begin_lap();
            is_new = true;
        }
    }

    /// Handles values until the conflator is closed and no value is pending that this consumer
    /// could take; returns the counts. Blocks while no value is pending. Once the conflator is
    /// closed, no pace delays a value, so it ends soon.
    ///
    /// For a plain busy loop, call [`pass`](Self::pass) in a loop.
    pub fn run(&mut self, strategy: WaitStrategy, mut handler: impl FnMut(&K, V)) -> Pass {
        let mut sum = Pass::default();
        loop {
            let pass = self.pass(&mut handler);
            sum.handled += pass.handled;
            sum.panicked += pass.panicked;
            if pass.is_empty() && !self.wait(strategy) {
                return sum;
            }
        }
    }

    /// Waits until a pass may find a value. Returns `false` if the conflator is closed and no value
    /// is pending that this consumer could take. Blocking.
    ///
    /// It may return `true` although no value is left, if other consumers are faster.
    pub fn wait(&mut self, strategy: WaitStrategy) -> bool {
        let backoff = Backoff::new();
        loop {
            if self.claimed.is_some() || self.shared.is_dirty() {
                return true;
            }
            // Load it before the check for values, so that a later close ends the sleep.
            let was_closed = self.shared.is_closed();
            if self.is_finished() {
                return false;
            }
            if was_closed && !self.deferred.is_empty() {
                // The next lap ends the deferrals.
                return true;
            }
            let due = self.next_deadline();
            let span = due.map(|due| due.saturating_since(self.shared.now()));
            if span.is_some_and(|span| span.as_nanos() == 0) {
                return true;
            }
            if strategy.is_awake(&backoff) {
                backoff.snooze();
                continue;
            }
            let span = span.map(|span| Duration::from_nanos(span.as_nanos()));
            self.shared.sleep(was_closed, span);
        }
    }

    /// Returns `true` if the conflator is closed and no value is pending that this consumer could
    /// take.
    ///
    /// Values that other consumers have claimed, or that a producer is merging, may still be
    /// handled.
    pub fn is_finished(&self) -> bool {
        if !self.shared.is_closed() || self.claimed.is_some() || !self.deferred.is_empty() {
            return false;
        }
        // SeqCst: store-buffer argument between this fence and that of a put. Either the put sees
        // the close and takes its value back, or its mark is seen here. [CX1]
        fence(SeqCst);
        !self.shared.is_dirty()
    }

    /// Returns the time at which the first of the keys that this consumer has deferred may be
    /// handled; `None` if there is none. A shorter pace or a close makes them due earlier. For
    /// callers that do not use [`wait`](Self::wait): event loops and tasks.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deferred.next_deadline()
    }

    /// Arms `waker` to be called when a value is put or the conflator closes. If a value is pending
    /// or the conflator is closed, returns `false` and does not arm it.
    ///
    /// The thread that puts or closes calls the waker once. The waker must not block. Its panics,
    /// and those of its destructor, are caught and dropped. Arming again replaces the waker. With
    /// several consumers, each put calls only one waker. Use `arm` to connect an event loop:
    ///
    /// ```
    /// use std::sync::{Arc, mpsc};
    /// use std::task::{Wake, Waker};
    ///
    /// struct Nudge(mpsc::Sender<()>); // In a program: a write to the loop's eventfd.
    /// impl Wake for Nudge {
    ///     fn wake(self: Arc<Self>) {
    ///         let _ = self.0.send(());
    ///     }
    /// }
    ///
    /// let levels = rast_conflate::Conflator::<u32, f64>::new();
    /// let mut consumer = levels.consumer().unwrap();
    /// let (sender, events) = mpsc::channel();
    /// let waker = Waker::from(Arc::new(Nudge(sender)));
    ///
    /// assert!(consumer.arm(&waker));
    /// levels.producer().put_key(&7, 0.5).unwrap();
    /// events.recv().unwrap(); // The loop wakes up
    /// assert_eq!(consumer.pass(|_, _| {}).handled, 1); // and handles the value.
    /// ```
    #[must_use = "false: the waker is not armed, something is due now"]
    pub fn arm(&mut self, waker: &Waker) -> bool {
        self.claimed.is_none() && self.shared.arm(self.id, waker)
    }

    /// Begins a lap in each priority, and ends the deferrals that are due.
    fn begin_lap(&mut self) {
        let config = &self.shared.config;
        self.now = (config.idle.is_some() || config.key_figures).then(|| self.shared.now());
        for lap in &mut self.laps {
            // SAFETY: 1: a lap contains only tables of this conflator.
            let table = unsafe { self.shared.table(lap.table) };
            lap.start = (table.index, lap.from);
            lap.has_wrapped = false;
            lap.is_done = false;
        }
        if !self.deferred.is_empty() {
            // Deadlines are before the last instant, which means never.
            let is_closed = self.shared.is_closed();
            let until = || self.shared.now();
            self.end_deferrals(if is_closed { Instant::MAX } else { until() });
        }
    }

    fn end_deferrals(&mut self, now: Instant) {
        while let Some(due) = self.deferred.pop_due(now) {
            let place = due.value.place(&self.shared);
            self.shared.end_deferral(place);
            place.entry().life.unpin();
        }
    }

    /// Returns the next cell of the lap whose mark this consumer has cleared.
    #[inline]
    fn next_cell(&mut self) -> Option<Spot<K, V, M>> {
        loop {
            if let Some(claimed) = &mut self.claimed {
                // SAFETY: 1: a claim contains a table of this conflator.
                let table = unsafe { self.shared.table(claimed.table) };
                let shift = table.marks[claimed.priority].shift();
                let bit = claimed.claim.first + claimed.claim.bits.trailing_zeros() as usize;
                let spot = Spot {
                    table: claimed.table,
                    at: (bit << shift) + claimed.visited,
                };
                claimed.visited += 1;
                if claimed.visited == 1 << shift {
                    claimed.visited = 0;
                    claimed.claim.bits &= claimed.claim.bits - 1;
                    if claimed.claim.bits == 0 {
                        self.claimed = None;
                    }
                }
                return Some(spot);
            }
            if !self.claim() {
                return None;
            }
        }
    }

    /// Claims marks of the highest priority that has any; returns `false` at the end of a lap.
    fn claim(&mut self) -> bool {
        for priority in (0..self.laps.len()).rev() {
            if !self.shared.is_dirty_at(priority) {
                continue;
            }
            if self.claim_at(priority) {
                return true;
            }
            if self.shared.is_dirty_at(priority) {
                return false;
            }
        }
        false
    }

    fn claim_at(&mut self, priority: usize) -> bool {
        let shared = &*self.shared;
        let lap = &mut self.laps[priority];
        // Relaxed: a hint; the number of consumers only changes how many keys are claimed at once.
        // [CX2]
        let limit = match shared.consumers.load(Relaxed) {
            0 | 1 => ALONE,
            _ => shared.config.batch,
        };
        while !lap.is_done {
            // SAFETY: 1: a lap contains only tables of this conflator.
            let table = unsafe { shared.table(lap.table) };
            let is_last = lap.has_wrapped && table.index == lap.start.0;
            let end = if is_last { lap.start.1 } else { usize::MAX };
            let marks = &table.marks[priority];
            if marks.is_marked()
                && let Some(claim) = marks.claim(lap.from, end, limit)
            {
                lap.from = claim.first + 64 - claim.bits.leading_zeros() as usize;
                self.claimed = Some(Claimed {
                    priority,
                    table: lap.table,
                    claim,
                    visited: 0,
                });
                return true;
            }
            if is_last {
                lap.is_done = true;
                break;
            }
            let next = table.next();
            lap.has_wrapped |= next.is_none();
            lap.table = NonNull::from(next.unwrap_or(shared.first()));
            lap.from = 0;
        }
        false
    }

    /// Returns the next key of the lap that is due, and its value; the caller then runs the key.
    #[inline]
    fn next_run(&mut self) -> Option<(Spot<K, V, M>, V)> {
        loop {
            let spot = self.next_cell()?;
            if let Some(value) = self.take(spot) {
                return Some((spot, value));
            }
        }
    }

    /// Runs the key of a cell whose mark was cleared, if its pace allows it and it has a value.
    #[inline]
    fn take(&mut self, spot: Spot<K, V, M>) -> Option<V> {
        let shared = &*self.shared;
        let place = spot.place(shared);
        let (entry, cold) = (place.entry(), &place.table.cold[place.at]);
        // The producer of a value that comes after this check sets the mark.
        if !entry.value.is_full() {
            return None;
        }
        let mut visit = Visit {
            shared,
            place,
            counts: &self.counts,
            runs: false,
        };
        // Relaxed: a setting; a consumer that defers checks it again.
        let every = cold.every.load(Relaxed);
        let is_paced = every != 0 && !shared.is_closed();
        let now = (is_paced || shared.config.key_figures).then(|| shared.now());
        let Begin::Runs(state) = entry.life.begin_run() else {
            return visit.end(None);
        };
        visit.runs = true;
        if is_paced
            && let Some(now) = now
            && let Err(at) = admit(cold, every, now)
        {
            self.deferred.insert(at, spot);
            entry.life.defer();
            fence_after_exchange();
            // Relaxed: after the fence, either a changed pace is seen here, or the thread that set
            // it ends the deferral.
            if cold.every.load(Relaxed) != every {
                shared.end_deferral(place);
            }
            return visit.end(None);
        }
        let Some(Taken { value, conflated }) = entry.value.take(&mut self.spare) else {
            shared.end_run(place);
            return visit.end(None);
        };
        if conflated != 0 {
            self.counts.add(Count::Conflated, conflated);
        }
        if state == State::Removed && shared.config.removed == Removed::Insert {
            // If the conflator is full, the value is still handled.
            let _ = shared.revive(place);
        }
        // Relaxed: statistics, written by the consumer that runs the key, here and below. [CX4]
        let handled = cold.handled.load(Relaxed);
        // Relaxed: as CX4. [CX5]
        cold.handled.store(handled + 1, Relaxed);
        if let Some(now) = self.now {
            // Relaxed: as CX4. [CX6]
            cold.last.store(now.as_nanos(), Relaxed);
        }
        if shared.config.key_figures
            && let Some(now) = now
        {
            self.counts.note_wait(note_wait(cold, now));
        }
        visit.end(Some(value))
    }

    /// Calls the handler of a key that this consumer runs; returns `false` if it panicked.
    #[inline]
    fn handle(&mut self, spot: Spot<K, V, M>, value: V, handler: &mut impl FnMut(&K, V)) -> bool {
        let place = spot.place(&self.shared);
        // SAFETY: 1: this consumer runs the cell, which had a key when the run began.
        let key = unsafe { place.entry().key() };
        let cold = &place.table.cold[place.at];
        // Relaxed: a hint; a lock protects the handler itself. [CX7]
        let has_own = cold.has_handler.load(Relaxed) != 0;
        let outcome = if has_own {
            handle_own(key, value, cold, handler)
        } else {
            quietly(|| handler(key, value))
        };
        let count = if outcome {
            Count::Handled
        } else {
            Count::Panicked
        };
        // Count before the end of the run, which may drop a removed key, whose drop may panic.
        self.counts.add(count, 1);
        self.shared.end_run(place);
        outcome
    }
}

/// A visit of a cell whose mark was cleared. If it is dropped by a panic of the clock or of the
/// value's decoding, it ends the run and marks the key again.
struct Visit<'a, K, V, M: Mode<V>, S> {
    shared: &'a Shared<K, V, M, S>,
    place: Place<'a, K, V, M>,
    counts: &'a Counts,
    /// `true` if the consumer runs the key; if user code panics then, its value is already taken.
    runs: bool,
}

impl<K, V, M: Mode<V>, S> Visit<'_, K, V, M, S> {
    /// Ends the visit without a panic.
    #[inline(always)]
    fn end<T>(self, result: T) -> T {
        core::mem::forget(self);
        result
    }
}

impl<K, V, M: Mode<V>, S> Drop for Visit<'_, K, V, M, S> {
    #[cold]
    fn drop(&mut self) {
        self.shared.mark_again(self.place);
        if self.runs {
            self.counts.add(Count::Panicked, 1);
            self.shared.end_run(self.place);
        }
    }
}

/// Calls the key's own handler, without holding a lock.
#[cold]
fn handle_own<K, V>(key: &K, value: V, cold: &Cold<K, V>, handler: &mut impl FnMut(&K, V)) -> bool {
    let (own, version) = {
        let mut slot = cold.handler.lock();
        (slot.handler.take(), slot.version)
    };
    let Some(mut own) = own else {
        return quietly(|| handler(key, value));
    };
    let outcome = quietly(|| own(key, value));
    let mut own = Some(own);
    {
        let mut slot = cold.handler.lock();
        if slot.version == version {
            slot.handler = own.take();
        }
    }
    // It was replaced meanwhile.
    discard(own);
    outcome
}

/// Allows one handling of a paced key, or returns when the next one is allowed.
///
/// A token bucket stored as one time: `due`, at which the next handling would come at an even pace.
/// Up to `burst` handlings may come earlier.
fn admit<K, V>(cold: &Cold<K, V>, every: u64, now: Instant) -> Result<(), Instant> {
    let now = now.as_nanos();
    // Relaxed: a setting. [CX8]
    let burst = cold.burst.load(Relaxed);
    // Relaxed: written by the consumer that runs the key; runs are ordered. [CX9]
    let due = cold.due.load(Relaxed);
    // It is further ahead only if the pace was longer, or the clock was set back.
    let due = due.min(now.saturating_add(every.saturating_mul(burst)));
    let at = due.saturating_sub(every.saturating_mul(burst.saturating_sub(1)));
    if at > now {
        // Relaxed: as CX9.
        cold.due.store(due, Relaxed);
        // The last instant means never.
        return Err(Instant::from_nanos(at.min(u64::MAX - 1)));
    }
    // Relaxed: as CX9. [CX10]
    cold.due.store(due.max(now).saturating_add(every), Relaxed);
    Ok(())
}

impl<K, V, M: Mode<V>, S> Shared<K, V, M, S> {
    /// Ends the run of a key, and marks it again if another consumer met it meanwhile.
    #[inline]
    pub(crate) fn end_run(&self, place: Place<'_, K, V, M>) {
        let life = &place.entry().life;
        if life.end_run() {
            self.mark_again(place);
        }
        if life.state() == State::Removed {
            place.table.free(place.at);
        }
    }
}

/// Records how long the taken value was pending, and returns that.
#[cold]
fn note_wait<K, V>(cold: &Cold<K, V>, now: Instant) -> u64 {
    // Relaxed: a statistic.
    let oldest = cold.oldest.swap(0, Relaxed);
    if oldest == 0 {
        return 0;
    }
    let wait = now.as_nanos().saturating_sub(oldest);
    // Relaxed: a statistic.
    cold.wait_max.fetch_max(wait, Relaxed);
    wait
}

impl<K, V, M: Mode<V>, S> Drop for Consumer<K, V, M, S> {
    fn drop(&mut self) {
        // Deadlines are before the last instant, which means never.
        self.end_deferrals(Instant::MAX);
        if let Some(claimed) = self.claimed.take() {
            // SAFETY: 1: a claim contains a table of this conflator.
            let table = unsafe { self.shared.table(claimed.table) };
            self.shared
                .give_back(claimed.priority, table, claimed.claim);
        }
        // Relaxed: a count. [CX13]
        self.shared.consumers.fetch_sub(1, Relaxed);
        self.shared.ledger.close(&self.counts);
        if !self.shared.disarm(self.id) && self.shared.is_dirty() {
            // If a wake-up was for this consumer, pass it to another.
            self.shared.wake();
        }
    }
}

impl<K, V, M: Mode<V>, S> fmt::Debug for Consumer<K, V, M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("deferred", &self.deferred.len())
            .finish_non_exhaustive()
    }
}
