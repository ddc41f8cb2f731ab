//! The half that pops.

use core::cell::Cell;
use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};

use super::pace::Pace;
use super::raw::{Block, Span};
use super::side::Side;
use super::wait::Wait;
use crate::alloc::{Allocator, Global};

/// The popping half of a ring.
///
/// One thread at a time uses it: it is `Send`, and neither `Sync` nor `Clone`. All methods are
/// wait-free. No method allocates or executes an atomic read-modify-write. Dropping the consumer
/// closes the ring for the producer; queued items are dropped when both halves are dropped.
///
/// A consumer that keeps up with its producer reads the cache lines that the producer is about to
/// write, which slows both. So the consumer pauses in two cases, if it has popped at least 64 items
/// since its last pause of the same case:
///
/// - A `pop` that finds the ring empty pauses once, for 4 to 64 spin hints, and checks again. On
///   the machine of the measurements a hint takes 10 ns.
/// - A batch (`pop_*`, `read_chunk*`) that must load the producer's index, and finds fewer than 128
///   items and fewer than a quarter of the capacity, pauses for 16 spin hints. It repeats this
///   while each pause brings 16 items, at most eight times.
///
/// A pause brings few items if the producer is slow, done, or on the same thread. Then the consumer
/// pops twice as many items before the next pause, up to 65,536. `peek`, `len` and `is_empty` never
/// pause.
///
/// ```
/// let (mut producer, mut consumer) = rast_queue::spsc::ring(8);
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
/// let (_producer, consumer) = rast_queue::spsc::ring::<u8>(2);
/// clone(consumer);
/// ```
///
/// ```compile_fail
/// fn share<T: Sync>(_: T) {}
/// let (_producer, consumer) = rast_queue::spsc::ring::<u8>(2);
/// share(consumer);
/// ```
///
/// While an item is borrowed, the consumer cannot pop:
///
/// ```compile_fail
/// let (_producer, mut consumer) = rast_queue::spsc::ring::<String>(2);
/// let first = consumer.peek();
/// consumer.pop();
/// println!("{first:?}");
/// ```
pub struct Consumer<T, A: Allocator = Global> {
    block: Block<T, A>,
    /// The true head; the published one is behind it only inside a batch.
    head: Cell<usize>,
    /// A past value of the producer's published tail.
    tail: Cell<usize>,
    /// Head index from which `pop` may pause at an empty ring. Only that code accesses this field
    /// and the next.
    pause_due: Cell<usize>,
    /// How to pause.
    pace: Cell<Pace>,
    /// Head index from which a batch may wait. Only the reload of a batch accesses this field and
    /// the next.
    wait_due: Cell<usize>,
    /// How rarely to wait.
    wait: Cell<Wait>,
}

// SAFETY: on another thread a consumer moves or drops items, and the half that is dropped last uses
// and drops the allocator; both are Send. The words that both halves access are atomic, and by the
// rules of the block they never access a slot at once.
unsafe impl<T: Send, A: Allocator + Send> Send for Consumer<T, A> {}

// A panic in user code leaves the ring consistent.
impl<T, A: Allocator> UnwindSafe for Consumer<T, A> {}
impl<T, A: Allocator> RefUnwindSafe for Consumer<T, A> {}

impl<T, A: Allocator> Consumer<T, A> {
    /// # Safety
    ///
    /// 1. This is the only consumer over `block`.
    /// 2. Both indices of the block are `start`.
    pub(super) unsafe fn new(block: Block<T, A>, start: usize) -> Self {
        Self {
            block,
            head: Cell::new(start),
            tail: Cell::new(start),
            pause_due: Cell::new(start.wrapping_add(Pace::new().gap())),
            pace: Cell::new(Pace::new()),
            wait_due: Cell::new(start.wrapping_add(Wait::new().gap())),
            wait: Cell::new(Wait::new()),
        }
    }

