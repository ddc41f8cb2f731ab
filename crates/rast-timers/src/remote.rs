//! Timers that any thread arms and cancels, kept by one owner.
//!
//! ```text
//!  any thread                      queue (MPMC)                owner's thread
//!  RemoteTimers::arm ── Arm(at, entry) ──▶ ░░░░░░ ──▶ poll ──▶ store ──▶ pop_due
//!        │            then wake()                                          │
//!        ▼                                                                 ▼
//!  RemoteTimer ─────────── state word: ARMED ──┬── FIRED ◀── compare_exchange
//!        │                                     │
//!        └── cancel: compare_exchange ─────────┴▶ CANCELLED, then Cancel ──▶ queue
//! ```
//!
//! | state | who sets it | what it means |
//! | --- | --- | --- |
//! | ARMED | arm | the timer will fire if no thread cancels it |
//! | FIRED | the owner, when it takes the due value out of its store | a cancel comes too late |
//! | CANCELLED | the canceller | the owner drops the value instead of handing it out; it keeps what it cancelled itself |
//! | GONE | the owner's end, when it drops the value unfired | nothing is left to cancel |
//!
//! 1. The word leaves ARMED once, by a compare-exchange, so exactly one of
//!    firing, cancelling and leaving with the owner happens, and a canceller
//!    knows at once which.
//! 2. Commands only save work: a Cancel lets the owner drop a value before its
//!    time, so that cancelled far deadlines do not pile up. The word alone
//!    decides.
//! 3. An Arm is in the queue before its handle exists, so a Cancel comes
//!    behind its Arm. After `close` Cancels take a queue of their own, which
//!    the owner looks into once the first is empty.
//! 4. A wake-up follows the Arm into the queue, so an owner that polls after
//!    each wake-up misses none. It is left out where the owner has published
//!    that it rests until a time that is not after the new deadline: either it
//!    still does, or it sees the Arm once the rest is over. It is not left out
//!    once [`BACKLOG`] commands wait; a Cancel wakes a resting owner then, too.
//! 5. What the queue refuses is given back; what it took is fired, cancelled
//!    or dropped with the owner.
//!
//! The owner may cancel, too: then it is a canceller that has the value in hand.
//!
//! There is no lock here; arm and cancel are as lock-free as the queue.

use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::queue::{Closed, Queue};
use crate::store::drop_all;
use crate::{CalendarStore, DeadlineStore, Expired, Handle, Instant, Swept};
use core::fmt;

const ARMED: u32 = 0;
const FIRED: u32 = 1;
const CANCELLED: u32 = 2;
const GONE: u32 = 3;

/// What a timer's two ends share.
struct Ticket {
    state: AtomicU32,
    /// The handle in the owner's store, written and read by the owner alone;
    /// `UNSTORED` before.
    handle: AtomicU64,
}

/// No handle: the store's last slot index is never used.
const UNSTORED: u64 = u64::MAX;

/// How many commands wait for an owner that [rests](TimerOwner::rest) before
/// the thread that adds to them wakes it.
///
/// To take so many, which is the first thing it does then, keeps the owner for
/// some ten to a hundred microseconds, about what a wake-up may cost.
pub const BACKLOG: usize = if cfg!(any(rast_loom, rast_shuttle)) {
    2
} else {
    1024
};

/// How many cancelled values are taken out of the store at once.
const BATCH: usize = 16;

/// The owner's share of a ticket: where it is dropped, nothing will fire.
struct Stub(Arc<Ticket>);

