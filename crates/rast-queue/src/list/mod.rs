//! An unbounded lock-free queue as a list of nodes, each freed by multi-counters as soon as no
//! thread refers to it.
//!
//! The source is algorithm 2.4 of the RAST document, whose faults are mended here;
//! `docs/algorithms/queue-list.md` lists each of them with the test that shows it. The idea is
//! kept: the last node is a place without an item, a push puts its item there and then links a new
//! place behind it, and the thread that comes meanwhile helps; the head and the tail each carry a
//! count of the references that they gave out, and hand it over to a node when they leave it.
//!
//! What we changed: an item is written once and never taken out of its node; the tail is moved
//! until it has left the node, whatever other counts change meanwhile; a pop asks the link and not
//! the tail whether there is an item; the link is a plain pointer, written once, and no source of
//! references; all counts are modulo a power of two; and a close was added, which is a push of a
//! mark that nothing is ever linked behind.
//!
//! ```text
//!     head (node, count)                                   tail (node, count)
//!       │                                                    │
//!       ▼                                                    ▼
//!   ┌────────┐       ┌────────┐       ┌────────┐       ┌────────┐
//!   │ data ──┼─► a   │ data ──┼─► b   │ data ──┼─► c   │ data   │  the place for the next item
//!   │ next ──┼──────►│ next ──┼──────►│ next ──┼──────►│ next   │
//!   │ state  │       │ state  │       │ state  │       │ state  │
//!   └────────┘       └────────┘       └────────┘       └────────┘
//! ```
//!
//! | field | written by | read by | when |
//! | --- | --- | --- | --- |
//! | `head` | `refer` and `pass` of pops | pops, `is_empty` | twice per pop: a count, then the next node |
//! | `tail` | `refer` and `pass` of pushes | pushes, `close`, `is_closed` | twice per push |
//! | `Node::data` | the push or close that finds it null | pushes; the pop that passed the node | once |
//! | `Node::next` | any push that finds an item above it | pushes, pops | once |
//! | `Node::state` | promises and releases | the same | node.rs |
//!
//! Rules:
//!
//! 1. `data` and `next` change once, from null. `next` is written only below an item.
//! 2. The head and the tail move only along links, one node at a time, and only by a thread that
//!    holds a reference to the node they leave.
//! 3. Each of them leaves each node once, and the thread that moved it promises at once: the node
//!    takes the count over.
//! 4. A node is used only under a reference, and given back to the allocator by the release that
//!    ends it.
//! 5. The item of a node belongs to the pop that moved the head off the node.
//! 6. An operation holds one reference at a time; nothing that can panic runs between putting an
//!    item and moving the tail past it.

mod block;
mod end;
mod iter;
mod node;
mod reference;
mod source;
#[cfg(all(test, not(rast_loom)))]
mod tests;

use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;

use crate::alloc::{Allocator, Global};
use crate::primitive::{AtomicWideTaggedPtr, CachePadded};
use crate::{Closed, TryPushError};
use block::Block;
pub use iter::{Drain, IntoIter};
use node::{Data, Item, Node};
use reference::Reference;
use source::{Place, Source};

