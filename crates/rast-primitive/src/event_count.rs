//! Lets threads sleep until a condition holds. Other threads make the condition true without a
//! lock.
//!
//! A condition variable needs the condition to change under its lock. An event count does not. A
//! waiter registers, checks the condition again, and only then sleeps. A notifier changes the
//! condition and then checks for registered waiters, which costs a fence and a load if there are
//! none.
//!
//! No wake-up is lost, by the store-buffer argument:
//!
//! ```text
//!   waiter                         notifier
//!   W1 waiters += 1                N1 change the condition
//!   W2 fence(SeqCst)               N2 fence(SeqCst)
//!   W3 read the condition          N3 read waiters
//! ```
//!
//! The two fences are in one total order. If W2 comes first, N3 sees W1 and the notifier checks the
//! table of waiters. If N2 comes first, W3 sees N1 and the waiter does not sleep.
//!
//! The table of waiters has a lock. Only threads that are about to sleep or that wake others take
//! it. A waiter sleeps on the condition variable of its own slot, so a wake-up wakes only one
//! thread. Slots are reused, so that waiting allocates only when more threads wait than ever
//! before.
//!
//! | state    | meaning                                   | left by                                   |
//! | -------- | ----------------------------------------- | ----------------------------------------- |
//! | Free     | no thread uses the slot                   | `prepare` to Waiting                      |
//! | Waiting  | in the wait list, first in first out      | `notify_*` to Notified, `cancel` to Free  |
//! | Notified | not in the list, the wake-up not seen yet | `wait` or `cancel` to Free                |
//!
//! A waiter that cancels after `notify_one` has chosen it passes the wake-up to the next waiter,
//! because the notifier relies on some woken thread to check the condition. `wait_until` stays
//! registered while it checks the condition after a sleep. So if the check panics or the time is
//! over, a wake-up that came during the check is passed on too.

use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::time::Duration;
use std::time::Instant;
use std_alloc::vec::Vec;

use crate::backoff::Backoff;
use crate::constructor;
use crate::deadline::Deadline;
use crate::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, SeqCst},
    fence,
};
use crate::sync::{Arc, Condvar, Mutex};
use crate::wait_strategy::WaitStrategy;

/// The end of a list of slots.
const NONE: usize = usize::MAX;

/// Lets threads sleep until a condition holds. The condition may change without a lock.
///
/// A waiter calls [`prepare`](Self::prepare), checks the condition, then calls [`wait`](Self::wait)
/// or [`cancel`](Self::cancel); [`wait_until`](Self::wait_until) does all of this. A notifier
/// changes the condition, then calls [`notify_one`](Self::notify_one) or
/// [`notify_all`](Self::notify_all).
///
/// # Examples
///
/// ```
/// use rast_primitive::sync::{Arc, atomic::{AtomicBool, Ordering}};
/// use rast_primitive::{EventCount, WaitStrategy, thread};
///
/// let shared = Arc::new((AtomicBool::new(false), EventCount::new()));
/// let theirs = Arc::clone(&shared);
/// let setter = thread::spawn(move || {
///     theirs.0.store(true, Ordering::Release);
///     theirs.1.notify_one();
/// });
/// shared.1.wait_until(WaitStrategy::Adaptive, || shared.0.load(Ordering::Acquire));
/// setter.join().unwrap();
/// ```
pub struct EventCount {
    /// Number of slots in state Waiting. Written under the lock, loaded by notifiers without it.
    waiters: AtomicUsize,
    table: Mutex<Table>,
}

/// The registration of one waiter; dropping it cancels.
///
/// A key that is leaked with `mem::forget` stays in the wait list, and a
/// [`notify_one`](EventCount::notify_one) that chooses it wakes no thread.
#[must_use = "dropping the key cancels the registration; pass it to `wait`"]
pub struct Key<'a> {
    event: &'a EventCount,
    slot: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Waiting,
    Notified(Call),
}

/// Which call woke a waiter: only a wake-up of `notify_one` is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    One,
    All,
}

struct Slot {
    state: State,
    /// Neighbours in the wait list; of a free slot, `next` is the next free slot.
    prev: usize,
    next: usize,
    wake: Arc<Condvar>,
}

