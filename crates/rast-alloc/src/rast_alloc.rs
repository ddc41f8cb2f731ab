//! The zero-sized allocator: one name for the heaps of all threads.
//!
//! Each thread allocates from its own heap ([`crate::thread_heap`]). A freed block returns to the
//! heap that owns it, whichever thread frees it. The fast paths are here: one load finds the class,
//! one finds the thread's heap, and one in the block's segment finds the block's owner. They have
//! no lock, no atomic read-modify-write and no call. Each call enters the heap and exits it
//! ([`crate::ownership`]), so another thread can take the heap between two calls.

use core::ptr::NonNull;
use core::time::Duration;
use std::alloc::GlobalAlloc;
#[cfg(any(rast_loom, rast_shuttle))]
use std::alloc::System;

use crate::block::dangling;
use crate::front_end::{FrontEnd, changes_by_front_end};
use crate::stats::{ClassStats, Stats};
use crate::{AllocError, Allocator, Layout};
#[cfg(not(any(rast_loom, rast_shuttle)))]
use crate::{
    segment::Segment, size_class::small_class_of, thread, thread_heap, thread_heap::ThreadHeap,
};

/// The allocator of the process. The type has size zero, and all its values are the same allocator.
///
/// It is usable as the global allocator and, by value, as the `Allocator` of single containers. All
/// values share their memory and one set of statistics. A block may be freed through any value, on
/// any thread.
///
/// Progress: wait-free except for system calls. Freeing blocks of another thread costs one
/// lock-free compare-exchange per batch. A request of size zero touches neither the heap nor the
/// statistics.
///
/// If the system refuses memory, the request is retried at most twice, after this heap and the
/// heaps that no thread holds have returned their unused memory. Such a call costs time linear in
/// that memory and in the number of heaps.
///
/// Not for signal handlers: as with `malloc`, a handler must not allocate or free. The signal may
/// have interrupted this thread inside the allocator, while the allocator's lists are inconsistent.
/// A panic, `println!` or a lock in a handler may allocate.
///
/// ```
/// use rast_alloc::RastAlloc;
/// use rast_alloc::vec::Vec;
///
/// let mut squares = Vec::new_in(RastAlloc);
/// squares.extend((0..100u64).map(|n| n * n));
/// assert_eq!(squares[9], 81);
/// assert!(RastAlloc::stats().bytes_current >= 800);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RastAlloc;

impl RastAlloc {
    /// Returns the statistics of the process. Any thread may call it.
    ///
    /// Wait-free. Cost: linear in the maximum number of threads that ever lived at once.
    pub fn stats() -> Stats {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        return Stats::read();
        #[cfg(any(rast_loom, rast_shuttle))]
        Stats::default()
    }

    /// Returns the statistics of each size class, smallest first, then of spans without a class and
    /// of mappings.
    ///
    /// Wait-free. Cost of each row: linear in the maximum number of threads that ever lived at
    /// once.
    ///
    /// ```
    /// use rast_alloc::RastAlloc;
    ///
    /// for class in RastAlloc::class_stats().filter(|class| class.live() > 0) {
    ///     println!("{} blocks of {} bytes", class.live(), class.block_bytes);
    /// }
    /// ```
    pub fn class_stats() -> impl Iterator<Item = ClassStats> {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        return (0..crate::level::SLOTS).map(ClassStats::read);
        #[cfg(any(rast_loom, rast_shuttle))]
        core::iter::empty()
    }

    /// Returns the size in bytes of a block of this layout: at least the layout's size. The caller
    /// may use all of it.
    ///
    /// The block must still be freed with the layout that it was allocated with. A reallocation
    /// copies only as many bytes as that layout has.
    ///
    /// ```
    /// use rast_alloc::{Layout, RastAlloc};
    ///
    /// let layout = Layout::from_size_align(1000, 8).unwrap();
    /// assert!((1000..1125).contains(&RastAlloc::usable_size(layout)));
    /// ```
    #[must_use]
    pub fn usable_size(layout: Layout) -> usize {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        return crate::level::Level::of(layout).usable_size(layout);
        #[cfg(any(rast_loom, rast_shuttle))]
        layout.size()
    }

    /// Returns the unused memory of this thread's heap to the system, and delivers the blocks of
    /// other threads that this thread freed. Returns the number of bytes.
    ///
    /// Cost: linear in the unused memory of this thread.
    pub fn purge() -> usize {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        return thread::with(ThreadHeap::purge).unwrap_or(0);
        #[cfg(any(rast_loom, rast_shuttle))]
        0
    }

