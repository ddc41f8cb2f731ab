//! The memory that the halves share: two indices, a counted pointer to the front block, the chain
//! of blocks, and which halves are dropped.
//!
//! All atomic operations of the queue are in this file, and all of its unsafe code is here or calls
//! into it. The rules that the comments name are in `docs/algorithms/queue-spmc.md`.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use crate::abort::deallocate;
use crate::alloc::{AllocError, Allocator, Layout};
use crate::primitive::cell::UnsafeCell;
use crate::primitive::panics::drop_each;
use crate::primitive::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use crate::primitive::{AtomicTaggedPtr, CachePadded, TaggedPtr};

/// Part of `Block::refs` while the block is the front or comes after it; far above any number of
/// consumers.
const AHEAD: usize = 1 << 30;

/// What the producer adds to `Cold::handles`; a consumer adds two.
const PRODUCER: usize = 1;
const CONSUMER: usize = 2;

pub(super) type Slot<T> = UnsafeCell<MaybeUninit<T>>;

/// The head of a block; its slots follow it.
// The alignment keeps the header off the cache lines of the slots. In the low-bits layout of
// `TaggedPtr` it frees the low bits of the address for the count.
#[cfg_attr(not(rast_tagged_low), repr(C, align(128)))]
#[cfg_attr(rast_tagged_low, repr(C, align(4096)))]
pub(super) struct Block<T> {
    /// The index of the first slot. Written by the producer, while the block is its own.
    base: UnsafeCell<u64>,
    /// The block after this one; set once, before an item in that one is published.
    next: AtomicPtr<Block<T>>,
    /// `AHEAD` until the front has passed the block, then the number of consumers still attached.
    /// At 0 the block is retired.
    refs: AtomicUsize,
    /// The size of the header is a multiple of the slots' alignment.
    slots: [Slot<T>; 0],
}

impl<T> Block<T> {
    pub(super) fn layout(slots: usize) -> Layout {
        Layout::array::<Slot<T>>(slots)
            .and_then(|slots| Layout::new::<Self>().extend(slots))
            .expect("spmc: the size of a block overflows isize")
            .0
    }

    #[inline(always)]
    pub(super) fn slots(block: NonNull<Self>) -> NonNull<Slot<T>> {
        // SAFETY: a block is its header and then its slots, in one allocation; the header's size
        // keeps their alignment.
        unsafe { block.add(1).cast() }
    }
}

/// The words that all handles share; one allocation.
struct Shared<T, A> {
    /// Consumers have claimed the items before it.
    head: CachePadded<AtomicU64>,
    /// Published by the producer: items before it are in their slots, or were claimed.
    tail: CachePadded<AtomicU64>,
    /// The oldest block that may hold unclaimed items, and how many consumers are attached to it.
    front: CachePadded<AtomicTaggedPtr<Block<T>>>,
    cold: CachePadded<Cold<T, A>>,
}

struct Cold<T, A> {
    /// One block kept for the producer, or null.
    spare: AtomicPtr<Block<T>>,
    /// The sum of `PRODUCER`, unless the producer was dropped, and `CONSUMER` for each consumer.
    handles: AtomicUsize,
    /// Slots per block.
    slots: usize,
    alloc: A,
}

/// A handle on the shared words, in the producer and in each consumer. The last one that is dropped
/// frees everything.
pub(super) struct Handle<T, A> {
    shared: NonNull<Shared<T, A>>,
    /// The queue owns items of type `T`.
    owns: PhantomData<T>,
}

impl<T, A> Handle<T, A> {
    /// Maximum number of consumers at one time. Each may be attached to the front, whose count must
    /// not wrap.
    pub(super) const CONSUMERS_MAX: usize = if TaggedPtr::<Block<T>>::COUNT_MAX < 65_535 {
        TaggedPtr::<Block<T>>::COUNT_MAX as usize
    } else {
        65_535
    };

    #[inline(always)]
    fn shared(&self) -> &Shared<T, A> {
        // SAFETY: `new` initialised the words, and they live until the last handle leaves, in
        // `leave`, after which no handle is used.
        unsafe { self.shared.as_ref() }
    }

