//! The producer handle.

use core::fmt;
use core::ptr::{self, NonNull};
use std_alloc::vec::Vec;

use super::block::{Block, BoxedNode, Reserve};
use super::boxed::Shared;
use super::stack::{self, Fifo, RawLink};
use crate::alloc::{Allocator, Global};
use crate::{Closed, TryPushError};

/// The pushing half of a [`queue`](super::queue); clone it for each thread that pushes.
///
/// From its first push on it owns one block of nodes, of 4 KiB for small items. So pushes take
/// `&mut self`, and one thread at a time uses the producer. When the producer is dropped, another
/// producer may reuse the block. Producers also reuse the blocks that the consumer has emptied. At
/// most 1 MiB of emptied blocks is kept; further ones are freed.
///
/// ```
/// let (mut producer, mut consumer) = rast_queue::mpsc::queue();
/// let threads: Vec<_> = (0..3)
///     .map(|n| {
///         let mut producer = producer.clone();
///         std::thread::spawn(move || producer.push(n).is_ok())
///     })
///     .collect();
/// assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
/// assert_eq!(consumer.take_all().sum::<i32>(), 3);
///
/// consumer.close();
/// assert_eq!(producer.push(4).unwrap_err().into_inner(), 4);
/// ```
///
/// With items that are not `Send` the halves are not `Send`:
///
/// ```compile_fail
/// fn send<T: Send>(_: T) {}
/// send(rast_queue::mpsc::queue::<std::rc::Rc<u8>>().0);
/// ```
///
/// The type is invariant in `T`, because the consumer pops what the producer pushes:
///
/// ```compile_fail
/// use rast_queue::mpsc::Producer;
/// fn shorten<'short, 'long: 'short>(producer: Producer<&'long u8>) -> Producer<&'short u8> {
///     producer
/// }
/// ```
pub struct Producer<T, A: Allocator = Global> {
    pub(super) shared: Shared<T, A>,
    /// The current block. Must not be used if all nodes are used: the consumer may have freed it.
    block: Block<T>,
    /// Number of nodes of the block that are used; `NODES` if there is no block.
    used: usize,
}

// SAFETY: the blocks go with the handle; they hold items of type T, which are Send, and come from
// the shared allocator.
unsafe impl<T: Send, A: Allocator + Send + Sync> Send for Producer<T, A> {}
// SAFETY: by shared reference a producer can only be cloned and asked whether the queue is closed
// or empty.
unsafe impl<T: Send, A: Allocator + Send + Sync> Sync for Producer<T, A> {}

impl<T, A: Allocator> core::panic::UnwindSafe for Producer<T, A> {}
impl<T, A: Allocator> core::panic::RefUnwindSafe for Producer<T, A> {}

impl<T, A: Allocator> Producer<T, A> {
    pub(super) fn new(shared: Shared<T, A>) -> Self {
        Self {
            shared,
            block: Block::dangling(),
            used: Block::<T>::NODES,
        }
    }

