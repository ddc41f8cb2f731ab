//! Counts that one thread writes and any thread reads.
//!
//! The worker that runs a processor counts what it sends and what it has handled. These counts
//! serve as live metrics and for the quiescence test of `drain`. A count has one writer at a time,
//! because only one worker at a time runs a processor. When the sharder moves a processor, release
//! and acquire order the accesses of the two workers. So an addition is a load and a store on its
//! own cache line, not a read-modify-write.
//!
//! Quiescence (after Mattern's counters): a reader first reads `received` of all processors, then
//! `sent` of all. Equal sums mean that at some moment between the two passes every message that was
//! sent had been handled:
//!
//! ```text
//!   received as read  <=  received at that moment
//!                     <=  sent at that moment  <=  sent as read
//! ```
//!
//! The middle inequality holds because a message is counted as sent before it is pushed, and as
//! received only after its handler has returned and that handler's messages were counted.

use core::ops::Index;

use crate::primitive::CachePadded;
pub use crate::primitive::Counter;

/// Number of counts in one padded entry.
const PER_PLACE: usize = size_of::<CachePadded<u64>>() / size_of::<u64>();

/// Number of counts that are stored in place.
const FEW: usize = 2;

/// Some counts of one writer.
///
/// A few are stored in place, where the owner keeps them from the lines of other writers. More
/// counts are on cache lines of their own. In a plain boxed slice they would share lines with those
/// of other processors, and each message of one would take the line from the other.
#[derive(Debug)]
pub(crate) struct Counters(Places);

#[derive(Debug)]
enum Places {
    Few {
        len: u32,
        counts: [Counter; FEW],
    },
    Many {
        len: u32,
        places: Box<[CachePadded<[Counter; PER_PLACE]>]>,
    },
}

impl Counters {
    /// Makes this many counts of zero.
    pub(crate) fn new(len: usize) -> Self {
        let place = |_| CachePadded::new(core::array::from_fn(|_| Counter::new()));
        let places = len.div_ceil(PER_PLACE);
        let is_few = len <= FEW;
        let len = u32::try_from(len).expect("there are fewer counts");
        Self(match is_few {
            true => Places::Few {
                len,
                counts: core::array::from_fn(|_| Counter::new()),
            },
            false => Places::Many {
                len,
                places: (0..places).map(place).collect(),
            },
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Counter> {
        let (Places::Few { len, .. } | Places::Many { len, .. }) = &self.0;
        (0..*len as usize).map(|index| &self[index])
    }
}

impl Index<usize> for Counters {
    type Output = Counter;

    #[inline]
    fn index(&self, index: usize) -> &Counter {
        match &self.0 {
            Places::Few { counts, .. } => &counts[index],
            Places::Many { places, .. } => &places[index / PER_PLACE][index % PER_PLACE],
        }
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
        for len in [0, FEW, FEW + 1, PER_PLACE, PER_PLACE + 1] {
            let new = || Box::new(CachePadded::new(Counters::new(len)));
            let (one, other) = (new(), new());
            assert_eq!(one.iter().count(), len);
            let (one, other) = (lines(&one), lines(&other));
            assert!(one.iter().all(|line| !other.contains(line)));
        }
    }
}
