//! A separate heap for containers: freed as a whole, with an optional bound.

use core::cell::Cell;
use core::fmt;
use core::ptr::{self, NonNull};

use crate::arena::Arena;
use crate::block::dangling;
use crate::front_end::{FrontEnd, changes_by_front_end};
use crate::geometry::HARDENED;
use crate::hardened;
use crate::large::LargeBlocks;
use crate::level::Level;
use crate::os;
use crate::stats::{Stats, Sums};
use crate::thread_heap::ThreadHeap;
use crate::{AllocError, Allocator, Layout};

/// A separate heap. Containers borrow it, and dropping it frees all of its memory.
///
/// A heap may be sent to another thread but not shared. So one thread at a time uses it, without
/// synchronisation.
///
/// The heap maps address space in segments of 4 MiB. A page of a segment occupies memory only once
/// it is touched.
///
/// Progress: wait-free except for system calls.
///
/// ```
/// use rast_alloc::{Heap, vec::Vec};
///
/// let heap = Heap::new();
/// let mut names = Vec::new_in(&heap);
/// names.push("shard");
/// let mut counts = hashbrown::HashMap::new_in(&heap);
/// counts.insert("shard", 1);
/// assert!(heap.stats().bytes_current > 0);
/// # drop((names, counts));
/// ```
///
/// A bound on the requested bytes makes a heap a budget:
///
/// ```
/// use rast_alloc::{Heap, vec::Vec};
///
/// let heap = Heap::bounded(1024);
/// let mut buffer = Vec::<u8, _>::new_in(&heap);
/// assert!(buffer.try_reserve_exact(1000).is_ok());
/// assert!(buffer.try_reserve_exact(2000).is_err());
/// ```
///
/// A container cannot outlive its heap:
///
/// ```compile_fail,E0597
/// use rast_alloc::{Heap, vec::Vec};
///
/// let mut kept = None;
/// {
///     let heap = Heap::new();
///     kept = Some(Vec::<u8, _>::new_in(&heap));
/// }
/// drop(kept);
/// ```
///
/// Two threads cannot use it at once:
///
/// ```compile_fail,E0277
/// use rast_alloc::Heap;
///
/// let heap = Heap::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| heap.stats());
/// });
/// ```
pub struct Heap {
    /// The arena, in a mapping of its own, since its segments name its address; none before the
    /// first block.
    arena: Cell<Option<NonNull<Arena>>>,
    bound: usize,
    peak: Cell<usize>,
}

// SAFETY: only this value uses the arena's cells, and one thread has it at a time.
unsafe impl Send for Heap {}

impl core::panic::UnwindSafe for Heap {}
impl core::panic::RefUnwindSafe for Heap {}

impl Heap {
    /// Makes a heap without a bound. It maps nothing before the first block.
    #[must_use]
    pub const fn new() -> Self {
        Self::bounded(usize::MAX)
    }

    /// Makes a heap with a bound: a request is refused if the bytes requested and not yet freed
    /// would exceed `bytes_max`.
    ///
    /// Rounding is not counted, so the address space may exceed the bound; see
    /// [`Stats::bytes_reserved`]. A block that moves during a reallocation is not counted twice:
    /// the request is refused only if the new block does not fit in place of the old one.
    #[must_use]
    pub const fn bounded(bytes_max: usize) -> Self {
        Self {
            arena: Cell::new(None),
            bound: bytes_max,
            peak: Cell::new(0),
        }
    }

