//! The queue for nodes of the user's own, without any allocation.
//!
//! Any thread may push to a [`Queue`], which can be a static. The right to consume is a guard that
//! one thread has at a time, for instance the worker that currently schedules tasks.

use core::cell::Cell;
use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;

use super::node::{Link, Node, Pointer, UniquePointer};
use super::stack::{self, Fifo, Inbox, RawLink, Stack};
use crate::Closed;
use crate::primitive::cell::UnsafeCell;
use crate::primitive::panics::drop_each;
use crate::primitive::sync::atomic::{AtomicBool, Ordering, fence};
use crate::primitive::{CachePadded, constructor};

/// An unbounded queue of nodes that carry their own link, from any number of producers to one
/// consumer at a time.
///
/// `P` is the pointer that owns a node: [`Box`](std_alloc::boxed::Box),
/// [`Arc`](std_alloc::sync::Arc), either of them pinned, `&'static N`, or your own ([`Pointer`]).
/// The queue owns the pointer from push to pop, so the node is not dropped meanwhile. If several
/// pointers to a node can exist, a second push of the queued node fails with
/// [`Queued`](PushError::Queued).
///
/// Linearizable, first in, first out. A push is lock-free: one compare-exchange, and a swap if
/// several pointers to the node can exist. The consumer takes all queued nodes by one swap, and
/// then walks over them to reverse their order. A suspended producer delays no other thread. While
/// the thread with the [`Consumer`] is suspended, no other thread can consume. No operation
/// allocates.
///
/// ```
/// use rast_queue::mpsc::{Link, intrusive::Queue};
///
/// struct Task {
///     link: Link,
///     run: fn() -> u32,
/// }
/// rast_queue::impl_node!(Task { link });
///
/// static FRONT: Queue<Box<Task>> = Queue::new();
///
/// let task = |run| Box::new(Task { link: Link::new(), run });
/// assert!(FRONT.push(task(|| 1)).unwrap()); // the first since the last take: wake the consumer
/// assert!(!FRONT.push(task(|| 2)).unwrap());
///
/// let mut consumer = FRONT.consumer().expect("nothing else consumes");
/// assert_eq!(consumer.take_all().map(|task| (task.run)()).collect::<Vec<_>>(), [1, 2]);
/// ```
///
/// A push takes the pointer by value, so a `Box` cannot be pushed twice:
///
/// ```compile_fail
/// use rast_queue::mpsc::{Link, intrusive::Queue};
/// struct Task {
///     link: Link,
/// }
/// rast_queue::impl_node!(Task { link });
///
/// let (one, two) = (Queue::new(), Queue::new());
/// let task = Box::new(Task { link: Link::new() });
/// one.push(task).ok();
/// two.push(task).ok();
/// ```
///
/// With nodes that are not `Send` the queue is neither `Send` nor `Sync`:
///
/// ```compile_fail
/// struct Local {
///     link: rast_queue::mpsc::Link,
///     data: std::rc::Rc<u8>,
/// }
/// rast_queue::impl_node!(Local { link });
/// fn share<T: Sync>(_: T) {}
/// share(rast_queue::mpsc::intrusive::Queue::<Box<Local>>::new());
/// ```
///
/// The queue is invariant in `P`. Otherwise a node with a short borrow could be pushed and popped
/// as one with a long borrow:
///
/// ```compile_fail
/// use rast_queue::mpsc::{Link, intrusive::Queue};
/// struct Task<'a>(Link, &'a str);
/// rast_queue::impl_node!(<'a> Task<'a> { 0 });
///
/// fn shorten<'short, 'long: 'short>(
///     queue: Queue<Box<Task<'long>>>,
/// ) -> Queue<Box<Task<'short>>> {
///     queue
/// }
/// ```
pub struct Queue<P: Pointer> {
    stack: CachePadded<Stack>,
    claim: CachePadded<Claim>,
    /// Owns pointers, and accepts them by shared reference, so it is invariant as a cell is.
    owns: PhantomData<Cell<P>>,
}

struct Claim {
    /// Whether there is a [`Consumer`].
    taken: AtomicBool,
    /// Nodes that consumers have taken and not popped. While there is a consumer, it has this list.
    inbox: UnsafeCell<Inbox>,
}

