//! A separate heap for many threads: arenas that are claimed for one call at a time.
//!
//! ```text
//!   SharedHeap   │ budget │ ▪ │ ▪ │   │ … 64 places, and a list
//!                           │   └► stripe: mailbox, arena ─► segments, large blocks
//!                           └────► stripe: mailbox ◄── messages: blocks freed while another thread held the stripe
//! ```
//!
//! 1. Only the thread that holds a stripe's mailbox ([`crate::mailbox`]) uses the stripe. It holds
//!    the mailbox for one call.
//! 2. To allocate, a thread claims any free stripe, and makes another one if all are held. So no
//!    thread waits for another one. In the child of a `fork`, stripes that other threads were using
//!    are skipped forever.
//! 3. A block returns to the stripe that its segment, or the header of its mapping, names as owner.
//!    If another thread holds that stripe, the block is sent as a message, which the holder handles
//!    before it releases the stripe.
//! 4. A message is the freed block, or the header of a freed large block. Messages are a list: the
//!    first word of each is the link to the next one. Bit 0 of a link is set if it leads to the
//!    header of a large block.

use core::fmt;
use core::ptr::{self, NonNull};

use crate::arena::{Arena, check_given};
use crate::block::{Block, dangling};
use crate::budget::Budget;
use crate::front_end::{FrontEnd, changes_by_front_end};
use crate::geometry::HARDENED;
use crate::hardened;
use crate::large::LargeBlocks;
use crate::level::Level;
use crate::mailbox::Mailbox;
use crate::os;
use crate::primitive::sync::atomic::{AtomicU64, Ordering};
use crate::primitive::{self, CachePadded};
use crate::registry::{Entered, Entry};
use crate::segment::Segment;
use crate::stats::{Stats, Sums};
use crate::stripes::Stripes;
use crate::thread_heap::ThreadHeap;
use crate::{AllocError, Allocator, Layout};

/// The bit of a link to the header of a large block.
const IS_LARGE: usize = 1;

/// A separate heap that many threads use at once. Containers borrow it, and dropping it frees all
/// of its memory.
///
/// For one thread at a time, [`Heap`](crate::Heap) is several times faster. A call here costs a
/// compare-exchange and a fence; with a bound, one compare-exchange more. If another thread is
/// using the arena of a block, freeing the block costs three atomic read-modify-writes and a fence.
/// For the memory of a whole program use [`RastAlloc`](crate::RastAlloc).
///
/// The heap maps address space in segments of 4 MiB. A page of a segment occupies memory only once
/// it is touched. Each thread that is inside a call at the same time as others uses segments of its
/// own.
///
/// Progress: lock-free except for system calls; no thread waits for another one. In the child of a
/// `fork`, the parts that other threads were using stay unusable: the child allocates from other
/// parts and from new ones. Blocks that it frees into an unusable part are leaked. The bytes of
/// requests that were in progress at the `fork` stay counted against the bound.
///
/// ```
/// use rast_alloc::{SharedHeap, vec::Vec};
///
/// let heap = SharedHeap::new();
/// std::thread::scope(|scope| {
///     for start in [0, 1000] {
///         let heap = &heap;
///         scope.spawn(move || {
///             let mut numbers = Vec::new_in(heap);
///             numbers.extend(start..start + 1000);
///             assert_eq!(numbers.len(), 1000);
///         });
///     }
/// });
/// assert_eq!(heap.stats().bytes_current, 0);
/// ```
///
/// A bound on the requested bytes makes a heap a budget for all threads:
///
/// ```
/// use rast_alloc::{SharedHeap, vec::Vec};
///
/// let heap = SharedHeap::bounded(1024);
/// let mut buffer = Vec::<u8, _>::new_in(&heap);
/// assert!(buffer.try_reserve_exact(1000).is_ok());
/// assert!(buffer.try_reserve_exact(2000).is_err());
/// ```
///
/// A container cannot outlive its heap:
///
/// ```compile_fail,E0597
/// use rast_alloc::{SharedHeap, boxed::Box};
///
/// let mut kept = None;
/// {
///     let heap = SharedHeap::new();
///     kept = Some(Box::new_in(1, &heap));
/// }
/// drop(kept);
/// ```
pub struct SharedHeap {
    budget: Budget,
    stripes: Stripes<Stripe>,
}

