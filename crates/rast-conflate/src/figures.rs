//! Statistics: totals and counts per key.
//!
//! Each producer and consumer counts in its own block, by plain stores; a reader sums the blocks.
//! When the owner of a block is dropped, the block is added to a total, under a lock.

use std::vec::Vec;

use crate::primitive::sync::{Arc, Mutex};
use crate::primitive::{CachePadded, Counter};
use crate::timers::Nanos;

/// Counts of what happened to the values that were put.
///
/// While no value is pending and no call is in progress,
/// `submitted == handled + conflated + panicked + returned`.
///
/// ```
/// let conflator = rast_conflate::Conflator::<&str, u32>::new();
/// let mut producer = conflator.producer();
/// for value in 0..10 {
///     producer.put_key(&"key", value).unwrap();
/// }
/// conflator.consumer().unwrap().pass(|_, value| assert_eq!(value, 9));
/// let figures = conflator.figures();
/// assert_eq!((figures.submitted, figures.handled, figures.conflated), (10, 1, 9));
/// assert_eq!(figures.conflation(), Some(10.0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Values that were stored in their cell.
    pub submitted: u64,
    /// Values whose handler returned, or that were taken as items.
    pub handled: u64,
    /// Values that a newer one replaced or was merged with.
    pub conflated: u64,
    /// Values whose handler panicked.
    pub panicked: u64,
    /// Values that were returned by a removal, by a drain, or to a put that met a close.
    pub returned: u64,
    /// The longest [`KeyFigures::wait_max`] of any key. Needs
    /// [`Builder::key_figures`](crate::Builder::key_figures).
    pub wait_max: Nanos,
}

/// Statistics of one key; see [`Conflator::key_figures`](crate::Conflator::key_figures).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyFigures {
    /// Values put under the key. Needs [`Builder::key_figures`](crate::Builder::key_figures).
    pub submitted: u64,
    /// Values of the key that were handled or whose handler panicked.
    pub handled: u64,
    /// `true` if a value is pending.
    pub is_pending: bool,
    /// Age of the newest value, if one is pending. Needs
    /// [`Builder::key_figures`](crate::Builder::key_figures).
    pub age: Option<Nanos>,
    /// Longest time from the first put that found the cell empty to the take. Needs
    /// [`Builder::key_figures`](crate::Builder::key_figures). If another put runs during the take,
    /// the time may start at that put.
    pub wait_max: Nanos,
}

impl Figures {
    /// Returns the number of submitted values per handled value, `None` before the first is
    /// handled.
    #[must_use]
    pub fn conflation(&self) -> Option<f64> {
        (self.handled > 0).then(|| self.submitted as f64 / self.handled as f64)
    }

    fn add(&mut self, other: Self) {
        self.submitted += other.submitted;
        self.handled += other.handled;
        self.conflated += other.conflated;
        self.panicked += other.panicked;
        self.returned += other.returned;
        self.wait_max = self.wait_max.max(other.wait_max);
    }
}

impl KeyFigures {
    /// Returns the number of submitted values per handled value, `None` before the first is
    /// handled.
    #[must_use]
    pub fn conflation(&self) -> Option<f64> {
        (self.handled > 0).then(|| self.submitted as f64 / self.handled as f64)
    }
}

/// Counters of one producer or consumer.
#[derive(Default)]
pub(crate) struct Counts {
    /// Puts that found their cell empty, and puts that conflated one value. A put updates only one
    /// of them.
    puts: [Counter; 2],
    /// By [`Count`].
    others: [Counter; 4],
    /// In nanoseconds.
    wait_max: Counter,
}

/// A counter that the owner of a block may update.
#[derive(Clone, Copy)]
pub(crate) enum Count {
    Handled,
    Conflated,
    Panicked,
    Returned,
}

impl Counts {
    /// Counts a put that conflated `conflated` values. Only the owner may call it.
    #[inline(always)]
    pub(crate) fn add_put(&self, conflated: u64) {
        self.puts[usize::from(conflated != 0)].add(1);
        if conflated > 1 {
            self.add(Count::Conflated, conflated - 1);
        }
    }

    /// Adds to a counter. Only the owner may call it.
    #[inline(always)]
    pub(crate) fn add(&self, count: Count, number: u64) {
        self.others[count as usize].add(number);
    }

    /// Records how long a value was pending. Only the owner may call it.
    pub(crate) fn note_wait(&self, wait: u64) {
        if wait > self.wait_max.get() {
            self.wait_max.set(wait);
        }
    }

    fn read(&self) -> Figures {
        let [handled, conflated, panicked, returned] = self.others.each_ref().map(Counter::get);
        let [alone, replacing] = self.puts.each_ref().map(Counter::get);
        Figures {
            submitted: alone + replacing,
            handled,
            conflated: conflated + replacing,
            panicked,
            returned,
            wait_max: Nanos::from_nanos(self.wait_max.get()),
        }
    }
}

pub(crate) type Block = Arc<CachePadded<Counts>>;

/// All blocks, and the total of the past.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Books>);

#[derive(Default)]
struct Books {
    past: Figures,
    blocks: Vec<Block>,
    next_id: u64,
}

impl Ledger {
    /// Opens a block, with a new number, for a producer or a consumer.
    pub(crate) fn open(&self) -> (Block, u64) {
        let block = Block::default();
        let mut books = self.0.lock();
        books.blocks.push(Arc::clone(&block));
        books.next_id += 1;
        (block, books.next_id)
    }

    /// Adds a block to the total of the past; its owner must not count in it any more.
    pub(crate) fn close(&self, block: &Block) {
        let mut books = self.0.lock();
        let Some(at) = books.blocks.iter().position(|b| Arc::ptr_eq(b, block)) else {
            return;
        };
        let closed = books.blocks.swap_remove(at);
        books.past.add(closed.read());
    }

    /// Counts values that were returned outside any block.
    pub(crate) fn add_past(&self, figures: Figures) {
        self.0.lock().past.add(figures);
    }

    pub(crate) fn read(&self) -> Figures {
        let books = self.0.lock();
        let mut sum = books.past;
        books.blocks.iter().for_each(|block| sum.add(block.read()));
        sum
    }
}