/// An unbounded first-in first-out queue between any number of producers and consumers, as a list
/// of single nodes.
///
/// The form in which the RAST document describes its queue, kept as reference, oracle and baseline
/// of measurements: each item costs two allocations and about ten atomic read-modify-writes, so
/// [`Queue`](crate::Queue) is several times faster. Take this one to read, to compare with, or
/// where memory must go back to the allocator item by item.
///
/// Linearizable. `const fn new`, so it can be a static; it allocates nothing until the first push.
/// A push allocates the item and a node; both go back to the allocator as soon as the item was
/// popped and no operation that began before looks at them.
///
/// Progress: lock-free, every operation: of the threads that use the queue, one completes its
/// operation within a bounded number of steps of its own, whatever the others do, where the target
/// can exchange two words at once (and as far as the allocator is lock-free);
/// [`is_lock_free`](Self::is_lock_free) tells.
///
/// There is no length: the list has no place to count, and a walk along it could not end while
/// others push.
///
/// ```
/// use rast_queue::list::ListQueue;
///
/// static QUEUE: ListQueue<u64> = ListQueue::new();
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
/// share(rast_queue::list::ListQueue::<std::rc::Rc<u8>>::new());
/// ```
///
/// ```compile_fail
/// fn send<T: Send>(_: T) {}
/// send(rast_queue::list::ListQueue::<std::rc::Rc<u8>>::new());
/// ```
///
/// A queue of long-lived references takes no shorter ones, because they could be popped as
/// long-lived:
///
/// ```compile_fail
/// use rast_queue::list::ListQueue;
///
/// fn shorten<'short>(queue: &'short ListQueue<&'static str>) -> &'short ListQueue<&'short str> {
///     queue
/// }
/// ```
pub struct ListQueue<T, A: Allocator = Global> {
    head: CachePadded<Source<T>>,
    tail: CachePadded<Source<T>>,
    /// Where a new queue begins; in the list once, and never freed.
    first: Node<T>,
    /// Where a queue ends that is closed between the two steps of a push; in the list at most once,
    /// and never freed.
    last: Node<T>,
    alloc: A,
}

// SAFETY: the queue owns its items and gives out no reference to one: an item goes in by one thread
// and out by another, so it must be Send and need not be Sync. The nodes are shared by the protocol
// of the module. The allocator is used by all threads through a shared reference. Send follows from
// the fields: a node holds an item.
unsafe impl<T: Send, A: Allocator + Sync> Sync for ListQueue<T, A> {}

// No user code runs while the list is half changed, so a panic cannot be seen in it.
impl<T, A: Allocator> UnwindSafe for ListQueue<T, A> {}
impl<T, A: Allocator> RefUnwindSafe for ListQueue<T, A> {}

impl<T> ListQueue<T> {
    /// Makes an empty queue in the global allocator; allocates nothing.
    #[cfg(not(rast_loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self::new_in(Global)
    }

    /// Makes an empty queue in the global allocator; allocates nothing.
    #[cfg(rast_loom)]
    #[must_use]
    pub fn new() -> Self {
        Self::new_in(Global)
    }
}

impl<T, A: Allocator> ListQueue<T, A> {
    /// Makes an empty queue whose memory comes from `alloc`; allocates nothing.
    #[cfg(not(rast_loom))]
    pub const fn new_in(alloc: A) -> Self {
        Self {
            head: CachePadded::new(Source::new()),
            tail: CachePadded::new(Source::new()),
            first: Node::new(Node::<T>::STANDING),
            last: Node::closed(),
            alloc,
        }
    }

    /// Makes an empty queue whose memory comes from `alloc`; allocates nothing.
    #[cfg(rast_loom)]
    pub fn new_in(alloc: A) -> Self {
        Self {
            head: CachePadded::new(Source::new()),
            tail: CachePadded::new(Source::new()),
            first: Node::new(Node::<T>::STANDING),
            last: Node::closed(),
            alloc,
        }
    }

    /// Returns whether the queue is lock-free on this processor; if not, short locks replace the
    /// double word.
    ///
    /// True on AArch64, and on x86-64 except for its first models; see [`AtomicWideTaggedPtr`].
    #[must_use]
    pub fn is_lock_free() -> bool {
        AtomicWideTaggedPtr::<Node<T>>::is_lock_free()
    }

    /// Pushes one item at the back.
    ///
    /// Lock-free; allocates the item and a node.
    ///
    /// # Panics
    ///
    /// Never; it calls `handle_alloc_error` on lack of memory, as std's collections do.
    ///
    /// # Errors
    ///
    /// [`Closed`] with the item if the queue is closed; what the closer did before is then visible.
    pub fn push(&self, item: T) -> Result<(), Closed<T>> {
        match self.try_push(item) {
            Ok(()) => Ok(()),
            Err(TryPushError::Closed(item)) => Err(Closed(item)),
            Err(TryPushError::NoMemory(_)) => {
                std_alloc::alloc::handle_alloc_error(Block::<Node<T>, A>::LAYOUT)
            }
        }
    }