impl Claim {
    /// Acquires the right to consume; returns `false` if another thread has it.
    fn take(&self) -> bool {
        // Acquire: pairs with the Release in the drop of Consumer; the inbox of the last consumer
        // is visible. [MQ9]
        self.taken
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
}

// SAFETY: threads pass pointers of type P to each other through the queue, which are Send; only the
// one consumer with the claim accesses the inbox.
unsafe impl<P: Pointer + Send> Sync for Queue<P> {}
// SAFETY: as above; a queue that moves takes its nodes with it.
unsafe impl<P: Pointer + Send> Send for Queue<P> {}

// No user code runs while an invariant is broken.
impl<P: Pointer> UnwindSafe for Queue<P> {}
impl<P: Pointer> RefUnwindSafe for Queue<P> {}

/// Why a push failed; contains the node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PushError<P> {
    /// The queue is closed.
    Closed(P),
    /// The node is in a queue already. This happens only if several pointers to one node can exist.
    Queued(P),
}

impl<P> PushError<P> {
    /// The node.
    pub fn into_inner(self) -> P {
        match self {
            Self::Closed(node) | Self::Queued(node) => node,
        }
    }
}

impl<P> fmt::Display for PushError<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed(_) => "the queue is closed",
            Self::Queued(_) => "the node is in a queue already",
        })
    }
}

impl<P> fmt::Debug for PushError<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed(_) => "Closed(..)",
            Self::Queued(_) => "Queued(..)",
        })
    }
}

impl<P> core::error::Error for PushError<P> {}

impl<P: Pointer> Queue<P> {
    constructor! {
        /// Makes an empty queue.
        #[must_use]
        pub fn new() -> Self {
            Self {
                stack: CachePadded::new(Stack::new()),
                claim: CachePadded::new(Claim {
                    taken: AtomicBool::new(false),
                    inbox: UnsafeCell::new(Inbox::new()),
                }),
                owns: PhantomData,
            }
        }
    }

    /// Pushes a node at the back; returns whether it is the first push since the last take.
    ///
    /// A take is the consumer's swap that removes all queued nodes. Of all pushes between two takes
    /// exactly the first returns `true`. If the consumer sleeps only after it found the queue
    /// empty, only this push needs to wake it. Lock-free; one compare-exchange, and a swap if
    /// several pointers to the node can exist.
    ///
    /// # Errors
    ///
    /// [`PushError::Closed`] if the queue is closed. [`PushError::Queued`] if the node is already
    /// in this or another queue, or another thread is pushing it. `Queued` can occur only with a
    /// pointer that can be cloned. A push that fails with `Queued` happens before the pop of the
    /// node. So the thread that pops the node sees what the thread of the failed push did before
    /// that push.
    ///
    /// ```
    /// use rast_queue::mpsc::{Link, intrusive::{PushError, Queue}};
    /// use std::sync::Arc;
    ///
    /// struct Task(Link);
    /// rast_queue::impl_node!(Task { 0 });
    ///
    /// let queue = Queue::new();
    /// let task = Arc::new(Task(Link::new()));
    /// queue.push(Arc::clone(&task)).unwrap();
    /// assert!(matches!(queue.push(Arc::clone(&task)), Err(PushError::Queued(_))));
    /// drop(queue.consumer().unwrap().pop());
    /// queue.push(task).unwrap();
    /// ```
    #[inline]
    pub fn push(&self, node: P) -> Result<bool, PushError<P>> {
        let raw = node.into_raw();
        // SAFETY: the node is alive, since it was given up just now.
        let link = unsafe { P::Node::link(raw) };
        // SAFETY: likewise its link; shared access is all that `mark` needs.
        if P::IS_SHARED && !unsafe { link.as_ref() }.mark() {
            // SAFETY: this is the first `from_raw` after our `into_raw`.
            return Err(PushError::Queued(unsafe { P::from_raw(raw) }));
        }
        // SAFETY: (1) one link, alive, and ours: the pointer was the only one, or the mark is ours.
        // (2) The pointer was given up, so the node stays alive until it is taken.
        match unsafe { self.stack.try_push(link.cast(), link.cast()) } {
            Some(was_empty) => Ok(was_empty),
            // SAFETY: the stack refused the link, which is ours as before.
            None => Err(PushError::Closed(unsafe { take_back(link.cast()) })),
        }
    }