    /// Slots per block.
    pub(super) fn block_slots(&self) -> usize {
        self.shared().cold.slots
    }

    pub(super) fn allocator(&self) -> &A {
        &self.shared().cold.alloc
    }

    /// The published index, for consumers.
    #[inline(always)]
    pub(super) fn load_tail(&self) -> u64 {
        // Acquire: pairs with the Release in publish_tail; the slots before the index, and their
        // initialised and linked blocks, are visible. [SQ1]
        self.shared().tail.load(Ordering::Acquire)
    }

    /// Publishes the items before `tail` to the consumers.
    #[inline(always)]
    pub(super) fn publish_tail(&self, tail: u64) {
        // Release: pairs with the Acquire in load_tail; publishes slots and blocks. [SQ2]
        self.shared().tail.store(tail, Ordering::Release);
    }

    /// A past value of the claimed index.
    #[inline(always)]
    pub(super) fn load_head(&self) -> u64 {
        // Relaxed: an expected value for claim, or one half of a length; nothing is accessed
        // through it. [SQ3]
        self.shared().head.load(Ordering::Relaxed)
    }

    /// Claims the items `from..to`, or returns the actual head as the error.
    ///
    /// `to` is at most a tail that `load_tail` returned. Only the thread that claimed an item moves
    /// it out.
    #[inline(always)]
    pub(super) fn claim(&self, from: u64, to: u64) -> Result<(), u64> {
        // Relaxed: the modification order of this word makes the claim exclusive; the Acquire of
        // the tail makes the item visible, and the counts of the block keep the block alive. [SQ4]
        let claimed =
            self.shared()
                .head
                .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        claimed.map(|_| ())
    }

    /// The consumer's side of the store-buffer argument with `was_drained_before`.
    #[inline]
    pub(super) fn fence_before_empty(&self) {
        // SeqCst: store-buffer argument. The producer fences between its publication and its load
        // of the head. Either this load returns at least the head with which this consumer found
        // nothing, or this consumer's next load of the tail returns the publication. [SQ5]
        fence(Ordering::SeqCst);
    }

    /// Returns whether all items before `index` are claimed, for the producer, which has just
    /// published past it.
    #[inline]
    pub(super) fn was_drained_before(&self, index: u64) -> bool {
        // SeqCst: the other side of fence_before_empty. [SQ6]
        fence(Ordering::SeqCst);
        self.load_head() >= index
    }

    /// Attaches the caller to the front block, which stays until it is given to `detach` or `pass`.
    pub(super) fn attach(&self) -> NonNull<Block<T>> {
        // Acquire: pairs with the release half of the AcqRel in pass; the block's base is visible,
        // and a head at or past it. [SQ7]
        let front = self.shared().front.fetch_add_count(1, Ordering::Acquire);
        debug_assert!(
            front.count() < Self::CONSUMERS_MAX as u64,
            "spmc: rule 5, the count of the front wraps"
        );
        // SAFETY: the front is never null: `new` set it to a block and `pass` to the one after.
        unsafe { NonNull::new_unchecked(front.ptr()) }
    }

    /// The index of the block's first slot.
    ///
    /// # Safety
    ///
    /// The caller is attached to the block.
    pub(super) unsafe fn base(&self, block: NonNull<Block<T>>) -> u64 {
        // SAFETY: by the caller, the block is attached to, hence alive.
        let block = unsafe { block.as_ref() };
        block.base.with(|base| {
            // SAFETY: the base is written only while the block is the producer's own, before it was
            // the front.
            unsafe { *base }
        })
    }

    /// Moves an item out of its slot.
    ///
    /// # Safety
    ///
    /// 1. `slots` are those of a block that the caller is attached to, and `offset` is below their
    ///    number.
    /// 2. The caller has claimed the item that is there, and reads it once.
    #[inline(always)]
    pub(super) unsafe fn read(slots: NonNull<Slot<T>>, offset: usize) -> T {
        // SAFETY: by (1) the address lies inside the block.
        let slot = unsafe { slots.add(offset) };
        // SAFETY: by (1) the block is alive, and its slots were initialised when it was made, as
        // cells of nothing.
        let slot = unsafe { slot.as_ref() };
        slot.with(|slot| {
            // SAFETY: by (2) the item was published, a tail past it was loaded with Acquire, and no
            // other consumer has claimed it; the producer writes here only after this attachment
            // has ended.
            unsafe { slot.cast::<T>().read() }
        })
    }

