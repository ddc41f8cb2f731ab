//! The half that pushes.

use core::cell::Cell;
use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};

use super::raw::{Block, Span};
use super::side::Side;
use crate::Full;
use crate::alloc::{Allocator, Global};
use crate::primitive::hint::prefetch_write;

/// Number of cache lines ahead of the tail that the producer prefetches for later writes.
///
/// The consumer has just read these lines, so without the prefetch each first write to a line waits
/// for the transfer of the line. Single pushes and batches of 64 become faster, and at this
/// distance batches of 8 do not become slower (`docs/algorithms/queue-spsc.md`).
const AHEAD: usize = 8;

/// Maximum number of lines that a chunk prefetches.
const MOST: usize = 16;

/// The pushing half of a ring.
///
/// One thread at a time uses it: it is `Send`, and neither `Sync` nor `Clone`. All methods are
/// wait-free. No method allocates or executes an atomic read-modify-write. Dropping the producer
/// closes the ring; the consumer can still pop all pushed items.
///
/// If one struct contains two halves, they may share a cache line, which slows two threads that use
/// them. Pad the halves, or better, store each half in memory that only its thread uses.
///
/// ```
/// let (mut producer, mut consumer) = rast_queue::spsc::ring(2);
/// assert_eq!(producer.push('a'), Ok(()));
/// assert_eq!(producer.push('b'), Ok(()));
/// assert_eq!(producer.push('c').unwrap_err().into_inner(), 'c');
/// assert_eq!(consumer.pop(), Some('a'));
/// assert!(producer.has_room(1));
/// ```
///
/// ```compile_fail
/// fn clone<T: Clone>(_: T) {}
/// let (producer, _consumer) = rast_queue::spsc::ring::<u8>(2);
/// clone(producer);
/// ```
///
/// ```compile_fail
/// fn share<T: Sync>(_: T) {}
/// let (producer, _consumer) = rast_queue::spsc::ring::<u8>(2);
/// share(producer);
/// ```
///
/// ```compile_fail
/// fn send<T: Send>(_: T) {}
/// let (producer, _consumer) = rast_queue::spsc::ring::<std::rc::Rc<u8>>(2);
/// send(producer);
/// ```
///
/// The type is invariant in `T`, because the other half pops what this half pushes:
///
/// ```compile_fail
/// use rast_queue::spsc::Producer;
/// fn shorten<'a>(producer: Producer<&'static str>) -> Producer<&'a str> {
///     producer
/// }
/// ```
pub struct Producer<T, A: Allocator = Global> {
    block: Block<T, A>,
    /// The true tail; the published one is behind it only inside a batch.
    tail: Cell<usize>,
    /// A past value of the consumer's published head, plus the capacity: where the tail must stop.
    limit: Cell<usize>,
}

// SAFETY: on another thread a producer moves or drops items, and the half that is dropped last uses
// and drops the allocator; both are Send. The words that both halves access are atomic, and by the
// rules of the block they never access a slot at once.
unsafe impl<T: Send, A: Allocator + Send> Send for Producer<T, A> {}

// A panic in user code leaves the ring consistent.
impl<T, A: Allocator> UnwindSafe for Producer<T, A> {}
impl<T, A: Allocator> RefUnwindSafe for Producer<T, A> {}

impl<T, A: Allocator> Producer<T, A> {
    /// # Safety
    ///
    /// 1. This is the only producer over `block`.
    /// 2. Both indices of the block are `start`.
    pub(super) unsafe fn new(block: Block<T, A>, start: usize) -> Self {
        Self {
            tail: Cell::new(start),
            limit: Cell::new(start.wrapping_add(block.capacity())),
            block,
        }
    }

