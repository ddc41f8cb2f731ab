//! A bounded queue for many producers and one consumer: a ring of slots, in which one
//! compare-exchange claims the slots of a whole batch.
//!
//! ```text
//!   ┌ claim ───────────┬ head ─┬ slots ────────────────────────────────────────────────────┐
//!   │ tail     limit   │       │ state, item │ state, item │ state, item │ state, item │ .. │
//!   └──▲─────────▲─────┴──▲────┴────────────────────────────────────────────────────────────┘
//!      producers           consumer
//! ```
//!
//! | field | written by | read by | what and when |
//! | --- | --- | --- | --- |
//! | `tail` | a push, by compare-exchange | a push, `room`, `index` | once per batch |
//! | `limit` | `room`, and a push that found less room than its batch needs | a push | `head` plus the capacity, as last loaded |
//! | `head` | `release`, the drop of the consumer | `room`, and a push that found too little room | the head that the consumer has published |
//! | state | the producer that claimed the slot | the consumer | once per round of the ring |
//! | item | the producer that claimed the slot | the consumer, which moves it out | between claim and release |
//!
//! A round is one pass of the indices over all slots. The word `state` has three fields: the parity
//! of the round, a bit VOID for a slot without an item, and a tag of 30 bits that the producer
//! passes with the item. One parity bit is enough, because a slot is claimed again only after the
//! consumer has published a head past it.
//!
//! Rules:
//!
//! 1. `tail - head <= capacity`. `limit` is an earlier value of `head` plus the capacity, and
//!    `head` only advances. So the rule holds while `tail <= limit`.
//! 2. The producer that raised the tail from `t` to `t + k` owns the slots `t..t + k`. In each of
//!    them it writes the item and then the state. If the iterator of a batch ends early or panics,
//!    the producer writes VOID to the remaining slots, because the consumer cannot pass an
//!    unwritten slot.
//! 3. The consumer owns a slot from the load that finds the state of the current round until it
//!    publishes a head past the slot.
//! 4. A producer reads `limit` or `head` with Acquire, so the consumer's last access to a slot
//!    happens before the producer's first. A producer stores `limit` with Release, after it loaded
//!    the corresponding `head` with Acquire.
//!
//! A push is lock-free. `take` is wait-free. But while a producer is suspended between claiming a
//! slot and writing its state, `take` returns `None` even if later items are complete.

use core::fmt;
use core::mem::MaybeUninit;
use core::panic::{RefUnwindSafe, UnwindSafe};

use crate::Full;
use crate::alloc::{Padded, boxed, vec};
use crate::primitive::CachePadded;
use crate::primitive::cell::UnsafeCell;
use crate::primitive::panics::drop_each;
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The first tag that does not fit.
pub const TAG_END: u32 = 1 << TAG_BITS;
const TAG_BITS: u32 = 30;

/// The parity of the round, and the bit of a slot without an item.
const LAP: u32 = 1;
const VOID: u32 = 2;
const TAG_SHIFT: u32 = 32 - TAG_BITS;

struct Slot<T> {
    state: AtomicU32,
    item: UnsafeCell<MaybeUninit<T>>,
}

struct Claim {
    tail: AtomicUsize,
    limit: AtomicUsize,
}

struct Ring<T> {
    claim: CachePadded<Claim>,
    head: CachePadded<AtomicUsize>,
    slots: boxed::Box<[Slot<T>], Padded>,
    /// The capacity is `mask + 1`.
    mask: usize,
    lap_shift: u32,
}