    /// Moves an item into its slot.
    ///
    /// # Safety
    ///
    /// 1. The caller is the producer, `slots` are those of its last block, and `offset` is below
    ///    their number.
    /// 2. No item was written there since the block was given its base.
    #[inline(always)]
    pub(super) unsafe fn write(slots: NonNull<Slot<T>>, offset: usize, item: T) {
        // SAFETY: by (1) the address lies inside the block.
        let slot = unsafe { slots.add(offset) };
        // SAFETY: by (1) the block is the last, so it is alive (rule 4); its slots were initialised
        // when it was made.
        let slot = unsafe { slot.as_ref() };
        slot.with_mut(|slot| {
            // SAFETY: by (2) the slot's index is not published, so no consumer touches the slot.
            unsafe { slot.cast::<T>().write(item) };
        });
    }

    /// Makes `next` the block after `block`.
    ///
    /// # Safety
    ///
    /// The caller is the producer, `block` is its last, all slots of it are written, and it does
    /// not touch it again.
    pub(super) unsafe fn link(block: NonNull<Block<T>>, next: NonNull<Block<T>>) {
        // SAFETY: by the caller, the block is the last, so it is alive (rule 4).
        let block = unsafe { block.as_ref() };
        // Relaxed: consumers load this only after they have loaded a tail past an item of `next`,
        // and SQ2 publishes this store with it. [SQ8]
        block.next.store(next.as_ptr(), Ordering::Relaxed);
    }

    /// Takes the block that a consumer left for the producer, if there is one.
    fn take_spare(&self) -> Option<NonNull<Block<T>>> {
        // Acquire: pairs with the Release in retire; all accesses of consumers to the block happen
        // before this. [SQ9]
        let spare = self
            .shared()
            .cold
            .spare
            .swap(ptr::null_mut(), Ordering::Acquire);
        NonNull::new(spare)
    }

    /// Counts one more consumer; returns `false` if there are too many.
    pub(super) fn enter(&self) -> bool {
        // Relaxed: the caller has a handle, which keeps the words alive, and synchronizes itself
        // with the thread that gets the new one. [SQ10]
        let handles = self
            .shared()
            .cold
            .handles
            .fetch_add(CONSUMER, Ordering::Relaxed);
        if handles / CONSUMER < Self::CONSUMERS_MAX {
            return true;
        }
        // Relaxed: undoes the addition above; the caller's own handle remains counted. [SQ11]
        self.shared()
            .cold
            .handles
            .fetch_sub(CONSUMER, Ordering::Relaxed);
        false
    }

    /// Returns whether the producer was dropped. If so, later loads return its last index.
    #[inline]
    pub(super) fn producer_is_gone(&self) -> bool {
        // Acquire: pairs with the release half of the AcqRel in leave; the next load of the tail
        // finds the last. [SQ12]
        let handles = self.shared().cold.handles.load(Ordering::Acquire);
        handles & PRODUCER == 0
    }

    #[inline]
    pub(super) fn consumers(&self) -> usize {
        // Relaxed: a snapshot; nothing is accessed through it. [SQ13]
        self.shared().cold.handles.load(Ordering::Relaxed) / CONSUMER
    }

    /// The second handle on the same words; the caller has counted it.
    pub(super) fn duplicate(&self) -> Self {
        Self {
            shared: self.shared,
            owns: PhantomData,
        }
    }
}

