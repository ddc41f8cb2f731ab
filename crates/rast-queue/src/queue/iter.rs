//! Iterators over a queue, and what is made from and of iterators.

use core::fmt;
use core::iter::FusedIterator;

use super::Queue;
use crate::alloc::{Allocator, Global};

/// Pops until it first finds the queue empty; made by [`Queue::drain`].
#[must_use = "pops only what it is asked for; to empty the queue, run it to its end"]
pub struct Drain<'a, T, A: Allocator = Global> {
    /// `None` once the queue was found empty.
    queue: Option<&'a Queue<T, A>>,
}

impl<'a, T, A: Allocator> Drain<'a, T, A> {
    pub(super) fn new(queue: &'a Queue<T, A>) -> Self {
        Self { queue: Some(queue) }
    }
}

impl<T, A: Allocator> Iterator for Drain<'_, T, A> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let item = self.queue?.pop();
        if item.is_none() {
            self.queue = None;
        }
        item
    }
}

impl<T, A: Allocator> FusedIterator for Drain<'_, T, A> {}

impl<T, A: Allocator> fmt::Debug for Drain<'_, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain")
            .field("is_finished", &self.queue.is_none())
            .finish()
    }
}

/// The items of a queue, front to back; made by its `into_iter`.
#[must_use = "iterators are lazy"]
pub struct IntoIter<T, A: Allocator = Global> {
    queue: Queue<T, A>,
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
impl<T, A: Allocator> FusedIterator for IntoIter<T, A> {}

impl<T, A: Allocator> fmt::Debug for IntoIter<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter")
            .field("len", &self.queue.len())
            .finish()
    }
}

impl<T, A: Allocator> IntoIterator for Queue<T, A> {
    type Item = T;
    type IntoIter = IntoIter<T, A>;

    fn into_iter(self) -> IntoIter<T, A> {
        IntoIter { queue: self }
    }
}

impl<T, A: Allocator> Extend<T> for Queue<T, A> {
    /// Pushes every item of `items`.
    ///
    /// # Panics
    ///
    /// If the queue is closed, before it asks for an item.
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        assert!(!self.is_closed(), "queue: extend needs an open queue");
        for item in items {
            // The borrow is exclusive, so nobody closes the queue meanwhile.
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