// SAFETY: only the producer that claimed a slot accesses its item until it writes the state, and
// then only the consumer until it publishes a head past the slot (rules 2 to 4); items move between
// threads, so they are Send.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: likewise; the ring owns the items.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Ring<T> {
    #[inline(always)]
    fn capacity(&self) -> usize {
        self.mask + 1
    }

    #[inline(always)]
    fn slot(&self, index: usize) -> &Slot<T> {
        &self.slots[index & self.mask]
    }

    /// Returns the round of `index` as the states of its slots show it; a new slot shows the other
    /// parity.
    #[inline(always)]
    fn lap(&self, index: usize) -> u32 {
        ((index >> self.lap_shift) as u32 & LAP) ^ LAP
    }

    /// Claims up to `count` slots; returns the first index and the number.
    #[inline]
    fn claim(&self, count: usize) -> (usize, usize) {
        // Relaxed: the compare-exchange below checks it. [MB1]
        let mut tail = self.claim.tail.load(Ordering::Relaxed);
        loop {
            // Acquire: pairs with the Release in look; the thread that stored it had acquired the
            // consumer's release of the slots below. [MB2]
            let limit = self.claim.limit.load(Ordering::Acquire);
            let mut room = distance(tail, limit);
            if room < count {
                room = distance(tail, self.look());
            }
            let claimed = room.min(count);
            if claimed == 0 {
                // Relaxed: loaded again, in case other producers have claimed meanwhile. [MB3]
                let now = self.claim.tail.load(Ordering::Relaxed);
                if now == tail {
                    return (tail, 0);
                }
                tail = now;
                continue;
            }
            // Relaxed: a claim publishes nothing; the state of each slot does. [MB4]
            let exchanged = self.claim.tail.compare_exchange_weak(
                tail,
                tail.wrapping_add(claimed),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match exchanged {
                Ok(_) => return (tail, claimed),
                Err(now) => tail = now,
            }
        }
    }

    /// Loads the head, and publishes the new limit to the other producers.
    #[cold]
    fn look(&self) -> usize {
        // Acquire: pairs with the Release in release; the consumer no longer accesses the slots
        // below. [MB5]
        let head = self.head.load(Ordering::Acquire);
        let limit = head.wrapping_add(self.capacity());
        // Release: pairs with the Acquire in claim; publishes what was just acquired. [MB6]
        self.claim.limit.store(limit, Ordering::Release);
        limit
    }

    /// Moves an item into a claimed slot and publishes it.
    ///
    /// # Safety
    ///
    /// The caller claimed `index`, and publishes it once.
    #[inline(always)]
    unsafe fn put(&self, index: usize, tag: u32, item: T) {
        let slot = self.slot(index);
        slot.item.with_mut(|place| {
            // SAFETY: by rules 2 and 4 the slot is the caller's, and holds nothing.
            unsafe { place.cast::<T>().write(item) };
        });
        let state = self.lap(index) | tag << TAG_SHIFT;
        // Release: pairs with the Acquire in state_of; the item is written. [MB7]
        slot.state.store(state, Ordering::Release);
    }

    /// Publishes a claimed slot without an item.
    #[cold]
    fn put_nothing(&self, index: usize) {
        let state = self.lap(index) | VOID;
        // Relaxed: there is nothing to publish. [MB8]
        self.slot(index).state.store(state, Ordering::Relaxed);
    }

    /// Moves the first item at or after `head` out, with its tag, and moves `head` past it.
    ///
    /// # Safety
    ///
    /// 1. The caller is the consumer.
    /// 2. The items before `head` are moved out, and no others.
    #[inline(always)]
    unsafe fn take(&self, head: &mut usize) -> Option<(u32, T)> {
        loop {
            let index = *head;
            let state = self.state_of(index)?;
            *head = index.wrapping_add(1);
            if state & VOID != 0 {
                continue;
            }
            let item = self.slot(index).item.with(|place| {
                // SAFETY: by (1) and rule 3 the slot is the caller's and holds an item; by (2) it
                // is read once, as the head has moved on.
                unsafe { place.cast::<T>().read() }
            });
            return Some((state >> TAG_SHIFT, item));
        }
    }

    /// Returns the state of a slot, if it was published in the round of `index`.
    #[inline(always)]
    fn state_of(&self, index: usize) -> Option<u32> {
        // Acquire: pairs with the Release in put; the item is visible. [MB9]
        let state = self.slot(index).state.load(Ordering::Acquire);
        (state & LAP == self.lap(index)).then_some(state)
    }
}

/// Returns how far `to` is past `from`, or zero if it is behind.
#[inline(always)]
fn distance(from: usize, to: usize) -> usize {
    let distance = to.wrapping_sub(from);
    if distance > usize::MAX / 2 {
        0
    } else {
        distance
    }
}

