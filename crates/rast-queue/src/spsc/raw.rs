//! The block that both halves of a ring share: two published indices, the slots, and who is gone.
//!
//! Everything unsafe of the ring is here or one call away; every atomic operation of the ring is here.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use crate::alloc::{AllocError, Allocator, Layout};
use crate::primitive::CachePadded;
use crate::primitive::cell::UnsafeCell;
use crate::primitive::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

type Slot<T> = UnsafeCell<MaybeUninit<T>>;

/// Which half.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Side {
    Producer = 1,
    Consumer = 2,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Producer => Self::Consumer,
            Self::Consumer => Self::Producer,
        }
    }
}

struct Header<A> {
    /// Published by the producer: items before it stand in their slots.
    tail: CachePadded<AtomicUsize>,
    /// Published by the consumer: slots before it are free again.
    head: CachePadded<AtomicUsize>,
    /// Written twice in the ring's life.
    cold: CachePadded<Cold<A>>,
}

struct Cold<A> {
    /// The sum of the sides that are gone.
    gone: AtomicU8,
    alloc: A,
}

/// A handle on the shared block; two exist per ring, and the half that leaves second frees it.
pub(super) struct Block<T, A> {
    header: NonNull<Header<A>>,
    slots: NonNull<Slot<T>>,
    /// Capacity - 1.
    mask: usize,
    /// The block owns items of type `T`.
    owns: PhantomData<T>,
}

impl<T, A> Block<T, A> {
    /// The layout of a block of `capacity` slots, and where the slots begin.
    pub(super) fn layout(capacity: usize) -> (Layout, usize) {
        Layout::array::<Slot<T>>(capacity)
            .and_then(|slots| Layout::new::<Header<A>>().extend(slots))
            .expect("spsc: the size of the ring overflows isize")
    }

    pub(super) fn capacity(&self) -> usize {
        self.mask + 1
    }

    /// The second handle; the two are told apart by the half that holds them.
    pub(super) fn duplicate(&self) -> Self {
        Self {
            header: self.header,
            slots: self.slots,
            mask: self.mask,
            owns: PhantomData,
        }
    }

    fn header(&self) -> &Header<A> {
        // SAFETY: the header was initialised by `new` and lives until the second half frees the block, in `free`,
        // after which no handle is used.
        unsafe { self.header.as_ref() }
    }

    fn slot(&self, index: usize) -> &Slot<T> {
        // SAFETY: `index & mask` is below the capacity, so the address lies inside the block's array of slots.
        let slot = unsafe { self.slots.add(index & self.mask) };
        // SAFETY: every slot was initialised by `new`, as a cell of nothing, and lives as long as the block.
        unsafe { slot.as_ref() }
    }

    /// Moves `item` into the slot of `index`.
    ///
    /// # Safety
    ///
    /// 1. The caller is the producer, and `index` is its tail.
    /// 2. `index - head < capacity` for a `head` that `load_head` returned.
    #[inline(always)]
    pub(super) unsafe fn write(&self, index: usize, item: T) {
        self.slot(index).with_mut(|slot| {
            // SAFETY: by (2) the consumer has moved out what stood here and published that, and it touches no slot at
            // or past the tail, which by (1) only the caller moves: the slot is ours alone and holds nothing.
            unsafe { slot.cast::<T>().write(item) };
        });
    }

    /// Moves the item out of the slot of `index`.
    ///
    /// # Safety
    ///
    /// 1. The caller is the consumer, `index` is its head, and it advances its head before anything reads here again.
    /// 2. `index` is before a tail that `load_tail` returned.
    #[inline(always)]
    pub(super) unsafe fn read(&self, index: usize) -> T {
        self.slot(index).with(|slot| {
            // SAFETY: by (2) the producer wrote the slot before it published that tail, and it writes here again only
            // once the head is past `index`; by (1) the item is moved out once.
            unsafe { slot.cast::<T>().read() }
        })
    }

    /// Borrows the item in the slot of `index`.
    ///
    /// # Safety
    ///
    /// 1. The caller is the consumer, and `index` is its head, which does not move while the borrow lives.
    /// 2. `index` is before a tail that `load_tail` returned.
    #[inline(always)]
    pub(super) unsafe fn peek(&self, index: usize) -> &T {
        self.slot(index).with(|slot| {
            // SAFETY: by (2) the slot holds an item, and by (1) nobody moves it out or overwrites it meanwhile.
            unsafe { &*slot.cast::<T>() }
        })
    }

    /// The consumer's published index, for the producer.
    #[inline(always)]
    pub(super) fn load_head(&self) -> usize {
        // Acquire: pairs with the Release in publish_head; the consumer's reads of the slots before `head` are over
        // before the producer writes there again. [RG1]
        self.header().head.load(Ordering::Acquire)
    }

    /// Makes the items before `tail` the consumer's.
    #[inline(always)]
    pub(super) fn publish_tail(&self, tail: usize) {
        // Release: pairs with the Acquire in load_tail; publishes the slots written before `tail`. [RG2]
        self.header().tail.store(tail, Ordering::Release);
    }

