//! The memory of [`queue`](super::queue): nodes in blocks, each filled by one producer at a time
//! and emptied by the consumer.
//!
//! ```text
//!   ┌ header ─────────────────┬ node 0 ──────┬ node 1 ──────┬ … ┬ node N - 1 ──┐   aligned to its size, so a
//!   │ consumed │ used │ next  │ link │ item  │ link │ item  │   │ link │ item  │   node's address gives its block
//!   └─────────────────────────┴──────────────┴──────────────┴───┴──────────────┘
//! ```
//!
//! | field | written by | read by | when |
//! | --- | --- | --- | --- |
//! | `consumed` | the consumer | the consumer | per item popped |
//! | `used`, the number of used nodes | the owner of the block | its owner | when the owner changes |
//! | `next` | the thread that adds the block to the spares (the list of free blocks) | the thread that takes the spares | while the block is in the spares |
//! | node | its producer, until it is pushed; then the consumer, once it has taken the node | the same threads | once |
//!
//! Rules:
//!
//! 1. A block belongs to a producer (as its current block or as a block of a batch that is not
//!    pushed yet), or it is in the spares, or all of its nodes were pushed. In the last case no
//!    thread owns the block until the consumer has consumed its nodes.
//! 2. A producer uses each node once. A producer that is dropped writes `used` of its block and
//!    adds the block to the spares, so that the next producer continues after the used nodes.
//! 3. When the consumer has consumed all nodes of a block (`consumed == N`), producers have used
//!    all of them. By rule 2 no producer uses the block again, so the consumer owns it. The
//!    consumer resets the block and adds it to the spares, or frees it if there are many spares.
//! 4. When the consumer and all producers are dropped, every item is consumed. Then all blocks are
//!    in the spares, and are freed.
//!
//! There is no atomic count of items. The producer counts the nodes that it filled, the consumer
//! counts the nodes that it emptied, and each compares its count with the size of the block.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use super::stack::RawLink;
use crate::abort::deallocate;
use crate::alloc::{AllocError, Allocator, Layout};
use crate::primitive::cell::UnsafeCell;
use crate::primitive::sync::atomic::{AtomicPtr, Ordering};

/// A node of [`queue`](super::queue).
#[repr(C)]
pub(super) struct BoxedNode<T> {
    /// First, so that a link's address is its node's.
    link: RawLink,
    item: UnsafeCell<MaybeUninit<T>>,
}

#[repr(C)]
pub(super) struct Header {
    consumed: UnsafeCell<usize>,
    used: UnsafeCell<usize>,
    /// The next spare, as a word of [`Spares`].
    next: UnsafeCell<*mut Header>,
}

/// Minimum size of a block in bytes, and minimum number of its nodes.
const BYTES_MIN: usize = if cfg!(rast_loom) { 1 } else { 4096 };
const NODES_MIN: usize = if cfg!(rast_loom) { 2 } else { 8 };

/// Number of bytes in empty blocks that are kept for producers, and minimum number of such blocks.
///
/// While the consumer is suspended, producers fill many blocks. If the consumer then frees most of
/// them, later allocations cost both sides page faults. Measured with four producers on two cores
/// (KVM guest, 2026-11): 62 million pushes and pops per second with 256 KiB, 170 with 1 MiB, 141
/// with 4 MiB.
const SPARE_BYTES: usize = 1 << 20;
const SPARES_MIN: usize = if cfg!(rast_loom) { 1 } else { 4 };

/// A block of nodes for items of type `T`: a raw address, which only the owner of the block may
/// use.
pub(super) struct Block<T> {
    header: NonNull<Header>,
    nodes: PhantomData<BoxedNode<T>>,
}

impl<T> Clone for Block<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Block<T> {}

impl<T> Block<T> {
    /// Where the nodes begin.
    const OFFSET: usize = size_of::<Header>().next_multiple_of(align_of::<BoxedNode<T>>());

    /// Size and alignment in bytes.
    const BYTES: usize = {
        let least = Self::OFFSET + NODES_MIN * size_of::<BoxedNode<T>>();
        let least = if least < BYTES_MIN { BYTES_MIN } else { least };
        let bytes = least.next_power_of_two();
        assert!(bytes <= isize::MAX as usize / 2);
        bytes
    };

    /// Number of spares that are kept, besides those with nodes in use.
    const SPARES_MAX: usize = {
        let count = SPARE_BYTES / Self::BYTES;
        let count = if cfg!(rast_loom) || count < SPARES_MIN {
            SPARES_MIN
        } else {
            count
        };
        assert!(
            count < Self::BYTES,
            "mpsc: the count fits beside an address"
        );
        count
    };

    pub(super) const NODES: usize = if cfg!(rast_loom) {
        NODES_MIN
    } else {
        (Self::BYTES - Self::OFFSET) / size_of::<BoxedNode<T>>()
    };

