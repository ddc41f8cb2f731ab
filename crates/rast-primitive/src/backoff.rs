//! Short waits: spin if there are several cores, then yield.
//!
//! Spinning helps only if the other thread runs at the same time. The number of cores is read once
//! per process and bounds the spinning.

use core::cell::Cell;

#[cfg(not(any(rast_loom, rast_shuttle)))]
use crate::hint;
#[cfg(feature = "std")]
use crate::thread::yield_now;

/// Doublings of the spin phase with four cores or more: 1 + 2 + .. + 32 hints.
const SPIN_LIMIT_MANY: u32 = 6;
/// Doublings with two or three cores, 1 + 2 + 4 hints: the other side is likely preempted.
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
const SPIN_LIMIT_FEW: u32 = 3;
/// Yields after the spin phase, before [`Backoff::is_completed`].
const YIELDS: u32 = 4;

/// Exponential back-off for a loop that waits for another thread.
///
/// [`spin`](Self::spin) is for a failed read-modify-write: the other thread has made progress, and
/// a short pause reduces contention. [`snooze`](Self::snooze) is for waiting until another thread
/// acts: the first calls spin, and later calls yield the core. After some yields
/// [`is_completed`](Self::is_completed) returns `true`, and the caller should park. With one core
/// no call spins. Without `std` the number of cores is unknown: `Backoff` assumes many cores, and
/// spins instead of yielding. Under loom and shuttle each step is a yield, because their schedulers
/// might otherwise run only this thread.
///
/// # Examples
///
/// ```
/// use rast_primitive::Backoff;
/// use rast_primitive::sync::atomic::{AtomicBool, Ordering};
///
/// fn spin_until_set(flag: &AtomicBool) -> bool {
///     let backoff = Backoff::new();
///     while !flag.load(Ordering::Acquire) {
///         if backoff.is_completed() {
///             return false; // Time to park.
///         }
///         backoff.snooze();
///     }
///     true
/// }
///
/// assert!(spin_until_set(&AtomicBool::new(true)));
/// assert!(!spin_until_set(&AtomicBool::new(false)));
/// ```
#[derive(Debug)]
pub struct Backoff {
    step: Cell<u32>,
    limit: u32,
}

impl Backoff {
    /// Starts at the shortest pause.
    #[inline]
    #[must_use]
    pub fn new() -> Self {
        Self {
            step: Cell::new(0),
            limit: spin_limit(),
        }
    }

    /// Starts again at the shortest pause.
    #[inline]
    pub fn reset(&self) {
        self.step.set(0);
    }

    /// Pauses after a failed read-modify-write: at most 64 spin hints, no
    /// system call. Wait-free.
    #[inline]
    pub fn spin(&self) {
        let step = self.step.get().min(self.limit);
        pause(step, self.limit);
        if self.step.get() <= self.limit {
            self.step.set(self.step.get() + 1);
        }
    }

    /// Pauses to wait for another thread: first spins, then yields the core to the system's
    /// scheduler.
    #[inline]
    pub fn snooze(&self) {
        let step = self.step.get();
        if step < self.limit {
            pause(step, self.limit);
        } else {
            yield_now();
        }
        if step < self.limit + YIELDS {
            self.step.set(step + 1);
        }
    }

    /// Returns `true` once snoozing has spun and yielded enough, so that parking is the better way
    /// to wait.
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.step.get() >= self.limit + YIELDS
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

/// Spins `2^step` hints, or none where spinning cannot help.
#[cfg(not(any(rast_loom, rast_shuttle)))]
#[inline]
fn pause(step: u32, limit: u32) {
    if limit > 0 {
        for _ in 0..1_u32 << step {
            hint::spin_loop();
        }
    }
}

#[cfg(any(rast_loom, rast_shuttle))]
fn pause(_step: u32, _limit: u32) {
    yield_now();
}

#[cfg(all(not(feature = "std"), not(any(rast_loom, rast_shuttle))))]
fn yield_now() {
    pause(SPIN_LIMIT_MANY, SPIN_LIMIT_MANY);
}

/// Returns the doublings of the spin phase that suit this machine.
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
#[inline]
fn spin_limit() -> u32 {
    use crate::sync::atomic::{AtomicU32, Ordering};

    /// 0 if not computed yet; otherwise the limit plus one.
    static LIMIT: AtomicU32 = AtomicU32::new(0);

    #[cold]
    fn ask_slow() -> u32 {
        let limit = match crate::thread::available_parallelism() {
            1 => 0,
            2 | 3 => SPIN_LIMIT_FEW,
            _ => SPIN_LIMIT_MANY,
        };
        // Relaxed: the value is the whole message, and every thread computes the same one. [BO2]
        LIMIT.store(limit + 1, Ordering::Relaxed);
        limit
    }

    // Relaxed: the value is the whole message; 0 means to compute it again. [BO1]
    match LIMIT.load(Ordering::Relaxed) {
        0 => ask_slow(),
        known => known - 1,
    }
}

#[cfg(any(not(feature = "std"), any(rast_loom, rast_shuttle)))]
fn spin_limit() -> u32 {
    // A model needs few steps: each one is a branch to explore.
    if cfg!(any(rast_loom, rast_shuttle)) {
        1
    } else {
        SPIN_LIMIT_MANY
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn completes_and_resets() {
        let backoff = Backoff::new();
        let mut steps = 0;
        while !backoff.is_completed() {
            backoff.snooze();
            steps += 1;
        }
        assert_eq!(steps, backoff.limit + YIELDS);
        backoff.snooze();
        assert!(backoff.is_completed());
        backoff.reset();
        assert!(!backoff.is_completed());
    }

    #[test]
    fn spin_alone_never_completes() {
        let backoff = Backoff::new();
        for _ in 0..100 {
            backoff.spin();
        }
        assert!(!backoff.is_completed());
    }
}