    /// Pops the oldest item, or returns `None` if the ring is empty.
    ///
    /// Wait-free: one atomic store, and a load of the producer's index only if the cached index
    /// says that the ring is empty. It may pause at an empty ring, as [`Consumer`] says.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() && self.gather() == 0 {
            return None;
        }
        // SAFETY: the ring is not empty.
        let item = unsafe { self.read_next() };
        self.publish();
        Some(item)
    }

    /// Moves the oldest item out. Its slot returns to the producer with [`release`](Self::release)
    /// or the next pop.
    ///
    /// Use it to pop items one by one and release their slots together. Unlike [`pop`](Self::pop),
    /// it never pauses.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spsc::ring(1);
    /// producer.push(1).unwrap();
    /// assert_eq!(consumer.take(), Some(1));
    /// assert!(producer.push(2).is_err());
    /// consumer.release();
    /// assert!(producer.push(2).is_ok());
    /// ```
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: the ring is not empty.
        Some(unsafe { self.read_next() })
    }

    /// Pops up to `max` of the queued items, passes each to `each`, and returns how many. One store
    /// returns the slots to the producer.
    ///
    /// A call pops at most the items that were queued at its start. If `each` panics, the items
    /// that it was called with are popped, and the others stay queued.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spsc::ring(4);
    /// producer.push_batch(&mut ["a", "b", "c"].into_iter());
    /// let mut text = String::new();
    /// assert_eq!(consumer.pop_batch(2, |s| text += s), 2);
    /// assert_eq!(text, "ab");
    /// assert_eq!(consumer.len(), 1);
    /// ```
    #[inline]
    pub fn pop_batch(&mut self, max: usize, each: impl FnMut(T)) -> usize {
        let items = self.read_chunk(max).into_iter();
        let count = items.len();
        items.for_each(each);
        count
    }

    /// Pops up to `max` of the queued items to the end of `out`, publishes once, and returns how
    /// many.
    ///
    /// If `out` stops early or panics, the items that it did not consume stay queued.
    #[inline]
    pub fn pop_into<E: Extend<T>>(&mut self, out: &mut E, max: usize) -> usize {
        let mut items = self.read_chunk(max).into_iter();
        out.extend(&mut items);
        items.given()
    }

    /// Pops up to `out.len()` of the queued items into the front of `out`, publishes once, and
    /// returns how many.
    #[inline]
    pub fn pop_slice(&mut self, out: &mut [T]) -> usize
    where
        T: Copy,
    {
        let chunk = self.read_chunk(out.len());
        let count = chunk.len();
        let (first, second) = chunk.as_slices();
        let (for_first, rest) = out.split_at_mut(first.len());
        for_first.copy_from_slice(first);
        rest[..second.len()].copy_from_slice(second);
        chunk.commit_all();
        count
    }

    /// Borrows the oldest item, or returns `None` if the ring is empty.
    #[inline]
    pub fn peek(&self) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: (1) this is the consumer and its head, which cannot move while `self` is
        // borrowed, since every method that moves it takes `&mut self`; (2) the ring is not empty.
        Some(unsafe { self.block.peek(self.head.get()) })
    }

    /// Loads the producer's index and returns how many items are queued. The producer can only add
    /// items, so this many pops will succeed.
    #[inline]
    pub fn len(&self) -> usize {
        self.tail.set(self.block.load_tail());
        self.cached_len()
    }

    /// Returns whether the queue is empty. Loads the producer's index unless the cached index shows
    /// an item.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.cached_len() == 0 && self.len() == 0
    }

    /// Returns `true` if the cached copy of the producer's index shows another item. Loads nothing
    /// from the ring; [`len`](Self::len) updates the copy.
    ///
    /// ```
    /// let (mut producer, consumer) = rast_queue::spsc::ring(2);
    /// producer.push(1).unwrap();
    /// assert!(!consumer.has_seen_item());
    /// assert_eq!(consumer.len(), 1);
    /// assert!(consumer.has_seen_item());
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn has_seen_item(&self) -> bool {
        self.cached_len() > 0
    }

    /// Returns the addresses that the producer writes next, to prefetch them: the next slot, and
    /// its index.
    #[inline(always)]
    #[must_use]
    pub fn next_writes(&self) -> [*const (); 2] {
        let slot = self.block.address(self.head.get());
        [slot.cast(), self.block.tail_address()]
    }

    /// Returns how many items were taken so far, wrapping: the
    /// [`Producer::index`](super::Producer::index) of the next one.
    #[inline(always)]
    #[must_use]
    pub fn index(&self) -> usize {
        self.head.get()
    }

    /// Returns the maximum number of items in the ring.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.block.capacity()
    }

    /// Returns whether the producer was dropped.
    ///
    /// Items may still be queued; after `true` the following pops return all of them. To leave a
    /// loop, check [`is_finished`](Self::is_finished).
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.block.gone().has_other(Side::Consumer)
    }

    /// Returns whether the producer was dropped and the queue is empty, so that no later pop
    /// returns an item.
    #[inline]
    pub fn is_finished(&self) -> bool {
        // In this order, because an index loaded after the producer was dropped is its last.
        self.is_closed() && self.is_empty()
    }

    #[inline(always)]
    fn cached_len(&self) -> usize {
        let len = self.tail.get().wrapping_sub(self.head.get());
        debug_assert!(len <= self.capacity(), "spsc: rule 1");
        len
    }

    /// Called when the ring is empty: pauses if a pause is due, checks again, and returns how many
    /// items are queued.
    #[inline(always)]
    fn gather(&self) -> usize {
        let head = self.head.get();
        if is_before(head, self.pause_due.get()) {
            return 0;
        }
        let (tail, pace) = gather_slow(self.block.duplicate(), head, self.pace.get());
        self.tail.set(tail);
        self.pace.set(pace);
        self.pause_due.set(head.wrapping_add(pace.gap()));
        self.cached_len()
    }

    /// Returns how many items are queued, at most `max`. Loads the producer's index if the cached
    /// index shows fewer.
    #[inline(always)]
    pub(super) fn standing(&self, max: usize) -> usize {
        let len = self.cached_len();
        let len = if len < max.min(self.capacity()) {
            self.reload()
        } else {
            len
        };
        len.min(max)
    }

    /// Loads the producer's index, waits if a wait is due and few items are queued, and returns how
    /// many are queued.
    #[inline(always)]
    fn reload(&self) -> usize {
        let standing = self.len();
        let head = self.head.get();
        if is_before(head, self.wait_due.get()) {
            return standing;
        }
        let (tail, wait) = wait_slow(self.block.duplicate(), head, standing, self.wait.get());
        self.tail.set(tail);
        self.wait.set(wait);
        self.wait_due.set(head.wrapping_add(wait.gap()));
        self.cached_len()
    }

    /// Returns the `len` slots from the head on; at least `len` items must be queued.
    #[inline(always)]
    pub(super) fn span(&self, len: usize) -> Span<T> {
        let head = self.head.get();
        self.block.note_read(head, len);
        self.block.span(head, len)
    }

    /// Returns the next `count` slots to the producer.
    ///
    /// # Safety
    ///
    /// They held items, which were moved out or dropped since the head last moved.
    #[inline(always)]
    pub(super) unsafe fn advance(&self, count: usize) {
        self.head.set(self.head.get().wrapping_add(count));
        self.publish();
    }

    /// Moves the true head past `count` queued items without publishing it. The iterator of a chunk
    /// does so before it yields them, and calls `settle` at its end.
    #[inline(always)]
    pub(super) fn skip(&mut self, count: usize) {
        self.head.set(self.head.get().wrapping_add(count));
    }

    /// Ends a `skip`, which moved the head past `given + left` items: the first `given` are popped,
    /// and the head moves back by the other `left`.
    ///
    /// Publishes nothing if `given` is zero, so that a check of an empty ring does not write the
    /// cache line of the head.
    ///
    /// # Safety
    ///
    /// The head was moved by a `skip` of `given + left` items. The first `given` were moved out,
    /// and the others stay queued.
    #[inline(always)]
    pub(super) unsafe fn settle(&self, given: usize, left: usize) {
        self.head.set(self.head.get().wrapping_sub(left));
        if given > 0 {
            self.publish();
        }
    }

    /// Moves the item at the head out and advances the head without publishing it.
    ///
    /// # Safety
    ///
    /// The ring is not empty, and the caller has popped nothing since it checked that.
    #[inline(always)]
    unsafe fn read_next(&self) -> T {
        let head = self.head.get();
        // SAFETY: (1) this is the consumer and its head, which advances in the next statement; (2)
        // by the caller.
        let item = unsafe { self.block.read(head) };
        self.head.set(head.wrapping_add(1));
        item
    }

    #[inline(always)]
    fn publish(&self) {
        self.block.publish_head(self.head.get());
    }

    /// Returns the slots of the items taken to the producer. One store.
    #[inline(always)]
    pub fn release(&mut self) {
        self.publish();
    }
}

