//! The block that both halves of a ring share: two published indices, the slots, and which halves
//! are dropped.
//!
//! All atomic operations of the ring are in this file and in `side.rs`, and all of its unsafe code
//! is here or calls into it.

use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use core::alloc::LayoutError;

use super::side::{Gone, Side};
use crate::abort::deallocate;
use crate::alloc::{AllocError, Allocator, Layout};
use crate::primitive::CachePadded;
use crate::primitive::cell::UnsafeCell;
use crate::primitive::hint::opaque;
use crate::primitive::panics::drop_each;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};

/// One is beside each slot. A model uses it to track accesses to the slot; otherwise its size is
/// zero.
///
/// The slots themselves are plain memory, so that a range of them is a slice.
type Mark = UnsafeCell<()>;

struct Header<A> {
    /// Published by the producer: items before it are in their slots.
    tail: CachePadded<AtomicUsize>,
    /// Published by the consumer: slots before it are free again.
    head: CachePadded<AtomicUsize>,
    /// Written twice in the ring's life.
    cold: CachePadded<Cold<A>>,
}

struct Cold<A> {
    gone: Gone,
    alloc: A,
}

/// A handle on the shared block. Two exist per ring, and the half that is dropped second frees the
/// block.
pub(super) struct Block<T, A> {
    header: NonNull<Header<A>>,
    /// Capacity - 1.
    mask: usize,
    /// The block owns items of type `T`. One half pushes them and the other pops them, so `T` is
    /// invariant.
    owns: PhantomData<Cell<T>>,
}

/// Slots in a row: up to the end of the array, then from its beginning.
pub(super) struct Span<T> {
    first: NonNull<T>,
    first_len: usize,
    second: NonNull<T>,
    len: usize,
}

impl<T> Clone for Span<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Span<T> {}

impl<T> Span<T> {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The two stretches, with their lengths; the first is empty only if the whole is.
    #[inline(always)]
    pub(super) fn parts(&self) -> [(NonNull<T>, usize); 2] {
        [
            (self.first, self.first_len),
            (self.second, self.len - self.first_len),
        ]
    }

    /// The slot number `n`, which is below `len`.
    #[inline(always)]
    pub(super) fn at(&self, n: usize) -> NonNull<T> {
        debug_assert!(n < self.len, "spsc: a span ends at its length");
        let (base, n) = if n < self.first_len {
            (self.first, n)
        } else {
            (self.second, n - self.first_len)
        };
        // SAFETY: `n` is below the length of the stretch that begins at `base`, both as
        // `Block::span` made them.
        unsafe { base.add(n) }
    }

    /// The slots number `from..to`; `from <= to <= len`.
    #[inline(always)]
    pub(super) fn range(&self, from: usize, to: usize) -> Self {
        debug_assert!(
            from <= to && to <= self.len,
            "spsc: a span ends at its length"
        );
        let (base, skip, before) = if from < self.first_len {
            (self.first, from, self.first_len - from)
        } else {
            (self.second, from - self.first_len, usize::MAX)
        };
        Self {
            // SAFETY: `skip` is at most the length of the stretch that begins at `base`.
            first: unsafe { base.add(skip) },
            first_len: before.min(to - from),
            second: self.second,
            len: to - from,
        }
    }

