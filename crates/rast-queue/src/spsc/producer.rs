//! The half that pushes.

use core::cell::Cell;
use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};

use super::WriteChunk;
use super::raw::{Block, Side, Span};
use crate::Full;
use crate::alloc::{Allocator, Global};
use crate::primitive::hint::prefetch_write;

/// How many lines ahead of the tail the producer asks for, to write there later.
///
/// The consumer has just read these lines, so each first write to one waits for it to come back.
/// Single pushes and batches of 64 gain by it, and at this distance batches of 8 do not lose
/// (`docs/algorithms/queue-spsc.md`).
const AHEAD: usize = 8;

/// How many lines a chunk asks for at most.
const MOST: usize = 16;

/// The pushing half of a ring.
///
/// It moves between threads with its owner and is used by one thread at a time: it is `Send`, and
/// neither `Sync` nor `Clone`. All methods are wait-free; none allocates; none is an atomic
/// read-modify-write. Dropping it closes the ring for the consumer, who still gets all that was
/// pushed.
///
/// The half is four words and holds its own index and a copy of the other's; two halves for two
/// threads that stand side by side in one struct share a cache line, so pad them there, or better,
/// keep each with its owner.
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
/// What goes in is what comes out, so the type of the items is not weakened on one side alone:
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

// SAFETY: what a producer reaches on another thread are items of type T, which are moved or dropped
// there, and the allocator, which the last half uses and drops wherever it is; both are Send. The
// words it shares with the consumer are atomic, and the rules of the block keep the slots apart.
unsafe impl<T: Send, A: Allocator + Send> Send for Producer<T, A> {}

// A panic in user code leaves a ring as it was after a whole number of items.
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
    /// Wait-free; one atomic store, and a load of the consumer's index only when the ring looks
    /// full.
    ///
    /// # Errors
    ///
    /// [`Full`] with the item if the ring has no room. A full ring whose consumer is gone stays
    /// full, so a loop that waits for room asks [`is_closed`](Self::is_closed).
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

    /// Writes an item that the consumer does not see before [`publish`](Self::publish), or the next
    /// push.
    ///
    /// For who writes many items, one here and one there, and announces them together.
    ///
    /// # Errors
    ///
    /// [`Full`] with the item; the staged ones count.
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
    /// Room is found first and the iterator is asked for no more than fits, so no item is taken
    /// that cannot be pushed. Lend the iterator by `&mut` to keep the items that did not fit; one
    /// that is given away drops them. If the iterator panics, the items that it gave before are
    /// pushed.
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

    /// Borrows up to `max` free slots to be written in place: as many as fit, if they are fewer, or
    /// none.
    ///
    /// ```
    /// let (mut producer, consumer) = rast_queue::spsc::ring(4);
    /// let chunk = producer.write_chunk(usize::MAX);
    /// assert_eq!(chunk.len(), 4);
    /// chunk.fill(["a", "b"]);
    /// assert_eq!(consumer.len(), 2);
    /// ```
    #[inline]
    pub fn write_chunk(&mut self, max: usize) -> WriteChunk<'_, T, A> {
        let room = self.room_for(max);
        let len = room.min(max);
        self.prefetch(room, len);
        WriteChunk::new(self, len)
    }

    /// Borrows `count` free slots to be written in place, or gives `None` if there are fewer.
    #[inline]
    pub fn write_chunk_exact(&mut self, count: usize) -> Option<WriteChunk<'_, T, A>> {
        self.has_room(count).then(|| WriteChunk::new(self, count))
    }

    /// Returns how many items fit now, by a fresh look at the consumer's index.
    ///
    /// The consumer can only make it more, so this many pushes will succeed.
    #[inline]
    pub fn room(&self) -> usize {
        let head = self.block.load_head();
        self.limit.set(head.wrapping_add(self.capacity()));
        self.cached_room()
    }

    /// Returns how many items are queued at most, by a fresh look at the consumer's index.
    ///
    /// The consumer can only make it fewer.
    #[inline]
    pub fn len(&self) -> usize {
        self.capacity() - self.room()
    }

    /// Returns `true` if every item was popped; the ring stays empty until this half pushes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether `count` items fit; looks at the consumer's index only if the copy kept of it
    /// does not say so.
    ///
    /// The consumer can only make room, so after `true` that many pushes will succeed.
    #[inline]
    pub fn has_room(&self, count: usize) -> bool {
        self.cached_room() >= count || self.room() >= count
    }

    /// Returns whether the ring is full.
    #[inline]
    pub fn is_full(&self) -> bool {
        !self.has_room(1)
    }

    /// Returns how many items the ring holds at most.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.block.capacity()
    }

    /// Returns whether the consumer is gone.
    ///
    /// Pushes still succeed then until the ring is full; what is queued is dropped with the
    /// producer.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.block.other_is_gone(Side::Producer)
    }

    #[inline(always)]
    fn cached_room(&self) -> usize {
        let room = self.limit.get().wrapping_sub(self.tail.get());
        debug_assert!(room <= self.capacity(), "spsc: rule 1");
        room
    }

    /// The room, looked at afresh if the copy shows less than `wanted`.
    #[inline(always)]
    fn room_for(&self, wanted: usize) -> usize {
        let room = self.cached_room();
        if room < wanted.min(self.capacity()) {
            self.room()
        } else {
            room
        }
    }

    /// Writes the slot at the tail and advances the tail, unpublished.
    ///
    /// # Safety
    ///
    /// 1. The ring has room, and nothing was written since that was found.
    /// 2. `publish` follows before the producer is dropped.
    #[inline(always)]
    unsafe fn write_next(&self, item: T) {
        let tail = self.tail.get();
        // SAFETY: (1) this is the producer and its tail; (2) by (1) of this function.
        unsafe { self.block.write(tail, item) };
        self.tail.set(tail.wrapping_add(1));
    }

    /// How many items begin in a cache line, rounded down to a power of two.
    const LINE: usize = match size_of::<T>() {
        0 => usize::MAX,
        size if size >= 64 => 1,
        size => 1 << (64 / size).ilog2(),
    };

    /// Asks for as many lines of slots as `len` items take, past those that were asked for before,
    /// so that they are here to be written when the tail comes to them; those that the copy of the
    /// head does not show to be free, by the `room` after the tail, are left.
    #[inline(always)]
    fn prefetch(&self, room: usize, len: usize) {
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

    /// The `len` slots from the tail on; no more than there is room.
    #[inline(always)]
    pub(super) fn span(&self, len: usize) -> Span<T> {
        let tail = self.tail.get();
        self.block.note_write(tail, len);
        self.block.span(tail, len)
    }

    /// Makes the next `count` slots the consumer's.
    ///
    /// # Safety
    ///
    /// They were written since the tail last moved, and are before what there was room for.
    #[inline(always)]
    pub(super) unsafe fn advance(&self, count: usize) {
        self.tail.set(self.tail.get().wrapping_add(count));
        self.publish();
    }

    /// Makes what was staged the consumer's. One store.
    #[inline(always)]
    pub fn publish(&self) {
        self.block.publish_tail(self.tail.get());
    }
}

impl<T, A: Allocator> Drop for Producer<T, A> {
    #[inline(always)]
    fn drop(&mut self) {
        // What was staged and not published counts as pushed.
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
