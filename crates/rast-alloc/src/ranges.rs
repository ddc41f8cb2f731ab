//! Unused address ranges that any thread stores and takes.
//!
//! ```text
//!   an entry: bit 63 … 24             23 … 0                     0: empty
//!             start, in pages         length, in pages
//! ```
//!
//! An entry contains the whole range in one word, so a compare-exchange takes it, and the thread
//! that succeeds owns the range. There is no ABA problem, since equal words are equal ranges.
//! Nothing is written to the ranges themselves.

use core::ptr::{self, NonNull};

use crate::primitive::constructor;
use crate::primitive::sync::atomic::{AtomicU64, Ordering};

/// Unit of both numbers: no page is smaller.
const UNIT: usize = 4096;
/// Number of bits of the length.
const LENGTH_BITS: u32 = 24;

/// A table of `N` entries.
#[derive(Debug)]
pub struct Ranges<const N: usize> {
    places: [AtomicU64; N],
}

fn pack(start: usize, bytes: usize) -> Option<u64> {
    let (page, pages) = ((start / UNIT) as u64, (bytes / UNIT) as u64);
    let fits = pages >> LENGTH_BITS == 0 && page >> (u64::BITS - LENGTH_BITS) == 0;
    fits.then_some(page << LENGTH_BITS | pages)
}

fn unpack(word: u64) -> (usize, usize) {
    let (page, pages) = (word >> LENGTH_BITS, word & ((1 << LENGTH_BITS) - 1));
    (page as usize * UNIT, pages as usize * UNIT)
}

impl<const N: usize> Ranges<N> {
    constructor! {
        /// Makes an empty table.
        #[must_use]
        pub fn new() -> Self {
            #[cfg(not(rast_loom))]
            let places = [const { AtomicU64::new(0) }; N];
            #[cfg(rast_loom)]
            let places = core::array::from_fn(|_| AtomicU64::new(0));
            Self { places }
        }
    }

    /// Stores a range of whole pages. Returns `false` if the table is full, or if the start or the
    /// length does not fit an entry. Wait-free.
    #[must_use]
    pub fn put(&self, start: NonNull<u8>, bytes: usize) -> bool {
        debug_assert!(
            bytes > 0 && start.addr().get().is_multiple_of(UNIT) && bytes.is_multiple_of(UNIT)
        );
        let Some(word) = pack(start.as_ptr().expose_provenance(), bytes) else {
            return false;
        };
        self.places.iter().any(|place| {
            // Relaxed: a hint; the compare-exchange decides. [AP1]
            if place.load(Ordering::Relaxed) != 0 {
                return false;
            }
            // Release: pairs with the Acquire in `take`; publishes what was done to the range.
            // [AP2]
            place
                .compare_exchange(0, word, Ordering::Release, Ordering::Relaxed)
                .is_ok()
        })
    }

    /// Takes the range with the lowest `rank`, which is computed from start and length; ranges
    /// ranked `None` are not taken. Wait-free.
    pub fn take(
        &self,
        rank: impl Fn(usize, usize) -> Option<usize>,
    ) -> Option<(NonNull<u8>, usize)> {
        // Another thread may take the chosen range first: then take the next best, at most as often
        // as there are entries.
        self.places.iter().find_map(|_| {
            let ranked = self.places.iter().filter_map(|place| {
                // Relaxed: a hint; the compare-exchange decides. [AP3]
                let word = place.load(Ordering::Relaxed);
                let (start, bytes) = unpack(word);
                let rank = if word == 0 { None } else { rank(start, bytes) };
                Some((rank?, place, word))
            });
            let (_, place, word) = ranked.min_by_key(|ranked| ranked.0)?;
            // Acquire: pairs with the Release in `put`. [AP4]
            place
                .compare_exchange(word, 0, Ordering::Acquire, Ordering::Relaxed)
                .ok()?;
            let (start, bytes) = unpack(word);
            let start = NonNull::new(ptr::with_exposed_provenance_mut(start))?;
            Some((start, bytes))
        })
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    fn at(page: usize) -> NonNull<u8> {
        NonNull::new(ptr::without_provenance_mut(page * UNIT)).unwrap()
    }

    #[test]
    fn the_shortest_that_fits_is_taken() {
        let ranges = Ranges::<3>::new();
        for (page, pages) in [(100, 9), (200, 4), (1 << 40, 6)] {
            let is_put = ranges.put(at(page), pages * UNIT);
            assert_eq!(is_put, page < 1 << 40, "addresses of 52 bits");
        }
        assert!(ranges.put(at(1 << 39), 6 * UNIT));
        assert!(!ranges.put(at(300), UNIT), "no place is left");
        let take = |pages: usize| {
            let taken = ranges.take(|_, bytes| (bytes >= pages * UNIT).then_some(bytes))?;
            Some((taken.0.addr().get() / UNIT, taken.1 / UNIT))
        };
        assert_eq!(take(5), Some((1 << 39, 6)));
        assert_eq!(take(5), Some((100, 9)));
        assert_eq!(take(5), None);
        assert_eq!(take(1), Some((200, 4)));
        assert_eq!(take(1), None);
        assert!(!ranges.put(at(1), UNIT << LENGTH_BITS), "too long");
    }
}
