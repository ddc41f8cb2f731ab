//! Timers that any thread arms and cancels, and that one thread, the owner, keeps and fires. The
//! threads send Arm and Cancel commands to the owner through a queue.
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
//! | state | set by | meaning |
//! | --- | --- | --- |
//! | ARMED | the arming thread | the timer will fire if no thread cancels it |
//! | FIRED | the owner, when it pops the due value from its store | a cancel comes too late |
//! | CANCELLED | the cancelling thread | the owner drops the value instead of firing it; but if `cancel_all` set the state, the value is passed to the callback of `cancel_all` |
//! | GONE | the owner, when it drops the value unfired | a cancel finds no value |
//!
//! 1. The state leaves ARMED once, by a compare-exchange. So exactly one of firing, cancelling and
//!    dropping with the owner happens, and the cancelling thread knows at once which.
//! 2. The state alone decides what fires. A Cancel command only lets the owner drop a value before
//!    its deadline, so that cancelled timers with far deadlines do not accumulate.
//! 3. An Arm is in the queue before its handle exists, so a Cancel is queued after its Arm. After
//!    `close`, Cancels go to a second queue, which the owner reads when the first queue is empty.
//! 4. The arming thread wakes the owner after it has pushed the Arm, so an owner that polls after
//!    each wake-up misses no Arm. The wake-up is skipped if the owner has published that it rests
//!    at most until the new deadline, because the owner pops the Arm when that rest ends. While
//!    [`BACKLOG`] commands or more are queued, no wake-up is skipped, and a Cancel also wakes a
//!    resting owner.
//! 5. A value that the queue rejects is returned to the caller.

use crate::primitive::panics::{call_each, drop_each};
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::queue::{Closed, Queue};
use crate::{CalendarStore, DeadlineStore, Expired, Handle, Instant, Swept};
use core::fmt;

const ARMED: u32 = 0;
const FIRED: u32 = 1;
const CANCELLED: u32 = 2;
const GONE: u32 = 3;

/// State shared by the two ends of a timer.
struct Ticket {
    state: AtomicU32,
    /// Handle in the owner's store, read and written only by the owner; `UNSTORED` before the
    /// insert.
    handle: AtomicU64,
}

/// No handle: no store uses the slot index that it contains.
const UNSTORED: u64 = u64::MAX;

/// Number of queued commands from which an arming or cancelling thread wakes an owner that
/// [rests](TimerOwner::rest).
///
/// After the wake-up the owner first processes these commands. That takes some ten to a hundred
/// microseconds, about as much as a wake-up may cost.
pub const BACKLOG: usize = if cfg!(any(rast_loom, rast_shuttle)) {
    2
} else {
    1024
};

/// Number of cancelled values that are removed from the store in one call.
const BATCH: usize = 16;

/// The owner's reference to a ticket; if it is dropped in state ARMED, the timer never fires.
struct Stub(Arc<Ticket>);

impl Drop for Stub {
    fn drop(&mut self) {
        // Relaxed: a thread that reads GONE uses nothing else; a state other than ARMED does not
        // change. [RT5]
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
    /// Queue of the cancels that came after `close`; empty before it.
    late: Queue<Arc<Ticket>>,
    /// End of the owner's rest: a timer due then or later does not wake the owner. `AWAKE` if the
    /// owner does not rest.
    rests_until: AtomicU64,
    wake: W,
}

/// The owner does not rest, as far as other threads can see: every timer wakes it.
const AWAKE: u64 = 0;

impl<T, W> Shared<T, W> {
    /// Drops the commands that the owner has not popped.
    fn drop_commands(&self) {
        // Drops no value of the caller's, only tickets, so it does not panic.
        drop_each(|| self.late.pop());
        drop_each(|| self.commands.pop());
    }
}

impl<T, W: Fn()> Shared<T, W> {
    /// Wakes the owner for a queued timer, unless it will be awake in time anyway.
    fn wake_for(&self, at: Instant) {
        // SeqCst: store-buffer argument. Either the load below sees the end of a rest, which the
        // owner stored before its fence RT8, or the owner's check of the queue after that fence
        // sees the Arm. [RT9]
        fence(Ordering::SeqCst);
        // Relaxed: the fence above orders it. [RT10]
        let until = self.rests_until.load(Ordering::Relaxed);
        if until == AWAKE || at.as_nanos() < until || self.commands.len() >= BACKLOG {
            (self.wake)();
        }
    }

