//! An unbounded queue for any number of producers and consumers.
//!
//! The interface is final; the inside is simple for now: a list of segments under a small spin lock, and beside it one
//! word with the length and the closed bit, so that whoever polls an empty queue loads that word and takes no lock.
//! No user code runs under the lock: segments are allocated and freed outside of it, and items are only moved, so
//! neither a panic nor an allocator that itself uses the queue can meet a lock that is held.
//!
//! ```text
//!   state: │ length … │ closed │      is_locked: │ 0 or 1 │      on one line of their own, with the list's ends
//!
//!   front ──► segment ──► segment ──► segment ◄── back         spare: at most one empty segment
//!              ▲ pop at front_slot      ▲ push at back_slot
//! ```
//!
//! | field | written by | read by | when |
//! | --- | --- | --- | --- |
//! | `state` | the lock's holder | anyone | stored once per operation, before the lock is freed |
//! | `Inside::state`, `Inside::list` | the lock's holder | the lock's holder | between lock and unlock |
//!
//! Rules:
//!
//! 1. While the lock is free, `state` equals the holder's copy, and the length in it is that of the list.
//! 2. An operation takes effect at its store to `state`; one that finds the queue empty or closed, where it reads so.
//! 3. After `closed` is set it stays set, and the length only falls.
//! 4. Under the lock: no allocation, no free, no user code, no loop.

mod list;
mod lock;

use core::fmt;
use core::iter::FusedIterator;
use core::panic::{RefUnwindSafe, UnwindSafe};

use crate::alloc::{Allocator, Global};
use crate::primitive::CachePadded;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use crate::{Closed, TryPushError};
use list::{List, Segment};
use lock::Lock;

/// The bit of the state that says closed.
const CLOSED: usize = 1;
/// One item, in the state.
const ONE: usize = 2;

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
    shared: CachePadded<Shared<T>>,
    alloc: A,
}

struct Shared<T> {
    state: AtomicUsize,
    lock: Lock<Inside<T>>,
}

struct Inside<T> {
    /// What `Shared::state` holds, for the lock's holder.
    state: usize,
    list: List<T>,
}

// No user code runs while the list is half changed, so a panic cannot be seen in it.
impl<T, A: Allocator> UnwindSafe for Queue<T, A> {}
impl<T, A: Allocator> RefUnwindSafe for Queue<T, A> {}

impl<T> Queue<T> {
    /// Makes an empty queue in the global allocator; allocates nothing.
    #[cfg(not(rast_loom))]
    #[must_use]
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
            shared: CachePadded::new(Shared {
                state: AtomicUsize::new(0),
                lock: Lock::new(Inside {
                    state: 0,
                    list: List::new(),
                }),
            }),
            alloc,
        }
    }

    /// Makes an empty queue whose memory comes from `alloc`; allocates nothing.
    #[cfg(rast_loom)]
    pub fn new_in(alloc: A) -> Self {
        Self {
            shared: CachePadded::new(Shared {
                state: AtomicUsize::new(0),
                lock: Lock::new(Inside {
                    state: 0,
                    list: List::new(),
                }),
            }),
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
        let mut item = Some(item);
        loop {
            let outcome = self.locked(|inside| {
                if inside.state & CLOSED != 0 {
                    return Attempt::Closed;
                }
                let Some(longer) = inside.state.checked_add(ONE) else {
                    return Attempt::TooLong;
                };
                if !inside.list.ready(&mut fresh) {
                    return Attempt::NoSegment;
                }
                if let Some(item) = item.take() {
                    inside.list.push(item);
                    inside.state = longer;
                }
                Attempt::Done
            });
            match outcome {
                Attempt::NoSegment => match Segment::allocate(&self.alloc) {
                    Ok(segment) => fresh = Some(segment),
                    Err(_) => return item.map_or(Ok(()), |item| Err(TryPushError::NoMemory(item))),
                },
                Attempt::TooLong => {
                    self.free(fresh);
                    return item.map_or(Ok(()), |item| Err(TryPushError::NoMemory(item)));
                }
                Attempt::Closed | Attempt::Done => {
                    self.free(fresh);
                    // What was not pushed is handed back.
                    return item.map_or(Ok(()), |item| Err(TryPushError::Closed(item)));
                }
            }
        }
    }

    /// Pops the item at the front, or gives `None` if the queue is empty.
    ///
    /// After [`close`](Self::close) it gives what stands, then `None` for ever.
    /// Blocking (see [`Queue`]), wait-free if the queue is empty; never allocates, never panics; runs no code of `T`.
    pub fn pop(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let (item, used) = self.locked(|inside| {
            let popped = inside.list.pop()?;
            inside.state -= ONE;
            Some(popped)
        })?;
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
    ///
    /// A drain that nobody runs pops nothing:
    ///
    /// ```compile_fail
    /// #![deny(unused_must_use)]
    /// let queue: rast_queue::Queue<_> = (1..=5).collect();
    /// queue.drain();
    /// ```
    pub fn drain(&self) -> Drain<'_, T, A> {
        Drain { queue: Some(self) }
    }

    /// Closes the queue for pushes, for ever; returns whether this call did it.
    ///
    /// What stands can still be popped: once a thread sees the queue closed, then empty, it has seen the end.
    pub fn close(&self) -> bool {
        self.locked(|inside| {
            let was_open = inside.state & CLOSED == 0;
            inside.state |= CLOSED;
            was_open
        })
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
        // Acquire: pairs with the Release in locked; what came before the push or the close that is seen here is
        // visible. [QU3]
        self.shared.state.load(Ordering::Acquire)
    }

    /// Runs `f` under the lock and publishes the state that it leaves.
    #[inline]
    fn locked<R>(&self, f: impl FnOnce(&mut Inside<T>) -> R) -> R {
        self.shared.lock.lock().with(|inside| {
            let result = f(inside);
            inside.list.check_invariants(inside.state < ONE);
            // Release: pairs with the Acquire in load; what this thread did before its push or close is visible to
            // those who see it. [QU4]
            self.shared.state.store(inside.state, Ordering::Release);
            result
        })
    }

    /// Frees a segment, outside of the lock.
    fn free(&self, segment: Option<Segment<T>>) {
        if let Some(segment) = segment {
            segment.deallocate(&self.alloc);
        }
    }
}

/// How a push went under the lock.
enum Attempt {
    Done,
    Closed,
    NoSegment,
    /// The length has no bits left; only short words and small items come that far.
    TooLong,
}

/// The end of a queue: drops what stands, then frees the memory, also while a panic goes up.
struct Rest<'a, T, A: Allocator>(&'a Queue<T, A>);

impl<T, A: Allocator> Drop for Rest<'_, T, A> {
    fn drop(&mut self) {
        self.0.drain().for_each(drop);
        loop {
            let segment = self.0.locked(|inside| inside.list.take_segment());
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
#[must_use = "pops only what it is asked for; to empty the queue, run it to its end"]
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
#[must_use = "iterators are lazy"]
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

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_is_full_refuses_and_loses_nothing() {
        let queue = Queue::new();
        queue.push(1).unwrap();
        queue.locked(|inside| inside.state = !CLOSED);
        assert_eq!(queue.try_push(2), Err(TryPushError::NoMemory(2)));
        queue.locked(|inside| inside.state = ONE);
        assert_eq!(queue.drain().collect::<std_alloc::vec::Vec<_>>(), [1]);
    }
}