    /// Pushes all `nodes` at the back, in their order; returns whether the queue was empty before.
    /// The nodes of one call are adjacent in the queue.
    ///
    /// Lock-free. One compare-exchange for all nodes, after the iterator has ended. If it yields no
    /// node, the result is `Ok(false)`. The type of `P` must exclude a second pointer to a node,
    /// because a node that is already in a queue would break the chain.
    ///
    /// # Panics
    ///
    /// If the iterator panics; the nodes that it had yielded are then dropped, and nothing is
    /// pushed.
    ///
    /// # Errors
    ///
    /// [`Closed`] with all of the nodes if the queue is closed.
    pub fn push_batch<I>(&self, nodes: I) -> Result<bool, Closed<Batch<P>>>
    where
        I: IntoIterator<Item = P>,
        P: UniquePointer,
    {
        const { assert!(!P::IS_SHARED, "mpsc: a unique pointer is not shared") };
        let mut chain = Chain {
            newest: core::ptr::null_mut(),
            owns: PhantomData,
        };
        let mut oldest = None;
        for node in nodes {
            // SAFETY: the node is alive, since it was given up just now.
            let link = unsafe { P::Node::link(node.into_raw()) }.cast();
            // SAFETY: the link is alive and ours, as the pointer was the only one.
            unsafe { stack::set_next(link, chain.newest) };
            chain.newest = link.as_ptr();
            oldest.get_or_insert(link);
        }
        let (Some(newest), Some(oldest)) = (NonNull::new(chain.newest), oldest) else {
            return Ok(false);
        };
        // SAFETY: (1) the links lead from the newest to the oldest, are alive and ours; (2) their
        // pointers were given up.
        match unsafe { self.stack.try_push(newest, oldest) } {
            Some(was_empty) => {
                chain.newest = core::ptr::null_mut();
                Ok(was_empty)
            }
            None => {
                // The failed push left the address of another link in the oldest. SAFETY: the chain
                // is ours as before.
                unsafe { stack::set_next(oldest, core::ptr::null_mut()) };
                Err(Closed(chain.into_batch()))
            }
        }
    }

    /// Acquires the right to consume. Returns `None` while some thread has it.
    ///
    /// Wait-free: one compare-exchange, or two and a fence if another thread has the right.
    /// Dropping the [`Consumer`] returns the right, with a fence, and leaves the nodes that it did
    /// not pop to the next consumer, in order.
    ///
    /// Suppose that every consuming thread checks [`is_empty`](Self::is_empty) after it has dropped
    /// its `Consumer`. Then a thread that pushes a node and gets `None` may leave the node to the
    /// thread that has the right, because that thread's check finds the node: see the example. A
    /// `Consumer` that is leaked with `mem::forget` keeps the right for ever.
    ///
    /// ```
    /// use rast_queue::mpsc::{Link, intrusive::Queue};
    ///
    /// struct Task(Link);
    /// rast_queue::impl_node!(Task { 0 });
    ///
    /// fn run(queue: &Queue<Box<Task>>) {
    ///     while !queue.is_empty() {
    ///         let Some(mut consumer) = queue.consumer() else {
    ///             return; // the thread that has the right checks again
    ///         };
    ///         consumer.take_all().for_each(drop);
    ///     }
    /// }
    ///
    /// let queue = Queue::new();
    /// queue.push(Box::new(Task(Link::new()))).unwrap();
    /// run(&queue);
    /// assert!(queue.is_empty());
    /// ```
    pub fn consumer(&self) -> Option<Consumer<'_, P>> {
        if !self.claim.take() {
            // SeqCst: store-buffer argument. The consumer fences after it returned the right.
            // Either its next check finds our earlier push, or our second try finds the right free.
            // [MQ19]
            fence(Ordering::SeqCst);
            if !self.claim.take() {
                return None;
            }
        }
        let inbox = self.claim.inbox.with_mut(|inbox| {
            // SAFETY: the claim is ours, so nothing else is here.
            core::mem::replace(unsafe { &mut *inbox }, Inbox::new())
        });
        Some(Consumer { queue: self, inbox })
    }

    /// Returns whether nothing was pushed since the last take. Nodes that the consumer has taken
    /// and not popped are not counted.
    ///
    /// Wait-free, one load; only a hint for threads that do not consume.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.stack.is_empty()
    }

    /// Returns whether the queue is closed. If so, the close happens before the return. Wait-free,
    /// one load.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.stack.is_closed()
    }
}