/// Returns whether the head is before `due`, measured the shorter way round the wrapping indices.
///
/// `due` is at most 65,536 ahead of the head, and may be behind it by any number of items that were
/// popped without this check. If that is more than half of the index range, 2^31 items on a 32-bit
/// target, no wait happens until the head has wrapped.
#[inline(always)]
fn is_before(head: usize, due: usize) -> bool {
    head.wrapping_sub(due) > usize::MAX / 2
}

/// Arguments in registers let the caller keep the consumer in registers.
#[cold]
#[inline(never)]
fn gather_slow<T, A>(block: Block<T, A>, head: usize, pace: Pace) -> (usize, Pace) {
    pace.wait();
    let tail = block.load_tail();
    (tail, pace.after(tail.wrapping_sub(head), block.capacity()))
}

/// All arguments are passed in registers, as above.
#[cold]
#[inline(never)]
fn wait_slow<T, A>(block: Block<T, A>, head: usize, standing: usize, wait: Wait) -> (usize, Wait) {
    let look = || block.load_tail().wrapping_sub(head);
    let (standing, wait) = wait.run(block.capacity(), standing, look);
    (head.wrapping_add(standing), wait)
}

impl<T, A: Allocator> Drop for Consumer<T, A> {
    #[inline(always)]
    fn drop(&mut self) {
        // An iterator of a chunk that was leaked has left the true head ahead.
        self.publish();
        // SAFETY: (1) the consumer ends here; (2) its head was published just now.
        unsafe { self.block.close(Side::Consumer, self.head.get()) };
    }
}

