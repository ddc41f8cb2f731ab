//! The allocator of zero size: the heaps of all threads behind one name.
//!
//! Each thread takes from its own heap ([`crate::thread_heap`]); a block goes back to the heap that
//! owns it, whichever thread frees it. The fast paths are here: the class by one load, the heap by
//! one load from the thread, the owner of a block by one load from its segment; no lock, no atomic
//! read-modify-write, no call. Each enters the heap and exits ([`crate::hold`]), so that another
//! thread can take it between two calls.

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

/// The allocator: a value of no size; all values are the one allocator of the process.
///
/// It serves as the global allocator and, by value, as the `Allocator` of single containers; all of
/// these share one memory and one set of figures, and a block may be freed through any of them, on
/// any thread.
///
/// Progress: taking and giving back is wait-free except for the system's calls, and so is giving
/// back what another thread took, except for an exchange per batch that is lock-free. A request of
/// no size touches neither the heap nor the figures.
///
/// A request that the system refuses is repeated twice at most, after this thread's heap and the
/// heaps that no thread holds gave back what they do not need: such a call costs time linear in
/// that and in the number of heaps.
///
/// Not for signal handlers: as with `malloc`, a handler must not allocate or free, since it may
/// have interrupted this thread inside the allocator, whose lists are half changed then. A panic, a
/// `println!` or a lock in a handler may allocate, too.
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
    /// Returns the figures of the process, from any thread.
    ///
    /// Wait-free; cost: linear in the most threads that ever lived at once.
    pub fn stats() -> Stats {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        return Stats::read();
        #[cfg(any(rast_loom, rast_shuttle))]
        Stats::default()
    }

    /// Returns the figures of each size class, smallest first, then of spans without a class and of
    /// mappings.
    ///
    /// Wait-free; cost of each row: linear in the most threads that ever lived at once.
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

    /// Returns how many bytes a block of this layout has: at least its size, and all of them may be
    /// used.
    ///
    /// The block is still given back with the layout that it was taken with, and a change of its
    /// size keeps no more than that layout says.
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

    /// Gives the memory that is unused in the heap of this thread back to the system, and delivers
    /// what this thread freed of others; returns how many bytes went back.
    ///
    /// Cost: linear in the unused memory of this thread.
    pub fn purge() -> usize {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        return thread::with(ThreadHeap::purge).unwrap_or(0);
        #[cfg(any(rast_loom, rast_shuttle))]
        0
    }

    /// Does [`purge`](Self::purge) for this thread, for all threads that are in no call of the
    /// allocator at the moment, and for all heaps whose thread has ended; returns how many bytes
    /// went back.
    ///
    /// A thread that is in a call does it at its next one. Where the system has no `membarrier`
    /// (not Linux, or forbidden by a filter of system calls), so do all threads that did not call
    /// [`on_idle`](Self::on_idle) before.
    ///
    /// A thread whose heap is being purged when it comes back waits for a bounded time, and takes
    /// another heap after that.
    ///
    /// Another thread may tend a heap just then: the background thread, one that frees blocks of a
    /// thread that sleeps, or one that begins to sleep or ends. The call waits for it, up to a
    /// second in all. If that is not enough, the other thread purges the heap itself, and what it
    /// gives back is not counted here. In the child of a `fork` the wait is in vain for a heap that
    /// was tended during the `fork`.
    ///
    /// Blocking, for that second at most; cost: a system call, and linear in the heaps and in their
    /// unused memory.
    pub fn purge_all() -> usize {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        return Self::purge() + ThreadHeap::purge_others(thread::here(), thread_heap::TENDED_MS);
        #[cfg(any(rast_loom, rast_shuttle))]
        0
    }

    /// Sets how long memory is unused before it goes back to the system by itself: `None` is never,
    /// and until this is called it is one second.
    ///
    /// A thread looks at every 64th call that its lists do not serve. What it finds unused at two
    /// looks that are at least the delay apart goes back: the lists of sizes that no thread asked
    /// for, whole segments, and free spans from 64 KiB on, at most 28 MiB of the latter two at a
    /// time. On Linux a background thread, `rast-purge`, does the same for heaps whose thread
    /// sleeps or has ended, with free spans from two pages on. It starts when 16 MiB are committed
    /// beyond those in use, and sleeps when nothing is left to give back. The child of a `fork`
    /// starts its own. Elsewhere [`purge_all`](Self::purge_all) is the means. Segments that stayed
    /// empty while 64 others were emptied go back whatever is set here.
    ///
    /// `None` ends the background thread before it returns: it waits for the step that the thread
    /// is in. A program that has to be single-threaded, or that ends with its last thread instead
    /// of by `exit`, needs that. Otherwise wait-free, except for the system's calls, one of which
    /// may start the thread. Applies to all threads, from their next look on.
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

    /// To be called by a thread before it sleeps: delivers what it freed of others, takes in what
    /// others freed of it, and gives back whole segments that it did not need since the last such
    /// call. Until the thread's next call, other threads may purge its heap and put away what they
    /// free of it.
    ///
    /// Cost: linear in what arrived, and a system call for each segment; the next call is a slow
    /// one, with an exchange more. It waits, for a bounded time, if another thread tends the heap
    /// just then, and takes another heap after that.
    pub fn on_idle() {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        thread::park();
    }
}

