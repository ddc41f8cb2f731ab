//! The memory that both halves of a segmented queue share: two published counts, a spare segment,
//! which halves are dropped, and the segments.
//!
//! All atomic operations of the queue are in this file and in `side.rs` of the ring, and all of its
//! unsafe code is here or calls into it.

use core::alloc::LayoutError;
use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use super::super::side::{Gone, Side};
use crate::abort::deallocate;
use crate::alloc::{AllocError, Allocator, Layout};
use crate::primitive::CachePadded;
use crate::primitive::cell::UnsafeCell;
use crate::primitive::panics::drop_each;
use crate::primitive::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// One is beside each slot. A model uses it to track accesses to the slot; otherwise its size is
/// zero.
type Mark = UnsafeCell<()>;

struct Header<T, A> {
    /// Number of pushed items, published by the producer.
    tail: CachePadded<AtomicUsize>,
    /// Number of popped items, published by the consumer.
    head: CachePadded<AtomicUsize>,
    /// A segment that the consumer has emptied, for the producer, or null.
    spare: CachePadded<AtomicPtr<Node<T>>>,
    /// Written twice in the queue's life.
    cold: CachePadded<Cold<T, A>>,
}

struct Cold<T, A> {
    gone: Gone,
    /// The consumer's place when it was dropped.
    left: UnsafeCell<Option<Place<T>>>,
    alloc: A,
}

/// The header of a segment; its slots and its marks follow.
struct Node<T> {
    /// Written by the producer before it publishes an item past this segment; read by the consumer
    /// after.
    next: UnsafeCell<Option<Segment<T>>>,
}

/// A segment, by address.
pub(super) struct Segment<T>(NonNull<CachePadded<Node<T>>>);

impl<T> Clone for Segment<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Segment<T> {}

/// The position of a half: a segment, and the number of its slots that the half has filled or
/// emptied.
pub(super) struct Place<T> {
    pub(super) segment: Segment<T>,
    pub(super) slot: usize,
}

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

/// A handle on the shared memory. Two exist per queue, and the half that is dropped second frees
/// everything.
pub(super) struct Shared<T, A> {
    header: NonNull<Header<T, A>>,
    slots: usize,
    /// The queue owns items of type `T`. One half pushes them and the other pops them, so `T` is
    /// invariant.
    owns: PhantomData<Cell<T>>,
}

impl<T, A> Shared<T, A> {
    #[inline(always)]
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the second handle, for the other half.
    pub(super) fn duplicate(&self) -> Self {
        Self {
            header: self.header,
            slots: self.slots,
            owns: PhantomData,
        }
    }

    #[inline(always)]
    fn header(&self) -> &Header<T, A> {
        // SAFETY: the header was initialised by `new` and lives until the second half frees it, in
        // `close`, after which no handle is used.
        unsafe { self.header.as_ref() }
    }

    #[cold]
    pub(super) fn no_memory(slots: usize) -> ! {
        std_alloc::alloc::handle_alloc_error(Self::layout(slots).0)
    }

    /// The layout of a segment, and where its slots and marks begin.
    pub(super) fn layout(slots: usize) -> (Layout, usize, usize) {
        let parts = || {
            let (layout, items) =
                Layout::new::<CachePadded<Node<T>>>().extend(Layout::array::<T>(slots)?)?;
            let (layout, marks) = layout.extend(Layout::array::<Mark>(slots)?)?;
            Ok::<_, LayoutError>((layout, items, marks))
        };
        parts().expect("spsc: the size of a segment overflows isize")
    }

    /// The slot number `slot` of `segment`, or the end of its slots.
    #[inline(always)]
    pub(super) fn slot(&self, segment: Segment<T>, slot: usize) -> NonNull<T> {
        debug_assert!(slot <= self.slots, "spsc: a segment ends at its length");
        let offset = const {
            match Layout::new::<CachePadded<Node<T>>>().extend(Layout::new::<T>()) {
                Ok((_, offset)) => offset,
                Err(_) => panic!("spsc: the size of a segment overflows isize"),
            }
        };
        // SAFETY: the slots begin at this offset of the segment, by its layout.
        let slots = unsafe { segment.0.cast::<u8>().add(offset) }.cast::<T>();
        // SAFETY: `slot` is at most the number of slots.
        unsafe { slots.add(slot) }
    }

    /// Tells a model that `count` slots are written or moved out of.
    #[inline(always)]
    pub(super) fn note_write(&self, place: Place<T>, count: usize) {
        self.each_mark(place, count, |mark| mark.with_mut(|_| ()));
    }

