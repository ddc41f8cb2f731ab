//! An unbounded queue for any number of producers and consumers.
//!
//! The interface is final; the inside is simple for now: a list of segments under a spin lock whose bit shares a word
//! with the length and the closed bit.
//! One word has two merits: an operation costs one compare-exchange and one store, and whoever polls an empty queue
//! loads that word and takes no lock.
//! No user code runs under the lock: segments are allocated and freed outside of it, and items are only moved, so
//! neither a panic nor an allocator that itself uses the queue can meet a lock that is held.
//!
//! ```text
//!   word:  │ length … │ closed │ locked │        one atomic word, on a line of its own
//!
//!   front ──► segment ──► segment ──► segment ◄── back         spare: at most one empty segment
//!              ▲ pop at front_slot      ▲ push at back_slot
//! ```
//!
//! | field | written by | read by | when |
//! | --- | --- | --- | --- |
//! | `word` | the lock's holder; a taker sets `locked` | anyone | loads outside of the lock see the last unlock |
//! | `list` (front, back, slots, spare) | the lock's holder | the lock's holder | between lock and unlock |
//!
//! Rules:
//!
//! 1. The length in the word is the number of items in the list, whenever the lock is free.
//! 2. An operation takes effect at the store that frees the lock; one that the word alone refuses, at its load.
//! 3. After `closed` is set the length only falls.
//! 4. Under the lock: no allocation, no free, no user code, no loop.

mod list;

use core::fmt;
use core::iter::FusedIterator;
use core::panic::{RefUnwindSafe, UnwindSafe};

use crate::alloc::{Allocator, Global};
use crate::primitive::cell::UnsafeCell;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use crate::primitive::{Backoff, CachePadded};
use crate::{Closed, TryPushError};
use list::{List, Segment};

const LOCKED: usize = 1;
const CLOSED: usize = 2;
const ONE: usize = 4;

/// An unbounded first-in first-out queue between any number of producers and consumers.
///
/// Linearizable. `const fn new`, so it can be a static; it allocates nothing until the first push.
/// Memory comes from `A`, in segments of 32 items; one empty segment is kept for reuse.
///
/// Progress: blocking, for now. Operations take a spin lock for some tens of instructions, so a thread that is preempted
/// there delays the others; [`is_empty`](Self::is_empty), [`len`](Self::len), [`is_closed`](Self::is_closed) and a
/// [`pop`](Self::pop) that finds nothing are wait-free.
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
/// Items that may not move between threads keep the queue on one:
///
/// ```compile_fail
/// fn share<T: Sync>(_: T) {}
/// share(rast_queue::Queue::<std::rc::Rc<u8>>::new());
/// ```
pub struct Queue<T, A: Allocator = Global> {
    word: CachePadded<AtomicUsize>,
    list: UnsafeCell<List<T>>,
    alloc: A,
}

// SAFETY: the queue owns its items and its allocator; both are Send, so they may be used and dropped elsewhere.
unsafe impl<T: Send, A: Allocator + Send> Send for Queue<T, A> {}

// SAFETY: the list is reached under the lock alone. Threads that share the queue move items between them (T: Send), never
// share one, and use the allocator by reference (A: Sync).
unsafe impl<T: Send, A: Allocator + Sync> Sync for Queue<T, A> {}

// No user code runs while the list is half changed, so a panic cannot be seen in it.
impl<T, A: Allocator> UnwindSafe for Queue<T, A> {}
impl<T, A: Allocator> RefUnwindSafe for Queue<T, A> {}

impl<T> Queue<T> {
    /// Makes an empty queue in the global allocator; allocates nothing.
    #[cfg(not(rast_loom))]
    pub const fn new() -> Self {
        Self::new_in(Global)
    }

    /// Makes an empty queue in the global allocator; allocates nothing.
    #[cfg(rast_loom)]
    pub fn new() -> Self {
        Self::new_in(Global)
    }
}

impl<T, A: Allocator> Queue<T, A> {
    /// Makes an empty queue whose memory comes from `alloc`; allocates nothing.
    #[cfg(not(rast_loom))]
    pub const fn new_in(alloc: A) -> Self {
        Self {
            word: CachePadded::new(AtomicUsize::new(0)),
            list: UnsafeCell::new(List::new()),
            alloc,
        }
    }

    /// Makes an empty queue whose memory comes from `alloc`; allocates nothing.
    #[cfg(rast_loom)]
    pub fn new_in(alloc: A) -> Self {
        Self {
            word: CachePadded::new(AtomicUsize::new(0)),
            list: UnsafeCell::new(List::new()),
            alloc,
        }
    }

