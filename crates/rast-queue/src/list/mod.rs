//! An unbounded lock-free queue: a linked list of nodes. A node is freed by its reference count as
//! soon as no thread has a reference to it.
//!
//! It is algorithm 2.4 of the original RAST design, with its faults corrected;
//! `docs/algorithms/queue-list.md` lists each fault with its correction and the test that shows it.
//!
//! The last node of the list has no item. A push stores its item in the last node and then links a
//! new last node behind it. If another push arrives between these two steps, it links the node that
//! it has allocated. The first push then frees its own new node. We added a close. A close stores a
//! mark instead of an item, and no node is ever linked behind the mark.
//!
//! The head and the tail are words with two parts. One is the address of a node. The other is the
//! number of references to the node that threads have taken through this word. A thread that moves
//! a word to the next node adds this number to the node that the word leaves. The design calls the
//! numbers multi-counters.
//!
//! ```text
//!     head (node, count)                                   tail (node, count)
//!       │                                                    │
//!       ▼                                                    ▼
//!   ┌────────┐       ┌────────┐       ┌────────┐       ┌────────┐
//!   │ data ──┼─► a   │ data ──┼─► b   │ data ──┼─► c   │ data   │  the node for the next item
//!   │ next ──┼──────►│ next ──┼──────►│ next ──┼──────►│ next   │
//!   │ state  │       │ state  │       │ state  │       │ state  │
//!   └────────┘       └────────┘       └────────┘       └────────┘
//! ```
//!
//! | field | written and read by | also read by | written how often |
//! | --- | --- | --- | --- |
//! | `head` | pops; `is_empty`, which only adds to the count | | twice per pop: first its count, then its node |
//! | `tail` | pushes, `close`, `is_closed` | | twice per push, likewise |
//! | `Node::data` | the push or close that finds it null | `is_closed`; the pop that moved the head off the node | once |
//! | `Node::next` | a push or close that finds an item in the node | pops, `is_empty`, `is_closed` | once |
//! | `Node::state` | every operation that releases a reference or moves the head or the tail off the node | | see `node.rs` |
//!
//! Rules:
//!
//! 1. `data` and `next` change once, from null. `next` is written only in a node with an item.
//! 2. The head and the tail move only along links, one node at a time. The thread that moves one of
//!    them holds a reference to the node that it leaves.
//! 3. Head and tail each leave each node once. The thread that moved the head or the tail off a
//!    node adds the count of that word to the node at once. This addition is called a promise.
//! 4. A thread accesses a node only while it has a reference to the node. The release of the last
//!    reference frees the node.
//! 5. The item of a node belongs to the pop that moved the head off the node.
//! 6. An operation has one reference at a time. No code that can panic runs between storing an item
//!    and moving the tail past it.

mod block;
mod end;
mod iter;
mod node;
mod nodes;
mod reference;
mod source;
#[cfg(all(test, not(rast_loom)))]
mod tests;

use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;

use crate::alloc::{Allocator, Global};
use crate::primitive::{AtomicWideTaggedPtr, CachePadded, constructor};
use crate::{Closed, TryPushError};
use block::Block;
pub use iter::{Drain, IntoIter};
use node::{Data, Item, Node};
use nodes::Nodes;
use reference::Reference;
use source::{Place, Source};

/// An unbounded first-in first-out queue between any number of producers and consumers: a linked
/// list with one node per item.
///
/// This is the queue of the original RAST design, kept as a test oracle and as the baseline of
/// measurements. Each item costs two allocations and about ten atomic read-modify-writes, so
/// [`Queue`](crate::Queue) is several times faster. Use `ListQueue` for comparison, or where memory
/// must be freed item by item.
///
/// Linearizable. `new` is `const`, so a queue can be a static; it allocates nothing until the first
/// push. A push allocates the item and a node. The pop frees the memory of the item. The node is
/// freed as soon as no operation has a reference to it.
///
/// Every operation is lock-free if the allocator is, on targets with a compare-exchange of two
/// words; [`is_lock_free`](Self::is_lock_free) returns whether this processor has one.
///
/// There is no `len`: the list has no count, and a thread that counted the nodes might never reach
/// the end while other threads push.
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
/// A queue of items that are not `Send` is neither `Send` nor `Sync`:
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
/// It is invariant in `T`. Otherwise a short borrow could be pushed and popped as a long one:
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
    nodes: Nodes<T, A>,
}

// SAFETY: the queue owns its items and gives out no reference to one. One thread pushes an item and
// another pops it, so it must be Send and need not be Sync. Threads share the nodes by the protocol
// of the module. All threads use the allocator through a shared reference. Send follows from the
// fields.
unsafe impl<T: Send, A: Allocator + Sync> Sync for ListQueue<T, A> {}