    /// Tells a model that `count` slots are read.
    #[inline(always)]
    pub(super) fn note_read(&self, place: Place<T>, count: usize) {
        self.each_mark(place, count, |mark| mark.with(|_| ()));
    }

    #[inline(always)]
    fn each_mark(&self, place: Place<T>, count: usize, each: impl Fn(&Mark)) {
        if size_of::<Mark>() == 0 {
            return;
        }
        for slot in place.slot..place.slot + count {
            let offset = Self::layout(self.slots).2;
            // SAFETY: the marks begin at this offset of the segment, by its layout.
            let marks = unsafe { place.segment.0.cast::<u8>().add(offset) }.cast::<Mark>();
            // SAFETY: `slot` is below the number of slots, which is that of the marks.
            let mark = unsafe { marks.add(slot) };
            // SAFETY: every mark was initialised with its segment and lives as long.
            each(unsafe { mark.as_ref() });
        }
    }

    /// The segment after `segment`.
    ///
    /// # Safety
    ///
    /// 1. `segment` is one of this queue's. The caller is the producer, or both halves are gone, or
    ///    the caller is the consumer and an item past `segment` is before a tail that `load_tail`
    ///    returned.
    #[inline(always)]
    pub(super) unsafe fn next(&self, segment: Segment<T>) -> Option<Segment<T>> {
        // SAFETY: by (1) the segment lives; its node was initialised by `allocate`.
        let node = unsafe { segment.0.as_ref() };
        node.next.with(|next| {
            // SAFETY: by (1) the producer no longer writes this word, or is the caller.
            unsafe { *next }
        })
    }

    /// Links `next` after `segment`.
    ///
    /// # Safety
    ///
    /// 1. `segment` is the last one of this queue. The caller is the producer, or only the caller
    ///    can reach the segment.
    /// 2. No item past `segment` is published.
    unsafe fn set_next(&self, segment: Segment<T>, next: Option<Segment<T>>) {
        // SAFETY: by (1) the segment lives; its node was initialised by `allocate`.
        let node = unsafe { segment.0.as_ref() };
        node.next.with_mut(|place| {
            // SAFETY: by (2) the consumer does not read this word yet.
            unsafe { *place = next };
        });
    }

    /// Publishes the items before `tail` to the consumer.
    #[inline(always)]
    pub(super) fn publish_tail(&self, tail: usize) {
        // Release: pairs with the Acquire in load_tail; publishes the slots written before `tail`,
        // and the links to the segments that they are in. [US1]
        self.header().tail.store(tail, Ordering::Release);
    }

    /// The producer's published count, for the consumer.
    #[inline(always)]
    pub(super) fn load_tail(&self) -> usize {
        // Acquire: pairs with the Release in publish_tail; the items before `tail` and the links of
        // their segments are visible. [US2]
        self.header().tail.load(Ordering::Acquire)
    }

    /// Publishes the number of popped items to the producer.
    #[inline(always)]
    pub(super) fn publish_head(&self, head: usize) {
        // Relaxed: only for `len`; slots return to the producer with their segment, by `spare`.
        // [US3]
        self.header().head.store(head, Ordering::Relaxed);
    }

    /// The consumer's published count, for the producer.
    #[inline(always)]
    pub(super) fn load_head(&self) -> usize {
        // Relaxed: as above. [US4]
        self.header().head.load(Ordering::Relaxed)
    }

    /// Which halves are dropped.
    #[inline(always)]
    pub(super) fn gone(&self) -> &Gone {
        &self.header().cold.gone
    }

    /// Removes the spare segment, for the producer.
    fn take_spare(&self) -> Option<Segment<T>> {
        let spare = &self.header().spare;
        // Acquire: pairs with the Release in give_back; the consumer's reads of the segment are
        // over before the producer writes there again. [US7]
        let node = NonNull::new(spare.load(Ordering::Acquire))?;
        // Relaxed: the consumer only learns from it that there is no spare, and then stores the
        // next one. [US8]
        spare.store(ptr::null_mut(), Ordering::Relaxed);
        Some(Segment(node.cast()))
    }
}

