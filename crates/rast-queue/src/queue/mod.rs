//! An unbounded, lock-free, first-in first-out queue for any number of producers and consumers. It
//! stores its items in segments: blocks of slots for one item each.
//!
//! Two words, `head` and `tail`, each hold the address of a segment and an index. A thread claims a
//! ticket, the right to use one slot, by a compare-exchange that increments the index. A producer
//! claims on `tail` and fills the slot; a consumer claims on `head` and moves the item out. A
//! consumer whose slot is not filled waits a bounded time and then gives its ticket up by a
//! compare-exchange on the slot. The producer notices this when it fills the slot. It then keeps
//! its item and claims again. So no thread waits for a suspended thread.
//!
//! A segment is reclaimed by reference counts. If the index is past the last slot, the claim is not
//! a ticket but a reference to the segment, called a pin. So the index also counts the pins. Once
//! both words have moved to other segments, the thread that releases the last pin clears the slots
//! (the sweep). `docs/algorithms/queue.md` shows why this is correct.
//!
//! ```text
//!        head: segment, index                      tail: segment, index, flags
//!          │                                          │
//!          ▼                                          ▼
//!   ┌───────────┐ next  ┌───────────┐  next   ┌───────────┐        spare: at most one cleared segment
//!   │ · · · c d │ ────► │ e f g h i │ ─ ─ ─►  │ w x · · · │        limbo: retired, a slot still in use
//!   └───────────┘       └───────────┘         └───────────┘
//! ```
//!
//! The reference counts are those of sections 2.4 and 3.2 of the original RAST design, kept per
//! segment as in the paper "A Lock-free, Linearizable, Unbounded queue" (LOO).
//! `docs/algorithms/queue.md` lists what we changed and why.
//!
//! | field | written by | read by |
//! | --- | --- | --- |
//! | `tail` | producers, closers, waiters | all |
//! | `head` | consumers | consumers, `len`, `is_empty` |
//! | `bound`: a cached index up to which producers have claimed tickets | consumers that check both words, or find that it was stale | consumers |
//! | `cold`: fields that change once per segment | threads that link, move past or retire a segment | the same threads; consumers that check both words |
//! | `waiters` | waiters and the threads that wake them, see `wait_list.rs` | the same threads |
//! | `slots`, the number of slots in a segment; `alloc` | no thread, after construction | all |

#[macro_use]
mod stall;

mod batch;
#[cfg(feature = "async")]
mod future;
mod held;
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
use core::ptr::{self, NonNull};

use crate::alloc::{AllocError, Allocator, Global};
use crate::primitive::panics::drop_each;
use crate::primitive::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::primitive::{AtomicTaggedPtr, CachePadded, LinkStack, TaggedPtr, constructor};
use pace::Pace;
use segment::{Segment, terminal};
use word::{CLOSED, MOST_PINS, MOST_SLOTS, index, same_segment};

pub use batch::Rest;
#[cfg(feature = "async")]
pub use future::{Pop, Stream};
#[cfg(not(feature = "std"))]
use held::Held;
pub use iter::{Drain, IntoIter};
#[cfg(feature = "std")]
pub use wait::PopError;
#[cfg(all(feature = "std", any(rast_loom, rast_shuttle)))]
pub use wait_model::{Waiter, Waiters};

/// An unbounded first-in first-out queue between any number of producers and consumers.
///
/// Lock-free: no thread waits for a suspended thread, except a waiter that the suspended thread was
/// about to wake. But if [`MOST_PINS`](Self::MOST_PINS) / 2 threads are at the end of one segment
/// at once, further threads may wait there until one of these threads has continued.
/// [`is_lock_free`](Self::is_lock_free) lists the targets on which the queue is lock-free.
///
/// Linearizable. `new` is `const`, so a queue can be a static; it allocates nothing until the first
/// push. Memory comes from `A`, in segments of
/// [`DEFAULT_SEGMENT_SLOTS`](Self::DEFAULT_SEGMENT_SLOTS) items or of the number given to
/// [`with_segment_slots`](Self::with_segment_slots). A segment is freed as soon as it is used up,
/// except that one empty segment is kept for reuse. A thread that is suspended for ever usually
/// keeps at most one segment from being freed (`docs/algorithms/queue.md` has the exceptions).
///
/// A push need not read another word to learn whether a consumer sleeps: the flag for that is in
/// the word that each push changes anyway.
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
/// A queue of items that are not `Send` is not `Send` or `Sync`:
///
/// ```compile_fail
/// fn share<T: Sync>(_: T) {}
/// share(rast_queue::Queue::<std::rc::Rc<u8>>::new());
/// ```
///
/// `Queue<T>` is invariant in `T`. Otherwise a short borrow could be pushed to a queue of long
/// borrows and popped as a long one.
///
/// ```compile_fail
/// use rast_queue::Queue;
///
/// fn shorten<'a, 'b>(queue: &'b Queue<&'static str>) -> &'b Queue<&'a str> {
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

