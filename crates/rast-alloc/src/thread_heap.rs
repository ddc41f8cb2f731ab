//! The heap of a thread: an arena, a mailbox for blocks that other threads free, and remote-free
//! batches (blocks of other heaps that this thread has freed).
//!
//! ```text
//!   thread A                                         thread B
//!   ┌────────────────────────────┐                   ┌────────────────────────┐
//!   │ arena                      │                   │ arena                  │
//!   │ remote-free batches:       │   full, idle,     │                        │
//!   │   [B: ▪▪▪▪ ] ──────────────┼── end of thread ─►│ mailbox ─► 16 to 512   │
//!   │                            │                   │ blocks per slow path   │
//!   └────────────────────────────┘                   └────────────────────────┘
//! ```
//!
//! | field | used by |
//! | --- | --- |
//! | `arena`, `batches`, `remote`, `arrived`, `slow_calls`, `surplus_reported`, `passes` | the holder of the mailbox: the heap's thread, inside a call, or a thread that services the heap |
//! | `ownership`, `mailbox` | any thread |
//! | `foreign`, and the statistics in `arena` | written by the holder, read by any thread |
//! | `pass_ms`, `is_purging`, `is_settled` | written by the holder, read by any thread |
//! | `calls_seen` | the background thread |
//!
//! To *service* a heap is to hold its mailbox without being its thread, in order to handle its
//! messages or to purge it.
//!
//! 1. A heap is never unmapped. When its thread ends, the heap is released, and the next thread
//!    that starts adopts it with the blocks that are in use. A thread also releases its heap in
//!    `on_idle`. Another thread may take the heap of a thread that is in no call
//!    ([`crate::ownership`]). In these two cases other threads only service the heap, and do not
//!    adopt it.
//! 2. A message to a heap that no thread holds is handled by the thread that delivers it.
//! 3. A remote-free batch is delivered when it is full ([`RemoteBatch::is_full`]: 64 blocks or 64
//!    KiB), and when its place, one of [`BATCHES`], is needed for another owner. All batches are
//!    delivered every [`SLOW_CALLS`] slow paths, at idle, at a purge, and when the thread ends.

use core::cell::Cell;
use core::ptr::{self, NonNull};

use crate::Layout;
use crate::adoption::{Offered, Place, Stack};
use crate::arena::{Arena, Run, StepLimit};
use crate::block::Block;
use crate::delay::DELAY;
use crate::geometry::{GRAIN, HARDENED};
use crate::hardened;
use crate::hardened::page_map::RemoteSegments;
use crate::large::LargeBlocks;
use crate::level::{LARGE, Level, SLOTS, SPANS};
use crate::mailbox::Mailbox;
use crate::os;
use crate::ownership::{Action, Found, Ownership, Request, Requests};
use crate::primitive::Counter;
use crate::primitive::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::{self, CachePadded, asymmetric};
use crate::registry::{Entered, Entry, Registry};
use crate::remote_batch::{self as batch, RemoteBatch, unpack};
use crate::segment::Segment;
use crate::size_class::{SLAB_CLASSES, size_of_class};

mod post;
mod resize;
mod retry;
#[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
mod tests;
#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    not(any(miri, rast_system_segments))
))]
mod visit;

/// Number of owners for which a thread has open batches at once.
const BATCHES: usize = 8;
/// Maximum number of arrived blocks that one slow path handles, if none of the requested class is
/// among them.
const MESSAGES_MAX: usize = 512;
/// The minimum: after so many, a slow path stops if it has found a block of the requested class. It
/// is small so that the blocks are still in the first-level cache when they are allocated, and so
/// that no call is long. With 64 or 128 calls took longer: `docs/performance.md`.
const MESSAGES_MIN: usize = 16;
/// Slow paths between two deliveries of all remote-free batches.
const SLOW_CALLS: u32 = 64;
/// Number of tries of a thread to claim its own heap from a thread that services it. The servicing
/// thread releases the heap after a system call.
const CLAIM_TRIES: u32 = 1024;
/// Number of tries before the thread yields between two tries.
const SPINS: u32 = 64;
/// A change of a heap's surplus is reported from this many bytes on.
const UNREPORTED: i64 = 1 << 20;
/// Maximum total time for which [`ThreadHeap::purge_others`] waits for threads that service heaps,
/// in milliseconds. Servicing takes time linear in the unused memory of the heap. A servicing
/// thread that `fork` did not copy never finishes.
pub(crate) const SERVICE_WAIT_MS: u64 = 1000;

