//! Blocks that other threads freed return to their owner's lists.
//!
//! Many come at once, and often some in turn are of one slab: a thread frees what it was sent, in
//! the order in which it was taken. Such a run goes into the list of its class without a look at
//! the slab's class or the list's length for each; the list's words are written when it ends. In a
//! hardened build the mark of each block, which is looked at anyway, tells its class, and there are
//! no runs: more than one class at a time costs them as much as they spare where there is one.

use super::Arena;
use crate::block::Block;
use crate::geometry::{HARDENED, SLOT};
use crate::hardened::units::Around;
use crate::level::SPANS;
use crate::segment::Segment;
use crate::span::Span;
use core::ptr::{self, NonNull};

/// Blocks of one slab that come one after another.
///
/// Invariant: with [`Run::room`] above 0, `place` is the slot of a slab of `class`, and the list of
/// that class has room for so many blocks behind those of `head`.
pub(crate) struct Run {
    /// The number of the slab's slot in the address space.
    place: usize,
    class: usize,
    /// What the list is to begin with.
    head: *mut Block,
    /// How many more blocks the list takes.
    room: i64,
    /// How many it took before the run.
    room_before: i64,
    /// The segment of a block that is not put away before the next ones are; in a hardened build.
    around: Around,
}

impl Run {
    /// The run of no slab.
    pub(crate) const fn none() -> Self {
        Self {
            place: 0,
            class: 0,
            head: ptr::null_mut(),
            room: 0,
            room_before: 0,
            around: Around::none(),
        }
    }

    /// Says that the next blocks may be of one segment with this one.
    ///
    /// # Safety
    ///
    /// 1. The arena has the block, and it is put away last of those that come until this is called
    ///    again.
    #[inline(always)]
    pub(crate) unsafe fn go_by(&mut self, block: *mut Block) {
        self.around = Around::of(block);
    }

    /// Whether it brought a block of `class`.
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
            unsafe { self.accept_marked(Around::none(), block) };
            return;
        }
        // SAFETY: obligation 1.
        unsafe { self.accept_unmarked(block) };
    }

    /// As [`accept`](Self::accept), in a hardened build: the block's mark tells the class, so that
    /// neither its slab nor runs are needed.
    ///
    /// # Safety
    ///
    /// 1. As for [`Arena::accept`].
    /// 2. `around` is of a block that this arena has, or of none.
    #[inline(always)]
    unsafe fn accept_marked(&self, around: Around, block: *mut Block) {
        // SAFETY: obligation 2; the block is this arena's, obligation 1.
        let class = unsafe { self.free_arrived(around, block) };
        if class >= SPANS || self.slot(class).is_full() {
            // SAFETY: obligation 1.
            unsafe { self.accept_unmarked(block) };
            return;
        }
        let slot = self.slot(class);
        // SAFETY: obligation 1.
        unsafe { Block::link_by(block, slot.head.get(), &self.keys) };
        slot.head.set(block);
        slot.brought(1);
    }

    /// As [`accept`](Self::accept), by what slabs and tags say.
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

    /// As [`accept`](Self::accept), for one of many. From the first one until
    /// [`settle`](Self::settle) the arena is used for nothing else.
    ///
    /// # Safety
    ///
    /// 1. As for [`Arena::accept`].
    /// 2. `run` began as [`Run::none`] and was given to this arena alone.
    #[inline(always)]
    pub(crate) unsafe fn accept_next(&self, run: &mut Run, block: *mut Block) {
        if HARDENED {
            // SAFETY: obligation 1, and the run's around is of a block that is put away after this
            // one, or this one itself.
            unsafe { self.accept_marked(run.around, block) };
            return;
        }
        if run.room > 0 && block.addr() / SLOT == run.place {
            // SAFETY: obligation 1; the block is of the run's class, as its slab is.
            unsafe { Block::link(block, run.head) };
            run.head = block;
            run.room -= 1;
            return;
        }
        self.settle(run);
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

    /// Writes down what a run brought; it is used no more.
    #[inline(always)]
    pub(crate) fn settle(&self, run: &Run) {
        let count = run.room_before - run.room;
        if count > 0 {
            let slot = self.slot(run.class);
            slot.head.set(run.head);
            slot.brought(count as usize);
        }
    }
}