impl Drop for Stub {
    fn drop(&mut self) {
        // Relaxed: the thread that finds it gone learns nothing else; a state that was
        // left before stays as it is. [RT5]
        let _ = self
            .0
            .state
            .compare_exchange(ARMED, GONE, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A remotely armed value in the owner's store.
pub struct Entry<T> {
    value: T,
    stub: Stub,
}

enum Command<T> {
    Arm(Instant, Entry<T>),
    Cancel(Arc<Ticket>),
}

struct Shared<T, W> {
    commands: Queue<Command<T>>,
    /// Cancels that came after `close`; empty before it.
    late: Queue<Arc<Ticket>>,
    /// Until when the owner rests: what is due then or later wakes no thread.
    /// `AWAKE` if it does not rest.
    rests_until: AtomicU64,
    wake: W,
}

/// Not at rest, as far as anybody knows: every timer wakes.
const AWAKE: u64 = 0;

impl<T, W> Shared<T, W> {
    /// Drops what the owner has not taken.
    fn drop_commands(&self) {
        // No code of the caller's.
        drop_all(|| self.late.pop());
        drop_all(|| self.commands.pop());
    }
}

impl<T, W: Fn()> Shared<T, W> {
    /// Wakes the owner for a timer in its queue, unless it is up in time anyway.
    fn wake_for(&self, at: Instant) {
        // SeqCst: either the load below sees the end of a rest, which the owner
        // stored before its fence RT8, or the owner's look into the queue behind
        // that fence sees the Arm. [RT9]
        fence(Ordering::SeqCst);
        // Relaxed: the fence above orders it. [RT10]
        let until = self.rests_until.load(Ordering::Relaxed);
        if until == AWAKE || at.as_nanos() < until || self.commands.len() >= BACKLOG {
            (self.wake)();
        }
    }

    /// Wakes an owner that rests while commands pile up in `queue`, to which
    /// the caller has just added one.
    ///
    /// The caller counts what it added itself. What it reads of the owner may be
    /// old: an owner that has come back is woken for nothing, and one whose rest
    /// is not seen yet is left to the next who adds.
    fn wake_for_backlog<C>(&self, queue: &Queue<C>) {
        // Relaxed: a bound of memory, on which no thread waits. [RT12]
        let until = self.rests_until.load(Ordering::Relaxed);
        if until != AWAKE && queue.len() >= BACKLOG {
            (self.wake)();
        }
    }
}

/// Opens a door to timers that the caller owns, kept in a
/// [`CalendarStore`].
///
/// `wake` is called by the arming thread after each accepted timer, and must
/// leave a token: if the owner is about to sleep, that sleep ends at once.
/// An [`Unparker`](crate::primitive::Unparker) does. An owner that sleeps by
/// [`TimerOwner::rest`] is woken for earlier deadlines, and once [`BACKLOG`]
/// commands wait, for cancels as well. A `wake` that panics panics in
/// [`arm`](RemoteTimers::arm), after the timer was accepted, or in
/// [`cancel`](RemoteTimer::cancel), after the timer was cancelled.
///
/// ```
/// use rast_timers::{Instant, remote};
/// let (timers, mut owner) = remote::channel(|| { /* unpark the owner */ });
/// let at = Instant::from_nanos;
///
/// // On any thread:
/// let first = timers.arm(at(10), "first").unwrap();
/// let second = timers.arm(at(20), "second").unwrap();
/// assert!(second.cancel().is_ok());
///
/// // On the owner's:
/// owner.poll(usize::MAX);
/// assert_eq!(owner.next_deadline(), Some(at(10)));
/// assert_eq!(owner.pop_due(at(30)), Some((at(10), "first")));
/// assert_eq!(owner.pop_due(at(30)), None);
///
/// // And too late:
/// assert!(first.cancel().is_err());
/// ```
pub fn channel<T, W: Fn()>(wake: W) -> (RemoteTimers<T, W>, TimerOwner<T, W>) {
    channel_with(CalendarStore::new(), wake)
}

/// As [`channel`], with a store of the caller's choice.
pub fn channel_with<T, W: Fn(), S: DeadlineStore<Entry<T>>>(
    store: S,
    wake: W,
) -> (RemoteTimers<T, W>, TimerOwner<T, W, S>) {
    let shared = Arc::new(Shared {
        commands: Queue::new(),
        late: Queue::new(),
        rests_until: AtomicU64::new(AWAKE),
        wake,
    });
    let timers = RemoteTimers {
        shared: Arc::clone(&shared),
    };
    let owner = TimerOwner {
        shared,
        store,
        cancelled: Batch::new(),
    };
    (timers, owner)
}

/// The door for any thread: arms timers of a [`TimerOwner`].
pub struct RemoteTimers<T, W> {
    shared: Arc<Shared<T, W>>,
}

impl<T, W: Fn()> RemoteTimers<T, W> {
    /// Arms a timer: the owner gets `value` once its time has come.
    ///
    /// A deadline in the past fires at the owner's next poll;
    /// [`Instant::MAX`] never does, but can be cancelled. One allocation, one
    /// push, one fence, and one call of the owner's wake unless it rests until
    /// `at` or less and fewer than [`BACKLOG`] commands wait; lock-free except for
    /// the allocator, as [`Queue::push`] is.
    ///
    /// # Errors
    ///
    /// `Closed(value)` if the owner is gone or has closed the door.
    pub fn arm(&self, at: Instant, value: T) -> Result<RemoteTimer<T, W>, Closed<T>> {
        let ticket = Arc::new(Ticket {
            state: AtomicU32::new(ARMED),
            handle: AtomicU64::new(UNSTORED),
        });
        let entry = Entry {
            value,
            stub: Stub(Arc::clone(&ticket)),
        };
        match self.shared.commands.push(Command::Arm(at, entry)) {
            Ok(()) => {
                self.shared.wake_for(at);
                Ok(RemoteTimer {
                    shared: Arc::clone(&self.shared),
                    ticket,
                })
            }
            Err(Closed(Command::Arm(_, entry))) => Err(Closed(entry.value)),
            Err(Closed(Command::Cancel(_))) => unreachable!("the queue gives back what it got"),
        }
    }

    /// Tells whether the owner is gone or has closed the door.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.commands.is_closed()
    }
}

impl<T, W> Clone for RemoteTimers<T, W> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T, W> fmt::Debug for RemoteTimers<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteTimers").finish_non_exhaustive()
    }
}

