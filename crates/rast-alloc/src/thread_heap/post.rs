//! Blocks of other owners: the remote-free batches that collect them, and the delivery to the
//! owners.
//!
//! A hardened build first checks whether the block may start at its address. If the block's segment
//! already has blocks in an open batch, the segment leads to that batch
//! ([`RemoteSegments`](crate::hardened::page_map::RemoteSegments)). The block's mark is checked
//! when a batch is opened, and by the owner; see [`crate::hardened`].

use core::ptr::NonNull;

use super::{BATCHES, ThreadHeap};
use crate::Layout;
use crate::arena::check_given;
use crate::block::Block;
use crate::geometry::HARDENED;
use crate::hardened::{self, page_map};
use crate::level::{Level, SLOTS};
use crate::primitive::Counter;
use crate::remote_batch::{self as batch, RemoteBatch};
use crate::segment::Segment;
use crate::size_class::{CLASS_MIN, SLAB_MAX, size_of_class};

/// Bytes that the fast paths alone may put into a remote-free batch; they free blocks of slabs
/// only.
const BATCH_RESERVE: usize = batch::FULL + SLAB_MAX;
/// The size of the smallest block.
const BLOCK_MIN: usize = size_of_class(CLASS_MIN);

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
            self.arena.reserve_batch(BATCH_RESERVE);
            batch.open(owner);
        }
        let slot = Level::of(layout).slot();
        // SAFETY: obligation 1; the remote-free batch is this owner's.
        unsafe { self.put(batch, block.as_ptr().cast(), slot, layout.size()) };
    }

    /// Returns the batch entry of an owner; it may be open for another owner, or not open.
    #[inline(always)]
    fn batch_of(&self, owner: *const Self) -> &RemoteBatch<Self> {
        // Heaps are some pages apart.
        &self.batches[(owner.addr() >> 14) % BATCHES]
    }

    /// Puts a block of another owner into that owner's remote-free batch, if the batch has room for
    /// the block's distance. Otherwise returns `false` and changes nothing. The static heaps
    /// without memory never have an open batch, so they return `false`.
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

    /// As [`try_post`](Self::try_post), in a hardened build. Also returns `false` if the block's
    /// segment is not known, or if no block of `class` starts there.
    ///
    /// # Safety
    ///
    /// 1. If `block` is a block of a thread's heap and of `class`, it was taken for `size` bytes,
    ///    and the caller gives it up if the call succeeds.
    #[inline(always)]
    pub(crate) unsafe fn try_post_known(&self, block: *mut u8, class: usize, size: usize) -> bool {
        // SAFETY: a segment that is known is mapped, and `has` says that a block may start there.
        if !self.remote.has(block.addr()) || !unsafe { hardened::may_post(block, class) } {
            return false;
        }
        // SAFETY: its segment is known.
        let batch = unsafe { self.remote.batch_of(block) };
        // SAFETY: obligation 1: it is where a block of the class starts; the remote-free batch is
        // for its segment's owner.
        unsafe { self.try_put(batch, block, class, size) }
    }

    /// As [`try_post_known`](Self::try_post_known), if the segment is not known or its batch has no
    /// room for the distance. Also returns `false` if no batch is open for the owner.
    ///
    /// # Safety
    ///
    /// 1. As for [`try_post_known`](Self::try_post_known).
    #[inline]
    pub(crate) unsafe fn try_post_far(&self, block: *mut u8, class: usize, size: usize) -> bool {
        if matches!(page_map::at(block.addr()), page_map::NONE | page_map::OWN) {
            return false;
        }
        // SAFETY: the page map has a segment there, and a block may start at the address.
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

    /// Puts a block into the remote-free batch for its owner, and delivers the batch if it is then
    /// full.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of the remote-free batch's owner and of this slot, taken for `size`
    ///    bytes; the caller gives it up.
    #[inline]
    unsafe fn put(&self, batch: &RemoteBatch<Self>, block: *mut Block, slot: usize, size: usize) {
        self.foreign_of(slot).add(1);
        self.arena.bytes_given.add(size as u64);
        // SAFETY: obligation 1, and no block is shorter than `BLOCK_MIN`.
        unsafe { batch.put(block, size.max(BLOCK_MIN)) };
        if HARDENED {
            // SAFETY: it was put there above, and `deliver` forgets the batch.
            unsafe { self.remote.note(block.cast(), batch) };
        }
        if batch.is_full() {
            self.deliver(batch);
        }
    }

    /// Puts a block into a remote-free batch, if the batch has room for its distance. Otherwise
    /// returns `false` and changes nothing.
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

    /// The counter of freed blocks of other owners in a slot.
    #[inline(always)]
    fn foreign_of(&self, slot: usize) -> &Counter {
        debug_assert!(slot < SLOTS);
        // SAFETY: slots are those of layouts, all below `SLOTS`.
        unsafe { self.foreign.get_unchecked(slot) }
    }

    /// Delivers a remote-free batch, unless it is empty.
    fn deliver(&self, batch: &RemoteBatch<Self>) {
        let Some(packed) = batch.take() else {
            return;
        };
        self.remote.forget(batch);
        self.arena.release_batch(BATCH_RESERVE);
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