/// Takes back the pointer whose link is at `link`.
///
/// # Safety
///
/// `link` is that of a node from `P::into_raw`, is converted back once, and now belongs to the
/// caller.
#[inline(always)]
unsafe fn take_back<P: Pointer>(link: NonNull<RawLink>) -> P {
    let link = link.cast::<Link>();
    if P::IS_SHARED {
        // SAFETY: the node is alive.
        unsafe { link.as_ref() }.unmark();
    }
    // SAFETY: the address came from `Node::link`, and was kept as it was.
    let node = unsafe { P::Node::node(link) };
    // SAFETY: by the caller.
    unsafe { P::from_raw(node) }
}

/// A chain under construction, newest first; dropped by a panic of the user's iterator.
struct Chain<P: Pointer> {
    newest: *mut RawLink,
    owns: PhantomData<P>,
}

impl<P: Pointer> Chain<P> {
    fn into_batch(self) -> Batch<P> {
        let newest = core::mem::ManuallyDrop::new(self).newest;
        let mut fifo = Fifo::new();
        // SAFETY: the links are alive and the chain's own, and null ends them.
        unsafe { fifo.append_reversed(newest) };
        Batch {
            fifo,
            owns: PhantomData,
        }
    }
}

impl<P: Pointer> Drop for Chain<P> {
    fn drop(&mut self) {
        let newest = core::mem::replace(&mut self.newest, core::ptr::null_mut());
        drop(
            Chain::<P> {
                newest,
                owns: PhantomData,
            }
            .into_batch(),
        );
    }
}

impl<P: Pointer> Drop for Queue<P> {
    fn drop(&mut self) {
        // `None` if a consumer was leaked; its nodes are leaked with it.
        let inbox = self.consumer().map(|mut consumer| {
            consumer.close();
            consumer.inbox.fifo().take()
        });
        let rest = inbox.unwrap_or_else(|| {
            let mut inbox = Inbox::new();
            // SAFETY: the borrow is exclusive, so a leaked consumer, which borrowed the queue, no
            // longer exists; this is now the consumer and its inbox, and pushed nodes are alive
            // until they are taken.
            unsafe { inbox.close(&self.stack) };
            inbox.fifo().take()
        });
        drop(Batch::<P> {
            fifo: rest,
            owns: PhantomData,
        });
    }
}

impl<P: Pointer> Default for Queue<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Pointer> fmt::Debug for Queue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("is_empty", &self.is_empty())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// The right to consume from a [`Queue`]; made by [`Queue::consumer`].
///
/// It is `Send`, and neither `Sync` nor `Clone`.
pub struct Consumer<'a, P: Pointer> {
    queue: &'a Queue<P>,
    inbox: Inbox,
}

// SAFETY: a consumer that moves takes with it pointers of type P, which are Send, and a shared
// queue, which is Sync.
unsafe impl<P: Pointer + Send> Send for Consumer<'_, P> {}

impl<P: Pointer> UnwindSafe for Consumer<'_, P> {}
impl<P: Pointer> RefUnwindSafe for Consumer<'_, P> {}