    /// Wakes a resting owner if `BACKLOG` commands or more are in `queue`, to which the caller has
    /// just added one.
    ///
    /// The length includes the caller's command. The owner's state may be stale. An owner that has
    /// just ended its rest is woken for nothing. If the rest is not visible yet, the next thread
    /// that adds a command wakes the owner.
    fn wake_for_backlog<C>(&self, queue: &Queue<C>) {
        // Relaxed: it only bounds memory; no thread waits for it. [RT12]
        let until = self.rests_until.load(Ordering::Relaxed);
        if until != AWAKE && queue.len() >= BACKLOG {
            (self.wake)();
        }
    }
}

/// Makes the two ends of a timer channel. The owner's end keeps the timers in a [`CalendarStore`].
///
/// The arming thread calls `wake` after each accepted timer, with one exception: while the owner
/// sleeps in [`TimerOwner::rest`], a deadline at or after the end of the rest needs no call. Once
/// [`BACKLOG`] commands (Arms and Cancels) are queued, `wake` is called for each timer, and while
/// the owner rests also for each cancel.
///
/// If the owner is about to sleep when `wake` is called, `wake` must make that sleep end at once.
/// An [`Unparker`](crate::primitive::Unparker) does so. If `wake` panics, the panic passes through
/// [`arm`](RemoteTimers::arm) after the timer was accepted, or through
/// [`cancel`](RemoteTimer::cancel) after the timer was cancelled.
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

/// As [`channel`], with a store chosen by the caller.
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

/// A sender for any thread: arms timers of a [`TimerOwner`].
pub struct RemoteTimers<T, W> {
    shared: Arc<Shared<T, W>>,
}

impl<T, W: Fn()> RemoteTimers<T, W> {
    /// Arms a timer: the owner gets `value` at its deadline `at`.
    ///
    /// A timer with a past deadline fires at the owner's next poll. A timer with the deadline
    /// [`Instant::MAX`] never fires, but can be cancelled. Costs one allocation, one push, one
    /// fence, and one call of the owner's `wake`. The call is skipped if the owner
    /// [rests](TimerOwner::rest) until `at` or earlier and fewer than [`BACKLOG`] commands are
    /// queued. Lock-free as [`Queue::push`] is, except for the allocator.
    ///
    /// # Errors
    ///
    /// `Closed(value)` if the owner was dropped or has closed the channel.
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