impl<T, A: Allocator> Handle<T, A> {
    /// Allocates the shared words and a first block from `alloc`; counts the producer and one
    /// consumer.
    pub(super) fn new(slots: usize, alloc: A) -> Result<(Self, NonNull<Block<T>>), AllocError> {
        // First, because it may panic.
        let block = allocate_block::<T, A>(slots, &alloc)?;
        let shared = match alloc.allocate(Layout::new::<Shared<T, A>>()) {
            Ok(memory) => memory.cast::<Shared<T, A>>(),
            Err(error) => {
                // SAFETY: the block came from this allocator, with this many slots, and nothing
                // else knows it.
                unsafe { free_block(block, slots, &alloc) };
                return Err(error);
            }
        };
        let value = Shared {
            head: CachePadded::new(AtomicU64::new(0)),
            tail: CachePadded::new(AtomicU64::new(0)),
            front: CachePadded::new(AtomicTaggedPtr::new(TaggedPtr::new(block.as_ptr(), 0))),
            cold: CachePadded::new(Cold {
                spare: AtomicPtr::new(ptr::null_mut()),
                handles: AtomicUsize::new(PRODUCER + CONSUMER),
                slots,
                alloc,
            }),
        };
        // SAFETY: the memory has room for the words, aligned for them, and is ours alone.
        unsafe { shared.write(value) };
        let handle = Self {
            shared,
            owns: PhantomData,
        };
        Ok((handle, block))
    }

    /// A block for the producer, its own until it is linked: the spare one, or one from the
    /// allocator.
    pub(super) fn fresh_block(&self) -> Result<NonNull<Block<T>>, AllocError> {
        match self.take_spare() {
            Some(block) => Ok(block),
            None => allocate_block(self.block_slots(), self.allocator()),
        }
    }

    /// Prepares a block for the slots from `base` on.
    ///
    /// # Safety
    ///
    /// The caller is the producer, and the block is its own: from `fresh_block`, not linked since.
    pub(super) unsafe fn open(block: NonNull<Block<T>>, base: u64) {
        // SAFETY: by the caller, the block is alive.
        let block = unsafe { block.as_ref() };
        block.base.with_mut(|place| {
            // SAFETY: by the caller, nothing else has the block.
            unsafe { *place = base };
        });
        // Relaxed: the block is the producer's own; SQ2 publishes it. [SQ14]
        block.next.store(ptr::null_mut(), Ordering::Relaxed);
        // Relaxed: as above. [SQ15]
        block.refs.store(AHEAD, Ordering::Relaxed);
    }

    /// Moves the caller's attachment from `block`, of which every item is claimed, to a later
    /// block. Also moves the front, if it is still at `block`.
    ///
    /// # Safety
    ///
    /// 1. The caller is attached to `block`, and it does not touch it again.
    /// 2. It has loaded a head at or past the end of the block, and a tail past that.
    pub(super) unsafe fn pass(&self, block: NonNull<Block<T>>) -> NonNull<Block<T>> {
        // SAFETY: by (1) the block is alive until this function ends the attachment.
        let next = unsafe { block.as_ref() };
        // Relaxed: the tail by (2) was loaded with acquire, and it was published after the link.
        // [SQ16]
        let next = next.next.load(Ordering::Relaxed);
        debug_assert!(!next.is_null(), "spmc: rule 3");
        loop {
            // Relaxed: only compared; the compare-exchange below checks it. [SQ17]
            let front = self.shared().front.load(Ordering::Relaxed);
            if front.ptr() != block.as_ptr() {
                // SAFETY: the caller is attached by (1), and the front, which was at the block when
                // it attached, is not there any more.
                unsafe { self.release(block) };
                return self.attach();
            }
            // AcqRel: the release pairs with the Acquire in attach, and publishes the base of
            // `next` and a head at or past it. The acquire pairs with the Release in detach, so the
            // consumers that have detached are done with the block. [SQ18]
            let moved = self.shared().front.compare_exchange(
                front,
                TaggedPtr::new(next, 1),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if moved.is_ok() {
                let others = front.count() as usize - 1;
                // SAFETY: (1) this call moved the front off the block, once; (2) `others` is the
                // number that was attached then, without the caller.
                unsafe { self.settle(block, others) };
                // SAFETY: by (2) the next block is linked.
                return unsafe { NonNull::new_unchecked(next) };
            }
        }
    }

    /// Ends the caller's attachment.
    ///
    /// # Safety
    ///
    /// The caller is attached to `block`, and it does not touch it again.
    pub(super) unsafe fn detach(&self, block: NonNull<Block<T>>) {
        loop {
            // Relaxed: only compared; the compare-exchange below checks it. [SQ19]
            let front = self.shared().front.load(Ordering::Relaxed);
            if front.ptr() != block.as_ptr() {
                // SAFETY: the caller is attached, and the front is not at the block any more.
                return unsafe { self.release(block) };
            }
            // Release: pairs with the acquire half of the AcqRel in pass; the caller is done with
            // the block. [SQ20]
            let left = self.shared().front.compare_exchange(
                front,
                front.with_count(front.count() - 1),
                Ordering::Release,
                Ordering::Relaxed,
            );
            if left.is_ok() {
                return;
            }
        }
    }

    /// Ends the caller's attachment to a block that the front has left.
    ///
    /// # Safety
    ///
    /// The caller is attached to `block` and does not touch it again, and the front is not there
    /// any more.
    unsafe fn release(&self, block: NonNull<Block<T>>) {
        // SAFETY: the caller is attached, so the block is alive.
        let refs = &unsafe { block.as_ref() }.refs;
        // AcqRel: pairs with itself and with SQ22; all accesses to the block happen before the
        // thread that ends it continues. [SQ21]
        if refs.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: the count has come to nothing, which happens once.
            unsafe { self.retire(block) };
        }
    }

