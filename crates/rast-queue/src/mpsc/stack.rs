//! The linked nodes of the two unbounded queues, [`mpsc::queue`](crate::mpsc::queue) and
//! [`mpsc::intrusive`](crate::mpsc::intrusive): a [`LinkStack`] that producers push onto, and the
//! list that the consumer has taken from it.
//!
//! ```text
//!   top ──► n5 ──► n4 ──► n3 ──► null        shared: newest first, only ever changed at the top
//!
//!   head ──► n1 ──► n2 (tail)                the consumer's own: what it took before, oldest first
//! ```
//!
//! Rules, in addition to those of [`LinkStack`]:
//!
//! 1. A link that was taken belongs to the consumer.
//! 2. Only the consumer takes nodes, and only the consumer closes the queue.
//!
//! The design is the front queue of the scheduler in Shpilevoy's "Task scheduling", to which we
//! added the close. A consumer never pauses before it takes. Such a pause would let more items
//! arrive. In measurements the delay of a burst grew by a far greater factor than the throughput
//! (`docs/performance.md`).

use core::ptr::{self, NonNull};

use crate::primitive::cell::UnsafeCell;
use crate::primitive::{Link, LinkStack, Linked, constructor};

/// The place of a node in a stack.
#[repr(C)]
pub(super) struct RawLink {
    next: UnsafeCell<Link<RawLink>>,
}

impl RawLink {
    constructor! {
        pub(super) fn new() -> Self {
            Self {
                next: UnsafeCell::new(Link::NULL),
            }
        }
    }
}

/// The link after `link`.
///
/// # Safety
///
/// `link` is alive and the caller's alone.
#[inline(always)]
pub(super) unsafe fn next(link: NonNull<RawLink>) -> *mut RawLink {
    // SAFETY: by the caller.
    let link = unsafe { link.as_ref() };
    let next = link.next.with(|next| {
        // SAFETY: the link is the caller's alone.
        unsafe { *next }
    });
    next.node()
}

/// Makes `beneath` the link after `link`.
///
/// # Safety
///
/// `link` is alive and the caller's alone.
#[inline(always)]
pub(super) unsafe fn set_next(link: NonNull<RawLink>, beneath: *mut RawLink) {
    // SAFETY: by the caller.
    unsafe { set_link(link, Link::to(beneath)) };
}

/// As [`set_next`], for a typed link.
///
/// # Safety
///
/// `link` is alive and the caller's alone.
#[inline(always)]
unsafe fn set_link(link: NonNull<RawLink>, beneath: Link<RawLink>) {
    // SAFETY: by the caller.
    let link = unsafe { link.as_ref() };
    link.next.with_mut(|next| {
        // SAFETY: the link is the caller's alone.
        unsafe { *next = beneath }
    });
}

// SAFETY: 1. It writes the link, and calls no user code.
unsafe impl Linked for RawLink {
    #[inline(always)]
    unsafe fn set_next(node: NonNull<Self>, next: Link<Self>) {
        // SAFETY: by the caller the link is alive and its own.
        unsafe { set_link(node, next) };
    }
}

pub(super) type Stack = LinkStack<RawLink, true>;

/// A list of links that belong to one thread, oldest first.
pub(super) struct Fifo {
    /// Null if there are none.
    head: *mut RawLink,
    /// Valid if `head` is not null.
    tail: *mut RawLink,
    len: usize,
}

impl Fifo {
    pub(super) const fn new() -> Self {
        Self {
            head: ptr::null_mut(),
            tail: ptr::null_mut(),
            len: 0,
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// Removes the oldest link.
    ///
    /// # Safety
    ///
    /// The links are alive.
    #[inline(always)]
    pub(super) unsafe fn pop(&mut self) -> Option<NonNull<RawLink>> {
        let link = NonNull::new(self.head)?;
        // SAFETY: alive by the caller; it is this list's alone.
        self.head = unsafe { next(link) };
        self.len -= 1;
        Some(link)
    }

    /// Appends a chain, which is newest first and ends in null, in reverse order.
    ///
    /// # Safety
    ///
    /// The links of both are alive, and the caller's alone.
    pub(super) unsafe fn append_reversed(&mut self, newest: *mut RawLink) {
        let tail = newest;
        let mut newest = newest;
        let mut head = ptr::null_mut();
        while let Some(link) = NonNull::new(newest) {
            // SAFETY: by the caller.
            newest = unsafe { next(link) };
            // SAFETY: by the caller.
            unsafe { set_next(link, head) };
            head = link.as_ptr();
            self.len += 1;
        }
        if head.is_null() {
            return;
        }
        if let (false, Some(last)) = (self.is_empty(), NonNull::new(self.tail)) {
            // SAFETY: by the caller; a list that is not empty has a tail.
            unsafe { set_next(last, head) };
        } else {
            self.head = head;
        }
        self.tail = tail;
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }
}

/// The consumer's side: links that it has taken from the stack and not popped yet.
pub(super) struct Inbox {
    fifo: Fifo,
}

impl Inbox {
    pub(super) const fn new() -> Self {
        Self { fifo: Fifo::new() }
    }

    /// The oldest link.
    ///
    /// # Safety
    ///
    /// 1. The caller is the consumer of `stack`, and this is its one inbox.
    /// 2. Links that were pushed are alive until they are popped.
    #[inline(always)]
    pub(super) unsafe fn pop(&mut self, stack: &Stack) -> Option<NonNull<RawLink>> {
        if self.fifo.is_empty() {
            // SAFETY: as for this function.
            unsafe { self.refill_slow(stack) };
        }
        // SAFETY: by (2).
        unsafe { self.fifo.pop() }
    }

    #[cold]
    #[inline(never)]
    unsafe fn refill_slow(&mut self, stack: &Stack) {
        // SAFETY: as for this function.
        unsafe { self.take_all(stack) };
    }

    /// Takes all queued items and appends them to the inbox.
    ///
    /// # Safety
    ///
    /// As for [`pop`](Self::pop).
    pub(super) unsafe fn take_all(&mut self, stack: &Stack) {
        // SAFETY: 1. The caller is the consumer; no other thread closes the stack.
        let newest = unsafe { stack.take() };
        // SAFETY: the links are alive, by the caller, and belong to the caller.
        unsafe { self.fifo.append_reversed(newest) };
    }

    /// Closes the stack; returns whether this call closed it.
    ///
    /// # Safety
    ///
    /// As for [`pop`](Self::pop).
    pub(super) unsafe fn close(&mut self, stack: &Stack) -> bool {
        let Some(newest) = stack.close() else {
            return false;
        };
        // SAFETY: as in `take_all`.
        unsafe { self.fifo.append_reversed(newest) };
        true
    }

    /// Returns whether the inbox and `stack` are both empty.
    #[inline]
    pub(super) fn is_empty(&self, stack: &Stack) -> bool {
        self.fifo.is_empty() && stack.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.fifo.len()
    }

    pub(super) fn fifo(&mut self) -> &mut Fifo {
        &mut self.fifo
    }
}
