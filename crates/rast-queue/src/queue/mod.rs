//! An unbounded queue for any number of producers and consumers: lock-free, first in first out,
//! items in place.
//!
//! Two words, each a segment's address and an index, hand out tickets. A producer claims on `tail`
//! and fills the slot of its ticket; a consumer claims on `head` and takes from the slot of its
//! ticket. A consumer that finds its slot not filled waits a bounded moment, then gives the ticket
//! up by an exchange on the slot. The producer finds that when it fills the slot, keeps its item
//! and claims again. So no thread waits for one that was stopped. A segment is linked, used once
//! and reclaimed by counting: claims past its slots are pins, counted in the words themselves, and
//! the last pin to leave after both words have moved on sweeps the slots. The argument is in
//! `docs/algorithms/queue.md`.
//!
//! ```text
//!        head: segment, index                      tail: segment, index, flags
//!          │                                          │
//!          ▼                                          ▼
//!   ┌───────────┐ next  ┌───────────┐  next   ┌───────────┐        spare: at most one swept segment
//!   │ · · · c d │ ────► │ e f g h i │ ─ ─ ─►  │ w x · · · │        limbo: retired, a consumer still inside
//!   └───────────┘       └───────────┘         └───────────┘
//! ```
//!
//! From RAST 2.4 and 3.2 (counts beside the pointers, promises, reclamation at once), at the grain
//! of segments as in "A Lock-free, Linearizable, Unbounded queue" (LOO); what we changed and why is
//! in the page.
//!
//! | field | written by | read by |
//! | --- | --- | --- |
//! | `tail` | producers, closers, waiters | all |
//! | `head` | consumers | consumers, `len`, `is_empty` |
//! | `bound` | consumers, at a look | consumers |
//! | `cold` | the thread that changes segments | consumers at a look; the thread that changes segments |
//! | `waiters` | waiters and who wakes them, see `wait_list.rs` | the same |
//! | `slots`, `alloc` | no thread | all |

#[macro_use]
mod stall;

mod batch;
#[cfg(feature = "async")]
mod future;
mod iter;
mod pace;
mod pause;
mod pop;
mod push;
mod segment;
#[cfg(all(test, feature = "std", not(any(rast_loom, rast_shuttle))))]
mod tests;
#[cfg(feature = "std")]
mod wait;
#[cfg(feature = "std")]
mod wait_list;
#[cfg(all(feature = "std", any(rast_loom, rast_shuttle)))]
mod wait_model;
mod word;

use core::fmt;
use core::marker::PhantomData;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr;

use crate::alloc::{AllocError, Allocator, Global};
use crate::primitive::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::primitive::{AtomicTaggedPtr, CachePadded, TaggedPtr};
use pace::Pace;
use segment::{Segment, terminal};
use word::{CLOSED, MOST_PINS, MOST_SLOTS, index, same_segment};

pub use batch::Rest;
#[cfg(feature = "async")]
pub use future::{Pop, Stream};
pub use iter::{Drain, IntoIter};
#[cfg(feature = "std")]
use wait::Held;
#[cfg(feature = "std")]
pub use wait::PopError;
#[cfg(all(feature = "std", any(rast_loom, rast_shuttle)))]
pub use wait_model::{Waiter, Waiters};