    /// Adds to a block the number of consumers that were attached when the front left it.
    ///
    /// # Safety
    ///
    /// 1. The caller moved the front off the block, and does not touch the block again.
    /// 2. `others` is what the front counted then, without the caller.
    unsafe fn settle(&self, block: NonNull<Block<T>>, others: usize) {
        let difference = others.wrapping_sub(AHEAD);
        // SAFETY: the block keeps `AHEAD` until here, so it is alive.
        let refs = &unsafe { block.as_ref() }.refs;
        // AcqRel: pairs with itself and with SQ21; as there. [SQ22]
        let before = refs.fetch_add(difference, Ordering::AcqRel);
        if before.wrapping_add(difference) == 0 {
            // SAFETY: the count has come to nothing, which happens once.
            unsafe { self.retire(block) };
        }
    }

    /// Keeps a block as the spare for the producer, or frees it if there is a spare.
    ///
    /// # Safety
    ///
    /// The front has left the block and no thread is attached to it; all accesses to it happened
    /// before.
    unsafe fn retire(&self, block: NonNull<Block<T>>) {
        let cold = &self.shared().cold;
        // Release: pairs with the Acquire in take_spare; all consumers are done with the block.
        // [SQ23]
        let kept = cold.spare.compare_exchange(
            ptr::null_mut(),
            block.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        );
        if kept.is_err() {
            // SAFETY: by the caller, the block is no thread's.
            unsafe { self.free_block(block) };
        }
    }

    /// # Safety
    ///
    /// The block came from this queue, holds no item, and nothing else has it.
    pub(super) unsafe fn free_block(&self, block: NonNull<Block<T>>) {
        let cold = &self.shared().cold;
        // SAFETY: the caller's obligation; all blocks of the queue come from this allocator and
        // have this many slots.
        unsafe { free_block(block, cold.slots, &cold.alloc) };
    }

    /// Puts a block of the producer's own at the front of the list `rest` of reserved blocks, which
    /// may be null.
    ///
    /// # Safety
    ///
    /// The caller is the producer, and the block is its own.
    pub(super) unsafe fn chain(block: NonNull<Block<T>>, rest: *mut Block<T>) {
        // SAFETY: by the caller, the block is alive.
        let block = unsafe { block.as_ref() };
        // Relaxed: the block is the producer's own. [SQ24]
        block.next.store(rest, Ordering::Relaxed);
    }

