//! How the thread of a `LocalExecutor` sleeps.

use core::fmt;
use core::task::Waker;
use core::time::Duration;

use crate::primitive::Parker;
use crate::wakers::waker_of;

/// Puts the thread of a [`LocalExecutor`](crate::LocalExecutor) to sleep, until another thread
/// wakes it or the system reports an event. Once per turn the driver submits the requests of the
/// tasks to the system.
///
/// A turn ends when no task is ready, or after 64 polls of tasks. At most 128 deadlines fire in a
/// turn.
///
/// Rules for an implementation:
///
/// 1. A wake-up by [`unparker`](Self::unparker) ends the current `park`. If no `park` is running,
///    the next one returns at once.
/// 2. `park` may return early, for no reason. It must return soon after its timeout.
/// 3. What a thread wrote before a wake-up must be visible after the `park` that the wake-up ends.
///
/// A driver that breaks the first rule loses wake-ups; no driver can break memory safety.
///
/// # Panics
///
/// A panic of `submit` or `park` while the executor runs aborts the process, because unwinding
/// would drop values that tasks still borrow.
///
/// # Examples
///
/// A driver that counts its turns:
///
/// ```
/// use rast_executor::timers::MonotonicClock;
/// use rast_executor::{Driver, LocalExecutor, ParkerDriver, sleep};
/// use std::{cell::Cell, rc::Rc, task::Waker, time::Duration};
///
/// struct Counts(ParkerDriver, Rc<Cell<u32>>);
///
/// impl Driver for Counts {
///     fn submit(&mut self) {
///         self.1.set(self.1.get() + 1);
///     }
///     fn park(&mut self, timeout: Option<Duration>) {
///         self.0.park(timeout);
///     }
///     fn unparker(&self) -> Waker {
///         self.0.unparker()
///     }
/// }
///
/// let turns = Rc::new(Cell::new(0));
/// let driver = Counts(ParkerDriver::new(), Rc::clone(&turns));
/// let executor = LocalExecutor::with_driver(MonotonicClock::new(), driver);
/// executor.run(async { sleep(Duration::from_millis(1)).await });
/// assert!(turns.get() > 0);
/// ```
pub trait Driver {
    /// Submits what tasks have requested since the last call. Called at the end of each turn,
    /// before a sleep, and at the end of a run. It may wake tasks of the executor.
    fn submit(&mut self);

    /// Sleeps until a wake-up or the timeout; without a timeout, until a wake-up.
    fn park(&mut self, timeout: Option<Duration>);

    /// Returns a waker for the thread, usable from any thread. Called once, when the executor is
    /// made.
    fn unparker(&self) -> Waker;

    /// Returns the poll that serves the sockets of [`io`](crate::io), if this driver sleeps in one.
    /// Called once, when the executor is made.
    #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
    #[cfg_attr(docsrs, doc(cfg(feature = "io")))]
    fn sockets(&self) -> Option<crate::io::Sockets> {
        None
    }
}

/// The driver of an executor that waits only for tasks and timers: a [`Parker`].
///
/// ```
/// use rast_executor::{Driver, ParkerDriver};
///
/// let mut driver = ParkerDriver::new();
/// driver.unparker().wake();
/// driver.park(None);
/// ```
pub struct ParkerDriver(Parker);

impl ParkerDriver {
    /// Makes a driver without a token.
    #[must_use]
    pub fn new() -> Self {
        Self(Parker::new())
    }
}

impl Driver for ParkerDriver {
    fn submit(&mut self) {}

    fn park(&mut self, timeout: Option<Duration>) {
        self.0.park_for(timeout);
    }

    fn unparker(&self) -> Waker {
        waker_of(self.0.unparker())
    }
}

impl Default for ParkerDriver {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ParkerDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParkerDriver").finish_non_exhaustive()
    }
}
