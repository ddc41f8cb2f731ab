//! The protocol of both types, a Treiber stack: producers push links onto one word, and the
//! consumer takes the whole stack.
//!
//! ```text
//!   top ──► n5 ──► n4 ──► n3 ──► null        shared: newest first, only ever changed at the top
//!
//!   head ──► n1 ──► n2 (tail)                the consumer's own: what it took before, oldest first
//! ```
//!
//! | value of `top` | meaning | changed by |
//! | --- | --- | --- |
//! | null | nothing was pushed since the last take | a push, the close |
//! | a link | the newest link in the stack | a push, a take, the close |
//! | [`CLOSED`] | closed for ever, and empty | never |
//!
//! Rules:
//!
//! 1. A link belongs to its producer until the compare-exchange that pushes it or its chain, then
//!    to the stack until the swap that takes it, then to the consumer.
//! 2. No thread follows a link that belongs to another thread, so a reused address (ABA) does no
//!    harm. A producer stores the value of `top` in its link and then compares `top` with it, so
//!    the link is correct for any link at that address.
//! 3. Only the consumer takes and closes.
//!
//! The design is the front queue of the task scheduler (Shpilevoy, "Task scheduling"), to which we
//! added the close. A consumer never pauses before it takes. In measurements a pause that lets more
//! items arrive delayed a burst far more than it improved the throughput (`docs/performance.md`).

use core::ptr::{self, NonNull};

use crate::primitive::cell::UnsafeCell;
use crate::primitive::sync::atomic::{AtomicPtr, Ordering};

/// The place of a node in a stack.
#[repr(C)]
pub(super) struct RawLink {
    next: UnsafeCell<*mut RawLink>,
}

impl RawLink {
    #[cfg(not(rast_loom))]
    pub(super) const fn new() -> Self {
        Self {
            next: UnsafeCell::new(ptr::null_mut()),
        }
    }

    #[cfg(rast_loom)]
    pub(super) fn new() -> Self {
        Self {
            next: UnsafeCell::new(ptr::null_mut()),
        }
    }
}

/// The link beneath `link`.
///
/// # Safety
///
/// `link` is alive and the caller's alone.
#[inline(always)]
pub(super) unsafe fn next(link: NonNull<RawLink>) -> *mut RawLink {
    // SAFETY: by the caller.
    let link = unsafe { link.as_ref() };
    link.next.with(|next| {
        // SAFETY: the link is the caller's alone.
        unsafe { *next }
    })
}

/// Lays `link` upon `beneath`.
///
/// # Safety
///
/// `link` is alive and the caller's alone.
#[inline(always)]
pub(super) unsafe fn set_next(link: NonNull<RawLink>, beneath: *mut RawLink) {
    // SAFETY: by the caller.
    let link = unsafe { link.as_ref() };
    link.next.with_mut(|next| {
        // SAFETY: the link is the caller's alone.
        unsafe { *next = beneath }
    });
}

/// The top of a closed stack; no link has an odd address.
const CLOSED: *mut RawLink = ptr::without_provenance_mut(1);
const _: () = assert!(align_of::<RawLink>() > 1);

/// The word.
pub(super) struct Stack {
    top: AtomicPtr<RawLink>,
}

impl Stack {
    #[cfg(not(rast_loom))]
    pub(super) const fn new() -> Self {
        Self {
            top: AtomicPtr::new(ptr::null_mut()),
        }
    }

    #[cfg(rast_loom)]
    pub(super) fn new() -> Self {
        Self {
            top: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Pushes a chain. Returns whether the stack was empty, or `None` if the stack is closed; the
    /// chain then still belongs to the caller.
    ///
    /// Lock-free: a compare-exchange fails only because another thread's succeeded.
    ///
    /// # Safety
    ///
    /// 1. From `newest` on, the links lead to `oldest`; all are alive and belong to the caller.
    /// 2. On success they stay alive until they were taken.
    #[inline(always)]
    pub(super) unsafe fn push(
        &self,
        newest: NonNull<RawLink>,
        oldest: NonNull<RawLink>,
    ) -> Option<bool> {
        // Relaxed: the compare-exchange below checks it; no thread follows it. [MQ1]
        let mut top = self.top.load(Ordering::Relaxed);
        while top != CLOSED {
            // SAFETY: by (1); the compare-exchange has not succeeded yet.
            unsafe { set_next(oldest, top) };
            // Release: pairs with the Acquire in take and close; publishes the chain. Earlier
            // pushes stay published, because this continues their release sequences. [MQ2]
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
        // The close happens before the failure is returned.
        let closed = self.is_closed();
        debug_assert!(closed, "mpsc: a stack that is closed stays so");
        None
    }

    /// Takes all links, newest first; null if there is none.
    ///
    /// Wait-free.
    ///
    /// # Safety
    ///
    /// The caller is the consumer. The links then belong to it.
    #[inline]
    unsafe fn take(&self) -> *mut RawLink {
        if self.is_empty() {
            return ptr::null_mut();
        }
        // Acquire: pairs with the Release in push; the links and their items are visible. The stack
        // is open, since only the consumer closes it. [MQ3]
        self.top.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Closes the stack and takes all links, by one swap; `None` if it was closed.
    ///
    /// # Safety
    ///
    /// As for [`take`](Self::take).
    unsafe fn close(&self) -> Option<*mut RawLink> {
        // AcqRel: pairs with the Release in push, as take does, and with the Acquire in is_closed;
        // the close happens before a thread finds the stack closed. [MQ4]
        let top = self.top.swap(CLOSED, Ordering::AcqRel);
        (top != CLOSED).then_some(top)
    }

    /// Returns whether the stack is empty.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        let top = self.peek();
        top.is_null() || top == CLOSED
    }

    #[inline]
    fn peek(&self) -> *mut RawLink {
        // Relaxed: only compared; the consumer gets the links by MQ3. [MQ5]
        self.top.load(Ordering::Relaxed)
    }

    /// Returns whether the stack is closed; the close then happens before the return.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        // Acquire: pairs with the release half in close. [MQ6]
        self.top.load(Ordering::Acquire) == CLOSED
    }
}

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

    /// Returns the number of links.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Takes all out.
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
            // SAFETY: as ours.
            unsafe { self.refill_slow(stack) };
        }
        // SAFETY: by (2).
        unsafe { self.fifo.pop() }
    }

    #[cold]
    #[inline(never)]
    unsafe fn refill_slow(&mut self, stack: &Stack) {
        // SAFETY: as ours.
        unsafe { self.take_all(stack) };
    }

    /// Takes all queued items to the end of the inbox.
    ///
    /// # Safety
    ///
    /// As for [`pop`](Self::pop).
    pub(super) unsafe fn take_all(&mut self, stack: &Stack) {
        // SAFETY: the caller is the consumer.
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
        // SAFETY: the caller is the consumer.
        let Some(newest) = (unsafe { stack.close() }) else {
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

    /// Returns the number of links in the inbox.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.fifo.len()
    }

    /// What the inbox holds.
    pub(super) fn fifo(&mut self) -> &mut Fifo {
        &mut self.fifo
    }
}