impl core::panic::UnwindSafe for SharedHeap {}
impl core::panic::RefUnwindSafe for SharedHeap {}

/// An arena that one thread at a time holds.
#[repr(C)]
struct Stripe {
    arena: Arena,
    mailbox: CachePadded<Mailbox>,
    /// Blocks that were freed by messages.
    foreign_frees: AtomicU64,
    /// The bytes requested for them.
    foreign_bytes: AtomicU64,
    entry: Entry<Self>,
}

impl Entered for Stripe {
    fn entry(&self) -> &Entry<Self> {
        &self.entry
    }
}

/// The length of the mapping of a stripe.
const STRIPE: usize = size_of::<Stripe>().next_multiple_of(os::PAGE);

primitive::thread_local! {
    /// Its address is different for each thread.
    static PLACE: u8 = const { 0 };
}

/// Where this thread starts its search.
fn place() -> usize {
    let address = PLACE.with(|place| ptr::from_ref(place).addr());
    ((address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as usize
}

impl Stripe {
    /// Maps a new stripe that the caller holds; `None` if the system has no memory.
    fn map() -> Option<NonNull<Self>> {
        let place = os::map(STRIPE, os::PAGE)?.cast::<Self>();
        let stripe = Self {
            arena: Arena::new(LargeBlocks::tracked()),
            mailbox: CachePadded::new(Mailbox::new()),
            foreign_frees: AtomicU64::new(0),
            foreign_bytes: AtomicU64::new(0),
            entry: Entry::new(),
        };
        // SAFETY: the mapping is new, long enough, and aligned to a page.
        unsafe { place.write(stripe) };
        // SAFETY: it was written above, and stays until it is unmapped.
        let stripe = unsafe { place.as_ref() };
        stripe.arena.set_owner(place.as_ptr().cast_const().cast());
        Some(place)
    }

    /// Unmaps a stripe and all of its memory.
    ///
    /// # Safety
    ///
    /// 1. `stripe` came from [`Stripe::map`], and neither it nor a block of it is used any more.
    unsafe fn unmap(stripe: NonNull<Self>) {
        // SAFETY: obligation 1.
        unsafe { ptr::drop_in_place(stripe.as_ptr()) };
        // SAFETY: obligation 1; `map` mapped exactly this.
        unsafe { os::unmap(stripe.cast(), STRIPE, os::PAGE) };
    }

    /// Handles the arrived messages. Only the holder calls it.
    fn handle_messages(&self) {
        let mut link = self.mailbox.take();
        while !link.is_null() {
            let block = link.map_addr(|address| address & !IS_LARGE);
            let is_large = link.addr() & IS_LARGE != 0;
            if HARDENED {
                if is_large {
                    hardened::check_head(block);
                } else {
                    // SAFETY: messages that lie in this arena are free blocks of at least two
                    // words.
                    unsafe { self.arena.check_sealed(block) };
                }
            }
            // SAFETY: messages are free blocks, or headers of large ones, linked through their
            // first words.
            link = unsafe { Block::next(block) };
            if is_large {
                // SAFETY: the header is that of a large block of this arena that was freed.
                unsafe { self.arena.accept_large(block) };
            } else {
                // SAFETY: the block is of this arena, was freed, and is in no list.
                unsafe { self.arena.accept(block) };
            }
        }
    }

    /// Releases the stripe. Only the holder calls it.
    fn leave(&self) {
        loop {
            if !self.mailbox.is_empty() {
                self.handle_messages();
            }
            if !self.mailbox.release() {
                return;
            }
        }
    }

    /// Frees a block of this stripe, whichever thread holds it.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of this stripe with this layout, and the caller gives it up.
    unsafe fn give(&self, block: NonNull<u8>, layout: Layout) {
        if self.mailbox.claim() {
            // SAFETY: obligation 1, and this thread holds the stripe.
            unsafe { self.arena.deallocate(block, layout) };
            self.leave();
        } else {
            // SAFETY: obligation 1.
            unsafe { self.post(block, layout) };
        }
    }

    /// Frees a block by a message.
    ///
    /// # Safety
    ///
    /// 1. As for [`Stripe::give`].
    #[cold]
    unsafe fn post(&self, block: NonNull<u8>, layout: Layout) {
        let (first, last) = if Level::of(layout) == Level::Large {
            // SAFETY: obligation 1.
            let head = unsafe { self.arena.give_up_large(block, layout) };
            (head.map_addr(|address| address | IS_LARGE), head)
        } else {
            // SAFETY: obligation 1: the block lies in a mapped segment.
            unsafe { check_given(block, layout) };
            let block = block.as_ptr().cast();
            if HARDENED {
                // SAFETY: the caller gives the block up; in a hardened build it has at least two
                // words.
                unsafe { hardened::link::seal(block) };
            }
            (block, block)
        };
        // Relaxed: a sum that publishes nothing. [AB6]
        self.foreign_frees.fetch_add(1, Ordering::Relaxed);
        // Relaxed: as for [AB6]. [AB7]
        self.foreign_bytes
            .fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the block is free, this thread's alone, and a list of one.
        if unsafe { self.mailbox.deliver(first, last) } {
            self.leave();
        }
    }
}

impl SharedHeap {
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
    /// the request is refused only if the additional bytes do not fit.
    #[must_use]
    pub const fn bounded(bytes_max: usize) -> Self {
        Self {
            budget: Budget::new(bytes_max),
            stripes: Stripes::new(),
        }
    }

    /// Returns the bound; `usize::MAX` if there is none.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.budget.bound()
    }

    /// Returns the statistics of this heap, exact if no thread is inside a call.
    ///
    /// The peak of a heap without a bound is the maximum that calls of this method saw. The peak of
    /// a heap with a bound may include requests that the system refused while other threads were
    /// inside calls.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut sums = Sums::default();
        self.stripes.find(0, |stripe| {
            sums.add_early(&stripe.arena);
            // Relaxed: a statistic that publishes nothing. [AB8]
            sums.add_frees(stripe.foreign_frees.load(Ordering::Relaxed));
            None::<()>
        });
        self.stripes.find(0, |stripe| {
            sums.add_late(&stripe.arena);
            // Relaxed: as for [AB8]. [AB9]
            sums.subtract_bytes(stripe.foreign_bytes.load(Ordering::Relaxed));
            None::<()>
        });
        let mut stats = sums.stats();
        if self.budget.bound() == usize::MAX {
            stats.bytes_peak = self.budget.seen(stats.bytes_current);
        } else {
            // The budget has the peak. The sums may exceed it if blocks moved between stripes, or a
            // thread was inside a call, during the reading.
            stats.bytes_peak = self.budget.seen(0);
            stats.bytes_current = stats.bytes_current.min(stats.bytes_peak);
        }
        stats
    }

    /// Returns the unused memory to the system, except for stripes that other threads hold. Returns
    /// the number of bytes.
    ///
    /// Cost: linear in the unused memory.
    pub fn purge(&self) -> usize {
        let mut purged = 0;
        self.stripes.find(0, |stripe| {
            if stripe.mailbox.claim() {
                stripe.handle_messages();
                purged += stripe.arena.purge();
                stripe.leave();
            }
            None::<()>
        });
        purged
    }

    /// Calls `f` with an arena that this thread holds during the call; `None` if there is no memory
    /// for one.
    fn with<R>(&self, f: impl FnOnce(&Arena) -> R) -> Option<R> {
        let claimed = self.stripes.find(place(), |stripe| {
            stripe.mailbox.claim().then(|| NonNull::from(stripe))
        });
        let stripe = claimed.or_else(|| self.add())?;
        // SAFETY: stripes live as long as the heap, which is borrowed.
        let stripe = unsafe { stripe.as_ref() };
        let result = f(&stripe.arena);
        stripe.leave();
        Some(result)
    }

    /// Makes a stripe that the caller holds; `None` if the system has no memory.
    #[cold]
    fn add(&self) -> Option<NonNull<Stripe>> {
        let stripe = Stripe::map()?;
        // SAFETY: the stripe is new, and lives until the heap is dropped.
        unsafe { self.stripes.enter(stripe) };
        Some(stripe)
    }

    /// Returns the stripe of a block.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of this heap with this layout.
    unsafe fn stripe_of(&self, block: NonNull<u8>, layout: Layout) -> &Stripe {
        if HARDENED {
            self.check(block, layout);
        }
        let owner = if Level::of(layout) == Level::Large {
            // SAFETY: obligation 1.
            unsafe { LargeBlocks::owner_of(block, layout) }
        } else {
            // SAFETY: what is not large lies in a segment, obligation 1.
            unsafe { Segment::owner_of(block.as_ptr()) }
        };
        // SAFETY: arenas of this heap name their stripes as owners, which live as long as the heap.
        unsafe { &*owner.cast::<Stripe>() }
    }

    /// Ends the process unless a stripe of this heap owns what is at `block`.
    fn check(&self, block: NonNull<u8>, layout: Layout) {
        let is_own = self.stripes.find(0, |stripe| {
            stripe.arena.is_of(block.as_ptr(), layout).then_some(())
        });
        if is_own.is_none() {
            hardened::end(block.as_ptr(), Level::of(layout).slot(), layout.size());
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
            let used = self.budget.take(layout.size()).ok_or(AllocError)?;
            let request = || self.with(&from).and_then(NonNull::new);
            let taken = ThreadHeap::with_retry(layout, || self.purge(), request);
            let Some(block) = taken else {
                self.budget.give(layout.size());
                return Err(AllocError);
            };
            if used > 0 {
                self.budget.seen(used);
            }
            block
        };
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// Changes the size of a block without counting it in the budget. Returns `None`, and changes
    /// nothing, if the system has no memory.
    ///
    /// # Safety
    ///
    /// 1. As for [`FrontEnd::resize`].
    unsafe fn resize_unbounded(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Option<NonNull<u8>> {
        // SAFETY: obligation 1.
        let stripe = unsafe { self.stripe_of(block, old) };
        if stripe.mailbox.claim() {
            // SAFETY: obligation 1, and this thread holds the stripe.
            let resized = unsafe { stripe.arena.resize(block, old, new) };
            stripe.leave();
            if !resized.is_null() {
                return NonNull::new(resized);
            }
        }
        let moved = self.with(|arena| {
            let moved = NonNull::new(arena.allocate(new));
            if moved.is_some() {
                arena.count_move();
            }
            moved
        })??;
        // SAFETY: both blocks are at least as long as the shorter layout, and different.
        unsafe { moved.copy_from_nonoverlapping(block, old.size().min(new.size())) };
        // SAFETY: obligation 1.
        unsafe { stripe.give(block, old) };
        Some(moved)
    }
}

impl FrontEnd for &SharedHeap {
    unsafe fn resize(
        self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<u8>, AllocError> {
        let more = new.size().saturating_sub(old.size());
        let used = self.budget.take(more).ok_or(AllocError)?;
        // SAFETY: the caller's obligations.
        let request = || unsafe { self.resize_unbounded(block, old, new) };
        match ThreadHeap::with_retry(new, || self.purge(), request) {
            Some(resized) => {
                if used > 0 {
                    self.budget.seen(used);
                }
                self.budget.give(old.size().saturating_sub(new.size()));
                Ok(resized)
            }
            None => {
                self.budget.give(more);
                Err(AllocError)
            }
        }
    }
}

impl Drop for SharedHeap {
    fn drop(&mut self) {
        // SAFETY: containers borrow the heap, so none has a block of it now, except leaked ones;
        // the stripes came from `Stripe::map`, and no thread uses them any more.
        self.stripes
            .clear(|stripe| unsafe { Stripe::unmap(stripe) });
    }
}

impl Default for SharedHeap {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SharedHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedHeap")
            .field("bytes_max", &self.bytes_max())
            .field("stats", &self.stats())
            .finish()
    }
}

// SAFETY: the arenas keep the contract: blocks do not overlap, are as long and aligned as
// requested, and a refusal changes nothing. One thread at a time uses each arena. Copies of the
// reference are the same heap. A block stays valid until it is freed or the heap, which the
// reference borrows, is dropped; moving the heap moves no arena.
unsafe impl Allocator for &SharedHeap {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.take(layout, |arena| arena.allocate(layout))
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.take(layout, |arena| arena.allocate_zeroed(layout))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // SAFETY: the caller's obligations.
            let stripe = unsafe { self.stripe_of(block, layout) };
            // SAFETY: the caller's obligations, and the block is that stripe's.
            unsafe { stripe.give(block, layout) };
            self.budget.give(layout.size());
        }
    }

    changes_by_front_end!();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a block in an arena that is held beside `depth` others.
    fn take_beside(heap: &SharedHeap, depth: usize) -> Option<NonNull<[u8]>> {
        if depth == 0 {
            return heap.allocate(Layout::new::<[u64; 8]>()).ok();
        }
        heap.with(|_| take_beside(heap, depth - 1))?
    }

    /// A link of a message that was written to makes no large block of a short one, and leads to no
    /// block in use.
    #[cfg(all(unix, feature = "hardened"))]
    #[test]
    fn a_message_is_written_to() {
        const CHILD: &str = "RAST_ALLOC_LETTER";
        const TEST: &str = "shared_heap::tests::a_message_is_written_to";
        let cases = [(0, IS_LARGE as u8), (1, IS_LARGE as u8), (1, 1 << 6)];
        if let Ok(case) = std::env::var(CHILD) {
            let (written, bit) = cases[case.parse::<usize>().unwrap()];
            let heap = &SharedHeap::new();
            let layout = Layout::new::<[u64; 8]>();
            // All of a page, so that the neighbours of the first message are in use.
            let blocks = [(); 64].map(|()| heap.allocate(layout).unwrap().cast::<u8>());
            let messages = [blocks[20], blocks[40]];
            heap.with(|_| {
                for message in messages {
                    // SAFETY: the blocks are this heap's and have this layout.
                    unsafe { heap.deallocate(message, layout) };
                }
                // The link of the last one leads to the first, which ends the list.
                let link = messages[written].as_ptr();
                // SAFETY: none: the block was given back, which the heap has to notice.
                let byte = unsafe { link.read_volatile() };
                // SAFETY: as above.
                unsafe { link.write_volatile(byte ^ bit) };
            });
            return;
        }
        for case in 0..cases.len() {
            let output = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", TEST, "--nocapture", "--test-threads=1"])
                .env(CHILD, std::string::ToString::to_string(&case))
                .output()
                .unwrap();
            let told = std::string::String::from_utf8_lossy(&output.stderr);
            assert!(told.contains("was written to after it was freed"), "{told}");
        }
    }

    /// As if so many threads were inside at once and did not go on: the others wait for none of
    /// them.
    #[test]
    fn no_thread_waits_for_threads_inside() {
        let heap = &SharedHeap::new();
        let block = take_beside(heap, 150).unwrap().cast();
        let wide = Layout::new::<[u64; 8]>();
        assert_eq!(heap.stats().live(), 1);
        heap.with(|_| {
            let more = heap.with(|_| take_beside(heap, 70)).unwrap().unwrap();
            // SAFETY: the block is this heap's and has this layout.
            unsafe { heap.deallocate(more.cast(), wide) };
        });
        // SAFETY: as above.
        unsafe { heap.deallocate(block, wide) };
        assert_eq!((heap.stats().live(), heap.stats().bytes_current), (0, 0));
        let mut stripes = 0;
        heap.stripes.find(0, |_| {
            stripes += 1;
            None::<()>
        });
        assert_eq!(stripes, 151, "as many as were held at once");
    }
}
