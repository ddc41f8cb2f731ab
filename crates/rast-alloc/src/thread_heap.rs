//! The heap of a thread: an arena, a mailbox for what other threads free, and remote-free batches
//! of what this one frees of theirs.
//!
//! ```text
//!   thread A                                      thread B
//!   ┌────────────────────────┐                    ┌────────────────────────┐
//!   │ arena                  │                    │ arena                  │
//!   │ remote-free batches: [B: ▪▪▪▪ ] ───┼── full, idle, ───► │ mailbox ─► a few per   │
//!   │                        │   end of thread    │            slow path   │
//!   └────────────────────────┘                    └────────────────────────┘
//! ```
//!
//! | field | used by |
//! | --- | --- |
//! | `arena`, `batches`, `afar`, `arrived`, `turns`, `reported`, `looks` | the holder of the mailbox: the heap's thread, inside of a call, or a thread that tends the heap meanwhile |
//! | `hold`, `mailbox` | any thread |
//! | the sums of `arena`, `foreign` | written by the holder, read by any thread |
//! | `looked_ms`, `is_purging`, `is_settled` | written by the holder, read by any thread |
//! | `calls_seen` | the background thread |
//!
//! 1. A heap is never unmapped. When its thread ends, it is released, and the next thread that
//!    begins adopts it whole, with what is still in use. A heap whose thread is idle is released
//!    too, or taken from it ([`crate::hold`]), but kept for that thread: others tend it and adopt
//!    another one.
//! 2. A message to a heap that no thread holds is put away by the thread that delivered it.
//! 3. A remote-free batch is delivered when it is full ([`RemoteBatch::is_full`]: 64 blocks or 64
//!    KiB), when another owner needs its place, every [`TURNS`] slow paths, at idle, and when the
//!    thread ends.

use core::cell::Cell;
use core::ptr::{self, NonNull};

use crate::Layout;
use crate::adoption::{Offered, Place, Stack};
use crate::arena::{Arena, Pace, Run};
use crate::block::Block;
use crate::delay::DELAY;
use crate::geometry::{GRAIN, HARDENED};
use crate::hardened;
use crate::hardened::units::Afar;
use crate::hold::{Ask, Asks, Found, Hold, Wish};
use crate::large::Larges;
use crate::level::{LARGE, Level, SLOTS, SPANS};
use crate::mailbox::Mailbox;
use crate::os;
use crate::primitive::Counter;
use crate::primitive::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::{self, CachePadded, asymmetric};
use crate::registry::{Entered, Entry, Registry};
use crate::remote_batch::{self as batch, RemoteBatch, unpack};
use crate::segment::Segment;
use crate::size_class::{SLAB_CLASSES, size_of_class};

mod again;
mod post;
mod resize;
#[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
mod tests;
#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    not(any(miri, rast_system_segments))
))]
mod visit;

/// Owners that a thread collects blocks for at a time.
const BATCHES: usize = 8;
/// Blocks that one slow path puts away of those that arrived, if there is none of the wanted class
/// among them.
const PUT_AWAY: usize = 512;
/// And if there is one: few, so that those that come next are still in the nearest cache when they
/// are asked for, and no call keeps the thread for long. By 64 or 128 it took longer:
/// `docs/performance.md`.
const PUT_AWAY_LEAST: usize = 16;
/// Slow paths between two deliveries of all remote-free batches.
const TURNS: u32 = 64;
/// How often a thread that comes back tries to claim its heap; who tends it lets go after a system
/// call.
const PATIENCE: u32 = 1024;
/// After how many tries it yields between two.
const SPINS: u32 = 64;
/// How far a heap's surplus may be from what it reported last.
const UNREPORTED: i64 = 1 << 20;
/// How long [`ThreadHeap::purge_others`] waits at most, in all, for threads that tend other
/// threads' heaps, in milliseconds. A tender needs a time that is linear in what its heap does not
/// use; one that was not copied by `fork` never ends.
pub(crate) const TENDED_MS: u64 = 1000;

/// The asks for heaps.
static ASKS: Asks = Asks::new();

/// All heaps of threads.
pub(crate) static HEAPS: Registry<ThreadHeap> = Registry::new();
/// Those that a thread may adopt.
static LEFT: Stack<ThreadHeap> = Stack::new();

