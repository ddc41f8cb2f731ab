//! The half that pops.

use core::cell::Cell;
use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};

use super::ReadChunk;
use super::pace::Pace;
use super::raw::{Block, Side, Span};
use super::wait::Wait;
use crate::alloc::{Allocator, Global};

/// The popping half of a ring.
///
/// It moves between threads with its owner and is used by one thread at a time: it is `Send`, and
/// neither `Sync` nor `Clone`. All methods are wait-free; none allocates; none is an atomic
/// read-modify-write. Dropping it closes the ring for the producer; queued items are dropped when
/// both halves are gone.
///
/// A consumer that keeps up with its producer takes from it the cache lines that it is about to
/// write, which slows both. So, when it has taken 64 items or more since it last did, it waits a
/// little in two places, each with a count of its own:
///
/// - A `pop` that finds nothing pauses once, with 4 to 64 of the processor's spin hints (10 ns each
///   where it was measured), and looks again.
/// - A batch (`pop_*`, `read_chunk*`) that must look at the producer's index and finds fewer than
///   128 items, and than a quarter of the capacity, waits for 16 spin hints, and for as many again
///   while each such step brings 16 items, eight times at most.
///
/// If that brings few items, as from a producer that is slow, done, or on the same thread, the next
/// time comes after twice as many items, up to 65,536. `peek`, `len` and `is_empty` never wait.
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
/// A borrowed item keeps the consumer from moving on:
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
    /// Where the head must have come to for a pause of `pop` at an empty ring; this and the next
    /// are touched there alone.
    pause_due: Cell<usize>,
    /// How to pause.
    pace: Cell<Pace>,
    /// Where the head must have come to for a wait of a batch; this and the next are touched at its
    /// reloads alone.
    wait_due: Cell<usize>,
    /// How rarely to wait.
    wait: Cell<Wait>,
}

// SAFETY: what a consumer reaches on another thread are items of type T, which are moved or dropped
// there, and the allocator, which the last half uses and drops wherever it is; both are Send. The
// words it shares with the producer are atomic, and the rules of the block keep the slots apart.
unsafe impl<T: Send, A: Allocator + Send> Send for Consumer<T, A> {}