/// Makes a ring for at least `capacity` items, rounded up to a power of two.
///
/// ```
/// let (producer, mut consumer) = rast_queue::mpsc::bounded::queue(4);
/// let second = producer.clone();
/// producer.push(7, "one").unwrap();
/// assert_eq!(second.push_batch(8, &mut ["two", "three"].into_iter()), 2);
/// assert_eq!(consumer.take(), Some((7, "one")));
/// assert_eq!(consumer.take(), Some((8, "two")));
/// consumer.release();
/// assert_eq!(producer.room(), 3);
/// ```
///
/// # Panics
///
/// If `capacity` is zero, or more than a quarter of `usize::MAX`.
#[must_use]
pub fn queue<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    queue_at(capacity, 0)
}

/// A ring whose indices begin at `start`, for tests of their wrap.
#[doc(hidden)]
#[must_use]
pub fn queue_at<T>(capacity: usize, start: usize) -> (Producer<T>, Consumer<T>) {
    assert!(
        capacity > 0,
        "mpsc: a bounded queue holds at least one item"
    );
    assert!(
        capacity <= usize::MAX / 4,
        "mpsc: the capacity overflows usize"
    );
    let capacity = capacity.next_power_of_two();
    let lap_shift = capacity.trailing_zeros();
    // A new slot shows the lap before its first.
    let lap_before = |offset: usize| {
        let index = start.wrapping_add(offset);
        (index >> lap_shift) as u32 & LAP
    };
    let mut slots = vec::Vec::with_capacity_in(capacity, Padded);
    for place in 0..capacity {
        let offset = place.wrapping_sub(start) & (capacity - 1);
        slots.push(Slot {
            state: AtomicU32::new(lap_before(offset)),
            item: UnsafeCell::new(MaybeUninit::uninit()),
        });
    }
    let ring = Arc::new(Ring {
        claim: CachePadded::new(Claim {
            tail: AtomicUsize::new(start),
            limit: AtomicUsize::new(start.wrapping_add(capacity)),
        }),
        head: CachePadded::new(AtomicUsize::new(start)),
        slots: slots.into_boxed_slice(),
        mask: capacity - 1,
        lap_shift,
    });
    let producer = Producer {
        ring: Arc::clone(&ring),
    };
    let consumer = Consumer { ring, head: start };
    (producer, consumer)
}

/// The pushing half, which any number of threads may share or clone.
///
/// Lock-free, and no method allocates. A batch claims its slots before it runs the caller's
/// iterator. The queue cannot be closed: after the consumer is dropped, items stay in the ring
/// until the last producer is dropped.
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
}

impl<T> Clone for Producer<T> {
    fn clone(&self) -> Self {
        Self {
            ring: Arc::clone(&self.ring),
        }
    }
}

// A panic in user code leaves the queue consistent.
impl<T> UnwindSafe for Producer<T> {}
impl<T> RefUnwindSafe for Producer<T> {}

impl<T> Producer<T> {
    /// Pushes one item with a tag, which [`Consumer::take`] returns with the item. Costs one
    /// compare-exchange, and more only if other threads push at the same time.
    ///
    /// # Errors
    ///
    /// [`Full`] with the item.
    ///
    /// # Panics
    ///
    /// If the tag is [`TAG_END`] or more.
    #[inline]
    pub fn push(&self, tag: u32, item: T) -> Result<(), Full<T>> {
        assert!(tag < TAG_END, "mpsc: a tag has 30 bits");
        let (index, claimed) = self.ring.claim(1);
        if claimed == 0 {
            return Err(Full(item));
        }
        // SAFETY: claimed just now.
        unsafe { self.ring.put(index, tag, item) };
        Ok(())
    }

    /// Pushes as many items of `items` as there is room for, and returns how many. Claims all slots
    /// by one compare-exchange, so the items of one call are adjacent in the queue.
    ///
    /// The iterator is called at most once per free slot. If it yields fewer items than its length,
    /// or panics, the consumer skips the slots that it left empty.
    ///
    /// # Panics
    ///
    /// If the tag is [`TAG_END`] or more.
    #[inline]
    pub fn push_batch(&self, tag: u32, items: &mut impl ExactSizeIterator<Item = T>) -> usize {
        assert!(tag < TAG_END, "mpsc: a tag has 30 bits");
        let count = items.len();
        if count == 0 {
            return 0;
        }
        let (index, claimed) = self.ring.claim(count);
        let mut written = Written {
            ring: &self.ring,
            index,
            left: claimed,
        };
        while written.left > 0 {
            let Some(item) = items.next() else {
                break;
            };
            // SAFETY: it is among the claimed, and the index moves on.
            unsafe { self.ring.put(written.index, tag, item) };
            written.index = written.index.wrapping_add(1);
            written.left -= 1;
        }
        claimed - written.left
    }