/// All slots; those in state Waiting form a list, the Free ones a stack.
struct Table {
    slots: Vec<Slot>,
    first: usize,
    last: usize,
    free: usize,
}

impl EventCount {
    constructor! {
        /// Makes an event count that no thread waits on.
        #[must_use]
        pub fn new() -> Self {
            Self {
                waiters: AtomicUsize::new(0),
                table: Mutex::new(Table::new()),
            }
        }
    }

    /// Registers the caller as a waiter. Check the condition after this and before
    /// [`wait`](Self::wait).
    ///
    /// Takes a lock for a short time; allocates if more threads wait than ever before.
    ///
    /// # Examples
    ///
    /// ```
    /// use rast_primitive::EventCount;
    /// use std::time::Duration;
    ///
    /// let event = EventCount::new();
    /// let first = event.prepare();
    /// let second = event.prepare();
    /// event.notify_one(); // Chooses the first,
    /// event.cancel(first); // which passes the wake-up to the second.
    /// event.wait(second);
    ///
    /// let alone = event.prepare();
    /// assert!(!event.wait_timeout(alone, Duration::from_millis(1)));
    /// ```
    pub fn prepare(&self) -> Key<'_> {
        let slot = {
            let mut table = self.table.lock();
            // Relaxed: written under the lock only; the fence below orders it before the caller's
            // check. [EC1]
            self.waiters.fetch_add(1, Relaxed);
            table.enter()
        };
        // SeqCst: pairs with the fence in notify; either the notifier sees this waiter, or the
        // check that the caller makes next sees what the notifier changed. [EC2]
        fence(SeqCst);
        Key { event: self, slot }
    }

    /// Sleeps until notified. Returns at once if a notification came after
    /// [`prepare`](Self::prepare). Blocking.
    ///
    /// # Panics
    ///
    /// If `key` was made by another event count.
    pub fn wait(&self, key: Key<'_>) {
        let notified = self.wait_slow(key, Deadline::NEVER);
        debug_assert!(notified, "an untimed wait ends with a notification");
    }

    /// As [`wait`](Self::wait), for at most `timeout`; returns `true` if it was notified. Blocking,
    /// bounded by `timeout`.
    ///
    /// # Panics
    ///
    /// If `key` was made by another event count.
    pub fn wait_timeout(&self, key: Key<'_>, timeout: Duration) -> bool {
        self.wait_slow(key, Deadline::after(timeout))
    }

    /// As [`wait`](Self::wait), until `deadline` at the latest; returns `true` if it was notified.
    /// Blocking, bounded by `deadline`.
    ///
    /// # Panics
    ///
    /// If `key` was made by another event count.
    pub fn wait_deadline(&self, key: Key<'_>, deadline: Instant) -> bool {
        self.wait_slow(key, Deadline::at(deadline))
    }

    /// Cancels the registration, because the condition holds.
    ///
    /// If [`notify_one`](Self::notify_one) has chosen this waiter meanwhile, the wake-up passes to
    /// the next one.
    ///
    /// # Panics
    ///
    /// If `key` was made by another event count.
    pub fn cancel(&self, key: Key<'_>) {
        self.check_key(&key);
        drop(key);
    }

    /// Of the waiters that are not woken yet, wakes the one that registered first.
    ///
    /// One fence and one load if no thread waits; otherwise it takes a lock for a short time.
    #[inline]
    pub fn notify_one(&self) {
        if self.has_waiters() {
            self.notify_slow(Call::One, 1);
        }
    }

    /// Wakes up to `most` waiters, first in, first out, as `most` calls of
    /// [`notify_one`](Self::notify_one) do. Use it if the change makes the condition true for
    /// `most` waiters.
    ///
    /// Lock-free if no thread waits: a fence and a load.
    #[inline]
    pub fn notify_some(&self, most: usize) {
        if most > 0 && self.has_waiters() {
            self.notify_slow(Call::One, most);
        }
    }

    /// Wakes all registered waiters.
    ///
    /// One fence and one load if no thread waits; otherwise it takes a lock for a short time.
    #[inline]
    pub fn notify_all(&self) {
        if self.has_waiters() {
            self.notify_slow(Call::All, usize::MAX);
        }
    }

    /// Waits until `condition` holds, spinning and sleeping by `strategy`. Blocking.
    ///
    /// `condition` must load with Acquire whatever the caller uses afterwards.
    pub fn wait_until(&self, strategy: WaitStrategy, mut condition: impl FnMut() -> bool) {
        let held = self.wait_for(strategy, None, || condition().then_some(()));
        debug_assert!(held.is_some(), "an untimed wait ends with the condition");
    }

    /// As [`wait_until`](Self::wait_until), until `deadline` at the latest;
    /// returns whether the condition held. Blocking, bounded by `deadline`.
    pub fn wait_until_deadline(
        &self,
        strategy: WaitStrategy,
        deadline: Instant,
        mut condition: impl FnMut() -> bool,
    ) -> bool {
        let held = self.wait_for(strategy, Some(deadline), || condition().then_some(()));
        held.is_some()
    }

    /// Calls `attempt` until it returns `Some`. Between calls, the thread spins and sleeps as
    /// `strategy` says. If there is a `deadline`, one last attempt starts after it. Returns `None`
    /// if this attempt fails too. Blocking, bounded by `deadline`.
    ///
    /// It turns a non-blocking operation, `attempt`, into a blocking one.
    ///
    /// # Examples
    ///
    /// ```
    /// use rast_primitive::{EventCount, WaitStrategy};
    /// use std::sync::Mutex;
    /// use std::time::Instant;
    ///
    /// let (items, event) = (Mutex::new(vec![1]), EventCount::new());
    /// let pop = |deadline| {
    ///     event.wait_for(WaitStrategy::Park, deadline, || items.lock().unwrap().pop())
    /// };
    /// assert_eq!(pop(None), Some(1));
    /// assert_eq!(pop(Some(Instant::now())), None);
    /// ```
    pub fn wait_for<T>(
        &self,
        strategy: WaitStrategy,
        deadline: Option<Instant>,
        attempt: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        self.wait_for_slow(
            strategy,
            deadline.map_or(Deadline::NEVER, Deadline::at),
            attempt,
        )
    }

    #[inline]
    fn has_waiters(&self) -> bool {
        // SeqCst: pairs with the fence in prepare; either the load below sees the waiter, or the
        // waiter's check sees what the caller changed before this. [EC3]
        fence(SeqCst);
        // Relaxed: ordered by the fence above; the table is read under its lock. [EC4]
        self.waiters.load(Relaxed) != 0
    }

    #[cold]
    fn notify_slow(&self, call: Call, mut most: usize) {
        let mut table = self.table.lock();
        while most > 0 && table.wake_first(call) {
            // Relaxed: written under the lock only; a notifier that loads the old count finds an
            // empty list. [EC5]
            self.waiters.fetch_sub(1, Relaxed);
            most -= 1;
        }
    }

    #[cold]
    fn wait_slow(&self, key: Key<'_>, deadline: Deadline) -> bool {
        self.check_key(&key);
        let notified = self.sleep(&key, deadline);
        if notified {
            self.receive(key);
        }
        notified
    }

    #[cold]
    fn wait_for_slow<T>(
        &self,
        strategy: WaitStrategy,
        deadline: Deadline,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let backoff = Backoff::new();
        let mut done = attempt();
        while done.is_none() {
            if strategy.is_awake(&backoff) {
                backoff.snooze();
                // Before the attempt: one that fails after the deadline is the last.
                let is_last = deadline.is_past();
                done = attempt();
                if is_last {
                    break;
                }
                continue;
            }
            let key = self.prepare();
            done = attempt();
            if done.is_some() {
                // Dropping the key passes a wake-up on.
                break;
            }
            let notified = self.sleep(&key, deadline);
            // Before the attempt, and also after a wake-up: continuous wake-ups must not extend the
            // deadline.
            let is_last = deadline.is_past();
            // The key is kept during the attempt: if that panics, the wake-up is passed on.
            done = attempt();
            if notified {
                self.receive(key);
            } else {
                // A wake-up that came after the end of the sleep may also have come after the
                // attempt.
                drop(key);
            }
            if is_last {
                break;
            }
        }
        done
    }

    /// Sleeps until `key` is notified, or until `deadline`; returns `true` if it was notified. The
    /// wake-up stays with the key.
    fn sleep(&self, key: &Key<'_>, deadline: Deadline) -> bool {
        let mut table = self.table.lock();
        let wake = Arc::clone(&table.slots[key.slot].wake);
        let mut expired = false;
        while table.slots[key.slot].state == State::Waiting && !expired {
            expired = deadline.sleep(&wake, &mut table);
        }
        table.slots[key.slot].state != State::Waiting
    }

    /// Ends the registration of a notified key and consumes the wake-up, which is not passed on.
    fn receive(&self, key: Key<'_>) {
        let slot = key.slot;
        core::mem::forget(key);
        let state = self.table.lock().leave(slot);
        debug_assert!(
            matches!(state, State::Notified(_)),
            "a wake-up is received once"
        );
    }

    fn check_key(&self, key: &Key<'_>) {
        assert!(
            core::ptr::eq(self, key.event),
            "the key was made by another EventCount"
        );
    }

    /// Checks the invariants of the table, for tests.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        let table = self.table.lock();
        let (mut length, mut at, mut before) = (0, table.first, NONE);
        while at != NONE {
            assert_eq!(
                table.slots[at].state,
                State::Waiting,
                "the line holds waiters"
            );
            assert_eq!(table.slots[at].prev, before, "the line is linked both ways");
            (before, at, length) = (at, table.slots[at].next, length + 1);
        }
        assert_eq!(table.last, before, "the line ends at its last");
        // Relaxed: written under the lock, which is held here. [EC7]
        assert_eq!(
            self.waiters.load(Relaxed),
            length,
            "the count is the line's length"
        );
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        let mut table = self.event.table.lock();
        let state = table.leave(self.slot);
        // A waiter that was woken is not counted any more. If `notify_one` woke it and it does not
        // check the condition, it passes the wake-up on. Then the next waiter is not counted
        // either.
        let sinks = match state {
            State::Waiting => true,
            State::Notified(Call::One) => table.wake_first(Call::One),
            State::Notified(Call::All) => false,
            State::Free => unreachable!("a key holds its slot"),
        };
        if sinks {
            // Relaxed: written under the lock only. [EC6]
            self.event.waiters.fetch_sub(1, Relaxed);
        }
    }
}

