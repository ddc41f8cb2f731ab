//! The half that pushes.

use core::fmt;
use core::mem::MaybeUninit;
use core::panic::{RefUnwindSafe, UnwindSafe};

use super::super::side::Side;
use super::raw::{Place, Shared};
use crate::alloc::{AllocError, Allocator, Global};
use crate::{Closed, TryPushError};

/// The pushing half of a segmented queue.
///
/// One thread at a time uses it: it is `Send`, and neither `Sync` nor `Clone`. All methods are
/// wait-free except for the allocator, which they call at most once per segment. No method executes
/// an atomic read-modify-write. Dropping the producer closes the queue; the consumer can still pop
/// all pushed items.
///
/// ```
/// let (mut producer, mut consumer) = rast_queue::spsc::segmented::queue();
/// for n in 0..1000 {
///     producer.push(n).unwrap();
/// }
/// assert_eq!(producer.len(), 1000);
/// assert_eq!(consumer.pop(), Some(0));
/// drop(consumer);
/// assert_eq!(producer.push(7).unwrap_err().into_inner(), 7);
/// ```
///
/// ```compile_fail
/// fn clone<T: Clone>(_: T) {}
/// let (producer, _consumer) = rast_queue::spsc::segmented::queue::<u8>();
/// clone(producer);
/// ```
///
/// ```compile_fail
/// fn share<T: Sync>(_: T) {}
/// let (producer, _consumer) = rast_queue::spsc::segmented::queue::<u8>();
/// share(producer);
/// ```
///
/// ```compile_fail
/// fn send<T: Send>(_: T) {}
/// let (producer, _consumer) = rast_queue::spsc::segmented::queue::<std::rc::Rc<u8>>();
/// send(producer);
/// ```
///
/// The type is invariant in `T`, because the other half pops what this half pushes:
///
/// ```compile_fail
/// use rast_queue::spsc::segmented::Producer;
/// fn shorten<'a>(producer: Producer<&'static str>) -> Producer<&'a str> {
///     producer
/// }
/// ```
pub struct Producer<T, A: Allocator = Global> {
    shared: Shared<T, A>,
    place: Place<T>,
    /// Number of items pushed and published. Inside a batch it lags behind the slots that are
    /// written.
    tail: usize,
    /// Makes the producer not `Sync`.
    not_sync: core::marker::PhantomData<core::cell::Cell<()>>,
}

// SAFETY: on another thread a producer moves or drops items, which are Send, and uses the
// allocator, maybe at the same time as the consumer; the allocator is Send and Sync. The words that
// both halves access are atomic, and by the rules of the segments they never access a slot at once.
unsafe impl<T: Send, A: Allocator + Send + Sync> Send for Producer<T, A> {}

// A panic in user code leaves the queue consistent.
impl<T, A: Allocator> UnwindSafe for Producer<T, A> {}
impl<T, A: Allocator> RefUnwindSafe for Producer<T, A> {}

impl<T, A: Allocator> Producer<T, A> {
    /// # Safety
    ///
    /// 1. This is the only producer over `shared`, which is new.
    /// 2. `place` is its first place, and both of its counts are `start`.
    pub(super) unsafe fn new(shared: Shared<T, A>, place: Place<T>, start: usize) -> Self {
        Self {
            shared,
            place,
            tail: start,
            not_sync: core::marker::PhantomData,
        }
    }