impl<T, A: Allocator> fmt::Debug for Consumer<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("capacity", &self.capacity())
            .field("len", &self.len())
            .field("is_closed", &self.is_closed())
            .finish()
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::super::{Producer, ring, ring_at};
    use super::*;

    /// Number of items until the next wait of a batch, and until the next pause of a `pop`.
    fn due(consumer: &Consumer<u32>) -> (usize, usize) {
        let head = consumer.head.get();
        (
            consumer.wait_due.get().wrapping_sub(head),
            consumer.pause_due.get().wrapping_sub(head),
        )
    }

    /// Pushes so many and pops them by `pop`, none of which finds the ring empty.
    fn pass(producer: &mut Producer<u32>, consumer: &mut Consumer<u32>, count: usize) {
        for n in 0..count as u32 {
            producer.push(n).unwrap();
            assert_eq!(consumer.pop(), Some(n));
        }
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_consumer_is_seven_words() {
        assert_eq!(size_of::<Consumer<u32>>(), 7 * size_of::<usize>());
    }

    #[test]
    fn batches_and_pops_wait_by_counts_of_their_own_and_over_the_wrap() {
        for below_wrap in [0, 1, 63, 64, 65, 1000] {
            let (mut producer, mut consumer) = ring_at(1024, usize::MAX - below_wrap);
            assert_eq!(due(&consumer), (64, 64));
            pass(&mut producer, &mut consumer, 63);
            assert_eq!(consumer.pop_batch(8, drop), 0);
            assert_eq!(consumer.pop(), None);
            assert_eq!(due(&consumer), (1, 1), "not yet");
            pass(&mut producer, &mut consumer, 1);
            assert_eq!(consumer.pop_batch(8, drop), 0);
            assert_eq!(due(&consumer), (128, 0), "a wait that brought nothing");
            for _ in 0..3 {
                assert_eq!(consumer.pop_batch(8, drop), 0);
            }
            assert_eq!(due(&consumer), (128, 0), "polls wait once");
            assert_eq!(consumer.pop(), None);
            assert_eq!(consumer.pop(), None);
            assert_eq!(due(&consumer), (128, 128));
            pass(&mut producer, &mut consumer, 128);
            assert_eq!(producer.push_slice(&[7; 3]), 3);
            assert_eq!(consumer.read_chunk(8).as_slices().0.len(), 3);
            assert_eq!(due(&consumer), (256, 0), "with items in hand, too");
        }
    }

    #[test]
    fn who_finds_enough_waits_for_nothing() {
        let (mut producer, mut consumer) = ring(1024);
        pass(&mut producer, &mut consumer, 64);
        assert_eq!(producer.push_slice(&[7; 128]), 128);
        assert_eq!(consumer.read_chunk(256).len(), 128);
        assert_eq!(due(&consumer).0, 64, "as far as before");
    }

    #[test]
    fn rings_of_few_slots_and_a_producer_that_is_gone_hold_nobody() {
        for capacity in [1, 2, 4, 8, 16] {
            let (mut producer, mut consumer) = ring(capacity);
            for _ in 0..20 {
                pass(&mut producer, &mut consumer, 1 << 13);
                assert_eq!(producer.push_slice(&[7]), 1);
                assert_eq!(consumer.pop_batch(2, drop), 1);
            }
            pass(&mut producer, &mut consumer, 1 << 16);
            producer.push_slice(&[7]);
            drop(producer);
            assert_eq!(consumer.pop_batch(usize::MAX, drop), 1);
            assert_eq!(consumer.pop_batch(usize::MAX, drop), 0);
            assert!(consumer.is_finished());
        }
    }

    #[test]
    fn a_due_place_that_is_half_the_circle_behind_is_seen_ahead() {
        let half = usize::MAX / 2;
        assert!(!is_before(5, 5));
        assert!(is_before(5, 6));
        assert!(!is_before(half, 0));
        assert!(is_before(half + 1, 0));
        assert!(is_before(usize::MAX, 0) && !is_before(0, usize::MAX));
    }
}