impl<T, A: Allocator> Shared<T, A> {
    /// Allocates the header and one segment of `slots` slots from `alloc`; both counts begin at
    /// `start`.
    pub(super) fn new(
        slots: usize,
        start: usize,
        alloc: A,
    ) -> Result<(Self, Place<T>), AllocError> {
        // A size that overflows panics before anything is allocated.
        let _ = Self::layout(slots);
        let header = alloc
            .allocate(Layout::new::<Header<T, A>>())?
            .cast::<Header<T, A>>();
        let segment = match Self::allocate(slots, &alloc) {
            Ok(segment) => segment,
            Err(error) => {
                // SAFETY: the memory came from this allocator with this layout, and nothing points
                // there.
                unsafe { deallocate(&alloc, header.cast(), Layout::new::<Header<T, A>>()) };
                return Err(error);
            }
        };
        let value = Header {
            tail: CachePadded::new(AtomicUsize::new(start)),
            head: CachePadded::new(AtomicUsize::new(start)),
            spare: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            cold: CachePadded::new(Cold {
                gone: Gone::new(),
                left: UnsafeCell::new(None),
                alloc,
            }),
        };
        // SAFETY: the memory is for a header, aligned for it, and ours alone.
        unsafe { header.write(value) };
        let shared = Self {
            header,
            slots,
            owns: PhantomData,
        };
        Ok((shared, Place { segment, slot: 0 }))
    }

    /// Allocates a segment that links to none.
    fn allocate(slots: usize, alloc: &A) -> Result<Segment<T>, AllocError> {
        let (layout, _, marks) = Self::layout(slots);
        let memory = alloc.allocate(layout)?.cast::<u8>();
        let node = memory.cast::<CachePadded<Node<T>>>();
        let value = CachePadded::new(Node {
            next: UnsafeCell::new(None),
        });
        // SAFETY: the segment begins with room for a node, aligned for it, and is ours alone.
        unsafe { node.write(value) };
        // Marks of no size need no writing.
        if size_of::<Mark>() != 0 {
            // SAFETY: the marks begin at this offset of the segment, by its layout.
            let marks = unsafe { memory.add(marks) }.cast::<Mark>();
            for slot in 0..slots {
                // SAFETY: `slot` is below the number of marks.
                let mark = unsafe { marks.add(slot) };
                // SAFETY: the address is aligned for a mark by the layout, and the segment is ours
                // alone.
                unsafe { mark.write(Mark::new(())) };
            }
        }
        Ok(Segment(node))
    }

    /// # Safety
    ///
    /// 1. The segment came from `allocate` with the allocator of this queue, and no half reaches it
    ///    any more.
    unsafe fn free(&self, segment: Segment<T>) {
        let (layout, _, marks) = Self::layout(self.slots);
        if core::mem::needs_drop::<Mark>() {
            // SAFETY: the marks begin at this offset of the segment, by its layout.
            let marks = unsafe { segment.0.cast::<u8>().add(marks) }.cast::<Mark>();
            let marks = ptr::slice_from_raw_parts_mut(marks.as_ptr(), self.slots);
            // SAFETY: they were initialised by `allocate` and are not used again. Only a model
            // needs the drop.
            unsafe { ptr::drop_in_place(marks) };
        }
        // SAFETY: the node was initialised by `allocate` and is not used again.
        unsafe { ptr::drop_in_place(segment.0.as_ptr()) };
        // SAFETY: by (1).
        unsafe { deallocate(&self.header().cold.alloc, segment.0.cast(), layout) };
    }

    /// Links a segment after `last`: the spare one, or a new one.
    ///
    /// # Safety
    ///
    /// 1. The caller is the producer, and `last` is the segment that it has filled.
    #[cold]
    pub(super) unsafe fn extend(&self, last: Segment<T>) -> Result<Place<T>, AllocError> {
        let segment = match self.take_spare() {
            Some(spare) => {
                // SAFETY: (1) the consumer no longer accesses the spare, so only the caller does;
                // (2) it holds no item.
                unsafe { self.set_next(spare, None) };
                spare
            }
            None => Self::allocate(self.slots, &self.header().cold.alloc)?,
        };
        // SAFETY: (1) by the caller; (2) the first item of the new segment is still to be written.
        unsafe { self.set_next(last, Some(segment)) };
        Ok(Place { segment, slot: 0 })
    }