// A panic in user code leaves a ring as it was after a whole number of items.
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

    /// Pops the oldest item, or gives `None` if the ring is empty.
    ///
    /// Wait-free; one atomic store, and a load of the producer's index only when the ring looks
    /// empty. In a stream a look at an empty ring may pause, as [`Consumer`] says.
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

    /// Moves the oldest item out and keeps its slot until [`release`](Self::release), or the next
    /// pop.
    ///
    /// For who takes items one by one and returns their slots together. It never pauses.
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

    /// Pops up to `max` of the queued items, gives each to `each`, publishes once, and returns how
    /// many.
    ///
    /// Items pushed meanwhile are left for the next call, so a call is bounded by what was queued
    /// at its start. If `each` panics, the item that it was given is its own, the ones before are
    /// popped, and the ones after stay queued.
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
    /// `out` is a `Vec`, a `VecDeque` or whatever else can be extended; if it stops early or
    /// panics, the items that it did not take stay queued.
    #[inline]
    pub fn pop_into<E: Extend<T>>(&mut self, out: &mut E, max: usize) -> usize {
        let mut items = self.read_chunk(max).into_iter();
        out.extend(&mut items);
        items.given()
    }

    /// Pops as many items as are queued and fit to the front of `out`, publishes once, and returns
    /// how many.
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

    /// Borrows up to `max` of the queued items, to be read in place or moved out.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spsc::ring(4);
    /// producer.push_slice(&[1, 2, 3]);
    /// let chunk = consumer.read_chunk(2);
    /// assert_eq!(chunk.as_slices().0, [1, 2]);
    /// chunk.commit(1);
    /// assert_eq!(consumer.peek(), Some(&2));
    /// ```
    #[inline]
    pub fn read_chunk(&mut self, max: usize) -> ReadChunk<'_, T, A> {
        let len = self.standing(max);
        ReadChunk::new(self, len)
    }

    /// Borrows the oldest `count` items, or gives `None` if fewer are queued.
    #[inline]
    pub fn read_chunk_exact(&mut self, count: usize) -> Option<ReadChunk<'_, T, A>> {
        (self.standing(count) == count).then(|| ReadChunk::new(self, count))
    }

    /// Borrows the oldest item, or gives `None` if the ring is empty.
    #[inline]
    pub fn peek(&self) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: (1) this is the consumer and its head, which cannot move while `self` is
        // borrowed, since every method that moves it takes `&mut self`; (2) the ring is not empty.
        Some(unsafe { self.block.peek(self.head.get()) })
    }

    /// Returns how many items are queued, by a fresh look at the producer's index.
    ///
    /// The producer can only make it more, so this many pops will succeed.
    #[inline]
    pub fn len(&self) -> usize {
        self.tail.set(self.block.load_tail());
        self.cached_len()
    }

    /// Returns whether the queue is empty; looks at the producer's index unless the copy kept of it
    /// shows an item.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.cached_len() == 0 && self.len() == 0
    }

    /// Returns how many items the ring holds at most.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.block.capacity()
    }

    /// Returns whether the producer is gone.
    ///
    /// Items may still stand: all that were pushed before are popped by the calls that follow a
    /// `true`. To leave a loop, ask [`is_finished`](Self::is_finished).
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.block.other_is_gone(Side::Consumer)
    }

    /// Returns whether the producer is gone and the queue is empty: no pop will ever give an item
    /// again.
    #[inline]
    pub fn is_finished(&self) -> bool {
        // The order matters: an index loaded after the producer is seen gone is its last.
        self.is_closed() && self.is_empty()
    }

    #[inline(always)]
    fn cached_len(&self) -> usize {
        let len = self.tail.get().wrapping_sub(self.head.get());
        debug_assert!(len <= self.capacity(), "spsc: rule 1");
        len
    }

    /// Called when nothing is queued: pauses if that is due, looks again, and tells how many items
    /// are queued now.
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

    /// How many items are queued, at most `max`; looked at afresh if the copy shows fewer.
    #[inline(always)]
    fn standing(&self, max: usize) -> usize {
        let len = self.cached_len();
        let len = if len < max.min(self.capacity()) {
            self.reload()
        } else {
            len
        };
        len.min(max)
    }

    /// Looks at the producer's index, waits if that is due and few items are queued, and tells how
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

    /// The `len` slots from the head on; no more than stand.
    #[inline(always)]
    pub(super) fn span(&self, len: usize) -> Span<T> {
        let head = self.head.get();
        self.block.note_read(head, len);
        self.block.span(head, len)
    }

    /// Makes the next `count` slots the producer's.
    ///
    /// # Safety
    ///
    /// They stood, and their items were moved out or dropped since the head last moved.
    #[inline(always)]
    pub(super) unsafe fn advance(&self, count: usize) {
        self.head.set(self.head.get().wrapping_add(count));
        self.publish();
    }

    /// Moves the true head past `count` queued items, unpublished: a chunk gives them out and then
    /// settles.
    #[inline(always)]
    pub(super) fn skip(&mut self, count: usize) {
        self.head.set(self.head.get().wrapping_add(count));
    }

    /// Takes the last `left` of the items back that `skip` went past, and pops the `given` before
    /// them.
    ///
    /// Publishes nothing if none was given: a look at an empty ring leaves the line of the head
    /// alone.
    ///
    /// # Safety
    ///
    /// `skip` went past `given + left` items, of which the first were moved out and the others stay
    /// queued.
    #[inline(always)]
    pub(super) unsafe fn settle(&self, given: usize, left: usize) {
        self.head.set(self.head.get().wrapping_sub(left));
        if given > 0 {
            self.publish();
        }
    }

    /// Moves the item at the head out and advances the head, unpublished.
    ///
    /// # Safety
    ///
    /// The ring is not empty, and nothing was read since that was found.
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

/// Whether the head has yet to come to `due`, by the shorter way between the two on the circle of
/// the indices.
///
/// `due` is ahead of the head by 65,536 at most, and behind it by all that was popped without
/// asking; when that is more than half of the circle, 2^31 items on a 32-bit target, a wait that is
/// due is left out until the head has gone around.
#[inline(always)]
fn is_before(head: usize, due: usize) -> bool {
    head.wrapping_sub(due) > usize::MAX / 2
}

/// Everything goes through registers, so that the consumer may live in registers where this is
/// called.
#[cold]
#[inline(never)]
fn gather_slow<T, A>(block: Block<T, A>, head: usize, pace: Pace) -> (usize, Pace) {
    pace.wait();
    let tail = block.load_tail();
    (tail, pace.after(tail.wrapping_sub(head), block.capacity()))
}

/// Everything goes through registers, as above.
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
        // A chunk's iterator that was forgotten has left the true head ahead.
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

    /// How far the head must move for the next wait of a batch, and for the next pause of a `pop`.
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
