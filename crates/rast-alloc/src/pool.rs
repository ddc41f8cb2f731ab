//! The pool: kept ranges that pass from the threads that free large blocks to those that take them.
//!
//! ```text
//!   consumer frees   ─► its ranges, if it takes large blocks itself ([`crate::kept`])
//!                       else, or what they have no room for ─► pool ─► producer, whose own ranges have none that fits
//! ```
//!
//! Without it each block of a pipeline would be mapped by the one thread, unmapped by the other,
//! and all of its pages would be cleared and faulted in anew.
//!
//! 1. At most [`BYTES`] in [`RANGES`] ranges are here.
//! 2. What was here unused between two looks, which are at least the delay apart, goes back; at a
//!    purge all of it does.
//! 3. In a hardened build there is none: freed ranges are without access, and which pages are is
//!    known to their owner alone.

use core::ptr::NonNull;

use crate::delay::DELAY;
use crate::geometry::HARDENED;
use crate::os::{self, KEEPS, PAGE};
use crate::primitive::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::ranges::Ranges;

/// Bytes that are here at most.
const BYTES: usize = 32 << 20;
/// Ranges that are here at most.
const RANGES: usize = 16;

/// The pool of the process.
#[cfg(not(test))]
pub(crate) fn pool() -> &'static Pool {
    static POOL: Pool = Pool::new();
    &POOL
}

/// The pool of a test, which runs on a thread of its own.
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
    /// The least `bytes` since the last look.
    least: AtomicUsize,
    looked_ms: AtomicU64,
}

impl Pool {
    const fn new() -> Self {
        Self {
            ranges: Ranges::new(),
            bytes: AtomicUsize::new(0),
            least: AtomicUsize::new(0),
            looked_ms: AtomicU64::new(0),
        }
    }

    /// Puts a range away; false if there is no room. Wait-free.
    ///
    /// # Safety
    ///
    /// 1. The `bytes` at `start` are whole pages of mappings of [`os`] that no thread uses any
    ///    more, and the caller gives them up if the call succeeds.
    pub(crate) unsafe fn put(&self, start: NonNull<u8>, bytes: usize) -> bool {
        if HARDENED || !KEEPS || bytes > BYTES {
            return false;
        }
        // Relaxed: a sum of its own; publishes nothing. [AP8]
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= BYTES && self.ranges.put(start, bytes) {
            return true;
        }
        self.fell(bytes);
        false
    }

    /// Takes the shortest range that has so many bytes; what is in it is not known. Wait-free.
    pub(crate) fn take(&self, bytes: usize) -> Option<(NonNull<u8>, usize)> {
        // Relaxed: a hint; the exchange decides. [AP9]
        if HARDENED || self.bytes.load(Ordering::Relaxed) < bytes {
            return None;
        }
        let taken = self
            .ranges
            .take(|_, length| (length >= bytes).then_some(length))?;
        let left = self.fell(taken.1);
        // Relaxed: a hint what to give back. [AP10]
        self.least.fetch_min(left, Ordering::Relaxed);
        Some(taken)
    }

    /// Counts bytes that are here no more; returns how many do.
    fn fell(&self, bytes: usize) -> usize {
        // Relaxed: as for [AP8]. [AP11]
        self.bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes
    }

    /// Gives back what was unused since the last look, if that is the delay ago; returns how many
    /// bytes that were.
    pub(crate) fn look(&self) -> usize {
        // Relaxed: a hint; what comes now stays till the next look. [AP12]
        if self.bytes.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        match DELAY.get() {
            Some(delay_ms) => self.look_at(os::now_ms(), delay_ms),
            None => 0,
        }
    }

    fn look_at(&self, now_ms: u64, delay_ms: u64) -> usize {
        // Relaxed: the exchange decides who looks. [AP13]
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        if looked_ms.abs_diff(now_ms) < delay_ms {
            return 0;
        }
        // Relaxed: publishes nothing. [AP14]
        let is_mine = self.looked_ms.compare_exchange(
            looked_ms,
            now_ms,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if is_mine.is_err() {
            return 0;
        }
        // Relaxed: a hint what to give back. [AP15]
        let freed = self.purge(self.least.load(Ordering::Relaxed));
        // Relaxed: as above. [AP16]
        let bytes = self.bytes.load(Ordering::Relaxed);
        // Relaxed: as above; what is taken just now may count as unused once. [AP17]
        self.least.store(bytes, Ordering::Relaxed);
        freed
    }

    /// Gives up to `most` bytes back, in whole ranges, the longest first; returns how many bytes
    /// went.
    pub(crate) fn purge(&self, most: usize) -> usize {
        let mut freed = 0;
        let longest = |left| move |_, bytes| (bytes <= left).then_some(BYTES - bytes);
        // No more than may be here at once, though others put more meanwhile.
        for _ in 0..RANGES {
            let Some((start, bytes)) = self.ranges.take(longest(most - freed)) else {
                break;
            };
            self.fell(bytes);
            // SAFETY: whole pages that this thread alone has, by the obligation of `put`.
            unsafe { os::unmap(start, bytes, PAGE) };
            freed += bytes;
        }
        freed
    }
}

#[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
mod tests {
    use super::*;

    /// A pool apart from the one that the other tests of this process use.
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
    fn what_stood_unused_between_two_looks_goes_back() {
        let pool = Pool::new();
        if HARDENED {
            return;
        }
        assert!(put(&pool, 8 * PAGE));
        assert!(put(&pool, 2 * PAGE));
        assert_eq!(pool.look_at(5000, 1000), 0, "new since the last look");
        let (start, bytes) = pool.take(PAGE).unwrap();
        assert_eq!(bytes, 2 * PAGE);
        // SAFETY: taken above, and no thread uses it.
        assert!(unsafe { pool.put(start, bytes) });
        assert_eq!(pool.look_at(5999, 1000), 0, "not due");
        assert_eq!(pool.look_at(6000, 1000), 8 * PAGE);
        assert_eq!(pool.look_at(7000, 1000), 2 * PAGE);
        assert!(pool.take(PAGE).is_none());
    }
}
