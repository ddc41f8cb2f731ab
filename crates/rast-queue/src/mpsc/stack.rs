//! The protocol beneath both faces: one word that producers push links on, and that the consumer
//! takes whole.
//!
//! ```text
//!   top ──► n5 ──► n4 ──► n3 ──► null        shared: newest first, only ever changed at the top
//!
//!   head ──► n1 ──► n2 (tail)                the consumer's own: what it took before, oldest first
//! ```
//!
//! | value of `top` | says | changed by |
//! | --- | --- | --- |
//! | null | nothing was pushed since the last take | a push |
//! | a link | the newest of those that stand | a push, a take, the close |
//! | [`CLOSED`] | closed, for ever; it is empty here | no thread |
//!
//! Rules:
//!
//! 1. A link belongs to its producer until the exchange that puts it, or a chain that it is in, on
//!    top; to the stack until the exchange that takes it; then to the consumer.
//! 2. No thread follows a link that is not his, so a link may come back at the same address without
//!    harm: a producer compares the top and stores it, and what it stores is true of whatever is on
//!    top when the exchange succeeds.
//! 3. Only the consumer takes and closes.
//!
//! The form is the front queue of the task scheduler (Shpilevoy, "Task scheduling"); ours can be
//! closed. A consumer never waits before it takes: a pause that lets more items come was measured,
//! and it costs the hand-over of a burst far more than it gains in throughput
//! (`docs/performance.md`).

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

    /// Puts a chain on top; returns whether the queue was empty, or `None` if the stack is closed
    /// and the chain still the caller's.
    ///
    /// Lock-free: an exchange fails only because another succeeded.
    ///
    /// # Safety
    ///
    /// 1. From `newest` on, the links lead to `oldest`; all are alive and the caller's alone.
    /// 2. On success they stay alive until they were taken.
    #[inline(always)]
    pub(super) unsafe fn push(
        &self,
        newest: NonNull<RawLink>,
        oldest: NonNull<RawLink>,
    ) -> Option<bool> {
        // Relaxed: the exchange below checks it; no thread follows it. [MQ1]
        let mut top = self.top.load(Ordering::Relaxed);
        while top != CLOSED {
            // SAFETY: by (1); the exchange has not succeeded yet.
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
        // A refusal comes after the close, so the caller sees what the closer did.
        let closed = self.is_closed();
        debug_assert!(closed, "mpsc: a stack that is closed stays so");
        None
    }

    /// Takes all queued items, newest first; null if there is none.
    ///
    /// Wait-free.
    ///
    /// # Safety
    ///
    /// The caller is the consumer. The links are its own from here on.
    #[inline]
    unsafe fn take(&self) -> *mut RawLink {
        if self.is_empty() {
            return ptr::null_mut();
        }
        // Acquire: pairs with the Release in push; the links and what they carry are seen written.
        // The stack is open, since only the consumer closes it. [MQ3]
        self.top.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Closes the stack and takes all queued items, in one exchange; `None` if it was closed.
    ///
    /// # Safety
    ///
    /// As for [`take`](Self::take).
    unsafe fn close(&self) -> Option<*mut RawLink> {
        // AcqRel: pairs with the Release in push, as take does, and with the Acquire in is_closed;
        // what the closer did before is seen by those who see the stack closed. [MQ4]
        let top = self.top.swap(CLOSED, Ordering::AcqRel);
        (top != CLOSED).then_some(top)
    }

    /// Whether it is empty.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        let top = self.peek();
        top.is_null() || top == CLOSED
    }

    #[inline]
    fn peek(&self) -> *mut RawLink {
        // Relaxed: only compared; who wants the links takes them by MQ3. [MQ5]
        self.top.load(Ordering::Relaxed)
    }

    /// Whether pushes are refused; what the closer did before is then seen.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        // Acquire: pairs with the release half in close. [MQ6]
        self.top.load(Ordering::Acquire) == CLOSED
    }
}

/// Links that one thread has, oldest first.
pub(super) struct Fifo {
    /// Null if there are none.
    head: *mut RawLink,
    /// Means something if there are some.
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

    /// Takes the oldest out.
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

    /// Puts a chain, newest first and null at its end, behind the others.
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

    /// How many links.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Takes all out.
    pub(super) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }
}

/// The consumer's side: what it took and did not yet hand out.
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
    /// 2. Links that were pushed are alive until they are handed out.
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
        // SAFETY: what was taken is alive, by the caller, and ours.
        unsafe { self.fifo.append_reversed(newest) };
    }

    /// Closes the stack; gives whether this call did.
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

    /// Whether nothing is queued, here and in `stack`.
    #[inline]
    pub(super) fn is_empty(&self, stack: &Stack) -> bool {
        self.fifo.is_empty() && stack.is_empty()
    }

    /// How many links the inbox holds.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.fifo.len()
    }

    /// What the inbox holds.
    pub(super) fn fifo(&mut self) -> &mut Fifo {
        &mut self.fifo
    }
}