    /// Returns `true` if the owner was dropped or has closed the channel.
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

/// A timer armed through [`RemoteTimers`]; dropping the handle does not cancel the timer.
#[must_use = "dropping the handle lets the timer run and gives up cancelling it"]
pub struct RemoteTimer<T, W> {
    shared: Arc<Shared<T, W>>,
    ticket: Arc<Ticket>,
}

/// Why a cancel came too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooLate {
    /// The timer has fired: the owner has popped the value.
    Fired,
    /// The value will not fire: it was cancelled before, or its owner dropped it.
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
    /// Cancels the timer; the result is final.
    ///
    /// After `Ok` the owner never returns the value; the owner's thread drops it, at its next poll
    /// or when it drops the store. The owner is not woken, unless it rests and [`BACKLOG`] commands
    /// or more are queued. One wait-free compare-exchange decides the result. If the result is
    /// `Ok`, the call then pushes a Cancel command to the owner. This push is lock-free, as in
    /// [`arm`](RemoteTimers::arm).
    ///
    /// # Errors
    ///
    /// [`TooLate::Fired`] if the owner popped the value first. Then everything the owner did before
    /// it popped the value happens-before the return of this call. [`TooLate::AlreadyGone`] if the
    /// owner or a clone of this handle has cancelled the timer, or if the owner has dropped the
    /// value.
    pub fn cancel(&self) -> Result<(), TooLate> {
        // Release: pairs with the Acquire of RT2 and RT11, by which the owner finds the timer
        // cancelled; the canceller's earlier writes happen-before the drop of the value. On failure
        // Acquire: pairs with the Release of RT2; what the owner did before it fired happens-before
        // this return. [RT1]
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
                // The push also fails if the owner was dropped: then there is no work to save.
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
    /// Makes another handle to the same timer; at most one of them cancels it.
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

/// The owner's end: a deadline store that receives commands from other threads.
///
/// One thread at a time uses it; it may move between threads. Dropping it closes the channel and
/// drops every value that has not fired, even if the destructor of one panics. A cancel after that
/// returns [`TooLate::AlreadyGone`].
pub struct TimerOwner<T, W, S = CalendarStore<Entry<T>>>
where
    S: DeadlineStore<Entry<T>>,
{
    shared: Arc<Shared<T, W>>,
    store: S,
    /// Handles of timers that others cancelled and the store still has; empty between calls, unless
    /// the caller's code panicked in one.
    cancelled: Batch,
}

/// A small array of handles.
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
    /// Processes up to `budget` queued commands and returns their number; fewer than `budget` means
    /// that the queue was found empty.
    ///
    /// Poll after every wake-up and before [`next_deadline`](Self::next_deadline). Each command
    /// costs what the store's insert or cancel costs: O(1) with the default store. A timer that was
    /// cancelled before its Arm is popped never enters the store. If the destructor of a cancelled
    /// value panics, all others stay, and the next poll continues with the cancelled ones.
    pub fn poll(&mut self, budget: usize) -> usize {
        let mut done = 0;
        while done < budget && self.obey() {
            done += 1;
        }
        self.drop_cancelled();
        done
    }

    /// Pops and processes one command; returns `false` if none is queued.
    #[inline]
    fn obey(&mut self) -> bool {
        if self.cancelled.is_full() {
            self.drop_cancelled();
        }
        let command = self.shared.commands.pop().or_else(|| {
            // Rule 3 holds here too: all Arms precede `close` and were popped above.
            self.shared.late.pop().map(Command::Cancel)
        });
        match command {
            Some(Command::Arm(at, entry)) => {
                // Acquire: pairs with the Release of RT1; the canceller's earlier writes
                // happen-before the drop of the value. [RT11]
                if entry.stub.0.state.load(Ordering::Acquire) == CANCELLED {
                    return true;
                }
                let ticket = Arc::clone(&entry.stub.0);
                let handle = self.store.insert(at, entry).to_word();
                // Relaxed: only the owner reads and writes the handle; moving the owner to another
                // thread synchronizes. [RT3]
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

    /// Drops the values that others have cancelled and that `pop_due` has not dropped already.
    #[inline]
    fn drop_cancelled(&mut self) {
        let handles = self.cancelled.as_slice();
        if !handles.is_empty() {
            self.store.cancel_all(handles, |_, entry| drop(entry));
            // Not earlier, because the drop may panic. A handle that is cancelled twice names
            // nothing.
            self.cancelled.len = 0;
        }
    }

    /// Returns a time before which no timer in the store is due; `None` if none will ever be due.
    /// It may be the deadline of a timer that was cancelled since the last poll; waking for it is
    /// useless but harmless.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.store.next_deadline()
    }

    /// Calls `sleep` with the next deadline, and publishes that deadline meanwhile. A thread that
    /// arms a timer for that time or later then does not wake the owner.
    ///
    /// Meanwhile the Arm commands of such timers, and all Cancel commands, stay in the queue. Once
    /// [`BACKLOG`] commands are queued, each thread that adds another wakes the owner, until the
    /// rest has ended. So the queue holds about [`BACKLOG`] commands, plus those that arrive during
    /// the wake-up.
    ///
    /// `sleep` must return at the deadline. It must return at once if `wake` is called during
    /// `sleep`, or was called between the start of `rest` and that of `sleep`. It may return
    /// earlier. If commands are queued, this function returns `None` without calling `sleep`: call
    /// [`poll`](Self::poll) first. An owner that sleeps in another way is woken for each timer.
    /// Costs one fence.
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
        /// Ends the rest, also on a panic.
        struct Rest<'a>(&'a AtomicU64);
        impl Drop for Rest<'_> {
            fn drop(&mut self) {
                // Relaxed: the fence below orders it. [RT7]
                self.0.store(AWAKE, Ordering::Relaxed);
                // SeqCst: store-buffer argument. Either an arming thread's load after its fence RT9
                // sees the store above, so it wakes the owner, or the owner's next check of the
                // queue sees the Arm. [RT8]
                fence(Ordering::SeqCst);
            }
        }
        let deadline = self.next_deadline();
        let until = deadline.map_or(u64::MAX, |at| at.as_nanos().max(AWAKE + 1));
        // Relaxed: a thread that does not see the store wakes the owner; the timer of a thread that
        // sees it is one that the owner finds after the rest. [RT6]
        self.shared.rests_until.store(until, Ordering::Relaxed);
        let _rest = Rest(&self.shared.rests_until);
        let idle = self.shared.commands.is_empty() && self.shared.late.is_empty();
        idle.then(|| sleep(deadline))
    }