/// An unbounded first-in first-out queue between any number of producers and consumers.
///
/// Lock-free: a thread that is stopped at any point delays no other, except a waiter that it was
/// about to wake. The limit is [`MOST_PINS`](Self::MOST_PINS) threads that are inside one queue and
/// at the end of the same segment at once; further ones wait there until some of them have gone on.
/// [`is_lock_free`](Self::is_lock_free) names the targets where it holds.
///
/// Linearizable. `const fn new`, so it can be a static; it allocates nothing until the first push.
/// Memory comes from `A`, in segments of [`DEFAULT_SEGMENT_SLOTS`](Self::DEFAULT_SEGMENT_SLOTS)
/// items or as many as [`with_segment_slots`](Self::with_segment_slots) says, and goes back as soon
/// as a segment is used up; one empty segment is kept for reuse. A thread that is stopped for ever
/// keeps at most one segment from going back.
///
/// Wake-ups are paid for by those who sleep: a push learns of waiters from the word that it changes
/// anyway.
///
/// ```
/// use rast_queue::Queue;
///
/// static QUEUE: Queue<u64> = Queue::new();
///
/// std::thread::scope(|scope| {
///     for n in 0..4 {
///         scope.spawn(move || QUEUE.push(n).unwrap());
///     }
/// });
/// QUEUE.close();
/// assert_eq!(QUEUE.drain().sum::<u64>(), 0 + 1 + 2 + 3);
/// assert!(QUEUE.push(4).is_err());
/// ```
///
/// Items that may not move between threads keep the queue on one:
///
/// ```compile_fail
/// fn share<T: Sync>(_: T) {}
/// share(rast_queue::Queue::<std::rc::Rc<u8>>::new());
/// ```
///
/// It is invariant in `T`: were a queue of long borrows one of short ones, a short one could be
/// pushed and be popped as long.
///
/// ```compile_fail
/// fn shorten<'a, 'b>(queue: &'b rast_queue::Queue<&'static str>) -> &'b rast_queue::Queue<&'a str> {
///     queue
/// }
/// ```
pub struct Queue<T, A: Allocator = Global> {
    head: CachePadded<AtomicTaggedPtr<Segment<T>>>,
    bound: CachePadded<Bound<T>>,
    tail: CachePadded<AtomicTaggedPtr<Segment<T>>>,
    cold: CachePadded<Cold<T>>,
    #[cfg(feature = "std")]
    waiters: wait_list::WaitList,
    /// In each segment, a power of two.
    slots: usize,
    alloc: A,
    owns: PhantomData<T>,
}

/// What consumers remember of `tail`.
struct Bound<T> {
    /// Tickets of this segment below this index were on the producers' side at some time. A hint.
    word: AtomicTaggedPtr<Segment<T>>,
    /// When consumers pause before a look.
    pace: Pace,
}

/// What changes once per segment.
struct Cold<T> {
    /// Uses of segments that have ended, modulo the word; counted before the memory can be used
    /// again.
    retired: AtomicUsize,
    /// Retired segments with a consumer inside, a stack through `limbo_next`.
    limbo: AtomicPtr<Segment<T>>,
    /// At most one segment as new.
    spare: AtomicPtr<Segment<T>>,
    /// The `next` of the queue's beginning: the first segment.
    first: AtomicPtr<Segment<T>>,
    /// How often each word has gone on to another segment.
    tail_moves: AtomicUsize,
    head_moves: AtomicUsize,
}

// SAFETY: items move from the thread that pushes to the one that pops, which asks for Send; the
// allocator moves along.
unsafe impl<T: Send, A: Allocator + Send> Send for Queue<T, A> {}
// SAFETY: a shared queue moves items between threads and never shares one, which asks for Send
// alone; the allocator is used by all of them at once.
unsafe impl<T: Send, A: Allocator + Sync> Sync for Queue<T, A> {}

// No user code runs while anything is half changed, so a panic cannot be seen in it.
impl<T, A: Allocator> UnwindSafe for Queue<T, A> {}
impl<T, A: Allocator> RefUnwindSafe for Queue<T, A> {}

