//! Pushing many items with one claim.

use core::fmt;
use core::iter::{Fuse, FusedIterator};
use core::mem::MaybeUninit;

use std_alloc::vec::{self, Vec};

use super::Queue;
use super::push::Refusal;
use crate::Closed;
use crate::alloc::Allocator;

/// Number of items that are collected before their tickets are claimed: no user code may run
/// between the claim and the write of the slot.
const GATHERED: usize = 32;

/// Size in bytes from which items are pushed one by one: a batch would use much stack and save
/// little.
const LARGE: usize = 256;

impl<T, A: Allocator> Queue<T, A> {
    /// Pushes the items that `items` yields, in order; returns how many.
    ///
    /// Up to 32 items are collected from the iterator and then pushed with one claim. Items of 256
    /// bytes or more are pushed one by one. Items of other producers may come between those of a
    /// batch. Each waiter is woken as soon as there is an item for it. Lock-free as
    /// [`push`](Self::push) is; calls `handle_alloc_error` on lack of memory.
    ///
    /// # Panics
    ///
    /// As [`push`](Self::push), and if the iterator panics. In that case the items that it had
    /// yielded are pushed, unless the queue is closed, and waiters are woken for them. After a
    /// panic of a waker or of the allocator the iterator is not called again. If the allocator
    /// panics, the item that needed memory and the collected items after it are dropped.
    ///
    /// # Errors
    ///
    /// [`Closed`] with an iterator over the items that were not pushed (see [`Rest`]), if the queue
    /// is closed.
    ///
    /// ```
    /// let queue = rast_queue::Queue::new();
    /// assert_eq!(queue.push_batch([1, 2, 3]).unwrap(), 3);
    /// queue.close();
    /// let rest = queue.push_batch(vec![4, 5]).unwrap_err().into_inner();
    /// assert_eq!(rest.collect::<Vec<_>>(), [4, 5]);
    /// ```
    pub fn push_batch<I>(&self, items: I) -> Result<usize, Closed<Rest<I::IntoIter>>>
    where
        I: IntoIterator<Item = T>,
    {
        // Fused, so that neither this call nor `Rest` calls the iterator again after its end.
        let mut items = items.into_iter().fuse();
        if self.is_closed() {
            return Err(Closed(Rest::new(Vec::new(), items)));
        }
        if size_of::<T>() >= LARGE {
            return self.push_each(items);
        }
        let mut pushed = 0;
        let mut gathered = Gathered::new(self);
        loop {
            gathered.fill(&mut items);
            if gathered.len() == 0 {
                return Ok(pushed);
            }
            let gathered_before = gathered.len();
            let refusal = gathered.push();
            pushed += gathered_before - gathered.len();
            match refusal {
                None => {}
                Some(Refusal::Closed) => return Err(Closed(Rest::new(gathered.take(), items))),
                Some(Refusal::NoMemory) => self.no_memory_slow(),
            }
        }
    }

    fn push_each<I: Iterator<Item = T>>(
        &self,
        mut items: Fuse<I>,
    ) -> Result<usize, Closed<Rest<I>>> {
        let mut pushed = 0;
        while let Some(item) = items.next() {
            if let Err(Closed(item)) = self.push(item) {
                return Err(Closed(Rest::new(std_alloc::vec![item], items)));
            }
            pushed += 1;
        }
        Ok(pushed)
    }

    /// Pushes copies of `items`, in order, as [`push_batch`](Self::push_batch) does. One claim
    /// takes slots for all items, or as many as the current segment has left.
    ///
    /// # Panics
    ///
    /// As [`push`](Self::push). If the waker of a task panics, all items are in the queue, unless
    /// the queue is closed.
    ///
    /// # Errors
    ///
    /// [`Closed`] with the rest of the slice, if the queue is closed.
    ///
    /// ```
    /// use rast_queue::{Closed, Queue};
    ///
    /// let queue = Queue::new();
    /// queue.push_slice(b"abc").unwrap();
    /// queue.close();
    /// assert_eq!(queue.push_slice(b"de"), Err(Closed(&b"de"[..])));
    /// ```
    pub fn push_slice<'a>(&self, items: &'a [T]) -> Result<(), Closed<&'a [T]>>
    where
        T: Copy,
    {
        let mut taken = 0;
        // SAFETY: the slice is valid for reads, and its items are `Copy`, so they may be used
        // again.
        match unsafe { self.push_many(items.as_ptr(), items.len(), &mut taken) } {
            None => Ok(()),
            Some(Refusal::Closed) => Err(Closed(&items[taken..])),
            Some(Refusal::NoMemory) => self.no_memory_slow(),
        }
    }
}

