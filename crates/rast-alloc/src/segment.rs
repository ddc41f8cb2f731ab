//! Segments: the units of address space that an owner maps.
//!
//! ```text
//!   multiple of SEGMENT
//!   ┌───────────────────────────┬────────────────────┬───────────────┬─────┬───────────────┐
//!   │ header, about 100 KiB     │ spans              │ slot 2        │ ... │ slot 63       │
//!   │ owner, slabs, tags, links │ (rest of slot 1)   │ 64 KiB        │     │               │
//!   └───────────────────────────┴────────────────────┴───────────────┴─────┴───────────────┘
//! ```
//!
//! | field | written | read |
//! | --- | --- | --- |
//! | `public.owner` | when the segment is mapped, before any block of it is allocated | by any thread that frees a block |
//! | `public.classes` | by the owner, when a slab is opened or closed; atomic | by other threads that free a block |
//! | `previous`, `next` | by the owner | by the owner |
//! | `is_empty` | by the owner: set while one free span fills the segment | by the owner |
//! | `slabs`, `tags` | by the owner | by the owner; only the used part is touched |
//!
//! 1. A segment starts at a multiple of its length. So the address of any block, masked, is the
//!    address of its header.
//! 2. Every byte after the header belongs to a span ([`crate::span`]); a slab is a span of a whole
//!    slot.
//! 3. The owner never changes: when a thread ends, its heap stays and is adopted as a whole. The
//!    publication of a block to another thread also publishes the header. So a thread that has a
//!    block may read the owner without an ordering of its own.
//! 4. A segment is unmapped when one free span fills it; then no block of it is in use.

use core::cell::Cell;
use core::mem::offset_of;
use core::ptr::{self, NonNull};

use crate::geometry::{GRAIN, HARDENED, MARKS, SEGMENT, SLOT, SLOTS, TAGS};
use crate::hardened::marks::{Mark, Marks};
use crate::hardened::page_map::{self, OwnSegments};
use crate::os::{self, Access, GUARD, PAGE};
use crate::primitive::CachePadded;
use crate::primitive::sync::atomic::{AtomicU8, Ordering};
use crate::size_class;
use crate::slab::Slab;
use crate::span::{SpanIndex, Tags};

/// Where the first span starts.
const FIRST: usize = if GUARD == 0 {
    size_of::<Segment>().next_multiple_of(GRAIN)
} else {
    size_of::<Segment>().next_multiple_of(PAGE) + GUARD
};
/// Where the last span ends.
const END: usize = SEGMENT - GUARD;

/// The part of a header that other threads read.
struct Public {
    owner: *const (),
    /// The classes of the slabs in the slots, 0 for none; of length zero except in a hardened
    /// build.
    classes: [AtomicU8; SLOTS * HARDENED as usize],
}

/// The header of a segment.
#[repr(C)]
pub(crate) struct Segment {
    /// On cache lines of its own: other threads read it, and only atomics in it change.
    public: CachePadded<Public>,
    previous: Cell<*const Segment>,
    next: Cell<*const Segment>,
    is_empty: Cell<bool>,
    slabs: [Slab; SLOTS],
    tags: Tags,
    /// The marks of the blocks; of length zero except in a hardened build.
    marks: Marks,
}

const _: () = assert!(SEGMENT.is_multiple_of(PAGE));
const _: () = assert!(offset_of!(Segment, tags) == TAGS && offset_of!(Segment, marks) == MARKS);

impl Segment {
    /// Length of the span that fills an empty segment.
    pub(crate) const BYTES: usize = END - FIRST;