    /// # Safety
    ///
    /// 1. All slots hold items.
    /// 2. They are neither changed nor moved while the borrow lives.
    #[inline(always)]
    pub(super) unsafe fn as_slices<'a>(&self) -> (&'a [T], &'a [T]) {
        let [first, second] = self.parts();
        // SAFETY: the slots of a stretch lie in a row in one block; (1) and (2) by the caller.
        let first = unsafe { core::slice::from_raw_parts(first.0.as_ptr(), first.1) };
        // SAFETY: likewise.
        let second = unsafe { core::slice::from_raw_parts(second.0.as_ptr(), second.1) };
        (first, second)
    }

    /// Borrows the items to change them.
    ///
    /// # Safety
    ///
    /// 1. All slots hold items.
    /// 2. Nothing else reaches them while the borrow lives.
    #[inline(always)]
    pub(super) unsafe fn as_mut_slices<'a>(&self) -> (&'a mut [T], &'a mut [T]) {
        let [first, second] = self.parts();
        // SAFETY: the slots of a stretch lie in a row in one block; (1) and (2) by the caller.
        let first = unsafe { core::slice::from_raw_parts_mut(first.0.as_ptr(), first.1) };
        // SAFETY: likewise; the two stretches have no slot in common.
        let second = unsafe { core::slice::from_raw_parts_mut(second.0.as_ptr(), second.1) };
        (first, second)
    }

    /// Borrows the slots to write them, whether they hold items or not.
    ///
    /// If the first slice has `VECTOR` slots or more, `opaque` hides its length from the compiler,
    /// so that a loop over a batch of constant size is vectorised instead of unrolled. A smaller
    /// batch fills no vector and is fastest unrolled. The second slice is used once per round of
    /// the ring, where an unrolled loop suffices.
    ///
    /// # Safety
    ///
    /// 1. No other code accesses the slots while the borrow lives.
    #[inline(always)]
    pub(super) unsafe fn as_slots<'a>(
        &self,
    ) -> (&'a mut [MaybeUninit<T>], &'a mut [MaybeUninit<T>]) {
        const VECTOR: usize = 4;
        let [first, second] = self.parts();
        let first_len = if first.1 < VECTOR {
            first.1
        } else {
            opaque(first.1)
        };
        // SAFETY: the slots of a stretch lie in a row in one block, and slots may be uninitialised,
        // as `MaybeUninit` may; (1) by the caller.
        let first = unsafe { core::slice::from_raw_parts_mut(first.0.cast().as_ptr(), first_len) };
        // SAFETY: likewise; the two stretches have no slot in common.
        let second = unsafe { core::slice::from_raw_parts_mut(second.0.cast().as_ptr(), second.1) };
        (first, second)
    }

    /// Drops the items, as [`drop_each`] does if destructors panic.
    ///
    /// # Safety
    ///
    /// 1. All slots hold items, and nothing else reaches them.
    /// 2. The slots count as empty from here on.
    #[inline(always)]
    pub(super) unsafe fn drop_items(self) {
        /// An item that is dropped in its slot.
        struct InSlot<T>(NonNull<T>);
        impl<T> Drop for InSlot<T> {
            #[inline(always)]
            fn drop(&mut self) {
                // SAFETY: the caller of `drop_items` gave this item up, and there is one `InSlot`
                // for each slot.
                unsafe { ptr::drop_in_place(self.0.as_ptr()) };
            }
        }
        if core::mem::needs_drop::<T>() {
            let mut items = (0..self.len).map(|n| InSlot(self.at(n)));
            drop_each(|| items.next());
        }
    }
}

impl<T, A> Block<T, A> {
    /// Offset of the slots. A constant, so that the halves need no field for it.
    const SLOTS: usize = size_of::<Header<A>>().next_multiple_of(align_of::<T>());

    /// The layout of a block of `capacity` slots, and where the marks begin.
    pub(super) fn layout(capacity: usize) -> (Layout, usize) {
        let parts = || {
            let (layout, slots) =
                Layout::new::<Header<A>>().extend(Layout::array::<T>(capacity)?)?;
            let (layout, marks) = layout.extend(Layout::array::<Mark>(capacity)?)?;
            debug_assert!(slots == Self::SLOTS, "spsc: the slots follow the header");
            Ok::<_, LayoutError>((layout, marks))
        };
        parts().expect("spsc: the size of the ring overflows isize")
    }

    pub(super) fn capacity(&self) -> usize {
        self.mask + 1
    }

    /// Returns the second handle, for the other half.
    pub(super) fn duplicate(&self) -> Self {
        Self {
            header: self.header,
            mask: self.mask,
            owns: PhantomData,
        }
    }

    fn header(&self) -> &Header<A> {
        // SAFETY: the header was initialised by `new` and lives until the second half frees the
        // block, in `end`, after which no handle is used.
        unsafe { self.header.as_ref() }
    }

    #[inline(always)]
    fn slot(&self, index: usize) -> NonNull<T> {
        // SAFETY: `index & mask` is below the capacity, so the address lies inside the block's
        // array of slots.
        unsafe { self.slots().add(index & self.mask) }
    }

    #[inline(always)]
    pub(super) fn address(&self, index: usize) -> *const T {
        self.slot(index).as_ptr()
    }

    /// Where the producer's published index is.
    #[inline(always)]
    pub(super) fn tail_address(&self) -> *const () {
        (&raw const self.header().tail).cast()
    }

    /// The slots of `index..index + len`; `len` is at most the capacity.
    #[inline(always)]
    pub(super) fn span(&self, index: usize, len: usize) -> Span<T> {
        debug_assert!(len <= self.capacity(), "spsc: rule 1");
        Span {
            first: self.slot(index),
            first_len: len.min(self.capacity() - (index & self.mask)),
            second: self.slots(),
            len,
        }
    }

    /// Tells a model that the slots of `index..index + len` are written or moved out of.
    #[inline(always)]
    pub(super) fn note_write(&self, index: usize, len: usize) {
        self.each_mark(index, len, |mark| mark.with_mut(|_| ()));
    }

