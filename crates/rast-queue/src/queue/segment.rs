//! Segments: the memory blocks of the queue. A segment has slots, and a counter that tells when it
//! may be reused.
//!
//! ```text
//!   header, own lines                        slots, in the order of their tickets
//!  ┌──────┬─────────┬───────┬────────────┐  ┌───────┬───────┬───────┬─ ─ ─┬───────┐
//!  │ next │ control │ swept │ limbo_next │  │ v │ s │ v │ s │ v │ s │     │ v │ s │
//!  └──────┴─────────┴───────┴────────────┘  └───────┴───────┴───────┴─ ─ ─┴───────┘
//! ```
//!
//! | state of a slot | set by | meaning |
//! | --- | --- | --- |
//! | 0 | the sweep, which clears the slots of a retired segment | neither side has changed the state |
//! | WRITTEN | the producer, by a swap, after it copied the value | the consumer may move the value out |
//! | GIVEN_UP | the consumer, by a compare-exchange | the consumer has left; the producer keeps its value |
//! | DONE | the side that finishes last | neither side accesses the slot again |
//!
//! The first read-modify-write that changes the state from 0 decides between WRITTEN and GIVEN_UP.
//! DONE is a plain store, because only one side still uses the slot by then: the consumer after
//! WRITTEN, the producer after GIVEN_UP.
//!
//! As soon as a thread has stored DONE or released a pin, another thread may free the segment, even
//! before the call of the first thread returns. So the functions that store DONE or release a pin
//! take the address of the segment or slot, and borrow one field for one access at a time. A
//! reference as an argument would require that the memory lives as long as the call.
//!
//! `control` is a signed sum. It is zero when neither `tail` nor `head` leads to the segment and no
//! pin is left. It starts at two SOURCEs (a large constant), one for each of the two words. The
//! thread that moves a word to the next segment adds the number of pins taken through the word and
//! subtracts one SOURCE. Each pin that is released subtracts one.

use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use crate::alloc::{AllocError, Allocator, Layout};
use crate::primitive::cell::UnsafeCell;
use crate::primitive::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use crate::primitive::{Link, Linked, TaggedPtr};

/// State of a slot that holds its value.
const WRITTEN: u8 = 1;
/// State of a slot that both sides have left.
const DONE: u8 = 2;
/// State of a slot whose consumer left before the value was written.
const GIVEN_UP: u8 = 4;

/// What `control` counts for each of the two words while the word may lead to the segment.
pub(super) const SOURCE: usize = 1 << (usize::BITS / 2);

/// Returns the terminal mark. In `next` it says that the queue was closed while its last segment
/// was full, so no segment follows.
pub(super) fn terminal<T>() -> *mut Segment<T> {
    ptr::without_provenance_mut(1)
}

/// A value and its state. `spread` aligns it to eight bytes, so that few small values share a cache
/// line.
#[repr(C)]
pub(super) struct Slot<T> {
    value: UnsafeCell<MaybeUninit<T>>,
    state: AtomicU8,
    spread: [u64; 0],
}

/// The header of a segment; its slots follow it.
#[repr(C, align(128))]
#[cfg_attr(rast_tagged_low, repr(align(16384)))]
pub(super) struct Segment<T> {
    /// The next segment, null, or [`terminal`]. It leaves null once per use; a push that puts an
    /// item back after a panic may replace `terminal` by a link.
    pub(super) next: AtomicPtr<Segment<T>>,
    /// See the module docs.
    control: AtomicUsize,
    /// Number of slots that were found DONE and cleared. Only the thread that owns the retired
    /// segment accesses it.
    swept: UnsafeCell<usize>,
    /// The next segment in limbo; accessed as `swept` is.
    pub(super) limbo_next: UnsafeCell<Link<Segment<T>>>,
    /// Aligns the header for the slots.
    slots: [Slot<T>; 0],
}

// SAFETY: 1. It writes one field of the segment, and calls no user code.
unsafe impl<T> Linked for Segment<T> {
    unsafe fn set_next(node: NonNull<Self>, next: Link<Self>) {
        // SAFETY: the segment is live, and the caller alone owns it.
        let link = unsafe { &(*node.as_ptr()).limbo_next };
        // SAFETY: as above.
        link.with_mut(|link| unsafe { *link = next });
        step!("limbo: linked");
    }
}