/// The heap of a thread.
#[repr(C)]
pub(crate) struct ThreadHeap {
    /// First, on the line that each call writes to.
    pub(crate) hold: Hold,
    pub(crate) arena: Arena,
    batches: [RemoteBatch<Self>; BATCHES],
    /// Whose blocks lie in them.
    afar: Afar<RemoteBatch<Self>>,
    arrived: Cell<*mut Block>,
    turns: Cell<u32>,
    /// The surplus that was last reported.
    reported: Cell<u64>,
    /// Looks of the background thread since the heap was last used, or blocks arrived.
    looks: Cell<u32>,
    /// Blocks of other owners that this thread freed, by slot.
    pub(crate) foreign: [Counter; SLOTS],
    entry: Entry<Self>,
    place: Place<Self>,
    mailbox: CachePadded<Mailbox>,
    /// Whether some of what is unneeded has not gone back yet.
    is_purging: AtomicBool,
    /// Whether the background thread found nothing left to give back, and nothing happened since.
    is_settled: AtomicBool,
    /// The bytes taken and given at the last round of the background thread, which alone uses it.
    calls_seen: AtomicU64,
    /// When some thread looked last for what is unneeded, in milliseconds.
    looked_ms: AtomicU64,
}

// SAFETY: the table above says who uses what: cells only the holder of the mailbox, whose claim
// acquires what the last holder released; all else is atomic, or written before the heap is
// published.
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
    /// A heap without memory, held by the caller, which is inside.
    const fn new() -> Self {
        Self::held_by(Hold::new())
    }

    /// A heap that no thread enters.
    pub(crate) const fn none() -> Self {
        Self::held_by(Hold::none())
    }

    const fn held_by(hold: Hold) -> Self {
        Self {
            hold,
            arena: Arena::new(Larges::untracked()),
            batches: [const { RemoteBatch::new() }; BATCHES],
            afar: Afar::none(),
            arrived: Cell::new(ptr::null_mut()),
            turns: Cell::new(0),
            reported: Cell::new(0),
            looks: Cell::new(0),
            foreign: [const { Counter::new() }; SLOTS],
            entry: Entry::new(),
            place: Place::new(),
            mailbox: CachePadded::new(Mailbox::new()),
            is_purging: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
            calls_seen: AtomicU64::new(0),
            looked_ms: AtomicU64::new(0),
        }
    }

    /// Adopts an abandoned heap, or makes one; `None` if the system has no memory. The caller holds
    /// it, and is inside.
    pub(crate) fn adopt() -> Option<&'static Self> {
        while let Some(heap) = LEFT.take() {
            if !heap.hold.is_abandoned() || !heap.mailbox.claim() {
                // The thread that gives it up offers it again.
                continue;
            }
            if !heap.hold.is_abandoned() {
                // It was adopted and parked between the two looks.
                heap.leave();
                continue;
            }
            heap.take_up();
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

    /// Ends a call that found the list of `class` full, or what it does not like of the block, with
    /// the slow path.
    ///
    /// The block is the first argument, as it is that of the fast path, which has to move it else.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of this heap and class, taken for `size` bytes, and the caller gives
    ///    it up; it is inside.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn push_slow(block: *mut u8, heap: &Self, class: usize, size: usize) {
        // SAFETY: obligation 1.
        unsafe { heap.arena.push(class, block, size) };
        heap.arena.tell();
        heap.report();
        heap.hold.exit();
    }

    /// What the headers of this heap's segments name as owner.
    #[inline(always)]
    pub(crate) fn name(&self) -> *const () {
        ptr::from_ref(self).cast()
    }

    /// Whether a block of a class is known to be this heap's; only in a hardened build it may be
    /// without being known so.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of a class of a thread's heap.
    #[inline(always)]
    pub(crate) unsafe fn is_known(&self, block: *mut u8) -> bool {
        if HARDENED {
            return self.arena.has_near(block);
        }
        // SAFETY: obligation 1: a block of a class lies in a segment.
        ptr::eq(unsafe { Segment::owner_of(block) }, self.name())
    }

    /// Takes a block; null if the system has no memory. Only the holder calls it.
    pub(crate) fn allocate(&self, layout: Layout) -> *mut u8 {
        let mut block = self.allocate_once(layout);
        if block.is_null() {
            self.again(layout, || {
                block = self.allocate_once(layout);
                !block.is_null()
            });
        }
        block
    }

    /// As [`allocate`](Self::allocate), of what is at hand or the system grants at once.
    #[inline]
    fn allocate_once(&self, layout: Layout) -> *mut u8 {
        let level = Level::of(layout);
        if let Level::Class(class) = level {
            let block = self.arena.pop(class, layout.size());
            if !block.is_null() {
                if class >= SLAB_CLASSES {
                    self.arena.earn(layout.size());
                }
                return block;
            }
        }
        self.turn(level.slot());
        let block = self.arena.allocate(layout);
        self.tell_taken(block, layout);
        block
    }

    /// Takes a block of zeroes; null if the system has no memory. Only the holder calls it.
    pub(crate) fn allocate_zeroed(&self, layout: Layout) -> *mut u8 {
        // The thread that asks for zeroes alone comes by no other slow path.
        if !matches!(Level::of(layout), Level::Class(class) if self.arena.has_first(class)) {
            self.turn(Level::of(layout).slot());
        }
        let mut block = self.arena.allocate_zeroed(layout);
        if block.is_null() {
            self.again(layout, || {
                block = self.arena.allocate_zeroed(layout);
                !block.is_null()
            });
        }
        self.tell_taken(block, layout);
        block
    }

    /// Gives a block back, no matter which thread owns it. Only the holder calls it.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of a thread's heap with this layout, and the caller gives it up.
    #[inline]
    pub(crate) unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        match Level::of(layout) {
            Level::Class(class) if class < SLAB_CLASSES => self.arena.spend(layout.size()),
            _ => self.arena.repay(layout.size()),
        }
        if HARDENED
            && let Level::Class(class) = Level::of(layout)
            && self.arena.has_near(block.as_ptr())
        {
            // SAFETY: the block is known to be this heap's.
            let mark = unsafe { self.arena.near_mark(block.as_ptr()) };
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

    /// Whether the arena may free the block by itself: it is its own, or large, which no thread
    /// owns.
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

    /// What each slow path does besides: puts away some of what arrived, for who wants a block of
    /// the slot `wanted`; delivers from time to time.
    fn turn(&self, wanted: usize) {
        if !self.arrived.get().is_null() || !self.mailbox.is_empty() {
            self.put_away(PUT_AWAY, wanted);
        }
        self.turns.set(self.turns.get().wrapping_add(1));
        if self.turns.get().is_multiple_of(TURNS) {
            self.deliver_all();
            self.look();
        }
    }

    /// Gives back what no thread needed for as long as is set: a bounded step.
    fn look(&self) {
        let Some(delay_ms) = DELAY.get() else { return };
        let mut pace = Pace::step();
        if self.is_purging() {
            self.set_purging(!self.arena.purge_aged(&mut pace).is_all);
            return;
        }
        let now_ms = os::now_ms();
        if self.is_due(now_ms, delay_ms) {
            self.age(now_ms, &mut pace);
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

    /// Notes that the heap is used, or that blocks arrived. Only the holder calls it.
    fn unsettle(&self) {
        self.looks.set(0);
        // Relaxed: a hint for the background thread. [AT6]
        self.is_settled.store(false, Ordering::Relaxed);
    }

    /// Whether it is time to look for what is unneeded.
    fn is_due(&self, now_ms: u64, delay_ms: u64) -> bool {
        // Relaxed: a hint; who comes too late by it looks once more. [AT11]
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        // Another thread may have looked since this thread read the clock; one that was set back by
        // more than the delay is as good as one that was not looked at.
        looked_ms.abs_diff(now_ms) >= delay_ms
    }

    /// Looks for what is unneeded; returns whether nothing is left to be given back, now or by the
    /// next looks. Only the holder calls it.
    fn age(&self, now_ms: u64, pace: &mut Pace) -> bool {
        // Relaxed: a hint for those who look at this heap from outside. [AT12]
        self.looked_ms.store(now_ms, Ordering::Relaxed);
        let aged = self.arena.age(pace);
        self.set_purging(!aged.is_all);
        aged.is_all && aged.is_clean
    }

    /// Reports the surplus, if it has changed by much. Only the holder calls it.
    #[inline]
    pub(crate) fn report(&self) {
        let surplus = self.arena.surplus();
        let change = surplus.wrapping_sub(self.reported.get()).cast_signed();
        if change.abs() >= UNREPORTED {
            self.reported.set(surplus);
            #[cfg(all(
                any(target_os = "linux", target_os = "android"),
                not(any(miri, rast_system_segments))
            ))]
            crate::surplus::report(change);
        }
    }

    /// Puts away all blocks that arrived.
    fn put_away_all(&self) {
        // No list is that of large blocks, so nothing ends it early.
        while !self.put_away(usize::MAX, LARGE) {}
    }

    /// Puts away up to `most` blocks that arrived, or a few if the list of the class `wanted` has
    /// one then; returns whether none are left.
    #[cold]
    #[inline(never)]
    fn put_away(&self, most: usize, wanted: usize) -> bool {
        let mut run = Run::none();
        let mut count = 0;
        let is_all = loop {
            let is_served = || run.serves(wanted) || self.arena.has_first(wanted);
            if count >= most || count >= PUT_AWAY_LEAST && is_served() {
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
                // SAFETY: it is a block of this heap, and `unpack` gives it after those that it
                // carries.
                unsafe { run.go_by(batch::block_of(link)) };
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
            self.unsettle();
        }
        self.arena.settle(&run);
        is_all
    }

    /// Ends the process unless a link leads to a block of this heap that may be on its way, and
    /// carries what it was given.
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

    /// Tells the process of a block that was taken, if much has changed by that.
    #[inline]
    fn tell_taken(&self, block: *mut u8, layout: Layout) {
        if !block.is_null()
            && !matches!(Level::of(layout), Level::Class(class) if class < SLAB_CLASSES)
        {
            self.arena.earn(layout.size());
        }
        self.arena.tell();
    }

    /// Delivers what this thread freed of others and takes in what others freed of it. Only the
    /// holder calls it.
    pub(crate) fn idle(&self) {
        self.deliver_all();
        self.put_away_all();
        self.arena.tell();
        self.arena.tick();
        self.look();
    }

    /// Gives memory back to the system, as much as is unused. Only the holder calls it.
    pub(crate) fn purge(&self) -> usize {
        self.hold.take_purge_wish();
        self.deliver_all();
        self.put_away_all();
        self.arena.purge()
    }

    /// Enters after [`Hold::enter`] failed, and does what another thread asked for; false if the
    /// heap is parked. Only the heap's thread calls it.
    #[cold]
    pub(crate) fn enter_slow(&self) -> bool {
        match self.hold.enter_slow() {
            Found::Parked => return false,
            Found::Asked(Wish::Purge) => {
                self.purge();
            }
            Found::Asked(Wish::Look) => self.look(),
            Found::Own => {}
        }
        true
    }

    /// Releases a heap that this thread tended: delivers and puts away everything before, and
    /// purges if that is wished. Only the holder calls it, outside.
    #[cold]
    pub(crate) fn leave(&self) {
        loop {
            self.deliver_all();
            self.put_away_all();
            if self.hold.is_purge_wished() {
                self.purge();
            }
            if !self.hold.is_parked() {
                self.arena.empty_lists();
                self.arena.tick();
            }
            self.arena.tell_all();
            if !self.mailbox.release_unless(|| self.hold.is_purge_wished()) {
                break;
            }
        }
        if self.hold.is_abandoned() {
            self.offer();
        }
    }

    /// Offers the heap to the threads that begin; whether it is held then does not matter.
    fn offer(&self) {
        // SAFETY: heaps are never unmapped, and neither of the two that are none is ever left.
        unsafe { LEFT.offer(self) };
    }

    /// Leaves the heap to the threads that adopt. Only its thread calls it, inside.
    pub(crate) fn abandon(&self) {
        self.hold.abandon();
        self.leave();
    }

    /// Releases the heap until [`come_back`](Self::come_back). Only its thread calls it, inside,
    /// after [`idle`](Self::idle).
    pub(crate) fn park(&self) {
        self.hold.park();
        self.leave();
    }

    /// Claims the heap that this thread parked, or that was taken from it, and enters it. False if
    /// another thread tends it and takes long; then the heap is left to the threads that adopt.
    pub(crate) fn come_back(&self) -> bool {
        // No `Backoff`: what it asks of the system for the first time may allocate.
        let claimed = (0..PATIENCE).any(|turn| {
            if turn > SPINS {
                primitive::thread::yield_now();
            }
            self.mailbox.claim()
        });
        if claimed {
            self.take_up();
        } else {
            self.abandon_parked();
        }
        claimed
    }

    /// Makes a heap that is parked or abandoned the caller's, which holds it.
    fn take_up(&self) {
        self.unsettle();
        // All was told when it was left, which is too much once the fast paths may free.
        self.arena.tell();
        if self.hold.take_up() == Wish::Purge {
            self.purge();
        }
    }

    /// Leaves a parked heap to the threads that adopt. Only the thread that parked it calls it.
    pub(crate) fn abandon_parked(&self) {
        self.hold.abandon_parked();
        self.offer();
    }

    /// Becomes the holder of a heap that no thread uses at the moment; false if there is a holder,
    /// which sees a wish that the caller left.
    ///
    /// # Safety
    ///
    /// 1. If `is_fenced`, the caller made the ask, and [`asymmetric::barrier`] returned true after
    ///    that.
    unsafe fn take(&self, ask: Ask, is_fenced: bool) -> bool {
        // SAFETY: obligation 1.
        self.mailbox.claim_anew() || is_fenced && unsafe { self.hold.take(ask) }
    }

    /// Becomes the holder of a heap that another thread tends, once that has released it, or that
    /// another thread asked for besides the caller, where it wishes a purge; false if the heap's
    /// thread uses it, or the wait is over.
    fn outwait(&self, wait: &Wait) -> bool {
        loop {
            if self.hold.is_asked() {
                let ask = ASKS.next(Wish::Purge);
                self.hold.ask(ask);
                let is_fenced = asymmetric::barrier();
                // SAFETY: this thread made the ask, and the barrier came after if it says so.
                if unsafe { self.take(ask, is_fenced) } {
                    return true;
                }
                if !is_fenced {
                    return false;
                }
            } else if !(self.hold.is_parked() || self.hold.is_abandoned()) {
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

    /// Gives back the memory of all heaps except `here`, the calling thread's: of those without a
    /// thread, of those whose thread is parked, and of those whose thread is in no call at the
    /// moment, which are taken from it. Asks it of the others. Returns how many bytes went back.
    ///
    /// Waits up to `wait_ms` in all for threads that tend heaps. A thread that takes longer purges
    /// the heap that it tends before it releases it.
    pub(crate) fn purge_others(here: &Self, wait_ms: u64) -> usize {
        Self::purge_where(|heap| !ptr::eq(heap, here), wait_ms)
    }

    /// As [`purge_others`](Self::purge_others), of some heaps.
    fn purge_where(is_meant: impl Fn(&Self) -> bool, wait_ms: u64) -> usize {
        let ask = ASKS.next(Wish::Purge);
        HEAPS.find(|heap| {
            if is_meant(heap) {
                heap.hold.ask(ask);
            }
            None::<()>
        });
        let is_fenced = asymmetric::barrier();
        let wait = Wait::of(wait_ms);
        let mut purged = 0;
        HEAPS.find(|heap| {
            // SAFETY: this thread made the ask, and the barrier came after if it says so.
            let is_had = || unsafe { heap.take(ask, is_fenced) };
            if is_meant(heap) && (is_had() || heap.outwait(&wait)) {
                purged += heap.purge();
                heap.leave();
            }
            None::<()>
        });
        purged
    }
}

/// A wait of bounded length; none where the system has no clock.
struct Wait {
    start_ms: u64,
    wait_ms: u64,
}

impl Wait {
    /// A wait that begins now.
    fn of(wait_ms: u64) -> Self {
        Self {
            start_ms: os::now_ms(),
            wait_ms,
        }
    }

    /// Whether it is over; a clock that is set back ends it.
    fn is_over(&self) -> bool {
        self.start_ms == 0 || os::now_ms().wrapping_sub(self.start_ms) >= self.wait_ms
    }
}
