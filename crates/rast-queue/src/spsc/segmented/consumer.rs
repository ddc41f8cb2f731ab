//! The half that pops.

use core::cell::Cell;
use core::fmt;
use core::iter;
use core::panic::{RefUnwindSafe, UnwindSafe};

use super::raw::{Place, Shared, Side};
use crate::alloc::{Allocator, Global};

/// The popping half of a segmented queue.
///
/// It moves between threads with its owner and is used by one thread at a time: it is `Send`, and
/// neither `Sync` nor `Clone`. All methods are wait-free, as far as the allocator is in taking a
/// segment back; none allocates; none is an atomic read-modify-write. Dropping it closes the queue
/// for the producer; queued items are dropped when both halves are gone.
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
/// A borrowed item keeps the consumer from moving on:
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
    /// How many items were popped.
    head: usize,
    /// A past value of the producer's published count.
    tail: Cell<usize>,
}

// SAFETY: what a consumer reaches on another thread are items of type T, which are moved or dropped
// there, and the allocator, which both halves may use at once through the header; the one is Send,
// the other Send and Sync. The words it shares with the producer are atomic, and the rules of the
// segments keep the slots apart.
unsafe impl<T: Send, A: Allocator + Send + Sync> Send for Consumer<T, A> {}

// A panic in user code leaves a queue as it was after a whole number of items.
impl<T, A: Allocator> UnwindSafe for Consumer<T, A> {}
impl<T, A: Allocator> RefUnwindSafe for Consumer<T, A> {}

impl<T, A: Allocator> Consumer<T, A> {
    /// # Safety
    ///
    /// 1. This is the only consumer over `shared`, which is new.
    /// 2. `place` is its first, `start` its counts.
    pub(super) unsafe fn new(shared: Shared<T, A>, place: Place<T>, start: usize) -> Self {
        Self {
            shared,
            place,
            head: start,
            tail: Cell::new(start),
        }
    }

    /// Pops the oldest item, or gives `None` if the queue is empty.
    ///
    /// Wait-free; one atomic store, and a load of the producer's count only when the queue looks
    /// empty; once in a segment, the segment before is kept as the spare or freed.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: an item is queued.
        unsafe { self.find_item() };
        self.shared.note_read(self.place, 1);
        let slot = self.shared.slot(self.place.segment, self.place.slot);
        // SAFETY: an item is here, and `advance` goes past it before anything reads here again.
        let item = unsafe { slot.read() };
        self.advance(1);
        Some(item)
    }

    /// Pops up to `max` of the queued items, gives each to `each`, and returns how many.
    ///
    /// Items pushed meanwhile are left for the next call, so a call is bounded by what was queued
    /// at its start. If `each` panics, the item that it was given is its own, the ones before are
    /// popped, and the ones after stay queued.
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
    /// `out` is a `Vec`, a `VecDeque` or whatever else can be extended; if it stops early or
    /// panics, the items that it did not take stay queued.
    #[inline]
    pub fn pop_into<E: Extend<T>>(&mut self, out: &mut E, max: usize) -> usize {
        let first = self.head;
        let count = self.standing(max);
        out.extend(iter::from_fn(|| self.pop()).take(count));
        self.head.wrapping_sub(first)
    }

    /// Pops as many items as are queued and fit to the front of `out`, and returns how many.
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

    /// Borrows the oldest item, or gives `None` if the queue is empty.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: an item is queued.
        let place = unsafe { self.place_of_item() };
        self.shared.note_read(place, 1);
        // SAFETY: an item is there, and no thread moves it out while `self` is borrowed, since
        // every method that does takes `&mut self`.
        Some(unsafe { self.shared.slot(place.segment, place.slot).as_ref() })
    }

    /// Returns how many items are queued, by a fresh look at the producer's count.
    ///
    /// The producer can only make it more, so this many pops will succeed.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.tail.set(self.shared.load_tail());
        self.cached_len()
    }

    /// Returns whether the queue is empty; looks at the producer's count unless the copy kept of it
    /// shows an item.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cached_len() == 0 && self.len() == 0
    }

    /// Returns whether the producer is gone.
    ///
    /// Items may still stand: all that were pushed before are popped by the calls that follow a
    /// `true`. To leave a loop, ask [`is_finished`](Self::is_finished).
    #[inline]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.other_is_gone(Side::Consumer)
    }

    /// Returns whether the producer is gone and the queue is empty: no pop will ever give an item
    /// again.
    #[inline]
    #[must_use]
    pub fn is_finished(&self) -> bool {
        // The order matters: a count loaded after the producer is seen gone is its last.
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

    /// How many items are queued, at most `max`; looked at afresh if the copy shows fewer.
    #[inline(always)]
    fn standing(&self, max: usize) -> usize {
        let len = self.cached_len();
        let len = if len < max { self.len() } else { len };
        len.min(max)
    }

    /// Where the oldest item is queued: here, or in the first slot of the next segment.
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

    /// Goes on to the next segment if the oldest item is queued there.
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

/// Counts what is taken and publishes it on drop, so by a panic of user code too.
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