    /// Pops the first value that is due at `now` and not cancelled, with its deadline. Drops
    /// cancelled values on the way.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        loop {
            let Expired { at, value, .. } = self.store.pop_due(now)?;
            if let Some(value) = value.decide(FIRED) {
                return Some((at, value));
            }
        }
    }

    /// Spends up to `budget` steps of the store on values that are due at `now`, and passes those
    /// that are not cancelled to `each`. The result counts cancelled values as fired.
    ///
    /// If `each` panics, the value it was given is lost and all others stay.
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

    /// As [`expire`](Self::expire), but passes due values in any order, which saves a
    /// [`CalendarStore`] the work of sorting them. It suits timers that are independent of each
    /// other, such as timeouts.
    ///
    /// Timers that are armed or cancelled meanwhile are treated as in `expire`. A new timer waits
    /// for the next poll. A cancel succeeds only if it comes before the timer is popped.
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

    /// Cancels timers of this owner; returns how many had neither fired nor been cancelled. Passes
    /// the values of these to `each`.
    ///
    /// Each timer is decided separately. If another thread cancels a timer meanwhile and is first,
    /// the value is dropped here. If this call is first, the other cancel returns
    /// [`TooLate::AlreadyGone`]. Commands that are queued before the Arm command of one of the
    /// timers are processed first, as by [`poll`](Self::poll). The other work costs what the
    /// store's [`cancel_all`](DeadlineStore::cancel_all) costs.
    ///
    /// If `each` panics, the value it was given and those before it are gone, and all others stay:
    /// the timers after it fire unless they are cancelled again. The same holds if another thread
    /// has cancelled one of the timers, and the destructor of its value panics.
    ///
    /// # Panics
    ///
    /// If one of the timers belongs to another owner; then nothing has changed.
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
        // Drops the timers whose Cancels were popped in search of the Arms.
        self.drop_cancelled();
        count
    }

    /// Returns the handle of a timer once its Arm has been popped; `None` if the timer was decided
    /// before that.
    fn handle_of(&mut self, ticket: &Ticket) -> Option<Handle> {
        loop {
            // Relaxed: as RT3. [RT13]
            let handle = ticket.handle.load(Ordering::Relaxed);
            if handle != UNSTORED {
                return Some(Handle::from_word(handle));
            }
            // Relaxed: the thread that decided it has the value, or `obey` drops it. [RT14]
            let decided = ticket.state.load(Ordering::Relaxed) != ARMED;
            // By rule 3 the Arm of an undecided timer is in the queue.
            if decided || !self.obey() {
                return None;
            }
        }
    }

    /// Cancels all timers of this owner and drops their values: those in the store, and those whose
    /// Arm command is queued. The call pops commands until the queue is empty. A later cancel
    /// returns [`TooLate::AlreadyGone`].
    ///
    /// If destructors of values panic, the other values are still dropped, as by the store's
    /// `clear`. Costs what the store's [`clear`](DeadlineStore::clear) costs, and one pop for each
    /// command.
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
        self.cancelled.len = 0;
        let mut stored = || self.store.clear();
        let mut queued = || self.shared.drop_commands();
        call_each([&mut stored as &mut dyn FnMut(), &mut queued]);
    }

    /// Returns another sender to this owner.
    #[must_use]
    pub fn remote(&self) -> RemoteTimers<T, W> {
        RemoteTimers {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Closes the channel: [`arm`](RemoteTimers::arm) fails from now on. Accepted timers still
    /// arrive by [`poll`](Self::poll) and fire.
    pub fn close(&self) {
        self.shared.commands.close();
    }

    /// Returns the number of timers in the store, including cancelled ones whose Cancel has not
    /// been polled.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Returns `true` if the store is empty; commands may still be queued.
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }
}

impl<T> Entry<T> {
    /// Decides a timer that has left the store: returns its value, or drops the value and returns
    /// `None` if the timer was cancelled before.
    fn decide(self, outcome: u32) -> Option<T> {
        let Self { value, stub } = self;
        // Release: pairs with the Acquire of a failed RT1; what the owner did before happens-before
        // the return of the late cancel. On failure Acquire: pairs with the Release of RT1; the
        // canceller's earlier writes happen-before the drop of the value below. [RT2]
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
        // The senders may outlive the owner, and so may the queue; its values must not. The store
        // is cleared here, because a panic in its own drop would be a second one.
        self.clear();
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
