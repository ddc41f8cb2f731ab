//! The consumer handle.

use core::fmt;
use core::iter::{self, FusedIterator};
use core::ptr::NonNull;

use super::block::{Block, BoxedNode};
use super::boxed::Shared;
use super::stack::{Inbox, RawLink};
use crate::alloc::{Allocator, Global};
use crate::primitive::panics::drop_each;

/// The popping half of a [`queue`](super::queue).
///
/// It is `Send`, and neither `Sync` nor `Clone`. Dropping it closes the queue and drops the queued
/// items.
///
/// ```
/// let (mut producer, mut consumer) = rast_queue::mpsc::queue();
/// producer.push_batch(1..=4).unwrap();
/// drop(producer);
/// assert_eq!(consumer.pop(), Some(1));
/// assert_eq!(consumer.take_all().take(2).collect::<Vec<_>>(), [2, 3]); // and drops 4
/// assert!(consumer.is_finished());
/// ```
///
/// There is only one:
///
/// ```compile_fail
/// fn clone<T: Clone>(_: T) {}
/// clone(rast_queue::mpsc::queue::<u8>().1);
/// ```
///
/// ```compile_fail
/// fn share<T: Sync>(_: T) {}
/// share(rast_queue::mpsc::queue::<u8>().1);
/// ```
pub struct Consumer<T, A: Allocator = Global> {
    shared: Shared<T, A>,
    inbox: Inbox,
}

// SAFETY: the items that the consumer has taken move with it: they are of type T, which is Send, in
// memory of the shared allocator.
unsafe impl<T: Send, A: Allocator + Send + Sync> Send for Consumer<T, A> {}

impl<T, A: Allocator> core::panic::UnwindSafe for Consumer<T, A> {}
impl<T, A: Allocator> core::panic::RefUnwindSafe for Consumer<T, A> {}

impl<T, A: Allocator> Consumer<T, A> {
    /// # Safety
    ///
    /// This is the only consumer over `shared`.
    pub(super) unsafe fn new(shared: Shared<T, A>) -> Self {
        Self {
            shared,
            inbox: Inbox::new(),
        }
    }

