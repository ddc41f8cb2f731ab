//! A one-slot event: set by any thread, received once.
//!
//! Source: the task scheduler of the original RAST design. A sender announces itself, and publishes
//! the event only once it holds the lock.
//!
//! | bit   | meaning                                                   | set by                  | cleared by                |
//! | ----- | --------------------------------------------------------- | ----------------------- | ------------------------- |
//! | PROBE | a `send` will set SET, or came when SET was already 1     | `send`, first           | any receive               |
//! | SET   | the event is set                                          | `send`, under the lock  | the receive that takes it |
//!
//! Change: the original `send` fails its compare-exchange if the slot is already set, and a failed
//! compare-exchange publishes nothing. Here every `send` writes (`fetch_or`), so it heads or
//! continues the release sequence that the next receive reads from. Writes before any `send`
//! happen-before that receive.
//!
//! Why two bits: if `send` first set SET and then took the lock, a receiver could free the signal
//! in between. So `send` first sets PROBE, and sets SET only while it holds the lock. A receiver
//! that has taken SET may drop the signal at once: the drop acquires the lock, and the sender's
//! last access is its unlock. If the `fetch_or` of a `send` finds PROBE or SET already set, this
//! `send` does not access the signal again. The caller must make sure that no such `send` starts
//! after the memory is freed.

use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::time::Duration;

use crate::constructor;
use crate::deadline::Deadline;
use crate::sync::atomic::{
    AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::{Condvar, Mutex};

const EMPTY: u8 = 0;
const PROBE: u8 = 1;
const SET: u8 = 2;

/// A one-slot event: many senders, many receivers; several sends may be received as one.
///
/// Sending to a signal that is already set is one read-modify-write without a lock, so a burst of
/// events costs one wake-up. Everything written before a `send` happens-before the receive that
/// takes the event, even if the signal was already set.
///
/// A receiver may free the signal as soon as it has received, if no further `send` can start:
/// dropping the signal waits for the sender to leave.
///
/// # Examples
///
/// ```
/// use rast_primitive::Signal;
/// use rast_primitive::sync::Arc;
/// use rast_primitive::thread;
///
/// let signal = Arc::new(Signal::new());
/// let theirs = Arc::clone(&signal);
/// let sender = thread::spawn(move || theirs.send());
/// signal.receive_blocking();
/// assert!(!signal.receive());
/// sender.join().unwrap();
/// ```
pub struct Signal {
    state: AtomicU8,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Signal {
    constructor! {
        /// Makes a signal that is not set.
        #[must_use]
        pub fn new() -> Self {
            Self {
                state: AtomicU8::new(EMPTY),
                lock: Mutex::new(()),
                wake: Condvar::new(),
            }
        }
    }

    /// Sets the event and wakes one waiting receiver.
    ///
    /// Lock-free if the event is already set, or if another sender is setting it; otherwise takes
    /// the lock for a short time. In the second case the event may appear only after that other
    /// sender has continued. Until then, a [`receive`](Self::receive) after this call may return
    /// `false`; a blocking one waits for the event.
    #[inline]
    pub fn send(&self) {
        // Release: pairs with the Acquire in receive; publishes what the caller wrote before, also
        // if the event is already set, because this always writes. [SG1]
        if self.state.fetch_or(PROBE, Release) == EMPTY {
            self.send_slow();
        }
    }

    #[cold]
    fn send_slow(&self) {
        let guard = self.lock.lock();
        // Relaxed: continues the release sequence headed by this thread's write of PROBE. All
        // changes of the state are read-modify-writes, including a receive, so nothing breaks it.
        // [SG2]
        self.state.fetch_or(SET, Relaxed);
        self.wake.notify_one();
        drop(guard);
    }

    /// Takes the event if it is set; returns whether it was. Wait-free.
    #[inline]
    pub fn receive(&self) -> bool {
        // Relaxed: a hint; the swap below decides. [SG3]
        if self.state.load(Relaxed) & SET == 0 {
            return false;
        }
        // Acquire: pairs with the Release in send; the senders' earlier writes are visible. [SG4]
        self.state.swap(EMPTY, Acquire) & SET != 0
    }

    /// Waits until the event is set and takes it. Blocking.
    pub fn receive_blocking(&self) {
        let taken = self.receive() || self.receive_slow(Deadline::NEVER);
        debug_assert!(taken, "an untimed receive ends with the event");
    }

    /// Waits for the event for at most `timeout`; returns whether it took it.
    /// Blocking, bounded by `timeout`.
    ///
    /// A `timeout` that exceeds the clock's range means no limit.
    pub fn receive_timeout(&self, timeout: Duration) -> bool {
        self.receive() || self.receive_slow(Deadline::after(timeout))
    }

    #[cold]
    fn receive_slow(&self, deadline: Deadline) -> bool {
        let mut guard = self.lock.lock();
        let mut expired = false;
        loop {
            // SET appears under the lock only, so it cannot appear between this check and the
            // sleep.
            if self.receive() {
                return true;
            }
            if expired {
                return false;
            }
            expired = deadline.sleep(&self.wake, &mut guard);
        }
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        // The sender whose event was received may still hold the lock: wait for it to leave.
        drop(self.lock.lock());
    }
}

impl Default for Signal {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").finish_non_exhaustive()
    }
}

// No user code runs inside, and each operation leaves a valid state.
impl UnwindSafe for Signal {}
impl RefUnwindSafe for Signal {}