/// `const` outside of models, whose atomics cannot be made in constants.
macro_rules! constructor {
    ($(#[$meta:meta])* pub fn $name:ident($($argument:ident: $of:ty),*) $body:block) => {
        $(#[$meta])*
        #[cfg(not(rast_loom))]
        #[must_use]
        pub const fn $name($($argument: $of),*) -> Self $body

        $(#[$meta])*
        #[cfg(rast_loom)]
        #[must_use]
        pub fn $name($($argument: $of),*) -> Self $body
    };
}

impl<T> Queue<T> {
    /// Slots in each segment if nothing else is asked for.
    ///
    /// 16 KiB for words (in a model it is 2). Large segments keep producers and consumers apart and
    /// spread the cost of changing segments.
    pub const DEFAULT_SEGMENT_SLOTS: usize = if pause::IS_MODEL { 2 } else { 1024 };

    /// The most slots that a segment can have.
    pub const MOST_SEGMENT_SLOTS: usize = MOST_SLOTS;

    /// The most threads that can be inside one queue and at the end of the same segment at once;
    /// one more waits there.
    pub const MOST_PINS: usize = MOST_PINS;

    /// Returns whether the operations are lock-free on this machine.
    ///
    /// They are where a pointer and a count can be changed by one instruction: on all 64-bit
    /// targets, except Android on aarch64 and builds that force the double word if the processor
    /// has no 128-bit exchange; and on 32-bit targets with 64-bit atomics. Elsewhere each operation
    /// takes a short lock inside [`AtomicTaggedPtr`].
    ///
    /// ```
    /// assert!(rast_queue::Queue::<u8>::is_lock_free());
    /// ```
    #[must_use]
    pub fn is_lock_free() -> bool {
        AtomicTaggedPtr::<Segment<T>>::is_lock_free()
    }

    constructor! {
        /// Makes an empty queue in the global allocator; allocates nothing.
        pub fn new() {
            Self::new_in(Global)
        }
    }

    constructor! {
        /// Makes an empty queue with segments of `slots` items, for instance small ones where there
        /// are many queues.
        ///
        /// Allocates nothing.
        ///
        /// # Panics
        ///
        /// If `slots` is no power of two, less than 2, or more than
        /// [`MOST_SEGMENT_SLOTS`](Self::MOST_SEGMENT_SLOTS).
        ///
        /// ```
        /// static SMALL: rast_queue::Queue<u8> = rast_queue::Queue::with_segment_slots(64);
        /// SMALL.push(1).unwrap();
        /// ```
        pub fn with_segment_slots(slots: usize) {
            Self::with_segment_slots_in(slots, Global)
        }
    }
}

impl<T, A: Allocator> Queue<T, A> {
    constructor! {
        /// Makes an empty queue whose memory comes from `alloc`; allocates nothing.
        pub fn new_in(alloc: A) {
            Self::with_segment_slots_in(Queue::<T>::DEFAULT_SEGMENT_SLOTS, alloc)
        }
    }

    constructor! {
        /// Makes an empty queue with segments of `slots` items from `alloc`; allocates nothing.
        ///
        /// # Panics
        ///
        /// As [`with_segment_slots`](Queue::with_segment_slots).
        pub fn with_segment_slots_in(slots: usize, alloc: A) {
            assert!(
                slots.is_power_of_two() && slots >= 2 && slots <= MOST_SLOTS,
                "queue: the slots of a segment are a power of two from 2 to MOST_SEGMENT_SLOTS"
            );
            Self {
                head: CachePadded::new(AtomicTaggedPtr::new(TaggedPtr::null_with_count(slots as u64))),
                bound: CachePadded::new(Bound {
                    word: AtomicTaggedPtr::new(TaggedPtr::null()),
                    pace: Pace::new(),
                }),
                tail: CachePadded::new(AtomicTaggedPtr::new(TaggedPtr::null_with_count(slots as u64))),
                cold: CachePadded::new(Cold {
                    retired: AtomicUsize::new(0),
                    limbo: AtomicPtr::new(ptr::null_mut()),
                    spare: AtomicPtr::new(ptr::null_mut()),
                    first: AtomicPtr::new(ptr::null_mut()),
                    tail_moves: AtomicUsize::new(0),
                    head_moves: AtomicUsize::new(0),
                }),
                #[cfg(feature = "std")]
                waiters: wait_list::WaitList::new(),
                slots,
                alloc,
                owns: PhantomData,
            }
        }
    }

    /// Returns whether the queue is closed; what the closer did before is then visible. Wait-free,
    /// one load.
    pub fn is_closed(&self) -> bool {
        // Acquire: pairs with the Release that set CLOSED. [QU55]
        self.tail.load(Ordering::Acquire).count() & CLOSED != 0
    }

    /// Returns whether the queue is empty, at a moment during the call. Lock-free, some loads.
    ///
    /// True is exact. False says that an item is queued or that a push is under way, whose item may
    /// still be refused.
    pub fn is_empty(&self) -> bool {
        loop {
            // Acquire: as in look. [QU56]
            let retired = self.cold.retired.load(Ordering::Acquire);
            // Acquire: as in look. [QU57]
            let head = self.head.load(Ordering::Acquire);
            step!("is empty: head read");
            // Acquire: as in look. [QU58]
            let tail = self.tail.load(Ordering::Acquire);
            if !same_segment(head, tail) || index(head) < index(tail).min(self.slots) {
                return false;
            }
            // Relaxed: ordered by the Acquire above. [QU59]
            if self.cold.retired.load(Ordering::Relaxed) == retired {
                return true;
            }
        }
    }

    /// Returns whether the queue is closed and empty: no item will come, except one that a panic
    /// puts back (see [`pop_batch`](Self::pop_batch)). Lock-free, some loads.
    ///
    /// ```
    /// let queue = rast_queue::Queue::new();
    /// queue.push(1).unwrap();
    /// queue.close();
    /// assert!(!queue.is_finished());
    /// queue.pop();
    /// assert!(queue.is_finished());
    /// ```
    pub fn is_finished(&self) -> bool {
        // In this order: once it is closed, an empty look is the end.
        self.is_closed() && self.is_empty()
    }

    /// Returns how many items are queued: exact while no other thread pushes or pops.
    ///
    /// While other threads are at work it is about the number at that moment, in which pushes and
    /// pops under way may count or not. Wait-free, some loads.
    pub fn len(&self) -> usize {
        // Relaxed: a statistic; the caller's own operations are in it by coherence. [QU60]
        let head = self.head.load(Ordering::Relaxed);
        // Relaxed: as above. [QU61]
        let head_moves = self.cold.head_moves.load(Ordering::Relaxed);
        // Relaxed: as above. [QU62]
        let tail = self.tail.load(Ordering::Relaxed);
        // Relaxed: as above. [QU63]
        let tail_moves = self.cold.tail_moves.load(Ordering::Relaxed);
        let segments = tail_moves.wrapping_sub(head_moves).cast_signed();
        let ahead = segments.wrapping_mul(self.slots.cast_signed());
        let within =
            index(tail).min(self.slots).cast_signed() - index(head).min(self.slots).cast_signed();
        usize::try_from(ahead.wrapping_add(within)).unwrap_or(0)
    }

    /// Returns an iterator that pops until it first finds the queue empty.
    ///
    /// Others may push and pop meanwhile: it ends at the first moment that the queue is empty,
    /// which need not come while producers are faster; bound it with `take`. Dropped early, it
    /// leaves the rest.
    ///
    /// ```
    /// let queue: rast_queue::Queue<_> = (1..=5).collect();
    /// assert_eq!(queue.drain().take(2).collect::<Vec<_>>(), [1, 2]);
    /// assert_eq!(queue.drain().collect::<Vec<_>>(), [3, 4, 5]);
    /// ```
    ///
    /// A drain that no thread runs pops nothing:
    ///
    /// ```compile_fail
    /// #![deny(unused_must_use)]
    /// let queue: rast_queue::Queue<_> = (1..=5).collect();
    /// queue.drain();
    /// ```
    pub fn drain(&self) -> Drain<'_, T, A> {
        Drain::new(self)
    }

    /// Returns the allocator.
    pub fn allocator(&self) -> &A {
        &self.alloc
    }

    /// The place of the segment that follows `segment`.
    ///
    /// # Safety
    ///
    /// `segment` is pinned by the caller for as long as it uses the place, or null.
    unsafe fn next_of(&self, segment: *mut Segment<T>) -> &AtomicPtr<Segment<T>> {
        if segment.is_null() {
            return &self.cold.first;
        }
        // SAFETY: a pinned segment is live.
        unsafe { &(*segment).next }
    }

    /// A segment as new: the spare one, or memory.
    fn fresh_segment(&self) -> Result<*mut Segment<T>, AllocError> {
        // Acquire: pairs with the Release of keep_or_free; the segment is as new. [QU64]
        let spare = self.cold.spare.swap(ptr::null_mut(), Ordering::Acquire);
        step!("fresh: spare taken");
        if spare.is_null() {
            Segment::allocate(&self.alloc, self.slots)
        } else {
            Ok(spare)
        }
    }

    /// Keeps a segment as the spare one, or gives its memory back.
    ///
    /// # Safety
    ///
    /// `segment` is as new and the caller's alone; afterwards it is not.
    unsafe fn keep_or_free(&self, segment: *mut Segment<T>) {
        step!("keep: in hand");
        // Release: pairs with the Acquire of fresh_segment; the segment is as new. [QU65]
        let kept = self.cold.spare.compare_exchange(
            ptr::null_mut(),
            segment,
            Ordering::Release,
            Ordering::Relaxed,
        );
        if kept.is_err() {
            step!("keep: to be freed");
            // SAFETY: it came from this queue's allocator with this many slots, is the caller's
            // alone, and holds nothing.
            unsafe { Segment::deallocate(segment, &self.alloc, self.slots) };
        }
    }

    /// Adds `change` to the segment's control; the thread that brings it to zero retires the
    /// segment.
    ///
    /// # Safety
    ///
    /// `change` is due: a pin that is given back, or the move of a word away from the segment with
    /// its pins. After it the caller does not look at the segment, unless it has another pin.
    unsafe fn release(&self, segment: *mut Segment<T>, change: usize) {
        if segment.is_null() {
            return;
        }
        step!("release: due");
        // SAFETY: until the change is made, the segment is live.
        let is_last = unsafe { Segment::settle(segment, change) };
        if is_last {
            step!("release: alone");
            // SAFETY: control came to zero by the caller: it holds the segment alone.
            unsafe { self.retire_slow(segment) };
        }
    }

    /// Frees a segment that no thread can reach any more but the holders of its last tickets.
    ///
    /// # Safety
    ///
    /// The caller holds the segment alone: its control came to zero, and it is not in limbo.
    #[cold]
    unsafe fn retire_slow(&self, segment: *mut Segment<T>) {
        // SAFETY: the caller's obligation.
        let is_clear = unsafe { Segment::sweep(segment, self.slots) };
        if is_clear {
            step!("retire: swept");
            // SAFETY: the segment is live and the caller's alone.
            unsafe { (*segment).reset() };
            step!("retire: reset");
            // Release: pairs with the Acquire in look; counted before the memory can be used again.
            // [QU66]
            self.cold.retired.fetch_add(1, Ordering::Release);
            step!("retire: counted");
            // SAFETY: swept and reset, and the caller's alone.
            unsafe { self.keep_or_free(segment) };
        } else {
            step!("retire: not clear");
            // SAFETY: the caller's obligation; a list of one.
            unsafe { self.put_in_limbo(segment, segment) };
        }
    }

    /// Puts a list of segments, `first` to `last`, into limbo.
    ///
    /// # Safety
    ///
    /// The caller holds the segments alone, linked through `limbo_next`; afterwards it does not.
    unsafe fn put_in_limbo(&self, first: *mut Segment<T>, last: *mut Segment<T>) {
        // Relaxed: a guess. [QU67]
        let mut top = self.cold.limbo.load(Ordering::Relaxed);
        loop {
            // SAFETY: the segment is live, and the caller's alone.
            let link = unsafe { &(*last).limbo_next };
            // SAFETY: as above.
            link.with_mut(|link| unsafe { *link = top });
            step!("limbo: linked");
            // Release: pairs with the Acquire in reap_slow; the link, and how far the sweep came.
            // [QU68]
            match self
                .cold
                .limbo
                .compare_exchange(top, first, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Tries again to free what is in limbo: the one that has been there longest since it was
    /// tried, the others going back before it is swept.
    #[cold]
    #[inline(never)]
    fn reap_slow(&self) {
        // Acquire: pairs with the Release in put_in_limbo. [QU69]
        let first = self.cold.limbo.swap(ptr::null_mut(), Ordering::Acquire);
        if first.is_null() {
            return;
        }
        step!("reap: list in hand");
        let (mut before, mut last) = (ptr::null_mut(), first);
        loop {
            // SAFETY: the thread that took the list holds its segments alone.
            let next = unsafe { limbo_next(last) };
            if next.is_null() {
                break;
            }
            (before, last) = (last, next);
        }
        if !before.is_null() {
            // SAFETY: as above; `first` to `before` are linked, and `last` is not among them.
            unsafe { self.put_in_limbo(first, before) };
            step!("reap: others given back");
        }
        // SAFETY: its control came to zero, and it is out of limbo.
        unsafe { self.retire_slow(last) };
    }

    #[cfg(not(feature = "std"))]
    fn wake(&self, _count: usize) {}

    #[cfg(not(feature = "std"))]
    fn wake_holding(&self, _count: usize) -> Held {
        Held::default()
    }

    #[cfg(not(feature = "std"))]
    fn wake_all(&self) {}
}

/// Without `std` no thread waits, and no waker panics.
#[cfg(not(feature = "std"))]
#[derive(Default)]
struct Held(());

#[cfg(not(feature = "std"))]
impl Held {
    fn or(self, _later: Self) -> Self {
        self
    }

    fn go_up(self) {}
}

/// The segment beneath this one in limbo.
///
/// # Safety
///
/// The caller holds the segment alone.
unsafe fn limbo_next<T>(segment: *mut Segment<T>) -> *mut Segment<T> {
    // SAFETY: the segment is live.
    let link = unsafe { &(*segment).limbo_next };
    // SAFETY: nothing else reads or writes it.
    link.with(|link| unsafe { *link })
}

/// The end of a queue: drops what is queued, then frees the memory, also while a panic goes up.
struct End<'a, T, A: Allocator>(&'a Queue<T, A>);

impl<T, A: Allocator> Drop for End<'_, T, A> {
    fn drop(&mut self) {
        let queue = self.0;
        queue.drain().for_each(drop);
        // No other thread is here: no slot holds a value, and every pin is given back. What is left
        // is the spare segment, what is in limbo, and the chain from head.
        let free = |segment: *mut Segment<T>| {
            // SAFETY: the segment came from this allocator with this many slots; each is in one of
            // the three places.
            unsafe { Segment::deallocate(segment, &queue.alloc, queue.slots) };
        };
        // Relaxed, here and below: the borrow that ends the queue is exclusive. [QU70]
        let spare = queue.cold.spare.load(Ordering::Relaxed);
        if !spare.is_null() {
            free(spare);
        }
        // Relaxed: as above. [QU71]
        let mut retired = queue.cold.limbo.load(Ordering::Relaxed);
        while !retired.is_null() {
            // SAFETY: nothing else is here.
            let next = unsafe { limbo_next(retired) };
            free(retired);
            retired = next;
        }
        // Relaxed: as above. [QU72]
        let mut segment = queue.head.load(Ordering::Relaxed).ptr();
        loop {
            // SAFETY: the segment is in the chain, or null; nothing else is here.
            let next = unsafe { queue.next_of(segment) };
            // Relaxed: as above. [QU73]
            let next = next.load(Ordering::Relaxed);
            if !segment.is_null() {
                free(segment);
            }
            if next.is_null() || ptr::eq(next, terminal()) {
                break;
            }
            segment = next;
        }
    }
}

impl<T, A: Allocator> Drop for Queue<T, A> {
    fn drop(&mut self) {
        let end = End(self);
        // If the drop of an item panics, `End` drops the others and frees the memory as the panic
        // goes up.
        end.0.drain().for_each(drop);
    }
}

impl<T, A: Allocator + Default> Default for Queue<T, A> {
    fn default() -> Self {
        Self::new_in(A::default())
    }
}

impl<T, A: Allocator> fmt::Debug for Queue<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("len", &self.len())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
