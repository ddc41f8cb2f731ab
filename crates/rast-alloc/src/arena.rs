//! An arena: all levels of one owner, from the lists of blocks down to the segments.
//!
//! ```text
//!   level 0   lists     own blocks; per class a list that is pushed and popped, and a spare one
//!   level 1   slabs     [slab]      equal blocks in a 64 KiB slot, for classes up to 8 KiB
//!   level 2   spans     [span]      boundary tags, two-level bitmap; up to 1/4 segment
//!   level 3   segments  [segment]   4 MiB of the system's address space
//!   beside    large     [large, kept]  a mapping for each block, and a few kept for the next
//! ```
//!
//! Allocation pops from its class's list, and freeing pushes there: the size that Rust passes names
//! the class, so no header and no slab is touched. An empty list takes the spare one, then what a
//! slab has; a full list becomes the spare one if there is none, and beneath two full lists a block
//! goes to its slab by itself.
//!
//! The length of a list is not kept: it follows from the sums that the figures need anyway (see
//! [`Slot`]).
//!
//! An arena knows no threads: its fields are cells, and the thread that has it is alone with it.
//! Only the sums ([`Counter`]) are read from elsewhere.

use core::cell::Cell;
use core::ptr::{self, NonNull};

use crate::Layout;
use crate::block::Block;
use crate::geometry::{GRAIN, HARDENED, SEGMENT, SLOT};
use crate::hardened;
use crate::hardened::link::Keys;
use crate::hardened::marks::{self, FREED, Mark};
use crate::hardened::units::Number;
use crate::kept::Kept;
use crate::large::Larges;
use crate::least::Least;
use crate::level::SLOTS;
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
mod home;
mod purge;
#[cfg(test)]
mod tests;
mod told;

#[cfg(test)]
pub(crate) use tests::is_zero;
#[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
pub(crate) use told::looks;

pub(crate) use accept::Run;
pub(crate) use check::{check_class, check_given, check_kept, check_span};
pub(crate) use purge::Pace;

/// A class's list and sums.
///
/// Blocks in the list = `given` − `taken` + what the slow paths brought in, less what they carried
/// off. The slow paths keep that difference folded into `bound`, so the list is full when `given` −
/// `taken` reaches `bound`, and the fast paths count nothing but what the figures show.
#[repr(C)]
pub(crate) struct Slot {
    head: Cell<*mut Block>,
    /// Blocks taken by the owner, since the beginning.
    pub(crate) taken: Counter,
    /// Blocks given back by the owner, since the beginning.
    pub(crate) given: Counter,
    bound: Cell<i64>,
}

/// The second list of a class, and its length.
struct Spare {
    head: Cell<*mut Block>,
    count: Cell<usize>,
    /// How many blocks of the class were taken and given at the last look for what no thread needs.
    calls: Cell<u64>,
}

/// What an arena told the process of the bytes that it has in use (file `told.rs`).
struct Told {
    bytes: Cell<u64>,
    /// What slow paths may free before this is computed anew.
    margin: Cell<i64>,
    /// The bytes in use at which it is computed anew.
    again: Cell<u64>,
    /// What the fast paths may put into remote-free batches, in bytes.
    pledged: Cell<u64>,
    /// How many corrections may still be made without a look at the lists.
    quick: Cell<u32>,
}

impl Told {
    /// Of an arena that tells nothing.
    const fn never() -> Self {
        Self {
            bytes: Cell::new(0),
            // Not spent in the life of a process.
            margin: Cell::new(i64::MAX),
            again: Cell::new(0),
            pledged: Cell::new(0),
            quick: Cell::new(0),
        }
    }

