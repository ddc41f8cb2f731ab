//! Adoption: a stack of the heaps that ended threads left, for the threads that begin.
//!
//! ```text
//!   top │ heap, count │ ─► heap ─► heap ─► null
//! ```
//!
//! A Treiber stack, so that the search for a heap does not pass those that are held. Heaps are
//! never unmapped, so a link may be read of a heap that another thread just took; the count, which
//! every change advances, refuses the exchange then.
//!
//! A heap on the stack is an offer and no more: the thread that takes it has to claim its mailbox.
//! So a heap that a thread holds may be offered. But each heap that no thread holds must be
//! offered:
//!
//! 1. A heap is on the stack once at most: `is_offered` is set before it is put there, and cleared
//!    after it was taken.
//! 2. A thread that gives a heap up first releases it, then offers it; a thread that takes an offer
//!    first clears the flag, then tries to claim the heap. Both change the flag by a swap. If the
//!    offer's swap is the first of the two, the taker sees that the heap was released; if it is the
//!    second, it finds the flag cleared and puts the heap on the stack.
//! 3. A heap that is parked for its thread is not offered. A thread that ends the parking says so,
//!    then offers the heap. A taker that finds such a heap held by another thread forgets the
//!    offer; that other thread sees, by the fences, that the parking has ended, and offers the heap
//!    when it gives it up.

use core::ptr;

use crate::constructor::constructor;
use crate::primitive::sync::atomic::{AtomicBool, AtomicPtr, Ordering, fence};
use crate::primitive::{AtomicWideTaggedPtr, WideTaggedPtr};

/// A stack of values that live as long as it does.
pub struct Stack<T> {
    top: AtomicWideTaggedPtr<T>,
}

/// The place of a value in a [`Stack`].
#[derive(Debug)]
pub struct Place<T> {
    next: AtomicPtr<T>,
    is_offered: AtomicBool,
}

/// A value that may be offered.
pub trait Offered: Sized {
    /// Its place.
    fn place(&self) -> &Place<Self>;
}

impl<T> Place<T> {
    constructor! {
        /// A place in no stack.
        pub fn new() {
            Self {
                next: AtomicPtr::new(ptr::null_mut()),
                is_offered: AtomicBool::new(false),
            }
        }
    }
}

impl<T: Offered> Stack<T> {
    constructor! {
        /// An empty stack.
        pub fn new() {
            Self {
                top: AtomicWideTaggedPtr::new(WideTaggedPtr::null()),
            }
        }
    }

    /// Puts a value on, unless it is there; lock-free.
    ///
    /// # Safety
    ///
    /// 1. `value` lives as long as the stack.
    pub unsafe fn offer(&self, value: &T) {
        let place = value.place();
        // Release: pairs with the Acquire in `take`; what the caller did before, its release of the
        // value among that, is seen by the thread that clears the flag after. [AO1]
        if place.is_offered.swap(true, Ordering::Release) {
            return;
        }
        // Relaxed: only compared; what it points to is not read here. [AO2]
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange below. [AO3]
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

    /// Takes the value that was put on last; lock-free. The caller has to find out whether it may
    /// be used.
    pub fn take(&self) -> Option<&T> {
        loop {
            // Acquire: pairs with the Release in `offer`; later exchanges continue its release.
            // [AO5]
            let top = self.top.load(Ordering::Acquire);
            // SAFETY: values live as long as the stack, and are whole: see above.
            let value = unsafe { top.ptr().as_ref() }?;
            // Relaxed: if the value was taken meanwhile this may be a later link, and the count
            // refuses the exchange. [AO6]
            let next = value.place().next.load(Ordering::Relaxed);
            let rest = WideTaggedPtr::new(next, top.count().wrapping_add(1));
            // Relaxed: nothing was written, and what is read was acquired above. [AO7]
            let taken =
                self.top
                    .compare_exchange_weak(top, rest, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                // Relaxed: the fence below acquires what an offer released that came first. [AO8]
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