    /// The next block of the list that `chain` made, or null.
    ///
    /// # Safety
    ///
    /// As for `chain`.
    pub(super) unsafe fn chained(block: NonNull<Block<T>>) -> *mut Block<T> {
        // SAFETY: by the caller, the block is alive.
        let block = unsafe { block.as_ref() };
        // Relaxed: the block is the producer's own, or the caller is the last handle. [SQ25]
        block.next.load(Ordering::Relaxed)
    }

    /// Ends the producer's handle.
    ///
    /// # Safety
    ///
    /// The caller is the producer; it has published its tail, and neither it nor this handle is
    /// used again.
    pub(super) unsafe fn leave_producer(&self) {
        // SAFETY: by the caller.
        unsafe { self.leave(PRODUCER) };
    }

    /// Ends a consumer's handle.
    ///
    /// # Safety
    ///
    /// The caller is a consumer; it is not attached, and neither it nor this handle is used again.
    pub(super) unsafe fn leave_consumer(&self) {
        // SAFETY: by the caller.
        unsafe { self.leave(CONSUMER) };
    }

    /// Ends a handle that counts `part`. The last one drops the queued items and frees everything.
    ///
    /// # Safety
    ///
    /// As for `leave_producer` and `leave_consumer`.
    unsafe fn leave(&self, part: usize) {
        // AcqRel: pairs with itself and with SQ12. All accesses of the other handles happen before
        // the last one frees the memory. A consumer that finds the producer dropped loads its last
        // tail. [SQ26]
        if self.shared().cold.handles.fetch_sub(part, Ordering::AcqRel) != part {
            return;
        }
        let front = {
            // Relaxed: this is the last handle, and SQ26 has acquired everything. [SQ27]
            let front = self.shared().front.load(Ordering::Relaxed);
            debug_assert!(front.count() == 0, "spmc: rule 5");
            // SAFETY: the front is never null.
            unsafe { NonNull::new_unchecked(front.ptr()) }
        };
        let mut rest = Rest {
            handle: self,
            // SAFETY: this is the last handle, so the block stays as if the caller were attached to
            // it.
            base: unsafe { self.base(front) },
            block: front,
            head: self.load_head(),
            tail: self.load_tail(),
        };
        // `Rest` frees the blocks, also while the panic of a destructor unwinds.
        drop_each(|| rest.next());
    }
}

/// # Safety
///
/// The block came from `allocate_block` with this allocator and number of slots, holds no item, and
/// nothing else has it.
unsafe fn free_block<T, A: Allocator>(block: NonNull<Block<T>>, slots: usize, alloc: &A) {
    // Only the cells of a model need the drop; a plain cell of `MaybeUninit` has none.
    if core::mem::needs_drop::<Slot<T>>() {
        let slots = NonNull::slice_from_raw_parts(Block::slots(block), slots);
        // SAFETY: the slots were initialised when the block was made and are not used again.
        unsafe { ptr::drop_in_place(slots.as_ptr()) };
    }
    // SAFETY: the header was initialised when the block was made and is not used again.
    unsafe { ptr::drop_in_place(block.as_ptr()) };
    // SAFETY: the memory came from this allocator with this layout.
    unsafe { deallocate(alloc, block.cast(), Block::<T>::layout(slots)) };
}

fn allocate_block<T, A: Allocator>(
    slots: usize,
    alloc: &A,
) -> Result<NonNull<Block<T>>, AllocError> {
    let layout = Block::<T>::layout(slots);
    let block = alloc.allocate(layout)?.cast::<Block<T>>();
    if let Err(refused) = TaggedPtr::try_new(block.as_ptr(), 0) {
        // SAFETY: the memory came from this allocator with this layout, and is not used.
        unsafe { deallocate(alloc, block.cast(), layout) };
        panic!("spmc: {refused}");
    }
    let value = Block {
        base: UnsafeCell::new(0),
        next: AtomicPtr::new(ptr::null_mut()),
        refs: AtomicUsize::new(AHEAD),
        slots: [],
    };
    // SAFETY: the memory begins with room for a header, aligned for it, and is ours alone.
    unsafe { block.write(value) };
    // A slot of no size needs no writing, and there may be very many.
    if size_of::<Slot<T>>() != 0 {
        for offset in 0..slots {
            // SAFETY: the offset is below the number of slots.
            let slot = unsafe { Block::slots(block).add(offset) };
            // SAFETY: the address is aligned for a slot by the layout, and the block is ours alone.
            unsafe { slot.write(Slot::new(MaybeUninit::uninit())) };
        }
    }
    Ok(block)
}

