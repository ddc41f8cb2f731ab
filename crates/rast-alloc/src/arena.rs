//! An arena: all levels of one owner, from the lists of blocks down to the segments.
//!
//! ```text
//!   level 0   lists     free blocks; per class a list that is pushed and popped, and a spare list
//!   level 1   slabs     [slab]      equal blocks in a 64 KiB slot, for classes up to 8 KiB
//!   level 2   spans     [span]      boundary tags, two-level bitmap; up to 1/4 segment
//!   level 3   segments  [segment]   4 MiB of the system's address space
//!   beside    large     [large, mapping_cache]  a mapping for each block, and some cached ones
//! ```
//!
//! An allocation pops from the list of its class, and a free pushes there. The layout that Rust
//! passes determines the class, so neither operation touches a header or a slab. An empty list is
//! refilled from the spare list, then from a slab. A full list becomes the spare list, if its class
//! has no spare list. If both lists are full, a freed block goes directly to its slab.
//!
//! An arena does not synchronise threads: its fields are cells, and one thread at a time uses them.
//! Other threads read only its statistics, which are atomic ([`Counter`]).

use core::cell::Cell;
use core::ptr::{self, NonNull};

use crate::Layout;
use crate::block::Block;
use crate::geometry::{GRAIN, HARDENED, SEGMENT, SLOT};
use crate::hardened;
use crate::hardened::link::Keys;
use crate::hardened::marks::{self, FREED, Mark};
use crate::hardened::page_map::Number;
use crate::large::LargeBlocks;
use crate::level::SLOTS;
use crate::low_water::LowWater;
use crate::mapping_cache::MappingCache;
use crate::primitive::Counter;
use crate::segment::{Segment, Segments};
use crate::size_class::{CLASSES, SLAB_CLASSES, list_limit, size_of_class};
use crate::slab::SlabList;
use crate::span::{Span, SpanIndex, bytes_for_class};

mod accept;
mod call;
mod check;
#[cfg(test)]
mod fragmentation;
mod membership;
mod purge;
mod reported;
#[cfg(test)]
mod tests;

#[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
pub(crate) use reported::recomputes;
#[cfg(test)]
pub(crate) use tests::is_zero;

pub(crate) use accept::Run;
pub(crate) use check::{check_class, check_given, check_in_place, check_span};
pub(crate) use purge::StepLimit;

/// A class's list and sums.
///
/// Blocks in the list = `given` − `taken` + blocks that slow paths added − blocks that they
/// removed. The list is full when `given` − `taken` reaches `bound`: a slow path that adds blocks
/// lowers `bound`, and one that removes blocks raises it. So the fast paths count only what the
/// statistics need.
#[repr(C)]
pub(crate) struct Slot {
    head: Cell<*mut Block>,
    /// Blocks allocated by the owner, since the beginning.
    pub(crate) taken: Counter,
    /// Blocks freed by the owner, since the beginning.
    pub(crate) given: Counter,
    bound: Cell<i64>,
}

/// The spare list of a class, and its length.
struct Spare {
    head: Cell<*mut Block>,
    count: Cell<usize>,
    /// The number of allocations and frees of the class until the last decay pass.
    calls: Cell<u64>,
}

/// What an arena reported to the process about its bytes in use (file `reported.rs`).
struct Reported {
    bytes: Cell<u64>,
    /// Bytes that slow paths may free before this is recomputed.
    margin: Cell<i64>,
    /// The bytes in use at which it is recomputed.
    recompute_at: Cell<u64>,
    /// Bytes that the fast paths may put into remote-free batches.
    batch_reserve: Cell<u64>,
    /// Corrections that are left before the next recomputation.
    corrections_left: Cell<u32>,
}

impl Reported {
    /// The value of an arena that reports nothing.
    const fn never() -> Self {
        Self {
            bytes: Cell::new(0),
            // Never used up in the life of a process.
            margin: Cell::new(i64::MAX),
            recompute_at: Cell::new(0),
            batch_reserve: Cell::new(0),
            corrections_left: Cell::new(0),
        }
    }

    /// The value of an arena that starts to report in its first slow path.
    const fn new() -> Self {
        Self {
            margin: Cell::new(-1),
            ..Self::never()
        }
    }
}

