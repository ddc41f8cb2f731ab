//! The half that pops.

use core::cell::Cell;
use core::fmt;
use core::iter;
use core::panic::{RefUnwindSafe, UnwindSafe};

use super::super::side::Side;
use super::raw::{Place, Shared};
use crate::alloc::{Allocator, Global};

/// The popping half of a segmented queue.
///
/// One thread at a time uses it: it is `Send`, and neither `Sync` nor `Clone`. All methods are
/// wait-free except that they may free a segment. No method executes an atomic read-modify-write.
/// None allocates, except that the collection given to `pop_into` may grow. Dropping the consumer
/// closes the queue for the producer; queued items are dropped when both halves are dropped.
///
/// ```
/// let (mut producer, mut consumer) = rast_queue::spsc::segmented::queue();
/// producer.push_slice(&[1, 2, 3]);
/// drop(producer);
/// assert_eq!(consumer.peek(), Some(&1));
/// assert_eq!(consumer.pop(), Some(1));
/// let mut rest = Vec::new();
/// assert_eq!(consumer.pop_into(&mut rest, 8), 2);
/// assert!(consumer.is_finished());
/// ```
///
/// ```compile_fail
/// fn clone<T: Clone>(_: T) {}
/// let (_producer, consumer) = rast_queue::spsc::segmented::queue::<u8>();
/// clone(consumer);
/// ```
///
/// ```compile_fail
/// fn share<T: Sync>(_: T) {}
/// let (_producer, consumer) = rast_queue::spsc::segmented::queue::<u8>();
/// share(consumer);
/// ```
///
/// While an item is borrowed, the consumer cannot pop:
///
/// ```compile_fail
/// let (_producer, mut consumer) = rast_queue::spsc::segmented::queue::<String>();
/// let first = consumer.peek();
/// consumer.pop();
/// println!("{first:?}");
/// ```
pub struct Consumer<T, A: Allocator = Global> {
    shared: Shared<T, A>,
    place: Place<T>,
    /// Number of popped items. Inside a batch it lags behind the items that were moved out.
    head: usize,
    /// A past value of the producer's published count.
    tail: Cell<usize>,
}

// SAFETY: on another thread a consumer moves or drops items, which are Send, and uses the
// allocator, maybe at the same time as the producer; the allocator is Send and Sync. The words that
// both halves access are atomic, and by the rules of the segments they never access a slot at once.
unsafe impl<T: Send, A: Allocator + Send + Sync> Send for Consumer<T, A> {}

// A panic in user code leaves the queue consistent.
impl<T, A: Allocator> UnwindSafe for Consumer<T, A> {}
impl<T, A: Allocator> RefUnwindSafe for Consumer<T, A> {}

impl<T, A: Allocator> Consumer<T, A> {
    /// # Safety
    ///
    /// 1. This is the only consumer over `shared`, which is new.
    /// 2. `place` is its first place, and both of its counts are `start`.
    pub(super) unsafe fn new(shared: Shared<T, A>, place: Place<T>, start: usize) -> Self {
        Self {
            shared,
            place,
            head: start,
            tail: Cell::new(start),
        }
    }