    /// Maps a segment for `owner` and adds its bytes to `spans`; `None` if the system has no
    /// memory.
    pub(crate) fn map(owner: *const (), unit: u16, spans: &SpanIndex) -> Option<NonNull<Self>> {
        let start = os::map(SEGMENT, SEGMENT)?;
        if HARDENED && !guard(start, unit) {
            // SAFETY: the mapping was made above, and no thread knows it.
            unsafe { os::unmap(start, SEGMENT, SEGMENT) };
            return None;
        }
        // Remote-free batches store distances between blocks, from which the owner computes the
        // addresses.
        start.expose_provenance();
        let segment = start.cast::<Self>();
        // SAFETY: the mapping is new, aligned to its length, and longer than the header, for which
        // zeroes are a value: null pointers, numbers, slabs that serve no class, tags that are not
        // read before they are written.
        let header = unsafe { &mut *segment.as_ptr() };
        header.public.owner = owner;
        header.is_empty.set(true);
        // SAFETY: the first span starts behind the header, inside the mapping.
        let first = unsafe { start.add(FIRST) };
        // SAFETY: the bytes behind the header are new, zero, and used by no thread; the mapping
        // stays until it is unmapped below, after the span was removed.
        unsafe { spans.format(first, Self::BYTES) };
        Some(segment)
    }

    /// Unmaps a segment.
    ///
    /// # Safety
    ///
    /// 1. `segment` is mapped, its spans were withdrawn, and no thread uses it or a block of it any
    ///    more.
    pub(crate) unsafe fn unmap(segment: NonNull<Self>) {
        if HARDENED {
            page_map::note(segment.addr().get(), page_map::NONE);
        }
        // SAFETY: obligation 1; `map` mapped exactly this.
        unsafe { os::unmap(segment.cast(), SEGMENT, SEGMENT) };
    }

    /// Returns the segment that contains `address`.
    #[inline(always)]
    pub(crate) fn of<T>(address: *mut T) -> *const Self {
        address.map_addr(|address| address & !(SEGMENT - 1)).cast()
    }

    /// Returns the owner of the segment that contains a block.
    ///
    /// # Safety
    ///
    /// 1. `block` lies in a mapped segment and was given to the caller.
    #[inline(always)]
    pub(crate) unsafe fn owner_of<T>(block: *mut T) -> *const () {
        let segment = Self::of(block);
        // SAFETY: the header is at the masked address, obligation 1 and rule 1; threads write only
        // to the atomics in this part of it.
        let public = unsafe { &(*segment).public };
        // The owner was written before the block was given out, and never after: rule 3.
        public.owner
    }

    /// Returns the class entry of the slot that contains an address, in a hardened build.
    ///
    /// # Safety
    ///
    /// 1. `address` lies in a segment that is mapped for `'a`.
    #[inline(always)]
    unsafe fn class_at<'a, T>(address: *mut T) -> Option<&'a AtomicU8> {
        // SAFETY: the header is at the masked address, obligation 1; threads write only to the
        // atomics in this part of it.
        let public = unsafe { &(*Self::of(address)).public };
        public.classes.get(address.addr() % SEGMENT / SLOT)
    }

    /// Publishes the class of a slab to other threads, 0 for none; only in a hardened build.
    ///
    /// # Safety
    ///
    /// 1. `slab` is the start of a slot in a mapped segment that the caller has.
    pub(crate) unsafe fn note_class(slab: *mut u8, class: usize) {
        // SAFETY: obligation 1.
        if let Some(place) = unsafe { Self::class_at(slab) } {
            // Relaxed: whatever brings a block of the slab to a thread also publishes this. [AH24]
            place.store(class as u8, Ordering::Relaxed);
        }
    }

    /// Returns `true` if a block of a class may start at an address, by the class of its slot. Any
    /// thread may call it, in a hardened build.
    ///
    /// # Safety
    ///
    /// 1. `address` lies in a mapped segment.
    #[inline(always)]
    pub(crate) unsafe fn is_start<T>(address: *mut T, class: usize) -> bool {
        // SAFETY: obligation 1.
        let Some(place) = (unsafe { Self::class_at(address) }) else {
            return false;
        };
        // Relaxed: as for [AH24]; for an address that is no block of a slab any result is valid.
        // [AH25]
        usize::from(place.load(Ordering::Relaxed)) == class
            && size_class::is_start(class, address.addr() % SLOT)
    }

    /// Returns the slab of the slot that contains `address`; it has no class if no slab is open
    /// there.
    ///
    /// # Safety
    ///
    /// 1. `address` lies in a mapped segment that the caller has.
    #[inline(always)]
    pub(crate) unsafe fn slab_of<'a, T>(address: *mut T) -> &'a Slab {
        // SAFETY: the header is at the masked address, obligation 1; only the caller's thread uses
        // the slabs.
        let segment = unsafe { &*Self::of(address) };
        &segment.slabs[address.addr() % SEGMENT / SLOT]
    }

