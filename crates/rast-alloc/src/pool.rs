//! The pool: cached address ranges that any thread may use. It passes memory from threads that free
//! large blocks to threads that allocate them.
//!
//! ```text
//!   consumer frees   ─► its mapping cache, if it allocates large blocks itself
//!                       else, or if that is full ─► pool ─► producer without a fitting range
//! ```
//!
//! Without the pool, in a pipeline one thread would map each block and another would unmap it. All
//! pages of the next block would be cleared and faulted in again.
//!
//! 1. The pool contains at most [`BYTES`] in [`RANGES`] ranges.
//! 2. Bytes that were unused between two decay passes return to the system. Decay passes are at
//!    least the purge delay apart. A purge returns all bytes.
//! 3. A hardened build has no pool: freed ranges are inaccessible, in whole or in part, and only
//!    their owner knows which of their pages are inaccessible.

use core::ptr::NonNull;

use crate::delay::DELAY;
use crate::geometry::HARDENED;
use crate::os::{self, CAN_CACHE, PAGE};
use crate::primitive::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::ranges::Ranges;

/// Maximum number of bytes.
const BYTES: usize = 32 << 20;
/// Maximum number of ranges.
const RANGES: usize = 16;

/// The pool of the process.
#[cfg(not(test))]
pub(crate) fn pool() -> &'static Pool {
    static POOL: Pool = Pool::new();
    &POOL
}

/// The pool of one test, which runs on a thread of its own.
#[cfg(test)]
pub(crate) fn pool() -> &'static Pool {
    /// All of them, so that a leak checker finds them.
    static POOLS: std::sync::Mutex<std::vec::Vec<&'static Pool>> =
        std::sync::Mutex::new(std::vec::Vec::new());
    std::thread_local! {
        static POOL: &'static Pool = {
            let pool = &*std::boxed::Box::leak(std::boxed::Box::new(Pool::new()));
            POOLS.lock().unwrap().push(pool);
            pool
        };
    }
    POOL.with(|pool| *pool)
}

/// Ranges for all threads.
pub(crate) struct Pool {
    ranges: Ranges<RANGES>,
    bytes: AtomicUsize,
    /// The low-water mark of `bytes` since the last decay pass.
    low_water: AtomicUsize,
    pass_ms: AtomicU64,
}

impl Pool {
    const fn new() -> Self {
        Self {
            ranges: Ranges::new(),
            bytes: AtomicUsize::new(0),
            low_water: AtomicUsize::new(0),
            pass_ms: AtomicU64::new(0),
        }
    }

    /// Stores a range; `false` if there is no room. Wait-free.
    ///
    /// # Safety
    ///
    /// 1. The `bytes` at `start` are whole pages of mappings of [`os`] that no thread uses any
    ///    more, and the caller gives them up if the call succeeds.
    pub(crate) unsafe fn put(&self, start: NonNull<u8>, bytes: usize) -> bool {
        if HARDENED || !CAN_CACHE || bytes > BYTES {
            return false;
        }
        // Relaxed: a sum that publishes nothing. [AP8]
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= BYTES && self.ranges.put(start, bytes) {
            return true;
        }
        self.subtract(bytes);
        false
    }

    /// Takes the shortest range of at least `bytes`, with unspecified contents. Wait-free.
    pub(crate) fn take(&self, bytes: usize) -> Option<(NonNull<u8>, usize)> {
        // Relaxed: a hint; the exchange decides. [AP9]
        if HARDENED || self.bytes.load(Ordering::Relaxed) < bytes {
            return None;
        }
        let taken = self
            .ranges
            .take(|_, length| (length >= bytes).then_some(length))?;
        let left = self.subtract(taken.1);
        // Relaxed: a hint for how much to return. [AP10]
        self.low_water.fetch_min(left, Ordering::Relaxed);
        Some(taken)
    }

    /// Subtracts bytes that were taken; returns the rest.
    fn subtract(&self, bytes: usize) -> usize {
        // Relaxed: as for [AP8]. [AP11]
        self.bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes
    }