    /// Of an arena whose first slow path begins to tell.
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
    /// Bytes asked for by the owner, since the beginning.
    pub(crate) bytes_taken: Counter,
    /// Bytes asked for with the blocks that the owner gave back, whosever they were, since the
    /// beginning.
    pub(crate) bytes_given: Counter,
    /// Blocks that changed their size.
    pub(crate) reallocations: Counter,
    /// Changes of size that were counted as a block taken and one given.
    pub(crate) moves: Counter,
    /// Bytes of segments and large mappings, as a wrapping sum.
    pub(crate) reserved: Counter,
    told: Told,
    number: Number,
    keys: Keys,
    pub(crate) spans: SpanIndex,
    /// What the headers of the segments say.
    owner: Cell<*const ()>,
    segments: Segments,
    /// Segments that one free span fills.
    empties: Cell<usize>,
    /// The least `empties` since the last decay tick, and since the last look.
    empties_least: Least,
    ticks: Cell<u32>,
    /// Empty segments that the next steps give back, if they stay empty.
    unneeded: Cell<usize>,
    larges: Larges,
    kept: Kept,
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

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.given
            .get()
            .wrapping_sub(self.taken.get())
            .cast_signed()
            >= self.bound.get()
    }

    /// How many more blocks the list takes.
    #[inline(always)]
    fn room(&self) -> i64 {
        let excess = self
            .given
            .get()
            .wrapping_sub(self.taken.get())
            .cast_signed();
        self.bound.get() - excess
    }

    /// How many blocks are in the list.
    fn len(&self, class: usize) -> usize {
        let excess = self
            .given
            .get()
            .wrapping_sub(self.taken.get())
            .cast_signed();
        (excess - self.bound.get() + list_limit(class) as i64) as usize
    }

    /// Says that `count` blocks came into the list otherwise than by freeing.
    #[inline]
    fn brought(&self, count: usize) {
        self.bound.set(self.bound.get() - count as i64);
    }

    /// Says that `count` blocks left the list otherwise than by allocation.
    #[inline]
    fn carried_off(&self, count: usize) {
        self.bound.set(self.bound.get() + count as i64);
    }
}

impl Arena {
    /// An arena without segments; it must not be moved once it has one, nor used before it knows
    /// its owner.
    pub(crate) const fn new(larges: Larges) -> Self {
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
            told: if larges.is_untracked() {
                Told::new()
            } else {
                Told::never()
            },
            number: Number::none(),
            keys: Keys::none(),
            spans: SpanIndex::new(),
            owner: Cell::new(ptr::null()),
            segments: Segments::new(),
            empties: Cell::new(0),
            empties_least: Least::new(),
            ticks: Cell::new(0),
            unneeded: Cell::new(0),
            larges,
            kept: Kept::new(),
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

    /// Says what the headers of segments shall name as owner.
    pub(crate) fn set_owner(&self, owner: *const ()) {
        self.owner.set(owner);
        self.larges.set_owner(owner);
        hardened::link::begin();
        self.keys.take();
    }

    /// By which segments are known to be of this arena, in a hardened build.
    #[inline(always)]
    pub(crate) fn number(&self) -> &Number {
        &self.number
    }

    /// Whether a block is known at once to be this arena's, in a hardened build.
    #[inline(always)]
    pub(crate) fn has_near(&self, block: *mut u8) -> bool {
        self.segments.has(block)
    }

    /// The mark of a block, in a hardened build.
    ///
    /// # Safety
    ///
    /// 1. The block is known to be this arena's, by [`has_near`](Self::has_near).
    #[inline(always)]
    pub(crate) unsafe fn near_mark(&self, block: *mut u8) -> Mark<'_> {
        // SAFETY: obligation 1.
        unsafe { self.segments.mark_of(block) }
    }

    /// Whether a block is known to be this arena's without a look at its header, in a hardened
    /// build.
    #[inline]
    pub(crate) fn is_known(&self, block: *mut u8) -> bool {
        self.has_near(block) || self.number.is_at(block.addr())
    }

    /// What the headers of its segments name as owner.
    #[inline]
    pub(crate) fn owner(&self) -> *const () {
        self.owner.get()
    }

    /// Bytes asked for by the owner, less those that it gave back, as a wrapping sum.
    #[inline]
    pub(crate) fn requested(&self) -> u64 {
        self.bytes_taken.get().wrapping_sub(self.bytes_given.get())
    }

    /// Bytes committed beyond those that the owner has in use, as a wrapping sum.
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

    /// Whether a list of `class` has a block, be it the spare one.
    #[inline]
    pub(crate) fn is_listed(&self, class: usize) -> bool {
        self.has_first(class) || self.spares[class].count.get() > 0
    }