    /// Keeps `segment` as the spare if there is none, and frees it otherwise.
    ///
    /// # Safety
    ///
    /// 1. The caller is the consumer, has moved out all items of `segment`, and does not reach it
    ///    again.
    /// 2. The producer has linked a segment after it.
    #[cold]
    pub(super) unsafe fn give_back(&self, segment: Segment<T>) {
        let spare = &self.header().spare;
        // Relaxed: only the caller stores other values than null, and it needs nothing that the
        // producer's null would publish. US8 precedes the store below in the modification order of
        // this word, because this load reads it. [US9]
        if spare.load(Ordering::Relaxed).is_null() {
            // Release: pairs with the Acquire in take_spare; the items of the segment are moved
            // out. [US10]
            spare.store(segment.0.as_ptr().cast(), Ordering::Release);
        } else {
            // SAFETY: by (1) and (2) neither half accesses it again.
            unsafe { self.free(segment) };
        }
    }

    /// Ends the use of this handle by the producer.
    ///
    /// # Safety
    ///
    /// 1. The caller is the producer, and neither it nor this handle is used again.
    /// 2. `tail` is its true count, and it is published.
    pub(super) unsafe fn close_producer(&self, tail: usize) {
        if self.gone().leave(Side::Producer) {
            let head = self.load_head();
            let place = self.header().cold.left.with(|left| {
                // SAFETY: the consumer wrote this before it set its bit in `gone`.
                unsafe { *left }
            });
            let place = place.expect("spsc: a consumer says where it stood");
            // SAFETY: both halves are gone; the consumer left that place with that count.
            unsafe { self.end(place, head, tail) };
        }
    }

    /// Ends the use of this handle by the consumer.
    ///
    /// # Safety
    ///
    /// 1. The caller is the consumer, and neither it nor this handle is used again.
    /// 2. `place` and `head` are its true place and count, and the count is published.
    pub(super) unsafe fn close_consumer(&self, place: Place<T>, head: usize) {
        self.header().cold.left.with_mut(|left| {
            // SAFETY: the producer reads this only after it finds the consumer dropped, which
            // follows.
            unsafe { *left = Some(place) };
        });
        if self.gone().leave(Side::Consumer) {
            let tail = self.load_tail();
            // SAFETY: both halves are gone; the rest by (2).
            unsafe { self.end(place, head, tail) };
        }
    }

    /// Drops what is queued and frees everything.
    ///
    /// # Safety
    ///
    /// Both halves are dropped; the items `head..tail` are queued, the first of them at `place`.
    unsafe fn end(&self, place: Place<T>, head: usize, tail: usize) {
        let mut rest = Rest {
            shared: self,
            place,
            left: tail.wrapping_sub(head),
        };
        // `Rest` frees everything, also while the panic of a destructor unwinds.
        drop_each(|| rest.next());
    }
}

/// The rest of a queue of which both halves are dropped: items, and memory to free after them.
struct Rest<'a, T, A: Allocator> {
    shared: &'a Shared<T, A>,
    place: Place<T>,
    left: usize,
}

impl<T, A: Allocator> Rest<'_, T, A> {
    fn next(&mut self) -> Option<T> {
        if self.left == 0 {
            return None;
        }
        if self.place.slot == self.shared.slots {
            self.free_segment();
        }
        let place = self.place;
        self.place.slot += 1;
        self.left -= 1;
        self.shared.note_read(place, 1);
        // SAFETY: both halves are gone and this item is queued; it was counted as gone first, so
        // it is moved out once.
        Some(unsafe { self.shared.slot(place.segment, place.slot).read() })
    }

    /// Moves to the next segment, if there is one, and frees the previous one.
    fn free_segment(&mut self) -> bool {
        let segment = self.place.segment;
        // SAFETY: both halves are gone.
        let next = unsafe { self.shared.next(segment) };
        // SAFETY: both halves are gone, and this one goes on.
        unsafe { self.shared.free(segment) };
        match next {
            Some(segment) => self.place = Place { segment, slot: 0 },
            None => debug_assert!(self.left == 0, "spsc: an item is in a segment"),
        }
        next.is_some()
    }
}

impl<T, A: Allocator> Drop for Rest<'_, T, A> {
    fn drop(&mut self) {
        while self.free_segment() {}
        if let Some(spare) = self.shared.take_spare() {
            // SAFETY: both halves are gone.
            unsafe { self.shared.free(spare) };
        }
        // SAFETY: the header was initialised by `new`, both halves are gone, and nothing reads it
        // again.
        let header = unsafe { self.shared.header.read() };
        let alloc = header.cold.into_inner().alloc;
        // SAFETY: the header came from this allocator with this layout, and nothing points there
        // any more.
        unsafe {
            deallocate(
                &alloc,
                self.shared.header.cast(),
                Layout::new::<Header<T, A>>(),
            )
        };
    }
}