/// The levels of one owner.
#[repr(C, align(128))]
pub(crate) struct Arena {
    slots: [Slot; SLOTS],
    /// Bytes requested by the owner, since the beginning.
    pub(crate) bytes_taken: Counter,
    /// Bytes of the blocks that the owner freed, of any heap, since the beginning.
    pub(crate) bytes_given: Counter,
    /// Blocks that changed their size.
    pub(crate) reallocations: Counter,
    /// Size changes that were counted as an allocation and a free.
    pub(crate) moves: Counter,
    /// Bytes of segments and large mappings, as a wrapping sum.
    pub(crate) reserved: Counter,
    reported: Reported,
    number: Number,
    keys: Keys,
    pub(crate) spans: SpanIndex,
    /// The owner that the headers of the segments name.
    owner: Cell<*const ()>,
    segments: Segments,
    /// Segments that one free span fills.
    empty_segments: Cell<usize>,
    /// The low-water mark of `empty_segments`.
    empty_low_water: LowWater,
    ticks: Cell<u32>,
    /// Empty segments that the next steps return, if they stay empty.
    unneeded: Cell<usize>,
    larges: LargeBlocks,
    mapping_cache: MappingCache,
    slabs: [SlabList; SLAB_CLASSES],
    spares: [Spare; CLASSES],
}

impl Slot {
    const fn new(class: usize) -> Self {
        Self {
            head: Cell::new(ptr::null_mut()),
            taken: Counter::new(),
            given: Counter::new(),
            bound: Cell::new(if class < CLASSES {
                list_limit(class) as i64
            } else {
                0
            }),
        }
    }

    /// `given` − `taken`.
    #[inline(always)]
    fn excess(&self) -> i64 {
        let excess = self.given.get().wrapping_sub(self.taken.get());
        excess.cast_signed()
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.excess() >= self.bound.get()
    }

    /// How many more blocks fit into the list.
    #[inline(always)]
    fn room(&self) -> i64 {
        self.bound.get() - self.excess()
    }

    /// The number of blocks in the list.
    fn len(&self, class: usize) -> usize {
        (self.excess() - self.bound.get() + list_limit(class) as i64) as usize
    }

    /// Records that `count` blocks were added to the list other than by freeing.
    #[inline]
    fn added(&self, count: usize) {
        self.bound.set(self.bound.get() - count as i64);
    }

    /// Records that `count` blocks were removed from the list other than by allocation.
    #[inline]
    fn removed(&self, count: usize) {
        self.bound.set(self.bound.get() + count as i64);
    }
}

impl Arena {
    /// Makes an arena without segments. It must not be moved once it has one, nor used before its
    /// owner is set.
    pub(crate) const fn new(larges: LargeBlocks) -> Self {
        let mut slots = [const { Slot::new(0) }; SLOTS];
        let mut class = 0;
        while class < SLOTS {
            slots[class] = Slot::new(class);
            class += 1;
        }
        Self {
            slots,
            bytes_taken: Counter::new(),
            bytes_given: Counter::new(),
            reallocations: Counter::new(),
            moves: Counter::new(),
            reserved: Counter::new(),
            reported: if larges.is_untracked() {
                Reported::new()
            } else {
                Reported::never()
            },
            number: Number::none(),
            keys: Keys::none(),
            spans: SpanIndex::new(),
            owner: Cell::new(ptr::null()),
            segments: Segments::new(),
            empty_segments: Cell::new(0),
            empty_low_water: LowWater::new(),
            ticks: Cell::new(0),
            unneeded: Cell::new(0),
            larges,
            mapping_cache: MappingCache::new(),
            slabs: [const { SlabList::new() }; SLAB_CLASSES],
            spares: [const {
                Spare {
                    head: Cell::new(ptr::null_mut()),
                    count: Cell::new(0),
                    calls: Cell::new(0),
                }
            }; CLASSES],
        }
    }

    /// Sets the owner that the headers of segments will name.
    pub(crate) fn set_owner(&self, owner: *const ()) {
        self.owner.set(owner);
        self.larges.set_owner(owner);
        hardened::link::begin();
        self.keys.take();
    }