    pub(super) const LAYOUT: Layout = match Layout::from_size_align(Self::BYTES, Self::BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("mpsc: the size of a block is a power of two"),
    };

    /// Returns a placeholder for no block, which must not be used.
    pub(super) const fn dangling() -> Self {
        Self {
            header: NonNull::dangling(),
            nodes: PhantomData,
        }
    }

    /// Allocates a block from `alloc`, with no node used.
    pub(super) fn allocate<A: Allocator>(alloc: &A) -> Result<Self, AllocError> {
        let header = alloc.allocate(Self::LAYOUT)?.cast::<Header>();
        let block = Self {
            header,
            nodes: PhantomData,
        };
        let value = Header {
            consumed: UnsafeCell::new(0),
            used: UnsafeCell::new(0),
            next: UnsafeCell::new(ptr::null_mut()),
        };
        // SAFETY: the block begins with room for a header, aligned for it, and is ours alone.
        unsafe { header.write(value) };
        if cfg!(rast_loom) {
            for index in 0..Self::NODES {
                let node = BoxedNode::<T> {
                    link: RawLink::new(),
                    item: UnsafeCell::new(MaybeUninit::uninit()),
                };
                // SAFETY: `index` is below `NODES`.
                let place = unsafe { block.node(index) };
                // SAFETY: the block is ours alone.
                unsafe { place.write(node) };
            }
        }
        Ok(block)
    }

    /// Frees the block.
    ///
    /// # Safety
    ///
    /// 1. It came from `alloc`, and is the caller's alone.
    /// 2. Its items are moved out.
    pub(super) unsafe fn deallocate<A: Allocator>(self, alloc: &A) {
        if cfg!(rast_loom) {
            for index in 0..Self::NODES {
                // SAFETY: `index` is below `NODES`.
                let node = unsafe { self.node(index) };
                // SAFETY: initialised by `allocate`, and ours by (1); the cells of a model record
                // their drop.
                unsafe { node.drop_in_place() };
            }
            // SAFETY: likewise.
            unsafe { self.header.drop_in_place() };
        }
        // SAFETY: by (1); the layout is that of `allocate`.
        unsafe { deallocate(alloc, self.header.cast(), Self::LAYOUT) };
    }

    /// The node at `index`.
    ///
    /// # Safety
    ///
    /// `index < NODES`, and the block is alive.
    #[inline(always)]
    pub(super) unsafe fn node(self, index: usize) -> NonNull<BoxedNode<T>> {
        // SAFETY: the offset lies inside the block, or at its end.
        let first = unsafe { self.header.byte_add(Self::OFFSET) };
        // SAFETY: the node lies inside the block, by the caller.
        unsafe { first.cast::<BoxedNode<T>>().add(index) }
    }

    /// The block that a node lies in.
    #[inline(always)]
    pub(super) fn of(link: NonNull<RawLink>) -> Self {
        let header = link
            .as_ptr()
            .map_addr(|address| address & !(Self::BYTES - 1));
        debug_assert!(!header.is_null(), "mpsc: a block is not at null");
        Self {
            // SAFETY: blocks are aligned to their size and not at null, so the first address of the
            // one that the node lies in has at least one bit set.
            header: unsafe { NonNull::new_unchecked(header.cast()) },
            nodes: PhantomData,
        }
    }

    /// # Safety
    ///
    /// The block is alive.
    #[inline(always)]
    unsafe fn header<'a>(self) -> &'a Header {
        // SAFETY: by the caller.
        unsafe { self.header.as_ref() }
    }

    /// # Safety
    ///
    /// The caller has the block.
    pub(super) unsafe fn used(self) -> usize {
        // SAFETY: by the caller, for this block and its field.
        unsafe { self.header() }.used.with(|used| {
            // SAFETY: as above.
            unsafe { *used }
        })
    }

    /// # Safety
    ///
    /// The caller has the block.
    pub(super) unsafe fn set_used(self, count: usize) {
        debug_assert!(count <= Self::NODES, "mpsc: a block holds NODES items");
        // SAFETY: by the caller, for this block and its field.
        unsafe { self.header() }.used.with_mut(|used| {
            // SAFETY: as above.
            unsafe { *used = count }
        });
    }

    /// Counts one consumed item of the block. Returns `true` if the block is now empty and belongs
    /// to the caller.
    ///
    /// # Safety
    ///
    /// 1. The caller is the consumer, and moved an item out of the block.
    /// 2. On true it is the block's only owner, by rule 3.
    #[inline(always)]
    pub(super) unsafe fn consume(self) -> bool {
        // SAFETY: the item was not counted yet, so the block is alive, by rule 3.
        unsafe { self.header() }.consumed.with_mut(|consumed| {
            // SAFETY: by (1); nothing else uses this field.
            unsafe { *consumed += 1 };
            // SAFETY: as above.
            let consumed = unsafe { *consumed };
            debug_assert!(consumed <= Self::NODES, "mpsc: a node is used once");
            consumed == Self::NODES
        })
    }