    /// Pushes one item at the back.
    ///
    /// Blocking (see [`Queue`]); allocates one segment per 32 items, unless a used one is at hand.
    ///
    /// # Panics
    ///
    /// Never; it calls `handle_alloc_error` on lack of memory, as std's collections do.
    ///
    /// # Errors
    ///
    /// [`Closed`] with the item if the queue is closed.
    pub fn push(&self, item: T) -> Result<(), Closed<T>> {
        match self.try_push(item) {
            Ok(()) => Ok(()),
            Err(TryPushError::Closed(item)) => Err(Closed(item)),
            Err(TryPushError::NoMemory(_)) => {
                std_alloc::alloc::handle_alloc_error(Segment::<T>::LAYOUT)
            }
        }
    }

    /// Pushes one item at the back, and hands it back on lack of memory too.
    ///
    /// # Errors
    ///
    /// [`TryPushError::Closed`] or [`TryPushError::NoMemory`], with the item.
    pub fn try_push(&self, item: T) -> Result<(), TryPushError<T>> {
        let mut fresh = None;
        loop {
            let Some(guard) = self.lock_if(|word| word & CLOSED == 0) else {
                self.free(fresh);
                return Err(TryPushError::Closed(item));
            };
            // SAFETY: the guard holds the lock until the unlock below.
            let room = self
                .list
                .with_mut(|list| unsafe { (*list).ready(&mut fresh) });
            if room {
                // SAFETY: as above; `ready` has just said that the next slot stands.
                self.list.with_mut(|list| unsafe { (*list).push(item) });
                guard.unlock(|word| word + ONE);
                self.free(fresh);
                return Ok(());
            }
            drop(guard);
            fresh = Segment::allocate(&self.alloc).ok();
            if fresh.is_none() {
                return Err(TryPushError::NoMemory(item));
            }
        }
    }

    /// Pops the item at the front, or gives `None` if the queue is empty.
    ///
    /// After [`close`](Self::close) it gives what stands, then `None` for ever.
    /// Blocking (see [`Queue`]), wait-free if the queue is empty; never allocates, never panics; runs no code of `T`.
    pub fn pop(&self) -> Option<T> {
        let guard = self.lock_if(|word| word >= ONE)?;
        // SAFETY: the guard holds the lock until the unlock below.
        let popped = self.list.with_mut(|list| unsafe { (*list).pop() });
        debug_assert!(popped.is_some(), "queue: rule 1");
        let (item, used) = popped?;
        guard.unlock(|word| word - ONE);
        self.free(used);
        Some(item)
    }

    /// Returns an iterator that pops until it first finds the queue empty.
    ///
    /// Others may push and pop meanwhile: it ends at the first moment that the queue is empty, which need not come while
    /// producers are faster; bound it with `take`. Dropped early, it leaves the rest.
    ///
    /// ```
    /// let queue: rast_queue::Queue<_> = (1..=5).collect();
    /// assert_eq!(queue.drain().take(2).collect::<Vec<_>>(), [1, 2]);
    /// assert_eq!(queue.drain().collect::<Vec<_>>(), [3, 4, 5]);
    /// ```
    pub fn drain(&self) -> Drain<'_, T, A> {
        Drain { queue: Some(self) }
    }

    /// Closes the queue for pushes, for ever; returns whether this call did it.
    ///
    /// What stands can still be popped: once a thread sees the queue closed, then empty, it has seen the end.
    pub fn close(&self) -> bool {
        match self.lock_if(|word| word & CLOSED == 0) {
            Some(guard) => {
                guard.unlock(|word| word | CLOSED);
                true
            }
            None => false,
        }
    }

    /// Returns whether the queue is closed; what the closer did before is then visible. Wait-free, one load.
    pub fn is_closed(&self) -> bool {
        self.load() & CLOSED != 0
    }

    /// Returns whether nothing stands, at the moment of the call. Wait-free, one load.
    pub fn is_empty(&self) -> bool {
        self.load() < ONE
    }

    /// Returns how many items stand, at the moment of the call. Wait-free, one load.
    pub fn len(&self) -> usize {
        self.load() / ONE
    }

    /// Returns the allocator.
    pub fn allocator(&self) -> &A {
        &self.alloc
    }

    fn load(&self) -> usize {
        // Acquire: pairs with the Release in unlock; what came before the push or the close that is seen here is
        // visible. [QU1]
        self.word.load(Ordering::Acquire)
    }

    /// Takes the lock if the word passes `test`, at the moment that it is taken; gives `None` if at some moment of the
    /// call it does not.
    fn lock_if(&self, test: impl Fn(usize) -> bool) -> Option<Guard<'_>> {
        let backoff = Backoff::new();
        loop {
            let word = self.load();
            if !test(word) {
                return None;
            }
            if word & LOCKED == 0 {
                // Acquire: pairs with the Release in unlock; the list is seen as the last holder left it. [QU2]
                let taken = self.word.compare_exchange(
                    word,
                    word | LOCKED,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                if taken.is_ok() {
                    return Some(Guard {
                        word: &self.word,
                        free: word,
                    });
                }
                backoff.spin();
            } else {
                // Liveness: the holder runs a bounded piece of code; snoozing lets it, should it share this core.
                backoff.snooze();
            }
        }
    }

    /// Frees a segment, outside of the lock.
    fn free(&self, segment: Option<Segment<T>>) {
        if let Some(segment) = segment {
            segment.deallocate(&self.alloc);
        }
    }
}