/// A timer armed through [`RemoteTimers`]; dropping it lets the timer run.
#[must_use = "dropping the handle lets the timer run and gives up cancelling it"]
pub struct RemoteTimer<T, W> {
    shared: Arc<Shared<T, W>>,
    ticket: Arc<Ticket>,
}

/// Why a cancel came too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooLate {
    /// The owner has taken the value out: the timer has fired.
    Fired,
    /// The value is gone and will not fire: it was cancelled before, or its
    /// owner dropped it.
    AlreadyGone,
}

impl fmt::Display for TooLate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fired => "the timer has fired already",
            Self::AlreadyGone => "the timer is gone already, without having fired",
        })
    }
}

impl core::error::Error for TooLate {}

impl<T, W: Fn()> RemoteTimer<T, W> {
    /// Cancels the timer, decided on the spot.
    ///
    /// After `Ok` the owner never hands the value out; the owner's thread
    /// drops it, at its next poll or with the store. The owner is not woken,
    /// unless it rests and [`BACKLOG`] commands wait. The decision is wait-free,
    /// the push behind it as in [`arm`](RemoteTimers::arm).
    ///
    /// # Errors
    ///
    /// [`TooLate::Fired`] if the owner was first. Then everything the owner did
    /// before it took the value happened before this call returns.
    /// [`TooLate::AlreadyGone`] if a clone of this handle or the owner has
    /// cancelled it, or if the owner is gone and the value with it.
    pub fn cancel(&self) -> Result<(), TooLate> {
        // Release: pairs with the Acquire of RT2, where the owner finds the
        // timer cancelled; what the canceller did before is seen by the drop
        // of the value. On failure Acquire: pairs with the Release of RT2, so
        // the loser sees what the owner did before it fired. [RT1]
        let won = self.ticket.state.compare_exchange(
            ARMED,
            CANCELLED,
            Ordering::Release,
            Ordering::Acquire,
        );
        match won {
            Ok(_) => {}
            Err(FIRED) => return Err(TooLate::Fired),
            Err(_) => return Err(TooLate::AlreadyGone),
        }
        let ticket = Arc::clone(&self.ticket);
        match self.shared.commands.push(Command::Cancel(ticket)) {
            Ok(()) => self.shared.wake_for_backlog(&self.shared.commands),
            Err(Closed(Command::Cancel(ticket))) => {
                // Refused as well once the owner is gone: no work is left to
                // save.
                if self.shared.late.push(ticket).is_ok() {
                    self.shared.wake_for_backlog(&self.shared.late);
                }
            }
            Err(Closed(Command::Arm(..))) => unreachable!("the queue gives back what it got"),
        }
        Ok(())
    }
}

