//! Values that user code merges: a node that a put takes out, merges into, and puts back.
//!
//! A put that finds a value takes it, merges its own into it, and swaps the result back. If another
//! value was put meanwhile, the put merges again with that value. Each repetition means that
//! another put succeeded, so a put is lock-free. While a put merges, it owns the key's value. If
//! its thread is suspended meanwhile, all values of the key that were put before are delayed.

use crate::primitive::panics::contain;

use super::{Cell, NodeCell, Put, Taken};

/// A value that newer values are merged into.
///
/// With one producer per key, the values are merged in the order of their puts. With several
/// producers per key, the order is unspecified. Each value is merged once.
///
/// ```
/// use rast_conflate::Merge;
///
/// struct Names(Vec<&'static str>);
///
/// impl Merge for Names {
///     fn merge(&mut self, newer: Self) {
///         self.0.extend(newer.0);
///     }
/// }
/// let mut names = Names(vec!["a"]);
/// names.merge(Names(vec!["b"]));
/// assert_eq!(names.0, ["a", "b"]);
/// ```
pub trait Merge: Send {
    /// Merges `newer` into this value.
    ///
    /// If it panics, `newer` is lost, this value stays the key's newest as the panic left it, and
    /// the panic propagates to the caller of the put.
    fn merge(&mut self, newer: Self);
}

/// Open, high, low and close of the values put since the last one was handled.
///
/// ```
/// use rast_conflate::{Bar, Merge};
///
/// let mut bar = Bar::of(5);
/// bar.merge(Bar::of(7));
/// bar.merge(Bar::of(4));
/// assert_eq!(bar, Bar { open: 5, high: 7, low: 4, close: 4 });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bar<T> {
    /// The first value.
    pub open: T,
    /// The maximum value.
    pub high: T,
    /// The minimum value.
    pub low: T,
    /// The last value.
    pub close: T,
}

impl<T: Copy> Bar<T> {
    /// Makes the bar of one value.
    pub const fn of(value: T) -> Self {
        Self {
            open: value,
            high: value,
            low: value,
            close: value,
        }
    }
}

impl<T: Copy + PartialOrd + Send> Merge for Bar<T> {
    fn merge(&mut self, newer: Self) {
        if newer.high > self.high {
            self.high = newer.high;
        }
        if newer.low < self.low {
            self.low = newer.low;
        }
        self.close = newer.close;
    }
}

/// A cell whose values are merged; see [`Merge`].
pub struct MergedCell<V>(NodeCell<V>);

impl<V: Merge> Cell<V> for MergedCell<V> {
    type Spare = <NodeCell<V> as Cell<V>>::Spare;

    fn new() -> Self {
        Self(NodeCell::new())
    }

    fn open(&self) {
        self.0.open();
    }

    fn put(&self, spare: &mut Self::Spare, mut value: V) -> Put<V> {
        let (mut conflated, mut panic) = (0, None);
        loop {
            if let Some(older) = self.0.take(spare) {
                let mut older = older.value;
                let merged = contain(|| older.merge(value));
                // The value was merged, or lost to a panic, so there is one pending value less.
                conflated += 1;
                if let Err(payload) = merged {
                    panic = Some(payload);
                }
                value = older;
            }
            let put = self.0.put(spare, value);
            match put.replaced {
                Some(other) if panic.is_none() => value = other,
                replaced => {
                    // After a panic nothing more is merged; a value that came meanwhile is
                    // replaced.
                    conflated += put.conflated;
                    return Put {
                        replaced,
                        conflated,
                        panic,
                    };
                }
            }
        }
    }

    fn take(&self, spare: &mut Self::Spare) -> Option<Taken<V>> {
        self.0.take(spare)
    }

    fn is_full(&self) -> bool {
        self.0.is_full()
    }
}
