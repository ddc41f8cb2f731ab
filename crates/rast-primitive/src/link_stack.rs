//! A Treiber stack of linked nodes: any thread pushes, and all nodes are taken at once.
//!
//! ```text
//!   any thread    newest ─► node ─► oldest ┄┄► ┌─────┐
//!                 one exchange per chain       │ top │ ─► node ─► node ─► null      taken by one swap
//!                                              └─────┘
//! ```
//!
//! | value of `top` | meaning | changed by |
//! | --- | --- | --- |
//! | null | empty | a push, a close |
//! | a node | the newest node | a push, a take, a close |
//! | 1 | closed for ever, and empty; only with `CLOSES` | no thread |
//!
//! Rules:
//!
//! 1. A node belongs to the pushing thread until the compare-exchange that pushes its chain, then
//!    to the stack until the swap that takes it, then to the taking thread.
//! 2. No thread reads a node that belongs to another thread or to the stack, so a reused address
//!    (ABA) does no harm. A push loads `top` and stores this value as the link of its oldest node.
//!    Its compare-exchange succeeds only if `top` still has this value. So the link leads to the
//!    node that was the newest one just before the push. This holds even if the node whose address
//!    was loaded has been freed, and a new node has the same address.
//! 3. A link is an address ([`Link`]) and not a pointer. A push may have read a pointer to a node
//!    that was then freed, and a new node may have been allocated at its address (rule 2). This
//!    pointer must not be used for the new node. So a push exposes the provenance of its newest
//!    node before the compare-exchange, and [`Link::node`] makes a pointer from the address. Each
//!    push continues the release sequence of the earlier pushes. So the exposure of each node
//!    happens before the take. Neither the exposure nor the conversion to a pointer executes an
//!    instruction.
//!
//! Source: R. K. Treiber, "Systems Programming: Coping with Parallelism" (1986). Changes: all nodes
//! are taken at once, so no count against ABA is needed; and a stack can be closed.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use crate::constructor;
use crate::sync::atomic::{AtomicPtr, Ordering};

/// A node of a [`LinkStack`]: a value with room for a link.
///
/// # Safety
///
/// 1. [`set_next`](Self::set_next) writes nothing but the node, and does not unwind.
pub unsafe trait Linked {
    /// Writes the link of a node.
    ///
    /// # Safety
    ///
    /// 1. The node is alive and belongs to the caller alone.
    unsafe fn set_next(node: NonNull<Self>, next: Link<Self>);
}

/// The link of a node: the address of the next node, or 0.
///
/// If a node is freed and another one is allocated at its address, a link to the first leads to the
/// second.
///
/// # Examples
///
/// ```
/// use rast_primitive::Link;
///
/// let mut number = 7;
/// let link = Link::to(&raw mut number);
/// // SAFETY: the number is alive, and nothing else uses it.
/// assert_eq!(unsafe { *link.node() }, 7);
/// assert!(Link::<u32>::NULL.node().is_null());
/// ```
#[repr(transparent)]
pub struct Link<T: ?Sized> {
    address: usize,
    node: PhantomData<*mut T>,
}

impl<T> Link<T> {
    /// The link of the last node.
    pub const NULL: Self = Self::from_address(0);

    /// The link to a node, or the null link. Exposes the provenance of the pointer.
    #[inline(always)]
    #[must_use]
    pub fn to(node: *mut T) -> Self {
        Self::from_address(node.expose_provenance())
    }

    /// The link to an address. A pointer to it must be exposed before the link is followed.
    #[inline(always)]
    #[must_use]
    pub const fn from_address(address: usize) -> Self {
        Self {
            address,
            node: PhantomData,
        }
    }

    /// Returns the address; 0 if there is no node.
    #[inline(always)]
    #[must_use]
    pub const fn address(self) -> usize {
        self.address
    }

    /// Follows the link: a pointer to the node at its address, or null. A pointer to the node must
    /// have been exposed, by [`to`](Self::to) or by a push.
    #[inline(always)]
    #[must_use]
    pub fn node(self) -> *mut T {
        ptr::with_exposed_provenance_mut(self.address)
    }
}

impl<T: ?Sized> Clone for Link<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Link<T> {}

impl<T: ?Sized> fmt::Debug for Link<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&self.address).finish()
    }
}

/// A stack of linked nodes, which is taken as a whole. With `CLOSES` it can be closed, after which
/// it accepts no node.
///
/// It does not own its nodes: nodes that are left when it is dropped are leaked. Any thread may
/// call any function, unless its documentation says otherwise. Nothing is allocated.
///
/// # Examples
///
/// ```
/// use rast_primitive::{Link, LinkStack, Linked};
/// use std::ptr::NonNull;
///
/// struct Node {
///     next: Link<Node>,
///     value: u32,
/// }
///
/// // SAFETY: 1. Only the link is written.
/// unsafe impl Linked for Node {
///     unsafe fn set_next(mut node: NonNull<Self>, next: Link<Self>) {
///         // SAFETY: 1 of `set_next`: the node is alive and belongs to the caller.
///         unsafe { node.as_mut() }.next = next;
///     }
/// }
///
/// let stack = LinkStack::<Node>::new();
/// for value in 1..=2 {
///     let node = NonNull::from(Box::leak(Box::new(Node { next: Link::NULL, value })));
///     // SAFETY: 1, 2. It is a chain of one node, which lives until it is freed below.
///     let was_empty = unsafe { stack.push(node, node) };
///     assert_eq!(was_empty, value == 1);
/// }
/// let mut values = Vec::new();
/// let mut at = stack.take();
/// while !at.is_null() {
///     // SAFETY: the nodes that were taken belong to this thread, and are boxes.
///     let node = unsafe { Box::from_raw(at) };
///     values.push(node.value);
///     at = node.next.node();
/// }
/// assert_eq!(values, [2, 1]);
/// assert!(stack.is_empty());
/// ```
pub struct LinkStack<T, const CLOSES: bool = false> {
    top: AtomicPtr<T>,
}