    /// Does [`purge`](Self::purge) for this thread, for all threads that are in no call of the
    /// allocator at the moment, and for all heaps whose thread has ended. Returns the number of
    /// bytes.
    ///
    /// A thread that is in a call purges its heap itself, at its next call. Where the system has no
    /// `membarrier` (not Linux, or forbidden by a system call filter), this also applies to each
    /// thread that did not call [`on_idle`](Self::on_idle) before.
    ///
    /// If a thread calls the allocator while its heap is being purged, it waits for the end of the
    /// purge, for a bounded time. If the purge takes longer, the thread adopts another heap.
    ///
    /// Another thread may be servicing a heap: the background thread, a thread that frees blocks of
    /// a sleeping thread, or a thread that starts to sleep or ends. The call waits for such
    /// threads, up to one second in all. After that the other thread purges the heap itself, and
    /// the result does not include those bytes. In the child of a `fork`, a heap that was being
    /// serviced during the `fork` is not purged, although the call waits for it.
    ///
    /// Blocking, for one second at most. Cost: a system call, and linear in the number of heaps and
    /// in their unused memory.
    pub fn purge_all() -> usize {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        return Self::purge()
            + ThreadHeap::purge_others(thread::here(), thread_heap::SERVICE_WAIT_MS);
        #[cfg(any(rast_loom, rast_shuttle))]
        0
    }

    /// Sets how long memory must be unused before it returns to the system automatically. `None`
    /// disables this. The default is one second.
    ///
    /// A thread checks at every 64th slow path (a call that finds its list empty or full). If two
    /// checks, at least the delay apart, both find memory unused, this memory returns to the
    /// system. A check covers the lists of size classes that the thread did not use, whole
    /// segments, and free spans of 64 KiB or more. One check returns at most 28 MiB of segments and
    /// spans.
    ///
    /// On Linux a background thread, `rast-purge`, does the same for heaps whose thread sleeps or
    /// has ended. In these heaps it also returns smaller free spans, if they have at least two
    /// pages. The thread starts when 16 MiB more are committed than in use, and sleeps when nothing
    /// is left to return. The child of a `fork` starts its own. Other systems have no such thread;
    /// call [`purge_all`](Self::purge_all) there.
    ///
    /// Independently of this setting, a segment returns to the system if it stays empty while 64
    /// other segments become empty.
    ///
    /// `None` stops the background thread before this call returns; the call waits until the thread
    /// has finished its current step. Two kinds of programs need `None`: one that must be
    /// single-threaded (as `unshare(CLONE_NEWUSER)` requires), and one that ends with its last
    /// thread instead of by `exit`. A call with a delay is wait-free except for system calls, one
    /// of which may start the thread. The new delay applies to all threads, from their next check
    /// on.
    ///
    /// ```
    /// use rast_alloc::RastAlloc;
    /// use std::time::Duration;
    ///
    /// RastAlloc::set_purge_delay(Some(Duration::from_millis(100)));
    /// ```
    pub fn set_purge_delay(delay: Option<Duration>) {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        {
            crate::delay::DELAY.set(delay);
            match delay {
                None => crate::purge_thread::stop(),
                Some(_) => crate::purge_thread::resume(),
            }
        }
        #[cfg(any(rast_loom, rast_shuttle))]
        let _ = delay;
    }

    /// Call it before the thread sleeps. Delivers the blocks of other threads that this thread
    /// freed, and takes in its own blocks that others freed. Returns to the system the whole
    /// segments that were unused since the last such call. Until the thread's next call, other
    /// threads may purge its heap and handle the blocks that they free into it.
    ///
    /// Cost: linear in the number of arrived blocks, and one system call per segment; the thread's
    /// next call takes a slow path with one atomic exchange more. If another thread is servicing
    /// the heap, the call waits for a bounded time and then adopts another heap.
    pub fn on_idle() {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        thread::park();
    }
}

#[cfg(not(any(rast_loom, rast_shuttle)))]
mod heap {
    use crate::arena::check_class;
    use crate::geometry::HARDENED;
    use crate::hardened;

    use super::{Layout, NonNull, Segment, ThreadHeap, small_class_of, thread};
    use core::ptr;

    /// Allocates a block.
    #[inline(always)]
    pub(super) fn allocate(layout: Layout) -> *mut u8 {
        if let Some(class) = small_class_of(layout) {
            let heap = thread::here();
            if heap.ownership.enter() {
                let block = heap.arena.pop(class, layout.size());
                if !block.is_null() {
                    heap.ownership.exit();
                    return block;
                }
                // The slow path enters and exits the heap again.
            }
        }
        allocate_slow(layout)
    }

    #[inline(never)]
    fn allocate_slow(layout: Layout) -> *mut u8 {
        thread::with(|heap| heap.allocate(layout)).unwrap_or(ptr::null_mut())
    }

