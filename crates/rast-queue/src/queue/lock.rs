//! A small spin lock, for pieces of code that are short, bounded and run nothing of the user's.
//!
//! It works without std and under loom, which the lock of `rast-primitive` for cold paths does not.
//! A waiter spins a little and then yields its core, so that a holder that was preempted there can go on.
//!
//! The take is a compare-exchange that writes nothing when it fails, and nothing is loaded before it: loom compares an
//! operation with the last one on the same word alone, so that a load of our own would hide those of others from it.

use crate::primitive::Backoff;
use crate::primitive::cell::UnsafeCell;
use crate::primitive::sync::atomic::{AtomicBool, Ordering};

pub(super) struct Lock<T> {
    is_locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a guard alone, by one thread at a time, which may be any: T is Send.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    #[cfg(not(rast_loom))]
    pub(super) const fn new(value: T) -> Self {
        Self {
            is_locked: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    #[cfg(rast_loom)]
    pub(super) fn new(value: T) -> Self {
        Self {
            is_locked: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock. Blocking.
    #[inline]
    pub(super) fn lock(&self) -> Guard<'_, T> {
        if !self.try_take() {
            self.take_slow();
        }
        Guard { lock: self }
    }

    #[inline]
    fn try_take(&self) -> bool {
        // Acquire: pairs with the Release in the drop of Guard; the value is seen as the last holder left it. [QU1]
        let taken =
            self.is_locked
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    }

    #[cold]
    fn take_slow(&self) {
        let backoff = Backoff::new();
        // Liveness: a holder runs a bounded piece of code; snoozing lets it, should it share this core.
        while !self.try_take() {
            backoff.snooze();
        }
    }
}

/// The lock held; dropping it frees the lock.
pub(super) struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Guard<'_, T> {
    /// Calls `f` with the value.
    #[inline]
    pub(super) fn with<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: this guard holds the lock and is borrowed exclusively, so no other borrow of the value lives.
        self.lock.value.with_mut(|value| f(unsafe { &mut *value }))
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in try_take; publishes the value. [QU2]
        self.lock.is_locked.store(false, Ordering::Release);
    }
}
