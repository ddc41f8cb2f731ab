//! What becomes of two values of one key: the markers that choose the value cell.

use crate::cell::{
    Cell, Integer, Merge, MergedCell, NodeCell, PeakCell, Plain, SeqCell, SumCell, Word, WordCell,
};

/// How a conflator keeps the values of a key: one of the types of this module.
pub trait Mode<V>: Send + Sync + 'static {
    /// The value cell.
    #[doc(hidden)]
    type Cell: Cell<V>;

    /// Whether a key has one producer at a time, which holds its only handle.
    #[doc(hidden)]
    const ONE_PRODUCER: bool = false;
}

/// A mode in which any number of producers put under one key: handles can be cloned, and puts go by
/// key too.
pub trait ManyProducers<V>: Mode<V> {}

/// The newest value replaces the older one. For any value: put and take are wait-free and exchange
/// a node.
#[derive(Clone, Copy, Debug)]
pub struct Newest;

/// The newest value replaces the older one, as a word in place: the quickest, for what is a
/// [`Word`]. Wait-free.
#[derive(Clone, Copy, Debug)]
pub struct InPlace;

/// The newest value replaces the older one, under a sequence lock: for [`Plain`] values of up to 64
/// bytes where each key has one producer, which holds its only handle. A put is wait-free.
#[derive(Clone, Copy, Debug)]
pub struct Sequenced;

/// Values are added, wrapping around; a sum of zero is not handed out. Wait-free.
#[derive(Clone, Copy, Debug)]
pub struct Sum;

/// The least value stays. Wait-free where the processor has an atomic minimum and maximum, as
/// AArch64 with LSE; lock-free on x86-64, where a put is a loop of compare-and-exchanges that
/// repeats when another put came between.
#[derive(Clone, Copy, Debug)]
pub struct Least;

/// The greatest value stays. Its progress is that of [`Least`].
#[derive(Clone, Copy, Debug)]
pub struct Greatest;

/// Values are merged by [`Merge`]: the user's function, or [`Bar`](crate::Bar). Lock-free.
#[derive(Clone, Copy, Debug)]
pub struct Merged;

macro_rules! modes {
    ($($mode:ident, $bound:path, $cell:ty;)*) => {$(
        impl<V: $bound + 'static> Mode<V> for $mode {
            type Cell = $cell;
        }
        impl<V: $bound + 'static> ManyProducers<V> for $mode {}
    )*};
}
modes! {
    Newest, Send, NodeCell<V>;
    InPlace, Word, WordCell;
    Sum, Integer, SumCell;
    Least, Word, PeakCell<true>;
    Greatest, Word, PeakCell<false>;
    Merged, Merge, MergedCell<V>;
}

impl<V: Plain> Mode<V> for Sequenced {
    type Cell = SeqCell;
    const ONE_PRODUCER: bool = true;
}
