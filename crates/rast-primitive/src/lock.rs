//! `Mutex` and `Condvar` for cold paths: parking_lot's, or in a model loom's or shuttle's.
//!
//! Neither poisons: a panic under the lock unlocks it, and the code that takes the lock must handle
//! the state that the panic left.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::time::Duration;

use crate::constructor;

#[cfg(rast_loom)]
use loom::sync as imp;
#[cfg(not(any(rast_loom, rast_shuttle)))]
use parking_lot as imp;
#[cfg(rast_shuttle)]
use shuttle::sync as imp;

/// A lock without poisoning. It takes one byte in addition to its value.
///
/// Blocking. For cold paths: starting, stopping, parking, growing a table.
///
/// # Examples
///
/// ```
/// use rast_primitive::sync::Mutex;
///
/// static NAMES: Mutex<Vec<&str>> = Mutex::new(Vec::new());
/// NAMES.lock().push("reader");
/// assert_eq!(NAMES.lock().len(), 1);
/// ```
#[derive(Default)]
pub struct Mutex<T: ?Sized>(imp::Mutex<T>);

impl<T> Mutex<T> {
    constructor! {
        /// Makes an unlocked lock around `value`.
        #[cfg_attr(rast_loom, track_caller)]
        pub fn new(value: T) -> Self {
            Self(imp::Mutex::new(value))
        }
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        return self.0.into_inner();
        #[cfg(any(rast_loom, rast_shuttle))]
        return unpoisoned(self.0.into_inner());
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock and acquires it. Blocking.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        return MutexGuard(self.0.lock());
        #[cfg(any(rast_loom, rast_shuttle))]
        return MutexGuard {
            mutex: &self.0,
            guard: Some(unpoisoned(self.0.lock())),
        };
    }

    /// Acquires the lock if it is free. Never waits.
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        return self.0.try_lock().map(MutexGuard);
        #[cfg(any(rast_loom, rast_shuttle))]
        return self.0.try_lock().ok().map(|guard| MutexGuard {
            mutex: &self.0,
            guard: Some(guard),
        });
    }

    /// Returns the value without locking: `&mut self` shows that no other access exists.
    pub fn get_mut(&mut self) -> &mut T {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        return self.0.get_mut();
        #[cfg(any(rast_loom, rast_shuttle))]
        return unpoisoned(self.0.get_mut());
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(guard) => f.debug_tuple("Mutex").field(&&*guard).finish(),
            None => f.write_str("Mutex(<locked>)"),
        }
    }
}

/// loom and shuttle keep std's signatures; a model that panicked has failed already.
#[cfg(any(rast_loom, rast_shuttle))]
fn unpoisoned<T>(result: Result<T, std::sync::PoisonError<T>>) -> T {
    result.unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A held [`Mutex`]; dropping it unlocks.
#[cfg(not(any(rast_loom, rast_shuttle)))]
#[must_use = "the lock is released when the guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized>(imp::MutexGuard<'a, T>);

/// A held [`Mutex`]; dropping it unlocks.
#[cfg(any(rast_loom, rast_shuttle))]
#[must_use = "the lock is released when the guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a imp::Mutex<T>,
    /// `None` only inside of [`Condvar`]'s waits.
    guard: Option<imp::MutexGuard<'a, T>>,
}

#[cfg(any(rast_loom, rast_shuttle))]
const HELD: &str = "a guard outside of a wait holds its lock";

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        return &self.0;
        #[cfg(any(rast_loom, rast_shuttle))]
        return self.guard.as_ref().expect(HELD);
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        return &mut self.0;
        #[cfg(any(rast_loom, rast_shuttle))]
        return self.guard.as_mut().expect(HELD);
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A condition to wait for under a [`Mutex`].
///
/// Waits may end without a notification; re-check the condition in a loop.
///
/// # Examples
///
/// ```
/// use rast_primitive::sync::{Arc, Condvar, Mutex};
/// use rast_primitive::thread;
///
/// let pair = Arc::new((Mutex::new(false), Condvar::new()));
/// let theirs = Arc::clone(&pair);
/// let setter = thread::spawn(move || {
///     *theirs.0.lock() = true;
///     theirs.1.notify_one();
/// });
/// let mut ready = pair.0.lock();
/// while !*ready {
///     pair.1.wait(&mut ready);
/// }
/// drop(ready);
/// setter.join().unwrap();
/// ```
#[derive(Debug, Default)]
pub struct Condvar(imp::Condvar);

impl Condvar {
    constructor! {
        /// Makes a condition that no thread waits for.
        #[must_use]
        pub fn new() -> Self {
            Self(imp::Condvar::new())
        }
    }

    /// Unlocks, sleeps until notified, and locks again. Blocking.
    ///
    /// # Panics
    ///
    /// If another thread waits here with the guard of another [`Mutex`].
    #[track_caller]
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        self.0.wait(&mut guard.0);
        #[cfg(any(rast_loom, rast_shuttle))]
        {
            let held = guard.guard.take().expect(HELD);
            guard.guard = Some(unpoisoned(self.0.wait(held)));
        }
    }

    /// As [`wait`](Self::wait), for at most `timeout`; returns `true` if the time ran out.
    /// Blocking, bounded by `timeout` and by the lock.
    ///
    /// Under loom and shuttle there is no time: the call unlocks, lets the other threads run, locks
    /// again and returns `true`. That is always a legal outcome, so code that needs the
    /// notification cannot pass by chance. Tests of lost wake-ups use the untimed wait.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        return self.0.wait_for(&mut guard.0, timeout).timed_out();
        #[cfg(any(rast_loom, rast_shuttle))]
        {
            let _ = timeout;
            drop(guard.guard.take().expect(HELD));
            crate::thread::yield_now();
            guard.guard = Some(unpoisoned(guard.mutex.lock()));
            true
        }
    }

    /// Wakes one waiting thread, if there is one.
    #[track_caller]
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    #[track_caller]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