    /// Records that one free span fills the segment.
    pub(crate) fn enter_empty(&self) {
        self.is_empty.set(true);
    }

    /// Records that a span of the segment is used. Returns `true` if one free span filled it
    /// before.
    #[inline]
    pub(crate) fn leave_empty(&self) -> bool {
        self.is_empty.replace(false)
    }

    /// Returns the start of the segment's first span.
    #[cfg(test)]
    pub(crate) fn first(segment: NonNull<Self>) -> NonNull<u8> {
        // SAFETY: the first span starts behind the header.
        unsafe { segment.cast::<u8>().add(FIRST) }
    }
}

/// Enters a new segment into the page map, and forbids access to the pages before and behind its
/// spans. Returns `false` if the page map does not cover its address.
fn guard(start: NonNull<u8>, unit: u16) -> bool {
    for at in [FIRST - GUARD, END] {
        // SAFETY: the page lies in the segment.
        let page = unsafe { start.add(at) };
        // SAFETY: the segment is new; the page is part of neither its header nor its spans.
        let _ = unsafe { os::protect(page, GUARD, Access::Forbidden) };
    }
    page_map::note(start.addr().get(), unit)
}

/// All segments of one owner, linked through their headers.
pub(crate) struct Segments {
    first: Cell<*const Segment>,
    own: OwnSegments,
}

impl Segments {
    pub(crate) const fn new() -> Self {
        Self {
            first: Cell::new(ptr::null()),
            own: OwnSegments::none(),
        }
    }

    /// Returns `true` if a block is known to lie in one of them, in a hardened build. A block may
    /// lie in one even if the result is `false`.
    #[inline(always)]
    pub(crate) fn has(&self, block: *mut u8) -> bool {
        self.own.has(block.addr())
    }

    /// The mark of a block, in a hardened build.
    ///
    /// # Safety
    ///
    /// 1. The block is known to lie in one of them, by [`has`](Self::has).
    #[inline(always)]
    pub(crate) unsafe fn mark_of(&self, block: *mut u8) -> Mark<'_> {
        // SAFETY: obligation 1.
        unsafe { self.own.mark_of(block) }
    }

    /// The number of segments.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        let mut count = 0;
        self.each(|_| count += 1);
        count
    }

    pub(crate) fn link(&self, segment: &Segment) {
        segment.next.set(self.first.get());
        // SAFETY: linked segments are mapped, and their links are this owner's.
        if let Some(next) = unsafe { self.first.get().as_ref() } {
            next.previous.set(segment);
        }
        self.first.set(segment);
        // SAFETY: a linked segment is mapped until it is unlinked.
        unsafe { self.own.note(ptr::from_ref(segment).addr()) };
    }

    pub(crate) fn unlink(&self, segment: &Segment) {
        self.own.forget(ptr::from_ref(segment).addr());
        let (previous, next) = (segment.previous.get(), segment.next.get());
        // SAFETY: as in `link`.
        match unsafe { previous.as_ref() } {
            Some(previous) => previous.next.set(next),
            None => self.first.set(next),
        }
        // SAFETY: as in `link`.
        if let Some(next) = unsafe { next.as_ref() } {
            next.previous.set(previous);
        }
        segment.previous.set(ptr::null());
        segment.next.set(ptr::null());
    }

    /// Removes one.
    pub(crate) fn pop(&self) -> Option<NonNull<Segment>> {
        // SAFETY: linked segments are mapped.
        let segment = unsafe { self.first.get().as_ref() }?;
        self.unlink(segment);
        NonNull::new(ptr::from_ref(segment).cast_mut())
    }

    /// Calls `f` on each; `f` may remove and unmap it.
    #[cfg(test)]
    pub(crate) fn each(&self, mut f: impl FnMut(NonNull<Segment>)) {
        let mut next = self.first.get();
        // SAFETY: linked segments are mapped.
        while let Some(segment) = unsafe { next.as_ref() } {
            next = segment.next.get();
            f(NonNull::from(segment));
        }
    }
}