impl<T> Slot<T> {
    #[cfg(any(rast_loom, rast_shuttle))]
    fn new() -> Self {
        Self {
            value: UnsafeCell::new(MaybeUninit::uninit()),
            state: AtomicU8::new(0),
            spread: [],
        }
    }

    /// Copies the value at `item` into the slot and publishes it. Returns `false` if the consumer
    /// gave the ticket up: the value still belongs to the caller, and the slot is DONE. The slot
    /// may be freed when this returns.
    ///
    /// # Safety
    ///
    /// 1. The caller claimed the slot's ticket as its producer, and this is its one call for it.
    /// 2. `item` is valid for reads of `T`; the caller gives the value up if this returns `true`.
    #[inline]
    #[must_use]
    pub(super) unsafe fn fill(slot: *const Self, item: *const T) -> bool {
        // SAFETY: by (1) the slot is not DONE before the consumer moves the value out or this call
        // stores DONE.
        let value = unsafe { &(*slot).value };
        value.with_mut(|value| {
            // SAFETY: by (1) no other thread writes here, and the consumer reads only after
            // WRITTEN; by (2).
            unsafe { ptr::copy_nonoverlapping(item, value.cast::<T>(), 1) };
        });
        step!("fill: value copied");
        // SAFETY: as above.
        let state = unsafe { &(*slot).state };
        // AcqRel: publishes the value to the Acquire of the consumer [QU5]; and the accesses of a
        // consumer that gave up happen before the slot's next use. [QU1]
        if state.swap(WRITTEN, Ordering::AcqRel) == 0 {
            step!("fill: written");
            return true;
        }
        step!("fill: given up");
        // Release: pairs with the Acquire of the sweep; the accesses of both sides happen before
        // the slot's next use. [QU2]
        state.store(DONE, Ordering::Release);
        step!("fill: done");
        false
    }

    /// Gives the ticket up unless its value is written. Returns `true` if the ticket is given up;
    /// the slot may then be freed.
    ///
    /// # Safety
    ///
    /// The caller claimed the slot's ticket as its consumer, and has neither taken the value nor
    /// given the ticket up.
    pub(super) unsafe fn give_up(slot: *const Self) -> bool {
        // SAFETY: the slot is not DONE before its consumer has left; until then it is live.
        let state = unsafe { &(*slot).state };
        // Release: pairs with the AcqRel of fill; the caller's accesses to the slot happen before
        // the producer's DONE, and so before the memory is freed. If the state is WRITTEN, Acquire
        // makes the value visible. [QU75]
        state
            .compare_exchange(0, GIVEN_UP, Ordering::Release, Ordering::Acquire)
            .is_ok()
    }

    /// Fills the first slot of a segment that no other thread can reach yet.
    ///
    /// # Safety
    ///
    /// The segment is not linked yet; `item` is valid for reads of `T`.
    pub(super) unsafe fn prefill(&self, item: *const T) {
        // SAFETY: only the caller can reach the segment and its value; `item` is valid for reads.
        self.value.with_mut(|value| unsafe {
            ptr::copy_nonoverlapping(item, value.cast::<T>(), 1);
        });
        // Relaxed: no other thread reaches the segment before it is linked. [QU3]
        self.state.store(WRITTEN, Ordering::Relaxed);
    }

    /// Undoes [`prefill`](Self::prefill) on a segment that was not linked.
    pub(super) fn clear(&self) {
        // Relaxed: as for prefill. [QU4]
        self.state.store(0, Ordering::Relaxed);
    }

    /// Returns whether the value of the slot is written.
    ///
    /// # Safety
    ///
    /// The caller claimed the slot's ticket as its consumer, and has neither taken the value nor
    /// given the ticket up.
    #[inline]
    pub(super) unsafe fn is_written(slot: *const Self) -> bool {
        // SAFETY: the slot is not DONE before its consumer leaves; until then it is live.
        let state = unsafe { &(*slot).state };
        // Acquire: pairs with the Release of fill; the value is visible. [QU5]
        state.load(Ordering::Acquire) & WRITTEN != 0
    }