    /// Returns the bound; `usize::MAX` if there is none.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.bound
    }

    /// Returns the statistics of this heap, all exact.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut sums = Sums::default();
        if let Some(arena) = self.arena() {
            sums.add_early(arena);
            sums.add_late(arena);
        }
        let mut stats = sums.stats();
        stats.bytes_peak = self.peak.get();
        stats
    }

    /// Returns the unused memory to the system, and the number of bytes to the caller.
    ///
    /// Cost: linear in the unused memory.
    pub fn purge(&self) -> usize {
        self.arena().map_or(0, Arena::purge)
    }

    fn arena(&self) -> Option<&Arena> {
        // SAFETY: the arena is in its mapping until this value is dropped.
        self.arena.get().map(|arena| unsafe { arena.as_ref() })
    }

    #[inline]
    fn arena_or_new(&self) -> Option<&Arena> {
        match self.arena() {
            Some(arena) => Some(arena),
            None => self.arena_slow(),
        }
    }

    #[cold]
    fn arena_slow(&self) -> Option<&Arena> {
        let map = || os::map(ARENA, os::PAGE);
        let place = map().or_else(|| {
            ThreadHeap::purge_unheld();
            map()
        });
        let place = place?.cast::<Arena>();
        // SAFETY: the mapping is new, long enough, and aligned to a page.
        unsafe { place.write(Arena::new(LargeBlocks::tracked())) };
        self.arena.set(Some(place));
        let arena = self.arena();
        if let Some(arena) = arena {
            arena.set_owner(place.as_ptr().cast_const().cast());
        }
        arena
    }

    /// Returns `true` if `more` bytes in place of `less` stay within the bound.
    #[inline]
    fn admits(&self, arena: &Arena, less: usize, more: usize) -> bool {
        let requested = arena.requested() as usize;
        match (requested - less).checked_add(more) {
            Some(bytes) if bytes <= self.bound => {
                if bytes > self.peak.get() {
                    self.peak.set(bytes);
                }
                true
            }
            _ => false,
        }
    }

    fn take(
        &self,
        layout: Layout,
        from: impl Fn(&Arena) -> *mut u8,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let block = if layout.size() == 0 {
            dangling(layout)
        } else {
            let arena = self.arena_or_new().ok_or(AllocError)?;
            let peak = self.peak.get();
            if !self.admits(arena, 0, layout.size()) {
                return Err(AllocError);
            }
            let request = || NonNull::new(from(arena));
            let taken = ThreadHeap::with_retry(layout, || arena.purge(), request);
            taken.ok_or_else(|| {
                self.peak.set(peak);
                AllocError
            })?
        };
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }
}

impl FrontEnd for &Heap {
    #[inline]
    unsafe fn resize(
        self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<u8>, AllocError> {
        let arena = self.arena().ok_or(AllocError)?;
        let peak = self.peak.get();
        if !self.admits(arena, old.size(), new.size()) {
            return Err(AllocError);
        }
        if HARDENED {
            arena.check_own(block.as_ptr(), old);
        }
        // SAFETY: the caller's obligations.
        let request = || NonNull::new(unsafe { arena.reallocate(block, old, new) });
        ThreadHeap::with_retry(new, || arena.purge(), request).ok_or_else(|| {
            self.peak.set(peak);
            AllocError
        })
    }
}

/// The length of the mapping of an arena.
const ARENA: usize = size_of::<Arena>().next_multiple_of(os::PAGE);

impl Drop for Heap {
    fn drop(&mut self) {
        if let Some(arena) = self.arena.take() {
            // SAFETY: `arena_slow` wrote the arena; containers borrow the heap, so none has a block
            // of it now, except leaked ones.
            unsafe { ptr::drop_in_place(arena.as_ptr()) };
            // SAFETY: `arena_slow` made the mapping, which is not used any more.
            unsafe { os::unmap(arena.cast(), ARENA, os::PAGE) };
        }
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap")
            .field("bytes_max", &self.bound)
            .field("stats", &self.stats())
            .finish()
    }
}

// SAFETY: the arena keeps the contract: blocks do not overlap, are as long and aligned as
// requested, and a refusal changes nothing. Copies of the reference are the same heap. A block
// stays valid until it is freed or the heap, which the reference borrows, is dropped; moving the
// heap moves no arena.
unsafe impl Allocator for &Heap {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.take(layout, |arena| arena.allocate(layout))
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.take(layout, |arena| arena.allocate_zeroed(layout))
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            match self.arena() {
                Some(arena) => {
                    if HARDENED {
                        arena.check_own(block.as_ptr(), layout);
                    }
                    // SAFETY: the caller's obligations: the block is this arena's and has this
                    // layout.
                    unsafe { arena.deallocate(block, layout) };
                }
                None if HARDENED => {
                    hardened::end(block.as_ptr(), Level::of(layout).slot(), layout.size());
                }
                None => {}
            }
        }
    }

    changes_by_front_end!();
}