    /// Pushes one item; aborts on lack of memory.
    ///
    /// Wait-free except for the allocator: one atomic load and one store, and once per segment a
    /// new segment.
    ///
    /// # Errors
    ///
    /// [`Closed`] with the item if the consumer is gone.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), Closed<T>> {
        if self.is_closed() {
            return Err(Closed(item));
        }
        self.make_room();
        // SAFETY: there is room.
        unsafe { self.write_next(item) };
        Ok(())
    }

    /// Pushes one item, or returns it if there is no memory for it.
    ///
    /// # Errors
    ///
    /// [`TryPushError::Closed`] with the item if the consumer is gone. [`TryPushError::NoMemory`]
    /// with the item if the segment is full, there is no spare one, and the allocator fails; the
    /// queue stays usable.
    #[inline]
    pub fn try_push(&mut self, item: T) -> Result<(), TryPushError<T>> {
        if self.is_closed() {
            return Err(TryPushError::Closed(item));
        }
        if self.try_make_room().is_err() {
            return Err(TryPushError::NoMemory(item));
        }
        // SAFETY: there is room.
        unsafe { self.write_next(item) };
        Ok(())
    }

    /// Pushes all items of `items` and returns how many. Publishes once for the items in the
    /// current segment, and twice for each further segment: after its first item and after the
    /// others.
    ///
    /// Ends early if the consumer was dropped, which is checked once per segment. Pass the iterator
    /// by `&mut` to keep the items that it did not yield. If the iterator panics, the items that it
    /// had yielded are pushed. Aborts on lack of memory.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spsc::segmented::queue();
    /// assert_eq!(producer.push_batch(&mut (0..1000)), 1000);
    /// assert_eq!(consumer.len(), 1000);
    /// ```
    #[inline]
    pub fn push_batch<I>(&mut self, items: I) -> usize
    where
        I: IntoIterator<Item = T>,
    {
        // Dropped after the last publication, so that its drop delays no item.
        let mut items = items.into_iter();
        let first = self.tail;
        while !self.is_closed() {
            self.fill_segment(&mut items);
            if self.place.slot < self.shared.slots() {
                break; // the iterator has ended
            }
            // A new segment is linked only for an item.
            let Some(item) = items.next() else { break };
            self.make_room();
            // SAFETY: there is room.
            unsafe { self.write_next(item) };
        }
        self.tail.wrapping_sub(first)
    }

    /// Pushes copies of all of `items`, publishes them once per segment, and returns how many.
    ///
    /// It pushes fewer only if the consumer was dropped. Aborts on lack of memory.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spsc::segmented::queue();
    /// assert_eq!(producer.push_slice(b"hello"), 5);
    /// assert_eq!(consumer.pop(), Some(b'h'));
    /// ```
    #[inline]
    pub fn push_slice(&mut self, items: &[T]) -> usize
    where
        T: Copy,
    {
        let mut rest = items;
        while !rest.is_empty() && !self.is_closed() {
            self.make_room();
            let count = rest.len().min(self.shared.slots() - self.place.slot);
            let (now, later) = rest.split_at(count);
            self.shared.note_write(self.place, count);
            let slot = self.shared.slot(self.place.segment, self.place.slot);
            // SAFETY: that many slots of the segment are free, and only the producer accesses them;
            // they do not overlap `items`.
            unsafe { slot.as_ptr().copy_from_nonoverlapping(now.as_ptr(), count) };
            self.advance(count);
            rest = later;
        }
        items.len() - rest.len()
    }

    /// Returns an upper bound of the number of queued items, since the consumer may pop meanwhile.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.tail.wrapping_sub(self.shared.load_head())
    }

    /// Returns whether the queue is empty; it stays so until this half pushes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the consumer was dropped. The queued items are then dropped with the
    /// producer.
    #[inline]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.gone().has_other(Side::Producer)
    }

    /// Returns how many items a segment holds.
    #[inline]
    #[must_use]
    pub fn segment_slots(&self) -> usize {
        self.shared.slots()
    }

    #[inline(always)]
    fn try_make_room(&mut self) -> Result<(), AllocError> {
        if self.place.slot == self.shared.slots() {
            // SAFETY: (1) this is the producer, and the segment is full.
            self.place = unsafe { self.shared.extend(self.place.segment) }?;
        }
        Ok(())
    }

    #[inline(always)]
    fn make_room(&mut self) {
        if self.try_make_room().is_err() {
            Shared::<T, A>::no_memory(self.shared.slots());
        }
    }

    /// Writes items into the free slots of the segment until either ends, and publishes them.
    #[inline(always)]
    fn fill_segment(&mut self, items: &mut impl Iterator<Item = T>) {
        let free = self.shared.slots() - self.place.slot;
        let slots = self.shared.slot(self.place.segment, self.place.slot);
        self.shared.note_write(self.place, free);
        // SAFETY: the segment has that many slots after `slot`, and the consumer neither leaves nor
        // frees the segment before an item is queued past it. The slots are past the tail, so only
        // the producer accesses them, which is borrowed to the end of this call. They may be
        // uninitialised, as `MaybeUninit` may.
        let slots = unsafe {
            core::slice::from_raw_parts_mut(slots.cast::<MaybeUninit<T>>().as_ptr(), free)
        };
        let mut written = Written {
            producer: self,
            count: 0,
        };
        // `zip` asks for a slot before an item, so no item is lost; `for_each` as in the ring's
        // `fill`, for the same reasons.
        slots.iter_mut().zip(items).for_each(|(slot, item)| {
            slot.write(item);
            written.count += 1;
        });
    }

    /// Writes the slot at the tail and publishes it.
    ///
    /// # Safety
    ///
    /// The segment has a free slot.
    #[inline(always)]
    unsafe fn write_next(&mut self, item: T) {
        self.shared.note_write(self.place, 1);
        let slot = self.shared.slot(self.place.segment, self.place.slot);
        // SAFETY: the slot is past the tail, so only the producer accesses it, and it is empty.
        unsafe { slot.write(item) };
        self.advance(1);
    }

    /// Counts and publishes `count` items that were just written.
    #[inline(always)]
    fn advance(&mut self, count: usize) {
        self.place.slot += count;
        self.tail = self.tail.wrapping_add(count);
        self.shared.publish_tail(self.tail);
    }
}

/// Counts the written items and publishes them on drop, so also if the iterator panics.
struct Written<'a, T, A: Allocator> {
    producer: &'a mut Producer<T, A>,
    count: usize,
}

impl<T, A: Allocator> Drop for Written<'_, T, A> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.count > 0 {
            self.producer.advance(self.count);
        }
    }
}

impl<T, A: Allocator> Drop for Producer<T, A> {
    fn drop(&mut self) {
        // SAFETY: (1) the producer ends here; (2) every method publishes the count before it
        // returns.
        unsafe { self.shared.close_producer(self.tail) };
    }
}

impl<T, A: Allocator> fmt::Debug for Producer<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("len", &self.len())
            .field("is_closed", &self.is_closed())
            .finish()
    }
}
