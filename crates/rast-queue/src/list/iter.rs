//! Iterators that pop.

use core::fmt;
use core::iter::FusedIterator;

use super::ListQueue;
use crate::alloc::{Allocator, Global};
use crate::popping::popping_iterators;

popping_iterators!(ListQueue);

impl<T, A: Allocator> ListQueue<T, A> {
    /// Returns an iterator that pops until it first finds the queue empty.
    ///
    /// It may never end while producers push faster than it pops; bound it with `take`. If it is
    /// dropped early, the other items stay queued.
    ///
    /// ```
    /// let queue: rast_queue::list::ListQueue<_> = (1..=5).collect();
    /// assert_eq!(queue.drain().take(2).collect::<Vec<_>>(), [1, 2]);
    /// assert_eq!(queue.drain().collect::<Vec<_>>(), [3, 4, 5]);
    /// ```
    ///
    /// A drain that is not iterated pops nothing, so it is `#[must_use]`:
    ///
    /// ```compile_fail
    /// #![deny(unused_must_use)]
    /// let queue: rast_queue::list::ListQueue<_> = (1..=5).collect();
    /// queue.drain();
    /// ```
    pub fn drain(&self) -> Drain<'_, T, A> {
        Drain { queue: Some(self) }
    }
}

impl<T, A: Allocator> Iterator for IntoIter<T, A> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.queue.pop()
    }
}

impl<T, A: Allocator> fmt::Debug for IntoIter<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter")
            .field("is_finished", &self.queue.is_empty())
            .finish()
    }
}
