//! Blocks of other owners: into their remote-free batches, and away.
//!
//! A hardened build asks before whether the block may start there, and finds its remote-free batch
//! by the segment that it lies in, where others of that segment are on their way already
//! ([`Afar`](crate::hardened::units::Afar)). The block's mark is looked at when a remote-free batch
//! is opened, and by the owner; see [`crate::hardened`].

use core::ptr::NonNull;

use super::{BATCHES, ThreadHeap};
use crate::Layout;
use crate::arena::check_given;
use crate::block::Block;
use crate::geometry::HARDENED;
use crate::hardened::{self, units};
use crate::level::{Level, SLOTS};
use crate::primitive::Counter;
use crate::remote_batch::{self as batch, RemoteBatch};
use crate::segment::Segment;
use crate::size_class::{LEAST as LEAST_CLASS, SLAB_MAX, size_of_class};

/// What a remote-free batch may take by the fast paths alone, which have blocks of slabs only.
const PLEDGE: usize = batch::FULL + SLAB_MAX;
/// How long the shortest block is.
const LEAST: usize = size_of_class(LEAST_CLASS);

impl ThreadHeap {
    /// Puts a block of another owner into its remote-free batch.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of `owner` with this layout, which is not large, and the caller gives
    ///    it up.
    #[inline]
    pub(super) unsafe fn post(&self, block: NonNull<u8>, owner: &'static Self, layout: Layout) {
        // SAFETY: obligation 1: the block lies in a mapped segment.
        unsafe { check_given(block, layout) };
        let batch = self.batch_of(owner);
        if !batch.is_for(owner) {
            self.deliver(batch);
            self.arena.pledge(PLEDGE);
            batch.open(owner);
        }
        let slot = Level::of(layout).slot();
        // SAFETY: obligation 1; the remote-free batch is this owner's.
        unsafe { self.put(batch, block.as_ptr().cast(), slot, layout.size()) };
    }

    /// The remote-free batch for an owner; it may be another one's, or no thread's.
    #[inline(always)]
    fn batch_of(&self, owner: *const Self) -> &RemoteBatch<Self> {
        // Heaps are some pages apart.
        &self.batches[(owner.addr() >> 14) % BATCHES]
    }

    /// Puts a block of another owner into its remote-free batch if that takes its address; false,
    /// and nothing has changed, if not. A heap that no thread holds has no remote-free batch that
    /// is anybody's, so the call does not succeed.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of `owner`, a thread's heap, and of `class`, taken for `size` bytes;
    ///    the caller gives it up if the call succeeds.
    #[inline(always)]
    pub(crate) unsafe fn try_post(
        &self,
        block: *mut u8,
        owner: *const (),
        class: usize,
        size: usize,
    ) -> bool {
        let owner = owner.cast::<Self>();
        let batch = self.batch_of(owner);
        // SAFETY: obligation 1, and the remote-free batch is the owner's.
        batch.is_for(owner) && unsafe { self.try_put(batch, block, class, size) }
    }

    /// As [`try_post`](Self::try_post), in a hardened build, where the segment of the block may be
    /// known: false as well if it is not, or if no block of `class` starts there.
    ///
    /// # Safety
    ///
    /// 1. If `block` is a block of a thread's heap and of `class`, it was taken for `size` bytes,
    ///    and the caller gives it up if the call succeeds.
    #[inline(always)]
    pub(crate) unsafe fn try_post_known(&self, block: *mut u8, class: usize, size: usize) -> bool {
        // SAFETY: a segment that is known is mapped, and `has` says that a block may start there.
        if !self.afar.has(block.addr()) || !unsafe { hardened::may_post(block, class) } {
            return false;
        }
        // SAFETY: its segment is known.
        let batch = unsafe { self.afar.batch_of(block) };
        // SAFETY: obligation 1: it is where a block of the class starts; the remote-free batch is
        // for its segment's owner.
        unsafe { self.try_put(batch, block, class, size) }
    }

    /// As [`try_post_known`](Self::try_post_known), where the segment is not known, or its
    /// remote-free batch does not take the block's address: false as well if there is no
    /// remote-free batch for its owner.
    ///
    /// # Safety
    ///
    /// 1. As for [`try_post_known`](Self::try_post_known).
    #[inline]
    pub(crate) unsafe fn try_post_far(&self, block: *mut u8, class: usize, size: usize) -> bool {
        if matches!(units::at(block.addr()), units::NONE | units::OWN) {
            return false;
        }
        // SAFETY: the units know a segment there, and say that a block may start at the address.
        if !unsafe { hardened::may_post(block, class) } {
            return false;
        }
        // SAFETY: the block lies in a segment of some thread's heap.
        let owner = unsafe { Segment::owner_of(block) }.cast::<Self>();
        let batch = self.batch_of(owner);
        if !batch.is_for(owner) {
            return false;
        }
        // SAFETY: obligation 1: it is where a block of the class starts; the remote-free batch is
        // the owner's.
        unsafe { self.put(batch, block.cast(), class, size) };
        true
    }

    /// Puts a block into the remote-free batch for its owner, and delivers that if it is full then.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of the remote-free batch's owner and of this slot, taken for `size`
    ///    bytes; the caller gives it up.
    #[inline]
    unsafe fn put(&self, batch: &RemoteBatch<Self>, block: *mut Block, slot: usize, size: usize) {
        self.foreign_of(slot).add(1);
        self.arena.bytes_given.add(size as u64);
        // SAFETY: obligation 1, and no block is shorter than the least.
        unsafe { batch.put(block, size.max(LEAST)) };
        if HARDENED {
            // SAFETY: it was put there just now, and `deliver` forgets the remote-free batch.
            unsafe { self.afar.note(block.cast(), batch) };
        }
        if batch.is_full() {
            self.deliver(batch);
        }
    }

    /// Puts a block into a remote-free batch if that takes its address; false, and nothing has
    /// changed, if not.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of the remote-free batch's owner and of `class`, taken for `size`
    ///    bytes; the caller gives it up if the call succeeds.
    #[inline(always)]
    unsafe fn try_put(
        &self,
        batch: &RemoteBatch<Self>,
        block: *mut u8,
        class: usize,
        size: usize,
    ) -> bool {
        // SAFETY: obligation 1.
        if !unsafe { batch.try_put(block.cast(), size) } {
            return false;
        }
        self.foreign_of(class).add(1);
        self.arena.bytes_given.add(size as u64);
        true
    }

    /// The blocks of other owners in a slot.
    #[inline(always)]
    fn foreign_of(&self, slot: usize) -> &Counter {
        debug_assert!(slot < SLOTS);
        // SAFETY: slots are those of layouts, all below `SLOTS`.
        unsafe { self.foreign.get_unchecked(slot) }
    }

    /// Delivers a remote-free batch, if there is something in it.
    fn deliver(&self, batch: &RemoteBatch<Self>) {
        let Some(packed) = batch.take() else {
            return;
        };
        self.afar.forget(batch);
        self.arena.redeem(PLEDGE);
        // SAFETY: the remote-free batch's blocks are free, in a list from the first to the last,
        // and this thread's alone.
        if unsafe { packed.owner.mailbox.deliver(packed.first, packed.last) } {
            packed.owner.leave();
        }
    }

    /// Delivers all remote-free batches. Only the holder calls it.
    pub(crate) fn deliver_all(&self) {
        for batch in &self.batches {
            self.deliver(batch);
        }
    }
}