    /// # Safety
    ///
    /// The caller is the block's only owner, and its items are moved out.
    unsafe fn reset(self) {
        // SAFETY: by the caller.
        unsafe { self.header() }.consumed.with_mut(|consumed| {
            // SAFETY: by the caller.
            unsafe { *consumed = 0 };
        });
        // SAFETY: by the caller.
        unsafe { self.set_used(0) };
    }

    /// # Safety
    ///
    /// The caller has the block.
    unsafe fn set_next(self, word: *mut Header) {
        // SAFETY: by the caller.
        unsafe { self.header() }.next.with_mut(|next| {
            // SAFETY: by the caller.
            unsafe { *next = word };
        });
    }
}

impl<T> BoxedNode<T> {
    /// Moves `item` into the node.
    ///
    /// # Safety
    ///
    /// The node is alive, the caller's, and holds no item.
    #[inline(always)]
    pub(super) unsafe fn write(node: NonNull<Self>, item: T) {
        if !cfg!(rast_loom) {
            // Outside of a model the node was never initialised; its cells are plain memory.
            let link = node.cast::<RawLink>();
            // SAFETY: by the caller; the link is first.
            unsafe { link.write(RawLink::new()) };
        }
        // SAFETY: by the caller; a cell of nothing needs no initialisation.
        let node = unsafe { node.as_ref() };
        node.item.with_mut(|place| {
            // SAFETY: by the caller.
            unsafe { place.cast::<T>().write(item) };
        });
    }

    /// Moves the item out of the node.
    ///
    /// # Safety
    ///
    /// The node is alive, the caller's, and holds an item.
    #[inline(always)]
    pub(super) unsafe fn read(node: NonNull<Self>) -> T {
        // SAFETY: by the caller.
        let node = unsafe { node.as_ref() };
        node.item.with(|place| {
            // SAFETY: by the caller.
            unsafe { place.cast::<T>().read() }
        })
    }
}

/// A list of blocks linked by `next`, which one thread owns or which are the spares. The word is
/// the address of the first block, with the number of blocks, up to `SPARES_MAX`, in its low bits.
pub(super) struct Reserve<T> {
    word: *mut Header,
    blocks: PhantomData<Block<T>>,
}

impl<T> Reserve<T> {
    pub(super) const fn new() -> Self {
        Self {
            word: ptr::null_mut(),
            blocks: PhantomData,
        }
    }

    /// Returns the number of blocks, or `SPARES_MAX` if there are more.
    fn count(word: *mut Header) -> usize {
        word.addr() & (Block::<T>::BYTES - 1)
    }

    /// Returns the word for `block` pushed on `word`.
    fn upon(block: Block<T>, word: *mut Header) -> *mut Header {
        let count = Self::count(word)
            .saturating_add(1)
            .min(Block::<T>::SPARES_MAX);
        block.header.as_ptr().map_addr(|address| address | count)
    }

    /// Removes the first block.
    ///
    /// # Safety
    ///
    /// The blocks are alive, and the caller's.
    pub(super) unsafe fn pop(&mut self) -> Option<Block<T>> {
        let header = self
            .word
            .map_addr(|address| address & !(Block::<T>::BYTES - 1));
        let block = Block {
            header: NonNull::new(header)?,
            nodes: PhantomData,
        };
        // SAFETY: by the caller.
        self.word = unsafe { block.header() }.next.with(|next| {
            // SAFETY: by the caller.
            unsafe { *next }
        });
        Some(block)
    }

    /// Adds a block at the front.
    ///
    /// # Safety
    ///
    /// The block is alive, and the caller's.
    pub(super) unsafe fn push(&mut self, block: Block<T>) {
        // SAFETY: by the caller.
        unsafe { block.set_next(self.word) };
        self.word = Self::upon(block, self.word);
    }
}

/// The spares, blocks that no thread owns. A Treiber stack that is always taken whole, so a reused
/// address (ABA) does no harm.
pub(super) struct Spares<T> {
    word: AtomicPtr<Header>,
    blocks: PhantomData<Block<T>>,
}

impl<T> Spares<T> {
    pub(super) fn new() -> Self {
        Self {
            word: AtomicPtr::new(ptr::null_mut()),
            blocks: PhantomData,
        }
    }