    /// Allocates a zeroed block.
    pub(super) fn allocate_zeroed(layout: Layout) -> *mut u8 {
        thread::with(|heap| heap.allocate_zeroed(layout)).unwrap_or(ptr::null_mut())
    }

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of this allocator with this layout, and the caller gives it up.
    #[inline(always)]
    pub(super) unsafe fn deallocate(block: *mut u8, layout: Layout) {
        if let Some(class) = small_class_of(layout) {
            let heap = thread::here();
            if !heap.ownership.enter() {
                // SAFETY: obligation 1.
                unsafe { deallocate_slow(block, layout) };
                return;
            }
            if HARDENED {
                if !heap.arena.has_own(block) {
                    // SAFETY: obligation 1, and the class follows from the layout.
                    unsafe { deallocate_checked(block, layout, class, heap) };
                    return;
                }
                // SAFETY: the block is known to be this heap's.
                let mark = unsafe { heap.arena.own_mark(block) };
                // SAFETY: obligation 1; the block is this heap's, and the class follows from the
                // layout.
                if unsafe {
                    heap.arena
                        .try_push_marked(class, block, layout.size(), mark)
                } {
                    heap.ownership.exit();
                    return;
                }
            } else {
                // SAFETY: a block of a class lies in a segment, obligation 1.
                let owner = unsafe { Segment::owner_of(block) };
                if !ptr::eq(owner, heap.name()) {
                    // SAFETY: obligation 1; the owner is in the header, and the class follows from
                    // the layout.
                    unsafe { deallocate_foreign(block, layout, class, heap, owner) };
                    return;
                }
                // SAFETY: obligation 1; the block is this heap's, and the class follows from the
                // layout.
                if unsafe { heap.arena.try_push(class, block, layout.size()) } {
                    heap.ownership.exit();
                    return;
                }
            }
            // SAFETY: obligation 1; the block is this heap's.
            unsafe { ThreadHeap::push_slow(block, heap, class, layout.size()) };
            return;
        }
        // SAFETY: obligation 1.
        unsafe { deallocate_slow(block, layout) };
    }

    /// Frees a small block of another owner.
    ///
    /// # Safety
    ///
    /// 1. As for [`deallocate`]; the block is of this class and owner, and `heap` is the thread's
    ///    heap, which was entered.
    #[inline(never)]
    unsafe fn deallocate_foreign(
        block: *mut u8,
        layout: Layout,
        class: usize,
        heap: &ThreadHeap,
        owner: *const (),
    ) {
        if cfg!(debug_assertions) {
            // SAFETY: obligation 1: the block lies in a mapped segment.
            unsafe { check_class(class, block) };
        }
        // SAFETY: obligation 1; small blocks are those of threads' heaps.
        if unsafe { heap.try_post(block, owner, class, layout.size()) } {
            heap.ownership.exit();
            return;
        }
        // SAFETY: obligation 1.
        unsafe { deallocate_slow(block, layout) };
    }

    /// Frees a small block that is not known to be this thread's, in a hardened build.
    ///
    /// # Safety
    ///
    /// 1. As for [`deallocate`]; the block is of this class, and `heap` is the thread's heap, which
    ///    was entered.
    #[inline(never)]
    unsafe fn deallocate_checked(block: *mut u8, layout: Layout, class: usize, heap: &ThreadHeap) {
        // SAFETY: obligation 1.
        if unsafe { heap.try_post_known(block, class, layout.size()) } {
            heap.ownership.exit();
            return;
        }
        // SAFETY: obligation 1.
        unsafe { deallocate_far(block, layout, class, heap) };
    }

    /// Frees a small block whose segment is not known, or which no open remote-free batch accepts,
    /// in a hardened build.
    ///
    /// # Safety
    ///
    /// 1. As for [`deallocate_checked`].
    #[inline(never)]
    unsafe fn deallocate_far(block: *mut u8, layout: Layout, class: usize, heap: &ThreadHeap) {
        if heap.arena.number().is_at(block.addr()) {
            // SAFETY: obligation 1; the block is this heap's.
            unsafe { heap.arena.push(class, block, layout.size()) };
            heap.ownership.exit();
            return;
        }
        // SAFETY: obligation 1.
        if unsafe { heap.try_post_far(block, class, layout.size()) } {
            heap.ownership.exit();
            return;
        }
        // If it is no block, the slow path reports it.
        // SAFETY: obligation 1.
        unsafe { deallocate_slow(block, layout) };
    }

    /// Frees a block that is not small or not this thread's.
    ///
    /// # Safety
    ///
    /// 1. As for [`deallocate`].
    #[inline(never)]
    unsafe fn deallocate_slow(block: *mut u8, layout: Layout) {
        // SAFETY: blocks are never null.
        let block = unsafe { NonNull::new_unchecked(block) };
        // Without memory for a heap the block is leaked, as no thread can handle it.
        // SAFETY: obligation 1.
        thread::with(|heap| unsafe { heap.deallocate(block, layout) });
    }