    /// Pops the oldest item, or returns `None` if the queue is empty.
    ///
    /// Wait-free: one atomic store, and a load of the producer's count only if the cached count
    /// says that the queue is empty. Once per segment, it keeps the previous segment as the spare
    /// or frees it.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: an item is queued.
        unsafe { self.find_item() };
        self.shared.note_read(self.place, 1);
        let slot = self.shared.slot(self.place.segment, self.place.slot);
        // SAFETY: the slot holds an item, and `advance` moves past it before the slot is read
        // again.
        let item = unsafe { slot.read() };
        self.advance(1);
        Some(item)
    }

    /// Pops up to `max` of the queued items, passes each to `each`, and returns how many.
    ///
    /// A call pops at most the items that were queued at its start. If `each` panics, the items
    /// that it was called with are popped, and the others stay queued.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spsc::segmented::queue();
    /// producer.push_batch(&mut ["a", "b", "c"].into_iter());
    /// let mut text = String::new();
    /// assert_eq!(consumer.pop_batch(2, |s| text += s), 2);
    /// assert_eq!(text, "ab");
    /// assert_eq!(consumer.len(), 1);
    /// ```
    #[inline]
    pub fn pop_batch(&mut self, max: usize, mut each: impl FnMut(T)) -> usize {
        let count = self.standing(max);
        let mut left = count;
        while left > 0 {
            // SAFETY: `left` items are queued.
            unsafe { self.find_item() };
            let here = left.min(self.shared.slots() - self.place.slot);
            let slots = self.shared.slot(self.place.segment, self.place.slot);
            self.shared.note_read(self.place, here);
            let mut taken = Taken {
                consumer: self,
                count: 0,
            };
            for n in 0..here {
                // SAFETY: `n` is below the number of items in this segment.
                let slot = unsafe { slots.add(n) };
                taken.count += 1;
                // SAFETY: the slot holds an item, which was just counted as taken.
                each(unsafe { slot.read() });
            }
            left -= here;
        }
        count
    }

    /// Pops up to `max` of the queued items to the end of `out`, and returns how many.
    ///
    /// If `out` stops early or panics, the items that it did not consume stay queued.
    #[inline]
    pub fn pop_into<E: Extend<T>>(&mut self, out: &mut E, max: usize) -> usize {
        let first = self.head;
        let count = self.standing(max);
        out.extend(iter::from_fn(|| self.pop()).take(count));
        self.head.wrapping_sub(first)
    }

    /// Pops up to `out.len()` of the queued items into the front of `out`, and returns how many.
    #[inline]
    pub fn pop_slice(&mut self, out: &mut [T]) -> usize
    where
        T: Copy,
    {
        let max = out.len();
        let mut places = out.iter_mut();
        self.pop_batch(max, |item| {
            if let Some(place) = places.next() {
                *place = item;
            }
        })
    }

    /// Borrows the oldest item, or returns `None` if the queue is empty.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: an item is queued.
        let place = unsafe { self.place_of_item() };
        self.shared.note_read(place, 1);
        // SAFETY: the slot holds an item, and no thread moves it out while `self` is borrowed,
        // since every method that does takes `&mut self`.
        Some(unsafe { self.shared.slot(place.segment, place.slot).as_ref() })
    }

    /// Loads the producer's count and returns how many items are queued. The producer can only add
    /// items, so this many pops will succeed.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.tail.set(self.shared.load_tail());
        self.cached_len()
    }

    /// Returns whether the queue is empty. Loads the producer's count unless the cached count shows
    /// an item.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cached_len() == 0 && self.len() == 0
    }

    /// Returns whether the producer was dropped.
    ///
    /// Items may still be queued; after `true` the following pops return all of them. To leave a
    /// loop, check [`is_finished`](Self::is_finished).
    #[inline]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.gone().has_other(Side::Consumer)
    }

    /// Returns whether the producer was dropped and the queue is empty, so that no later pop
    /// returns an item.
    #[inline]
    #[must_use]
    pub fn is_finished(&self) -> bool {
        // In this order, because a count loaded after the producer was dropped is its last.
        self.is_closed() && self.is_empty()
    }

    /// Returns how many items a segment holds.
    #[inline]
    #[must_use]
    pub fn segment_slots(&self) -> usize {
        self.shared.slots()
    }

    #[inline(always)]
    fn cached_len(&self) -> usize {
        self.tail.get().wrapping_sub(self.head)
    }

    /// Returns how many items are queued, at most `max`. Loads the producer's count if the cached
    /// count shows fewer.
    #[inline(always)]
    fn standing(&self, max: usize) -> usize {
        let len = self.cached_len();
        let len = if len < max { self.len() } else { len };
        len.min(max)
    }

    /// Returns the place of the oldest item: this place, or the first slot of the next segment.
    ///
    /// # Safety
    ///
    /// An item is queued.
    #[inline(always)]
    unsafe fn place_of_item(&self) -> Place<T> {
        if self.place.slot < self.shared.slots() {
            return self.place;
        }
        // SAFETY: (1) this is the consumer; an item is queued and this segment holds none, so one
        // past it is published.
        let segment = unsafe { self.shared.next(self.place.segment) };
        Place {
            segment: segment.expect("spsc: an item is in a segment"),
            slot: 0,
        }
    }

    /// Moves to the next segment if the oldest item is there.
    ///
    /// # Safety
    ///
    /// An item is queued.
    #[inline(always)]
    unsafe fn find_item(&mut self) {
        if self.place.slot == self.shared.slots() {
            // SAFETY: by the caller.
            let place = unsafe { self.place_of_item() };
            let before = core::mem::replace(&mut self.place, place);
            // SAFETY: (1) this is the consumer, all slots of that segment are moved out, and it is
            // in the next;
            // (2) the next was linked.
            unsafe { self.shared.give_back(before.segment) };
        }
    }

    /// Counts and publishes `count` items that were just moved out.
    #[inline(always)]
    fn advance(&mut self, count: usize) {
        self.place.slot += count;
        self.head = self.head.wrapping_add(count);
        self.shared.publish_head(self.head);
    }
}

/// Counts the moved items and publishes them on drop, so also if user code panics.
struct Taken<'a, T, A: Allocator> {
    consumer: &'a mut Consumer<T, A>,
    count: usize,
}

impl<T, A: Allocator> Drop for Taken<'_, T, A> {
    #[inline(always)]
    fn drop(&mut self) {
        self.consumer.advance(self.count);
    }
}

impl<T, A: Allocator> Drop for Consumer<T, A> {
    fn drop(&mut self) {
        // SAFETY: (1) the consumer ends here; (2) every method publishes the count before it
        // returns.
        unsafe { self.shared.close_consumer(self.place, self.head) };
    }
}

impl<T, A: Allocator> fmt::Debug for Consumer<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("len", &self.len())
            .field("is_closed", &self.is_closed())
            .finish()
    }
}