    /// Takes a block of `class` from its list, null if there is none, for a request of `size`
    /// bytes.
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
            // As if the list were empty: the slow path says what is wrong.
            return ptr::null_mut();
        }
        slot.head.set(next);
        slot.taken.add(1);
        self.bytes_taken.add(size as u64);
        block.cast()
    }

    /// Puts a block of `class` back, which was of `size` bytes.
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

    /// As [`push`](Self::push), where the caller has the slow path; false, and nothing has changed,
    /// if it is due.
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

    /// As [`try_push`](Self::try_push), in a hardened build, with the block's mark; false too if
    /// that is another.
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

    /// As [`push`](Self::push), where nothing is left to be checked.
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

    /// Puts a block back that is not in use: ends the process, and says why. That the call could
    /// return keeps the fast path, which it ends, free of a frame, and that the block comes first
    /// spares that an instruction.
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

    /// Takes a block of `class` from the levels beneath its empty list; null if the system has no
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

    /// Ends the process if the list of `class` has a first block, since the fast path did not take
    /// it.
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
            slot.brought(count);
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
            slot.brought(1);
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
        slot.brought(taken.count);
        true
    }

    /// Puts a block of `class` back beneath its full list.
    ///
    /// The block goes to its slab by itself: it was used just now, while those of the lists were
    /// not, and would have to be fetched to be put back. The block is the first argument, as it is
    /// that of the fast path, which has to move it else.
    ///
    /// # Safety
    ///
    /// 1. As for [`Arena::push`].
    #[cold]
    #[inline(never)]
    unsafe fn push_slow(block: *mut Block, arena: &Self, class: usize, size: usize) {
        arena.spend_in(class, size);
        // SAFETY: obligation 1.
        unsafe { arena.put(class, block) };
        let slot = arena.slot(class);
        slot.given.add(1);
        slot.carried_off(1);
        arena.bytes_given.add(size as u64);
    }

    /// Puts a free block into the list of its class, which may be full, without counting it as
    /// given.
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
        slot.brought(1);
    }

    /// Makes the full list of `class` the spare one, unless there is one; returns whether the list
    /// is empty now.
    #[cold]
    fn make_room(&self, class: usize) -> bool {
        let (slot, spare) = (self.slot(class), &self.spares[class]);
        if spare.count.get() > 0 {
            return false;
        }
        let count = slot.len(class);
        self.spend_in(class, count * size_of_class(class));
        spare.head.set(slot.head.replace(ptr::null_mut()));
        spare.count.set(count);
        slot.carried_off(count);
        true
    }

    /// Puts a list of blocks back where they came from.
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

    /// Puts a block back where it came from.
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

    /// Takes a large block back that [`give_up_large`](Self::give_up_large) gave up and counted.
    ///
    /// # Safety
    ///
    /// 1. `head` came from that call, for a block of this arena.
    pub(crate) unsafe fn accept_large(&self, head: *mut Block) {
        // SAFETY: obligation 1.
        let bytes = unsafe { self.larges.unmap_head(head) };
        self.reserved.subtract(bytes as u64);
    }

    /// Begins to give a large block back, from any thread; returns its head, as a block that may be
    /// linked.
    ///
    /// # Safety
    ///
    /// 1. `block` is a large block of this arena, which tracks them, with this layout, and the
    ///    caller gives it up.
    pub(crate) unsafe fn give_up_large(&self, block: NonNull<u8>, layout: Layout) -> *mut Block {
        // SAFETY: obligation 1.
        unsafe { self.larges.give_up(block, layout) }
    }

    /// Whether the register knows a large block of this layout as this arena's.
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

    /// Takes a span of `bytes` that starts at a multiple of `align`, from a new segment if need be.
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
            self.empties.set(self.empties.get() - 1);
            self.empties_least.fell(self.empties.get());
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
        self.empties.set(self.empties.get() + 1);
        Some(())
    }

    /// Gives a span back, and its segment too once no thread needs it.
    fn give_span(&self, span: Span) {
        let joined = self.spans.give(span);
        if joined.is_whole() {
            self.emptied(joined);
        }
    }
}

impl Drop for Arena {
    /// Gives all segments and large mappings back, with whatever blocks are still in use.
    fn drop(&mut self) {
        while let Some(segment) = self.segments.pop() {
            // SAFETY: the segment was mapped and is linked nowhere now; no thread uses its blocks,
            // as the thread that drops an arena has to see to.
            unsafe { Segment::unmap(segment) };
        }
        self.larges.clear();
        self.kept.purge(usize::MAX);
    }
}