/// The source of requests for heaps.
static REQUESTS: Requests = Requests::new();

/// All heaps of threads.
pub(crate) static HEAPS: Registry<ThreadHeap> = Registry::new();
/// Heaps that a thread may adopt.
static ADOPTABLE: Stack<ThreadHeap> = Stack::new();

/// The heap of a thread.
#[repr(C)]
pub(crate) struct ThreadHeap {
    /// First, on the cache line that each call writes to.
    pub(crate) ownership: Ownership,
    pub(crate) arena: Arena,
    batches: [RemoteBatch<Self>; BATCHES],
    /// The segments whose blocks are in these batches.
    remote: RemoteSegments<RemoteBatch<Self>>,
    arrived: Cell<*mut Block>,
    slow_calls: Cell<u32>,
    /// The surplus that was reported last.
    surplus_reported: Cell<u64>,
    /// Decay passes of the background thread since the heap was last used, or blocks arrived.
    passes: Cell<u32>,
    /// Blocks of other owners that this thread freed, by slot.
    pub(crate) foreign: [Counter; SLOTS],
    entry: Entry<Self>,
    place: Place<Self>,
    mailbox: CachePadded<Mailbox>,
    /// `true` while a decay pass has not returned all memory that it found unused.
    is_purging: AtomicBool,
    /// `true` if the background thread found nothing to return and the heap was not used since.
    is_settled: AtomicBool,
    /// The bytes allocated and freed until the last round of the background thread, which alone
    /// uses it.
    calls_seen: AtomicU64,
    /// The time of the last decay pass of any thread, in milliseconds.
    pass_ms: AtomicU64,
}

// SAFETY: by the table above, only the holder of the mailbox uses cells, and its claim acquires
// what the last holder released. All else is atomic, or written before the heap is published.
unsafe impl Sync for ThreadHeap {}

impl Entered for ThreadHeap {
    fn entry(&self) -> &Entry<Self> {
        &self.entry
    }
}

impl Offered for ThreadHeap {
    fn place(&self) -> &Place<Self> {
        &self.place
    }
}

impl ThreadHeap {
    /// Makes a heap without memory. The caller holds it and is inside.
    const fn new() -> Self {
        Self::held_by(Ownership::new())
    }

    /// Makes a placeholder heap that no thread enters.
    pub(crate) const fn none() -> Self {
        Self::held_by(Ownership::none())
    }

    const fn held_by(ownership: Ownership) -> Self {
        Self {
            ownership,
            arena: Arena::new(LargeBlocks::untracked()),
            batches: [const { RemoteBatch::new() }; BATCHES],
            remote: RemoteSegments::none(),
            arrived: Cell::new(ptr::null_mut()),
            slow_calls: Cell::new(0),
            surplus_reported: Cell::new(0),
            passes: Cell::new(0),
            foreign: [const { Counter::new() }; SLOTS],
            entry: Entry::new(),
            place: Place::new(),
            mailbox: CachePadded::new(Mailbox::new()),
            is_purging: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
            calls_seen: AtomicU64::new(0),
            pass_ms: AtomicU64::new(0),
        }
    }