/// Items that the iterator has yielded and that are not pushed yet.
struct Gathered<'a, T, A: Allocator> {
    queue: &'a Queue<T, A>,
    items: [MaybeUninit<T>; GATHERED],
    /// The collected items are `items[from..to]`.
    from: usize,
    to: usize,
    /// Set while a push is under way, and after a panic in one.
    is_pushing: bool,
}

impl<'a, T, A: Allocator> Gathered<'a, T, A> {
    fn new(queue: &'a Queue<T, A>) -> Self {
        Self {
            queue,
            items: [const { MaybeUninit::uninit() }; GATHERED],
            from: 0,
            to: 0,
            is_pushing: false,
        }
    }

    fn len(&self) -> usize {
        self.to - self.from
    }

    /// Collects items until the buffer is full or the iterator ends. The buffer must be empty.
    #[inline]
    fn fill(&mut self, items: &mut impl Iterator<Item = T>) {
        debug_assert_eq!(self.len(), 0);
        (self.from, self.to) = (0, 0);
        while self.to < GATHERED {
            let Some(item) = items.next() else { break };
            self.items[self.to].write(item);
            self.to += 1;
        }
    }

    /// Pushes the collected items. Items that a closed queue rejected, or that a panic left, stay
    /// collected.
    #[inline]
    fn push(&mut self) -> Option<Refusal> {
        let items = self.items.as_ptr().cast::<T>();
        self.is_pushing = true;
        // SAFETY: the items from `from` to `to` are initialised, and `from` moves past those that
        // are pushed.
        let refusal = unsafe { self.queue.push_many(items, self.to, &mut self.from) };
        self.is_pushing = false;
        refusal
    }

    #[cold]
    fn take(&mut self) -> Vec<T> {
        let mut items = Vec::with_capacity(self.len());
        while self.from < self.to {
            // SAFETY: the item at `from` is initialised, and `from` then moves past it.
            items.push(unsafe { self.items[self.from].assume_init_read() });
            self.from += 1;
        }
        items
    }
}

impl<T, A: Allocator> Drop for Gathered<'_, T, A> {
    fn drop(&mut self) {
        if self.len() == 0 {
            return;
        }
        // Only a panic leaves items. After a panic of the iterator they are pushed. After a panic
        // in a push they are dropped: an allocator that panicked may do so again, and a second
        // panic would abort.
        if !self.is_pushing && self.push() == Some(Refusal::NoMemory) {
            self.queue.no_memory_slow();
        }
        drop(self.take());
    }
}

/// An iterator over the items that [`Queue::push_batch`] did not push, in order.
#[must_use = "these items were not pushed"]
pub struct Rest<I: Iterator> {
    /// Items that the iterator had yielded and the closed queue rejected.
    refused: vec::IntoIter<I::Item>,
    items: Fuse<I>,
}

impl<I: Iterator> Rest<I> {
    fn new(refused: Vec<I::Item>, items: Fuse<I>) -> Self {
        Self {
            refused: refused.into_iter(),
            items,
        }
    }
}

impl<I: Iterator> Iterator for Rest<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.refused.next().or_else(|| self.items.next())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let refused = self.refused.len();
        let (least, most) = self.items.size_hint();
        (
            least.saturating_add(refused),
            most.and_then(|most| most.checked_add(refused)),
        )
    }
}

impl<I: ExactSizeIterator> ExactSizeIterator for Rest<I> {}
impl<I: Iterator> FusedIterator for Rest<I> {}

impl<I: Iterator> fmt::Debug for Rest<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest")
            .field("refused", &self.refused.len())
            .finish_non_exhaustive()
    }
}
