//! Value cells: where the newest value of one key waits for a consumer.
//!
//! Each kind of cell publishes by one exchange as its last step, so that the producer's fence after
//! it costs nothing on x86-64, and each can be taken from by any thread at any time: a value leaves
//! the cell exactly once.
//!
//! | cell | values | producers per key | put | take |
//! | --- | --- | --- | --- | --- |
//! | [`WordCell`] | what encodes in 64 bits without zero | any | wait-free | wait-free |
//! | [`NodeCell`] | any | any | wait-free | wait-free |
//! | [`SeqCell`] | `Copy`, up to 64 bytes | one | wait-free | a bounded number of tries |
//! | [`SumCell`] | 64-bit integers, added | any | wait-free | wait-free |
//! | [`PeakCell`] | words, the greatest or least | any | as `fetch_max`: lock-free on x86-64 | wait-free |
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

/// What a put displaced.
pub struct Put<V> {
    /// The value that was replaced; the producer drops it after it has marked.
    pub replaced: Option<V>,
    /// How many accepted values this put made needless, itself included where it was.
    pub conflated: u64,
    /// The panic of the user's merge function: the new value is gone, the older one is back in the
    /// cell.
    pub panic: Option<Box<dyn Any + Send>>,
}

/// What a take found.
pub struct Taken<V> {
    /// The newest value.
    pub value: V,
    /// Values that were replaced since the last take and are counted by no put.
    pub conflated: u64,
}

/// Holds the newest value of one key.
pub trait Cell<V>: Send + Sync + Sized {
    /// What a thread brings to an exchange and gets back from it.
    type Spare: Send;

    /// Makes a cell that holds nothing and is not open.
    fn new() -> Self;

    /// Gives the cell the memory that puts exchange; called by the one thread that claimed the
    /// cell.
    fn open(&self);

    /// Makes what a new producer or consumer brings to its exchanges.
    fn spare() -> Self::Spare;

    /// Publishes a value; its last atomic operation is a read-modify-write.
    fn put(&self, spare: &mut Self::Spare, value: V) -> Put<V>;

    /// Takes the newest value, if there is one.
    fn take(&self, spare: &mut Self::Spare) -> Option<Taken<V>>;

    /// Returns whether a value waits, as of now.
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