// Under loom an atomic belongs to one run of a model and cannot be static, and under shuttle the
// threads of a model are one of the system's, whose end the heaps wait for: there, the system's
// allocator is in.
#[cfg(any(rast_loom, rast_shuttle))]
mod heap {
    use super::{GlobalAlloc, Layout, System};

    /// As in the other build.
    ///
    /// # Safety
    ///
    /// 1. As for [`GlobalAlloc::alloc`].
    pub(super) unsafe fn allocate(layout: Layout) -> *mut u8 {
        // SAFETY: obligation 1.
        unsafe { System.alloc(layout) }
    }

    /// As in the other build.
    ///
    /// # Safety
    ///
    /// 1. As for [`GlobalAlloc::alloc_zeroed`].
    pub(super) unsafe fn allocate_zeroed(layout: Layout) -> *mut u8 {
        // SAFETY: obligation 1.
        unsafe { System.alloc_zeroed(layout) }
    }

    /// As in the other build.
    ///
    /// # Safety
    ///
    /// 1. As for [`GlobalAlloc::dealloc`].
    pub(super) unsafe fn deallocate(block: *mut u8, layout: Layout) {
        // SAFETY: obligation 1.
        unsafe { System.dealloc(block, layout) };
    }

    /// As in the other build.
    ///
    /// # Safety
    ///
    /// 1. As for [`GlobalAlloc::realloc`].
    pub(super) unsafe fn reallocate(block: *mut u8, old: Layout, size: usize) -> *mut u8 {
        // SAFETY: obligation 1.
        unsafe { System.realloc(block, old, size) }
    }
}

#[cfg(not(any(rast_loom, rast_shuttle)))]
mod heap {
    use crate::arena::check_class;
    use crate::geometry::HARDENED;
    use crate::hardened;

    use super::{Layout, NonNull, Segment, ThreadHeap, small_class_of, thread};
    use core::ptr;

    /// Takes a block.
    ///
    /// # Safety
    ///
    /// 1. None that this build needs; the other one has some.
    #[inline(always)]
    pub(super) unsafe fn allocate(layout: Layout) -> *mut u8 {
        if let Some(class) = small_class_of(layout) {
            let heap = thread::here();
            if heap.hold.enter() {
                let block = heap.arena.pop(class, layout.size());
                if !block.is_null() {
                    heap.hold.exit();
                    return block;
                }
                // The slow path enters again, and exits.
            }
        }
        allocate_slow(layout)
    }

    #[inline(never)]
    fn allocate_slow(layout: Layout) -> *mut u8 {
        thread::with(|heap| heap.allocate(layout)).unwrap_or(ptr::null_mut())
    }

    /// Takes a block of zeroes.
    ///
    /// # Safety
    ///
    /// 1. None that this build needs; the other one has some.
    pub(super) unsafe fn allocate_zeroed(layout: Layout) -> *mut u8 {
        thread::with(|heap| heap.allocate_zeroed(layout)).unwrap_or(ptr::null_mut())
    }