// No user code runs while an invariant is broken, so a panic leaves the list consistent.
impl<T, A: Allocator> UnwindSafe for ListQueue<T, A> {}
impl<T, A: Allocator> RefUnwindSafe for ListQueue<T, A> {}

impl<T> ListQueue<T> {
    constructor! {
        /// Makes an empty queue in the global allocator; allocates nothing.
        #[must_use]
        pub fn new() -> Self {
            Self::new_in(Global)
        }
    }
}

impl<T, A: Allocator> ListQueue<T, A> {
    constructor! {
        /// Makes an empty queue whose memory comes from `alloc`; allocates nothing.
        pub fn new_in(alloc: A) -> Self {
            Self {
                head: CachePadded::new(Source::new()),
                tail: CachePadded::new(Source::new()),
                nodes: Nodes {
                    first: Node::new(Node::<T>::STANDING),
                    last: Node::closed(),
                    alloc,
                },
            }
        }
    }

    /// Returns whether the queue is lock-free on this processor; if not, short locks replace the
    /// compare-exchange of two words.
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
    /// Never; it calls `handle_alloc_error` on lack of memory.
    ///
    /// # Errors
    ///
    /// [`Closed`] with the item if the queue is closed; the close happens before the return.
    pub fn push(&self, item: T) -> Result<(), Closed<T>> {
        match self.try_push(item) {
            Ok(()) => Ok(()),
            Err(TryPushError::Closed(item)) => Err(Closed(item)),
            Err(TryPushError::NoMemory(_)) => {
                std_alloc::alloc::handle_alloc_error(Block::<Node<T>, A>::LAYOUT)
            }
        }
    }

    /// Pushes one item at the back. Returns the item if the queue is closed or memory is lacking.
    ///
    /// Lock-free; allocates the item and a node. If it finds a push that has stored its item but
    /// not linked the next node, it finishes that push, and may allocate one more node.
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
        // Everything that can fail or panic comes before the item is stored: rule 6.
        let item = match Block::new(Item(item), &self.nodes.alloc) {
            Ok(item) => item,
            Err(Item(item)) => return Err(self.refuse(item)),
        };
        let item_at = item.as_non_null();
        let mut spare = None;
        loop {
            let place = match spare.take() {
                Some(place) => place,
                None => match Block::new(Node::new(Node::<T>::PASSING), &self.nodes.alloc) {
                    Ok(place) => place,
                    Err(_) => return Err(self.refuse(item.into_inner().0)),
                },
            };
            let back = self.refer(&self.tail);
            match back.put(item_at) {
                Ok(()) => {
                    // The list owns the item, which is pushed as soon as its node has a link, no
                    // matter which thread stores the link.
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
                // Another push stored its item here; help it, then try the next node.
                Err(_) => spare = self.extend_list(&back, place),
            }
        }
    }

    /// Ensures that a node is linked behind `back`, which has an item, and that the tail has left
    /// `back`. Returns `place` if it was not needed.
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

    /// Returns the error for an item for which there is no memory.
    #[cold]
    fn refuse(&self, item: T) -> TryPushError<T> {
        if self.is_closed() {
            TryPushError::Closed(item)
        } else {
            TryPushError::NoMemory(item)
        }
    }

    /// Pops the item at the front, or returns `None` if the queue is empty.
    ///
    /// After [`close`](Self::close) it returns the queued items, then always `None`. Lock-free;
    /// never allocates, never panics; runs no code of `T`.
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
            let item = unsafe { Block::from_leaked(item, &self.nodes.alloc) };
            return Some(item.into_inner().0);
        }
    }

    /// Closes the queue, so that every later push fails; returns whether this call closed it.
    ///
    /// Queued items can still be popped. Once a thread finds the queue closed and then empty, there
    /// are no more items. Lock-free; allocates nothing.
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
                // A push stored its item here and may not have linked a node yet: if so, close by
                // the link.
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

    /// Returns whether the queue is closed. If so, the close happens before the return. Lock-free.
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
        &self.nodes.alloc
    }

    /// Acquires a reference to the node that `source`, the head or the tail of this queue, points
    /// to.
    #[inline]
    fn refer(&self, source: &Source<T>) -> Reference<'_, T, A> {
        Reference::take(&self.nodes, source)
    }

    /// Moves `source` from the node of `from` to `to`, the node linked behind it, unless `source`
    /// has left that node already; returns whether this call moved it.
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
    /// If the queue is closed; then it has not called the iterator.
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