    /// Moves the value out and stores DONE. The slot may be freed when this returns.
    ///
    /// # Safety
    ///
    /// 1. The caller claimed the slot's ticket as its consumer, and this is its one call for it.
    /// 2. `is_written` returned `true`, or `give_up` returned `false`.
    #[inline]
    pub(super) unsafe fn take(slot: *const Self) -> T {
        // SAFETY: by (1) the slot is not DONE before this call stores DONE; until then it is live.
        let value = unsafe { &(*slot).value };
        // SAFETY: by (2) the producer has written the value; by (1) it is moved out once.
        let item = value.with(|value| unsafe { value.cast::<T>().read() });
        step!("take: value out");
        // SAFETY: as above.
        let state = unsafe { &(*slot).state };
        // Release: pairs with the Acquire of the sweep; the read above happens before the slot's
        // next use. [QU6]
        state.store(DONE, Ordering::Release);
        step!("take: done");
        item
    }
}

impl<T> Segment<T> {
    /// Returns the layout of a segment, or `None` if it is larger than `isize::MAX` bytes.
    pub(super) fn layout(slots: usize) -> Option<Layout> {
        let slots = Layout::array::<Slot<T>>(slots).ok()?;
        let (layout, begin) = Layout::new::<Self>().extend(slots).ok()?;
        debug_assert_eq!(
            begin,
            size_of::<Self>(),
            "the header is aligned for the slots"
        );
        Some(layout)
    }

    /// Allocates a segment with all slots in state 0, which the caller owns. Fails without a call
    /// of the allocator if the segment is larger than `isize::MAX` bytes.
    ///
    /// # Panics
    ///
    /// If the address of the memory does not fit beside a count; the message names the address.
    pub(super) fn allocate<A: Allocator>(alloc: &A, slots: usize) -> Result<*mut Self, AllocError> {
        let layout = Self::layout(slots).ok_or(AllocError)?;
        let segment = alloc.allocate_zeroed(layout)?.cast::<Self>().as_ptr();
        let header = Self {
            next: AtomicPtr::new(ptr::null_mut()),
            control: AtomicUsize::new(2 * SOURCE),
            swept: UnsafeCell::new(0),
            limbo_next: UnsafeCell::new(Link::NULL),
            slots: [],
        };
        // SAFETY: the block has the layout, which begins with the header, and only the caller can
        // reach it.
        unsafe { segment.write(header) };
        // A zeroed slot is a slot in state 0 without a value. Only the atomics of a model need to
        // be constructed.
        #[cfg(any(rast_loom, rast_shuttle))]
        for index in 0..slots {
            // SAFETY: the slots follow the header, in the same block.
            let slot = unsafe { segment.add(1).cast::<Slot<T>>().add(index) };
            // SAFETY: it lies inside the block, which only the caller can reach.
            unsafe { slot.write(Slot::new()) };
        }
        if let Err(refused) = TaggedPtr::try_new(segment, 0) {
            // SAFETY: it was allocated above with that many slots, and no other thread can reach
            // it.
            unsafe { Self::deallocate(segment, alloc, slots) };
            panic!("queue: {refused}");
        }
        Ok(segment)
    }

    /// # Safety
    ///
    /// 1. `segment` is from `allocate` with this allocator and number of slots, and only the caller
    ///    can reach it.
    /// 2. The values that slots still hold are leaked.
    pub(super) unsafe fn deallocate<A: Allocator>(segment: *mut Self, alloc: &A, slots: usize) {
        #[cfg(any(rast_loom, rast_shuttle))]
        for index in 0..slots {
            // SAFETY: by (1) the slots follow the header, in the same block.
            let slot = unsafe { segment.add(1).cast::<Slot<T>>().add(index) };
            // SAFETY: by (1) the slot was initialised and only the caller can reach it.
            unsafe { slot.drop_in_place() };
        }
        // SAFETY: by (1) the header was initialised and only the caller can reach it.
        unsafe { segment.drop_in_place() };
        let block = NonNull::new(segment.cast::<u8>());
        let (Some(block), Some(layout)) = (block, Self::layout(slots)) else {
            unreachable!("a segment that was allocated is not null and has a layout");
        };
        // SAFETY: by (1).
        unsafe { crate::abort::deallocate(alloc, block, layout) };
    }