impl<P: Pointer> Consumer<'_, P> {
    /// Pops the oldest node, or returns `None` if the queue is empty.
    ///
    /// If no node is left from the last take, it takes all queued nodes by one swap, and reverses
    /// their list. Otherwise it executes no swap. Wait-free, except for the walk over the list.
    #[inline]
    pub fn pop(&mut self) -> Option<P> {
        // SAFETY: (1) the claim makes this the consumer, and this is its inbox; (2) pushed nodes
        // were given up.
        let link = unsafe { self.inbox.pop(&self.queue.stack) }?;
        // SAFETY: the link was handed out by the inbox, so it is ours, once.
        Some(unsafe { take_back(link) })
    }

    /// Pops all queued nodes, in the order of their pushes.
    ///
    /// One swap, and a walk over the nodes that reverses their list. The batch does not borrow the
    /// queue; dropping it drops its nodes.
    #[inline]
    pub fn take_all(&mut self) -> Batch<P> {
        // SAFETY: as in `pop`.
        unsafe { self.inbox.take_all(&self.queue.stack) };
        Batch {
            fifo: self.inbox.fifo().take(),
            owns: PhantomData,
        }
    }

    /// Returns whether the queue is empty. Wait-free, one load at most.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.inbox.is_empty(&self.queue.stack)
    }

    /// Closes the queue, so that every later push fails; returns whether this call closed it.
    ///
    /// Queued items can still be popped. Wait-free: one swap, and the walk of a take.
    pub fn close(&mut self) -> bool {
        // SAFETY: as in `pop`.
        unsafe { self.inbox.close(&self.queue.stack) }
    }

    /// Returns whether the queue is closed. Wait-free, one load.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Returns whether the queue is closed and empty, so that no later pop returns a node.
    /// Wait-free, at most two loads.
    pub fn is_finished(&self) -> bool {
        self.is_closed() && self.is_empty()
    }
}

impl<P: Pointer> Drop for Consumer<'_, P> {
    fn drop(&mut self) {
        let inbox = core::mem::replace(&mut self.inbox, Inbox::new());
        self.queue.claim.inbox.with_mut(|place| {
            // SAFETY: the claim is ours still, so nothing else is here. What was there is the empty
            // inbox that the claim left.
            unsafe { *place = inbox };
        });
        // Release: pairs with the Acquire in consumer; the inbox is written, and our takes are
        // over. [MQ10]
        self.queue.claim.taken.store(false, Ordering::Release);
        // SeqCst: the other side of the fence in consumer; our next check of the queue finds the
        // pushes of threads that found the right taken. [MQ20]
        fence(Ordering::SeqCst);
    }
}

impl<P: Pointer> fmt::Debug for Consumer<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("is_empty", &self.is_empty())
            .finish_non_exhaustive()
    }
}

/// An iterator over nodes that were taken, oldest first; dropping it drops the rest.
///
/// It is invariant in `P`, because a type and its subtype may implement `Node` with different
/// fields as the link.
///
/// ```compile_fail,E0308
/// use rast_queue::mpsc::{Link, intrusive::Batch};
/// struct Task<F>(Link, Link, F);
/// type Any = Task<for<'a> fn(&'a u8)>;
/// type Static = Task<fn(&'static u8)>;
/// rast_queue::impl_node!(Any { 0 });
/// rast_queue::impl_node!(Static { 1 });
///
/// fn turn(batch: Batch<Box<Any>>) -> Batch<Box<Static>> {
///     batch
/// }
/// ```
#[must_use = "dropping a batch drops the nodes in it"]
pub struct Batch<P: Pointer> {
    fifo: Fifo,
    /// Owns pointers, and finds their nodes by `P::Node`, which a subtype may implement
    /// differently, so it is invariant.
    owns: PhantomData<Cell<P>>,
}

// SAFETY: a batch is a list of pointers of type P, which are Send.
unsafe impl<P: Pointer + Send> Send for Batch<P> {}
// SAFETY: a shared batch gives access to no node.
unsafe impl<P: Pointer> Sync for Batch<P> {}

impl<P: Pointer> UnwindSafe for Batch<P> {}
impl<P: Pointer> RefUnwindSafe for Batch<P> {}

impl<P: Pointer> Batch<P> {
    /// Returns whether no node is left.
    pub fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }
}

impl<P: Pointer> Iterator for Batch<P> {
    type Item = P;

    #[inline]
    fn next(&mut self) -> Option<P> {
        // SAFETY: the links in a batch are alive, being of nodes that were given up.
        let link = unsafe { self.fifo.pop() }?;
        // SAFETY: it was in this list alone, and is out of it now.
        Some(unsafe { take_back(link) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.fifo.len(), Some(self.fifo.len()))
    }
}

impl<P: Pointer> ExactSizeIterator for Batch<P> {}
impl<P: Pointer> FusedIterator for Batch<P> {}

impl<P: Pointer> Drop for Batch<P> {
    fn drop(&mut self) {
        drop_each(|| self.next());
    }
}

impl<P: Pointer> fmt::Debug for Batch<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("is_empty", &self.is_empty())
            .finish()
    }
}