impl<T, W> Clone for RemoteTimer<T, W> {
    /// Another handle to the same timer; one of them at most cancels it.
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            ticket: Arc::clone(&self.ticket),
        }
    }
}

impl<T, W> fmt::Debug for RemoteTimer<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteTimer").finish_non_exhaustive()
    }
}

/// The owner's end: a deadline store that takes commands from other threads.
///
/// Used by one thread at a time and may move between threads. Dropping it
/// closes the door and drops every value that has not fired, those behind one
/// whose destructor panics as well; a cancel after that says
/// [`TooLate::AlreadyGone`].
pub struct TimerOwner<T, W, S = CalendarStore<Entry<T>>>
where
    S: DeadlineStore<Entry<T>>,
{
    shared: Arc<Shared<T, W>>,
    store: S,
    /// Cancelled by others and still in the store; empty between calls, unless
    /// code of the caller's panicked in one.
    cancelled: Batch,
}

/// A few handles.
struct Batch {
    handles: [Handle; BATCH],
    len: usize,
}

impl Batch {
    const fn new() -> Self {
        Self {
            handles: [Handle::from_word(UNSTORED); BATCH],
            len: 0,
        }
    }

    fn push(&mut self, handle: Handle) {
        self.handles[self.len] = handle;
        self.len += 1;
    }

    fn is_full(&self) -> bool {
        self.len == BATCH
    }

    fn as_slice(&self) -> &[Handle] {
        &self.handles[..self.len]
    }
}

impl<T, W, S: DeadlineStore<Entry<T>>> TimerOwner<T, W, S> {
    /// Takes up to `budget` commands from the queue into the store and
    /// returns how many; fewer than `budget` means the queue was found empty.
    ///
    /// Poll after every wake-up and before [`next_deadline`](Self::next_deadline).
    /// What the store's insert and cancel cost for each command: O(1) with the
    /// default one. A timer that was cancelled before its Arm is met never
    /// comes into the store. If the destructor of a cancelled value panics, all
    /// others stay, and the next poll goes on with what was cancelled.
    pub fn poll(&mut self, budget: usize) -> usize {
        let mut done = 0;
        while done < budget && self.obey() {
            done += 1;
        }
        self.drop_cancelled();
        done
    }

    /// Takes one command, if one waits.
    #[inline]
    fn obey(&mut self) -> bool {
        if self.cancelled.is_full() {
            self.drop_cancelled();
        }
        let command = self.shared.commands.pop().or_else(|| {
            // Rule 3 holds here too: behind `close`, all arms came above.
            self.shared.late.pop().map(Command::Cancel)
        });
        match command {
            Some(Command::Arm(at, entry)) => {
                // Acquire: pairs with the Release of RT1; what the canceller
                // did before is seen by the drop of the value. [RT11]
                if entry.stub.0.state.load(Ordering::Acquire) == CANCELLED {
                    return true;
                }
                let ticket = Arc::clone(&entry.stub.0);
                let handle = self.store.insert(at, entry).to_word();
                // Relaxed: only the owner reads and writes the handle; a move
                // of the owner to another thread orders it. [RT3]
                ticket.handle.store(handle, Ordering::Relaxed);
            }
            Some(Command::Cancel(ticket)) => {
                // Relaxed: as RT3; by rule 3 the Arm came first. [RT4]
                let handle = ticket.handle.load(Ordering::Relaxed);
                if handle != UNSTORED {
                    self.cancelled.push(Handle::from_word(handle));
                }
            }
            None => return false,
        }
        true
    }