/// What consumers cache of `tail`.
struct Bound<T> {
    /// Index up to which producers had claimed tickets of this segment at some time. A hint.
    word: AtomicTaggedPtr<Segment<T>>,
    /// Decides before which checks consumers pause.
    pace: Pace,
}

/// Fields that change once per segment.
struct Cold<T> {
    /// Number of ended uses of segments, which may wrap; incremented before the memory can be used
    /// again.
    retired: AtomicUsize,
    /// Retired segments with a slot that is not DONE: a stack linked through `limbo_next`.
    limbo: LinkStack<Segment<T>>,
    /// At most one cleared segment.
    spare: AtomicPtr<Segment<T>>,
    /// The link to the first segment: the `next` of the null address with which both words start.
    first: AtomicPtr<Segment<T>>,
    /// Number of moves of each word to another segment.
    tail_moves: AtomicUsize,
    head_moves: AtomicUsize,
}

// SAFETY: items move from the pushing to the popping thread, which needs `T: Send`; the allocator
// moves with the queue.
unsafe impl<T: Send, A: Allocator + Send> Send for Queue<T, A> {}
// SAFETY: a shared queue moves items between threads and never shares an item, which needs only `T:
// Send`; all threads use the allocator at once.
unsafe impl<T: Send, A: Allocator + Sync> Sync for Queue<T, A> {}

// No user code runs while an invariant is broken, so a panic leaves the queue consistent.
impl<T, A: Allocator> UnwindSafe for Queue<T, A> {}
impl<T, A: Allocator> RefUnwindSafe for Queue<T, A> {}

impl<T> Queue<T> {
    /// Default number of slots in a segment.
    ///
    /// A segment of `u64` items is then 16 KiB. (In a model it has 2 slots.) Large segments keep
    /// producers and consumers on different cache lines and spread the cost of a new segment.
    pub const DEFAULT_SEGMENT_SLOTS: usize = if pause::IS_MODEL { 2 } else { 1024 };

    /// Maximum number of slots in a segment.
    pub const MOST_SEGMENT_SLOTS: usize = MOST_SLOTS;

    /// Maximum number of claims past the end of one segment that `head` or `tail` can count. A
    /// thread makes at most two such claims. So a thread waits at the end of a segment only if at
    /// least half this number of threads are there at once.
    pub const MOST_PINS: usize = MOST_PINS;

    /// Returns whether the operations are lock-free on this machine.
    ///
    /// They are lock-free where one compare-exchange can change a pointer and a count: on 32-bit
    /// targets with 64-bit atomics, and on 64-bit targets with one exception. The exception is a
    /// build that forces a double word (see [`AtomicTaggedPtr`]), on a processor without a 128-bit
    /// compare-exchange. Elsewhere each operation takes a short lock inside [`AtomicTaggedPtr`].
    ///
    /// ```
    /// assert!(rast_queue::Queue::<u8>::is_lock_free());
    /// ```
    #[must_use]
    pub fn is_lock_free() -> bool {
        AtomicTaggedPtr::<Segment<T>>::is_lock_free()
    }

    constructor! {
        /// Makes an empty queue that uses the global allocator; allocates nothing.
        #[must_use]
        pub fn new() -> Self {
            Self::new_in(Global)
        }
    }

