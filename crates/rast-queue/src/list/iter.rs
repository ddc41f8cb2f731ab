//! Iterators that pop.

use core::fmt;
use core::iter::FusedIterator;

use super::ListQueue;
use crate::alloc::{Allocator, Global};
use crate::popping::popping_iterators;

popping_iterators!(ListQueue);

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