    /// Pops the oldest item, or returns `None` if the queue is empty.
    ///
    /// If no item is left from the last take, the call takes all queued items by one swap, and
    /// reverses their list. Otherwise the call executes no swap. Wait-free, except for the walk
    /// over the list. Never allocates. After the last item of a block it recycles or frees the
    /// block.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        // SAFETY: (1) this is the only consumer, and its inbox; (2) by the rules of the blocks a
        // node is alive until its item is consumed.
        let link = unsafe { self.inbox.pop(&self.shared.inside().stack) }?;
        // SAFETY: the inbox handed the link out.
        Some(unsafe { self.consume(link) })
    }

    /// Pops all queued items, in the order of their pushes.
    ///
    /// One swap, and a walk over the items that reverses their list. Dropping the batch drops the
    /// items left in it.
    #[inline]
    pub fn take_all(&mut self) -> Batch<'_, T, A> {
        // SAFETY: as in `pop`.
        unsafe { self.inbox.take_all(&self.shared.inside().stack) };
        Batch { consumer: self }
    }

    /// Pops up to `max` of the queued items, passes each to `each`, and returns how many.
    ///
    /// A call pops at most the items that were queued at its start. If `each` panics, the items
    /// that it was called with are popped, and the others stay queued. The call takes new items, by
    /// one swap, only if fewer than `max` are left from earlier swaps.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::mpsc::queue();
    /// producer.push_batch(["a", "b", "c"]).unwrap();
    /// let mut text = String::new();
    /// assert_eq!(consumer.pop_batch(2, |s| text += s), 2);
    /// assert_eq!(text, "ab");
    /// assert_eq!(consumer.len(), 1);
    /// ```
    pub fn pop_batch(&mut self, max: usize, each: impl FnMut(T)) -> usize {
        let count = self.queued(max);
        iter::from_fn(|| self.pop_taken())
            .take(count)
            .for_each(each);
        count
    }

    /// Pops up to `max` of the queued items, appends them to `out`, and returns how many.
    ///
    /// If `out` stops early or panics, the items that it did not consume stay queued. One swap at
    /// most, as in [`pop_batch`](Self::pop_batch).
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::mpsc::queue();
    /// producer.push_batch(0..5).unwrap();
    /// let mut out = Vec::new();
    /// assert_eq!(consumer.pop_into(&mut out, 3), 3);
    /// assert_eq!(out, [0, 1, 2]);
    /// ```
    pub fn pop_into<E: Extend<T>>(&mut self, out: &mut E, max: usize) -> usize {
        let count = self.queued(max);
        let before = self.inbox.len();
        out.extend(iter::from_fn(|| self.pop_taken()).take(count));
        before - self.inbox.len()
    }

    /// Pops up to `out.len()` of the queued items into the front of `out`, and returns how many.
    ///
    /// One swap at most, as in [`pop_batch`](Self::pop_batch).
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::mpsc::queue();
    /// producer.push_slice(&[1, 2, 3]).unwrap();
    /// let mut out = [0; 2];
    /// assert_eq!(consumer.pop_slice(&mut out), 2);
    /// assert_eq!(out, [1, 2]);
    /// ```
    pub fn pop_slice(&mut self, out: &mut [T]) -> usize
    where
        T: Copy,
    {
        let mut places = out.iter_mut();
        self.pop_batch(places.len(), |item| {
            if let Some(place) = places.next() {
                *place = item;
            }
        })
    }

    /// Returns how many items are queued. It takes all pushed items and counts them.
    ///
    /// Producers can only add items, so this many pops will succeed. One swap, and a walk over the
    /// items that it takes. The next push is then the first since a take, and returns `true`.
    pub fn len(&mut self) -> usize {
        self.queued(usize::MAX)
    }

    /// Returns whether the queue is empty. Wait-free, one load at most.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.inbox.is_empty(&self.shared.inside().stack)
    }

    /// Closes the queue, so that every later push fails; returns whether this call closed it.
    ///
    /// Queued items can still be popped. Wait-free: one swap, and the walk of a take.
    pub fn close(&mut self) -> bool {
        // SAFETY: as in `pop`.
        unsafe { self.inbox.close(&self.shared.inside().stack) }
    }

    /// Returns whether the queue is closed. Wait-free, one load.
    pub fn is_closed(&self) -> bool {
        self.shared.inside().stack.is_closed()
    }

    /// Returns whether the queue is empty, and all producers were dropped or the queue is closed.
    /// Then no later pop returns an item. Wait-free.
    pub fn is_finished(&self) -> bool {
        // In this order, the second check finds the items that were pushed before the last producer
        // was dropped.
        (self.shared.is_alone() || self.is_closed()) && self.is_empty()
    }

    /// Returns the allocator.
    pub fn allocator(&self) -> &A {
        &self.shared.inside().alloc
    }

    /// Moves the item out of the node at `link`.
    ///
    /// # Safety
    ///
    /// The inbox handed `link` out, and this is its first use.
    #[inline(always)]
    unsafe fn consume(&mut self, link: NonNull<RawLink>) -> T {
        let node = link.cast::<BoxedNode<T>>();
        // SAFETY: the node is the consumer's, and holds an item.
        let item = unsafe { BoxedNode::read(node) };
        let block = Block::<T>::of(link);
        // SAFETY: (1) this is the consumer, and the item is out; (2) on true the block is given
        // away below.
        if unsafe { block.consume() } {
            let inside = self.shared.inside();
            // SAFETY: by rule 3 of the blocks it is the consumer's alone; blocks come from this
            // allocator.
            unsafe { inside.spares.give_empty(block, &inside.alloc) };
        }
        item
    }

    /// Returns how many items are queued, at most `max`. Takes the items of the stack if the inbox
    /// has fewer.
    fn queued(&mut self, max: usize) -> usize {
        if self.inbox.len() < max {
            // SAFETY: as in `pop`.
            unsafe { self.inbox.take_all(&self.shared.inside().stack) };
        }
        self.inbox.len().min(max)
    }

    #[inline(always)]
    fn pop_taken(&mut self) -> Option<T> {
        // SAFETY: the links in the inbox are alive, by the rules of the blocks.
        let link = unsafe { self.inbox.fifo().pop() }?;
        // SAFETY: the inbox handed the link out.
        Some(unsafe { self.consume(link) })
    }

    /// Drops the items of the inbox, all of them even if destructors panic.
    fn drop_taken(&mut self) {
        drop_each(|| self.pop_taken());
    }
}

impl<T, A: Allocator> Drop for Consumer<T, A> {
    fn drop(&mut self) {
        self.close();
        self.drop_taken();
    }
}

impl<T, A: Allocator> fmt::Debug for Consumer<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("is_empty", &self.is_empty())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// Items that were taken, oldest first; made by [`Consumer::take_all`]. Dropping it drops the rest.
#[must_use = "dropping a batch drops the items in it"]
pub struct Batch<'a, T, A: Allocator = Global> {
    consumer: &'a mut Consumer<T, A>,
}

impl<T, A: Allocator> Iterator for Batch<'_, T, A> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.consumer.pop_taken()
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.consumer.inbox.len();
        (len, Some(len))
    }
}

impl<T, A: Allocator> ExactSizeIterator for Batch<'_, T, A> {}
impl<T, A: Allocator> FusedIterator for Batch<'_, T, A> {}

impl<T, A: Allocator> Drop for Batch<'_, T, A> {
    fn drop(&mut self) {
        self.consumer.drop_taken();
    }
}

impl<T, A: Allocator> fmt::Debug for Batch<'_, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").finish_non_exhaustive()
    }
}