    /// Adds a block that has, or may have, nodes in use.
    ///
    /// Lock-free.
    ///
    /// # Safety
    ///
    /// The caller owns the block, and wrote how many nodes are used. It does not own the block
    /// afterwards.
    pub(super) unsafe fn give(&self, block: Block<T>) {
        // SAFETY: by the caller.
        let given = unsafe { self.try_give(block, usize::MAX) };
        debug_assert!(given, "mpsc: without a bound the spares take all");
    }

    /// Adds an empty block, or frees it if there are many. Lock-free.
    ///
    /// # Safety
    ///
    /// The caller is the block's only owner, it came from `alloc`, and its items are moved out.
    pub(super) unsafe fn give_empty<A: Allocator>(&self, block: Block<T>, alloc: &A) {
        // SAFETY: by the caller.
        unsafe { block.reset() };
        // SAFETY: by the caller.
        if !unsafe { self.try_give(block, Block::<T>::SPARES_MAX) } {
            // SAFETY: by the caller; the spares refused it.
            unsafe { block.deallocate(alloc) };
        }
    }

    /// # Safety
    ///
    /// The caller owns the block. After `true` it does not.
    unsafe fn try_give(&self, block: Block<T>, bound: usize) -> bool {
        // Relaxed: the compare-exchange below checks it; no thread follows it. [MQ11]
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if Reserve::<T>::count(word) >= bound {
                return false;
            }
            // SAFETY: by the caller; the compare-exchange has not succeeded yet.
            unsafe { block.set_next(word) };
            // Release: pairs with the Acquire in take; our use of the block, its items and its
            // count is over. [MQ12]
            match self.word.compare_exchange_weak(
                word,
                Reserve::upon(block, word),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Takes all spares. Wait-free.
    pub(super) fn take(&self) -> Reserve<T> {
        // Relaxed: only compared. [MQ13]
        if self.word.load(Ordering::Relaxed).is_null() {
            return Reserve::new();
        }
        // Acquire: pairs with the Release in try_give; the contents of the blocks are visible.
        // [MQ14]
        let word = self.word.swap(ptr::null_mut(), Ordering::Acquire);
        Reserve {
            word,
            blocks: PhantomData,
        }
    }

    /// Returns the rest of the taken blocks: at once if no block was added since, else one by one.
    /// Lock-free.
    ///
    /// # Safety
    ///
    /// 1. `rest` is from [`take`](Self::take), and its blocks were not accessed since.
    /// 2. The caller owns these blocks, but not afterwards; they came from `alloc`.
    pub(super) unsafe fn give_back<A: Allocator>(&self, rest: Reserve<T>, alloc: &A) {
        if rest.word.is_null() {
            return;
        }
        // Relaxed: we accessed none of these blocks since we took them. The compare-exchange
        // continues the release sequences of the threads that added them, so the next take
        // synchronizes with those threads. [MQ15]
        let given = self.word.compare_exchange(
            ptr::null_mut(),
            rest.word,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if given.is_err() {
            // SAFETY: by (2); `used` of a block was written when it was added.
            unsafe { self.give_each(rest, alloc) };
        }
    }

    /// Adds blocks one by one; an empty one is freed if there are many. Lock-free.
    ///
    /// # Safety
    ///
    /// 1. The caller owns these blocks, but not afterwards; they came from `alloc`.
    /// 2. `used` of each block is correct, and a block without used nodes holds no item.
    pub(super) unsafe fn give_each<A: Allocator>(&self, mut blocks: Reserve<T>, alloc: &A) {
        // SAFETY: by (1).
        while let Some(block) = unsafe { blocks.pop() } {
            // SAFETY: by (1).
            if unsafe { block.used() } == 0 {
                // SAFETY: by (1) and (2).
                unsafe { self.give_empty(block, alloc) };
            } else {
                // SAFETY: by (1) and (2).
                unsafe { self.give(block) };
            }
        }
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;
    use crate::alloc::Global;

    /// What a producer does for a block while the consumer gives one in between.
    #[test]
    fn the_rest_goes_back_though_a_block_was_given_meanwhile() {
        let spares = Spares::<u64>::new();
        for _ in 0..3 {
            let block = Block::allocate(&Global).unwrap();
            // SAFETY: it is new, and ours.
            unsafe { spares.give_empty(block, &Global) };
        }
        let rest = spares.take();
        let block = Block::allocate(&Global).unwrap();
        // SAFETY: it is new, and ours.
        unsafe { spares.give_empty(block, &Global) };
        // SAFETY: (1) just taken; (2) all came from the global allocator.
        unsafe { spares.give_back(rest, &Global) };

        let mut all = spares.take();
        assert_eq!(Reserve::<u64>::count(all.word), 4);
        // SAFETY: they were just taken.
        while let Some(block) = unsafe { all.pop() } {
            // SAFETY: it is ours, from that allocator, and holds nothing.
            unsafe { block.deallocate(&Global) };
        }
    }
}
