//! The half that pushes.

use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::{self, NonNull};

use std_alloc::alloc::handle_alloc_error;

use super::Consumer;
use super::raw::{Block, Handle, Slot};
use crate::TryPushError;
use crate::alloc::{AllocError, Allocator, Global};

/// The pushing half of a queue for many consumers.
///
/// One thread at a time uses it: it is `Send`, and neither `Sync` nor `Clone`. Its methods are
/// wait-free, except for the allocator, which they call for new blocks. They execute one atomic
/// read-modify-write per block; [`consumer`](Self::consumer) also executes one. Dropping the
/// producer publishes the pending items and closes the queue; consumers can still pop all pushed
/// items.
///
/// ```
/// let (mut producer, mut consumer) = rast_queue::spmc::queue();
/// producer.push("now");
/// producer.push_pending("with");
/// producer.push_pending("the next");
/// assert_eq!(consumer.pop(), Some("now"));
/// assert_eq!(consumer.pop(), None);
/// assert!(producer.publish());
/// assert_eq!(consumer.pop(), Some("with"));
/// ```
///
/// ```compile_fail
/// fn clone<T: Clone>(_: T) {}
/// let (producer, _consumer) = rast_queue::spmc::queue::<u8>();
/// clone(producer);
/// ```
///
/// ```compile_fail
/// fn share<T: Sync>(_: T) {}
/// let (producer, _consumer) = rast_queue::spmc::queue::<u8>();
/// share(producer);
/// ```
///
/// ```compile_fail
/// fn send<T: Send>(_: T) {}
/// let (producer, _consumer) = rast_queue::spmc::queue::<std::rc::Rc<u8>>();
/// send(producer);
/// ```
///
/// The type is invariant in `T`, because consumers pop what the producer pushes:
///
/// ```compile_fail
/// use rast_queue::spmc::Producer;
/// fn shorten<'a>(producer: Producer<&'static str>) -> Producer<&'a str> {
///     producer
/// }
/// ```
pub struct Producer<T, A: Allocator = Global> {
    handle: Handle<T, A>,
    /// The last block and its slots; the next item goes there, or to a block after it.
    block: NonNull<Block<T>>,
    slots: NonNull<Slot<T>>,
    /// How many slots of the last block are written.
    written: usize,
    /// Slots per block.
    capacity: usize,
    /// The true tail; the published one lags behind it by the number of pending items.
    tail: u64,
    published: u64,
    /// The tail at the last `publish`, which told the caller about the items before it.
    told: u64,
    /// Blocks of our own, chained.
    stock: *mut Block<T>,
    stock_len: usize,
}

// SAFETY: on another thread a producer moves or drops items, and all halves use the allocator at
// the same time, which the last one drops; T is Send, and A is Send and Sync. The words that the
// halves share are atomic, and by the rules of the queue no two halves access a slot at once.
unsafe impl<T: Send, A: Allocator + Send + Sync> Send for Producer<T, A> {}

// A panic in user code leaves the queue consistent.
impl<T, A: Allocator> UnwindSafe for Producer<T, A> {}
impl<T, A: Allocator> RefUnwindSafe for Producer<T, A> {}

impl<T, A: Allocator> Producer<T, A> {
    /// # Safety
    ///
    /// `handle` and `block` come from `Handle::new`, and this is the only producer over them.
    pub(super) unsafe fn new(handle: Handle<T, A>, block: NonNull<Block<T>>) -> Self {
        Self {
            capacity: handle.block_slots(),
            handle,
            block,
            slots: Block::slots(block),
            written: 0,
            tail: 0,
            published: 0,
            told: 0,
            stock: ptr::null_mut(),
            stock_len: 0,
        }
    }

    /// Pushes one item, and publishes it with all pending items.
    ///
    /// Wait-free, except for the allocator; one atomic store. Aborts on lack of memory; see
    /// [`try_push`](Self::try_push).
    #[inline]
    pub fn push(&mut self, item: T) {
        self.push_pending(item);
        self.publish_quietly();
    }

    /// Pushes one item, and publishes it with all pending items.
    ///
    /// # Errors
    ///
    /// [`TryPushError::NoMemory`] with the item if the allocator gave no block for it. `Closed` is
    /// never returned.
    #[inline]
    pub fn try_push(&mut self, item: T) -> Result<(), TryPushError<T>> {
        self.try_push_pending(item)?;
        self.publish_quietly();
        Ok(())
    }