    /// Pushes one item.
    ///
    /// Wait-free: one atomic store, and a load of the consumer's index only if the cached index
    /// says that the ring is full.
    ///
    /// # Errors
    ///
    /// [`Full`] with the item if the ring has no room. A full ring whose consumer was dropped stays
    /// full, so a loop that waits for room must check [`is_closed`](Self::is_closed).
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), Full<T>> {
        if !self.has_room(1) {
            return Err(Full(item));
        }
        // SAFETY: `has_room` found room.
        unsafe { self.write_next(item) };
        self.publish();
        if self.tail.get().is_multiple_of(Self::LINE) {
            self.prefetch(self.cached_room(), 1);
        }
        Ok(())
    }

    /// Writes an item that the consumer cannot pop before the next [`publish`](Self::publish) or
    /// push.
    ///
    /// Use it to write several items one by one and publish them together.
    ///
    /// # Errors
    ///
    /// [`Full`] with the item if the ring has no free slot. A staged item occupies a slot.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spsc::ring(2);
    /// producer.stage(1).unwrap();
    /// producer.stage(2).unwrap();
    /// assert!(producer.stage(3).is_err());
    /// assert_eq!(consumer.pop(), None);
    /// producer.publish();
    /// assert_eq!((consumer.pop(), consumer.pop()), (Some(1), Some(2)));
    /// ```
    #[inline]
    pub fn stage(&mut self, item: T) -> Result<(), Full<T>> {
        if !self.has_room(1) {
            return Err(Full(item));
        }
        // SAFETY: `has_room` found room.
        unsafe { self.write_next(item) };
        Ok(())
    }

    /// Pushes items of `items` until the ring is full or the iterator ends, publishes them once,
    /// and returns how many.
    ///
    /// It calls the iterator only while there is room, so the iterator yields no item that cannot
    /// be pushed. Pass the iterator by `&mut` to keep the items that did not fit; otherwise they
    /// are dropped with it. If the iterator panics, the items that it had yielded are pushed.
    ///
    /// Wait-free; one atomic store for all items.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spsc::ring(4);
    /// let mut numbers = 0..6;
    /// assert_eq!(producer.push_batch(&mut numbers), 4);
    /// assert_eq!(numbers, 4..6);
    /// assert_eq!(consumer.pop(), Some(0));
    /// ```
    #[inline]
    #[must_use = "fewer items may fit than the iterator has; what was not taken is still in it if it was lent"]
    pub fn push_batch<I>(&mut self, items: I) -> usize
    where
        I: IntoIterator<Item = T>,
    {
        let items = items.into_iter();
        let wanted = items.size_hint().1.unwrap_or(usize::MAX);
        self.write_chunk(wanted).fill(items)
    }

    /// Pushes as many items as fit from the front of `items`, publishes them once, and returns how
    /// many.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spsc::ring(4);
    /// assert_eq!(producer.push_slice(&[1, 2, 3, 4, 5]), 4);
    /// let mut out = [0; 3];
    /// assert_eq!(consumer.pop_slice(&mut out), 3);
    /// assert_eq!(out, [1, 2, 3]);
    /// ```
    #[inline]
    pub fn push_slice(&mut self, items: &[T]) -> usize
    where
        T: Copy,
    {
        self.write_chunk(items.len()).copy_from_slice(items)
    }

    /// Loads the consumer's index and returns how many items fit. The consumer can only make room,
    /// so this many pushes will succeed.
    #[inline]
    pub fn room(&self) -> usize {
        let head = self.block.load_head();
        self.limit.set(head.wrapping_add(self.capacity()));
        self.cached_room()
    }

    /// Loads the consumer's index and returns an upper bound of the number of queued items, since
    /// the consumer may pop meanwhile.
    #[inline]
    pub fn len(&self) -> usize {
        self.capacity() - self.room()
    }

    /// Returns `true` if every item was popped; the ring stays empty until this half pushes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether `count` items fit. Loads the consumer's index only if the cached index does
    /// not show enough room. The consumer can only make room, so after `true` that many pushes will
    /// succeed.
    #[inline]
    pub fn has_room(&self, count: usize) -> bool {
        self.cached_room() >= count || self.room() >= count
    }

    /// Returns whether the ring is full.
    #[inline]
    pub fn is_full(&self) -> bool {
        !self.has_room(1)
    }

    /// Returns the maximum number of items in the ring.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.block.capacity()
    }

    /// Returns whether the consumer was dropped. Pushes then succeed until the ring is full; the
    /// items are dropped with the producer.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.block.gone().has_other(Side::Producer)
    }

    #[inline(always)]
    fn cached_room(&self) -> usize {
        let room = self.limit.get().wrapping_sub(self.tail.get());
        debug_assert!(room <= self.capacity(), "spsc: rule 1");
        room
    }

    /// Returns the room. Loads the consumer's index if the cached index shows less than `wanted`.
    #[inline(always)]
    pub(super) fn room_for(&self, wanted: usize) -> usize {
        let room = self.cached_room();
        if room < wanted.min(self.capacity()) {
            self.room()
        } else {
            room
        }
    }

    /// Writes the slot at the tail and advances the tail without publishing it.
    ///
    /// # Safety
    ///
    /// 1. The ring has room, and the caller has written nothing since it checked that.
    /// 2. `publish` follows before the producer is dropped.
    #[inline(always)]
    unsafe fn write_next(&self, item: T) {
        let tail = self.tail.get();
        // SAFETY: (1) this is the producer and its tail; (2) by (1) of this function.
        unsafe { self.block.write(tail, item) };
        self.tail.set(tail.wrapping_add(1));
    }

    /// Number of items that begin in one cache line, rounded down to a power of two.
    const LINE: usize = match size_of::<T>() {
        0 => usize::MAX,
        size if size >= 64 => 1,
        size => 1 << (64 / size).ilog2(),
    };

    /// Prefetches as many lines of slots as `len` items fill, after the lines that were prefetched
    /// before. Skips lines that are not free according to the cached head, which shows `room` free
    /// slots after the tail.
    #[inline(always)]
    pub(super) fn prefetch(&self, room: usize, len: usize) {
        let Some(ahead) = AHEAD.checked_mul(Self::LINE) else {
            return;
        };
        if room <= ahead {
            return;
        }
        let next = self.tail.get().wrapping_add(ahead);
        prefetch_write(self.block.address(next));
        if len > Self::LINE {
            let lines = len.min(room - ahead).div_ceil(Self::LINE).min(MOST);
            for line in 1..lines {
                prefetch_write(self.block.address(next.wrapping_add(line * Self::LINE)));
            }
        }
    }

    /// Returns the `len` slots from the tail on; `len` must be at most the room.
    #[inline(always)]
    pub(super) fn span(&self, len: usize) -> Span<T> {
        let tail = self.tail.get();
        self.block.note_write(tail, len);
        self.block.span(tail, len)
    }

    /// Publishes the next `count` slots to the consumer.
    ///
    /// # Safety
    ///
    /// The caller has written them since the tail last moved, and they are inside the room that it
    /// found.
    #[inline(always)]
    pub(super) unsafe fn advance(&self, count: usize) {
        self.tail.set(self.tail.get().wrapping_add(count));
        self.publish();
    }

    /// Returns how many items were pushed or staged so far, wrapping. This is the index of the next
    /// item. [`Consumer::index`](super::Consumer::index) returns the same number when that item is
    /// the next to be popped.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spsc::ring(2);
    /// producer.stage('a').unwrap();
    /// assert_eq!(producer.index(), 1);
    /// producer.publish();
    /// assert_eq!(consumer.index(), 0);
    /// consumer.pop();
    /// assert_eq!(consumer.index(), 1);
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn index(&self) -> usize {
        self.tail.get()
    }

    /// Publishes the staged items. One store.
    #[inline(always)]
    pub fn publish(&self) {
        self.block.publish_tail(self.tail.get());
    }
}

impl<T, A: Allocator> Drop for Producer<T, A> {
    #[inline(always)]
    fn drop(&mut self) {
        // Staged items that are not published count as pushed.
        self.publish();
        // SAFETY: (1) the producer ends here; (2) its tail was published just now.
        unsafe { self.block.close(Side::Producer, self.tail.get()) };
    }
}

impl<T, A: Allocator> fmt::Debug for Producer<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("capacity", &self.capacity())
            .field("room", &self.room())
            .field("is_closed", &self.is_closed())
            .finish()
    }
}
