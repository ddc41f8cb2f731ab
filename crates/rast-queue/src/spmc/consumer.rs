//! The half that pops; there may be many.

use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;

use std_alloc::vec::Vec;

use super::raw::{Block, Handle, Slot};
use crate::alloc::{Allocator, Global};
use crate::primitive::hint;

/// Number of spin hints after the first lost claim, and the maximum.
const PAUSE_FIRST: u32 = 16;
const PAUSE_LAST: u32 = 256;

/// A popping half of a queue for many consumers; [`Producer::consumer`](super::Producer::consumer)
/// and `clone` make more.
///
/// Pops take `&mut self`, so each thread needs its own consumer. All methods are lock-free: a
/// suspended thread delays no other thread. No method allocates, except that
/// [`pop_into`](Self::pop_into) reserves room in its vector. Each consumer pops items in the order
/// of the pushes.
///
/// The block from which a consumer popped last is not freed until the consumer releases it. The
/// consumer releases the block in one of three cases: it moves on to the next block, it finds the
/// queue empty after the block's last item was popped, or it is dropped.
///
/// ```
/// use std::thread;
///
/// let (mut producer, consumer) = rast_queue::spmc::queue();
/// let sums: Vec<_> = (0..2)
///     .map(|_| {
///         let mut consumer = consumer.clone();
///         thread::spawn(move || {
///             let mut sum = 0;
///             while !consumer.is_finished() {
///                 match consumer.pop() {
///                     Some(n) => sum += n,
///                     None => thread::yield_now(),
///                 }
///             }
///             sum
///         })
///     })
///     .collect();
/// drop(consumer);
/// producer.push_batch(0..1000);
/// drop(producer);
/// assert_eq!(sums.into_iter().map(|t| t.join().unwrap()).sum::<u32>(), 499_500);
/// ```
///
/// ```compile_fail
/// fn send<T: Send>(_: T) {}
/// let (_producer, consumer) = rast_queue::spmc::queue::<std::rc::Rc<u8>>();
/// send(consumer);
/// ```
///
/// Two threads cannot use one consumer at once:
///
/// ```compile_fail
/// let (_producer, mut consumer) = rast_queue::spmc::queue::<u8>();
/// std::thread::scope(|scope| {
///     scope.spawn(|| consumer.pop());
///     scope.spawn(|| consumer.pop());
/// });
/// ```
pub struct Consumer<T, A: Allocator = Global> {
    handle: Handle<T, A>,
    /// A past value of the claimed index; the next claim is tried from here.
    head: u64,
    /// The minimum of `tail` and `end`: a claim below it needs no other load.
    limit: u64,
    /// A past value of the published index.
    tail: u64,
    /// The block that this consumer is attached to, if any.
    block: Option<NonNull<Block<T>>>,
    /// Its slots; dangling without a block.
    slots: NonNull<Slot<T>>,
    /// The index of its first slot, and of the first one after it; 0 without a block.
    base: u64,
    end: u64,
}

// SAFETY: on another thread a consumer moves or drops items, and all halves use the allocator at
// the same time, which the last one drops; T is Send, and A is Send and Sync. The words that the
// halves share are atomic, and by the rules of the queue no two halves access a slot at once.
unsafe impl<T: Send, A: Allocator + Send + Sync> Send for Consumer<T, A> {}

// SAFETY: methods with `&self` use the shared words, which are atomic, read fields that only
// methods with `&mut self` change, and make new consumers, which are Send; they access no item.
unsafe impl<T: Send, A: Allocator + Send + Sync> Sync for Consumer<T, A> {}

// A panic in user code leaves the queue consistent.
impl<T, A: Allocator> UnwindSafe for Consumer<T, A> {}
impl<T, A: Allocator> RefUnwindSafe for Consumer<T, A> {}

impl<T, A: Allocator> Consumer<T, A> {
    /// # Safety
    ///
    /// `handle` is counted as a consumer's, and is not used by anyone else.
    pub(super) unsafe fn new(handle: Handle<T, A>) -> Self {
        Self {
            handle,
            head: 0,
            limit: 0,
            tail: 0,
            block: None,
            slots: NonNull::dangling(),
            base: 0,
            end: 0,
        }
    }

    /// One consumer more for the queue of `handle`.
    pub(super) fn enter(handle: &Handle<T, A>) -> Self {
        assert!(
            handle.enter(),
            "spmc: there are {} consumers, the most there can be",
            Handle::<T, A>::CONSUMERS_MAX
        );
        // SAFETY: `enter` has counted it.
        unsafe { Self::new(handle.duplicate()) }
    }