    /// The producer's published index, for the consumer.
    #[inline(always)]
    pub(super) fn load_tail(&self) -> usize {
        // Acquire: pairs with the Release in publish_tail; the slots before `tail` are seen written. [RG3]
        self.header().tail.load(Ordering::Acquire)
    }

    /// Makes the slots before `head` the producer's.
    #[inline(always)]
    pub(super) fn publish_head(&self, head: usize) {
        // Release: pairs with the Acquire in load_head; the items before `head` are moved out. [RG4]
        self.header().head.store(head, Ordering::Release);
    }

    /// Whether the half opposite of `side` is gone; if so, its last index is seen from here on.
    #[inline]
    pub(super) fn other_is_gone(&self, side: Side) -> bool {
        // Acquire: pairs with the release half of the AcqRel in leave; what the other half published before it left is
        // seen by the next load of its index. [RG5]
        let gone = self.header().cold.gone.load(Ordering::Acquire);
        gone & side.other() as u8 != 0
    }

    /// Says that `side` is gone; true if the other was gone before, and the caller now owns the block alone.
    fn leave(&self, side: Side) -> bool {
        // AcqRel: pairs with itself in the other half; all that the first to leave did with the block comes before the
        // second frees it, and the second finds the first's last index. [RG6]
        let gone = self
            .header()
            .cold
            .gone
            .fetch_or(side as u8, Ordering::AcqRel);
        debug_assert!(gone & side as u8 == 0, "spsc: a half leaves once");
        gone & side.other() as u8 != 0
    }
}

impl<T, A: Allocator> Block<T, A> {
    /// Takes a block for `capacity` slots, a power of two, from `alloc`; both indices begin at `start`.
    pub(super) fn new(capacity: usize, start: usize, alloc: A) -> Result<Self, AllocError> {
        assert!(
            capacity.is_power_of_two(),
            "spsc: the capacity is a power of two"
        );
        let (layout, offset) = Self::layout(capacity);
        let memory = alloc.allocate(layout)?.cast::<u8>();
        let header = memory.cast::<Header<A>>();
        // SAFETY: `offset` lies inside the block, or at its end if the slots take no room.
        let slots = unsafe { memory.add(offset) }.cast::<Slot<T>>();
        let value = Header {
            tail: CachePadded::new(AtomicUsize::new(start)),
            head: CachePadded::new(AtomicUsize::new(start)),
            cold: CachePadded::new(Cold {
                gone: AtomicU8::new(0),
                alloc,
            }),
        };
        // SAFETY: the block begins with room for a header, aligned for it, and is ours alone.
        unsafe { header.write(value) };
        // A slot of no size needs no writing, and there may be very many.
        if size_of::<Slot<T>>() != 0 {
            for index in 0..capacity {
                // SAFETY: `index` is below the capacity, so the address lies inside the array of slots.
                let slot = unsafe { slots.add(index) };
                // SAFETY: the address is aligned for a slot by the layout, and the block is ours alone.
                unsafe { slot.write(Slot::new(MaybeUninit::uninit())) };
            }
        }
        Ok(Self {
            header,
            slots,
            mask: capacity - 1,
            owns: PhantomData,
        })
    }

    /// Ends the use of this handle by `side`, whose own index is `own`; the second to leave drops what stands and frees
    /// the block.
    ///
    /// # Safety
    ///
    /// 1. The caller is the half `side`, and neither it nor this handle is used again.
    /// 2. `own` is the true index of that half, and it is published.
    pub(super) unsafe fn close(&self, side: Side, own: usize) {
        if !self.leave(side) {
            return;
        }
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
        // If the drop of an item panics, `Rest` drops the others and frees the block as the panic goes up.
        rest.drop_items();
    }
}

/// The end of a block: items still to be dropped, then memory to be freed.
struct Rest<'a, T, A: Allocator> {
    block: &'a Block<T, A>,
    head: usize,
    tail: usize,
}

impl<T, A: Allocator> Rest<'_, T, A> {
    fn drop_items(&mut self) {
        while self.head != self.tail {
            let index = self.head;
            self.head = index.wrapping_add(1);
            // SAFETY: `close` runs with both halves gone, so the caller is the consumer now; (1) `head` was advanced
            // first, so no other read of this item follows; (2) `tail` is the producer's last.
            drop(unsafe { self.block.read(index) });
        }
    }
}

impl<T, A: Allocator> Drop for Rest<'_, T, A> {
    fn drop(&mut self) {
        self.drop_items();
        let capacity = self.block.capacity();
        if core::mem::needs_drop::<Slot<T>>() {
            let slots = ptr::slice_from_raw_parts_mut(self.block.slots.as_ptr(), capacity);
            // SAFETY: both halves are gone; the slots were initialised by `new` and are not used again. This matters
            // to cells that keep books, under loom; a plain cell of `MaybeUninit` has no drop.
            unsafe { ptr::drop_in_place(slots) };
        }
        // SAFETY: the header was initialised by `new`, both halves are gone, and nothing reads it again.
        let header = unsafe { self.block.header.read() };
        let alloc = header.cold.into_inner().alloc;
        // SAFETY: the block came from this allocator with this layout, and nothing points into it any more.
        unsafe { alloc.deallocate(self.block.header.cast(), Block::<T, A>::layout(capacity).0) };
    }
}
