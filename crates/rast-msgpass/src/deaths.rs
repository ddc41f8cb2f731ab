//! Retired instances, and the instances that watch them.
//!
//! One lock protects both lists, so either an instance that retires finds a watcher, or the watcher
//! finds the instance in the log. `watch.rs` has the watchers' side.

use core::ops::Range;

use crate::graph::Node;
use crate::primitive::sync::Mutex;
use crate::primitive::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The instances of a graph that retired.
pub(crate) struct Deaths {
    lists: Mutex<Lists>,
    /// The length of the log.
    count: AtomicUsize,
    /// Per shard, whether its instance is in the log.
    has: Box<[AtomicBool]>,
}

#[derive(Default)]
struct Lists {
    /// The shards of the retired instances, in order.
    log: Vec<usize>,
    /// The shards that are woken then.
    watchers: Vec<usize>,
}

impl Deaths {
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            lists: Mutex::default(),
            count: AtomicUsize::new(0),
            has: (0..shards).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Returns whether the instance of this shard retired. A thread other than its holder may learn
    /// that late.
    pub(crate) fn has(&self, shard: usize) -> bool {
        // Relaxed: what a retired instance does with messages needs no order with this.
        self.has[shard].load(Ordering::Relaxed)
    }

    /// Adds the shard of an instance to the log; returns the shards to wake.
    pub(crate) fn add(&self, shard: usize) -> Vec<usize> {
        let mut lists = self.lists.lock();
        lists.log.push(shard);
        // Relaxed: see `has`.
        self.has[shard].store(true, Ordering::Relaxed);
        // Relaxed: the log is read under its lock, after the wake-up of the watchers.
        self.count.store(lists.log.len(), Ordering::Relaxed);
        lists.watchers.clone()
    }

    /// Returns the length of the log.
    pub(crate) fn count(&self) -> usize {
        // Relaxed: the thread that raised it woke the watcher afterwards.
        self.count.load(Ordering::Relaxed)
    }

    /// Returns those of the shards whose instances are not retired.
    pub(crate) fn living(&self, shards: Range<usize>) -> Vec<usize> {
        // A thread that has read a count sees the entries that it counts: the count is stored under
        // this lock, so the thread takes the lock after them.
        let _lists = self.lists.lock();
        shards.filter(|&shard| !self.has(shard)).collect()
    }

    /// Adds a shard to wake, unless it is there; returns `true` if the log has entries.
    pub(crate) fn watch(&self, shard: usize) -> bool {
        let mut lists = self.lists.lock();
        if !lists.watchers.contains(&shard) {
            lists.watchers.push(shard);
        }
        !lists.log.is_empty()
    }

    /// Finds the first entry of the log, from `seen` on, that is one of the shards; `seen` is then
    /// the position behind it, or the end of the log.
    pub(crate) fn next(&self, seen: &mut usize, shards: &Range<usize>) -> Option<usize> {
        let lists = self.lists.lock();
        while let Some(shard) = lists.log.get(*seen) {
            *seen += 1;
            if shards.contains(shard) {
                return Some(*shard);
            }
        }
        None
    }
}

/// A retired instance; for [`Process::on_retired`](crate::Process::on_retired).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retired {
    /// The name of the processor in `graph!`.
    pub processor: &'static str,
    /// The index of its replica.
    pub replica: usize,
}

impl Retired {
    /// Returns `true` if it is a replica of `P`.
    #[must_use]
    pub fn is<G: Node<P>, P>(&self) -> bool {
        let info = G::PROCESSORS.get(<G as Node<P>>::ID);
        info.is_some_and(|info| info.name == self.processor)
    }
}