    /// Tells a model that the slots of `index..index + len` are read.
    #[inline(always)]
    pub(super) fn note_read(&self, index: usize, len: usize) {
        self.each_mark(index, len, |mark| mark.with(|_| ()));
    }

    #[inline(always)]
    fn each_mark(&self, index: usize, len: usize, each: impl Fn(&Mark)) {
        if size_of::<Mark>() == 0 {
            return;
        }
        for offset in 0..len {
            let index = index.wrapping_add(offset);
            // SAFETY: `index & mask` is below the capacity, so the address lies inside the block's
            // array of marks.
            let mark = unsafe { self.marks().add(index & self.mask) };
            // SAFETY: every mark was initialised by `new` and lives as long as the block.
            each(unsafe { mark.as_ref() });
        }
    }

    #[inline(always)]
    fn slots(&self) -> NonNull<T> {
        // SAFETY: `layout` puts the slots there, inside the block, or at its end if they take no
        // room.
        unsafe { self.header.cast::<u8>().add(Self::SLOTS) }.cast()
    }

    fn marks(&self) -> NonNull<Mark> {
        let offset = Self::layout(self.capacity()).1;
        // SAFETY: the offset lies inside the block, by its layout.
        unsafe { self.header.cast::<u8>().add(offset) }.cast()
    }

    /// Moves `item` into the slot of `index`.
    ///
    /// # Safety
    ///
    /// 1. The caller is the producer, and `index` is its tail.
    /// 2. `index - head < capacity` for a `head` that `load_head` returned.
    #[inline(always)]
    pub(super) unsafe fn write(&self, index: usize, item: T) {
        self.note_write(index, 1);
        // SAFETY: by (2) the consumer has moved the previous item out and published that. It
        // accesses no slot at or past the tail, which by (1) only the caller moves. So only the
        // caller accesses the slot, which is empty.
        unsafe { self.slot(index).write(item) };
    }

    /// Moves the item out of the slot of `index`.
    ///
    /// # Safety
    ///
    /// 1. The caller is the consumer, `index` is its head, and it advances its head before anything
    ///    reads here again.
    /// 2. `index` is before a tail that `load_tail` returned.
    #[inline(always)]
    pub(super) unsafe fn read(&self, index: usize) -> T {
        self.note_read(index, 1);
        // SAFETY: by (2) the producer wrote the slot before it published that tail, and it writes
        // here again only once the head is past `index`; by (1) the item is moved out once.
        unsafe { self.slot(index).read() }
    }

    /// Borrows the item in the slot of `index`.
    ///
    /// # Safety
    ///
    /// 1. The caller is the consumer, and `index` is its head, which does not move while the borrow
    ///    lives.
    /// 2. `index` is before a tail that `load_tail` returned.
    #[inline(always)]
    pub(super) unsafe fn peek(&self, index: usize) -> &T {
        self.note_read(index, 1);
        // SAFETY: by (2) the slot holds an item, and by (1) no thread moves it out or overwrites it
        // meanwhile.
        unsafe { self.slot(index).as_ref() }
    }

    /// The consumer's published index, for the producer.
    #[inline(always)]
    pub(super) fn load_head(&self) -> usize {
        // Acquire: pairs with the Release in publish_head; the consumer's reads of the slots before
        // `head` happen before the producer writes there again. [RG1]
        self.header().head.load(Ordering::Acquire)
    }

    /// Publishes the items before `tail` to the consumer.
    #[inline(always)]
    pub(super) fn publish_tail(&self, tail: usize) {
        // Release: pairs with the Acquire in load_tail; publishes the slots written before `tail`.
        // [RG2]
        self.header().tail.store(tail, Ordering::Release);
    }

    /// The producer's published index, for the consumer.
    #[inline(always)]
    pub(super) fn load_tail(&self) -> usize {
        // Acquire: pairs with the Release in publish_tail; the writes of the slots before `tail`
        // are visible. [RG3]
        self.header().tail.load(Ordering::Acquire)
    }

    /// Returns the slots before `head` to the producer.
    #[inline(always)]
    pub(super) fn publish_head(&self, head: usize) {
        // Release: pairs with the Acquire in load_head; the items before `head` are moved out.
        // [RG4]
        self.header().head.store(head, Ordering::Release);
    }

    /// Which halves are dropped.
    #[inline(always)]
    pub(super) fn gone(&self) -> &Gone {
        &self.header().cold.gone
    }
}