/// The lock held; dropping it frees the lock with the word as it was.
struct Guard<'a> {
    word: &'a AtomicUsize,
    /// The word as it was before the lock was taken; nobody else changes it while the lock is held.
    free: usize,
}

impl Guard<'_> {
    /// Frees the lock and publishes the changed word in the same store.
    #[inline]
    fn unlock(mut self, change: impl FnOnce(usize) -> usize) {
        self.free = change(self.free);
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        debug_assert!(self.free & LOCKED == 0, "queue: the lock is freed");
        // Release: pairs with the Acquire in lock_if and in load; publishes the list and the word. [QU3]
        self.word.store(self.free, Ordering::Release);
    }
}

/// The end of a queue: drops what stands, then frees the memory, also while a panic goes up.
struct Rest<'a, T, A: Allocator>(&'a Queue<T, A>);

impl<T, A: Allocator> Drop for Rest<'_, T, A> {
    fn drop(&mut self) {
        self.0.drain().for_each(drop);
        loop {
            // SAFETY: the queue is being dropped, so no other thread reaches it, and the drain above left it empty.
            let segment = self
                .0
                .list
                .with_mut(|list| unsafe { (*list).take_segment() });
            let Some(segment) = segment else { break };
            segment.deallocate(&self.0.alloc);
        }
    }
}

impl<T, A: Allocator> Drop for Queue<T, A> {
    fn drop(&mut self) {
        let rest = Rest(self);
        // If the drop of an item panics, `Rest` drops the others and frees the memory as the panic goes up.
        rest.0.drain().for_each(drop);
    }
}

/// Pops until it first finds the queue empty; made by [`Queue::drain`].
pub struct Drain<'a, T, A: Allocator = Global> {
    /// `None` once the queue was found empty.
    queue: Option<&'a Queue<T, A>>,
}

impl<T, A: Allocator> Iterator for Drain<'_, T, A> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let item = self.queue?.pop();
        if item.is_none() {
            self.queue = None;
        }
        item
    }
}

impl<T, A: Allocator> FusedIterator for Drain<'_, T, A> {}

impl<T, A: Allocator> fmt::Debug for Drain<'_, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain")
            .field("is_finished", &self.queue.is_none())
            .finish()
    }
}

/// The items of a queue, front to back; made by its `into_iter`.
pub struct IntoIter<T, A: Allocator = Global> {
    queue: Queue<T, A>,
}

impl<T, A: Allocator> Iterator for IntoIter<T, A> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.queue.pop()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.queue.len(), Some(self.queue.len()))
    }
}

impl<T, A: Allocator> ExactSizeIterator for IntoIter<T, A> {}
impl<T, A: Allocator> FusedIterator for IntoIter<T, A> {}

impl<T, A: Allocator> fmt::Debug for IntoIter<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter")
            .field("len", &self.queue.len())
            .finish()
    }
}

impl<T, A: Allocator> IntoIterator for Queue<T, A> {
    type Item = T;
    type IntoIter = IntoIter<T, A>;

    fn into_iter(self) -> IntoIter<T, A> {
        IntoIter { queue: self }
    }
}

impl<T, A: Allocator> Extend<T> for Queue<T, A> {
    /// Pushes every item of `items`.
    ///
    /// # Panics
    ///
    /// If the queue is closed, before it asks for an item.
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        assert!(!self.is_closed(), "queue: extend needs an open queue");
        for item in items {
            // The borrow is exclusive, so nobody closes the queue meanwhile.
            assert!(
                self.push(item).is_ok(),
                "queue: closed while it was borrowed exclusively"
            );
        }
    }
}

impl<T, A: Allocator + Default> FromIterator<T> for Queue<T, A> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut queue = Self::default();
        queue.extend(items);
        queue
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
