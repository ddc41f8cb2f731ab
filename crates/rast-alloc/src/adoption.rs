//! Adoption: a stack of the heaps of ended threads, for new threads.
//!
//! ```text
//!   top │ heap, count │ ─► heap ─► heap ─► null
//! ```
//!
//! The stack is a Treiber stack. A thread that needs a heap pops one, instead of searching all
//! heaps. Heaps are never unmapped, so a thread may read the link of a heap that another thread has
//! just popped. Every change of the stack increments the count. So the compare-exchange of the
//! thread that read the old link fails.
//!
//! A heap on the stack is only an offer: the thread that pops it must claim the heap's
//! [mailbox](crate::mailbox), and then *holds* the heap. So a heap that is in use may be offered
//! too. Each heap that no thread holds must be offered, except one that its idle thread has parked
//! (released for a while, see [`crate::ownership`]). Rules:
//!
//! 1. A heap is on the stack at most once: `is_offered` is set before the push, and cleared after
//!    the pop.
//! 2. A thread releases a heap, and then offers it. A thread that pops an offer clears the flag,
//!    and then tries to claim the heap. Both threads change the flag by a swap. If the offering
//!    thread's swap is first, the popping thread sees that the heap was released. If the popping
//!    thread's swap is first, the offering thread finds the flag cleared and pushes the heap.
//! 3. A parked heap is not offered. The thread that ends the parking records the end, and then
//!    offers the heap. If the thread that pops the offer finds the heap held by another thread, it
//!    drops the offer. By the fences in `take` and in the mailbox's `release`, that other thread
//!    sees that the parking has ended. It offers the heap when it releases the heap.

use core::ptr;

use crate::primitive::sync::atomic::{AtomicBool, AtomicPtr, Ordering, fence};
use crate::primitive::{AtomicWideTaggedPtr, WideTaggedPtr, constructor};

/// A stack of values that live as long as it does.
pub struct Stack<T> {
    top: AtomicWideTaggedPtr<T>,
}

/// The link and the flag of a value in a [`Stack`].
#[derive(Debug)]
pub struct Place<T> {
    next: AtomicPtr<T>,
    is_offered: AtomicBool,
}

/// A value that may be offered.
pub trait Offered: Sized {
    /// Returns its link and flag.
    fn place(&self) -> &Place<Self>;
}

impl<T> Place<T> {
    constructor! {
        /// Makes the place of a value that is in no stack.
        #[must_use]
        pub fn new() -> Self {
            Self {
                next: AtomicPtr::new(ptr::null_mut()),
                is_offered: AtomicBool::new(false),
            }
        }
    }
}

impl<T: Offered> Stack<T> {
    constructor! {
        /// Makes an empty stack.
        #[must_use]
        pub fn new() -> Self {
            Self {
                top: AtomicWideTaggedPtr::new(WideTaggedPtr::null()),
            }
        }
    }

    /// Pushes a value, unless it is on the stack; lock-free.
    ///
    /// # Safety
    ///
    /// 1. `value` lives as long as the stack.
    pub unsafe fn offer(&self, value: &T) {
        let place = value.place();
        // Release: pairs with the Acquire in `take`; what the caller did before, including its
        // release of the value, happens-before what the thread does that clears the flag later.
        // [AO1]
        if place.is_offered.swap(true, Ordering::Release) {
            return;
        }
        // Relaxed: only compared; it is not dereferenced here. [AO2]
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the compare-exchange below. [AO3]
            place.next.store(top.ptr(), Ordering::Relaxed);
            let offered =
                WideTaggedPtr::new(ptr::from_ref(value).cast_mut(), top.count().wrapping_add(1));
            // Release: pairs with the Acquire in `take`; publishes the link and the value. [AO4]
            match self
                .top
                .compare_exchange_weak(top, offered, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Pops the value that was pushed last; lock-free. The caller must check whether it may be
    /// used.
    pub fn take(&self) -> Option<&T> {
        loop {
            // Acquire: pairs with the Release in `offer`; later compare-exchanges continue its
            // release sequence. [AO5]
            let top = self.top.load(Ordering::Acquire);
            // SAFETY: values live as long as the stack, and are initialised: see above.
            let value = unsafe { top.ptr().as_ref() }?;
            // Relaxed: if the value was popped meanwhile this may be a later link, and then the
            // compare-exchange fails because of the count. [AO6]
            let next = value.place().next.load(Ordering::Relaxed);
            let rest = WideTaggedPtr::new(next, top.count().wrapping_add(1));
            // Relaxed: nothing was written, and what is read was acquired above. [AO7]
            let taken =
                self.top
                    .compare_exchange_weak(top, rest, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                // Relaxed: the fence below acquires what an earlier offer released. [AO8]
                value.place().is_offered.swap(false, Ordering::Relaxed);
                // SeqCst: pairs with the fence in `Mailbox::release`: either the caller sees that
                // the value was released, or the thread that released it sees what this one did, or
                // acquired, before. [AO9]
                fence(Ordering::SeqCst);
                return Some(value);
            }
        }
    }
}
