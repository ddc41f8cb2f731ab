//! Counts that one thread writes and any thread reads.
//!
//! The owner of a processor counts what it sends and what it has handled; the
//! same counts are the live metrics and the proof of quiescence of `drain`.
//! A writer is alone at any time (the sharder hands a processor on with
//! release and acquire), so an addition is a load and a store on its own cache
//! line, not a read-modify-write.
//!
//! Quiescence (after Mattern's counters): with `received` read of every
//! processor before `sent` is read of any, equal sums say that there was a
//! moment, between the two readings, at which everything sent had been handled:
//!
//! ```text
//!   received as read  <=  received at that moment
//!                     <=  sent at that moment  <=  sent as read
//! ```
//!
//! The middle holds because a message is counted as sent before it is pushed,
//! and as received only after its handler, and what that sent, is done.

use core::ops::Index;

use crate::primitive::CachePadded;
use crate::primitive::sync::atomic::{AtomicU64, Ordering};

/// Counts in one padded place.
const PER_PLACE: usize = size_of::<CachePadded<u64>>() / size_of::<u64>();

/// Some counts of one writer, on cache lines that hold nothing else.
///
/// In a plain boxed slice they would lie between those of other processors, and
/// each message of one would take the line from the other.
#[derive(Debug)]
pub(crate) struct Counters {
    places: Box<[CachePadded<[Counter; PER_PLACE]>]>,
    len: usize,
}

impl Counters {
    /// Makes so many counts of zero.
    pub(crate) fn new(len: usize) -> Self {
        let place = |_| CachePadded::new(core::array::from_fn(|_| Counter::new()));
        Self {
            places: (0..len.div_ceil(PER_PLACE)).map(place).collect(),
            len,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Counter> {
        (0..self.len).map(|index| &self[index])
    }
}

impl Index<usize> for Counters {
    type Output = Counter;

    #[inline]
    fn index(&self, index: usize) -> &Counter {
        &self.places[index / PER_PLACE][index % PER_PLACE]
    }
}

/// A count with one writer at a time.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Makes a count of zero.
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds to a count whose value orders nothing. For the owner alone.
    #[inline]
    pub fn add(&self, amount: u64) {
        // Relaxed: only the owner writes, so this is its own last value. [MP1]
        let value = self.0.load(Ordering::Relaxed);
        // Relaxed: what must follow the count is pushed with Release after it; readers take a
        // snapshot. [MP2]
        self.0.store(value.wrapping_add(amount), Ordering::Relaxed);
    }

    /// Adds, so that a thread that reads the new value by [`get_after`](Self::get_after)
    /// sees everything that the owner did before. For the owner alone.
    #[inline]
    pub fn add_after(&self, amount: u64) {
        // Relaxed: only the owner writes, so this is its own last value. [MP3]
        let value = self.0.load(Ordering::Relaxed);
        // Release: pairs with the Acquire in get_after; the handler's own sends are counted above.
        // [MP4]
        self.0.store(value.wrapping_add(amount), Ordering::Release);
    }

    /// Sets a count whose value orders nothing. For the owner alone.
    #[inline]
    pub(crate) fn set(&self, value: u64) {
        // Relaxed: readers take a snapshot. [MP13]
        self.0.store(value, Ordering::Relaxed);
    }

    /// Reads the count.
    #[inline]
    pub fn get(&self) -> u64 {
        // Relaxed: a snapshot; where it is compared, the Acquire of get_after before it orders it.
        // [MP5]
        self.0.load(Ordering::Relaxed)
    }

    /// Reads the count and sees what its owner did before the last
    /// [`add_after`](Self::add_after).
    #[inline]
    pub fn get_after(&self) -> u64 {
        // Acquire: pairs with the Release in add_after; counts of sends read later include those of
        // the handlers counted here. [MP6]
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;

    #[test]
    fn counts_of_two_writers_share_no_line() {
        let lines = |counters: &Counters| -> Vec<usize> {
            let line = |counter| core::ptr::from_ref::<Counter>(counter).addr() / 128;
            counters.iter().map(line).collect()
        };
        for len in [0, 1, PER_PLACE, PER_PLACE + 1] {
            let (one, other) = (Counters::new(len), Counters::new(len));
            assert_eq!(one.iter().count(), len);
            let (one, other) = (lines(&one), lines(&other));
            assert!(one.iter().all(|line| !other.contains(line)));
        }
    }
}