    /// Pushes one item at the back, and hands it back on lack of memory too.
    ///
    /// Lock-free; allocates the item and a node. It may allocate one more node each time that it
    /// comes between the two steps of another push.
    ///
    /// # Errors
    ///
    /// [`TryPushError::Closed`] or [`TryPushError::NoMemory`], with the item.
    ///
    /// ```
    /// use rast_queue::{TryPushError, list::ListQueue};
    ///
    /// let queue = ListQueue::new();
    /// queue.try_push("a").unwrap();
    /// queue.close();
    /// assert_eq!(queue.try_push("b"), Err(TryPushError::Closed("b")));
    /// ```
    pub fn try_push(&self, item: T) -> Result<(), TryPushError<T>> {
        // Everything that can fail or panic comes before the item is put: rule 6.
        let item = match Block::new(Item(item), &self.alloc) {
            Ok(item) => item,
            Err(Item(item)) => return Err(self.refuse(item)),
        };
        let item_at = item.as_non_null();
        let mut spare = None;
        loop {
            let place = match spare.take() {
                Some(place) => place,
                None => match Block::new(Node::new(Node::<T>::PASSING), &self.alloc) {
                    Ok(place) => place,
                    Err(_) => return Err(self.refuse(item.into_inner().0)),
                },
            };
            let back = self.refer(&self.tail);
            match back.put(item_at) {
                Ok(()) => {
                    // The item is the list's, and is pushed as soon as a link is below it, no
                    // matter which thread makes it.
                    let _ = item.leak();
                    let unused = self.extend_list(&back, place);
                    drop(back);
                    drop(unused);
                    return Ok(());
                }
                Err(Data::Closed) => {
                    drop(back);
                    drop(place);
                    return Err(TryPushError::Closed(item.into_inner().0));
                }
                // Another push put its item here; help it, then try the next place.
                Err(_) => spare = self.extend_list(&back, place),
            }
        }
    }