    /// Writes one item that no consumer sees before the next [`publish`](Self::publish) or push.
    ///
    /// Wait-free, except for the allocator; no atomic operation. Aborts on lack of memory; see
    /// [`try_push_pending`](Self::try_push_pending).
    #[inline]
    pub fn push_pending(&mut self, item: T) {
        if self.written == self.capacity {
            self.grow_or_abort();
        }
        // SAFETY: the last block has room.
        unsafe { self.write_next(item) };
    }

    /// Writes one item that no consumer sees before the next [`publish`](Self::publish) or push.
    ///
    /// # Errors
    ///
    /// [`TryPushError::NoMemory`] with the item if the allocator gave no block for it. `Closed` is
    /// never returned.
    #[inline]
    pub fn try_push_pending(&mut self, item: T) -> Result<(), TryPushError<T>> {
        if self.written == self.capacity && self.grow().is_err() {
            return Err(TryPushError::NoMemory(item));
        }
        // SAFETY: the last block has room.
        unsafe { self.write_next(item) };
        Ok(())
    }

    /// Publishes all pending items (pushed by [`push_pending`](Self::push_pending)) by one store,
    /// and returns whether consumers may be waiting for items.
    ///
    /// It returns `true` if two conditions hold: items were pushed since the last `publish`, and
    /// right after the store all older items were claimed (the queue was empty before). Items that
    /// `push` and the batches have published count as well, because those calls return no such
    /// hint. After `false` there are no new items, or an older item was still queued. The consumer
    /// that pops the older item will also find the new ones.
    ///
    /// So wake consumers only on `true`. Before the producer sleeps, it must call `publish` after
    /// its last push or batch. Then each consumer whose pop or `is_empty` found nothing before the
    /// publication is woken. Dropping the producer publishes and closes without such a hint, so
    /// wake all consumers after the drop.
    ///
    /// Wait-free; a store, a fence, and a load of the consumers' index.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spmc::queue();
    /// assert!(!producer.publish());
    /// producer.push_pending(1);
    /// assert!(producer.publish());
    /// producer.push_pending(2);
    /// assert!(!producer.publish());
    /// assert_eq!((consumer.pop(), consumer.pop()), (Some(1), Some(2)));
    /// ```
    pub fn publish(&mut self) -> bool {
        let first = self.told;
        if first == self.tail {
            return false;
        }
        self.told = self.tail;
        self.publish_quietly();
        self.handle.was_drained_before(first)
    }

    /// Pushes all items of `items`, publishes them and all pending items at once, and returns how
    /// many it pushed.
    ///
    /// If the iterator panics, the items that it had yielded are pushed. Lack of memory aborts; to
    /// get an error instead, call [`try_reserve`](Self::try_reserve) before.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spmc::queue();
    /// assert_eq!(producer.push_batch(0..1000), 1000);
    /// assert_eq!(consumer.len(), 1000);
    /// ```
    pub fn push_batch<I: IntoIterator<Item = T>>(&mut self, items: I) -> usize {
        let first = self.tail;
        let batch = Batch { producer: self };
        for item in items {
            batch.producer.push_pending(item);
        }
        (batch.producer.tail - first) as usize
    }

    /// Pushes copies of all items of `items` and publishes them and all pending items at once.
    pub fn push_slice(&mut self, items: &[T])
    where
        T: Copy,
    {
        let mut rest = items;
        while !rest.is_empty() {
            if self.written == self.capacity {
                self.grow_or_abort();
            }
            let room = (self.capacity - self.written).min(rest.len());
            let (now, later) = rest.split_at(room);
            for item in now {
                // SAFETY: the last block has room for `room` items.
                unsafe { self.write_next(*item) };
            }
            rest = later;
        }
        self.publish_quietly();
    }

    /// Allocates blocks until the next `count` pushes need none; lack of memory aborts.
    ///
    /// The producer keeps these blocks until they are filled; afterwards each is kept or freed like
    /// any other block.
    pub fn reserve(&mut self, count: usize) {
        if self.try_reserve(count).is_err() {
            handle_alloc_error(Block::<T>::layout(self.capacity));
        }
    }

    /// Allocates blocks until the next `count` pushes need none.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if the allocator fails; the blocks allocated before are kept.
    ///
    /// ```
    /// let (mut producer, _consumer) = rast_queue::spmc::queue();
    /// producer.try_reserve(10_000)?;
    /// producer.push_batch(0..10_000);
    /// # Ok::<(), rast_queue::alloc::AllocError>(())
    /// ```
    pub fn try_reserve(&mut self, count: usize) -> Result<(), AllocError> {
        let more = count.saturating_sub(self.capacity - self.written);
        while self.stock_len < more.div_ceil(self.capacity) {
            let block = self.handle.fresh_block()?;
            // SAFETY: the block is the producer's own.
            unsafe { Handle::<T, A>::chain(block, self.stock) };
            self.stock = block.as_ptr();
            self.stock_len += 1;
        }
        Ok(())
    }