impl<T, A: Allocator> Block<T, A> {
    /// Allocates a block for `capacity` slots, a power of two, from `alloc`; both indices begin at
    /// `start`.
    pub(super) fn new(capacity: usize, start: usize, alloc: A) -> Result<Self, AllocError> {
        assert!(
            capacity.is_power_of_two(),
            "spsc: the capacity is a power of two"
        );
        let (layout, marks) = Self::layout(capacity);
        let memory = alloc.allocate(layout)?.cast::<u8>();
        let header = memory.cast::<Header<A>>();
        // SAFETY: the offset lies inside the block, or at its end if the marks take no room.
        let marks = unsafe { memory.add(marks) }.cast::<Mark>();
        let value = Header {
            tail: CachePadded::new(AtomicUsize::new(start)),
            head: CachePadded::new(AtomicUsize::new(start)),
            cold: CachePadded::new(Cold {
                gone: Gone::new(),
                alloc,
            }),
        };
        // SAFETY: the block begins with room for a header, aligned for it, and is ours alone.
        unsafe { header.write(value) };
        // Marks of no size need no writing.
        if size_of::<Mark>() != 0 {
            for index in 0..capacity {
                // SAFETY: `index` is below the capacity, so the address lies inside the array of
                // marks.
                let mark = unsafe { marks.add(index) };
                // SAFETY: the address is aligned for a mark by the layout, and the block is ours
                // alone.
                unsafe { mark.write(Mark::new(())) };
            }
        }
        Ok(Self {
            header,
            mask: capacity - 1,
            owns: PhantomData,
        })
    }

    /// Ends the use of this handle by `side`, whose own index is `own`. The half that ends second
    /// drops the queued items and frees the block.
    ///
    /// Only the read-modify-write is inlined, and `end` takes a copy of the handle. So no function
    /// gets the address of a half, and the half can be kept in registers, even in loops that may
    /// unwind.
    ///
    /// # Safety
    ///
    /// 1. The caller is the half `side`, and neither it nor this handle is used again.
    /// 2. `own` is the true index of that half, and it is published.
    #[inline(always)]
    pub(super) unsafe fn close(&self, side: Side, own: usize) {
        if self.gone().leave(side) {
            // SAFETY: (1) the other half was gone before, and by (1) this one is now; (2) by (2).
            unsafe { self.duplicate().end(side, own) };
        }
    }

    /// Drops the queued items and frees the block.
    ///
    /// # Safety
    ///
    /// 1. Both halves are gone, `side` last, and no handle is used again.
    /// 2. `own` is the true index of that half.
    #[cold]
    #[inline(never)]
    unsafe fn end(self, side: Side, own: usize) {
        let (head, tail) = match side {
            Side::Producer => (self.load_head(), own),
            Side::Consumer => (own, self.load_tail()),
        };
        debug_assert!(tail.wrapping_sub(head) <= self.capacity(), "spsc: rule 1");
        let mut rest = Rest {
            block: self,
            head,
            tail,
        };
        // `Rest` frees the block, also while the panic of a destructor unwinds.
        drop_each(|| rest.next());
    }
}

/// The rest of a ring of which both halves are dropped: items, and memory to free after them.
struct Rest<T, A: Allocator> {
    block: Block<T, A>,
    head: usize,
    tail: usize,
}

impl<T, A: Allocator> Rest<T, A> {
    fn next(&mut self) -> Option<T> {
        if self.head == self.tail {
            return None;
        }
        let index = self.head;
        self.head = index.wrapping_add(1);
        // SAFETY: `end` runs with both halves gone, so the caller is the consumer now; (1) `head`
        // was advanced first, so no other read of this item follows; (2) `tail` is the producer's
        // last.
        Some(unsafe { self.block.read(index) })
    }
}

impl<T, A: Allocator> Drop for Rest<T, A> {
    fn drop(&mut self) {
        let capacity = self.block.capacity();
        if core::mem::needs_drop::<Mark>() {
            let marks = ptr::slice_from_raw_parts_mut(self.block.marks().as_ptr(), capacity);
            // SAFETY: both halves are gone; the marks were initialised by `new` and are not used
            // again. This matters to a model's books alone.
            unsafe { ptr::drop_in_place(marks) };
        }
        // SAFETY: the header was initialised by `new`, both halves are gone, and nothing reads it
        // again.
        let header = unsafe { self.block.header.read() };
        let alloc = header.cold.into_inner().alloc;
        // SAFETY: the block came from this allocator with this layout, and nothing points into it
        // any more.
        unsafe {
            deallocate(
                &alloc,
                self.block.header.cast(),
                Block::<T, A>::layout(capacity).0,
            )
        };
    }
}