    /// Pops the oldest item, or returns `None` if the queue is empty.
    ///
    /// Lock-free: one compare-exchange on the consumers' index, and a load of the producer's index
    /// only if the cached one says that no item is queued.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let (offset, _) = self.claim(1)?;
        // SAFETY: (1) a claim is inside the block that this consumer is attached to; (2) it was
        // just made.
        Some(unsafe { Handle::<T, A>::read(self.slots, offset) })
    }

    /// Pops up to `max` items, passes each to `each`, and returns how many.
    ///
    /// Each item is claimed just before its call of `each`, so a slow closure keeps no other item
    /// from other consumers. ([`pop_into`](Self::pop_into) claims many at once.) A call pops at
    /// most the number of items that were queued at its start. If `each` panics, the items that it
    /// was called with are popped, and the others stay queued.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spmc::queue();
    /// producer.push_batch(["a", "b", "c"]);
    /// let mut text = String::new();
    /// assert_eq!(consumer.pop_batch(2, |s| text += s), 2);
    /// assert_eq!(text, "ab");
    /// assert_eq!(consumer.len(), 1);
    /// ```
    pub fn pop_batch(&mut self, max: usize, mut each: impl FnMut(T)) -> usize {
        let wanted = self.standing(max);
        let mut count = 0;
        while count < wanted {
            let Some(item) = self.pop() else { break };
            each(item);
            count += 1;
        }
        count
    }

    /// Pops up to `max` items to the end of `out`, and returns how many.
    ///
    /// One compare-exchange per block claims many items at once. A call pops at most the number of
    /// items that were queued at its start. Room in `out` is reserved before items are claimed.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spmc::queue();
    /// producer.push_batch(0..5);
    /// let mut out = Vec::new();
    /// assert_eq!(consumer.pop_into(&mut out, 3), 3);
    /// assert_eq!(out, [0, 1, 2]);
    /// ```
    pub fn pop_into(&mut self, out: &mut Vec<T>, max: usize) -> usize {
        let wanted = self.standing(max);
        out.reserve(wanted);
        let mut count = 0;
        while count < wanted {
            let Some((offset, got)) = self.claim(wanted - count) else {
                break;
            };
            let room = &mut out.spare_capacity_mut()[..got];
            for (n, place) in room.iter_mut().enumerate() {
                // SAFETY: (1) a claim is inside the block that this consumer is attached to; (2) it
                // was just made, and each of its items is read once.
                place.write(unsafe { Handle::<T, A>::read(self.slots, offset + n) });
            }
            // SAFETY: `got` items more were written.
            unsafe { out.set_len(out.len() + got) };
            count += got;
        }
        count
    }

    /// Pops up to `out.len()` items into the front of `out`, and returns how many.
    ///
    /// One compare-exchange per block claims many items at once.
    pub fn pop_slice(&mut self, out: &mut [T]) -> usize
    where
        T: Copy,
    {
        let mut count = 0;
        while count < out.len() {
            let Some((offset, got)) = self.claim(out.len() - count) else {
                break;
            };
            for (n, place) in out[count..count + got].iter_mut().enumerate() {
                // SAFETY: as in `pop_into`.
                *place = unsafe { Handle::<T, A>::read(self.slots, offset + n) };
            }
            count += got;
        }
        count
    }

    /// Loads both indices and returns how many items are queued. It is exact while no other thread
    /// pushes or pops.
    #[inline]
    pub fn len(&self) -> usize {
        // The load of the head orders nothing, so the tail may be older than the head; then no item
        // is queued.
        let head = self.handle.load_head();
        self.handle.load_tail().saturating_sub(head) as usize
    }

    /// Loads both indices and returns whether no item is queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let head = self.handle.load_head();
        self.handle.fence_before_empty();
        self.handle.load_tail() <= head
    }

    /// Returns whether the producer was dropped.
    ///
    /// Items may still be queued; after `true` the following pops return all of them. To leave a
    /// loop, check [`is_finished`](Self::is_finished).
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.handle.producer_is_gone()
    }

    /// Returns whether the producer was dropped and the queue is empty, so that no later pop of any
    /// consumer returns an item.
    #[inline]
    pub fn is_finished(&self) -> bool {
        // In this order, because a tail loaded after the producer was dropped is its last.
        self.is_closed() && self.is_empty()
    }

    /// Returns the number of slots per block.
    pub fn block_slots(&self) -> usize {
        self.handle.block_slots()
    }

    /// Returns the allocator of the queue.
    pub fn allocator(&self) -> &A {
        self.handle.allocator()
    }

    /// Claims one to `max` items. Returns the offset of the first one in the block and their
    /// number, or `None` if the queue is empty.
    #[inline(always)]
    fn claim(&mut self, max: usize) -> Option<(usize, usize)> {
        let mut pause = PAUSE_FIRST;
        loop {
            let head = self.head;
            if head >= self.limit {
                if !self.find_slow() {
                    return None;
                }
                continue;
            }
            let count = (self.limit - head).min(max as u64);
            match self.handle.claim(head, head + count) {
                Ok(()) => {
                    self.head = head + count;
                    return Some(((head - self.base) as usize, count as usize));
                }
                Err(current) => {
                    self.head = current;
                    pause_slow(&mut pause);
                }
            }
        }
    }

    /// Returns how many items are queued, at most `max`. If none is, it fences and detaches as
    /// `pop` does.
    fn standing(&mut self, max: usize) -> usize {
        let stand = self.len();
        if stand > 0 || max == 0 {
            return stand.min(max);
        }
        self.head = self.handle.load_head();
        if self.head >= self.limit && !self.find_slow() {
            return 0;
        }
        max.min((self.tail - self.head) as usize)
    }

    /// Raises `limit` above `head`: loads the tail, or goes to a later block. Returns `false` if
    /// the queue is empty.
    #[cold]
    #[inline(never)]
    fn find_slow(&mut self) -> bool {
        loop {
            if self.head >= self.tail {
                self.tail = self.handle.load_tail();
                if self.head >= self.tail {
                    self.handle.fence_before_empty();
                    self.tail = self.handle.load_tail();
                }
                if self.head >= self.tail {
                    if self.head >= self.end {
                        self.detach();
                    }
                    return false;
                }
            }
            if self.head < self.end {
                self.limit = self.tail.min(self.end);
                return true;
            }
            self.advance();
        }
    }

    /// Attaches to the front block. If the consumer is attached to a block, which is used up, it
    /// attaches to a later block instead.
    ///
    /// The head is at or past `end`, and before `tail`.
    fn advance(&mut self) {
        let block = match self.block.take() {
            // SAFETY: (1) the consumer is attached, and the fields are turned to another block
            // below; (2) `head` and `tail` are values of the indices, and `end <= head < tail`.
            Some(block) => unsafe { self.handle.pass(block) },
            None => self.handle.attach(),
        };
        // SAFETY: the consumer is attached to the block.
        self.base = unsafe { self.handle.base(block) };
        self.end = self.base + self.handle.block_slots() as u64;
        self.slots = Block::slots(block);
        self.block = Some(block);
        // The thread that made this block the front had seen a head at or past its base, so this
        // load sees one too.
        self.head = self.handle.load_head();
        debug_assert!(self.head >= self.base, "spmc: rule 2");
    }

    /// Ends the attachment, if there is one.
    fn detach(&mut self) {
        self.limit = 0;
        self.base = 0;
        self.end = 0;
        if let Some(block) = self.block.take() {
            // SAFETY: the consumer was attached, and its fields do not lead there any more.
            unsafe { self.handle.detach(block) };
        }
    }
}

/// Pauses after a lost claim, longer each time.
#[cold]
#[inline(never)]
fn pause_slow(pause: &mut u32) {
    if cfg!(rast_loom) {
        return hint::spin_loop();
    }
    for _ in 0..*pause {
        hint::spin_loop();
    }
    *pause = (*pause * 2).min(PAUSE_LAST);
}

impl<T, A: Allocator> Clone for Consumer<T, A> {
    /// Makes one more consumer, which sees the same items and is independent.
    ///
    /// # Panics
    ///
    /// If there are 65,535 consumers already, or fewer on targets whose pointers leave fewer bits
    /// for the count.
    fn clone(&self) -> Self {
        Self::enter(&self.handle)
    }
}

impl<T, A: Allocator> Drop for Consumer<T, A> {
    fn drop(&mut self) {
        self.detach();
        // SAFETY: the consumer ends here, and it is not attached.
        unsafe { self.handle.leave_consumer() };
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