    /// Returns how many items fit now. Other producers may use the room.
    #[must_use]
    pub fn room(&self) -> usize {
        // Relaxed: a snapshot. [MB10]
        let tail = self.ring.claim.tail.load(Ordering::Relaxed);
        // The head read after it may be ahead of it.
        distance(tail, self.ring.look()).min(self.ring.capacity())
    }

    /// Returns how many slots producers have claimed so far. The number wraps around on overflow.
    /// It is also the index of the next slot. Other producers may claim more meanwhile.
    ///
    /// If the number equals [`Consumer::index`], the consumer has taken each item whose push
    /// happens before this call. Costs one load.
    ///
    /// ```
    /// let (producer, mut consumer) = rast_queue::mpsc::bounded::queue(2);
    /// producer.push(0, 'a').unwrap();
    /// assert_eq!((producer.index(), consumer.index()), (1, 0));
    /// consumer.take();
    /// assert_eq!((producer.index(), consumer.index()), (1, 1));
    /// ```
    #[inline]
    #[must_use]
    pub fn index(&self) -> usize {
        // Relaxed: a number; no slot is accessed by it. [MB13]
        self.ring.claim.tail.load(Ordering::Relaxed)
    }

    /// Returns how many items it holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

/// Publishes the remaining slots of a claim, without items, when the batch ends early.
struct Written<'a, T> {
    ring: &'a Ring<T>,
    index: usize,
    left: usize,
}

impl<T> Drop for Written<'_, T> {
    #[inline]
    fn drop(&mut self) {
        while self.left > 0 {
            self.ring.put_nothing(self.index);
            self.index = self.index.wrapping_add(1);
            self.left -= 1;
        }
    }
}

/// The popping half, which one thread at a time has.
pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    /// The true head, ahead of the published head by the items that were taken and not released.
    head: usize,
}

impl<T> UnwindSafe for Consumer<T> {}
impl<T> RefUnwindSafe for Consumer<T> {}

impl<T> Consumer<T> {
    /// Moves the oldest item out, with its tag, and keeps its slot until
    /// [`release`](Self::release). Wait-free.
    ///
    /// Slots without an item are skipped. The next `release` frees them too, even if this call
    /// returns `None`.
    #[inline]
    pub fn take(&mut self) -> Option<(u32, T)> {
        // SAFETY: (1) this is the consumer; (2) this is its head, which each take moves.
        unsafe { self.ring.take(&mut self.head) }
    }

    /// Returns the slots of the taken items to the producers. One store.
    #[inline]
    pub fn release(&mut self) {
        // Release: pairs with the Acquire in look; the items before the head are moved out. [MB12]
        self.ring.head.store(self.head, Ordering::Release);
    }

    /// Returns `true` if the next slot is unwritten, so that [`take`](Self::take) returns `None`.
    ///
    /// `false` does not promise an item: the slots that are written may be without one.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ring.state_of(self.head).is_none()
    }

    /// Returns how many slots were taken so far, wrapping: the index of the next one. See
    /// [`Producer::index`].
    #[inline]
    #[must_use]
    pub fn index(&self) -> usize {
        self.head
    }

    /// Returns how many items it holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<T> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("capacity", &self.capacity())
            .field("is_empty", &self.is_empty())
            .finish_non_exhaustive()
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        if core::mem::needs_drop::<T>() {
            // Relaxed: the last half to go sees what the others did. [MB11]
            let mut head = self.head.load(Ordering::Relaxed);
            // SAFETY: (1) the ring ends here, so this is the consumer; (2) the consumer published
            // its head when it went, and each call moves `head` past the item that it returns.
            drop_each(|| unsafe { self.take(&mut head) });
        }
    }
}