    /// Returns the slot of a ticket. `allocate` initialised it, and from then on it is shared.
    ///
    /// # Safety
    ///
    /// 1. `segment` is live: the caller has the ticket `index`, or alone owns the segment.
    /// 2. `index` is below the number of slots.
    #[inline]
    pub(super) unsafe fn slot(segment: *mut Self, index: usize) -> *const Slot<T> {
        // SAFETY: the slots follow the header, in the same block.
        let slots = unsafe { segment.add(1) }.cast::<Slot<T>>();
        // SAFETY: by (2) the slot lies inside the block.
        unsafe { slots.add(index) }
    }

    /// Adds `change` to `control`, wrapping. Returns `true` if the result is zero: the caller then
    /// owns the segment, except for the slots of tickets that are not DONE. Otherwise the segment
    /// may be freed when this returns.
    ///
    /// # Safety
    ///
    /// `segment` is live until `change` is added.
    pub(super) unsafe fn settle(segment: *const Self, change: usize) -> bool {
        // SAFETY: the caller's obligation.
        let control = unsafe { &(*segment).control };
        // AcqRel: what other threads did under their pins and moves happens before the change to
        // zero; what the caller did happens before the change to zero by another thread. [QU8]
        control
            .fetch_add(change, Ordering::AcqRel)
            .wrapping_add(change)
            == 0
    }

    /// Clears slots from where the last sweep ended. Returns `true` if all slots are clear, and
    /// `false` at the first slot that is not DONE.
    ///
    /// # Safety
    ///
    /// `settle` has returned `true` in this use of `segment`, which has `slots` slots, and the
    /// caller alone owns the segment.
    pub(super) unsafe fn sweep(segment: *mut Self, slots: usize) -> bool {
        // SAFETY: the caller owns the segment.
        let header = unsafe { &*segment };
        // SAFETY: only the owner of the segment reads or writes it.
        let mut swept = header.swept.with(|swept| unsafe { *swept });
        while swept < slots {
            // SAFETY: the caller owns the segment; the index is below the number of slots.
            let slot = unsafe { Self::slot(segment, swept) };
            // SAFETY: as above, and only the owner frees the segment.
            let slot = unsafe { &*slot };
            // Acquire: pairs with the Releases of DONE; the accesses of producer and consumer
            // happen before the next use of the slot, or before the memory is freed. [QU9]
            if slot.state.load(Ordering::Acquire) & DONE == 0 {
                break;
            }
            // Relaxed: published with the segment, by its link or by the store to `spare`. [QU10]
            slot.state.store(0, Ordering::Relaxed);
            swept += 1;
            step!("sweep: a slot cleared");
        }
        let is_clear = swept == slots;
        // SAFETY: as for the read.
        header
            .swept
            .with_mut(|at| unsafe { *at = if is_clear { 0 } else { swept } });
        is_clear
    }

    /// Resets the header of a swept segment.
    pub(super) fn reset(&self) {
        // Relaxed: the caller alone owns the segment; published as the slots are. [QU11]
        self.next.store(ptr::null_mut(), Ordering::Relaxed);
        // Relaxed: as above. [QU12]
        self.control.store(2 * SOURCE, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::super::Queue;
    use super::super::push::{Admission, Refusal};
    use super::*;
    use crate::alloc::Global;
    use core::mem::ManuallyDrop;

    /// As large as a value may be on the target, nearly; there is never one.
    type Great = [u8; isize::MAX as usize / 8];

    #[test]
    fn a_segment_larger_than_isize_max_is_lack_of_memory() {
        assert_eq!(Segment::<u64>::layout(usize::MAX / 8), None);
        assert!(Segment::<u64>::allocate(&Global, usize::MAX / 8).is_err());
        assert_eq!(Segment::<Great>::layout(16), None);
        // Not dropped: that would name items on the stack.
        let queue = ManuallyDrop::new(Queue::<Great>::with_segment_slots(16));
        for _ in 0..2 {
            // SAFETY: nothing is read: without a segment there is no place to copy the item to.
            let outcome = unsafe { queue.push_from(ptr::dangling(), Admission::IfOpen) };
            assert!(matches!(outcome, Err(Refusal::NoMemory)));
        }
        assert!(queue.is_empty());
    }
}
