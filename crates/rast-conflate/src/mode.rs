//! How two values of one key are combined: the marker types that choose the value cell.

use crate::cell::{
    Cell, Integer, Merge, MergedCell, NodeCell, PeakCell, Plain, SeqCell, SumCell, Word, WordCell,
};

/// How a conflator keeps the values of a key: one of the types of this module.
pub trait Mode<V>: Send + Sync + 'static {
    /// The value cell.
    #[doc(hidden)]
    type Cell: Cell<V>;

    /// `true` if a key has one producer at a time, which owns its only handle.
    #[doc(hidden)]
    const ONE_PRODUCER: bool = false;
}

/// A mode in which any number of producers put under one key: handles can be cloned, and puts by
/// key are allowed.
pub trait ManyProducers<V>: Mode<V> {}

/// The newest value replaces the older one; for any value type. Put and take are wait-free and swap
/// a node.
#[derive(Clone, Copy, Debug)]
pub struct Newest;

/// The newest value replaces the older one, stored inline as a [`Word`]; the fastest mode.
/// Wait-free.
#[derive(Clone, Copy, Debug)]
pub struct InPlace;

/// The newest value replaces the older one, under a sequence lock: for [`Plain`] values of up to 64
/// bytes whose key has one producer, which owns its only handle. A put is wait-free.
#[derive(Clone, Copy, Debug)]
pub struct Sequenced;

/// Values are added, wrapping around; a sum of zero is not delivered. Wait-free.
#[derive(Clone, Copy, Debug)]
pub struct Sum;

/// The minimum value is kept. Wait-free if the processor has an atomic minimum and maximum, as
/// AArch64 with LSE; lock-free on x86-64, where a put is a compare-exchange loop.
#[derive(Clone, Copy, Debug)]
pub struct Least;

/// The maximum value is kept. Its progress is that of [`Least`].
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