    /// Sees to it that a node is linked behind `back`, where an item is queued, and that the tail
    /// has left `back`; gives `place` back if it was not needed.
    #[inline]
    fn extend_list<'a>(
        &self,
        back: &Reference<'_, T, A>,
        place: Block<'a, Node<T>, A>,
    ) -> Option<Block<'a, Node<T>, A>> {
        let mut unused = Some(place);
        let linked = unused
            .as_ref()
            .is_some_and(|place| back.link(place.as_non_null()));
        let next = if linked {
            // The node is the list's, and is seen by all.
            unused.take().map(Block::leak)
        } else {
            back.next()
        };
        if let Some(next) = next {
            self.pass(&self.tail, back, next);
        }
        unused
    }

    /// Why an item is refused for which there is no memory.
    #[cold]
    fn refuse(&self, item: T) -> TryPushError<T> {
        if self.is_closed() {
            TryPushError::Closed(item)
        } else {
            TryPushError::NoMemory(item)
        }
    }

    /// Pops the item at the front, or gives `None` if the queue is empty.
    ///
    /// After [`close`](Self::close) it gives what is queued, then `None` for ever.
    /// Lock-free; never allocates, never panics; runs no code of `T`.
    pub fn pop(&self) -> Option<T> {
        loop {
            let front = self.refer(&self.head);
            let next = front.next()?;
            if !self.pass(&self.head, &front, next) {
                continue;
            }
            let Data::Item(item) = front.data() else {
                unreachable!("list: rule 1: a link is below a place without an item");
            };
            drop(front);
            // SAFETY: (1) a push leaked the item, from this queue's allocator, when it put it into
            // the node; (2) this call moved the head off the node, which by rules 2 and 3 happens
            // once, and by rule 5 the item is ours.
            let item = unsafe { Block::from_leaked(item, &self.alloc) };
            return Some(item.into_inner().0);
        }
    }

    /// Returns an iterator that pops until it first finds the queue empty.
    ///
    /// Others may push and pop meanwhile: it ends at the first moment that the queue is empty,
    /// which need not come while producers are faster; bound it with `take`. Dropped early, it
    /// leaves the rest.
    ///
    /// ```
    /// let queue: rast_queue::list::ListQueue<_> = (1..=5).collect();
    /// assert_eq!(queue.drain().take(2).collect::<Vec<_>>(), [1, 2]);
    /// assert_eq!(queue.drain().collect::<Vec<_>>(), [3, 4, 5]);
    /// ```
    ///
    /// A drain that no thread runs pops nothing:
    ///
    /// ```compile_fail
    /// #![deny(unused_must_use)]
    /// let queue: rast_queue::list::ListQueue<_> = (1..=5).collect();
    /// queue.drain();
    /// ```
    pub fn drain(&self) -> Drain<'_, T, A> {
        Drain::new(self)
    }

    /// Closes the queue for pushes, for ever; returns whether this call did it.
    ///
    /// Queued items can still be popped: once a thread sees the queue closed, then empty, it has
    /// seen the end. Lock-free; allocates nothing.
    ///
    /// ```
    /// let queue: rast_queue::list::ListQueue<_> = (1..=2).collect();
    /// assert!(queue.close());
    /// assert!(!queue.close(), "it was closed before");
    /// assert_eq!(queue.drain().sum::<i32>(), 3);
    /// ```
    pub fn close(&self) -> bool {
        loop {
            let back = self.refer(&self.tail);
            match back.put_closed() {
                Ok(()) => return true,
                Err(Data::Closed) => return false,
                // A push put its item here and may not have linked a place yet: if so, close by the
                // link.
                Err(_) => {
                    let last = Place::<T>::last_mark();
                    let closed = back.link(last);
                    let next = if closed { Some(last) } else { back.next() };
                    if let Some(next) = next {
                        self.pass(&self.tail, &back, next);
                    }
                    if closed {
                        return true;
                    }
                }
            }
        }
    }

    /// Returns whether the queue is closed; what the closer did before is then visible. Lock-free.
    pub fn is_closed(&self) -> bool {
        loop {
            let back = self.refer(&self.tail);
            match back.data() {
                Data::Closed => return true,
                Data::Nothing => return false,
                Data::Item(_) => match back.next() {
                    // The last node, and nothing but an item in it.
                    None => return false,
                    Some(next) => self.pass(&self.tail, &back, next),
                },
            };
        }
    }

    /// Returns whether the queue is empty, at the moment of the call. Lock-free.
    pub fn is_empty(&self) -> bool {
        self.refer(&self.head).next().is_none()
    }

    /// Returns the allocator.
    pub fn allocator(&self) -> &A {
        &self.alloc
    }

    /// The node at `place`.
    #[inline]
    fn resolve(&self, place: Place<T>) -> NonNull<Node<T>> {
        match place {
            Place::First => NonNull::from(&self.first),
            Place::Last => NonNull::from(&self.last),
            Place::Allocated(node) => node,
        }
    }

    /// Takes a reference to the node that `source`, the head or the tail of this queue, points to.
    #[inline]
    fn refer(&self, source: &Source<T>) -> Reference<'_, T, A> {
        Reference::take(self, source)
    }

    /// Moves `source` from the node of `from` to `to`, the one linked behind it, unless it has left
    /// that node already; returns whether this call did it.
    #[inline]
    fn pass(&self, source: &Source<T>, from: &Reference<'_, T, A>, to: NonNull<Node<T>>) -> bool {
        match source.pass(from.place, from.count, Place::of_link(to)) {
            Some(count) => {
                from.promise(count);
                true
            }
            None => false,
        }
    }
}

impl<T, A: Allocator> Extend<T> for ListQueue<T, A> {
    /// Pushes every item of `items`.
    ///
    /// # Panics
    ///
    /// If the queue is closed, before it asks for an item.
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        assert!(!self.is_closed(), "list: extend needs an open queue");
        for item in items {
            // The borrow is exclusive, so no thread closes the queue meanwhile.
            assert!(
                self.push(item).is_ok(),
                "list: closed while it was borrowed exclusively"
            );
        }
    }
}

impl<T, A: Allocator + Default> FromIterator<T> for ListQueue<T, A> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut queue = Self::default();
        queue.extend(items);
        queue
    }
}

impl<T, A: Allocator + Default> Default for ListQueue<T, A> {
    fn default() -> Self {
        Self::new_in(A::default())
    }
}

impl<T, A: Allocator> fmt::Debug for ListQueue<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListQueue")
            .field("is_empty", &self.is_empty())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
