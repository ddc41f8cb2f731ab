//! Value cells: storage of the newest value of one key until a consumer takes it.
//!
//! Each kind of cell publishes by a read-modify-write as its last atomic operation, so that the
//! fence that the producer then executes costs nothing on x86-64. Any thread may take from a cell
//! at any time, and each value leaves the cell exactly once.
//!
//! | cell | values | producers per key | put | take |
//! | --- | --- | --- | --- | --- |
//! | [`WordCell`] | those with an encoding of 64 bits that is never zero | any | wait-free | wait-free |
//! | [`NodeCell`] | any | any | wait-free | wait-free |
//! | [`SeqCell`] | `Copy`, up to 64 bytes | one | wait-free | a bounded number of tries |
//! | [`SumCell`] | 64-bit integers, added | any | wait-free | wait-free |
//! | [`PeakCell`] | words, the maximum or minimum | any | as `fetch_max`: lock-free on x86-64 | wait-free |
//! | [`MergedCell`] | any, merged by user code | any | lock-free | wait-free |

mod merged;
mod node;
mod seq;
mod tally;
mod word;

pub use merged::{Bar, Merge, MergedCell};
pub use node::NodeCell;
pub use seq::{Plain, SeqCell};
pub use tally::{Integer, PeakCell, SumCell};
pub use word::{Word, WordCell};

use std::any::Any;
use std::boxed::Box;

/// Result of a put.
pub struct Put<V> {
    /// The replaced value; the producer drops it after it has marked the key.
    pub replaced: Option<V>,
    /// Number of accepted values that this put conflated, including its own in some cases.
    pub conflated: u64,
    /// Panic of the user's merge function: the new value is lost, the older one is back in the
    /// cell.
    pub panic: Option<Box<dyn Any + Send>>,
}

/// Result of a take.
pub struct Taken<V> {
    /// The newest value.
    pub value: V,
    /// Number of values that were replaced since the last take and that no put has counted.
    pub conflated: u64,
}

/// Holds the newest value of one key.
pub trait Cell<V>: Send + Sync + Sized {
    /// Memory that a thread swaps with the cell.
    type Spare: Send + Default;

    /// Makes an empty cell, which must be opened before use.
    fn new() -> Self;

    /// Gives the cell the memory that puts swap; only the thread that claimed the cell may call it.
    fn open(&self) {}

    /// Makes the spare memory of a new producer or consumer.
    fn spare() -> Self::Spare {
        Self::Spare::default()
    }

    /// Publishes a value; its last atomic operation is a read-modify-write.
    fn put(&self, spare: &mut Self::Spare, value: V) -> Put<V>;

    /// Takes the newest value, if there is one.
    fn take(&self, spare: &mut Self::Spare) -> Option<Taken<V>>;

    /// Returns `true` if a value is pending; a snapshot.
    fn is_full(&self) -> bool;
}

impl<V> Put<V> {
    #[inline(always)]
    pub(crate) fn counted(conflated: u64) -> Self {
        Self {
            replaced: None,
            conflated,
            panic: None,
        }
    }
}

impl<V> Taken<V> {
    #[inline(always)]
    pub(crate) fn new(value: V) -> Self {
        Self {
            value,
            conflated: 0,
        }
    }
}