    /// Pushes one item at the back; returns whether it is the first push since the last take.
    ///
    /// A take is the consumer's swap that removes all queued items. Of all pushes between two takes
    /// exactly the first returns `true`. If the consumer sleeps only after it found the queue
    /// empty, only this push needs to wake it. Lock-free; one compare-exchange. Once per block
    /// (about 250 small items) it reuses a block that the consumer has emptied, or allocates one.
    ///
    /// # Panics
    ///
    /// Never; it calls `handle_alloc_error` on lack of memory.
    ///
    /// # Errors
    ///
    /// [`Closed`] with the item if the queue is closed.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<bool, Closed<T>> {
        match self.try_push(item) {
            Ok(was_empty) => Ok(was_empty),
            Err(TryPushError::Closed(item)) => Err(Closed(item)),
            Err(TryPushError::NoMemory(_)) => no_memory::<T>(),
        }
    }

    /// Pushes one item at the back. Returns the item if the queue is closed or memory is lacking.
    ///
    /// # Errors
    ///
    /// [`TryPushError::Closed`] or [`TryPushError::NoMemory`], with the item.
    #[inline]
    pub fn try_push(&mut self, item: T) -> Result<bool, TryPushError<T>> {
        if self.used == Block::<T>::NODES {
            if self.is_closed() {
                return Err(TryPushError::Closed(item));
            }
            if !self.next_block_slow() {
                return Err(TryPushError::NoMemory(item));
            }
        }
        let node = self.fill(item);
        // SAFETY: (1) one link, alive, and ours as it was not used before; (2) the block stays
        // until all of its nodes are consumed, by its rules.
        match unsafe {
            self.shared
                .inside()
                .stack
                .try_push(node.cast(), node.cast())
        } {
            Some(was_empty) => Ok(was_empty),
            None => {
                self.used -= 1;
                // SAFETY: the node is ours as before, and holds the item.
                Err(TryPushError::Closed(unsafe { BoxedNode::read(node) }))
            }
        }
    }

    /// Pushes all `items` at the back, in their order; returns whether the queue was empty before.
    /// The items of one call are adjacent in the queue.
    ///
    /// Lock-free. One compare-exchange for all items, after the iterator has ended. If it yields no
    /// item, the result is `Ok(false)`.
    ///
    /// # Panics
    ///
    /// If the iterator panics; the items that it had yielded are then dropped, and nothing is
    /// pushed. Calls `handle_alloc_error` on lack of memory.
    ///
    /// # Errors
    ///
    /// [`Closed`] with all of the items if the queue is closed.
    pub fn push_batch<I>(&mut self, items: I) -> Result<bool, Closed<Vec<T>>>
    where
        I: IntoIterator<Item = T>,
    {
        if self.is_closed() {
            return Err(Closed(items.into_iter().collect()));
        }
        let mut chain = Chain::new(self);
        for item in items {
            chain.add(item);
        }
        chain.push()
    }

    /// Pushes copies of all `items` at the back, as [`push_batch`](Self::push_batch) does.
    ///
    /// # Panics
    ///
    /// Calls `handle_alloc_error` on lack of memory.
    ///
    /// # Errors
    ///
    /// [`Closed`] with the slice if the queue is closed.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::mpsc::queue();
    /// assert!(producer.push_slice(b"hello").unwrap());
    /// assert_eq!(consumer.len(), 5);
    /// ```
    pub fn push_slice<'a>(&mut self, items: &'a [T]) -> Result<bool, Closed<&'a [T]>>
    where
        T: Copy,
    {
        self.push_batch(items.iter().copied())
            .map_err(|_| Closed(items))
    }

    /// Returns whether the consumer has closed the queue or was dropped. The close then happens
    /// before the return.
    ///
    /// Wait-free, one load.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.shared.inside().stack.is_closed()
    }

    /// Returns whether nothing was pushed since the last take. Items that the consumer has taken
    /// and not popped are not counted.
    ///
    /// Wait-free, one load, a hint.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shared.inside().stack.is_empty()
    }

    /// Returns the allocator.
    pub fn allocator(&self) -> &A {
        &self.shared.inside().alloc
    }

    /// Uses the next node of the block, which has one, for `item`.
    #[inline(always)]
    fn fill(&mut self, item: T) -> NonNull<BoxedNode<T>> {
        debug_assert!(self.used < Block::<T>::NODES, "mpsc: there is a node");
        // SAFETY: the index is below `NODES`; a block with a node to use is ours, and alive.
        let node = unsafe { self.block.node(self.used) };
        // SAFETY: by rule 2 of the blocks the node was not used since the block was new, or was
        // emptied.
        unsafe { BoxedNode::write(node, item) };
        self.used += 1;
        node
    }

    /// Gets a block with an unused node; returns `false` if there is no memory.
    #[cold]
    #[inline(never)]
    fn next_block_slow(&mut self) -> bool {
        let inside = self.shared.inside();
        let mut spares = inside.spares.take();
        // SAFETY: what was taken is ours.
        let block = unsafe { spares.pop() };
        // SAFETY: (1) this is what was taken, without the one popped; (2) these blocks are ours, of
        // this allocator.
        unsafe { inside.spares.give_back(spares, &inside.alloc) };
        let Some(block) = block.or_else(|| Block::allocate(&inside.alloc).ok()) else {
            return false;
        };
        // SAFETY: the block is ours now.
        self.used = unsafe { block.used() };
        self.block = block;
        debug_assert!(self.used < Block::<T>::NODES, "mpsc: rule 2 of the blocks");
        true
    }
}

#[cold]
fn no_memory<T>() -> ! {
    std_alloc::alloc::handle_alloc_error(Block::<T>::LAYOUT)
}

impl<T, A: Allocator> Clone for Producer<T, A> {
    /// Makes another producer of the same queue. Does not allocate before its first push.
    ///
    /// Aborts, as `Arc` does, when there are more than `isize::MAX` halves, including leaked ones.
    fn clone(&self) -> Self {
        Self::new(self.shared.clone())
    }
}

