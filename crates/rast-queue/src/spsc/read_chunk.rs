//! A borrow of queued items, which can be read in place, dropped or moved out, all or some of them.

use core::fmt;
use core::iter::FusedIterator;

use super::Consumer;
use super::raw::Span;
use crate::alloc::{Allocator, Global};

impl<T, A: Allocator> Consumer<T, A> {
    /// Borrows up to `max` of the queued items, to be read in place or moved out.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spsc::ring(4);
    /// producer.push_slice(&[1, 2, 3]);
    /// let chunk = consumer.read_chunk(2);
    /// assert_eq!(chunk.as_slices().0, [1, 2]);
    /// chunk.commit(1);
    /// assert_eq!(consumer.peek(), Some(&2));
    /// ```
    #[inline]
    pub fn read_chunk(&mut self, max: usize) -> ReadChunk<'_, T, A> {
        let len = self.standing(max);
        ReadChunk::new(self, len)
    }

    /// Borrows the oldest `count` items, or returns `None` if fewer are queued.
    #[inline]
    pub fn read_chunk_exact(&mut self, count: usize) -> Option<ReadChunk<'_, T, A>> {
        (self.standing(count) == count).then(|| ReadChunk::new(self, count))
    }
}

/// Borrowed items of a ring, to be read or popped; made by [`Consumer::read_chunk`].
///
/// The items are one slice, or two where the ring wraps. Only the methods below pop items. A chunk
/// that is dropped or leaked pops nothing.
///
/// | to | use |
/// | --- | --- |
/// | read in place, then drop | [`as_slices`](Self::as_slices), [`commit`](Self::commit) |
/// | move items out | [`into_iter`](Self::into_iter): the items that the iterator yielded are popped |
///
/// All methods are wait-free; each pop is one atomic store, whatever the number of items.
///
/// ```
/// let (mut producer, mut consumer) = rast_queue::spsc::ring(8);
/// producer.push_slice(b"GET /");
/// let chunk = consumer.read_chunk(8);
/// let (first, second) = chunk.as_slices();
/// assert_eq!((first, second), (&b"GET /"[..], &b""[..]));
/// chunk.commit(4); // done with `GET `
///
/// let mut rest = consumer.read_chunk(8).into_iter();
/// assert_eq!(rest.next(), Some(b'/'));
/// drop(rest);
/// assert!(consumer.is_empty());
/// ```
///
/// A chunk borrows the consumer exclusively, and its slices borrow the chunk:
///
/// ```compile_fail
/// let (_producer, mut consumer) = rast_queue::spsc::ring::<u32>(8);
/// let chunk = consumer.read_chunk(2);
/// consumer.pop();
/// chunk.commit_all();
/// ```
///
/// ```compile_fail
/// let (_producer, mut consumer) = rast_queue::spsc::ring::<u32>(8);
/// let chunk = consumer.read_chunk(2);
/// let (first, _) = chunk.as_slices();
/// chunk.commit_all();
/// println!("{first:?}");
/// ```
#[must_use = "a chunk pops nothing until it is committed or iterated"]
pub struct ReadChunk<'a, T, A: Allocator = Global> {
    consumer: &'a mut Consumer<T, A>,
    span: Span<T>,
}

// SAFETY: a chunk is the exclusive borrow of a consumer and the addresses of items that belong to
// that consumer; sending it sends both.
unsafe impl<T: Send, A: Allocator + Send> Send for ReadChunk<'_, T, A> {}

impl<'a, T, A: Allocator> ReadChunk<'a, T, A> {
    /// The `len` items from the head on, which the consumer has found queued.
    #[inline(always)]
    fn new(consumer: &'a mut Consumer<T, A>, len: usize) -> Self {
        Self {
            span: consumer.span(len),
            consumer,
        }
    }

    /// Returns how many items there are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.span.len()
    }

    /// Returns whether there is no item at all.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Borrows the items, oldest first; the second slice is empty unless the ring wraps among them.
    #[inline]
    #[must_use]
    pub fn as_slices(&self) -> (&[T], &[T]) {
        // SAFETY: the slots hold items, which stay as long as the consumer is borrowed, by this
        // chunk alone; shared references to it make no unique one to them.
        unsafe { self.span.as_slices() }
    }

    /// Borrows the items to change them, oldest first; the second slice is empty unless the ring
    /// wraps among them.
    #[inline]
    #[must_use]
    pub fn as_mut_slices(&mut self) -> (&mut [T], &mut [T]) {
        // SAFETY: the slots hold items, which stay as long as the consumer is borrowed, by this
        // chunk alone.
        unsafe { self.span.as_mut_slices() }
    }

    /// Drops the first `count` items and pops them at once.
    ///
    /// Even if destructors panic, all `count` items are dropped and popped before the first of
    /// these panics continues.
    ///
    /// # Panics
    ///
    /// If `count` is over [`len`](Self::len); nothing is popped then.
    #[inline]
    pub fn commit(self, count: usize) {
        assert!(
            count <= self.len(),
            "spsc: a chunk commits at most its length"
        );
        let popped = Popped {
            consumer: self.consumer,
            count,
        };
        // SAFETY: the first `count` slots hold items, which are dropped here alone: `popped` moves
        // the head past them.
        unsafe { self.span.range(0, popped.count).drop_items() };
    }

    /// Drops all items and pops them at once.
    #[inline]
    pub fn commit_all(self) {
        let len = self.len();
        self.commit(len);
    }
}