impl Table {
    const fn new() -> Self {
        Self {
            slots: Vec::new(),
            first: NONE,
            last: NONE,
            free: NONE,
        }
    }

    /// Appends a free slot, or a new one, to the wait list.
    fn enter(&mut self) -> usize {
        if self.free == NONE {
            self.free = self.slots.len();
            self.slots.push(Slot {
                state: State::Free,
                prev: NONE,
                next: NONE,
                wake: Arc::new(Condvar::new()),
            });
        }
        let at = self.free;
        let last = self.last;
        let slot = &mut self.slots[at];
        self.free = slot.next;
        slot.state = State::Waiting;
        slot.prev = last;
        slot.next = NONE;
        match last {
            NONE => self.first = at,
            last => self.slots[last].next = at,
        }
        self.last = at;
        at
    }

    /// Frees a slot and returns the state that it had.
    fn leave(&mut self, at: usize) -> State {
        if self.slots[at].state == State::Waiting {
            self.unlink(at);
        }
        let free = core::mem::replace(&mut self.free, at);
        let slot = &mut self.slots[at];
        slot.next = free;
        core::mem::replace(&mut slot.state, State::Free)
    }

    /// Wakes the first waiter of the list; returns `false` if the list is empty.
    fn wake_first(&mut self, call: Call) -> bool {
        let at = self.first;
        if at == NONE {
            return false;
        }
        self.unlink(at);
        self.slots[at].state = State::Notified(call);
        self.slots[at].wake.notify_one();
        true
    }

    fn unlink(&mut self, at: usize) {
        let (prev, next) = (self.slots[at].prev, self.slots[at].next);
        match prev {
            NONE => self.first = next,
            prev => self.slots[prev].next = next,
        }
        match next {
            NONE => self.last = prev,
            next => self.slots[next].prev = prev,
        }
    }
}

impl Default for EventCount {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for EventCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventCount").finish_non_exhaustive()
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}

// No user code runs under the lock, so no panic can leave the table inconsistent.
impl UnwindSafe for EventCount {}
impl RefUnwindSafe for EventCount {}