    /// Makes a decay pass if the last one is at least the delay ago: returns what was unused since
    /// then to the system, and the number of bytes to the caller.
    pub(crate) fn decay(&self) -> usize {
        // Relaxed: a hint; ranges that are stored now wait for the next pass. [AP12]
        if self.bytes.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        match DELAY.get() {
            Some(delay_ms) => self.decay_at(os::now_ms(), delay_ms),
            None => 0,
        }
    }

    fn decay_at(&self, now_ms: u64, delay_ms: u64) -> usize {
        // Relaxed: the exchange decides which thread makes the pass. [AP13]
        let pass_ms = self.pass_ms.load(Ordering::Relaxed);
        if pass_ms.abs_diff(now_ms) < delay_ms {
            return 0;
        }
        // Relaxed: publishes nothing. [AP14]
        let is_mine =
            self.pass_ms
                .compare_exchange(pass_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed);
        if is_mine.is_err() {
            return 0;
        }
        // Relaxed: a hint for how much to return. [AP15]
        let freed = self.purge(self.low_water.load(Ordering::Relaxed));
        // Relaxed: as above. [AP16]
        let bytes = self.bytes.load(Ordering::Relaxed);
        // Relaxed: as above; a range that is taken at this moment may count as unused once. [AP17]
        self.low_water.store(bytes, Ordering::Relaxed);
        freed
    }

    /// Returns up to `most` bytes to the system, in whole ranges, the longest first, and their
    /// number to the caller.
    pub(crate) fn purge(&self, most: usize) -> usize {
        let mut freed = 0;
        let longest = |left| move |_, bytes| (bytes <= left).then_some(BYTES - bytes);
        // At most as many as may be stored at once, even if other threads store more meanwhile.
        for _ in 0..RANGES {
            let Some((start, bytes)) = self.ranges.take(longest(most - freed)) else {
                break;
            };
            self.subtract(bytes);
            // SAFETY: whole pages that only this thread has, by the obligation of `put`.
            unsafe { os::unmap(start, bytes, PAGE) };
            freed += bytes;
        }
        freed
    }
}

#[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
mod tests {
    use super::*;

    /// Stores a new range in a pool of its own.
    fn put(pool: &Pool, bytes: usize) -> bool {
        let start = os::map(bytes, PAGE).unwrap();
        // SAFETY: the mapping is new, and no thread uses it.
        let is_put = unsafe { pool.put(start, bytes) };
        if !is_put {
            // SAFETY: as above.
            unsafe { os::unmap(start, bytes, PAGE) };
        }
        is_put
    }

    #[test]
    fn no_more_stands_there_than_is_allowed() {
        let pool = Pool::new();
        if HARDENED {
            assert!(!put(&pool, PAGE));
            return;
        }
        assert!(!put(&pool, BYTES + PAGE));
        assert!(put(&pool, BYTES - PAGE));
        assert!(!put(&pool, 2 * PAGE));
        assert!(put(&pool, PAGE));
        assert!(!put(&pool, PAGE));
        assert_eq!(pool.purge(usize::MAX), BYTES);
        for _ in 0..RANGES {
            assert!(put(&pool, PAGE));
        }
        assert!(!put(&pool, PAGE));
        assert_eq!(pool.purge(usize::MAX), RANGES * PAGE);
    }

    #[test]
    fn what_is_unused_between_two_passes_is_returned() {
        let pool = Pool::new();
        if HARDENED {
            return;
        }
        assert!(put(&pool, 8 * PAGE));
        assert!(put(&pool, 2 * PAGE));
        assert_eq!(pool.decay_at(5000, 1000), 0, "new since the last pass");
        let (start, bytes) = pool.take(PAGE).unwrap();
        assert_eq!(bytes, 2 * PAGE);
        // SAFETY: taken above, and no thread uses it.
        assert!(unsafe { pool.put(start, bytes) });
        assert_eq!(pool.decay_at(5999, 1000), 0, "not due");
        assert_eq!(pool.decay_at(6000, 1000), 8 * PAGE);
        assert_eq!(pool.decay_at(7000, 1000), 2 * PAGE);
        assert!(pool.take(PAGE).is_none());
    }
}