impl<'a, T, A: Allocator> IntoIterator for ReadChunk<'a, T, A> {
    type Item = T;
    type IntoIter = ReadChunkIter<'a, T, A>;

    #[inline(always)]
    fn into_iter(self) -> ReadChunkIter<'a, T, A> {
        ReadChunkIter::new(self.consumer, self.span)
    }
}

impl<T, A: Allocator> fmt::Debug for ReadChunk<'_, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadChunk")
            .field("len", &self.len())
            .finish()
    }
}

/// Pops on drop, so also if a drop of an item panics.
struct Popped<'a, T, A: Allocator> {
    consumer: &'a Consumer<T, A>,
    count: usize,
}

impl<T, A: Allocator> Drop for Popped<'_, T, A> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.count > 0 {
            // SAFETY: that many items were queued from the head on, and are dropped.
            unsafe { self.consumer.advance(self.count) };
        }
    }
}

/// Moves the items of a [`ReadChunk`] out.
///
/// When it is dropped, the items that it yielded are popped, and the others stay queued. If it is
/// leaked, the items that it did not yield are leaked too. The slots of the chunk then return to
/// the producer when the consumer next pops an item, or with [`Consumer::release`]. If the chunk
/// had all items of a full ring, no item is left to pop, so the ring stays full until `release`.
///
/// `for_each`, `fold` and the adapters that use them are faster than calls of `next`: they run one
/// plain loop per slice.
///
/// ```
/// let (mut producer, mut consumer) = rast_queue::spsc::ring(4);
/// producer.push_slice(&[1, 2, 3]);
/// let first: Vec<_> = consumer.read_chunk(4).into_iter().take(2).collect();
/// assert_eq!(first, [1, 2]);
/// assert_eq!(consumer.pop(), Some(3));
/// ```
#[must_use = "an iterator gives nothing until it is asked"]
pub struct ReadChunkIter<'a, T, A: Allocator = Global> {
    /// While the iterator lives, its true head is past the whole chunk and its published head is
    /// before the chunk. So no item is popped twice even if the iterator is leaked.
    consumer: &'a Consumer<T, A>,
    span: Span<T>,
    /// Number of items yielded.
    given: usize,
}

// SAFETY: an iterator holds the exclusive borrow of a consumer, out of which it was made, and the
// addresses of items that belong to that consumer; sending it sends both.
unsafe impl<T: Send, A: Allocator + Send> Send for ReadChunkIter<'_, T, A> {}

impl<'a, T, A: Allocator> ReadChunkIter<'a, T, A> {
    #[inline(always)]
    fn new(consumer: &'a mut Consumer<T, A>, span: Span<T>) -> Self {
        consumer.skip(span.len());
        Self {
            consumer,
            span,
            given: 0,
        }
    }

    #[inline(always)]
    pub(super) fn given(&self) -> usize {
        self.given
    }
}

impl<T, A: Allocator> Iterator for ReadChunkIter<'_, T, A> {
    type Item = T;

    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        if self.given == self.span.len() {
            return None;
        }
        let slot = self.span.at(self.given);
        self.given += 1;
        // SAFETY: the slot is one of the chunk, so it holds an item, which was just counted as
        // given.
        Some(unsafe { slot.read() })
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.span.len() - self.given;
        (left, Some(left))
    }

    #[inline(always)]
    fn fold<B, F: FnMut(B, T) -> B>(mut self, init: B, mut f: F) -> B {
        let mut value = init;
        let rest = self.span.range(self.given, self.span.len());
        for (slots, len) in rest.parts() {
            for n in 0..len {
                // SAFETY: `n` is below the length of this stretch of slots.
                let slot = unsafe { slots.add(n) };
                self.given += 1;
                // SAFETY: the slot is one of the chunk, so it holds an item, which was just counted
                // as given.
                value = f(value, unsafe { slot.read() });
            }
        }
        value
    }
}

impl<T, A: Allocator> ExactSizeIterator for ReadChunkIter<'_, T, A> {}

impl<T, A: Allocator> FusedIterator for ReadChunkIter<'_, T, A> {}

impl<T, A: Allocator> Drop for ReadChunkIter<'_, T, A> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the head was moved past the whole chunk, of which so many items were moved out.
        unsafe {
            self.consumer
                .settle(self.given, self.span.len() - self.given)
        };
    }
}

impl<T, A: Allocator> fmt::Debug for ReadChunkIter<'_, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadChunkIter")
            .field("len", &self.len())
            .finish()
    }
}