impl<T, A: Allocator> Drop for Producer<T, A> {
    fn drop(&mut self) {
        let spares = &self.shared.inside().spares;
        if self.used < Block::<T>::NODES {
            // SAFETY: a block with a node to use is ours.
            unsafe { self.block.set_used(self.used) };
            // SAFETY: as above; what is used is written.
            unsafe { spares.give(self.block) };
        }
    }
}

impl<T, A: Allocator> fmt::Debug for Producer<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("is_empty", &self.is_empty())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// A chain under construction, newest first. It owns the blocks that it filled until it is pushed;
/// until then their `used` is unchanged.
struct Chain<'a, T, A: Allocator> {
    producer: &'a mut Producer<T, A>,
    newest: *mut RawLink,
    oldest: *mut RawLink,
    count: usize,
    /// Blocks that the chain filled to their end, except for the producer's current one.
    filled: Reserve<T>,
}

impl<'a, T, A: Allocator> Chain<'a, T, A> {
    fn new(producer: &'a mut Producer<T, A>) -> Self {
        if producer.used < Block::<T>::NODES {
            // SAFETY: a block with a node to use is ours.
            unsafe { producer.block.set_used(producer.used) };
        }
        Self {
            producer,
            newest: ptr::null_mut(),
            oldest: ptr::null_mut(),
            count: 0,
            filled: Reserve::new(),
        }
    }

    fn add(&mut self, item: T) {
        if self.producer.used == Block::<T>::NODES {
            let filled = (self.count != 0).then_some(self.producer.block);
            if !self.producer.next_block_slow() {
                no_memory::<T>();
            }
            if let Some(block) = filled {
                // SAFETY: the chain filled the block and was not pushed, so it is ours.
                unsafe { self.filled.push(block) };
            }
        }
        let link = self.producer.fill(item).cast();
        // SAFETY: the node is alive, and ours.
        unsafe { stack::set_next(link, self.newest) };
        self.newest = link.as_ptr();
        if self.count == 0 {
            self.oldest = link.as_ptr();
        }
        self.count += 1;
    }

    fn push(mut self) -> Result<bool, Closed<Vec<T>>> {
        let (Some(newest), Some(oldest)) = (NonNull::new(self.newest), NonNull::new(self.oldest))
        else {
            return Ok(false);
        };
        let stack = &self.producer.shared.inside().stack;
        // SAFETY: (1) the links lead from the newest to the oldest, are alive and ours; (2) their
        // blocks stay until all of the nodes are consumed.
        if let Some(was_empty) = unsafe { stack.try_push(newest, oldest) } {
            // The nodes, and with them the filled blocks, now belong to the consumer.
            self.newest = ptr::null_mut();
            return Ok(was_empty);
        }
        // The failed push left the address of another link in the oldest. SAFETY: the chain is ours
        // as before.
        unsafe { stack::set_next(oldest, ptr::null_mut()) };
        let mut items = Vec::with_capacity(self.count);
        self.undo(|item| items.push(item));
        Err(Closed(items))
    }

    /// Passes the items of a chain that was not pushed to `each`, oldest first, and makes their
    /// nodes unused again.
    fn undo(&mut self, mut each: impl FnMut(T)) {
        if self.newest.is_null() {
            return;
        }
        let mut fifo = Fifo::new();
        // SAFETY: the links are alive and ours, and null ends them.
        unsafe { fifo.append_reversed(self.newest) };
        self.newest = ptr::null_mut();
        // SAFETY: as above.
        while let Some(link) = unsafe { fifo.pop() } {
            // SAFETY: the node is ours, and holds an item; it is out of the chain, so the item is
            // read once.
            each(unsafe { BoxedNode::read(link.cast()) });
        }
        // SAFETY: the newest node is in the producer's block, so that block is ours.
        self.producer.used = unsafe { self.producer.block.used() };
        let filled = core::mem::replace(&mut self.filled, Reserve::new());
        let inside = self.producer.shared.inside();
        // SAFETY: (1) the filled blocks are ours, of this allocator; (2) each says what was used
        // before the chain, and the items of the chain are moved out.
        unsafe { inside.spares.give_each(filled, &inside.alloc) };
    }
}

impl<T, A: Allocator> Drop for Chain<'_, T, A> {
    fn drop(&mut self) {
        // Only a panic of the iterator leaves a chain here; if the drop of an item then panics too,
        // std aborts.
        self.undo(drop);
    }
}