impl<T, const CLOSES: bool> LinkStack<T, CLOSES> {
    /// The top of a closed stack; no node has an odd address.
    const CLOSED: *mut T = {
        assert!(!CLOSES || align_of::<T>() > 1);
        ptr::without_provenance_mut(1)
    };

    constructor! {
        /// Makes an empty stack.
        #[must_use]
        pub fn new() -> Self {
            Self {
                top: AtomicPtr::new(ptr::null_mut()),
            }
        }
    }

    /// Returns `true` if there is no node. A hint, unless other synchronisation orders it;
    /// wait-free.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Relaxed: only compared; nodes are acquired by a take or a close. [LS1]
        let top = self.top.load(Ordering::Relaxed);
        top.is_null() || CLOSES && top == Self::CLOSED
    }

    /// Pushes a chain; returns whether the stack was empty, or `None` if it is closed.
    ///
    /// # Safety
    ///
    /// As for [`push`](LinkStack::push).
    #[inline(always)]
    unsafe fn link(&self, newest: NonNull<T>, oldest: NonNull<T>) -> Option<bool>
    where
        T: Linked,
    {
        // By rule 3, before the node can be reached.
        let _ = newest.as_ptr().expose_provenance();
        // Relaxed: the compare-exchange below checks it; no thread follows it. [LS2]
        let mut top = self.top.load(Ordering::Relaxed);
        while !CLOSES || top != Self::CLOSED {
            // SAFETY: by 1; the compare-exchange has not succeeded yet.
            unsafe { T::set_next(oldest, Link::from_address(top.addr())) };
            // Release: pairs with the Acquire in take_nodes and close; publishes the nodes and what
            // was done to them. Earlier pushes stay published, because this continues their release
            // sequences. [LS3]
            match self.top.compare_exchange_weak(
                top,
                newest.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(top.is_null()),
                Err(now) => top = now,
            }
        }
        None
    }

    /// Takes all nodes of an open stack.
    #[inline(always)]
    fn take_nodes(&self) -> *mut T {
        // Acquire: pairs with the Release in link; the nodes are visible. [LS4]
        self.top.swap(ptr::null_mut(), Ordering::Acquire)
    }
}

impl<T: Linked> LinkStack<T> {
    /// Pushes a chain of nodes; returns whether the stack was empty.
    ///
    /// Lock-free: a compare-exchange fails only because another thread's succeeded.
    ///
    /// # Safety
    ///
    /// 1. From `newest` on, the links lead to `oldest`, whose link need not be written. All nodes
    ///    are alive and belong to the caller.
    /// 2. They stay alive until they are taken.
    #[inline]
    pub unsafe fn push(&self, newest: NonNull<T>, oldest: NonNull<T>) -> bool {
        // SAFETY: by the caller.
        let was_empty = unsafe { self.link(newest, oldest) };
        was_empty == Some(true)
    }

    /// Takes all nodes, newest first; null if there is none. They belong to the caller then.
    /// Wait-free.
    #[inline]
    #[must_use]
    pub fn take(&self) -> *mut T {
        self.take_nodes()
    }
}

impl<T: Linked> LinkStack<T, true> {
    /// Pushes a chain of nodes. Returns whether the stack was empty, or `None` if the stack is
    /// closed; the nodes then still belong to the caller, and the link of `oldest` means nothing.
    /// The close happens-before the return of `None`.
    ///
    /// Lock-free: a compare-exchange fails only because another thread's succeeded.
    ///
    /// # Safety
    ///
    /// As for [`push`](LinkStack::push).
    #[inline(always)]
    pub unsafe fn try_push(&self, newest: NonNull<T>, oldest: NonNull<T>) -> Option<bool> {
        // SAFETY: by the caller.
        let pushed = unsafe { self.link(newest, oldest) };
        if pushed.is_none() {
            let is_closed = self.is_closed();
            debug_assert!(is_closed, "a stack that is closed stays closed");
        }
        pushed
    }

    /// Takes all nodes, newest first; null if there is none. They belong to the caller then.
    /// Wait-free.
    ///
    /// # Safety
    ///
    /// 1. No other thread closes the stack at the same time.
    #[inline]
    #[must_use]
    pub unsafe fn take(&self) -> *mut T {
        if self.is_empty() {
            return ptr::null_mut();
        }
        // It is not closed: by 1 it stays open after the check.
        self.take_nodes()
    }

    /// Closes the stack and takes all nodes, by one swap; `None` if it was closed. Wait-free.
    pub fn close(&self) -> Option<*mut T> {
        // AcqRel: pairs with the Release in link, as take_nodes does, and with the Acquire in
        // is_closed; the close happens-before a thread finds the stack closed. [LS5]
        let top = self.top.swap(Self::CLOSED, Ordering::AcqRel);
        (top != Self::CLOSED).then_some(top)
    }

    /// Returns `true` if the stack is closed; the close happens-before the return. Wait-free.
    #[inline]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // Acquire: pairs with the release half in close. [LS6]
        self.top.load(Ordering::Acquire) == Self::CLOSED
    }
}

impl<T, const CLOSES: bool> Default for LinkStack<T, CLOSES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const CLOSES: bool> fmt::Debug for LinkStack<T, CLOSES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkStack")
            .field("is_empty", &self.is_empty())
            .finish_non_exhaustive()
    }
}