    /// The number by which segments are known to be this arena's, in a hardened build.
    #[inline(always)]
    pub(crate) fn number(&self) -> &Number {
        &self.number
    }

    /// Returns `true` if the arena's own segment table has the block, in a hardened build.
    #[inline(always)]
    pub(crate) fn has_own(&self, block: *mut u8) -> bool {
        self.segments.has(block)
    }

    /// The mark of a block, in a hardened build.
    ///
    /// # Safety
    ///
    /// 1. The block is known to be this arena's, by [`has_own`](Self::has_own).
    #[inline(always)]
    pub(crate) unsafe fn own_mark(&self, block: *mut u8) -> Mark<'_> {
        // SAFETY: obligation 1.
        unsafe { self.segments.mark_of(block) }
    }

    /// Returns `true` if a block is known to be this arena's without reading its header, in a
    /// hardened build.
    #[inline]
    pub(crate) fn is_known(&self, block: *mut u8) -> bool {
        self.has_own(block) || self.number.is_at(block.addr())
    }

    /// The owner that the headers of its segments name.
    #[inline]
    pub(crate) fn owner(&self) -> *const () {
        self.owner.get()
    }

    /// Bytes requested by the owner, less those that it freed, as a wrapping sum.
    #[inline]
    pub(crate) fn requested(&self) -> u64 {
        self.bytes_taken.get().wrapping_sub(self.bytes_given.get())
    }

    /// Committed bytes beyond those that the owner has in use, as a wrapping sum.
    #[inline]
    pub(crate) fn surplus(&self) -> u64 {
        let committed = self.reserved.get().wrapping_sub(self.spans.clean.get());
        committed.wrapping_sub(self.requested())
    }

    /// The slot of a class, of spans or of large blocks.
    #[inline(always)]
    pub(crate) fn slot(&self, class: usize) -> &Slot {
        debug_assert!(class < SLOTS);
        // SAFETY: classes come from `class_of` and the slabs, all below `CLASSES`, or are one of
        // the two constants.
        unsafe { self.slots.get_unchecked(class) }
    }

    /// All slots, of the classes and beyond.
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Whether the list of `class` has a block for the fast path.
    #[inline]
    pub(crate) fn has_first(&self, class: usize) -> bool {
        !self.slot(class).head.get().is_null()
    }

    /// Returns `true` if a list of `class`, including the spare one, has a block.
    #[inline]
    pub(crate) fn is_listed(&self, class: usize) -> bool {
        self.has_first(class) || self.spares[class].count.get() > 0
    }

    /// Allocates a block of `class` from its list for a request of `size` bytes; null if the list
    /// is empty.
    #[inline(always)]
    pub(crate) fn pop(&self, class: usize, size: usize) -> *mut u8 {
        let slot = self.slot(class);
        let block = slot.head.get();
        if block.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: blocks in a list are free and this arena's, their links written when they were
        // pushed.
        let next = unsafe { Block::next_by(block, &self.keys) };
        // SAFETY: as above, and links of lists are written twice.
        if HARDENED && !unsafe { hardened::take(block, class, &self.keys) } {
            // As if the list were empty: the slow path reports the damage.
            return ptr::null_mut();
        }
        slot.head.set(next);
        slot.taken.add(1);
        self.bytes_taken.add(size as u64);
        block.cast()
    }

    /// Frees a block of `class` that was allocated with `size` bytes.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of this class that this arena gave out, and the caller gives it up.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, class: usize, block: *mut u8, size: usize) {
        if HARDENED {
            // SAFETY: obligation 1.
            unsafe { self.push_marked(class, block, size, Mark::of(block)) };
            return;
        }
        if cfg!(debug_assertions) {
            // SAFETY: obligation 1: the block lies in a mapped segment.
            unsafe { check_class(class, block) };
        }
        // SAFETY: obligation 1.
        unsafe { self.push_free(class, block, size) };
    }

    /// As [`push`](Self::push), in a hardened build, with the block's mark.
    ///
    /// # Safety
    ///
    /// 1. As for [`Arena::push`].
    #[inline(always)]
    pub(crate) unsafe fn push_marked(&self, class: usize, block: *mut u8, size: usize, mark: Mark) {
        if !mark.is_live(class) {
            // SAFETY: obligation 1.
            unsafe { Self::push_suspect(block, self, class, size) };
            return;
        }
        mark.write(FREED);
        // SAFETY: obligation 1.
        unsafe { self.push_free(class, block, size) };
    }

    /// As [`push`](Self::push), for a caller with its own slow path. Returns `false`, and changes
    /// nothing, if the slow path is needed.
    ///
    /// # Safety
    ///
    /// 1. As for [`Arena::push`].
    #[inline(always)]
    pub(crate) unsafe fn try_push(&self, class: usize, block: *mut u8, size: usize) -> bool {
        if HARDENED {
            // SAFETY: obligation 1.
            return unsafe { self.try_push_marked(class, block, size, Mark::of(block)) };
        }
        if cfg!(debug_assertions) {
            // SAFETY: obligation 1: the block lies in a mapped segment.
            unsafe { check_class(class, block) };
        }
        if self.slot(class).is_full() {
            return false;
        }
        // SAFETY: obligation 1, and the list has room.
        unsafe { self.push_listed(class, block, size) };
        true
    }

    /// As [`try_push`](Self::try_push), in a hardened build, with the block's mark. Also returns
    /// `false` if the mark is not that of a block of `class` in use.
    ///
    /// # Safety
    ///
    /// 1. As for [`Arena::push`].
    #[inline(always)]
    pub(crate) unsafe fn try_push_marked(
        &self,
        class: usize,
        block: *mut u8,
        size: usize,
        mark: Mark,
    ) -> bool {
        if !mark.is_live(class) || self.slot(class).is_full() {
            return false;
        }
        mark.write(FREED);
        // SAFETY: obligation 1, and the list has room.
        unsafe { self.push_listed(class, block, size) };
        true
    }

    /// As [`push`](Self::push), without checks.
    ///
    /// # Safety
    ///
    /// 1. As for [`Arena::push`].
    #[inline(always)]
    unsafe fn push_free(&self, class: usize, block: *mut u8, size: usize) {
        if self.slot(class).is_full() {
            // SAFETY: obligation 1.
            unsafe { Self::push_slow(block.cast(), self, class, size) };
            return;
        }
        // SAFETY: obligation 1, and the list has room.
        unsafe { self.push_listed(class, block, size) };
    }

    /// Puts a block into the list of its class, which has room.
    ///
    /// # Safety
    ///
    /// 1. As for [`Arena::push`].
    #[inline(always)]
    unsafe fn push_listed(&self, class: usize, block: *mut u8, size: usize) {
        let slot = self.slot(class);
        let block = block.cast::<Block>();
        // SAFETY: obligation 1.
        unsafe { Block::link_by(block, slot.head.get(), &self.keys) };
        slot.head.set(block);
        slot.given.add(1);
        self.bytes_given.add(size as u64);
    }

    /// Reports an invalid free and ends the process. Not declared `-> !`, so the fast path can
    /// tail-call it without a stack frame. `block` is the first argument to save a register move.
    ///
    /// # Safety
    ///
    /// 1. As for [`Arena::push`].
    #[cold]
    #[inline(never)]
    unsafe fn push_suspect(block: *mut u8, arena: &Self, class: usize, size: usize) {
        hardened::check_used(block, class, size);
        // SAFETY: obligation 1.
        unsafe { arena.push(class, block, size) };
    }

    /// Allocates a block of `class` from the levels below its empty list; null if the system has no
    /// memory.
    #[cold]
    #[inline(never)]
    pub(crate) fn pop_slow(&self, class: usize, size: usize) -> *mut u8 {
        if HARDENED {
            self.check_first(class);
        }
        debug_assert!(self.slot(class).head.get().is_null());
        if !self.refill(class) {
            return ptr::null_mut();
        }
        self.pop(class, size)
    }

    /// Ends the process if the list of `class` is not empty, since then the fast path found it
    /// damaged.
    #[inline]
    fn check_first(&self, class: usize) {
        let first = self.slot(class).head.get();
        if !first.is_null() {
            // SAFETY: as in `pop`.
            let next = unsafe { Block::next(first) };
            // SAFETY: as in `pop`.
            unsafe { hardened::check_listed(first, next) };
        }
    }

    /// Fills the empty list of `class`.
    fn refill(&self, class: usize) -> bool {
        let (slot, spare) = (self.slot(class), &self.spares[class]);
        let count = spare.count.replace(0);
        if count > 0 {
            slot.head.set(spare.head.replace(ptr::null_mut()));
            slot.added(count);
            return true;
        }
        if class >= SLAB_CLASSES {
            let Some(span) = self.take_span(bytes_for_class(size_of_class(class)), 1) else {
                return false;
            };
            span.set_class(class as u8);
            let block = span.start().as_ptr().cast();
            // SAFETY: the span is new and this arena's.
            unsafe { Block::link(block, ptr::null_mut()) };
            if HARDENED {
                marks::prepare(block);
            }
            slot.head.set(block);
            slot.added(1);
            return true;
        }
        let list = &self.slabs[class];
        if list.first().is_none() && !self.open_slab(class) {
            return false;
        }
        let Some(slab) = list.first() else {
            return false;
        };
        let taken = slab.take();
        if slab.is_exhausted() {
            list.unlink(slab);
        }
        slot.head.set(taken.first);
        slot.added(taken.count);
        true
    }

    /// Frees a block of `class` whose list is full.
    ///
    /// If the spare list is full too, this block goes directly to its slab. This block is still in
    /// the processor's cache, unlike the listed blocks.
    ///
    /// # Safety
    ///
    /// 1. As for [`Arena::push`].
    #[cold]
    #[inline(never)]
    unsafe fn push_slow(block: *mut Block, arena: &Self, class: usize, size: usize) {
        arena.lower_margin_of_class(class, size);
        // SAFETY: obligation 1.
        unsafe { arena.put(class, block) };
        let slot = arena.slot(class);
        slot.given.add(1);
        slot.removed(1);
        arena.bytes_given.add(size as u64);
    }

    /// Puts a free block into the list of its class, or into its slab if the lists are full,
    /// without counting it as freed.
    ///
    /// # Safety
    ///
    /// 1. `block` is a free block of this arena and class, in no list.
    #[inline]
    unsafe fn put(&self, class: usize, block: *mut Block) {
        let slot = self.slot(class);
        if slot.is_full() && !self.make_room(class) {
            // SAFETY: obligation 1.
            unsafe { self.put_back_one(class, block) };
            return;
        }
        // SAFETY: obligation 1.
        unsafe { Block::link(block, slot.head.get()) };
        slot.head.set(block);
        slot.added(1);
    }

    /// Makes the full list of `class` the spare list, unless there is one. Returns `true` if the
    /// list is then empty.
    #[cold]
    fn make_room(&self, class: usize) -> bool {
        let (slot, spare) = (self.slot(class), &self.spares[class]);
        if spare.count.get() > 0 {
            return false;
        }
        let count = slot.len(class);
        self.lower_margin_of_class(class, count * size_of_class(class));
        spare.head.set(slot.head.replace(ptr::null_mut()));
        spare.count.set(count);
        slot.removed(count);
        true
    }

    /// Returns the blocks of a list to their slabs or spans.
    pub(crate) fn put_back(&self, class: usize, mut block: *mut Block) {
        while !block.is_null() {
            // SAFETY: blocks of a list are free and this arena's, their links written.
            let next = unsafe { Block::next(block) };
            if HARDENED {
                // SAFETY: as above, and this is its link.
                unsafe { hardened::check_listed(block, next) };
            }
            // SAFETY: as above, and out of the list now.
            unsafe { self.put_back_one(class, block) };
            block = next;
        }
    }

    /// Returns a block to its slab or span.
    ///
    /// # Safety
    ///
    /// 1. `block` is a free block of this arena and class, in no list.
    #[inline]
    unsafe fn put_back_one(&self, class: usize, block: *mut Block) {
        if class >= SLAB_CLASSES {
            // SAFETY: blocks are never null.
            let start = unsafe { NonNull::new_unchecked(block) }.cast();
            // SAFETY: blocks of these classes are used spans, obligation 1.
            let span = unsafe { Span::at_start(start) };
            self.give_span(span);
            return;
        }
        // SAFETY: the block lies in a segment of this arena.
        let slab = unsafe { Segment::slab_of(block) };
        debug_assert_eq!(slab.class(), Some(class));
        // SAFETY: the slab serves the slot that the block lies in, so the block was taken from it.
        unsafe { slab.put(block) };
        let list = &self.slabs[class];
        list.link(slab);
        if slab.is_empty() && !list.is_only(slab) {
            list.unlink(slab);
            self.close_slab(slab);
        }
    }

    /// Frees a large block that [`give_up_large`](Self::give_up_large) released and counted.
    ///
    /// # Safety
    ///
    /// 1. `head` came from that call, for a block of this arena.
    pub(crate) unsafe fn accept_large(&self, head: *mut Block) {
        // SAFETY: obligation 1.
        let bytes = unsafe { self.larges.unmap_head(head) };
        self.reserved.subtract(bytes as u64);
    }

    /// Starts to free a large block, from any thread. Returns its header, as a block that may be
    /// linked.
    ///
    /// # Safety
    ///
    /// 1. This arena tracks its large blocks. `block` is one of them, with this layout, and the
    ///    caller gives it up.
    pub(crate) unsafe fn give_up_large(&self, block: NonNull<u8>, layout: Layout) -> *mut Block {
        // SAFETY: obligation 1.
        unsafe { self.larges.give_up(block, layout) }
    }

    /// Returns `true` if the register has a large block of this layout for this arena.
    pub(crate) fn knows_large(&self, block: *mut u8, layout: Layout) -> bool {
        self.larges.knows(block, layout)
    }

    fn open_slab(&self, class: usize) -> bool {
        let Some(span) = self.take_span(SLOT, SLOT) else {
            return false;
        };
        // SAFETY: the span lies in a segment of this arena.
        let slab = unsafe { Segment::slab_of(span.start().as_ptr()) };
        slab.open(span.start(), class);
        // SAFETY: the slot is this arena's.
        unsafe { Segment::note_class(span.start().as_ptr(), class) };
        self.slabs[class].link(slab);
        true
    }

    fn close_slab(&self, slab: &crate::slab::Slab) {
        if let Some(start) = slab.close() {
            // SAFETY: the slot is this arena's.
            unsafe { Segment::note_class(start.as_ptr(), 0) };
            // SAFETY: the slab was opened on a span, which is used until now.
            let span = unsafe { Span::at_start(start) };
            self.give_span(span);
        }
    }

    /// Takes a span of `bytes` that starts at a multiple of `align`, from a new segment if
    /// necessary.
    fn take_span(&self, bytes: usize, align: usize) -> Option<Span> {
        let take = || {
            if align <= GRAIN {
                self.spans.take(bytes)
            } else {
                self.spans.take_aligned(bytes, align)
            }
        };
        let span = match take() {
            Some(span) => span,
            None => {
                self.add_segment()?;
                take()?
            }
        };
        // SAFETY: the span lies in a mapped segment of this arena.
        let segment = unsafe { &*Segment::of(span.start().as_ptr()) };
        if segment.leave_empty() {
            self.empty_segments.set(self.empty_segments.get() - 1);
            self.empty_low_water.record(self.empty_segments.get());
        }
        Some(span)
    }

    #[cold]
    fn add_segment(&self) -> Option<()> {
        let segment = Segment::map(
            self.owner.get(),
            self.number.or(self.larges.unit()),
            &self.spans,
        )?;
        // SAFETY: the segment was mapped above and stays until it is unlinked.
        self.segments.link(unsafe { segment.as_ref() });
        self.reserved.add(SEGMENT as u64);
        self.empty_segments.set(self.empty_segments.get() + 1);
        Some(())
    }

    /// Frees a span. If its segment is then empty, records that.
    fn give_span(&self, span: Span) {
        let joined = self.spans.give(span);
        if joined.is_whole() {
            self.segment_emptied(joined);
        }
    }
}

impl Drop for Arena {
    /// Unmaps all segments and large blocks, including blocks that are in use.
    fn drop(&mut self) {
        while let Some(segment) = self.segments.pop() {
            // SAFETY: the segment was mapped and is linked nowhere now; no thread uses its blocks,
            // which the caller that drops an arena ensures.
            unsafe { Segment::unmap(segment) };
        }
        self.larges.clear();
        self.mapping_cache.purge(usize::MAX);
    }
}