    /// Adopts an abandoned heap, or makes one; `None` if the system has no memory. The caller holds
    /// it, and is inside.
    pub(crate) fn adopt() -> Option<&'static Self> {
        while let Some(heap) = ADOPTABLE.take() {
            if !heap.ownership.is_abandoned() || !heap.mailbox.claim() {
                // The thread that releases it offers it again.
                continue;
            }
            if !heap.ownership.is_abandoned() {
                // It was adopted and parked between the two loads.
                heap.leave();
                continue;
            }
            heap.enter_claimed();
            return Some(heap);
        }
        let bytes = size_of::<Self>().next_multiple_of(os::PAGE);
        let map = || os::map(bytes, os::PAGE);
        let place = map().or_else(|| {
            Self::purge_unheld();
            map()
        });
        let place = place?.cast::<Self>();
        // SAFETY: the mapping is new, long enough, and aligned to a page.
        unsafe { place.write(Self::new()) };
        // SAFETY: it was written above and is never unmapped.
        let heap: &'static Self = unsafe { place.as_ref() };
        heap.arena.set_owner(ptr::from_ref(heap).cast());
        heap.arena.number().take();
        // SAFETY: the heap is new and lives as long as the program.
        unsafe { HEAPS.enter(heap) };
        Some(heap)
    }

    /// The slow path of a call that found the list of `class` full, or an invalid mark of the
    /// block.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of this heap and class, taken for `size` bytes, and the caller, which
    ///    has entered the heap, gives it up.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn push_slow(block: *mut u8, heap: &Self, class: usize, size: usize) {
        // SAFETY: obligation 1.
        unsafe { heap.arena.push(class, block, size) };
        heap.arena.report();
        heap.report();
        heap.ownership.exit();
    }

    /// The owner that the headers of this heap's segments name.
    #[inline(always)]
    pub(crate) fn name(&self) -> *const () {
        ptr::from_ref(self).cast()
    }

    /// Returns `true` if a block of a class is known to be this heap's. In a hardened build it may
    /// be this heap's even if the result is `false`.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of a class of a thread's heap.
    #[inline(always)]
    pub(crate) unsafe fn is_known(&self, block: *mut u8) -> bool {
        if HARDENED {
            return self.arena.has_own(block);
        }
        // SAFETY: obligation 1: a block of a class lies in a segment.
        ptr::eq(unsafe { Segment::owner_of(block) }, self.name())
    }

    /// Allocates a block; null if the system has no memory. Only the holder calls it.
    pub(crate) fn allocate(&self, layout: Layout) -> *mut u8 {
        let mut block = self.allocate_once(layout);
        if block.is_null() {
            self.retry(layout, || {
                block = self.allocate_once(layout);
                !block.is_null()
            });
        }
        block
    }

    /// As [`allocate`](Self::allocate), without a retry.
    #[inline]
    fn allocate_once(&self, layout: Layout) -> *mut u8 {
        let level = Level::of(layout);
        if let Level::Class(class) = level {
            let block = self.arena.pop(class, layout.size());
            if !block.is_null() {
                if class >= SLAB_CLASSES {
                    self.arena.slow_allocated(layout.size());
                }
                return block;
            }
        }
        self.slow_call(level.slot());
        let block = self.arena.allocate(layout);
        self.report_allocated(block, layout);
        block
    }

    /// Allocates a zeroed block; null if the system has no memory. Only the holder calls it.
    pub(crate) fn allocate_zeroed(&self, layout: Layout) -> *mut u8 {
        // Called here too, because a thread that only requests zeroed blocks has no other slow
        // path.
        if !matches!(Level::of(layout), Level::Class(class) if self.arena.has_first(class)) {
            self.slow_call(Level::of(layout).slot());
        }
        let mut block = self.arena.allocate_zeroed(layout);
        if block.is_null() {
            self.retry(layout, || {
                block = self.arena.allocate_zeroed(layout);
                !block.is_null()
            });
        }
        self.report_allocated(block, layout);
        block
    }

    /// Frees a block of any heap. Only the holder calls it.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of a thread's heap with this layout, and the caller gives it up.
    #[inline]
    pub(crate) unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        match Level::of(layout) {
            Level::Class(class) if class < SLAB_CLASSES => self.arena.lower_margin(layout.size()),
            _ => self.arena.slow_freed(layout.size()),
        }
        if HARDENED
            && let Level::Class(class) = Level::of(layout)
            && self.arena.has_own(block.as_ptr())
        {
            // SAFETY: the block is known to be this heap's.
            let mark = unsafe { self.arena.own_mark(block.as_ptr()) };
            // SAFETY: obligation 1, and the block is this heap's.
            unsafe {
                self.arena
                    .push_marked(class, block.as_ptr(), layout.size(), mark)
            };
            return;
        }
        // SAFETY: obligation 1.
        if unsafe { self.has(block, layout) } {
            // SAFETY: obligation 1, and the block is this heap's, or large.
            unsafe { self.arena.deallocate(block, layout) };
            return;
        }
        // SAFETY: the block lies in a segment, as it is not large.
        let owner = unsafe { Segment::owner_of(block.as_ptr()) }.cast::<Self>();
        // SAFETY: segments of thread heaps name one as owner, and heaps are never unmapped.
        let owner = unsafe { &*owner };
        // SAFETY: obligation 1, and the block is that owner's.
        unsafe { self.post(block, owner, layout) };
    }

    /// Returns `true` if this arena may free the block itself: it is its own block, or a large one,
    /// which no thread owns.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of a thread's heap with this layout.
    #[inline]
    pub(crate) unsafe fn has(&self, block: NonNull<u8>, layout: Layout) -> bool {
        if Level::of(layout) == Level::Large {
            return true;
        }
        if HARDENED {
            if self.arena.is_known(block.as_ptr()) {
                return true;
            }
            hardened::check_segment(block.as_ptr(), layout);
        }
        // SAFETY: obligation 1: what is not large lies in a segment.
        ptr::eq(unsafe { Segment::owner_of(block.as_ptr()) }, self.name())
    }

    /// The common part of slow paths: handles some arrived blocks, preferably of the slot `wanted`;
    /// every [`SLOW_CALLS`] calls, delivers all batches and returns unused memory.
    fn slow_call(&self, wanted: usize) {
        if !self.arrived.get().is_null() || !self.mailbox.is_empty() {
            self.handle_messages(MESSAGES_MAX, wanted);
        }
        self.slow_calls.set(self.slow_calls.get().wrapping_add(1));
        if self.slow_calls.get().is_multiple_of(SLOW_CALLS) {
            self.deliver_all();
            self.decay_step();
        }
    }

    /// Does one bounded step of a decay pass, if one is due.
    fn decay_step(&self) {
        let Some(delay_ms) = DELAY.get() else { return };
        let mut limit = StepLimit::step();
        if self.is_purging() {
            self.set_purging(!self.arena.purge_aged(&mut limit).is_all);
            return;
        }
        let now_ms = os::now_ms();
        if self.is_due(now_ms, delay_ms) {
            self.age(now_ms, &mut limit);
        }
    }

    fn is_purging(&self) -> bool {
        // Relaxed: a hint for the background thread, and exact for the holder. [AT4]
        self.is_purging.load(Ordering::Relaxed)
    }

    fn set_purging(&self, is_purging: bool) {
        // Relaxed: as above. [AT5]
        self.is_purging.store(is_purging, Ordering::Relaxed);
    }

    /// Records that the heap is used, or that blocks arrived. Only the holder calls it.
    fn clear_settled(&self) {
        self.passes.set(0);
        // Relaxed: a hint for the background thread. [AT6]
        self.is_settled.store(false, Ordering::Relaxed);
    }

    /// Returns `true` if a decay pass is due.
    fn is_due(&self, now_ms: u64, delay_ms: u64) -> bool {
        // Relaxed: a hint; a stale value only causes one pass more. [AT11]
        let pass_ms = self.pass_ms.load(Ordering::Relaxed);
        // Another thread may have made a pass since this thread read the clock. If the clock was
        // set back by more than the delay, a pass is due.
        pass_ms.abs_diff(now_ms) >= delay_ms
    }

    /// Makes a decay pass. Returns `true` if nothing is left to return, by this pass or the next
    /// ones. Only the holder calls it.
    fn age(&self, now_ms: u64, limit: &mut StepLimit) -> bool {
        // Relaxed: a hint for threads that examine this heap from outside. [AT12]
        self.pass_ms.store(now_ms, Ordering::Relaxed);
        let aged = self.arena.age(limit);
        self.set_purging(!aged.is_all);
        aged.is_all && aged.is_clean
    }

    /// Reports the surplus, if it has changed by [`UNREPORTED`]. Only the holder calls it.
    #[inline]
    pub(crate) fn report(&self) {
        let surplus = self.arena.surplus();
        let change = surplus
            .wrapping_sub(self.surplus_reported.get())
            .cast_signed();
        if change.abs() >= UNREPORTED {
            self.surplus_reported.set(surplus);
            #[cfg(all(
                any(target_os = "linux", target_os = "android"),
                not(any(miri, rast_system_segments))
            ))]
            crate::surplus::report(change);
        }
    }

    /// Handles all arrived blocks.
    fn handle_all_messages(&self) {
        // Large blocks have no list, so the call does not end early.
        while !self.handle_messages(usize::MAX, LARGE) {}
    }

    /// Handles up to `most` arrived blocks, or [`MESSAGES_MIN`] if the list of the class `wanted`
    /// then has a block. Returns `true` if no arrived block is left.
    #[cold]
    #[inline(never)]
    fn handle_messages(&self, most: usize, wanted: usize) -> bool {
        let mut run = Run::none();
        let mut count = 0;
        let is_all = loop {
            let is_served = || run.serves(wanted) || self.arena.has_first(wanted);
            if count >= most || count >= MESSAGES_MIN && is_served() {
                break false;
            }
            if self.arrived.get().is_null() {
                self.arrived.set(self.mailbox.take());
            }
            let link = self.arrived.get();
            if link.is_null() {
                break true;
            }
            if HARDENED {
                self.check_message(link);
                // SAFETY: it is a block of this heap, and `unpack` passes it after those that it
                // carries.
                unsafe { run.expect_segment(batch::block_of(link)) };
            }
            let accept = |block: NonNull<Block>| {
                // SAFETY: messages hold free blocks of this heap, in no other list; the run is this
                // call's.
                unsafe { self.arena.accept_next(&mut run, block.as_ptr()) };
            };
            // SAFETY: messages come from remote-free batches; this one is forgotten for the next.
            let (next, more) = unsafe { unpack(link, accept) };
            self.arrived.set(next);
            count += more;
        };
        if count > 0 {
            self.clear_settled();
        }
        self.arena.finish_run(&run);
        is_all
    }

    /// Ends the process unless a link leads to a block of this heap that may be in transit, and
    /// whose contents are as they were written.
    #[inline]
    fn check_message(&self, link: *mut Block) {
        let slot = self.arena.check_arrived(batch::block_of(link));
        let size = if slot < SPANS {
            size_of_class(slot)
        } else {
            GRAIN
        };
        // SAFETY: messages come from remote-free batches; what arrives is of a class, or a span
        // without one, which has a grain at least.
        unsafe { batch::check_header(link, size) };
    }

    /// Reports the bytes in use to the process-wide sum, if an allocation changed them by much.
    #[inline]
    fn report_allocated(&self, block: *mut u8, layout: Layout) {
        if !block.is_null()
            && !matches!(Level::of(layout), Level::Class(class) if class < SLAB_CLASSES)
        {
            self.arena.slow_allocated(layout.size());
        }
        self.arena.report();
    }

    /// Delivers all batches and handles all arrived blocks. Only the holder calls it.
    pub(crate) fn idle(&self) {
        self.deliver_all();
        self.handle_all_messages();
        self.arena.report();
        self.arena.tick();
        self.decay_step();
    }

    /// Returns all unused memory to the system, and the number of bytes to the caller. Only the
    /// holder calls it.
    pub(crate) fn purge(&self) -> usize {
        self.ownership.take_purge_request();
        self.deliver_all();
        self.handle_all_messages();
        self.arena.purge()
    }

    /// Enters after [`Ownership::enter`] failed, and performs the requested action. Returns `false`
    /// if the heap is parked. Only the heap's thread calls it.
    #[cold]
    pub(crate) fn enter_slow(&self) -> bool {
        match self.ownership.enter_slow() {
            Found::Parked => return false,
            Found::Requested(Action::Purge) => {
                self.purge();
            }
            Found::Requested(Action::Decay) => self.decay_step(),
            Found::Own => {}
        }
        true
    }

    /// Delivers all batches, handles all arrived blocks, purges if a purge is requested, and
    /// releases the heap. Only the holder calls it, outside of a call.
    #[cold]
    pub(crate) fn leave(&self) {
        loop {
            self.deliver_all();
            self.handle_all_messages();
            if self.ownership.is_purge_requested() {
                self.purge();
            }
            if !self.ownership.is_parked() {
                self.arena.empty_lists();
                self.arena.tick();
            }
            self.arena.report_exact();
            if !self
                .mailbox
                .release_unless(|| self.ownership.is_purge_requested())
            {
                break;
            }
        }
        if self.ownership.is_abandoned() {
            self.offer();
        }
    }

    /// Offers the heap to starting threads. It may still be held.
    fn offer(&self) {
        // SAFETY: heaps are never unmapped, and the two static heaps without memory are never
        // released.
        unsafe { ADOPTABLE.offer(self) };
    }

    /// Abandons the heap for adoption. Only its thread calls it, inside.
    pub(crate) fn abandon(&self) {
        self.ownership.abandon();
        self.leave();
    }

    /// Releases the heap until [`reacquire`](Self::reacquire). Only its thread calls it, inside,
    /// after [`idle`](Self::idle).
    pub(crate) fn park(&self) {
        self.ownership.park();
        self.leave();
    }

    /// Claims and enters the heap that this thread parked, or that was taken from it. Returns
    /// `false` if another thread services it for too long; the heap is then abandoned.
    pub(crate) fn reacquire(&self) -> bool {
        // No `Backoff`: its first use may allocate.
        let claimed = (0..CLAIM_TRIES).any(|turn| {
            if turn > SPINS {
                primitive::thread::yield_now();
            }
            self.mailbox.claim()
        });
        if claimed {
            self.enter_claimed();
        } else {
            self.abandon_parked();
        }
        claimed
    }

    /// Makes a parked or abandoned heap, which the caller holds, the caller's own.
    fn enter_claimed(&self) {
        self.clear_settled();
        // At its release the heap reported its exact use. Fast paths may now free blocks, so the
        // report must be a lower bound.
        self.arena.report();
        if self.ownership.enter_claimed() == Action::Purge {
            self.purge();
        }
    }

    /// Abandons a parked heap for adoption. Only the thread that parked it calls it.
    pub(crate) fn abandon_parked(&self) {
        self.ownership.abandon_parked();
        self.offer();
    }

    /// Claims a heap that no thread uses at the moment. Returns `false` if there is a holder, which
    /// then sees a purge request of the caller.
    ///
    /// # Safety
    ///
    /// 1. If `is_fenced`, the caller made the request, and [`asymmetric::barrier`] returned `true`
    ///    after that.
    unsafe fn take(&self, request: Request, is_fenced: bool) -> bool {
        // SAFETY: obligation 1.
        self.mailbox.claim_anew() || is_fenced && unsafe { self.ownership.take(request) }
    }

    /// Claims a heap that another thread services, once that thread has released it. If a third
    /// thread requested the heap too, replaces that request by one for a purge. Returns `false` if
    /// the heap's thread uses it, or the wait is over.
    fn wait_and_take(&self, wait: &Wait) -> bool {
        loop {
            if self.ownership.is_requested() {
                let request = REQUESTS.next(Action::Purge);
                self.ownership.request(request);
                let is_fenced = asymmetric::barrier();
                // SAFETY: this thread made the request, and the barrier came after it if
                // `is_fenced`.
                if unsafe { self.take(request, is_fenced) } {
                    return true;
                }
                if !is_fenced {
                    return false;
                }
            } else if !(self.ownership.is_parked() || self.ownership.is_abandoned()) {
                return false;
            } else if self.mailbox.claim() {
                return true;
            }
            if wait.is_over() {
                return false;
            }
            primitive::thread::yield_now();
        }
    }

    /// Purges all heaps except `here`, the calling thread's: heaps without a thread, parked heaps,
    /// and heaps whose thread is in no call, which it takes. The other threads purge at their next
    /// call. Returns the number of bytes that this call returned to the system.
    ///
    /// Waits up to `wait_ms` in all for threads that service heaps. A thread that takes longer
    /// purges the heap itself before it releases the heap.
    pub(crate) fn purge_others(here: &Self, wait_ms: u64) -> usize {
        Self::purge_where(|heap| !ptr::eq(heap, here), wait_ms)
    }

    /// As [`purge_others`](Self::purge_others), for the heaps that satisfy a condition.
    fn purge_where(is_meant: impl Fn(&Self) -> bool, wait_ms: u64) -> usize {
        let request = REQUESTS.next(Action::Purge);
        HEAPS.find(|heap| {
            if is_meant(heap) {
                heap.ownership.request(request);
            }
            None::<()>
        });
        let is_fenced = asymmetric::barrier();
        let wait = Wait::of(wait_ms);
        let mut purged = 0;
        HEAPS.find(|heap| {
            // SAFETY: this thread made the request, and the barrier came after it if `is_fenced`.
            let is_had = || unsafe { heap.take(request, is_fenced) };
            if is_meant(heap) && (is_had() || heap.wait_and_take(&wait)) {
                purged += heap.purge();
                heap.leave();
            }
            None::<()>
        });
        purged
    }
}

/// A bounded wait. Without a clock of the system it ends at once.
struct Wait {
    start_ms: u64,
    wait_ms: u64,
}

impl Wait {
    /// Starts a wait.
    fn of(wait_ms: u64) -> Self {
        Self {
            start_ms: os::now_ms(),
            wait_ms,
        }
    }

    /// Returns `true` if the wait is over; a clock that is set back ends it.
    fn is_over(&self) -> bool {
        self.start_ms == 0 || os::now_ms().wrapping_sub(self.start_ms) >= self.wait_ms
    }
}