    /// Makes one more consumer.
    ///
    /// If all consumers were dropped, the queue has one again.
    ///
    /// # Panics
    ///
    /// If there are 65,535 consumers already, or fewer on targets whose pointers leave fewer bits
    /// for the count.
    #[must_use]
    pub fn consumer(&self) -> Consumer<T, A> {
        Consumer::enter(&self.handle)
    }

    /// Returns how many consumers there are.
    #[inline]
    pub fn consumers(&self) -> usize {
        self.handle.consumers()
    }

    /// Returns whether no consumer is left.
    ///
    /// Pushes then still succeed; the queued items are dropped with the producer, unless it makes a
    /// new consumer.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.consumers() == 0
    }

    /// Returns how many items are pending: pushed and not published.
    #[inline]
    pub fn pending(&self) -> usize {
        (self.tail - self.published) as usize
    }

    /// Returns how many published items are not claimed; consumers may claim some meanwhile.
    #[inline]
    pub fn len(&self) -> usize {
        (self.published - self.handle.load_head()) as usize
    }

    /// Returns whether every published item is claimed; pending items are not counted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of slots per block.
    #[inline]
    pub fn block_slots(&self) -> usize {
        self.capacity
    }

    /// Returns the allocator of the queue.
    pub fn allocator(&self) -> &A {
        self.handle.allocator()
    }

    #[inline(always)]
    fn publish_quietly(&mut self) {
        self.published = self.tail;
        self.handle.publish_tail(self.tail);
    }

    /// Writes the next slot of the last block.
    ///
    /// # Safety
    ///
    /// `written` is below `capacity`.
    #[inline(always)]
    unsafe fn write_next(&mut self, item: T) {
        // SAFETY: (1) the slots are those of the last block, and by the caller the offset is below
        // their number;
        // (2) `written` grows with each item and begins at 0 in each block.
        unsafe { Handle::<T, A>::write(self.slots, self.written, item) };
        self.written += 1;
        self.tail += 1;
    }

    #[cold]
    #[inline(never)]
    fn grow_or_abort(&mut self) {
        if self.grow().is_err() {
            handle_alloc_error(Block::<T>::layout(self.capacity));
        }
    }

    /// Puts a block after the last, which is full.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Result<(), AllocError> {
        debug_assert!(self.written == self.capacity, "spmc: rule 4");
        let block = match NonNull::new(self.stock) {
            Some(block) => {
                // SAFETY: blocks in stock are the producer's own.
                self.stock = unsafe { Handle::<T, A>::chained(block) };
                self.stock_len -= 1;
                block
            }
            None => self.handle.fresh_block()?,
        };
        // SAFETY: the block is the producer's own.
        unsafe { Handle::<T, A>::open(block, self.tail) };
        // SAFETY: the last block is full, and the fields are turned to the new one before anything
        // is written.
        unsafe { Handle::<T, A>::link(self.block, block) };
        self.block = block;
        self.slots = Block::slots(block);
        self.written = 0;
        Ok(())
    }
}

/// A batch under way: publishes on drop, so also if the iterator panics.
struct Batch<'a, T, A: Allocator> {
    producer: &'a mut Producer<T, A>,
}

impl<T, A: Allocator> Drop for Batch<'_, T, A> {
    fn drop(&mut self) {
        self.producer.publish_quietly();
    }
}

impl<T, A: Allocator> Extend<T> for Producer<T, A> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        self.push_batch(items);
    }
}

impl<T, A: Allocator> Drop for Producer<T, A> {
    fn drop(&mut self) {
        self.publish_quietly();
        while let Some(block) = NonNull::new(self.stock) {
            // SAFETY: blocks in stock are the producer's own.
            self.stock = unsafe { Handle::<T, A>::chained(block) };
            // SAFETY: as above, and they hold no items.
            unsafe { self.handle.free_block(block) };
        }
        // SAFETY: the producer ends here, and its tail is published.
        unsafe { self.handle.leave_producer() };
    }
}

impl<T, A: Allocator> fmt::Debug for Producer<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("len", &self.len())
            .field("pending", &self.pending())
            .field("consumers", &self.consumers())
            .finish()
    }
}