    /// Drops what others have cancelled, as far as `pop_due` has not met and
    /// dropped it already.
    #[inline]
    fn drop_cancelled(&mut self) {
        let handles = self.cancelled.as_slice();
        if !handles.is_empty() {
            self.store.cancel_all(handles, |_, entry| drop(entry));
            // Not before: a handle that is met again names nothing.
            self.cancelled.len = 0;
        }
    }

    /// Returns when to look at the store next, as the store says: no timer
    /// there is due before it; `None` if none will ever be. It may be that of a
    /// timer cancelled since the last poll: to wake for it is useless and
    /// harmless.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.store.next_deadline()
    }

    /// Sleeps by `sleep` until the next deadline, which it is given, and tells
    /// those who arm: a timer that is due at that time or later wakes no thread.
    ///
    /// Those timers, and cancels, wait in the queue meanwhile. Once [`BACKLOG`]
    /// of them do, no matter which thread adds another wakes the owner as well, until it is up:
    /// about so many wait at most, and what comes while it wakes.
    ///
    /// `sleep` must return once `wake` is called, or has been called since this
    /// began, and at the deadline; earlier does no harm. It is not called, and
    /// the answer is `None`, if commands wait: then [`poll`](Self::poll) first.
    /// The thread that sleeps in another way is woken for each timer, and may do so
    /// between two rests. One fence.
    ///
    /// ```
    /// use rast_timers::primitive::Parker;
    /// use rast_timers::{Clock, MonotonicClock, Nanos, remote};
    /// let clock = MonotonicClock::new();
    /// let parker = Parker::new();
    /// let unparker = parker.unparker();
    /// let (timers, mut owner) = remote::channel(move || unparker.unpark());
    /// let at = clock.now().saturating_add(Nanos::from_millis(1));
    /// timers.arm(at, "a millisecond").unwrap();
    /// let fired = loop {
    ///     owner.poll(usize::MAX);
    ///     let now = clock.now();
    ///     if let Some((_, value)) = owner.pop_due(now) {
    ///         break value;
    ///     }
    ///     owner.rest(|until| match until {
    ///         Some(until) => {
    ///             parker.park_timeout(until.saturating_since(now).into());
    ///         }
    ///         None => parker.park(),
    ///     });
    /// };
    /// assert_eq!(fired, "a millisecond");
    /// ```
    pub fn rest<R>(&mut self, sleep: impl FnOnce(Option<Instant>) -> R) -> Option<R> {
        /// Ends the rest, also through a panic.
        struct Rest<'a>(&'a AtomicU64);
        impl Drop for Rest<'_> {
            fn drop(&mut self) {
                // Relaxed: the fence below orders it. [RT7]
                self.0.store(AWAKE, Ordering::Relaxed);
                // SeqCst: either an armer's load behind its fence RT9 sees the
                // store above and wakes, or the next look into the queue sees
                // the Arm. [RT8]
                fence(Ordering::SeqCst);
            }
        }
        let deadline = self.next_deadline();
        let until = deadline.map_or(u64::MAX, |at| at.as_nanos().max(AWAKE + 1));
        // Relaxed: the thread that does not see it wakes; the thread that sees it has a timer
        // that the owner meets after the rest. [RT6]
        self.shared.rests_until.store(until, Ordering::Relaxed);
        let _rest = Rest(&self.shared.rests_until);
        let idle = self.shared.commands.is_empty() && self.shared.late.is_empty();
        idle.then(|| sleep(deadline))
    }

    /// Takes out the first value that is due at `now` and not cancelled, with
    /// its deadline. Drops cancelled ones on the way.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        loop {
            let Expired { at, value, .. } = self.store.pop_due(now)?;
            if let Some(value) = value.decide(FIRED) {
                return Some((at, value));
            }
        }
    }

    /// Spends up to `budget` steps of the store on what is due at `now` and
    /// hands those that are not cancelled to `each`; cancelled ones count as
    /// fired in the answer.
    ///
    /// If `each` panics, the value it was given is gone and all others stay.
    pub fn expire(
        &mut self,
        now: Instant,
        budget: usize,
        mut each: impl FnMut(Instant, T),
    ) -> Swept {
        self.store.expire(now, budget, |due| {
            if let Some(value) = due.value.decide(FIRED) {
                each(due.at, value);
            }
        })
    }

    /// As [`expire`](Self::expire), but hands out what is due in any order,
    /// which spares a [`CalendarStore`] the work of sorting it: for timers that
    /// are each handled on their own, as timeouts are.
    ///
    /// Timers that are armed or cancelled meanwhile are treated as in `expire`:
    /// an arm waits for the next poll, a cancel counts if it comes before its
    /// timer's turn, and says so if it comes later.
    ///
    /// ```
    /// use rast_timers::{Instant, remote};
    /// let (timers, mut owner) = remote::channel(|| ());
    /// for nanos in [30, 10, 40, 20] {
    ///     drop(timers.arm(Instant::from_nanos(nanos), nanos).unwrap());
    /// }
    /// owner.poll(usize::MAX);
    /// let mut sum = 0;
    /// let swept = owner.expire_unordered(Instant::from_nanos(30), 100, |_, value| sum += value);
    /// assert_eq!((swept.fired, swept.more, sum), (3, false, 60));
    /// ```
    pub fn expire_unordered(
        &mut self,
        now: Instant,
        budget: usize,
        mut each: impl FnMut(Instant, T),
    ) -> Swept {
        self.store.expire_unordered(now, budget, |due| {
            if let Some(value) = due.value.decide(FIRED) {
                each(due.at, value);
            }
        })
    }

    /// Cancels timers of this owner and hands those that had neither fired nor
    /// been cancelled to `each`; returns how many these were.
    ///
    /// Each timer is decided alone: another thread that cancels it meanwhile
    /// either has the first word, and the value is dropped here, or is told
    /// [`TooLate::AlreadyGone`]. Commands that wait in front of the Arm of one of
    /// the timers are taken first, as by [`poll`](Self::poll). Beyond those, what
    /// the store's [`cancel_all`](DeadlineStore::cancel_all) costs.
    ///
    /// If `each` panics, the value it was given and those before it are gone, and
    /// all others stay: the timers behind it fire unless they are cancelled again.
    /// So it is with the destructor of a value that another thread has cancelled.
    ///
    /// # Panics
    ///
    /// If one of the timers is another owner's; then nothing has changed.
    ///
    /// ```
    /// use rast_timers::remote::{self, TooLate};
    /// use rast_timers::Instant;
    /// let (timers, mut owner) = remote::channel(|| ());
    /// let armed = [1, 2, 3].map(|value| timers.arm(Instant::from_nanos(9), value).unwrap());
    /// assert_eq!(armed[1].cancel(), Ok(()));
    /// let mut sum = 0;
    /// assert_eq!(owner.cancel_all(&armed, |value| sum += value), 2);
    /// assert_eq!(sum, 4);
    /// assert_eq!(armed[0].cancel(), Err(TooLate::AlreadyGone));
    /// ```
    pub fn cancel_all(&mut self, timers: &[RemoteTimer<T, W>], mut each: impl FnMut(T)) -> usize {
        let ours = |timer: &RemoteTimer<T, W>| Arc::ptr_eq(&timer.shared, &self.shared);
        assert!(timers.iter().all(ours), "the timer is another owner's");
        let mut count = 0;
        for some in timers.chunks(BATCH) {
            let mut batch = Batch::new();
            for timer in some {
                if let Some(handle) = self.handle_of(&timer.ticket) {
                    batch.push(handle);
                }
            }
            self.store.cancel_all(batch.as_slice(), |_, entry| {
                if let Some(value) = entry.decide(CANCELLED) {
                    count += 1;
                    each(value);
                }
            });
        }
        // What was met on the way to the Arms.
        self.drop_cancelled();
        count
    }

    /// The handle of a timer, once its Arm has been met; `None` if it is
    /// decided before.
    fn handle_of(&mut self, ticket: &Ticket) -> Option<Handle> {
        loop {
            // Relaxed: as RT3. [RT13]
            let handle = ticket.handle.load(Ordering::Relaxed);
            if handle != UNSTORED {
                return Some(Handle::from_word(handle));
            }
            // Relaxed: the thread that decided it has the value, or `obey` drops it.
            // [RT14]
            let decided = ticket.state.load(Ordering::Relaxed) != ARMED;
            // By rule 3 the Arm of an undecided one waits in the queue.
            if decided || !self.obey() {
                return None;
            }
        }
    }

    /// Cancels all timers of this owner and drops their values: those in the
    /// store, and those whose Arm waits in the queue, which is taken until it is
    /// found empty. A cancel that comes later says [`TooLate::AlreadyGone`].
    ///
    /// If the destructor of a value panics, the others are dropped all the same.
    /// What the store's [`clear`](DeadlineStore::clear) costs, and one pop for
    /// each command.
    ///
    /// ```
    /// use rast_timers::remote::{self, TooLate};
    /// use rast_timers::Instant;
    /// let (timers, mut owner) = remote::channel(|| ());
    /// let timer = timers.arm(Instant::from_nanos(9), "closed").unwrap();
    /// owner.clear();
    /// assert_eq!(owner.pop_due(Instant::MAX), None);
    /// assert_eq!(timer.cancel(), Err(TooLate::AlreadyGone));
    /// ```
    pub fn clear(&mut self) {
        /// Empties the queue, also where a destructor in the store has panicked.
        struct Rest<'a, T, W>(&'a Shared<T, W>);
        impl<T, W> Drop for Rest<'_, T, W> {
            fn drop(&mut self) {
                self.0.drop_commands();
            }
        }
        self.cancelled.len = 0;
        let _rest = Rest(&self.shared);
        self.store.clear();
    }

    /// Returns another door to this owner.
    #[must_use]
    pub fn remote(&self) -> RemoteTimers<T, W> {
        RemoteTimers {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Closes the door: [`arm`](RemoteTimers::arm) refuses from now on, and
    /// what was accepted still comes by [`poll`](Self::poll) and fires.
    pub fn close(&self) {
        self.shared.commands.close();
    }

    /// Returns the number of timers in the store, cancelled ones that no poll
    /// has met included.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Tells whether the store is empty; commands may wait in the queue.
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }
}

impl<T> Entry<T> {
    /// Decides a timer that has left the store: its value, or `None` and the
    /// value dropped if it was cancelled before.
    fn decide(self, outcome: u32) -> Option<T> {
        let Self { value, stub } = self;
        // Release: pairs with the Acquire of a failed RT1; what the owner did
        // before is seen by the canceller that comes too late. On failure
        // Acquire: pairs with the Release of RT1; what the canceller did before
        // is seen by the drop of the value below. [RT2]
        let won =
            stub.0
                .state
                .compare_exchange(ARMED, outcome, Ordering::Release, Ordering::Acquire);
        won.is_ok().then_some(value)
    }
}

impl<T, W, S: DeadlineStore<Entry<T>>> Drop for TimerOwner<T, W, S> {
    fn drop(&mut self) {
        self.shared.commands.close();
        self.shared.late.close();
        // The doors may outlive the owner, and the queue with them: the values
        // in it must not.
        self.shared.drop_commands();
    }
}

impl<T, W, S: DeadlineStore<Entry<T>>> fmt::Debug for TimerOwner<T, W, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerOwner")
            .field("len", &self.len())
            .field("next_deadline", &self.next_deadline())
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Entry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}
