//! Iterators over a queue, and the conversions from iterators.

use core::fmt;
use core::iter::FusedIterator;

use super::Queue;
use crate::alloc::{Allocator, Global};
use crate::popping::popping_iterators;

popping_iterators!(Queue);

impl<T, A: Allocator> Queue<T, A> {
    /// Returns an iterator that pops until it first finds the queue empty.
    ///
    /// It may never end while producers push faster than it pops; bound it with `take`. If it is
    /// dropped early, the other items stay queued.
    ///
    /// ```
    /// let queue: rast_queue::Queue<_> = (1..=5).collect();
    /// assert_eq!(queue.drain().take(2).collect::<Vec<_>>(), [1, 2]);
    /// assert_eq!(queue.drain().collect::<Vec<_>>(), [3, 4, 5]);
    /// ```
    ///
    /// A drain that is not iterated pops nothing:
    ///
    /// ```compile_fail
    /// #![deny(unused_must_use)]
    /// let queue: rast_queue::Queue<_> = (1..=5).collect();
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

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.queue.len(), Some(self.queue.len()))
    }
}

impl<T, A: Allocator> ExactSizeIterator for IntoIter<T, A> {}

impl<T, A: Allocator> fmt::Debug for IntoIter<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter")
            .field("len", &self.queue.len())
            .finish()
    }
}

impl<T, A: Allocator> Extend<T> for Queue<T, A> {
    /// Pushes every item of `items`.
    ///
    /// # Panics
    ///
    /// If the queue is closed. In that case the iterator has not been called.
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        assert!(!self.is_closed(), "queue: extend needs an open queue");
        for item in items {
            // The borrow is exclusive, so no other thread closes the queue meanwhile.
            assert!(
                self.push(item).is_ok(),
                "queue: closed while it was borrowed exclusively"
            );
        }
    }
}

impl<T, A: Allocator + Default> FromIterator<T> for Queue<T, A> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut queue = Self::default();
        queue.extend(items);
        queue
    }
}