    /// Gives a block back.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of this allocator with this layout, and the caller gives it up.
    #[inline(always)]
    pub(super) unsafe fn deallocate(block: *mut u8, layout: Layout) {
        if let Some(class) = small_class_of(layout) {
            let heap = thread::here();
            if !heap.hold.enter() {
                // SAFETY: obligation 1.
                unsafe { deallocate_slow(block, layout) };
                return;
            }
            if HARDENED {
                if !heap.arena.has_near(block) {
                    // SAFETY: obligation 1, and the class follows from the layout.
                    unsafe { deallocate_checked(block, layout, class, heap) };
                    return;
                }
                // SAFETY: the block is known to be this heap's.
                let mark = unsafe { heap.arena.near_mark(block) };
                // SAFETY: obligation 1; the block is this heap's, and the class follows from the
                // layout.
                if unsafe {
                    heap.arena
                        .try_push_marked(class, block, layout.size(), mark)
                } {
                    heap.hold.exit();
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
                    heap.hold.exit();
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

    /// Gives a small block of another owner back.
    ///
    /// # Safety
    ///
    /// 1. As for [`deallocate`]; the block is of this class and owner, and `heap` is the thread's,
    ///    which was entered.
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
            heap.hold.exit();
            return;
        }
        // SAFETY: obligation 1.
        unsafe { deallocate_slow(block, layout) };
    }

    /// Gives a small block back that is not known to be this thread's, in a hardened build.
    ///
    /// # Safety
    ///
    /// 1. As for [`deallocate`]; the block is of this class, and `heap` is the thread's, which was
    ///    entered.
    #[inline(never)]
    unsafe fn deallocate_checked(block: *mut u8, layout: Layout, class: usize, heap: &ThreadHeap) {
        // SAFETY: obligation 1.
        if unsafe { heap.try_post_known(block, class, layout.size()) } {
            heap.hold.exit();
            return;
        }
        // SAFETY: obligation 1.
        unsafe { deallocate_far(block, layout, class, heap) };
    }

    /// Gives a small block back whose segment is not known, or that goes into no open remote-free
    /// batch, in a hardened build.
    ///
    /// # Safety
    ///
    /// 1. As for [`deallocate_checked`].
    #[inline(never)]
    unsafe fn deallocate_far(block: *mut u8, layout: Layout, class: usize, heap: &ThreadHeap) {
        if heap.arena.number().is_at(block.addr()) {
            // SAFETY: obligation 1; the block is this heap's.
            unsafe { heap.arena.push(class, block, layout.size()) };
            heap.hold.exit();
            return;
        }
        // SAFETY: obligation 1.
        if unsafe { heap.try_post_far(block, class, layout.size()) } {
            heap.hold.exit();
            return;
        }
        // Where the block is none the slow path says so.
        // SAFETY: obligation 1.
        unsafe { deallocate_slow(block, layout) };
    }

    /// Gives a block back that is not small or not this thread's.
    ///
    /// # Safety
    ///
    /// 1. As for [`deallocate`].
    #[inline(never)]
    unsafe fn deallocate_slow(block: *mut u8, layout: Layout) {
        // SAFETY: blocks are never null.
        let block = unsafe { NonNull::new_unchecked(block) };
        // Without memory for a heap the block stays where it is: lost, as there is no thread who
        // could put it away. SAFETY: obligation 1.
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
            if heap.hold.enter() && unsafe { heap.is_known(block) } {
                if HARDENED {
                    hardened::check_used(block, from, old.size());
                }
                if from == to {
                    heap.arena.count_resize(old.size(), size);
                    heap.hold.exit();
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
                    heap.hold.exit();
                    return moved;
                }
            }
        }
        // SAFETY: obligation 1, and both layouts have the same alignment.
        unsafe { reallocate_slow(block, old, new) }
    }

    /// Changes the size of a block that is not small or not this thread's, or for which no block is
    /// at hand.
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

// SAFETY: the heap keeps the contract (blocks apart, as long and aligned as asked, null on refusal,
// nothing panics or unwinds); nothing inside allocates through the global allocator.
unsafe impl GlobalAlloc for RastAlloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's obligations are the heap's.
        unsafe { heap::allocate(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { heap::deallocate(block, layout) };
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { heap::allocate_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { heap::reallocate(block, layout, size) }
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

/// A block of this layout, which `from` takes if it has a size.
#[inline]
fn take(layout: Layout, from: impl FnOnce(Layout) -> *mut u8) -> Result<NonNull<[u8]>, AllocError> {
    let block = match layout.size() {
        0 => dangling(layout),
        _ => NonNull::new(from(layout)).ok_or(AllocError)?,
    };
    Ok(NonNull::slice_from_raw_parts(block, layout.size()))
}

// SAFETY: as for `GlobalAlloc`; all values of this type are the same allocator, so a block of one
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
