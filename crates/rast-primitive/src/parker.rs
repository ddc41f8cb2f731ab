//! Sleep of one thread and its wake-up by others, with a token.
//!
//! | state    | meaning                              | left by                                     |
//! | -------- | ------------------------------------ | ------------------------------------------- |
//! | EMPTY    | no token, the owner is awake         | `park` to PARKED, `unpark` to NOTIFIED      |
//! | PARKED   | the owner sleeps or is about to      | `unpark` to NOTIFIED, a time-out to EMPTY   |
//! | NOTIFIED | a token waits for the owner          | `park` to EMPTY                             |
//!
//! `unpark` always writes, also over NOTIFIED. So every `unpark`, not only the first, heads or
//! continues a release sequence. The `park` that takes the token reads from this sequence, so no
//! publication before an `unpark` is lost.
//!
//! No wake-up is lost: the owner holds the lock while it changes the state to PARKED and goes to
//! sleep. An `unpark` that finds PARKED takes the lock before it notifies; by then the owner sleeps
//! on the condition variable, or has seen NOTIFIED. An `unpark` that finds EMPTY changes it to
//! NOTIFIED, so the owner's change from EMPTY to PARKED fails.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::time::Duration;
use std::time::Instant;

use crate::deadline::Deadline;
use crate::sync::atomic::{
    AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::{Arc, Condvar, Mutex};

const EMPTY: u8 = 0;
const PARKED: u8 = 1;
const NOTIFIED: u8 = 2;

struct Inner {
    state: AtomicU8,
    lock: Mutex<()>,
    wake: Condvar,
}

/// The sleeping side: owned by one thread at a time.
///
/// # Examples
///
/// ```
/// use rast_primitive::{Parker, thread};
/// use std::time::Duration;
///
/// let parker = Parker::new();
/// let unparker = parker.unparker();
/// let waker = thread::spawn(move || unparker.unpark());
/// parker.park(); // Also returns when the token was there before.
/// waker.join().unwrap();
/// assert!(!parker.park_timeout(Duration::from_millis(1)));
/// ```
///
/// Two threads cannot park on one parker:
///
/// ```compile_fail,E0277
/// fn shares<T: Sync>() {}
/// shares::<rast_primitive::Parker>();
/// ```
pub struct Parker {
    inner: Arc<Inner>,
    /// One thread parks at a time: `Send`, not `Sync`.
    not_sync: PhantomData<Cell<()>>,
}

/// The waking side of a [`Parker`]: any thread, any number of clones.
///
/// # Examples
///
/// ```
/// use rast_primitive::Parker;
///
/// let parker = Parker::new();
/// let unparker = parker.unparker();
/// unparker.clone().unpark();
/// unparker.unpark(); // Tokens do not add up.
/// parker.park(); // Takes the one token, without sleeping.
/// ```
#[derive(Clone)]
pub struct Unparker {
    inner: Arc<Inner>,
}

impl Parker {
    /// Makes a parker without a token.
    #[must_use]
    pub fn new() -> Self {
        Self {
            inner: Arc::new(Inner {
                state: AtomicU8::new(EMPTY),
                lock: Mutex::new(()),
                wake: Condvar::new(),
            }),
            not_sync: PhantomData,
        }
    }

    /// Returns a handle that wakes this parker.
    #[must_use]
    pub fn unparker(&self) -> Unparker {
        Unparker {
            inner: Arc::clone(&self.inner),
        }
    }

    /// Sleeps until there is a token and takes it. Blocking.
    ///
    /// What a thread wrote before its [`Unparker::unpark`] is visible after this. One
    /// read-modify-write if there is a token already.
    pub fn park(&self) {
        let taken = self.inner.take() || self.inner.park_slow(Deadline::NEVER);
        debug_assert!(taken, "an untimed park ends with a token");
    }

    /// As [`park`](Self::park), for at most `timeout`; returns `true` if it took a token. Blocking,
    /// bounded by `timeout`.
    ///
    /// A `timeout` that exceeds the clock's range means no limit.
    pub fn park_timeout(&self, timeout: Duration) -> bool {
        self.inner.take() || self.inner.park_slow(Deadline::after(timeout))
    }

    /// As [`park_timeout`](Self::park_timeout), or as [`park`](Self::park) if there is no timeout.
    /// Blocking.
    ///
    /// ```
    /// use rast_primitive::Parker;
    /// use std::time::Duration;
    ///
    /// let parker = Parker::new();
    /// assert!(!parker.park_for(Some(Duration::ZERO)));
    /// parker.unparker().unpark();
    /// assert!(parker.park_for(None));
    /// ```
    pub fn park_for(&self, timeout: Option<Duration>) -> bool {
        let deadline = timeout.map_or(Deadline::NEVER, Deadline::after);
        self.inner.take() || self.inner.park_slow(deadline)
    }

    /// As [`park`](Self::park), until `deadline` at the latest; returns true
    /// when it took a token. Blocking, bounded by `deadline`.
    pub fn park_deadline(&self, deadline: Instant) -> bool {
        self.inner.take() || self.inner.park_slow(Deadline::at(deadline))
    }
}

impl Unparker {
    /// Leaves a token and wakes the owner of the parker if it sleeps.
    ///
    /// Tokens do not add up. One read-modify-write if the owner is awake; otherwise it also takes
    /// the parker's lock for a short time and wakes the thread.
    pub fn unpark(&self) {
        // Release: pairs with the Acquire of every way out of park; publishes what the caller wrote
        // before. A swap, so that a token over a token publishes as well. [PK5]
        if self.inner.state.swap(NOTIFIED, Release) == PARKED {
            self.inner.wake_slow();
        }
    }
}

impl Inner {
    /// Takes the token if there is one.
    #[inline]
    fn take(&self) -> bool {
        // Acquire: pairs with the Release in unpark; its writes are seen after park. [PK1]
        self.state
            .compare_exchange(NOTIFIED, EMPTY, Acquire, Relaxed)
            .is_ok()
    }

    /// Sleeps until there is a token, or until the deadline.
    #[cold]
    fn park_slow(&self, deadline: Deadline) -> bool {
        let mut guard = self.lock.lock();
        // Relaxed: a success acquires nothing that was published; after a failure the swap below
        // loads again. [PK2]
        let parked = self.state.compare_exchange(EMPTY, PARKED, Relaxed, Relaxed);
        if let Err(found) = parked {
            debug_assert_eq!(
                found, NOTIFIED,
                "a parker is parked by one thread at a time"
            );
            // Acquire: pairs with the Release in unpark; a token came before the sleep. [PK3]
            self.state.swap(EMPTY, Acquire);
            return true;
        }
        loop {
            let expired = deadline.sleep(&self.wake, &mut guard);
            if self.take() {
                return true;
            }
            if expired {
                // Acquire: pairs with the Release in unpark; a token may come between the check
                // above and this write, and then it is taken. [PK4]
                return self.state.swap(EMPTY, Acquire) == NOTIFIED;
            }
        }
    }

    /// Wakes the owner, which has changed the state to PARKED.
    #[cold]
    fn wake_slow(&self) {
        // The owner holds the lock from its change to PARKED until it sleeps on the condition.
        // Acquiring the lock puts the notification after that.
        drop(self.lock.lock());
        self.wake.notify_one();
    }
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Parker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parker").finish_non_exhaustive()
    }
}

impl fmt::Debug for Unparker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unparker").finish_non_exhaustive()
    }
}

// No panic can occur between two changes of the state, and the lock protects only the sleep.
impl UnwindSafe for Parker {}
impl RefUnwindSafe for Parker {}
impl UnwindSafe for Unparker {}
impl RefUnwindSafe for Unparker {}