    constructor! {
        /// Makes an empty queue with segments of `slots` items, for instance small segments for a
        /// program with many queues.
        ///
        /// Allocates nothing.
        ///
        /// # Panics
        ///
        /// If `slots` is not a power of two, is less than 2, or more than
        /// [`MOST_SEGMENT_SLOTS`](Self::MOST_SEGMENT_SLOTS).
        ///
        /// ```
        /// static SMALL: rast_queue::Queue<u8> = rast_queue::Queue::with_segment_slots(64);
        /// SMALL.push(1).unwrap();
        /// ```
        #[must_use]
        pub fn with_segment_slots(slots: usize) -> Self {
            Self::with_segment_slots_in(slots, Global)
        }
    }
}

impl<T, A: Allocator> Queue<T, A> {
    constructor! {
        /// Makes an empty queue whose memory comes from `alloc`; allocates nothing.
        #[must_use]
        pub fn new_in(alloc: A) -> Self {
            Self::with_segment_slots_in(Queue::<T>::DEFAULT_SEGMENT_SLOTS, alloc)
        }
    }

    constructor! {
        /// Makes an empty queue with segments of `slots` items from `alloc`; allocates nothing.
        ///
        /// # Panics
        ///
        /// As [`with_segment_slots`](Queue::with_segment_slots).
        #[must_use]
        pub fn with_segment_slots_in(slots: usize, alloc: A) -> Self {
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
                    limbo: LinkStack::new(),
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

    /// Returns whether the queue is closed. If so, the close happens before the return. Wait-free,
    /// one load.
    pub fn is_closed(&self) -> bool {
        // Acquire: pairs with the Release that set CLOSED. [QU55]
        self.tail.load(Ordering::Acquire).count() & CLOSED != 0
    }

    /// Returns whether the queue is empty, at a moment during the call. Lock-free, some loads.
    ///
    /// `true` is exact. `false` means that an item is queued, or that a push is under way, which
    /// may still fail.
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

    /// Returns whether the queue is closed and empty. After `true` no item appears in it, except
    /// one that is put back after a panic (see [`pop_batch`](Self::pop_batch)). Lock-free, some
    /// loads.
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
        // In this order: once the queue is closed, an empty queue stays empty.
        self.is_closed() && self.is_empty()
    }

    /// Returns the number of queued items. It is exact while no other thread pushes or pops.
    ///
    /// Otherwise it is approximate: pushes and pops under way may be counted or not. Wait-free,
    /// some loads.
    pub fn len(&self) -> usize {
        // Relaxed: a statistic; coherence includes the caller's own operations. [QU60]
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

    /// Returns the allocator.
    pub fn allocator(&self) -> &A {
        &self.alloc
    }

    /// Returns the field that links the segment after `segment`.
    ///
    /// # Safety
    ///
    /// `segment` is null, or the caller pins it for as long as it uses the field.
    unsafe fn next_of(&self, segment: *mut Segment<T>) -> &AtomicPtr<Segment<T>> {
        if segment.is_null() {
            return &self.cold.first;
        }
        // SAFETY: a pinned segment is live.
        unsafe { &(*segment).next }
    }

    /// Returns a cleared segment: the spare one, or a new allocation.
    fn fresh_segment(&self) -> Result<*mut Segment<T>, AllocError> {
        // Acquire: pairs with the Release of keep_or_free; the segment is cleared. [QU64]
        let spare = self.cold.spare.swap(ptr::null_mut(), Ordering::Acquire);
        step!("fresh: spare taken");
        if spare.is_null() {
            Segment::allocate(&self.alloc, self.slots)
        } else {
            Ok(spare)
        }
    }

    /// Keeps a segment as the spare one, or frees it.
    ///
    /// # Safety
    ///
    /// `segment` is cleared, and only the caller can access it. The caller does not access it
    /// afterwards.
    unsafe fn keep_or_free(&self, segment: *mut Segment<T>) {
        step!("keep: in hand");
        // Release: pairs with the Acquire of fresh_segment; the segment is cleared. [QU65]
        let kept = self.cold.spare.compare_exchange(
            ptr::null_mut(),
            segment,
            Ordering::Release,
            Ordering::Relaxed,
        );
        if kept.is_err() {
            step!("keep: to be freed");
            // SAFETY: the segment is from this queue's allocator with this many slots, only the
            // caller can access it, and it holds no value.
            unsafe { Segment::deallocate(segment, &self.alloc, self.slots) };
        }
    }

    /// Adds `change` to the segment's control; the thread that brings it to zero retires the
    /// segment.
    ///
    /// # Safety
    ///
    /// For a released pin, `change` is minus one. For a word that moved to another segment, it is
    /// the number of pins that the word counted, minus one SOURCE. Each of these changes is added
    /// once. The caller does not access the segment afterwards, unless it has another pin.
    unsafe fn release(&self, segment: *mut Segment<T>, change: usize) {
        if segment.is_null() {
            return;
        }
        step!("release: due");
        // SAFETY: until the change is made, the segment is live.
        let is_last = unsafe { Segment::settle(segment, change) };
        if is_last {
            step!("release: alone");
            // SAFETY: the caller brought control to zero, so it alone owns the segment.
            unsafe { self.retire_slow(segment) };
        }
    }

    /// Retires a segment. No thread can reach it any more, except those with a ticket that is not
    /// DONE.
    ///
    /// # Safety
    ///
    /// The caller alone owns the segment: its control came to zero, and it is not in limbo.
    #[cold]
    unsafe fn retire_slow(&self, segment: *mut Segment<T>) {
        // SAFETY: the caller's obligation.
        let is_clear = unsafe { Segment::sweep(segment, self.slots) };
        if is_clear {
            step!("retire: swept");
            // SAFETY: the segment is live, and the caller alone owns it.
            unsafe { (*segment).reset() };
            step!("retire: reset");
            // Release: pairs with the Acquire in look_slow; counted before the memory can be used
            // again. [QU66]
            self.cold.retired.fetch_add(1, Ordering::Release);
            step!("retire: counted");
            // SAFETY: the segment is swept and reset, and the caller alone owns it.
            unsafe { self.keep_or_free(segment) };
        } else {
            step!("retire: not clear");
            // SAFETY: the caller's obligation; a list of one.
            unsafe { self.put_in_limbo(segment, segment) };
        }
    }

    /// Pushes a list of segments, `first` to `last`, onto limbo.
    ///
    /// # Safety
    ///
    /// The caller alone owns the segments, which are linked through `limbo_next`. It does not own
    /// them afterwards.
    unsafe fn put_in_limbo(&self, first: *mut Segment<T>, last: *mut Segment<T>) {
        let (Some(first), Some(last)) = (NonNull::new(first), NonNull::new(last)) else {
            unreachable!("a list of segments begins and ends with one");
        };
        // SAFETY: 1, 2. The caller's obligation; only a thread that took a segment out of limbo
        // frees it.
        unsafe { self.cold.limbo.push(first, last) };
    }

    /// Tries again to retire one segment of limbo, the one that was pushed first. The others are
    /// put back before it is swept.
    #[cold]
    #[inline(never)]
    fn reap_slow(&self) {
        let first = self.cold.limbo.take();
        if first.is_null() {
            return;
        }
        step!("reap: list in hand");
        let (mut before, mut last) = (ptr::null_mut(), first);
        loop {
            // SAFETY: the thread that removed the list alone owns its segments.
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

/// The segment beneath this one in limbo.
///
/// # Safety
///
/// The caller alone owns the segment.
unsafe fn limbo_next<T>(segment: *mut Segment<T>) -> *mut Segment<T> {
    // SAFETY: the segment is live.
    let link = unsafe { &(*segment).limbo_next };
    // SAFETY: nothing else reads or writes it.
    let link = link.with(|link| unsafe { *link });
    link.node()
}

/// Frees the memory of a queue that is dropped, also while the panic of a destructor unwinds.
struct End<'a, T, A: Allocator>(&'a Queue<T, A>);

impl<T, A: Allocator> Drop for End<'_, T, A> {
    fn drop(&mut self) {
        let queue = self.0;
        // No other thread uses the queue: no slot holds a value, and every pin is released. The
        // spare segment, the segments in limbo and the chain from head are left.
        let free = |segment: *mut Segment<T>| {
            // SAFETY: the segment is from this allocator with this many slots, and is in exactly
            // one of the three.
            unsafe { Segment::deallocate(segment, &queue.alloc, queue.slots) };
        };
        // Relaxed, here and below: the borrow of the queue is exclusive. [QU70]
        let spare = queue.cold.spare.load(Ordering::Relaxed);
        if !spare.is_null() {
            free(spare);
        }
        let mut retired = queue.cold.limbo.take();
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
        let mut items = end.0.drain();
        drop_each(|| items.next());
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