    /// Changes a block's size.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of this allocator with the layout `old`; the caller gives it up if the
    ///    call succeeds.
    /// 2. `size`, rounded up to the alignment, does not overflow `isize`.
    #[inline(always)]
    pub(super) unsafe fn reallocate(block: *mut u8, old: Layout, size: usize) -> *mut u8 {
        // SAFETY: obligation 2.
        let new = unsafe { Layout::from_size_align_unchecked(size, old.align()) };
        if let (Some(from), Some(to)) = (small_class_of(old), small_class_of(new)) {
            let heap = thread::here();
            // SAFETY: obligation 1.
            if heap.ownership.enter() && unsafe { heap.is_known(block) } {
                if HARDENED {
                    hardened::check_used(block, from, old.size());
                }
                if from == to {
                    heap.arena.count_resize(old.size(), size);
                    heap.ownership.exit();
                    return block;
                }
                let moved = heap.arena.pop(to, size);
                if !moved.is_null() {
                    heap.arena.count_move();
                    // SAFETY: both blocks are at least as long as the shorter layout, and
                    // different.
                    unsafe { moved.copy_from_nonoverlapping(block, old.size().min(size)) };
                    // SAFETY: obligation 1; the block is this heap's, and the class follows from
                    // the layout.
                    unsafe { heap.arena.push(from, block, old.size()) };
                    heap.ownership.exit();
                    return moved;
                }
            }
        }
        // SAFETY: obligation 1, and both layouts have the same alignment.
        unsafe { reallocate_slow(block, old, new) }
    }

    /// Changes the size of a block that is not small or not this thread's, or for which the list is
    /// empty.
    ///
    /// # Safety
    ///
    /// 1. As for [`reallocate`], with the new layout.
    #[inline(never)]
    unsafe fn reallocate_slow(block: *mut u8, old: Layout, new: Layout) -> *mut u8 {
        // SAFETY: blocks are never null.
        let block = unsafe { NonNull::new_unchecked(block) };
        // SAFETY: obligation 1.
        let resized = thread::with(|heap| unsafe { heap.reallocate(block, old, new) });
        resized.unwrap_or(ptr::null_mut())
    }
}

// SAFETY: the heap keeps the contract: blocks do not overlap, are as long and aligned as requested,
// a refusal is null, and nothing panics or unwinds. Nothing inside allocates through the global
// allocator.
#[cfg(not(any(rast_loom, rast_shuttle)))]
unsafe impl GlobalAlloc for RastAlloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        heap::allocate(layout)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are the heap's.
        unsafe { heap::deallocate(block, layout) };
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        heap::allocate_zeroed(layout)
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { heap::reallocate(block, layout, size) }
    }
}

// Under loom an atomic belongs to one run of a model, so it cannot be static. Under shuttle all
// threads of a model are one OS thread, whose end the heaps wait for. So models use the system's
// allocator.
// SAFETY: the blocks are those of the system's allocator; the other two calls are the trait's.
#[cfg(any(rast_loom, rast_shuttle))]
unsafe impl GlobalAlloc for RastAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's obligations are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are the same.
        unsafe { System.dealloc(block, layout) };
    }
}

impl FrontEnd for RastAlloc {
    #[inline]
    unsafe fn resize(
        self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<u8>, AllocError> {
        if old.align() != new.align() {
            // SAFETY: the caller's obligations.
            return unsafe { self.replace(block, old, new) }.map(NonNull::cast);
        }
        // SAFETY: the caller's obligations; `new` is a layout with a size, and has the old
        // alignment.
        let resized = unsafe { self.realloc(block.as_ptr(), old, new.size()) };
        NonNull::new(resized).ok_or(AllocError)
    }
}

/// Returns a block of this layout, from `from` if the layout has a size.
#[inline]
fn take(layout: Layout, from: impl FnOnce(Layout) -> *mut u8) -> Result<NonNull<[u8]>, AllocError> {
    let block = match layout.size() {
        0 => dangling(layout),
        _ => NonNull::new(from(layout)).ok_or(AllocError)?,
    };
    Ok(NonNull::slice_from_raw_parts(block, layout.size()))
}

// SAFETY: as for `GlobalAlloc`. All values of this type are the same allocator, so a block of one
// may be freed by another, and moving a value moves nothing. A layout without size gets an aligned
// address that is no block.
unsafe impl Allocator for RastAlloc {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: `take` asks for layouts with a size alone.
        take(layout, |layout| unsafe { self.alloc(layout) })
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: `take` asks for layouts with a size alone.
        take(layout, |layout| unsafe { self.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // SAFETY: the caller's obligations, and the layout has a size.
            unsafe { self.dealloc(block.as_ptr(), layout) };
        }
    }

    changes_by_front_end!();
}
