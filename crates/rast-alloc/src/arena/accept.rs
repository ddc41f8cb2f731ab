//! Blocks that other threads freed return to their owner's lists.
//!
//! Many blocks arrive at once, and consecutive ones are often of one slab, because a thread frees
//! blocks in the order in which they were allocated. Such a run goes into the list of its class.
//! The slab's class and the list's length are read once per run, not for each block. The list's
//! fields are written when the run ends.
//!
//! A hardened build has no runs. There the mark of each block, which must be read anyway, has the
//! class. Runs would save time for blocks of one class, and cost as much additional time for blocks
//! of alternating classes.

use super::Arena;
use crate::block::Block;
use crate::geometry::{HARDENED, SLOT};
use crate::hardened::page_map::BlockSegment;
use crate::level::SPANS;
use crate::segment::Segment;
use crate::span::Span;
use core::ptr::{self, NonNull};

/// Consecutive blocks of one slab.
///
/// Invariant: if [`Run::room`] is above 0, `place` is the slot of a slab of `class`, and the list
/// of that class, which begins at `head`, has room for `room` more blocks.
pub(crate) struct Run {
    /// The index of the slab's slot in the address space.
    place: usize,
    class: usize,
    /// The new head of the list.
    head: *mut Block,
    /// How many more blocks fit into the list.
    room: i64,
    /// How many did before the run.
    room_before: i64,
    /// The segment of a block that is handled after the next ones; in a hardened build.
    segment: BlockSegment,
}

impl Run {
    /// Makes an empty run.
    pub(crate) const fn none() -> Self {
        Self {
            place: 0,
            class: 0,
            head: ptr::null_mut(),
            room: 0,
            room_before: 0,
            segment: BlockSegment::none(),
        }
    }

    /// Records that the next blocks may be in the segment of this one.
    ///
    /// # Safety
    ///
    /// 1. The arena has the block, and handles it last of those that arrive until the next call.
    #[inline(always)]
    pub(crate) unsafe fn expect_segment(&mut self, block: *mut Block) {
        self.segment = BlockSegment::of(block);
    }

    /// Returns `true` if the run contains a block of `class`.
    #[inline(always)]
    pub(crate) fn serves(&self, class: usize) -> bool {
        self.class == class && self.room_before > self.room
    }
}

impl Arena {
    /// Takes back a block that another thread freed and counted.
    ///
    /// # Safety
    ///
    /// 1. `block` is a free block of this arena, given up by its user, in no list.
    #[inline]
    pub(crate) unsafe fn accept(&self, block: *mut Block) {
        if HARDENED {
            // SAFETY: obligation 1.
            unsafe { self.accept_marked(BlockSegment::none(), block) };
            return;
        }
        // SAFETY: obligation 1.
        unsafe { self.accept_unmarked(block) };
    }

    /// As [`accept`](Self::accept), in a hardened build: the block's mark has the class, so neither
    /// its slab nor runs are needed.
    ///
    /// # Safety
    ///
    /// 1. As for [`Arena::accept`].
    /// 2. `segment` is of a block that this arena has, or of none.
    #[inline(always)]
    unsafe fn accept_marked(&self, segment: BlockSegment, block: *mut Block) {
        // SAFETY: obligation 2; the block is this arena's, obligation 1.
        let class = unsafe { self.free_arrived(segment, block) };
        if class >= SPANS || self.slot(class).is_full() {
            // SAFETY: obligation 1.
            unsafe { self.accept_unmarked(block) };
            return;
        }
        let slot = self.slot(class);
        // SAFETY: obligation 1.
        unsafe { Block::link_by(block, slot.head.get(), &self.keys) };
        slot.head.set(block);
        slot.added(1);
    }

    /// As [`accept`](Self::accept), by the slab or the tag.
    ///
    /// # Safety
    ///
    /// 1. As for [`Arena::accept`].
    #[cfg_attr(feature = "hardened", cold, inline(never))]
    #[cfg_attr(not(feature = "hardened"), inline)]
    unsafe fn accept_unmarked(&self, block: *mut Block) {
        // SAFETY: the block lies in a segment of this arena.
        let slab = unsafe { Segment::slab_of(block) };
        let class = match slab.class() {
            Some(class) => class,
            None => {
                // SAFETY: blocks are never null.
                let start = unsafe { NonNull::new_unchecked(block) }.cast();
                // SAFETY: what no slab serves is a used span.
                let span = unsafe { Span::at_start(start) };
                match usize::from(span.class()) {
                    SPANS => {
                        self.give_span(span);
                        return;
                    }
                    class => class,
                }
            }
        };
        // SAFETY: obligation 1, and the class is the block's.
        unsafe { self.put(class, block) };
    }

    /// As [`accept`](Self::accept), for one of many. From the first call to
    /// [`finish_run`](Self::finish_run) the arena must not be used otherwise.
    ///
    /// # Safety
    ///
    /// 1. As for [`Arena::accept`].
    /// 2. `run` began as [`Run::none`] and was given to this arena alone.
    #[inline(always)]
    pub(crate) unsafe fn accept_next(&self, run: &mut Run, block: *mut Block) {
        if HARDENED {
            // SAFETY: obligation 1, and the run's segment is that of a block that is handled after
            // this one, or of this one.
            unsafe { self.accept_marked(run.segment, block) };
            return;
        }
        if run.room > 0 && block.addr() / SLOT == run.place {
            // SAFETY: obligation 1; the block is of the run's class, as its slab is.
            unsafe { Block::link(block, run.head) };
            run.head = block;
            run.room -= 1;
            return;
        }
        self.finish_run(run);
        *run = Run::none();
        // SAFETY: obligation 1: the block lies in a segment of this arena.
        if let Some(class) = unsafe { Segment::slab_of(block) }.class() {
            let slot = self.slot(class);
            let room = slot.room();
            if room > 0 {
                // SAFETY: obligation 1.
                unsafe { Block::link(block, slot.head.get()) };
                *run = Run {
                    place: block.addr() / SLOT,
                    class,
                    head: block,
                    room: room - 1,
                    room_before: room,
                    ..Run::none()
                };
                return;
            }
        }
        // SAFETY: obligation 1.
        unsafe { self.accept_unmarked(block) };
    }

    /// Writes the run's blocks into the list; the run is not used again.
    #[inline(always)]
    pub(crate) fn finish_run(&self, run: &Run) {
        let count = run.room_before - run.room;
        if count > 0 {
            let slot = self.slot(run.class);
            slot.head.set(run.head);
            slot.added(count as usize);
        }
    }
}