/// The rest of a queue whose last handle is dropped: items, and memory to free after them.
struct Rest<'a, T, A: Allocator> {
    handle: &'a Handle<T, A>,
    block: NonNull<Block<T>>,
    base: u64,
    head: u64,
    tail: u64,
}

impl<T, A: Allocator> Rest<'_, T, A> {
    fn next(&mut self) -> Option<T> {
        if self.head == self.tail {
            return None;
        }
        let slots = self.handle.block_slots() as u64;
        while self.head - self.base >= slots {
            self.next_block();
            self.base += slots;
        }
        let offset = (self.head - self.base) as usize;
        self.head += 1;
        // SAFETY: (1) this is the last handle, so the block is ours, and the offset was brought
        // below its slots;
        // (2) the items from the head to the tail are unclaimed, and the head was moved on first.
        Some(unsafe { Handle::<T, A>::read(Block::slots(self.block), offset) })
    }

    /// Frees the block and goes to the next, which exists.
    fn next_block(&mut self) {
        // SAFETY: this is the last handle, so all blocks are ours.
        let next = unsafe { Handle::<T, A>::chained(self.block) };
        // SAFETY: every item of the block was claimed or dropped.
        unsafe { self.handle.free_block(self.block) };
        self.block = NonNull::new(next).expect("spmc: rule 3, a block follows");
    }
}

impl<T, A: Allocator> Drop for Rest<'_, T, A> {
    fn drop(&mut self) {
        // SAFETY: this is the last handle, so all blocks are ours.
        while !unsafe { Handle::<T, A>::chained(self.block) }.is_null() {
            self.next_block();
        }
        // SAFETY: this is the last block, and no item is left.
        unsafe { self.handle.free_block(self.block) };
        if let Some(spare) = self.handle.take_spare() {
            // SAFETY: the spare block is no thread's.
            unsafe { self.handle.free_block(spare) };
        }
        // SAFETY: the words were initialised by `new`, this is the last handle, and nothing reads
        // them again.
        let shared = unsafe { self.handle.shared.read() };
        let alloc = shared.cold.into_inner().alloc;
        // SAFETY: the memory came from this allocator with this layout, and nothing points into it
        // any more.
        unsafe {
            deallocate(
                &alloc,
                self.handle.shared.cast(),
                Layout::new::<Shared<T, A>>(),
            )
        };
    }
}

#[cfg(all(test, feature = "std", not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;
    use crate::alloc::Global;
    use core::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Gives out so many blocks, and counts those in use.
    struct Few<'a>(&'a Cell<u32>, &'a Cell<u32>);

    // SAFETY: the memory is the global allocator's, handed through unchanged.
    unsafe impl Allocator for Few<'_> {
        fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            self.0.set(self.0.get().checked_sub(1).ok_or(AllocError)?);
            self.1.set(self.1.get() + 1);
            Global.allocate(layout)
        }

        unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
            self.1.set(self.1.get() - 1);
            // SAFETY: the caller's obligations are the global allocator's.
            unsafe { Global.deallocate(memory, layout) };
        }
    }

    #[test]
    fn a_queue_that_cannot_be_made_leaves_nothing() {
        let (left, in_use) = (Cell::new(9), Cell::new(0));
        let is_refused = |slots| Handle::<u64, _>::new(slots, Few(&left, &in_use)).is_err();
        assert!(catch_unwind(AssertUnwindSafe(|| is_refused(usize::MAX / 8))).is_err());
        assert_eq!(in_use.get(), 0, "after the panic");
        for blocks in [0, 1] {
            left.set(blocks);
            assert!(is_refused(8));
            assert_eq!((left.get(), in_use.get()), (0, 0));
        }
    }
}
